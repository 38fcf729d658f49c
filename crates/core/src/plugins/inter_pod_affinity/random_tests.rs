//! Tables that were followed through random events, against tables made from nothing and against the definitions.

use super::Tables;
use super::testing::{Asks, Says, filter, labelled, labels, nodes_of, profile, score, selector, term, term_in};
use crate::cycle::Rng;
use crate::ledger::{HashKey, Ledger, NodeId};
use crate::limits::CHANGE_LOG_ENTRIES;
use crate::model::{AffinityTerm, Labels, Namespace, Pod, PodShape, Str};
use crate::plugins::Overlay;
use crate::plugins::PluginContext;
use crate::profile::{CompiledProfile, InterPodAffinityArgs};
use crate::testing::node;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the definitions look at: nodes, placed pods and namespaces as plain maps.
#[derive(Debug, Default)]
struct World {
    nodes: BTreeMap<Str, Labels>,
    pods: BTreeMap<Str, Pod>,
    namespaces: BTreeMap<Str, Labels>,
}

/// Counts by label pair.
type Pairs = BTreeMap<(Str, Str), i64>;

impl World {
    /// Whether `term` speaks of a pod of `shape`.
    fn meant(&self, term: &AffinityTerm, shape: &PodShape) -> bool {
        let none = Labels::none();
        let of_namespace = self.namespaces.get(&shape.namespace).unwrap_or(&none);
        let by_label = term.namespaces.selector.as_ref().is_some_and(|s| s.matches(of_namespace));
        (term.namespaces.names.contains(&shape.namespace) || by_label)
            && term.selector.as_ref().is_some_and(|s| s.matches(&shape.labels))
    }

    fn all_meant(&self, terms: &[AffinityTerm], shape: &PodShape) -> bool {
        !terms.is_empty() && terms.iter().all(|term| self.meant(term, shape))
    }

    /// Placed pods with the labels of their nodes; pods on nodes that are not there are nowhere.
    fn placed(&self) -> impl Iterator<Item = (&PodShape, &Labels)> {
        let on = |pod: &Pod| pod.node_name.as_ref().and_then(|name| self.nodes.get(name));
        self.pods.values().filter_map(move |pod| Some((&*pod.shape, on(pod)?)))
    }

    fn filter(&self, pod: &PodShape, on: &Labels, added: &[Arc<Pod>]) -> Option<Says> {
        let (mut closed, mut near, mut away) = (Pairs::new(), Pairs::new(), Pairs::new());
        let mut count = |other: &PodShape, on: &Labels| {
            let add = |pairs: &mut Pairs, term: &AffinityTerm| {
                if let Some(value) = on.get(&term.topology_key) {
                    *pairs.entry((term.topology_key.clone(), value.clone())).or_default() += 1;
                }
            };
            other.anti_affinity.iter().filter(|t| self.meant(t, pod)).for_each(|t| add(&mut closed, t));
            if self.all_meant(&pod.affinity, other) {
                pod.affinity.iter().for_each(|t| add(&mut near, t));
            }
            pod.anti_affinity.iter().filter(|t| self.meant(t, other)).for_each(|t| add(&mut away, t));
            closed.is_empty()
        };
        let mut nobody_asks = true;
        for (other, on) in self.placed() {
            nobody_asks &= count(other, on);
        }
        if nobody_asks && pod.affinity.is_empty() && pod.anti_affinity.is_empty() {
            return None;
        }
        for other in added {
            count(&other.shape, on);
        }
        let pair = |key: &Str| on.get(key).map(|value| (key.clone(), value.clone()));
        let has = |pairs: &Pairs, key: &Str| pair(key).is_some_and(|pair| pairs.get(&pair).is_some_and(|n| *n > 0));
        let keys = pod.affinity.iter().all(|t| on.get(&t.topology_key).is_some());
        let company = pod.affinity.iter().all(|t| has(&near, &t.topology_key));
        let first = near.is_empty() && self.all_meant(&pod.affinity, pod);
        Some(match () {
            () if !(keys && (company || first)) => Says::Affinity,
            () if pod.anti_affinity.iter().any(|t| has(&away, &t.topology_key)) => Says::Anti,
            () if on.iter().any(|(key, _)| has(&closed, key)) => Says::Existing,
            () => Says::Fits,
        })
    }

    fn score(&self, pod: &PodShape, nodes: &[&Labels], args: InterPodAffinityArgs) -> Option<Vec<i64>> {
        if args.ignore_preferred_of_existing && pod.preferred_pods.is_empty() {
            return None;
        }
        let mut pairs = Pairs::new();
        for (other, on) in self.placed() {
            let mut add = |term: &AffinityTerm, of: &PodShape, weight: i64| {
                if let Some(value) = on.get(&term.topology_key).filter(|_| self.meant(term, of)) {
                    *pairs.entry((term.topology_key.clone(), value.clone())).or_default() += weight;
                }
            };
            pod.preferred_pods.iter().for_each(|t| add(&t.term, other, t.weight.into()));
            other.preferred_pods.iter().for_each(|t| add(&t.term, pod, t.weight.into()));
            if args.hard_weight > 0 {
                other.affinity.iter().for_each(|t| add(t, pod, args.hard_weight));
            }
        }
        if pairs.is_empty() {
            return None;
        }
        let raw = |on: &&Labels| on.iter().filter_map(|(k, v)| pairs.get(&(k.clone(), v.clone()))).sum();
        let raw: Vec<i64> = nodes.iter().map(raw).collect();
        let (low, high) = (raw.iter().min().copied()?, raw.iter().max().copied()?);
        let stretch = |s: i64| if high > low { (100.0 * ((s - low) as f64 / (high - low) as f64)) as i64 } else { 0 };
        Some(raw.into_iter().map(stretch).collect())
    }
}

/// Draws events and pods from one seed.
struct Draw(Rng);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    fn term(&mut self) -> AffinityTerm {
        let key = self.pick(&["host", "host", "zone", "zone", "rack", "seldom", "absent"]);
        let pods = self.pick(&["app=web", "app=db", "app!=web", "app", "tier !app", ""]);
        let mut drawn = match self.below(4) {
            0 => term_in(&[], Some(self.pick(&["team=a", "team!=a", "!team", ""])), key, pods),
            1 => term_in(&["x", "y"], None, key, pods),
            2 => term_in(&["y"], Some("team"), key, pods),
            _ => term(key, pods),
        };
        if self.below(12) == 0 {
            drawn.selector = None;
        }
        drawn
    }

    fn asks(&mut self) -> Asks {
        let text = self.pick(&["app=web", "app=db", "app=web tier=1", "tier=1", ""]);
        let mut drawn = labelled(text).of(self.pick(&["default", "x", "y", "z"]));
        for _ in 0..self.below(3) {
            let term = self.term();
            drawn = match self.below(3) {
                0 => drawn.near(term),
                1 => drawn.away(term),
                _ => drawn.rather(self.below(200) as i32 - 100, term),
            };
        }
        drawn
    }

    fn event(&mut self, world: &mut World, ledger: &mut Ledger, serial: &mut u64) {
        match self.below(12) {
            0 | 1 => self.node(world, ledger),
            2 => {
                let name: Str = format!("n{}", self.below(6)).into();
                world.nodes.remove(&name);
                ledger.delete_node(&name);
            }
            3..=7 => {
                *serial += 1;
                let uid = format!("p{serial}");
                self.place(world, ledger, &uid);
            }
            8 => {
                let uid = format!("p{}", self.below(*serial + 1));
                self.place(world, ledger, &uid);
            }
            9 | 10 => {
                let uid: Str = format!("p{}", self.below(*serial + 1)).into();
                world.pods.remove(&uid);
                ledger.delete_pod(&uid);
            }
            _ => self.namespace(world, ledger),
        }
    }

    fn node(&mut self, world: &mut World, ledger: &mut Ledger) {
        let name = format!("n{}", self.below(6));
        let mut object = node(&name, 1000, 0, 100);
        // A node may come back as another one with the same name.
        object.uid = format!("{name}-{}", self.below(2)).into();
        let mut text = format!("host={name}");
        for (label, values) in [("zone", &["a", "b"]), ("rack", &["1", "2"])] {
            if self.below(4) > 0 {
                text = format!("{text} {label}={}", self.pick(values));
            }
        }
        if self.below(8) == 0 {
            text = format!("{text} seldom=1");
        }
        object.labels = labels(&text);
        world.nodes.insert(object.name.clone(), object.labels.clone());
        ledger.apply_node(&object);
    }

    /// A pod that is new, or one that is known with other labels and terms, or elsewhere.
    fn place(&mut self, world: &mut World, ledger: &mut Ledger, uid: &str) {
        let mut pod = self.asks().named(uid);
        // Uids stand for names here: another namespace makes it another name, not another pod.
        if let Some(known) = world.pods.get(&pod.uid) {
            pod.key = known.key.clone();
        }
        pod.node_name = Some(format!("n{}", self.below(6)).into());
        pod.deleting = self.below(6) == 0;
        world.pods.insert(pod.uid.clone(), pod.clone());
        ledger.apply_pod(pod);
    }

    fn namespace(&mut self, world: &mut World, ledger: &mut Ledger) {
        let name: Str = self.pick(&["default", "x", "y", "z"]).into();
        if self.below(3) == 0 {
            world.namespaces.remove(&name);
            ledger.delete_namespace(&name);
        } else {
            let labels = labels(self.pick(&["team=a", "team=b", "other=1", "team=a other=1"]));
            world.namespaces.insert(name.clone(), labels.clone());
            ledger.apply_namespace(Namespace { name, labels });
        }
    }
}

/// The answers of `tables` and of fresh ones for one pod, against the definitions.
fn compare(
    tables: &mut Tables,
    world: &World,
    cx: PluginContext<'_>,
    pod: &Arc<PodShape>,
    added: &[Arc<Pod>],
    context: &str,
) {
    let nodes = nodes_of(cx.ledger);
    let labels = |node: &NodeId| cx.ledger.nodes().labels(*node);
    let overlay = Overlay::of(added.iter().cloned(), []);
    for overlay in [Overlay::none(), &overlay] {
        let naive = |node: &NodeId| world.filter(pod, labels(node), &overlay.added);
        let naive: Option<Vec<Says>> = nodes.iter().map(naive).collect();
        let fresh = filter(&mut Tables::default(), cx, pod, &nodes, overlay);
        let kept = filter(tables, cx, pod, &nodes, overlay);
        assert_eq!(kept.is_some(), fresh.is_some(), "{context}: PreFilter, kept and fresh, {pod:?}");
        if !nodes.is_empty() {
            assert_eq!(fresh, naive, "{context}: the definitions' verdicts, {pod:?}");
        }
        assert_eq!(kept, fresh, "{context}: verdicts, kept and fresh, {pod:?}");
    }
    let all: Vec<&Labels> = nodes.iter().map(labels).collect();
    let naive = world.score(pod, &all, cx.profile.inter_pod_affinity);
    let fresh = score(&mut Tables::default(), cx, pod, &nodes);
    let kept = score(tables, cx, pod, &nodes);
    assert_eq!(kept, fresh, "{context}: scores, kept and fresh, {pod:?}");
    if !nodes.is_empty() {
        assert_eq!(fresh, naive, "{context}: the definitions' scores, {pod:?}");
    }
}

/// 400 sequences of 60 events. A pod is asked about after some of them, so that tables lag and catch up.
#[test]
fn counts_kept_from_the_log_answer_as_the_definitions_do() {
    let mut answers = BTreeMap::new();
    for seed in 0..400 {
        let mut draw = Draw(Rng::seeded(seed));
        // The key decides the order of tables, which reaches no answer.
        let mut ledger = Ledger::with_hash_key(&HashKey::new([seed, 1]));
        let (mut world, mut tables) = (World::default(), Tables::default());
        let mut profile = profile();
        profile.inter_pod_affinity = InterPodAffinityArgs {
            hard_weight: [0, 1, 100][draw.below(3) as usize],
            ignore_preferred_of_existing: draw.below(4) == 0,
        };
        let asking: Vec<Arc<PodShape>> = (0..5).map(|_| Arc::new(draw.asks().0)).collect();
        let mut serial = 0;
        for step in 0..60 {
            draw.event(&mut world, &mut ledger, &mut serial);
            let pod = &asking[draw.below(asking.len() as u64) as usize];
            let added: Vec<Arc<Pod>> =
                (0..draw.below(3)).map(|i| Arc::new(draw.asks().named(&format!("a{i}")))).collect();
            let cx = PluginContext { profile: &profile, ledger: &ledger };
            compare(&mut tables, &world, cx, pod, &added, &format!("seed {seed}, step {step}"));
            for says in filter(&mut tables, cx, pod, &nodes_of(&ledger), Overlay::none()).into_iter().flatten() {
                *answers.entry(format!("{says:?}")).or_insert(0) += 1;
            }
        }
        ledger.audit().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    assert!(answers.len() == 4 && answers.values().all(|times| *times > 500), "each answer is met often: {answers:?}");
}

fn fresh_and_kept_agree(tables: &mut Tables, ledger: &Ledger, profile: &CompiledProfile, asks: &Asks) {
    let (cx, pod) = (PluginContext { profile, ledger }, Arc::new(asks.0.clone()));
    let nodes = nodes_of(ledger);
    let kept = filter(tables, cx, &pod, &nodes, Overlay::none());
    assert_eq!(kept, filter(&mut Tables::default(), cx, &pod, &nodes, Overlay::none()));
    assert_eq!(score(tables, cx, &pod, &nodes), score(&mut Tables::default(), cx, &pod, &nodes));
}

fn zoned(placed: &[(&str, Asks)]) -> Ledger {
    super::testing::cluster(&[("n1", "zone=a host=n1"), ("n2", "zone=b host=n2")], placed)
}

#[test]
fn a_cursor_that_fell_off_the_log_counts_anew() {
    let asks = labelled("app=web").away(term("zone", "app=web")).rather(3, term("zone", "app=db"));
    let mut ledger = zoned(&[("n1", labelled("app=db"))]);
    let (mut tables, profile) = (Tables::default(), profile());
    fresh_and_kept_agree(&mut tables, &ledger, &profile, &asks);
    ledger.apply_pod(Pod { node_name: Some("n2".into()), ..asks.named("early") });
    for i in 0..=CHANGE_LOG_ENTRIES {
        ledger.apply_namespace(Namespace { name: "busy".into(), labels: labels(&format!("turn={i}")) });
    }
    fresh_and_kept_agree(&mut tables, &ledger, &profile, &asks);
}

#[test]
fn many_queries_over_many_keys_are_answered() {
    let mut ledger = zoned(&[]);
    let (mut tables, profile) = (Tables::default(), profile());
    for i in 0..600 {
        let key = if i % 2 == 0 { format!("key-{i}") } else { "zone".to_owned() };
        let asks = labelled(&format!("app=web turn={i}")).away(term(&key, &format!("turn={}", i / 2)));
        fresh_and_kept_agree(&mut tables, &ledger, &profile, &asks);
        if i % 10 == 0 {
            let on = if i % 20 == 0 { "n1" } else { "n2" };
            ledger.apply_pod(Pod { node_name: Some(on.into()), ..asks.named(&format!("p{i}")) });
        }
    }
    for i in 0..3000 {
        let asks = labelled(&format!("app=web turn={i}"));
        let cx = PluginContext { profile: &profile, ledger: &ledger };
        filter(&mut tables, cx, &Arc::new(asks.0), &nodes_of(&ledger), Overlay::none());
    }
    fresh_and_kept_agree(&mut tables, &ledger, &profile, &labelled("turn=5").away(term("zone", "turn=5")));
}

#[test]
fn selectors_are_read_as_the_tests_write_them() {
    let matches = |text: &str, of: &str| selector(text).matches(&labels(of));
    assert!(
        matches("a=b|c !d e f!=g", "a=c e=1 f=h") && !matches("a=b", "a=c") && !matches("!a", "a=") && matches("", "")
    );
}
