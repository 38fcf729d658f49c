use super::Ledger;
use crate::model::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, Service, StorageClass, VolumeAttachment, Workload,
};

/// Defines [`Object`], one row a variant: what it holds, the type it is made from, and the function that applies it.
macro_rules! objects {
    ($($(#[$doc:meta])* $variant:ident($held:ty) of $type:ty => $apply:ident $(($by:tt))?),+ $(,)?) => {
        /// An object of a kind that the ledger keeps.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Object {
            $($(#[$doc])* $variant($held)),+
        }

        $(impl From<$type> for Object {
            fn from(object: $type) -> Self {
                Self::$variant(object.into())
            }
        })+

        impl Object {
            pub fn apply(self, ledger: &mut Ledger) {
                match self {
                    $(Self::$variant(object) => ledger.$apply($($by)? object),)+
                }
            }
        }
    };
}

objects! {
    Pod(Box<Pod>) of Pod => apply_pod (*),
    Node(Box<Node>) of Node => apply_node (&),
    Namespace(Namespace) of Namespace => apply_namespace,
    DeviceClass(DeviceClass) of DeviceClass => apply_device_class,
    Budget(PodDisruptionBudget) of PodDisruptionBudget => apply_budget,
    Service(Service) of Service => apply_service,
    /// A ReplicationController, ReplicaSet or StatefulSet.
    Workload(Workload) of Workload => apply_controller,
    Volume(Box<PersistentVolume>) of PersistentVolume => apply_volume (*),
    Claim(Box<PersistentVolumeClaim>) of PersistentVolumeClaim => apply_claim (*),
    StorageClass(StorageClass) of StorageClass => apply_storage_class,
    CsiNode(CsiNode) of CsiNode => apply_csi_node,
    CsiDriver(CsiDriver) of CsiDriver => apply_csi_driver,
    CsiCapacity(CsiStorageCapacity) of CsiStorageCapacity => apply_csi_capacity,
    VolumeAttachment(VolumeAttachment) of VolumeAttachment => apply_volume_attachment,
}
