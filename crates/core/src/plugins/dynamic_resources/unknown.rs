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
    /// Of a class. Claims differ from pod to pod, and reasons are counted.
    pub(crate) name: Option<&'a Str>,
    pub(crate) fields: &'a [Str],
}

/// Of the claims that are to be allocated for the pod, and of the classes that these and the pod's extended resources name, whether or not
/// nodes offer such a resource themselves. Nothing where the profile does not look at claims, or one of them is not there yet. O(1) where no
/// such field was ever seen, O(the pod's claims) where none of a class is, otherwise O(the requests of these claims).
pub(crate) fn unknown_fields<'a>(
    profile: &CompiledProfile,
    ledger: &'a Ledger,
    pod: &'a Pod,
) -> Vec<UnknownFields<'a>> {
    let devices = ledger.devices();
    if !devices.may_have_unknown_fields() || !concerns(profile, ledger, pod) {
        return Vec::new();
    }
    let Ok(claims) = resolve(devices, pod) else { return Vec::new() };
    let open = || claims.iter().filter(|claim| claim.allocation.is_none());
    let of_claims =
        open().map(|claim| UnknownFields { plural: "resourceclaims", name: None, fields: &claim.spec.unknown_fields });
    let mut names: BTreeSet<&Str> = BTreeSet::new();
    if devices.has_unknown_class_fields() {
        let named = open().flat_map(|claim| &claim.spec.requests).flat_map(details_of);
        names.extend(named.map(|details| &details.device_class_name).chain(extended::classes_of(ledger, pod)));
    }
    let classes = names.into_iter().filter_map(|name| devices.classes().get(name));
    let of_classes = classes.map(|class| UnknownFields {
        plural: "deviceclasses",
        name: Some(&class.name),
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
