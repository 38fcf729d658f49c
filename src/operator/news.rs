//! What of a profile's status is worth an event: changes that somebody wants to hear of when they happen, each told once. Pure.
//!
//! A new leader goes on from the status that the last one wrote, so that a hand-over tells nothing anew.

use berth_api::conditions::{Accepted, ConditionType, Programmed, Ready, SchedulingHealthy, Status};
use berth_api::{Mode, SchedulerProfileStatus, WorkerState};
use berth_cluster::events::EventType;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// An event on a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct News {
    pub(super) kind: EventType,
    pub(super) reason: &'static str,
    pub(super) action: &'static str,
    pub(super) note: String,
}

impl News {
    fn normal(reason: &'static str, action: &'static str, note: &str) -> Self {
        Self { kind: EventType::Normal, reason, action, note: note.to_owned() }
    }

    fn warning(reason: &'static str, action: &'static str, note: &str) -> Self {
        Self { kind: EventType::Warning, reason, action, note: note.to_owned() }
    }
}

/// What the statuses so far have told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// The reason of `Accepted`, and the generation that it spoke of.
    accepted: Option<(String, i64)>,
    /// Whether the worker failed or hung, and has not worked since.
    troubled: bool,
    /// The reason of `SchedulingHealthy` when something could last be said.
    healthy: String,
    mode: Option<Mode>,
}

impl Told {
    /// What a status that was written by another process has told.
    pub(super) fn of(status: &SchedulerProfileStatus) -> Self {
        Self::default().after(status)
    }

    /// What `status` tells that was not told before.
    pub(super) fn next(&mut self, status: &SchedulerProfileStatus) -> Vec<News> {
        let now = self.after(status);
        let news =
            [self.of_spec(status), self.of_worker(&now, status), self.of_scheduling(&now, status), self.of_mode(&now)];
        *self = now;
        news.into_iter().flatten().collect()
    }

    /// What is not known at present stays as it was: a worker that is about to start has neither recovered nor failed.
    fn after(&self, status: &SchedulerProfileStatus) -> Self {
        let known = |kind| condition(status, kind).filter(|condition| condition.status != Status::Unknown.as_str());
        let accepted = known(ConditionType::Accepted).map(|one| (one.reason.clone(), generation(one)));
        let healthy = known(ConditionType::SchedulingHealthy).map(|one| one.reason.clone());
        let works = status.worker.as_ref().and_then(|worker| worker.state);
        let troubled = match trouble(status) {
            Some(_) => true,
            None => self.troubled && !matches!(works, Some(WorkerState::Running | WorkerState::Paused)),
        };
        Self {
            accepted: accepted.or_else(|| self.accepted.clone()),
            troubled,
            healthy: healthy.unwrap_or_else(|| self.healthy.clone()),
            mode: status.mode.or(self.mode),
        }
    }

    fn of_spec(&self, status: &SchedulerProfileStatus) -> Option<News> {
        let condition = condition(status, ConditionType::Accepted)?;
        let generation = generation(condition);
        if self.accepted.as_ref().is_some_and(|(reason, of)| *reason == condition.reason && *of == generation) {
            return None;
        }
        match Accepted::ALL.into_iter().find(|reason| reason.as_str() == condition.reason)? {
            // Without the generation: repeats are counted on the first event, whose text stays.
            Accepted::Accepted => Some(News::normal("Accepted", "Accepting", "the newest spec is accepted")),
            // A conflict is told on both profiles when it is found.
            Accepted::SchedulerNameConflict | Accepted::Pending => None,
            // This is told with the generation that serves.
            _ if serves_last_good(status) => None,
            refused => Some(News::warning(refused.as_str(), "Accepting", &condition.message)),
        }
    }

    fn of_worker(&self, now: &Self, status: &SchedulerProfileStatus) -> Option<News> {
        match trouble(status) {
            Some((reason, message)) if !self.troubled => Some(News::warning(reason.as_str(), "Running", message)),
            None if self.troubled && !now.troubled => {
                Some(News::normal("WorkerRestarted", "Running", "the worker runs again"))
            }
            _ => None,
        }
    }

    fn of_scheduling(&self, now: &Self, status: &SchedulerProfileStatus) -> Option<News> {
        if self.healthy == now.healthy {
            return None;
        }
        let told = [
            SchedulingHealthy::AnotherSchedulerServes,
            SchedulingHealthy::DeviceAllocatedTwice,
            SchedulingHealthy::PreemptionStorm,
        ];
        let reason = told.into_iter().find(|reason| reason.as_str() == now.healthy)?;
        let message = &condition(status, ConditionType::SchedulingHealthy)?.message;
        Some(News::warning(reason.as_str(), "Scheduling", message))
    }

    fn of_mode(&self, now: &Self) -> Option<News> {
        match (self.mode, now.mode) {
            (None | Some(Mode::Active), Some(Mode::Paused)) => {
                Some(News::normal("Paused", "Pausing", "spec.mode is Paused: pods stay queued, and nothing is bound"))
            }
            (None | Some(Mode::Active | Mode::Paused), Some(Mode::DryRun)) => {
                let text = "spec.mode is DryRun: pods of other schedulers are compared, and nothing is bound";
                Some(News::normal("DryRun", "Comparing", text))
            }
            (Some(Mode::Paused | Mode::DryRun), Some(Mode::Active)) => {
                Some(News::normal("Resumed", "Resuming", "spec.mode is Active: pods are placed again"))
            }
            _ => None,
        }
    }
}

fn condition(status: &SchedulerProfileStatus, kind: ConditionType) -> Option<&Condition> {
    status.conditions.iter().find(|condition| condition.type_ == kind.as_str())
}

fn generation(condition: &Condition) -> i64 {
    condition.observed_generation.unwrap_or_default()
}

fn serves_last_good(status: &SchedulerProfileStatus) -> bool {
    let reason = Ready::ServingLastGood.as_str();
    condition(status, ConditionType::Ready).is_some_and(|condition| condition.reason == reason)
}

/// What is wrong with the worker, if it failed or hangs.
fn trouble(status: &SchedulerProfileStatus) -> Option<(Programmed, &str)> {
    let programmed = condition(status, ConditionType::Programmed)?;
    let reasons = [Programmed::WorkerFailed, Programmed::WorkerHung];
    let reason = reasons.into_iter().find(|reason| reason.as_str() == programmed.reason)?;
    Some((reason, programmed.message.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::WorkerStatus;
    use berth_api::conditions::{Reason, set_condition};
    use k8s_openapi::jiff::Timestamp;

    fn set<R: Reason>(status: &mut SchedulerProfileStatus, reason: R, message: &str, generation: i64) {
        set_condition(&mut status.conditions, reason, message, generation, Timestamp::from_second(1).unwrap());
    }

    fn works(status: &mut SchedulerProfileStatus, state: WorkerState) {
        status.worker = Some(WorkerStatus { state: Some(state), ..WorkerStatus::default() });
    }

    /// The status of a profile that serves.
    fn serving(generation: i64) -> SchedulerProfileStatus {
        let mut status = SchedulerProfileStatus { mode: Some(Mode::Active), ..SchedulerProfileStatus::default() };
        set(&mut status, Ready::Serving, "", generation);
        set(&mut status, Accepted::Accepted, "the spec is valid", generation);
        set(&mut status, Programmed::Programmed, "", generation);
        set(&mut status, SchedulingHealthy::Idle, "", generation);
        works(&mut status, WorkerState::Running);
        status
    }

    /// The status with one condition changed.
    fn with<R: Reason>(mut status: SchedulerProfileStatus, reason: R, message: &str) -> SchedulerProfileStatus {
        let generation = status.conditions.first().map_or(0, generation);
        set(&mut status, reason, message, generation);
        status
    }

    /// The reasons that are told of these statuses, one after the other.
    fn told(statuses: &[SchedulerProfileStatus]) -> Vec<&'static str> {
        let mut told = Told::default();
        statuses.iter().flat_map(|status| told.next(status)).map(|news| news.reason).collect()
    }

    #[test]
    fn each_generation_is_told_once_whether_accepted_or_refused() {
        let refused = with(serving(2), Accepted::InvalidSelector, "spec.nodes.selector: a bad key");
        let refused = with(refused, Ready::NotAccepted, "");
        let all = [serving(1), serving(1), refused.clone(), refused.clone(), serving(3), serving(3)];
        assert_eq!(told(&all), ["Accepted", "InvalidSelector", "Accepted"]);
        let news = Told::of(&serving(1)).next(&refused);
        assert_eq!((news[0].kind, &*news[0].note), (EventType::Warning, "spec.nodes.selector: a bad key"));
        assert_eq!(Told::of(&refused).next(&refused), [], "another process");
    }

    /// The announcement of an edit that is refused while an earlier one serves says more, and so does that of a conflict.
    #[test]
    fn what_is_announced_elsewhere_is_not_told_again() {
        let last_good = with(with(serving(2), Accepted::InvalidArgs, "no"), Ready::ServingLastGood, "");
        let conflict = with(with(serving(2), Accepted::SchedulerNameConflict, "no"), Ready::NotAccepted, "");
        let unseen = with(with(SchedulerProfileStatus::default(), Ready::Pending, ""), Accepted::Pending, "");
        assert_eq!(told(&[unseen, serving(1), last_good, conflict, serving(3)]), ["Accepted", "Accepted"]);
    }

    #[test]
    fn a_worker_that_fails_and_runs_again_is_two_events_each_time() {
        let mut failed = with(serving(1), Programmed::WorkerFailed, "it panicked");
        works(&mut failed, WorkerState::Failed);
        let mut starts = with(serving(1), Programmed::Pending, "");
        works(&mut starts, WorkerState::Pending);
        let hung = with(serving(1), Programmed::WorkerHung, "in one step");
        let all = [serving(1), failed.clone(), failed.clone(), starts, serving(1), hung.clone(), hung, serving(1)];
        assert_eq!(told(&all), ["Accepted", "WorkerFailed", "WorkerRestarted", "WorkerHung", "WorkerRestarted"]);
        // A new leader whose worker runs tells of the end of what the last one left.
        assert_eq!(Told::of(&failed).next(&serving(1))[0].reason, "WorkerRestarted");
    }

    #[test]
    fn another_scheduler_and_a_storm_are_told_when_they_begin() {
        use SchedulingHealthy::{AnotherSchedulerServes, Backlog, DeviceAllocatedTwice, NotServing, PreemptionStorm};
        let health = |reason| with(serving(1), reason, "why");
        let foreign = health(AnotherSchedulerServes);
        let all = [serving(1), foreign.clone(), foreign.clone(), health(NotServing), foreign, health(Backlog)];
        assert_eq!(told(&all), ["Accepted", "AnotherSchedulerServes"], "a restart in between is no news");
        assert_eq!(told(&[serving(1), health(DeviceAllocatedTwice)]), ["Accepted", "DeviceAllocatedTwice"]);
        let all = [serving(1), health(PreemptionStorm), serving(1), health(PreemptionStorm)];
        assert_eq!(told(&all), ["Accepted", "PreemptionStorm", "PreemptionStorm"]);
    }

    #[test]
    fn a_pause_and_its_end_are_told() {
        let paused = SchedulerProfileStatus { mode: Some(Mode::Paused), ..with(serving(2), Ready::Paused, "") };
        let unknown = SchedulerProfileStatus { mode: None, ..paused.clone() };
        let all = [paused.clone(), paused.clone(), unknown, paused, serving(3)];
        assert_eq!(told(&all), ["Accepted", "Paused", "Accepted", "Resumed"]);
        let dry = SchedulerProfileStatus { mode: Some(Mode::DryRun), ..with(serving(2), Ready::DryRun, "") };
        assert_eq!(told(&[dry.clone(), dry, serving(3)]), ["Accepted", "DryRun", "Accepted", "Resumed"]);
    }
}
