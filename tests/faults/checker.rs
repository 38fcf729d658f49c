//! What the API server says of the end: it alone is asked, and nothing of Berth's is used to judge it.

use std::collections::{BTreeMap, BTreeSet};

use berth_lab::ControlPlane;
use serde_json::Value;

use crate::load::LOADED;
use crate::objects::{milli, milli_of, pod_path};
use crate::storage::{VOLUMES, claim_path};
use crate::volumes::{Storage, claim_in};

/// What must not be.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Pods of the load that have no node, and could have one.
    pub(super) waiting: usize,
    /// What one of them says of it.
    pub(super) why: Value,
    /// Nodes with more than they offer, each said with how much.
    pub(super) overbooked: Vec<String>,
    /// Rules of pods that are broken.
    pub(super) broken: Vec<String>,
}

impl Verdict {
    pub(super) fn is_clean(&self) -> bool {
        self.waiting == 0 && self.overbooked.is_empty() && self.broken.is_empty()
    }
}

pub(super) fn judge(plane: &ControlPlane) -> Verdict {
    let list = |path: &str| -> Vec<Value> {
        let mut answer = plane.api.get(path).unwrap();
        serde_json::from_value(answer["items"].take()).unwrap()
    };
    let (nodes, pods) = (list("/api/v1/nodes"), list(&pod_path(LOADED, "")));
    let (volumes, claims) = (list(VOLUMES), list(&claim_path(LOADED, "")));
    let storage = Storage { claims: by_name(&claims), volumes: by_name(&volumes), nodes: by_name(&nodes) };
    judge_these(&storage, &pods)
}

fn judge_these(storage: &Storage<'_>, pods: &[Value]) -> Verdict {
    let mut verdict = Verdict::default();
    // What a kubelet refused takes nothing of its node.
    let placed: Vec<&Value> =
        pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string() && pod["status"]["phase"] != "Failed").collect();
    let taken = storage.taken(&placed);
    for pod in pods.iter().filter(|pod| pod["spec"]["nodeName"].is_null() && pod["spec"]["schedulerName"] == LOADED) {
        // While another pod uses a claim that is for one pod, this one fits nowhere.
        if claim_in(pod).is_none_or(|claim| !taken.contains(claim)) {
            verdict.waiting += 1;
            verdict.why = pod["status"].clone();
        }
    }
    verdict.broken = storage.broken(&placed);
    let mut by_node: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for pod in placed {
        by_node.entry(pod["spec"]["nodeName"].as_str().unwrap()).or_default().push(pod);
    }
    for (node, pods) in by_node {
        let Some(offer) = storage.nodes.get(node).map(|node| &node["status"]["allocatable"]) else { continue };
        let room = milli(offer["cpu"].as_str().unwrap());
        let taken: u64 = pods.iter().map(|pod| milli_of(pod)).sum();
        if taken > room || pods.len() > 110 {
            verdict.overbooked.push(format!("{node}: {} pods take {taken} of {room} milli-CPU", pods.len()));
        }
        verdict.broken.extend(twice(&pods, group_of).map(|group| format!("{node}: two pods of group {group}")));
        verdict.broken.extend(twice(&pods, port_of).map(|port| format!("{node}: two pods on port {port}")));
    }
    verdict
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
        let storage = Storage { claims: by_name(claims), volumes: by_name(&volumes), nodes: by_name(&nodes) };
        let Verdict { waiting, overbooked, broken, .. } = judge_these(&storage, pods);
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
            "claim alone is for one pod, and p, q use it",
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
