//! Pending pods and nodes as the API server gave them, for whoever must pass them on whole.
//!
//! Nothing is kept until someone wants it. What came before that is not there: whoever misses an object reads it, and puts it
//! on the shelf, where a newer one replaces it.

use super::watch::Tap;
use crate::core::model::{Node, Pod, Str};
use axum::body::Bytes;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Makes of an object's text what is kept of it; `None` where it cannot be used.
pub type Trim = fn(&[u8]) -> Option<Bytes>;

/// Texts of pending pods, by uid, and of nodes, by name. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct RawObjects {
    pods: Arc<Shelf>,
    nodes: Arc<Shelf>,
}

/// Texts of objects of one kind.
#[derive(Debug)]
pub struct Shelf {
    wanted: AtomicBool,
    trim: Trim,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    texts: FxHashMap<Str, (Bytes, u64)>,
    /// Counts whole reads: what an older one has put here and a newer one did not see is gone.
    read: u64,
}

impl RawObjects {
    /// Empty shelves; `trim` makes of a text what is kept.
    pub fn new(trim: Trim) -> Self {
        let shelf = || Arc::new(Shelf { wanted: AtomicBool::new(false), trim, kept: Mutex::default() });
        Self { pods: shelf(), nodes: shelf() }
    }

    /// Pending pods, by uid.
    pub fn pods(&self) -> &Arc<Shelf> {
        &self.pods
    }

    /// Nodes, by name.
    pub fn nodes(&self) -> &Arc<Shelf> {
        &self.nodes
    }
}

impl Shelf {
    /// Keeps what comes from now on, or drops all.
    pub fn want(&self, wanted: bool) {
        let before = self.wanted.swap(wanted, Ordering::AcqRel);
        if before && !wanted {
            self.lock().texts = FxHashMap::default();
        }
    }

    /// Whether anything is kept.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// The text kept under `key`.
    pub fn get(&self, key: &str) -> Option<Bytes> {
        self.lock().texts.get(key).map(|(text, _)| text.clone())
    }

    /// Keeps a text that was read by other ways than the watch, unless the watch was faster. Returns what is kept then, trimmed;
    /// `None` where the text cannot be used.
    pub fn put_missing(&self, key: &str, json: &[u8]) -> Option<Bytes> {
        let text = (self.trim)(json)?;
        let mut kept = self.lock();
        let read = kept.read;
        if !self.is_wanted() {
            return Some(text);
        }
        Some(kept.texts.entry(key.into()).or_insert((text, read)).0.clone())
    }

    fn put(&self, key: Str, json: &[u8]) {
        let text = (self.trim)(json);
        let mut kept = self.lock();
        let read = kept.read;
        match text {
            Some(text) => drop(kept.texts.insert(key, (text, read))),
            None => drop(kept.texts.remove(&key)),
        }
    }

    fn drop_one(&self, key: &str) {
        if self.is_wanted() {
            self.lock().texts.remove(key);
        }
    }

    fn read_begins(&self) {
        self.lock().read += 1;
    }

    fn read_ends(&self) {
        let mut kept = self.lock();
        let read = kept.read;
        kept.texts.retain(|_, (_, seen)| *seen == read);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tap<Pod> for Shelf {
    fn begin(&self) {
        self.read_begins();
    }

    fn wants(&self, pod: &Pod) -> bool {
        let pending = pod.node_name.is_none();
        if !pending {
            self.drop_one(&pod.uid);
        }
        pending && self.is_wanted()
    }

    fn present(&self, pod: &Pod, json: &[u8]) {
        self.put(pod.uid.clone(), json);
    }

    fn gone(&self, _namespace: &str, _name: &str, uid: &str) {
        self.drop_one(uid);
    }

    fn synced(&self) {
        self.read_ends();
    }
}

impl Tap<Node> for Shelf {
    fn begin(&self) {
        self.read_begins();
    }

    fn wants(&self, _node: &Node) -> bool {
        self.is_wanted()
    }

    fn present(&self, node: &Node, json: &[u8]) {
        self.put(node.name.clone(), json);
    }

    fn gone(&self, _namespace: &str, name: &str, _uid: &str) {
        self.drop_one(name);
    }

    fn synced(&self) {
        self.read_ends();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::testing::node;

    fn shelf() -> Arc<Shelf> {
        RawObjects::new(|json| Some(Bytes::copy_from_slice(json))).nodes().clone()
    }

    fn see(shelf: &Shelf, name: &str, text: &str) {
        let node = node(name, 0, 0, 0);
        if Tap::<Node>::wants(shelf, &node) {
            shelf.present(&node, text.as_bytes());
        }
    }

    fn text(shelf: &Shelf, name: &str) -> Option<String> {
        shelf.get(name).map(|text| String::from_utf8(text.to_vec()).unwrap())
    }

    #[test]
    fn nothing_is_kept_until_it_is_wanted_and_all_goes_when_it_is_no_more() {
        let shelf = shelf();
        see(&shelf, "a", "1");
        assert_eq!(text(&shelf, "a"), None);
        shelf.want(true);
        see(&shelf, "a", "2");
        assert_eq!(text(&shelf, "a").as_deref(), Some("2"));
        shelf.want(false);
        assert_eq!(text(&shelf, "a"), None);
    }

    #[test]
    fn a_whole_read_drops_what_it_did_not_see() {
        let shelf = shelf();
        shelf.want(true);
        see(&shelf, "a", "1");
        see(&shelf, "b", "1");
        Tap::<Node>::begin(&*shelf);
        see(&shelf, "b", "2");
        Tap::<Node>::synced(&*shelf);
        assert_eq!((text(&shelf, "a"), text(&shelf, "b").as_deref()), (None, Some("2")));
    }

    #[test]
    fn what_the_watch_brought_is_newer_than_what_was_read_besides() {
        let shelf = shelf();
        shelf.want(true);
        see(&shelf, "a", "new");
        assert_eq!(shelf.put_missing("a", b"old").as_deref(), Some(&b"new"[..]));
        assert_eq!(shelf.put_missing("b", b"read").as_deref(), Some(&b"read"[..]));
        assert_eq!(text(&shelf, "b").as_deref(), Some("read"));
    }
}
