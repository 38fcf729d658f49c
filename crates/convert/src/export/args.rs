//! Arguments of plugins, where they are not kube-scheduler's defaults.

use super::affinity;
use super::{Losses, Subject, weighed};
use crate::import::{API_VERSION, Loss};
use berth_api as api;
use berth_core::model::SpreadConstraint;
use berth_core::profile::{FitArgs, FitStrategy, InterPodAffinityArgs, SpreadDefaults};
use serde_json::{Map, Value, json};

/// The engine's scores end at 100, those of a shape in a configuration at 10.
const SHAPE_SCALE: i64 = 10;

/// The field `pluginConfig` of a profile.
pub(super) fn plugin_config(subject: &Subject<'_>, losses: &mut Losses) -> Vec<Value> {
    let compiled = &subject.compiled;
    let mut list = Vec::new();
    let mut add = |plugin: &str, args: Option<Map<String, Value>>| {
        let Some(args) = args else { return };
        let mut typed = Map::new();
        typed.insert("apiVersion".to_owned(), API_VERSION.into());
        typed.insert("kind".to_owned(), format!("{plugin}Args").into());
        typed.extend(args);
        list.push(json!({"name": plugin, "args": typed}));
    };
    add("DefaultPreemption", candidates(&subject.spec.preemption.candidate_nodes));
    add("DynamicResources", subject.spec.plugin_args.dynamic_resources.as_ref().and_then(dynamic_resources));
    add("InterPodAffinity", inter_pod_affinity(compiled.inter_pod_affinity));
    add("NodeAffinity", affinity::added(subject, losses));
    add("NodeResourcesBalancedAllocation", balanced(&compiled.balanced));
    add("NodeResourcesFit", fit(subject, losses));
    add("PodTopologySpread", spread(&compiled.spread_defaults));
    add("VolumeBinding", volume_binding(subject, losses));
    list
}

fn map<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn candidates(nodes: &api::CandidateNodes) -> Option<Map<String, Value>> {
    (*nodes != api::CandidateNodes::default()).then(|| {
        map([
            ("minCandidateNodesPercentage", nodes.percentage.into()),
            ("minCandidateNodesAbsolute", nodes.absolute.into()),
        ])
    })
}

fn dynamic_resources(args: &api::DynamicResourcesArgs) -> Option<Map<String, Value>> {
    (*args != api::DynamicResourcesArgs::default()).then(|| {
        map([
            ("filterTimeout", args.filter_timeout.to_string().into()),
            ("bindingTimeout", args.binding_timeout.to_string().into()),
        ])
    })
}

fn inter_pod_affinity(args: InterPodAffinityArgs) -> Option<Map<String, Value>> {
    (args != InterPodAffinityArgs::default()).then(|| {
        map([
            ("hardPodAffinityWeight", args.hard_weight.into()),
            ("ignorePreferredTermsOfExistingPods", args.ignore_preferred_of_existing.into()),
        ])
    })
}

fn balanced(resources: &[berth_core::model::Str]) -> Option<Map<String, Value>> {
    let default = ["cpu", "memory"];
    (!resources.iter().map(|name| &**name).eq(default)).then(|| {
        let resources: Vec<Value> = resources.iter().map(|name| weighed(name, 1)).collect();
        map([("resources", resources.into())])
    })
}

/// Resources ignored for an extender are written at that extender, and kube-scheduler then overwrites all others.
fn fit(subject: &Subject<'_>, losses: &mut Losses) -> Option<Map<String, Value>> {
    let own = subject.spec.plugin_args.node_resources_fit.as_ref().map_or(&[][..], |args| &args.ignored_resources);
    let left_to_extenders = super::extenders::skips(subject);
    if left_to_extenders && !own.is_empty() {
        let what = "kube-scheduler puts the resources that extenders have it ignore in the place of these";
        losses.add(subject.name, Loss::lost("spec.pluginArgs.nodeResourcesFit.ignoredResources", what));
    }
    let own = if left_to_extenders { Vec::new() } else { own.to_vec() };
    let args = FitArgs {
        ignored_resources: own.iter().map(|name| name.as_str().into()).collect(),
        ..subject.compiled.fit.clone()
    };
    let default = FitArgs::default();
    let mut written = Map::new();
    if !own.is_empty() {
        written.insert("ignoredResources".to_owned(), own.into());
    }
    if !args.ignored_resource_groups.is_empty() {
        let groups: Vec<&str> = args.ignored_resource_groups.iter().map(|group| &**group).collect();
        written.insert("ignoredResourceGroups".to_owned(), groups.into());
    }
    if (&args.strategy, &args.resources) != (&default.strategy, &default.resources) {
        written.insert("scoringStrategy".to_owned(), strategy(&args));
    }
    (!written.is_empty()).then_some(written)
}

fn strategy(args: &FitArgs) -> Value {
    let resources: Vec<Value> = args.resources.iter().map(|r| weighed(&r.name, r.weight)).collect();
    match &args.strategy {
        FitStrategy::LeastAllocated => json!({"type": "LeastAllocated", "resources": resources}),
        FitStrategy::MostAllocated => json!({"type": "MostAllocated", "resources": resources}),
        FitStrategy::RequestedToCapacityRatio(shape) => {
            let point = |p: &berth_core::profile::ShapePoint| json!({"utilization": p.utilization, "score": p.score / SHAPE_SCALE});
            let shape: Vec<Value> = shape.iter().map(point).collect();
            let ratio = json!({"shape": shape});
            json!({"type": "RequestedToCapacityRatio", "resources": resources, "requestedToCapacityRatio": ratio})
        }
    }
}

fn spread(defaults: &SpreadDefaults) -> Option<Map<String, Value>> {
    let SpreadDefaults::List(constraints) = defaults else { return None };
    let constraints: Vec<Value> = constraints.iter().map(constraint).collect();
    Some(map([("defaultingType", "List".into()), ("defaultConstraints", constraints.into())]))
}

fn constraint(constraint: &SpreadConstraint) -> Value {
    let mut written = map([
        ("maxSkew", constraint.max_skew.into()),
        ("topologyKey", (*constraint.topology_key).into()),
        ("whenUnsatisfiable", if constraint.hard { "DoNotSchedule" } else { "ScheduleAnyway" }.into()),
    ]);
    if constraint.min_domains != 1 {
        written.insert("minDomains".to_owned(), constraint.min_domains.into());
    }
    if !constraint.honor_affinity {
        written.insert("nodeAffinityPolicy".to_owned(), "Ignore".into());
    }
    if constraint.honor_taints {
        written.insert("nodeTaintsPolicy".to_owned(), "Honor".into());
    }
    written.into()
}

fn volume_binding(subject: &Subject<'_>, losses: &mut Losses) -> Option<Map<String, Value>> {
    let timeout = subject.compiled.volume_binding.bind_timeout;
    if timeout == berth_core::profile::VolumeBindingArgs::default().bind_timeout {
        return None;
    }
    let seconds = super::whole_seconds(timeout);
    if timeout.subsec_nanos() != 0 {
        let what = format!("kube-scheduler counts whole seconds: it becomes {seconds}s");
        losses.add(subject.name, Loss::changed("spec.pluginArgs.volumeBinding.bindTimeout", what));
    }
    Some(map([("bindTimeoutSeconds", seconds.into())]))
}
