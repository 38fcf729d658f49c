use crate::ledger::keyed::{HashKey, KeyedMap};
use crate::model::{ClaimKey, Str};
use std::collections::BTreeSet;

/// The claims that were made for pods' extended resources, by the uid of the pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExtendedClaims(KeyedMap<Str, BTreeSet<ClaimKey>>);

impl ExtendedClaims {
    pub(super) fn new(key: &HashKey) -> Self {
        Self(key.map())
    }

    /// Of the pod's namespace: any other may claim to be the pod's. Upstream takes any of them, this is the first.
    pub(super) fn of(&self, namespace: &str, pod: &str) -> Option<&ClaimKey> {
        self.0.get(pod)?.iter().find(|key| *key.namespace == *namespace)
    }

    /// In no order.
    pub(super) fn all(&self) -> impl Iterator<Item = &ClaimKey> {
        self.0.values().flatten()
    }

    /// The claim was for one pod, and is for another.
    pub(super) fn change(&mut self, key: &ClaimKey, before: Option<&Str>, now: Option<&Str>) {
        if before == now {
            return;
        }
        if let Some(pod) = before
            && let Some(claims) = self.0.get_mut(pod)
        {
            claims.remove(key);
            if claims.is_empty() {
                self.0.remove(pod);
            }
        }
        if let Some(pod) = now {
            self.0.entry(pod.clone()).or_default().insert(key.clone());
        }
    }
}
