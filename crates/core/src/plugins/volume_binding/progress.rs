//! After the writes: whether all claims are bound and usable on the node, or never will be. After `checkBindings`.

use super::affinity_on;
use crate::ledger::{Ledger, NodeId};
use crate::model::{BindingWrite, PersistentVolume, ProvisionWrite, Str, VolumeWrites};

/// How far the claims of a decided pod have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    Bound,
    Waiting,
    /// The claims will never be bound; upstream's text.
    Failed(String),
}

/// Looks at the objects as last seen, without what was assumed, and stops at the first that is not bound.
pub(crate) fn progress(ledger: &Ledger, writes: &VolumeWrites, name: &Str) -> Progress {
    let Some(node) = ledger.nodes().find(name) else {
        return Progress::Failed(format!("failed to get node {name:?}: node {name:?} not found"));
    };
    let bindings = writes.bindings.iter().map(|write| binding(ledger, write, node));
    let provisions = writes.provisions.iter().map(|write| provision(ledger, write, node));
    match bindings.chain(provisions).find(|one| *one != Ok(true)) {
        None | Some(Ok(true)) => Progress::Bound,
        Some(Ok(false)) => Progress::Waiting,
        Some(Err(text)) => Progress::Failed(text),
    }
}

fn binding(ledger: &Ledger, write: &BindingWrite, node: NodeId) -> Result<bool, String> {
    let volumes = ledger.volumes();
    let missing = |kind: &str, name: &str| format!("failed to check binding: {kind} {name:?} not found");
    let volume = volumes.volume(&write.volume).ok_or_else(|| missing("persistentvolumes", &write.volume))?;
    let claim =
        volumes.claim(&write.claim).ok_or_else(|| missing("persistentvolumeclaims", &write.claim.to_string()))?;
    // The write has not been seen yet. Any other version than the one that was written to is at least as new as the write.
    if write.needed && volume.resource_version == write.resource_version {
        return Ok(false);
    }
    // Upstream does not ask. The volume of an earlier attempt, which was taken back while its write was under way, may have got the claim:
    // the pod belongs where that one is.
    if let Some(other) = claim.volume.as_ref().filter(|other| **other != write.volume) {
        let (claim, volume) = (write.claim.to_string(), &write.volume);
        return Err(format!("persistentvolumeclaim {claim:?} is bound to pv {other:?} and not to {volume:?}"));
    }
    check_affinity(ledger, volume, node).map_err(|error| match error {
        Mismatch::Untranslatable(text) => format!("failed to translate pv to csi: {text}"),
        Mismatch::Elsewhere(text) => text,
    })?;
    if volume.claim.as_ref().is_none_or(|reference| reference.uid.is_empty()) {
        return Err(format!("ClaimRef got reset for pv {:?}", volume.name));
    }
    Ok(claim.is_fully_bound())
}

fn provision(ledger: &Ledger, write: &ProvisionWrite, node: NodeId) -> Result<bool, String> {
    let volumes = ledger.volumes();
    let key = &write.claim;
    let claim = volumes.claim(key).ok_or_else(|| {
        format!("failed to check provisioning pvc: persistentvolumeclaims {:?} not found", key.to_string())
    })?;
    if write.needed && claim.resource_version == write.resource_version {
        return Ok(false);
    }
    if claim.selected_node.as_ref() != Some(ledger.nodes().name(node)) {
        return Err(format!("provisioning failed for PVC {:?}", key.name));
    }
    if let Some(name) = &claim.volume {
        // The volume may be seen later than the claim that names it.
        let Some(volume) = volumes.volume(name) else { return Ok(false) };
        check_affinity(ledger, volume, node).map_err(|error| match error {
            Mismatch::Untranslatable(text) | Mismatch::Elsewhere(text) => text,
        })?;
    }
    Ok(claim.is_fully_bound())
}

enum Mismatch {
    Untranslatable(String),
    Elsewhere(String),
}

fn check_affinity(ledger: &Ledger, volume: &PersistentVolume, node: NodeId) -> Result<(), Mismatch> {
    let affinity = affinity_on(ledger, volume, node).map_err(|text| Mismatch::Untranslatable(text.to_string()))?;
    if affinity.is_none_or(|affinity| affinity.matches(ledger.nodes().labels(node))) {
        return Ok(());
    }
    let (volume, node) = (&volume.name, ledger.nodes().name(node));
    Err(Mismatch::Elsewhere(format!(
        "pv {volume:?} node affinity doesn't match node {node:?}: no matching NodeSelectorTerms"
    )))
}
