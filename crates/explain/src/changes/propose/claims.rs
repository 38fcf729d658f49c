//! Claims that are missing, not bound, lost or terminating.

use super::{ChangeKind, Draft, Edit, GUESSES, Scene, Trial};
use berth_core::ledger::VolumeTable;
use berth_core::model::{
    ClaimKey, ClaimRef, ClaimSelector, Labels, PersistentVolume, PersistentVolumeClaim, Quantity, Str, VolumeSource,
};
use berth_core::plugins::Plugin;
use serde_json::json;

/// The plugins that look at claims.
const LOOKING: [Plugin; 4] =
    [Plugin::VolumeRestrictions, Plugin::NodeVolumeLimits, Plugin::VolumeBinding, Plugin::VolumeZone];

/// Each claim of the pod as if it were bound to a volume that any node can use.
pub(super) fn fix(scene: &Scene<'_>, trial: &mut Trial<'_>) -> Vec<Draft> {
    let Some(volumes) = &scene.pod.volumes else { return Vec::new() };
    if scene.only(&LOOKING).next().is_none() {
        return Vec::new();
    }
    let key = &scene.pod.key;
    let table = trial.ledger().volumes();
    let claims = volumes.claims(&key.namespace, &key.name).take(GUESSES);
    claims.map(|(claim, ephemeral)| fixed(scene, table, &claim, ephemeral)).collect()
}

fn fixed(scene: &Scene<'_>, table: &VolumeTable, key: &ClaimKey, ephemeral: bool) -> Draft {
    let known = table.claim(key).map(|claim| &**claim);
    let volume_is_missing =
        |claim: &PersistentVolumeClaim| claim.volume.as_deref().is_some_and(|name| table.volume(name).is_none());
    let (state, text) = match known {
        None if ephemeral => ("missing", format!("have the claim {key} made for the pod and bound")),
        None => ("missing", format!("create the PersistentVolumeClaim {key} and have it bound")),
        Some(claim) if claim.lost => ("lost", format!("make the claim {key} anew: its volume is lost")),
        Some(claim) if claim.deleting => ("being deleted", format!("make the claim {key} anew: it is being deleted")),
        Some(claim) if volume_is_missing(claim) => {
            ("bound to a missing volume", format!("bring back the volume of the claim {key}"))
        }
        Some(claim) if claim.is_fully_bound() => {
            ("bound", format!("bind the claim {key} to a volume in reach of the other nodes"))
        }
        Some(_) => ("unbound", format!("have the claim {key} bound to a volume")),
    };
    let bound = bound(scene, known, key, ephemeral);
    Draft {
        kind: ChangeKind::FixClaim,
        field: format!("persistentvolumeclaim {key}"),
        from: json!(state),
        to: json!("bound"),
        text,
        weight: 0,
        edit: bound,
    }
}

/// The claim, bound to a volume that any node can use.
fn bound(scene: &Scene<'_>, known: Option<&PersistentVolumeClaim>, key: &ClaimKey, ephemeral: bool) -> Edit {
    let name: Str = format!("volume-of-{}-{}", key.namespace, key.name).into();
    let plain = || PersistentVolumeClaim {
        key: key.clone(),
        uid: format!("claim-{}-{}", key.namespace, key.name).into(),
        resource_version: "".into(),
        controller: ephemeral.then(|| scene.pod.uid.clone()),
        class: "".into(),
        volume: None,
        bind_completed: true,
        selected_node: None,
        access_modes: vec!["ReadWriteOnce".into()],
        request: None,
        volume_mode: "Filesystem".into(),
        selector: ClaimSelector::Any,
        attributes_class: "".into(),
        lost: false,
        deleting: false,
    };
    let claim = PersistentVolumeClaim {
        volume: Some(name.clone()),
        bind_completed: true,
        lost: false,
        deleting: false,
        ..known.cloned().unwrap_or_else(plain)
    };
    let volume = PersistentVolume {
        uid: name.clone(),
        name,
        resource_version: "".into(),
        labels: Labels::none(),
        class: claim.class.clone(),
        capacity: claim.request.unwrap_or(Quantity::ZERO),
        access_modes: claim.access_modes.clone(),
        volume_mode: claim.volume_mode.clone(),
        attributes_class: claim.attributes_class.clone(),
        claim: Some(ClaimRef { key: key.clone(), uid: claim.uid.clone() }),
        available: false,
        deleting: false,
        affinity: None,
        source: VolumeSource::Other,
    };
    Edit::Claim { claim: Box::new(claim), volume: Box::new(volume) }
}
