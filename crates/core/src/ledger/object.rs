use super::Ledger;
use crate::model::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, Service, StorageClass, VolumeAttachment, Workload,
};

/// An object of a kind that the ledger keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A pod.
    Pod(Box<Pod>),
    /// A node.
    Node(Box<Node>),
    /// A namespace.
    Namespace(Namespace),
    /// A DeviceClass.
    DeviceClass(DeviceClass),
    /// A PodDisruptionBudget.
    Budget(PodDisruptionBudget),
    /// A Service.
    Service(Service),
    /// A ReplicationController, ReplicaSet or StatefulSet.
    Workload(Workload),
    /// A PersistentVolume.
    Volume(Box<PersistentVolume>),
    /// A PersistentVolumeClaim.
    Claim(Box<PersistentVolumeClaim>),
    /// A StorageClass.
    StorageClass(StorageClass),
    /// A CSINode.
    CsiNode(CsiNode),
    /// A CSIDriver.
    CsiDriver(CsiDriver),
    /// A CSIStorageCapacity.
    CsiCapacity(CsiStorageCapacity),
    /// A VolumeAttachment.
    VolumeAttachment(VolumeAttachment),
}

impl Object {
    /// Takes it up into `ledger` as seen.
    pub fn apply(self, ledger: &mut Ledger) {
        match self {
            Self::Pod(pod) => ledger.apply_pod(*pod),
            Self::Node(node) => ledger.apply_node(&node),
            Self::Namespace(namespace) => ledger.apply_namespace(namespace),
            Self::DeviceClass(class) => ledger.apply_device_class(class),
            Self::Budget(budget) => ledger.apply_budget(budget),
            Self::Service(service) => ledger.apply_service(service),
            Self::Workload(workload) => ledger.apply_controller(workload),
            Self::Volume(volume) => ledger.apply_volume(*volume),
            Self::Claim(claim) => ledger.apply_claim(*claim),
            Self::StorageClass(class) => ledger.apply_storage_class(class),
            Self::CsiNode(csi_node) => ledger.apply_csi_node(csi_node),
            Self::CsiDriver(driver) => ledger.apply_csi_driver(driver),
            Self::CsiCapacity(capacity) => ledger.apply_csi_capacity(capacity),
            Self::VolumeAttachment(attachment) => ledger.apply_volume_attachment(attachment),
        }
    }
}
