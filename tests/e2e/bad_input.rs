//! What a cluster may hold that nobody wishes for: it is named, and disturbs nobody else.

use berth_lab::Patch;
use serde_json::{Value, json};

use crate::SOON;
use crate::objects::{PROFILES, pod, pod_path, profile};
use crate::world::World;

#[test]
fn a_node_without_allocatable_takes_no_pod_and_is_counted() {
    let world = World::with("unfurnished", &json!({}), 1);
    let object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "unfurnished-bare", "labels": {"world": "unfurnished"}},
    });
    world.plane.api.post("/api/v1/nodes", &object).unwrap();
    world.plane.api.patch("/api/v1/nodes/unfurnished-bare", Patch::Merge, &json!({"spec": {"taints": null}})).unwrap();
    // A pod that was refused while the taint was seen is not looked at again: without it, the node has no room for it either.
    let mut number = 0;
    let seen = world.plane.wait_for("the node without its taint", SOON, || {
        number += 1;
        let name = format!("probe-{number}");
        world.pod(&name, "8", |_| {});
        let is_seen = !world.unschedulable(&name).contains("taint");
        world.delete(&name);
        Ok(is_seen.then_some(()))
    });
    seen.unwrap();
    world.pod("big", "8", |_| {});
    world.says("big", "0/2 nodes are available: 1 Too many pods, 2 Insufficient cpu.");
    world.pod("small", "100m", |_| {});
    assert_eq!(world.bound("small"), "0");
}

#[test]
fn a_pod_with_five_thousand_labels_is_placed_like_any_other() {
    let world = World::with("labelled", &json!({}), 1);
    world.pod("many", "100m", |pod| {
        let labels = (0..5_000).map(|i| (format!("example.com/label-{i}"), json!(format!("value-{i}")))).collect();
        pod["metadata"]["labels"] = Value::Object(labels);
    });
    world.pod("plain", "100m", |_| {});
    world.bound("many");
    world.bound("plain");
}

/// A kubelet may publish whatever it likes.
#[test]
fn absurd_quantities_of_a_node_disturb_nobody() {
    let world = World::with("absurd", &json!({}), 1);
    world.node("huge", "9223372036854775807", |node| node.resource("memory", "8Ei").resource("example.com/x", "1e18"));
    world.node("none", "0", |node| node.resource("memory", "0").resource("pods", "0"));
    world.settle("huge");
    world.pod("large", "1000", |_| {});
    assert_eq!(world.bound("large"), "huge");
    world.pod("plain", "100m", |_| {});
    world.bound("plain");
}

/// The API server of this minor refuses or drops what it does not know, so that a newer one's pods cannot be made here;
/// how they are read is in `tests/decode/main.rs`.
#[test]
fn fields_and_values_from_the_future_do_not_pass_this_api_server() {
    let world = World::with("future", &json!({"unknownFields": "Hold"}), 1);
    let mut field = pod("future", "field", "future", "100m");
    field["spec"]["fromTheFuture"] = json!({"much": true});
    let path = format!("{}?fieldValidation=Ignore", pod_path("future", ""));
    world.plane.api.post(&path, &field).unwrap();
    world.bound("field");
    let mut value = pod("future", "value", "future", "100m");
    value["spec"]["tolerations"] = json!([{"key": "a", "operator": "Near", "value": "b"}]);
    let answer = world.plane.api.request("POST", &pod_path("future", ""), Some(&value)).unwrap();
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(answer.body.to_string().contains("tolerations[0].operator"), "{answer:?}");
}

/// What other clients than kubectl meet: they do not ask for strict validation.
#[test]
fn an_unknown_field_of_a_profile_is_dropped_for_clients_that_do_not_ask_and_the_rest_serves() {
    let world = World::new("pruned");
    world.node("n", "4", |node| node);
    let mut object = profile("pruned", &json!({"preset": "NoScoring", "plugins": [{"name": "x"}]}));
    object["spec"]["nodes"]["selector"] = world.selector();
    world.plane.api.post(PROFILES, &object).unwrap();
    assert_eq!(world.reason("Ready", "Serving").0, "True");
    assert!(world.profile_now()["spec"]["plugins"].is_null());
    let strict = format!("{PROFILES}?fieldValidation=Strict");
    let answer = world.plane.api.request("POST", &strict, Some(&object)).unwrap();
    assert!(answer.body.to_string().contains("unknown field \\\"spec.plugins\\\""), "{answer:?}");
}
