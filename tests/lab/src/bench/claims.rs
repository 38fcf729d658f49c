//! A race of pods with a ResourceClaim of their own each: before it binds such a pod, a scheduler nominates it and
//! writes its claim twice.

use anyhow::Result;
use serde_json::{Value, json};

use super::Bench;
use super::cluster::{PODS, node_name};
use super::contestant::Contestant;
use super::figures::Figures;
use super::pods::{pod_name, probe_prefix};
use super::workload::Workload;

/// Devices that each node has, as in upstream's scheduler_perf.
pub(super) const DEVICES_PER_NODE: usize = 10;

const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const CLASS: &str = "gpu";
/// The null scheduler reads neither claims nor slices: `tests/upstream/nullscheduler` has these names as well.
const DRIVER: &str = "gpu.example.com";
const REQUEST: &str = "gpu";

impl Bench {
    /// Publishes devices on every node, makes all claims, and runs the race. The claims are there before the contestant
    /// starts, so that no controller need make them from a template.
    pub(super) fn claims(&self, contestant: Contestant, prefix: &str) -> Result<Figures> {
        self.cluster.plane.api.post(CLASSES, &class())?;
        self.make(SLICES, self.options.nodes, |index| slice(&node_name(index)))?;
        let probe = probe_prefix(prefix);
        self.make(&collection(), 1, |index| claim(&pod_name(&probe, index)))?;
        let pods = self.options.pods_of(Workload::Claims);
        self.make(&collection(), pods, |index| claim(&pod_name(prefix, index)))?;
        self.calm()?;
        self.race(Workload::Claims, contestant, prefix)
    }

    /// Removes what [`Self::claims`] made, once the pods are gone.
    pub(super) fn clean_claims(&self) -> Result<()> {
        self.delete_protected(&collection())?;
        [SLICES, CLASSES].into_iter().try_for_each(|path| self.delete_all(path))
    }
}

/// Where the claims of the run's pods are.
fn collection() -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/{PODS}/resourceclaims")
}

fn class() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": CLASS},
        "spec": {"selectors": [{"cel": {"expression": format!("device.driver == \"{DRIVER}\"")}}]},
    })
}

/// The devices of a node.
fn slice(node: &str) -> Value {
    let devices: Vec<Value> = (0..DEVICES_PER_NODE).map(|number| json!({"name": format!("gpu-{number}")})).collect();
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    })
}

/// A claim of one device. It has the name of its pod.
fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": PODS},
        "spec": {"devices": {"requests": [{"name": REQUEST, "exactly": {"deviceClassName": CLASS}}]}},
    })
}
