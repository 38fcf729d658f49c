use super::turns::Call;
use super::{Entry, Slot};
use crate::cycle::Diagnosis;
use crate::model::{PodShape, Time};
use crate::plugins::PluginSet;
use crate::profile::QueueTimes;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What unschedulable pods have in common that the same changes of nodes may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupKey {
    rejectors: PluginSet,
    /// The address of the row shape, which the group keeps alive. It is compared, never followed.
    row: usize,
    priority: i32,
    preempts: bool,
    is_nominated: bool,
}

impl GroupKey {
    pub(super) fn of(entry: &Entry) -> Self {
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
    /// By turn. A group without pods is there as long as one is queued to be tried for all.
    pods: BTreeMap<u64, Slot>,
    /// The turns by [`Entry::own_tries`].
    by_own_tries: BTreeSet<(i64, u64)>,
    /// Since when each of them has had the words that its last attempt ended with.
    worded_at: Time,
    /// The newest of the ledger's versions at which no pod of the group fitted any node.
    refused_at: u64,
    /// How often one of them was refused for all, and when last.
    pub(super) tries: u32,
    pub(super) tried_at: Time,
    /// How the last of them was refused.
    said: Option<Arc<Diagnosis>>,
    /// Whether some of them were refused in other words than the last.
    is_outdated: bool,
    pub(super) call: Option<Call>,
}

impl Group {
    fn new(key: GroupKey, entry: &Entry) -> Self {
        let shape = PodShape { row: entry.pod.shape.row.clone(), ..PodShape::default() };
        Self {
            shape: Arc::new(shape),
            key,
            pods: BTreeMap::new(),
            by_own_tries: BTreeSet::new(),
            worded_at: entry.since,
            refused_at: 0,
            tries: 0,
            tried_at: Time::ZERO,
            said: None,
            is_outdated: false,
            call: None,
        }
    }

    pub const fn key(&self) -> GroupKey {
        self.key
    }

    /// The newest of the ledger's versions at which no pod of the group fitted any node, as far as is known: older changes cannot help.
    pub const fn refused_at(&self) -> u64 {
        self.refused_at
    }

    pub(super) fn is_due(&self, now: Time, times: &QueueTimes) -> bool {
        let age = now.since(self.worded_at);
        age >= times.max_unschedulable || self.is_outdated && age >= times.max_backoff
    }

    /// Each pod is tried now.
    pub(super) const fn renew(&mut self, now: Time) {
        self.worded_at = now;
        self.is_outdated = false;
    }

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

    /// In the order of their turns, which is that in which the pods were refused first.
    pub(super) fn pods(&self) -> impl Iterator<Item = Slot> {
        self.pods.values().copied()
    }

    /// A pod that was tried the least, or last: of all backoffs its own ends first.
    pub(super) fn least_tried(&self) -> Option<Slot> {
        let (_, turn) = self.by_own_tries.first()?;
        self.pods.get(turn).copied()
    }

    /// A pod was refused at `version`, as each other one would have been.
    pub(super) fn note_refused(&mut self, version: u64, diagnosis: &Arc<Diagnosis>) {
        self.refused_at = self.refused_at.max(version);
        self.is_outdated |= self.said.as_ref().is_some_and(|said| !said.says_the_same(diagnosis));
        self.said = Some(diagnosis.clone());
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

    /// The group that the pod belongs to. One that is made for it is dropped when its last pod is removed.
    pub(super) fn group_of(&mut self, entry: &Entry) -> &mut Group {
        let key = GroupKey::of(entry);
        self.groups.entry(key).or_insert_with(|| Group::new(key, entry))
    }

    pub(super) fn insert(&mut self, entry: &mut Entry) {
        let group = self.group_of(entry);
        entry.tries = group.tries;
        group.by_own_tries.insert((entry.own_tries(), entry.turn));
        let is_new = group.pods.insert(entry.turn, entry.slot).is_none();
        self.len += usize::from(is_new);
    }

    /// `entry` is as it was inserted, or has caught up with its group.
    pub(super) fn remove(&mut self, entry: &Entry) {
        let key = GroupKey::of(entry);
        let Some(group) = self.groups.get_mut(&key) else { return };
        group.by_own_tries.remove(&(entry.own_tries(), entry.turn));
        self.len -= usize::from(group.pods.remove(&entry.turn).is_some());
        self.drop_if_over(&key);
    }

    /// Ends the call of the group, and gives the pod that is queued to speak.
    pub(super) fn end_call(&mut self, key: &GroupKey) -> Option<Slot> {
        let call = self.groups.get_mut(key)?.call.take()?;
        self.drop_if_over(key);
        call.speaker
    }

    fn drop_if_over(&mut self, key: &GroupKey) {
        if self.groups.get(key).is_some_and(|group| group.pods.is_empty() && group.call.is_none()) {
            self.groups.remove(key);
        }
    }

    pub(super) fn get(&self, key: &GroupKey) -> Option<&Group> {
        self.groups.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &GroupKey) -> Option<&mut Group> {
        self.groups.get_mut(key)
    }

    /// In an order that means nothing, and differs from process to process.
    pub(super) fn groups(&self) -> impl ExactSizeIterator<Item = &Group> {
        self.groups.values()
    }
}
