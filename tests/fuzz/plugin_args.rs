//! Plugin arguments: whatever they hold, compiling never panics, and what compiles keeps the promises that the engine
//! relies on.

use crate::choices::Choices;
use crate::mutate::mutate;
use berth_api::SchedulerProfileSpec;
use berth_core::plugins::Plugin;
use berth_core::profile::{CompiledProfile, FitStrategy, Score, SpreadDefaults};
use berth_profile::compile;
use serde_json::{Value, json};

pub(crate) fn target(bytes: &[u8]) {
    if let Ok(args) = serde_json::from_slice::<Value>(bytes) {
        check(&json!({"pluginArgs": args}));
    }
    let mut choices = Choices::new(bytes);
    let mut spec = template();
    mutate(&mut choices, &mut spec["pluginArgs"]);
    if choices.one_in(3) {
        mutate(&mut choices, &mut spec);
    }
    check(&spec);
}

fn check(spec: &Value) {
    // What the schema refuses never comes this far.
    let Ok(read) = serde_json::from_value::<SchedulerProfileSpec>(spec.clone()) else { return };
    match compile("p", &read) {
        Ok(profile) => keeps_its_promises(&profile, spec),
        Err(error) => {
            assert!(error.field.starts_with("spec."), "{error}");
            assert!(error.to_string().len() > error.field.len() + 10, "{error} says what and how");
        }
    }
}

fn keeps_its_promises(profile: &CompiledProfile, spec: &Value) {
    let order = |score: Score| Score::ALL.iter().position(|s| *s == score);
    assert!(profile.scores.windows(2).all(|pair| order(pair[0].0) < order(pair[1].0)), "order of scores: {spec}");
    assert!(profile.scores.iter().all(|(_, weight)| (1..=1_000_000).contains(weight)), "weights: {spec}");
    let fit = &profile.fit;
    assert!(!fit.resources.is_empty() && fit.resources.iter().all(|r| (1..=100).contains(&r.weight)), "{spec}");
    let mut names: Vec<&str> = fit.resources.iter().map(|r| &*r.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), fit.resources.len(), "a resource twice: {spec}");
    if let FitStrategy::RequestedToCapacityRatio(shape) = &fit.strategy {
        assert!(!shape.is_empty() && shape.windows(2).all(|p| p[0].utilization < p[1].utilization), "{spec}");
        assert!(shape.iter().all(|p| (0..=100).contains(&p.utilization) && (0..=100).contains(&p.score)), "{spec}");
    }
    assert!(fit.ignored_resources.iter().all(|name| name.contains('/')), "{spec}");
    assert!(fit.ignored_resource_groups.iter().all(|group| !group.contains('/')), "{spec}");
    assert!(!profile.balanced.is_empty(), "{spec}");
    assert!((0..=100).contains(&profile.inter_pod_affinity.hard_weight), "{spec}");
    if let SpreadDefaults::List(constraints) = &profile.spread_defaults {
        assert!(constraints.iter().all(|c| c.max_skew > 0 && !c.topology_key.is_empty()), "{spec}");
    }
    assert!(profile.added_affinity.preferred.iter().all(|p| (1..=100).contains(&p.weight)), "{spec}");
    let legacy = &profile.legacy;
    let counts = [legacy.max_ebs, legacy.max_gce_pd, legacy.max_azure_disk, legacy.max_cinder];
    assert!(counts.iter().all(|n| (1..=10_000).contains(n)), "{spec}");
    assert!(legacy.present_labels.iter().all(|label| !legacy.absent_labels.contains(label)), "{spec}");
    // A plugin that would have nothing to go by does not run.
    let runs = |score| profile.weight(score).is_some();
    assert!(!runs(Score::LabelPreference) || !legacy.label_preferences.is_empty(), "{spec}");
    let labels = !(legacy.present_labels.is_empty() && legacy.absent_labels.is_empty());
    assert!(!profile.filters.has(Plugin::CheckNodeLabelPresence) || labels, "{spec}");
    assert!(!profile.filters.has(Plugin::CheckServiceAffinity) || !legacy.affinity_labels.is_empty(), "{spec}");
}

/// Arguments of every plugin that has some.
fn template() -> Value {
    let expression = json!({"key": "disk", "operator": "Gt", "values": ["7"]});
    let term = json!({"matchExpressions": [expression], "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]});
    json!({
        "allowUnsafe": "Acknowledged", "preset": "Default",
        "filters": [{"name": "CheckNodeLabelPresence"}, {"name": "CheckServiceAffinity"}, {"name": "MaxEBSVolumeCount"}],
        "scores": [{"name": "LabelPreference", "weight": 3}, {"name": "ImageLocality", "state": "Disabled"}],
        "pluginArgs": {
            "nodeResourcesFit": {"ignoredResources": ["example.com/a"], "ignoredResourceGroups": ["example.org"],
                "strategy": {"type": "RequestedToCapacityRatio", "resources": [{"name": "cpu", "weight": 1}, {"name": "example.com/gpu", "weight": 100}],
                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}},
            "nodeResourcesBalancedAllocation": {"resources": [{"name": "cpu", "weight": 1}]},
            "nodeAffinity": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": term}]}},
            "interPodAffinity": {"hardPodAffinityWeight": 7, "ignorePreferredTermsOfExistingPods": true},
            "podTopologySpread": {"defaultingType": "List", "defaultConstraints": [
                {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2},
                {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}]},
            "volumeBinding": {"bindTimeout": "5m"},
            "dynamicResources": {"filterTimeout": "10s", "bindingTimeout": "10m"},
            "labelPreference": [{"label": "ssd"}, {"label": "old", "present": false}],
            "selectorSpread": {"workloads": "Services", "matching": "Any"},
            "checkNodeLabelPresence": {"presentLabels": ["rack"], "absentLabels": ["retiring"]},
            "checkServiceAffinity": {"affinityLabels": ["zone"]},
            "maxVolumeCounts": {"ebs": 5, "gcePd": 1, "azureDisk": 10000, "cinder": 7},
        }
    })
}

#[test]
fn the_template_compiles() {
    let spec: SchedulerProfileSpec = serde_json::from_value(template()).unwrap();
    compile("p", &spec).unwrap();
}
