use super::{Change, Ledger, MatchClass, NodeId, PlacedPod, unseen};
use crate::model::{Pod, PodKey, Str, Usage, VolumeWrites};
use rustc_hash::{FxHashMap, FxHashSet};
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
}

/// Every pod that is on a node or waits for one, by uid.
#[derive(Debug, Default)]
pub(super) struct PodTable {
    pub(super) states: FxHashMap<Str, PodState>,
    by_key: FxHashMap<PodKey, Str>,
}

impl PodTable {
    fn insert(&mut self, uid: Str, state: PodState) {
        self.by_key.insert(state.key().clone(), uid.clone());
        self.states.insert(uid, state);
    }

    fn remove(&mut self, uid: &str) -> Option<PodState> {
        let state = self.states.remove(uid)?;
        if self.by_key.get(state.key()).is_some_and(|u| &**u == uid) {
            self.by_key.remove(state.key());
        }
        Some(state)
    }
}

impl Ledger {
    pub fn pod(&self, uid: &str) -> Option<&PodState> {
        self.pods.states.get(uid)
    }

    /// The pending pods that are `wanted`, oldest first, then by name. O(pods), and sorts the wanted ones: for a worker that
    /// starts or whose cursor is older than the log.
    pub fn pending_pods(&self, wanted: impl Fn(&Pod) -> bool) -> Vec<Arc<Pod>> {
        let mut pending: Vec<Arc<Pod>> = self
            .pods
            .states
            .values()
            .filter_map(|state| match state {
                PodState::Pending(pod) if wanted(pod) => Some(pod.clone()),
                _ => None,
            })
            .collect();
        pending.sort_by(|a, b| (a.created_unix_us, &a.key).cmp(&(b.created_unix_us, &b.key)));
        pending
    }

    /// The pod may be new, changed, bound by us or by someone else, finished, or another pod of the same name.
    pub fn apply_pod(&mut self, mut pod: Pod) {
        if let Some(uid) = self.pods.by_key.get(&pod.key).filter(|uid| **uid != pod.uid).cloned() {
            self.delete_pod(&uid);
        }
        if pod.finished {
            self.delete_pod(&pod.uid);
            return;
        }
        pod.usage = self.usages.intern(pod.usage);
        self.keep_topologies_of(&pod);
        match pod.node_name.clone() {
            Some(node) => self.apply_bound(&pod, &node),
            None => self.apply_pending(pod),
        }
    }

    fn apply_pending(&mut self, mut pod: Pod) {
        pod.shape = self.shapes.intern(pod.shape);
        self.nominations.put_decided(&mut pod);
        let pod = Arc::new(pod);
        let before = match self.pods.states.get_mut(&pod.uid) {
            Some(PodState::Assumed { pod: known, placed, .. }) => {
                let node = placed.node;
                let before = std::mem::replace(known, pod.clone());
                self.replace_assumed(node, &before, &pod);
                return;
            }
            // No update unbinds a pod: this one is older than what was seen.
            Some(PodState::Bound(_)) => return,
            Some(PodState::Pending(known)) => Some(std::mem::replace(known, pod.clone())),
            None => {
                self.pods.insert(pod.uid.clone(), PodState::Pending(pod.clone()));
                None
            }
        };
        self.record_pending(&pod, before);
    }

    /// An assumed pod changed: its bind is under way and only evidence ends that, but what it takes follows the object.
    fn replace_assumed(&mut self, node: NodeId, before: &Pod, now: &Pod) {
        self.resize(node, before.usage.clone(), now.usage.clone());
        if before.volumes != now.volumes {
            self.volumes.unmount(&before.uid, &before.key, before.volumes.as_ref(), node);
            self.volumes.mount(&now.uid, &now.key, now.volumes.as_ref(), node);
        }
        let fresh = self.match_classes.intern(MatchClass::of(now));
        let seen = Arc::new(PlacedPod::of(now, node, fresh));
        if let Some(PodState::Assumed { placed, .. }) = self.pods.states.get_mut(&now.uid) {
            let old = std::mem::replace(placed, seen.clone());
            self.regroup(node, &old.match_class, &seen.match_class);
            self.pods_on_node.replace(&seen);
        }
    }

    fn resize(&mut self, node: NodeId, before: Arc<Usage>, after: Arc<Usage>) {
        if before == after {
            return;
        }
        self.nodes.take(node, &before, -1);
        self.nodes.take(node, &after, 1);
        self.record(Some(node), Change::Resized { node, before, after });
    }

    fn regroup(&mut self, node: NodeId, before: &Arc<MatchClass>, after: &Arc<MatchClass>) {
        if Arc::ptr_eq(before, after) {
            return;
        }
        self.match_classes.remove(before, node);
        self.match_classes.add(after, node);
        let version = self.record(None, Change::Regrouped { node, before: before.clone(), after: after.clone() });
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
        let version = self.record(None, Change::PodPending { pod: pod.clone(), before });
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
        let node = self.nodes.row(node_name);
        match self.pods.states.get(&pod.uid) {
            Some(PodState::Bound(known)) if known.node == node => {
                self.update_bound(pod, node);
                return;
            }
            Some(PodState::Bound(_)) => self.free_pod(&pod.uid),
            Some(PodState::Assumed { placed, .. }) if placed.node == node => {
                self.confirm(pod, node);
                return;
            }
            Some(PodState::Assumed { pod: known, .. }) => {
                let known = known.clone();
                self.free_pod(&pod.uid);
                self.record(None, Change::BoundElsewhere { pod: known, node: node_name.clone() });
            }
            Some(PodState::Pending(known)) => {
                let known = known.clone();
                self.end_nomination(&known, true);
                self.evictions.end(&known.uid);
                self.record(None, Change::BoundElsewhere { pod: known, node: node_name.clone() });
            }
            None => {}
        }
        let match_class = self.match_classes.intern(MatchClass::of(pod));
        let placed = Arc::new(PlacedPod::of(pod, node, match_class));
        self.place(&placed);
        self.volumes.mount(&pod.uid, &pod.key, pod.volumes.as_ref(), node);
        self.pods.insert(pod.uid.clone(), PodState::Bound(placed));
    }

    /// The assumption was right. From now on the object seen counts: admission may have changed it on binding.
    fn confirm(&mut self, pod: &Pod, node: NodeId) {
        let (placed, writes) = match self.pods.states.get(&pod.uid) {
            Some(PodState::Assumed { placed, volumes, .. }) => (placed.clone(), volumes.clone()),
            _ => return,
        };
        self.pods.states.insert(pod.uid.clone(), PodState::Bound(placed));
        self.record(None, Change::Confirmed);
        self.release_volumes(&pod.uid, writes.as_ref());
        self.update_bound(pod, node);
    }

    /// A bound pod changed. What it mounts cannot change.
    fn update_bound(&mut self, pod: &Pod, node: NodeId) {
        let fresh = self.match_classes.intern(MatchClass::of(pod));
        let Some(PodState::Bound(known)) = self.pods.states.get_mut(&pod.uid) else {
            return;
        };
        let seen = Arc::new(PlacedPod { volumes: known.volumes.clone(), ..PlacedPod::of(pod, node, fresh) });
        let old = std::mem::replace(known, seen.clone());
        self.pods_on_node.replace(&seen);
        self.resize(node, old.usage.clone(), seen.usage.clone());
        self.regroup(node, &old.match_class, &seen.match_class);
    }

    pub fn delete_pod(&mut self, uid: &str) {
        self.nominations.drop_decided(uid);
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

    /// An assumed pod that was not seen is deleted as well: it does not exist, so its bind cannot land.
    pub fn retain_pods(&mut self, uids: &FxHashSet<Str>) {
        for uid in unseen(self.pods.states.keys(), uids) {
            self.delete_pod(&uid);
        }
    }

    pub(super) fn place(&mut self, placed: &Arc<PlacedPod>) -> u64 {
        let PlacedPod { node, match_class, .. } = &**placed;
        self.nodes.take(*node, &placed.usage, 1);
        self.match_classes.add(match_class, *node);
        self.pods_on_node.add(placed);
        let placed = Change::PodPlaced { node: *node, match_class: match_class.clone() };
        let version = self.record(Some(*node), placed);
        self.terms.add(match_class, *node, version);
        version
    }

    /// Frees what an assumed or bound pod takes from its node, and drops the pod.
    pub(super) fn free_pod(&mut self, uid: &str) {
        let placed = match self.pods.remove(uid) {
            Some(PodState::Bound(placed)) => placed,
            Some(PodState::Assumed { placed, volumes, .. }) => {
                self.release_volumes(uid, volumes.as_ref());
                placed
            }
            Some(PodState::Pending(_)) | None => return,
        };
        self.evictions.drop_victim(uid);
        let PlacedPod { node, usage, match_class, .. } = &*placed;
        self.volumes.unmount(uid, &placed.key, placed.volumes.as_ref(), *node);
        self.nodes.take(*node, usage, -1);
        self.match_classes.remove(match_class, *node);
        self.pods_on_node.remove(&placed);
        let freed = Change::Freed { node: *node, usage: usage.clone(), match_class: match_class.clone() };
        let version = self.record(Some(*node), freed);
        self.terms.remove(match_class, *node, version);
        self.nodes.release_if_unused(*node);
    }

    pub(super) fn set_state(&mut self, uid: Str, state: PodState) {
        self.pods.insert(uid, state);
    }
}
