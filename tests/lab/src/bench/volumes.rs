//! A race of pods that have a volume of a CSI driver each, bound to its claim before: upstream's SchedulingCSIPVs, without limits of
//! volumes on the nodes.

use anyhow::Result;
use serde_json::{Value, json};

use super::Bench;
use super::cluster::PODS;
use super::contestant::Contestant;
use super::figures::Figures;
use super::pods::{pod_name, probe_prefix};
use super::workload::Workload;

const VOLUMES: &str = "/api/v1/persistentvolumes";
const DRIVER: &str = "csi.example.com";
const SIZE: &str = "1Gi";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

impl Bench {
    /// Makes a volume and a claim for each pod of the race and its probe, and runs it. No controller need bind them.
    pub(super) fn volumes(&self, contestant: Contestant, prefix: &str) -> Result<Figures> {
        let probe = probe_prefix(prefix);
        for (prefix, count) in [(probe.as_str(), 1), (prefix, self.options.pods_of(Workload::Volumes))] {
            self.make(VOLUMES, count, |index| volume(&pod_name(prefix, index)))?;
            self.make(&claims(), count, |index| claim(&pod_name(prefix, index)))?;
        }
        self.calm()?;
        self.race(Workload::Volumes, contestant, prefix)
    }

    /// Removes what [`Self::volumes`] made, once the pods are gone.
    pub(super) fn clean_volumes(&self) -> Result<()> {
        [claims().as_str(), VOLUMES].into_iter().try_for_each(|path| self.delete_protected(path))
    }
}

fn claims() -> String {
    format!("/api/v1/namespaces/{PODS}/persistentvolumeclaims")
}

/// A volume that belongs to the claim of its own name.
fn volume(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": SIZE},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": PODS, "name": name},
            "csi": {"driver": DRIVER, "volumeHandle": name},
        },
    })
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": PODS, "annotations": {BIND_COMPLETED: "true"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": SIZE}},
            "storageClassName": "",
            "volumeName": name,
        },
    })
}
