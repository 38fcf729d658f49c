//! Pods that are to be spread over nodes or zones: what is drawn, and whether a pod may go to a node by its constraints (S2, and L1's share).
//!
//! A constraint refuses a node whose domain has too many pods more than the emptiest one, so that a pod of which nobody outside can tell
//! whether it was known may make a bind wrong, or right. A bind breaks S2 only if it was wrong whatever was known of such pods: of its own
//! domain those count that were there for certain, and of the others all that may have been there; and only domains that were there for
//! certain have a say. A pod that was bound after the decision, or waits, may have been assumed anywhere: it counts in each other domain.

use super::actors::ZONE;
use super::facts::{Facts, NodeLife, PodFact};
use super::plan::Plan;
use super::random::Random;
use super::room::Counted;
use super::rules::{Rules, Sent, Wrong};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The label of all pods that are to be spread, by which some constraints pick the pods that they count.
pub(crate) const SPREAD: &str = "spread";

const HOSTNAME: &str = "kubernetes.io/hostname";

/// How a pod is to be spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpreadPlan {
    /// By how many pods a node may have more than another one.
    over_nodes: Option<u64>,
    /// The same, of zones.
    over_zones: Option<u64>,
    /// Whether only pods of its app count, and not all that are to be spread.
    by_app: bool,
}

impl SpreadPlan {
    fn draw(random: &mut Random, has_zones: bool) -> Self {
        let skews = [1, 1, 2];
        let (over_nodes, over_zones) = match random.below(if has_zones { 3 } else { 1 }) {
            0 => (Some(random.pick(&skews)), None),
            1 => (None, Some(random.pick(&skews))),
            _ => (Some(random.pick(&skews)), Some(random.pick(&skews))),
        };
        Self { over_nodes, over_zones, by_app: random.in_thousand(500) }
    }

    /// Adds it to a pod as its creator writes it.
    pub(crate) fn add_to(self, pod: &mut Value, app: &str) {
        pod["metadata"]["labels"][SPREAD] = "drawn".into();
        let labels = if self.by_app { json!({"app": app}) } else { json!({SPREAD: "drawn"}) };
        let mut constraints = Vec::new();
        for (key, skew) in [(HOSTNAME, self.over_nodes), (ZONE, self.over_zones)] {
            if let Some(skew) = skew {
                constraints.push(json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": labels}}));
            }
        }
        pod["spec"]["topologySpreadConstraints"] = constraints.into();
    }
}

impl Plan {
    /// In some worlds many pods are to be spread: over nodes, and over zones where there are any.
    pub(crate) fn draw_spreading(&mut self, random: &mut Random) {
        if !random.in_thousand(350) {
            return;
        }
        let has_zones = self.nodes.iter().any(|node| node.zone.is_some());
        for pod in self.pods_mut() {
            pod.spread = random.in_thousand(500).then(|| SpreadPlan::draw(random, has_zones));
        }
    }
}

/// A constraint of a pod that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Constraint {
    over_zones: bool,
    most: usize,
    by_app: bool,
}

impl Constraint {
    pub(crate) fn all_of(pod: &Value) -> Vec<Self> {
        let all = pod.pointer("/spec/topologySpreadConstraints").and_then(Value::as_array).into_iter().flatten();
        let constraint = |one: &Value| Self {
            over_zones: one["topologyKey"] == ZONE,
            most: one["maxSkew"].as_u64().unwrap_or_default() as usize,
            by_app: one.pointer("/labelSelector/matchLabels/app").is_some(),
        };
        all.map(constraint).collect()
    }

    /// The domain that a node is in; none where it lacks the label.
    pub(crate) fn domain(self, life: &NodeLife) -> Option<&str> {
        Some(if self.over_zones { life.zone.as_str() } else { life.name.as_str() }).filter(|domain| !domain.is_empty())
    }
}

impl PodFact {
    /// Whether one of its constraints counts another pod. Each counts the pod itself.
    fn is_alike(&self, constraint: Constraint, other: &Self) -> bool {
        let is_meant = if constraint.by_app { other.app == self.app } else { other.is_spread };
        is_meant && other.namespace() == self.namespace()
    }

    /// Whether its constraints count what is on a node: one of those to which it wants to go itself, with the labels of all of them. Whether
    /// it is cordoned, or has a taint, does not matter.
    fn spreads_over(&self, life: &NodeLife) -> bool {
        self.pool.as_ref().is_none_or(|pool| *pool == life.pool)
            && self.zone.as_ref().is_none_or(|zone| *zone == life.zone)
            && self.spread.iter().all(|constraint| constraint.domain(life).is_some())
    }
}

impl Facts {
    /// Whether its constraints let a pod go to a node, as the cluster is, beside those that are there, and beside those `nominated` to it.
    ///
    /// A pod that waits with a claim may be assumed on a node that nobody outside knows: where it would count, this is false.
    pub(crate) fn spreading_lets(&self, pod: &PodFact, life: &NodeLife, nominated: &[&PodFact]) -> bool {
        pod.spread.iter().copied().all(|constraint| {
            let Some(domain) = constraint.domain(life) else { return false };
            let mut waiting = self.pending.iter().filter_map(|uid| self.pods.get(uid));
            if waiting.any(|one| one.uid != pod.uid && one.is_prepared() && pod.is_alike(constraint, one)) {
                return false;
            }
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for other in self.nodes().filter(|other| pod.spreads_over(other)) {
                let on = self.pods_on(&other.name);
                let alike = on.filter(|one| one.terminating.is_none() && pod.is_alike(constraint, one)).count();
                if let Some(domain) = constraint.domain(other) {
                    *counts.entry(domain).or_default() += alike;
                }
            }
            let fits = |counts: &BTreeMap<&str, usize>| {
                let here = counts.get(domain).copied().unwrap_or_default();
                let least = counts.values().copied().min().unwrap_or(usize::MAX);
                here < constraint.most.saturating_add(least)
            };
            let is_free = fits(&counts);
            if let Some(here) = counts.get_mut(domain).filter(|_| pod.spreads_over(life)) {
                *here += nominated.iter().filter(|one| pod.is_alike(constraint, one)).count();
            }
            is_free && fits(&counts)
        })
    }
}

/// Between which versions of pods and nodes everything lies that an operator may have seen when it decided about a pod.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pods: u64,
    pods_now: u64,
    nodes: u64,
    nodes_now: u64,
}

impl Rules {
    /// What a bind is held to that is sent now; none where it may have been decided long ago, or its operator may have missed something.
    pub(crate) fn view(&self, operator: usize, counted: &Counted, sent: &Sent) -> Option<View> {
        let (pods, since) = counted.all_up_to()?;
        let nodes = self.operators.get(&operator)?.nodes_shown_before(since).max(sent.nodes_long);
        Some(View { pods, pods_now: sent.pods_now, nodes, nodes_now: sent.nodes_now })
    }
}

impl View {
    /// Whether a node was there for certain.
    fn has(self, life: &NodeLife) -> bool {
        life.from <= self.nodes && life.to.is_none_or(|to| to > self.nodes_now)
    }

    fn may_have(self, life: &NodeLife) -> bool {
        life.from <= self.nodes_now && life.to.is_none_or(|to| to > self.nodes)
    }

    /// Whether a pod was known to be on its node.
    fn has_placed(self, pod: &PodFact) -> bool {
        pod.bound.is_some_and(|(_, version)| version <= self.pods)
    }

    /// Whether a pod was known to count no more.
    fn has_seen_go(self, pod: &PodFact) -> bool {
        [pod.terminating, pod.gone].into_iter().flatten().any(|version| version <= self.pods)
    }

    /// Whether a pod that waits, as far as is known for certain, may have been assumed, or have been seen on a node.
    fn may_have_placed(self, pod: &PodFact) -> bool {
        pod.made <= self.pods_now && pod.ungated.is_some_and(|version| version <= self.pods_now)
    }

    /// How many pods counted for certain in the domain of the `chosen` node, which was there.
    fn surely_beside(self, chosen: &NodeLife, (pod, constraint): (&PodFact, Constraint), facts: &Facts) -> usize {
        let domain = constraint.domain(chosen);
        let is_in = |life: &&NodeLife| {
            (life.from == chosen.from || self.has(life)) && pod.spreads_over(life) && constraint.domain(life) == domain
        };
        let there = facts.lives.iter().filter(is_in).flat_map(|life| facts.pods_on(&life.name));
        let counts = |one: &&PodFact| {
            one.uid != pod.uid && one.terminating.is_none() && self.has_placed(one) && pod.is_alike(constraint, one)
        };
        there.filter(counts).count()
    }

    /// How many pods the emptiest domain may have had at most; none where no domain was there for certain.
    fn least_at_most(self, (pod, constraint): (&PodFact, Constraint), facts: &Facts) -> Option<usize> {
        let lives = || facts.lives.iter().filter(|life| pod.spreads_over(life));
        let sure = lives().filter(|life| self.has(life)).filter_map(|life| constraint.domain(life));
        let mut most: BTreeMap<&str, usize> = sure.map(|domain| (domain, 0)).collect();
        let others = facts.pods.values().filter(|one| one.uid != pod.uid && pod.is_alike(constraint, one));
        let (placed, others): (Vec<&PodFact>, Vec<&PodFact>) =
            others.filter(|one| !self.has_seen_go(one)).partition(|one| self.has_placed(one));
        for one in placed {
            let may_be = lives().filter(|life| one.node.as_ref() == Some(&life.name) && self.may_have(life));
            let domains: BTreeSet<&str> = may_be.filter_map(|life| constraint.domain(life)).collect();
            for domain in domains {
                if let Some(count) = most.get_mut(domain) {
                    *count += 1;
                }
            }
        }
        let anywhere = others.into_iter().filter(|one| self.may_have_placed(one)).count();
        most.values().min().map(|least| least + anywhere)
    }
}

/// S2: why the pod may not go to a node by its constraints, whatever was known within `view`. A node that lacks their labels is none that
/// the pod wants: `against_node` says so.
pub(crate) fn against_spreading(pod: &PodFact, life: &NodeLife, facts: &Facts, view: Option<View>) -> Vec<Wrong> {
    let Some(view) = view else { return Vec::new() };
    let mut wrong = Vec::new();
    for constraint in pod.spread.iter().copied() {
        let of = (pod, constraint);
        let Some((domain, least)) = constraint.domain(life).zip(view.least_at_most(of, facts)) else { continue };
        let (here, most) = (view.surely_beside(life, of, facts), constraint.most);
        if here >= most + least {
            let why = format!("maxSkew {most}: {domain} has {here} pods alike beside it, another {least} at most");
            wrong.push(("S2", why));
        }
    }
    wrong
}
