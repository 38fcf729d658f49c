//! Priorities become scores.

use crate::import::args;
use crate::import::loss::Draft;
use crate::import::node::{Fields, ImportError, Node};
use ScoreName as S;
use berth_api as api;
use berth_api::{
    LabelPreference, PluginState, PodTopologySpreadArgs, Preset, ScoreConfig, ScoreName, ScoringStrategy,
    ScoringStrategyType, SelectorMatching, SelectorSpreadArgs, ShapePoint, SpreadConstraint, SpreadDefaulting,
    SpreadWorkloads, WhenUnsatisfiable,
};

/// The priority that asked Services alone which pods belong together.
const SERVICE_SPREADING: &str = "ServiceSpreadingPriority";

/// Every priority that a Policy could name without an argument and that has a score.
#[rustfmt::skip] // One row per name: the table is read down.
const PRIORITIES: &[(&str, ScoreName)] = &[
    ("LeastRequestedPriority", S::LeastRequestedPriority),
    ("MostRequestedPriority", S::MostRequestedPriority),
    ("BalancedResourceAllocation", S::BalancedResourceAllocationPriority),
    ("SelectorSpreadPriority", S::SelectorSpread),
    (SERVICE_SPREADING, S::SelectorSpread),
    ("EqualPriority", S::EqualPriority),
    ("NodePreferAvoidPodsPriority", S::NodePreferAvoidPodsPriority),
    ("NodeAffinityPriority", S::NodeAffinity),
    ("TaintTolerationPriority", S::TaintToleration),
    ("InterPodAffinityPriority", S::InterPodAffinity),
    ("ImageLocalityPriority", S::ImageLocality),
    ("RequestedToCapacityRatioPriority", S::NodeResourcesFit),
    ("EvenPodsSpreadPriority", S::PodTopologySpread),
];

/// Priorities that were removed without a successor, and why nothing replaces them.
const REMOVED: &[(&str, &str)] =
    &[("ResourceLimitsPriority", "no score looks at limits: the priority was removed from kube-scheduler in 1.20")];

/// Bound of weights in a Policy: a weight times the highest score, 10, must not overflow.
const MAX_WEIGHT: i64 = i64::MAX / 10;

struct Wanted {
    score: ScoreName,
    weight: i64,
    source: String,
}

impl Wanted {
    /// Stands for one more priority: the larger weight counts.
    fn join(&mut self, weight: i64, source: &str) {
        self.weight = self.weight.max(weight);
        self.source = format!("{}, {source}", self.source);
    }
}

/// Reads the priorities of a Policy. Without the field the default scores run; an empty list leaves none.
pub(super) fn read(fields: &Fields<'_>, out: &mut Draft) -> Result<(), ImportError> {
    let Some(list) = fields.get("priorities") else {
        out.origins.comment("spec", "priorities: not given, so that the default scores run");
        return Ok(());
    };
    out.spec.preset = Preset::NoScoring;
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut labels: Vec<(Node<'_>, i64)> = Vec::new();
    let mut zones: Vec<(Node<'_>, i64)> = Vec::new();
    for node in list.items()? {
        let fields = node.any_fields()?;
        let name = fields.need("name", "name a priority, such as LeastRequestedPriority")?;
        let weight = weight(&fields, name.text()?)?;
        let source = format!("{} {}", node.path(), name.text()?);
        let Some(argument) = fields.get("argument") else {
            plain(&name, weight, source, &mut wanted, out)?;
            continue;
        };
        let arguments = argument.any_fields()?;
        let given = (
            arguments.get("labelPreference"),
            arguments.get("serviceAntiAffinity"),
            arguments.get("requestedToCapacityRatioArguments"),
        );
        match given {
            (Some(node), None, None) => labels.push((node, weight)),
            (None, Some(node), None) => zones.push((node, weight)),
            (None, None, Some(node)) => {
                ratio(Some(&node), &source, out)?;
                add(&mut wanted, Wanted { score: S::NodeResourcesFit, weight, source }, out);
            }
            _ => {
                let fix = "give one of serviceAntiAffinity, labelPreference and requestedToCapacityRatioArguments";
                return Err(argument.bad("does not say what it is", fix));
            }
        }
    }
    label_preferences(&labels, &mut wanted, out)?;
    service_anti_affinity(&zones, &mut wanted, out)?;
    write(&wanted, out)
}

fn weight(fields: &Fields<'_>, priority: &str) -> Result<i64, ImportError> {
    let fix = "write 1 or more";
    let node = fields.need("weight", fix)?;
    let weight = node.long()?;
    if !(1..MAX_WEIGHT).contains(&weight) {
        return Err(node.bad(format!("{weight} of {priority} is not positive, or too large"), fix));
    }
    Ok(weight)
}

/// A priority without an argument.
fn plain(
    name: &Node<'_>,
    weight: i64,
    source: String,
    wanted: &mut Vec<Wanted>,
    out: &mut Draft,
) -> Result<(), ImportError> {
    let text = name.text()?;
    if let Some((_, why)) = REMOVED.iter().find(|(removed, _)| *removed == text) {
        out.report.lost(name.path(), format!("{text}: {why}"));
        return Ok(());
    }
    let score = name.row(PRIORITIES, "priority")?;
    match text {
        "SelectorSpreadPriority" | SERVICE_SPREADING => selector_spread(name, wanted, out)?,
        "RequestedToCapacityRatioPriority" => ratio(None, &source, out)?,
        // Default constraints came later than this priority.
        "EvenPodsSpreadPriority" if out.spec.plugin_args.pod_topology_spread.is_none() => {
            let list = Some(SpreadDefaulting::List);
            out.spec.plugin_args.pod_topology_spread =
                Some(PodTopologySpreadArgs { defaulting_type: list, default_constraints: Vec::new() });
            out.origins.comment("spec.pluginArgs.podTopologySpread", format!("{source} knew no default constraints"));
        }
        _ => {}
    }
    add(wanted, Wanted { score: *score, weight, source }, out);
    Ok(())
}

/// Both priorities are the score SelectorSpread, which asks Services alone where only ServiceSpreadingPriority is named.
fn selector_spread(name: &Node<'_>, wanted: &[Wanted], out: &mut Draft) -> Result<(), ImportError> {
    let first = !wanted.iter().any(|present| present.score == S::SelectorSpread);
    let args = &mut out.spec.plugin_args.selector_spread;
    let mut spread = args.unwrap_or_default();
    let services_only = name.text()? == SERVICE_SPREADING && (first || spread.workloads == SpreadWorkloads::Services);
    spread.workloads = if services_only { SpreadWorkloads::Services } else { SpreadWorkloads::All };
    if out.any_selector {
        spread.matching = SelectorMatching::Any;
    } else if first {
        let what = "a pod counts if all selectors match it, as since kube-scheduler 1.14: for a Policy of 1.13 or before \
                    set spec.pluginArgs.selectorSpread.matching: Any";
        out.report.note(name.path(), what);
    }
    *args = (spread != SelectorSpreadArgs::default()).then_some(spread);
    Ok(())
}

/// Adds a priority. Where several priorities are one score, the larger weight counts.
fn add(wanted: &mut Vec<Wanted>, new: Wanted, out: &mut Draft) {
    let Some(present) = wanted.iter_mut().find(|present| present.score == new.score) else {
        wanted.push(new);
        return;
    };
    let weight = present.weight.max(new.weight);
    let what =
        format!("{} and {} are both {}, which gets the larger weight, {weight}", present.source, new.source, new.score);
    let field = new.source.split(' ').next().unwrap_or_default();
    out.report.changed(field, what);
    present.join(new.weight, &new.source);
}

/// Sets the shape and resources of NodeResourcesFit; without an argument those of RequestedToCapacityRatioPriority.
fn ratio(argument: Option<&Node<'_>>, source: &str, out: &mut Draft) -> Result<(), ImportError> {
    let fit = out.spec.plugin_args.node_resources_fit.get_or_insert_default();
    if fit.strategy.is_some() {
        let field = argument.map_or_else(|| source.split(' ').next().unwrap_or_default(), |a| a.path());
        out.report.lost(field, "a profile scores by one shape: that of the first such priority counts");
        return Ok(());
    }
    let mut strategy = ScoringStrategy {
        scalar_weight: None,
        kind: ScoringStrategyType::RequestedToCapacityRatio,
        resources: Vec::new(),
        shape: vec![ShapePoint { utilization: 0, score: 10 }, ShapePoint { utilization: 100, score: 0 }],
    };
    if let Some(argument) = argument {
        let fields = argument.any_fields()?;
        strategy.shape = args::shape(&fields.list("shape")?)?;
        strategy.resources = resources(&fields.list("resources")?)?;
        let field = "spec.pluginArgs.nodeResourcesFit.strategy";
        out.origins.add_silently(field, argument.path());
    }
    fit.strategy = Some(strategy);
    out.origins.comment("spec.pluginArgs.nodeResourcesFit", format!("from {source}"));
    Ok(())
}

fn resources(nodes: &[Node<'_>]) -> Result<Vec<api::ResourceWeight>, ImportError> {
    let resource = |node: &Node<'_>| {
        let fields = node.any_fields()?;
        let name = fields.need("name", "name a resource, such as cpu")?.text()?.to_owned();
        let weight = fields.int_or("weight", 1)?;
        Ok(api::ResourceWeight { name, weight: if weight == 0 { 1 } else { weight } })
    };
    nodes.iter().map(resource).collect()
}

/// All label preferences become one score, whose weight is the sum of theirs.
fn label_preferences(nodes: &[(Node<'_>, i64)], wanted: &mut Vec<Wanted>, out: &mut Draft) -> Result<(), ImportError> {
    let Some((first, first_weight)) = nodes.first() else { return Ok(()) };
    for (i, (node, weight)) in nodes.iter().enumerate() {
        let fields = node.any_fields()?;
        let label = fields.need("label", "name a node label")?.text()?.to_owned();
        let present = fields.flag("presence")?;
        out.origins.add_silently(format!("spec.pluginArgs.labelPreference[{i}]"), node.path());
        out.spec.plugin_args.label_preference.push(LabelPreference { label, present });
        if weight != first_weight {
            let what =
                format!("its weight {weight} differs from {first_weight} of the first: label preferences count alike");
            out.report.changed(node.path(), what);
        }
    }
    let sum = nodes.iter().fold(0i64, |sum, (_, weight)| sum.saturating_add(*weight));
    let paths: Vec<&str> = nodes.iter().map(|(node, _)| node.path()).collect();
    out.origins.comment("spec.pluginArgs.labelPreference", format!("from {}", paths.join(", ")));
    let source = if nodes.len() == 1 {
        first.path().to_owned()
    } else {
        format!("{}: the sum of their weights", paths.join(", "))
    };
    wanted.push(Wanted { score: S::LabelPreference, weight: sum, source });
    Ok(())
}

/// Spreading over the values of a label becomes a soft default constraint of PodTopologySpread.
fn service_anti_affinity(
    nodes: &[(Node<'_>, i64)],
    wanted: &mut Vec<Wanted>,
    out: &mut Draft,
) -> Result<(), ImportError> {
    for (node, weight) in nodes {
        let label = node.any_fields()?.need("label", "name a node label")?.text()?.to_owned();
        let what = format!(
            "becomes a soft default constraint of PodTopologySpread over {label}: pods of one Service or controller are \
             kept apart by it, except those with constraints of their own"
        );
        out.report.changed(node.path(), what);
        let spread = out.spec.plugin_args.pod_topology_spread.get_or_insert_default();
        spread.defaulting_type = Some(SpreadDefaulting::List);
        out.origins.add(
            format!("spec.pluginArgs.podTopologySpread.defaultConstraints[{}]", spread.default_constraints.len()),
            node.path(),
        );
        spread.default_constraints.push(SpreadConstraint {
            max_skew: 1,
            topology_key: label,
            when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
            min_domains: None,
            node_affinity_policy: None,
            node_taints_policy: None,
        });
        let source = node.path().to_owned();
        match wanted.iter_mut().find(|w| w.score == S::PodTopologySpread) {
            Some(present) => present.join(*weight, &source),
            None => wanted.push(Wanted { score: S::PodTopologySpread, weight: *weight, source }),
        }
    }
    Ok(())
}

/// Writes the scores in the order of [`ScoreName::ALL`]. The order of priorities in a Policy never mattered.
fn write(wanted: &[Wanted], out: &mut Draft) -> Result<(), ImportError> {
    for name in ScoreName::ALL {
        let Some(found) = wanted.iter().find(|wanted| wanted.score == name) else { continue };
        let index = out.spec.scores.len();
        let field = found.source.split([' ', ',']).next().unwrap_or_default();
        let written = format!("{field}.weight");
        let weight = i32::try_from(found.weight).map_err(|_| {
            ImportError::new(&written, format!("{} is too large", found.weight), "write 1 to 1,000,000")
        })?;
        out.origins.add_silently(format!("spec.scores[{index}].weight"), written);
        out.origins.add(format!("spec.scores[{index}]"), found.source.clone());
        out.spec.scores.push(ScoreConfig { name, weight: Some(weight), state: PluginState::Enabled });
    }
    if out.spec.scores.is_empty() {
        out.origins.comment("spec.preset", "priorities: empty, so that any node that fits will do");
    }
    Ok(())
}
