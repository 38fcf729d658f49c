use super::{Labels, Requests, Str, Taint};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// All names of the image, as the node reports them.
    pub names: Vec<Str>,
    pub size_bytes: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: Str,
    /// A node recreated under the same name is another node.
    pub uid: Str,
    pub labels: Labels,
    /// `spec.unschedulable`: cordoned.
    pub unschedulable: bool,
    /// In the order given.
    pub taints: Arc<[Taint]>,
    pub allocatable: Requests,
    pub allocatable_pods: i64,
    pub images: Vec<Image>,
    /// `status.declaredFeatures`, sorted.
    pub declared_features: Arc<[Str]>,
    pub pressure: Pressure,
    /// The controllers whose pods should avoid the node, by an annotation of the Policy era.
    pub avoids: Arc<[AvoidedController]>,
}

/// The pressure conditions of a node that are `True`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    pub memory: bool,
    pub disk: bool,
    pub pid: bool,
}

/// A controller whose pods should avoid a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AvoidedController {
    pub kind: Str,
    pub uid: Str,
}

/// Profiles and affinity terms select namespaces by name and label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    pub name: Str,
    pub labels: Labels,
}
