use crate::core::model::{Pod, Str};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A pending pod that is promised a node.
#[derive(Debug, Clone)]
pub struct Nomination {
    /// The pod.
    pub pod: Arc<Pod>,
}

/// Pending pods by the node they are promised. After `pkg/scheduler/backend/queue/nominator.go`.
#[derive(Debug, Default)]
pub struct Nominations {
    by_node: FxHashMap<Str, Vec<Nomination>>,
    version: u64,
}

impl Nominations {
    /// The version of the last change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }

    /// The pods promised the node `name`, in the order of their uids.
    pub fn on(&self, name: &str) -> &[Nomination] {
        self.by_node.get(name).map_or(&[], Vec::as_slice)
    }

    /// The names of the nodes that are promised to someone, in no order that means anything.
    pub fn nodes(&self) -> impl Iterator<Item = &Str> {
        self.by_node.keys()
    }

    pub(super) fn add(&mut self, pod: &Arc<Pod>, version: u64) {
        let Some(node) = &pod.nominated_node else {
            return;
        };
        let on_node = self.by_node.entry(node.clone()).or_default();
        let at = on_node.partition_point(|n| n.pod.uid < pod.uid);
        on_node.insert(at, Nomination { pod: pod.clone() });
        self.version = version;
    }

    pub(super) fn remove(&mut self, pod: &Pod, version: u64) -> bool {
        let Some(node) = &pod.nominated_node else {
            return false;
        };
        let Some(on_node) = self.by_node.get_mut(node) else {
            return false;
        };
        let before = on_node.len();
        on_node.retain(|n| n.pod.uid != pod.uid);
        let removed = on_node.len() < before;
        if on_node.is_empty() {
            self.by_node.remove(node);
        }
        if removed {
            self.version = version;
        }
        removed
    }
}
