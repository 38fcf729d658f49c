use super::mailbox::Mailbox;
use super::stats::BindStats;
use berth_core::model::{Str, Time};
use berth_core::profile::CompiledProfile;
use berth_core::worker::WorkerSnapshot;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a worker's thread is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerState {
    /// It works (or is paused by its profile).
    Running,
    /// It panicked, and is started again when the pause is over.
    Failed {
        /// What it said.
        message: String,
        /// When it is started again.
        again_at: Time,
    },
    /// It gave back what it had not sent, and ended.
    Stopped,
}

/// A worker as others see it.
#[derive(Debug, Clone)]
pub struct WorkerView {
    /// What runs.
    pub profile: Arc<CompiledProfile>,
    /// What its thread is doing.
    pub state: WorkerState,
    /// Its numbers, at most a second old while it works; none before its first step.
    pub snapshot: Option<Arc<WorkerSnapshot>>,
    /// When it was first started.
    pub started_at: Time,
    /// How often it was started again after a failure.
    pub restarts: u64,
    /// What became of its binds.
    pub binds: Arc<BindStats>,
    /// Its binds that were decided and not yet answered.
    pub unacknowledged: usize,
}

/// What a worker's thread and the engine share.
#[derive(Debug)]
pub(super) struct WorkerHandle {
    pub(super) name: Str,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) binds: Arc<BindStats>,
    started_at: Time,
    restarts: AtomicU64,
    unacknowledged: AtomicU64,
    public: Mutex<Public>,
}

#[derive(Debug)]
struct Public {
    profile: Arc<CompiledProfile>,
    state: WorkerState,
    snapshot: Option<Arc<WorkerSnapshot>>,
}

impl WorkerHandle {
    pub(super) fn new(profile: Arc<CompiledProfile>, started_at: Time) -> Self {
        Self {
            name: profile.name.clone(),
            mailbox: Arc::default(),
            binds: Arc::default(),
            started_at,
            restarts: AtomicU64::new(0),
            unacknowledged: AtomicU64::new(0),
            public: Mutex::new(Public { profile, state: WorkerState::Running, snapshot: None }),
        }
    }

    /// What runs, or is to run after a failure.
    pub(super) fn profile(&self) -> Arc<CompiledProfile> {
        self.with(|public| public.profile.clone())
    }

    pub(super) fn set_profile(&self, profile: Arc<CompiledProfile>) {
        self.with(|public| public.profile = profile);
    }

    pub(super) fn set_state(&self, state: WorkerState) {
        self.with(|public| public.state = state);
    }

    pub(super) fn publish(&self, snapshot: WorkerSnapshot) {
        let snapshot = Some(Arc::new(snapshot));
        self.with(|public| public.snapshot = snapshot);
    }

    pub(super) fn set_unacknowledged(&self, binds: usize) {
        self.unacknowledged.store(binds as u64, Ordering::Relaxed);
    }

    pub(super) fn count_restart(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn view(&self) -> WorkerView {
        let (profile, state, snapshot) =
            self.with(|public| (public.profile.clone(), public.state.clone(), public.snapshot.clone()));
        WorkerView {
            profile,
            state,
            snapshot,
            started_at: self.started_at,
            restarts: self.restarts.load(Ordering::Relaxed),
            binds: self.binds.clone(),
            unacknowledged: self.unacknowledged.load(Ordering::Relaxed) as usize,
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Public) -> R) -> R {
        f(&mut self.public.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
