//! What the engine and its worker threads have in common: the ledger, the workers and what they have in flight, the way out.

use super::access::SharedLedger;
use super::clock::Clock;
use super::effect_sink::EffectSink;
use super::handle::WorkerHandle;
use super::in_flight::{Consequence, InFlight};
use super::shares::Shares;
use super::worker_thread::Undone;
use berth_core::io::{AttemptId, Input};
use berth_core::io::{Deliver, WorkerId};
use berth_core::ledger::LedgerAccess;
use berth_core::model::Str;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{oneshot, watch};

/// What the engine and the worker threads share.
pub(super) struct Shared {
    pub(super) ledger: SharedLedger,
    pub(super) clock: Clock,
    pub(super) shares: Shares,
    pub(super) sink: Box<dyn EffectSink>,
    workers: Mutex<BTreeMap<Str, Running>>,
    incarnations: Mutex<FxHashMap<WorkerId, Arc<InFlight>>>,
    next_id: AtomicU64,
    dead: watch::Sender<Option<String>>,
    seeds: RandomState,
}

/// A profile's worker as the engine keeps it.
pub(super) struct Running {
    pub(super) handle: Arc<WorkerHandle>,
    pub(super) ended: oneshot::Receiver<()>,
}

impl Shared {
    /// What a new engine shares. `connect` is given the way in for outcomes of binds, and makes the way out for effects.
    pub(super) fn connected<O: EffectSink>(connect: impl FnOnce(Deliver) -> O) -> Arc<Self> {
        Arc::new_cyclic(|shared: &Weak<Self>| {
            let shared = shared.clone();
            let deliver: Deliver = Arc::new(move |worker, input| {
                if let Some(shared) = shared.upgrade() {
                    shared.deliver(worker, input);
                }
            });
            Self {
                ledger: SharedLedger::default(),
                clock: Clock::start(),
                shares: Shares::default(),
                sink: Box::new(connect(deliver)),
                workers: Mutex::default(),
                incarnations: Mutex::default(),
                next_id: AtomicU64::new(1),
                dead: watch::Sender::new(None),
                seeds: RandomState::new(),
            }
        })
    }

    /// Why the process cannot go on, once that is so.
    pub(super) fn dead(&self) -> watch::Receiver<Option<String>> {
        self.dead.subscribe()
    }

    /// Where ties between equally good nodes begin: different for each profile and process.
    pub(super) fn seed(&self, profile: &str) -> u64 {
        self.seeds.hash_one(profile)
    }

    /// Tells the ledger which schedulers the `workers` serve.
    pub(super) fn tell_served(&self, workers: &BTreeMap<Str, Running>) {
        let served = workers.values().flat_map(|running| running.handle.profile().scheduler_names.clone()).collect();
        self.ledger.write(|ledger| ledger.set_own_schedulers(served));
    }

    /// The same for the workers as they are now: one of them has another profile.
    pub(super) fn tell_served_now(&self) {
        self.tell_served(&self.lock());
    }

    /// Wakes every worker; whatever capacity came back before this is known to all then.
    pub(super) fn wake_all(&self) {
        self.ledger.take_freed();
        for running in self.lock().values() {
            running.handle.mailbox.wake();
        }
    }

    /// The process cannot go on.
    pub(super) fn die(&self, reason: String) {
        self.dead.send_replace(Some(reason));
    }

    pub(super) fn begin(&self, handle: &WorkerHandle) -> Arc<InFlight> {
        let id = WorkerId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let in_flight = Arc::new(InFlight::new(id, handle.mailbox.clone(), handle.binds.clone()));
        self.incarnations().insert(id, in_flight.clone());
        in_flight
    }

    /// Takes back what the worker has asked for and nobody has sent; the worker is to be told.
    pub(super) fn revoke(&self, in_flight: &InFlight) -> Vec<AttemptId> {
        let attempts = self.sink.revoke(in_flight.id);
        for attempt in &attempts {
            self.apply(in_flight.revoked(*attempt));
        }
        attempts
    }

    /// The worker has ended: what was not sent is undone, and so is `abandoned`, which it had not handed over.
    pub(super) fn end(&self, in_flight: &InFlight, abandoned: &Undone) {
        self.revoke(in_flight);
        in_flight.leave();
        if in_flight.is_done() {
            self.incarnations().remove(&in_flight.id);
        }
        self.ledger.write(|ledger| {
            for uid in &abandoned.assumed {
                ledger.forget(uid);
            }
            ledger.release(&abandoned.victims);
        });
        self.wake_all();
    }

    /// Takes in how a request ended: the ledger first, then the worker.
    fn deliver(&self, worker: WorkerId, input: Input) {
        let Some(in_flight) = self.incarnations().get(&worker).cloned() else { return };
        self.apply(in_flight.ended(&input));
        in_flight.tell(input);
        if in_flight.is_done() {
            self.incarnations().remove(&worker);
        }
    }

    fn apply(&self, consequence: Consequence) {
        match consequence {
            Consequence::None => return,
            Consequence::Bound(pod, node) => return self.sink.bound(pod, node),
            Consequence::BindEnded(uid, outcome) => self.ledger.write(|ledger| ledger.bind_ended(&uid, &outcome)),
            Consequence::Forget(uid) => self.ledger.write(|ledger| ledger.forget(&uid)),
            Consequence::Release(victims) => self.ledger.write(|ledger| ledger.release(&victims)),
        }
        // What came back may be what others waited for.
        self.wake_all();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<Str, Running>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn incarnations(&self) -> MutexGuard<'_, FxHashMap<WorkerId, Arc<InFlight>>> {
        self.incarnations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
