//! Services and controllers, as far as pods are recognised by them.

use super::{Controller, LabelSelector, Labels, Str};

/// A kind of controller by whose selector pods are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    /// A ReplicationController (`v1`).
    ReplicationController,
    /// A ReplicaSet (`apps/v1`).
    ReplicaSet,
    /// A StatefulSet (`apps/v1`).
    StatefulSet,
}

impl WorkloadKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::ReplicationController, Self::ReplicaSet, Self::StatefulSet];

    /// The kind that an owner reference speaks of. Other groups have kinds of these names too.
    pub fn of(owner: &Controller) -> Option<Self> {
        match (&*owner.api_version, &*owner.kind) {
            ("v1", "ReplicationController") => Some(Self::ReplicationController),
            ("apps/v1", "ReplicaSet") => Some(Self::ReplicaSet),
            ("apps/v1", "StatefulSet") => Some(Self::StatefulSet),
            _ => None,
        }
    }
}

/// A Service: which pods of its namespace it sends traffic to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its namespace.
    pub namespace: Str,
    /// Its name.
    pub name: Str,
    /// Labels its pods have; `None` selects none.
    pub selector: Option<Labels>,
}

/// A controller: which pods of its namespace are its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Its kind.
    pub kind: WorkloadKind,
    /// Its namespace.
    pub namespace: Str,
    /// Its name.
    pub name: Str,
    /// Its selector; `None` (not given, or one that does not parse) selects no pod.
    pub selector: Option<LabelSelector>,
}
