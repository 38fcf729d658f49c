//! The kinds that the engine reads, in one table: where a kind is, how it is decoded, how it goes into the ledger.
//! The watches, a live read, manifests and the permissions that are asked for all follow from it.

use super::frame::{self, Frame, ReadObject, Seen};
use super::{Absence, ObjectKey, RawObserver, RawObservers};
use crate::decode::{DecodeError, Decoder, SlimNamespace};
use crate::proto::{Encoded, Type, Value};
use crate::slim::known::Shapes;
use crate::slim::{
    SlimBudget, SlimClaim, SlimCsiDriver, SlimCsiNode, SlimCsiStorageCapacity, SlimDeviceClass, SlimNode, SlimPod,
    SlimReplicaSet, SlimReplicationController, SlimResourceClaim, SlimResourceSlice, SlimService, SlimStatefulSet,
    SlimStorageClass, SlimVolume, SlimVolumeAttachment, known, unknown,
};
use berth_core::ledger::{Ledger, Object};
use berth_core::model::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, ResourceClaim, Service, StorageClass, Str, VolumeAttachment, Workload, WorkloadKind,
};
use berth_devices::model::ResourceSlice;
use std::cell::OnceCell;
use std::sync::{Arc, LazyLock};

/// A kind that can be watched.
pub trait Watched: Send + 'static {
    /// What its objects are decoded to.
    type Object: Into<Object> + Send + Sync + 'static;
    /// Its plural, as in paths, logs and metrics.
    const PLURAL: &'static str;
    /// Its plural and API group as RBAC rules name them: `pods`, `replicasets.apps`.
    const RESOURCE: &'static str;
    /// The path of its collection.
    const PATH: &'static str;
    /// The field selector of the objects that are wanted.
    const FIELDS: Option<&'static str> = None;
    /// Whether a cluster may do without it: where it is not served, or forbidden to us, there are none of it.
    const OPTIONAL: bool = false;

    /// Whether the ledger keeps the object that has this key, as it must once the object was applied; not asked of kinds of which the
    /// ledger has no table by key.
    fn is_kept(_key: &ObjectKey, _ledger: &Ledger) -> bool {
        true
    }

    /// Tells the ledger that the kind is read, or why it counts as empty.
    fn note_absence(_absence: Option<Absence>, _ledger: &mut Ledger) {}

    /// Tells the ledger that all objects are read anew: what it does not see until [`Self::end_read`] is gone.
    fn begin_read(_ledger: &mut Ledger) {}

    /// After [`Self::note_absence`]; of kinds that are [`Self::OPTIONAL`] alone.
    fn end_read(_ledger: &mut Ledger) {}

    /// The object as a pod, if it is one: some look at pods before they are applied.
    fn pod(_object: &Self::Object) -> Option<&Pod> {
        None
    }

    /// A decoder that shares what objects of this kind repeat.
    fn decoder() -> Decoder {
        Decoder::plain()
    }

    /// The observer that wants to see the texts of objects of this kind.
    fn observer(_observers: &RawObservers) -> Option<Arc<dyn RawObserver<Self::Object>>> {
        None
    }

    /// Its type in protobuf.
    fn message() -> Type;

    /// Decodes an item of a list.
    fn item(decoder: &mut Decoder, item: Encoded<'_>) -> ReadObject<Self::Object>;

    /// Decodes an event of a watch.
    fn frame(decoder: &mut Decoder, event: Encoded<'_>) -> Frame<Self::Object>;
}

/// A watched kind that the ledger keeps.
pub trait Tracked: Watched {
    /// What tells objects of this kind apart: the uid of a pod, the name of a node, `namespace/name` of a Service.
    fn identity(object: &Self::Object) -> Str;

    /// What `identity` gives for the object that has this key.
    fn identity_of(key: &ObjectKey) -> Str;

    fn apply(object: Self::Object, ledger: &mut Ledger);

    fn delete(identity: &str, ledger: &mut Ledger);
}

/// A kind by what manifests and RBAC rules call it.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// The kind as in manifests: `StorageClass`.
    pub name: &'static str,
    /// The apiVersion that is watched.
    pub api_version: &'static str,
    pub namespaced: bool,
    /// See [`Watched::RESOURCE`].
    pub resource: &'static str,
    /// See [`Watched::OPTIONAL`].
    pub optional: bool,
    /// Decodes an object of this kind.
    pub read: fn(&mut Decoder, Encoded<'_>) -> Result<Object, DecodeError>,
}

impl Kind {
    /// The kind that a manifest names.
    pub fn find(api_version: &str, name: &str) -> Option<&'static Self> {
        let kind = KINDS.iter().find(|kind| kind.name == name)?;
        // The beta versions of a DeviceClass have the same fields; those of claims and slices do not.
        let beta = matches!(api_version, "resource.k8s.io/v1beta2" | "resource.k8s.io/v1beta1");
        (kind.api_version == api_version || beta && name == "DeviceClass").then_some(kind)
    }
}

/// Does something with each watched kind.
pub trait KindVisitor {
    fn visit<K: Tracked>(&mut self);
}

fn read<W: Watched>(decoder: &mut Decoder, object: Encoded<'_>) -> Result<Object, DecodeError> {
    W::item(decoder, object).object.map(Into::into)
}

/// `item` and `frame` of a kind whose objects are looked through for unknown fields where `$waits` says so.
macro_rules! looked_through {
    ($slim:ident => $decode:ident, $shapes:ident, $waits:expr) => {
        fn item(decoder: &mut Decoder, item: Encoded<'_>) -> ReadObject<Self::Object> {
            let room = OnceCell::new();
            let mut slim = $slim::read_encoded(item, Self::message(), &room);
            if $waits(&slim) {
                slim.unknown = unknown_in(Seen { text: item, is_event: false }, &known::$shapes, Self::message());
            }
            frame::read_object(&slim, |slim| decoder.$decode(slim))
        }

        fn frame(decoder: &mut Decoder, event: Encoded<'_>) -> Frame<Self::Object> {
            let room = OnceCell::new();
            let note = |slim: &mut $slim<'_>, seen: Seen<'_>| {
                if $waits(slim) {
                    slim.unknown = unknown_in(seen, &known::$shapes, Self::message());
                }
            };
            frame::read((event, Self::message()), &room, note, |slim| decoder.$decode(slim))
        }
    };
}

fn unknown_in(seen: Seen<'_>, shapes: &Shapes, message: Type) -> Vec<String> {
    let shape = if seen.is_event { shapes.event } else { shapes.object };
    match seen.text {
        Encoded::Json(json) => unknown::unknown_fields(json, shape),
        Encoded::Protobuf(bytes) => unknown::unknown_fields_in(Value::object(bytes, message), shape),
    }
}

macro_rules! api_version {
    ("", $version:tt) => {
        $version
    };
    ($group:tt, $version:tt) => {
        concat!($group, "/", $version)
    };
}

macro_rules! resource {
    ("", $plural:tt) => {
        $plural
    };
    ($group:tt, $plural:tt) => {
        concat!($plural, ".", $group)
    };
}

macro_rules! path {
    ("", $version:tt, $plural:tt) => {
        concat!("/api/", $version, "/", $plural)
    };
    ($group:tt, $version:tt, $plural:tt) => {
        concat!("/apis/", $group, "/", $version, "/", $plural)
    };
}

/// The functions of an identity: an object's `uid`, its `name`, or its `key`, which is `namespace/name` (in one field for a
/// `claim`). Only kinds by name are cluster-scoped.
macro_rules! identity {
    (@namespaced name) => {
        false
    };
    (@namespaced $other:ident) => {
        true
    };
    (uid) => {
        identity! { @fn object => object.uid.clone(), key => key.uid.as_str().into() }
    };
    (name) => {
        identity! { @fn object => object.name.clone(), key => key.name.as_str().into() }
    };
    (key) => {
        identity! { @fn object => joined(&object.namespace, &object.name), key => joined(&key.namespace, &key.name) }
    };
    (claim) => {
        identity! { @fn object => object.key.to_string().into(), key => joined(&key.namespace, &key.name) }
    };
    (@fn $object:ident => $identity:expr, $key:ident => $identity_of:expr) => {
        fn identity($object: &Self::Object) -> Str {
            $identity
        }

        fn identity_of($key: &ObjectKey) -> Str {
            $identity_of
        }
    };
}

fn joined(namespace: &str, name: &str) -> Str {
    format!("{namespace}/{name}").into()
}

/// Defines the kinds, one row each:
///
/// ```text
/// Type: "group" "version" "Kind" "plural" by identity (Slim type => decoder function) -> model type,
///     apply, delete (first argument of the latter), { items of Watched that are not the default }
/// ```
///
/// A row without a slim type brings `item` and `frame` itself.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $group:tt $version:tt $kind:literal $plural:tt by $identity:ident
        $(($slim:ident => $decode:ident))? -> $object:ty,
        $apply:ident $(($by:tt))?, $delete:ident $(($more:expr))? $(, { $($watched:tt)* })?;)+) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub(super) struct $name;

            impl Watched for $name {
                type Object = $object;
                const PLURAL: &'static str = $plural;
                const RESOURCE: &'static str = resource!($group, $plural);
                const PATH: &'static str = path!($group, $version, $plural);
                $($($watched)*)?

                fn message() -> Type {
                    static MESSAGE: LazyLock<Type> = LazyLock::new(|| Type::named($kind).unwrap_or_default());
                    *MESSAGE
                }

                $(fn item(decoder: &mut Decoder, item: Encoded<'_>) -> ReadObject<Self::Object> {
                    let room = OnceCell::new();
                    frame::read_object(&$slim::read_encoded(item, Self::message(), &room), |slim| decoder.$decode(slim))
                }

                fn frame(decoder: &mut Decoder, event: Encoded<'_>) -> Frame<Self::Object> {
                    let room = OnceCell::new();
                    let note = |_: &mut $slim<'_>, _: Seen<'_>| ();
                    frame::read((event, Self::message()), &room, note, |slim| decoder.$decode(slim))
                })?
            }

            impl Tracked for $name {
                identity!($identity);

                fn apply(object: Self::Object, ledger: &mut Ledger) {
                    ledger.$apply($($by)? object);
                }

                fn delete(identity: &str, ledger: &mut Ledger) {
                    ledger.$delete($($more,)? identity);
                }
            }
        )+

        /// Every kind that is watched.
        pub static KINDS: &[Kind] = &[$(Kind {
            name: $kind,
            api_version: api_version!($group, $version),
            namespaced: identity!(@namespaced $identity),
            resource: $name::RESOURCE,
            optional: $name::OPTIONAL,
            read: read::<$name>,
        }),+];

        /// Visits every kind that is watched, in the order of [`KINDS`].
        pub fn visit_kinds(visitor: &mut impl KindVisitor) {
            $(visitor.visit::<$name>();)+
        }
    };
}

kinds! {
    /// Pods that have not ended.
    Pods: "" "v1" "Pod" "pods" by uid -> Pod, apply_pod, delete_pod, {
        const FIELDS: Option<&'static str> = Some("status.phase!=Succeeded,status.phase!=Failed");

        fn is_kept(key: &ObjectKey, ledger: &Ledger) -> bool {
            ledger.has_pod(&key.uid)
        }

        fn pod(object: &Pod) -> Option<&Pod> {
            Some(object)
        }

        fn decoder() -> Decoder {
            Decoder::default()
        }

        fn observer(observers: &RawObservers) -> Option<Arc<dyn RawObserver<Pod>>> {
            observers.pods.clone()
        }

        looked_through! { SlimPod => pod, PODS, SlimPod::is_pending }
    };
    Nodes: "" "v1" "Node" "nodes" by name (SlimNode => node) -> Node, apply_node (&), delete_node, {
        fn is_kept(key: &ObjectKey, ledger: &Ledger) -> bool {
            ledger.nodes().find(&key.name).is_some()
        }

        fn observer(observers: &RawObservers) -> Option<Arc<dyn RawObserver<Node>>> {
            observers.nodes.clone()
        }
    };
    Namespaces: "" "v1" "Namespace" "namespaces" by name (SlimNamespace => namespace)
        -> Namespace, apply_namespace, delete_namespace;
    Services: "" "v1" "Service" "services" by key (SlimService => service)
        -> Service, apply_service, delete_service;
    ReplicationControllers: "" "v1" "ReplicationController" "replicationcontrollers" by key
        (SlimReplicationController => replication_controller)
        -> Workload, apply_controller, delete_controller (WorkloadKind::ReplicationController);
    /// ReplicaSets: of each revision of each Deployment only the selector is kept.
    ReplicaSets: "apps" "v1" "ReplicaSet" "replicasets" by key (SlimReplicaSet => replica_set)
        -> Workload, apply_controller, delete_controller (WorkloadKind::ReplicaSet);
    StatefulSets: "apps" "v1" "StatefulSet" "statefulsets" by key (SlimStatefulSet => stateful_set)
        -> Workload, apply_controller, delete_controller (WorkloadKind::StatefulSet);
    PersistentVolumes: "" "v1" "PersistentVolume" "persistentvolumes" by name (SlimVolume => volume)
        -> PersistentVolume, apply_volume, delete_volume;
    PersistentVolumeClaims: "" "v1" "PersistentVolumeClaim" "persistentvolumeclaims" by claim (SlimClaim => claim)
        -> PersistentVolumeClaim, apply_claim, delete_claim;
    StorageClasses: "storage.k8s.io" "v1" "StorageClass" "storageclasses" by name (SlimStorageClass => storage_class)
        -> StorageClass, apply_storage_class, delete_storage_class;
    CsiNodes: "storage.k8s.io" "v1" "CSINode" "csinodes" by name (SlimCsiNode => csi_node)
        -> CsiNode, apply_csi_node, delete_csi_node;
    CsiDrivers: "storage.k8s.io" "v1" "CSIDriver" "csidrivers" by name (SlimCsiDriver => csi_driver)
        -> CsiDriver, apply_csi_driver, delete_csi_driver;
    CsiStorageCapacities: "storage.k8s.io" "v1" "CSIStorageCapacity" "csistoragecapacities" by key
        (SlimCsiStorageCapacity => csi_capacity)
        -> CsiStorageCapacity, apply_csi_capacity, delete_csi_capacity;
    VolumeAttachments: "storage.k8s.io" "v1" "VolumeAttachment" "volumeattachments" by name
        (SlimVolumeAttachment => volume_attachment)
        -> VolumeAttachment, apply_volume_attachment, delete_volume_attachment;
    PodDisruptionBudgets: "policy" "v1" "PodDisruptionBudget" "poddisruptionbudgets" by key (SlimBudget => budget)
        -> PodDisruptionBudget, apply_budget, delete_budget;
    DeviceClasses: "resource.k8s.io" "v1" "DeviceClass" "deviceclasses" by name
        -> DeviceClass, apply_device_class, delete_device_class, {
        const OPTIONAL: bool = true;

        looked_through! { SlimDeviceClass => device_class, DEVICE_CLASSES, |_: &SlimDeviceClass<'_>| true }
    };
    ResourceClaims: "resource.k8s.io" "v1" "ResourceClaim" "resourceclaims" by claim
        -> ResourceClaim, apply_resource_claim, delete_resource_claim, {
        const OPTIONAL: bool = true;

        fn note_absence(absence: Option<Absence>, ledger: &mut Ledger) {
            ledger.read_claims(absence.map(Absence::as_str));
        }

        fn begin_read(ledger: &mut Ledger) {
            ledger.begin_read_of_claims();
        }

        fn end_read(ledger: &mut Ledger) {
            ledger.end_read_of_claims();
        }

        looked_through! { SlimResourceClaim => resource_claim, RESOURCE_CLAIMS, SlimResourceClaim::is_open }
    };
    ResourceSlices: "resource.k8s.io" "v1" "ResourceSlice" "resourceslices" by name
        (SlimResourceSlice => resource_slice)
        -> ResourceSlice, apply_resource_slice, delete_resource_slice, {
        const OPTIONAL: bool = true;
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_kind_follow_from_its_row() {
        assert_eq!((Pods::PATH, Pods::RESOURCE), ("/api/v1/pods", "pods"));
        assert_eq!((ReplicaSets::PATH, ReplicaSets::RESOURCE), ("/apis/apps/v1/replicasets", "replicasets.apps"));
        let kind = |api_version, name| Kind::find(api_version, name).map(|kind| (kind.resource, kind.namespaced));
        assert_eq!(kind("storage.k8s.io/v1", "StorageClass"), Some(("storageclasses.storage.k8s.io", false)));
        assert_eq!(kind("v1", "PersistentVolumeClaim"), Some(("persistentvolumeclaims", true)));
        assert_eq!(kind("resource.k8s.io/v1beta1", "DeviceClass"), Some(("deviceclasses.resource.k8s.io", false)));
        assert_eq!((kind("apps/v1", "Pod"), kind("resource.k8s.io/v1beta1", "Pod")), (None, None));
        for (name, resource, namespaced) in [
            ("ResourceClaim", "resourceclaims.resource.k8s.io", true),
            ("ResourceSlice", "resourceslices.resource.k8s.io", false),
        ] {
            assert_eq!(kind("resource.k8s.io/v1", name), Some((resource, namespaced)));
            assert_eq!((kind("resource.k8s.io/v1beta1", name), kind("resource.k8s.io/v1beta2", name)), (None, None));
        }
    }
}
