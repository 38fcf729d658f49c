//! Classes, volumes and claims, and what becomes of them.

use berth_lab::{ControlPlane, Patch};
use serde_json::{Value, json};

use crate::SOON;

pub(crate) const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
pub(crate) const VOLUMES: &str = "/api/v1/persistentvolumes";
pub(crate) const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";

/// The provisioner of classes whose volumes an administrator makes.
pub(crate) const NOBODY: &str = "kubernetes.io/no-provisioner";

/// The annotation by which a scheduler has a claim's volume made.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Path of a claim, or of the namespace's claims where `name` is empty.
pub(crate) fn claim_path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}").trim_end_matches('/').to_owned()
}

/// Makes a class; `mode` is `Immediate` or `WaitForFirstConsumer`.
pub(crate) fn class(plane: &ControlPlane, name: &str, provisioner: &str, mode: &str) {
    let object = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    });
    plane.api.post(CLASSES, &object).unwrap();
}

/// A local volume of 1 GiB that can be used on `node` only.
pub(crate) fn local_volume(name: &str, class: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": format!("/mnt/{name}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
            ]}]}},
        },
    })
}

/// A volume of a CSI driver that can be used everywhere.
pub(crate) fn csi_volume(name: &str, class: &str, driver: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": driver, "volumeHandle": name},
        },
    })
}

/// Makes a claim of 1 GiB, changed by `further`.
pub(crate) fn claim(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    class: &str,
    further: impl FnOnce(&mut Value),
) -> Value {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": class,
        },
    });
    further(&mut object);
    plane.api.post(&claim_path(namespace, ""), &object).unwrap()
}

/// Has the pod mount these claims.
pub(crate) fn mount(pod: &mut Value, claims: &[&str]) {
    let volumes: Vec<Value> =
        claims.iter().map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}})).collect();
    pod["spec"]["volumes"] = json!(volumes);
}

/// Waits until the claim is bound; the volume's name.
pub(crate) fn wait_claim_bound(plane: &ControlPlane, namespace: &str, name: &str) -> String {
    let mut last = Value::Null;
    let found = plane.wait_for(&format!("claim {namespace}/{name} to be bound"), SOON, || {
        last = plane.api.get(&claim_path(namespace, name))?;
        let bound = last["status"]["phase"] == "Bound";
        Ok(last["spec"]["volumeName"].as_str().filter(|_| bound).map(str::to_owned))
    });
    found.unwrap_or_else(|error| panic!("{error}; it is {last:#}"))
}

/// Waits until the object at `path` is such that `wanted` holds; the object.
pub(crate) fn wait_object(plane: &ControlPlane, path: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let found = plane.wait_for(&format!("{path}: {what}"), SOON, || {
        last = plane.api.get(path)?;
        Ok(wanted(&last).then(|| last.clone()))
    });
    found.unwrap_or_else(|error| panic!("{error}; it is {last:#}"))
}

/// Deletes a volume or claim at once, whoever protects it.
pub(crate) fn delete_unprotected(plane: &ControlPlane, path: &str) {
    plane.api.delete(path, None).unwrap();
    let unprotected = json!({"metadata": {"finalizers": null}});
    // 404: nothing protected it.
    let _ = plane.api.patch(path, Patch::Merge, &unprotected);
    plane
        .wait_for(&format!("{path} to go"), SOON, || {
            Ok((plane.api.request("GET", path, None)?.status == 404).then_some(()))
        })
        .unwrap();
}

/// What the volume controller does once a volume names its claim: says so on the claim, and calls both bound.
pub(crate) fn complete_binding(plane: &ControlPlane, namespace: &str, claim: &str, volume: &str) {
    let done = json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {"volumeName": volume},
    });
    plane.api.patch(&claim_path(namespace, claim), Patch::Merge, &done).unwrap();
}

/// The resourceVersion as a number: one store gives them all, in order.
pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Everything that happened in a collection after `version`, oldest first: the objects as they became.
pub(crate) fn changes_since(plane: &ControlPlane, collection: &str, version: u64) -> Vec<Value> {
    use std::io::Read;
    let path = format!("{collection}?watch=true&resourceVersion={version}&timeoutSeconds=1");
    let mut text = String::new();
    plane.api.stream(&path, "application/json").unwrap().read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["object"].clone()).collect()
}
