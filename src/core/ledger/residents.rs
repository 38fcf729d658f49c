use super::{Cohort, NodeId};
use crate::core::model::{Pod, PodKey, PodVolumes, Str, Usage};
use std::sync::Arc;

/// A pod that takes room on a node, assumed there or seen bound: as little of it as still matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its uid.
    pub uid: Str,
    /// Namespace and name.
    pub key: PodKey,
    /// Its node.
    pub node: NodeId,
    /// What it takes there.
    pub usage: Arc<Usage>,
    /// What others see of it: labels, terms, whether it is being deleted.
    pub cohort: Arc<Cohort>,
    /// What it mounts.
    pub volumes: Option<Arc<PodVolumes>>,
    /// Its priority.
    pub priority: i32,
    /// When it was started, in microseconds of Unix time; `None` before its kubelet took it up.
    pub started_unix_us: Option<i64>,
    /// The scheduler that it names.
    pub scheduler_name: Str,
    /// Whether its kubelet runs it on its own account, so that deleting it frees nothing.
    pub is_static: bool,
    /// Whether a scheduler has marked it as evicted for another pod.
    pub preempted: bool,
}

impl Placed {
    /// `pod` on `node`, seen by others as `cohort`.
    pub(super) fn of(pod: &Pod, node: NodeId, cohort: Arc<Cohort>) -> Self {
        Self {
            uid: pod.uid.clone(),
            key: pod.key.clone(),
            node,
            usage: pod.usage.clone(),
            cohort,
            volumes: pod.volumes.clone(),
            priority: pod.priority,
            started_unix_us: pod.started_unix_us,
            scheduler_name: pod.scheduler_name.clone(),
            is_static: pod.is_static,
            preempted: pod.preempted,
        }
    }

    /// Whether it is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.cohort.terminating
    }
}

/// The pods on each node, for whoever must look at them one by one.
#[derive(Debug, Default)]
pub(super) struct Residents {
    by_row: Vec<Vec<Arc<Placed>>>,
}

impl Residents {
    /// The pods on `node`, in no order that means anything beyond being the same for the same history.
    pub(super) fn on(&self, node: NodeId) -> &[Arc<Placed>] {
        self.by_row.get(node.index()).map_or(&[], Vec::as_slice)
    }

    /// How many pods there are on all nodes. O(nodes).
    pub(super) fn len(&self) -> usize {
        self.by_row.iter().map(Vec::len).sum()
    }

    pub(super) fn add(&mut self, placed: &Arc<Placed>) {
        let row = placed.node.index();
        if self.by_row.len() <= row {
            self.by_row.resize_with(row + 1, Vec::new);
        }
        self.by_row[row].push(placed.clone());
    }

    pub(super) fn remove(&mut self, placed: &Placed) {
        if let Some(at) = self.position(placed) {
            self.by_row[placed.node.index()].swap_remove(at);
        }
    }

    /// The pod is seen otherwise than before, on the same node. O(pods of the node).
    pub(super) fn replace(&mut self, placed: &Arc<Placed>) {
        if let Some(at) = self.position(placed) {
            self.by_row[placed.node.index()][at] = placed.clone();
        }
    }

    fn position(&self, placed: &Placed) -> Option<usize> {
        self.on(placed.node).iter().position(|one| one.uid == placed.uid)
    }
}
