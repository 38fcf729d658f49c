use super::{Ledger, MatchClass, NodeId};
use crate::limits::PODS_PER_HOLD;
use crate::model::{Pod, PodKey, PodVolumes, Str, Usage};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// A pod assumed on a node or seen bound to it: as little of it as still matters.
///
/// What a search for victims reads of each pod of a hundred nodes comes first and stays together.
#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(C)]
pub struct PlacedPod {
    pub usage: Arc<Usage>,
    pub match_class: Arc<MatchClass>,
    /// See [`Self::started_unix_us`]: an option of it would make each of a million pods eight bytes longer.
    pub(super) started: i64,
    pub priority: i32,
    pub node: NodeId,
    /// Otherwise `started` is 0.
    pub(super) is_started: bool,
    /// Whether its kubelet runs it on its own account, so that deleting it frees nothing.
    pub is_static: bool,
    /// Whether a scheduler has marked it as evicted for another pod.
    pub preempted: bool,
    /// Whether a scheduler other than this process chose the node: it was seen waiting before, and could have gone elsewhere.
    pub chosen_by_other: bool,
    pub uid: Str,
    pub key: PodKey,
    pub volumes: Option<Arc<PodVolumes>>,
    pub scheduler_name: Str,
}

impl PlacedPod {
    pub(super) fn of(pod: &Pod, node: NodeId, match_class: Arc<MatchClass>) -> Self {
        Self {
            uid: pod.uid.clone(),
            key: pod.key.clone(),
            node,
            usage: pod.usage.clone(),
            match_class,
            volumes: pod.volumes.clone(),
            priority: pod.priority,
            started: pod.started_unix_us.unwrap_or(0),
            is_started: pod.started_unix_us.is_some(),
            scheduler_name: pod.scheduler_name.clone(),
            is_static: pod.is_static,
            preempted: pod.preempted,
            chosen_by_other: false,
        }
    }

    /// `status.startTime` in microseconds of Unix time; `None` before its kubelet took it up.
    pub fn started_unix_us(&self) -> Option<i64> {
        self.is_started.then_some(self.started)
    }

    /// Whether it has a deletionTimestamp.
    pub fn is_terminating(&self) -> bool {
        self.match_class.terminating
    }
}

/// The pods on each node, for whoever must look at them one by one.
#[derive(Debug, Default)]
pub(super) struct PodsOnNode {
    by_row: Vec<Vec<Arc<PlacedPod>>>,
    /// The lowest priority on each row, `i32::MAX` where there is no pod.
    lowest: Vec<i32>,
    /// How often a pod came to each row, left it or changed there.
    revisions: Vec<u32>,
    /// How many pods there are of each priority, on all rows.
    by_priority: BTreeMap<i32, usize>,
}

impl PodsOnNode {
    /// The order means nothing beyond being the same for the same history.
    pub(super) fn on(&self, node: NodeId) -> &[Arc<PlacedPod>] {
        self.by_row.get(node.index()).map_or(&[], Vec::as_slice)
    }

    pub(super) fn lowest_priority(&self, node: NodeId) -> i32 {
        self.lowest.get(node.index()).copied().unwrap_or(i32::MAX)
    }

    /// As long as it stays, so do the node's pods and their order.
    pub(super) fn revision(&self, node: NodeId) -> u32 {
        self.revisions.get(node.index()).copied().unwrap_or_default()
    }

    fn touch(&mut self, row: usize) {
        self.revisions[row] = self.revisions[row].wrapping_add(1);
    }

    /// The lowest priority of all pods, `i32::MAX` where there is none.
    pub(super) fn lowest_of_all(&self) -> i32 {
        self.by_priority.keys().next().copied().unwrap_or(i32::MAX)
    }

    /// How many pods there are on all nodes. O(nodes).
    pub(super) fn len(&self) -> usize {
        self.by_row.iter().map(Vec::len).sum()
    }

    pub(super) fn add(&mut self, placed: &Arc<PlacedPod>) {
        let row = placed.node.index();
        if self.by_row.len() <= row {
            self.by_row.resize_with(row + 1, Vec::new);
            self.lowest.resize(row + 1, i32::MAX);
            self.revisions.resize(row + 1, 0);
        }
        self.by_row[row].push(placed.clone());
        self.touch(row);
        self.note_priority(placed.node, placed.priority);
    }

    pub(super) fn remove(&mut self, placed: &PlacedPod) {
        if let Some(at) = self.position(placed) {
            let removed = self.by_row[placed.node.index()].swap_remove(at);
            self.touch(placed.node.index());
            self.forget_priority(placed.node, removed.priority);
        }
    }

    /// Puts `placed` in the place of what was known of the same pod on the same node. O(pods of the node).
    pub(super) fn replace(&mut self, placed: &Arc<PlacedPod>) {
        if let Some(at) = self.position(placed) {
            let row = placed.node.index();
            let before = std::mem::replace(&mut self.by_row[row][at], placed.clone());
            self.touch(row);
            if before.priority != placed.priority {
                self.note_priority(placed.node, placed.priority);
                self.forget_priority(placed.node, before.priority);
            }
        }
    }

    fn note_priority(&mut self, node: NodeId, priority: i32) {
        let lowest = &mut self.lowest[node.index()];
        *lowest = (*lowest).min(priority);
        *self.by_priority.entry(priority).or_insert(0) += 1;
    }

    /// A pod of this priority is no longer on the node. O(pods of the node) where it was the lowest.
    fn forget_priority(&mut self, node: NodeId, priority: i32) {
        let row = node.index();
        if let Entry::Occupied(mut pods) = self.by_priority.entry(priority) {
            *pods.get_mut() -= 1;
            if *pods.get() == 0 {
                pods.remove();
            }
        }
        if priority == self.lowest[row] {
            self.lowest[row] = self.by_row[row].iter().map(|one| one.priority).min().unwrap_or(i32::MAX);
        }
    }

    fn position(&self, placed: &PlacedPod) -> Option<usize> {
        self.on(placed.node).iter().position(|one| one.uid == placed.uid)
    }
}

/// Where a look at all placed pods goes on. It begins with the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlacedFrom {
    row: usize,
    /// How many pods of that row were shown.
    shown: usize,
}

impl Ledger {
    /// Shows the next some thousand of the pods on nodes that exist, in an order that means nothing. Returns where to go on; `None`: these
    /// were the last. What was there all the while is shown once, as long as no other pod leaves its node meanwhile: those of a node
    /// have no order that stays.
    pub fn some_placed_pods(&self, from: PlacedFrom, mut show: impl FnMut(&PlacedPod)) -> Option<PlacedFrom> {
        let mut left = PODS_PER_HOLD;
        for node in self.nodes.all_rows().skip(from.row) {
            let row = node.index();
            let pods = if self.nodes.present[row] { self.pods_on(node) } else { &[] };
            let shown = if row == from.row { from.shown.min(pods.len()) } else { 0 };
            let until = pods.len().min(shown + left);
            pods[shown..until].iter().for_each(|placed| show(placed));
            if until < pods.len() || left == 0 {
                return Some(PlacedFrom { row, shown: until });
            }
            // A node without pods takes time, too.
            left = left.saturating_sub((until - shown).max(1));
        }
        None
    }
}
