//! The lane of one profile: its extenders, its calls under way, its bound on memory. Nothing of it is another profile's.

use super::binder::{Binder, Ticket};
use super::breaker::Change;
use super::budget::{Budget, PROFILE_BYTES};
use super::error::error;
use super::extender_clients::{Ask, Notice, Surroundings};
use super::guard::{Extender, OnChange};
use super::question;
use super::settings::{Settings, SettingsError};
use super::stats::ExtenderHealth;
use berth_cluster::bind::{BindRequest, WorkerId};
use berth_core::io::{AttemptId, BindOutcome, ExtenderError, ExtenderErrorKind, Input};
use berth_core::model::Str;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// An extender as the profile's spec has it now.
struct Slot {
    /// None where it could never be set up.
    extender: Option<Arc<Extender>>,
    /// Why its present settings cannot be used; the last that could be are in force.
    problem: Option<SettingsError>,
    /// Its place among the compiled profile's.
    place: Arc<AtomicUsize>,
}

type Tickets = BTreeMap<(WorkerId, AttemptId), Arc<Ticket>>;

/// The lane of one profile.
pub(super) struct ExtenderClient {
    profile: Str,
    with: Arc<Surroundings>,
    slots: Mutex<BTreeMap<Str, Slot>>,
    tickets: Mutex<Tickets>,
    budget: Budget,
    /// The worker that asked last: it is told what concerns no single attempt.
    worker: Arc<AtomicU64>,
    tasks: TaskTracker,
    /// Questions end with it at once.
    end: CancellationToken,
    /// Binds begin nothing more.
    closing: CancellationToken,
}

impl ExtenderClient {
    pub(super) fn new(profile: Str, with: Arc<Surroundings>) -> Self {
        Self {
            profile,
            with,
            slots: Mutex::default(),
            tickets: Mutex::default(),
            budget: Budget::new(PROFILE_BYTES),
            worker: Arc::default(),
            tasks: TaskTracker::new(),
            end: CancellationToken::new(),
            closing: CancellationToken::new(),
        }
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<Str, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on with these extenders. Breakers, counts and connections of those that stay as they were are kept.
    pub(super) fn configure(&self, all: Vec<Result<Settings, SettingsError>>) {
        let mut slots = self.slots();
        let mut old = std::mem::take(&mut *slots);
        for (at, one) in all.into_iter().enumerate() {
            let name = one.as_ref().map_or_else(|e| e.extender().into(), |settings| settings.name.clone());
            let mut slot = old.remove(&name).unwrap_or_else(|| Slot {
                extender: None,
                problem: None,
                place: Arc::new(AtomicUsize::new(at)),
            });
            match (one, &slot.extender) {
                (Ok(settings), Some(extender)) => {
                    extender.replace(settings, &self.with.net);
                    slot.problem = None;
                }
                (Ok(settings), None) => {
                    let on_change = self.on_change(name.clone(), slot.place.clone());
                    slot.extender = Some(Arc::new(Extender::new(settings, &self.with.net, on_change)));
                    slot.problem = None;
                }
                (Err(problem), _) => slot.problem = Some(problem),
            }
            slots.insert(name, slot);
        }
    }

    /// Tells the operator, and the worker when pods may be tried again.
    fn on_change(&self, extender: Str, place: Arc<AtomicUsize>) -> OnChange {
        let (profile, with, worker) = (self.profile.clone(), self.with.clone(), self.worker.clone());
        Box::new(move |verb, change, error| {
            let why = error.map(|e| e.message.clone());
            match change {
                Change::Opened => {
                    tracing::warn!(%profile, %extender, verb = verb.as_str(), error = why.as_deref(), "extender left alone");
                }
                Change::Closed => tracing::info!(%profile, %extender, verb = verb.as_str(), "extender answers again"),
            }
            (with.notify)(Notice {
                profile: profile.clone(),
                extender: extender.clone(),
                verb,
                change,
                error: error.cloned(),
            });
            if change == Change::Closed {
                let input = Input::ExtenderRecovered { extender: place.load(Ordering::Relaxed) };
                (with.deliver)(WorkerId(worker.load(Ordering::Relaxed)), input);
            }
        })
    }

    fn find(&self, name: &Str) -> Result<Arc<Extender>, ExtenderError> {
        let slots = self.slots();
        let refused = |why: String| error(ExtenderErrorKind::Refused, why);
        let slot = slots.get(name);
        let slot =
            slot.ok_or_else(|| refused(format!("extender {name} is not set up for profile {}", self.profile)))?;
        slot.extender.clone().ok_or_else(|| {
            refused(slot.problem.as_ref().map_or_else(|| format!("extender {name} is not set up"), ToString::to_string))
        })
    }

    fn remember(&self, worker: WorkerId, name: &Str, place: usize) {
        self.worker.store(worker.0, Ordering::Relaxed);
        if let Some(slot) = self.slots().get(name) {
            slot.place.store(place, Ordering::Relaxed);
        }
    }

    /// Asks; the answer is delivered.
    pub(super) fn ask(self: &Arc<Self>, worker: WorkerId, ask: Ask) {
        self.remember(worker, &ask.name, ask.extender);
        let lane = self.clone();
        let task = async move {
            let Ask { attempt, extender, name, pod, question } = ask;
            let answer = async {
                let found = lane.find(&name)?;
                question::ask(&found, &lane.with.objects, &lane.budget, &pod, &question).await
            };
            tokio::select! {
                () = lane.end.cancelled() => {}
                answer = answer => {
                    (lane.with.deliver)(worker, Input::ExtenderAnswered { attempt, extender, answer });
                }
            }
        };
        self.tasks.spawn_on(task, &self.with.runtime);
    }

    /// Binds by an extender; the outcome is delivered.
    pub(super) fn bind(self: &Arc<Self>, worker: WorkerId, name: &Str, request: BindRequest) {
        let attempt = request.attempt;
        self.worker.store(worker.0, Ordering::Relaxed);
        let found = match self.find(name) {
            Ok(found) if !self.closing.is_cancelled() => found,
            Ok(_) => return (self.with.deliver)(worker, Input::BindRevoked { attempt }),
            Err(e) => {
                let outcome = BindOutcome::Refused { code: None, message: e.message.to_string() };
                return (self.with.deliver)(worker, Input::BindEnded { attempt, outcome });
            }
        };
        let ticket = Arc::new(Ticket::new(CancellationToken::new()));
        self.tickets().insert((worker, attempt), ticket.clone());
        let lane = self.clone();
        let task = async move {
            let tell = |outcome| (lane.with.deliver)(worker, Input::BindEnded { attempt, outcome });
            let binder = Binder {
                extender: &found,
                kube: &lane.with.net.kube,
                gate: &lane.with.gate,
                budget: &lane.budget,
                request: &request,
                ticket: &ticket,
                closing: &lane.closing,
            };
            let ended = tokio::select! {
                () = ticket.end.cancelled() => None,
                outcome = binder.run(|| tell(BindOutcome::Unknown)) => outcome,
            };
            // One that the shutdown left is still in the table: it is what is reported.
            if ended.is_some() || ticket.end.is_cancelled() {
                lane.tickets().remove(&(worker, attempt));
            }
            if let Some(outcome) = ended {
                tell(outcome);
            }
        };
        self.tasks.spawn_on(task, &self.with.runtime);
    }

    /// Takes back a worker's binds that were not sent.
    pub(super) fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        let mut tickets = self.tickets();
        let taken: Vec<_> =
            tickets.iter().filter(|((w, _), ticket)| *w == worker && ticket.revoke()).map(|(key, _)| *key).collect();
        for key in &taken {
            tickets.remove(key);
        }
        taken.into_iter().map(|(_, attempt)| attempt).collect()
    }

    /// Stops following a bind of which evidence came another way.
    pub(super) fn forget(&self, worker: WorkerId, attempt: AttemptId) {
        if let Some(ticket) = self.tickets().remove(&(worker, attempt)) {
            ticket.end.cancel();
        }
    }

    /// How the extenders do, by name.
    pub(super) fn health(&self) -> Vec<ExtenderHealth> {
        let slots = self.slots();
        let one = |(name, slot): (&Str, &Slot)| {
            let mut health = slot.extender.as_ref().map_or_else(|| ExtenderHealth::none(name), |e| e.health());
            if let Some(problem) = &slot.problem {
                health.unusable = Some(error(ExtenderErrorKind::Refused, problem.to_string()));
            }
            health
        };
        slots.iter().map(one).collect()
    }

    /// Bytes held by calls under way.
    pub(super) fn held_bytes(&self) -> usize {
        self.budget.held()
    }

    /// Whether calls are under way.
    pub(super) fn is_busy(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Ends questions, and begins no more calls that bind.
    pub(super) fn close(&self) {
        self.closing.cancel();
        self.end.cancel();
        self.tasks.close();
    }

    /// Waits for the calls under way.
    pub(super) async fn landed(&self) {
        self.tasks.wait().await;
    }

    /// Cuts off what is under way. Gives the binds that were not sent, and how many of unknown outcome there are.
    pub(super) fn cut_off(&self) -> (Vec<(WorkerId, AttemptId)>, usize) {
        let mut tickets = self.tickets();
        let (mut unsent, mut unsettled) = (Vec::new(), 0);
        for (key, ticket) in std::mem::take(&mut *tickets) {
            if ticket.is_sent() {
                unsettled += 1;
            } else {
                unsent.push(key);
            }
            ticket.end.cancel();
        }
        (unsent, unsettled)
    }
}
