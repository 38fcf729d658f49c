//! Arguments of the plugins that look at pods already placed.

use crate::selectors::label_key;
use crate::{CompileError, each, number};
use berth_api as api;
use berth_core::model::SpreadConstraint;
use berth_core::profile::{InterPodAffinityArgs, SpreadDefaults};

const SPREAD: &str = "spec.pluginArgs.podTopologySpread";

pub(super) fn inter_pod_affinity(args: &api::InterPodAffinityArgs) -> Result<InterPodAffinityArgs, CompileError> {
    let field = "spec.pluginArgs.interPodAffinity.hardPodAffinityWeight";
    Ok(InterPodAffinityArgs {
        hard_weight: number(args.hard_pod_affinity_weight, 0..=100, field, "use 0 to 100")?.into(),
        ignore_preferred_of_existing: args.ignore_preferred_terms_of_existing_pods,
    })
}

/// Replaces `defaults` where `args` have a defaultingType.
pub(super) fn spread(args: &api::PodTopologySpreadArgs, defaults: &mut SpreadDefaults) -> Result<(), CompileError> {
    let list = args.defaulting_type == Some(api::SpreadDefaulting::List);
    if !list && !args.default_constraints.is_empty() {
        let fix = "set defaultingType: List, or remove defaultConstraints";
        let message = "only List reads defaultConstraints";
        return Err(CompileError::args(format!("{SPREAD}.defaultingType"), message, fix));
    }
    match args.defaulting_type {
        None => {}
        Some(api::SpreadDefaulting::System) => *defaults = SpreadDefaults::System,
        Some(api::SpreadDefaulting::List) => *defaults = SpreadDefaults::List(constraints(&args.default_constraints)?),
    }
    Ok(())
}

fn constraints(constraints: &[api::SpreadConstraint]) -> Result<Vec<SpreadConstraint>, CompileError> {
    for (i, constraint) in constraints.iter().enumerate() {
        let same = |other: &api::SpreadConstraint| {
            (&other.topology_key, other.when_unsatisfiable) == (&constraint.topology_key, constraint.when_unsatisfiable)
        };
        if constraints[..i].iter().any(same) {
            let field = format!("{SPREAD}.defaultConstraints[{i}]");
            let message =
                format!("{} with {:?} is there twice", constraint.topology_key, constraint.when_unsatisfiable);
            let fix = "keep one constraint for each topologyKey and whenUnsatisfiable";
            return Err(CompileError::args(field, message, fix));
        }
    }
    each(constraints, &format!("{SPREAD}.defaultConstraints"), constraint)
}

fn constraint(constraint: &api::SpreadConstraint, field: &str) -> Result<SpreadConstraint, CompileError> {
    let hard = constraint.when_unsatisfiable == api::WhenUnsatisfiable::DoNotSchedule;
    let min_domains = constraint.min_domains.unwrap_or(1);
    for (name, value) in [("maxSkew", constraint.max_skew), ("minDomains", min_domains)] {
        number(value, 1..=u32::MAX, format!("{field}.{name}"), "use 1 or more")?;
    }
    if constraint.min_domains.is_some() && !hard {
        let message = "is read with whenUnsatisfiable DoNotSchedule only";
        let fix = "remove minDomains, or change whenUnsatisfiable";
        return Err(CompileError::args(format!("{field}.minDomains"), message, fix));
    }
    Ok(SpreadConstraint {
        max_skew: constraint.max_skew,
        topology_key: label_key(&constraint.topology_key, &format!("{field}.topologyKey"))?,
        hard,
        // The plugin derives the selector for each pod.
        selector: None,
        min_domains,
        honor_affinity: constraint.node_affinity_policy != Some(api::NodeInclusionPolicy::Ignore),
        honor_taints: constraint.node_taints_policy == Some(api::NodeInclusionPolicy::Honor),
    })
}
