//! An in-memory cluster and a virtual clock around the same core that schedules live.
//!
//! Binds take effect at once; workers step in turn by name; the clock jumps from one moment at which something is due
//! to the next. A run ends when nothing is active, in backoff or on its way. The same inputs, profiles and seed give the
//! same report.

mod report;
mod run;
#[cfg(test)]
mod tests;
mod volumes;

pub use report::{Fate, PodReport, Report, Summary};
pub use run::{Outcome, run};

use crate::core::ledger::Ledger;
use crate::core::model::{
    CsiDriver, CsiNode, CsiStorageCapacity, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    StorageClass, VolumeAttachment,
};
use crate::core::profile::CompiledProfile;
use std::sync::Arc;

/// A cluster at one moment, as manifests describe it.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    /// The nodes, in the order in which they joined.
    pub nodes: Vec<Node>,
    /// The namespaces that are known with their labels.
    pub namespaces: Vec<Namespace>,
    /// The pods, running (with a node) and pending.
    pub pods: Vec<Pod>,
    /// Volumes, claims and their like.
    pub storage: Storage,
}

/// What a cluster has of storage objects.
#[derive(Debug, Clone, Default)]
pub struct Storage {
    /// PersistentVolumes.
    pub volumes: Vec<PersistentVolume>,
    /// PersistentVolumeClaims.
    pub claims: Vec<PersistentVolumeClaim>,
    /// StorageClasses.
    pub classes: Vec<StorageClass>,
    /// CSINodes.
    pub csi_nodes: Vec<CsiNode>,
    /// CSIDrivers.
    pub csi_drivers: Vec<CsiDriver>,
    /// CSIStorageCapacities.
    pub csi_capacities: Vec<CsiStorageCapacity>,
    /// VolumeAttachments.
    pub attachments: Vec<VolumeAttachment>,
}

impl Storage {
    fn apply(&self, ledger: &mut Ledger) {
        self.classes.iter().cloned().for_each(|class| ledger.apply_storage_class(class));
        self.volumes.iter().cloned().for_each(|volume| ledger.apply_volume(volume));
        self.claims.iter().cloned().for_each(|claim| ledger.apply_claim(claim));
        self.csi_nodes.iter().cloned().for_each(|csi_node| ledger.apply_csi_node(csi_node));
        self.csi_drivers.iter().cloned().for_each(|driver| ledger.apply_csi_driver(driver));
        self.csi_capacities.iter().cloned().for_each(|capacity| ledger.apply_csi_capacity(capacity));
        self.attachments.iter().cloned().for_each(|attachment| ledger.apply_volume_attachment(attachment));
    }
}

impl Cluster {
    /// A ledger that holds this cluster.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::new();
        for namespace in &self.namespaces {
            ledger.apply_namespace(namespace.clone());
        }
        for node in &self.nodes {
            ledger.apply_node(node);
        }
        self.storage.apply(&mut ledger);
        for pod in &self.pods {
            ledger.apply_pod(pod.clone());
        }
        ledger
    }

    /// The pods without a node, sorted by namespace and name.
    pub fn pending(&self) -> Vec<&Pod> {
        let mut pending: Vec<&Pod> = self.pods.iter().filter(|p| p.node_name.is_none() && !p.finished).collect();
        pending.sort_by(|a, b| a.key.cmp(&b.key));
        pending
    }
}

/// The profile of `profiles` that serves `pod`.
pub fn serving<'a>(profiles: &'a [Arc<CompiledProfile>], pod: &Pod) -> Option<&'a Arc<CompiledProfile>> {
    profiles.iter().find(|p| p.serves(&pod.scheduler_name))
}

/// Why no profile of `profiles` serves `pod`, and which names are served.
pub fn not_served(profiles: &[Arc<CompiledProfile>], pod: &Pod) -> String {
    let names: Vec<&str> = profiles.iter().flat_map(|p| p.scheduler_names.iter().map(|n| &**n)).collect();
    format!("no profile serves schedulerName {}: the profiles given serve {}", pod.scheduler_name, names.join(", "))
}
