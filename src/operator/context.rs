//! What the operator's parts share.

use super::drift::Audits;
use super::routes::{RouteClaim, Routing};
use super::tasks::{Beat, Tasks};
use super::{denials::Denials, orphans::Orphans, status_writer::WriteCounters, watches::Fed, writers::Writers};
use berth_api::SchedulerProfileStatus;
use berth_cluster::client::Clients;
use berth_cluster::events::{Event, EventType, ObjectRef};
use berth_cluster::lease::{Gate, LeaseState};
use berth_core::model::Str;
use berth_extender::ObjectStore;
use berth_runtime::Engine;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the operator's parts share. Cheap to clone.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) clients: Clients,
    pub(super) gate: Gate,
    pub(super) engine: Engine,
    pub(super) writers: Writers,
    /// Whole objects for extenders.
    pub(super) store: Arc<ObjectStore>,
    pub(super) denials: Denials,
    pub(super) writes: Arc<WriteCounters>,
    pub(super) board: Board,
    pub(super) tasks: Tasks,
    pub(super) audits: Audits,
    /// The beat of the task that looks after the profiles.
    pub(super) beat: Beat,
    /// The beat of the watches' event loop, where they have one of their own.
    pub(super) watches_beat: Beat,
}

impl Context {
    /// Writes a warning about `object`.
    pub(super) fn warn(&self, object: ObjectRef, reason: &'static str, action: &'static str, note: String) {
        self.writers.events.send(Event::of_operator(object, EventType::Warning, reason, action, note));
    }
}

/// What others read of the operator's state: metrics, mostly. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub(super) struct Board(Arc<Mutex<Posted>>);

/// The contents of the [`Board`].
#[derive(Default)]
pub(super) struct Posted {
    pub(super) lease: Option<LeaseState>,
    /// Fields that the installed definition lacks.
    pub(super) crd_lacks: Vec<String>,
    /// The watches, once they run.
    pub(super) watches: Vec<Arc<Fed>>,
    /// Pods that nobody looks at, as of the last look.
    pub(super) orphans: Arc<[Orphans]>,
    /// The scheduler names that profiles get; `None` before the profiles are read.
    pub(super) granted: Option<BTreeSet<Str>>,
    /// The routes in force.
    pub(super) routes: Vec<RouteClaim>,
    /// How they fare, as of the last look.
    pub(super) routing: Routing,
    pub(super) profiles: BTreeMap<Str, SchedulerProfileStatus>,
}

impl Board {
    /// The contents; hold the guard for a moment only.
    pub(super) fn lock(&self) -> MutexGuard<'_, Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
