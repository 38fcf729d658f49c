use super::Entry;
use crate::model::{PodShape, Str};
use crate::plugins::PluginSet;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What unschedulable pods have in common that the same changes of nodes may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct GroupKey {
    rejectors: PluginSet,
    /// The address of the row shape, which the group keeps alive. It is compared, never followed.
    row: usize,
    priority: i32,
    preempts: bool,
    is_nominated: bool,
}

impl GroupKey {
    fn of(entry: &Entry) -> Self {
        let pod = &entry.pod;
        Self {
            rejectors: entry.rejectors,
            row: Arc::as_ptr(&pod.shape.row) as usize,
            priority: pod.priority,
            preempts: pod.preempts,
            is_nominated: pod.nominated_node.is_some(),
        }
    }
}

/// Unschedulable pods about which a node's own filters are one question.
#[derive(Debug)]
pub struct Group {
    /// What rows read of them, and nothing else.
    shape: Arc<PodShape>,
    key: GroupKey,
    /// The uids by arrival.
    pods: BTreeMap<u64, Str>,
}

impl Group {
    /// A shape with the row shape of its pods, and nothing else.
    pub fn shape(&self) -> &Arc<PodShape> {
        &self.shape
    }

    /// The plugins that refused them last.
    pub fn rejectors(&self) -> PluginSet {
        self.key.rejectors
    }

    pub fn priority(&self) -> i32 {
        self.key.priority
    }

    /// Whether they may evict others.
    pub fn preempts(&self) -> bool {
        self.key.preempts
    }

    /// Whether they keep room on a node, which they give back where another attempt finds that it helps no more.
    pub fn is_nominated(&self) -> bool {
        self.key.is_nominated
    }

    /// The uids, in the order in which the pods came.
    pub fn pods(&self) -> impl Iterator<Item = &Str> {
        self.pods.values()
    }
}

/// The unschedulable pods in groups, so that a change costs nothing for those that it cannot help.
#[derive(Debug, Default)]
pub(super) struct Unschedulable {
    groups: FxHashMap<GroupKey, Group>,
    len: usize,
}

impl Unschedulable {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn insert(&mut self, entry: &Entry) {
        let key = GroupKey::of(entry);
        let group = self.groups.entry(key).or_insert_with(|| {
            let shape = PodShape { row: entry.pod.shape.row.clone(), ..PodShape::default() };
            Group { shape: Arc::new(shape), key, pods: BTreeMap::new() }
        });
        self.len += usize::from(group.pods.insert(entry.arrival, entry.pod.uid.clone()).is_none());
    }

    /// `entry` is as it was inserted.
    pub(super) fn remove(&mut self, entry: &Entry) {
        let key = GroupKey::of(entry);
        let Some(group) = self.groups.get_mut(&key) else { return };
        self.len -= usize::from(group.pods.remove(&entry.arrival).is_some());
        if group.pods.is_empty() {
            self.groups.remove(&key);
        }
    }

    /// In an order that means nothing, and differs from process to process.
    pub(super) fn groups(&self) -> impl ExactSizeIterator<Item = &Group> {
        self.groups.values()
    }
}
