//! The volumes of a pod: inline disks, claims, ephemeral claims, and those that matter to no scheduler.

use super::claims::{Claim, purpose};
use super::cluster::World;
use super::draw::{Draw, Theme};
use serde_json::{Value, json};

/// The volumes of a pod, with the objects that come with them.
pub fn pod_volumes(
    draw: &mut Draw,
    world: &mut World,
    (namespace, pod): (&'static str, &str),
    pending: bool,
    objects: &mut Vec<Value>,
) -> Option<Value> {
    let often = if pending || world.crowd.is_some() { 75 } else { 40 };
    let claims = world.storage.present && draw.percent(often);
    let (hot, cold) = if pending { (75, 2) } else { (55, 2) };
    let disks = world.percent(draw, Theme::Disks, hot, cold) || (world.is(Theme::Limits) && draw.percent(30));
    let mut volumes = Vec::new();
    if claims {
        for index in 0..draw.between(1, 2) {
            volumes.push(claimed(draw, world, (namespace, pod), &format!("v{index}"), objects));
        }
    }
    if disks {
        for index in 0..draw.between(1, if world.crowd.is_some() { 1 } else { 2 }) {
            volumes.push(disk(draw, &format!("d{index}")));
        }
    }
    if draw.percent(10) {
        volumes.push(plain(draw));
    }
    (!volumes.is_empty()).then_some(Value::Array(volumes))
}

fn claimed(
    draw: &mut Draw,
    world: &mut World,
    (namespace, pod): (&'static str, &str),
    name: &str,
    objects: &mut Vec<Value>,
) -> Value {
    if draw.percent(15) {
        ephemeral(draw, world, (namespace, pod), name, objects);
        return json!({"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}});
    }
    let own: Vec<&String> =
        world.storage.claims.iter().filter(|(of, _, _)| *of == namespace).map(|(_, c, _)| c).collect();
    let missing = own.is_empty() || draw.percent(if world.is(Theme::BrokenClaims) { 18 } else { 1 });
    let claim = if missing { "no-such-claim" } else { draw.pick(&own).as_str() };
    json!({"name": name, "persistentVolumeClaim": {"claimName": claim}})
}

/// The claim of an ephemeral volume: the pod's own, not there yet, or somebody else's of that name.
fn ephemeral(
    draw: &mut Draw,
    world: &mut World,
    (namespace, pod): (&'static str, &str),
    volume: &str,
    objects: &mut Vec<Value>,
) {
    let broken = world.is(Theme::BrokenClaims);
    if draw.percent(if broken { 25 } else { 3 }) {
        return;
    }
    let foreign = draw.percent(if broken { 25 } else { 3 });
    let uid = if foreign { "somebody".to_owned() } else { format!("pod-{namespace}-{pod}") };
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": true}]);
    let claim = Claim { namespace, name: format!("{pod}-{volume}"), owner: Some(owner) };
    let purpose = purpose(draw, world);
    claim.draw(draw, world, purpose, objects);
}

/// An inline disk: few names, so that pods meet on them.
fn disk(draw: &mut Draw, name: &str) -> Value {
    let id = draw.pick(&["one", "two", "three"]);
    let read_only = draw.percent(50);
    let (field, mut source) = match draw.below(24) {
        0..=4 => ("gcePersistentDisk", json!({"pdName": id})),
        5..=9 => ("awsElasticBlockStore", json!({"volumeID": format!("vol-{id}")})),
        10..=13 => ("iscsi", json!({"targetPortal": "10.0.0.1", "iqn": format!("iqn.2026-01.example:{id}"), "lun": 0})),
        14..=18 => {
            let monitors = draw.some(&["m1", "m2", "m3"], 1, 2);
            ("rbd", json!({"monitors": monitors, "image": id, "pool": draw.pick(&["rbd", "other"])}))
        }
        19 => ("azureDisk", azure_disk(draw, id)),
        20 => ("cinder", json!({"volumeID": id})),
        21 => ("azureFile", json!({"secretName": "s", "shareName": id})),
        22 => ("vsphereVolume", json!({"volumePath": format!("[store] {id}")})),
        _ => ("portworxVolume", json!({"volumeID": id})),
    };
    if !["vsphereVolume"].contains(&field) && draw.percent(70) {
        source["readOnly"] = json!(read_only);
    }
    json!({"name": name, field: source})
}

fn plain(draw: &mut Draw) -> Value {
    match draw.below(4) {
        0 => json!({"name": "plain", "emptyDir": {}}),
        1 => json!({"name": "plain", "configMap": {"name": "c"}}),
        2 => json!({"name": "plain", "csi": {"driver": "inline.example.com"}}),
        _ => json!({"name": "plain", "image": {"reference": draw.pick(&["model", "web:v1", "nowhere"])}}),
    }
}

/// Its default kind, Shared, has no counterpart in CSI: upstream then fails on every node that migrated the plugin.
pub fn azure_disk(draw: &mut Draw, id: &str) -> Value {
    let kind = if draw.percent(80) { "Managed" } else { "Shared" };
    json!({"diskName": id, "diskURI": format!("/subscriptions/{id}"), "kind": kind})
}
