//! The rollout of a changed spec: whether there is one, how far it is, and when it ends. Pure.
//!
//! What is decided is in the profile's status: the next leader goes on from there. Only the counts begin anew, so that a hand-over may make a
//! rollout longer.

use super::observed_spec::ServedSpec;
use berth_api::conditions::Accepted;
use berth_api::{RolloutArm, RolloutPhase, RolloutStatus};
use berth_core::profile::{Canary, CompiledProfile};
use berth_core::worker::{ArmSample, ArmSamples};
use berth_profile::{CompileError, RolloutPlan, not_for_rollout};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as WallTime;
use k8s_openapi::jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// How far one generation of a profile is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rollout {
    pub(super) generation: i64,
    pub(super) phase: Phase,
    pub(super) began: Timestamp,
    /// What the worker has counted last.
    samples: ArmSamples,
    /// What an earlier process said of its end.
    told: Option<RolloutStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// What it waits for.
    Running(String),
    Complete,
    /// Why it was broken off.
    Aborted(String),
}

/// What is to be done with a changed spec.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    /// It serves all pods at once.
    AtOnce,
    Tried(Box<Rollout>),
    /// It cannot be tried.
    Refused(CompileError),
}

impl Rollout {
    /// What is to be done with `changed` beside the last `good` spec. `before` is what the profile's status says: of the same generation,
    /// this goes on from it.
    pub(super) fn plan(
        changed: &ServedSpec,
        good: Option<&ServedSpec>,
        before: Option<&RolloutStatus>,
        now: Timestamp,
    ) -> Plan {
        let Some(plan) = &changed.rollout else { return Plan::AtOnce };
        let told = before.filter(|told| told.generation == changed.generation);
        let began = told.and_then(|told| told.started_at.as_ref()).map_or(now, |time| time.0);
        let tried =
            |phase, told| Self { generation: changed.generation, phase, began, samples: ArmSamples::default(), told };
        // How it ended is not asked again, also where the last good spec is lost.
        let ended = told.and_then(|told| match told.phase? {
            RolloutPhase::Complete => Some(tried(Phase::Complete, Some(told.clone()))),
            RolloutPhase::Aborted => Some(tried(Phase::Aborted(told.message.clone()), Some(told.clone()))),
            RolloutPhase::Running => None,
        });
        if let Some(ended) = ended {
            return Plan::Tried(Box::new(ended));
        }
        let Some(good) = good.filter(|good| good.generation != changed.generation) else { return Plan::AtOnce };
        let before = with_mode_of(good, changed);
        let same_route = good.route == changed.route;
        if before == changed.compiled && good.extenders == changed.extenders && same_route {
            return Plan::AtOnce;
        }
        let routes = (!same_route).then_some("spec.namespaces.route");
        let extends = (good.extenders != changed.extenders).then_some("spec.extenders");
        if let Some(field) = not_for_rollout(&before, &changed.compiled).or(routes).or(extends) {
            return Plan::Refused(CompileError {
                reason: Accepted::InvalidArgs,
                field: "spec.rollout".to_owned(),
                message: format!("{field} has changed, which all pods of a profile have in common"),
                fix: format!("change {field} without spec.rollout first, or leave it as it was"),
            });
        }
        Plan::Tried(Box::new(tried(takes_over(plan), None)))
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running(_))
    }

    /// Takes in what the worker has `counted` for so long by `now`. Returns whether the rollout has ended.
    pub(super) fn take(&mut self, plan: &RolloutPlan, samples: &ArmSamples, counted: Duration, now: Timestamp) -> bool {
        self.samples = *samples;
        let lasted = Duration::try_from(now.duration_since(self.began)).unwrap_or_default();
        self.phase = judge(plan, samples, lasted, counted);
        !self.is_running()
    }

    /// Why the spec is refused whose rollout was broken off.
    pub(super) fn refusal(&self) -> Option<CompileError> {
        let Phase::Aborted(why) = &self.phase else { return None };
        Some(CompileError {
            reason: Accepted::RolloutAborted,
            field: "spec.rollout".to_owned(),
            message: why.clone(),
            fix: format!(
                "generation {} is not tried again: change the spec, or remove spec.rollout to put it in force for all pods",
                self.generation
            ),
        })
    }

    pub(super) fn status(&self) -> RolloutStatus {
        if let Some(told) = &self.told {
            return told.clone();
        }
        let (phase, message) = match &self.phase {
            Phase::Running(waits) => (RolloutPhase::Running, waits.clone()),
            Phase::Complete => (RolloutPhase::Complete, String::new()),
            Phase::Aborted(why) => (RolloutPhase::Aborted, why.clone()),
        };
        let counts = self.samples.since.is_some();
        RolloutStatus {
            generation: self.generation,
            phase: Some(phase),
            started_at: Some(WallTime(self.began)),
            message,
            canary: counts.then(|| arm(&self.samples.canary)),
            stable: counts.then(|| arm(&self.samples.stable)),
        }
    }
}

/// The profile for a worker that tries `changed` beside `good`.
pub(super) fn both(good: &ServedSpec, changed: &ServedSpec, plan: &RolloutPlan) -> CompiledProfile {
    let canary = Canary { profile: Arc::new(changed.compiled.clone()), share: plan.share, window: plan.window };
    CompiledProfile { canary: Some(canary), ..with_mode_of(good, changed) }
}

/// A pause is for all pods, and at once.
pub(super) fn with_mode_of(good: &ServedSpec, changed: &ServedSpec) -> CompiledProfile {
    CompiledProfile { mode: changed.compiled.mode, ..good.compiled.clone() }
}

/// Compares both arms after `lasted`; this leader has `counted` for so long.
fn judge(plan: &RolloutPlan, samples: &ArmSamples, lasted: Duration, counted: Duration) -> Phase {
    let arms = [&samples.stable, &samples.canary];
    let enough = |count: fn(&ArmSample) -> u64| arms.into_iter().all(|arm| count(arm) >= plan.min_pods);
    let worse = enough(|arm| arm.tried).then(|| fits_less(plan, samples)).flatten();
    let worse = worse.or_else(|| enough(|arm| arm.placed).then(|| waits_longer(plan, samples)).flatten());
    if let Some(why) = worse {
        return Phase::Aborted(why);
    }
    if lasted < plan.duration {
        return takes_over(plan);
    }
    // What the last leader has counted is not known: nobody takes over by the first seconds of a new one. Nor does a spec whose pods find nodes
    // and are not bound, while the others are.
    let is_bound = samples.stable.placed < plan.min_pods || samples.canary.placed >= plan.min_pods;
    if !enough(|arm| arm.tried) || !is_bound || counted < plan.window.min(plan.duration) {
        // Without a count: it would be a new status each time.
        let (window, pods) = (shown(plan.window), plan.min_pods);
        let text = format!(
            "the changed spec takes over once this leader has compared both for {}, with {pods} pods of each tried within {window}, and as many of its own bound where others are (minPods)",
            shown(plan.window.min(plan.duration))
        );
        return Phase::Running(text);
    }
    Phase::Complete
}

fn takes_over(plan: &RolloutPlan) -> Phase {
    let after = shown(plan.duration);
    Phase::Running(format!("the changed spec takes over after {after}, unless its pods fare worse"))
}

/// Says so if more pods of the changed spec fitted nowhere than may.
fn fits_less(plan: &RolloutPlan, ArmSamples { stable, canary, .. }: &ArmSamples) -> Option<String> {
    let (theirs, own) = (unschedulable(stable), unschedulable(canary));
    (own > theirs + plan.unschedulable_percent_over as f64).then(|| {
        format!(
            "{own:.1}% of {} pods of the changed spec fitted nowhere within {}, and {theirs:.1}% of {} others: more than {} points over (abort.unschedulablePercentOver)",
            canary.tried,
            shown(plan.window),
            stable.tried,
            plan.unschedulable_percent_over
        )
    })
}

/// Says so if pods of the changed spec waited longer than they may.
fn waits_longer(plan: &RolloutPlan, ArmSamples { stable, canary, .. }: &ArmSamples) -> Option<String> {
    let (theirs, own) = (mean_pending(stable), mean_pending(canary));
    (own > theirs + plan.pending_over).then(|| {
        format!(
            "{} pods of the changed spec waited {} on average within {}, and {} others {}: more than {} over (abort.pendingOver)",
            canary.placed,
            shown(own),
            shown(plan.window),
            stable.placed,
            shown(theirs),
            shown(plan.pending_over)
        )
    })
}

/// In percent of the pods that were tried.
fn unschedulable(arm: &ArmSample) -> f64 {
    arm.refused as f64 * 100.0 / arm.tried.max(1) as f64
}

fn mean_pending(arm: &ArmSample) -> Duration {
    arm.waited / u32::try_from(arm.placed.max(1)).unwrap_or(u32::MAX)
}

/// As a profile has it, such as `1m30s`; what is shorter than a millisecond is not shown.
fn shown(time: Duration) -> berth_api::Duration {
    berth_api::Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn arm(sample: &ArmSample) -> RolloutArm {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    RolloutArm {
        tried: count(sample.tried),
        unschedulable: count(sample.refused),
        placed: count(sample.placed),
        mean_pending_ms: i64::try_from(mean_pending(sample).as_millis()).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::observed_spec::revived;
    use berth_cluster::revisions::Revision;
    use serde_json::{Value, json};

    const MINUTE: Duration = Duration::from_mins(1);

    fn served(generation: i64, spec: Value) -> ServedSpec {
        let (profile, uid, name) = ("batch".to_owned(), String::new(), String::new());
        revived(&Revision { profile, uid, generation, spec, name }).unwrap()
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn begun(good: Value, changed: Value, before: Option<&RolloutStatus>) -> Plan {
        Rollout::plan(&served(5, changed), Some(&served(4, good)), before, at(0))
    }

    fn tried() -> (Rollout, RolloutPlan) {
        let changed = json!({"preset": "BinPack", "rollout": {"minPods": 10}});
        let plan = served(5, changed.clone()).rollout.unwrap();
        let Plan::Tried(rollout) = begun(json!({}), changed, None) else { panic!("not tried") };
        (*rollout, plan)
    }

    /// Pods that were tried, of which so many fitted nowhere; the others waited so long.
    fn sample(tried: u64, refused: u64, waited: Duration) -> ArmSample {
        let placed = tried - refused;
        ArmSample { tried, refused, placed, waited: waited * placed as u32 }
    }

    fn both_arms(stable: ArmSample, canary: ArmSample) -> ArmSamples {
        ArmSamples { stable, canary, since: Some(berth_core::model::Time::ZERO) }
    }

    #[test]
    fn a_changed_spec_is_tried_if_it_says_so_and_there_is_a_good_one() {
        let changed = json!({"preset": "BinPack", "rollout": {}});
        assert!(matches!(begun(json!({}), changed.clone(), None), Plan::Tried(one) if one.is_running()));
        assert_eq!(begun(json!({}), json!({"preset": "BinPack"}), None), Plan::AtOnce);
        assert_eq!(begun(json!({}), json!({"rollout": {}}), None), Plan::AtOnce, "it decides as the good one");
        let paused = json!({"mode": "Paused", "rollout": {}});
        assert_eq!(begun(json!({}), paused, None), Plan::AtOnce, "a pause decides nothing");
        assert_eq!(Rollout::plan(&served(1, changed.clone()), None, None, at(0)), Plan::AtOnce, "it is the first");
        assert_eq!(Rollout::plan(&served(4, changed), Some(&served(4, json!({}))), None, at(0)), Plan::AtOnce);
    }

    #[test]
    fn what_both_arms_have_in_common_cannot_change_in_a_rollout_but_a_pause_can() {
        let refused = |changed: Value| match begun(json!({}), changed, None) {
            Plan::Refused(error) => error.to_string(),
            other => panic!("{other:?}"),
        };
        let text = refused(json!({"schedulerNames": ["other"], "rollout": {}}));
        assert_eq!(
            text,
            "spec.rollout: spec.schedulerNames has changed, which all pods of a profile have in common: change spec.schedulerNames without spec.rollout first, or leave it as it was"
        );
        let selector = json!({"matchLabels": {"team": "a"}});
        let text = refused(json!({"namespaces": {"route": {"selector": selector}}, "rollout": {}}));
        assert!(text.contains("spec.namespaces.route has changed"), "{text}");
        let paused = json!({"preset": "BinPack", "mode": "Paused", "rollout": {}});
        assert!(matches!(begun(json!({}), paused.clone(), None), Plan::Tried(_)));
        let (good, changed) = (served(4, json!({})), served(5, paused));
        let both = both(&good, &changed, changed.rollout.as_ref().unwrap());
        assert_eq!(both.mode, changed.compiled.mode, "it holds for all pods");
        assert_eq!(*both.canary.unwrap().profile, changed.compiled);
        assert_eq!(both.scores, good.compiled.scores);
    }

    #[test]
    fn a_new_leader_goes_on_from_what_the_status_says() {
        let (mut rollout, plan) = tried();
        let changed = json!({"preset": "BinPack", "rollout": {"minPods": 10}});
        let goes_on = |rollout: &Rollout| match begun(json!({}), changed.clone(), Some(&rollout.status())) {
            Plan::Tried(next) => *next,
            other => panic!("{other:?}"),
        };
        assert!(!rollout.take(&plan, &ArmSamples::default(), MINUTE, at(3)));
        let next = goes_on(&rollout);
        assert_eq!((next.is_running(), next.began), (true, at(0)));
        let worse = both_arms(sample(100, 0, MINUTE), sample(10, 10, MINUTE));
        assert!(rollout.take(&plan, &worse, MINUTE, at(3)));
        let next = goes_on(&rollout);
        assert_eq!(next.phase, rollout.phase, "an aborted generation is not tried again");
        assert_eq!(next.status(), rollout.status(), "it says what was counted");
        let told = rollout.status();
        let lost = Rollout::plan(&served(5, changed.clone()), None, Some(&told), at(9));
        assert!(matches!(lost, Plan::Tried(one) if one.phase == rollout.phase), "also where no good one is known");
        let told = RolloutStatus { generation: 3, ..rollout.status() };
        let Plan::Tried(other) = begun(json!({}), changed.clone(), Some(&told)) else { panic!("not tried") };
        assert!(other.is_running(), "another generation is");
    }

    #[test]
    fn pods_that_fit_nowhere_more_often_break_it_off() {
        let (_, plan) = tried();
        let judged = |stable, canary| judge(&plan, &both_arms(stable, canary), MINUTE, MINUTE);
        let none = Duration::ZERO;
        assert!(
            matches!(judged(sample(100, 10, none), sample(100, 15, none)), Phase::Running(_)),
            "5 points are allowed"
        );
        let Phase::Aborted(why) = judged(sample(100, 10, none), sample(50, 8, none)) else { panic!("it goes on") };
        assert_eq!(
            why,
            "16.0% of 50 pods of the changed spec fitted nowhere within 10m, and 10.0% of 100 others: more than 5 points over (abort.unschedulablePercentOver)"
        );
        assert!(matches!(judged(sample(9, 0, none), sample(50, 50, none)), Phase::Running(_)), "too few others");
        assert!(matches!(judged(sample(50, 0, none), sample(9, 9, none)), Phase::Running(_)), "too few of its own");
    }

    #[test]
    fn pods_that_wait_longer_break_it_off() {
        let (_, plan) = tried();
        let judged = |theirs, own| judge(&plan, &both_arms(sample(20, 0, theirs), sample(20, 0, own)), MINUTE, MINUTE);
        assert!(matches!(judged(MINUTE, MINUTE + plan.pending_over), Phase::Running(_)));
        let Phase::Aborted(why) = judged(MINUTE, MINUTE * 2) else { panic!("it goes on") };
        assert_eq!(
            why,
            "20 pods of the changed spec waited 2m on average within 10m, and 20 others 1m: more than 30s over (abort.pendingOver)"
        );
    }

    #[test]
    fn it_is_complete_when_the_time_is_over_and_enough_pods_were_tried() {
        let (mut rollout, plan) = tried();
        let samples = |others, own| both_arms(sample(others, 0, MINUTE), sample(own, 0, MINUTE));
        assert!(!rollout.take(&plan, &samples(50, 50), MINUTE * 29, at(29)));
        assert!(!rollout.take(&plan, &samples(100, 9), MINUTE * 31, at(31)));
        assert!(rollout.status().message.ends_with("(minPods)"), "{:?}", rollout.status());
        let unbound = both_arms(sample(100, 0, MINUTE), ArmSample { placed: 9, ..sample(100, 0, MINUTE) });
        assert!(!rollout.take(&plan, &unbound, MINUTE * 31, at(31)), "its pods find nodes and are not bound");
        assert!(!rollout.take(&plan, &samples(9, 100), MINUTE * 31, at(31)), "there is nothing to compare it with");
        assert!(
            !rollout.take(&plan, &samples(100, 10), MINUTE * 9, at(32)),
            "another leader has counted for no window"
        );
        assert!(rollout.take(&plan, &samples(100, 10), MINUTE * 10, at(32)));
        let status = rollout.status();
        assert_eq!((status.phase, status.generation), (Some(RolloutPhase::Complete), 5));
        assert_eq!(status.canary.unwrap().mean_pending_ms, 60_000);
    }
}
