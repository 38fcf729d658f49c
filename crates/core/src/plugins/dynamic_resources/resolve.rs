//! Which claims the entries of a pod mean: after `podResourceClaims` in `dynamicresources.go`, and `Name` and `IsForPod` of
//! `k8s.io/dynamic-resource-allocation/resourceclaim`.

use crate::ledger::{DeviceTable, Ledger};
use crate::model::{ClaimKey, ClaimSource, Pod, ResourceClaim};
use std::sync::Arc;

/// The claims in the pod's order, each once; or upstream's text of what is the matter with the first that cannot be used.
pub(super) fn resolve<'t>(devices: &'t DeviceTable, pod: &Pod) -> Result<Vec<&'t Arc<ResourceClaim>>, String> {
    let mut claims: Vec<&Arc<ResourceClaim>> = Vec::new();
    for entry in pod.resource_claims.iter().flat_map(|entries| entries.iter()) {
        let (name, is_own) = match &entry.source {
            ClaimSource::Named(name) => (name, false),
            ClaimSource::Generated(name) => (name, true),
            ClaimSource::NotNeeded => continue,
            ClaimSource::NotCreated => return Err(format!("pod \"{}\": ResourceClaim not created yet", pod.key)),
            ClaimSource::Unset => {
                return Err(format!(
                    "pod \"{}\", spec.resourceClaim {:?}: none of the supported fields are set",
                    pod.key, entry.name
                ));
            }
        };
        let key = ClaimKey { namespace: pod.key.namespace.clone(), name: name.clone() };
        let claim = devices.claim(&key).ok_or_else(|| format!("could not find ResourceClaim \"{key}\""))?;
        if claim.deleting {
            return Err(format!("resourceclaim {:?} is being deleted", claim.key.name));
        }
        if is_own && claim.controller.as_ref() != Some(&pod.uid) {
            return Err(format!("ResourceClaim {key} was not created for Pod {} (Pod is not owner)", pod.key));
        }
        if !claims.iter().any(|known| known.uid == claim.uid) {
            claims.push(claim);
        }
    }
    Ok(claims)
}

/// Which claim of the pod cannot be used yet, in upstream's words: PreEnqueue, which keeps the pod from being tried.
pub(crate) fn waits_for(ledger: &Ledger, pod: &Pod) -> Option<String> {
    resolve(ledger.devices(), pod).err()
}
