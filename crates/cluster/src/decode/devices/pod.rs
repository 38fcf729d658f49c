use crate::decode::Decoder;
use crate::decode::resources::is_sidecar;
use crate::slim::{Amount, Container, PodResourceClaim as SlimPodClaim, PodSpec, PodStatus};
use berth_core::limits::{RESOURCE_CLAIMS_PER_POD, SCALARS_PER_POD};
use berth_core::model::{
    ClaimSource, ExtendedRequests, PodResourceClaim, PodResourceClaims, Quantity, Requests, Str, is_extended_resource,
};
use std::sync::Arc;

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

/// The extended resources of each container, if the pod's requests have any that a DeviceClass may stand for. A pod that requests too many
/// is held.
pub(in crate::decode) fn extended_requests(
    decoder: &mut Decoder,
    spec: &PodSpec<'_>,
    requests: &Requests,
) -> Option<Arc<[ExtendedRequests]>> {
    let mut scalars = requests.scalars.iter();
    let is_any = scalars.any(|(name, amount)| *amount > 0 && is_extended_resource(name));
    if !is_any || requests.scalars.len() > SCALARS_PER_POD {
        return None;
    }
    let init = spec.init_containers.iter().map(|container| (container, !is_sidecar(container)));
    let all = init.chain(spec.containers.iter().map(|container| (container, false)));
    let read = all.enumerate().map(|(index, (container, is_short_lived))| ExtendedRequests {
        container: decoder.text(&container.name),
        index: index as u32,
        is_short_lived,
        resources: extended_resources(decoder, container),
    });
    Some(read.collect())
}

/// An amount that is no whole number of pieces is left out, as upstream.
fn extended_resources(decoder: &mut Decoder, container: &Container<'_>) -> Vec<(Str, u32, i64)> {
    let requests = &container.resources.requests;
    let mut names: Vec<&str> = requests.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    names.dedup();
    let whole = |Amount(amount): &Amount| {
        let amount = amount.as_ref().ok()?;
        let pieces = amount.value();
        (pieces > 0 && Quantity::from_units(pieces) == *amount).then_some(pieces)
    };
    let of_name = |name: &&str| requests.iter().rfind(|(own, _)| **own == **name).and_then(|(_, one)| whole(one));
    let mut found = Vec::new();
    for (position, name) in names.iter().enumerate().filter(|(_, name)| is_extended_resource(name)) {
        found.extend(of_name(name).map(|pieces| (decoder.text(name), position as u32, pieces)));
    }
    found
}
