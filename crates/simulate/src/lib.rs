//! An in-memory cluster and a virtual clock around the same core that schedules live.
//!
//! Binds take effect at once and victims vanish at once; workers step in turn by name; the clock jumps to the next moment at
//! which something is due. A run ends when nothing is active, in backoff or in flight. The same inputs, profiles and seed give
//! the same report.
//!
//! ```text
//!  run         the workers, the clock, and what binds and evictions do
//!  replay      what the cluster would look like, had other profiles placed its pods
//!  figures     how full, spread and fragmented a cluster is
//!  report      what became of pending pods, and what differs between two runs
//!  drain/      what draining nodes would do
//!  headroom    how many more pods of a sort fit
//!  template    copies of a pod, with claims of their own
//!  more_nodes  copies of a node
//!  timeline    every step of a run, if it is recorded
//!  volumes     the storage controllers' part
//! ```

mod claims;
mod drain;
mod figures;
mod headroom;
mod more_nodes;
mod replay;
mod report;
mod run;
mod template;
mod timeline;
mod volumes;

pub use drain::{Budget, Drain, DrainFate, DrainReport, DrainSummary, DrainedPod, Health, LocalVolume, OnNode, drain};
pub use figures::{CpuAndMemory, Figures, Share};
pub use headroom::{Headroom, OfNode, OfZone, Scarcest, Stop, headroom};
pub use more_nodes::{add_nodes, another_node, is_condition};
pub use replay::{Lost, Replay, ReplayDifference, ReplaySide, Replayed};
pub use report::{Comparison, Fate, Moved, OnlyOne, PodReport, Report, Side, Summary, compare};
pub use run::{Extenders, Options, Outcome, run, run_with, unasked, unasked_about};
pub use template::{Template, unbound};
pub use timeline::{Change, Event};

use berth_core::ledger::{Ledger, Object};
use berth_core::model::{Node, Pod};
use berth_core::profile::CompiledProfile;
use std::sync::Arc;

/// A cluster at one moment, as manifests describe it.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    /// The nodes, in the order in which they joined.
    pub nodes: Vec<Node>,
    /// Everything that is neither node nor pod, in the order read.
    pub others: Vec<Object>,
    /// The pods, running (with a node) and pending.
    pub pods: Vec<Pod>,
    /// Why ResourceClaims could not be read, as [`Ledger::read_claims`] takes it: pods that have some are held.
    pub claims_unread: Option<&'static str>,
}

impl Cluster {
    /// Adds an object. The ledger leaves out pods that have ended.
    pub fn add(&mut self, object: Object) {
        match object {
            Object::Pod(pod) => self.pods.push(*pod),
            Object::Node(node) => self.nodes.push(*node),
            other => self.others.push(other),
        }
    }

    /// A ledger that holds this cluster.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::new();
        ledger.read_claims(self.claims_unread);
        for object in &self.others {
            object.clone().apply(&mut ledger);
        }
        for node in &self.nodes {
            ledger.apply_node(node);
        }
        for pod in &self.pods {
            ledger.apply_pod(pod.clone());
        }
        ledger
    }

    /// The cluster's present, in microseconds of Unix time: the newest time among its pods, so that the same inputs always give
    /// the same answer.
    pub fn as_of_unix_us(&self) -> i64 {
        let times = self.pods.iter().flat_map(|pod| [Some(pod.created_unix_us), pod.started_unix_us]);
        times.flatten().max().unwrap_or_default()
    }

    /// The pods without a node, sorted by namespace and name.
    pub fn pending(&self) -> Vec<&Pod> {
        let mut pending: Vec<&Pod> = self.pods.iter().filter(|p| p.node_name.is_none() && !p.finished).collect();
        pending.sort_by(|a, b| a.key.cmp(&b.key));
        pending
    }
}

/// The profile of `profiles` that serves `pod`.
pub fn serving<'a>(profiles: &'a [Arc<CompiledProfile>], pod: &Pod) -> Option<&'a Arc<CompiledProfile>> {
    profiles.iter().find(|p| p.serves(&pod.scheduler_name))
}

/// Whether a DaemonSet controls `pod`.
pub(crate) fn is_of_daemon_set(pod: &Pod) -> bool {
    let owner = pod.shape.controller.as_ref();
    owner.is_some_and(|owner| &*owner.kind == "DaemonSet" && owner.api_version.starts_with("apps/"))
}

/// Why no profile of `profiles` serves `pod`, and which names are served.
pub fn not_served(profiles: &[Arc<CompiledProfile>], pod: &Pod) -> String {
    let names: Vec<&str> = profiles.iter().flat_map(|p| p.scheduler_names.iter().map(|n| &**n)).collect();
    format!("no profile serves schedulerName {}: the profiles given serve {}", pod.scheduler_name, names.join(", "))
}
