//! How watched kinds go into the ledger, one row each.

use berth_cluster::watch::{
    CsiDrivers, CsiNodes, CsiStorageCapacities, DeviceClasses, Namespaces, Nodes, PersistentVolumeClaims,
    PersistentVolumes, PodDisruptionBudgets, Pods, ReplicaSets, ReplicationControllers, Services, StatefulSets,
    StorageClasses, VolumeAttachments, Watched,
};
use berth_core::ledger::Ledger;
use berth_core::model::{Node, Str, WorkloadKind};
use rustc_hash::FxHashSet;

/// A watched kind that the ledger keeps.
pub trait Tracked: Watched {
    /// What tells objects of this kind apart for good: the uid of a pod, the name of a node, `namespace/name` of a Service.
    fn identity(object: &Self::Object) -> Str;

    /// The same from an object's namespace, name and uid.
    fn identity_of(namespace: &str, name: &str, uid: &str) -> Str;

    /// Takes one up as seen.
    fn apply(object: Self::Object, ledger: &mut Ledger);

    /// Drops one.
    fn delete(identity: &str, ledger: &mut Ledger);

    /// Drops all others: the end of a re-read.
    fn retain(seen: &FxHashSet<Str>, ledger: &mut Ledger);
}

fn key(namespace: &str, name: &str) -> Str {
    format!("{namespace}/{name}").into()
}

/// What tells objects apart: their `uid`, their `name`, or their `key`, which is `namespace/name`; a
/// `claim` has it in one piece.
macro_rules! identity {
    (uid) => {
        fn identity(object: &Self::Object) -> Str {
            object.uid.clone()
        }

        fn identity_of(_namespace: &str, _name: &str, uid: &str) -> Str {
            uid.into()
        }
    };
    (name) => {
        fn identity(object: &Self::Object) -> Str {
            object.name.clone()
        }

        fn identity_of(_namespace: &str, name: &str, _uid: &str) -> Str {
            name.into()
        }
    };
    (key) => {
        fn identity(object: &Self::Object) -> Str {
            key(&object.namespace, &object.name)
        }

        fn identity_of(namespace: &str, name: &str, _uid: &str) -> Str {
            key(namespace, name)
        }
    };
    (claim) => {
        fn identity(object: &Self::Object) -> Str {
            key(&object.key.namespace, &object.key.name)
        }

        fn identity_of(namespace: &str, name: &str, _uid: &str) -> Str {
            key(namespace, name)
        }
    };
}

/// Defines how kinds go into the ledger, one row each: `Kind by identity: apply, delete, retain;`, with what the ledger's
/// functions want besides in brackets.
macro_rules! tracked {
    ($($kind:ty: by $identity:ident, $apply:ident, $delete:ident, $retain:ident $(($more:expr))?;)+) => {$(
        impl Tracked for $kind {
            identity!($identity);

            fn apply(object: Self::Object, ledger: &mut Ledger) {
                ledger.$apply(object);
            }

            fn delete(identity: &str, ledger: &mut Ledger) {
                ledger.$delete($($more,)? identity);
            }

            fn retain(seen: &FxHashSet<Str>, ledger: &mut Ledger) {
                ledger.$retain($($more,)? seen);
            }
        }
    )+};
}

tracked! {
    Pods: by uid, apply_pod, delete_pod, retain_pods;
    Namespaces: by name, apply_namespace, delete_namespace, retain_namespaces;
    Services: by key, apply_service, delete_service, retain_services;
    ReplicationControllers: by key, apply_controller, delete_controller, retain_controllers (WorkloadKind::ReplicationController);
    ReplicaSets: by key, apply_controller, delete_controller, retain_controllers (WorkloadKind::ReplicaSet);
    StatefulSets: by key, apply_controller, delete_controller, retain_controllers (WorkloadKind::StatefulSet);
    PersistentVolumes: by name, apply_volume, delete_volume, retain_volumes;
    PersistentVolumeClaims: by claim, apply_claim, delete_claim, retain_claims;
    StorageClasses: by name, apply_storage_class, delete_storage_class, retain_storage_classes;
    CsiNodes: by name, apply_csi_node, delete_csi_node, retain_csi_nodes;
    CsiDrivers: by name, apply_csi_driver, delete_csi_driver, retain_csi_drivers;
    CsiStorageCapacities: by key, apply_csi_capacity, delete_csi_capacity, retain_csi_capacities;
    VolumeAttachments: by name, apply_volume_attachment, delete_volume_attachment, retain_volume_attachments;
    PodDisruptionBudgets: by key, apply_budget, delete_budget, retain_budgets;
    DeviceClasses: by name, apply_device_class, delete_device_class, retain_device_classes;
}

impl Tracked for Nodes {
    identity!(name);

    fn apply(object: Node, ledger: &mut Ledger) {
        ledger.apply_node(&object);
    }

    fn delete(identity: &str, ledger: &mut Ledger) {
        ledger.delete_node(identity);
    }

    fn retain(seen: &FxHashSet<Str>, ledger: &mut Ledger) {
        ledger.retain_nodes(seen);
    }
}
