//! What the API server says of the end: it alone is asked, and nothing of Berth's is used to judge it.

use std::collections::{BTreeMap, BTreeSet};

use berth_lab::ControlPlane;
use serde_json::Value;

use crate::load::LOADED;
use crate::objects::{milli, milli_of, pod_path};

/// What must not be.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Pods of the load that have no node.
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
    let mut verdict = Verdict::default();
    let mut by_node: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for pod in &pods {
        match pod["spec"]["nodeName"].as_str() {
            // What a kubelet refused takes nothing of its node.
            Some(node) if pod["status"]["phase"] != "Failed" => by_node.entry(node).or_default().push(pod),
            None if pod["spec"]["schedulerName"] == LOADED => {
                verdict.waiting += 1;
                verdict.why = pod["status"].clone();
            }
            _ => {}
        }
    }
    let offers: BTreeMap<&str, &Value> = nodes
        .iter()
        .filter_map(|node| Some((node["metadata"]["name"].as_str()?, &node["status"]["allocatable"])))
        .collect();
    for (node, pods) in by_node {
        let Some(offer) = offers.get(node) else { continue };
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
