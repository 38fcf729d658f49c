use super::WatchEvent;
use berth_core::model::{Node, Pod};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Looks at objects as they came, beside the sink that gets what they were decoded to. Called between two frames: it must not
/// block for longer than a lock is held.
pub trait RawObserver<O>: Send + Sync + 'static {
    /// Whether the text of this object is wanted.
    fn wants(&self, object: &O) -> bool;

    /// Sees the next event before the sink takes it, with the text of an object that is wanted. An object without its text
    /// is not wanted, or not any more.
    fn see(&self, event: &WatchEvent<O>, json: Option<&[u8]>);
}

/// The observers of each kind that can have one.
#[derive(Clone, Default)]
pub struct RawObservers {
    pub pods: Option<Arc<dyn RawObserver<Pod>>>,
    pub nodes: Option<Arc<dyn RawObserver<Node>>>,
}

/// The text of the object in a line of a watch.
pub(super) fn object_of(line: &[u8]) -> Option<&[u8]> {
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        object: &'a RawValue,
    }
    serde_json::from_slice::<Line<'_>>(line).ok().map(|line| line.object.get().as_bytes())
}
