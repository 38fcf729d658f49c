//! What storage a cluster has: classes, drivers, limits of nodes, capacities, attachments.

use super::claims::{Purpose, draw_claims};
use super::cluster::World;
use super::draw::{Draw, Theme};
use super::nodes::{CSI_ZONE, HOSTNAME, ZONE, ZONES};
use serde_json::{Map, Value, json};

/// The driver of most volumes.
pub const DRIVER: &str = "csi.example.com";
/// A driver that says how much room it has.
pub const CAPPED_DRIVER: &str = "capped.example.com";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Drivers that in-tree volumes are migrated to, with the plugins' old names.
pub const MIGRATED: [(&str, &str); 5] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
];

/// A class: name, provisioner, whether it waits for the first consumer, and whether it names topologies.
pub const CLASSES: [(&str, &str, bool, bool); 8] = [
    ("late", DRIVER, true, false),
    ("late-zoned", DRIVER, true, true),
    ("local", NO_PROVISIONER, true, false),
    ("capped", CAPPED_DRIVER, true, false),
    ("capped-zoned", CAPPED_DRIVER, true, true),
    ("ebs", "kubernetes.io/aws-ebs", true, false),
    ("unknown-driver", "nobody.example.com", true, false),
    ("now", DRIVER, false, false),
];

/// What pods can refer to.
#[derive(Debug, Default)]
pub struct Storage {
    /// Claims by namespace and name, with what each is for.
    pub claims: Vec<(&'static str, String, Purpose)>,
    /// Names of persistent volumes.
    pub volumes: Vec<String>,
    /// Whether there is any of this.
    pub present: bool,
}

pub fn draw_storage(draw: &mut Draw, world: &mut World, objects: &mut Vec<Value>) {
    let themes = [Theme::BoundClaims, Theme::LateClaims, Theme::BrokenClaims, Theme::Limits];
    world.storage.present = themes.iter().any(|theme| world.is(*theme)) || draw.percent(3);
    if world.storage.present {
        for (name, provisioner, late, zoned) in CLASSES {
            objects.push(class(draw, name, provisioner, late, zoned));
        }
        draw_drivers(draw, objects);
        for _ in 0..draw.between(0, 4) {
            let index = objects.len();
            objects.push(capacity(draw, index));
        }
        draw_claims(draw, world, objects);
    }
    if world.storage.present || world.is(Theme::Disks) {
        for node in world.nodes.clone() {
            if draw.percent(85) {
                objects.push(csi_node(draw, world, &node));
            }
        }
    }
    if world.is(Theme::Limits) && !world.nodes.is_empty() {
        for index in 0..draw.between(0, if world.crowd.is_some() { 1 } else { 4 }) {
            objects.push(attachment(draw, world, index));
        }
    }
}

fn class(draw: &mut Draw, name: &str, provisioner: &str, late: bool, zoned: bool) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": name, "uid": format!("class-{name}")},
        "provisioner": provisioner,
        "volumeBindingMode": if late { "WaitForFirstConsumer" } else { "Immediate" },
    });
    if zoned {
        let term = |draw: &mut Draw| {
            let key = draw.pick(&[ZONE, CSI_ZONE, HOSTNAME]);
            let values = if key == HOSTNAME { vec!["n0", "n1", "n2"] } else { draw.some(&ZONES, 1, 2) };
            json!({"matchLabelExpressions": [{"key": key, "values": values}]})
        };
        let count = draw.between(1, 2);
        class["allowedTopologies"] = (0..count).map(|_| term(draw)).collect();
    }
    class
}

fn draw_drivers(draw: &mut Draw, objects: &mut Vec<Value>) {
    for (name, has_capacity) in [(DRIVER, false), (CAPPED_DRIVER, true)] {
        if draw.percent(10) {
            continue;
        }
        let mut spec = json!({"attachRequired": true});
        if has_capacity || draw.percent(50) {
            spec["storageCapacity"] = json!(has_capacity);
        }
        objects.push(json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
                            "metadata": {"name": name, "uid": format!("driver-{name}")}, "spec": spec}));
    }
}

fn capacity(draw: &mut Draw, index: usize) -> Value {
    let name = format!("capacity-{index}");
    let mut capacity = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "storageClassName": draw.pick(&["capped", "capped", "capped-zoned", "late"]),
    });
    match draw.below(10) {
        0 => {}
        1..=2 => capacity["nodeTopology"] = json!({}),
        3..=7 => {
            let key = draw.pick(&[ZONE, CSI_ZONE]);
            capacity["nodeTopology"] = json!({"matchLabels": {key: draw.pick(&ZONES)}});
        }
        _ => {
            capacity["nodeTopology"] =
                json!({"matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": ["n0"]}]});
        }
    }
    if draw.percent(85) {
        capacity["capacity"] = json!(draw.pick(&["10Gi", "2Gi", "1Gi", "0", "100Gi"]));
    }
    if draw.percent(30) {
        capacity["maximumVolumeSize"] = json!(draw.pick(&["1Gi", "5Gi", "512Mi"]));
    }
    capacity
}

fn csi_node(draw: &mut Draw, world: &World, node: &str) -> Value {
    let limited = world.is(Theme::Limits);
    let mut drivers = Vec::new();
    let names = [DRIVER, CAPPED_DRIVER].into_iter().chain(MIGRATED.iter().map(|(_, driver)| *driver));
    for name in names {
        if !draw.percent(if limited { 80 } else { 40 }) {
            continue;
        }
        let mut driver = json!({"name": name, "nodeID": node, "topologyKeys": null});
        if draw.percent(85) {
            let count = match (limited, &world.crowd) {
                (true, Some(_)) => draw.between(1, 3),
                (true, None) => draw.between(0, 3),
                (false, _) => draw.between(5, 30),
            };
            driver["allocatable"] = if draw.percent(92) { json!({"count": count}) } else { json!({}) };
        }
        drivers.push(driver);
    }
    let mut metadata = json!({"name": node, "uid": format!("csi-{node}")});
    if draw.percent(75) {
        let plugins: Vec<&str> = MIGRATED.iter().map(|(plugin, _)| *plugin).collect();
        let migrated = if draw.percent(70) { plugins } else { draw.some(&plugins, 0, 3) };
        metadata["annotations"] = json!({"storage.alpha.kubernetes.io/migrated-plugins": migrated.join(",")});
    }
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": {"drivers": drivers}})
}

fn attachment(draw: &mut Draw, world: &World, index: i64) -> Value {
    let name = format!("attachment-{index}");
    let mut source = Map::new();
    if world.storage.volumes.is_empty() || draw.percent(10) {
        source.insert("persistentVolumeName".into(), json!("no-such-volume"));
    } else {
        source.insert("persistentVolumeName".into(), json!(draw.one_of(&world.storage.volumes)));
    }
    let attacher = if draw.percent(80) { DRIVER } else { "ebs.csi.aws.com" };
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name, "uid": name},
           "spec": {"attacher": attacher, "nodeName": draw.one_of(&world.nodes), "source": source},
           "status": {"attached": true}})
}
