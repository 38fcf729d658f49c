//! What the operator's parts share.

use super::denials::Denials;
use super::vain::Orphans;
use super::watches::Fed;
use super::writer::WriteCounters;
use crate::api::SchedulerProfileStatus;
use crate::cluster::bind::BindLane;
use crate::cluster::client::Clients;
use crate::cluster::events::EventSink;
use crate::cluster::evict::EvictLane;
use crate::cluster::lease::LeaseState;
use crate::cluster::prebind::PreBindLane;
use crate::cluster::refusal::RefusalWriter;
use crate::core::model::Str;
use crate::extender::{Lanes, ObjectStore};
use crate::runtime::Engine;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the operator's parts share. Cheap to clone.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) clients: Clients,
    pub(super) engine: Engine,
    pub(super) lanes: Lanes,
    /// Whole objects for extenders.
    pub(super) store: Arc<ObjectStore>,
    pub(super) lane: BindLane,
    pub(super) prebind: PreBindLane,
    pub(super) evict: EvictLane,
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
