use super::Slot;
use crate::model::{ClaimKey, Pod};
use std::collections::{BTreeSet, HashMap};

/// The queued pods that name each ResourceClaim, so that a change of one costs nothing for pods that name others.
#[derive(Debug, Default)]
pub(super) struct ClaimUsers(HashMap<ClaimKey, BTreeSet<Slot>>);

impl ClaimUsers {
    pub(super) fn insert(&mut self, pod: &Pod, slot: Slot) {
        for claim in pod.named_claims() {
            self.0.entry(claim).or_default().insert(slot);
        }
    }

    pub(super) fn remove(&mut self, pod: &Pod, slot: Slot) {
        for claim in pod.named_claims() {
            let Some(users) = self.0.get_mut(&claim) else { continue };
            users.remove(&slot);
            if users.is_empty() {
                self.0.remove(&claim);
            }
        }
    }

    pub(super) fn of(&self, claim: &ClaimKey) -> impl Iterator<Item = Slot> {
        self.0.get(claim).into_iter().flatten().copied()
    }

    pub(super) fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
