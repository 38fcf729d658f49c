//! What draining nodes would do: every pod that has to go is evicted as far as budgets allow, and the engine places what its
//! controller makes in its place.
//!
//! All nodes are cordoned first. Then come rounds: each evicts what the budgets have left, lets the engine place the new pods,
//! and gives back to the budgets what was placed, since such a pod counts as healthy again. The drain ends with a round that
//! can evict nobody.
//!
//! ```text
//!  budgets   what the eviction API would say
//!  report    the answer
//! ```

mod budgets;
mod report;
#[cfg(test)]
mod tests;

pub use budgets::Budget;
pub use report::{DrainFate, DrainReport, DrainSummary, DrainedPod, LocalVolume};

use super::run::{Options, Run};
use super::{Cluster, Fate, PodReport, Template, is_of_daemon_set};
use berth_core::ledger::Ledger;
use berth_core::model::{Controller, Node, Pod, Str, Taint, TaintEffect, VolumeAffinity};
use berth_core::profile::CompiledProfile;
use budgets::{Accounts, NoEviction};
use std::sync::Arc;

/// The taint that the node controller gives a cordoned node.
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// Pods that have to go, and what they depend on beside the cluster.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    /// The names of the nodes.
    pub nodes: Vec<Str>,
    /// Every pod on them that has not ended.
    pub pods: Vec<OnNode>,
    /// Those of the whole cluster.
    pub budgets: Vec<Budget>,
}

/// A pod on a node that is drained.
#[derive(Debug, Clone)]
pub struct OnNode {
    /// As it runs.
    pub running: Pod,
    /// As its controller makes it anew.
    pub template: Template,
    pub health: Health,
    /// What it keeps on the node itself, as its spec names it.
    pub local_volumes: Vec<LocalVolume>,
}

impl OnNode {
    /// Whether every node of its sort runs such a pod: it is a DaemonSet's, or its kubelet's own.
    pub fn is_on_every_node(&self) -> bool {
        self.running.is_static || self.is_of_daemon_set()
    }

    fn is_of_daemon_set(&self) -> bool {
        is_of_daemon_set(&self.template.pod)
    }

    fn controller(&self) -> Option<&Controller> {
        self.template.pod.shape.controller.as_ref()
    }
}

/// A pod as budgets see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Ready,
    NotReady,
    /// Its containers have not started: no budget counts it.
    NotStarted,
}

/// A pod that was evicted, while its copy is or is not placed.
struct Evicted {
    /// Index in [`Drain::pods`].
    at: usize,
    round: u32,
    copy: Pod,
    /// The budget that gets back what the eviction took.
    owes: Option<usize>,
}

/// Drains nodes of `cluster`, whose pods `profiles` place. `seed` fixes how ties between equally good nodes are broken.
///
/// Pods that were pending before take part, and may take what is free. No extender is asked.
pub fn drain(cluster: &Cluster, profiles: &[Arc<CompiledProfile>], seed: u64, mut drain: Drain) -> DrainReport {
    drain.pods.sort_by(|a, b| a.running.key.cmp(&b.running.key));
    let mut run = Run::new(cluster, profiles, Options { seed, ..Options::default() });
    for node in cluster.nodes.iter().filter(|node| drain.nodes.contains(&node.name)) {
        run.apply(cordoned(node).into());
    }
    run.until_quiet();
    for pod in &mut drain.pods {
        let bound_to_node = volumes_of_nodes(&run.ledger(), &pod.running, &drain.nodes);
        pod.local_volumes.extend(bound_to_node);
    }
    let mut accounts = Accounts::new(std::mem::take(&mut drain.budgets));
    let mut waiting: Vec<usize> = (0..drain.pods.len()).filter(|at| stays(&drain.pods[*at]).is_none()).collect();
    let mut evicted: Vec<Evicted> = Vec::new();
    for round in 1.. {
        let before = evicted.len();
        waiting.retain(|at| match accounts.charge(&drain.pods[*at]) {
            Ok(owes) => {
                evicted.push(evict(&mut run, &drain.pods[*at], *at, round, owes));
                false
            }
            Err(_) => true,
        });
        if evicted.len() == before {
            break;
        }
        accounts.changed().for_each(|budget| run.apply(budget.into()));
        run.until_quiet();
        settle(&run, &mut accounts, &mut evicted);
    }
    let mut pods = rest(&drain, &accounts, &waiting);
    pods.extend(evicted.iter().map(|one| {
        let report = run.report_on(&one.copy);
        moved(&drain, &drain.pods[one.at], one.round, report)
    }));
    DrainReport::new(drain.nodes, pods)
}

/// The node as `kubectl cordon` and the node controller leave it.
fn cordoned(node: &Node) -> Node {
    let mut taints = node.taints.to_vec();
    if !taints.iter().any(|taint| &*taint.key == CORDONED && taint.effect == TaintEffect::NoSchedule) {
        taints.push(Taint { key: CORDONED.into(), value: "".into(), effect: TaintEffect::NoSchedule });
    }
    Node { unschedulable: true, taints: taints.into(), ..node.clone() }
}

/// Why a drain leaves the pod where it is, if it does.
fn stays(pod: &OnNode) -> Option<DrainFate> {
    if pod.running.is_static {
        Some(DrainFate::Static)
    } else if pod.is_of_daemon_set() {
        Some(DrainFate::DaemonSet)
    } else if pod.running.deleting {
        Some(DrainFate::Leaving)
    } else {
        pod.controller().is_none().then_some(DrainFate::Bare)
    }
}

/// Deletes the pod, and makes it anew as its controller does.
fn evict(run: &mut Run<'_>, pod: &OnNode, at: usize, round: u32, owes: Option<usize>) -> Evicted {
    run.remove_pod(&pod.running.uid);
    let (claims, copy) = pod.template.copy(&pod.running.key.name, &format!("{}-anew", pod.running.uid).into());
    for claim in claims {
        run.apply(claim);
    }
    run.apply(copy.clone().into());
    Evicted { at, round, copy, owes }
}

/// Pods that were placed count as healthy again.
fn settle(run: &Run<'_>, accounts: &mut Accounts, evicted: &mut [Evicted]) {
    for one in evicted {
        if run.node_of(&one.copy.uid).is_some()
            && let Some(budget) = one.owes.take()
        {
            accounts.give_back(budget);
        }
    }
}

/// The pods that were not evicted.
fn rest(drain: &Drain, accounts: &Accounts, waiting: &[usize]) -> Vec<DrainedPod> {
    let blocked = waiting.iter().map(|at| {
        let pod = &drain.pods[*at];
        let mut report = DrainedPod::new(pod, DrainFate::Blocked);
        if let Err(NoEviction { budget, message }) = accounts.allows(pod) {
            report.budget = Some(budget);
            report.message = Some(message.to_owned());
        }
        report
    });
    let stay = drain.pods.iter().filter_map(|pod| {
        let fate = stays(pod)?;
        let message = (fate == DrainFate::Bare).then(|| "no controller makes it anew".to_owned());
        Some(DrainedPod { message, ..DrainedPod::new(pod, fate) })
    });
    blocked.chain(stay).collect()
}

/// What has become of a pod that was evicted.
fn moved(drain: &Drain, pod: &OnNode, round: u32, report: PodReport) -> DrainedPod {
    let (fate, message) = match (report.fate, &report.node) {
        (Fate::Placed, Some(node)) if drain.nodes.contains(node) => {
            let why = "its tolerations, or its profile, let it come back to a cordoned node";
            (DrainFate::Returns, Some(why.to_owned()))
        }
        (Fate::Placed, _) => (DrainFate::Moves, None),
        (Fate::Unschedulable, _) => (DrainFate::Unschedulable, report.message),
        (Fate::Preempted, _) => (DrainFate::Preempted, report.message),
        (Fate::Gated | Fate::Held, _) => (DrainFate::Held, report.message),
    };
    DrainedPod {
        to: report.node,
        profile: report.profile,
        round: Some(round),
        victims: report.victims,
        reason: report.reason,
        message,
        ..DrainedPod::new(pod, fate)
    }
}

/// The volumes of the pod that no node but `drained` ones can use.
fn volumes_of_nodes(ledger: &Ledger, pod: &Pod, drained: &[Str]) -> Vec<LocalVolume> {
    let Some(volumes) = &pod.volumes else { return Vec::new() };
    let (namespace, name) = (&pod.key.namespace, &pod.key.name);
    let is_local = |affinity: &VolumeAffinity| {
        let mut nodes = ledger.node_order().into_iter().filter(|node| affinity.matches(ledger.nodes().labels(*node)));
        nodes.all(|node| drained.contains(ledger.nodes().name(node)))
    };
    let local = volumes.claims(namespace, name).filter(|(key, _)| {
        let claim = ledger.volumes().claim(key);
        let volume = claim.and_then(|claim| ledger.volumes().volume(claim.volume.as_ref()?));
        volume.is_some_and(|volume| volume.affinity.as_ref().is_some_and(is_local))
    });
    local.map(|(key, _)| LocalVolume { name: key.name.to_string(), kind: "PersistentVolume" }).collect()
}
