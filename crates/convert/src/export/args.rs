//! Arguments of plugins, where they are not kube-scheduler's defaults.

use super::{Losses, Subject, weighed};
use crate::import::API_VERSION;
use berth_api::{
    self as api, AddedAffinity, LabelSelector, LabelSelectorOperator, NodeSelector, NodeSelectorOperator,
    NodeSelectorRequirement, NodeSelectorTerm,
};
use berth_core::model::{SpreadConstraint, Str};
use berth_core::plugins::Plugin;
use berth_core::profile::{FitArgs, FitStrategy, InterPodAffinityArgs, ShapePoint, SpreadDefaults};
use serde_json::{Map, Value, json};

/// The engine's scores end at 100, those of a shape in a configuration at 10.
const SHAPE_SCALE: i64 = 10;

/// The field `pluginConfig` of a profile.
pub(super) fn plugin_config(subject: &Subject<'_>, losses: &mut Losses) -> Vec<Value> {
    let compiled = &subject.compiled;
    let mut list = Vec::new();
    let mut add = |plugin: &str, args: Option<Value>| {
        let Some(Value::Object(args)) = args else { return };
        let mut typed = Map::from_iter([("apiVersion".to_owned(), API_VERSION.into())]);
        typed.insert("kind".to_owned(), format!("{plugin}Args").into());
        typed.extend(args);
        list.push(json!({"name": plugin, "args": typed}));
    };
    add("DefaultPreemption", candidates(&subject.spec.preemption.candidate_nodes));
    add("DynamicResources", subject.spec.plugin_args.dynamic_resources.as_ref().and_then(dynamic_resources));
    add("InterPodAffinity", inter_pod_affinity(compiled.inter_pod_affinity));
    add("NodeAffinity", added_affinity(subject, losses));
    add("NodeResourcesBalancedAllocation", balanced(&compiled.balanced));
    add("NodeResourcesFit", fit(subject, losses));
    add("PodTopologySpread", spread(&compiled.spread_defaults));
    add("VolumeBinding", volume_binding(subject, losses));
    list
}

fn candidates(nodes: &api::CandidateNodes) -> Option<Value> {
    let written = json!({"minCandidateNodesPercentage": nodes.percentage, "minCandidateNodesAbsolute": nodes.absolute});
    (*nodes != api::CandidateNodes::default()).then_some(written)
}

fn dynamic_resources(args: &api::DynamicResourcesArgs) -> Option<Value> {
    let written = json!({"filterTimeout": args.filter_timeout, "bindingTimeout": args.binding_timeout});
    (*args != api::DynamicResourcesArgs::default()).then_some(written)
}

fn inter_pod_affinity(args: InterPodAffinityArgs) -> Option<Value> {
    let written = json!({
        "hardPodAffinityWeight": args.hard_weight,
        "ignorePreferredTermsOfExistingPods": args.ignore_preferred_of_existing,
    });
    (args != InterPodAffinityArgs::default()).then_some(written)
}

fn balanced(resources: &[Str]) -> Option<Value> {
    let written: Vec<Value> = resources.iter().map(|name| weighed(name, 1)).collect();
    let is_default = resources.iter().map(|name| &**name).eq(["cpu", "memory"]);
    (!is_default).then(|| json!({"resources": written}))
}

/// Resources ignored for an extender are written at that extender, and kube-scheduler then overwrites all others.
fn fit(subject: &Subject<'_>, losses: &mut Losses) -> Option<Value> {
    let own = subject.spec.plugin_args.node_resources_fit.as_ref().map_or(&[][..], |args| &args.ignored_resources);
    let left_to_extenders = super::extenders::skips(subject);
    if left_to_extenders && !own.is_empty() {
        let what = "kube-scheduler puts the resources that extenders have it ignore in the place of these";
        losses.lost(subject.name, "spec.pluginArgs.nodeResourcesFit.ignoredResources", what);
    }
    let own = if left_to_extenders { Vec::new() } else { own.to_vec() };
    let args = FitArgs {
        ignored_resources: own.iter().map(|name| name.as_str().into()).collect(),
        ..subject.compiled.fit.clone()
    };
    if args.scalar_weight.is_some() {
        let what =
            "kube-scheduler counts only the resources that are listed: others that a pod requests have no weight";
        losses.lost(subject.name, "spec.pluginArgs.nodeResourcesFit.strategy.scalarWeight", what);
    }
    let default = FitArgs::default();
    let mut written = json!({});
    if !own.is_empty() {
        written["ignoredResources"] = own.into();
    }
    if !args.ignored_resource_groups.is_empty() {
        let groups: Vec<&str> = args.ignored_resource_groups.iter().map(|group| &**group).collect();
        written["ignoredResourceGroups"] = groups.into();
    }
    if (&args.strategy, &args.resources) != (&default.strategy, &default.resources) {
        written["scoringStrategy"] = strategy(&args);
    }
    (written != json!({})).then_some(written)
}

fn strategy(args: &FitArgs) -> Value {
    let resources: Vec<Value> = args.resources.iter().map(|r| weighed(&r.name, r.weight)).collect();
    match &args.strategy {
        FitStrategy::LeastAllocated => json!({"type": "LeastAllocated", "resources": resources}),
        FitStrategy::MostAllocated => json!({"type": "MostAllocated", "resources": resources}),
        FitStrategy::RequestedToCapacityRatio(shape) => {
            let point = |p: &ShapePoint| json!({"utilization": p.utilization, "score": p.score / SHAPE_SCALE});
            let shape: Vec<Value> = shape.iter().map(point).collect();
            let ratio = json!({"shape": shape});
            json!({"type": "RequestedToCapacityRatio", "resources": resources, "requestedToCapacityRatio": ratio})
        }
    }
}

fn spread(defaults: &SpreadDefaults) -> Option<Value> {
    let SpreadDefaults::List(constraints) = defaults else { return None };
    let constraints: Vec<Value> = constraints.iter().map(constraint).collect();
    Some(json!({"defaultingType": "List", "defaultConstraints": constraints}))
}

fn constraint(constraint: &SpreadConstraint) -> Value {
    let mut written = json!({
        "maxSkew": constraint.max_skew,
        "topologyKey": *constraint.topology_key,
        "whenUnsatisfiable": if constraint.hard { "DoNotSchedule" } else { "ScheduleAnyway" },
    });
    if constraint.min_domains != 1 {
        written["minDomains"] = constraint.min_domains.into();
    }
    if !constraint.honor_affinity {
        written["nodeAffinityPolicy"] = "Ignore".into();
    }
    if constraint.honor_taints {
        written["nodeTaintsPolicy"] = "Honor".into();
    }
    written
}

fn volume_binding(subject: &Subject<'_>, losses: &mut Losses) -> Option<Value> {
    let timeout = subject.compiled.bind_timeout;
    if timeout == berth_core::profile::CompiledProfile::DEFAULT_BIND_TIMEOUT {
        return None;
    }
    let seconds = super::whole_seconds(timeout);
    if timeout.subsec_nanos() != 0 {
        let what = format!("kube-scheduler counts whole seconds: it becomes {seconds}s");
        losses.changed(subject.name, "spec.pluginArgs.volumeBinding.bindTimeout", what);
    }
    Some(json!({"bindTimeoutSeconds": seconds}))
}

/// The profile's own `addedAffinity`, and its node selector, for which kube-scheduler has no other field.
fn added_affinity(subject: &Subject<'_>, losses: &mut Losses) -> Option<Value> {
    let own = subject.spec.plugin_args.node_affinity.as_ref().and_then(|args| args.added_affinity.as_ref());
    let mut affinity = own.cloned().unwrap_or_default();
    let selector = subject.spec.nodes.selector.as_ref().map(requirements).unwrap_or_default();
    if !selector.is_empty() {
        let field = "spec.nodes.selector";
        if subject.compiled.filters.has(Plugin::NodeAffinity) {
            let what = "becomes addedAffinity of NodeAffinity: other nodes are refused, and count in the N of 0/N nodes \
                        and in percentageOfNodesToScore";
            losses.changed(subject.name, field, what);
            restrict(&mut affinity, &selector);
        } else {
            let what = "kube-scheduler could only hold it with NodeAffinity, whose filter this profile disables";
            losses.lost(subject.name, field, what);
        }
    }
    if affinity == AddedAffinity::default() {
        return None;
    }
    Some(json!({"addedAffinity": affinity}))
}

/// Adds `selector` to every required term but empty ones: those match nothing, and a condition would make them match.
fn restrict(affinity: &mut AddedAffinity, selector: &[NodeSelectorRequirement]) {
    let required = affinity.required_during_scheduling_ignored_during_execution.get_or_insert_with(|| NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm { match_expressions: selector.to_vec(), match_fields: Vec::new() }],
    });
    for term in &mut required.node_selector_terms {
        let empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
        if !empty && term.match_expressions != selector {
            term.match_expressions.extend_from_slice(selector);
        }
    }
}

fn requirements(selector: &LabelSelector) -> Vec<NodeSelectorRequirement> {
    let label = |(key, value): (&String, &String)| NodeSelectorRequirement {
        key: key.clone(),
        operator: NodeSelectorOperator::In,
        values: vec![value.clone()],
    };
    let labels = selector.match_labels.iter().map(label);
    let expressions = selector.match_expressions.iter().map(|expression| NodeSelectorRequirement {
        key: expression.key.clone(),
        operator: match expression.operator {
            LabelSelectorOperator::In => NodeSelectorOperator::In,
            LabelSelectorOperator::NotIn => NodeSelectorOperator::NotIn,
            LabelSelectorOperator::Exists => NodeSelectorOperator::Exists,
            LabelSelectorOperator::DoesNotExist => NodeSelectorOperator::DoesNotExist,
        },
        values: expression.values.clone(),
    });
    labels.chain(expressions).collect()
}
