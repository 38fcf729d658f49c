use super::compile;
use berth_api::SchedulerProfileSpec;
use berth_api::conditions::Accepted;
use berth_core::model::{NodeTestOperator, RequirementOperator};
use berth_core::plugins::{Plugin, PluginSet};
use berth_core::profile::{
    CompiledProfile, FitStrategy, Mode, NamespaceAccess, ResourceWeight, Sampling, Score, ShapePoint, UnknownFields,
};
use std::time::Duration;

fn spec(json: &str) -> SchedulerProfileSpec {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

fn compiled(json: &str) -> CompiledProfile {
    compile("batch", &spec(json)).unwrap_or_else(|error| panic!("{json}: {error}"))
}

#[test]
fn an_empty_spec_is_the_default_preset() {
    assert_eq!(compiled("{}"), CompiledProfile::default_preset("batch"));
}

#[test]
fn scores_are_laid_over_the_preset_and_stand_in_upstreams_order() {
    let table: [(&str, &[(Score, i64)]); 7] = [
        (
            r#"{"preset": "BinPack", "scores": [{"name": "ImageLocality", "weight": 2}, {"name": "TaintToleration", "state": "Disabled"}, {"name": "PodTopologySpread", "state": "Disabled"}]}"#,
            &[
                (Score::NodeAffinity, 2),
                (Score::NodeResourcesFit, 5),
                (Score::InterPodAffinity, 2),
                (Score::ImageLocality, 2),
                (Score::ScarceResourceAvoidance, 10),
            ],
        ),
        (
            r#"{"preset": "BinPack", "scores": [{"name": "NodeResourcesFit"}]}"#,
            &[
                (Score::TaintToleration, 3),
                (Score::NodeAffinity, 2),
                (Score::NodeResourcesFit, 5),
                (Score::PodTopologySpread, 1),
                (Score::InterPodAffinity, 2),
                (Score::ScarceResourceAvoidance, 10),
            ],
        ),
        (r#"{"preset": "NoScoring"}"#, &[]),
        (r#"{"preset": "NoScoring", "scores": [{"name": "TaintToleration"}]}"#, &[(Score::TaintToleration, 3)]),
        (
            r#"{"preset": "NoScoring", "scores": [{"name": "InterPodAffinity"}, {"name": "PodTopologySpread"}]}"#,
            &[(Score::PodTopologySpread, 2), (Score::InterPodAffinity, 2)],
        ),
        (
            r#"{"preset": "NoScoring", "scores": [{"name": "NodePreferAvoidPodsPriority"}, {"name": "SelectorSpread"}]}"#,
            &[(Score::SelectorSpread, 1), (Score::NodePreferAvoidPodsPriority, 10_000)],
        ),
        (
            r#"{"preset": "NoScoring", "scores": [{"name": "ImageLocality", "weight": 1000000}]}"#,
            &[(Score::ImageLocality, 1_000_000)],
        ),
    ];
    for (json, want) in table {
        assert_eq!(compiled(json).scores, want, "{json}");
    }
}

#[test]
fn settings_that_are_not_plugins_are_resolved() {
    let profile = compiled(
        r#"{"schedulerNames": ["z", "a"], "mode": "Paused", "allowUnsafe": "Acknowledged", "unknownFields": "Hold",
            "filters": [{"name": "NodePorts", "state": "Disabled"}, {"name": "NodeName", "state": "Disabled"}, {"name": "NodeAffinity"},
                        {"name": "VolumeZone", "state": "Disabled"}, {"name": "CheckNodeDiskPressure", "state": "Enabled"}],
            "pluginArgs": {
              "nodeResourcesFit": {"ignoredResources": ["example.com/license"], "ignoredResourceGroups": ["example.org"],
                "strategy": {"type": "RequestedToCapacityRatio", "resources": [{"name": "nvidia.com/gpu", "weight": 3}],
                             "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}},
              "nodeResourcesBalancedAllocation": {"resources": [{"name": "memory"}]},
              "nodeAffinity": {"addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                  {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}],
                   "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n0"]}]}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}]}}},
            "nodes": {"selector": {"matchLabels": {"pool": "b"}, "matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["b", "a"]}]},
                      "percentageToScore": 100, "minFeasible": 7},
            "namespaces": {"access": "Restricted", "names": ["ci"], "matchLabels": {"team": "x"}},
            "queue": {"initialBackoff": "500ms", "maxBackoff": "1m", "maxUnschedulableDuration": "30s"}}"#,
    );
    assert_eq!(profile.scheduler_names, ["a".into(), "z".into()]);
    assert_eq!((profile.mode, profile.unknown_fields), (Mode::Paused, UnknownFields::Hold));
    let filters: Vec<_> = profile.filters.iter().collect();
    let mut expected = PluginSet::DEFAULT_FILTERS;
    for gone in [Plugin::NodePorts, Plugin::NodeName, Plugin::VolumeZone] {
        expected = expected.without(gone);
    }
    assert_eq!(filters, expected.with(Plugin::CheckNodeDiskPressure).iter().collect::<Vec<_>>());
    assert_eq!(profile.fit.ignored_resources, ["example.com/license".into()]);
    assert_eq!(profile.fit.ignored_resource_groups, ["example.org".into()]);
    let points = [ShapePoint { utilization: 0, score: 0 }, ShapePoint { utilization: 100, score: 100 }];
    assert_eq!(profile.fit.strategy, FitStrategy::RequestedToCapacityRatio(points.to_vec()));
    assert_eq!(profile.fit.resources, [ResourceWeight { name: "nvidia.com/gpu".into(), weight: 3 }]);
    assert_eq!(profile.balanced, ["memory".into()]);
    let required = profile.added_affinity.required.unwrap();
    assert_eq!(required.terms[0].expressions[0].operator, NodeTestOperator::Gt);
    assert_eq!(required.terms[0].names, [(false, "n0".into())]);
    assert_eq!(profile.added_affinity.preferred[0].weight, 7);
    let selector = profile.node_selector.unwrap();
    assert_eq!(selector.requirements[0].operator, RequirementOperator::In);
    assert_eq!(selector.requirements[1].values, ["a".into(), "b".into()]);
    assert_eq!(profile.sampling, Sampling { percentage: 100, min_feasible: 7 });
    assert!(matches!(profile.namespaces, NamespaceAccess::Restricted { .. }));
    assert_eq!(profile.queue.initial_backoff, Duration::from_millis(500));
}

#[test]
fn a_strategy_of_its_own_weighs_scalars_only_if_it_says_so() {
    let weight = |spec: &str| compiled(spec).fit.scalar_weight;
    let of = |args: &str| weight(&format!(r#"{{"preset": "BinPack", "pluginArgs": {{"nodeResourcesFit": {args}}}}}"#));
    assert_eq!((weight("{}"), of("{}")), (None, Some(10)));
    assert_eq!(of(r#"{"strategy": {"type": "MostAllocated"}}"#), None);
    assert_eq!(of(r#"{"strategy": {"type": "LeastAllocated", "scalarWeight": 3}}"#), Some(3));
}

#[test]
fn a_dry_run_names_the_schedulers_that_it_is_compared_with() {
    let profile = compiled(r#"{"mode": "DryRun", "shadow": {"schedulerNames": ["z", "default-scheduler"]}}"#);
    assert_eq!(profile.mode, Mode::DryRun);
    assert_eq!(profile.shadow, ["default-scheduler".into(), "z".into()]);
    assert!(compiled("{}").shadow.is_empty());
}

#[test]
fn an_empty_node_selector_is_all_nodes() {
    assert_eq!(compiled(r#"{"nodes": {"selector": {}}}"#).node_selector, None);
}

/// Each bad spec with the reason, the field and a word of the message or fix.
const REFUSED: [(&str, Accepted, &str, &str); 48] = [
    // These pass the API server's schema: only here are they found.
    (
        r#"{"nodes": {"selector": {"matchLabels": {"example..com/pool": "a"}}}}"#,
        Accepted::InvalidSelector,
        "spec.nodes.selector.matchLabels",
        "example..com/pool",
    ),
    (
        r#"{"nodes": {"selector": {"matchExpressions": [{"key": "a.-b/c", "operator": "Exists"}]}}}"#,
        Accepted::InvalidSelector,
        "spec.nodes.selector.matchExpressions[0]",
        "label key",
    ),
    (
        r#"{"namespaces": {"access": "Restricted", "matchLabels": {"a..b/c": "x"}}}"#,
        Accepted::InvalidSelector,
        "spec.namespaces.matchLabels",
        "a..b/c",
    ),
    (
        r#"{"pluginArgs": {"nodeAffinity": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a..b"]}]}]}}}}}"#,
        Accepted::InvalidSelector,
        "matchFields[0].values[0]",
        "node's name",
    ),
    (
        r#"{"allowUnsafe": "Acknowledged", "pluginArgs": {"nodeResourcesFit": {"ignoredResources": ["kubernetes.io/batch"]}}}"#,
        Accepted::InvalidArgs,
        "spec.pluginArgs.nodeResourcesFit.ignoredResources[0]",
        "extended resource",
    ),
    (
        r#"{"allowUnsafe": "Acknowledged", "pluginArgs": {"nodeResourcesFit": {"ignoredResourceGroups": ["a..b"]}}}"#,
        Accepted::InvalidArgs,
        "spec.pluginArgs.nodeResourcesFit.ignoredResourceGroups[0]",
        "before the /",
    ),
    (
        r#"{"pluginArgs": {"nodeResourcesFit": {"strategy": {"type": "MostAllocated", "resources": [{"name": "requests.example.com/x"}]}}}}"#,
        Accepted::InvalidArgs,
        "spec.pluginArgs.nodeResourcesFit.strategy.resources[0].name",
        "not a resource",
    ),
    // These the API server refuses too; files come here unseen by it.
    (r#"{"schedulerNames": ["Batch"]}"#, Accepted::InvalidArgs, "spec.schedulerNames[0]", "DNS-1123"),
    (r#"{"schedulerNames": ["a", "b_c"]}"#, Accepted::InvalidArgs, "spec.schedulerNames[1]", "DNS-1123"),
    (
        r#"{"filters": [{"name": "NodeName", "state": "Disabled"}]}"#,
        Accepted::InvalidArgs,
        "spec.filters[0]",
        "allowUnsafe",
    ),
    (
        r#"{"filters": [{"name": "NodeUnschedulable", "state": "Disabled"}]}"#,
        Accepted::InvalidArgs,
        "spec.filters[0]",
        "allowUnsafe",
    ),
    (
        r#"{"filters": [{"name": "NodePorts"}, {"name": "NodeResourcesFit", "state": "Disabled"}]}"#,
        Accepted::InvalidArgs,
        "spec.filters[1]",
        "allowUnsafe",
    ),
    (
        r#"{"scores": [{"name": "NodeAffinity", "weight": 0}]}"#,
        Accepted::InvalidArgs,
        "spec.scores[0].weight",
        "1,000,000",
    ),
    (
        r#"{"scores": [{"name": "NodeAffinity", "weight": 1000001}]}"#,
        Accepted::InvalidArgs,
        "spec.scores[0].weight",
        "1000001",
    ),
    (
        r#"{"pluginArgs": {"nodeResourcesFit": {"ignoredResources": ["example.com/a"]}}}"#,
        Accepted::InvalidArgs,
        "spec.pluginArgs.nodeResourcesFit",
        "overbooked",
    ),
    (
        r#"{"allowUnsafe": "Acknowledged", "pluginArgs": {"nodeResourcesFit": {"ignoredResources": ["cpu"]}}}"#,
        Accepted::InvalidArgs,
        "ignoredResources[0]",
        "cpu",
    ),
    (
        r#"{"allowUnsafe": "Acknowledged", "pluginArgs": {"nodeResourcesFit": {"ignoredResourceGroups": ["example.com/a"]}}}"#,
        Accepted::InvalidArgs,
        "ignoredResourceGroups[0]",
        "before the /",
    ),
    (
        r#"{"pluginArgs": {"nodeResourcesFit": {"strategy": {"type": "RequestedToCapacityRatio"}}}}"#,
        Accepted::InvalidArgs,
        "strategy.shape",
        "empty",
    ),
    (
        r#"{"pluginArgs": {"nodeResourcesFit": {"strategy": {"type": "LeastAllocated", "shape": [{"utilization": 0, "score": 1}]}}}}"#,
        Accepted::InvalidArgs,
        "strategy.shape",
        "remove shape",
    ),
    (
        r#"{"pluginArgs": {"nodeResourcesFit": {"strategy": {"type": "RequestedToCapacityRatio", "shape": [{"utilization": 50, "score": 1}, {"utilization": 50, "score": 2}]}}}}"#,
        Accepted::InvalidArgs,
        "strategy.shape[1].utilization",
        "sort",
    ),
    (
        r#"{"pluginArgs": {"nodeResourcesFit": {"strategy": {"type": "RequestedToCapacityRatio", "shape": [{"utilization": 101, "score": 1}]}}}}"#,
        Accepted::InvalidArgs,
        "shape[0].utilization",
        "0 to 100",
    ),
    (
        r#"{"pluginArgs": {"nodeResourcesFit": {"strategy": {"type": "RequestedToCapacityRatio", "shape": [{"utilization": 1, "score": 11}]}}}}"#,
        Accepted::InvalidArgs,
        "shape[0].score",
        "0 to 10",
    ),
    (
        r#"{"pluginArgs": {"nodeResourcesFit": {"strategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}}}}"#,
        Accepted::InvalidArgs,
        "resources[0].weight",
        "1 to 100",
    ),
    (
        r#"{"pluginArgs": {"nodeResourcesFit": {"strategy": {"type": "MostAllocated", "scalarWeight": 101}}}}"#,
        Accepted::InvalidArgs,
        "spec.pluginArgs.nodeResourcesFit.strategy.scalarWeight",
        "1 to 100",
    ),
    (
        r#"{"pluginArgs": {"nodeResourcesFit": {"strategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}, {"name": "cpu"}]}}}}"#,
        Accepted::InvalidArgs,
        "resources[1].name",
        "twice",
    ),
    (
        r#"{"pluginArgs": {"nodeResourcesFit": {"strategy": {"type": "MostAllocated", "resources": [{"name": "storage"}]}}}}"#,
        Accepted::InvalidArgs,
        "resources[0].name",
        "storage",
    ),
    (
        r#"{"pluginArgs": {"nodeResourcesBalancedAllocation": {"resources": [{"name": "cpu", "weight": 2}]}}}"#,
        Accepted::InvalidArgs,
        "nodeResourcesBalancedAllocation.resources[0].weight",
        "alike",
    ),
    (
        r#"{"pluginArgs": {"nodeAffinity": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["four"]}]}]}}}}}"#,
        Accepted::InvalidSelector,
        "matchExpressions[0].values[0]",
        "whole number",
    ),
    (
        r#"{"pluginArgs": {"nodeAffinity": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["-4"]}]}]}}}}}"#,
        Accepted::InvalidSelector,
        "matchExpressions[0].values[0]",
        "whole number",
    ),
    (
        r#"{"pluginArgs": {"nodeAffinity": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Lt"}]}]}}}}}"#,
        Accepted::InvalidSelector,
        "matchExpressions[0].values",
        "0 values",
    ),
    (
        r#"{"pluginArgs": {"nodeAffinity": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}}"#,
        Accepted::InvalidSelector,
        "nodeSelectorTerms",
        "no terms",
    ),
    (
        r#"{"pluginArgs": {"nodeAffinity": {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}]}}}}"#,
        Accepted::InvalidSelector,
        "[0].weight",
        "1 to 100",
    ),
    (
        r#"{"nodes": {"selector": {"matchLabels": {"pool": "-a"}}}}"#,
        Accepted::InvalidSelector,
        "spec.nodes.selector.matchLabels[pool]",
        "label value",
    ),
    (
        r#"{"nodes": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}"#,
        Accepted::InvalidSelector,
        "matchExpressions[0].values",
        "at least one",
    ),
    (r#"{"nodes": {"percentageToScore": 101}}"#, Accepted::InvalidArgs, "spec.nodes.percentageToScore", "101"),
    (r#"{"nodes": {"minFeasible": 0}}"#, Accepted::InvalidArgs, "spec.nodes.minFeasible", "100,000"),
    (r#"{"namespaces": {"access": "Restricted"}}"#, Accepted::InvalidArgs, "spec.namespaces.access", "no pod"),
    (r#"{"mode": "DryRun"}"#, Accepted::InvalidArgs, "spec.shadow.schedulerNames", "default-scheduler"),
    (r#"{"shadow": {"schedulerNames": ["default-scheduler"]}}"#, Accepted::InvalidArgs, "spec.shadow", "mode: DryRun"),
    (
        r#"{"mode": "DryRun", "schedulerNames": ["a"], "shadow": {"schedulerNames": ["b", "a"]}}"#,
        Accepted::InvalidArgs,
        "spec.shadow.schedulerNames[1]",
        "serves itself",
    ),
    (
        r#"{"mode": "DryRun", "shadow": {"schedulerNames": ["A"]}}"#,
        Accepted::InvalidArgs,
        "spec.shadow.schedulerNames[0]",
        "DNS-1123",
    ),
    (
        r#"{"mode": "DryRun", "shadow": {"schedulerNames": ["a"]}, "namespaces": {"route": {"selector": {}}}}"#,
        Accepted::InvalidArgs,
        "spec.namespaces.route",
        "would wait",
    ),
    (
        r#"{"namespaces": {"route": {"selector": {"matchLabels": {"a..b/c": "x"}}}}}"#,
        Accepted::InvalidSelector,
        "spec.namespaces.route.selector.matchLabels",
        "a..b/c",
    ),
    (
        r#"{"schedulerNames": ["default-scheduler"], "namespaces": {"route": {"selector": {}}}}"#,
        Accepted::InvalidArgs,
        "spec.namespaces.route",
        "add a name to spec.schedulerNames",
    ),
    (
        r#"{"queue": {"initialBackoff": "2s", "maxBackoff": "1s"}}"#,
        Accepted::InvalidArgs,
        "spec.queue.maxBackoff",
        "1s is shorter",
    ),
    (
        r#"{"queue": {"maxUnschedulableDuration": "29s"}}"#,
        Accepted::InvalidArgs,
        "spec.queue.maxUnschedulableDuration",
        "29s",
    ),
    (
        r#"{"extenders": [{"name": "x", "endpoint": {"url": "https://x"}, "verbs": {"filter": {"path": "f"}},
            "tls": {"mode": "InsecureSkipVerify"}, "auth": {"bearerTokenRef": {"name": "t", "key": "k"}}}]}"#,
        Accepted::InvalidArgs,
        "spec.extenders[0].auth",
        "anybody may answer",
    ),
    (
        r#"{"extenders": [{"name": "x", "endpoint": {"url": "https://x"}, "verbs": {"prioritize": {"path": "p"}},
            "managedResources": [{"name": "a.com/b"}, {"name": "a.com/c", "fitCheck": "Skip"}]}]}"#,
        Accepted::InvalidArgs,
        "spec.extenders[0].managedResources[1].fitCheck",
        "add verbs.filter",
    ),
];

#[test]
fn bad_specs_are_refused_with_field_and_fix() {
    for (json, reason, field, word) in REFUSED {
        let error = compile("batch", &spec(json)).expect_err(json);
        assert_eq!(error.reason, reason, "{json}: {error}");
        assert!(error.field.ends_with(field), "{json}: field {}", error.field);
        assert!(error.to_string().contains(word), "{json}: {error}");
        assert!(error.field.starts_with("spec."), "{json}: {}", error.field);
    }
}

#[test]
fn a_resource_may_be_left_to_an_extender_that_filters_or_at_ones_own_risk() {
    let skipping = |more: &str, verb: &str| {
        compiled(&format!(
            r#"{{{more} "extenders": [{{"name": "x", "endpoint": {{"url": "https://x"}}, "verbs": {{"{verb}": {{"path": "p"}}}},
                "managedResources": [{{"name": "a.com/c", "fitCheck": "Skip"}}]}}]}}"#
        ))
    };
    for profile in [skipping("", "filter"), skipping(r#""allowUnsafe": "Acknowledged","#, "bind")] {
        assert_eq!(profile.fit.ignored_resources, ["a.com/c".into()]);
    }
}

#[test]
fn a_profile_name_that_cannot_be_a_scheduler_name_is_refused() {
    assert_eq!(compile("Batch", &spec("{}")).unwrap_err().field, "metadata.name");
}
