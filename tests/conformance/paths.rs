//! The paths through upstream's preemption that a run must have taken, with what tells each from an answer.

use super::answer::{NodeAnswer, PodAnswer};
use super::preemption::{Candidate, Detail, Live, Preemption};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A path, and whether an answer took it.
type Path = (&'static str, fn(&PodAnswer, &Preemption) -> bool);

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// Every path.
const PATHS: &[Path] = &[
    ("not eligible: its policy is Never", |_, p| p.detail.eligibility.reason.contains("preemptionPolicy=Never")),
    ("not eligible: victims on its nominated node are on their way out", |_, p| {
        p.detail.eligibility.reason.contains("a terminating pod on the nominated node")
    }),
    ("eligible again: its nominated node is refused for good", |_, p| {
        p.detail.eligibility.eligible && p.detail.eligibility.unresolvable
    }),
    ("eligible again: nothing on its nominated node is on its way out for it", |_, p| {
        let said = &p.detail.eligibility;
        said.eligible && !said.nominated.is_empty() && !said.unresolvable
    }),
    ("potential nodes: none", |_, p| p.detail.eligibility.eligible && p.detail.potential.is_empty()),
    ("potential nodes: some", |pod, p| !p.detail.potential.is_empty() && p.detail.potential.len() < pod.nodes().len()),
    ("potential nodes: all of several", |pod, p| {
        p.detail.potential.len() > 1 && p.detail.potential.len() == pod.nodes().len()
    }),
    ("a node without pods of lower priority", |_, p| refuses(p, "", NO_VICTIMS)),
    ("not enough: still Insufficient cpu", |_, p| refuses(p, "NodeResourcesFit", "Insufficient cpu")),
    ("not enough: still Insufficient memory", |_, p| refuses(p, "NodeResourcesFit", "Insufficient memory")),
    ("not enough: still Too many pods", |_, p| refuses(p, "NodeResourcesFit", "Too many pods")),
    ("not enough: two resources", |_, p| p.detail.refused.iter().any(|r| r.reasons.len() > 1)),
    ("not enough: still NodePorts", |_, p| refuses(p, "NodePorts", "")),
    ("not enough: still VolumeRestrictions", |_, p| refuses(p, "VolumeRestrictions", "")),
    ("not enough: still NodeVolumeLimits", |_, p| refuses(p, "NodeVolumeLimits", "")),
    ("not enough: still PodTopologySpread", |_, p| refuses(p, "PodTopologySpread", "")),
    ("not enough: still anti-affinity", |_, p| refuses(p, "InterPodAffinity", "anti-affinity rules")),
    ("not enough: still the anti-affinity of others", |_, p| {
        refuses(p, "InterPodAffinity", "existing pods anti-affinity rules")
    }),
    ("not enough: affinity to victims", |_, p| refuses(p, "InterPodAffinity", "pod affinity rules")),
    ("helps: Insufficient cpu", |pod, p| helps(pod, p, "Insufficient cpu")),
    ("helps: Insufficient memory", |pod, p| helps(pod, p, "Insufficient memory")),
    ("helps: Insufficient ephemeral-storage", |pod, p| helps(pod, p, "Insufficient ephemeral-storage")),
    ("helps: Insufficient example.com/gpu", |pod, p| helps(pod, p, "Insufficient example.com/gpu")),
    ("helps: Too many pods", |pod, p| helps(pod, p, "Too many pods")),
    ("helps: ports", |pod, p| helps(pod, p, "node(s) didn't have free ports for the requested pod ports")),
    ("helps: disks", |pod, p| helps(pod, p, "node(s) had no available disk")),
    ("helps: ReadWriteOncePod", |pod, p| {
        helps(
            pod,
            p,
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
        )
    }),
    ("helps: attach limits", |pod, p| helps(pod, p, "node(s) exceed max volume count")),
    ("helps: spread", |pod, p| helps(pod, p, "node(s) didn't match pod topology spread constraints")),
    ("helps: anti-affinity", |pod, p| helps(pod, p, "node(s) didn't match pod anti-affinity rules")),
    ("helps: the anti-affinity of others", |pod, p| {
        helps(pod, p, "node(s) didn't satisfy existing pods anti-affinity rules")
    }),
    ("victims: all pods of lower priority", |_, p| any(p, |c| c.lower == c.victims.len())),
    ("victims: some, the others are spared", |_, p| any(p, |c| c.lower > c.victims.len())),
    ("victims: several", |_, p| any(p, |c| c.victims.len() > 1)),
    ("victims: none violates a budget", |_, p| any(p, |c| c.budget_violations == 0)),
    ("victims: one violates a budget", |_, p| any(p, |c| c.budget_violations == 1)),
    ("victims: several violate budgets", |_, p| any(p, |c| c.budget_violations > 1)),
    ("victims: some violate a budget, others do not", |_, p| {
        any(p, |c| c.budget_violations > 0 && c.budget_violations < c.victims.len() as i64)
    }),
    ("victims: others than without budgets", |_, p| any(p, |c| c.budgets_matter)),
    ("victims: others than without budgets, and none violates one", |_, p| {
        any(p, |c| c.budgets_matter && c.budget_violations == 0)
    }),
    ("choice: the only candidate", |_, p| p.detail.decided == "only one"),
    ("choice: fewest violations", |_, p| p.detail.decided == "fewest violations"),
    ("choice: lowest top priority", |_, p| p.detail.decided == "lowest top priority"),
    ("choice: lowest sum", |_, p| p.detail.decided == "lowest sum"),
    ("choice: fewest victims", |_, p| p.detail.decided == "fewest victims"),
    ("choice: latest start", |_, p| p.detail.decided == "latest start"),
    ("choice: a tie", |_, p| p.detail.decided == "a tie"),
    ("end: it would not help anywhere", |_, p| message(p, "Preemption is not helpful for scheduling.")),
    ("end: mixed reasons", |_, p| message(p, "Preemption is not helpful for scheduling.") && message(p, ", ")),
    ("end: its nomination is taken back", |_, p| p.detail.clears && !p.detail.eligibility.nominated.is_empty()),
    ("end: nominated to another node than before", |_, p| {
        let before = &p.detail.eligibility.nominated;
        !before.is_empty() && p.node.as_ref().is_some_and(|node| node != before)
    }),
    ("actuation: pods of lower priority lose their nomination", |_, p| !p.detail.cleared.is_empty()),
    ("actuation: victims on their way out are not deleted again", |_, p| {
        chosen(p).is_some_and(|c| !p.detail.deleted.is_empty() && p.detail.deleted.len() < c.victims.len())
    }),
    ("actuation: all victims are on their way out", |_, p| chosen(p).is_some() && p.detail.deleted.is_empty()),
    ("live: every potential node is tried", |_, p| live(p, |l, d| l.tried.len() == d.potential.len() && l.offset > 0)),
    ("live: it stops when it has enough", |_, p| live(p, |l, d| l.tried.len() < d.potential.len())),
    ("live: it goes around the end", |_, p| live(p, |l, d| l.tried.len() + l.offset > d.potential.len())),
    ("live: it goes on past violations", |_, p| live(p, |l, _| l.candidates.len() > l.wanted && l.wanted > 0)),
    ("live: it wants no candidate at all", |_, p| live(p, |l, _| l.wanted == 0)),
    ("live: another choice than among all", |_, p| {
        live(p, |l, d| !l.best.is_empty() && l.best.iter().all(|node| !d.best.contains(node)))
    }),
];

/// Paths taken in a run.
#[derive(Debug, Default)]
pub struct Taken {
    counts: BTreeMap<&'static str, usize>,
    /// Pods about which preemption was asked.
    pods: usize,
    /// Clusters with a pod for which victims were searched.
    pub clusters: usize,
}

impl Taken {
    /// Notes what upstream said of the pods of a cluster.
    pub fn add(&mut self, pods: &[PodAnswer]) {
        let mut searched = false;
        for (pod, preemption) in pods.iter().filter_map(|pod| Some((pod, pod.preemption.as_ref()?))) {
            self.pods += 1;
            searched |= preemption.detail.live.is_some();
            for (name, _) in PATHS.iter().filter(|(_, took)| took(pod, preemption)) {
                *self.counts.entry(name).or_default() += 1;
            }
        }
        self.clusters += usize::from(searched);
    }

    /// Paths that no answer took.
    pub fn missing(&self) -> Vec<String> {
        let never = PATHS.iter().filter(|(name, _)| !self.counts.contains_key(name));
        never.map(|(name, _)| format!("preemption: {name}")).collect()
    }

    /// Pods by path.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{} pods fit nowhere; victims searched in {} clusters\n\n   PODS  PATH\n",
            self.pods, self.clusters
        );
        for (name, _) in PATHS {
            let _ = writeln!(text, "{:>7}  {name}", self.counts.get(name).copied().unwrap_or(0));
        }
        text
    }
}

/// Whether a node was refused with its victims away.
fn refuses(of: &Preemption, plugin: &str, reason: &str) -> bool {
    of.detail.refused.iter().any(|r| r.plugin == plugin && r.reasons.iter().any(|said| said.ends_with(reason)))
}

/// Whether a node that was refused for `reason` is a candidate.
fn helps(pod: &PodAnswer, of: &Preemption, reason: &str) -> bool {
    of.candidates.iter().any(|candidate| {
        pod.nodes().iter().any(|node| match node {
            NodeAnswer::Refused { name, reasons, .. } => *name == candidate.node && reasons.iter().any(|r| r == reason),
            NodeAnswer::Fits { .. } => false,
        })
    })
}

fn any(of: &Preemption, holds: fn(&Candidate) -> bool) -> bool {
    of.candidates.iter().any(holds)
}

fn message(of: &Preemption, part: &str) -> bool {
    of.message.as_ref().is_some_and(|said| said.contains(part))
}

/// The candidate that the live search chose.
fn chosen(of: &Preemption) -> Option<&Candidate> {
    of.candidates.iter().find(|candidate| Some(&candidate.node) == of.node.as_ref())
}

fn live(of: &Preemption, holds: fn(&Live, &Detail) -> bool) -> bool {
    of.detail.live.as_ref().is_some_and(|live| holds(live, &of.detail))
}
