use super::keyed::{HashKey, KeyedMap};
use super::{Ledger, PodState};
use crate::model::{Pod, Str};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A nomination decided here, which counts until the pod's object reports something new.
#[derive(Debug, Clone)]
struct Decided {
    node: Option<Str>,
    /// The nominated node that the object reported when this was decided.
    reported: Option<Str>,
}

/// Pending pods by their nominated node. After `pkg/scheduler/backend/queue/nominator.go`.
#[derive(Debug, Default)]
pub struct Nominations {
    by_node: KeyedMap<Str, Vec<Arc<Pod>>>,
    version: u64,
    /// How often a pod was added or removed.
    revision: u64,
    decided: FxHashMap<Str, Decided>,
}

impl Nominations {
    pub(super) fn new(key: &HashKey) -> Self {
        Self { by_node: key.map(), ..Self::default() }
    }

    /// The version of the last change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// As long as it stays, so do all nominated pods.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    pub fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }

    /// The pods nominated to the node `name`, in the order of their uids.
    pub fn on(&self, name: &str) -> &[Arc<Pod>] {
        self.by_node.get(name).map_or(&[], Vec::as_slice)
    }

    /// The names of the nodes with nominated pods, in an order that means nothing.
    pub fn nodes(&self) -> impl Iterator<Item = &Str> {
        self.by_node.keys()
    }

    /// In an order that means nothing.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.by_node.values().flatten()
    }

    pub(super) fn add(&mut self, pod: &Arc<Pod>, version: u64) {
        let Some(node) = &pod.nominated_node else {
            return;
        };
        let on_node = self.by_node.entry(node.clone()).or_default();
        let at = on_node.partition_point(|other| other.uid < pod.uid);
        on_node.insert(at, pod.clone());
        self.version = version;
        self.revision += 1;
    }

    pub(super) fn touch(&mut self, version: u64) {
        self.version = version;
    }

    /// Says whether the pod was there; the version is for the caller to [`touch`](Self::touch).
    pub(super) fn remove(&mut self, pod: &Pod) -> bool {
        let Some(node) = &pod.nominated_node else {
            return false;
        };
        let Some(on_node) = self.by_node.get_mut(node) else {
            return false;
        };
        let before = on_node.len();
        on_node.retain(|other| other.uid != pod.uid);
        let removed = on_node.len() < before;
        self.revision += u64::from(removed);
        if on_node.is_empty() {
            self.by_node.remove(node);
        }
        removed
    }

    /// Puts what was decided here in the place of what the pod's object reports, as long as the object reports nothing new.
    pub(super) fn put_decided(&mut self, pod: &mut Pod) {
        let Some(decided) = self.decided.get(&pod.uid) else { return };
        if decided.reported == pod.nominated_node {
            pod.nominated_node.clone_from(&decided.node);
        } else {
            self.decided.remove(&pod.uid);
        }
    }

    /// Nominates `pod` to `node`, or to none, until its object reports something new.
    pub(super) fn decide(&mut self, pod: &Pod, node: Option<Str>) {
        let reported =
            self.decided.remove(&pod.uid).map_or_else(|| pod.nominated_node.clone(), |decided| decided.reported);
        if reported != node {
            self.decided.insert(pod.uid.clone(), Decided { node, reported });
        }
    }

    /// The pod was bound or deleted.
    pub(super) fn drop_decided(&mut self, uid: &str) {
        self.decided.remove(uid);
    }

    /// How many pods have a decision that their object does not report yet.
    pub fn unreported(&self) -> usize {
        self.decided.len()
    }
}

impl Ledger {
    /// The pod as its object reports it: without a nomination decided here that the object does not report yet.
    pub fn as_reported(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        match self.nominations.decided.get(&pod.uid) {
            Some(decided) if decided.reported != pod.nominated_node => {
                Arc::new(Pod { nominated_node: decided.reported.clone(), ..Pod::clone(pod) })
            }
            _ => pod.clone(),
        }
    }

    /// The waiting pods with a nomination, here or in their object, that no profile of this process serves, as their objects report them;
    /// by uid.
    pub fn abandoned(&self) -> Vec<Arc<Pod>> {
        let here = self.nominations.pods().map(|pod| &pod.uid);
        let mut uids: Vec<&Str> = here.chain(self.nominations.decided.keys()).collect();
        uids.sort_unstable();
        uids.dedup();
        let nominated = |uid: &Str| {
            let pod = self.unserved(uid)?;
            let reported = self.as_reported(pod);
            (pod.nominated_node.is_some() || reported.nominated_node.is_some()).then_some(reported)
        };
        uids.into_iter().filter_map(nominated).collect()
    }

    /// The waiting pods whose nomination ended here while their objects still report it, as these report them, by uid; without those that no
    /// profile of this process serves. The write that ends it is under way, or failed.
    pub fn unreported_ends(&self) -> Vec<Arc<Pod>> {
        let ended = self.nominations.decided.iter().filter(|(_, decided)| decided.node.is_none());
        let served = |uid: &Str| match self.pod(uid)? {
            PodState::Pending(pod) if self.is_own_scheduler(&pod.scheduler_name) => Some(self.as_reported(pod)),
            _ => None,
        };
        let mut pods: Vec<_> = ended.filter_map(|(uid, _)| served(uid)).collect();
        pods.sort_unstable_by(|a, b| a.uid.cmp(&b.uid));
        pods
    }

    /// Nominates a pending pod, or ends its nomination, ahead of its object: from here on this counts for every worker. An
    /// object that reports something new overrides it. Returns the pod as it is then; `None` if it is not pending.
    pub fn nominate(&mut self, uid: &str, node: Option<Str>) -> Option<Arc<Pod>> {
        let Some(PodState::Pending(before)) = self.pod(uid) else { return None };
        let before = before.clone();
        if before.nominated_node == node {
            return Some(before);
        }
        self.nominations.decide(&before, node.clone());
        let pod = Arc::new(Pod { nominated_node: node, ..Pod::clone(&before) });
        self.pods.insert(pod.uid.clone(), PodState::Pending(pod.clone()));
        self.record_pending(&pod, Some(before));
        Some(pod)
    }
}

#[cfg(test)]
mod tests {
    use crate::ledger::{Ledger, PodState};
    use crate::model::Pod;
    use crate::testing::{pod, shape};

    fn reporting(node: Option<&str>) -> Pod {
        Pod { nominated_node: node.map(Into::into), ..pod("p", shape()) }
    }

    fn now(ledger: &Ledger) -> Option<String> {
        match ledger.pod("p") {
            Some(PodState::Pending(pod)) => pod.nominated_node.as_ref().map(ToString::to_string),
            other => panic!("{other:?}"),
        }
    }

    /// As in kubernetes issues 72124 and 93505: an update that was under way already must not undo the nomination.
    #[test]
    fn an_update_without_the_nomination_does_not_undo_it() {
        let mut ledger = Ledger::new();
        ledger.apply_pod(reporting(None));
        ledger.nominate("p", Some("n".into()));
        ledger.apply_pod(reporting(None));
        assert_eq!((now(&ledger).as_deref(), ledger.nominations().on("n").len()), (Some("n"), 1));
        ledger.apply_pod(reporting(Some("n")));
        assert_eq!((now(&ledger).as_deref(), ledger.nominations().unreported()), (Some("n"), 0));
        ledger.apply_pod(reporting(None));
        assert_eq!(now(&ledger), None, "someone cleared it");
        assert!(ledger.nominations().is_empty());
    }

    #[test]
    fn an_abandoned_pod_is_one_with_a_nomination_here_or_in_its_object_that_nobody_serves() {
        let mut ledger = Ledger::new();
        let found = |ledger: &Ledger| -> Vec<Option<String>> {
            ledger.abandoned().iter().map(|pod| pod.nominated_node.as_ref().map(ToString::to_string)).collect()
        };
        ledger.apply_pod(reporting(None));
        assert_eq!(found(&ledger), []);
        ledger.nominate("p", Some("n".into()));
        assert_eq!(found(&ledger), [None], "its object reports nothing");
        ledger.apply_pod(reporting(Some("n")));
        ledger.nominate("p", None);
        assert_eq!(found(&ledger), [Some("n".into())], "its object reports what has ended here");
        ledger.set_own_schedulers(vec![reporting(None).scheduler_name]);
        assert_eq!(found(&ledger), [], "it is served");
        ledger.set_own_schedulers(vec![]);
        ledger.apply_pod(reporting(None));
        assert_eq!(found(&ledger), []);
    }

    /// As in kubernetes issues 85677 and 106780: an ended nomination keeps nothing, even while its object still reports it.
    #[test]
    fn an_ended_nomination_stays_ended_until_the_object_reports_something_new() {
        let mut ledger = Ledger::new();
        ledger.apply_pod(reporting(Some("n")));
        ledger.nominate("p", None);
        ledger.apply_pod(reporting(Some("n")));
        assert!(now(&ledger).is_none() && ledger.nominations().is_empty());
        ledger.apply_pod(reporting(None));
        assert_eq!(ledger.nominations().unreported(), 0);
        ledger.apply_pod(reporting(Some("m")));
        assert_eq!(now(&ledger).as_deref(), Some("m"));
        ledger.nominate("p", None);
        ledger.delete_pod("p");
        assert_eq!(ledger.nominations().unreported(), 0);
    }
}
