use super::names::is_namespace_name;
use super::{CompileError, number, sorted};
use berth_api as api;
use berth_core::model::Str;
use berth_core::profile::{Preemption, VictimScope};
use std::time::Duration;

/// The longest `minVictimRuntime`: a week.
const LONGEST_RUNTIME: Duration = Duration::from_hours(168);

pub(super) fn compile(spec: &api::Preemption) -> Result<Preemption, CompileError> {
    let candidates = &spec.candidate_nodes;
    if candidates.percentage == 0 && candidates.absolute == 0 {
        let message = "with percentage and absolute both 0 no node would be looked at";
        return Err(CompileError::args("spec.preemption.candidateNodes", message, "raise one of them"));
    }
    let min_runtime = spec.min_victim_runtime.get();
    if min_runtime > LONGEST_RUNTIME {
        return Err(CompileError::args("spec.preemption.minVictimRuntime", "is too long", "use at most 168h"));
    }
    let no_limit = |limit: u32| (limit > 0).then_some(limit);
    Ok(Preemption {
        enabled: spec.policy == api::PreemptionPolicy::LowerPriority,
        strict_budgets: spec.pod_disruption_budgets == api::BudgetPolicy::Strict,
        scope: match spec.victim_scope {
            api::VictimScope::Any => VictimScope::Any,
            api::VictimScope::OwnProfiles => VictimScope::OwnProfiles,
            api::VictimScope::SameProfile => VictimScope::SameProfile,
        },
        max_per_pod: no_limit(at_most(1000, "maxVictimsPerPod", spec.max_victims_per_pod)?),
        max_per_minute: no_limit(at_most(100_000, "maxVictimsPerMinute", spec.max_victims_per_minute)?),
        min_runtime,
        candidates_percentage: at_most(100, "candidateNodes.percentage", candidates.percentage)?,
        candidates_absolute: at_most(100_000, "candidateNodes.absolute", candidates.absolute)?,
        protected_namespaces: namespaces(&spec.protected_namespaces)?,
    })
}

fn at_most(most: u32, field: &str, value: i32) -> Result<u32, CompileError> {
    number(value, 0..=most, format!("spec.preemption.{field}"), format!("use 0 to {most}"))
}

fn namespaces(names: &[String]) -> Result<Vec<Str>, CompileError> {
    if let Some((i, name)) = names.iter().enumerate().find(|(_, name)| !is_namespace_name(name)) {
        let message = format!("{name:?} is not the name of a namespace");
        let fix = "use lower-case letters, digits and - between them, at most 63";
        return Err(CompileError::args(format!("spec.preemption.protectedNamespaces[{i}]"), message, fix));
    }
    Ok(sorted(names))
}
