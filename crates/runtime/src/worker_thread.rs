//! The thread of one worker: mail in, one step, effects out; and what happens when it panics.

use super::effect_sink::Refusal;
use super::handle::{WorkerHandle, WorkerState};
use super::in_flight::{InFlight, Undone};
use super::mailbox::{Mail, Order};
use super::shared::Shared;
use super::shares::Share;
use berth_cluster::bind::BindRequest;
use berth_cluster::evict::EvictRequest;
use berth_cluster::prebind::{NominateRequest, VolumeRequest};
use berth_core::io::{AttemptId, BindOutcome, Effect, Input};
use berth_core::ledger::LedgerAccess;
use berth_core::model::Str;
use berth_core::worker::{Next, Worker};
use berth_extender::Ask;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a worker's numbers are published at most: people and scrapes look at them, nothing decides by them.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// First pause before a worker that panicked is started again; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause: what makes it panic may go away, and a minute of that is bearable.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// A worker that lived this long starts with the first pause again.
const HEALTHY_AFTER: Duration = Duration::from_mins(10);

/// A worker's life: runs it until it is stopped, and again after each panic.
pub(super) fn supervise(shared: &Arc<Shared>, post: &Arc<WorkerHandle>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let desk = shared.open_desk(post);
        let began = Instant::now();
        let mut seat = WorkerThread::new(shared.clone(), post.clone(), desk.clone());
        let ended = catch_unwind(AssertUnwindSafe(|| seat.run()));
        let abandoned = seat.undispatched();
        drop(seat);
        shared.close_desk(&desk, &abandoned);
        let Err(panic) = ended else {
            post.set_state(WorkerState::Stopped);
            return;
        };
        let message = panic_message(&*panic);
        if shared.ledger.is_broken() {
            shared.die(format!("worker of profile {} panicked while it wrote the ledger: {message}", post.name));
            return;
        }
        if began.elapsed() > HEALTHY_AFTER {
            pause = FIRST_PAUSE;
        }
        tracing::error!(profile = %post.name, message, pause_s = pause.as_secs(), "worker panicked");
        let again_at = shared.clock.now() + pause;
        post.set_state(WorkerState::Failed { message, again_at });
        if wait_or_stop(post, shared.clock.instant(again_at)) {
            post.set_state(WorkerState::Stopped);
            return;
        }
        shared.tell_served_now();
        pause = (pause * 2).min(LONGEST_PAUSE);
        post.count_restart();
        post.set_state(WorkerState::Running);
    }
}

/// Waits until `until`, or for an order: says whether it was to stop. A new profile is tried at once.
fn wait_or_stop(post: &WorkerHandle, until: Instant) -> bool {
    while Instant::now() < until {
        match post.mailbox.take(Some(until)).order {
            Some(Order::Stop) => return true,
            Some(Order::Swap(profile)) => {
                post.set_profile(profile);
                return false;
            }
            None => {}
        }
    }
    false
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

/// One incarnation of a worker.
struct WorkerThread {
    shared: Arc<Shared>,
    post: Arc<WorkerHandle>,
    desk: Arc<InFlight>,
    worker: Worker,
    share: Share,
    inputs: Vec<Input>,
    effects: Vec<Effect>,
    published: Option<Instant>,
}

impl WorkerThread {
    fn new(shared: Arc<Shared>, post: Arc<WorkerHandle>, desk: Arc<InFlight>) -> Self {
        let mut worker = Worker::new(post.profile(), shared.seed(&post.name));
        worker.set_unix_us_at_zero(shared.clock.unix_us_at_zero());
        let share = shared.shares.join();
        Self { shared, post, desk, worker, share, inputs: Vec::new(), effects: Vec::new(), published: None }
    }

    /// What a step has brought into force that did not end, so that nobody carries it out.
    fn undispatched(&self) -> Undone {
        let mut undone = Undone::default();
        for effect in &self.effects {
            match effect {
                Effect::Bind { attempt, pod, .. } => {
                    self.desk.never_opened(*attempt);
                    undone.assumed.push(pod.uid.clone());
                }
                Effect::Evict { attempt, victims, .. } => {
                    self.desk.never_opened(*attempt);
                    undone.victims.extend(victims.iter().map(|victim| victim.uid.clone()));
                }
                _ => {}
            }
        }
        undone.assumed.extend(self.worker.waiting_for_volumes());
        undone
    }

    fn run(&mut self) {
        let mut until = Some(Instant::now());
        loop {
            let Mail { inputs, order } = self.post.mailbox.take(until);
            self.inputs.extend(inputs);
            match order {
                Some(Order::Stop) => return,
                Some(Order::Swap(profile)) => {
                    let revoked = self.shared.revoke(&self.desk);
                    self.inputs.extend(revoked.into_iter().map(|attempt| Input::BindRevoked { attempt }));
                    self.post.set_profile(profile.clone());
                    self.shared.tell_served_now();
                    self.worker.swap(self.shared.clock.now(), profile);
                }
                None => {}
            }
            until = self.step();
        }
    }

    /// One step; returns until when to wait if nothing comes.
    fn step(&mut self) -> Option<Instant> {
        let undone: Vec<AttemptId> = self.inputs.iter().filter_map(gives_back).collect();
        self.worker.set_bind_window(self.window());
        let next = self.worker.step(self.shared.clock.now(), &mut self.inputs, &self.shared.ledger, &mut self.effects);
        self.desk.digested(&undone);
        // Whoever takes a nomination back has given up what was assumed with it; whoever evicts may have taken others back.
        let given_up = self
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Nominate { node: None, .. } | Effect::Evict { .. }));
        self.dispatch();
        if given_up || !undone.is_empty() {
            // Room came back: others may have waited for it.
            self.shared.wake_all();
        }
        let unacknowledged = self.desk.unacknowledged();
        self.post.set_unacknowledged(unacknowledged);
        self.share.set_busy(unacknowledged > 0 || matches!(next, Next::Now));
        let publish_at = self.publish();
        match next {
            Next::Now => Some(Instant::now()),
            Next::At(time) => {
                let at = self.shared.clock.instant(time);
                Some(publish_at.map_or(at, |publish| publish.min(at)))
            }
            Next::Idle => publish_at,
        }
    }

    /// How many unacknowledged binds this worker may have: twice its share, and what only waits for its namespace.
    fn window(&self) -> usize {
        let outlets = &self.shared.outlets;
        2 * outlets.share(self.shared.shares.busy()) + self.desk.held(|namespace| outlets.holds(namespace))
    }

    /// Hands over the effects in order; what was handed over is gone from the list even if the next one panics.
    fn dispatch(&mut self) {
        self.effects.reverse();
        while let Some(effect) = self.effects.last().cloned() {
            match effect {
                Effect::Bind { attempt, pod, node, extender } => {
                    let request = BindRequest { attempt, pod, node };
                    self.desk.opened(&request);
                    match extender.and_then(|at| self.extender_name(at)) {
                        None => self.shared.outlets.bind(self.desk.id, request),
                        Some(name) => {
                            self.shared.outlets.bind_by(self.desk.id, &self.post.name, &name, request);
                        }
                    }
                }
                Effect::AskExtender { attempt, extender, pod, question } => {
                    if let Some(name) = self.extender_name(extender) {
                        let ask = Ask { attempt, extender, name, pod, question };
                        self.shared.outlets.ask(self.desk.id, &self.post.name, ask);
                    }
                }
                Effect::BindVolumes { attempt, pod, node, writes } => {
                    let request = VolumeRequest::new(attempt, pod, &node, &writes);
                    self.shared.outlets.write_volumes(self.desk.id, request);
                }
                Effect::Nominate { pod, node } => self.shared.outlets.nominate(NominateRequest { pod, node }),
                Effect::Evict { attempt, preemptor, node, victims, taken_back, lesser } => {
                    self.desk.evicting(attempt, victims.iter().map(|victim| victim.uid.clone()).collect());
                    let request = EvictRequest { attempt, preemptor, node, victims, taken_back, lesser };
                    self.shared.outlets.evict(self.desk.id, request);
                }
                Effect::Refuse { pod, reason, text, attempted, nomination } => {
                    let profile = self.post.name.clone();
                    self.shared.outlets.refuse(Refusal { profile, pod, reason, text, attempted, nomination });
                }
            }
            self.effects.pop();
        }
    }

    /// The name of one of the profile's extenders.
    fn extender_name(&self, at: usize) -> Option<Str> {
        self.worker.profile().extenders.get(at).map(|extender| extender.name.clone())
    }

    /// Publishes if it is time; otherwise says when it will be.
    fn publish(&mut self) -> Option<Instant> {
        let now = Instant::now();
        if let Some(due) = self.published.map(|last| last + PUBLISH_EVERY).filter(|due| *due > now) {
            return Some(due);
        }
        let snapshot = self.shared.ledger.read(|ledger| self.worker.snapshot(ledger));
        self.post.publish(snapshot);
        self.published = Some(now);
        None
    }
}

/// The attempt whose room or victims an outcome gives back.
fn gives_back(input: &Input) -> Option<AttemptId> {
    match input {
        Input::BindEnded { outcome: BindOutcome::Bound | BindOutcome::Unknown, .. }
        | Input::VolumesWritten { .. }
        | Input::ExtenderAnswered { .. }
        | Input::ExtenderRecovered => None,
        Input::BindEnded { attempt, .. } | Input::EvictionEnded { attempt, .. } | Input::BindRevoked { attempt } => {
            Some(*attempt)
        }
    }
}
