//! Fields of ResourceClaims and DeviceClasses that this version does not know: they may say which devices are wanted.

use super::{concerns, extended, resolve};
use crate::ledger::Ledger;
use crate::model::{Pod, Str};
use crate::profile::CompiledProfile;
use berth_devices::model::{DeviceRequest, Request, RequestDetails};
use std::collections::BTreeSet;

/// Those of one object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownFields<'a> {
    /// As in paths.
    pub(crate) plural: &'static str,
    pub(crate) object: String,
    pub(crate) fields: &'a [Str],
}

/// Of the claims that are to be allocated for the pod, and of the classes that these and the pod's extended resources name; nothing where the
/// profile does not look at claims, or where one of them is missing. O(the requests of its claims).
pub(crate) fn unknown_fields<'a>(
    profile: &CompiledProfile,
    ledger: &'a Ledger,
    pod: &'a Pod,
) -> Vec<UnknownFields<'a>> {
    if !concerns(profile, ledger, pod) {
        return Vec::new();
    }
    let devices = ledger.devices();
    let claims = resolve(devices, pod).unwrap_or_default();
    let open = || claims.iter().filter(|claim| claim.allocation.is_none());
    let named =
        open().flat_map(|claim| &claim.spec.requests).flat_map(details_of).map(|details| &details.device_class_name);
    let names: BTreeSet<&Str> = named.chain(extended::classes_of(ledger, pod)).collect();
    let of_claims = open().map(|claim| UnknownFields {
        plural: "resourceclaims",
        object: claim.key.to_string(),
        fields: &claim.spec.unknown_fields,
    });
    let classes = names.into_iter().filter_map(|name| devices.classes().get(name));
    let of_classes = classes.map(|class| UnknownFields {
        plural: "deviceclasses",
        object: class.name.to_string(),
        fields: &class.unknown_fields,
    });
    of_claims.chain(of_classes).filter(|one| !one.fields.is_empty()).collect()
}

fn details_of(request: &DeviceRequest) -> impl Iterator<Item = &RequestDetails> {
    let (one, several) = match &request.request {
        Request::Exactly { details, .. } => (Some(details), &[][..]),
        Request::FirstAvailable(subs) => (None, &subs[..]),
    };
    one.into_iter().chain(several.iter().map(|sub| &sub.details))
}
