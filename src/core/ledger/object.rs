use super::Ledger;
use crate::core::model::{DeviceClass, Namespace, Node, Pod, Service, Workload};

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
    /// A Service.
    Service(Service),
    /// A ReplicationController, ReplicaSet or StatefulSet.
    Workload(Workload),
}

impl Object {
    /// Takes it up into `ledger` as seen.
    pub fn apply(self, ledger: &mut Ledger) {
        match self {
            Self::Pod(pod) => ledger.apply_pod(*pod),
            Self::Node(node) => ledger.apply_node(&node),
            Self::Namespace(namespace) => ledger.apply_namespace(namespace),
            Self::DeviceClass(class) => ledger.apply_device_class(class),
            Self::Service(service) => ledger.apply_service(service),
            Self::Workload(workload) => ledger.apply_controller(workload),
        }
    }
}
