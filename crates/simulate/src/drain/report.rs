use super::OnNode;
use berth_core::model::{PodKey, Str};
use serde::Serialize;

/// What a drain would do with a pod of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum DrainFate {
    /// It is placed on a node that stays.
    Moves,
    /// A DaemonSet's: it is left alone.
    DaemonSet,
    /// Its kubelet's own: it is left alone.
    Static,
    /// It is being deleted already.
    Leaving,
    /// It is evicted, and fits nowhere.
    Unschedulable,
    /// It is evicted and placed, and then preempted.
    Preempted,
    /// It is evicted, and nobody tries to place it.
    Held,
    /// It is evicted, and placed on a node that is drained.
    Returns,
    /// No PodDisruptionBudget lets it be evicted.
    Blocked,
    /// It has no controller: evicted, it would be gone.
    Bare,
}

impl DrainFate {
    /// Whether the drain ends without a node for the pod, or does not end for it.
    pub const fn is_left_over(self) -> bool {
        !matches!(self, Self::Moves | Self::DaemonSet | Self::Static | Self::Leaving)
    }
}

/// What a pod keeps on its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LocalVolume {
    /// Of the volume, or of the claim.
    pub name: String,
    /// `emptyDir`, `hostPath`, or `PersistentVolume` for one that only drained nodes can use.
    pub kind: &'static str,
}

/// What a drain would do with one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainedPod {
    pub namespace: Str,
    pub name: Str,
    /// Where it runs.
    pub node: Option<Str>,
    /// `Kind/name`.
    pub controller: Option<String>,
    pub scheduler_name: Str,
    /// The profile that judged it, if it was evicted.
    pub profile: Option<Str>,
    pub fate: DrainFate,
    /// Where it goes.
    pub to: Option<Str>,
    /// In which round of evictions, counted from 1.
    pub round: Option<u32>,
    /// The budget, or budgets, that keep it.
    pub budget: Option<String>,
    /// Why it has no node, as the `PodScheduled` condition says it in one word.
    pub reason: Option<String>,
    /// Why it is left over.
    pub message: Option<String>,
    /// The pods that are preempted for it, as namespace/name, sorted.
    pub victims: Vec<String>,
    pub local_volumes: Vec<LocalVolume>,
}

impl DrainedPod {
    pub(super) fn new(pod: &OnNode, fate: DrainFate) -> Self {
        let PodKey { namespace, name } = pod.running.key.clone();
        Self {
            namespace,
            name,
            node: pod.running.node_name.clone(),
            controller: pod.controller().map(|owner| format!("{}/{}", owner.kind, owner.name)),
            scheduler_name: pod.running.scheduler_name.clone(),
            profile: None,
            fate,
            to: None,
            round: None,
            budget: None,
            reason: None,
            message: None,
            victims: Vec::new(),
            local_volumes: pod.local_volumes.clone(),
        }
    }

    pub fn key(&self) -> PodKey {
        PodKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// A drain in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainSummary {
    /// Pods that get another node.
    pub moves: usize,
    /// Pods that are left alone.
    pub stays: usize,
    /// Pods that are left over.
    pub left_over: usize,
    /// Pods that are preempted for others: nobody places them again here.
    pub preempted: usize,
    /// Pods that move or would have to, and lose what they keep on their node.
    pub with_local_volumes: usize,
}

/// What a drain would do: the same bytes for the same inputs and seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DrainReport {
    /// The drained nodes, as asked.
    pub nodes: Vec<Str>,
    /// Every pod on them, sorted by namespace and name.
    pub pods: Vec<DrainedPod>,
    pub summary: DrainSummary,
}

impl DrainReport {
    pub(super) fn new(nodes: Vec<Str>, mut pods: Vec<DrainedPod>) -> Self {
        pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let count = |is: &dyn Fn(&DrainedPod) -> bool| pods.iter().filter(|pod| is(pod)).count();
        let stays = |pod: &DrainedPod| !pod.fate.is_left_over() && pod.fate != DrainFate::Moves;
        let summary = DrainSummary {
            moves: count(&|pod| pod.fate == DrainFate::Moves),
            stays: count(&stays),
            left_over: count(&|pod| pod.fate.is_left_over()),
            preempted: pods.iter().map(|pod| pod.victims.len()).sum(),
            with_local_volumes: count(&|pod| !stays(pod) && !pod.local_volumes.is_empty()),
        };
        Self { nodes, pods, summary }
    }

    /// Whether every pod that has to go gets a node, and no other pod loses its own.
    pub const fn is_clean(&self) -> bool {
        self.summary.left_over == 0 && self.summary.preempted == 0
    }
}
