use super::VolumeAffinity;
use crate::model::{LabelSelector, Str};

/// When claims of a class are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BindingMode {
    /// As soon as they exist.
    Immediate,
    /// Once a pod that uses them is decided for a node.
    WaitForFirstConsumer,
}

/// A StorageClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageClass {
    /// Its name.
    pub name: Str,
    /// Who makes its volumes.
    pub provisioner: Str,
    /// When its claims are bound; `None` only where no API server filled it in.
    pub binding_mode: Option<BindingMode>,
    /// Where volumes of it can be made; `None` is everywhere.
    pub allowed_topologies: Option<VolumeAffinity>,
}

/// A CSINode: the drivers of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiNode {
    /// The node's name.
    pub name: Str,
    /// The drivers with the number of volumes each can attach there, where there is a limit.
    pub drivers: Vec<(Str, Option<i32>)>,
    /// The in-tree plugins that the node has handed over to CSI drivers, sorted.
    pub migrated_plugins: Vec<Str>,
}

impl CsiNode {
    /// The most volumes of `driver` that can be attached, where there is a limit.
    pub fn limit(&self, driver: &str) -> Option<i32> {
        // Of a driver named twice the last one counts, as in upstream's map.
        self.drivers
            .iter()
            .rev()
            .find(|(name, limit)| &**name == driver && limit.is_some())
            .and_then(|(_, limit)| *limit)
    }
}

/// A CSIDriver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiDriver {
    /// Its name.
    pub name: Str,
    /// Whether it tells how much room it has, as CSIStorageCapacity objects.
    pub storage_capacity: bool,
}

/// A CSIStorageCapacity: the room for volumes of a class in some part of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiStorageCapacity {
    /// Its namespace.
    pub namespace: Str,
    /// Its name within the namespace.
    pub name: Str,
    /// The class.
    pub class: Str,
    /// Which nodes have access; `None` where none has, or it does not parse.
    pub nodes: Option<LabelSelector>,
    /// The largest volume that can be made, in bytes; `None` where it does not say.
    pub limit: Option<i64>,
}

/// A VolumeAttachment: a volume that is, or is to be, attached to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeAttachment {
    /// Its name.
    pub name: Str,
    /// The driver that attaches it; empty for none.
    pub attacher: Str,
    /// The node.
    pub node: Str,
    /// The PersistentVolume, where it is one.
    pub volume: Option<Str>,
}
