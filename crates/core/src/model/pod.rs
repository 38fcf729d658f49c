use super::{
    ExtendedRequests, LabelSelector, Labels, NodeSelector, PodResourceClaims, PodVolumes, PreferredTerm, Requests, Str,
    Toleration, steps,
};
use std::fmt;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodKey {
    pub namespace: Str,
    pub name: Str,
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// Also when none is given.
    Tcp,
    Udp,
    Sctp,
}

/// A port that a pod takes on its node's own address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    pub protocol: Protocol,
    /// 1 to 65535.
    pub port: u16,
    /// `0.0.0.0` (also when none is given) is every address.
    pub ip: Str,
}

/// What a pod takes from the node it is on, in-place resizes and overhead included.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Usage {
    pub requests: Requests,
    /// CPU with 100m for each container that names none, in thousandths of a core.
    pub non_zero_milli_cpu: i64,
    /// Memory with 200 MiB for each container that names none, in bytes.
    pub non_zero_memory: i64,
    /// Sorted.
    pub ports: Vec<HostPort>,
}

/// The `PodScheduled` condition as last seen: it is written only on change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledCondition {
    pub status: bool,
    pub reason: Str,
    pub message: Str,
}

/// The object that made a pod: the owner that is marked as its controller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Controller {
    /// Such as `apps/v1`.
    pub api_version: Str,
    pub kind: Str,
    /// In the pod's namespace.
    pub name: Str,
    pub uid: Str,
}

/// Which namespaces an affinity term looks into.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamespaceScope {
    /// Sorted. The decoder adds the pod's own namespace where upstream would.
    pub names: Vec<Str>,
    /// `None` selects no namespace.
    pub selector: Option<LabelSelector>,
}

/// A pod affinity or anti-affinity term.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AffinityTerm {
    /// `None` matches no pod.
    pub selector: Option<LabelSelector>,
    pub namespaces: NamespaceScope,
    /// The node label whose value makes a domain.
    pub topology_key: Str,
}

impl AffinityTerm {
    /// Whether it matches pods with `labels` in a namespace of that name and labels.
    pub fn matches(&self, namespace: &Str, of_namespace: &Labels, labels: &Labels) -> bool {
        self.reaches(namespace, of_namespace) && self.selector.as_ref().is_some_and(|s| s.matches(labels))
    }

    /// Whether it looks into a namespace of that name and labels.
    fn reaches(&self, namespace: &Str, of_namespace: &Labels) -> bool {
        let scope = &self.namespaces;
        scope.names.binary_search(namespace).is_ok() || scope.selector.as_ref().is_some_and(|s| s.matches(of_namespace))
    }

    /// How many comparisons [`Self::matches`] may take.
    pub fn comparisons(&self) -> usize {
        let names = steps(self.namespaces.names.len());
        let of = |selector: &Option<LabelSelector>| selector.as_ref().map_or(0, LabelSelector::comparisons);
        names + of(&self.namespaces.selector) + of(&self.selector)
    }
}

/// A preferred pod affinity or anti-affinity term.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WeightedTerm {
    /// 1 to 100 for affinity, −100 to −1 for anti-affinity.
    pub weight: i32,
    pub term: AffinityTerm,
}

/// A topology spread constraint, with upstream's defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// How many more matching pods a domain may have than the one with the fewest (hard), or a bias of the score (soft); 1 or
    /// more.
    pub max_skew: i32,
    /// The node label whose value makes a domain.
    pub topology_key: Str,
    /// `DoNotSchedule`; else `ScheduleAnyway`.
    pub hard: bool,
    /// With `matchLabelKeys` merged in; `None` matches no pod. A selector without requirements counts no placed pod, yet matches
    /// the pod itself, as upstream.
    pub selector: Option<LabelSelector>,
    /// With fewer domains than this the minimum counts as 0; 1 where none is given.
    pub min_domains: i32,
    /// `nodeAffinityPolicy`: only nodes that the pod's node affinity and nodeSelector match count.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy`: only nodes whose taints the pod tolerates count.
    pub honor_taints: bool,
}

/// All that filters and scores read of a pod: pods of equal shape get equal answers.
///
/// Identity, priority and status are not part of the shape.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodShape {
    /// What nodes are asked about the pod alone. Pods with labels of their own have it in common.
    pub row: Arc<RowShape>,
    pub namespace: Str,
    pub labels: Labels,
    /// Normalised names of the images of init containers, containers and image volumes, one entry for each.
    pub images: Vec<Str>,
    /// How many init containers and containers there are: the scale of the ImageLocality score.
    pub container_count: u32,
    pub affinity: Vec<AffinityTerm>,
    /// Required terms: once this pod is placed, they keep other pods away too.
    pub anti_affinity: Vec<AffinityTerm>,
    /// Preferred affinity (positive weight) and anti-affinity (negative weight) terms.
    pub preferred_pods: Vec<WeightedTerm>,
    pub spread: Vec<SpreadConstraint>,
    pub controller: Option<Controller>,
    /// What this version does not implement and the pod uses, so that it is held. Sorted.
    pub held_by: Vec<Feature>,
}

impl PodShape {
    /// For building a shape: copies what other shapes have in common with it.
    pub fn row_mut(&mut self) -> &mut RowShape {
        Arc::make_mut(&mut self.row)
    }
}

/// The part of a shape that the filters and scores of a node's own row read: what they find for one pod holds for all pods with an
/// equal one, whatever their labels, controllers and neighbours.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RowShape {
    /// What NodeResourcesFit checks: with pod-level requests, without what the status reports.
    pub requests: Requests,
    /// What the NodeResourcesFit score counts: container sums with missing-request defaults, no pod level.
    pub score_requests: Requests,
    pub node_selector: Labels,
    pub required_affinity: Option<NodeSelector>,
    pub preferred_affinity: Vec<PreferredTerm>,
    pub tolerations: Vec<Toleration>,
    /// Sorted.
    pub host_ports: Vec<HostPort>,
    /// What its node must declare, sorted.
    pub required_features: Vec<Str>,
    pub best_effort: bool,
}

/// What a pod uses and this version does not implement: the pod is held, never placed wrongly.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// `schedulingGroup`.
    PodGroup,
    /// A list of the pod, by its path, that is longer than [`crate::limits`] allows.
    TooLarge { field: Str, count: usize, limit: usize },
    /// A field with a value that this version does not know; `field=value`.
    UnknownValue(Str),
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodGroup => f.write_str("pod groups (spec.schedulingGroup)"),
            Self::TooLarge { field, count, limit } => write!(f, "{count} entries in {field} (at most {limit})"),
            Self::UnknownValue(what) => write!(f, "an unknown value ({what})"),
        }
    }
}

/// A pod as the scheduler sees it, decoded once at the border.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of the object on its own")]
pub struct Pod {
    pub key: PodKey,
    /// A pod recreated under the same name is another pod.
    pub uid: Str,
    /// Empty in simulations.
    pub resource_version: Str,
    pub scheduler_name: Str,
    /// `spec.nodeName`: the pod is bound.
    pub node_name: Option<Str>,
    /// `status.nominatedNodeName`.
    pub nominated_node: Option<Str>,
    /// `spec.priority`, 0 if absent.
    pub priority: i32,
    /// Whether it may evict others: `spec.preemptionPolicy` is not `Never`.
    pub preempts: bool,
    /// `status.startTime` in microseconds of Unix time; `None` before its kubelet took it up.
    pub started_unix_us: Option<i64>,
    /// Whether its kubelet runs it from a file or another source of its own: deleting the object does not stop it.
    pub is_static: bool,
    /// Whether it has the condition `DisruptionTarget` for the reason `PreemptionByScheduler`.
    pub preempted: bool,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
    /// Whether its phase is Succeeded or Failed: it takes nothing from its node any more.
    pub finished: bool,
    /// `metadata.creationTimestamp` in microseconds of Unix time, 0 if absent.
    pub created_unix_us: i64,
    /// `spec.schedulingGates`, names in the order given.
    pub gates: Vec<Str>,
    pub shape: Arc<PodShape>,
    pub usage: Arc<Usage>,
    /// `None` for the many pods without any. Not part of the shape: the answers that pods of a shape share do not depend on it.
    pub volumes: Option<Arc<PodVolumes>>,
    /// `spec.resourceClaims`; `None` for the many pods without any. Not part of the shape, as `volumes`.
    pub resource_claims: Option<PodResourceClaims>,
    /// The extended resources of its containers, as far as a DeviceClass may stand for them; `None` for the many pods without any, and for
    /// bound ones that are not read whole. Not part of the shape, as `volumes`.
    pub extended: Option<Arc<[ExtendedRequests]>>,
    pub scheduled: Option<ScheduledCondition>,
    /// Paths of spec fields that this version does not know, sorted; empty for bound pods.
    pub unknown_fields: Vec<Str>,
}

impl Pod {
    /// Whether it names claims, for volumes or for devices, by which pods of one shape differ.
    pub fn has_claims(&self) -> bool {
        self.volumes.is_some() || self.resource_claims.is_some()
    }

    /// The ResourceClaims of its namespace that it names, those included that were made from its templates.
    pub fn named_claims(&self) -> impl Iterator<Item = &Str> {
        self.resource_claims.iter().flat_map(|entries| entries.iter()).filter_map(|entry| entry.source.claim())
    }
}
