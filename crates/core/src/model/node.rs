use super::{Labels, Requests, Str, Taint};
use std::sync::Arc;

/// A container image on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Every name it goes by, as the node reports them.
    pub names: Vec<Str>,
    /// Its size in bytes.
    pub size_bytes: i64,
}

/// A node as the scheduler sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Str,
    /// Its uid: a node recreated under the same name is another node.
    pub uid: Str,
    /// Its labels.
    pub labels: Labels,
    /// `spec.unschedulable`: cordoned.
    pub unschedulable: bool,
    /// Its taints in the order given.
    pub taints: Arc<[Taint]>,
    /// What it offers to pods.
    pub allocatable: Requests,
    /// How many pods it takes.
    pub allocatable_pods: i64,
    /// The images it holds.
    pub images: Vec<Image>,
    /// `status.declaredFeatures`, sorted.
    pub declared_features: Arc<[Str]>,
    /// What it says it is short of.
    pub pressure: Pressure,
    /// The controllers whose pods it asks to be spared, from the annotation of the Policy era.
    pub avoids: Arc<[AvoidedController]>,
}

/// What a node's conditions say it is short of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    /// `MemoryPressure` is `True`.
    pub memory: bool,
    /// `DiskPressure` is `True`.
    pub disk: bool,
    /// `PIDPressure` is `True`.
    pub pid: bool,
}

/// A controller whose pods a node asks to be spared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AvoidedController {
    /// Its kind.
    pub kind: Str,
    /// Its uid.
    pub uid: Str,
}

/// A namespace: its name and labels, which profiles and affinity terms may select by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// Its name.
    pub name: Str,
    /// Its labels.
    pub labels: Labels,
}
