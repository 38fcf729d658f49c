//! Claims and persistent volumes.

use super::cluster::World;
use super::draw::{Draw, Theme};
use super::nodes::{BETA_REGION, BETA_ZONE, CSI_ZONE, HOSTNAME, REGION, REGIONS, ZONE, ZONES};
use super::storage::{CLASSES, DRIVER};
use super::volumes::azure_disk;
use serde_json::{Map, Value, json};

/// What a claim is for: where upstream's paths part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Bound to a volume that is there.
    Bound,
    /// Waits for its first consumer.
    Late,
    /// Anything that keeps a pod from being placed.
    Broken,
}

const CLAIM_SIZES: [&str; 5] = ["1Gi", "500Mi", "2Gi", "5Gi", "20Gi"];
const VOLUME_GIB: [i64; 5] = [1, 2, 3, 6, 50];
const MODES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub fn draw_claims(draw: &mut Draw, world: &mut World, objects: &mut Vec<Value>) {
    if draw.percent(if world.is(Theme::LateClaims) { 85 } else { 15 }) {
        for _ in 0..draw.between(1, 6) {
            draw_free_volume(draw, world, objects);
        }
    }
    for namespace in world.namespaces.clone() {
        let several = if crowded_limits(world) { 9 } else { 5 };
        for index in 0..draw.between(1, several) {
            let purpose = purpose(draw, world);
            let claim = Claim { namespace, name: format!("c{index}"), owner: None };
            claim.draw(draw, world, purpose, objects);
            world.storage.claims.push((namespace, claim.name, purpose));
        }
    }
}

/// What claims of this cluster are mostly for.
pub fn purpose(draw: &mut Draw, world: &World) -> Purpose {
    let mut of = vec![Purpose::Bound];
    if world.is(Theme::BoundClaims) || world.is(Theme::Limits) {
        of.extend([Purpose::Bound; 4]);
    }
    if world.is(Theme::LateClaims) || world.is(Theme::Limits) {
        of.extend([Purpose::Late; 4]);
    }
    if crowded_limits(world) {
        of.extend([Purpose::Bound; 16]);
    }
    if world.is(Theme::BrokenClaims) {
        of.extend([Purpose::Broken; 5]);
    } else if draw.percent(10) {
        of.push(Purpose::Broken);
    }
    draw.pick(&of)
}

/// A claim's identity, and the pod it was made for.
pub struct Claim {
    pub namespace: &'static str,
    pub name: String,
    /// Owner references, of an ephemeral volume's claim.
    pub owner: Option<Value>,
}

impl Claim {
    fn uid(&self) -> String {
        format!("claim-{}-{}", self.namespace, self.name)
    }

    fn object(&self, draw: &mut Draw) -> Value {
        let mut metadata = json!({"name": self.name, "namespace": self.namespace, "uid": self.uid()});
        if let Some(owner) = &self.owner {
            metadata["ownerReferences"] = owner.clone();
        }
        let mode = if draw.percent(25) { "ReadWriteOncePod" } else { draw.pick(&MODES[..3]) };
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata,
            "spec": {"accessModes": [mode], "resources": {"requests": {"storage": draw.pick(&CLAIM_SIZES)}}},
            "status": {"phase": "Pending"},
        })
    }

    /// Adds the claim, and the volume it is bound to.
    pub fn draw(&self, draw: &mut Draw, world: &mut World, purpose: Purpose, objects: &mut Vec<Value>) {
        let mut claim = self.object(draw);
        match purpose {
            Purpose::Bound => {
                let volume = format!("pv-{}-{}", self.namespace, self.name);
                bind(&mut claim, &volume);
                if draw.percent(80) {
                    set_class(draw, &mut claim, "late");
                }
                objects.push(bound_volume(draw, world, &volume, self));
                world.storage.volumes.push(volume);
            }
            Purpose::Late => Self::late(draw, world, &mut claim),
            Purpose::Broken => Self::broken(draw, world, &mut claim),
        }
        objects.push(claim);
    }

    fn late(draw: &mut Draw, world: &World, claim: &mut Value) {
        let late: Vec<&str> = CLASSES.iter().filter(|class| class.2).map(|class| class.0).collect();
        let class = if draw.percent(45) { "local" } else { draw.pick(&late) };
        set_class(draw, claim, class);
        if draw.percent(12) && !world.nodes.is_empty() {
            let node = draw.one_of(&world.nodes).clone();
            claim["metadata"]["annotations"][SELECTED_NODE] = json!(node);
        }
        if draw.percent(15) {
            claim["spec"]["volumeMode"] = json!(draw.pick(&["Block", "Filesystem"]));
        }
        if draw.percent(12) {
            claim["spec"]["selector"] = json!({"matchLabels": {"medium": draw.pick(&["fast", "slow"])}});
        }
        if draw.percent(8) {
            claim["spec"]["volumeAttributesClassName"] = json!(draw.pick(&["gold", ""]));
        }
        if draw.percent(4) {
            claim["spec"]["resources"] = json!({});
        }
        if world.is(Theme::BadInput) && draw.percent(30) {
            claim["spec"]["selector"] = json!({"matchExpressions": [{"key": "medium", "operator": "Among"}]});
        }
    }

    fn broken(draw: &mut Draw, world: &World, claim: &mut Value) {
        match draw.below(9) {
            0 => {
                bind(claim, "no-such-volume");
                claim["status"]["phase"] = json!("Lost");
            }
            1 => {
                Self::late(draw, world, claim);
                claim["metadata"]["deletionTimestamp"] = json!("2026-01-31T12:00:00Z");
                claim["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
            }
            2 => set_class(draw, claim, "now"),
            // Bound to a volume that is gone, and no one has noticed yet.
            3 => bind(claim, "no-such-volume"),
            4 => set_class(draw, claim, "no-such-class"),
            5 => {}
            6 => claim["spec"]["storageClassName"] = json!(""),
            // Pre-bound by a user: nothing has confirmed it.
            7 => {
                set_class(draw, claim, "late");
                claim["spec"]["volumeName"] = json!("no-such-volume");
            }
            _ => {
                set_class(draw, claim, "late");
                bind(claim, "no-such-volume");
            }
        }
    }
}

fn bind(claim: &mut Value, volume: &str) {
    claim["spec"]["volumeName"] = json!(volume);
    claim["metadata"]["annotations"][BIND_COMPLETED] = json!("yes");
    claim["status"]["phase"] = json!("Bound");
}

fn set_class(draw: &mut Draw, claim: &mut Value, class: &str) {
    if draw.percent(5) {
        // The annotation of old wins over the field.
        claim["metadata"]["annotations"][CLASS_ANNOTATION] = json!(class);
    } else {
        claim["spec"]["storageClassName"] = json!(class);
    }
}

/// The volume that `claim` is bound to.
fn bound_volume(draw: &mut Draw, world: &World, name: &str, claim: &Claim) -> Value {
    let mut metadata = json!({"name": name, "uid": format!("uid-{name}")});
    let zoned = if world.is(Theme::BoundClaims) { 60 } else { 10 };
    if draw.percent(zoned) {
        metadata["labels"] = Value::Object(zone_labels(draw));
    }
    let mut spec = json!({
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
        "claimRef": {"kind": "PersistentVolumeClaim", "namespace": claim.namespace, "name": claim.name, "uid": claim.uid()},
    });
    if draw.percent(if world.is(Theme::BoundClaims) { 45 } else { 10 }) {
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": volume_terms(draw, world)}});
    }
    if crowded_limits(world) && draw.percent(85) {
        spec["csi"] = json!({"driver": DRIVER, "volumeHandle": format!("handle-{name}")});
    } else {
        put_source(draw, &mut spec, name);
    }
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec, "status": {"phase": "Bound"}})
}

/// Whether it is attached volumes that nodes are full of: then they had better count.
fn crowded_limits(world: &World) -> bool {
    world.crowd.is_some() && world.is(Theme::Limits)
}

fn zone_labels(draw: &mut Draw) -> Map<String, Value> {
    let mut labels = Map::new();
    let zones = match draw.below(10) {
        0..=5 => draw.pick(&ZONES).to_owned(),
        6..=8 => draw.some(&ZONES, 2, 3).join("__"),
        _ => draw.pick(&["", "__", "eu-w1-a__"]).to_owned(),
    };
    let beta = draw.percent(30);
    labels.insert(if beta { BETA_ZONE } else { ZONE }.to_owned(), json!(zones));
    if draw.percent(40) {
        labels.insert(if beta { BETA_REGION } else { REGION }.to_owned(), json!(draw.pick(&REGIONS)));
    }
    labels
}

/// A volume's node affinity; one term in twenty does not parse.
fn volume_terms(draw: &mut Draw, world: &World) -> Value {
    let count = draw.between(1, 2);
    let term = |draw: &mut Draw| {
        let expression = match draw.below(100) {
            0..=39 => {
                let names: Vec<String> = world.nodes.iter().take(8).cloned().chain(["gone".to_owned()]).collect();
                json!({"key": HOSTNAME, "operator": "In", "values": draw.some(&names, 1, 3)})
            }
            40..=79 => {
                let key = draw.pick(&[ZONE, CSI_ZONE, BETA_ZONE]);
                json!({"key": key, "operator": "In", "values": draw.some(&ZONES, 1, 2)})
            }
            80..=89 => json!({"key": "disk", "operator": "Exists"}),
            90..=94 => json!({"key": "num", "operator": "Gt", "values": ["1"]}),
            _ => json!({"key": "num", "operator": "Gt", "values": ["many"]}),
        };
        json!({"matchExpressions": [expression]})
    };
    (0..count).map(|_| term(draw)).collect()
}

fn put_source(draw: &mut Draw, spec: &mut Value, name: &str) {
    let (field, source) = match draw.below(24) {
        0 => ("hostPath", json!({"path": "/data"})),
        1..=3 => ("awsElasticBlockStore", json!({"volumeID": format!("vol-{name}")})),
        4 | 10..=11 => ("gcePersistentDisk", json!({"pdName": format!("pd-{name}")})),
        5 => ("azureDisk", azure_disk(draw, name)),
        6 => ("cinder", json!({"volumeID": name})),
        7 => ("portworxVolume", json!({"volumeID": name})),
        8 => ("azureFile", json!({"secretName": "s", "shareName": name})),
        9 => ("vsphereVolume", json!({"volumePath": format!("[store] {name}")})),
        _ => ("csi", json!({"driver": DRIVER, "volumeHandle": format!("handle-{name}")})),
    };
    spec[field] = source;
}

/// A volume that may be free for a late claim. Sizes differ, so that the smallest one is always the same.
fn draw_free_volume(draw: &mut Draw, world: &mut World, objects: &mut Vec<Value>) {
    let index = world.storage.volumes.len();
    let name = format!("free-{index}");
    let size = (draw.pick(&VOLUME_GIB) << 30) + index as i64;
    let mut metadata = json!({"name": name, "uid": format!("uid-{name}")});
    if draw.percent(40) {
        metadata["labels"] = json!({"medium": draw.pick(&["fast", "slow"])});
    }
    if draw.percent(4) {
        metadata["deletionTimestamp"] = json!("2026-01-31T12:00:00Z");
        metadata["finalizers"] = json!(["kubernetes.io/pv-protection"]);
    }
    let modes = draw.some(&MODES, 1, 3);
    let mut spec = json!({"capacity": {"storage": size.to_string()}, "accessModes": modes, "local": {"path": "/mnt"}});
    match draw.below(20) {
        0 => spec["storageClassName"] = json!("late"),
        1 => metadata["annotations"] = json!({CLASS_ANNOTATION: "local"}),
        2 => {}
        _ => spec["storageClassName"] = json!("local"),
    }
    if !draw.percent(10) {
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": volume_terms(draw, world)}});
    }
    if draw.percent(12) {
        spec["volumeMode"] = json!(draw.pick(&["Block", "Filesystem"]));
    }
    if draw.percent(6) {
        spec["volumeAttributesClassName"] = json!("gold");
    }
    let mut phase = if draw.percent(90) { "Available" } else { draw.pick(&["Pending", "Released", "Failed"]) };
    if draw.percent(25) {
        spec["claimRef"] = claim_ref(draw, world);
        phase = draw.pick(&["Available", "Released"]);
    }
    objects.push(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec,
                        "status": {"phase": phase}}));
    world.storage.volumes.push(name);
}

/// Whom a free volume is set aside for: one of the claims to come, an older one of its name, or a stranger.
fn claim_ref(draw: &mut Draw, world: &World) -> Value {
    let namespace = draw.pick(&world.namespaces);
    let name = draw.pick(&["c0", "c1", "stranger"]);
    let mut of = json!({"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name});
    match draw.below(3) {
        0 => {}
        1 => of["uid"] = json!("older"),
        _ => of["uid"] = json!(format!("claim-{namespace}-{name}")),
    }
    of
}
