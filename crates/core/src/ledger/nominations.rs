use super::{Change, Ledger, PodState};
use crate::model::{Pod, Str};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A pending pod that is promised a node.
#[derive(Debug, Clone)]
pub struct Nomination {
    /// The pod.
    pub pod: Arc<Pod>,
}

/// What we have decided about a promise, until the pod's object says something new.
#[derive(Debug, Clone)]
struct Decided {
    /// The node; `None` is none.
    node: Option<Str>,
    /// What the object said then.
    said: Option<Str>,
}

/// Pending pods by the node they are promised. After `pkg/scheduler/backend/queue/nominator.go`.
#[derive(Debug, Default)]
pub struct Nominations {
    by_node: FxHashMap<Str, Vec<Nomination>>,
    version: u64,
    decided: FxHashMap<Str, Decided>,
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

    /// Puts what we decided in the place of what an object of the pod says, as long as that is no news.
    pub(super) fn put_decided(&mut self, pod: &mut Pod) {
        let Some(decided) = self.decided.get(&pod.uid) else { return };
        if decided.said == pod.nominated_node {
            pod.nominated_node.clone_from(&decided.node);
        } else {
            self.decided.remove(&pod.uid);
        }
    }

    fn decide(&mut self, pod: &Pod, node: Option<Str>) {
        let said = self.decided.remove(&pod.uid).map_or_else(|| pod.nominated_node.clone(), |decided| decided.said);
        if said != node {
            self.decided.insert(pod.uid.clone(), Decided { node, said });
        }
    }

    /// The pod is bound or gone.
    pub(super) fn drop_decided(&mut self, uid: &str) {
        self.decided.remove(uid);
    }

    /// How many pods have a decision of ours that their object does not say yet; for audits.
    #[cfg(test)]
    pub(crate) fn undelivered(&self) -> usize {
        self.decided.len()
    }
}

impl Ledger {
    /// The pod as its object says it is: without what we have decided about its nomination and it does not say yet.
    pub fn as_said(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        match self.nominations.decided.get(&pod.uid) {
            Some(decided) if decided.said != pod.nominated_node => {
                Arc::new(Pod { nominated_node: decided.said.clone(), ..Pod::clone(pod) })
            }
            _ => pod.clone(),
        }
    }

    /// Promises a pending pod a node, or ends its promise, ahead of what its object says: from here on it counts for everyone.
    /// An object that says something new has the last word. Returns the pod as it is then; `None` if it is not pending.
    pub fn nominate(&mut self, uid: &str, node: Option<Str>) -> Option<Arc<Pod>> {
        let Some(PodState::Pending(before)) = self.pod(uid) else { return None };
        let before = before.clone();
        if before.nominated_node == node {
            return Some(before);
        }
        self.nominations.decide(&before, node.clone());
        let pod = Arc::new(Pod { nominated_node: node, ..Pod::clone(&before) });
        self.set_state(pod.uid.clone(), PodState::Pending(pod.clone()));
        self.renominate(Some(&before), &pod);
        self.log.push(Change::PodPending { pod: pod.clone(), before: Some(before) });
        Some(pod)
    }
}

#[cfg(test)]
mod tests {
    use crate::ledger::{Ledger, PodState};
    use crate::model::Pod;
    use crate::testing::{pod, shape};

    fn said(node: Option<&str>) -> Pod {
        Pod { nominated_node: node.map(Into::into), ..pod("p", shape()) }
    }

    fn now(ledger: &Ledger) -> Option<String> {
        match ledger.pod("p") {
            Some(PodState::Pending(pod)) => pod.nominated_node.as_ref().map(ToString::to_string),
            other => panic!("{other:?}"),
        }
    }

    /// The class of 72124 and 93505: an update that was under way already must not undo the nomination.
    #[test]
    fn an_update_that_knows_nothing_of_a_nomination_does_not_undo_it() {
        let mut ledger = Ledger::new();
        ledger.apply_pod(said(None));
        ledger.nominate("p", Some("n".into()));
        ledger.apply_pod(said(None));
        assert_eq!((now(&ledger).as_deref(), ledger.nominations().on("n").len()), (Some("n"), 1));
        ledger.apply_pod(said(Some("n")));
        assert_eq!((now(&ledger).as_deref(), ledger.nominations().undelivered()), (Some("n"), 0));
        ledger.apply_pod(said(None));
        assert_eq!(now(&ledger), None, "someone cleared it");
        assert!(ledger.nominations().is_empty());
    }

    /// The class of 85677 and 106780: a nomination that is over holds no room, even while its object still says so.
    #[test]
    fn a_nomination_that_was_ended_stays_ended_until_the_object_says_something_new() {
        let mut ledger = Ledger::new();
        ledger.apply_pod(said(Some("n")));
        ledger.nominate("p", None);
        ledger.apply_pod(said(Some("n")));
        assert!(now(&ledger).is_none() && ledger.nominations().is_empty());
        ledger.apply_pod(said(None));
        assert_eq!(ledger.nominations().undelivered(), 0);
        ledger.apply_pod(said(Some("m")));
        assert_eq!(now(&ledger).as_deref(), Some("m"));
        ledger.nominate("p", None);
        ledger.delete_pod("p");
        assert_eq!(ledger.nominations().undelivered(), 0);
    }
}
