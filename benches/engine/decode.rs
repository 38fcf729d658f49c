//! What it costs to decode an event of a watch: an object as an API server shows it, most of which no scheduler reads.

use crate::apply::node_with_images;
use crate::manifests::{HOSTNAME, ZONE};
use crate::report::{Row, Times, line};
use berth_cluster::decode::Decoder;
use berth_cluster::proto::{Encoding, testing};
use berth_cluster::slim::unknown::unknown_fields;
use berth_cluster::slim::{SlimNode, SlimPod, known};
use berth_cluster::watch::{KindVisitor, Tracked, visit_kinds};
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::{Duration, Instant};

pub(crate) const ROWS: &[Row] = &[
    Row { name: "decode: a pending pod", long: false, run: |name| pods(name, false, Encoding::Json) },
    Row { name: "decode: a bound pod", long: false, run: |name| pods(name, true, Encoding::Json) },
    Row { name: "decode: a node with 50 images", long: false, run: |name| nodes(name, Encoding::Json) },
    Row { name: "decode: a pending pod in protobuf", long: false, run: |name| pods(name, false, Encoding::Protobuf) },
    Row { name: "decode: a bound pod in protobuf", long: false, run: |name| pods(name, true, Encoding::Protobuf) },
    Row { name: "decode: a node with 50 images in protobuf", long: false, run: |name| nodes(name, Encoding::Protobuf) },
];

/// Lines of each kind, each of an object of its own.
const REPEATS: usize = 2_000;

const TIME: &str = "2026-01-31T12:00:00Z";

/// The containers of a pod, with how many variables each has.
const CONTAINERS: [(&str, usize); 2] = [("cart", 5), ("proxy", 1)];

/// The conditions of a pod whose containers run.
const CONDITIONS: [&str; 5] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// The events that a watch of a kind gets, and how long it took to decode each.
struct Watch {
    plural: &'static str,
    encoding: Encoding,
    objects: Vec<Value>,
    bytes: usize,
    times: Vec<Duration>,
}

impl KindVisitor for Watch {
    /// One decoder takes all lines, as in a watch: it has what they repeat from the second one on.
    fn visit<K: Tracked>(&mut self) {
        if K::PLURAL != self.plural {
            return;
        }
        let mut decoder = K::decoder();
        for object in &self.objects {
            let event = match self.encoding {
                Encoding::Json => format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}").into_bytes(),
                // Without its size.
                Encoding::Protobuf => testing::event("MODIFIED", &testing::message(object, K::message())).split_off(4),
            };
            self.bytes += event.len();
            let began = Instant::now();
            let frame = black_box(K::frame(&mut decoder, self.encoding.with(&event)));
            self.times.push(began.elapsed());
            // The ledger takes it over: what dropping it costs does not count.
            drop(frame);
        }
    }
}

fn frames(name: &str, plural: &'static str, encoding: Encoding, object: impl Fn(usize) -> Value) {
    let objects = (0..REPEATS).map(object).collect();
    let mut watch = Watch { plural, encoding, objects, bytes: 0, times: Vec::new() };
    visit_kinds(&mut watch);
    let bytes = watch.bytes / REPEATS;
    let total: Duration = watch.times.iter().sum();
    let micros = total.as_secs_f64() * 1e6 / REPEATS as f64;
    line(name, &format!("{micros:.1} µs an object of {bytes} bytes, {}", Times::of(watch.times).text()));
}

fn pods(name: &str, bound: bool, encoding: Encoding) {
    let json = pod(0, bound).to_string();
    // One that does not decode, or is held, would be cheaper.
    let read = Decoder::small().pod(&SlimPod::read(json.as_bytes())).expect("the pod decodes");
    assert!(read.node_name.is_some() == bound && read.shape.held_by.is_empty(), "{read:?}");
    assert!(unknown_fields(json.as_bytes(), &known::POD).is_empty(), "{json}");
    assert!((4_000..=9_000).contains(&json.len()), "{} bytes are not those of a usual pod", json.len());
    frames(name, "pods", encoding, |i| pod(i, bound));
}

fn nodes(name: &str, encoding: Encoding) {
    let json = node(0).to_string();
    let read = Decoder::small().node(&SlimNode::read(json.as_bytes())).expect("the node decodes");
    assert_eq!(read.images.len(), 50);
    frames(name, "nodes", encoding, node);
}

/// The `i`-th pod of a Deployment.
fn pod(i: usize, bound: bool) -> Value {
    let mut pod = json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": metadata(i), "spec": spec(),
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    });
    if bound {
        let controller = managed("kube-controller-manager", set_by_controller());
        pod["metadata"]["managedFields"] = json!([controller, managed("kubelet", set_by_kubelet())]);
        pod["spec"]["nodeName"] = json!(format!("node-{i:05}"));
        pod["status"] = running(i);
    }
    pod
}

fn metadata(i: usize) -> Value {
    let labels = json!({
        "app.kubernetes.io/name": "cart", "app.kubernetes.io/instance": "cart-prod",
        "app.kubernetes.io/version": "v1.42.0", "pod-template-hash": "6d4b75cb6d",
    });
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-6d4b75cb6d",
        "uid": "0f8fad5b-d9cb-469f-a165-70867728950e", "controller": true, "blockOwnerDeletion": true,
    });
    json!({
        "name": format!("cart-6d4b75cb6d-{i:05}"), "generateName": "cart-6d4b75cb6d-", "namespace": "shop",
        "uid": format!("{i:08x}-5d1b-4c3e-9f0a-7b2d8c4e6f10"), "resourceVersion": (90_000_000 + i).to_string(),
        "creationTimestamp": TIME, "labels": labels, "ownerReferences": [owner],
        "annotations": {"checksum/config": format!("{i:064x}"), "prometheus.io/scrape": "true"},
        "managedFields": [managed("kube-controller-manager", set_by_controller())],
    })
}

fn spec() -> Value {
    let of_app = json!({"matchLabels": {"app.kubernetes.io/name": "cart"}});
    let apart = json!({"labelSelector": of_app, "topologyKey": HOSTNAME});
    let apart = json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}]});
    let spread = json!({
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": of_app,
    });
    let tolerated = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    let tolerated =
        tolerated.map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
    json!({
        "volumes": volumes(), "containers": CONTAINERS.map(|(name, variables)| container(name, variables)),
        "affinity": {"podAntiAffinity": apart}, "topologySpreadConstraints": [spread], "tolerations": tolerated,
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "cart", "serviceAccount": "cart", "securityContext": {}, "schedulerName": "bench",
        "priority": 0, "preemptionPolicy": "PreemptLowerPriority", "enableServiceLinks": true,
    })
}

fn volumes() -> Value {
    let sources = json!([
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
        ]}},
    ]);
    json!([
        {"name": "config", "configMap": {"name": "cart", "defaultMode": 420}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "kube-api-access-x7k2p", "projected": {"sources": sources, "defaultMode": 420}},
    ])
}

fn container(name: &str, variables: usize) -> Value {
    let set = |i: usize| json!({"name": variable(i), "value": format!("setting-{i}.shop.svc.cluster.local")});
    let variables: Vec<Value> = (0..variables).map(set).collect();
    let probe = |path: &str| {
        json!({
            "httpGet": {"path": path, "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
            "successThreshold": 1, "failureThreshold": 3,
        })
    };
    json!({
        "name": name, "image": format!("registry.example/shop/{name}:v1.42.0"), "env": variables,
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}], "resources": resources(),
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/cart", "readOnly": true},
            {"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ],
        "livenessProbe": probe("/healthz"), "readinessProbe": probe("/readyz"), "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true},
    })
}

fn variable(i: usize) -> String {
    format!("CART_SETTING_{i:02}")
}

fn resources() -> Value {
    json!({"limits": {"memory": "256Mi"}, "requests": {"cpu": "250m", "memory": "256Mi"}})
}

/// The status of a pod whose containers run.
fn running(i: usize) -> Value {
    let status = |name: &str| {
        let image = format!("registry.example/shop/{name}");
        json!({
            "name": name, "state": {"running": {"startedAt": TIME}}, "lastState": {}, "ready": true, "started": true,
            "restartCount": 0, "image": format!("{image}:v1.42.0"), "imageID": format!("{image}@sha256:{:064x}", 7),
            "containerID": format!("containerd://{i:064x}"), "resources": resources(),
            "allocatedResources": {"cpu": "250m", "memory": "256Mi"},
        })
    };
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": TIME});
    let (host, own) = ("10.0.3.7", format!("10.128.{}.{}", i / 250, i % 250));
    json!({
        "phase": "Running", "conditions": CONDITIONS.map(condition), "startTime": TIME, "qosClass": "Burstable",
        "hostIP": host, "hostIPs": [{"ip": host}], "podIP": own, "podIPs": [{"ip": own}],
        "containerStatuses": CONTAINERS.map(|(name, _)| status(name)),
    })
}

/// An entry of managedFields.
fn managed(by: &str, fields: Value) -> Value {
    json!({
        "manager": by, "operation": "Update", "apiVersion": "v1", "time": TIME, "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    })
}

/// Fields as managedFields names those that somebody has set.
fn set(fields: &[&str]) -> Value {
    let names = fields.iter().map(|field| format!("f:{field}"));
    Value::Object(std::iter::once(".".to_owned()).chain(names).map(|name| (name, json!({}))).collect())
}

fn set_by_controller() -> Value {
    let probe = ["failureThreshold", "httpGet", "periodSeconds", "successThreshold", "timeoutSeconds"];
    let mut containers = json!({});
    for (name, variables) in CONTAINERS {
        let mut container = set(&["image", "imagePullPolicy", "name", "ports", "resources", "volumeMounts"]);
        let one = |i: usize| (format!("k:{{\"name\":\"{}\"}}", variable(i)), set(&["name", "value"]));
        container["f:env"] = Value::Object((0..variables).map(one).collect());
        container["f:livenessProbe"] = set(&probe);
        container["f:readinessProbe"] = set(&probe);
        containers[format!("k:{{\"name\":\"{name}\"}}")] = container;
    }
    let mut spec = set(&[
        "affinity",
        "dnsPolicy",
        "enableServiceLinks",
        "restartPolicy",
        "schedulerName",
        "securityContext",
        "terminationGracePeriodSeconds",
        "topologySpreadConstraints",
        "volumes",
    ]);
    spec["f:containers"] = containers;
    json!({"f:metadata": set(&["annotations", "generateName", "labels", "ownerReferences"]), "f:spec": spec})
}

fn set_by_kubelet() -> Value {
    let condition = |kind: &str| {
        (format!("k:{{\"type\":\"{kind}\"}}"), set(&["lastProbeTime", "lastTransitionTime", "status", "type"]))
    };
    let mut status = set(&["containerStatuses", "hostIP", "hostIPs", "phase", "podIP", "podIPs", "startTime"]);
    status["f:conditions"] = Value::Object(CONDITIONS.into_iter().map(condition).collect());
    json!({"f:status": status})
}

/// The `i`-th node, with what its kubelet reports beside the images.
fn node(i: usize) -> Value {
    let mut node = node_with_images(i);
    node["metadata"]["resourceVersion"] = json!((90_000_000 + i).to_string());
    node["metadata"]["creationTimestamp"] = json!(TIME);
    node["metadata"]["annotations"] = json!({"node.alpha.kubernetes.io/ttl": "0"});
    node["metadata"]["managedFields"] = json!([managed("kubelet", set_by_kubelet())]);
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": format!("KubeletHas{kind}"), "lastHeartbeatTime": TIME,
            "lastTransitionTime": TIME, "message": format!("kubelet has posted {kind}"),
        })
    };
    node["status"]["conditions"] = json!([
        condition("MemoryPressure", "False"),
        condition("DiskPressure", "False"),
        condition("PIDPressure", "False"),
        condition("Ready", "True"),
    ]);
    let address = format!("10.0.{}.{}", i / 250, i % 250);
    node["status"]["addresses"] = json!([{"type": "InternalIP", "address": address}]);
    node["status"]["capacity"] = node["status"]["allocatable"].clone();
    node["status"]["nodeInfo"] = json!({
        "machineID": format!("{i:032x}"), "kernelVersion": "6.12.9", "osImage": "Linux", "architecture": "amd64",
        "containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.37.0", "operatingSystem": "linux",
    });
    node
}
