//! The dry run against the same thing done slowly: each step a new cluster without the pods that are away, judged from nothing.

use super::testing::{NOW, pending, profile};
use super::*;
use crate::cycle::{Explanation, NodeAnswer, Rng, explain};
use crate::model::{
    AffinityTerm, HostPort, LabelSelector, NamespaceScope, Node, PodDisruptionBudget, PodShape, Protocol, Requirement,
    RequirementOperator, SpreadConstraint,
};
use crate::plugins::{Code, Work};
use crate::profile::{CompiledProfile, Preemption};
use crate::testing::{node, pod, shape_of};
use std::collections::{BTreeMap, BTreeSet};

/// The criteria by which one node's victims are compared.
type Criterion<'c> = &'c dyn Fn(&(Vec<Str>, u32)) -> i64;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "zone";

/// A cluster as lists, from which any part of it can be built anew.
#[derive(Default)]
struct World {
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    budgets: Vec<PodDisruptionBudget>,
}

impl World {
    fn without(&self, away: &BTreeSet<Str>) -> Ledger {
        let mut ledger = Ledger::new();
        for node in &self.nodes {
            ledger.apply_node(node);
        }
        for budget in &self.budgets {
            ledger.apply_budget(budget.clone());
        }
        for pod in self.pods.iter().filter(|pod| !away.contains(&pod.uid)) {
            ledger.apply_pod(pod.clone());
        }
        ledger
    }
}

/// Draws worlds; every choice comes from one seed.
struct Draw {
    rng: Rng,
    /// Whether pods have affinity and spread constraints.
    relations: bool,
    serial: i64,
}

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn app(&mut self) -> &'static str {
        ["web", "db", "job"][self.below(3) as usize]
    }

    fn selects(&mut self) -> LabelSelector {
        let values = vec![self.app().into()];
        let operator = if self.one_in(5) { RequirementOperator::NotIn } else { RequirementOperator::In };
        LabelSelector { requirements: vec![Requirement { key: "app".into(), operator, values }] }
    }

    fn term(&mut self) -> AffinityTerm {
        AffinityTerm {
            selector: Some(self.selects()),
            namespaces: NamespaceScope { names: vec!["default".into()], selector: None },
            topology_key: if self.one_in(2) { HOSTNAME.into() } else { ZONE.into() },
        }
    }

    fn shape(&mut self) -> PodShape {
        let mut shape = shape_of(250 * (1 + self.below(6)) as i64, (64 << 20) * self.below(3) as i64);
        shape.labels = [("app", self.app())].into_iter().collect();
        if self.one_in(8) {
            shape.labels = crate::model::Labels::none();
        }
        if self.one_in(4) {
            shape.row_mut().host_ports = vec![HostPort { protocol: Protocol::Tcp, port: 80, ip: "0.0.0.0".into() }];
        }
        if self.relations && self.one_in(4) {
            shape.anti_affinity = vec![self.term()];
        }
        if self.relations && self.one_in(4) {
            shape.spread = vec![SpreadConstraint {
                max_skew: 1 + self.below(2) as i32,
                topology_key: if self.one_in(2) { HOSTNAME.into() } else { ZONE.into() },
                hard: true,
                selector: Some(self.selects()),
                min_domains: 1,
                honor_affinity: true,
                honor_taints: false,
            }];
        }
        shape
    }

    /// A pod on a node; no two start at the same time, and one at most has not started.
    fn placed(&mut self, world: &World) -> Pod {
        self.serial += 1;
        let name = format!("p{}", self.serial);
        let on = world.nodes[self.below(world.nodes.len() as u64) as usize].name.clone();
        let all_started = world.pods.iter().all(|pod| pod.started_unix_us.is_some());
        let started = (!(all_started && self.one_in(6))).then_some((self.serial * 7919) % 100_003);
        Pod {
            node_name: Some(on),
            priority: self.below(5) as i32 - 1,
            started_unix_us: started,
            deleting: !self.relations && self.one_in(6),
            is_static: self.one_in(12),
            ..pod(&name, self.shape())
        }
    }

    fn budget(&mut self, name: &str) -> PodDisruptionBudget {
        PodDisruptionBudget {
            namespace: "default".into(),
            name: name.into(),
            selector: Some(self.selects()),
            disruptions_allowed: self.below(3) as i32,
            disrupted_pods: if self.one_in(3) { vec![format!("p{}", self.below(20)).into()] } else { Vec::new() },
        }
    }

    fn node(&mut self, i: u64) -> Node {
        let name = format!("n{i}");
        let mut drawn = node(&name, 2000, 1 << 30, 2 + self.below(6) as i64);
        let zone = ["a", "b"][self.below(2) as usize];
        drawn.labels = [(HOSTNAME, &*name), (ZONE, zone)].into_iter().collect();
        drawn.unschedulable = self.one_in(8);
        drawn
    }

    /// Applies one change to the world and to its living ledger.
    fn change(&mut self, world: &mut World, ledger: &mut Ledger) {
        match self.below(10) {
            0 => {
                let at = self.below(5);
                let drawn = self.node(at);
                ledger.apply_node(&drawn);
                world.nodes.retain(|known| known.name != drawn.name);
                world.nodes.push(drawn);
            }
            1 => {
                let name = format!("b{}", self.below(3));
                let drawn = self.budget(&name);
                ledger.apply_budget(drawn.clone());
                world.budgets.retain(|known| known.name != drawn.name);
                world.budgets.push(drawn);
            }
            2 | 3 if !world.pods.is_empty() => {
                let deleted = world.pods.remove(self.below(world.pods.len() as u64) as usize);
                ledger.delete_pod(&deleted.uid);
            }
            4 if !world.nodes.is_empty() => {
                self.serial += 1;
                let to = world.nodes[self.below(world.nodes.len() as u64) as usize].name.clone();
                let name = format!("q{}", self.serial);
                // Whether their terms are looked at depends on whether PreFilter finds any other, as upstream.
                let shape = PodShape { anti_affinity: Vec::new(), ..self.shape() };
                let nominated = Pod { nominated_node: Some(to), ..pod(&name, shape) };
                let nominated = Pod { priority: self.below(7) as i32, started_unix_us: Some(0), ..nominated };
                ledger.apply_pod(nominated.clone());
                world.pods.push(nominated);
            }
            _ if !world.nodes.is_empty() => {
                let drawn = self.placed(world);
                ledger.apply_pod(drawn.clone());
                world.pods.push(drawn);
            }
            _ => {}
        }
    }

    /// Makes a change that belongs to one node: no budget, no nomination.
    fn change_row(&mut self, world: &mut World, ledger: &mut Ledger) {
        let placed: Vec<Str> = world.pods.iter().filter(|p| p.node_name.is_some()).map(|p| p.uid.clone()).collect();
        if self.one_in(2) && !placed.is_empty() {
            let deleted = &placed[self.below(placed.len() as u64) as usize];
            ledger.delete_pod(deleted);
            world.pods.retain(|pod| pod.uid != *deleted);
        } else if !world.nodes.is_empty() {
            let drawn = self.placed(world);
            ledger.apply_pod(drawn.clone());
            world.pods.push(drawn);
        }
    }
}

type Found = BTreeMap<Str, (Vec<Str>, u32)>;

/// What upstream does, done slowly.
struct Slow<'a> {
    world: &'a World,
    profile: &'a CompiledProfile,
    pod: &'a Arc<Pod>,
}

impl Slow<'_> {
    fn answers(&self, away: &BTreeSet<Str>) -> BTreeMap<Str, NodeAnswer> {
        let mut ledger = self.world.without(away);
        let waiting_pod = pending(&mut ledger, Pod::clone(self.pod));
        match explain(self.profile, &ledger, &waiting_pod) {
            Explanation::Judged(judged) => judged.nodes.into_iter().collect(),
            other => panic!("{other:?}"),
        }
    }

    fn fits(&self, node: &Str, away: &BTreeSet<Str>) -> bool {
        matches!(self.answers(away).get(node), Some(NodeAnswer::Fits { .. }))
    }

    /// None where some node fits.
    fn candidates(&self) -> Option<Found> {
        let answers = self.answers(&BTreeSet::new());
        let unresolvable = |answer: &NodeAnswer| match answer {
            NodeAnswer::Fits { .. } => None,
            NodeAnswer::Refused { code, .. } => Some(*code == Code::UnschedulableAndUnresolvable),
        };
        let refused: Option<Vec<(&Str, bool)>> = answers.iter().map(|(n, a)| Some((n, unresolvable(a)?))).collect();
        let potential = refused?.into_iter().filter(|(_, unresolvable)| !unresolvable);
        Some(potential.filter_map(|(node, _)| Some((node.clone(), self.on(node)?))).collect())
    }

    fn on(&self, node: &Str) -> Option<(Vec<Str>, u32)> {
        let is_lower = |other: &&Pod| {
            other.node_name.as_ref() == Some(node) && other.priority < self.pod.priority && !other.is_static
        };
        let mut lower: Vec<&Pod> = self.world.pods.iter().filter(is_lower).collect();
        let mut away: BTreeSet<Str> = lower.iter().map(|other| other.uid.clone()).collect();
        if lower.is_empty() || !self.fits(node, &away) {
            return None;
        }
        lower.sort_by_key(|other| (-other.priority, other.started_unix_us.unwrap_or(NOW)));
        let (against, rest) = self.split(&lower);
        let mut violations = 0;
        for (other, violates) in against.iter().map(|o| (o, true)).chain(rest.iter().map(|o| (o, false))) {
            away.remove(&other.uid);
            if !self.fits(node, &away) {
                away.insert(other.uid.clone());
                violations += u32::from(violates);
            }
        }
        let victims: Vec<Str> = lower.iter().map(|o| o.uid.clone()).filter(|uid| away.contains(uid)).collect();
        Some((victims, violations))
    }

    fn split<'p>(&self, lower: &[&'p Pod]) -> (Vec<&'p Pod>, Vec<&'p Pod>) {
        let mut left: Vec<i32> = self.world.budgets.iter().map(|budget| budget.disruptions_allowed).collect();
        let mut violates = |other: &&Pod| {
            let mut any = false;
            for (left, budget) in left.iter_mut().zip(&self.world.budgets) {
                let selector = budget.selector.as_ref().expect("drawn");
                let labels = &other.shape.labels;
                let listed = budget.disrupted_pods.contains(&other.key.name);
                if !labels.is_empty() && selector.matches(labels) && !listed {
                    *left -= 1;
                    any |= *left < 0;
                }
            }
            any
        };
        lower.iter().partition(|other| violates(other))
    }

    /// The nodes that are left by upstream's criteria, one after the other.
    fn best(&self, found: &Found) -> BTreeSet<Str> {
        let pod = |uid: &Str| self.world.pods.iter().find(|pod| pod.uid == *uid).expect("there");
        let top = |victims: &[Str]| victims.iter().map(|uid| pod(uid).priority).max().expect("a victim");
        let start = |uid: &Str| pod(uid).started_unix_us.unwrap_or(NOW);
        let criteria: [Criterion<'_>; 5] = [
            &|(_, violations)| -i64::from(*violations),
            &|(victims, _)| -i64::from(top(victims)),
            &|(victims, _)| -victims.iter().map(|uid| i64::from(pod(uid).priority) + (1 << 31)).sum::<i64>(),
            &|(victims, _)| -(victims.len() as i64),
            &|(victims, _)| {
                let highest = victims.iter().filter(|uid| pod(uid).priority == top(victims));
                highest.map(start).min().expect("a victim")
            },
        ];
        let mut left: Vec<(&Str, &(Vec<Str>, u32))> = found.iter().collect();
        for criterion in criteria {
            let most = left.iter().map(|(_, of)| criterion(of)).max();
            left.retain(|(_, of)| Some(criterion(of)) == most);
        }
        left.into_iter().map(|(node, _)| node.clone()).collect()
    }
}

/// What one run of comparisons has covered.
#[derive(Debug, Default)]
struct Seen {
    asked: u32,
    candidates: u32,
    victims: u32,
    violations: u32,
    spared: u32,
    helpless: u32,
    given_up: u32,
}

fn compare(scheduler: &mut Scheduler, world: &World, ledger: &Ledger, waiting: &Arc<Pod>, at: &str, seen: &mut Seen) {
    let profile = scheduler.profile().clone();
    let slow = Slow { world, profile: &profile, pod: waiting };
    let Some(want) = slow.candidates() else { return };
    seen.asked += 1;
    let limits = Limits { search: Search::Everywhere, ..Limits::at(NOW) };
    let found = match scheduler.preemption_candidates(ledger, waiting, &limits) {
        Ok(found) => found,
        Err(Outcome::NotHelpful(_)) => Vec::new(),
        Err(Outcome::Failed(_)) if ledger.nodes().is_empty() => Vec::new(),
        Err(other) => panic!("{at}: {other:?}"),
    };
    let got: Found = (found.iter())
        .map(|candidate| {
            let victims = candidate.victims.iter().map(|placed| placed.uid.clone()).collect();
            (ledger.nodes().name(candidate.node).clone(), (victims, candidate.violations))
        })
        .collect();
    assert_eq!(got, want, "{at}");
    for (node, (victims, violations)) in &want {
        let lower = world.pods.iter().filter(|p| p.node_name.as_ref() == Some(node) && p.priority < waiting.priority);
        seen.candidates += 1;
        seen.victims += victims.len() as u32;
        seen.violations += violations;
        seen.spared += u32::from(lower.count() > victims.len());
    }
    if want.is_empty() {
        seen.helpless += 1;
        return;
    }
    let best = scheduler.preemption_candidates(ledger, waiting, &Limits { only_best: true, ..limits });
    assert_eq!(
        essence(&best.map(the_best)),
        essence(&Ok(the_best(found.clone()))),
        "{at}: where only the best is wanted"
    );
    let Outcome::Evict(plan) = scheduler.pick(ledger, waiting, found) else { panic!("{at}: nothing chosen") };
    let chosen = ledger.nodes().name(plan.node);
    assert!(slow.best(&want).contains(chosen), "{at}: {chosen} chosen of {want:?}");
    assert!(
        scheduler.plan_still_valid(ledger, &plan, &limits, (&mut DryRuns::default(), &mut Work::unbounded())),
        "{at}: the plan does not hold"
    );
}

fn the_best(found: Vec<Candidate>) -> Vec<Candidate> {
    pick(found).into_iter().collect()
}

/// What is found without the versions at which it was found.
fn essence(found: &Result<Vec<Candidate>, Outcome>) -> String {
    match found {
        Ok(found) => {
            format!("{:?}", found.iter().map(|one| (one.node, &one.victims, one.violations)).collect::<Vec<_>>())
        }
        Err(outcome) => format!("{outcome:?}"),
    }
}

/// Searches in the smallest parts, with a `change` in between; then at once.
fn compare_parts(
    schedulers: &mut [Scheduler; 2],
    ledger: &mut Ledger,
    waiting: &Arc<Pod>,
    (at, seen): (&str, &mut Seen),
    mut change: impl FnMut(&mut Ledger),
) {
    let [in_parts, at_once] = schedulers;
    let kinds = [Search::Sampled, Search::Everywhere].map(|search| [(search, false), (search, true)]);
    for (search, only_best) in kinds.into_iter().flatten() {
        let limits = Limits { search, only_best, ..Limits::at(NOW) };
        let known = &mut DryRuns::default();
        let found = loop {
            if let Some(found) =
                in_parts.preemption_candidates_within(ledger, waiting, &limits, known, &mut Work::of(1))
            {
                break found;
            }
            change(ledger);
            seen.given_up += 1;
        };
        let expected = at_once.preemption_candidates(ledger, waiting, &limits);
        // Of those that are worse than another some may be left out.
        let compared = |found: Vec<Candidate>| if only_best { the_best(found) } else { found };
        let (found, expected) = (found.map(compared), expected.map(compared));
        assert_eq!(essence(&found), essence(&expected), "{at}, {search:?}, only the best {only_best}");
    }
}

fn run(relations: bool, seeds: std::ops::Range<u64>) -> Seen {
    let mut seen = Seen::default();
    for seed in seeds {
        let mut draw = Draw { rng: Rng::seeded(seed), relations, serial: 0 };
        let (mut world, mut ledger) = (World::default(), Ledger::new());
        let mut scheduler = Scheduler::new(profile(Preemption::default()), seed);
        let mut in_parts = [(); 2].map(|()| Scheduler::new(profile(Preemption::default()), seed));
        for i in 0..3 {
            let drawn = draw.node(i);
            ledger.apply_node(&drawn);
            world.nodes.push(drawn);
        }
        for step in 0..40 {
            draw.change(&mut world, &mut ledger);
            if step < 10 || !draw.one_in(3) {
                continue;
            }
            // The same pod more than once, so that the cache is used too.
            let waiting = Pod { priority: 1 + (step % 4), ..pod("waits", draw.shape()) };
            let waiting = pending(&mut ledger, waiting);
            let at = format!("relations {relations}, seed {seed}, step {step}");
            compare(&mut scheduler, &world, &ledger, &waiting, &at, &mut seen);
            draw.change(&mut world, &mut ledger);
            compare(&mut scheduler, &world, &ledger, &waiting, &at, &mut seen);
            // Only what changes the node itself makes a kept answer worthless.
            compare_parts(&mut in_parts, &mut ledger, &waiting, (&at, &mut seen), |ledger| {
                if !relations && draw.one_in(2) {
                    draw.change_row(&mut world, ledger);
                }
            });
            ledger.delete_pod("waits");
        }
        ledger.audit().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    seen
}

#[test]
fn victims_are_those_of_the_slow_search() {
    let seen = run(false, 0..300);
    assert!(seen.asked > 1000 && seen.candidates > 1000 && seen.violations > 100, "{seen:?}");
    assert!(seen.spared > 300 && seen.helpless > 100 && seen.victims > seen.candidates, "{seen:?}");
    assert!(seen.given_up > 1000, "{seen:?}");
}

#[test]
fn victims_are_those_of_the_slow_search_with_pod_affinity_and_spread() {
    let seen = run(true, 0..300);
    assert!(seen.asked > 1000 && seen.candidates > 1000 && seen.spared > 300 && seen.helpless > 100, "{seen:?}");
}
