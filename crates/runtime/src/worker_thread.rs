//! The thread of one worker: mail in, one step, effects out; and what happens when it panics.

use super::handle::{WorkerHandle, WorkerState};
use super::in_flight::{Consequence, InFlight, Undone};
use super::mailbox::{Mail, Order, Question};
use super::quarantine::{Suspicion, panic_message};
use super::shared::{Share, Shared};
use berth_core::cycle::Laps;
use berth_core::io::{AttemptId, Effect, Input, Paused};
use berth_core::ledger::{Kinds, LedgerAccess};
use berth_core::model::Pod;
use berth_core::worker::{Choice, Next, SlowAttempt, Worker};
use futures::FutureExt;
use std::hash::BuildHasher;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a worker's numbers are published at most: people and scrapes look at them, nothing decides by them.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// Numbers are published sooner where no pod has waited for so long: nothing is about to change, and people see that it is done. Not at once:
/// of a queue that fills and empties all the time nobody would see but that it is empty.
const PUBLISH_DONE_AFTER: Duration = Duration::from_millis(200);

/// First pause before a worker that panicked is started again; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause: what makes it panic may go away, and a minute of that is bearable.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// A worker that lived this long starts with the first pause again.
const HEALTHY_AFTER: Duration = Duration::from_mins(10);

/// How long a worker rests after its next panic.
struct Rest(Duration);

impl Rest {
    fn after(&mut self, lived: Duration, suspicion: Suspicion) -> Duration {
        if lived > HEALTHY_AFTER || suspicion != Suspicion::Ignored {
            // One pod after the other is set apart: others need not wait for long.
            self.0 = FIRST_PAUSE;
        }
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

/// A worker's life. A panic outside of the worker's own steps has no remedy here, and the process ends.
pub(super) async fn live(shared: &Arc<Shared>, handle: &Arc<WorkerHandle>) {
    if let Err(panic) = AssertUnwindSafe(supervise(shared, handle)).catch_unwind().await {
        let message = panic_message(&*panic);
        shared.ledger.die(|| format!("the worker of profile {} panicked while it was closed: {message}", handle.name));
    }
    handle.pulse.end();
}

/// Runs a worker until it is stopped, and again after each panic.
async fn supervise(shared: &Arc<Shared>, handle: &Arc<WorkerHandle>) {
    let mut rest = Rest(FIRST_PAUSE);
    loop {
        handle.pulse.begin(shared.clock.now());
        let in_flight = shared.begin(handle);
        let began = Instant::now();
        let mut thread = WorkerThread::new(shared.clone(), handle.clone(), in_flight.clone());
        let ended = AssertUnwindSafe(thread.run()).catch_unwind().await;
        let (abandoned, suspect) = (thread.undispatched(), thread.suspect());
        drop(thread);
        shared.end(&in_flight, &abandoned);
        let Err(panic) = ended else {
            handle.set_state(WorkerState::Stopped);
            return;
        };
        let message = panic_message(&*panic);
        if shared.ledger.is_broken() {
            return;
        }
        let suspicion = suspect.map_or(Suspicion::Ignored, |pod| suspect_pod(shared, handle, &pod));
        let pause = rest.after(began.elapsed(), suspicion);
        tracing::error!(profile = %handle.name, message, pause_s = pause.as_secs(), "worker panicked");
        let again_at = shared.clock.now() + pause;
        handle.set_state(WorkerState::Failed { message, again_at });
        handle.forget_arms();
        handle.pulse.end();
        if wait_or_stop(shared, handle, shared.clock.instant(again_at)).await {
            handle.set_state(WorkerState::Stopped);
            return;
        }
        shared.tell_served_by(handle);
        handle.update(|view| {
            view.restarts += 1;
            view.state = WorkerState::Running;
        });
    }
}

/// Notes that an attempt of the pod made its worker panic.
fn suspect_pod(shared: &Shared, handle: &WorkerHandle, pod: &Pod) -> Suspicion {
    let exists = |uid: &str| shared.ledger.read(|ledger| ledger.pod(uid).is_some());
    let suspicion = handle.quarantine(|quarantine| quarantine.note(&pod.uid, exists));
    tracing::error!(profile = %handle.name, pod = %pod.key, held = suspicion == Suspicion::Held, "attempt of a pod panicked");
    suspicion
}

/// Waits until `until`, or for an order: says whether it was to stop. A new profile is tried at once.
async fn wait_or_stop(shared: &Shared, handle: &WorkerHandle, until: Instant) -> bool {
    while Instant::now() < until {
        match handle.mailbox.take(Some(until)).await.order {
            Some(Order::Stop) => return true,
            Some(Order::Swap(profile)) => {
                handle.set_profile(profile, shared.clock.now());
                return false;
            }
            None => {}
        }
    }
    false
}

/// What is needed of an effect if the handing over panics.
#[derive(Debug, Default)]
struct Handing {
    /// The attempt that was opened for it.
    attempt: Option<AttemptId>,
    /// The pod that is suspected then.
    pod: Option<Arc<Pod>>,
}

impl Handing {
    fn of(effect: &Effect) -> Self {
        match effect {
            Effect::Bind(request) => Self { attempt: Some(request.attempt), pod: Some(request.pod.clone()) },
            Effect::Evict(request) => Self { attempt: Some(request.attempt), pod: None },
            Effect::Refuse(refusal) => Self { attempt: None, pod: Some(refusal.pod.clone()) },
            Effect::ReserveClaims(request) => Self { attempt: Some(request.attempt), pod: Some(request.pod.clone()) },
            Effect::AskExtender(_)
            | Effect::BindVolumes(_)
            | Effect::Nominate(_)
            | Effect::AwaitDevices { .. }
            | Effect::Unreserve(_)
            | Effect::Deallocate(_) => Self::default(),
        }
    }
}

/// One incarnation of a worker.
struct WorkerThread {
    shared: Arc<Shared>,
    handle: Arc<WorkerHandle>,
    in_flight: Arc<InFlight>,
    worker: Worker,
    share: Share,
    inputs: Vec<Input>,
    effects: Vec<Effect>,
    /// The effect that is being handed over.
    handing: Option<Handing>,
    published: Option<Instant>,
    /// Since when no pod waits.
    done_since: Option<Instant>,
    /// When it was looked last for an attempt to be logged.
    logged: Option<Instant>,
}

impl WorkerThread {
    fn new(shared: Arc<Shared>, handle: Arc<WorkerHandle>, in_flight: Arc<InFlight>) -> Self {
        let mut worker = Worker::new(handle.profile(), shared.seeds.hash_one(&*handle.name));
        worker.set_unix_us_at_zero(shared.clock.unix_us_at_zero());
        worker.quarantine(handle.quarantine(|quarantine| quarantine.held().cloned().collect::<Vec<_>>()));
        if shared.measures_plugins.load(Ordering::Relaxed) {
            worker.measure_plugins();
        }
        let share = shared.shares.join();
        Self {
            shared,
            handle,
            in_flight,
            worker,
            share,
            inputs: Vec::new(),
            effects: Vec::new(),
            handing: None,
            published: None,
            done_since: None,
            logged: None,
        }
    }

    /// The pod at whose attempt, or at whose request, a panic broke off.
    fn suspect(&self) -> Option<Arc<Pod>> {
        let of_request = self.handing.as_ref().and_then(|handing| handing.pod.as_ref());
        of_request.or_else(|| self.worker.trying()).cloned()
    }

    /// What a step has brought into force that did not end, so that nobody carries it out.
    fn undispatched(&self) -> Undone {
        let mut undone = Undone::default();
        for effect in &self.effects {
            match effect {
                Effect::Bind(request) => undone.assumed.push(request.pod.uid.clone()),
                Effect::Evict(request) => undone.victims.extend(request.victims.iter().map(|v| v.uid.clone())),
                Effect::ReserveClaims(request) => undone.claims.push((request.pod.uid.clone(), request.writes.clone())),
                _ => {}
            }
        }
        let handing = self.handing.as_ref().and_then(|handing| handing.attempt);
        match handing.map(|attempt| self.in_flight.never_opened(attempt)) {
            Some(Consequence::Forget(uid)) => undone.assumed.push(uid),
            Some(Consequence::Release(victims)) => undone.victims.extend(victims),
            Some(Consequence::ClaimsWritten(uid, writes, _)) => undone.claims.push((uid, writes)),
            Some(Consequence::None | Consequence::Bound(..) | Consequence::BindEnded(..)) | None => {}
        }
        undone.assumed.extend(self.worker.waiting_for_volumes());
        undone
    }

    async fn run(&mut self) {
        let mut until = Some(Instant::now());
        loop {
            self.handle.pulse.end();
            let Mail { inputs, order, questions } = self.handle.mailbox.take(until).await;
            self.handle.pulse.begin(self.shared.clock.now());
            self.inputs.extend(inputs);
            match order {
                Some(Order::Stop) => return,
                Some(Order::Swap(profile)) => {
                    let revoked = self.shared.revoke(&self.in_flight);
                    self.tell_revoked(revoked);
                    self.handle.set_profile(profile.clone(), self.shared.clock.now());
                    self.shared.tell_served_by(&self.handle);
                    self.worker.swap(self.shared.clock.now(), profile);
                }
                None => {}
            }
            for Question { after, most, answer } in questions {
                // Who asked may have gone.
                let _ = answer.send(self.worker.list_pods(&self.shared.ledger, after.as_ref(), most));
            }
            until = self.step();
        }
    }

    fn tell_revoked(&mut self, attempts: Vec<AttemptId>) {
        self.inputs.extend(attempts.into_iter().map(|attempt| Input::BindRevoked { attempt }));
    }

    /// One step; returns until when to wait if nothing comes.
    fn step(&mut self) -> Option<Instant> {
        // Twice its share: what a pause covers is not decided, so that it takes nothing of this from other pods.
        self.worker.set_bind_window(2 * self.shared.sink.share(self.shared.shares.busy()));
        self.worker.set_paused(self.shared.sink.paused());
        self.worker.note_choices(tracing::enabled!(tracing::Level::DEBUG));
        let next = self.worker.step(self.shared.clock.now(), &mut self.inputs, &self.shared.ledger, &mut self.effects);
        self.dispatch();
        self.log_choices();
        if self.shared.sink.paused() != Paused::None {
            // Decided and not sent: as long as the pause lasts, the capacity is for pods that can be bound.
            let revoked = self.shared.revoke_paused(&self.in_flight);
            self.tell_revoked(revoked);
        }
        let (unacknowledged, followed) = (self.in_flight.unacknowledged(), self.worker.followed());
        let is_wider = self.handle.step_ended(unacknowledged, followed, self.worker.interest());
        // Something may have happened of which it was not told: it did not concern the worker as it was before.
        let has_more = is_wider && followed != Some(self.shared.ledger.version());
        // What this step gave up may be what others wait for, and pods of this worker: it had followed the log by then.
        self.shared.tell_freed();
        self.share.set_busy(unacknowledged > 0 || matches!(next, Next::Now));
        let publish_at = self.publish();
        if has_more || !self.inputs.is_empty() {
            return Some(Instant::now());
        }
        let at = match next {
            Next::Now => return Some(Instant::now()),
            Next::At(time) => Some(time),
            Next::Idle => None,
        };
        self.handle.seat.rest(self.shared.clock.now());
        let at = at.into_iter().chain(self.worker.rests_at()).chain(self.handle.seat.rests_at()).min();
        at.map(|time| self.shared.clock.instant(time)).into_iter().chain(publish_at).min()
    }

    /// Hands over the effects in order. If that panics, those that were not handed over are left in the list and in `handing`.
    fn dispatch(&mut self) {
        self.effects.reverse();
        while let Some(effect) = self.effects.pop() {
            self.handing = Some(Handing::of(&effect));
            let (profile, sink) = (&self.handle.name, &self.shared.sink);
            match effect {
                Effect::Bind(request) => {
                    self.in_flight.opened(&request);
                    sink.bind(self.in_flight.id, profile, request);
                }
                Effect::AskExtender(request) => sink.ask(self.in_flight.id, profile, request),
                Effect::BindVolumes(request) => sink.write_volumes(self.in_flight.id, profile, request),
                Effect::ReserveClaims(request) => {
                    self.in_flight.reserving(&request);
                    sink.reserve_claims(self.in_flight.id, profile, request);
                }
                Effect::Unreserve(request) => sink.unreserve_claims(profile, request),
                Effect::Deallocate(request) => sink.deallocate(profile, request),
                Effect::Nominate(request) => sink.nominate(profile, request),
                Effect::AwaitDevices { pod, node } => sink.awaits_devices(profile, pod, node),
                Effect::Evict(request) => {
                    self.in_flight.evicting(request.attempt, request.victims.iter().map(|v| v.uid.clone()).collect());
                    sink.evict(self.in_flight.id, profile, request);
                }
                Effect::Refuse(refusal) => sink.refuse(profile, refusal),
            }
        }
        self.handing = None;
    }

    fn log_choices(&mut self) {
        for Choice { pod, node, score, feasible, best } in self.worker.take_choices() {
            tracing::debug!(profile = %self.handle.name, %pod, %node, score, feasible, ?best, "node chosen");
        }
    }

    /// Says which attempt was the slowest since this was last asked: a line a second at most, whatever tenants and extenders do.
    fn log_slowest(&mut self) {
        let Some(slowest) = self.worker.take_slowest() else { return };
        let SlowAttempt { pod, total, deciding, parts, afterwards, others } = slowest;
        // What was not measured is left out: it did not take 0 ms.
        let parts = (parts != Laps::default()).then_some(parts);
        tracing::info!(
            profile = %self.handle.name,
            %pod,
            total_ms = total.as_millis(),
            deciding_ms = deciding.as_millis(),
            pre_filter_ms = parts.map(|parts| parts.pre_filter.as_millis()),
            filter_ms = parts.map(|parts| parts.filter.as_millis()),
            score_ms = parts.map(|parts| parts.score.as_millis()),
            afterwards_ms = afterwards.as_millis(),
            others,
            "slow attempt"
        );
    }

    /// Publishes if it is time; otherwise says when it will be.
    fn publish(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.done_since = (self.worker.interest() == Kinds::NONE).then(|| self.done_since.unwrap_or(now));
        let due = self.published.map(|last| {
            let done = self.done_since.filter(|since| *since > last).map(|since| since + PUBLISH_DONE_AFTER);
            done.into_iter().chain([last + PUBLISH_EVERY]).min().unwrap_or(now)
        });
        if let Some(due) = due.filter(|due| *due > now) {
            return Some(due);
        }
        if self.logged.is_none_or(|last| last + PUBLISH_EVERY <= now) {
            self.logged = Some(now);
            self.log_slowest();
        }
        let snapshot = Arc::new(self.worker.snapshot(&self.shared.ledger));
        self.handle.update(|view| view.snapshot = Some(snapshot));
        self.published = Some(now);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_rests_longer_after_each_panic_of_no_known_pod() {
        let soon = Duration::ZERO;
        let mut rest = Rest(FIRST_PAUSE);
        let pauses = [(); 8].map(|()| rest.after(soon, Suspicion::Ignored).as_secs());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        for suspicion in [Suspicion::Noted, Suspicion::Held] {
            assert_eq!(rest.after(soon, suspicion), FIRST_PAUSE, "one pod after the other is set apart");
            assert_eq!(rest.after(soon, Suspicion::Ignored), FIRST_PAUSE * 2);
        }
        assert_eq!(rest.after(HEALTHY_AFTER * 2, Suspicion::Ignored), FIRST_PAUSE);
    }
}
