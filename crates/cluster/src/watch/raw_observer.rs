use berth_core::model::{Node, Pod};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Looks at objects as they came, beside the sink that gets what they were decoded to. Called between two frames: it must not
/// block for longer than a lock is held.
pub trait RawObserver<O>: Send + Sync + 'static {
    /// A whole read begins.
    fn begin(&self);

    /// Whether the text of this object is wanted; also the place to drop what is not wanted any more.
    fn wants(&self, object: &O) -> bool;

    /// An object that is wanted, and its text.
    fn present(&self, object: &O, json: &[u8]);

    /// An object is gone.
    fn gone(&self, namespace: &str, name: &str, uid: &str);

    /// The whole read is complete: what was not seen since it began is gone.
    fn synced(&self);
}

/// Who looks at objects as they came, by their kind.
#[derive(Clone, Default)]
pub struct Taps {
    /// At pods.
    pub pods: Option<Arc<dyn RawObserver<Pod>>>,
    /// At nodes.
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
