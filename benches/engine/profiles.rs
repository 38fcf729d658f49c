//! What profiles take from each other by running beside each other.
//!
//! The operator's own engine with a worker thread for each profile, and a fixed sink in place of the API server: whatever is
//! bound is gone a moment later, and another pod waits in its place, as watches would bring it in batches.

use crate::decode;
use crate::held::Longest;
use crate::manifests::{PodSpec, node};
use crate::report::{Row, line};
use crate::workloads::PLAIN;
use berth_core::io::{
    AttemptId, BindOutcome, BindRequest, ClaimRequest, DeallocateRequest, Deliver, EvictRequest, ExtenderError,
    ExtenderErrorKind, ExtenderRequest, Input, NominateRequest, Paused, Refusal, UnreserveRequest, VolumeRequest,
    WorkerId,
};
use berth_core::model::{Pod, Str};
use berth_core::profile::CompiledProfile;
use berth_runtime::{EffectSink, Engine};
use berth_simulate::Cluster;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

pub(crate) const ROWS: &[Row] = &[
    Row { name: "profiles: 2 busy", long: false, run: |name| compare(name, 2, 0) },
    Row { name: "profiles: 4 busy", long: true, run: |name| compare(name, 4, 0) },
    Row { name: "profiles: 8 busy", long: false, run: |name| compare(name, 8, 0) },
    Row { name: "profiles: 64 busy", long: true, run: |name| compare(name, 64, 0) },
    Row { name: "profiles: 1 busy beside 63 idle", long: false, run: |name| compare(name, 1, 63) },
];

const NODES: usize = 1_000;

/// Runs of each kind, of which the median counts, and the binds that each counts.
const RUNS: usize = 5;
const COUNTED: usize = 100_000;

/// Binds before the clock starts.
const WARM: usize = 20_000;

/// Pods of a profile that wait at any time.
const BACKLOG: usize = 2_000;

/// What profiles with pods to bind share, as they share the slots of a binder; each decides twice its part ahead. A profile alone
/// never waits for one, and what all of them decide ahead fits on the nodes.
const SLOTS: usize = 2 * BACKLOG;

/// Binds that the sink takes up at once: as much as a watch brings while a batch is applied.
const BATCH: usize = 64;

/// After how long the client gives up on a call to an extender: as in the example of a profile.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The rate of one profile, and that of `busy` together beside `idle` without pods.
fn compare(name: &str, busy: usize, idle: usize) {
    let cluster = decode((0..NODES).map(|i| node(i, PLAIN.zones, 0)));
    let run = |busy, idle| Run {
        cluster: &cluster,
        beside: presets("idle", idle),
        asked: 0,
        busy: presets("busy", busy),
        counted: COUNTED,
    };
    let (alone, together) = (run(1, 0), run(busy, idle));
    let mut longest = Longest::default();
    let [one, all] = medians(RUNS, |is_second| {
        if !is_second {
            return alone.measure().rate;
        }
        let measured = together.measure();
        longest.note(measured.longest_holds);
        measured.rate
    });
    line(name, &format!("{one:.0} pods/s of one alone, {:.3} of that in sum; {}", all / one, longest.text()));
}

pub(crate) fn presets(kind: &str, count: usize) -> Vec<CompiledProfile> {
    (0..count).map(|i| CompiledProfile::default_preset(&format!("{kind}-{i:02}"))).collect()
}

/// The medians of `runs` runs of a first and of a second kind. They take turns, so that what else the machine does meets both.
pub(crate) fn medians(runs: usize, mut rate: impl FnMut(bool) -> f64) -> [f64; 2] {
    let mut rates = [Vec::new(), Vec::new()];
    for run in 0..2 * runs {
        let is_second = run % 2 == 1;
        rates[usize::from(is_second)].push(rate(is_second));
    }
    rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    })
}

/// Pods that wait for `scheduler`.
pub(crate) fn waiting(scheduler: &str) -> Vec<Pod> {
    let mut pods = decode((0..BACKLOG).map(|i| PodSpec::basic().manifest(i, None))).pods;
    for (i, pod) in pods.iter_mut().enumerate() {
        pod.scheduler_name = scheduler.into();
        pod.uid = format!("{scheduler}-{i}").into();
        pod.key.name = pod.uid.clone();
    }
    pods
}

/// Profiles that run on one engine.
pub(crate) struct Run<'c> {
    /// What is there before any profile runs.
    pub(crate) cluster: &'c Cluster,
    /// Profiles that run before the others. Pods of theirs are in the cluster, or there are none; their binds do not count.
    pub(crate) beside: Vec<CompiledProfile>,
    /// The others wait until so many questions to extenders were asked.
    pub(crate) asked: usize,
    /// The profiles whose binds count; pods [wait](waiting) for each.
    pub(crate) busy: Vec<CompiledProfile>,
    /// How many binds the rate is of.
    pub(crate) counted: usize,
}

pub(crate) struct Measured {
    /// Binds a second, of all busy profiles together.
    pub(crate) rate: f64,
    /// Questions to extenders.
    pub(crate) asked: usize,
    /// The longest holds of the ledger's lock, to read and to write.
    pub(crate) longest_holds: [Duration; 2],
}

impl Run<'_> {
    pub(crate) fn measure(&self) -> Measured {
        let (tell, told) = channel();
        let mut deliver = None;
        let engine = Engine::new(|way_in| {
            deliver = Some(way_in);
            Sink(tell.clone())
        });
        let deliver = deliver.expect("the engine has a way in");
        // Made outside of the lock: holds are measured from the beginning.
        let ledger = self.cluster.ledger();
        engine.apply(|shared| *shared = ledger);
        let seen = Seen::default();
        let counts: HashSet<Str> = self.busy.iter().map(|profile| profile.name.clone()).collect();
        let (rate, longest_holds) = std::thread::scope(|scope| {
            let clerk = Clerk::new(&engine, &deliver, &seen, counts);
            let clerk = scope.spawn(move || clerk.live(&told));
            let figures = self.figures(&engine, &seen);
            futures::executor::block_on(engine.stop_all());
            seen.done.store(true, Ordering::Relaxed);
            let _stopped = tell.send(Told::Stop);
            assert!(clerk.join().is_ok(), "the sink took what came");
            figures
        });
        Measured { rate, asked: seen.asked.load(Ordering::Relaxed), longest_holds }
    }

    /// The rate and the longest holds, while the sink is at work.
    fn figures(&self, engine: &Engine, seen: &Seen) -> (f64, [Duration; 2]) {
        let backlogs: Vec<Vec<Pod>> = self.busy.iter().map(|profile| waiting(&profile.name)).collect();
        start(engine, &self.beside);
        wait(|| seen.asked.load(Ordering::Relaxed) >= self.asked);
        start(engine, &self.busy);
        for batch in backlogs.iter().flat_map(|pods| pods.chunks(BATCH)) {
            engine.apply(|ledger| batch.iter().for_each(|pod| ledger.apply_pod(pod.clone())));
        }
        let bound = || seen.bound.load(Ordering::Relaxed);
        let warm = bound() + WARM;
        wait(|| bound() >= warm);
        let (from, began) = (bound(), Instant::now());
        wait(|| bound() >= from + self.counted);
        let (counted, took) = (bound() - from, began.elapsed());
        (counted as f64 / took.as_secs_f64(), engine.longest_holds().map(|(_, longest)| longest))
    }
}

fn start(engine: &Engine, profiles: &[CompiledProfile]) {
    for profile in profiles {
        engine.run(Arc::new(profile.clone())).expect("a thread for the worker");
    }
}

/// Looks now and then: whoever spins takes a core from those that are measured.
fn wait(until: impl Fn() -> bool) {
    while !until() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What the sink's thread is told.
enum Told {
    Bind(WorkerId, BindRequest),
    Ask(WorkerId, ExtenderRequest),
    Stop,
}

/// Passes on what workers want; most of it is not asked for here.
struct Sink(Sender<Told>);

impl Sink {
    fn tell(&self, told: Told) {
        // The thread ends last.
        let _sent = self.0.send(told);
    }
}

impl EffectSink for Sink {
    fn bind(&self, worker: WorkerId, _: &Str, request: BindRequest) {
        self.tell(Told::Bind(worker, request));
    }
    fn ask(&self, worker: WorkerId, _: &Str, ask: ExtenderRequest) {
        self.tell(Told::Ask(worker, ask));
    }
    fn write_volumes(&self, _: WorkerId, _: &Str, _: VolumeRequest) {}

    fn reserve_claims(&self, _: WorkerId, _: &Str, _: ClaimRequest) {}

    fn unreserve_claims(&self, _: &Str, _: UnreserveRequest) {}

    fn deallocate(&self, _: &Str, _: DeallocateRequest) {}
    fn nominate(&self, _: &Str, _: NominateRequest) {}
    fn evict(&self, _: WorkerId, _: &Str, _: EvictRequest) {}
    fn revoke(&self, _: WorkerId) -> Vec<AttemptId> {
        Vec::new()
    }
    fn share(&self, busy: usize) -> usize {
        (SLOTS / busy.max(1)).max(1)
    }
    fn paused(&self) -> Paused {
        Paused::None
    }
    fn revoke_paused(&self, _: WorkerId) -> Vec<AttemptId> {
        Vec::new()
    }
    fn bound(&self, _: &Str, _: Arc<Pod>, _: Str) {}
    fn awaits_devices(&self, _: &Str, _: Arc<Pod>, _: Str) {}
    fn refuse(&self, _: &Str, _: Refusal) {}
}

/// What the sink's thread has seen so far.
#[derive(Default)]
struct Seen {
    /// Binds that count.
    bound: AtomicUsize,
    asked: AtomicUsize,
    done: AtomicBool,
}

/// What the sink's thread does: it plays the API server, the watch of pods and an extender that never answers.
struct Clerk<'r> {
    engine: &'r Engine,
    deliver: &'r Deliver,
    seen: &'r Seen,
    /// The schedulers whose binds count.
    counts: HashSet<Str>,
    batch: Vec<(WorkerId, BindRequest)>,
    /// Questions, with the time at which the client gives up on each.
    open: VecDeque<(Instant, WorkerId, ExtenderRequest)>,
    /// Pods that came in the place of others.
    again: u64,
}

impl<'r> Clerk<'r> {
    fn new(engine: &'r Engine, deliver: &'r Deliver, seen: &'r Seen, counts: HashSet<Str>) -> Self {
        let (batch, open) = (Vec::with_capacity(BATCH), VecDeque::new());
        Self { engine, deliver, seen, counts, batch, open, again: 0 }
    }

    /// Takes binds in batches: outcomes first, then what a watch would show. Answers questions once they have timed out.
    fn live(mut self, told: &Receiver<Told>) {
        while !self.seen.done.load(Ordering::Relaxed) {
            let wait = self.open.front().map_or(TIMEOUT, |(due, ..)| due.saturating_duration_since(Instant::now()));
            let first = match told.recv_timeout(wait) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            for one in first.into_iter().chain(told.try_iter().take(BATCH - 1)) {
                match one {
                    Told::Bind(worker, request) => self.batch.push((worker, request)),
                    Told::Ask(worker, ask) => {
                        self.seen.asked.fetch_add(1, Ordering::Relaxed);
                        self.open.push_back((Instant::now() + TIMEOUT, worker, ask));
                    }
                    Told::Stop => return,
                }
            }
            self.give_up_on_due();
            self.take();
        }
    }

    fn give_up_on_due(&mut self) {
        while self.open.front().is_some_and(|(due, ..)| *due <= Instant::now()) {
            let Some((_, worker, ask)) = self.open.pop_front() else { break };
            let error = ExtenderError { kind: ExtenderErrorKind::Timeout, message: "no answer in time".into() };
            let ExtenderRequest { attempt, extender, .. } = ask;
            (self.deliver)(worker, Input::ExtenderAnswered { attempt, extender, answer: Err(error) });
        }
    }

    /// The pods of the batch are bound, and gone; as many of the same kind wait.
    fn take(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        for (worker, request) in &self.batch {
            (self.deliver)(*worker, Input::BindEnded { attempt: request.attempt, outcome: BindOutcome::Bound });
        }
        let counted = self.batch.iter().filter(|(_, request)| self.counts.contains(&request.pod.scheduler_name));
        let counted = counted.count();
        let (batch, again) = (&mut self.batch, &mut self.again);
        self.engine.apply(|ledger| {
            for (_, request) in batch.drain(..) {
                ledger.delete_pod(&request.pod.uid);
                let mut next = Pod::clone(&request.pod);
                *again += 1;
                next.uid = format!("again-{again}").into();
                next.key.name = next.uid.clone();
                next.nominated_node = None;
                ledger.apply_pod(next);
            }
        });
        self.seen.bound.fetch_add(counted, Ordering::Relaxed);
    }
}
