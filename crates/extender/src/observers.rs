//! Fills the store from the watches of pods and nodes.

use super::objects::ObjectStore;
use berth_cluster::watch::{RawObserver, Taps};
use berth_core::model::{Node, Pod, Str};
use rustc_hash::FxHashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The observers of raw objects that fill `store`.
pub fn taps(store: &Arc<ObjectStore>) -> Taps {
    Taps { pods: Some(Arc::new(Filler::new(store))), nodes: Some(Arc::new(Filler::new(store))) }
}

/// Puts the objects of one watch into the store.
struct Filler {
    store: Arc<ObjectStore>,
    /// The keys that a whole read under way has shown so far.
    seen: Mutex<Option<FxHashSet<Str>>>,
}

impl Filler {
    fn new(store: &Arc<ObjectStore>) -> Self {
        Self { store: store.clone(), seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Option<FxHashSet<Str>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begins(&self) {
        *self.seen() = Some(FxHashSet::default());
    }

    fn shows(&self, key: &Str) {
        if let Some(seen) = &mut *self.seen() {
            seen.insert(key.clone());
        }
    }
}

impl RawObserver<Pod> for Filler {
    fn begin(&self) {
        self.begins();
    }

    fn wants(&self, pod: &Pod) -> bool {
        let pending = pod.node_name.is_none();
        if !pending && self.store.wants_pods() {
            self.store.forget_pod(&pod.uid);
        }
        pending && self.store.wants_pods()
    }

    fn present(&self, pod: &Pod, json: &[u8]) {
        self.shows(&pod.uid);
        self.store.put_pod(&pod.uid, json);
    }

    fn gone(&self, _namespace: &str, _name: &str, uid: &str) {
        if self.store.wants_pods() {
            self.store.forget_pod(uid);
        }
    }

    fn synced(&self) {
        if let Some(seen) = self.seen().take() {
            self.store.retain_pods(|uid| seen.contains(uid));
        }
    }
}

impl RawObserver<Node> for Filler {
    fn begin(&self) {
        self.begins();
    }

    fn wants(&self, _node: &Node) -> bool {
        self.store.wants_nodes()
    }

    fn present(&self, node: &Node, json: &[u8]) {
        self.shows(&node.name);
        self.store.put_node(&node.name, json);
    }

    fn gone(&self, _namespace: &str, name: &str, _uid: &str) {
        if self.store.wants_nodes() {
            self.store.forget_node(name);
        }
    }

    fn synced(&self) {
        if let Some(seen) = self.seen().take() {
            self.store.retain_nodes(|name| seen.contains(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::testing::{node, pod, shape};

    #[test]
    fn nothing_is_kept_until_it_is_wanted_and_a_whole_read_drops_what_it_did_not_see() {
        let store = Arc::new(ObjectStore::default());
        let Taps { nodes: Some(nodes), .. } = taps(&store) else { panic!("no taps") };
        let see = |name: &str| {
            let node = node(name, 0, 0, 0);
            if nodes.wants(&node) {
                nodes.present(&node, br#"{"kind":"Node","metadata":{}}"#);
            }
        };
        see("a");
        store.want(false, true);
        see("b");
        see("c");
        assert_eq!((store.has_node("a"), store.has_node("b")), (false, true));
        nodes.begin();
        see("c");
        nodes.synced();
        assert_eq!((store.has_node("b"), store.has_node("c")), (false, true));
    }

    #[test]
    fn a_pod_is_kept_while_it_is_pending() {
        let store = Arc::new(ObjectStore::default());
        store.want(true, false);
        let Taps { pods: Some(pods), .. } = taps(&store) else { panic!("no taps") };
        let pending = pod("a", shape());
        assert!(pods.wants(&pending));
        pods.present(&pending, b"{}");
        assert!(store.has_pod("a"));
        assert!(!pods.wants(&Pod { node_name: Some("n".into()), ..pending }));
        assert!(!store.has_pod("a"));
    }
}
