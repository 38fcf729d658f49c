//! Nodes: labels, taints, room, images, declared features.

use super::cluster::World;
use super::draw::{Draw, Theme};
use serde_json::{Map, Value, json};

pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const REGION: &str = "topology.kubernetes.io/region";
pub const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
pub const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
/// The topology label of a CSI driver.
pub const CSI_ZONE: &str = "topology.csi.example.com/zone";

/// Zones as clouds name them, whose regions can be told from them; the last one is none.
pub const ZONES: [&str; 4] = ["eu-w1-a", "eu-w1-b", "us-e1-a", "no"];
/// Topology labels of drivers that in-tree volumes are migrated to.
const MIGRATED_ZONES: [&str; 2] = ["topology.ebs.csi.aws.com/zone", "topology.gke.io/zone"];
pub const REGIONS: [&str; 2] = ["r1", "r2"];
pub const DISKS: [&str; 3] = ["ssd", "hdd", "nvme"];
/// Values for Gt and Lt: numbers, and what is none.
const NUMBERS: [&str; 8] = ["1", "2", "5", "10", "-3", "007", "abc", ""];
pub const TAINT_KEYS: [&str; 5] =
    ["dedicated", "gpu", "level", "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"];
pub const TAINT_VALUES: [&str; 5] = ["", "a", "b", "5", "10"];
pub const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
pub const DECLARED: [&str; 3] =
    ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "SomethingElse"];

/// Images by the names they go by, with sizes around the thresholds of the score.
pub const IMAGES: [(&[&str], i64); 8] = [
    (&["web:v1", "registry.example.com/web:v1"], 250 << 20),
    (&["registry.example.com:5000/db:latest"], 900 << 20),
    (&["registry.example.com:5000/tool:latest"], 10 << 20),
    (&["cache:latest", "cache:v2"], 23 << 20),
    (&["big@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"], 3000 << 20),
    (&["model:latest"], 1_999_999_999),
    (&["side:latest"], 1_234_567),
    (&["empty:latest"], 0),
];

pub fn node(draw: &mut Draw, world: &World, index: usize) -> Value {
    let name = &world.nodes[index];
    let mut spec = Map::new();
    if world.percent(draw, Theme::Taints, 18, 3) {
        spec.insert("unschedulable".into(), json!(true));
    }
    if world.percent(draw, Theme::Taints, 70, 6) {
        let count = draw.between(1, 3);
        spec.insert("taints".into(), (0..count).map(|_| taint(draw)).collect());
    }
    let room = match &world.crowd {
        Some(crowd) => crowd.allocatable(draw),
        None => allocatable(draw, world),
    };
    let mut status = json!({"allocatable": room});
    if world.percent(draw, Theme::Images, 85, 15) {
        status["images"] = images(draw);
    }
    if world.percent(draw, Theme::Features, 70, 20) {
        status["declaredFeatures"] = json!(draw.some(&DECLARED, 0, 3));
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": format!("node-{name}"), "labels": labels(draw, world, name)},
        "spec": spec, "status": status,
    })
}

fn labels(draw: &mut Draw, world: &World, name: &str) -> Map<String, Value> {
    let mut labels = Map::new();
    if draw.percent(2) {
        return labels;
    }
    let mut put = |key: &str, value: &str| {
        labels.insert(key.to_owned(), json!(value));
    };
    match draw.below(100) {
        0..=3 => {}
        4..=6 => put(HOSTNAME, &world.nodes[0]),
        _ => put(HOSTNAME, name),
    }
    // A cluster without zones at all has no meaning of its own to VolumeZone.
    if draw.percent(85) {
        put(ZONE, draw.pick(&ZONES[..3]));
    }
    if draw.percent(60) {
        put(REGION, draw.pick(&REGIONS));
    }
    if draw.percent(10) {
        put(BETA_ZONE, draw.pick(&ZONES[..3]));
        if draw.percent(60) {
            put(BETA_REGION, draw.pick(&REGIONS));
        }
    }
    if draw.percent(60) {
        put("disk", draw.pick(&DISKS));
    }
    if draw.percent(50) {
        put("num", draw.pick(&NUMBERS));
    }
    if draw.percent(40) {
        put("rack", draw.pick(&["1", "2"]));
    }
    if draw.percent(60) {
        put(CSI_ZONE, draw.pick(&ZONES[..2]));
    }
    for key in MIGRATED_ZONES {
        if world.storage_wanted() && draw.percent(50) {
            put(key, draw.pick(&ZONES[..3]));
        }
    }
    labels
}

fn taint(draw: &mut Draw) -> Value {
    // Soft ones more often: a hard one hides the node from everything after it.
    let effect = if draw.percent(45) { "PreferNoSchedule" } else { draw.pick(&EFFECTS) };
    let mut taint = json!({"key": draw.pick(&TAINT_KEYS), "effect": effect});
    if draw.percent(70) {
        taint["value"] = json!(draw.pick(&TAINT_VALUES));
    }
    taint
}

fn allocatable(draw: &mut Draw, world: &World) -> Value {
    let tight = world.is(Theme::Room) || world.is(Theme::Resized);
    let mut room = Map::new();
    let mut put = |key: &str, value: &str| {
        room.insert(key.to_owned(), json!(value));
    };
    if tight {
        put("cpu", draw.pick(&["4", "2", "1", "500m", "0", "1.5", "7.91", "3900m", "8"]));
        put("memory", draw.pick(&["8Gi", "4Gi", "1Gi", "0", "1073741825", "3145728Ki", "2G", "512Mi"]));
        put("pods", draw.pick(&["110", "110", "110", "3", "1", "0"]));
    } else {
        put("cpu", draw.pick(&["64", "32", "48", "31900m"]));
        put("memory", draw.pick(&["256Gi", "128Gi", "137438953473", "200G"]));
        put("pods", "250");
    }
    if draw.percent(if tight { 70 } else { 20 }) {
        put("ephemeral-storage", draw.pick(&["100Gi", "10G", "1Gi", "0", "999999999"]));
    }
    for (name, amounts) in SCALARS {
        if draw.percent(if tight { 55 } else { 15 }) {
            put(name, draw.pick(amounts));
        }
    }
    if tight && draw.percent(5) {
        let lost = draw.pick(&["cpu", "memory", "pods"]);
        room.remove(lost);
    }
    Value::Object(room)
}

/// Resources beside the four that every node has, with amounts that nodes offer; the last one upstream does not count.
pub const SCALARS: [(&str, &[&str]); 6] = [
    ("example.com/gpu", &["4", "2", "1", "0"]),
    ("example.com/odd", &["3", "7", "1000"]),
    ("other.io/fpga", &["1", "2"]),
    ("hugepages-2Mi", &["64Mi", "128Mi", "70Mi", "0"]),
    ("kubernetes.io/thing", &["2", "5"]),
    ("unprefixed", &["9"]),
];

fn images(draw: &mut Draw) -> Value {
    let drawn = draw.some(&IMAGES, 0, 5);
    let one = |(names, size): &(&[&str], i64)| json!({"names": names, "sizeBytes": size});
    drawn.iter().map(one).collect()
}
