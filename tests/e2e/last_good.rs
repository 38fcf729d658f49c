//! The last good spec outlives the process that accepted it.

use serde_json::json;

use crate::cluster::{HOME, namespace, own_plane, serving};
use crate::objects::{PROFILES, change_profile, pod, pod_path, profile, wait_bound, wait_reason};
use berth_lab::NodeSpec;

#[test]
fn the_last_good_spec_serves_on_after_a_break_and_a_kill() {
    let plane = own_plane(Vec::new());
    namespace(&plane, "kept");
    // The good spec fills the fuller node; the default would choose the emptier one.
    plane.create_nodes(2, |i| NodeSpec::new(&format!("n{i}"), "zone-a", "8", "32Gi")).unwrap();
    let mut filler = pod("kept", "filler", "nobody", "4");
    filler["spec"]["nodeName"] = json!("n0");
    plane.api.post(&pod_path("kept", ""), &filler).unwrap();
    let mut first = serving(&plane, "berth-0", &[]);
    plane.api.post(PROFILES, &profile("kept", &json!({"preset": "BinPack"}))).unwrap();
    wait_reason(&plane, "kept", "Ready", "Serving");
    let revisions = format!("/apis/apps/v1/namespaces/{HOME}/controllerrevisions");
    plane
        .wait_for("the good spec to be kept", crate::SOON, || {
            Ok((plane.api.get(&revisions)?["items"].as_array().map_or(0, Vec::len) == 1).then_some(()))
        })
        .unwrap();
    let bad = json!({"preset": "Default", "nodes": {"selector": {"matchLabels": {"example..com/pool": "batch"}}}});
    change_profile(&plane, "kept", &bad);
    wait_reason(&plane, "kept", "Ready", "ServingLastGood");
    first.process.kill().unwrap();

    plane.api.post(&pod_path("kept", ""), &pod("kept", "after", "kept", "100m")).unwrap();
    let mut second = serving(&plane, "berth-0", &[]);
    assert_eq!(wait_bound(&plane, "kept", "after"), "n0", "the last good spec, not the default");
    let (_, message) = wait_reason(&plane, "kept", "Ready", "ServingLastGood");
    assert!(message.contains("generation 1 serves"), "{message}");
    let status = plane.api.get(&format!("{PROFILES}/kept")).unwrap()["status"].clone();
    assert_eq!(status["effective"]["preset"], "BinPack");
    let named = status["lastGoodRevision"].as_str().unwrap_or_default().to_owned();
    assert!(plane.api.get(&format!("{revisions}/{named}")).is_ok(), "lastGoodRevision names {named:?}");

    // Mended in another way: the new spec is in force and becomes the last good one.
    change_profile(&plane, "kept", &json!({"nodes": {"selector": null}}));
    wait_reason(&plane, "kept", "Ready", "Serving");
    plane.api.post(&pod_path("kept", ""), &pod("kept", "mended", "kept", "100m")).unwrap();
    assert_eq!(wait_bound(&plane, "kept", "mended"), "n1", "the Default preset chooses the emptier node");
    second.process.kill().unwrap();
}
