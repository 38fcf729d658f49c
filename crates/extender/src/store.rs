//! Whole objects for extenders, as the watches bring them: pending pods of profiles that have extenders, and nodes while some
//! profile sends them whole.

use super::kept::{Kept, Limits};
use berth_cluster::paced::Paced;
use berth_cluster::watch::{ObjectKey, RawObserver, RawObservers, WatchEvent};
use berth_core::model::{Node, Pod, Str};
use bytes::Bytes;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Anybody may make pods. An ordinary one has 2 to 10 KB, so that thousands may be pending; one that is larger, or comes when
/// all is full, is read from the API server for each of its calls.
const PODS: Limits = Limits { form: 64 << 10, all: 32 << 20 };

/// Kubelets and administrators write nodes, of some 20 KB each: there is room for those of the largest clusters.
const NODES: Limits = Limits { form: 256 << 10, all: 256 << 20 };

static LEFT_OUT: Paced = Paced::new();

/// Pending pods by uid and nodes by name. The watches fill it.
#[derive(Debug)]
pub struct ObjectStore {
    pods: Arc<Kept>,
    nodes: Arc<Kept>,
    /// The scheduler names of profiles that have an extender.
    names: Arc<RwLock<BTreeSet<Str>>>,
}

impl Default for ObjectStore {
    fn default() -> Self {
        Self { pods: Arc::new(Kept::new(PODS)), nodes: Arc::new(Kept::new(NODES)), names: Arc::default() }
    }
}

impl ObjectStore {
    /// Whether pending pods are to be kept: some profile has an extender.
    #[cfg(test)]
    pub fn wants_pods(&self) -> bool {
        self.pods.is_wanted()
    }

    /// Whether nodes are to be kept: some profile sends them whole.
    pub fn wants_nodes(&self) -> bool {
        self.nodes.is_wanted()
    }

    /// Sets what is kept: pending pods that name one of these schedulers, and nodes. What is no longer wanted is dropped.
    pub fn want(&self, schedulers: BTreeSet<Str>, nodes: bool) {
        self.pods.want(!schedulers.is_empty());
        self.pods.retain_schedulers(|name| schedulers.contains(name));
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = schedulers;
        self.nodes.want(nodes);
    }

    /// Keeps a pending pod, given as the API server's JSON.
    #[cfg(test)]
    pub fn put_pod(&self, pod: &Pod, raw: &[u8]) {
        self.pods.put(&pod.uid, Some(&pod.scheduler_name), raw);
    }

    /// Keeps a node, given as the API server's JSON.
    pub fn put_node(&self, name: &str, raw: &[u8]) {
        self.nodes.put(name, None, raw);
    }

    /// Keeps a node that was read beside the watch, unless the watch was faster.
    pub fn put_missing_node(&self, name: &str, raw: &[u8]) {
        self.nodes.put_missing(name, raw);
    }

    /// How many pending pods are kept.
    pub fn pending_pods(&self) -> usize {
        self.pods.len()
    }

    /// By resource: how often an object that came was too large to be kept, or came when all was full.
    pub fn left_out(&self) -> [(&'static str, u64); 2] {
        [("pods", self.pods.left_out()), ("nodes", self.nodes.left_out())]
    }

    pub(super) fn pod(&self, uid: &str) -> Option<Bytes> {
        self.pods.get(uid)
    }

    /// In the order of the names.
    pub(super) fn nodes(&self, names: &[Str]) -> Vec<Option<Bytes>> {
        self.nodes.get_all(names)
    }
}

/// The observers of raw objects that fill `store`.
pub fn observers(store: &ObjectStore) -> RawObservers {
    let names = store.names.clone();
    let pods = Filler {
        kept: store.pods.clone(),
        seen: Mutex::default(),
        key: |pod: &Pod| &pod.uid,
        deleted_key: |deleted| &deleted.uid,
        scheduler: |pod| Some(&pod.scheduler_name),
        path: |pod| format!("pod {}", pod.key),
        is_sent: Box::new(move |pod: &Pod| {
            let names = names.read().unwrap_or_else(PoisonError::into_inner);
            pod.node_name.is_none() && names.contains(&pod.scheduler_name)
        }),
    };
    let nodes = Filler {
        kept: store.nodes.clone(),
        seen: Mutex::default(),
        key: |node: &Node| &node.name,
        deleted_key: |deleted| &deleted.name,
        scheduler: |_| None,
        path: |node| format!("node {}", node.name),
        is_sent: Box::new(|_: &Node| true),
    };
    RawObservers { pods: Some(Arc::new(pods)), nodes: Some(Arc::new(nodes)) }
}

/// Puts the objects of one watch into the store.
struct Filler<O> {
    kept: Arc<Kept>,
    /// The keys that a whole read under way has shown so far.
    seen: Mutex<Option<FxHashSet<Str>>>,
    key: fn(&O) -> &Str,
    deleted_key: fn(&ObjectKey) -> &str,
    /// The scheduler that a pod names.
    scheduler: fn(&O) -> Option<&Str>,
    /// How the log names it.
    path: fn(&O) -> String,
    /// Whether an extender may be sent this object.
    is_sent: Box<dyn Fn(&O) -> bool + Send + Sync>,
}

impl<O> Filler<O> {
    fn seen(&self) -> MutexGuard<'_, Option<FxHashSet<Str>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: 'static> RawObserver<O> for Filler<O> {
    fn wants(&self, object: &O) -> bool {
        self.kept.is_wanted() && (self.is_sent)(object)
    }

    fn see(&self, event: &WatchEvent<O>, json: Option<&[u8]>) {
        let kept = &self.kept;
        match event {
            WatchEvent::Begin => *self.seen() = Some(FxHashSet::default()),
            WatchEvent::Item(object) | WatchEvent::Apply(object) => {
                let key = (self.key)(object);
                let Some(json) = json else { return kept.forget(key) };
                if let Some(seen) = &mut *self.seen() {
                    seen.insert(key.clone());
                }
                if !kept.put(key, (self.scheduler)(object), json)
                    && let Some(left_out) = LEFT_OUT.line()
                {
                    let (object, bytes) = ((self.path)(object), json.len());
                    tracing::warn!(object, bytes, left_out, "not kept for extenders: it is read for each call");
                }
            }
            WatchEvent::Delete(key) => kept.forget((self.deleted_key)(key)),
            WatchEvent::Synced => {
                if let Some(seen) = self.seen().take() {
                    kept.retain_keys(|key| seen.contains(key));
                }
            }
            WatchEvent::Bad(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::testing::{node, pod, shape};

    fn schedulers(names: &[&str]) -> BTreeSet<Str> {
        names.iter().map(|name| Str::from(*name)).collect()
    }

    #[test]
    fn nothing_is_kept_until_it_is_wanted_and_a_whole_read_drops_what_it_did_not_see() {
        let store = ObjectStore::default();
        let RawObservers { nodes: Some(nodes), .. } = observers(&store) else { panic!("no observers") };
        let see = |name: &str| {
            let node = node(name, 0, 0, 0);
            let json = nodes.wants(&node).then_some(&br#"{"kind":"Node","metadata":{}}"#[..]);
            nodes.see(&WatchEvent::Apply(node), json);
        };
        let has = |names: [&str; 2]| names.map(|name| store.nodes(&[name.into()])[0].is_some());
        see("a");
        store.want(BTreeSet::new(), true);
        see("b");
        see("c");
        assert_eq!(has(["a", "b"]), [false, true]);
        nodes.see(&WatchEvent::Begin, None);
        see("c");
        nodes.see(&WatchEvent::Synced, None);
        assert_eq!(has(["b", "c"]), [false, true]);
    }

    #[test]
    fn a_pod_is_kept_while_it_is_pending_and_some_extender_may_be_asked_about_it() {
        let store = ObjectStore::default();
        store.want(schedulers(&["other", "test"]), false);
        let RawObservers { pods: Some(pods), .. } = observers(&store) else { panic!("no observers") };
        let pending = pod("a", shape());
        assert!(pods.wants(&pending));
        pods.see(&WatchEvent::Apply(pending.clone()), Some(b"{}"));
        assert!(store.pod("a").is_some());
        let bound = Pod { node_name: Some("n".into()), ..pending.clone() };
        assert!(!pods.wants(&bound));
        pods.see(&WatchEvent::Apply(bound), None);
        assert!(store.pod("a").is_none());
        assert!(!pods.wants(&Pod { scheduler_name: "default-scheduler".into(), ..pending.clone() }));
        pods.see(&WatchEvent::Apply(pending), Some(b"{}"));
        store.want(schedulers(&["other", "new"]), false);
        assert!(store.pod("a").is_none(), "nobody asks about it any more");
    }

    #[test]
    fn large_pods_in_any_number_take_a_bounded_number_of_bytes() {
        let store = ObjectStore::default();
        store.want(schedulers(&["test"]), false);
        let RawObservers { pods: Some(pods), .. } = observers(&store) else { panic!("no observers") };
        let json = |bytes: usize| format!(r#"{{"metadata":{{"annotations":{{"a":"{}"}}}}}}"#, "x".repeat(bytes));
        let (fits, too_large) = (json(60 << 10), json(64 << 10));
        for n in 0..1_000 {
            pods.see(&WatchEvent::Apply(pod(&format!("p{n}"), shape())), Some(fits.as_bytes()));
        }
        let kept = (0..1_000).filter(|n| store.pod(&format!("p{n}")).is_some()).count();
        assert!(kept > 500 && kept * fits.len() <= PODS.all, "{kept}");
        assert_eq!(store.left_out(), [("pods", 1_000 - kept as u64), ("nodes", 0)]);
        pods.see(&WatchEvent::Apply(pod("p0", shape())), Some(too_large.as_bytes()));
        assert!(store.pod("p0").is_none());
    }
}
