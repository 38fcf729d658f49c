//! Preemptions that others race for, nodes and profiles that go meanwhile, Secrets of others, and claims beside many volumes.

use std::thread;
use std::time::Duration;

use berth_lab::{NodeSpec, Patch};
use serde_json::{Value, json};

use super::conditions::{full_nodes, on_full_node};
use super::stage::{ELSEWHERE, HOSTILE, Stage, on_node, plain};
use super::{Case, SOON, case};
use crate::cluster::HOME;
use crate::objects::{PROFILES, bind, pod, pod_path, profile, wait_reason};

const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// More than are sent at a time.
const PREEMPTORS: usize = 50;

pub(super) const CASES: &[Case] = &[
    case("secrets", "a profile whose extender is to be sent another component's Secret", |stage| {
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": "hostile-pull", "annotations": {"scheduling.berth.dev/extender-profiles": "hostile-reader"}},
            "stringData": {".dockerconfigjson": "{\"auths\":{}}"},
        });
        stage.make(&format!("/api/v1/namespaces/{HOME}/secrets"), secret);
        let extender = json!({
            "name": "ext",
            "endpoint": {"service": {"name": "ext", "namespace": HOSTILE, "port": 443}},
            "verbs": {"filter": {"path": "filter"}},
            "auth": {"bearerTokenRef": {"name": "hostile-pull", "key": ".dockerconfigjson"}},
        });
        stage.make(PROFILES, profile("hostile-reader", &json!({"extenders": [extender]})));
    })
    .holds(|stage| {
        let path = format!("{PROFILES}/hostile-reader");
        let mut last = String::new();
        let refused = stage.plane.wait_for("the Secret to be refused", SOON, || {
            let found = crate::objects::condition(&stage.plane.api.get(&path)?, "ResolvedRefs");
            last = found.map(|(_, reason, _)| reason).unwrap_or_default();
            Ok((last == "SecretNotPermitted").then_some(()))
        });
        refused.map_err(|_| format!("ResolvedRefs says {last:?}"))
    }),
    case("storm", "whoever loses a pod to a preemption fills its node again at once, three times", |stage| {
        stage.make_nodes(&[NodeSpec::new("hostile-storm", "zone-0", "1", "8Gi")]);
        stage.send(&filler("low0", "hostile-storm"));
        stage.send(&wanting("high", "hostile-high", "hostile-storm"));
        for round in 0..3 {
            stage.is_leaving_within(&format!("low{round}"), SOON).unwrap();
            stage.send(&filler(&format!("low{}", round + 1), "hostile-storm"));
            stage.end(&format!("low{round}"));
        }
    })
    .holds(|stage| stage.is_leaving_within("low3", SOON)),
    case("evictions", "evictions are denied for 8 seconds, and a more important pod counts on them", |stage| {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "hostile-top"},
            "value": 2_000,
        });
        stage.make("/apis/scheduling.k8s.io/v1/priorityclasses", class);
        stage.make_nodes(&[NodeSpec::new("hostile-denied", "zone-0", "1", "8Gi")]);
        let mut low = filler("low", "hostile-denied");
        low["spec"]["terminationGracePeriodSeconds"] = json!(0);
        stage.send(&low);
        stage.hang_webhook(&["DELETE"], "pods", 2);
        stage.send(&wanting("high", "hostile-high", "hostile-denied"));
        thread::sleep(Duration::from_secs(4));
        stage.send(&wanting("top", "hostile-top", "hostile-denied"));
        thread::sleep(Duration::from_secs(4));
        stage.plane.api.delete(&format!("{HOOKS}/hang-pods"), None).unwrap();
    })
    .holds(|stage| stage.is_bound_within("top", SOON)),
    case("evictions", "50 preemptors are bound by somebody else while the deletions of their victims hang", |stage| {
        stage.hang_webhook(&["DELETE"], "pods", 10);
        full_nodes(stage, PREEMPTORS);
        stage.send_many(PREEMPTORS, |i| on_full_node(&format!("high{i}"), "hostile-high", i));
        stage.gauge_soon("berth_eviction_rounds", "", |rounds| rounds >= PREEMPTORS as f64).unwrap();
        for i in 0..PREEMPTORS {
            let answer = bind(&stage.plane.api, HOSTILE, &format!("high{i}"), &format!("n{i}"));
            assert!(answer.is_success(), "{answer:?}");
        }
        // Once the operator knows of all that, nothing holds up the deletions any more.
        stage.gauge_soon("scheduler_pending_pods", "profile=\"hostile\"", |pods| pods == 0.0).unwrap();
        stage.plane.api.delete(&format!("{HOOKS}/hang-pods"), None).unwrap();
    })
    .holds(|stage| {
        stage.gauge_soon("berth_eviction_rounds", "", |rounds| rounds == 0.0)?;
        let goes = |i: &usize| {
            let pod = stage.pod(&format!("low{i}"));
            pod.is_null() || pod["metadata"]["deletionTimestamp"].is_string()
        };
        match (0..PREEMPTORS).filter(goes).count() {
            0 => Ok(()),
            gone => Err(format!("{gone} pods were evicted for nobody")),
        }
    }),
    case("evictions", "a pod is given another toleration while the deletion of its victim, which ends late, hangs", |stage| {
        let second = NodeSpec::new("hostile-second", "zone-0", "1", "8Gi").taint("second", "", "NoSchedule");
        stage.make_nodes(&[NodeSpec::new("hostile-first", "zone-0", "1", "8Gi"), second]);
        // A port, which none of the neighbour's pods gives back when it goes, as it would give back CPU.
        let on_port = |mut pod: Value| {
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("10m");
            pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 7_000}]);
            pod
        };
        stage.send(&on_port(filler("low", "hostile-first")));
        stage.hang_webhook(&["DELETE"], "pods", 10);
        let mut high = on_port(wanting("high", "hostile-high", ""));
        high["spec"]["nodeSelector"] = json!({"made-by": HOSTILE});
        high["spec"]["tolerations"] = json!([{"key": HOSTILE, "operator": "Exists"}]);
        stage.send(&high);
        stage.gauge_soon("berth_eviction_rounds", "", |rounds| rounds > 0.0).unwrap();
        let more = json!([{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "second", "operator": "Exists"}}]);
        stage.plane.api.patch(&pod_path(HOSTILE, "high"), Patch::Json, &more).unwrap();
        stage.plane.api.delete(&format!("{HOOKS}/hang-pods"), None).unwrap();
        stage.is_leaving_within("low", SOON).unwrap();
    })
    // No kubelet ends the victim: but for the edit, only the look at all pods every five minutes would have it tried again.
    .holds(|stage| stage.is_bound_within("high", SOON)),
    case("nominations", "the profile of a nominated pod is deleted", |stage| {
        stage.make(PROFILES, profile("hostile-leaving", &json!({})));
        wait_reason(&stage.plane, "hostile-leaving", "Ready", "Serving");
        stage.make_nodes(&[NodeSpec::new("hostile-promised", "zone-0", "1", "8Gi")]);
        stage.send(&filler("low", "hostile-promised"));
        let mut left = wanting("left", "hostile-high", "hostile-promised");
        left["spec"]["schedulerName"] = json!("hostile-leaving");
        stage.send(&left);
        stage.is_leaving_within("low", SOON).unwrap();
        stage.plane.api.delete(&format!("{PROFILES}/hostile-leaving"), None).unwrap();
        stage.end("low");
        stage.send(&wanting("equal", "hostile-high", "hostile-promised"));
    })
    .holds(|stage| stage.is_bound_within("equal", SOON)),
    case("webhook", "a webhook on bindings that hangs, and the node is made anew meanwhile, smaller", |stage| {
        let node = |cpu: &str| NodeSpec::new("hostile-anew", "zone-0", cpu, "32Gi");
        stage.make_nodes(&[node("8")]);
        stage.hang_webhook(&["CREATE"], "pods/binding", 5);
        let mut late = wanting("late", "hostile-high", "hostile-anew");
        late["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("4");
        stage.send(&late);
        thread::sleep(Duration::from_secs(1));
        stage.plane.api.delete("/api/v1/nodes/hostile-anew", None).unwrap();
        stage.make_nodes(&[node("1")]);
        stage.plane.api.delete(&format!("{HOOKS}/hang-pods-binding"), None).unwrap();
    })
    .holds(|stage| match &stage.pod("late")["spec"]["nodeName"] {
        Value::Null => Ok(()),
        node => Err(format!("bound to {node}, on which it does not fit")),
    }),
    case("webhook", "a webhook on bindings that hangs for five namespaces at once", |stage| {
        stage.hang_webhook(&["CREATE"], "pods/binding", 10);
        stage.send_many(300, |i| plain(&format!("p{i}")));
        for namespace in ELSEWHERE {
            let one = |i: usize| pod(namespace, &format!("p{i}"), HOSTILE, "10m");
            stage.plane.create_objects(&pod_path(namespace, ""), 300, 16, one).unwrap();
        }
    })
    .sibling(),
    case("volumes", "one pending pod with 500 claims, beside 600 volumes that may be bound anywhere", |stage| {
        many_volumes(stage, 600);
        stage.plane.create_objects(&claims(), 500, 16, claim).unwrap();
        let mut pod = plain("claims");
        pod["spec"]["volumes"] = (0..500).map(mounted).collect();
        stage.send(&pod);
    }),
    case("volumes", "100 pending pods with 5 claims each, and no volumes for them", |stage| {
        many_volumes(stage, 0);
        stage.plane.create_objects(&claims(), 500, 16, claim).unwrap();
        stage.send_many(100, |i| {
            let mut pod = plain(&format!("p{i}"));
            pod["spec"]["volumes"] = (5 * i..5 * i + 5).map(mounted).collect();
            pod
        });
    }),
    case("volumes", "200 placed pods with 100 disks each, and 50 that want one of them", |stage| {
        let disks = |pod: &mut Value, from: usize, count: usize| {
            let disk = |i: usize| json!({"name": format!("d{i}"), "awsElasticBlockStore": {"volumeID": format!("vol-{i}")}});
            pod["spec"]["volumes"] = (from..from + count).map(disk).collect();
        };
        stage.send_many(200, |i| {
            let mut pod = on_node(&format!("placed{i}"), &format!("n{}", i % 10));
            disks(&mut pod, 100 * i, 100);
            pod
        });
        stage.send_many(50, |i| {
            let mut pod = plain(&format!("wants{i}"));
            disks(&mut pod, 100 * i, 30);
            pod
        });
    }),
];

/// A low pod that takes all of a node, created there by name.
fn filler(name: &str, node: &str) -> Value {
    let mut pod = on_node(name, node);
    pod["spec"]["schedulerName"] = json!("somebody-else");
    pod["spec"]["priorityClassName"] = json!("hostile-low");
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1");
    pod
}

/// A pod that needs all of one node.
pub(super) fn wanting(name: &str, priority: &str, node: &str) -> Value {
    let mut pod = plain(name);
    pod["spec"]["priorityClassName"] = json!(priority);
    pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1");
    pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
    pod
}

fn claims() -> String {
    format!("/api/v1/namespaces/{HOSTILE}/persistentvolumeclaims")
}

fn claim(i: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("many-{i}"), "namespace": HOSTILE},
        "spec": {
            "storageClassName": "hostile-made-by-hand",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": format!("{}Mi", 100 + i)}},
        },
    })
}

fn mounted(i: usize) -> Value {
    json!({"name": format!("v{i}"), "persistentVolumeClaim": {"claimName": format!("many-{i}")}})
}

/// A class whose volumes are made by hand, and so many of them.
fn many_volumes(stage: &Stage, count: usize) {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "hostile-made-by-hand"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    stage.make("/apis/storage.k8s.io/v1/storageclasses", class);
    for i in 0..count {
        let volume = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": format!("hostile-{i}")},
            "spec": {
                "storageClassName": "hostile-made-by-hand",
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": "/tmp/none"},
            },
        });
        stage.make("/api/v1/persistentvolumes", volume);
        // No controller is there to say so.
        let available = json!({"status": {"phase": "Available"}});
        let status = format!("/api/v1/persistentvolumes/hostile-{i}/status");
        stage.plane.api.patch(&status, Patch::Merge, &available).unwrap();
    }
}
