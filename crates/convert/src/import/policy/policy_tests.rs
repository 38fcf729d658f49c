use super::super::{Import, Loss};
use super::read;
use berth_api::{AllowUnsafe, FailurePolicy, FilterName, NodePayload, Preset, ScoreName, SpreadDefaulting};
use berth_core::plugins::Plugin;
use berth_core::profile::{CompiledProfile, FitStrategy, SpreadDefaults};
use serde_json::{Value, json};

fn import(policy: Value) -> Import {
    read(&policy, "mine").unwrap_or_else(|error| panic!("{policy}: {error}"))
}

fn compiled(policy: Value) -> CompiledProfile {
    import(policy).profiles.remove(0).compiled
}

fn filters(policy: Value) -> Vec<&'static str> {
    compiled(policy).filters.iter().map(Plugin::name).collect()
}

fn scores(policy: Value) -> Vec<(&'static str, i64)> {
    compiled(policy).scores.iter().map(|(score, weight)| (score.name(), *weight)).collect()
}

fn losses(policy: Value) -> Vec<String> {
    import(policy).losses.iter().filter(|loss| loss.matters()).map(Loss::to_string).collect()
}

/// Filters that run with every Policy.
const ALWAYS: [&str; 3] = ["NodeUnschedulable", "TaintToleration", "DynamicResources"];

#[test]
fn every_predicate_has_its_filters() {
    let table: [(&str, &[&str]); 24] = [
        ("CheckNodeCondition", &[]),
        ("CheckNodeUnschedulable", &[]),
        ("GeneralPredicates", &["NodeName", "NodeAffinity", "NodePorts", "NodeResourcesFit"]),
        ("HostName", &["NodeName"]),
        ("PodFitsHostPorts", &["NodePorts"]),
        ("PodFitsPorts", &["NodePorts"]),
        ("MatchNodeSelector", &["NodeAffinity"]),
        ("PodFitsResources", &["NodeResourcesFit"]),
        ("NoDiskConflict", &["VolumeRestrictions"]),
        ("PodToleratesNodeTaints", &[]),
        ("PodToleratesNodeNoExecuteTaints", &[]),
        ("MaxEBSVolumeCount", &["MaxEBSVolumeCount"]),
        ("MaxGCEPDVolumeCount", &["MaxGCEPDVolumeCount"]),
        ("MaxAzureDiskVolumeCount", &["MaxAzureDiskVolumeCount"]),
        ("MaxCinderVolumeCount", &["MaxCinderVolumeCount"]),
        ("MaxCSIVolumeCountPred", &["NodeVolumeLimits"]),
        ("CheckVolumeBinding", &["VolumeBinding"]),
        ("NoVolumeNodeConflict", &["VolumeBinding"]),
        ("NoVolumeZoneConflict", &["VolumeZone"]),
        ("CheckNodeMemoryPressure", &["CheckNodeMemoryPressure"]),
        ("CheckNodeDiskPressure", &["CheckNodeDiskPressure"]),
        ("CheckNodePIDPressure", &["CheckNodePIDPressure"]),
        ("MatchInterPodAffinity", &["InterPodAffinity"]),
        ("EvenPodsSpread", &["PodTopologySpread"]),
    ];
    for (name, own) in table {
        let mut want: Vec<&str> = ALWAYS.iter().chain(own).copied().collect();
        want.sort_by_key(|name| FilterName::ALL.iter().position(|filter| filter.as_str() == *name));
        assert_eq!(filters(json!({"predicates": [{"name": name}], "priorities": []})), want, "{name}");
        assert_eq!(losses(json!({"predicates": [{"name": name}], "priorities": []})), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn every_priority_has_its_score() {
    let table = [
        ("LeastRequestedPriority", "LeastRequestedPriority"),
        ("MostRequestedPriority", "MostRequestedPriority"),
        ("BalancedResourceAllocation", "BalancedResourceAllocationPriority"),
        ("SelectorSpreadPriority", "SelectorSpread"),
        ("ServiceSpreadingPriority", "SelectorSpread"),
        ("EqualPriority", "EqualPriority"),
        ("NodePreferAvoidPodsPriority", "NodePreferAvoidPodsPriority"),
        ("NodeAffinityPriority", "NodeAffinity"),
        ("TaintTolerationPriority", "TaintToleration"),
        ("InterPodAffinityPriority", "InterPodAffinity"),
        ("ImageLocalityPriority", "ImageLocality"),
        ("RequestedToCapacityRatioPriority", "NodeResourcesFit"),
        ("EvenPodsSpreadPriority", "PodTopologySpread"),
    ];
    for (name, score) in table {
        assert_eq!(
            scores(json!({"predicates": [], "priorities": [{"name": name, "weight": 7}]})),
            [(score, 7)],
            "{name}"
        );
    }
}

#[test]
fn null_means_the_defaults_and_an_empty_list_means_none() {
    let default = CompiledProfile::default_preset("mine");
    for policy in [json!({}), json!({"kind": "Policy", "apiVersion": "v1", "predicates": null, "priorities": null})] {
        assert_eq!(compiled(policy), default);
    }
    assert_eq!(filters(json!({"predicates": []})), ALWAYS);
    assert_eq!(compiled(json!({"predicates": []})).scores, default.scores);
    let none = import(json!({"priorities": []})).profiles.remove(0);
    assert_eq!((none.compiled.scores.len(), none.spec.preset), (0, Preset::NoScoring));
    assert_eq!(none.compiled.filters, default.filters);
}

#[test]
fn a_missing_safety_filter_is_noted() {
    let import = import(json!({"predicates": [{"name": "HostName"}], "priorities": []}));
    assert_eq!(import.profiles[0].spec.allow_unsafe, AllowUnsafe::Acknowledged);
    let notes: Vec<String> = import.losses.iter().map(Loss::to_string).collect();
    assert_eq!(notes.len(), 1, "{notes:#?}");
    assert!(notes[0].starts_with("predicates: no predicate runs NodeResourcesFit"), "{notes:#?}");
}

#[test]
fn label_arguments_of_predicates_are_gathered() {
    let policy = json!({"priorities": [], "predicates": [
        {"name": "Region", "argument": {"serviceAffinity": {"labels": ["region", "zone"]}}},
        {"name": "Again", "argument": {"serviceAffinity": {"labels": ["zone", "rack"]}}},
        {"name": "Ssd", "argument": {"labelsPresence": {"labels": ["ssd"], "presence": true}}},
        {"name": "NotOld", "argument": {"labelsPresence": {"labels": ["old", "retiring"], "presence": false}}}]});
    assert_eq!(
        filters(policy.clone()),
        ["NodeUnschedulable", "TaintToleration", "DynamicResources", "CheckNodeLabelPresence", "CheckServiceAffinity"]
    );
    let legacy = compiled(policy).legacy;
    let keys = |keys: &[berth_core::model::Str]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(keys(&legacy.affinity_labels), ["region", "zone", "rack"]);
    assert_eq!(
        (keys(&legacy.present_labels), keys(&legacy.absent_labels)),
        (vec!["ssd".into()], vec!["old".into(), "retiring".into()])
    );
}

#[test]
fn label_preferences_are_one_score() {
    let preference = |name: &str, label: &str, presence: bool, weight: i64| json!({"name": name, "weight": weight, "argument": {"labelPreference": {"label": label, "presence": presence}}});
    let equal =
        json!({"predicates": [], "priorities": [preference("a", "ssd", true, 2), preference("b", "old", false, 2)]});
    assert_eq!(scores(equal.clone()), [("LabelPreference", 4)]);
    assert_eq!(losses(equal.clone()), Vec::<String>::new());
    let wanted: Vec<(String, bool)> =
        compiled(equal).legacy.label_preferences.iter().map(|p| (p.label.to_string(), p.present)).collect();
    assert_eq!(wanted, [("ssd".to_owned(), true), ("old".to_owned(), false)]);
    let unequal =
        json!({"predicates": [], "priorities": [preference("a", "ssd", true, 1), preference("b", "old", false, 3)]});
    assert_eq!(scores(unequal.clone()), [("LabelPreference", 4)]);
    let lines = losses(unequal);
    assert!(
        lines.len() == 1 && lines[0].starts_with("priorities[1].argument.labelPreference: its weight 3"),
        "{lines:?}"
    );
}

#[test]
fn a_ratio_is_a_strategy() {
    let ratio = json!({"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
        "resources": [{"name": "nvidia.com/gpu", "weight": 3}, {"name": "cpu"}]});
    let policy = json!({"predicates": [], "priorities": [
        {"name": "Pack", "weight": 5, "argument": {"requestedToCapacityRatioArguments": ratio}}]});
    assert_eq!(scores(policy.clone()), [("NodeResourcesFit", 5)]);
    let fit = compiled(policy).fit;
    let FitStrategy::RequestedToCapacityRatio(shape) = &fit.strategy else { panic!("{fit:?}") };
    assert_eq!((shape.len(), shape[1].score, fit.resources[0].weight, fit.resources[1].weight), (2, 100, 3, 1));
    // By its name alone it prefers empty nodes.
    let plain =
        compiled(json!({"predicates": [], "priorities": [{"name": "RequestedToCapacityRatioPriority", "weight": 1}]}));
    let FitStrategy::RequestedToCapacityRatio(shape) = &plain.fit.strategy else { panic!("{plain:?}") };
    assert_eq!((shape[0].score, shape[1].score), (100, 0));
}

#[test]
fn spreading_over_a_label_becomes_a_constraint() {
    let policy = json!({"predicates": [], "priorities": [
        {"name": "Zone", "weight": 2, "argument": {"serviceAntiAffinity": {"label": "zone"}}},
        {"name": "Rack", "weight": 4, "argument": {"serviceAntiAffinity": {"label": "rack"}}}]});
    assert_eq!(scores(policy.clone()), [("PodTopologySpread", 4)]);
    assert_eq!(losses(policy.clone()).len(), 2);
    let SpreadDefaults::List(list) = compiled(policy).spread_defaults else { panic!("no list") };
    let keys: Vec<(&str, bool)> = list.iter().map(|c| (&*c.topology_key, c.hard)).collect();
    assert_eq!(keys, [("zone", false), ("rack", false)]);
}

/// Pods without constraints of their own were spread by SelectorSpread in those versions, not by constraints.
#[test]
fn even_pods_spread_knows_no_default_constraints() {
    let profile = import(json!({"predicates": [], "priorities": [{"name": "EvenPodsSpreadPriority", "weight": 2}]}));
    let spread = profile.profiles[0].spec.plugin_args.pod_topology_spread.clone().unwrap();
    assert_eq!((spread.defaulting_type, spread.default_constraints.len()), (Some(SpreadDefaulting::List), 0));
}

/// Upstream's own translation kept the first weight, by mistake.
#[test]
fn of_priorities_that_are_one_score_the_larger_weight_counts() {
    let policy = json!({"predicates": [], "priorities": [
        {"name": "SelectorSpreadPriority", "weight": 1}, {"name": "ServiceSpreadingPriority", "weight": 5}]});
    assert_eq!(scores(policy.clone()), [("SelectorSpread", 5)]);
    let lines = losses(policy);
    assert!(lines.iter().any(|l| l.starts_with("priorities[1]: ") && l.contains("the larger weight, 5")), "{lines:?}");
}

#[test]
fn service_spreading_alone_asks_services_alone() {
    let services_only = |names: &[&str]| {
        let priorities: Vec<Value> = names.iter().map(|name| json!({"name": name, "weight": 1})).collect();
        compiled(json!({"predicates": [], "priorities": priorities})).legacy.spread_services_only
    };
    let (services, both) = ("ServiceSpreadingPriority", "SelectorSpreadPriority");
    assert!(services_only(&[services]) && services_only(&[services, services]));
    assert!(!services_only(&[both]) && !services_only(&[services, both]) && !services_only(&[both, services]));
}

/// A Policy says no version, so that the rule until 1.13 is a note.
#[test]
fn a_policy_that_spreads_names_the_rule_of_older_versions() {
    for name in ["ServiceSpreadingPriority", "SelectorSpreadPriority"] {
        let import = import(json!({"predicates": [], "priorities": [{"name": name, "weight": 1}]}));
        let rule = |loss: &Loss| !loss.matters() && loss.what.contains("spec.pluginArgs.selectorSpread.matching: Any");
        assert!(import.losses.iter().any(rule), "{name}: {:?}", import.losses);
        assert!(!import.profiles[0].compiled.legacy.spread_any_selector, "{name}");
    }
}

#[test]
fn removed_settings_are_reported_as_lost() {
    let policy = json!({"predicates": [], "alwaysCheckAllPredicates": true,
        "priorities": [{"name": "ResourceLimitsPriority", "weight": 1}, {"name": "EqualPriority", "weight": 1}]});
    assert_eq!(scores(policy.clone()), [("EqualPriority", 1)]);
    let lines = losses(policy);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("priorities[0].name: ResourceLimitsPriority: "), "{lines:?}");
    assert!(lines[1].starts_with("alwaysCheckAllPredicates: "), "{lines:?}");
    assert_eq!(losses(json!({"alwaysCheckAllPredicates": false})), Vec::<String>::new());
}

#[test]
fn the_symmetric_weight_reaches_inter_pod_affinity() {
    for (written, weight) in [(json!(10), 10), (json!(0), 1), (Value::Null, 1), (json!(100), 100)] {
        let profile = compiled(json!({"hardPodAffinitySymmetricWeight": written}));
        assert_eq!(profile.inter_pod_affinity.hard_weight, weight);
    }
}

#[test]
fn extenders_are_read_with_nanoseconds_and_keys_in_any_case() {
    let policy = json!({"predicates": [], "priorities": [], "extenders": [
        {"urlPrefix": "https://a.example.com/x/", "FilterVerb": "filter", "httpTimeout": 1_500_000_000i64, "enableHTTPS": true,
         "tlsConfig": {"Insecure": true}, "nodeCacheCapable": true, "ignorable": true},
        {"URLPREFIX": "http://b.gpu.svc:8888", "prioritizeVerb": "prioritize", "weight": 3, "bindVerb": "bind",
         "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": true}, {"Name": "example.com/fpga"}]}]});
    let import = import(policy);
    let [b, a] = &import.profiles[0].spec.extenders[..] else { panic!("{import:?}") };
    assert_eq!((a.name.as_str(), b.name.as_str()), ("a-example-com", "b-gpu"), "those to be ignored come last");
    assert_eq!(a.endpoint.url.as_deref(), Some("https://a.example.com/x"));
    let filter = a.verbs.filter.as_ref().unwrap();
    assert_eq!((filter.timeout.get().as_millis(), filter.failure_policy), (1_500, FailurePolicy::Ignore));
    assert_eq!((a.node_payload, b.node_payload), (NodePayload::Names, NodePayload::Full));
    assert_eq!((b.verbs.prioritize.as_ref().unwrap().timeout.get().as_secs(), b.weight), (5, 3));
    assert_eq!(b.verbs.bind.as_ref().unwrap().path, "bind");
    assert_eq!(import.profiles[0].compiled.fit.ignored_resources, ["example.com/gpu".into()]);
    assert_eq!(import.losses.iter().filter(|l| l.matters()).count(), 0, "{:#?}", import.losses);
}

#[test]
fn the_policy_of_the_tutorials_converts_without_loss() {
    let text = include_str!("../../../../../examples/policy/policy.json");
    let import = import(serde_json::from_str(text).unwrap());
    let profile = &import.profiles[0];
    let filters: Vec<&str> = profile.compiled.filters.iter().map(Plugin::name).collect();
    assert_eq!(
        filters,
        [
            "NodeUnschedulable",
            "NodeName",
            "TaintToleration",
            "NodeAffinity",
            "NodePorts",
            "NodeResourcesFit",
            "VolumeRestrictions",
            "DynamicResources"
        ]
    );
    let scores: Vec<(ScoreName, Option<i32>)> = profile.spec.scores.iter().map(|s| (s.name, s.weight)).collect();
    assert_eq!(
        scores,
        [
            (ScoreName::SelectorSpread, Some(1)),
            (ScoreName::EqualPriority, Some(1)),
            (ScoreName::LeastRequestedPriority, Some(1)),
            (ScoreName::BalancedResourceAllocationPriority, Some(1)),
        ]
    );
    let verbs = &profile.spec.extenders[0].verbs;
    assert!(verbs.filter.is_some() && verbs.prioritize.is_some() && verbs.preempt.is_some() && verbs.bind.is_some());
    let lines: Vec<String> = import.losses.iter().filter(|l| l.matters()).map(Loss::to_string).collect();
    assert_eq!(lines, Vec::<String>::new());
    let legacy = &profile.compiled.legacy;
    assert_eq!((legacy.spread_services_only, legacy.spread_any_selector), (true, false));
}

#[test]
fn unknown_fields_are_noted() {
    let import = import(
        json!({"predicats": [], "extenders": [{"urlPrefix": "http://x", "filterVerb": "f", "apiVersion": "v1"}]}),
    );
    let fields: Vec<&str> = import.losses.iter().map(|l| l.field.as_str()).collect();
    assert!(fields.contains(&"predicats") && fields.contains(&"extenders[0].apiVersion"), "{fields:?}");
    assert!(import.losses.iter().all(|l| !l.matters()));
}

/// Each bad Policy with the field named and a word of the message or the fix.
#[test]
fn bad_policies_are_refused_with_the_field_named() {
    let extender = |fields: Value| {
        let mut extender = json!({"urlPrefix": "http://x", "filterVerb": "f"});
        extender.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"extenders": [extender]})
    };
    let priority = |fields: Value| json!({"priorities": [fields]});
    let table = [
        (json!([]), "document", "no Policy"),
        (json!({"kind": "Pod"}), "kind", "Policy"),
        (json!({"predicates": {}}), "predicates", "a list"),
        (json!({"predicates": [{}]}), "predicates[0].name", "missing"),
        (json!({"predicates": [{"name": "PodFitsResource"}]}), "predicates[0].name", "PodFitsResources"),
        (json!({"predicates": [{"name": "a", "argument": {}}]}), "predicates[0].argument", "serviceAffinity"),
        (
            json!({"predicates": [{"name": "a", "argument": {"serviceAffinity": {"labels": []}}}]}),
            "predicates[0].argument.serviceAffinity.affinityLabels",
            "is empty",
        ),
        (priority(json!({"name": "EqualPriority"})), "priorities[0].weight", "missing"),
        (priority(json!({"name": "EqualPriority", "weight": 0})), "priorities[0].weight", "not positive"),
        (priority(json!({"name": "EqualPriority", "weight": i64::MAX})), "priorities[0].weight", "too large"),
        (priority(json!({"name": "EqualPriority", "weight": 1_000_001})), "priorities[0].weight", "1,000,000"),
        (priority(json!({"name": "Equal", "weight": 1})), "priorities[0].name", "LeastRequestedPriority"),
        (priority(json!({"name": "a", "weight": 1, "argument": {}})), "priorities[0].argument", "labelPreference"),
        (
            priority(json!({"name": "a", "weight": 1, "argument": {"labelPreference": {"label": "a b"}}})),
            "priorities[0].argument.labelPreference.label",
            "label key",
        ),
        (
            priority(
                json!({"name": "a", "weight": 1, "argument": {"requestedToCapacityRatioArguments": {"shape": []}}}),
            ),
            "priorities[0].argument.requestedToCapacityRatioArguments.shape",
            "needs one",
        ),
        (json!({"hardPodAffinitySymmetricWeight": 101}), "hardPodAffinitySymmetricWeight", "1 to 100"),
        (json!({"alwaysCheckAllPredicates": "yes"}), "alwaysCheckAllPredicates", "true or false"),
        (extender(json!({"httpTimeout": "5s"})), "extenders[0].httpTimeout", "nanoseconds"),
        (extender(json!({"httpTimeout": -1})), "extenders[0].httpTimeout", "negative"),
        (extender(json!({"urlPrefix": "x:80"})), "extenders[0].urlPrefix", "scheme"),
        (extender(json!({"urlPrefix": "http://u:p@x"})), "extenders[0].urlPrefix", "no URL"),
        (extender(json!({"prioritizeVerb": "p"})), "extenders[0].weight", "not positive"),
        (extender(json!({"managedResources": [{"name": "cpu"}]})), "extenders[0].managedResources[0].name", "extended"),
        (extender(json!({"filterVerb": "a?b"})), "extenders[0].filterVerb", "no path"),
    ];
    for (policy, field, word) in table {
        let error = read(&policy, "mine").expect_err(&policy.to_string());
        assert!(error.field == field && error.to_string().contains(word), "{policy}: {error}");
    }
}
