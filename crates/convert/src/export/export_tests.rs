use super::*;
use crate::import;
use berth_profile::compile;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;

fn spec(value: Value) -> SchedulerProfileSpec {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"))
}

fn exported(value: Value) -> Export {
    let spec = spec(value.clone());
    export(&[Profile { name: "p", spec: &spec }]).unwrap_or_else(|(_, error)| panic!("{value}: {error}"))
}

/// The one profile of what is exported.
fn profile(value: Value) -> Value {
    exported(value).configuration["profiles"][0].clone()
}

fn losses(value: Value) -> Vec<String> {
    exported(value).losses.iter().map(|(_, loss)| format!("{} {}", loss.kind.word(), loss.field)).collect()
}

#[test]
fn the_default_profile_exports_no_settings() {
    let export = exported(json!({}));
    let want = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
                      "profiles": [{"schedulerName": "p"}]});
    assert_eq!((export.configuration, export.losses), (want, Vec::new()));
}

#[test]
fn plugin_sets_list_differences_from_the_default() {
    for (written, sets) in [
        (
            json!({"scores": [{"name": "NodeResourcesFit", "weight": 5}, {"name": "ImageLocality", "state": "Disabled"}]}),
            json!({"score": {"disabled": [{"name": "ImageLocality"}], "enabled": [{"name": "NodeResourcesFit", "weight": 5}]}}),
        ),
        (json!({"preset": "NoScoring"}), json!({"score": {"disabled": [{"name": "*"}]}})),
        (
            json!({"filters": [{"name": "NodePorts", "state": "Disabled"}, {"name": "NodeAffinity", "state": "Disabled"}]}),
            json!({"filter": {"disabled": [{"name": "NodeAffinity"}]}, "preFilter": {"disabled": [{"name": "NodeAffinity"}]},
                   "multiPoint": {"disabled": [{"name": "NodePorts"}]}}),
        ),
        (
            json!({"filters": [{"name": "TaintToleration", "state": "Disabled"}],
                   "scores": [{"name": "TaintToleration", "state": "Disabled"}]}),
            json!({"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}),
        ),
        (
            json!({"preemption": {"policy": "Never"}}),
            json!({"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}),
        ),
    ] {
        assert_eq!(profile(written.clone())["plugins"], sets, "{written}");
        assert_eq!(losses(written), Vec::<String>::new());
    }
}

#[test]
fn presets_are_spelled_out() {
    let packed = profile(json!({"preset": "BinPack"}));
    assert_eq!(packed["pluginConfig"][0]["args"]["scoringStrategy"]["type"], "MostAllocated");
    let spread = profile(json!({"preset": "Spread"}));
    assert_eq!(spread["pluginConfig"][0]["args"]["defaultConstraints"].as_array().unwrap().len(), 2);
}

#[test]
fn what_only_berth_weighs_is_named_as_lost() {
    let export = exported(json!({"preset": "BinPack", "scores": [{"name": "Fragmentation"}]}));
    let lost: Vec<String> = export.losses.iter().map(|(_, loss)| format!("{}: {}", loss.field, loss.what)).collect();
    let weight = "spec.pluginArgs.nodeResourcesFit.strategy.scalarWeight: kube-scheduler counts only the resources that are \
                  listed: others that a pod requests have no weight";
    let scores = [
        "spec.scores: kube-scheduler 1.36 has no ScarceResourceAvoidance",
        "spec.scores[0]: kube-scheduler 1.36 has no Fragmentation",
    ];
    let mut sorted = lost.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [weight, scores[0], scores[1]]);
}

#[test]
fn a_node_selector_becomes_added_affinity() {
    let selector =
        json!({"matchLabels": {"pool": "batch"}, "matchExpressions": [{"key": "gpu", "operator": "Exists"}]});
    let own = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"matchExpressions": [{"key": "b", "operator": "Exists"}]}]}});
    let written = json!({"nodes": {"selector": selector}, "pluginArgs": {"nodeAffinity": {"addedAffinity": own}}});
    let affinity = profile(written.clone())["pluginConfig"][0]["args"]["addedAffinity"].clone();
    let terms =
        affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"].as_array().unwrap().clone();
    assert_eq!(terms.len(), 2);
    for (term, key) in terms.iter().zip(["a", "b"]) {
        let keys: Vec<&str> =
            term["matchExpressions"].as_array().unwrap().iter().map(|e| e["key"].as_str().unwrap()).collect();
        assert_eq!(keys, [key, "pool", "gpu"]);
    }
    assert_eq!(losses(written), ["changed spec.nodes.selector"]);
    let without = json!({"nodes": {"selector": selector}, "filters": [{"name": "NodeAffinity", "state": "Disabled"}]});
    assert_eq!(losses(without), ["lost spec.nodes.selector"]);
}

#[test]
fn settings_without_counterpart_are_lost() {
    for (written, lines) in [
        (json!({"mode": "Paused"}), vec!["lost spec.mode"]),
        (
            json!({"mode": "DryRun", "shadow": {"schedulerNames": ["other"]}}),
            vec!["lost spec.mode", "lost spec.shadow"],
        ),
        (json!({"unknownFields": "Hold"}), vec!["lost spec.unknownFields"]),
        (json!({"namespaces": {"access": "Restricted", "names": ["a"]}}), vec!["lost spec.namespaces"]),
        (json!({"nodes": {"minFeasible": 50}}), vec!["lost spec.nodes.minFeasible"]),
        (
            json!({"queue": {"initialBackoff": "1500ms", "maxUnschedulableDuration": "1m"}}),
            vec!["changed spec.queue.initialBackoff", "lost spec.queue.maxUnschedulableDuration"],
        ),
        (
            json!({"preemption": {"podDisruptionBudgets": "Strict", "victimScope": "SameProfile", "maxVictimsPerPod": 2,
                "maxVictimsPerMinute": 3, "minVictimRuntime": "1m", "protectedNamespaces": ["a"]}}),
            vec![
                "lost spec.preemption.podDisruptionBudgets",
                "lost spec.preemption.victimScope",
                "lost spec.preemption.maxVictimsPerPod",
                "lost spec.preemption.maxVictimsPerMinute",
                "lost spec.preemption.minVictimRuntime",
                "lost spec.preemption.protectedNamespaces",
            ],
        ),
        (json!({"preemption": {"policy": "Never", "maxVictimsPerPod": 2}}), vec![]),
        (
            json!({"pluginArgs": {"volumeBinding": {"bindTimeout": "500ms"}}}),
            vec!["changed spec.pluginArgs.volumeBinding.bindTimeout"],
        ),
        (
            json!({"filters": [{"name": "NodePorts"}, {"name": "CheckNodeDiskPressure"}], "scores": [{"name": "EqualPriority"}]}),
            vec!["lost spec.filters[1]", "lost spec.scores[0]"],
        ),
    ] {
        assert_eq!(losses(written.clone()), lines, "{written}");
    }
}

#[test]
fn every_extender_is_written_once_for_all_profiles() {
    let asks =
        spec(json!({"extenders": [{"name": "a", "endpoint": {"url": "https://a"}, "verbs": {"filter": {"path": "f"}}},
        {"name": "b", "endpoint": {"url": "https://b"}, "verbs": {"bind": {"path": "bind"}}}]}));
    let other = spec(
        json!({"extenders": [{"name": "a", "endpoint": {"url": "https://a"}, "verbs": {"filter": {"path": "f"}}},
        {"name": "c", "endpoint": {"url": "https://c"}, "verbs": {"bind": {"path": "bind"}}}], "queue": {"maxBackoff": "20s"}}),
    );
    let export = export(&[Profile { name: "one", spec: &asks }, Profile { name: "two", spec: &other }]).unwrap();
    let urls: Vec<&str> = export.configuration["extenders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["urlPrefix"].as_str().unwrap())
        .collect();
    assert_eq!(urls, ["https://a", "https://b", "https://c"]);
    assert_eq!(export.configuration["extenders"][2]["bindVerb"], Value::Null);
    let lines: Vec<String> =
        export.losses.iter().map(|(name, loss)| format!("{name} {} {}", loss.kind.word(), loss.field)).collect();
    assert_eq!(
        lines,
        [
            "two lost spec.queue.maxBackoff",
            "one changed spec.extenders[1]",
            "two changed spec.extenders[1]",
            "two lost spec.extenders[1].verbs.bind",
        ]
    );
}

#[test]
fn settings_of_extenders_without_counterpart_are_named() {
    let extender = json!({"name": "gpu", "endpoint": {"service": {"name": "ext", "namespace": "gpu", "port": 8443, "path": "/x"}},
        "verbs": {"filter": {"path": "f", "timeout": "2s", "failurePolicy": "Ignore"},
            "prioritize": {"path": "p", "timeout": "500ms", "failurePolicy": "Fail"}, "preempt": {"path": "v", "timeout": "2s"}},
        "podSelector": {"matchLabels": {"a": "b"}}, "maxConcurrentRequests": 4, "circuitBreaker": {"openFor": "1m"},
        "auth": {"bearerTokenRef": {"name": "t", "key": "k"}},
        "tls": {"caBundleRef": {"name": "ca"}, "clientCertRef": {"name": "client"}}});
    let export = exported(json!({"extenders": [extender]}));
    let lines: Vec<&str> =
        export.losses.iter().map(|(_, l)| l.field.strip_prefix("spec.extenders[0].").unwrap()).collect();
    let want = [
        "endpoint.service",
        "verbs.prioritize.timeout",
        "verbs.prioritize.failurePolicy",
        "verbs.preempt.failurePolicy",
        "tls.caBundleRef",
        "tls.clientCertRef",
        "podSelector",
        "maxConcurrentRequests",
        "auth",
        "circuitBreaker",
    ];
    assert_eq!(lines, want);
    let written = &export.configuration["extenders"][0];
    assert_eq!(written["urlPrefix"], "https://ext.gpu.svc:8443/x");
    assert_eq!((&written["httpTimeout"], &written["ignorable"]), (&json!("2s"), &json!(true)));
    assert_eq!(written["tlsConfig"]["caFile"], "/etc/kubernetes/extenders/gpu/ca.crt");
}

#[test]
fn each_scheduler_name_is_written_once() {
    let one = spec(json!({"schedulerNames": ["a", "b"]}));
    let two = spec(json!({"schedulerNames": ["b", "c"]}));
    let export = export(&[Profile { name: "one", spec: &one }, Profile { name: "two", spec: &two }]).unwrap();
    let names: Vec<&str> = export.configuration["profiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["schedulerName"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(export.losses.len(), 1);
}

/// Parts of a spec that a configuration can hold without loss.
fn any_spec() -> impl Strategy<Value = Value> {
    let preset = select(vec!["Default", "Spread", "NoScoring"]);
    let queue = (1u32..20, 0u32..100).prop_map(|(initial, more)| {
        json!({"initialBackoff": format!("{initial}s"), "maxBackoff": format!("{}s", initial + more)})
    });
    let preemption = (select(vec!["LowerPriority", "Never"]), 0..100i32, 1..500i32).prop_map(|(policy, percentage, absolute)| {
        json!({"policy": policy, "candidateNodes": {"percentage": percentage, "absolute": absolute}})
    });
    (preset, any_filters(), any_scores(), any_args(), 0..=100i32, queue, preemption, any_extenders()).prop_map(
        |(preset, filters, scores, args, percentage, queue, preemption, extenders)| {
            json!({"allowUnsafe": "Acknowledged", "preset": preset, "filters": filters, "scores": scores, "pluginArgs": args,
                "nodes": {"percentageToScore": percentage}, "queue": queue, "preemption": preemption, "extenders": extenders})
        },
    )
}

fn any_filters() -> impl Strategy<Value = Vec<Value>> {
    let names: Vec<&str> = api::FilterName::ALL[..13].iter().map(|name| name.as_str()).collect();
    subsequence(names, 0..5).prop_map(|names| names.iter().map(|n| json!({"name": n, "state": "Disabled"})).collect())
}

fn any_scores() -> impl Strategy<Value = Vec<Value>> {
    let names: Vec<&str> = api::ScoreName::ALL[..7].iter().map(|name| name.as_str()).collect();
    let weights = proptest::collection::vec(proptest::option::of(1..1_000_000i32), 7);
    (subsequence(names, 0..7), weights).prop_map(|(names, weights)| {
        let one = |(name, weight): (&&str, &Option<i32>)| match weight {
            Some(weight) => json!({"name": name, "weight": weight}),
            None => json!({"name": name, "state": "Disabled"}),
        };
        names.iter().zip(&weights).map(one).collect()
    })
}

fn any_args() -> impl Strategy<Value = Value> {
    let resources = subsequence(vec!["cpu", "memory", "ephemeral-storage", "example.com/gpu"], 1..4);
    let strategy =
        (select(vec!["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]), resources.clone(), 1..100i32)
            .prop_map(|(kind, names, weight)| {
                let resources: Vec<Value> = names.iter().map(|name| json!({"name": name, "weight": weight})).collect();
                let mut strategy = json!({"type": kind, "resources": resources});
                if kind == "RequestedToCapacityRatio" {
                    strategy["shape"] =
                        json!([{"utilization": 0, "score": weight % 11}, {"utilization": weight, "score": 7}]);
                }
                strategy
            });
    let fit = (proptest::option::of(strategy), any::<bool>()).prop_map(|(strategy, ignored)| {
        let mut fit = json!({});
        if let Some(strategy) = strategy {
            fit["strategy"] = strategy;
        }
        if ignored {
            fit["ignoredResourceGroups"] = json!(["example.com"]);
        }
        fit
    });
    let spread = subsequence(vec!["zone", "rack", "kubernetes.io/hostname"], 0..3).prop_map(|keys| {
        let one = |(i, key): (usize, &&str)| match i % 2 {
            0 => json!({"maxSkew": i + 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "minDomains": i + 1,
                        "nodeAffinityPolicy": "Ignore"}),
            _ => json!({"maxSkew": 5, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "nodeTaintsPolicy": "Honor"}),
        };
        json!({"defaultingType": "List", "defaultConstraints": keys.iter().enumerate().map(one).collect::<Vec<_>>()})
    });
    let spread = prop_oneof![spread, Just(json!({"defaultingType": "System"})), Just(Value::Null)];
    let affinity = proptest::option::of(select(vec!["pool", "gpu"])).prop_map(|key| match key {
        Some(key) => json!({"addedAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": key, "operator": "In", "values": ["a", "b"]}]}]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": {
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}}]}}),
        None => Value::Null,
    });
    (fit, resources, spread, affinity, 0..=100i32, any::<bool>(), 0..2000u32).prop_map(
        |(fit, balanced, spread, affinity, hard, ignore, timeout)| {
            let balanced: Vec<Value> = balanced.iter().map(|name| json!({"name": name, "weight": 1})).collect();
            json!({"nodeResourcesFit": fit, "nodeResourcesBalancedAllocation": {"resources": balanced},
                "podTopologySpread": spread, "nodeAffinity": affinity,
                "interPodAffinity": {"hardPodAffinityWeight": hard, "ignorePreferredTermsOfExistingPods": ignore},
                "volumeBinding": {"bindTimeout": format!("{timeout}s")}})
        },
    )
}

/// Named after their hosts, as the import names them.
fn any_extenders() -> impl Strategy<Value = Vec<Value>> {
    let one = (any::<bool>(), any::<bool>(), 1..50_000u32, 1..1000i64, any::<bool>(), 0..4u32);
    proptest::collection::vec(one, 0..3).prop_map(|list| {
        let one = |(i, (names, ignore, millis, weight, skip, tls)): (usize, &(bool, bool, u32, i64, bool, u32))| {
            let policy = if *ignore { "Ignore" } else { "Fail" };
            let timeout = format!("{}ms", millis + 50);
            let mut verbs = json!({"filter": {"path": "f", "timeout": timeout, "failurePolicy": policy},
                "prioritize": {"path": "p/q", "timeout": timeout}});
            if i == 0 {
                verbs["bind"] = json!({"path": "b", "timeout": timeout});
            }
            let mut extender = json!({"name": format!("x{i}"), "endpoint": {"url": format!("https://x{i}/a")}, "verbs": verbs,
                "weight": weight, "nodePayload": if *names { "Names" } else { "Full" },
                "managedResources": [{"name": format!("x{i}.com/y"), "fitCheck": if *skip { "Skip" } else { "Keep" }}]});
            match tls {
                0 => extender["tls"] = json!({"mode": "InsecureSkipVerify"}),
                1 => extender["tls"] = json!({"serverName": "other"}),
                _ => {}
            }
            extender
        };
        list.iter().enumerate().map(one).collect()
    })
}

proptest! {
    /// Out and back: the same profile.
    #[test]
    fn a_profile_survives_the_round_trip(value in any_spec()) {
        let spec = spec(value);
        let want = compile("p", &spec).unwrap();
        let export = export(&[Profile { name: "p", spec: &spec }]).unwrap();
        prop_assert_eq!(&export.losses, &Vec::new(), "{}", export.configuration);
        let back = import::testing::read(&export.configuration).unwrap();
        let lost: Vec<String> = back.losses.iter().filter(|l| l.matters()).map(ToString::to_string).collect();
        prop_assert_eq!(lost, Vec::<String>::new(), "{}", export.configuration);
        // Those to be ignored are listed last there: their resources, too.
        let sorted = |mut profile: berth_core::profile::CompiledProfile| {
            profile.fit.ignored_resources.sort();
            profile
        };
        let back = sorted(back.profiles[0].compiled.clone());
        prop_assert_eq!(&back, &sorted(want), "{}", export.configuration);
    }
}
