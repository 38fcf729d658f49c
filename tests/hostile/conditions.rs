//! Webhooks, profiles, namespaces and connections that hang, change or vanish at the wrong time.

use std::io::Write as _;
use std::net::TcpStream;

use berth_lab::{NodeSpec, Patch};
use serde_json::{Value, json};

use super::stage::{HOSTILE, Stage, plain};
use super::{Case, case};
use crate::objects::{PROFILES, change_profile, profile, wait_reason};

pub(super) const CASES: &[Case] = &[
    case("webhook", "a webhook on bindings that hangs, 3,000 pods that want the whole cluster", |stage| {
        stage.hang_webhook(&["CREATE"], "pods/binding", 10);
        stage.send_many(3_000, |i| {
            let mut pod = plain(&format!("p{i}"));
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
            pod
        });
    })
    .sibling()
    .short(),
    case("webhook", "a webhook on bindings that hangs, and the node is deleted meanwhile", |stage| {
        stage.make_nodes(&[NodeSpec::new("hostile-gone", "zone-0", "8", "32Gi")]);
        stage.hang_webhook(&["CREATE"], "pods/binding", 5);
        let mut pod = plain("late");
        pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "hostile-gone"});
        stage.send(&pod);
        std::thread::sleep(std::time::Duration::from_secs(1));
        stage.plane.api.delete("/api/v1/nodes/hostile-gone", None).unwrap();
        let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        stage.plane.api.delete(&format!("{hooks}/hang-pods-binding"), None).unwrap();
    })
    .holds(|stage| match &stage.pod("late")["spec"]["nodeName"] {
        Value::Null => Ok(()),
        node => Err(format!("bound to {node}, which is gone")),
    }),
    case("webhook", "a webhook on pods' status that hangs, 500 unschedulable pods", |stage| {
        stage.hang_webhook(&["UPDATE"], "pods/status", 10);
        stage.send_many(500, |i| big(&format!("p{i}")));
    })
    .sibling()
    .holds(Stage::neighbour_is_told),
    case("webhook", "a webhook on pods' deletion that hangs, 50 preemptors", |stage| {
        stage.hang_webhook(&["DELETE"], "pods", 10);
        full_nodes(stage, 50);
        stage.send_many(50, |i| on_full_node(&format!("high{i}"), "hostile-high", i));
    })
    .sibling(),
    case("webhook", "a webhook on claims that hangs, 200 pods with claims", |stage| {
        let class = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "hostile-slow"},
            "provisioner": "hostile.example/none",
            "volumeBindingMode": "WaitForFirstConsumer",
        });
        stage.make("/apis/storage.k8s.io/v1/storageclasses", class);
        let claims = format!("/api/v1/namespaces/{HOSTILE}/persistentvolumeclaims");
        let claim = |i: usize| {
            json!({
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": format!("c{i}"), "namespace": HOSTILE},
                "spec": {
                    "storageClassName": "hostile-slow",
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            })
        };
        stage.plane.create_objects(&claims, 200, 16, claim).unwrap();
        stage.hang_webhook(&["UPDATE"], "persistentvolumeclaims", 10);
        stage.send_many(200, |i| {
            let mut pod = plain(&format!("p{i}"));
            let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": format!("c{i}")}});
            pod["spec"]["volumes"] = json!([volume]);
            pod
        });
    })
    .sibling(),
    case("access", "a namespace loses access while its pods wait", |stage| {
        let spec = json!({"namespaces": {"access": "Restricted", "matchLabels": {"let-in": "yes"}}});
        extra_profile(stage, "hostile-restricted", &spec);
        label_namespace(stage, &json!("yes"));
        let mut pod = big("waits");
        pod["spec"]["schedulerName"] = json!("hostile-restricted");
        stage.send(&pod);
        stage.says_soon("waits", "Insufficient cpu").unwrap();
        label_namespace(stage, &Value::Null);
        stage.make_nodes(&[NodeSpec::new("hostile-big", "zone-0", "1500", "32Gi")]);
        stage.plane.api.patch("/api/v1/nodes/hostile-big", Patch::Merge, &json!({"spec": {"taints": []}})).unwrap();
    })
    .holds(|stage| match &stage.pod("waits")["spec"]["nodeName"] {
        Value::Null => Ok(()),
        node => Err(format!("placed on {node} without access")),
    }),
    case("edits", "a profile edited there and back 30 times", |stage| {
        extra_profile(stage, "hostile-edited", &json!({}));
        for round in 0..30 {
            let preset = if round % 2 == 0 { "BinPack" } else { "Default" };
            change_profile(&stage.plane, "hostile-edited", &json!({"preset": preset}));
        }
    }),
    case("claims", "a profile that asks for default-scheduler serves its own name on", |stage| {
        extra_profile(stage, "hostile-greedy", &json!({}));
        change_profile(&stage.plane, "hostile-greedy", &json!({"schedulerNames": ["default-scheduler"]}));
        let mut pod = plain("still-served");
        pod["spec"]["schedulerName"] = json!("hostile-greedy");
        stage.send(&pod);
    })
    .holds(|stage| stage.is_bound_soon("still-served").then_some(()).ok_or("it is not served any more".to_owned())),
    case("claims", "a profile that asks for the neighbour's name", |stage| {
        // Served for less long, but first by name.
        extra_profile(stage, "a-hostile-taker", &json!({}));
        change_profile(&stage.plane, "a-hostile-taker", &json!({"schedulerNames": ["neighbour"]}));
    })
    .holds(|stage| {
        let neighbour = stage.plane.api.get(&format!("{PROFILES}/neighbour")).unwrap();
        let names = neighbour["status"]["schedulerNames"].to_string();
        if names.contains("neighbour") { Ok(()) } else { Err(format!("the neighbour serves {names}")) }
    }),
    case("profiles", "20 profiles made and deleted", |stage| {
        for i in 0..20 {
            stage.make(PROFILES, profile(&format!("hostile-{i}"), &json!({})));
        }
    }),
    case("connections", "1,500 idle connections to the metrics port", |stage| connect(stage, 1_500, b"")),
    case("connections", "300 requests for the metrics whose answers nobody reads", |stage| {
        connect(stage, 300, b"GET /metrics HTTP/1.1\r\nhost: berth\r\n\r\n");
    })
    .short(),
    case("connections", "300 requests whose head never ends", |stage| {
        connect(stage, 300, b"GET /livez HTTP/1.1\r\nx: y");
    }),
];

fn extra_profile(stage: &Stage, name: &str, spec: &Value) {
    stage.make(PROFILES, profile(name, spec));
    wait_reason(&stage.plane, name, "Ready", "Serving");
}

fn label_namespace(stage: &Stage, value: &Value) {
    let path = format!("/api/v1/namespaces/{HOSTILE}");
    stage.plane.api.patch(&path, Patch::Merge, &json!({"metadata": {"labels": {"let-in": value}}})).unwrap();
}

/// A pod that fits nowhere but on a node of 1,500 cpus.
fn big(name: &str) -> Value {
    let mut pod = plain(name);
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1000");
    pod
}

/// Nodes of the attacker's own, each filled by one low pod.
pub(super) fn full_nodes(stage: &Stage, count: usize) {
    let nodes: Vec<_> = (0..count).map(|i| NodeSpec::new(&format!("hostile-full-{i}"), "zone-0", "1", "8Gi")).collect();
    stage.make_nodes(&nodes);
    stage.send_many(count, |i| on_full_node(&format!("low{i}"), "hostile-low", i));
    let all = || Ok((stage.bound() >= count).then_some(()));
    stage.plane.wait_for("the nodes to be full", crate::SOON, all).unwrap();
}

pub(super) fn on_full_node(name: &str, priority: &str, node: usize) -> Value {
    let mut pod = plain(name);
    pod["spec"]["priorityClassName"] = json!(priority);
    pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": format!("hostile-full-{node}")});
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1");
    pod
}

/// Opens connections to the process' own pages and keeps them.
fn connect(stage: &Stage, count: usize, head: &[u8]) {
    let address = stage.operator.http.trim_start_matches("http://").to_owned();
    let mut sockets = stage.sockets.lock().unwrap();
    for _ in 0..count {
        // A server that takes no more is no fault.
        let Ok(mut socket) = TcpStream::connect(&address) else { break };
        let _ = socket.write_all(head);
        sockets.push(socket);
    }
}
