//! A pod resized in place: an event, and room only when it is really given back.

use berth_lab::Patch;
use serde_json::json;

use crate::objects::pod_path;
use crate::world::World;

#[test]
fn a_pod_resized_down_frees_room_and_wakes_who_waits() {
    let world = World::with("resized", &json!({}), 1);
    world.pod("shrinks", "3", |_| {});
    world.bound("shrinks");
    world.pod("waits", "2", |_| {});
    world.says("waits", "0/1 nodes are available: 1 Insufficient cpu.");
    resize(&world, "shrinks", "1");
    assert_eq!(world.bound("waits"), "0");
}

#[test]
fn what_the_kubelet_has_not_given_back_yet_still_counts() {
    let world = World::with("lingers", &json!({}), 1);
    world.pod("shrinks", "3", |_| {});
    world.bound("shrinks");
    kubelet_says(&world, "3");
    world.pod("waits", "2", |_| {});
    world.says("waits", "0/1 nodes are available: 1 Insufficient cpu.");
    resize(&world, "shrinks", "1");
    // Its place in the pods' stream is behind the resize.
    world.pod("fence", "500m", |_| {});
    world.bound("fence");
    assert!(world.get("waits")["spec"]["nodeName"].is_null(), "3 CPUs are still in use on the node");
    kubelet_says(&world, "1");
    assert_eq!(world.bound("waits"), "0");
}

fn resize(world: &World, pod: &str, cpu: &str) {
    let wanted = json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}});
    let path = format!("{}/resize", pod_path(&world.name, pod));
    world.plane.api.patch(&path, Patch::Strategic, &wanted).unwrap();
}

/// What the kubelet reports of the container: allocated and in use.
fn kubelet_says(world: &World, cpu: &str) {
    let status = json!({"status": {"phase": "Running", "containerStatuses": [{
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "imageID": "",
        "ready": true,
        "restartCount": 0,
        "state": {"running": {}},
        "allocatedResources": {"cpu": cpu},
        "resources": {"requests": {"cpu": cpu}},
    }]}});
    let path = format!("{}/status", pod_path(&world.name, "shrinks"));
    world.plane.api.patch(&path, Patch::Merge, &status).unwrap();
}
