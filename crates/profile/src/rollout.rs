//! How a changed spec is to be tried.

use super::{CompileError, number};
use berth_api as api;
use berth_core::profile::{CompiledProfile, Share, ShareBy};
use std::ops::RangeInclusive;
use std::time::Duration;

/// `spec.rollout`, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutPlan {
    pub share: Share,
    pub duration: Duration,
    pub window: Duration,
    /// Pods that each arm must have tried within the window.
    pub min_pods: u64,
    /// Percentage points, 0 to 100.
    pub unschedulable_percent_over: u64,
    pub pending_over: Duration,
}

/// The plan in `spec.rollout`; `None` without one.
pub fn rollout(spec: &api::SchedulerProfileSpec) -> Result<Option<RolloutPlan>, CompileError> {
    let Some(rollout) = &spec.rollout else { return Ok(None) };
    if spec.mode == api::Mode::DryRun {
        let message = "a profile in mode DryRun places no pod";
        return Err(CompileError::args("spec.rollout", message, "remove rollout, or set another mode"));
    }
    let abort = &rollout.abort;
    let percent = number(rollout.percent, 1..=99, "spec.rollout.percent", "use 1 to 99")?;
    let over = "spec.rollout.abort.unschedulablePercentOver";
    let (second, day) = (Duration::from_secs(1), Duration::from_hours(24));
    Ok(Some(RolloutPlan {
        share: Share {
            by: match rollout.by {
                api::RolloutBy::Pod => ShareBy::Pod,
                api::RolloutBy::Namespace => ShareBy::Namespace,
            },
            percent: u8::try_from(percent).unwrap_or(99),
        },
        duration: within(rollout.duration, second..=day * 7, "duration", "use 1s to 168h, such as 30m")?,
        window: within(rollout.window, second..=day, "window", "use 1s to 24h, such as 10m")?,
        min_pods: number(rollout.min_pods, 1..=100_000, "spec.rollout.minPods", "use 1 to 100,000")?.into(),
        unschedulable_percent_over: number(abort.unschedulable_percent_over, 0..=100, over, "use 0 to 100")?.into(),
        pending_over: within(
            abort.pending_over,
            Duration::ZERO..=day,
            "abort.pendingOver",
            "use 0s to 24h, such as 30s",
        )?,
    }))
}

fn within(
    value: api::Duration,
    range: RangeInclusive<Duration>,
    field: &str,
    fix: &str,
) -> Result<Duration, CompileError> {
    let field = format!("spec.rollout.{field}");
    let value = Some(value.get()).filter(|own| range.contains(own)).ok_or(value);
    value.map_err(|value| CompileError::args(field, format!("{value} is out of range"), fix))
}

/// The first field in which two profiles differ that both arms of a rollout have in common: a rollout compares decisions, of the same pods
/// in one queue. The mode may differ: it holds for both.
pub fn not_for_rollout(before: &CompiledProfile, changed: &CompiledProfile) -> Option<&'static str> {
    let same = [
        ("spec.schedulerNames", before.scheduler_names == changed.scheduler_names),
        ("spec.shadow", before.shadow == changed.shadow),
        ("spec.namespaces", before.namespaces == changed.namespaces),
        ("spec.unknownFields", before.unknown_fields == changed.unknown_fields),
        ("spec.queue", before.queue == changed.queue),
        ("spec.extenders", before.extenders == changed.extenders),
    ];
    same.into_iter().find(|(_, same)| !same).map(|(field, _)| field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(rollout: Value) -> api::SchedulerProfileSpec {
        serde_json::from_value(json!({"rollout": rollout})).unwrap()
    }

    #[test]
    fn a_plan_has_the_defaults_and_bounds_of_the_definition() {
        let plan = rollout(&spec(json!({}))).unwrap().unwrap();
        let expected = RolloutPlan {
            share: Share { by: ShareBy::Pod, percent: 10 },
            duration: Duration::from_mins(30),
            window: Duration::from_mins(10),
            min_pods: 50,
            unschedulable_percent_over: 5,
            pending_over: Duration::from_secs(30),
        };
        assert_eq!(plan, expected);
        assert_eq!(rollout(&api::SchedulerProfileSpec::default()), Ok(None));
        // No rule of the definition says so: it would be one of the whole spec, which is frozen.
        let dry = json!({"mode": "DryRun", "shadow": {"schedulerNames": ["other"]}, "rollout": {}});
        let error = rollout(&serde_json::from_value(dry).unwrap()).unwrap_err().to_string();
        assert_eq!(error, "spec.rollout: a profile in mode DryRun places no pod: remove rollout, or set another mode");
        for (wrong, field) in [
            (json!({"percent": 0}), "spec.rollout.percent"),
            (json!({"percent": 100}), "spec.rollout.percent"),
            (json!({"duration": "0s"}), "spec.rollout.duration"),
            (json!({"window": "25h"}), "spec.rollout.window"),
            (json!({"minPods": 0}), "spec.rollout.minPods"),
            (json!({"abort": {"unschedulablePercentOver": 101}}), "spec.rollout.abort.unschedulablePercentOver"),
            (json!({"abort": {"pendingOver": "25h"}}), "spec.rollout.abort.pendingOver"),
        ] {
            assert_eq!(rollout(&spec(wrong)).unwrap_err().field, field);
        }
    }

    #[test]
    fn what_both_arms_have_in_common_is_not_for_a_rollout() {
        let compiled = |value: Value| crate::compile("a", &serde_json::from_value(value).unwrap()).unwrap();
        let before = compiled(json!({}));
        let differs = |value| not_for_rollout(&before, &compiled(value));
        assert_eq!(differs(json!({"preset": "BinPack", "mode": "Paused", "preemption": {"policy": "Never"}})), None);
        assert_eq!(differs(json!({"schedulerNames": ["b"]})), Some("spec.schedulerNames"));
        assert_eq!(differs(json!({"namespaces": {"access": "Restricted", "names": ["a"]}})), Some("spec.namespaces"));
        assert_eq!(differs(json!({"queue": {"maxBackoff": "20s"}})), Some("spec.queue"));
    }
}
