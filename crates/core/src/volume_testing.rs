//! Builders for tests of volumes: everything is in the namespace `default`, on nodes labelled with `zone`.

use crate::cycle::{Explanation, NodeAnswer, explain};
use crate::ledger::Ledger;
use crate::model::{
    Attachable, BindingMode, ClaimKey, ClaimRef, ClaimSelector, CsiNode, Labels, Node, NodeTest, NodeTestOperator,
    PersistentVolume, PersistentVolumeClaim, Pod, PodVolume, PodVolumes, Quantity, StorageClass, Str, VolumeAffinity,
    VolumeSource,
};
use crate::profile::CompiledProfile;
use crate::testing::{node, pod, shape};
use std::sync::Arc;

pub(crate) const GIB: i64 = 1 << 30;

pub(crate) fn node_in(name: &str, zone: &str) -> Node {
    let labels = [("kubernetes.io/hostname", name), ("zone", zone)].into_iter().collect();
    Node { labels, ..node(name, 4_000, 8 * GIB, 100) }
}

/// An available ReadWriteOnce volume of so many GiB, usable everywhere.
pub(crate) fn volume(name: &str, class: &str, gib: i64) -> PersistentVolume {
    PersistentVolume {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        resource_version: "1".into(),
        labels: Labels::none(),
        class: class.into(),
        capacity: Quantity::from_units(gib * GIB),
        access_modes: vec!["ReadWriteOnce".into()],
        volume_mode: "Filesystem".into(),
        attributes_class: "".into(),
        claim: None,
        available: true,
        deleting: false,
        affinity: None,
        source: VolumeSource::Other,
    }
}

pub(crate) fn csi(name: &str, driver: &str) -> PersistentVolume {
    let attachable = Attachable { driver: driver.into(), handle: format!("handle-{name}").into() };
    PersistentVolume { source: VolumeSource::Csi(attachable), ..volume(name, "", 1) }
}

pub(crate) fn only_in(zone: &str) -> VolumeAffinity {
    let test = NodeTest { key: "zone".into(), operator: NodeTestOperator::In, values: vec![zone.into()] };
    VolumeAffinity { terms: vec![vec![test]] }
}

pub(crate) fn key(name: &str) -> ClaimKey {
    ClaimKey { namespace: "default".into(), name: name.into() }
}

pub(crate) fn reference(name: &str) -> ClaimRef {
    ClaimRef { key: key(name), uid: format!("uid-{name}").into() }
}

/// An unbound ReadWriteOnce claim for so many GiB.
pub(crate) fn claim(name: &str, class: &str, gib: i64) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        key: key(name),
        uid: format!("uid-{name}").into(),
        resource_version: "1".into(),
        controller: None,
        class: class.into(),
        volume: None,
        bind_completed: false,
        selected_node: None,
        access_modes: vec!["ReadWriteOnce".into()],
        request: Some(Quantity::from_units(gib * GIB)),
        volume_mode: "Filesystem".into(),
        selector: ClaimSelector::Any,
        attributes_class: "".into(),
        lost: false,
        deleting: false,
    }
}

pub(crate) fn bound(name: &str, volume: &str) -> PersistentVolumeClaim {
    PersistentVolumeClaim { volume: Some(volume.into()), bind_completed: true, ..claim(name, "", 1) }
}

/// A class whose claims wait for their first consumer.
pub(crate) fn waiting_class(name: &str, provisioner: &str) -> StorageClass {
    StorageClass {
        name: name.into(),
        provisioner: provisioner.into(),
        binding_mode: Some(BindingMode::WaitForFirstConsumer),
        allowed_topologies: None,
    }
}

pub(crate) fn csi_node(name: &str, driver: &str, limit: Option<i32>) -> CsiNode {
    CsiNode { name: name.into(), drivers: vec![(driver.into(), limit)], migrated_plugins: Vec::new() }
}

pub(crate) fn mounting(name: &str, volumes: Vec<PodVolume>) -> Pod {
    Pod { volumes: Some(Arc::new(PodVolumes::from(volumes))), ..pod(name, shape()) }
}

pub(crate) fn named(name: &str) -> PodVolume {
    PodVolume::Claim { claim: name.into() }
}

pub(crate) fn using(name: &str, claims: &[&str]) -> Pod {
    mounting(name, claims.iter().map(|claim| named(claim)).collect())
}

pub(crate) fn on(node: &str, pod: Pod) -> Pod {
    Pod { node_name: Some(node.into()), ..pod }
}

/// The Default preset's answer for `pod` on each node: `a: fits, b: VolumeZone: reason`.
pub(crate) fn answers(ledger: &Ledger, pod: &Pod) -> String {
    answers_by(&CompiledProfile::default_preset("test"), ledger, pod)
}

/// As [`answers`], by `profile`.
pub(crate) fn answers_by(profile: &CompiledProfile, ledger: &Ledger, pod: &Pod) -> String {
    let answer = |(name, answer): &(Str, NodeAnswer)| match answer {
        NodeAnswer::Fits { .. } => format!("{name}: fits"),
        NodeAnswer::Refused { plugin, reasons, .. } => format!("{name}: {}: {}", plugin.name(), reasons.join("; ")),
    };
    match explain(profile, ledger, &Arc::new(pod.clone())) {
        Explanation::Judged(judgement) => judgement.nodes.iter().map(answer).collect::<Vec<_>>().join(", "),
        Explanation::Failed(text) => format!("failed: {text}"),
        other => format!("{other:?}"),
    }
}
