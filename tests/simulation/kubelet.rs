//! Kubelets: each looks itself whether a pod fits that was bound to its node.

use super::facts::PodFact;
use super::model::store::stamp;
use super::world::{Act, Inner};
use tokio::time::Instant;

impl Inner {
    /// The kubelet admits a pod if it fits beside those that were bound before it.
    pub(crate) fn start_pod(&mut self, uid: &str, now: Instant) {
        let Some(pod) = self.facts.pods.get(uid).filter(|pod| pod.takes_room() && pod.terminating.is_none()) else {
            return;
        };
        let Some(node) = pod.node.clone() else { return };
        let Some(life) = self.facts.nodes().find(|life| life.name == node) else { return };
        let before = |one: &&PodFact| one.bound.map(|(_, at)| at) < pod.bound.map(|(_, at)| at);
        let earlier: Vec<_> = self.facts.pods_on(&node).filter(before).collect();
        let cpu: i64 = earlier.iter().map(|one| one.cpu).sum();
        let memory: i128 = earlier.iter().map(|one| one.memory).sum();
        let reason = if cpu + pod.cpu > life.cpu {
            "OutOfcpu"
        } else if pod.memory > 0 && memory + pod.memory > life.memory {
            "OutOfmemory"
        } else if earlier.len() >= life.pods {
            "OutOfpods"
        } else if pod.port.is_some() && earlier.iter().any(|one| one.port == pod.port) {
            "NodePorts"
        } else {
            ""
        };
        if !reason.is_empty() {
            return self.end_pod(uid, "Failed", reason, now);
        }
        if let Some(runs) = self.runs.remove(uid) {
            self.later(now + runs, Act::Succeed(uid.to_owned()));
        }
        self.change_pod(uid, now, |pod| {
            pod["status"]["phase"] = "Running".into();
            pod["status"]["startTime"] = stamp().into();
        });
        self.look_at_budgets_soon(now);
    }
}
