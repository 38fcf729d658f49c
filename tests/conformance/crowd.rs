//! Crowded clusters: nodes full of pods that matter less than those that wait, so that preemption has something to do.

use super::cluster::World;
use super::draw::{Draw, Theme};
use super::pods::{Place, draw_pod};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What is crowded, and who matters.
#[derive(Debug, Clone)]
pub struct Crowd {
    /// Priorities of most placed pods; none stands for a pod that has none.
    low: &'static [Option<i32>],
    /// Priorities of most pending pods.
    high: &'static [Option<i32>],
    /// Whether processors and memory are scarce; otherwise it is what the other themes are about.
    tight: bool,
    /// Whether nodes are copies of the first one, so that the choice among them is close.
    copies: bool,
    /// Whether nodes have graphics processors.
    scalars: bool,
}

/// Priorities of those that run and of those that wait: negative, equal, of the system, and the lowest there is, which adds
/// nothing to a sum of priorities.
type Choice = &'static [Option<i32>];

const PRIORITIES: [(Choice, Choice); 8] = [
    (&[None, Some(0), Some(10)], &[Some(100), Some(1000)]),
    (&[Some(-10), Some(-5), Some(0), None], &[Some(5), Some(0), None]),
    (&[Some(i32::MIN), Some(i32::MIN), Some(-1), Some(0)], &[Some(1), Some(10)]),
    (&[Some(0)], &[Some(1)]),
    (&[Some(1), Some(2), Some(3), Some(4)], &[Some(3), Some(4), Some(6)]),
    (&[Some(1_000_000_000), Some(999_999_999), None], &[Some(2_000_000_000), Some(2_000_001_000)]),
    (&[Some(i32::MIN), Some(5)], &[Some(10)]),
    (&[Some(7), Some(8)], &[Some(i32::MAX), Some(9)]),
];

/// Start times, few enough to be equal often.
const STARTS: [&str; 5] = [
    "2026-01-01T00:00:01Z",
    "2026-01-01T00:00:02Z",
    "2026-01-01T01:00:00+01:00",
    "2026-01-02T00:00:00Z",
    "2025-06-30T23:59:59Z",
];

/// What beside room can be scarce, and what stands in the way for good.
const THEMES: [Theme; 24] = [
    Theme::Ports,
    Theme::Ports,
    Theme::Spread,
    Theme::Spread,
    Theme::Spread,
    Theme::DefaultSpread,
    Theme::PodAffinity,
    Theme::PodAffinity,
    Theme::PodAffinity,
    Theme::Disks,
    Theme::Disks,
    Theme::BoundClaims,
    Theme::BoundClaims,
    Theme::BoundClaims,
    Theme::Limits,
    Theme::Limits,
    Theme::Limits,
    Theme::LateClaims,
    Theme::Nominated,
    Theme::Nominated,
    Theme::Nominated,
    Theme::Taints,
    Theme::NodeAffinity,
    Theme::Resized,
];

impl Crowd {
    /// A crowd, and the themes of its cluster.
    pub fn draw(draw: &mut Draw) -> (Self, Vec<Theme>) {
        let themes: Vec<Theme> = (0..draw.between(0, 2)).map(|_| draw.pick(&THEMES)).collect();
        let scarce =
            themes.iter().any(|theme| !matches!(theme, Theme::Taints | Theme::NodeAffinity | Theme::Nominated));
        let (low, high) = draw.pick(&PRIORITIES);
        let tight = !scarce || draw.percent(40);
        // Few nodes of one kind, or one would have what is scarce.
        let copies = draw.percent(if tight { 35 } else { 65 });
        (Self { low, high, tight, copies, scalars: draw.percent(35) }, themes)
    }

    pub fn node_count(&self, draw: &mut Draw) -> usize {
        match draw.below(100) {
            0..=69 if !self.tight => draw.between(1, 3) as usize,
            0..=79 => draw.between(1, 5) as usize,
            80..=96 => draw.between(6, 9) as usize,
            _ => draw.between(10, 15) as usize,
        }
    }

    /// `spec.priority` of a pod; mostly such that those that wait win.
    pub fn priority(&self, draw: &mut Draw, pending: bool) -> Option<i32> {
        let usual = draw.percent(if pending { 88 } else { 90 });
        draw.pick(if usual == pending { self.high } else { self.low })
    }

    pub fn allocatable(&self, draw: &mut Draw) -> Value {
        let mut room = Map::new();
        let mut put = |key: &str, value: &str| drop(room.insert(key.to_owned(), json!(value)));
        if self.tight {
            put("cpu", draw.pick(&["2", "2", "2", "4", "2500m"]));
            put("memory", draw.pick(&["8Gi", "8Gi", "4Gi", "2Gi"]));
            put("pods", draw.pick(&["110", "110", "110", "6", "4", "2"]));
            put("ephemeral-storage", draw.pick(&["100Gi", "10Gi", "5Gi"]));
        } else {
            put("cpu", "64");
            put("memory", "256Gi");
            put("pods", draw.pick(&["250", "250", "4"]));
        }
        if self.scalars {
            put("example.com/gpu", draw.pick(&["1", "2"]));
        }
        Value::Object(room)
    }

    /// What a container asks for.
    pub fn requests(&self, draw: &mut Draw, pending: bool) -> Value {
        let mut requests = Map::new();
        let mut put = |key: &str, value: &str| drop(requests.insert(key.to_owned(), json!(value)));
        let (cpu, memory): (&[&str], &[&str]) = match (self.tight, pending) {
            (false, _) => (&["100m", "0", "50m"], &["64Mi", "100M"]),
            (true, false) => (&["500m", "1", "250m", "750m", "2", "100m"], &["1Gi", "2Gi", "512Mi", "100M"]),
            (true, true) => (&["1", "1500m", "2", "500m", "750m"], &["1Gi", "2Gi", "512Mi"]),
        };
        if draw.percent(92) {
            put("cpu", draw.pick(cpu));
        }
        if draw.percent(60) {
            put("memory", draw.pick(memory));
        }
        if draw.percent(if self.tight { 20 } else { 2 }) {
            put("ephemeral-storage", draw.pick(&["1Gi", "2Gi", "4Gi"]));
        }
        if self.scalars && draw.percent(35) {
            put("example.com/gpu", "1");
        }
        Value::Object(requests)
    }
}

/// Fills the nodes.
pub fn draw_placed(draw: &mut Draw, world: &mut World, crowd: &Crowd, objects: &mut Vec<Value>) {
    let mut index = 0;
    for node in world.nodes.clone() {
        if crowd.copies && index > 0 {
            copy(draw, world, crowd, &node, objects);
            continue;
        }
        for _ in 0..draw.between(1, 6) {
            draw_pod(draw, world, &format!("a{index}"), &Place::On(node.clone()), objects);
            index += 1;
        }
    }
    settle_claims(draw, objects);
}

/// Leaves most ReadWriteOncePod claims to one pod, as a cluster does that no one places pods in by hand.
fn settle_claims(draw: &mut Draw, objects: &mut [Value]) {
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    let volumes = objects.iter().filter_map(|pod| pod["spec"]["volumes"].as_array()).flatten();
    for claim in volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str()) {
        *named.entry(claim.to_owned()).or_default() += 1;
    }
    for claim in objects.iter_mut().filter(|o| o["kind"] == "PersistentVolumeClaim") {
        let name = claim["metadata"]["name"].as_str().unwrap_or_default();
        let several = named.get(name).is_some_and(|count| *count > 1);
        if several && claim["spec"]["accessModes"] == json!(["ReadWriteOncePod"]) && draw.percent(85) {
            claim["spec"]["accessModes"] = json!(["ReadWriteOnce"]);
        }
    }
}

/// Puts on `node` what the first node has, with little or nothing changed.
fn copy(draw: &mut Draw, world: &World, crowd: &Crowd, node: &str, objects: &mut Vec<Value>) {
    let there = |pod: &&Value| pod["kind"] == "Pod" && pod["spec"]["nodeName"] == json!(world.nodes[0]);
    let mut pods: Vec<Value> = objects.iter().filter(there).cloned().collect();
    let odd = draw.percent(60).then(|| draw.below(pods.len().max(1)));
    for (index, pod) in pods.iter_mut().enumerate() {
        let name = format!("{}-{node}", pod["metadata"]["name"].as_str().unwrap_or_default());
        pod["metadata"]["uid"] = json!(format!("pod-{name}"));
        pod["metadata"]["name"] = json!(name);
        if is_mirror(pod) {
            pod["metadata"]["ownerReferences"] = owned_by(node);
        }
        pod["spec"]["nodeName"] = json!(node);
        // The claim of an ephemeral volume is named after the pod that it was made for.
        if let Some(volumes) = pod["spec"]["volumes"].as_array_mut() {
            volumes.retain(|volume| volume["ephemeral"].is_null());
        }
        if odd == Some(index) {
            change(draw, crowd, pod);
        }
    }
    objects.extend(pods);
}

fn change(draw: &mut Draw, crowd: &Crowd, pod: &mut Value) {
    match draw.below(4) {
        0 => {
            let priority = crowd.priority(draw, false);
            pod["spec"]["priority"] = priority.map_or(Value::Null, |value| json!(value));
        }
        1 => drop(pod["metadata"].as_object_mut().map(|metadata| metadata.remove("labels"))),
        _ => pod["status"]["startTime"] = json!(draw.pick(&STARTS)),
    }
}

/// What a placed pod has in a crowd: a start, mostly, and an end in sight, at times one that preemption has brought about.
pub fn placed(draw: &mut Draw, node: &str, metadata: &mut Value, status: &mut Map<String, Value>) {
    if draw.percent(80) {
        status.insert("startTime".into(), json!(draw.pick(&STARTS)));
    }
    if draw.percent(10) {
        metadata["deletionTimestamp"] = json!("2026-01-31T12:00:00Z");
        metadata["deletionGracePeriodSeconds"] = json!(30);
    }
    if draw.percent(if metadata["deletionTimestamp"].is_null() { 3 } else { 75 }) {
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        if let Some(list) = conditions.as_array_mut() {
            list.push(disrupted(draw));
        }
    }
    if draw.percent(3) {
        metadata["annotations"] = json!({"kubernetes.io/config.mirror": "0123", "kubernetes.io/config.source": "file"});
        metadata["ownerReferences"] = owned_by(node);
    }
}

fn owned_by(node: &str) -> Value {
    json!([{"apiVersion": "v1", "kind": "Node", "name": node, "uid": format!("node-{node}"), "controller": true}])
}

fn disrupted(draw: &mut Draw) -> Value {
    let reasons = ["PreemptionByScheduler", "PreemptionByScheduler", "PreemptionByScheduler", "EvictionByEvictionAPI"];
    let status = if draw.percent(90) { "True" } else { "False" };
    json!({"type": "DisruptionTarget", "status": status, "reason": draw.pick(&reasons)})
}

/// Whether the kubelet made the object of this pod after a file of its own: Berth never takes it as a victim.
pub fn is_mirror(pod: &Value) -> bool {
    pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string()
}
