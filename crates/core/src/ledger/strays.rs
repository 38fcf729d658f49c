use super::Ledger;
use super::keyed::{HashKey, KeyedMap};
use crate::model::{Pod, PodKey, Str};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Pods that are bound to nodes nobody has seen, beyond those that have a row: see `limits::GHOST_ROWS`. They count for
/// nothing, as no node is refused or chosen for them, until their node is seen.
#[derive(Debug)]
pub(super) struct Strays {
    nodes: FxHashMap<Str, Str>,
    /// By node, then by uid.
    pods: KeyedMap<Str, BTreeMap<Str, Pod>>,
}

impl Strays {
    pub(super) fn new(key: &HashKey) -> Self {
        Self { nodes: FxHashMap::default(), pods: key.map() }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn has(&self, uid: &str) -> bool {
        self.nodes.contains_key(uid)
    }

    pub(super) fn key_of(&self, uid: &str) -> Option<&PodKey> {
        Some(&self.pods.get(self.nodes.get(uid)?)?.get(uid)?.key)
    }

    pub(super) fn insert(&mut self, pod: &Pod, node: &Str) {
        self.nodes.insert(pod.uid.clone(), node.clone());
        self.pods.entry(node.clone()).or_default().insert(pod.uid.clone(), pod.clone());
    }

    pub(super) fn remove(&mut self, uid: &str) -> Option<Pod> {
        let node = self.nodes.remove(uid)?;
        super::remove_from_group(&mut self.pods, &node, uid)
    }

    /// The pods of a node that is seen now, in the order of their uids. They stay set aside until they are applied.
    fn of(&self, node: &str) -> Vec<Pod> {
        self.pods.get(node).map_or_else(Vec::new, |pods| pods.values().cloned().collect())
    }
}

impl Ledger {
    /// How many pods are set aside until their node is seen.
    pub fn set_aside(&self) -> usize {
        self.pods.strays.len()
    }

    /// Places the pods that were set aside until their node is seen.
    pub(super) fn place_strays(&mut self, node: &str) {
        for pod in self.pods.strays.of(node) {
            self.apply_pod(pod);
        }
    }

    pub(super) fn audit_strays(&self) -> Result<(), String> {
        #[allow(clippy::iter_over_hash_type, reason = "the first fault found is as good as another")]
        for (uid, node) in &self.pods.strays.nodes {
            if self.nodes.find(node).is_some() || self.pod(uid).is_some() {
                return Err(format!("{uid} is set aside although {node} exists, or it is known otherwise"));
            }
        }
        let pods: usize = self.pods.strays.pods.values().map(BTreeMap::len).sum();
        if pods == self.pods.strays.nodes.len() { Ok(()) } else { Err(format!("{pods} pods are set aside")) }
    }
}
