//! Our own loop over the watch call: one kind, read whole, then followed for as long as the process lives.
//!
//! ```text
//!  Begin → Item… → Synced → (Apply | Delete)… → [410 or too many failures] → Begin → …
//! ```
//!
//! - Every whole read is consistent: it is a LIST in large pages that names no resourceVersion, which may be old.
//! - The watch goes on from the last resourceVersion seen, bookmarks included, whatever cut it.
//! - A bad object is named, counted and skipped. It is never a reason to read again.
//! - A kind that a cluster may do without is empty where it is not served or forbidden, and asked for again now and then.
//! - Objects are decoded one by one from the bytes of their frame: neither a list nor its body is ever held whole.

mod barrier;
mod call;
#[cfg(test)]
mod cost_tests;
mod drift;
mod feed;
mod frame;
mod kinds;
mod list;
mod options;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod protobuf_tests;
mod run;
mod shown;
mod split;
mod split_protobuf;
mod stats;
#[cfg(test)]
mod tests;

pub use barrier::{Barrier, Orders, Passed};
pub use call::{Absence, CallError};
pub use drift::{Comparison, Drift, Look, Patience, Suspect, Unsettled};
pub use feed::Feed;
pub use kinds::{KINDS, Kind, KindVisitor, Tracked, Watched, visit_kinds};
pub use list::{ListOptions, Listed, list, present_version};
pub use options::WatchOptions;
pub use run::run;
pub use shown::{Shown, Uid};
pub use stats::{WatchErrors, WatchStats};

use berth_core::model::{Node, Pod};
use std::sync::Arc;

/// Kinds, by their plural names.
pub const PODS: &str = kinds::Pods::PLURAL;
pub const PERSISTENT_VOLUMES: &str = kinds::PersistentVolumes::PLURAL;
pub const PERSISTENT_VOLUME_CLAIMS: &str = kinds::PersistentVolumeClaims::PLURAL;
pub const RESOURCE_CLAIMS: &str = kinds::ResourceClaims::PLURAL;

/// The names of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectKey {
    /// Empty if cluster-scoped or unreadable.
    pub namespace: String,
    /// Empty if unreadable.
    pub name: String,
    /// Empty if unreadable.
    pub uid: String,
}

/// An object that does not decode: it is skipped, and what was known of it stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BadObject {
    pub key: ObjectKey,
    /// The field that is wrong; empty for the object itself.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// What a watch sends to its sink and its observer, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent<T> {
    /// A whole read begins. It may begin again before it was `Synced`: what was seen of it counts for nothing then.
    Begin,
    /// An object of the whole read.
    Item(T),
    /// The whole read is complete and consistent: what was known before and not seen since `Begin` (as `Item` or `Bad`) is deleted.
    Synced,
    /// An object is new or has changed.
    Apply(T),
    /// An object is deleted, or has left the selection.
    Delete(ObjectKey),
    /// An object does not decode.
    Bad(BadObject),
}

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
