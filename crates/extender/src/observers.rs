//! Fills the store from the watches of pods and nodes.

use super::objects::ObjectStore;
use berth_cluster::watch::{RawObserver, RawObservers, WatchEvent};
use berth_core::model::{Node, Pod, Str};
use rustc_hash::FxHashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The observers of raw objects that fill `store`.
pub fn observers(store: &Arc<ObjectStore>) -> RawObservers {
    RawObservers { pods: Some(Arc::new(Filler::new(store))), nodes: Some(Arc::new(Filler::new(store))) }
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
    fn wants(&self, pod: &Pod) -> bool {
        pod.node_name.is_none() && self.store.wants_pods()
    }

    fn see(&self, event: &WatchEvent<Pod>, json: Option<&[u8]>) {
        match event {
            WatchEvent::Begin => self.begins(),
            WatchEvent::Item(pod) | WatchEvent::Apply(pod) => {
                if let Some(json) = json {
                    self.shows(&pod.uid);
                    self.store.put_pod(&pod.uid, json);
                } else if self.store.wants_pods() {
                    self.store.forget_pod(&pod.uid);
                }
            }
            WatchEvent::Delete(key) if self.store.wants_pods() => self.store.forget_pod(&key.uid),
            WatchEvent::Synced => {
                if let Some(seen) = self.seen().take() {
                    self.store.retain_pods(|uid| seen.contains(uid));
                }
            }
            WatchEvent::Delete(_) | WatchEvent::Bad(_) => {}
        }
    }
}

impl RawObserver<Node> for Filler {
    fn wants(&self, _node: &Node) -> bool {
        self.store.wants_nodes()
    }

    fn see(&self, event: &WatchEvent<Node>, json: Option<&[u8]>) {
        match event {
            WatchEvent::Begin => self.begins(),
            WatchEvent::Item(node) | WatchEvent::Apply(node) => {
                if let Some(json) = json {
                    self.shows(&node.name);
                    self.store.put_node(&node.name, json);
                }
            }
            WatchEvent::Delete(key) if self.store.wants_nodes() => self.store.forget_node(&key.name),
            WatchEvent::Synced => {
                if let Some(seen) = self.seen().take() {
                    self.store.retain_nodes(|name| seen.contains(name));
                }
            }
            WatchEvent::Delete(_) | WatchEvent::Bad(_) => {}
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
        let RawObservers { nodes: Some(nodes), .. } = observers(&store) else { panic!("no observers") };
        let see = |name: &str| {
            let node = node(name, 0, 0, 0);
            let json = nodes.wants(&node).then_some(&br#"{"kind":"Node","metadata":{}}"#[..]);
            nodes.see(&WatchEvent::Apply(node), json);
        };
        see("a");
        store.want(false, true);
        see("b");
        see("c");
        assert_eq!((store.has_node("a"), store.has_node("b")), (false, true));
        nodes.see(&WatchEvent::Begin, None);
        see("c");
        nodes.see(&WatchEvent::Synced, None);
        assert_eq!((store.has_node("b"), store.has_node("c")), (false, true));
    }

    #[test]
    fn a_pod_is_kept_while_it_is_pending() {
        let store = Arc::new(ObjectStore::default());
        store.want(true, false);
        let RawObservers { pods: Some(pods), .. } = observers(&store) else { panic!("no observers") };
        let pending = pod("a", shape());
        assert!(pods.wants(&pending));
        pods.see(&WatchEvent::Apply(pending.clone()), Some(b"{}"));
        assert!(store.has_pod("a"));
        let bound = Pod { node_name: Some("n".into()), ..pending };
        assert!(!pods.wants(&bound));
        pods.see(&WatchEvent::Apply(bound), None);
        assert!(!store.has_pod("a"));
    }
}
