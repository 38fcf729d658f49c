//! Whole objects for extenders, as the watches bring them: pending pods, and nodes while some profile sends them whole.

use super::wire::sent_form;
use berth_cluster::watch::{ObjectKey, RawObserver, RawObservers, WatchEvent};
use berth_core::model::{Node, Pod, Str};
use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// Objects of one kind in the form in which they are sent. Nothing is kept that is not wanted.
#[derive(Debug, Default)]
struct Kept {
    is_wanted: AtomicBool,
    forms: RwLock<FxHashMap<Str, Bytes>>,
}

impl Kept {
    fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    fn want(&self, wanted: bool) {
        self.is_wanted.store(wanted, Ordering::Relaxed);
        if !wanted {
            self.change(|forms| *forms = FxHashMap::default());
        }
    }

    fn put(&self, key: &str, raw: &[u8]) {
        // The form is made before the lock is taken: every reader may be waiting for it.
        if let (true, Ok(form)) = (self.is_wanted(), sent_form(raw)) {
            self.change(|forms| drop(forms.insert(key.into(), form)));
        }
    }

    fn forget(&self, key: &str) {
        if self.is_wanted() {
            self.change(|forms| drop(forms.remove(key)));
        }
    }

    fn change(&self, f: impl FnOnce(&mut FxHashMap<Str, Bytes>)) {
        f(&mut self.forms.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn forms(&self) -> RwLockReadGuard<'_, FxHashMap<Str, Bytes>> {
        self.forms.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pending pods by uid and nodes by name. The watches fill it.
#[derive(Debug, Default)]
pub struct ObjectStore {
    pods: Arc<Kept>,
    nodes: Arc<Kept>,
}

impl ObjectStore {
    /// Whether pending pods are to be kept: some profile has an extender.
    pub fn wants_pods(&self) -> bool {
        self.pods.is_wanted()
    }

    /// Whether nodes are to be kept: some profile sends them whole.
    pub fn wants_nodes(&self) -> bool {
        self.nodes.is_wanted()
    }

    /// Sets what is kept; objects that are no longer wanted are dropped.
    pub fn want(&self, pods: bool, nodes: bool) {
        self.pods.want(pods);
        self.nodes.want(nodes);
    }

    /// Keeps a pending pod, given as the API server's JSON.
    pub fn put_pod(&self, uid: &str, raw: &[u8]) {
        self.pods.put(uid, raw);
    }

    /// Keeps a node, given as the API server's JSON.
    pub fn put_node(&self, name: &str, raw: &[u8]) {
        self.nodes.put(name, raw);
    }

    /// Keeps a node that was read beside the watch, unless the watch was faster.
    pub fn put_missing_node(&self, name: &str, raw: &[u8]) {
        if let (true, Ok(form)) = (self.wants_nodes(), sent_form(raw)) {
            self.nodes.change(|forms| _ = forms.entry(name.into()).or_insert(form));
        }
    }

    pub(super) fn pod(&self, uid: &str) -> Option<Bytes> {
        self.pods.forms().get(uid).cloned()
    }

    /// In the order of the names.
    pub(super) fn nodes(&self, names: &[Str]) -> Vec<Option<Bytes>> {
        let forms = self.nodes.forms();
        names.iter().map(|name| forms.get(name).cloned()).collect()
    }
}

/// The observers of raw objects that fill `store`.
pub fn observers(store: &ObjectStore) -> RawObservers {
    let pods = Filler {
        kept: store.pods.clone(),
        seen: Mutex::default(),
        key: |pod: &Pod| &pod.uid,
        deleted_key: |deleted| &deleted.uid,
        is_sent: |pod| pod.node_name.is_none(),
    };
    let nodes = Filler {
        kept: store.nodes.clone(),
        seen: Mutex::default(),
        key: |node: &Node| &node.name,
        deleted_key: |deleted| &deleted.name,
        is_sent: |_| true,
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
    /// Whether an extender may be sent this object.
    is_sent: fn(&O) -> bool,
}

impl<O> Filler<O> {
    fn seen(&self) -> MutexGuard<'_, Option<FxHashSet<Str>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: 'static> RawObserver<O> for Filler<O> {
    fn wants(&self, object: &O) -> bool {
        (self.is_sent)(object) && self.kept.is_wanted()
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
                kept.put(key, json);
            }
            WatchEvent::Delete(key) => kept.forget((self.deleted_key)(key)),
            WatchEvent::Synced => {
                if let Some(seen) = self.seen().take() {
                    kept.change(|forms| forms.retain(|key, _| seen.contains(key)));
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
        store.want(false, true);
        see("b");
        see("c");
        assert_eq!(has(["a", "b"]), [false, true]);
        nodes.see(&WatchEvent::Begin, None);
        see("c");
        nodes.see(&WatchEvent::Synced, None);
        assert_eq!(has(["b", "c"]), [false, true]);
    }

    #[test]
    fn a_pod_is_kept_while_it_is_pending() {
        let store = ObjectStore::default();
        store.want(true, false);
        let RawObservers { pods: Some(pods), .. } = observers(&store) else { panic!("no observers") };
        let pending = pod("a", shape());
        assert!(pods.wants(&pending));
        pods.see(&WatchEvent::Apply(pending.clone()), Some(b"{}"));
        assert!(store.pod("a").is_some());
        let bound = Pod { node_name: Some("n".into()), ..pending };
        assert!(!pods.wants(&bound));
        pods.see(&WatchEvent::Apply(bound), None);
        assert!(store.pod("a").is_none());
    }
}
