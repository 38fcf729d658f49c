//! A driver of devices that exist only as objects: it publishes them, and plays the kubelets' part for pods with claims.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::api::{Api, Patch};
use crate::control_plane::ControlPlane;
use crate::follow::follow;
use crate::parallel::for_each;

const API: &str = "/apis/resource.k8s.io/v1";

/// What kubelets have yet to start: pods that are bound and pending.
const PODS: &str = "/api/v1/pods?fieldSelector=spec.nodeName!%3D%2Cstatus.phase%3DPending";

/// Slices that are made at a time: more only wait in the server.
const WIDTH: usize = 32;

/// A running driver. Dropping it ends it; what it has published stays.
#[derive(Debug)]
pub struct Driver {
    api: Api,
    name: String,
    devices: usize,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    admitted: AtomicUsize,
    refused: AtomicUsize,
    stop: AtomicBool,
}

impl Driver {
    /// The reason in the status of a pod that was refused, as a kubelet gives it.
    pub const REASON: &str = "UnexpectedAdmissionError";

    /// The extended resource that devices of the driver of this name stand for.
    pub fn resource(name: &str) -> String {
        format!("{name}/device")
    }

    /// Publishes the devices of a node, in a pool that is named as the node.
    pub fn publish(&self, node: &str) -> Result<()> {
        let devices: Vec<Value> = (0..self.devices).map(|i| json!({"name": format!("device-{i}")})).collect();
        let slice = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": node},
            "spec": {
                "driver": self.name,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        });
        self.api.post(&format!("{API}/resourceslices"), &slice).map(drop)
    }

    /// Withdraws the devices of a node that is gone for good.
    pub fn withdraw(&self, node: &str) -> Result<()> {
        self.api.delete(&format!("{API}/resourceslices/{node}"), None).map(drop)
    }

    /// How many pods with claims it has looked at, and found to have what they claim.
    pub fn admitted(&self) -> usize {
        self.shared.admitted.load(Ordering::Relaxed)
    }

    /// How many pods were bound before their claims were allocated and reserved for them. A scheduler must never bring that about.
    pub fn refused(&self) -> usize {
        self.shared.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say but that it ended.
            let _ = thread.join();
        }
    }
}

impl ControlPlane {
    /// Starts a driver of this name, with so many devices on each of the nodes. They are of a class that is named as the driver, and can be had
    /// by an extended resource as well ([`Driver::resource`]).
    pub fn start_driver(&self, name: &str, nodes: &[String], devices: usize) -> Result<Driver> {
        let class = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {
                "extendedResourceName": Driver::resource(name),
                "selectors": [{"cel": {"expression": format!("device.driver == '{name}'")}}],
            },
        });
        self.api.post(&format!("{API}/deviceclasses"), &class)?;
        let shared = Arc::new(Shared::default());
        let (api, inner, resource) = (self.api.clone(), shared.clone(), Driver::resource(name));
        let thread = thread::spawn(move || {
            let mut seen = HashSet::new();
            follow(&api, PODS, &inner.stop, |event, pod| match event {
                "DELETED" => {
                    seen.remove(text(&pod["metadata"]["uid"]));
                    Ok(())
                }
                _ => admit((&api, &inner, &resource), pod, &mut seen),
            });
        });
        let driver = Driver { api: self.api.clone(), name: name.to_owned(), devices, shared, thread: Some(thread) };
        for_each(nodes.len(), WIDTH, |i| driver.publish(&nodes[i]))?;
        Ok(driver)
    }
}

/// Refuses a pod that lacks something. Each pod is looked at once, as a kubelet does before it starts it.
fn admit((api, shared, resource): (&Api, &Shared, &str), pod: &Value, seen: &mut HashSet<String>) -> Result<()> {
    let uid = text(&pod["metadata"]["uid"]);
    if seen.contains(uid) {
        return Ok(());
    }
    let path = format!("/api/v1/namespaces/{}/pods/{}", namespace(pod), text(&pod["metadata"]["name"]));
    if let Some(why) = lacks(api, resource, pod)? {
        // The claim controller takes a reservation away once its pod has ended or is gone. Read after the claim, the pod shows that.
        let now = read(api, &path)?;
        if now["metadata"]["uid"] == uid && now["status"]["phase"] == "Pending" {
            // Counted first: the answer may be lost.
            shared.refused.fetch_add(1, Ordering::Relaxed);
            let failed = json!({"status": {"phase": "Failed", "reason": Driver::REASON, "message": why}});
            api.patch(&format!("{path}/status"), Patch::Merge, &failed)?;
        }
    } else if pod["spec"]["resourceClaims"].is_array() || asks_for(pod, resource) {
        shared.admitted.fetch_add(1, Ordering::Relaxed);
    }
    seen.insert(uid.to_owned());
    Ok(())
}

/// What the pod lacks of its claims.
fn lacks(api: &Api, resource: &str, pod: &Value) -> Result<Option<String>> {
    // The status names those that were made from a template, and the one that a scheduler made.
    let lists = [&pod["spec"]["resourceClaims"], &pod["status"]["resourceClaimStatuses"]];
    let of_resource = &pod["status"]["extendedResourceClaimStatus"];
    if asks_for(pod, resource) && of_resource.is_null() {
        return Ok(Some(format!("nothing says by which claim it has its {resource}")));
    }
    let entries = lists.into_iter().filter_map(Value::as_array).flatten().chain([of_resource]);
    for name in entries.filter_map(|entry| entry["resourceClaimName"].as_str()) {
        let claim = read(api, &format!("{API}/namespaces/{}/resourceclaims/{name}", namespace(pod)))?;
        if claim["status"]["allocation"].is_null() {
            return Ok(Some(format!("claim {name} is not allocated")));
        }
        let mut users = claim["status"]["reservedFor"].as_array().into_iter().flatten();
        if !users.any(|user| user["uid"] == pod["metadata"]["uid"]) {
            return Ok(Some(format!("claim {name} is not reserved for the pod")));
        }
    }
    Ok(None)
}

fn asks_for(pod: &Value, resource: &str) -> bool {
    let mut containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    containers.any(|container| !container["resources"]["requests"][resource].is_null())
}

/// The object as it is now; null if it is not there.
fn read(api: &Api, path: &str) -> Result<Value> {
    let answer = api.request("GET", path, None)?;
    match answer.status {
        404 => Ok(Value::Null),
        _ if answer.is_success() => Ok(answer.body),
        status => bail!("GET {path}: {status}: {}", answer.body),
    }
}

fn namespace(object: &Value) -> &str {
    text(&object["metadata"]["namespace"])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
