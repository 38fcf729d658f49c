//! The storage controllers' part: claims are bound at once, and volumes are provisioned at once.

use berth_core::ledger::Ledger;
use berth_core::model::{
    Attachable, BindingWrite, ClaimRef, Labels, NodeTest, NodeTestOperator, PersistentVolume, PersistentVolumeClaim,
    ProvisionWrite, Quantity, Str, VolumeAffinity, VolumeSource, VolumeWrites,
};

/// Does what a scheduler's PreBind and the storage controllers would do for a pod that is placed on `node`.
pub(super) fn settle(ledger: &mut Ledger, writes: &VolumeWrites, node: &Str) {
    for write in &writes.bindings {
        bind(ledger, write);
    }
    for write in &writes.provisions {
        provision(ledger, write, node);
    }
}

/// A version that is newer than `version`.
fn newer(version: &str) -> Str {
    format!("{version}+").into()
}

fn bind(ledger: &mut Ledger, write: &BindingWrite) {
    let volumes = ledger.volumes();
    let (Some(volume), Some(claim)) = (volumes.volume(&write.volume), volumes.claim(&write.claim)) else { return };
    let volume = PersistentVolume {
        resource_version: newer(&volume.resource_version),
        claim: Some(ClaimRef { key: claim.key.clone(), uid: claim.uid.clone() }),
        available: false,
        ..PersistentVolume::clone(volume)
    };
    let claim = bound(claim, &volume.name);
    ledger.apply_volume(volume);
    ledger.apply_claim(claim);
}

fn bound(claim: &PersistentVolumeClaim, volume: &Str) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        resource_version: newer(&claim.resource_version),
        volume: Some(volume.clone()),
        bind_completed: true,
        ..claim.clone()
    }
}

/// Makes a volume for the claim, for that node alone unless the claim's access modes allow many nodes.
fn provision(ledger: &mut Ledger, write: &ProvisionWrite, node: &Str) {
    let volumes = ledger.volumes();
    let Some(claim) = volumes.claim(&write.claim).cloned() else { return };
    let Some(class) = volumes.class(&claim.class) else { return };
    let name: Str = format!("simulated-{}", claim.uid).into();
    let for_many = claim.access_modes.iter().any(|mode| matches!(&**mode, "ReadWriteMany" | "ReadOnlyMany"));
    let volume = PersistentVolume {
        uid: name.clone(),
        resource_version: "1".into(),
        labels: Labels::none(),
        class: claim.class.clone(),
        capacity: claim.request.unwrap_or(Quantity::ZERO),
        access_modes: claim.access_modes.clone(),
        volume_mode: claim.volume_mode.clone(),
        attributes_class: claim.attributes_class.clone(),
        claim: Some(ClaimRef { key: claim.key.clone(), uid: claim.uid.clone() }),
        available: false,
        deleting: false,
        affinity: if for_many { None } else { only_on(ledger, node) },
        source: VolumeSource::Csi(Attachable { driver: class.provisioner.clone(), handle: name.clone() }),
        name,
    };
    let claim = PersistentVolumeClaim { selected_node: Some(node.clone()), ..bound(&claim, &volume.name) };
    ledger.apply_volume(volume);
    ledger.apply_claim(claim);
}

/// Affinity to the node's hostname label, if it has one.
fn only_on(ledger: &Ledger, node: &str) -> Option<VolumeAffinity> {
    const HOSTNAME: &str = "kubernetes.io/hostname";
    let node = ledger.nodes().find(node)?;
    let value = ledger.nodes().labels(node).get(HOSTNAME)?.clone();
    let test = NodeTest { key: HOSTNAME.into(), operator: NodeTestOperator::In, values: vec![value] };
    Some(VolumeAffinity { terms: vec![vec![test]] })
}
