use super::frame::{self, Frame, Seen};
use super::raw_observer::{RawObserver, Taps};
use crate::decode::Decoder;
use crate::slim::{
    SlimBudget, SlimClaim, SlimCsiDriver, SlimCsiNode, SlimCsiStorageCapacity, SlimDeviceClass, SlimNamespace,
    SlimNode, SlimPod, SlimReplicaSet, SlimReplicationController, SlimService, SlimStatefulSet, SlimStorageClass,
    SlimVolume, SlimVolumeAttachment, known, unknown,
};
use berth_core::model::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, Service, StorageClass, VolumeAttachment, Workload,
};
use std::sync::Arc;

/// A kind that can be watched.
pub trait Watched: Send + 'static {
    /// What its objects are decoded to.
    type Object: Send + Sync + 'static;
    /// Its plural, as in paths, logs and metrics.
    const PLURAL: &'static str;
    /// Its plural and API group as RBAC rules name them: `pods`, `replicasets.apps`.
    const RESOURCE: &'static str;
    /// Where its collection is.
    const PATH: &'static str;
    /// Which of its objects are wanted.
    const FIELDS: Option<&'static str> = None;
    /// Whether a cluster may do without it: where it is not served, or forbidden to us, there are none of it.
    const OPTIONAL: bool = false;

    /// A decoder that shares what objects of this kind repeat.
    fn decoder() -> Decoder {
        Decoder::plain()
    }

    /// Who wants to see the texts of objects of this kind.
    fn tap(_taps: &Taps) -> Option<Arc<dyn RawObserver<Self::Object>>> {
        None
    }

    /// Decodes an item of a list.
    fn item(decoder: &mut Decoder, bytes: &[u8]) -> Seen<Self::Object>;

    /// Decodes a line of a watch.
    fn frame(decoder: &mut Decoder, line: &[u8]) -> Frame<Self::Object>;
}

/// Pods that have not ended.
#[derive(Debug)]
pub struct Pods;

impl Watched for Pods {
    type Object = Pod;
    const PLURAL: &'static str = "pods";
    const RESOURCE: &'static str = "pods";
    const PATH: &'static str = "/api/v1/pods";
    const FIELDS: Option<&'static str> = Some("status.phase!=Succeeded,status.phase!=Failed");

    fn decoder() -> Decoder {
        Decoder::new()
    }

    fn tap(taps: &Taps) -> Option<Arc<dyn RawObserver<Pod>>> {
        taps.pods.clone()
    }

    fn item(decoder: &mut Decoder, bytes: &[u8]) -> Seen<Pod> {
        let mut slim = SlimPod::read(bytes);
        note_unknown(&mut slim, bytes, &known::POD);
        frame::seen(&slim, |slim| decoder.pod(slim))
    }

    fn frame(decoder: &mut Decoder, line: &[u8]) -> Frame<Pod> {
        frame::read(line, |slim: &mut SlimPod<'_>| note_unknown(slim, line, &known::FRAME), |slim| decoder.pod(slim))
    }
}

/// Nodes.
#[derive(Debug)]
pub struct Nodes;

impl Watched for Nodes {
    type Object = Node;
    const PLURAL: &'static str = "nodes";
    const RESOURCE: &'static str = "nodes";
    const PATH: &'static str = "/api/v1/nodes";

    fn tap(taps: &Taps) -> Option<Arc<dyn RawObserver<Node>>> {
        taps.nodes.clone()
    }

    fn item(decoder: &mut Decoder, bytes: &[u8]) -> Seen<Node> {
        frame::seen(&SlimNode::read(bytes), |slim| decoder.node(slim))
    }

    fn frame(decoder: &mut Decoder, line: &[u8]) -> Frame<Node> {
        frame::read(line, |_: &mut SlimNode<'_>| (), |slim| decoder.node(slim))
    }
}

fn note_unknown(slim: &mut SlimPod<'_>, bytes: &[u8], shape: &'static known::Shape) {
    if slim.is_pending() {
        slim.unknown = unknown::unknown_fields(bytes, shape);
    }
}

/// Defines kinds of which every object is wanted, one row each:
/// `Name: Object, "path of its collection", "resource", "plural", SlimType => decoder function;`. Before the arrow stands
/// `optional` where a cluster may do without.
macro_rules! watched {
    ($($(#[$doc:meta])* $name:ident: $object:ty, $path:literal, $resource:literal, $plural:literal, $slim:ident
        $($flag:ident)? => $decode:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name;

        impl Watched for $name {
            type Object = $object;
            const PLURAL: &'static str = $plural;
            const RESOURCE: &'static str = $resource;
            const PATH: &'static str = $path;
            watched!(@rest $slim, $decode $(, $flag)?);
        }
    )+};
    (@rest $slim:ident, $decode:ident, optional) => {
        const OPTIONAL: bool = true;
        watched!(@rest $slim, $decode);
    };
    (@rest $slim:ident, $decode:ident) => {
        fn item(decoder: &mut Decoder, bytes: &[u8]) -> Seen<Self::Object> {
            frame::seen(&$slim::read(bytes), |slim| decoder.$decode(slim))
        }

        fn frame(decoder: &mut Decoder, line: &[u8]) -> Frame<Self::Object> {
            frame::read(line, |_: &mut $slim<'_>| (), |slim| decoder.$decode(slim))
        }
    };
}

watched! {
    /// Namespaces.
    Namespaces: Namespace, "/api/v1/namespaces", "namespaces", "namespaces", SlimNamespace => namespace;
    /// Services.
    Services: Service, "/api/v1/services", "services", "services", SlimService => service;
    /// ReplicationControllers.
    ReplicationControllers: Workload, "/api/v1/replicationcontrollers", "replicationcontrollers", "replicationcontrollers",
        SlimReplicationController => replication_controller;
    /// ReplicaSets: of each revision of each Deployment only the selector is kept.
    ReplicaSets: Workload, "/apis/apps/v1/replicasets", "replicasets.apps", "replicasets", SlimReplicaSet => replica_set;
    /// StatefulSets.
    StatefulSets: Workload, "/apis/apps/v1/statefulsets", "statefulsets.apps", "statefulsets",
        SlimStatefulSet => stateful_set;
    /// PersistentVolumes.
    PersistentVolumes: PersistentVolume, "/api/v1/persistentvolumes", "persistentvolumes", "persistentvolumes",
        SlimVolume => volume;
    /// PersistentVolumeClaims.
    PersistentVolumeClaims: PersistentVolumeClaim, "/api/v1/persistentvolumeclaims", "persistentvolumeclaims",
        "persistentvolumeclaims", SlimClaim => claim;
    /// StorageClasses.
    StorageClasses: StorageClass, "/apis/storage.k8s.io/v1/storageclasses", "storageclasses.storage.k8s.io",
        "storageclasses", SlimStorageClass => storage_class;
    /// CSINodes.
    CsiNodes: CsiNode, "/apis/storage.k8s.io/v1/csinodes", "csinodes.storage.k8s.io", "csinodes", SlimCsiNode => csi_node;
    /// CSIDrivers.
    CsiDrivers: CsiDriver, "/apis/storage.k8s.io/v1/csidrivers", "csidrivers.storage.k8s.io", "csidrivers",
        SlimCsiDriver => csi_driver;
    /// CSIStorageCapacities.
    CsiStorageCapacities: CsiStorageCapacity, "/apis/storage.k8s.io/v1/csistoragecapacities",
        "csistoragecapacities.storage.k8s.io", "csistoragecapacities", SlimCsiStorageCapacity => csi_capacity;
    /// VolumeAttachments.
    VolumeAttachments: VolumeAttachment, "/apis/storage.k8s.io/v1/volumeattachments",
        "volumeattachments.storage.k8s.io", "volumeattachments", SlimVolumeAttachment => volume_attachment;
    /// PodDisruptionBudgets: without the right to read them, every victim is as good as another.
    PodDisruptionBudgets: PodDisruptionBudget, "/apis/policy/v1/poddisruptionbudgets", "poddisruptionbudgets.policy",
        "poddisruptionbudgets", SlimBudget => budget;
    /// DeviceClasses.
    DeviceClasses: DeviceClass, "/apis/resource.k8s.io/v1/deviceclasses", "deviceclasses.resource.k8s.io", "deviceclasses",
        SlimDeviceClass optional => device_class;
}
