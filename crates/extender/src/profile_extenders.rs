//! The extenders of one profile: its calls under way and its bound on memory. Nothing here is shared with another profile.

use super::binder::{ExtenderBind, SendState};
use super::breaker::Change;
use super::budget::{Budget, PROFILE_BYTES};
use super::error::error;
use super::extender::{Extender, OnChange};
use super::objects::Objects;
use super::question;
use super::resolve::Net;
use super::settings::{Settings, SettingsError, Verb};
use super::stats::ExtenderHealth;
use berth_cluster::bind::Deliver;
use berth_cluster::lease::Gate;
use berth_cluster::recheck::Recheck;
use berth_core::io::{
    AttemptId, BindOutcome, BindRequest, ExtenderError, ExtenderErrorKind, ExtenderRequest, Input, WorkerId,
};
use berth_core::model::Str;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A breaker opened or closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub profile: Str,
    pub extender: Str,
    pub verb: Verb,
    pub change: Change,
    /// The failure that opened it.
    pub error: Option<ExtenderError>,
}

/// Where notices go. Called from the tasks that make calls: it must not block.
pub type Notify = Arc<dyn Fn(Notice) + Send + Sync>;

/// What the extenders of all profiles share.
pub(super) struct Common {
    pub(super) net: Net,
    pub(super) objects: Objects,
    pub(super) gate: Gate,
    pub(super) recheck: Arc<dyn Recheck>,
    pub(super) bound_within: Duration,
    pub(super) lands_within: Duration,
    pub(super) deliver: Deliver,
    pub(super) notify: Notify,
    /// Workers ask from threads of their own; calls run here.
    pub(super) runtime: Handle,
}

/// An extender as the profile's spec has it now.
#[derive(Default)]
struct Configured {
    /// `None` where it never had settings that can be used.
    extender: Option<Arc<Extender>>,
    /// Why its present settings cannot be used; the last good ones are in force, if there are any.
    problem: Option<SettingsError>,
}

/// Said where an extender's settings cannot be used and earlier ones are: deleting a Secret does not revoke it.
const LAST_GOOD: &str = "; until then what was read before goes on being used";

type Tickets = BTreeMap<(WorkerId, AttemptId), Arc<SendState>>;

pub(super) struct ProfileExtenders {
    profile: Str,
    common: Arc<Common>,
    extenders: Mutex<BTreeMap<Str, Configured>>,
    tickets: Mutex<Tickets>,
    pub(super) budget: Budget,
    /// The worker that asked last: what concerns no single attempt is delivered to it.
    worker: Arc<AtomicU64>,
    tasks: TaskTracker,
    /// Cancelled: questions end at once.
    end: CancellationToken,
    /// Cancelled: binds make no more calls.
    closing: CancellationToken,
}

impl ProfileExtenders {
    pub(super) fn new(profile: Str, common: Arc<Common>) -> Self {
        Self {
            profile,
            common,
            extenders: Mutex::default(),
            tickets: Mutex::default(),
            budget: Budget::new(PROFILE_BYTES),
            worker: Arc::default(),
            tasks: TaskTracker::new(),
            end: CancellationToken::new(),
            closing: CancellationToken::new(),
        }
    }

    fn extenders(&self) -> MutexGuard<'_, BTreeMap<Str, Configured>> {
        self.extenders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the extenders. Breakers, counts and connections of those that stay are kept.
    pub(super) fn configure(&self, all: Vec<Result<Settings, SettingsError>>) {
        let mut extenders = self.extenders();
        let mut old = std::mem::take(&mut *extenders);
        for one in all {
            let name = one.as_ref().map_or_else(|e| e.extender().into(), |settings| settings.name.clone());
            let mut configured = old.remove(&name).unwrap_or_default();
            match one {
                Err(problem) => {
                    // A Secret that is no longer permitted must not be used: also not as it was read before.
                    if matches!(problem, SettingsError::NotPermitted { .. })
                        && let Some(extender) = configured.extender.take()
                    {
                        extender.withdraw();
                    }
                    configured.problem = Some(problem);
                }
                Ok(settings) => {
                    configured.problem = None;
                    if let Some(extender) = &configured.extender {
                        extender.replace(settings, &self.common.net);
                    } else {
                        let on_change = self.on_change(name.clone());
                        configured.extender = Some(Arc::new(Extender::new(settings, &self.common.net, on_change)));
                    }
                }
            }
            extenders.insert(name, configured);
        }
        for gone in old.into_values().filter_map(|configured| configured.extender) {
            gone.withdraw();
        }
    }

    /// Notifies the operator, and the worker when pods may be tried again.
    fn on_change(&self, extender: Str) -> OnChange {
        let (profile, common, worker) = (self.profile.clone(), self.common.clone(), self.worker.clone());
        Box::new(move |verb, change, error| {
            let why = error.map(|e| e.message.clone());
            match change {
                Change::Opened => {
                    tracing::warn!(%profile, %extender, verb = verb.as_str(), error = why.as_deref(), "extender's circuit opened");
                }
                Change::Closed => tracing::info!(%profile, %extender, verb = verb.as_str(), "extender answers again"),
            }
            (common.notify)(Notice {
                profile: profile.clone(),
                extender: extender.clone(),
                verb,
                change,
                error: error.cloned(),
            });
            if change == Change::Closed {
                (common.deliver)(WorkerId(worker.load(Ordering::Relaxed)), Input::ExtenderRecovered);
            }
        })
    }

    fn find(&self, name: &Str) -> Result<Arc<Extender>, ExtenderError> {
        let extenders = self.extenders();
        let why = match extenders.get(name) {
            Some(Configured { extender: Some(extender), .. }) => return Ok(extender.clone()),
            Some(Configured { problem: Some(problem), .. }) => problem.to_string(),
            Some(_) => format!("extender {name} is not set up"),
            None => format!("extender {name} is not set up for profile {}", self.profile),
        };
        Err(error(ExtenderErrorKind::Refused, why))
    }

    /// Asks; the answer is delivered.
    pub(super) fn ask(self: &Arc<Self>, worker: WorkerId, ask: ExtenderRequest) {
        self.worker.store(worker.0, Ordering::Relaxed);
        let this = self.clone();
        let task = async move {
            let ExtenderRequest { attempt, extender, pod, question } = ask;
            let answer = async {
                let found = this.find(&extender)?;
                question::ask(&found, &this.common.objects, &this.budget, &pod, &question).await
            };
            tokio::select! {
                () = this.end.cancelled() => {}
                answer = answer => {
                    (this.common.deliver)(worker, Input::ExtenderAnswered { attempt, extender, answer });
                }
            }
        };
        self.tasks.spawn_on(task, &self.common.runtime);
    }

    /// Binds by an extender; the outcome is delivered.
    pub(super) fn bind(self: &Arc<Self>, worker: WorkerId, name: &Str, request: BindRequest) {
        let attempt = request.attempt;
        self.worker.store(worker.0, Ordering::Relaxed);
        if self.closing.is_cancelled() {
            return (self.common.deliver)(worker, Input::BindRevoked { attempt });
        }
        let name = name.clone();
        let ticket = Arc::new(SendState::default());
        self.tickets().insert((worker, attempt), ticket.clone());
        let this = self.clone();
        let task = async move {
            let deliver = |outcome| (this.common.deliver)(worker, Input::BindEnded { attempt, outcome });
            let binder = ExtenderBind {
                find: &|| this.find(&name),
                kube: &this.common.net.kube,
                gate: &this.common.gate,
                recheck: &*this.common.recheck,
                bound_within: this.common.bound_within,
                lands_within: this.common.lands_within,
                budget: &this.budget,
                request: &request,
                ticket: &ticket,
                closing: &this.closing,
            };
            let ended = tokio::select! {
                () = ticket.end.cancelled() => None,
                outcome = binder.run_to_end(|| deliver(BindOutcome::Unknown)) => outcome,
            };
            // A bind that the shutdown left keeps its ticket: `cut_off` reports it.
            if ended.is_some() || ticket.end.is_cancelled() {
                this.tickets().remove(&(worker, attempt));
            }
            if let Some(outcome) = ended {
                deliver(outcome);
            }
        };
        self.tasks.spawn_on(task, &self.common.runtime);
    }

    /// Takes back a worker's binds that were not sent.
    pub(super) fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        let mut tickets = self.tickets();
        let revoked = tickets.extract_if(.., |(w, _), ticket| *w == worker && ticket.revoke());
        revoked.map(|((_, attempt), _)| attempt).collect()
    }

    /// The extenders' health, by name.
    pub(super) fn health(&self) -> Vec<ExtenderHealth> {
        let one = |(name, configured): (&Str, &Configured)| {
            let never_set_up = || ExtenderHealth { name: name.clone(), ..ExtenderHealth::default() };
            let mut health = configured.extender.as_ref().map_or_else(never_set_up, |e| e.health());
            if let Some(problem) = &configured.problem {
                health.uses_last_good = configured.extender.is_some();
                let goes_on = if health.uses_last_good { LAST_GOOD } else { "" };
                health.unusable = Some(error(ExtenderErrorKind::Refused, format!("{problem}{goes_on}")));
            }
            health
        };
        self.extenders().iter().map(one).collect()
    }

    /// Whether calls are under way.
    pub(super) fn is_busy(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Ends questions, and makes no more calls that bind.
    pub(super) fn close(&self) {
        self.closing.cancel();
        self.end.cancel();
        self.tasks.close();
    }

    /// Waits for the calls under way.
    pub(super) async fn landed(&self) {
        self.tasks.wait().await;
    }

    /// Ends all calls under way. Returns the binds that were not sent, and the number of binds of unknown outcome.
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
