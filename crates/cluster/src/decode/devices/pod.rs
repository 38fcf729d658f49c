use crate::decode::Decoder;
use crate::slim::{PodResourceClaim as SlimPodClaim, PodSpec, PodStatus};
use berth_core::limits::RESOURCE_CLAIMS_PER_POD;
use berth_core::model::{ClaimSource, PodResourceClaim, PodResourceClaims};

/// The claims that a pod names. One that names too many is held, and costs no more than its name.
pub(in crate::decode) fn pod_claims(
    decoder: &mut Decoder,
    spec: &PodSpec<'_>,
    status: &PodStatus<'_>,
) -> Option<PodResourceClaims> {
    let entries = &spec.resource_claims;
    if entries.is_empty() || entries.len() > RESOURCE_CLAIMS_PER_POD {
        return None;
    }
    let read = entries
        .iter()
        .map(|entry| PodResourceClaim { name: decoder.text(&entry.name), source: source(decoder, entry, status) });
    Some(read.collect())
}

/// After `Name` in `staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go`.
fn source(decoder: &mut Decoder, entry: &SlimPodClaim<'_>, status: &PodStatus<'_>) -> ClaimSource {
    if let Some(name) = &entry.resource_claim_name {
        return ClaimSource::Named(decoder.text(name));
    }
    if entry.resource_claim_template_name.is_none() {
        return ClaimSource::Unset;
    }
    let made = status.resource_claim_statuses.iter().find(|made| *made.name == *entry.name);
    match made.map(|made| &made.resource_claim_name) {
        // It is this pod's alone, so that there is nobody to share its name with.
        Some(Some(name)) => ClaimSource::Generated((&**name).into()),
        Some(None) => ClaimSource::NotNeeded,
        None => ClaimSource::NotCreated,
    }
}
