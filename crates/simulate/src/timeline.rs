//! What happened in a run, step by step, for those who want to look back: recorded only when asked for.

use super::volumes;
use berth_core::ledger::Ledger;
use berth_core::model::{Pod, Str, VolumeWrites};
use std::sync::Arc;
use std::time::Duration;

/// One thing that a run did to the cluster.
#[derive(Debug, Clone)]
pub struct Event {
    /// Virtual time since the run began.
    pub at: Duration,
    pub change: Change,
}

/// What was done, in the order in which the run's ledger saw it.
#[derive(Debug, Clone)]
pub enum Change {
    /// The claims of a pod were bound for this node, right before the pod was.
    Volumes { node: Str, writes: Box<VolumeWrites> },
    /// The pod was bound; `pod` is as it was right before.
    Placed { pod: Arc<Pod>, node: Str },
    /// The pod was refused for now, or is held.
    Refused { pod: Arc<Pod> },
    /// The pod was nominated for the node, or is no longer.
    Nominated { pod: Arc<Pod>, node: Option<Str> },
    /// The pod with this uid was removed from its node for another one.
    Removed { uid: Str },
}

impl Event {
    /// Does to `ledger` what the run did to its own. With the events in order, a ledger of the same cluster goes the same way.
    pub fn replay(&self, ledger: &mut Ledger) {
        match &self.change {
            Change::Volumes { node, writes } => volumes::settle(ledger, writes, node),
            Change::Placed { pod, node } => ledger.apply_pod(bound(pod, node.clone())),
            Change::Refused { .. } => {}
            Change::Nominated { pod, node } => ledger.apply_pod(nominated(pod, node.clone())),
            Change::Removed { uid } => ledger.delete_pod(uid),
        }
    }
}

/// `pod` as a watch shows it once it is bound to `node`.
pub(super) fn bound(pod: &Pod, node: Str) -> Pod {
    Pod { node_name: Some(node), nominated_node: None, ..pod.clone() }
}

/// `pod` as a watch shows it once it is nominated for `node`.
pub(super) fn nominated(pod: &Pod, node: Option<Str>) -> Pod {
    Pod { nominated_node: node, ..pod.clone() }
}
