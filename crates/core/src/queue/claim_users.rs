use super::Slot;
use crate::model::{ClaimKey, PodResourceClaims, Str};
use std::collections::BTreeSet;

/// The slots of the pods that name each ResourceClaim, so that a change of one costs nothing for pods that name others. Names are compared
/// and not hashed: nothing is moved as a whole when there are more.
#[derive(Debug, Default)]
pub(super) struct ClaimUsers(BTreeSet<(ClaimKey, Slot)>);

/// A pod's entries, and its namespace.
type Named<'a> = (&'a Str, &'a PodResourceClaims);

impl ClaimUsers {
    pub(super) fn insert(&mut self, named: Named<'_>, slot: Slot) {
        self.0.extend(claims_of(named).map(|claim| (claim, slot)));
    }

    pub(super) fn remove(&mut self, named: Named<'_>, slot: Slot) {
        for claim in claims_of(named) {
            self.0.remove(&(claim, slot));
        }
    }

    pub(super) fn of(&self, claim: &ClaimKey) -> impl Iterator<Item = Slot> {
        self.0.range((claim.clone(), Slot::FIRST)..=(claim.clone(), Slot::LAST)).map(|(_, slot)| *slot)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

fn claims_of((namespace, entries): Named<'_>) -> impl Iterator<Item = ClaimKey> {
    let names = entries.iter().filter_map(|entry| entry.source.claim());
    names.map(|name| ClaimKey { namespace: namespace.clone(), name: name.clone() })
}
