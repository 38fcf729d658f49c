use crate::{CompileError, compile};
use berth_api::SchedulerProfileSpec;
use berth_core::profile::{CompiledProfile, InterPodAffinityArgs, LabelPreference, SpreadDefaults};

fn compiled(json: &str) -> Result<CompiledProfile, CompileError> {
    let spec: SchedulerProfileSpec = serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    compile("batch", &spec)
}

fn with_args(args: &str) -> CompiledProfile {
    compiled(&format!(r#"{{"pluginArgs": {args}}}"#)).unwrap_or_else(|error| panic!("{args}: {error}"))
}

#[test]
fn arguments_left_empty_are_the_defaults() {
    let empty = r#"{"interPodAffinity": {}, "podTopologySpread": {}, "volumeBinding": {}, "dynamicResources": {},
                    "labelPreference": [], "selectorSpread": {}, "maxVolumeCounts": {}}"#;
    assert_eq!(with_args(empty), CompiledProfile::default_preset("batch"));
}

#[test]
fn pod_affinity_and_volume_arguments_are_taken_over() {
    let profile = with_args(
        r#"{"interPodAffinity": {"hardPodAffinityWeight": 100, "ignorePreferredTermsOfExistingPods": true},
            "volumeBinding": {"bindTimeout": "1m30s"}}"#,
    );
    let affinity = InterPodAffinityArgs { hard_weight: 100, ignore_preferred_of_existing: true };
    assert_eq!(profile.inter_pod_affinity, affinity);
    assert_eq!(profile.bind_timeout.as_secs(), 90);
}

#[test]
fn default_constraints_are_taken_over() {
    let profile = with_args(
        r#"{"podTopologySpread": {"defaultingType": "List", "defaultConstraints": [
            {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3,
             "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"},
            {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}]}}"#,
    );
    let SpreadDefaults::List(list) = profile.spread_defaults else { panic!("{profile:?}") };
    let [hard, soft] = &list[..] else { panic!("{list:?}") };
    assert_eq!((hard.max_skew, &*hard.topology_key, hard.hard, hard.min_domains), (2, "rack", true, 3));
    assert_eq!((hard.honor_affinity, hard.honor_taints), (false, true));
    assert_eq!((soft.hard, soft.min_domains, soft.honor_affinity, soft.honor_taints), (false, 1, true, false));
}

/// The Spread preset's own constraints stand until a profile says where its come from.
#[test]
fn a_profile_replaces_the_constraints_of_its_preset() {
    let defaults = |args: &str| {
        compiled(&format!(r#"{{"preset": "Spread", "pluginArgs": {{"podTopologySpread": {args}}}}}"#)).unwrap()
    };
    assert!(matches!(defaults("{}").spread_defaults, SpreadDefaults::List(list) if list.len() == 2));
    let none = defaults(r#"{"defaultingType": "List"}"#);
    assert_eq!(none.spread_defaults, SpreadDefaults::List(Vec::new()));
    assert_eq!(defaults(r#"{"defaultingType": "System"}"#).spread_defaults, SpreadDefaults::System);
}

#[test]
fn arguments_of_the_policy_era_are_taken_over() {
    let profile = compiled(
        r#"{"filters": [{"name": "CheckNodeLabelPresence"}, {"name": "CheckServiceAffinity"}],
            "scores": [{"name": "LabelPreference"}],
            "pluginArgs": {
              "labelPreference": [{"label": "ssd"}, {"label": "example.com/old", "present": false}],
              "checkNodeLabelPresence": {"presentLabels": ["a"], "absentLabels": ["b", "c"]},
              "checkServiceAffinity": {"affinityLabels": ["region"]},
              "selectorSpread": {"workloads": "Services", "matching": "Any"},
              "maxVolumeCounts": {"ebs": 25, "cinder": 10000}}}"#,
    )
    .unwrap();
    let legacy = &profile.legacy;
    let wished = |label: &str, present| LabelPreference { label: label.into(), present };
    assert_eq!(legacy.label_preferences, [wished("ssd", true), wished("example.com/old", false)]);
    assert_eq!((legacy.present_labels.len(), legacy.absent_labels.len()), (1, 2));
    assert_eq!(legacy.affinity_labels, ["region".into()]);
    assert!(legacy.spread_services_only && legacy.spread_any_selector);
    let limits = (legacy.max_ebs, legacy.max_gce_pd, legacy.max_azure_disk, legacy.max_cinder);
    assert_eq!(limits, (25, 16, 16, 10_000));
    assert!(profile.filters.has_legacy());
}

/// Each bad spec with the field and a word of the message or fix.
#[rustfmt::skip] // One row per spec: the table is read down.
const REFUSED: &[(&str, &str, &str)] = &[
    (r#"{"pluginArgs": {"interPodAffinity": {"hardPodAffinityWeight": -1}}}"#, "interPodAffinity.hardPodAffinityWeight", "0 to 100"),
    (r#"{"pluginArgs": {"podTopologySpread": {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}]}}}"#, "podTopologySpread.defaultingType", "List"),
    (r#"{"pluginArgs": {"podTopologySpread": {"defaultingType": "System", "defaultConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}]}}}"#, "podTopologySpread.defaultingType", "List"),
    (r#"{"pluginArgs": {"podTopologySpread": {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}]}}}"#, "defaultConstraints[0].maxSkew", "1 or more"),
    (r#"{"pluginArgs": {"podTopologySpread": {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1, "topologyKey": "a..b/c", "whenUnsatisfiable": "ScheduleAnyway"}]}}}"#, "defaultConstraints[0].topologyKey", "label key"),
    (r#"{"pluginArgs": {"podTopologySpread": {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 0}]}}}"#, "defaultConstraints[0].minDomains", "1 or more"),
    (r#"{"pluginArgs": {"podTopologySpread": {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]}}}"#, "defaultConstraints[0].minDomains", "DoNotSchedule"),
    (r#"{"pluginArgs": {"podTopologySpread": {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}, {"maxSkew": 2, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}]}}}"#, "defaultConstraints[1]", "twice"),
    (r#"{"pluginArgs": {"volumeBinding": {"shape": [{"utilization": 0, "score": 0}]}}}"#, "volumeBinding.shape", "StorageCapacityScoring"),
    (r#"{"pluginArgs": {"dynamicResources": {"bindingTimeout": "999ms"}}}"#, "dynamicResources.bindingTimeout", "at least 1s"),
    (r#"{"pluginArgs": {"labelPreference": [{"label": "a"}, {"label": "a", "present": false}]}}"#, "labelPreference[1].label", "twice"),
    (r#"{"pluginArgs": {"labelPreference": [{"label": "a b"}]}}"#, "labelPreference[0].label", "label key"),
    (r#"{"pluginArgs": {"checkNodeLabelPresence": {}}}"#, "checkNodeLabelPresence.presentLabels", "nothing is checked"),
    (r#"{"pluginArgs": {"checkNodeLabelPresence": {"presentLabels": ["a"], "absentLabels": ["b", "a"]}}}"#, "checkNodeLabelPresence.absentLabels[1]", "one of the lists"),
    (r#"{"pluginArgs": {"checkServiceAffinity": {"affinityLabels": []}}}"#, "checkServiceAffinity.affinityLabels", "is empty"),
    (r#"{"pluginArgs": {"maxVolumeCounts": {"gcePd": 0}}}"#, "maxVolumeCounts.gcePd", "1 to 10,000"),
    (r#"{"filters": [{"name": "CheckNodeLabelPresence"}]}"#, "spec.filters[0]", "pluginArgs.checkNodeLabelPresence"),
    (r#"{"filters": [{"name": "CheckServiceAffinity"}]}"#, "spec.filters[0]", "pluginArgs.checkServiceAffinity"),
    (r#"{"scores": [{"name": "LabelPreference"}]}"#, "spec.scores[0]", "pluginArgs.labelPreference"),
];

#[test]
fn bad_arguments_are_refused_with_field_and_fix() {
    for (json, field, word) in REFUSED {
        let error = compiled(json).expect_err(json);
        assert!(error.field.starts_with("spec.") && error.field.ends_with(field), "{json}: field {}", error.field);
        assert!(error.to_string().contains(word), "{json}: {error}");
    }
}
