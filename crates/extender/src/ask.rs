//! What goes into [`ExtenderClients`](super::ExtenderClients), what comes out, and what its parts share.

use super::address::AddressPolicy;
use super::breaker::Change;
use super::client::Net;
use super::objects::{KeyOf, ObjectStore, Objects};
use super::resolve::system_lookup;
use super::settings::Verb;
use berth_cluster::bind::Deliver;
use berth_cluster::lease::Gate;
use berth_core::io::ExtenderError;
use berth_core::model::Str;
use std::sync::Arc;
use tokio::runtime::Handle;

/// A breaker opened or closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub profile: Str,
    pub extender: Str,
    pub verb: Verb,
    pub change: Change,
    /// The failure that opened it.
    pub error: Option<ExtenderError>,
}

/// Where notices go. Called from the tasks that make calls: it must not block.
pub type Notify = Arc<dyn Fn(Notice) + Send + Sync>;

/// What calls to extenders need of the process.
pub struct Options {
    /// Who may be connected to.
    pub policy: AddressPolicy,
    /// A client of the API server without retries: for Services, for objects not in the store, and to read pods back.
    pub kube: kube::Client,
    /// Pending pods and nodes in the form in which they are sent.
    pub store: Arc<ObjectStore>,
    /// Finds the key of a victim, of which questions give the uid alone.
    pub key_of: KeyOf,
    /// Whether binds may be sent.
    pub gate: Gate,
    /// Where answers and outcomes go. It must not block.
    pub deliver: Deliver,
    pub notify: Notify,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// What the extenders of all profiles share.
pub(super) struct Common {
    pub(super) net: Net,
    pub(super) objects: Objects,
    pub(super) gate: Gate,
    pub(super) deliver: Deliver,
    pub(super) notify: Notify,
    /// Workers ask from threads of their own; calls run here.
    pub(super) runtime: Handle,
}

impl Common {
    /// Calls will run on the tokio runtime on which this is called.
    pub(super) fn new(options: Options) -> Self {
        let Options { policy, kube, store, key_of, gate, deliver, notify } = options;
        Self {
            net: Net { policy: Arc::new(policy), lookup: system_lookup(), kube: kube.clone() },
            objects: Objects { store, kube, key_of },
            gate,
            deliver,
            notify,
            runtime: Handle::current(),
        }
    }
}
