//! Our own loop over the watch call: one kind, read whole, then followed for as long as the process lives.
//!
//! ```text
//!  Begin → Item… → Synced → (Apply | Delete)… → [410 or too many failures] → Begin → …
//! ```
//!
//! - Every read is consistent: none names a resourceVersion that may be old. The forms are a streaming list at an empty
//!   resourceVersion, one LIST, or large pages; a form that the server refuses or that stays silent gives way to the next.
//! - The watch goes on from the last resourceVersion seen, bookmarks included, whatever cut it.
//! - A bad object is named, counted and skipped. It is never a reason to read again.
//! - A kind that a cluster may do without is empty where it is not served or forbidden, and asked for again now and then.
//! - Objects are decoded one by one from the bytes of their frame: neither a list nor its body is ever held whole.

mod call;
mod frame;
mod kind;
mod list;
mod options;
mod raw_observer;
mod run;
mod split;
mod stats;
#[cfg(test)]
mod tests;

pub use call::CallError;
pub use kind::{
    CsiDrivers, CsiNodes, CsiStorageCapacities, DeviceClasses, Namespaces, Nodes, PersistentVolumeClaims,
    PersistentVolumes, PodDisruptionBudgets, Pods, ReplicaSets, ReplicationControllers, Services, StatefulSets,
    StorageClasses, VolumeAttachments, Watched,
};
pub use list::{Listed, list};
pub use options::{InitialRead, WatchOptions};
pub use raw_observer::{RawObserver, Taps};
pub use run::run;
pub use stats::{Absence, WatchErrors, WatchStats};

/// An object that does not decode: it is skipped, and what was known of it stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BadObject {
    /// Its namespace; empty if cluster-scoped or unreadable.
    pub namespace: String,
    /// Its name; empty if unreadable.
    pub name: String,
    /// Its uid; empty if unreadable.
    pub uid: String,
    /// The field that is wrong; empty for the object itself.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// What a watch tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent<T> {
    /// A whole read begins. It may begin again before it was `Synced`: what was seen of it counts for nothing then.
    Begin,
    /// An object of the whole read.
    Item(T),
    /// The whole read is complete: what was known before and not seen since `Begin` (as `Item`, `Apply` or `Bad`) is gone.
    Synced {
        /// Whether it shows the cluster as it was when the read began or later.
        consistent: bool,
    },
    /// An object is new or has changed.
    Apply(T),
    /// An object is gone, or has left the selection.
    Delete {
        /// Its namespace; empty if cluster-scoped.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// An object does not decode.
    Bad(BadObject),
}

/// Takes what a watch tells, in order. It is called between two frames and must not block for longer than a lock is held.
pub trait Sink<T>: Send {
    /// Takes the next event.
    fn take(&mut self, event: WatchEvent<T>);
}

impl<T, F: FnMut(WatchEvent<T>) + Send> Sink<T> for F {
    fn take(&mut self, event: WatchEvent<T>) {
        self(event);
    }
}
