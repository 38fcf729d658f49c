//! What the engine and its worker threads have in common: the ledger, the workers and what they have in flight, the way out.

use super::allowance::Allowance;
use super::clock::Clock;
use super::handle::WorkerHandle;
use super::holds::Holds;
use super::in_flight::{Consequence, InFlight, Undone};
use super::mailbox::Workers;
use super::quarantine::panic_message;
use super::seat::Following;
use super::sink::EffectSink;
use berth_core::io::{AttemptId, Deliver, Input, NominateRequest, WorkerId};
use berth_core::ledger::{HashKey, Ledger, LedgerAccess, News, PodState};
use berth_core::model::{Pod, Str, Time};
use berth_core::profile::CompiledProfile;
use berth_core::shadow::{Binding, Skip};
use berth_telemetry::HistogramSnapshot;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard, TryLockError, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{oneshot, watch};
use tokio::task::block_in_place;

/// What the engine and the worker threads share.
pub(super) struct Shared {
    pub(super) ledger: SharedLedger,
    pub(super) clock: Clock,
    pub(super) place: Workers,
    pub(super) shares: Shares,
    pub(super) sink: Box<dyn EffectSink>,
    workers: Mutex<BTreeMap<Str, Running>>,
    /// Held by whoever changes which names are served, until the nominations that end with that are handed over: a worker that
    /// serves a name next nominates after it. Taken before `workers`.
    serving: Mutex<()>,
    incarnations: Mutex<FxHashMap<WorkerId, Arc<InFlight>>>,
    next_id: AtomicU64,
    /// The workers' threads, for the watchdog: it must not wait for a lock that a hanging thread holds.
    threads: Mutex<Vec<Weak<WorkerHandle>>>,
    /// Where ties between equally good nodes begin, and the key of the ledger's tables: different for each process.
    pub(super) seeds: RandomState,
    /// What is left of the time that comparisons may take.
    pub(super) comparing: Allowance,
    pub(super) measures_plugins: AtomicBool,
}

/// A profile's worker as the engine keeps it.
pub(super) struct Running {
    pub(super) handle: Arc<WorkerHandle>,
    pub(super) ended: oneshot::Receiver<()>,
    /// The profile that it was ordered to serve last; it may not have taken it up yet.
    pub(super) ordered: Arc<CompiledProfile>,
}

impl Shared {
    /// What a new engine shares. `connect` is given the way in for outcomes of binds, and makes the way out for effects.
    pub(super) fn connected<O: EffectSink>(place: Workers, connect: impl FnOnce(Deliver) -> O) -> Arc<Self> {
        Arc::new_cyclic(|shared: &Weak<Self>| {
            let shared = shared.clone();
            let deliver: Deliver = Arc::new(move |worker, input| {
                if let Some(shared) = shared.upgrade() {
                    shared.deliver(worker, input);
                }
            });
            let (seeds, clock) = (RandomState::new(), Clock::start());
            Self {
                ledger: SharedLedger::new(&HashKey::new([0, 1].map(|half: u64| seeds.hash_one(half))), clock),
                clock,
                place,
                shares: Shares::default(),
                sink: Box::new(connect(deliver)),
                workers: Mutex::default(),
                serving: Mutex::default(),
                incarnations: Mutex::default(),
                next_id: AtomicU64::new(1),
                threads: Mutex::default(),
                seeds,
                comparing: Allowance::begun(clock.now()),
                measures_plugins: AtomicBool::new(false),
            }
        })
    }

    /// The right to change which names are served.
    pub(super) fn serving(&self) -> MutexGuard<'_, ()> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the ledger which schedulers the workers serve. Nominations that end with that are ended in the cluster as well.
    ///
    /// The workers are not locked while the sink is called: it may answer at once, for any of them, and an answer wakes them all.
    pub(super) fn tell_served(&self, right: &MutexGuard<'_, ()>) {
        let served = served(&self.lock());
        self.set_served(right, served);
    }

    fn set_served(&self, _right: &MutexGuard<'_, ()>, served: Vec<Str>) {
        for pod in self.ledger.serve(served) {
            self.sink.nominate(&Str::default(), NominateRequest { pod, node: None });
        }
    }

    /// As [`tell_served`](Self::tell_served), after the worker got another profile. If it was stopped meanwhile, whoever did so
    /// has told, or the process ends, and the next one serves its names.
    pub(super) fn tell_served_by(&self, handle: &WorkerHandle) {
        let right = self.serving();
        // Asked and collected under one lock: all workers may be stopped at any moment.
        let served = {
            let workers = self.lock();
            workers.contains_key(&handle.name).then(|| served(&workers))
        };
        if let Some(served) = served {
            self.set_served(&right, served);
        }
    }

    /// Changes the ledger, and tells the workers: at once whom it concerns.
    pub(super) fn apply_to_ledger<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        // What came back is told with the rest.
        self.ledger.take_freed();
        let (result, news) = self.ledger.write(|ledger| {
            let result = f(ledger);
            (result, self.ledger.untold(ledger))
        });
        self.tell(&news);
        result
    }

    fn tell(&self, news: &News) {
        if news.is_none() {
            return;
        }
        for running in self.lock().values() {
            running.handle.tell(news);
        }
    }

    /// Tells the workers, if capacity came back since somebody asked last.
    pub(super) fn tell_freed(&self) {
        if self.ledger.take_freed() {
            let news = self.ledger.read(|ledger| self.ledger.untold(ledger));
            self.tell(&news);
        }
    }

    /// Wakes every worker; each then sees all capacity freed before this call.
    pub(super) fn wake_all(&self) {
        self.ledger.take_freed();
        for running in self.lock().values() {
            running.handle.mailbox.wake();
        }
    }

    /// See [`Engine::about_to_bind`](super::Engine::about_to_bind).
    pub(super) fn about_to_bind(&self, pod: &Pod, is_live: bool) {
        let Some(node) = &pod.node_name else { return };
        let following = self.following(&pod.scheduler_name);
        if following.is_empty() {
            return;
        }
        // Of a pod that was never seen waiting nobody knows that it was scheduled.
        let waiting = self.ledger.read(|ledger| match ledger.pod(&pod.uid) {
            Some(PodState::Pending(pod)) if !ledger.is_own_scheduler(&pod.scheduler_name) => Some(pod.clone()),
            _ => None,
        });
        let Some(pod) = waiting else { return };
        let now_us = i64::try_from(self.clock.now().as_nanos() / 1_000).unwrap_or(i64::MAX);
        let at_unix_us = self.clock.unix_us_at_zero().saturating_add(now_us);
        let binding = Binding { pod, node: node.clone(), at_unix_us };
        for following in following {
            let began = self.clock.now();
            if !is_live {
                following.skip(Skip::Reread);
            } else if self.comparing.is_left(began) {
                following.compare(&self.ledger, &binding);
                self.comparing.spend(self.clock.now().since(began));
            } else {
                following.skip(Skip::Behind);
            }
        }
    }

    /// What compares the pods of this scheduler.
    fn following(&self, scheduler: &str) -> Vec<Arc<Following>> {
        let workers = self.lock();
        workers.values().filter_map(|running| running.handle.seat.following(scheduler)).collect()
    }

    /// Puts a worker's thread under the watchdog for as long as its handle lives.
    pub(super) fn watch_over(&self, handle: &Arc<WorkerHandle>) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| thread.strong_count() > 0);
        threads.push(Arc::downgrade(handle));
    }

    /// The worker that has been in one step for the longest time, if that is longer than `limit`.
    pub(super) fn stuck(&self, limit: Duration) -> Option<String> {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let busy = threads.iter().filter_map(|thread| {
            let thread = thread.upgrade()?;
            Some((now.since(thread.pulse.busy_since()?), thread.name.clone()))
        });
        let (age, name) = busy.max()?;
        (age > limit).then(|| format!("the worker of profile {name} has been in one step for {} s", age.as_secs()))
    }

    pub(super) fn begin(&self, handle: &WorkerHandle) -> Arc<InFlight> {
        let id = WorkerId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let in_flight = Arc::new(InFlight::new(id, handle.name.clone(), handle.mailbox.clone(), handle.binds.clone()));
        self.incarnations().insert(id, in_flight.clone());
        in_flight
    }

    /// Takes back what the worker has asked for and nobody has sent; the worker is to be told.
    pub(super) fn revoke(&self, in_flight: &InFlight) -> Vec<AttemptId> {
        self.take_back(in_flight, self.sink.revoke(in_flight.id))
    }

    /// As [`Self::revoke`], for binds that are not sent because of a pause.
    pub(super) fn revoke_paused(&self, in_flight: &InFlight) -> Vec<AttemptId> {
        self.take_back(in_flight, self.sink.revoke_paused(in_flight.id))
    }

    fn take_back(&self, in_flight: &InFlight, attempts: Vec<AttemptId>) -> Vec<AttemptId> {
        for attempt in &attempts {
            self.apply(&in_flight.profile, in_flight.revoked(*attempt));
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
        self.ledger.write(|ledger| abandoned.undo(ledger));
        self.let_go(&abandoned.assumed);
        self.wake_all();
    }

    /// Ends the nominations of pods that wait again, or still, where nobody serves them: when their names were given up they were not
    /// waiting, or it did not become known.
    pub(super) fn let_go(&self, uids: &[Str]) {
        if !self.ledger.read(|ledger| uids.iter().any(|uid| ledger.unserved(uid).is_some())) {
            return;
        }
        let _right = self.serving();
        let pods: Vec<Arc<Pod>> =
            self.ledger.write(|ledger| uids.iter().filter_map(|uid| ledger.let_go(uid)).collect());
        for pod in pods {
            self.sink.nominate(&Str::default(), NominateRequest { pod, node: None });
        }
    }

    /// Takes in how a request ended: the ledger first, then the worker.
    fn deliver(&self, worker: WorkerId, input: Input) {
        let Some(in_flight) = self.incarnations().get(&worker).cloned() else { return };
        self.apply(&in_flight.profile, in_flight.ended(&input));
        in_flight.tell(input);
        if in_flight.is_done() {
            self.incarnations().remove(&worker);
        }
    }

    fn apply(&self, profile: &Str, consequence: Consequence) {
        match consequence {
            Consequence::None => return,
            Consequence::Bound(pod, node) => return self.sink.bound(profile, pod, node),
            Consequence::BindEnded(uid, outcome) => {
                self.ledger.write(|ledger| ledger.bind_ended(&uid, &outcome));
                self.let_go(&[uid]);
            }
            Consequence::Forget(uid) => {
                self.ledger.write(|ledger| ledger.forget(&uid));
                self.let_go(&[uid]);
            }
            Consequence::Release(victims) => self.ledger.write(|ledger| ledger.release(&victims)),
            Consequence::ClaimsWritten(uid, writes, outcome) => {
                self.ledger.write(|ledger| ledger.claims_written(&uid, &writes, &outcome));
            }
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

/// The names that these workers serve.
fn served(workers: &BTreeMap<Str, Running>) -> Vec<Str> {
    workers.values().flat_map(|running| running.handle.profile().scheduler_names.clone()).collect()
}

/// How often a writer looks for the lock before it sleeps, some 50 µs in all: others hold it for a few, and to be put to sleep and
/// woken costs tens of them. A worker beside a busy one otherwise costs that one 4% of its rate just by reading what happened.
const LOOKS: u32 = 1_000;

/// The one ledger under its lock.
#[derive(Debug)]
pub(super) struct SharedLedger {
    ledger: RwLock<Ledger>,
    clock: Clock,
    /// Why the process cannot go on, once that is so.
    dead: watch::Sender<Option<String>>,
    /// Whether a write has given capacity back since somebody asked.
    freed: AtomicBool,
    /// The version after the last write.
    version: AtomicU64,
    /// The version up to which workers were told what happened.
    told: AtomicU64,
    /// How long the lock was held, for reading and for writing.
    reads: Holds,
    writes: Holds,
}

impl SharedLedger {
    fn new(key: &HashKey, clock: Clock) -> Self {
        let now = Instant::now();
        Self {
            ledger: RwLock::new(Ledger::with_hash_key(key)),
            clock,
            dead: watch::Sender::new(None),
            freed: AtomicBool::new(false),
            version: AtomicU64::new(0),
            told: AtomicU64::new(0),
            reads: Holds::since(now),
            writes: Holds::since(now),
        }
    }

    /// Whether a panic left the ledger half written: then the process ends. Others may go on for a moment, and what they decide
    /// is checked by the API server's preconditions.
    pub(super) fn is_broken(&self) -> bool {
        self.ledger.is_poisoned()
    }

    /// Why the process cannot go on, once that is so.
    pub(super) fn dead(&self) -> watch::Receiver<Option<String>> {
        self.dead.subscribe()
    }

    /// The process cannot go on. The first reason stays: what comes after it follows from it.
    pub(super) fn die(&self, reason: impl FnOnce() -> String) {
        self.dead.send_if_modified(|dead| {
            let is_first = dead.is_none();
            if is_first {
                let reason = reason();
                tracing::error!(reason, "the process cannot go on");
                *dead = Some(reason);
            }
            is_first
        });
    }

    /// Takes a lock that a panic left poisoned. Finding it so ends the process, whoever panicked.
    fn broken<G>(&self, poisoned: PoisonError<G>) -> G {
        self.die(|| "a write of the ledger panicked".to_owned());
        poisoned.into_inner()
    }

    /// Whether capacity came back since the last call: then workers are to be told, by whoever asks first.
    pub(super) fn take_freed(&self) -> bool {
        self.freed.load(Ordering::Relaxed) && self.freed.swap(false, Ordering::AcqRel)
    }

    /// What happened that nobody was told of, whoever did it: the caller tells it. `ledger` is what this lock guards.
    fn untold(&self, ledger: &Ledger) -> News {
        let told = self.told.fetch_max(ledger.version(), Ordering::Relaxed);
        News::since(ledger.log(), told)
    }

    /// The version after the last write, without a lock.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// How long the lock was held, by what for.
    pub(super) fn holds(&self) -> [(&'static str, HistogramSnapshot); 2] {
        [("read", self.reads.times()), ("write", self.writes.times())]
    }

    /// The longest holds of late, by what for.
    pub(super) fn longest_holds(&self) -> [(&'static str, Duration); 2] {
        let now = Instant::now();
        [("read", self.reads.longest(now)), ("write", self.writes.longest(now))]
    }

    fn lock(&self) -> RwLockWriteGuard<'_, Ledger> {
        for _ in 0..LOOKS {
            match self.ledger.try_write() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return self.broken(poisoned),
                Err(TryLockError::WouldBlock) => spin_loop(),
            }
        }
        may_block(|| self.ledger.write()).unwrap_or_else(|poisoned| self.broken(poisoned))
    }

    pub(super) fn try_read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> Option<R> {
        match self.ledger.try_read() {
            Ok(guard) => Some(f(&guard)),
            Err(TryLockError::Poisoned(poisoned)) => {
                let guard = self.broken(poisoned);
                Some(f(&guard))
            }
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Blocks on a lock. On a thread of the process's event loop tokio first moves the other tasks elsewhere, so that probes, statuses and the
/// Lease go on while a worker hangs with the ledger locked. The watches, which have a loop of one thread, wait for it together.
fn may_block<R>(wait: impl FnOnce() -> R) -> R {
    let runtime = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    if matches!(runtime, Ok(RuntimeFlavor::MultiThread)) { block_in_place(wait) } else { wait() }
}

impl LedgerAccess for SharedLedger {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        let guard = match self.ledger.try_read() {
            Err(TryLockError::WouldBlock) => may_block(|| self.ledger.read()),
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
        };
        let ledger = guard.unwrap_or_else(|poisoned| self.broken(poisoned));
        let began = Instant::now();
        let result = f(&ledger);
        drop(ledger);
        self.reads.record(began.elapsed());
        result
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        let mut ledger = self.lock();
        let began = Instant::now();
        let before = ledger.log().freed();
        let result = catch_unwind(AssertUnwindSafe(|| f(&mut ledger))).unwrap_or_else(|panic| {
            let thread = std::thread::current();
            let by = thread.name().unwrap_or("unnamed");
            self.die(|| format!("a write of the ledger panicked in thread {by}: {}", panic_message(&*panic)));
            // The guard is dropped on the way and poisons the lock.
            resume_unwind(panic)
        });
        self.version.store(ledger.version(), Ordering::SeqCst);
        // Whoever finds this finds the version as well.
        if ledger.log().freed() != before {
            self.freed.store(true, Ordering::Release);
        }
        drop(ledger);
        self.writes.record(began.elapsed());
        result
    }

    fn elapsed(&self) -> Time {
        self.clock.now()
    }
}

/// How many workers have something to bind: they share the binder equally.
#[derive(Debug, Clone, Default)]
pub(super) struct Shares(Arc<AtomicUsize>);

impl Shares {
    /// Busy workers, at least 1.
    pub(super) fn busy(&self) -> usize {
        self.0.load(Ordering::Relaxed).max(1)
    }

    /// A share for one worker, idle at first.
    pub(super) fn join(&self) -> Share {
        Share { all: self.clone(), busy: false }
    }
}

/// One worker's part in [`Shares`]; gone when dropped.
#[derive(Debug)]
pub(super) struct Share {
    all: Shares,
    busy: bool,
}

impl Share {
    /// Says whether this worker has something to bind.
    pub(super) fn set_busy(&mut self, busy: bool) {
        match (self.busy, busy) {
            (false, true) => drop(self.all.0.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.all.0.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        self.busy = busy;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set_busy(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::ledger::Kinds;

    #[test]
    fn every_hold_of_the_lock_is_counted() {
        let ledger = SharedLedger::new(&HashKey::default(), Clock::start());
        ledger.read(|_| ());
        ledger.write(|_| ());
        ledger.read(|_| ());
        assert_eq!(ledger.holds().map(|(what, holds)| (what, holds.count)), [("read", 2), ("write", 1)]);
    }

    #[test]
    fn what_a_worker_wrote_is_told_with_what_happens_next() {
        let ledger = SharedLedger::new(&HashKey::default(), Clock::start());
        let node = |name: &str| berth_core::testing::node(name, 1_000, 1 << 30, 10);
        let told = |ledger: &SharedLedger| {
            ledger.write(|table| {
                table.apply_pod(berth_core::testing::pending_pod("ns", "of-another"));
                ledger.untold(table)
            })
        };
        ledger.write(|table| table.apply_node(&node("n")));
        assert!(told(&ledger).concerns(Kinds::OTHER, &[]), "the node was told of by nobody");
        assert!(ledger.read(|table| ledger.untold(table)).is_none());
        ledger.write(|table| table.delete_pod("uid-of-another"));
        let news = told(&ledger);
        assert!(!news.is_none() && !news.concerns(Kinds::OTHER, &[]), "{news:?}");
    }

    /// While one task waits for the ledger, which somebody holds for long, the others of its thread go on.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_task_that_waits_for_the_ledger_keeps_no_other_waiting() {
        for writes in [false, true] {
            let ledger = Arc::new(SharedLedger::new(&HashKey::default(), Clock::start()));
            let (holds, held) = std::sync::mpsc::channel::<()>();
            let (release, released) = std::sync::mpsc::channel::<()>();
            let holding = ledger.clone();
            let holder = std::thread::spawn(move || {
                holding.write(|_| {
                    holds.send(()).unwrap();
                    released.recv()
                })
            });
            held.recv().unwrap();
            let (waits, waiting) = oneshot::channel();
            let waiter = tokio::spawn(async move {
                waits.send(()).unwrap();
                if writes { ledger.write(|_| ()) } else { ledger.read(|_| ()) }
            });
            waiting.await.unwrap();
            let (goes, gone_on) = std::sync::mpsc::channel();
            tokio::spawn(async move { goes.send(()) });
            // No timer of tokio's: nobody would look at it.
            let gone_on = gone_on.recv_timeout(Duration::from_secs(20));
            release.send(()).unwrap();
            assert_eq!(gone_on, Ok(()), "its thread did not go on");
            waiter.await.unwrap();
            holder.join().unwrap().unwrap();
        }
    }

    #[test]
    fn only_busy_workers_count() {
        let shares = Shares::default();
        let (mut a, mut b) = (shares.join(), shares.join());
        assert_eq!(shares.busy(), 1);
        a.set_busy(true);
        a.set_busy(true);
        b.set_busy(true);
        assert_eq!(shares.busy(), 2);
        drop(b);
        assert_eq!(shares.busy(), 1);
        a.set_busy(false);
        assert_eq!(shares.busy(), 1);
    }
}
