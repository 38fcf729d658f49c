//! Counters that follow the change log against what the definitions say of the pods and nodes, after every change of
//! random clusters.

use super::Tables;
use super::tests::{HOST, ZONE, labels, selector};
use crate::cycle::Rng;
use crate::ledger::{HashKey, Ledger, NodeId};
use crate::model::{
    LabelSelector, Labels, Node, Pod, PodShape, Requirement, RequirementOperator, Service, SpreadConstraint, Str,
    Taint, TaintEffect, Toleration, TolerationOperator,
};
use crate::plugins::{Cause, Overlay, PluginContext, ResolvedPod, Work};
use crate::profile::{CompiledProfile, SpreadDefaults};
use crate::testing::{node, pod, shape};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The cluster as written down, beside the ledger.
#[derive(Default)]
struct World {
    nodes: BTreeMap<Str, Node>,
    /// Placed pods by uid.
    pods: BTreeMap<Str, Pod>,
    services: BTreeMap<Str, Labels>,
}

/// What the definitions say.
impl World {
    fn matches(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
        selector.is_some_and(|s| s.matches(labels))
    }

    /// Pods alike on the node `name`.
    fn count_on(&self, name: &Str, c: &SpreadConstraint, namespace: &Str) -> i64 {
        if c.selector.as_ref().is_none_or(|s| s.requirements.is_empty()) {
            return 0;
        }
        let alike = |p: &&Pod| {
            p.node_name.as_ref() == Some(name)
                && !p.deleting
                && p.key.namespace == *namespace
                && Self::matches(c.selector.as_ref(), &p.shape.labels)
        };
        self.pods.values().filter(alike).count() as i64
    }

    fn admits(c: &SpreadConstraint, shape: &PodShape, node: &Node) -> bool {
        let affine = shape.row.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value));
        let keeps_away = |taint: &&Taint| taint.effect != TaintEffect::PreferNoSchedule;
        let tolerated = |taint: &Taint| shape.row.tolerations.iter().any(|t| t.tolerates(taint));
        (!c.honor_affinity || affine) && (!c.honor_taints || node.taints.iter().filter(keeps_away).all(tolerated))
    }

    fn has_all(node: &Node, all: &[&SpreadConstraint]) -> bool {
        all.iter().all(|c| node.labels.get(&c.topology_key).is_some())
    }

    /// The constraints of `shape` and whether all of their labels must be there.
    fn constraints(&self, profile: &CompiledProfile, shape: &PodShape) -> (Vec<SpreadConstraint>, bool) {
        if !shape.spread.is_empty() {
            return (shape.spread.clone(), true);
        }
        let (defaults, requires_all) = match &profile.spread_defaults {
            SpreadDefaults::List(list) => (list.clone(), true),
            SpreadDefaults::System => {
                let default =
                    |(key, skew)| SpreadConstraint { selector: None, ..super::tests::constraint(key, skew, false, "") };
                ([(HOST, 3), (ZONE, 5)].map(default).to_vec(), false)
            }
        };
        let mut pairs: BTreeMap<Str, Str> = BTreeMap::new();
        for service in
            self.services.values().filter(|s| s.is_subset_of(&shape.labels) && &*shape.namespace == "default")
        {
            pairs.extend(service.iter().map(|(k, v)| (k.clone(), v.clone())));
        }
        if pairs.is_empty() {
            return (Vec::new(), requires_all);
        }
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(k, v)| (&**k, &**v)).collect();
        let alike = selector(&pairs);
        (defaults.into_iter().map(|c| SpreadConstraint { selector: Some(alike.clone()), ..c }).collect(), requires_all)
    }

    /// What the filter says of the node `on` with `added` on it and without `removed`, as upstream follows them.
    fn filter(&self, profile: &CompiledProfile, shape: &PodShape, on: &Node, moves: &Moves) -> Cause {
        let (all, _) = self.constraints(profile, shape);
        let hard: Vec<&SpreadConstraint> = all.iter().filter(|c| c.hard).collect();
        for c in &hard {
            let Some(domain) = on.labels.get(&c.topology_key) else { return Cause::SpreadLabel };
            let counts = |node: &Node| Self::has_all(node, &hard) && Self::admits(c, shape, node);
            let mut by_domain: BTreeMap<&Str, i64> = BTreeMap::new();
            for node in self.nodes.values().filter(|node| counts(node)) {
                let count = by_domain.entry(node.labels.get(&c.topology_key).expect("all labels")).or_default();
                *count += self.count_on(&node.name, c, &shape.namespace);
            }
            let mut emptiest = Emptiest::default();
            if moves.backwards {
                by_domain.iter().rev().for_each(|(domain, count)| emptiest.update(domain, *count));
            } else {
                for (domain, count) in &by_domain {
                    emptiest.update(domain, *count);
                }
            }
            let is_alike = |pod: &Pod| {
                pod.key.namespace == shape.namespace && Self::matches(c.selector.as_ref(), &pod.shape.labels)
            };
            let removed = self.pods.values().filter(|p| p.node_name.as_ref() == Some(&on.name) && moves.removes(p));
            let steps = removed.map(|pod| (pod, -1)).chain(moves.added.iter().map(|pod| (pod, 1)));
            for (_, step) in steps.filter(|(pod, _)| counts(on) && is_alike(pod)) {
                let count = by_domain.entry(domain).or_default();
                *count += step;
                emptiest.update(domain, *count);
            }
            let least = if (by_domain.len() as i64) < c.min_domains.into() { 0 } else { emptiest.0[0].1 };
            let own = i64::from(Self::matches(c.selector.as_ref(), &shape.labels));
            if by_domain.get(domain).copied().unwrap_or(0) + own - least > c.max_skew.into() {
                return Cause::Spread;
            }
        }
        Cause::None
    }

    /// The scores of the `feasible` nodes, if there is anything to score.
    fn score(&self, profile: &CompiledProfile, shape: &PodShape, feasible: &[&Node]) -> Option<Vec<i64>> {
        let (all, requires_all) = self.constraints(profile, shape);
        let soft: Vec<&SpreadConstraint> = all.iter().filter(|c| !c.hard).collect();
        if soft.is_empty() {
            return None;
        }
        let ignored = |node: &Node| requires_all && !Self::has_all(node, &soft);
        let domain = |node: &Node, c: &SpreadConstraint| node.labels.get(&c.topology_key).map_or("".into(), Str::clone);
        let mut raw = vec![0.0; feasible.len()];
        for c in &soft {
            let scored = || feasible.iter().filter(|n| !ignored(n));
            let by_host = &*c.topology_key == HOST;
            let domains: BTreeSet<Str> = scored().map(|n| domain(n, c)).collect();
            let size = if by_host { scored().count() } else { domains.len() };
            for (node, raw) in feasible.iter().zip(&mut raw).filter(|(n, _)| n.labels.get(&c.topology_key).is_some()) {
                let counted = |n: &&Node| !ignored(n) && Self::admits(c, shape, n) && domain(n, c) == domain(node, c);
                let on = |n: &Node| self.count_on(&n.name, c, &shape.namespace);
                let count: i64 = if by_host { on(node) } else { self.nodes.values().filter(counted).map(on).sum() };
                *raw += count as f64 * ((size + 2) as f64).ln() + f64::from(c.max_skew - 1);
            }
        }
        let raw: Vec<i64> = raw.into_iter().map(|r| r.round() as i64).collect();
        let kept = || feasible.iter().zip(&raw).filter(|(n, _)| !ignored(n)).map(|(_, r)| *r);
        let (least, most) = (kept().min().unwrap_or(0), kept().max().unwrap_or(0));
        let normalised = |(node, raw): (&&Node, &i64)| match () {
            () if ignored(node) => 0,
            () if most == 0 => 100,
            () => 100 * (most + least - raw) / most,
        };
        Some(feasible.iter().zip(&raw).map(normalised).collect())
    }
}

/// Pods that come to a node and go from it.
#[derive(Default)]
struct Moves {
    added: Vec<Pod>,
    /// Placed pods by uid.
    removed: BTreeSet<Str>,
    /// Which way upstream goes through its map of domains.
    backwards: bool,
}

impl Moves {
    fn removes(&self, pod: &Pod) -> bool {
        self.removed.contains(&pod.uid)
    }

    fn overlay(&self, ledger: &Ledger, node: NodeId) -> Overlay {
        let removed = ledger.pods_on(node).iter().filter(|placed| self.removed.contains(&placed.uid));
        let added = self.added.iter().cloned().map(Arc::new);
        Overlay::of(added, removed.cloned())
    }
}

/// The two emptiest domains, which is all that upstream keeps to find the smallest count.
struct Emptiest([(Str, i64); 2]);

impl Default for Emptiest {
    fn default() -> Self {
        Self([("".into(), i32::MAX.into()), ("".into(), i32::MAX.into())])
    }
}

impl Emptiest {
    fn update(&mut self, domain: &Str, count: i64) {
        let [first, second] = &mut self.0;
        if first.0 == *domain {
            first.1 = count;
        } else if second.0 == *domain {
            second.1 = count;
        } else if count < first.1 {
            *second = std::mem::replace(first, (domain.clone(), count));
        } else if count < second.1 {
            *second = (domain.clone(), count);
        }
        if self.0[0].1 > self.0[1].1 {
            self.0.swap(0, 1);
        }
    }
}

struct Draw(Rng);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    fn labels(&mut self) -> Labels {
        labels(&[("app", self.pick(&["web", "db"])), ("v", self.pick(&["1", "2"]))])
    }

    fn selector(&mut self) -> Option<LabelSelector> {
        let operators = [RequirementOperator::In, RequirementOperator::NotIn, RequirementOperator::Exists];
        let mut requirement = || {
            let operator = operators[self.below(3) as usize];
            let values = match operator {
                RequirementOperator::Exists => vec![],
                _ => vec![self.pick(&["web", "db", "1", "2"]).into()],
            };
            Requirement { key: self.pick(&["app", "v"]).into(), operator, values }
        };
        let requirements = [requirement(), requirement()];
        let kept = self.below(8).min(2) as usize;
        (!self.one_in(12)).then(|| LabelSelector { requirements: requirements[..kept].to_vec() })
    }

    fn node(&mut self) -> Node {
        let name = format!("n{}", self.below(7));
        let mut drawn = node(&name, 4000, 1 << 32, 110);
        let mut pairs = vec![("disk", self.pick(&["ssd", "hdd"]))];
        if !self.one_in(8) {
            pairs.push((HOST, &name));
        }
        if !self.one_in(5) {
            pairs.push((ZONE, self.pick(&["a", "b", "c", ""])));
        }
        if self.one_in(2) {
            pairs.push(("rack", self.pick(&["r", "s"])));
        }
        drawn.labels = labels(&pairs);
        if self.one_in(3) {
            let effect = if self.one_in(3) { TaintEffect::PreferNoSchedule } else { TaintEffect::NoSchedule };
            drawn.taints = Arc::from([Taint { key: self.pick(&["k", "l"]).into(), value: "".into(), effect }]);
        }
        drawn
    }

    fn constraint(&mut self) -> SpreadConstraint {
        SpreadConstraint {
            max_skew: 1 + self.below(3) as i32,
            topology_key: self.pick(&[HOST, ZONE, ZONE, "rack"]).into(),
            hard: self.one_in(2),
            selector: self.selector(),
            min_domains: 1 + self.below(4) as i32,
            honor_affinity: self.one_in(2),
            honor_taints: self.one_in(2),
        }
    }

    fn shape(&mut self) -> PodShape {
        let mut drawn = PodShape { labels: self.labels(), ..shape() };
        if self.one_in(6) {
            drawn.namespace = "other".into();
        }
        drawn.spread = (0..self.below(4)).map(|_| self.constraint()).collect();
        if self.one_in(3) {
            drawn.row_mut().node_selector = labels(&[("disk", self.pick(&["ssd", "hdd"]))]);
        }
        if self.one_in(3) {
            let (key, value): (Str, Str) = (self.pick(&["k", ""]).into(), "".into());
            drawn.row_mut().tolerations =
                vec![Toleration { key, operator: TolerationOperator::Exists, value, effect: None }];
        }
        drawn
    }

    fn placed(&mut self, uid: &str) -> Pod {
        let on = format!("n{}", self.below(7));
        let mut shape = PodShape { labels: self.labels(), ..shape() };
        if self.one_in(6) {
            shape.namespace = "other".into();
        }
        Pod { node_name: Some(on.as_str().into()), deleting: self.one_in(8), ..pod(uid, shape) }
    }

    fn change(&mut self, world: &mut World, ledger: &mut Ledger, serial: &mut u64) {
        match self.below(12) {
            0 | 1 => {
                let node = self.node();
                ledger.apply_node(&node);
                world.nodes.insert(node.name.clone(), node);
            }
            2 => {
                let name: Str = format!("n{}", self.below(7)).into();
                ledger.delete_node(&name);
                world.nodes.remove(&name);
            }
            3 => {
                let name: Str = self.pick(&["s", "t"]).into();
                let pairs = [("app", self.pick(&["web", "db"])), ("v", self.pick(&["1", "2"]))];
                let selector = labels(&pairs[..=self.below(2) as usize]);
                let service =
                    Service { namespace: "default".into(), name: name.clone(), selector: Some(selector.clone()) };
                ledger.apply_service(service);
                world.services.insert(name, selector);
            }
            4 | 5 => {
                let uid: Str = format!("p{}", self.below(*serial + 1)).into();
                ledger.delete_pod(&uid);
                world.pods.remove(&uid);
            }
            6 => {
                // Relabelled, or being deleted now; sometimes on another node.
                let uid: Str = format!("p{}", self.below(*serial + 1)).into();
                if let Some(known) = world.pods.get(&uid).cloned() {
                    let mut changed = self.placed(&uid);
                    changed.key = known.key;
                    Arc::make_mut(&mut changed.shape).namespace = changed.key.namespace.clone();
                    if !self.one_in(4) {
                        changed.node_name = known.node_name;
                    }
                    ledger.apply_pod(changed.clone());
                    world.pods.insert(uid, changed);
                }
            }
            _ => {
                *serial += 1;
                let placed = self.placed(&format!("p{serial}"));
                ledger.apply_pod(placed.clone());
                world.pods.insert(placed.uid.clone(), placed);
            }
        }
    }

    fn profile(&mut self) -> CompiledProfile {
        let mut profile = CompiledProfile::default_preset("test");
        if self.one_in(2) {
            let without = |c| SpreadConstraint { selector: None, ..c };
            let list = (0..=self.below(2)).map(|_| without(self.constraint())).collect();
            profile.spread_defaults = SpreadDefaults::List(list);
        }
        profile
    }
}

/// What the tables say of every node: filter, filter with `moves`, and the scores of the `feasible`.
type Answers = (Vec<Cause>, Vec<Cause>, Option<Vec<i64>>);

fn answers(
    tables: &mut Tables,
    cx: PluginContext<'_>,
    resolved: &ResolvedPod,
    nodes: &[NodeId],
    moves: &Moves,
    feasible: &[NodeId],
) -> Answers {
    let hard = tables.prepare(cx, resolved, &mut Work::unbounded()).expect("nothing stops");
    let filter = |moves: &Moves| -> Vec<Cause> {
        let verdict = |node: &NodeId| {
            let overlay = moves.overlay(cx.ledger, *node);
            hard.as_ref().map_or(Cause::None, |h| h.filter(resolved, *node, &overlay).cause())
        };
        nodes.iter().map(verdict).collect()
    };
    let (plain, with_moves) = (filter(&Moves::default()), filter(moves));
    let mut scores = Vec::new();
    let scored = tables.score(cx, resolved, feasible, &mut scores, &mut Work::unbounded()).expect("nothing stops");
    (plain, with_moves, scored.then_some(scores))
}

/// 300 sequences of 60 changes; half of them with so few counters that some are replaced.
#[test]
fn counts_kept_from_the_log_answer_as_the_definitions_do() {
    for seed in 0..300 {
        let mut draw = Draw(Rng::seeded(seed));
        let (mut world, mut serial) = (World::default(), 0);
        let mut ledger = Ledger::with_hash_key(&HashKey::new([seed, 1]));
        let profile = draw.profile();
        let mut tables = Tables::default();
        if seed % 2 == 0 {
            tables.counters.max_bytes = Some(0);
        }
        let shapes: Vec<Arc<PodShape>> = (0..12).map(|_| Arc::new(draw.shape())).collect();
        for step in 0..60 {
            for _ in 0..=draw.below(3) {
                draw.change(&mut world, &mut ledger, &mut serial);
            }
            let mut nodes = ledger.node_order();
            nodes.sort_by_key(|node| ledger.nodes().name(*node).clone());
            let feasible: Vec<NodeId> = nodes.iter().copied().filter(|_| !draw.one_in(3)).collect();
            let mut moves = Moves { backwards: seed % 3 == 0, ..Moves::default() };
            moves.added = (0..draw.below(4)).map(|_| draw.placed("added")).collect();
            moves.removed = world.pods.keys().filter(|_| draw.one_in(2)).cloned().collect();
            let cx = PluginContext { profile: &profile, ledger: &ledger };
            for (i, shape) in shapes.iter().enumerate().filter(|_| draw.one_in(2)) {
                let resolved = ResolvedPod::new(&profile, &ledger, shape);
                let kept = answers(&mut tables, cx, &resolved, &nodes, &moves, &feasible);
                let fresh = answers(&mut Tables::default(), cx, &resolved, &nodes, &moves, &feasible);
                let object = |node: &NodeId| &world.nodes[ledger.nodes().name(*node)];
                let filter = |moves: &Moves| -> Vec<Cause> {
                    nodes.iter().map(|node| world.filter(&profile, shape, object(node), moves)).collect()
                };
                let scored: Vec<&Node> = feasible.iter().map(object).collect();
                let naive = (filter(&Moves::default()), filter(&moves), world.score(&profile, shape, &scored));
                let context = || format!("seed {seed}, step {step}, shape {i}: {:?}", shape.spread);
                assert_eq!(fresh, naive, "{}: from nothing", context());
                assert_eq!(kept, naive, "{}: kept", context());
            }
        }
    }
}

/// A cursor that fell off the log counts anew.
#[test]
fn a_gap_in_the_log() {
    let mut ledger = super::tests::cluster("a1 x2");
    let profile = CompiledProfile::default_preset("test");
    let shape = Arc::new(super::tests::web(vec![super::tests::hard(ZONE, 1)]));
    let mut tables = Tables::default();
    let mut verdicts = |ledger: &Ledger| {
        let (cx, resolved) = (PluginContext { profile: &profile, ledger }, ResolvedPod::new(&profile, ledger, &shape));
        answers(&mut tables, cx, &resolved, &ledger.node_order(), &Moves::default(), &[]).0
    };
    assert_eq!(verdicts(&ledger), [Cause::None, Cause::None]);
    super::tests::place(&mut ledger, "a", |_| ());
    for i in 0..crate::limits::CHANGE_LOG_ENTRIES {
        let selector = Some(labels(&[("i", if i % 2 == 0 { "0" } else { "1" })]));
        ledger.apply_service(Service { namespace: "n".into(), name: "s".into(), selector });
    }
    assert_eq!(verdicts(&ledger), [Cause::Spread, Cause::None]);
}
