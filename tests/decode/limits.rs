//! Pods that list more than `core/limits.rs` allows.

use super::{pod, too_large};
use berth_cluster::decode::Decoder;
use berth_cluster::slim::SlimPod;
use serde_json::{Value, json};

/// Each list one longer than its limit holds the pod, and none of it reaches the shape.
#[test]
fn pods_that_list_too_much_are_held_by_field() {
    let term = |key: usize| json!({"topologyKey": format!("k{key}"), "labelSelector": {"matchLabels": {"a": "b"}}});
    let terms = |count: usize| (0..count).map(term).collect::<Vec<_>>();
    let weighted = |count| (0..count).map(|key| json!({"weight": 1, "podAffinityTerm": term(key)})).collect::<Vec<_>>();
    let affinity = |kind: &str, list: &str, terms: Vec<Value>| json!({"affinity": {kind: {list: terms}}});
    let (required, preferred) =
        ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution");
    let spread =
        |key: usize| json!({"maxSkew": 1, "topologyKey": format!("k{key}"), "whenUnsatisfiable": "DoNotSchedule"});
    let is_in = |values: usize| {
        let values: Vec<String> = (0..values).map(|value| format!("v{value}")).collect();
        json!({"matchExpressions": [{"key": "k", "operator": "In", "values": values}]})
    };
    let node_terms = |count: usize| vec![is_in(1); count];
    let ports = |count: usize| (1..=count).map(|port| json!({"hostPort": port})).collect::<Vec<_>>();
    let repeated = |count: usize, one: Value| vec![one; count];
    let rows = [
        (
            json!({"topologySpreadConstraints": (0..33).map(spread).collect::<Vec<_>>()}),
            "spec.topologySpreadConstraints",
            33,
            32,
        ),
        (affinity("podAffinity", required, terms(65)), "spec.affinity.podAffinity.required…", 65, 64),
        (affinity("podAffinity", preferred, weighted(65)), "spec.affinity.podAffinity.preferred…", 65, 64),
        (affinity("podAntiAffinity", required, terms(65)), "spec.affinity.podAntiAffinity.required…", 65, 64),
        (affinity("podAntiAffinity", preferred, weighted(65)), "spec.affinity.podAntiAffinity.preferred…", 65, 64),
        (
            json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": node_terms(257)}}}}),
            "spec.affinity.nodeAffinity.required…",
            257,
            256,
        ),
        (
            json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [is_in(4096)]}}}}),
            "the selectors of the pod (keys and values)",
            4097,
            4096,
        ),
        (json!({"tolerations": repeated(257, json!({"key": "k"}))}), "spec.tolerations", 257, 256),
        (json!({"containers": [{"ports": ports(1025)}]}), "spec.containers[].ports[].hostPort", 1025, 1024),
        (json!({"containers": repeated(513, json!({}))}), "spec.containers and spec.initContainers", 513, 512),
        (json!({"volumes": repeated(513, json!({"name": "v"}))}), "spec.volumes", 513, 512),
        (
            json!({"volumes": repeated(129, json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}))}),
            "spec.volumes (claims, ephemeral volumes and disks)",
            129,
            128,
        ),
        (
            json!({"volumes": [{"name": "v", "rbd": {"image": "i", "monitors": repeated(513, json!("m"))}}]}),
            "spec.volumes[].rbd.monitors",
            513,
            512,
        ),
    ];
    for (spec, field, count, limit) in rows {
        let shape = pod(spec).shape;
        let field = field.replace("required…", required).replace("preferred…", preferred);
        assert_eq!(shape.held_by, [too_large(&field, count, limit)]);
        assert!(
            shape.spread.is_empty() && shape.row.tolerations.is_empty() && shape.anti_affinity.is_empty(),
            "{field}"
        );
        assert!(
            shape.row.required_affinity.is_none() && shape.preferred_pods.is_empty() && shape.row.host_ports.is_empty()
        );
    }
}

/// A placed pod cannot be held: the terms past the limit are left out.
#[test]
fn of_a_placed_pod_only_so_many_terms_are_read() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let read = |terms: Vec<Value>| {
        pod(json!({"nodeName": "x", "affinity": {"podAntiAffinity": {required: terms}}})).shape.anti_affinity.len()
    };
    assert_eq!(
        read((0..2_000).map(|key| json!({"topologyKey": format!("k{key}"), "labelSelector": {}})).collect()),
        64
    );
    let values: Vec<String> = (0..3_000).map(|value| format!("v{value}")).collect();
    let selector = json!({"matchExpressions": [{"key": "k", "operator": "In", "values": values}]});
    assert_eq!(read(vec![json!({"topologyKey": "z", "labelSelector": selector}); 3]), 1);
}

/// Whoever places bound pods anew must not take one that is not read further for one that asks for nothing.
#[test]
fn a_bound_pod_that_lists_too_much_and_is_read_whole_says_so() {
    let tolerations = vec![json!({"key": "k"}); 257];
    let object =
        json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x", "tolerations": tolerations}});
    let read = |whole| {
        let mut decoder = Decoder::small().reading_bound_pods_whole(whole);
        decoder.pod(&SlimPod::read(object.to_string().as_bytes())).unwrap().shape.held_by.clone()
    };
    assert_eq!(read(true), [too_large("spec.tolerations", 257, 256)]);
    assert!(read(false).is_empty(), "a placed pod cannot be held");
}
