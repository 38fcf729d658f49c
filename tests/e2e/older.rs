//! Profiles that an older release took, and a last good spec that it stored, through an upgrade of the chart and back.

use std::fs;
use std::path::Path;

use berth_lab::{ControlPlane, NodeSpec, Options};
use serde_json::{Value, json};

use crate::cluster::{HOME, copied_chart, namespace, serving};
use crate::objects::{PROFILES, change_profile, pod, pod_path, profile, wait_bound, wait_reason};

/// A restriction to some nodes, written for the older definition.
const RESTRICTED: &str = "restricted";
/// Its spec was good once.
const BROKEN: &str = "broken";

/// The chart with the definition that had no `spec.namespaces.route`, `spec.shadow` and `spec.pluginArgs.selectorSpread`.
fn older_chart(plane: &ControlPlane) -> String {
    let chart = copied_chart(plane, "0.0.9");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/definition_without_route.yaml");
    fs::copy(fixture, chart.join("files/crd.yaml")).unwrap();
    chart.to_str().unwrap().to_owned()
}

/// The last good spec of the profile, as a release has stored it since there are last good specs.
fn stored(profile: &Value) -> Value {
    let owner = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile", "name": BROKEN,
        "uid": profile["metadata"]["uid"]});
    json!({"apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": "sprof-broken-0123456789abcdef", "namespace": HOME, "ownerReferences": [owner],
            "labels": {"scheduling.berth.dev/profile": BROKEN},
            "annotations": {"scheduling.berth.dev/profile-name": BROKEN}},
        "data": {"spec": {"preset": "BinPack"}}, "revision": 1})
}

/// Both profiles place pods as they did: on the fuller node of those that they may use. An empty one is outside of the restriction.
fn places(plane: &ControlPlane, step: &str) {
    for namespace in [RESTRICTED, BROKEN] {
        plane.api.post(&pod_path(namespace, ""), &pod(namespace, step, namespace, "100m")).unwrap();
        assert_eq!(wait_bound(plane, namespace, step), "fuller", "{namespace}: {step}");
    }
    assert_eq!(wait_reason(plane, RESTRICTED, "Ready", "Serving").0, "True");
    wait_reason(plane, BROKEN, "Ready", "ServingLastGood");
}

fn spec(plane: &ControlPlane) -> Value {
    plane.api.get(&format!("{PROFILES}/{RESTRICTED}")).unwrap()["spec"].clone()
}

#[test]
fn profiles_and_last_good_specs_of_an_older_release_serve_through_an_upgrade_and_a_rollback() {
    let plane = ControlPlane::start(&Options::default()).unwrap();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/berth").to_str().unwrap().to_owned();
    plane.helm(&["install", "berth", &older_chart(&plane), "--namespace", HOME, "--create-namespace"]).unwrap();
    let crd = "crd/schedulerprofiles.scheduling.berth.dev";
    plane.kubectl_ok(&["wait", "--for=condition=Established", crd, "--timeout=60s"]).unwrap();
    namespace(&plane, RESTRICTED);
    namespace(&plane, BROKEN);
    let names = ["fuller", "emptier", "outside"];
    plane
        .create_nodes(3, |i| {
            NodeSpec::new(names[i], "zone-a", "8", "32Gi").label("pool", if i < 2 { "batch" } else { "web" })
        })
        .unwrap();
    let mut filler = pod(RESTRICTED, "filler", "nobody", "4");
    filler["spec"]["nodeName"] = json!("fuller");
    plane.api.post(&pod_path(RESTRICTED, ""), &filler).unwrap();
    let restriction = json!({"preset": "BinPack", "nodes": {"selector": {"matchLabels": {"pool": "batch"}}}});
    plane.api.post(PROFILES, &profile(RESTRICTED, &restriction)).unwrap();
    let refused = json!({"nodes": {"selector": {"matchLabels": {"example..com/pool": "batch"}}}});
    let broken = plane.api.post(PROFILES, &profile(BROKEN, &refused)).unwrap();
    let revisions = format!("/apis/apps/v1/namespaces/{HOME}/controllerrevisions");
    plane.api.post(&revisions, &stored(&broken)).unwrap();
    let first = spec(&plane);

    // The operator is newer than the definition: a rolling update that came before it, or a rollback of the chart alone.
    let mut operator = serving(&plane, "berth-0", &[]);
    let outdated = |step: &str| {
        let (_, message) = wait_reason(&plane, RESTRICTED, "Programmed", "CRDOutdated");
        assert!(message.contains("spec.shadow") && message.contains("spec.namespaces.route"), "{step}: {message}");
        places(&plane, step);
    };
    outdated("before");
    plane.helm(&["upgrade", "berth", &own, "--namespace", HOME]).unwrap();
    wait_reason(&plane, RESTRICTED, "Programmed", "Programmed");
    places(&plane, "upgraded");
    assert_eq!(spec(&plane), first, "an upgrade changes no profile");
    change_profile(&plane, RESTRICTED, &json!({"pluginArgs": {"selectorSpread": {"matching": "Any"}}}));
    places(&plane, "with-a-new-field");

    plane.helm(&["rollback", "berth", "1", "--namespace", HOME]).unwrap();
    // A rollback starts its pods anew; one that goes on would read the definition within a minute.
    operator.process.kill().unwrap();
    operator = serving(&plane, "berth-0", &[]);
    outdated("rolled-back");
    // What only the newer definition had goes with the next write, and nothing else does.
    change_profile(&plane, RESTRICTED, &json!({"unknownFields": "Hold"}));
    let mut kept = first;
    kept["unknownFields"] = json!("Hold");
    kept["pluginArgs"] = json!({});
    assert_eq!(spec(&plane), kept);
    places(&plane, "written-anew");
    operator.process.kill().unwrap();
}
