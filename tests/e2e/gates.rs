//! An API server with feature gates off that Berth knows: it drops the fields that they are for when an object is written, and pods are placed
//! by what is left, as a kube-scheduler of that cluster does.

use berth_lab::{ControlPlane, NodeSpec};
use serde_json::{Value, json};

use crate::cluster::{namespace, own_plane, serving};
use crate::minor;
use crate::objects::{PROFILES, ask_for, of_filters, pod, pod_path, profile, wait_bound, wait_reason, wait_refused};

const HERE: &str = "gates";
const API: &str = "/apis/resource.k8s.io/v1";
const RESOURCE: &str = "gates.lab.berth.dev/gpu";

/// Some that are on by default and may be turned off, with a field of each below.
const OFF: [&str; 5] = [
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAExtendedResource",
    "DRAPartitionableDevices",
];

#[test]
fn what_a_gate_that_is_off_drops_is_not_used() {
    if !minor::is_ours() {
        return;
    }
    let plane = own_plane(vec![format!("--feature-gates={}", OFF.map(|gate| format!("{gate}=false")).join(","))]);
    namespace(&plane, HERE);
    plane.create_nodes(1, |_| NodeSpec::new("n0", "zone-a", "4", "32Gi")).unwrap();
    let _operator = serving(&plane, "berth-0", &[]);
    plane.api.post(PROFILES, &profile(HERE, &json!({}))).unwrap();
    wait_reason(&plane, HERE, "Ready", "Serving");
    publish(&plane);

    // By their driver one device takes more of a counter than there is, one can be shared, and one has a taint: here all are plain.
    assert_eq!(["a", "b", "c"].map(|name| device_of(&plane, name)), ["part", "shared", "tainted"]);
    ask(&plane, "d");
    let refused = wait_refused(&plane, HERE, "d", "Unschedulable");
    assert_eq!(of_filters(&refused), "0/1 nodes are available: 1 cannot allocate all claims.");

    // The class stands for no extended resource.
    let mut extended = pod(HERE, "extended", HERE, "1");
    ask_for(&mut extended, RESOURCE);
    plane.api.post(&pod_path(HERE, ""), &extended).unwrap();
    let refused = wait_refused(&plane, HERE, "extended", "Unschedulable");
    assert_eq!(of_filters(&refused), format!("0/1 nodes are available: 1 Insufficient {RESOURCE}."));
}

fn publish(plane: &ControlPlane) {
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": HERE},
        "spec": {"extendedResourceName": RESOURCE, "selectors": [{"cel": {"expression": "device.driver == 'lab.berth.dev'"}}]},
    });
    plane.api.post(&format!("{API}/deviceclasses"), &class).unwrap();
    let taint = json!({"key": "broken", "effect": "NoSchedule"});
    let consumed = json!([{"counterSet": "set", "counters": {"memory": {"value": "80Gi"}}}]);
    let devices = json!([
        {"name": "part", "consumesCounters": consumed},
        {"name": "shared", "allowMultipleAllocations": true, "capacity": {"memory": {"value": "80Gi"}}},
        {"name": "tainted", "taints": [taint], "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]},
    ]);
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "n0"},
        "spec": {
            "driver": "lab.berth.dev", "nodeName": "n0", "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    });
    let kept = plane.api.post(&format!("{API}/resourceslices"), &slice).unwrap();
    let all = kept["spec"]["devices"].to_string();
    let dropped = ["consumesCounters", "allowMultipleAllocations", "taints", "bindingConditions"];
    assert!(dropped.iter().all(|field| !all.contains(field)), "the gates are off: {all}");
}

fn claim_path(name: &str) -> String {
    format!("{API}/namespaces/{HERE}/resourceclaims/{name}").trim_end_matches('/').to_owned()
}

/// A pod with a claim of one device, both of this name.
fn ask(plane: &ControlPlane, name: &str) {
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": HERE}}]}},
    });
    plane.api.post(&claim_path(""), &claim).unwrap();
    let mut pod = pod(HERE, name, HERE, "1");
    pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": name}]);
    plane.api.post(&pod_path(HERE, ""), &pod).unwrap();
}

/// The device that such a pod gets, for itself.
fn device_of(plane: &ControlPlane, name: &str) -> String {
    ask(plane, name);
    assert_eq!(wait_bound(plane, HERE, name), "n0");
    let claim = plane.api.get(&claim_path(name)).unwrap();
    let result: &Value = &claim["status"]["allocation"]["devices"]["results"][0];
    assert!(result["shareID"].is_null() && result["consumedCapacity"].is_null(), "{claim:#}");
    result["device"].as_str().unwrap().to_owned()
}
