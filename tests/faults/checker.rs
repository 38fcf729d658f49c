//! What the API server says of the end: it alone is asked, and nothing of Berth's is used to judge it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use berth_lab::ControlPlane;
use jiff::Timestamp;
use serde_json::Value;

use crate::devices::{self, Claims};
use crate::load::{LOADED, name};
use crate::objects::{milli, milli_of, pod_path};
use crate::storage::{VOLUMES, claim_path};
use crate::volumes::{Storage, claim_in};

/// How long after the deletion of a node was asked for, or a node came back, a bind may still come that was decided before the watch showed
/// that.
pub(super) const SHOWN_WITHIN: Duration = Duration::from_secs(10);

/// How many pods a node takes.
const PODS_OF_A_NODE: usize = 110;

/// What was done to the cluster on purpose. The API server cannot say it: what is gone is not in its lists.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The numbers of the pods of the load that were made, and that the test has not deleted.
    pub(super) pods: Range<usize>,
    /// The nodes that the test has deleted for good, and when it asked for that.
    pub(super) gone: BTreeMap<String, Timestamp>,
}

/// What must not be.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Pods that were made and are not there any more. No controller that deletes pods runs, and no pod of the load may evict another:
    /// this is so whatever becomes of nodes.
    pub(super) vanished: Vec<String>,
    /// Pods of the load that have no node, and could have one.
    pub(super) waiting: usize,
    /// What one of them says of it.
    pub(super) why: Value,
    /// Nodes with more than they offer, each said with how much.
    pub(super) overbooked: Vec<String>,
    /// Rules of pods that are broken, that of being on a node that there is among them.
    pub(super) broken: Vec<String>,
}

impl Verdict {
    pub(super) fn is_clean(&self) -> bool {
        self.lost() == 0 && self.overbooked.is_empty() && self.broken.is_empty()
    }

    /// Pods of the load that are on no node and could be, or are not there at all.
    pub(super) fn lost(&self) -> usize {
        self.waiting + self.vanished.len()
    }
}

pub(super) fn judge(plane: &ControlPlane, known: &Known) -> Verdict {
    let list = |path: &str| -> Vec<Value> {
        let mut answer = plane.api.get(path).unwrap();
        serde_json::from_value(answer["items"].take()).unwrap()
    };
    let (nodes, pods) = (list("/api/v1/nodes"), list(&pod_path(LOADED, "")));
    let (volumes, claims) = (list(VOLUMES), list(&claim_path(LOADED, "")));
    let storage =
        Storage { claims: by_name(&claims), volumes: by_name(&volumes), nodes: by_name(&nodes), gone: &known.gone };
    // Later than the pods: one that is bound has its device by then.
    let device_claims = list(&devices::claim_path(""));
    judge_these(&storage, &by_name(&device_claims), &pods, known)
}

fn judge_these(storage: &Storage<'_>, device_claims: &Claims<'_>, pods: &[Value], known: &Known) -> Verdict {
    let there = by_name(pods);
    let vanished = known.pods.clone().map(name).filter(|name| !there.contains_key(&**name)).collect();
    let mut verdict = Verdict { vanished, ..Verdict::default() };
    // What a kubelet refused takes nothing of its node.
    let placed: Vec<&Value> =
        pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string() && pod["status"]["phase"] != "Failed").collect();
    let taken = storage.taken(&placed);
    let mut by_node: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for pod in placed.iter().copied() {
        by_node.entry(pod["spec"]["nodeName"].as_str().unwrap()).or_default().push(pod);
    }
    // The node's processors are nothing to those that share a device.
    let takes_more = |node: &str| {
        storage.nodes.contains_key(node) && by_node.get(node).is_none_or(|pods| pods.len() < PODS_OF_A_NODE)
    };
    for pod in pods.iter().filter(|pod| pod["spec"]["nodeName"].is_null() && pod["spec"]["schedulerName"] == LOADED) {
        // While another pod uses a claim that is for one pod, this one fits nowhere.
        let is_taken = claim_in(pod).is_some_and(|claim| taken.contains(claim));
        if !is_taken && !devices::is_away(device_claims, takes_more, pod) {
            verdict.waiting += 1;
            verdict.why = pod["status"].clone();
        }
    }
    verdict.broken = storage.broken(&placed);
    verdict.broken.extend(devices::broken(device_claims, pods));
    for (node, pods) in by_node {
        let Some(offer) = storage.nodes.get(node).map(|node| &node["status"]["allocatable"]) else {
            verdict.broken.extend(pods.iter().filter_map(|pod| nowhere(pod, node, known.gone.get(node))));
            continue;
        };
        let room = milli(offer["cpu"].as_str().unwrap());
        let taken: u64 = pods.iter().map(|pod| milli_of(pod)).sum();
        if taken > room || pods.len() > PODS_OF_A_NODE {
            verdict.overbooked.push(format!("{node}: {} pods take {taken} of {room} milli-CPU", pods.len()));
        }
        verdict.broken.extend(twice(&pods, group_of).map(|group| format!("{node}: two pods of group {group}")));
        verdict.broken.extend(twice(&pods, port_of).map(|port| format!("{node}: two pods on port {port}")));
    }
    verdict
}

/// Why the pod should not be on this node, which is not there. It may be if it was there before the node was deleted, which `gone`
/// says when: without a garbage collector of pods it stays.
fn nowhere(pod: &Value, node: &str, gone: Option<&Timestamp>) -> Option<String> {
    let name = &pod["metadata"]["name"];
    let Some(gone) = gone else { return Some(format!("pod {name} is on {node}, which is not there")) };
    let bound = bound_at(pod);
    let is_late = bound.is_none_or(|bound| bound > *gone + SHOWN_WITHIN);
    is_late.then(|| format!("pod {name} was bound to {node} at {bound:?}, which was deleted at {gone}"))
}

/// When the pod was bound, as the API server wrote it: to the second.
pub(super) fn bound_at(pod: &Value) -> Option<Timestamp> {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut scheduled = conditions.filter(|one| one["type"] == "PodScheduled" && one["status"] == "True");
    scheduled.find_map(|one| one["lastTransitionTime"].as_str()?.parse().ok())
}

fn by_name(objects: &[Value]) -> BTreeMap<&str, &Value> {
    objects.iter().filter_map(|object| Some((object["metadata"]["name"].as_str()?, object))).collect()
}

/// The values that more than one of the pods have.
fn twice<'a>(pods: &[&'a Value], of: fn(&Value) -> &Value) -> impl Iterator<Item = &'a Value> {
    let mut seen = BTreeSet::new();
    let values = pods.iter().map(|pod| of(pod)).filter(|value| !value.is_null());
    values.filter(|value| !seen.insert(value.to_string())).collect::<Vec<_>>().into_iter()
}

fn group_of(pod: &Value) -> &Value {
    &pod["metadata"]["labels"]["group"]
}

fn port_of(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["ports"][0]["hostPort"]
}

/// The checks can fail: a cluster made by hand in which they must, and one in which all is well.
#[test]
fn what_must_not_be_is_told() {
    use serde_json::json;
    let node = |name: &str, zone: &str| {
        json!({
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"allocatable": {"cpu": "1"}},
        })
    };
    let volume = |name: &str, zone: &str, claim: &str| {
        let zones = json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]);
        let terms = json!([{"matchExpressions": zones}]);
        json!({
            "metadata": {"name": name},
            "spec": {"claimRef": {"uid": claim}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
        })
    };
    let claim = |name: &str, mode: &str, volume: &str| json!({"metadata": {"name": name, "uid": name}, "spec": {"accessModes": [mode], "volumeName": volume}});
    let pod = |name: &str, node: Value, claim: &str, cpu: &str| {
        let mut pod = crate::objects::pod(LOADED, name, LOADED, cpu);
        pod["spec"]["nodeName"] = node;
        crate::storage::mount(&mut pod, &[claim]);
        pod
    };
    let nodes = [node("here", "a"), node("there", "b")];
    let volumes = [volume("v", "a", "one"), volume("w", "a", "alone")];
    let claims = [claim("one", "ReadWriteOnce", "v"), claim("alone", "ReadWriteOncePod", "w")];
    let judged = |claims: &[Value], pods: &[Value]| {
        let (claims, known) = (by_name(claims), Known::default());
        let storage = Storage { claims, volumes: by_name(&volumes), nodes: by_name(&nodes), gone: &known.gone };
        let Verdict { waiting, overbooked, broken, .. } = judge_these(&storage, &Claims::new(), pods, &known);
        (waiting, overbooked.len(), broken)
    };
    let (none, here, there) = (Value::Null, json!("here"), json!("there"));
    let fine = [
        pod("p", here.clone(), "one", "500m"),
        pod("q", here.clone(), "alone", "500m"),
        pod("waits for q", none.clone(), "alone", "1"),
    ];
    assert_eq!(judged(&claims, &fine), (0, 0, Vec::new()));
    assert_eq!(judged(&claims, &[pod("p", none, "one", "1")]).0, 1);
    for (claims, pods, wrong) in [
        (
            &claims[..],
            vec![pod("p", there.clone(), "one", "1")],
            "pod p is on there, and its volume v cannot be used there",
        ),
        (&claims[1..], vec![pod("p", here.clone(), "one", "1")], "pod p is on here, and its claim one is gone"),
        (
            &[claim("one", "ReadWriteOnce", "w")],
            vec![pod("p", here.clone(), "one", "1")],
            "pod p is on here, and its volume w is that of another claim than one",
        ),
        (
            &claims,
            vec![pod("p", here.clone(), "alone", "1"), pod("q", there.clone(), "alone", "1")],
            "claim alone is for one pod, and p (on here, None), q (on there, None) use it",
        ),
        (
            &[claim("one", "ReadWriteOnce", "v"), claim("two", "ReadWriteOnce", "v")],
            vec![],
            "volume v is that of two claims, one and two",
        ),
    ] {
        assert!(judged(claims, &pods).2.iter().any(|broken| broken == wrong), "{wrong}: {:?}", judged(claims, &pods));
    }
    let crowded = [pod("p", here.clone(), "one", "600m"), pod("q", here, "alone", "600m")];
    assert_eq!(judged(&claims, &crowded), (0, 1, Vec::new()));
}

/// A pod whose node is away, for good or not, counts nowhere meanwhile: another may be bound to its claim then, and only then.
#[test]
fn a_claim_for_one_pod_is_free_while_the_node_of_its_pod_is_away() {
    use serde_json::json;
    let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
    let pod = |name: &str, node: &str, bound: i64| {
        let mut pod = crate::objects::pod(LOADED, name, LOADED, "100m");
        pod["spec"]["nodeName"] = node.into();
        crate::storage::mount(&mut pod, &["alone"]);
        let time = at(bound).to_string();
        pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": time}]);
        pod
    };
    let claim = json!({"metadata": {"name": "alone"}, "spec": {"accessModes": ["ReadWriteOncePod"]}});
    let crowds = |made: Option<i64>, gone: Option<i64>, pods: &[Value]| {
        let node = |made: i64| json!({"metadata": {"creationTimestamp": at(made).to_string()}});
        let nodes: BTreeMap<&str, Value> =
            [("n", made), ("m", Some(0))].into_iter().filter_map(|(name, made)| Some((name, node(made?)))).collect();
        let gone = gone.map(|gone| ("n".to_owned(), at(gone))).into_iter().collect();
        let storage = Storage {
            claims: BTreeMap::from([("alone", &claim)]),
            volumes: BTreeMap::new(),
            nodes: nodes.iter().map(|(name, node)| (*name, node)).collect(),
            gone: &gone,
        };
        let broken = storage.broken(&pods.iter().collect::<Vec<_>>());
        broken.iter().filter(|broken| broken.starts_with("claim alone is for one pod")).count()
    };
    let pair = [pod("q", "m", 50), pod("p", "n", 10)];
    assert_eq!(crowds(Some(0), None, &pair), 1);
    for (made, broken) in [(45, 0), (40, 0), (39, 1), (9, 1)] {
        assert_eq!(crowds(Some(made), None, &pair), broken, "made anew at {made}");
    }
    for (gone, broken) in [(20, 0), (50, 0), (51, 1), (60, 1)] {
        assert_eq!(crowds(None, Some(gone), &pair), broken, "gone at {gone}");
    }
    // In one second nobody can say which was first. That the node of the late one went later is no excuse.
    assert_eq!(crowds(None, Some(20), &[pod("q", "m", 20), pod("p", "n", 20)]), 0);
    assert_eq!(crowds(None, Some(60), &[pod("q", "m", 10), pod("p", "n", 50)]), 1);
}

/// A pod that is gone is in no list, and a node that is gone has no room to compare with.
#[test]
fn pods_that_vanished_and_pods_on_nodes_that_are_gone_are_told() {
    use serde_json::json;
    let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
    let pod = |number: usize, node: &str, bound: i64| {
        let mut pod = crate::objects::pod(LOADED, &name(number), LOADED, "1");
        pod["spec"]["nodeName"] = node.into();
        let time = at(bound).to_string();
        pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": time}]);
        pod
    };
    let nodes = [json!({"metadata": {"name": "here"}, "status": {"allocatable": {"cpu": "16"}}})];
    let gone = BTreeMap::from([("replaced".to_owned(), at(100))]);
    let storage = Storage { claims: BTreeMap::new(), volumes: BTreeMap::new(), nodes: by_name(&nodes), gone: &gone };
    let judged = |pods: Range<usize>, there: &[Value]| {
        judge_these(&storage, &Claims::new(), there, &Known { pods, gone: gone.clone() })
    };

    let fine = [pod(7, "here", 0), pod(8, "replaced", 90), pod(9, "replaced", 105)];
    assert!(judged(7..10, &fine).is_clean(), "{:?}", judged(7..10, &fine));

    let verdict = judged(6..11, &fine);
    assert_eq!((verdict.vanished.clone(), verdict.lost(), verdict.is_clean()), (vec![name(6), name(10)], 2, false));

    for (wrong, why) in [(pod(7, "replaced", 111), "which was deleted at"), (pod(7, "unheard-of", 90), "is not there")]
    {
        let verdict = judged(7..8, &[wrong]);
        assert!(matches!(&verdict.broken[..], [one] if one.contains(why)), "{verdict:?}");
        assert!(!verdict.is_clean());
    }
}
