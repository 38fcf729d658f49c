//! What the operator's parts share.

use super::denials::Denials;
use super::orphans::Orphans;
use super::watches::Fed;
use super::writer::WriteCounters;
use berth_api::SchedulerProfileStatus;
use berth_cluster::bind::Binder;
use berth_cluster::client::Clients;
use berth_cluster::events::EventSink;
use berth_cluster::evict::Evictor;
use berth_cluster::lease::LeaseState;
use berth_cluster::prebind::PreBinder;
use berth_cluster::refusal::RefusalWriter;
use berth_core::model::Str;
use berth_extender::{ExtenderClients, ObjectStore};
use berth_runtime::Engine;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the operator's parts share. Cheap to clone.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) clients: Clients,
    pub(super) engine: Engine,
    pub(super) extender_clients: ExtenderClients,
    /// Whole objects for extenders.
    pub(super) store: Arc<ObjectStore>,
    pub(super) binder: Binder,
    pub(super) prebind: PreBinder,
    pub(super) evict: Evictor,
    pub(super) refusals: RefusalWriter,
    pub(super) events: EventSink,
    pub(super) denials: Denials,
    pub(super) writes: Arc<WriteCounters>,
    pub(super) board: Board,
}

/// What others read of the operator's state: metrics, mostly. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub(super) struct Board(Arc<Mutex<Posted>>);

/// The contents of the [`Board`].
#[derive(Default)]
pub(super) struct Posted {
    /// Where leadership stands.
    pub(super) lease: Option<LeaseState>,
    /// Fields that the installed definition lacks.
    pub(super) crd_lacks: Vec<String>,
    /// The watches, once they run.
    pub(super) watches: Vec<Arc<Fed>>,
    /// Pods that nobody looks at, as of the last look.
    pub(super) orphans: Arc<[Orphans]>,
    /// The newest status of each profile.
    pub(super) profiles: BTreeMap<Str, SchedulerProfileStatus>,
}

impl Board {
    /// The contents; hold the guard for a moment only.
    pub(super) fn lock(&self) -> MutexGuard<'_, Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
