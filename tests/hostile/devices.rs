//! Claims of devices that an API server lets through, made to cost as much as they can. Devices are for all nodes, so that each node is
//! searched.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{HOSTILE, Stage, plain};
use super::{Case, case};

const API: &str = "/apis/resource.k8s.io/v1";
const DRIVER: &str = "hostile.example";

/// The most that one slice may have.
const DEVICES: usize = 128;

pub(super) const CASES: &[Case] = &[
    case("devices", "20 pods that ask for 32 devices alike where no more than 31 are, for all nodes", |stage| {
        publish(stage, |i| json!({"group": {"int": i / 31}}));
        let alike = json!([{"matchAttribute": format!("{DRIVER}/group")}]);
        ask(stage, 20, |_| json!({"requests": [request("all", 32, &json!([]))], "constraints": alike}));
    })
    .short()
    .holds(|stage| stage.says_soon("p0", "timed out trying to allocate devices")),
    case(
        "devices",
        "50 pods with a selector of 10 KB each that reads a text of each device again and again",
        |stage| {
            publish(stage, |_| json!({"text": {"string": "x".repeat(64)}}));
            ask(stage, 50, |i| json!({"requests": [request("one", 1, &json!([{"cel": {"expression": long(i)}}]))]}));
        },
    )
    .holds(|stage| stage.says_soon("p0", "cannot allocate all claims")),
    case(
        "devices",
        "2,000 pods with claims that no device is for, and a slice that changes 20 times a second",
        |stage| {
            publish(stage, |_| json!({}));
            let none = json!([{"cel": {"expression": "device.driver == 'nobodys.example'"}}]);
            ask(stage, 2_000, |_| json!({"requests": [request("one", 1, &none)]}));
            for round in 0..60 {
                let slice = slice("hostile-changing", round + 1, |_| json!({"round": {"int": round}}));
                drop(stage.plane.api.delete(&format!("{API}/resourceslices/hostile-changing"), None));
                stage.make(&format!("{API}/resourceslices"), slice);
                thread::sleep(Duration::from_millis(50));
            }
        },
    ),
    case(
        "devices",
        "60 slices of 128 devices with 32 texts of 64 characters each, and 20 pods that ask for 32 of them alike in each text",
        |stage| {
            publish_class(stage);
            let full = |pool: usize| {
                let text = move |device: usize, i: usize| format!("{pool:03}{device:03}{i:058}");
                move |device| (0..32).map(|i| (format!("a{i:02}"), json!({"string": text(device, i)}))).collect()
            };
            let slices = format!("{API}/resourceslices");
            for pool in 0..60 {
                stage.make(&slices, slice(&format!("hostile-{pool}"), 1, full(pool)));
            }
            let alike: Value = (0..32).map(|i| json!({"matchAttribute": format!("{DRIVER}/a{i:02}")})).collect();
            ask(stage, 20, |_| json!({"requests": [request("all", 32, &json!([]))], "constraints": alike}));
        },
    )
    .holds(|stage| stage.says_soon("p0", "timed out trying to allocate devices")),
];

/// A class of all devices, and devices for all nodes with these attributes.
fn publish(stage: &Stage, attributes: impl Fn(usize) -> Value) {
    publish_class(stage);
    stage.make(&format!("{API}/resourceslices"), slice("hostile", 1, attributes));
}

fn publish_class(stage: &Stage) {
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": HOSTILE},
        "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{DRIVER}'")}}]},
    });
    stage.make(&format!("{API}/deviceclasses"), class);
}

fn slice(name: &str, generation: usize, attributes: impl Fn(usize) -> Value) -> Value {
    let devices = (0..DEVICES).map(|i| json!({"name": format!("d{i:03}"), "attributes": attributes(i)}));
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
        "spec": {
            "driver": DRIVER, "allNodes": true, "pool": {"name": name, "generation": generation, "resourceSliceCount": 1},
            "devices": devices.collect::<Value>(),
        },
    })
}

fn request(name: &str, count: usize, selectors: &Value) -> Value {
    let exactly = json!({
        "deviceClassName": HOSTILE, "allocationMode": "ExactCount", "count": count, "selectors": selectors,
    });
    json!({"name": name, "exactly": exactly})
}

/// Pods with a claim each.
fn ask(stage: &Stage, pods: usize, devices: impl Fn(usize) -> Value + Sync) {
    let claims = format!("{API}/namespaces/{HOSTILE}/resourceclaims");
    let claim = |i: usize| {
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": format!("p{i}")},
            "spec": {"devices": devices(i)},
        })
    };
    stage.plane.create_objects(&claims, pods, 16, claim).unwrap();
    stage.send_many(pods, |i| {
        let mut pod = plain(&format!("p{i}"));
        pod["spec"]["resourceClaims"] = json!([{"name": "device", "resourceClaimName": format!("p{i}")}]);
        pod
    });
}

/// A selector of its own for each pod, nearly as long as the API takes it, whose last term decides.
fn long(pod: usize) -> String {
    let term = |i: usize| format!("!device.attributes['{DRIVER}'].text.contains('y{pod}.{i}')");
    let terms: Vec<String> = (0..140).map(term).collect();
    format!("{} && device.driver == ''", terms.join(" && "))
}
