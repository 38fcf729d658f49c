use super::Ledger;
use crate::model::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, Service, StorageClass, VolumeAttachment, Workload,
};

/// An object of a kind that the ledger keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    Pod(Box<Pod>),
    Node(Box<Node>),
    Namespace(Namespace),
    DeviceClass(DeviceClass),
    Budget(PodDisruptionBudget),
    Service(Service),
    /// A ReplicationController, ReplicaSet or StatefulSet.
    Workload(Workload),
    Volume(Box<PersistentVolume>),
    Claim(Box<PersistentVolumeClaim>),
    StorageClass(StorageClass),
    CsiNode(CsiNode),
    CsiDriver(CsiDriver),
    CsiCapacity(CsiStorageCapacity),
    VolumeAttachment(VolumeAttachment),
}

impl Object {
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
