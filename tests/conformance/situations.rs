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

/// A cluster in short: nodes of three processors with their pods, `node pod:priority:cpu[:second of its start] … | node … | cpu of the
/// pod that waits`, whose priority is 100. Pods have their name's first letter as the label `app`, nodes that of theirs as `zone`.
fn cluster(text: &str) -> Vec<Value> {
    let mut parts: Vec<&str> = text.split('|').map(str::trim).collect();
    let waits = parts.pop().unwrap();
    let mut objects = Vec::new();
    for part in parts {
        let mut words = part.split(' ');
        let name = words.next().unwrap();
        objects.push(json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name, "zone": &name[..1]}},
            "status": {"allocatable": {"cpu": "3", "memory": "8Gi", "pods": "20"}}}));
        objects.extend(words.map(|word| {
            let fields: Vec<&str> = word.split(':').collect();
            let second = fields.get(3).unwrap_or(&"5");
            let more =
                json!({"spec": {"nodeName": name}, "status": {"startTime": format!("2026-01-01T00:00:0{second}Z")}});
            pod(fields[0], fields[1].parse().unwrap(), fields[2], more)
        }));
    }
    objects.push(pod("waits", 100, waits, json!({})));
    objects
}

fn pod(name: &str, priority: i64, cpu: &str, more: Value) -> Value {
    let base = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {"app": &name[..1]}},
        "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
    merged(base, more)
}

fn with(mut objects: Vec<Value>, more: impl IntoIterator<Item = Value>) -> Vec<Value> {
    objects.extend(more);
    objects
}

/// With fields of the object `name` put in.
fn changed(mut objects: Vec<Value>, name: &str, over: &Value) -> Vec<Value> {
    for object in objects.iter_mut().filter(|object| object["metadata"]["name"] == name) {
        *object = merged(object.take(), over.clone());
    }
    objects
}

fn budget(app: &str, allowed: i32, disrupted: &[&str]) -> Value {
    let disrupted: serde_json::Map<String, Value> =
        disrupted.iter().map(|name| ((*name).to_owned(), json!("2026-01-01T00:00:00Z"))).collect();
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": format!("of-{app}"), "namespace": "default", "uid": format!("budget-{app}")},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": disrupted}})
}

fn situations() -> Vec<Situation> {
    let lists = [ends(), victims(), constraints(), spreads(), budgets(), choices(), nominations(), claims()];
    lists.into_iter().flatten().collect()
}

/// When it helps, when it does not, and what is said then.
fn ends() -> Vec<Situation> {
    let never = json!({"spec": {"preemptionPolicy": "Never"}});
    let picky = json!({"spec": {"nodeSelector": {"zone": "b"}}});
    let named = json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]}}}}});
    let cordoned = json!({"spec": {"unschedulable": true}});
    let off = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}}]});
    let helps = "a: l -> a by only one";
    let only_b = "b: m -> b by only one";
    let low = "preemption: 0/2 nodes are available: 2 Insufficient cpu.";
    let none = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    let mixed =
        "preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod.";
    let gone = "preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 Insufficient cpu.";
    let nowhere = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    let full = || cluster("a l:1:1 h:200:2 | b m:1:1 i:200:2 | 2");
    vec![
        ("a pod of higher priority can be placed", cluster("a l:1:3 | 1"), helps),
        ("equal priority", cluster("a l:100:3 | 1"), none),
        ("nodes refused for good", changed(cluster("a l:1:3 | b m:2:3 | 3"), "waits", &picky), only_b),
        ("nodes that PreFilter leaves out", changed(cluster("a l:1:3 | b m:2:3 | 3"), "waits", &named), only_b),
        ("not enough room after all that may go", full(), low),
        ("mixed reasons", cluster("a h:200:3 | b m:1:1 i:200:2 | 2"), mixed),
        ("mixed, and refused for good", changed(with(full(), cluster("c | 1").drain(..1)), "c", &cordoned), gone),
        ("every node refused for good", cluster("a l:1:3 | b m:1:3 | 4"), nowhere),
        ("it fits without", cluster("a l:1:3 | b | 1"), "nothing: 1 feasible"),
        (
            "policy Never",
            changed(cluster("a l:1:3 | 1"), "waits", &never),
            "preemption: not eligible due to preemptionPolicy=Never.",
        ),
        ("the plugin is off", with(cluster("a l:1:3 | 1"), [off]), "nothing: 0 feasible"),
    ]
}

/// Who goes.
fn victims() -> Vec<Situation> {
    let nameless = json!({"spec": {"priority": null}});
    let unstarted = json!({"status": {"startTime": null}});
    let ending = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}});
    let low_stays = cluster("a l:1:500m m:50:2500m | b h:99:3 | 2500m");
    vec![
        ("on both nodes", cluster("a l:1:3 | b m:1:3 | 1"), "a: l, b: m -> a or b by a tie"),
        ("a low one stays as it is small", low_stays, "a: m, b: h -> a by lowest top priority"),
        ("mixed priorities", cluster("a p:50:1 q:1:500m r:1:500m s:200:1 | 1"), "a: q r -> a by only one"),
        ("of equals the newest", cluster("a new:1:1500m:7 old:1:1500m:3 | 1"), "a: new -> a by only one"),
        (
            "one not started is newest",
            changed(cluster("a new:1:1500m old:1:1500m | 1"), "new", &unstarted),
            "a: new -> a by only one",
        ),
        ("no priority is 0", changed(cluster("a n:0:3 | 1"), "n", &nameless), "a: n -> a by only one"),
        ("victims on their way out", changed(cluster("a l:1:3 | 1"), "l", &ending), "a: l -> a by only one"),
    ]
}

fn apart_from(app: &str) -> Value {
    json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}]}}}})
}

/// What else than room they take.
fn constraints() -> Vec<Situation> {
    let near = json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "l"}}}]}}}});
    let port = json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}});
    let ports =
        ["l", "m", "waits"].iter().fold(cluster("a l:1:1 | b m:2:1 | 1"), |all, name| changed(all, name, &port));
    let kept = "preemption: 0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.";
    let lost = "preemption: 0/1 nodes are available: 1 node(s) didn't match pod affinity rules.";
    let two = || cluster("a l:1:1 m:2:1 | 1");
    vec![
        ("a pod with anti-affinity goes", changed(two(), "l", &apart_from("w")), "a: l -> a by only one"),
        ("the pod's own anti-affinity", changed(two(), "waits", &apart_from("m")), "a: m -> a by only one"),
        (
            "to another node of the zone",
            changed(cluster("a1 l:1:1 | a2 m:2:1 | 1"), "waits", &apart_from("m")),
            "a2: m -> a2 by only one",
        ),
        ("to a pod that matters more", changed(cluster("a l:1:1 h:200:1 | 1"), "waits", &apart_from("h")), kept),
        ("affinity to the only victim", changed(cluster("a l:1:3 | 1"), "waits", &near), lost),
        ("a port", ports, "a: l, b: m -> a by lowest top priority"),
    ]
}

fn spreads() -> Vec<Situation> {
    let spread = json!({"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "w"}}}]}});
    vec![
        ("spread", changed(cluster("a w1:1:1 w2:2:1 | b h:200:3 | 1"), "waits", &spread), "a: w2 w1 -> a by only one"),
        (
            "spread, one pod less",
            changed(cluster("a w1:1:1 w2:2:1 | b w3:200:3 | 1"), "waits", &spread),
            "a: w1 -> a by only one",
        ),
    ]
}

/// What budgets change.
fn budgets() -> Vec<Situation> {
    let one = || cluster("a x1:1:3 | 3");
    let nobody = merged(budget("x", 0, &[]), json!({"spec": {"selector": {"matchLabels": null}}}));
    let elsewhere = merged(budget("x", 0, &[]), json!({"metadata": {"namespace": "other"}}));
    let fewer = with(cluster("a x1:1:1 x2:1:2 | b y1:2:3 | 3"), [budget("x", 0, &[]), budget("y", 0, &[])]);
    vec![
        (
            "violations of one budget",
            with(cluster("a x1:1:1 x2:2:1 x3:3:1 | 3"), [budget("x", 1, &[])]),
            "a: x3 x2 x1!! -> a by only one",
        ),
        ("another eviction is granted", with(one(), [budget("x", 0, &["other"])]), "a: x1! -> a by only one"),
        ("the victim's eviction is granted", with(one(), [budget("x", 0, &["x1"])]), "a: x1 -> a by only one"),
        (
            "one of two is granted",
            with(cluster("a x1:1:1500m x2:1:1500m | 3"), [budget("x", 0, &["x1"])]),
            "a: x1 x2! -> a by only one",
        ),
        (
            "one of higher priority goes first",
            with(cluster("a x1:1:1500m y1:2:1500m | 1"), [budget("x", 0, &[])]),
            "a: y1 -> a by only one",
        ),
        (
            "no violations is better",
            with(cluster("a x:1:3 | b y:2:3 | 1"), [budget("x", 0, &[])]),
            "a: x!, b: y -> b by fewest violations",
        ),
        ("fewer violations are better", fewer, "a: x1 x2!!, b: y1! -> b by fewest violations"),
        ("an empty selector counts for nobody", with(one(), [nobody]), "a: x1 -> a by only one"),
        ("a budget of another namespace", with(one(), [elsewhere]), "a: x1 -> a by only one"),
    ]
}

/// Which node.
fn choices() -> Vec<Situation> {
    let fewest = cluster("a l:-2147483648:1 m:50:2 | b o:50:3 | 3");
    vec![
        (
            "lowest top priority",
            cluster("a l:1:1 m:50:2 | b n:1:1 o:2:2 | 3"),
            "a: m l, b: o n -> b by lowest top priority",
        ),
        ("lowest sum", cluster("a l:1:1 m:50:2 | b n:2:1 o:50:2 | 3"), "a: m l, b: o n -> a by lowest sum"),
        ("fewest victims", fewest, "a: m l, b: o -> b by fewest victims"),
        ("sums are made positive", cluster("a l:-10:1 m:-10:2 | b o:-10:3 | 3"), "a: l m, b: o -> b by lowest sum"),
        ("latest start", cluster("a l:1:3:3 | b m:1:3:4 | 3"), "a: l, b: m -> b by latest start"),
        (
            "of each node the earliest",
            cluster("a l:1:1:1 m:1:2:9 | b n:1:1:4 o:1:2:5 | 3"),
            "a: l m, b: n o -> b by latest start",
        ),
        (
            "of the highest priority alone",
            cluster("a l:1:1:1 m:50:2:9 | b n:1:1:4 o:50:2:5 | 3"),
            "a: m l, b: o n -> a by latest start",
        ),
        ("a tie", cluster("a l:1:3 | b m:1:3 | c n:2:3 | 3"), "a: l, b: m, c: n -> a or b by a tie"),
    ]
}

/// What nominations change.
fn nominations() -> Vec<Situation> {
    let to_a = json!({"status": {"nominatedNodeName": "a"}});
    let nominated = |priority: i64| pod("nominated", priority, "2", to_a.clone());
    let full = |priority: i64, status: &str, reason: &str| {
        let ending = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30},
            "status": {"conditions": [{"type": "DisruptionTarget", "status": status, "reason": reason}]}});
        let objects = changed(cluster(&format!("a l:{priority}:3 | b m:1:3 | 1")), "waits", &to_a);
        changed(objects, "l", &ending)
    };
    let (ours, theirs) = ("PreemptionByScheduler", "EvictionByEvictionAPI");
    let waits = "preemption: not eligible due to a terminating pod on the nominated node.";
    let again = "a: l, b: m -> a or b by a tie";
    let low = "preemption: 0/1 nodes are available: 1 Insufficient cpu.";
    vec![
        ("victims are on their way out", full(1, "True", ours), waits),
        ("on its way out for another reason", full(1, "True", theirs), again),
        ("the condition is not true", full(1, "False", ours), again),
        ("who is on the way out matters more", full(200, "True", ours), "b: m -> b by only one"),
        ("the nominated node is gone", changed(cluster("b m:1:3 | 1"), "waits", &to_a), "b: m -> b by only one"),
        ("a nominated pod of higher priority", with(cluster("a l:1:1 | 2"), [nominated(200)]), low),
        ("a nominated pod of equal priority", with(cluster("a l:1:2 | 1"), [nominated(100)]), "a: l -> a by only one"),
        ("a nominated pod of lower priority", with(cluster("a l:1:2 | 1"), [nominated(50)]), "nothing: 1 feasible"),
    ]
}

/// ReadWriteOncePod claims.
fn claims() -> Vec<Situation> {
    let both = ["one", "two"].into_iter().flat_map(|name| {
        let uid = format!("pvc-{name}");
        [
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "uid": format!("pv-{name}")},
                "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod"], "hostPath": {"path": "/x"},
                    "claimRef": {"namespace": "default", "name": name, "uid": uid}}, "status": {"phase": "Bound"}}),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default",
                    "uid": uid, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": name, "storageClassName": "",
                    "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Bound"}}),
        ]
    });
    let both: Vec<Value> = both.collect();
    let using = |text: &str, users: &[(&str, &[&str])]| {
        users.iter().fold(with(cluster(text), both.clone()), |all, (pod, names)| {
            let volume = |name: &&str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
            changed(all, pod, &json!({"spec": {"volumes": names.iter().map(volume).collect::<Value>()}}))
        })
    };
    let apart = "preemption: 0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with \
                 ReadWriteOncePod access mode already in-use by another pod.";
    let (one, two, all): (&[&str], &[&str], &[&str]) = (&["one"], &["two"], &["one", "two"]);
    vec![
        ("one pod has the claim", using("a l:1:1 m:1:1 | 1", &[("l", one), ("waits", one)]), "a: l -> a by only one"),
        (
            "two pods have one each",
            using("a l:1:1 m:1:1 | 1", &[("l", one), ("m", two), ("waits", all)]),
            "a: l m -> a by only one",
        ),
        ("one pod has both", using("a l:1:1 | 1", &[("l", all), ("waits", all)]), "a: l -> a by only one"),
        ("pods on two nodes", using("a l:1:1 | b m:1:1 | 1", &[("l", one), ("m", two), ("waits", all)]), apart),
    ]
}
