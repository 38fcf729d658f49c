use super::{
    AffinityTerm, Feature, Labels, NodeSelector, PodVolumes, PreferredTerm, Requests, SpreadConstraint, Str,
    Toleration, WeightedTerm,
};
use std::fmt;
use std::sync::Arc;

/// The name by which people know a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodKey {
    /// Its namespace.
    pub namespace: Str,
    /// Its name within the namespace.
    pub name: Str,
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The transport protocol of a host port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP, also when none is given.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A port that a pod takes on its node's own address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// The protocol.
    pub protocol: Protocol,
    /// The port, 1 to 65535.
    pub port: u16,
    /// The address; `0.0.0.0` (also when none is given) is every address.
    pub ip: Str,
}

impl HostPort {
    /// Whether both cannot be had at once on one node. After `pkg/scheduler/framework/types.go` (HostPortInfo).
    pub fn conflicts_with(&self, other: &Self) -> bool {
        const ANY: &str = "0.0.0.0";
        self.protocol == other.protocol
            && self.port == other.port
            && (self.ip == other.ip || &*self.ip == ANY || &*other.ip == ANY)
    }
}

/// What a pod takes from the node it is on, from in-place resizes to overhead (semantics §2.7).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Usage {
    /// What it requests.
    pub requests: Requests,
    /// CPU with 100m for each container that names none, in thousandths of a core.
    pub non_zero_milli_cpu: i64,
    /// Memory with 200 MiB for each container that names none, in bytes.
    pub non_zero_memory: i64,
    /// The host ports it holds, sorted.
    pub ports: Vec<HostPort>,
}

/// The `PodScheduled` condition as last seen, to write only on change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledCondition {
    /// Whether it was `True`.
    pub status: bool,
    /// Its reason.
    pub reason: Str,
    /// Its message.
    pub message: Str,
}

/// The object that made a pod: the owner that is marked as its controller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Controller {
    /// Its apiVersion, such as `apps/v1`.
    pub api_version: Str,
    /// Its kind.
    pub kind: Str,
    /// Its name, in the pod's namespace.
    pub name: Str,
    /// Its uid.
    pub uid: Str,
}

/// All that filters and scores read of a pod: pods of equal shape get equal answers and share one class result.
///
/// Identity, priority and status are not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodShape {
    /// The pod's namespace.
    pub namespace: Str,
    /// The pod's labels.
    pub labels: Labels,
    /// What NodeResourcesFit asks for: pod level included, status not (semantics §2.7).
    pub requests: Requests,
    /// What the NodeResourcesFit score counts: container sums with missing-request defaults, no pod level.
    pub score_requests: Requests,
    /// `spec.nodeSelector`.
    pub node_selector: Labels,
    /// Required node affinity.
    pub required_affinity: Option<NodeSelector>,
    /// Preferred node affinity.
    pub preferred_affinity: Vec<PreferredTerm>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Host ports, sorted.
    pub host_ports: Vec<HostPort>,
    /// Normalised names of the images of init containers, containers and image volumes, one entry for each.
    pub images: Vec<Str>,
    /// How many init containers and containers there are: the scale of the ImageLocality score.
    pub container_count: u32,
    /// Required affinity terms.
    pub affinity: Vec<AffinityTerm>,
    /// Required anti-affinity terms: they bind others too, once this pod is placed.
    pub anti_affinity: Vec<AffinityTerm>,
    /// Preferred affinity (positive weight) and anti-affinity (negative weight) terms.
    pub preferred_pods: Vec<WeightedTerm>,
    /// Topology spread constraints.
    pub spread: Vec<SpreadConstraint>,
    /// Who made it.
    pub controller: Option<Controller>,
    /// Features that its node must declare, sorted.
    pub required_features: Vec<Str>,
    /// Whether its quality of service is BestEffort.
    pub best_effort: bool,
    /// Features this engine does not implement and that must hold the pod, sorted.
    pub holds: Vec<Feature>,
}

/// A pod as the scheduler sees it, decoded once at the border.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of the object on its own")]
pub struct Pod {
    /// Namespace and name.
    pub key: PodKey,
    /// The uid: a pod recreated under the same name is another pod.
    pub uid: Str,
    /// The resourceVersion this was read at; empty in simulations.
    pub resource_version: Str,
    /// `spec.schedulerName`.
    pub scheduler_name: Str,
    /// `spec.nodeName`: where it is bound.
    pub node_name: Option<Str>,
    /// `status.nominatedNodeName`.
    pub nominated_node: Option<Str>,
    /// `spec.priority`, 0 if absent.
    pub priority: i32,
    /// Whether it may evict others: `spec.preemptionPolicy` is not `Never`.
    pub preempts: bool,
    /// `status.startTime` in microseconds of Unix time; `None` before its kubelet took it up.
    pub started_unix_us: Option<i64>,
    /// Whether its kubelet runs it from a file or another source of its own: deleting the object stops nothing.
    pub is_static: bool,
    /// Whether it has the condition `DisruptionTarget` for the reason `PreemptionByScheduler`.
    pub preempted: bool,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
    /// Whether its phase is Succeeded or Failed: it takes nothing any more.
    pub finished: bool,
    /// `metadata.creationTimestamp` in microseconds of Unix time, 0 if absent.
    pub created_unix_us: i64,
    /// `spec.schedulingGates`, names in the order given.
    pub gates: Vec<Str>,
    /// What filters and scores read.
    pub shape: Arc<PodShape>,
    /// What it takes from its node.
    pub usage: Arc<Usage>,
    /// What it mounts, as far as a plugin looks at it; `None` for the many without. Not part of the shape: what a class of
    /// equal pods is judged by does not depend on it.
    pub volumes: Option<Arc<PodVolumes>>,
    /// The `PodScheduled` condition, if there is one.
    pub scheduled: Option<ScheduledCondition>,
    /// Paths of spec fields that this version does not know, sorted; empty for bound pods.
    pub unknown_fields: Vec<Str>,
}
