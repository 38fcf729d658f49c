use super::extended;
use super::resolve::resolve;
use crate::ledger::Ledger;
use crate::model::{Pod, Str};
use berth_devices::model::{Request, ResourceClaim as ClaimSpec};

/// Whether devices of one of the drivers may be what the pod waits for: a claim of it that has none, or its extended resources, want some of a
/// class that may select them. In doubt they may. O(requests · drivers).
pub(crate) fn may_want<'a>(ledger: &Ledger, pod: &Pod, mut drivers: impl Iterator<Item = &'a str>) -> bool {
    let devices = ledger.devices();
    let Ok(claims) = resolve(devices, pod) else { return true };
    let open = || claims.iter().filter(|claim| claim.allocation.is_none());
    drivers.any(|driver| {
        let may_be = |class: &Str| devices.may_be_of(class, driver);
        open().any(|claim| classes_of(&claim.spec).any(may_be)) || extended::classes_of(ledger, pod).any(may_be)
    })
}

fn classes_of(claim: &ClaimSpec) -> impl Iterator<Item = &Str> {
    claim.requests.iter().flat_map(|request| {
        let (one, several) = match &request.request {
            Request::Exactly { details, .. } => (Some(details), &[][..]),
            Request::FirstAvailable(alternatives) => (None, &alternatives[..]),
        };
        let details = one.into_iter().chain(several.iter().map(|alternative| &alternative.details));
        details.map(|details| &details.device_class_name)
    })
}
