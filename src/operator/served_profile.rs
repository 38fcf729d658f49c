//! One profile from its spec to its status: the spec that serves, the names that it gets, and what became of the last write.

use super::claims::{Claim, Grant, Incumbents, NameState};
use super::extenders::ExtenderFacts;
use super::foreign_scheduler::ForeignScheduler;
use super::news::{News, Told};
use super::observed_spec::{CompiledSpec, ObservedSpec, ServedSpec};
use super::rollout::{self, Plan, Rollout};
use super::routes::{self, RouteClaim};
use super::shadow_status;
use super::status::{Around, Facts, Numbers, WorkerFacts, numbers, refusal, status};
use super::status_writer::NextWrite;
use berth_api::{RolloutPhase, SchedulerProfileStatus, conditions::Ready};
use berth_core::model::{Str, Time};
use berth_core::profile::CompiledProfile;
use berth_runtime::{Clock, WorkerState, WorkerView};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A worker that has been in one step for so long hangs: a step takes milliseconds.
pub(super) const HUNG_AFTER: Duration = Duration::from_secs(30);

/// The specs that serve, by profile.
pub(super) fn served<'a>(
    profiles: &'a BTreeMap<Str, ServedProfile>,
    grants: &'a BTreeMap<Str, Grant>,
) -> impl Iterator<Item = (&'a Str, &'a ServedSpec)> {
    let serving = |profile: &'a ServedProfile, name| match grants.get(name) {
        Some(grant) => profile.serving(grant),
        None => profile.compiled.served.as_ref(),
    };
    profiles.iter().filter_map(move |(name, profile)| Some((name, serving(profile, name)?)))
}

/// Who served each name before this process: the last good specs tell. Where two ask for one name, the older profile.
pub(super) fn first_incumbents(profiles: &BTreeMap<Str, ServedProfile>) -> Incumbents {
    let mut by_age: Vec<&ServedProfile> = profiles.values().collect();
    by_age.sort_by_key(|profile| (profile.observed.created_unix_s, &profile.observed.name));
    let mut incumbents = Incumbents::new();
    for profile in by_age {
        for name in profile.good.iter().flat_map(|good| &good.compiled.scheduler_names) {
            incumbents.entry(name.clone()).or_insert_with(|| profile.observed.name.clone());
        }
    }
    incumbents
}

/// One profile, as the reconciler keeps it.
#[derive(Debug)]
pub(super) struct ServedProfile {
    pub(super) observed: ObservedSpec,
    pub(super) compiled: CompiledSpec,
    /// The last spec that was accepted with all its names.
    pub(super) good: Option<ServedSpec>,
    /// What was logged last: the generation, and why it was refused.
    logged: Option<(i64, Option<String>)>,
    /// The refused generation that was told of last.
    told: Option<i64>,
    /// The names in conflict, each with the profile that serves it.
    conflicts: Vec<(Str, Str)>,
    /// What events have told of its statuses; `None` before the first one.
    news: Option<Told>,
    pub(super) foreign: ForeignScheduler,
    /// How far the present spec is, if it is tried before it serves all pods.
    pub(super) rollout: Option<Rollout>,
    /// The last good spec with its generation, if it was not kept yet.
    pub(super) unsaved: Option<(i64, Value)>,
    pub(super) next_write: NextWrite,
}

impl ServedProfile {
    /// A profile whose last `good` spec is known from before, if there is one.
    pub(super) fn new(observed: ObservedSpec, good: Option<ServedSpec>, now: Timestamp) -> Self {
        let mut profile = Self {
            compiled: CompiledSpec::of(&observed, good.as_ref()),
            observed,
            good,
            rollout: None,
            logged: None,
            told: None,
            conflicts: Vec::new(),
            news: None,
            foreign: ForeignScheduler::default(),
            unsaved: None,
            next_write: NextWrite::default(),
        };
        profile.plan_rollout(now);
        profile
    }

    /// Takes in another generation of the spec.
    pub(super) fn see(&mut self, observed: ObservedSpec, now: Timestamp) {
        self.observed = observed;
        let tried = self.rollout.as_ref().and(self.compiled.served.as_ref()).map(|tried| tried.compiled.mode);
        self.compiled = CompiledSpec::of(&self.observed, self.good.as_ref());
        self.plan_rollout(now);
        // The mode that was tried holds for all pods: a refused edit begins no pause, and ends none.
        if let (Some(mode), Some(_), Some(served)) = (tried, &self.compiled.refused, &mut self.compiled.served) {
            served.compiled.mode = mode;
        }
    }

    /// The object has the status that was written last, at this resourceVersion.
    pub(super) fn is_written(&mut self, version: String) {
        self.next_write.end();
        if let Some(status) = self.next_write.written() {
            self.observed.advance_to(version, status.clone());
        }
    }

    /// Takes in the same generation with another status, which may be the last one of the leader before: how a rollout ended holds.
    pub(super) fn renew(&mut self, observed: ObservedSpec, now: Timestamp) {
        self.observed = observed;
        let told = self.observed.status.as_ref().and_then(|status| status.rollout.as_ref());
        let told = told.filter(|told| told.generation == self.observed.generation);
        let ended = told.is_some_and(|told| told.phase.is_some_and(|phase| phase != RolloutPhase::Running));
        if ended && self.is_rolling_out() {
            self.plan_rollout(now);
        }
    }

    /// Finds out whether the present spec is tried before it serves all pods, and how far that is.
    fn plan_rollout(&mut self, now: Timestamp) {
        self.rollout = None;
        let Some(changed) = self.compiled.served.as_ref().filter(|_| self.compiled.refused.is_none()) else { return };
        let before = self.observed.status.as_ref().and_then(|status| status.rollout.as_ref());
        match Rollout::plan(changed, self.good.as_ref(), before, now) {
            Plan::AtOnce => {}
            Plan::Tried(rollout) => {
                self.rollout = Some(*rollout);
                self.refuse_if_aborted();
            }
            Plan::Refused(error) => self.compiled = CompiledSpec::refused(error, self.good.as_ref()),
        }
    }

    /// Puts the last good spec in force again, with the mode of the one that was tried: that has held for all pods.
    fn refuse_if_aborted(&mut self) {
        let Some(error) = self.rollout.as_ref().and_then(Rollout::refusal) else { return };
        let back = self.good.as_ref().map(|good| match &self.compiled.served {
            Some(changed) => ServedSpec { compiled: rollout::with_mode_of(good, changed), ..good.clone() },
            None => good.clone(),
        });
        self.compiled = CompiledSpec::refused(error, back.as_ref());
    }

    fn is_rolling_out(&self) -> bool {
        self.rollout.as_ref().is_some_and(Rollout::is_running)
    }

    /// Takes in what its worker has counted of both arms. Returns whether the rollout has ended by that.
    pub(super) fn tend_rollout(&mut self, view: &WorkerView, clock: Clock) -> bool {
        let changed = self.compiled.served.as_ref().filter(|_| self.is_rolling_out());
        let Some((changed, plan)) = changed.and_then(|changed| Some((changed, changed.rollout.as_ref()?))) else {
            return false;
        };
        let now = clock.now();
        let works = view.is_running() && hung_since(view.busy_since, now).is_none();
        let arms = view.snapshot.as_ref().and_then(|snapshot| snapshot.arms.as_ref()).filter(|_| works);
        // What it shows may be of the spec that it tried before.
        let Some(arms) = arms.filter(|arms| *arms.canary == changed.compiled) else { return false };
        let counted = arms.samples.since.map_or(Duration::ZERO, |since| now.since(since));
        let rollout = self.rollout.as_mut();
        let ended = rollout.is_some_and(|rollout| rollout.take(plan, &arms.samples, counted, clock.on_wall(now)));
        self.refuse_if_aborted();
        ended
    }

    /// The scheduler names that the profile asks for; nothing while it is being deleted.
    pub(super) fn claim(&self) -> Option<Claim> {
        let served = self.compiled.served.as_ref().filter(|_| !self.observed.deleting)?;
        let earlier = self.good.as_ref().filter(|good| good.generation != served.generation);
        Some(Claim {
            profile: self.observed.name.clone(),
            created_unix_s: self.observed.created_unix_s,
            names: served.compiled.scheduler_names.clone(),
            last_good: earlier.map(|good| good.compiled.scheduler_names.clone()),
        })
    }

    /// The spec that serves under this grant.
    pub(super) fn serving(&self, grant: &Grant) -> Option<&ServedSpec> {
        if matches!(grant, Grant::LastGood { .. }) { self.good.as_ref() } else { self.compiled.served.as_ref() }
    }

    /// Takes note of the names that the profile gets: a spec that gets all of its names is the last good one from now on. Logs
    /// what is new, and returns the new conflicts: the name, and the profile that serves it.
    pub(super) fn take_grant(&mut self, grant: &Grant) -> Vec<(Str, Str)> {
        let generation = self.observed.generation;
        if self.compiled.refused.is_none() && grant.is_full() && !self.is_rolling_out() {
            let served = self.compiled.served.as_ref();
            if self.good.as_ref().is_none_or(|good| good.generation != generation) {
                self.good = served.map(|served| ServedSpec { last_good: true, ..served.clone() });
                let spec = self.observed.spec.as_ref().ok().and_then(|spec| serde_json::to_value(spec).ok());
                self.unsaved = spec.map(|spec| (generation, spec));
            }
        }
        let refused = refusal(self.compiled.refused.as_ref(), grant).map(|(_, text)| text);
        let outcome = Some((generation, refused));
        if self.logged != outcome {
            let name = &*self.observed.name;
            match outcome.as_ref().and_then(|(_, refused)| refused.as_ref()) {
                None => tracing::info!(profile = name, generation, "profile read: spec accepted"),
                Some(error) => {
                    let serving = self.serving(grant).filter(|_| !grant.served().is_empty());
                    let serving = serving.map(|serving| serving.generation);
                    tracing::warn!(profile = name, generation, error, serving, "profile read: spec refused");
                }
            }
            self.logged = outcome;
        }
        let conflict = |(name, state): &(Str, NameState)| match state {
            NameState::Conflict(owner) => Some((name.clone(), owner.clone())),
            _ => None,
        };
        let conflicts: Vec<(Str, Str)> = grant.refused().filter_map(conflict).collect();
        let before = std::mem::replace(&mut self.conflicts, conflicts.clone());
        conflicts.into_iter().filter(|one| !before.contains(one)).collect()
    }

    /// What is to be told of a spec that was refused while an earlier one serves: once for each generation. Its status shows
    /// whether an earlier process has told it.
    pub(super) fn refused_edit(&mut self, grant: &Grant) -> Option<String> {
        let generation = self.observed.generation;
        let serving = self.serving(grant).filter(|_| !grant.served().is_empty())?.generation;
        let (_, why) = refusal(self.compiled.refused.as_ref(), grant)?;
        if serving == generation || self.told.replace(generation) == Some(generation) {
            return None;
        }
        let shows = |status: &SchedulerProfileStatus| {
            status.observed_generation == Some(generation)
                && status.conditions.iter().any(|condition| condition.reason == Ready::ServingLastGood.as_str())
        };
        if self.observed.status.as_ref().is_some_and(shows) {
            return None;
        }
        Some(format!(
            "generation {generation} of the spec is refused and nothing of it is in force: generation {serving} serves on, also where the new one is stricter. {why}"
        ))
    }

    /// What `status` tells that no event has told, the one of another process included: its status shows what that told.
    pub(super) fn news(&mut self, status: &SchedulerProfileStatus) -> Vec<News> {
        let written = self.observed.status.as_ref();
        self.news.get_or_insert_with(|| written.map(Told::of).unwrap_or_default()).next(status)
    }

    /// The profile for its worker; `None` if it is to have no worker.
    pub(super) fn wanted(&self, grant: &Grant) -> Option<Arc<CompiledProfile>> {
        let served = self.serving(grant).filter(|_| !self.observed.deleting)?;
        let names = grant.served();
        if names.is_empty() {
            return None;
        }
        let tried = self.good.as_ref().zip(served.rollout.as_ref());
        let tried = tried.filter(|_| self.is_rolling_out() && !matches!(grant, Grant::LastGood { .. }));
        let compiled = tried.map_or_else(|| served.compiled.clone(), |(good, plan)| rollout::both(good, served, plan));
        Some(Arc::new(CompiledProfile { scheduler_names: names, ..compiled }))
    }

    /// The route that is in force under this grant, if one is.
    pub(super) fn route_claim(&self, grant: &Grant) -> Option<RouteClaim> {
        let serving = self.serving(grant).filter(|_| !self.observed.deleting);
        let (serving, observed) = (serving?, &self.observed);
        let (route, access) = (serving.route.as_ref()?, &serving.compiled.namespaces);
        routes::claim(&observed.name, observed.created_unix_s, route, access, &grant.served())
    }

    /// The status as it should be; `kept` names the revision with the last good spec.
    pub(super) fn status(
        &self,
        grant: &Grant,
        view: Option<&WorkerView>,
        around: &Around<'_>,
        kept: Option<&str>,
        extenders: &ExtenderFacts,
        now: Instant,
    ) -> SchedulerProfileStatus {
        let served = self.serving(grant).filter(|_| !grant.served().is_empty());
        let numbers = view.and_then(|view| {
            let snapshot = view.snapshot.as_ref()?;
            // Of the spec whose other settings the status shows.
            let sampling = view.profile.canary.as_ref().map_or(view.profile.sampling, |canary| canary.profile.sampling);
            let numbers = numbers(snapshot, sampling, around.clock.on_wall(view.started_at));
            let shadow = view.shadow.as_ref().map(|shadow| shadow_status::of(shadow, around.clock));
            Some(Numbers { shadow, ..numbers })
        });
        let asked = self.observed.spec.as_ref().is_ok_and(|spec| spec.namespaces.route.is_some());
        // Nobody is to be sent to a profile that goes away.
        let route = served.filter(|_| !self.observed.deleting).and_then(|served| served.route.as_ref());
        let route = routes::judge(&self.observed.name, asked, route, &grant.served(), around.routing);
        let facts = Facts {
            generation: self.observed.generation,
            deleting: self.observed.deleting,
            refused: self.compiled.refused.as_ref(),
            around: *around,
            grant,
            serving: served,
            worker: worker(&self.observed.name, self.wanted(grant).as_deref(), view, around),
            numbers: numbers.as_ref(),
            foreign: self.foreign.reported(now),
            extenders,
            route: &route,
            rollout: self.rollout.as_ref(),
            stable: self.good.as_ref().filter(|_| self.is_rolling_out()).map(|good| good.generation),
            last_good_revision: kept,
        };
        let before = self.next_write.written().or(self.observed.status.as_ref());
        status(&facts, before, Timestamp::now())
    }
}

/// Since when a worker hangs that has been in one step since `busy_since`; `None` if that is no long time.
fn hung_since(busy_since: Option<Time>, now: Time) -> Option<Time> {
    busy_since.filter(|since| now.since(*since) > HUNG_AFTER)
}

/// `wanted` is what the worker was given last.
fn worker(
    profile: &str,
    wanted: Option<&CompiledProfile>,
    view: Option<&WorkerView>,
    around: &Around<'_>,
) -> WorkerFacts {
    if around.ended {
        return WorkerFacts::Ended;
    }
    if let Some(warming) = around.warming {
        return WorkerFacts::Warming(warming.to_owned());
    }
    if let Some(error) = around.unstarted.get(profile).filter(|_| view.is_none()) {
        return WorkerFacts::NotStarted(error.clone());
    }
    if let Some(view) = view
        && let Some(since) = hung_since(view.busy_since, around.clock.now())
    {
        let clock = around.clock;
        return WorkerFacts::Hung { since: clock.on_wall(since), started_at: clock.on_wall(view.started_at) };
    }
    match view.map(|view| (&view.state, view)) {
        None | Some((WorkerState::Stopped, _)) => WorkerFacts::Pending,
        Some((WorkerState::Failed { message, .. }, _)) => WorkerFacts::Failed(message.clone()),
        // A snapshot shows that the worker has taken the profile up.
        Some((WorkerState::Running, view)) if view.snapshot.is_none() => WorkerFacts::Pending,
        Some((WorkerState::Running, view)) => {
            let started_at = around.clock.on_wall(view.started_at);
            // The view has what the worker has taken up, which it does between two steps.
            if wanted.is_some_and(|wanted| *wanted != *view.profile) {
                return WorkerFacts::Swapping { started_at, mode: view.profile.mode };
            }
            WorkerFacts::Running(started_at)
        }
    }
}

/// The scheduler names of a deleted profile that no other profile serves.
pub(super) fn abandoned_names(deleted: &ServedProfile, served_by_others: &[Str]) -> Vec<Str> {
    let specs = deleted.compiled.served.iter().chain(&deleted.good);
    let names: BTreeSet<&Str> = specs.flat_map(|served| &served.compiled.scheduler_names).collect();
    names.into_iter().filter(|name| !served_by_others.contains(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::super::claims::grant;
    use super::*;
    use serde_json::json;

    fn observed(generation: i64, spec: &Value) -> ObservedSpec {
        let metadata = json!({"name": "batch", "uid": "u", "generation": generation, "resourceVersion": "1"});
        let object = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile",
            "metadata": metadata, "spec": spec});
        ObservedSpec::read(serde_json::from_value(object).unwrap()).unwrap()
    }

    #[test]
    fn an_edit_that_is_refused_is_told_once() {
        let good = ServedProfile::new(observed(1, &json!({"schedulerNames": ["batch"]})), None, Timestamp::UNIX_EPOCH)
            .compiled
            .served;
        let bad = json!({"schedulerNames": ["batch"], "nodes": {"selector": {"matchLabels": {"a..b/c": "x"}}}});
        let mut profile = ServedProfile::new(observed(2, &bad), good, Timestamp::UNIX_EPOCH);
        let grants = grant(vec![profile.claim().unwrap()], &Incumbents::new(), false);
        let told = profile.refused_edit(&grants["batch"]).unwrap();
        assert!(told.starts_with("generation 2 of the spec is refused"), "{told}");
        assert_eq!(profile.refused_edit(&grants["batch"]), None);
    }

    #[test]
    fn a_step_of_half_a_minute_hangs() {
        let at = Time::from_millis;
        assert_eq!(hung_since(None, at(3_600_000)), None, "it waits for mail");
        assert_eq!(hung_since(Some(at(5_000)), at(35_000)), None);
        assert_eq!(hung_since(Some(at(5_000)), at(35_001)), Some(at(5_000)));
    }
}
