//! What an API server makes of the writes to ResourceClaims.

use berth_core::io::{ClaimRequest, ClaimsOutcome, IdleClaim, WrittenClaim};
use berth_core::ledger::Ledger;
use berth_core::model::ResourceClaim;
use std::sync::Arc;

/// Takes all of them, and shows the claims as they are then.
pub(crate) fn settle(ledger: &mut Ledger, request: &ClaimRequest) -> ClaimsOutcome {
    let mut written = Vec::new();
    for write in request.writes.iter() {
        let Some(claim) = ledger.devices().claim(&write.key) else { continue };
        let mut claim = claim.once_written(write.allocation.as_deref(), &request.pod.uid);
        if write.creates.is_some() {
            claim.uid = write.key.to_string().into();
        }
        let (uid, resource_version) = (claim.uid.clone(), claim.resource_version.clone());
        ledger.apply_resource_claim(claim);
        written.push(WrittenClaim { key: write.key.clone(), uid, resource_version });
    }
    let outcome = ClaimsOutcome { written, failure: None };
    ledger.claims_written(&request.pod.uid, &request.writes, &outcome);
    outcome
}

/// Takes the claim's devices back.
pub(crate) fn deallocate(ledger: &mut Ledger, idle: &IdleClaim) {
    let Some(claim) = ledger.devices().claim(&idle.key).filter(|claim| claim.uid == idle.uid) else { return };
    let free = unallocated(claim);
    ledger.apply_resource_claim(free);
}

/// Deletes a pod, and has its claims become what kube-controller-manager makes of them: one that was made for it goes, and another one that
/// nobody uses any more gives its devices back. O(claims).
pub(crate) fn delete_pod(ledger: &mut Ledger, uid: &str) {
    let namespace = ledger.pod(uid).map(|pod| pod.key().namespace.clone());
    ledger.delete_pod(uid);
    if let Some(namespace) = namespace {
        delete_made(ledger, &namespace, uid);
    }
    let is_reserved = |claim: &&Arc<ResourceClaim>| claim.reserved_for.iter().any(|own| **own == *uid);
    let reserved: Vec<Arc<ResourceClaim>> = ledger.devices().claims().filter(is_reserved).cloned().collect();
    for claim in reserved {
        if claim.controller.as_deref() == Some(uid) {
            ledger.delete_resource_claim(&claim.key.to_string());
            continue;
        }
        let mut claim = ResourceClaim::clone(&claim);
        claim.reserved_for.retain(|own| **own != *uid);
        ledger.apply_resource_claim(if claim.reserved_for.is_empty() { unallocated(&claim) } else { claim });
    }
}

/// The claim before it gets devices.
pub(crate) fn unallocated(claim: &ResourceClaim) -> ResourceClaim {
    ResourceClaim { allocation: None, reserved_for: Vec::new(), devices: Vec::new(), ..claim.clone() }
}

/// Deletes the claim that was made for the extended resources of a pod, if there is one.
pub(crate) fn delete_made(ledger: &mut Ledger, namespace: &str, pod: &str) {
    let made = ledger.devices().extended_claim_of(namespace, pod).map(|claim| claim.key.to_string());
    if let Some(identity) = made {
        ledger.delete_resource_claim(&identity);
    }
}
