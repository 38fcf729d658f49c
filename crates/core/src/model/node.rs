use super::{Labels, Requests, Str};
use std::sync::Arc;

/// The labels by which nodes are told apart and grouped.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Image {
    /// All names of the image, as the node reports them.
    pub names: Vec<Str>,
    pub size_bytes: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
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

/// What an untolerated taint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaintEffect {
    /// New pods stay away.
    NoSchedule,
    /// New pods prefer other nodes: it counts in the score only.
    PreferNoSchedule,
    /// New pods stay away and running ones are evicted.
    NoExecute,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Taint {
    pub key: Str,
    /// May be empty.
    pub value: Str,
    pub effect: TaintEffect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TolerationOperator {
    Equal,
    Exists,
    /// `Lt` and `Gt`, which need an alpha feature gate: they match no taint, as upstream without the gate.
    Never,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Empty (with `Exists`) means any key.
    pub key: Str,
    pub operator: TolerationOperator,
    /// For `Equal`.
    pub value: Str,
    /// `None` means any effect.
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    /// After `ToleratesTaint` in `staging/src/k8s.io/api/core/v1/toleration.go`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let effect = self.effect.is_none_or(|e| e == taint.effect);
        let key = self.key.is_empty() || self.key == taint.key;
        effect
            && key
            && match self.operator {
                TolerationOperator::Equal => self.value == taint.value,
                TolerationOperator::Exists => true,
                TolerationOperator::Never => false,
            }
    }
}
