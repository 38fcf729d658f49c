//! A provisioner as a CSI driver's would be: it makes the volume of each claim that asks it for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::Result;
use serde_json::{Value, json};

use crate::api::Api;
use crate::control_plane::ControlPlane;
use crate::follow::follow;

const CLAIMS: &str = "/api/v1/persistentvolumeclaims";

/// A running provisioner. Dropping it ends it; what it has made stays.
#[derive(Debug)]
pub struct Provisioner {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Provisioner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say but that it ended.
            let _ = thread.join();
        }
    }
}

impl ControlPlane {
    /// Starts a provisioner of this name (the `provisioner` of a StorageClass). It waits for the volume controller to call on
    /// it and for a scheduler to name the node, and makes a local volume that can be used on that node only.
    pub fn start_provisioner(&self, name: &str) -> Provisioner {
        let stop = Arc::new(AtomicBool::new(false));
        let (api, name, over) = (self.api.clone(), name.to_owned(), stop.clone());
        let thread = std::thread::spawn(move || {
            follow(&api, CLAIMS, &over, |event, claim| match event {
                "DELETED" => Ok(()),
                _ => provision(&api, &name, claim),
            });
        });
        Provisioner { stop, thread: Some(thread) }
    }
}

/// Makes the claim's volume, if it is for this provisioner to make and not there yet.
fn provision(api: &Api, name: &str, claim: &Value) -> Result<()> {
    let annotations = &claim["metadata"]["annotations"];
    let asked = annotations["volume.kubernetes.io/storage-provisioner"] == name;
    let Some(node) = annotations["volume.kubernetes.io/selected-node"].as_str() else { return Ok(()) };
    if !asked || claim["spec"]["volumeName"].is_string() {
        return Ok(());
    }
    let answer = api.request("POST", "/api/v1/persistentvolumes", Some(&volume(name, claim, node)))?;
    // 409: an earlier event of the same claim had it made.
    if !answer.is_success() && answer.status != 409 {
        anyhow::bail!("no volume for a claim: {}: {}", answer.status, answer.body);
    }
    Ok(())
}

fn volume(name: &str, claim: &Value, node: &str) -> Value {
    let metadata = &claim["metadata"];
    let uid = metadata["uid"].as_str().unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": format!("pvc-{uid}"), "annotations": {"pv.kubernetes.io/provisioned-by": name}},
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": claim["spec"]["resources"]["requests"],
            "storageClassName": claim["spec"]["storageClassName"],
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": name, "volumeHandle": uid},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": uid,
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
            ]}]}},
        },
    })
}
