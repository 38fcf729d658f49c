//! Pods and nodes that an API server lets through, made to cost as much as they can.

use std::fmt::Write as _;

use berth_lab::{NodeSpec, Patch};
use serde_json::{Value, json};

use super::neighbour::NEIGHBOUR;
use super::stage::{HOSTILE, Stage, on_node, plain};
use super::{Case, LATER, SOON, case};
use crate::objects::{PROFILES, ask_for, change_profile, events, pod_path, profile, wait_reason};

pub(super) const CASES: &[Case] = &[
    case("spread", "one pending pod, 4,000 hard spread constraints", |stage| {
        stage.send(&spread("many", 4_000, "DoNotSchedule"));
    })
    .holds(|stage| stage.says_soon("many", "topologySpreadConstraints"))
    .short(),
    case("spread", "one pending pod, 4,000 soft spread constraints", |stage| {
        stage.send(&spread("many", 4_000, "ScheduleAnyway"));
    }),
    case("spread", "200 pending pods, 32 hard spread constraints each on keys of their own", |stage| {
        stage.send_many(200, |i| spread(&format!("s{i}"), 32, "DoNotSchedule"));
    }),
    case("spread", "200 pending pods, 32 soft spread constraints each", |stage| {
        stage.send_many(200, |i| spread(&format!("s{i}"), 32, "ScheduleAnyway"));
    }),
    case("spread", "one pending pod, 300 spread constraints and 250,000 values of node affinity", |stage| {
        let mut pod = spread("values", 300, "DoNotSchedule");
        pod["spec"]["affinity"] = among("k", 250_000);
        stage.send(&pod);
    })
    .short(),
    case("spread", "64 pending pods, 32 spread constraints and 4,000 values of node affinity each", |stage| {
        stage.send_many(64, |i| {
            let mut pod = spread(&format!("s{i}"), 32, "DoNotSchedule");
            pod["spec"]["affinity"] = among(&format!("k{i}"), 4_000);
            pod
        });
    }),
    case("terms", "one placed pod, 2,000 anti-affinity terms on keys of no node", |stage| {
        stage.send(&repelling(on_node("placed", "n0"), 2_000, "k"));
    }),
    case("terms", "one placed pod, 12,000 anti-affinity terms on keys of no node", |stage| {
        stage.send(&repelling(on_node("placed", "n0"), 12_000, "k"));
    })
    .short(),
    case("terms", "200 placed pods, 64 anti-affinity terms each on keys of no node", |stage| {
        stage.send_many(200, |i| repelling(on_node(&format!("p{i}"), &format!("n{i}")), 64, &format!("k{i}-")));
    }),
    case("terms", "100 pending pods, 64 anti-affinity terms each", |stage| {
        stage.send_many(100, |i| repelling(plain(&format!("p{i}")), 64, &format!("k{i}-")));
    }),
    case("terms", "one placed pod, 4,096 terms with twelve labels each", |stage| {
        stage.send(&labelled_terms(on_node("placed", "n0"), 4_096));
    }),
    case("terms", "20 patches a second of the labels of a placed pod with 4,096 terms", |stage| {
        stage.send(&labelled_terms(on_node("placed", "n0"), 4_096));
        for round in 0..60 {
            let labels = json!({"metadata": {"labels": {"round": round.to_string()}}});
            stage.plane.api.patch(&pod_path(HOSTILE, "placed"), Patch::Merge, &labels).unwrap();
        }
    }),
    case("names", "a scheduler name of the neighbour's with 300 letters more", |stage| {
        let mut pod = plain("long");
        pod["spec"]["schedulerName"] = json!(format!("neighbour{}", "a".repeat(300)));
        stage.send(&pod);
    })
    .holds(status_is_written),
    case("names", "a scheduler name with line breaks and escapes", |stage| {
        let mut pod = plain("escapes");
        pod["spec"]["schedulerName"] = json!("neighbour\n\u{1b}]52;c;x\u{7}\r\u{2028}");
        stage.send(&pod);
    }),
    case("names", "8 scheduler names of 1 MB", |stage| {
        stage.send_many(8, |i| {
            let mut pod = plain(&format!("p{i}"));
            pod["spec"]["schedulerName"] = json!(format!("{i}{}", "b".repeat(1_000_000)));
            pod
        });
    }),
    case("names", "3,000 scheduler names that nobody serves", |stage| {
        stage.send_many(3_000, |i| {
            let mut pod = plain(&format!("p{i}"));
            pod["spec"]["schedulerName"] = json!(format!("neighbour-{i}-{}", "x".repeat(200)));
            pod
        });
    }),
    case("resources", "a bound pod with 512 invented resources, then a node with a new device", |stage| {
        let mut greedy = on_node("greedy", "n0");
        for i in 0..512 {
            ask_for(&mut greedy, &format!("a.example/r{i}"));
        }
        stage.send(&greedy);
        stage.make_nodes(&[NodeSpec::new("hostile-device", "zone-0", "8", "32Gi").resource("example.com/device", "8")]);
        let mut pod = tolerant(plain("wants-device"));
        ask_for(&mut pod, "example.com/device");
        stage.send(&pod);
    })
    .holds(|stage| stage.is_bound_soon("wants-device").then_some(()).ok_or("the device cannot be had".to_owned()))
    .short(),
    case("resources", "300 pending pods with 40 invented resources each", |stage| {
        stage.send_many(300, |i| {
            let mut pod = plain(&format!("p{i}"));
            for r in 0..40 {
                ask_for(&mut pod, &format!("p{i}.example/r{r}"));
            }
            pod
        });
    }),
    case("resources", "a node that offers 2,000 resources, then another device", |stage| {
        let many = (0..2_000).fold(NodeSpec::new("hostile-many", "zone-0", "8", "32Gi"), |node, i| {
            node.resource(&format!("n.example/r{i}"), "1")
        });
        stage.make_nodes(&[many]);
    }),
    case("strays", "2,000 bound pods on nodes that do not exist", |stage| {
        stage.send_many(2_000, |i| on_node(&format!("p{i}"), &format!("ghost-{i}")));
    }),
    case("labels", "2,000 pending pods, each with labels of its own", |stage| {
        stage.send_many(2_000, |i| {
            let mut pod = plain(&format!("p{i}"));
            for label in 0..17 {
                pod["metadata"]["labels"][format!("l{label}")] = json!(format!("v{}", (i >> label) & 1));
            }
            pod["spec"]["nodeSelector"] = json!({"nobody": format!("has-{i}")});
            pod
        });
    }),
    case("spread", "one pending pod, 300 spread constraints of another scheduler", |stage| {
        let mut pod = spread("foreign", 300, "DoNotSchedule");
        pod["spec"]["schedulerName"] = json!("default-scheduler");
        stage.send(&pod);
    }),
    case("affinity", "200 pending pods, 4,000 values of node affinity each", |stage| {
        stage.send_many(200, |i| {
            let mut pod = plain(&format!("p{i}"));
            pod["spec"]["affinity"] = among(&format!("key{i}"), 4_000);
            pod
        });
    }),
    case("tolerations", "one pending pod, 10,000 tolerations", |stage| {
        let mut pod = plain("tolerant");
        pod["spec"]["tolerations"] =
            (0..10_000).map(|i| json!({"key": format!("t{i}"), "operator": "Exists"})).collect();
        stage.send(&pod);
    })
    .holds(|stage| stage.says_soon("tolerant", "tolerations")),
    case("large", "20 pods of 1 MB, made and deleted", |stage| {
        for round in 0..4 {
            stage.send_many(20, |i| {
                let mut pod = plain(&format!("p{round}-{i}"));
                pod["spec"]["affinity"] = among(&format!("k{round}-{i}"), 150_000);
                pod
            });
            stage.plane.api.delete(&pod_path(HOSTILE, ""), Some(&json!({"gracePeriodSeconds": 0}))).unwrap();
        }
    }),
    case("large", "40 pods with 200 KB of annotations", |stage| {
        stage.send_many(40, |i| {
            let mut pod = plain(&format!("p{i}"));
            pod["metadata"]["annotations"]["notes"] = json!("n".repeat(200_000));
            pod
        });
    }),
    case("unschedulable", "3,000 unschedulable pods", |stage| {
        stage.send_many(3_000, |i| impossible(&format!("p{i}")));
    })
    .holds(Stage::neighbour_is_told),
    case("unschedulable", "10,000 unschedulable pods that a profile takes up at once", |stage| {
        stage.make(PROFILES, profile("hostile-many", &json!({"mode": "Paused"})));
        wait_reason(&stage.plane, "hostile-many", "Ready", "Paused");
        stage.send_many(10_000, |i| {
            let mut pod = impossible(&format!("p{i}"));
            pod["spec"]["schedulerName"] = json!("hostile-many");
            pod
        });
        change_profile(&stage.plane, "hostile-many", &json!({"mode": "Active"}));
        stage.says_soon("p0", "Insufficient cpu").unwrap();
        // While they are being told: later there is nothing to wait for.
        stage.neighbour_is_told().unwrap();
    })
    .holds(Stage::neighbour_is_told),
    case("overbooking", "two bound pods of 2^63-1 and 2^63-1-64Gi bytes, then 16 pods of 8Gi", |stage| {
        stage.make_nodes(&[NodeSpec::new("hostile-wrap", "zone-0", "64", "64Gi")]);
        for (name, bytes) in [("first", i64::MAX), ("second", i64::MAX - (64 << 30))] {
            let mut pod = on_node(name, "hostile-wrap");
            pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!(bytes.to_string());
            stage.send(&pod);
        }
        stage.send_many(16, |i| {
            let mut pod = tolerant(plain(&format!("p{i}")));
            pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "hostile-wrap"});
            pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!("8Gi");
            pod
        });
    })
    .holds(|stage| match stage.bound() {
        2 => Ok(()),
        placed => Err(format!("{} pods placed beside more than the node has", placed - 2)),
    })
    .short(),
    case("static", "a low pod that calls itself static, and a high one that needs its node", |stage| {
        stage.make_nodes(&[NodeSpec::new("hostile-static", "zone-0", "4", "32Gi")]);
        let on = |name: &str, priority: &str| {
            let mut pod = tolerant(plain(name));
            pod["spec"]["priorityClassName"] = json!(priority);
            pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "hostile-static"});
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("4");
            pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
            pod
        };
        let mut low = on("low", "hostile-low");
        low["metadata"]["annotations"]["kubernetes.io/config.source"] = json!("file");
        stage.send(&low);
        assert!(stage.is_bound_soon("low"));
        stage.send(&on("high", "hostile-high"));
    })
    .holds(|stage| stage.is_bound_soon("high").then_some(()).ok_or("the high pod waits".to_owned())),
    case("limits", "one pending pod, 3,000 host ports", |stage| {
        let mut pod = plain("ports");
        pod["spec"]["containers"][0]["ports"] =
            (1..=3_000).map(|i| json!({"containerPort": i, "hostPort": i, "protocol": "TCP"})).collect();
        stage.send(&pod);
    })
    .holds(|stage| stage.says_soon("ports", "ports")),
    case("limits", "one pending pod, 2,000 volumes", |stage| {
        let mut pod = plain("volumes");
        pod["spec"]["volumes"] = (0..2_000).map(|i| json!({"name": format!("v{i}"), "emptyDir": {}})).collect();
        stage.send(&pod);
    })
    .holds(|stage| stage.says_soon("volumes", "volumes")),
    case("limits", "one pending pod, 2,000 containers", |stage| {
        let mut pod = plain("containers");
        pod["spec"]["containers"] =
            (0..2_000).map(|i| json!({"name": format!("c{i}"), "image": "registry.k8s.io/pause:3.10"})).collect();
        stage.send(&pod);
    })
    .holds(|stage| stage.says_soon("containers", "containers")),
    case("preemption", "300 high pods that nothing can make room for, beside 200 low ones", |stage| {
        stage.send_many(200, |i| {
            let mut pod = plain(&format!("low{i}"));
            pod["spec"]["priorityClassName"] = json!("hostile-low");
            pod
        });
        stage.send_many(300, |i| {
            let mut pod = impossible(&format!("high{i}"));
            pod["spec"]["priorityClassName"] = json!("hostile-high");
            pod
        });
    }),
    case("churn", "a node's labels and taints change 100 times", |stage| {
        stage.make_nodes(&[NodeSpec::new("hostile-flaps", "zone-0", "8", "32Gi")]);
        for round in 0..100 {
            let labels = json!({"metadata": {"labels": {format!("flap-{round}"): "x"}}});
            stage.plane.api.patch("/api/v1/nodes/hostile-flaps", Patch::Merge, &labels).unwrap();
        }
    }),
    case("churn", "500 nodes come and go", |stage| {
        let nodes: Vec<_> = (0..500).map(|i| NodeSpec::new(&format!("hostile-{i}"), "zone-0", "8", "32Gi")).collect();
        stage.make_nodes(&nodes);
        let marked = "/api/v1/nodes?labelSelector=made-by%3Dhostile";
        stage.plane.api.delete(marked, None).unwrap();
    }),
];

/// Whether the status of the neighbour's profile is written once the operator has found that nobody serves the pod's name.
fn status_is_written(stage: &Stage) -> Result<(), String> {
    let found = stage.plane.wait_for("the pod to be found", LATER, || {
        let found = events(&stage.plane.api, HOSTILE, "NoSuchScheduler");
        Ok(found.iter().any(|event| event["regarding"]["name"] == "long").then_some(()))
    });
    found.map_err(|_| "nobody says that the pod waits in vain".to_owned())?;
    for preset in ["BinPack", "Default"] {
        change_profile(&stage.plane, NEIGHBOUR, &json!({"preset": preset}));
    }
    let written = stage.plane.wait_for("the neighbour's status", SOON, || {
        let profile = stage.plane.api.get(&format!("{PROFILES}/{NEIGHBOUR}"))?;
        Ok((profile["status"]["observedGeneration"] == profile["metadata"]["generation"]).then_some(()))
    });
    written.map_err(|_| "the status of the neighbour's profile is not written any more".to_owned())
}

/// A pending pod with `count` spread constraints on keys of its own.
fn spread(name: &str, count: usize, when: &str) -> Value {
    let mut pod = plain(name);
    let constraint = |i| {
        json!({
            "maxSkew": 1,
            "topologyKey": format!("{name}-{i}"),
            "whenUnsatisfiable": when,
            "labelSelector": {},
        })
    };
    pod["spec"]["topologySpreadConstraints"] = (0..count).map(constraint).collect();
    pod
}

/// Node affinity to one of `count` values. Many have one digit each: the store takes no object of more than 1.5 MiB.
fn among(key: &str, count: usize) -> Value {
    let most = if count > 10_000 { 16 } else { count };
    let values: Vec<String> = (0..count).map(|i| format!("{:x}", i % most)).collect();
    let terms = json!([{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]);
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

/// The pod with `count` terms of anti-affinity to every pod of the cluster, on keys that no node has.
fn repelling(mut pod: Value, count: usize, key: &str) -> Value {
    let term = |i| json!({"labelSelector": {}, "namespaceSelector": {}, "topologyKey": format!("{key}{i}")});
    pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        (0..count).map(term).collect();
    pod
}

/// The pod with `count` terms that differ in their labels.
fn labelled_terms(mut pod: Value, count: usize) -> Value {
    let term = |i: usize| {
        let mut labels = serde_json::Map::new();
        for bit in 0..12 {
            let mut value = String::new();
            write!(value, "v{}", (i >> bit) & 1).unwrap();
            labels.insert(format!("l{bit}"), json!(value));
        }
        json!({"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"})
    };
    pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        (0..count).map(term).collect();
    pod
}

/// A pod that fits nowhere.
fn impossible(name: &str) -> Value {
    let mut pod = plain(name);
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1000");
    pod
}

/// The pod with a toleration of the taint on the attacker's nodes.
fn tolerant(mut pod: Value) -> Value {
    pod["spec"]["tolerations"] = json!([{"key": HOSTILE, "operator": "Exists"}]);
    pod
}
