//! Small clusters for what upstream's own tests of preemption are about, each with what it comes to.
//!
//! The generator reaches them too, in clusters where more goes on; here each stands alone, and can be read.

use super::answer::Answer;
use super::cluster::Drawn;
use super::compare::{Outcome, compare};
use super::engine;
use super::oracle::Oracle;
use super::preemption::Preemption;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// What upstream's tests call it, a cluster, and what comes of the pod `waits`.
type Situation = (&'static str, Vec<Value>, &'static str);

#[test]
fn what_upstreams_tests_are_about_is_as_upstream_has_it() {
    let mut oracle = Oracle::start();
    let mut wrong = String::new();
    for (name, objects, wanted) in situations() {
        let (config, objects) = objects.into_iter().partition(|o| o["kind"] == "KubeSchedulerConfiguration");
        let drawn = Drawn { seed: 0, objects, config: Vec::into_iter(config).next() };
        let upstream = oracle.ask(&drawn);
        let said = said(&upstream);
        if said != wanted {
            let _ = writeln!(wrong, "{name}:\n  upstream {said}\n  expected {wanted}");
        }
        for outcome in compare(&upstream, &engine::ask(&drawn)) {
            if let Outcome::Differs(difference) = outcome {
                let _ = writeln!(wrong, "{name}: pod {}\n{}", difference.pod, difference.text);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The answer about `waits` in a line.
fn said(answer: &Answer) -> String {
    let Some(pod) = answer.pods.iter().find(|pod| pod.name == "waits") else { return format!("no answer: {answer:?}") };
    let Some(Preemption { message, candidates, detail, .. }) = &pod.preemption else {
        return format!("nothing: {} feasible", pod.feasible);
    };
    if let Some(message) = message {
        return message.clone();
    }
    let mut parts = Vec::new();
    for candidate in candidates {
        let victims: Vec<&str> = candidate.victims.iter().map(|v| v.trim_start_matches("default/")).collect();
        let violations = if candidate.budget_violations > 0 {
            "!".repeat(candidate.budget_violations as usize)
        } else {
            String::new()
        };
        parts.push(format!("{}: {}{violations}", candidate.node, victims.join(" ")));
    }
    format!("{} -> {} by {}", parts.join(", "), detail.best.join(" or "), detail.decided)
}

/// `base` with the fields of `over` put in, objects merged.
fn merged(mut base: Value, over: Value) -> Value {
    match (&mut base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                let old = base.remove(&key).unwrap_or(Value::Null);
                base.insert(key, merged(old, value));
            }
        }
        (base, over) => *base = over,
    }
    base
}

fn node(name: &str, more: Value) -> Value {
    let base = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name, "zone": &name[..1]}},
        "status": {"allocatable": {"cpu": "3", "memory": "8Gi", "pods": "20"}}});
    merged(base, more)
}

fn nodes(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| node(name, json!({}))).collect()
}

fn pod(name: &str, priority: i64, cpu: &str, more: Value) -> Value {
    let base = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {"app": name}},
        "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"startTime": "2026-01-01T00:00:05Z"}});
    merged(base, more)
}

fn on(node: &str, name: &str, priority: i64, cpu: &str) -> Value {
    pod(name, priority, cpu, json!({"spec": {"nodeName": node}}))
}

/// One that was started at this second.
fn since(second: u32, placed: Value) -> Value {
    merged(placed, json!({"status": {"startTime": format!("2026-01-01T00:00:{second:02}Z")}}))
}

fn labelled(app: &str, placed: Value) -> Value {
    merged(placed, json!({"metadata": {"labels": {"app": app}}}))
}

fn waits(cpu: &str) -> Value {
    pod("waits", 100, cpu, json!({"status": {"startTime": null}}))
}

fn budget(app: &str, allowed: i32, disrupted: &[&str]) -> Value {
    let disrupted: serde_json::Map<String, Value> =
        disrupted.iter().map(|name| ((*name).to_owned(), json!("2026-01-01T00:00:00Z"))).collect();
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": format!("of-{app}"), "namespace": "default", "uid": format!("budget-{app}")},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": disrupted}})
}

fn all(parts: impl IntoIterator<Item = Vec<Value>>) -> Vec<Value> {
    parts.into_iter().flatten().collect()
}

const LOWEST: i64 = i32::MIN as i64;
const ALREADY: &str = "preemption: not eligible due to a terminating pod on the nominated node.";

fn situations() -> Vec<Situation> {
    let lists = [ends(), victims(), constraints(), budgets(), choices(), nominations(), claims()];
    lists.into_iter().flatten().collect()
}

/// When it helps, when it does not, and what is said then.
fn ends() -> Vec<Situation> {
    let never = merged(waits("1"), json!({"spec": {"preemptionPolicy": "Never"}}));
    let picky = merged(waits("3"), json!({"spec": {"nodeSelector": {"zone": "b"}}}));
    let one_name = json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]}}}}});
    let off = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}}]});
    vec![
        (
            "a pod of higher priority can be placed",
            all([nodes(&["a"]), vec![on("a", "l", 1, "3"), waits("1")]]),
            "a: l -> a by only one",
        ),
        (
            "equal priority",
            all([nodes(&["a"]), vec![on("a", "l", 100, "3"), waits("1")]]),
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        ),
        (
            "nodes refused for good are left alone",
            all([nodes(&["a", "b"]), vec![on("a", "l", 1, "3"), on("b", "m", 2, "3"), picky]]),
            "b: m -> b by only one",
        ),
        (
            "nodes that PreFilter leaves out are left alone",
            all([nodes(&["a", "b"]), vec![on("a", "l", 1, "3"), on("b", "m", 2, "3"), merged(waits("3"), one_name)]]),
            "b: m -> b by only one",
        ),
        (
            "not enough room after all that may go",
            all([
                nodes(&["a", "b"]),
                vec![
                    on("a", "l", 1, "1"),
                    on("a", "h", 200, "2"),
                    on("b", "m", 1, "1"),
                    on("b", "i", 200, "2"),
                    waits("2"),
                ],
            ]),
            "preemption: 0/2 nodes are available: 2 Insufficient cpu.",
        ),
        (
            "mixed reasons",
            all([
                nodes(&["a", "b"]),
                vec![on("a", "h", 200, "3"), on("b", "m", 1, "1"), on("b", "i", 200, "2"), waits("2")],
            ]),
            "preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod.",
        ),
        (
            "mixed reasons, and nodes refused for good",
            all([
                nodes(&["a", "b"]),
                vec![
                    node("c", json!({"spec": {"unschedulable": true}})),
                    on("a", "l", 1, "1"),
                    on("a", "h", 200, "2"),
                    on("b", "m", 1, "1"),
                    on("b", "i", 200, "2"),
                    waits("2"),
                ],
            ]),
            "preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 Insufficient cpu.",
        ),
        (
            "every node refused for good",
            all([nodes(&["a", "b"]), vec![on("a", "l", 1, "3"), on("b", "m", 1, "3"), waits("4")]]),
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        ),
        ("it fits without", all([nodes(&["a", "b"]), vec![on("a", "l", 1, "3"), waits("1")]]), "nothing: 1 feasible"),
        (
            "policy Never",
            all([nodes(&["a"]), vec![on("a", "l", 1, "3"), never]]),
            "preemption: not eligible due to preemptionPolicy=Never.",
        ),
        ("the plugin is off", all([nodes(&["a"]), vec![on("a", "l", 1, "3"), waits("1"), off]]), "nothing: 0 feasible"),
    ]
}

/// Who goes.
fn victims() -> Vec<Situation> {
    let nameless = pod("n", 0, "3", json!({"spec": {"nodeName": "a", "priority": null}}));
    vec![
        (
            "on both nodes",
            all([nodes(&["a", "b"]), vec![on("a", "l", 1, "3"), on("b", "m", 1, "3"), waits("1")]]),
            "a: l, b: m -> a or b by a tie",
        ),
        (
            "the medium goes, the low one stays as it is small",
            all([
                nodes(&["a", "b"]),
                vec![on("a", "l", 1, "500m"), on("a", "m", 50, "2500m"), on("b", "h", 99, "3"), waits("2500m")],
            ]),
            "a: m, b: h -> a by lowest top priority",
        ),
        (
            "mixed priorities",
            all([
                nodes(&["a"]),
                vec![
                    on("a", "a1", 50, "1"),
                    on("a", "a2", 1, "500m"),
                    on("a", "a3", 1, "500m"),
                    on("a", "a4", 200, "1"),
                    waits("1"),
                ],
            ]),
            "a: a2 a3 -> a by only one",
        ),
        (
            "of equal priority the one that started last",
            all([
                nodes(&["a"]),
                vec![since(7, on("a", "new", 1, "1500m")), since(3, on("a", "old", 1, "1500m")), waits("1")],
            ]),
            "a: new -> a by only one",
        ),
        (
            "one that has not started is the newest",
            all([
                nodes(&["a"]),
                vec![
                    since(3, on("a", "old", 1, "1500m")),
                    merged(on("a", "new", 1, "1500m"), json!({"status": {"startTime": null}})),
                    waits("1"),
                ],
            ]),
            "a: new -> a by only one",
        ),
        ("no priority is 0", all([nodes(&["a"]), vec![nameless, waits("1")]]), "a: n -> a by only one"),
        (
            "victims on their way out are victims",
            all([
                nodes(&["a"]),
                vec![
                    merged(
                        on("a", "l", 1, "3"),
                        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}}),
                    ),
                    waits("1"),
                ],
            ]),
            "a: l -> a by only one",
        ),
    ]
}

/// What else than room they take.
fn constraints() -> Vec<Situation> {
    let anti = |app: &str, key: &str| {
        json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]}}}})
    };
    let to = |app: &str| {
        json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}]}}}})
    };
    let spread = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"topologySpreadConstraints":
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "x"}}}]}});
    let port = json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}});
    vec![
        (
            "a pod with anti-affinity goes",
            all([
                nodes(&["a"]),
                vec![merged(on("a", "l", 1, "1"), anti("waits", "zone")), on("a", "m", 2, "1"), waits("1")],
            ]),
            "a: l -> a by only one",
        ),
        (
            "the pod's own anti-affinity",
            all([
                nodes(&["a"]),
                vec![on("a", "l", 1, "1"), on("a", "m", 2, "1"), merged(waits("1"), anti("m", "zone"))],
            ]),
            "a: m -> a by only one",
        ),
        (
            "anti-affinity to another node of the zone",
            all([
                nodes(&["a1", "a2"]),
                vec![on("a1", "l", 1, "1"), on("a2", "m", 2, "1"), merged(waits("1"), anti("m", "zone"))],
            ]),
            "a2: m -> a2 by only one",
        ),
        (
            "anti-affinity that is kept by a pod that matters more",
            all([
                nodes(&["a"]),
                vec![on("a", "l", 1, "1"), on("a", "h", 200, "1"), merged(waits("1"), anti("h", "zone"))],
            ]),
            "preemption: 0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.",
        ),
        (
            "affinity to the only victim",
            all([nodes(&["a"]), vec![on("a", "l", 1, "3"), merged(waits("1"), to("l"))]]),
            "preemption: 0/1 nodes are available: 1 node(s) didn't match pod affinity rules.",
        ),
        (
            "spread",
            all([
                nodes(&["a", "b"]),
                vec![
                    labelled("x", on("a", "l", 1, "1")),
                    labelled("x", on("a", "m", 2, "1")),
                    on("b", "h", 200, "3"),
                    merged(waits("1"), spread.clone()),
                ],
            ]),
            "a: m l -> a by only one",
        ),
        (
            "spread that one pod less solves",
            all([
                nodes(&["a", "b"]),
                vec![
                    labelled("x", on("a", "l", 1, "1")),
                    labelled("x", on("a", "m", 2, "1")),
                    labelled("x", on("b", "h", 200, "3")),
                    merged(waits("1"), spread),
                ],
            ]),
            "a: l -> a by only one",
        ),
        (
            "a port",
            all([
                nodes(&["a", "b"]),
                vec![
                    merged(on("a", "l", 1, "1"), port.clone()),
                    merged(on("b", "m", 2, "1"), port.clone()),
                    merged(waits("1"), port),
                ],
            ]),
            "a: l, b: m -> a by lowest top priority",
        ),
    ]
}

/// What budgets change.
fn budgets() -> Vec<Situation> {
    let two = |x: i64, y: i64| vec![labelled("x", on("a", "x1", x, "1500m")), labelled("y", on("a", "y1", y, "1500m"))];
    vec![
        (
            "violations of one budget",
            all([
                nodes(&["a"]),
                vec![
                    labelled("x", on("a", "x1", 1, "1")),
                    labelled("x", on("a", "x2", 2, "1")),
                    labelled("x", on("a", "x3", 3, "1")),
                    waits("3"),
                    budget("x", 1, &[]),
                ],
            ]),
            "a: x3 x2 x1!! -> a by only one",
        ),
        (
            "a pod whose eviction is granted, not a victim",
            all([nodes(&["a"]), vec![labelled("x", on("a", "x1", 1, "3")), waits("3"), budget("x", 0, &["other"])]]),
            "a: x1! -> a by only one",
        ),
        (
            "a pod whose eviction is granted, a victim",
            all([nodes(&["a"]), vec![labelled("x", on("a", "x1", 1, "3")), waits("3"), budget("x", 0, &["x1"])]]),
            "a: x1 -> a by only one",
        ),
        (
            "one granted, the other not",
            all([
                nodes(&["a"]),
                vec![
                    labelled("x", on("a", "x1", 1, "1500m")),
                    labelled("x", on("a", "x2", 1, "1500m")),
                    waits("3"),
                    budget("x", 0, &["x1"]),
                ],
            ]),
            "a: x1 x2! -> a by only one",
        ),
        (
            "a pod of higher priority goes before one with a budget",
            all([nodes(&["a"]), two(1, 2), vec![waits("1"), budget("x", 0, &[])]]),
            "a: y1 -> a by only one",
        ),
        (
            "a node without violations is better",
            all([
                nodes(&["a", "b"]),
                vec![on("a", "x", 1, "3"), on("b", "y", 2, "3"), waits("1"), budget("x", 0, &[])],
            ]),
            "a: x!, b: y -> b by fewest violations",
        ),
        (
            "a node with fewer violations is better",
            all([
                nodes(&["a", "b"]),
                vec![
                    labelled("x", on("a", "x1", 1, "1")),
                    labelled("x", on("a", "x2", 1, "2")),
                    labelled("y", on("b", "y1", 2, "3")),
                    waits("3"),
                    budget("x", 0, &[]),
                    budget("y", 0, &[]),
                ],
            ]),
            "a: x1 x2!!, b: y1! -> b by fewest violations",
        ),
        (
            "an empty selector counts for nobody",
            all([
                nodes(&["a"]),
                vec![
                    on("a", "x", 1, "3"),
                    waits("1"),
                    merged(budget("x", 0, &[]), json!({"spec": {"selector": {"matchLabels": null}}})),
                ],
            ]),
            "a: x -> a by only one",
        ),
        (
            "a budget of another namespace",
            all([
                nodes(&["a"]),
                vec![
                    on("a", "x", 1, "3"),
                    waits("1"),
                    merged(budget("x", 0, &[]), json!({"metadata": {"namespace": "other"}})),
                ],
            ]),
            "a: x -> a by only one",
        ),
    ]
}

/// Which node.
fn choices() -> Vec<Situation> {
    vec![
        (
            "lowest top priority",
            all([
                nodes(&["a", "b"]),
                vec![
                    on("a", "l", 1, "1"),
                    on("a", "m", 50, "2"),
                    on("b", "n", 1, "1"),
                    on("b", "o", 2, "2"),
                    waits("3"),
                ],
            ]),
            "a: m l, b: o n -> b by lowest top priority",
        ),
        (
            "lowest sum",
            all([
                nodes(&["a", "b"]),
                vec![
                    on("a", "l", 1, "1"),
                    on("a", "m", 50, "2"),
                    on("b", "n", 2, "1"),
                    on("b", "o", 50, "2"),
                    waits("3"),
                ],
            ]),
            "a: m l, b: o n -> a by lowest sum",
        ),
        (
            "fewest victims",
            all([
                nodes(&["a", "b"]),
                vec![on("a", "l", LOWEST, "1"), on("a", "m", 50, "2"), on("b", "o", 50, "3"), waits("3")],
            ]),
            "a: m l, b: o -> b by fewest victims",
        ),
        (
            "the sum is of priorities made positive",
            all([
                nodes(&["a", "b"]),
                vec![on("a", "l", -10, "1"), on("a", "m", -10, "2"), on("b", "o", -10, "3"), waits("3")],
            ]),
            "a: l m, b: o -> b by lowest sum",
        ),
        (
            "latest start",
            all([nodes(&["a", "b"]), vec![since(3, on("a", "l", 1, "3")), since(4, on("b", "m", 1, "3")), waits("3")]]),
            "a: l, b: m -> b by latest start",
        ),
        (
            "the earliest start of each node counts",
            all([
                nodes(&["a", "b"]),
                vec![
                    since(1, on("a", "l", 1, "1")),
                    since(9, on("a", "m", 1, "2")),
                    since(4, on("b", "n", 1, "1")),
                    since(5, on("b", "o", 1, "2")),
                    waits("3"),
                ],
            ]),
            "a: l m, b: n o -> b by latest start",
        ),
        (
            "only starts of the highest priority count",
            all([
                nodes(&["a", "b"]),
                vec![
                    since(1, on("a", "l", 1, "1")),
                    since(9, on("a", "m", 50, "2")),
                    since(4, on("b", "n", 1, "1")),
                    since(5, on("b", "o", 50, "2")),
                    waits("3"),
                ],
            ]),
            "a: m l, b: o n -> a by latest start",
        ),
        (
            "a tie",
            all([
                nodes(&["a", "b", "c"]),
                vec![on("a", "l", 1, "3"), on("b", "m", 1, "3"), on("c", "n", 2, "3"), waits("3")],
            ]),
            "a: l, b: m, c: n -> a or b by a tie",
        ),
    ]
}

/// What nominations change.
fn nominations() -> Vec<Situation> {
    let nominated = |to: &str| merged(waits("1"), json!({"status": {"nominatedNodeName": to}}));
    let promised = |priority: i64| {
        pod("promised", priority, "2", json!({"status": {"nominatedNodeName": "a", "startTime": null}}))
    };
    let ending = |condition: Value, placed: Value| {
        merged(
            placed,
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30},
        "status": {"conditions": [condition]}}),
        )
    };
    let preempted = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"});
    let evicted = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"});
    let undone = json!({"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"});
    let full = |l: Value| all([nodes(&["a", "b"]), vec![l, on("b", "m", 1, "3"), nominated("a")]]);
    vec![
        ("victims are on their way out", full(ending(preempted.clone(), on("a", "l", 1, "3"))), ALREADY),
        (
            "a pod is on its way out for another reason",
            full(ending(evicted, on("a", "l", 1, "3"))),
            "a: l, b: m -> a or b by a tie",
        ),
        ("the condition is not true", full(ending(undone, on("a", "l", 1, "3"))), "a: l, b: m -> a or b by a tie"),
        (
            "who is on the way out matters more",
            full(ending(preempted, on("a", "l", 200, "3"))),
            "b: m -> b by only one",
        ),
        (
            "the nominated node is gone",
            all([nodes(&["b"]), vec![on("b", "m", 1, "3"), nominated("a")]]),
            "b: m -> b by only one",
        ),
        (
            "a pod that matters more is promised the room",
            all([nodes(&["a"]), vec![on("a", "l", 1, "1"), promised(200), waits("2")]]),
            "preemption: 0/1 nodes are available: 1 Insufficient cpu.",
        ),
        (
            "a pod that matters as much is promised the room",
            all([nodes(&["a"]), vec![on("a", "l", 1, "2"), promised(100), waits("1")]]),
            "a: l -> a by only one",
        ),
        (
            "a pod that matters less is promised the room",
            all([nodes(&["a"]), vec![on("a", "l", 1, "2"), promised(50), waits("1")]]),
            "nothing: 1 feasible",
        ),
    ]
}

/// ReadWriteOncePod claims.
fn claims() -> Vec<Situation> {
    let claim = |name: &str| {
        vec![
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "uid": format!("pv-{name}")},
                "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod"], "hostPath": {"path": "/x"},
                    "claimRef": {"namespace": "default", "name": name, "uid": format!("pvc-{name}")}}, "status": {"phase": "Bound"}}),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": "default", "uid": format!("pvc-{name}"), "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": name, "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
                "status": {"phase": "Bound"}}),
        ]
    };
    let mounts = |placed: Value, names: &[&str]| {
        let volumes: Vec<Value> =
            names.iter().map(|n| json!({"name": n, "persistentVolumeClaim": {"claimName": n}})).collect();
        merged(placed, json!({"spec": {"volumes": volumes}}))
    };
    vec![
        (
            "one pod has the claim",
            all([
                nodes(&["a"]),
                claim("one"),
                vec![mounts(on("a", "l", 1, "1"), &["one"]), on("a", "m", 1, "1"), mounts(waits("1"), &["one"])],
            ]),
            "a: l -> a by only one",
        ),
        (
            "two pods have a claim each",
            all([
                nodes(&["a"]),
                claim("one"),
                claim("two"),
                vec![
                    mounts(on("a", "l", 1, "1"), &["one"]),
                    mounts(on("a", "m", 1, "1"), &["two"]),
                    mounts(waits("1"), &["one", "two"]),
                ],
            ]),
            "a: l m -> a by only one",
        ),
        (
            "one pod has both claims",
            all([
                nodes(&["a"]),
                claim("one"),
                claim("two"),
                vec![mounts(on("a", "l", 1, "1"), &["one", "two"]), mounts(waits("1"), &["one", "two"])],
            ]),
            "a: l -> a by only one",
        ),
        (
            "pods on two nodes have a claim each",
            all([
                nodes(&["a", "b"]),
                claim("one"),
                claim("two"),
                vec![
                    mounts(on("a", "l", 1, "1"), &["one"]),
                    mounts(on("b", "m", 1, "1"), &["two"]),
                    mounts(waits("1"), &["one", "two"]),
                ],
            ]),
            "preemption: 0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.",
        ),
    ]
}
