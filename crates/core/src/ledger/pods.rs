use super::{Change, Ledger, MatchClass, NodeId, PlacedPod};
use crate::model::{Pod, PodKey, Str, Usage, VolumeWrites};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Where a pod is in its life, as the ledger knows it.
#[derive(Debug, Clone)]
pub enum PodState {
    /// Without a node.
    Pending(Arc<Pod>),
    /// Decided by a commit of this ledger, not yet seen bound.
    Assumed {
        /// The pod as last seen, still without a node.
        pod: Arc<Pod>,
        /// The room that it takes.
        placed: Arc<PlacedPod>,
        /// What it needs done to its claims before it can be bound; none where they are all bound.
        volumes: Option<Arc<VolumeWrites>>,
        /// Whether that is still under way, so that it can be taken back without asking the API server.
        waits: bool,
    },
    /// Seen bound.
    Bound(Arc<PlacedPod>),
}

impl PodState {
    /// Its namespace and name.
    pub fn key(&self) -> &PodKey {
        match self {
            Self::Pending(pod) | Self::Assumed { pod, .. } => &pod.key,
            Self::Bound(placed) => &placed.key,
        }
    }
}

/// Every pod that takes room or wants some, by uid.
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
    /// The state of the pod `uid`.
    pub fn pod(&self, uid: &str) -> Option<&PodState> {
        self.pods.states.get(uid)
    }

    /// The pending pods that are `wanted`, oldest first, then by name. O(pods), and sorts the wanted ones: for a worker that
    /// starts or lost its place in the log.
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

    /// Takes up a pod as seen, whatever was known of it: new, changed, bound by us or by someone else, finished.
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
                let (node, before) = (placed.node, std::mem::replace(known, pod.clone()));
                self.replace_assumed(node, &before, &pod);
                return;
            }
            // No update unbinds a pod; this one is older than what was seen.
            Some(PodState::Bound(_)) => return,
            Some(PodState::Pending(known)) => Some(std::mem::replace(known, pod.clone())),
            None => {
                self.pods.insert(pod.uid.clone(), PodState::Pending(pod.clone()));
                None
            }
        };
        self.renominate(before.as_deref(), &pod);
        self.log.push(Change::PodPending { pod, before });
    }

    /// An assumed pod changed: its bind is under way and only evidence ends that, but what it takes follows the object.
    fn replace_assumed(&mut self, node: NodeId, before: &Pod, now: &Pod) {
        self.resize(node, before.usage.clone(), now.usage.clone());
        if before.volumes != now.volumes {
            self.unmount(&before.uid, &before.key, before.volumes.as_ref(), node);
            self.mount(&now.uid, &now.key, now.volumes.as_ref(), node);
        }
        let fresh = self.match_classes.intern(MatchClass::of(now));
        let seen = Arc::new(PlacedPod::of(now, node, fresh));
        if let Some(PodState::Assumed { placed, .. }) = self.pods.states.get_mut(&now.uid) {
            let old = std::mem::replace(placed, seen.clone());
            self.regroup(node, old.match_class.clone(), seen.match_class.clone());
            self.residents.replace(&seen);
        }
    }

    /// A placed pod takes something else than before.
    fn resize(&mut self, node: NodeId, before: Arc<Usage>, after: Arc<Usage>) {
        if before == after {
            return;
        }
        self.nodes.take(node, &before, -1);
        self.nodes.take(node, &after, 1);
        let version = self.log.push(Change::Resized { node, before, after });
        self.nodes.version[node.index()] = version;
    }

    /// Others see something else of a placed pod than before.
    fn regroup(&mut self, node: NodeId, before: Arc<MatchClass>, after: Arc<MatchClass>) {
        if Arc::ptr_eq(&before, &after) {
            return;
        }
        self.match_classes.remove(&before, node);
        self.match_classes.add(&after, node);
        let version = self.log.version() + 1;
        self.terms.remove(&before, node, version);
        self.terms.add(&after, node, version);
        self.log.push(Change::Regrouped { node, before, after });
    }

    pub(super) fn renominate(&mut self, before: Option<&Pod>, pod: &Arc<Pod>) {
        let old = before.and_then(|b| b.nominated_node.as_ref());
        let unchanged = old == pod.nominated_node.as_ref() && before.is_some_and(|b| b.priority == pod.priority);
        if unchanged && old.is_none() {
            return;
        }
        if let Some(before) = before.filter(|b| b.nominated_node.is_some()) {
            // Another shape keeps others from less, maybe.
            self.end_nomination(before, !unchanged || !Arc::ptr_eq(&before.shape, &pod.shape));
        }
        if pod.nominated_node.is_some() {
            self.nominations.add(pod, self.log.version() + 1);
        }
    }

    pub(super) fn end_nomination(&mut self, pod: &Pod, tell: bool) {
        let removed = self.nominations.remove(pod, self.log.version() + 1);
        if removed && tell {
            self.log.push(Change::NominationEnded { priority: pod.priority });
        }
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
                self.log.push(Change::BoundElsewhere { pod: known, node: node_name.clone() });
            }
            Some(PodState::Pending(known)) => {
                let known = known.clone();
                self.end_nomination(&known, true);
                self.evictions.end(&known.uid);
                self.log.push(Change::BoundElsewhere { pod: known, node: node_name.clone() });
            }
            None => {}
        }
        let match_class = self.match_classes.intern(MatchClass::of(pod));
        let placed = Arc::new(PlacedPod::of(pod, node, match_class));
        self.place(&placed);
        self.mount(&pod.uid, &pod.key, pod.volumes.as_ref(), node);
        self.pods.insert(pod.uid.clone(), PodState::Bound(placed));
    }

    /// What was assumed is true: from now on the object seen counts (admission may have changed it on binding).
    fn confirm(&mut self, pod: &Pod, node: NodeId) {
        let (placed, writes) = match self.pods.states.get(&pod.uid) {
            Some(PodState::Assumed { placed, volumes, .. }) => (placed.clone(), volumes.clone()),
            _ => return,
        };
        self.pods.states.insert(pod.uid.clone(), PodState::Bound(placed));
        self.log.push(Change::Confirmed { uid: pod.uid.clone() });
        self.release_volumes(&pod.uid, writes.as_ref());
        self.update_bound(pod, node);
    }

    /// A bound pod changed. What it mounts cannot.
    fn update_bound(&mut self, pod: &Pod, node: NodeId) {
        let fresh = self.match_classes.intern(MatchClass::of(pod));
        let Some(PodState::Bound(known)) = self.pods.states.get_mut(&pod.uid) else {
            return;
        };
        let seen = Arc::new(PlacedPod { volumes: known.volumes.clone(), ..PlacedPod::of(pod, node, fresh) });
        let old = std::mem::replace(known, seen.clone());
        self.residents.replace(&seen);
        self.resize(node, old.usage.clone(), seen.usage.clone());
        self.regroup(node, old.match_class.clone(), seen.match_class.clone());
    }

    /// Drops the pod `uid`: deleted, finished, or not there any more at a re-read.
    pub fn delete_pod(&mut self, uid: &str) {
        self.nominations.drop_decided(uid);
        match self.pods.states.get(uid) {
            Some(PodState::Pending(pod)) => {
                let pod = pod.clone();
                self.pods.remove(uid);
                self.end_nomination(&pod, true);
                self.evictions.end(uid);
                self.log.push(Change::PodGone { pod });
            }
            Some(PodState::Assumed { pod, .. }) => {
                let pod = pod.clone();
                self.free_pod(uid);
                self.log.push(Change::PodGone { pod });
            }
            Some(PodState::Bound(_)) => self.free_pod(uid),
            None => {}
        }
    }

    /// Drops every pod that is not in `uids`: the end of a re-read.
    ///
    /// An assumed pod that was not seen goes as well: it is not there, so its bind cannot land.
    pub fn retain_pods(&mut self, uids: &FxHashSet<Str>) {
        let mut gone: Vec<Str> = self.pods.states.keys().filter(|u| !uids.contains(*u)).cloned().collect();
        gone.sort_unstable();
        for uid in gone {
            self.delete_pod(&uid);
        }
    }

    /// Takes room on a node.
    pub(super) fn place(&mut self, placed: &Arc<PlacedPod>) -> u64 {
        let PlacedPod { node, match_class, .. } = &**placed;
        self.nodes.take(*node, &placed.usage, 1);
        self.match_classes.add(match_class, *node);
        self.residents.add(placed);
        let version = self.log.push(Change::Placed { node: *node, match_class: match_class.clone() });
        self.nodes.version[node.index()] = version;
        self.terms.add(match_class, *node, version);
        version
    }

    /// Gives back the room that an assumed or bound pod takes, and forgets the pod.
    pub(super) fn free_pod(&mut self, uid: &str) {
        let placed = match self.pods.remove(uid) {
            Some(PodState::Bound(placed)) => placed,
            Some(PodState::Assumed { placed, volumes, .. }) => {
                self.release_volumes(uid, volumes.as_ref());
                placed
            }
            Some(PodState::Pending(_)) | None => return,
        };
        self.evictions.gone(uid);
        let PlacedPod { node, usage, match_class, .. } = &*placed;
        self.unmount(uid, &placed.key, placed.volumes.as_ref(), *node);
        self.nodes.take(*node, usage, -1);
        self.match_classes.remove(match_class, *node);
        self.residents.remove(&placed);
        let version = self.log.version() + 1;
        self.terms.remove(match_class, *node, version);
        self.log.push(Change::Freed { node: *node, usage: usage.clone(), match_class: match_class.clone() });
        self.nodes.version[node.index()] = version;
        self.nodes.release_if_unused(*node);
    }

    pub(super) fn set_state(&mut self, uid: Str, state: PodState) {
        self.pods.insert(uid, state);
    }
}
