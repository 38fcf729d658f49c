use super::Ledger;
use crate::model::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, Service, StorageClass, VolumeAttachment, Workload,
};

/// Defines [`Object`]; each variant is made from the one type that it holds.
macro_rules! objects {
    ($($variant:ident($held:ty) of $type:ty),+ $(,)?) => {
        /// An object of a kind that the ledger keeps.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Object {
            $($variant($held)),+
        }

        $(impl From<$type> for Object {
            fn from(object: $type) -> Self {
                Self::$variant(object.into())
            }
        })+
    };
}

objects! {
    Pod(Box<Pod>) of Pod,
    Node(Box<Node>) of Node,
    Namespace(Namespace) of Namespace,
    DeviceClass(DeviceClass) of DeviceClass,
    Budget(PodDisruptionBudget) of PodDisruptionBudget,
    Service(Service) of Service,
    Workload(Workload) of Workload,
    Volume(Box<PersistentVolume>) of PersistentVolume,
    Claim(Box<PersistentVolumeClaim>) of PersistentVolumeClaim,
    StorageClass(StorageClass) of StorageClass,
    CsiNode(CsiNode) of CsiNode,
    CsiDriver(CsiDriver) of CsiDriver,
    CsiCapacity(CsiStorageCapacity) of CsiStorageCapacity,
    VolumeAttachment(VolumeAttachment) of VolumeAttachment,
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
