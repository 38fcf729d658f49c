use super::VolumeAffinity;
use crate::model::{LabelSelector, Str};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BindingMode {
    Immediate,
    WaitForFirstConsumer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageClass {
    pub name: Str,
    pub provisioner: Str,
    /// `None` only where no API server filled it in.
    pub binding_mode: Option<BindingMode>,
    /// The nodes for which its volumes can be made; `None` is every node.
    pub allowed_topologies: Option<VolumeAffinity>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiNode {
    pub name: Str,
    /// With the number of volumes that each can attach there, where there is a limit.
    pub drivers: Vec<(Str, Option<i32>)>,
    /// The in-tree plugins that the node has migrated to CSI drivers, sorted.
    pub migrated_plugins: Vec<Str>,
}

impl CsiNode {
    /// `None` where there is no limit.
    pub fn limit(&self, driver: &str) -> Option<i32> {
        // Of a driver named twice the last one counts, as in upstream's map.
        self.drivers
            .iter()
            .rev()
            .find(|(name, limit)| &**name == driver && limit.is_some())
            .and_then(|(_, limit)| *limit)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiDriver {
    pub name: Str,
    /// Whether it reports its capacity as CSIStorageCapacity objects.
    pub storage_capacity: bool,
}

/// The capacity for volumes of a class in some part of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiStorageCapacity {
    pub namespace: Str,
    pub name: Str,
    pub class: Str,
    /// The nodes with access; `None` where none has, or the selector does not parse.
    pub nodes: Option<LabelSelector>,
    /// The largest volume that can be made, in bytes; `None` where it is not reported.
    pub limit: Option<i64>,
}

/// The volume is attached to the node, or is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeAttachment {
    pub name: Str,
    /// The driver; empty for none.
    pub attacher: Str,
    pub node: Str,
    /// The PersistentVolume, where it is one.
    pub volume: Option<Str>,
}
