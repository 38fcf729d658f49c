use super::{Form, Import, ImportError, NamedPolicy, PolicySources, read_form};
use serde_json::{Value, json};

/// One Policy in a file and one in a ConfigMap.
struct Two;

impl PolicySources for Two {
    fn file(&self, path: &str) -> Result<NamedPolicy, String> {
        let document =
            json!({"kind": "Policy", "predicates": [], "priorities": [{"name": "EqualPriority", "weight": 2}]});
        match path {
            "spread.json" => {
                let document =
                    json!({"predicates": [], "priorities": [{"name": "SelectorSpreadPriority", "weight": 1}]});
                Ok(NamedPolicy { place: path.to_owned(), document })
            }
            "policy.json" => Ok(NamedPolicy { place: path.to_owned(), document }),
            other => Err(format!("names the Policy {other}, which cannot be read: correct the path")),
        }
    }

    fn config_map(&self, namespace: &str, name: &str) -> Result<NamedPolicy, String> {
        let document = json!({"predicates": [{"name": "HostNam"}]});
        match (namespace, name) {
            ("kube-system", "policy") => Ok(NamedPolicy { place: "ConfigMap kube-system/policy".to_owned(), document }),
            _ => Err(format!("names the ConfigMap {namespace}/{name}, which is not among the inputs: add it")),
        }
    }
}

fn read(body: Value) -> Result<Import, ImportError> {
    let mut document = body;
    document["apiVersion"] = "kubescheduler.config.k8s.io/v1alpha1".into();
    document["kind"] = "KubeSchedulerConfiguration".into();
    read_form(Form::V1alpha1, &document, "default-scheduler", &Two)
}

#[test]
fn both_groups_are_known() {
    for group in ["componentconfig/v1alpha1", "kubescheduler.config.k8s.io/v1alpha1"] {
        assert_eq!(Form::of(group, "KubeSchedulerConfiguration"), Some(Form::V1alpha1));
    }
}

#[test]
fn settings_reach_the_profile_whatever_its_algorithm() {
    let settings = json!({"schedulerName": "mine", "disablePreemption": true, "percentageOfNodesToScore": 30,
        "bindTimeoutSeconds": 60, "hardPodAffinitySymmetricWeight": 5, "podMaxBackoffSeconds": 20});
    for source in [
        json!({"provider": "DefaultProvider"}),
        json!({"policy": {"file": {"path": "policy.json"}}}),
        json!({"provider": null}),
        Value::Null,
    ] {
        let mut document = settings.clone();
        document["algorithmSource"] = source.clone();
        let import = read(document).unwrap();
        assert!(import.losses.iter().all(|loss| !loss.matters()), "{source}: {:?}", import.losses);
        let compiled = &import.profiles[0].compiled;
        assert_eq!(import.profiles[0].scheduler_name, "mine");
        assert!(!compiled.preemption.enabled, "{source}");
        assert_eq!((compiled.sampling.percentage, compiled.inter_pod_affinity.hard_weight), (30, 5), "{source}");
        assert_eq!(compiled.bind_timeout.as_secs(), 60, "{source}");
        assert_eq!(compiled.queue.max_backoff.as_secs(), 20, "{source}");
    }
}

#[test]
fn providers_are_the_default_with_one_strategy_changed() {
    let provider = |name: &str| read(json!({"algorithmSource": {"provider": name}})).unwrap().profiles.remove(0);
    let default = berth_core::profile::CompiledProfile::default_preset("default-scheduler");
    assert_eq!(provider("DefaultProvider").compiled, default);
    let mut most = default;
    most.fit.strategy = berth_core::profile::FitStrategy::MostAllocated;
    assert_eq!(provider("ClusterAutoscalerProvider").compiled, most);
}

#[test]
fn a_policy_is_read_from_the_place_that_is_named() {
    let import = read(json!({"algorithmSource": {"policy": {"file": {"path": "policy.json"}}}})).unwrap();
    assert_eq!(import.profiles[0].compiled.scores, [(berth_core::profile::Score::EqualPriority, 2)]);
    // What is wrong in it is named with its place.
    let error = read(json!({"algorithmSource": {"policy": {"configMap": {"name": "policy"}}}})).unwrap_err();
    assert_eq!(error.field, "ConfigMap kube-system/policy: predicates[0].name");
}

/// The group was named componentconfig until 1.11, and SelectorSpread changed in 1.14.
#[test]
fn a_policy_of_the_first_group_counts_pods_that_any_selector_matches() {
    for (group, any_selector) in [("componentconfig", true), ("kubescheduler.config.k8s.io", false)] {
        let document = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "KubeSchedulerConfiguration",
            "algorithmSource": {"policy": {"file": {"path": "spread.json"}}}});
        let import = read_form(Form::V1alpha1, &document, "default-scheduler", &Two).unwrap();
        assert_eq!(import.profiles[0].compiled.legacy.spread_any_selector, any_selector, "{group}");
        let noted = import.losses.iter().any(|loss| loss.what.contains("selectorSpread.matching"));
        assert_eq!(noted, !any_selector, "{group}: {:?}", import.losses);
    }
}

#[test]
fn settings_of_the_process_are_noted_and_plugins_lost() {
    let import = read(json!({"leaderElection": {"leaderElect": true}, "healthzBindAddress": "0.0.0.0:10251",
        "plugins": {"score": {}}, "pluginConfig": []}))
    .unwrap();
    let lines: Vec<(bool, &str)> = import.losses.iter().map(|l| (l.matters(), l.field.as_str())).collect();
    assert_eq!(
        lines,
        [(false, "leaderElection"), (false, "healthzBindAddress"), (true, "plugins"), (true, "pluginConfig")]
    );
}

#[test]
fn bad_documents_are_refused_with_the_field_named() {
    let table = [
        (json!({"algorithmSorce": {}}), "algorithmSorce", "unknown field"),
        (json!({"algorithmSource": {"provider": "Mine"}}), "algorithmSource.provider", "ClusterAutoscalerProvider"),
        (
            json!({"algorithmSource": {"provider": "DefaultProvider", "policy": {"file": {"path": "policy.json"}}}}),
            "algorithmSource.provider",
            "keep one",
        ),
        (json!({"algorithmSource": {"policy": {}}}), "algorithmSource.policy", "either file or configMap"),
        (json!({"algorithmSource": {"policy": {"file": {}}}}), "algorithmSource.policy.file.path", "missing"),
        (
            json!({"algorithmSource": {"policy": {"file": {"path": "x"}}}}),
            "algorithmSource.policy.file.path",
            "the Policy x",
        ),
        (
            json!({"algorithmSource": {"policy": {"configMap": {"namespace": "a", "name": "b"}}}}),
            "algorithmSource.policy.configMap.name",
            "ConfigMap a/b",
        ),
        (json!({"hardPodAffinitySymmetricWeight": 101}), "hardPodAffinitySymmetricWeight", "0 to 100"),
        (json!({"bindTimeoutSeconds": -1}), "bindTimeoutSeconds", "negative"),
        (json!({"schedulerName": "A"}), "schedulerName", "DNS-1123"),
    ];
    for (body, field, word) in table {
        let error = read(body.clone()).expect_err(&body.to_string());
        assert!(error.field == field && error.to_string().contains(word), "{body}: {error}");
    }
}
