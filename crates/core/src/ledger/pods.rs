use super::keyed::HashKey;
use super::names::Names;
use super::parted::Parted;
use super::strays::Strays;
use super::{Change, Ledger, MatchClass, NodeId, PlacedPod};
use crate::limits::PODS_PER_HOLD;
use crate::model::{Pod, PodKey, Str, Usage, VolumeWrites};
use rustc_hash::FxHasher;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

/// Where a pod is in its life, as the ledger knows it.
#[derive(Debug, Clone)]
pub enum PodState {
    Pending(Arc<Pod>),
    /// Decided by a commit of this ledger, not yet seen bound.
    Assumed {
        /// The pod as last seen, still without a node.
        pod: Arc<Pod>,
        placed: Arc<PlacedPod>,
        /// What must be written to its claims before it can be bound; `None` where they are all bound.
        volumes: Option<Arc<VolumeWrites>>,
        /// Whether it has ResourceClaims, which are written before it is bound.
        has_claims: bool,
        /// Whether its claims are still being bound: then the assumption can be undone without asking the API server.
        waits: bool,
    },
    Bound(Arc<PlacedPod>),
}

impl PodState {
    pub fn key(&self) -> &PodKey {
        match self {
            Self::Pending(pod) | Self::Assumed { pod, .. } => &pod.key,
            Self::Bound(placed) => &placed.key,
        }
    }

    pub fn scheduler_name(&self) -> &Str {
        match self {
            Self::Pending(pod) | Self::Assumed { pod, .. } => &pod.scheduler_name,
            Self::Bound(placed) => &placed.scheduler_name,
        }
    }

    /// The pod as it is on its node; `None` while it is pending.
    pub fn placed(&self) -> Option<&Arc<PlacedPod>> {
        match self {
            Self::Pending(_) => None,
            Self::Assumed { placed, .. } | Self::Bound(placed) => Some(placed),
        }
    }
}

/// By uid. API servers draw uids at random.
type States = Parted<Str, PodState, BuildHasherDefault<FxHasher>>;

/// Every pod that is on a node or waits for one, by uid.
#[derive(Debug)]
pub(super) struct PodTable {
    pub(super) states: States,
    names: Names,
    pub(super) strays: Strays,
}

impl PodTable {
    pub(super) fn new(key: &HashKey) -> Self {
        Self {
            states: Parted::with_hasher(BuildHasherDefault::default()),
            names: Names::new(key),
            strays: Strays::new(key),
        }
    }

    /// A pod of another uid has the name no more: the caller has deleted it.
    pub(super) fn insert(&mut self, uid: Str, state: PodState) {
        let key = state.key().clone();
        let before = self.states.insert(uid.clone(), state);
        if let Some(before) = &before {
            if *before.key() == key {
                return;
            }
            self.names.remove(before.key(), &uid);
        }
        self.name(&key, &uid);
    }

    /// The pod `uid`, which is known, has the name `key`.
    fn name(&mut self, key: &PodKey, uid: &Str) {
        let Self { states, names, strays } = self;
        names.insert(key, uid, |other| key_of(states, strays, other) == Some(key));
    }

    /// The uid of another pod that has the name of `pod`.
    fn namesake(&self, pod: &Pod) -> Option<&Str> {
        let has_name = |uid: &str| key_of(&self.states, &self.strays, uid) == Some(&pod.key);
        self.names.other(&pod.key, &pod.uid, has_name)
    }

    fn remove(&mut self, uid: &str) -> Option<PodState> {
        let state = self.states.remove(uid)?;
        self.names.remove(state.key(), uid);
        Some(state)
    }

    /// Whether each pod has its name, and nobody else one.
    pub(super) fn audit_names(&self) -> Result<(), String> {
        let known = self.states.iter().count() + self.strays.len();
        if self.names.len() != known {
            return Err(format!("{} names of {known} pods", self.names.len()));
        }
        let nameless = self.states.iter().find(|(uid, state)| !self.names.is_of(state.key(), uid));
        nameless.map_or(Ok(()), |(_, state)| Err(format!("pod {}: its name is not known", state.key())))
    }

    /// Keeps a bound pod that has no row until its node is seen.
    fn set_aside(&mut self, pod: &Pod, node: &Str) {
        self.strays.insert(pod, node);
        self.name(&pod.key, &pod.uid);
    }

    /// Returns whether the pod was set aside.
    fn drop_stray(&mut self, uid: &str) -> bool {
        let Some(pod) = self.strays.remove(uid) else { return false };
        self.names.remove(&pod.key, uid);
        true
    }
}

/// The name of a pod that is known, or set aside.
fn key_of<'p>(states: &'p States, strays: &'p Strays, uid: &str) -> Option<&'p PodKey> {
    states.get(uid).map(PodState::key).or_else(|| strays.key_of(uid))
}

/// Where a look at all pods goes on. It begins with the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PodsFrom(usize);

/// Whether a scheduler has a choice of nodes for this pod: a DaemonSet's pod names its node.
fn has_choice(pod: &Pod) -> bool {
    let mut terms = pod.shape.row.required_affinity.iter().flat_map(|required| &required.terms);
    !terms.any(|term| term.names.iter().any(|(wanted, _)| *wanted))
}

impl Ledger {
    pub fn pod(&self, uid: &str) -> Option<&PodState> {
        self.pods.states.get(uid)
    }

    /// Whether the pod is on a node: bound, or assumed for it.
    pub fn is_placed(&self, uid: &str) -> bool {
        self.pod(uid).is_some_and(|state| state.placed().is_some())
    }

    /// Whether the pod is kept: on a node, pending, or set aside until its node is seen.
    pub fn has_pod(&self, uid: &str) -> bool {
        self.pods.states.contains_key(uid) || self.pods.strays.has(uid)
    }

    /// Whether the watch has not shown all that was done here: a pod is assumed, or the eviction of one was asked for that does not
    /// terminate yet. O(pods), for the end of a process.
    pub fn is_ahead_of_watch(&self) -> bool {
        let is_assumed = |state: &PodState| matches!(state, PodState::Assumed { .. });
        self.pods.states.values().any(is_assumed)
            || self.is_deletion_unseen()
            || self.evicting().iter().any(|victim| !victim.is_terminating())
    }

    /// Shows the pending ones of the next some thousand pods, in an order that means nothing. Returns where to go on, also after the
    /// ledger has changed: what was pending all the while is shown once. `None`: these were the last.
    pub fn some_pending_pods(&self, from: PodsFrom, mut show: impl FnMut(&Arc<Pod>)) -> Option<PodsFrom> {
        let (PodsFrom(mut next), mut looked_at) = (from, 0);
        for part in self.pods.states.parts(next) {
            if looked_at >= PODS_PER_HOLD {
                return Some(PodsFrom(next));
            }
            next += 1;
            looked_at += part.len();
            for state in part {
                if let PodState::Pending(pod) = state {
                    show(pod);
                }
            }
        }
        None
    }

    /// The pending pods that are `wanted`, oldest first, then by name.
    #[cfg(test)]
    pub(crate) fn pending_pods(&self, wanted: impl Fn(&Pod) -> bool) -> Vec<Arc<Pod>> {
        let (mut pending, mut from) = (Vec::new(), Some(PodsFrom::default()));
        while let Some(at) = from {
            from = self.some_pending_pods(at, |pod| pending.extend(wanted(pod).then(|| pod.clone())));
        }
        super::oldest_first(&mut pending);
        pending
    }

    /// The pod may be new, changed, bound by us or by someone else, finished, or another pod of the same name.
    pub fn apply_pod(&mut self, mut pod: Pod) {
        self.look_for_unused();
        if let Some(uid) = self.pods.namesake(&pod).cloned() {
            self.delete_pod(&uid);
        }
        if pod.finished {
            self.delete_pod(&pod.uid);
            return;
        }
        self.evictions.put_answered(&mut pod);
        pod.usage = self.usages.intern(pod.usage);
        self.keep_topologies_of(&pod);
        match pod.node_name.clone() {
            Some(node) => self.apply_bound(&pod, &node),
            None => self.apply_pending(pod),
        }
    }

    /// What pods have in common goes some time after the last of them.
    fn look_for_unused(&mut self) {
        self.usages.sweep_some();
        self.shapes.sweep_some();
        self.rows.sweep_some();
        self.match_classes.sweep_some();
    }

    fn apply_pending(&mut self, mut pod: Pod) {
        self.share_shape(&mut pod);
        self.nominations.put_decided(&mut pod);
        let pod = Arc::new(pod);
        let before = match self.pods.states.get_mut(&pod.uid) {
            // Its bind is under way and only evidence ends that.
            Some(PodState::Assumed { pod: known, .. }) => {
                known.clone_from(&pod);
                return self.update_placed(&pod);
            }
            // No update unbinds a pod: this one is older than what was seen.
            Some(PodState::Bound(_)) => return,
            None if self.pods.strays.has(&pod.uid) => return,
            Some(PodState::Pending(known)) => Some(std::mem::replace(known, pod.clone())),
            None => {
                self.pods.insert(pod.uid.clone(), PodState::Pending(pod.clone()));
                None
            }
        };
        self.record_pending(&pod, before);
    }

    /// Equal shapes have one address from here on, and so have the equal parts that rows read.
    fn share_shape(&mut self, pod: &mut Pod) {
        pod.shape = self.shapes.intern_with(pod.shape.clone(), |shape| {
            let row = self.rows.intern(shape.row.clone());
            if !Arc::ptr_eq(&row, &shape.row) {
                Arc::make_mut(shape).row = row;
            }
        });
    }

    /// An assumed or bound pod changed, and what it takes follows the object. What a bound pod mounts cannot change.
    fn update_placed(&mut self, pod: &Pod) {
        let (known, is_bound) = match self.pods.states.get(&pod.uid) {
            Some(PodState::Assumed { placed, .. }) => (placed, false),
            Some(PodState::Bound(placed)) => (placed, true),
            Some(PodState::Pending(_)) | None => return,
        };
        let same_class = known.match_class.is_of(pod);
        let match_class = if same_class { known.match_class.clone() } else { self.match_classes.of(pod) };
        let mut seen = PlacedPod::of(pod, known.node, match_class);
        seen.chosen_by_other = known.chosen_by_other;
        if is_bound {
            seen.volumes.clone_from(&known.volumes);
        }
        self.replace_placed(seen);
    }

    /// Puts `seen` in the place of what was known of the same pod on the same node.
    pub(super) fn replace_placed(&mut self, seen: PlacedPod) {
        let Some(PodState::Assumed { placed: known, .. } | PodState::Bound(known)) =
            self.pods.states.get_mut(&seen.uid)
        else {
            return;
        };
        let seen = Arc::new(seen);
        let before = std::mem::replace(known, seen.clone());
        self.pods_on_node.replace(&seen);
        self.resize(seen.node, before.usage.clone(), seen.usage.clone());
        if before.volumes != seen.volumes {
            self.volumes.unmount(&before);
            self.volumes.mount(&seen);
        }
        self.regroup((&seen.uid, seen.node), &before.match_class, &seen.match_class);
    }

    fn resize(&mut self, node: NodeId, before: Arc<Usage>, after: Arc<Usage>) {
        if before == after {
            return;
        }
        self.nodes.change_use(node, Some(&before), Some(&after), self.pods_on_node.on(node));
        self.record(Some(node), Change::Resized { node, before, after });
    }

    fn regroup(&mut self, (pod, node): (&Str, NodeId), before: &Arc<MatchClass>, after: &Arc<MatchClass>) {
        if Arc::ptr_eq(before, after) {
            return;
        }
        self.match_classes.remove(before, node);
        self.match_classes.add(after, node);
        let change = Change::Regrouped { pod: pod.clone(), node, before: before.clone(), after: after.clone() };
        let version = self.record(None, change);
        self.terms.remove(before, node, version);
        self.terms.add(after, node, version);
    }

    /// Moves the nomination of a pending pod from where `before` has it to where `pod` has it, and records the change.
    pub(super) fn record_pending(&mut self, pod: &Arc<Pod>, before: Option<Arc<Pod>>) {
        if let Some(before) = before.as_deref().filter(|before| before.nominated_node.is_some()) {
            let moved = before.nominated_node != pod.nominated_node || before.priority != pod.priority;
            // A nominated pod of another shape may keep less from others.
            self.end_nomination(before, moved || !Arc::ptr_eq(&before.shape, &pod.shape));
        }
        let version = self.record(None, Change::PodPending { pod: pod.clone(), is_new: before.is_none() });
        self.nominations.add(pod, version);
    }

    /// Drops the nomination of `pod`, if it has one; says whether it had. `frees` says whether that may let other pods in:
    /// then it is a change of its own, else the caller's next change stands for it.
    pub(super) fn end_nomination(&mut self, pod: &Pod, frees: bool) -> bool {
        let removed = self.nominations.remove(pod);
        if removed && frees {
            let version = self.record(None, Change::NominationEnded { priority: pod.priority });
            self.nominations.touch(version);
        }
        removed
    }

    fn apply_bound(&mut self, pod: &Pod, node_name: &Str) {
        self.nominations.drop_decided(&pod.uid);
        self.pods.drop_stray(&pod.uid);
        let node = self.nodes.row_of_bound(node_name);
        let mut chosen_by_other = false;
        match self.pod(&pod.uid) {
            Some(PodState::Bound(known)) if Some(known.node) == node => return self.update_placed(pod),
            Some(PodState::Bound(_)) => self.free_pod(&pod.uid),
            Some(PodState::Assumed { placed, volumes, .. }) if Some(placed.node) == node => {
                let (placed, writes) = (placed.clone(), volumes.clone());
                return self.confirm(pod, placed, writes.as_deref());
            }
            Some(PodState::Assumed { pod: known, .. }) => {
                chosen_by_other = has_choice(known);
                let known = known.clone();
                self.free_pod(&pod.uid);
                self.record(None, Change::BoundElsewhere { pod: known, node: node_name.clone() });
            }
            Some(PodState::Pending(known)) => {
                chosen_by_other = has_choice(known);
                let known = known.clone();
                self.end_nomination(&known, true);
                self.evictions.end(&known.uid);
                self.record(None, Change::BoundElsewhere { pod: known, node: node_name.clone() });
            }
            None => {}
        }
        let Some(node) = node else {
            self.pods.remove(&pod.uid);
            return self.pods.set_aside(pod, node_name);
        };
        let match_class = self.match_classes.of(pod);
        let placed = Arc::new(PlacedPod { chosen_by_other, ..PlacedPod::of(pod, node, match_class) });
        self.place(&placed);
        self.pods.insert(pod.uid.clone(), PodState::Bound(placed));
    }

    /// The assumption was right. From now on the object seen counts: admission may have changed it on binding.
    fn confirm(&mut self, pod: &Pod, placed: Arc<PlacedPod>, writes: Option<&VolumeWrites>) {
        self.pods.states.insert(pod.uid.clone(), PodState::Bound(placed));
        self.record(None, Change::Confirmed { pod: pod.uid.clone() });
        self.release_volumes(&pod.uid, writes);
        self.update_placed(pod);
    }

    /// The watch shows that the pod was deleted.
    pub fn delete_pod(&mut self, uid: &str) {
        self.evictions.drop_answered(uid);
        self.drop_pod(uid);
    }

    /// The pod is gone, whether the watch shows it or not.
    pub(super) fn drop_pod(&mut self, uid: &str) {
        self.look_for_unused();
        self.nominations.drop_decided(uid);
        if self.pods.drop_stray(uid) {
            return;
        }
        match self.pods.states.get(uid) {
            Some(PodState::Pending(pod)) => {
                let pod = pod.clone();
                self.pods.remove(uid);
                self.end_nomination(&pod, true);
                self.evictions.end(uid);
                self.record(None, Change::PodDeleted { pod });
            }
            Some(PodState::Assumed { pod, .. }) => {
                let pod = pod.clone();
                self.free_pod(uid);
                self.record(None, Change::PodDeleted { pod });
            }
            Some(PodState::Bound(_)) => self.free_pod(uid),
            None => {}
        }
    }

    /// Counts what a pod takes from its node, on which it is assumed or bound from now on.
    pub(super) fn place(&mut self, placed: &Arc<PlacedPod>) -> u64 {
        let PlacedPod { node, match_class, .. } = &**placed;
        self.match_classes.add(match_class, *node);
        self.pods_on_node.add(placed);
        self.nodes.change_use(*node, None, Some(&placed.usage), self.pods_on_node.on(*node));
        self.volumes.mount(placed);
        let change = Change::PodPlaced { node: *node, match_class: match_class.clone() };
        let version = self.record(Some(*node), change);
        self.terms.add(match_class, *node, version);
        version
    }

    /// Frees what an assumed or bound pod takes from its node, and drops the pod.
    pub(super) fn free_pod(&mut self, uid: &str) {
        let placed = match self.pods.remove(uid) {
            Some(PodState::Bound(placed)) => placed,
            Some(PodState::Assumed { placed, volumes, .. }) => {
                self.release_volumes(uid, volumes.as_deref());
                placed
            }
            Some(PodState::Pending(_)) | None => return,
        };
        self.evictions.drop_victim(uid);
        let PlacedPod { node, usage, match_class, .. } = &*placed;
        self.volumes.unmount(&placed);
        self.match_classes.remove(match_class, *node);
        self.pods_on_node.remove(&placed);
        self.nodes.change_use(*node, Some(usage), None, self.pods_on_node.on(*node));
        let freed = Change::Freed { node: *node, usage: usage.clone(), match_class: match_class.clone() };
        let version = self.record(Some(*node), freed);
        self.terms.remove(match_class, *node, version);
        self.nodes.release_if_unused(*node);
    }
}
