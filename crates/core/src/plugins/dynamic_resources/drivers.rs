use super::extended;
use super::resolve::resolve;
use crate::ledger::Ledger;
use crate::model::{Pod, Str};
use berth_devices::model::{Request, ResourceClaim as ClaimSpec};
use smallvec::SmallVec;

/// The classes of which the pod's claims that have no devices, or its extended resources, want some, each once; `None` where that cannot be
/// known. O(requests · classes).
pub(crate) fn classes_waited_for<'a>(ledger: &'a Ledger, pod: &'a Pod) -> Option<SmallVec<[&'a Str; 4]>> {
    let claims = resolve(ledger.devices(), pod).ok()?;
    let open = claims.into_iter().filter(|claim| claim.allocation.is_none());
    let mut classes = SmallVec::new();
    for class in open.flat_map(|claim| classes_of(&claim.spec)).chain(extended::classes_of(ledger, pod)) {
        if !classes.contains(&class) {
            classes.push(class);
        }
    }
    Some(classes)
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
