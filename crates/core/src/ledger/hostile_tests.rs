//! What one tenant's objects may not do to the ledger that all share.

use super::{HashKey, Ledger};
use crate::io::{BindOutcome, BindRequest, Effect, Input};
use crate::limits::{GHOST_ROWS, LARGEST_SUM, SCALAR_COLUMNS};
use crate::model::{Node, Pod, PodShape, Score, Time, WeightedTerm};
use crate::plugins::inter_pod_affinity::testing::term;
use crate::plugins::{PluginContext, ResolvedPod, fixed_score};
use crate::profile::CompiledProfile;
use crate::testing::{node, pod, shape_of};
use crate::worker::{Next, Worker};
use proptest::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;

const GIB: i64 = 1 << 30;

fn asking(scalars: &[(&str, i64)]) -> PodShape {
    let mut wanted = shape_of(1, 1);
    for (name, amount) in scalars {
        wanted.row_mut().requests.set_scalar((*name).into(), *amount);
    }
    wanted
}

fn offering(name: &str, scalars: &[(&str, i64)]) -> Node {
    let mut offered = node(name, 4_000, 64 * GIB, 110);
    for (resource, amount) in scalars {
        offered.allocatable.set_scalar((*resource).into(), *amount);
    }
    offered
}

fn bound(name: &str, on: &str, shape: PodShape) -> Pod {
    Pod { node_name: Some(on.into()), ..pod(name, shape) }
}

/// So many scalars that nobody has ever heard of.
fn invented(count: usize, amount: i64) -> PodShape {
    let names: Vec<String> = (0..count).map(|i| format!("a.io/r{i}")).collect();
    asking(&names.iter().map(|name| (&**name, amount)).collect::<Vec<_>>())
}

struct Bench {
    ledger: RefCell<Ledger>,
    worker: Worker,
}

impl Bench {
    fn new() -> Self {
        Self::with_key(&HashKey::default())
    }

    fn with_key(key: &HashKey) -> Self {
        let worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
        Self { ledger: RefCell::new(Ledger::with_hash_key(key)), worker }
    }

    fn node(&self, node: &Node) {
        self.ledger.borrow_mut().apply_node(node);
    }

    fn pod(&self, pod: Pod) {
        self.ledger.borrow_mut().apply_pod(pod);
    }

    fn audit(&self) {
        self.ledger.borrow().audit().expect("the columns equal the sums of the pods");
    }

    /// Which pods are placed and bound now, and where.
    fn place(&mut self, second: u64) -> Vec<(String, String)> {
        let now = Time::from_millis(1_000 * second);
        let (mut placed, mut inputs) = (Vec::new(), Vec::new());
        loop {
            let mut effects = Vec::new();
            let next = self.worker.step(now, &mut inputs, &self.ledger, &mut effects);
            for effect in effects {
                if let Effect::Bind(BindRequest { attempt, pod, node, .. }) = effect {
                    placed.push((pod.key.name.to_string(), node.to_string()));
                    self.pod(Pod { node_name: Some(node), ..Pod::clone(&pod) });
                    inputs.push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
                }
            }
            if next != Next::Now && inputs.is_empty() {
                return placed;
            }
        }
    }
}

fn placed(pod: &str, node: &str) -> Vec<(String, String)> {
    vec![(pod.to_owned(), node.to_owned())]
}

#[test]
fn invented_resources_of_a_pod_leave_the_columns_to_those_that_nodes_offer() {
    let mut bench = Bench::new();
    bench.node(&node("a", 4_000, GIB, 110));
    bench.pod(bound("hostile", "a", invented(SCALAR_COLUMNS, 0)));
    bench.pod(bound("greedy", "a", invented(SCALAR_COLUMNS, 7)));
    bench.node(&offering("b", &[("example.com/gpu", 1)]));
    bench.pod(pod("p", asking(&[("example.com/gpu", 1)])));
    assert_eq!(bench.place(0), placed("p", "b"));
    bench.audit();
}

/// What is counted is looked up by column, since there are fewer columns than names.
#[test]
fn of_a_pod_that_names_thousands_of_resources_those_with_columns_are_counted() {
    let mut ledger = Ledger::new();
    ledger.apply_node(&offering("a", &[("a.io/r7", 10), ("example.com/gpu", 8)]));
    let mut shape = invented(3_000, 2);
    shape.row_mut().requests.set_scalar("example.com/gpu".into(), 3);
    ledger.apply_pod(bound("many", "a", shape));
    let used = |ledger: &Ledger, name: &str| {
        let (nodes, node) = (ledger.nodes(), ledger.nodes().find("a").expect("applied"));
        nodes.scalar(name).map(|id| nodes.scalar_used(id, node))
    };
    assert_eq!((used(&ledger, "a.io/r7"), used(&ledger, "example.com/gpu")), (Some(2), Some(3)));
    ledger.apply_node(&offering("a", &[("a.io/r7", 10), ("a.io/r8", 10), ("example.com/gpu", 8)]));
    assert_eq!(used(&ledger, "a.io/r8"), Some(2));
    ledger.audit().expect("the columns equal the sums of the pods");
    ledger.delete_pod("many");
    assert_eq!((used(&ledger, "a.io/r7"), used(&ledger, "example.com/gpu")), (Some(0), Some(0)));
}

#[test]
fn pods_that_use_a_resource_are_counted_when_a_node_offers_it() {
    let mut bench = Bench::new();
    bench.pod(bound("early", "b", asking(&[("example.com/gpu", 3)])));
    bench.node(&node("b", 4_000, GIB, 110));
    bench.node(&offering("b", &[("example.com/gpu", 4)]));
    bench.audit();
    bench.pod(pod("two", asking(&[("example.com/gpu", 2)])));
    assert!(bench.place(0).is_empty(), "one of four is left");
    bench.pod(pod("one", asking(&[("example.com/gpu", 1)])));
    assert_eq!(bench.place(0), placed("one", "b"));
}

/// A resource that nobody offers any more gives its column, and so its id, to the next one.
#[test]
fn answers_kept_for_one_resource_are_not_taken_for_those_of_another() {
    let mut bench = Bench::new();
    let (gpu, nic) = ("example.com/gpu", "example.com/nic");
    bench.node(&node("plain", 4_000, GIB, 110));
    bench.node(&offering("b", &[(gpu, 8)]));
    let old = bench.ledger.borrow().nodes().scalar(gpu);
    for name in ["p1", "p2", "p3"] {
        bench.pod(pod(name, asking(&[(gpu, 1)])));
        assert_eq!(bench.place(0), placed(name, "b"));
    }
    bench.node(&offering("b", &[(nic, 8)]));
    assert_eq!(bench.ledger.borrow().nodes().scalar(gpu), None);
    assert_eq!(bench.ledger.borrow().nodes().scalar(nic), old, "the column is used again");
    bench.pod(pod("p4", asking(&[(gpu, 1)])));
    assert!(bench.place(1).is_empty(), "the node has network cards only");
    bench.pod(pod("q1", asking(&[(nic, 8)])));
    assert_eq!(bench.place(1), placed("q1", "b"), "no pod uses a network card");
    bench.node(&offering("plain", &[(gpu, 1)]));
    assert_eq!(bench.place(100), placed("p4", "plain"));
    bench.audit();
}

#[test]
fn a_heartbeat_of_a_node_is_no_change_although_no_column_is_left_for_it() {
    let mut ledger = Ledger::new();
    let mut crowded = node("a", 1_000, GIB, 10);
    crowded.allocatable.scalars = invented(SCALAR_COLUMNS, 1).row.requests.scalars.clone();
    ledger.apply_node(&crowded);
    let late = offering("b", &[("example.com/gpu", 1), ("example.com/none", 0)]);
    ledger.apply_node(&late);
    let version = ledger.version();
    ledger.apply_node(&crowded);
    ledger.apply_node(&late);
    assert_eq!(ledger.version(), version);
    assert_eq!(ledger.nodes().scalar("example.com/gpu"), None, "there is no column");
    ledger.audit().expect("nothing to object to");
    ledger.delete_node("a");
    let gpu = ledger.nodes().scalar("example.com/gpu").expect("a column was given back");
    let b = ledger.nodes().find("b").expect("applied");
    assert_eq!(ledger.nodes().scalar_allocatable(gpu, b), 1);
    ledger.audit().expect("nothing to object to");
}

#[test]
fn amounts_beyond_any_node_neither_wrap_nor_free_anything() {
    let mut bench = Bench::new();
    bench.node(&node("a", 4_000, 64 * GIB, 110));
    let node_of = |bench: &Bench| bench.ledger.borrow().nodes().find("a").expect("applied");
    let a = node_of(&bench);
    bench.pod(bound("usual", "a", shape_of(100, GIB)));
    let before = bench.ledger.borrow().nodes().amounts(a).1;
    bench.pod(bound("x", "a", shape_of(i64::MAX, i64::MAX)));
    bench.pod(bound("y", "a", shape_of(i64::MAX - 4_000, i64::MAX - 64 * GIB)));
    let used = bench.ledger.borrow().nodes().amounts(a).1;
    assert_eq!((used.milli_cpu, used.memory), (LARGEST_SUM, LARGEST_SUM));
    bench.pod(pod("p", shape_of(1, 8 * GIB)));
    assert!(bench.place(0).is_empty(), "the node is full");
    bench.audit();
    // A kubelet that takes less, or refuses one: what is left is exact again as soon as it can be said.
    bench.pod(bound("y", "a", shape_of(200, GIB)));
    bench.audit();
    bench.ledger.borrow_mut().delete_pod("x");
    bench.ledger.borrow_mut().delete_pod("y");
    assert_eq!(bench.ledger.borrow().nodes().amounts(a).1, before);
    bench.audit();
    assert_eq!(bench.place(100), placed("p", "a"));
}

/// Every score of the default preset stays within its range, whatever is on the node.
#[test]
fn what_a_node_offers_is_cut_to_the_largest_sum() {
    let bench = Bench::new();
    let mut boundless = node("a", i64::MAX, i64::MAX, 10);
    boundless.allocatable.ephemeral_storage = i64::MAX;
    boundless.allocatable.set_scalar("example.com/gpu".into(), i64::MAX);
    bench.node(&boundless);
    let version = bench.ledger.borrow().version();
    bench.node(&boundless);
    let ledger = bench.ledger.borrow();
    assert_eq!(ledger.version(), version, "a heartbeat is no change");
    let (offered, _) = ledger.nodes().amounts(ledger.nodes().find("a").unwrap());
    assert_eq!([offered.milli_cpu, offered.memory, offered.ephemeral_storage], [LARGEST_SUM; 3]);
    assert_eq!(offered.scalars[..], [("example.com/gpu".into(), LARGEST_SUM)]);
}

#[test]
fn scores_stay_in_range_beside_absurd_pods() {
    let profile = CompiledProfile::default_preset("test");
    for (first, second) in [(i64::MAX, i64::MAX), (i64::MAX, i64::MAX - 64 * GIB), (LARGEST_SUM, 1), (1, LARGEST_SUM)] {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("a", 4_000, 64 * GIB, 110));
        ledger.apply_node(&node("huge", i64::MAX, i64::MAX, 110));
        for on in ["a", "huge"] {
            ledger.apply_pod(bound(&format!("x-{on}"), on, shape_of(first, first)));
            ledger.apply_pod(bound(&format!("y-{on}"), on, shape_of(second, second)));
        }
        ledger.audit().expect("sums stop where they must");
        let cx = PluginContext { profile: &profile, ledger: &ledger };
        let resolved = ResolvedPod::new(&profile, &ledger, &Arc::new(shape_of(100, GIB)));
        for (score, node) in [Score::NodeResourcesFit, Score::NodeResourcesBalancedAllocation]
            .into_iter()
            .flat_map(|score| ledger.nodes().present_nodes().map(move |node| (score, node)))
        {
            let value = fixed_score(score, cx, &resolved, node);
            assert!((0..=100).contains(&value), "{score:?}: {value} beside {first} and {second}");
        }
        for node in ledger.nodes().present_nodes() {
            let both = resolved.row_scores.fixed(cx, &resolved, node);
            assert!((0..=200).contains(&both), "{both} beside {first} and {second}");
        }
    }
}

#[test]
fn pods_on_invented_nodes_take_a_bounded_number_of_rows() {
    let mut ledger = Ledger::new();
    ledger.apply_node(&node("real", 1_000, GIB, 110));
    let pods = 2 * GHOST_ROWS;
    for i in 0..pods {
        ledger.apply_pod(bound(&format!("p{i}"), &format!("ghost-{i}"), shape_of(10, 0)));
    }
    assert_eq!(ledger.nodes().rows(), GHOST_ROWS + 1);
    ledger.audit().expect("what is set aside counts nowhere");
    let late = format!("ghost-{}", pods - 1);
    ledger.apply_pod(bound("second", &late, shape_of(5, 0)));
    ledger.apply_node(&node(&late, 1_000, GIB, 110));
    let row = ledger.nodes().find(&late).expect("applied");
    assert_eq!(ledger.nodes().amounts(row).1.milli_cpu, 15, "its pods count from now on");
    ledger.audit().expect("sums");
    // A pod set aside is deleted, ends, is bound anew under its name, or is not seen again like any other.
    let aside = |i: usize| bound(&format!("p{i}"), &format!("ghost-{i}"), shape_of(10, 0));
    ledger.delete_pod(&format!("p{}", pods - 2));
    ledger.apply_pod(Pod { finished: true, ..aside(pods - 3) });
    ledger.apply_pod(Pod { uid: "other".into(), ..bound(&format!("p{}", pods - 4), "real", shape_of(1, 0)) });
    assert!(!ledger.has_pod(&format!("p{}", pods - 4)), "the name is another pod's");
    ledger.audit().expect("sums");
    (0..pods).for_each(|i| ledger.delete_pod(&format!("p{i}")));
    ledger.delete_pod("second");
    for i in 0..pods {
        let name = format!("ghost-{i}");
        ledger.apply_node(&node(&name, 1_000, GIB, 110));
        let row = ledger.nodes().find(&name).expect("applied");
        assert_eq!(ledger.nodes().pod_count(row), 0, "{name}");
    }
    ledger.audit().expect("sums");
}

fn amounts() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 0_i64..2_000, 1 => Just(i64::MAX), 1 => Just(LARGEST_SUM), 1 => (LARGEST_SUM - 3_000)..i64::MAX]
}

#[derive(Debug, Clone)]
enum Step {
    Node(usize, Vec<(usize, i64)>),
    DeleteNode(usize),
    Bind(usize, usize, i64, Vec<(usize, i64)>),
    DeletePod(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let scalars = || prop::collection::vec((0_usize..5, amounts()), 0..4);
    let step = prop_oneof![
        3 => (0_usize..4, scalars()).prop_map(|(node, offered)| Step::Node(node, offered)),
        1 => (0_usize..4).prop_map(Step::DeleteNode),
        5 => (0_usize..12, 0_usize..6, amounts(), scalars()).prop_map(|(p, n, cpu, s)| Step::Bind(p, n, cpu, s)),
        3 => (0_usize..12).prop_map(Step::DeletePod),
    ];
    prop::collection::vec(step, 1..60)
}

const RESOURCES: [&str; 5] = ["a.io/a", "a.io/b", "a.io/c", "hugepages-2Mi", "example.com/gpu"];

fn listed(scalars: &[(usize, i64)]) -> Vec<(&'static str, i64)> {
    scalars.iter().map(|(at, amount)| (RESOURCES[*at], *amount)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Resources come and go with the nodes that offer them, and amounts may be absurd.
    #[test]
    fn sums_equal_those_of_the_pods_after_any_sequence(steps in steps()) {
        let mut ledger = Ledger::new();
        for step in steps {
            match step {
                Step::Node(at, offered) => ledger.apply_node(&offering(&format!("n{at}"), &listed(&offered))),
                Step::DeleteNode(at) => ledger.delete_node(&format!("n{at}")),
                Step::Bind(name, on, cpu, scalars) => {
                    let mut wanted = asking(&listed(&scalars));
                    wanted.row_mut().requests.milli_cpu = cpu;
                    wanted.row_mut().score_requests.memory = cpu;
                    // A pod stays on its node, and may be resized there.
                    ledger.apply_pod(bound(&format!("p{name}-{on}"), &format!("n{on}"), wanted));
                }
                Step::DeletePod(name) => (0..6).for_each(|on| ledger.delete_pod(&format!("p{name}-{on}"))),
            }
            prop_assert_eq!(ledger.audit(), Ok(()));
        }
    }
}

/// The key of the tables decides their order, and no order decides anything.
#[test]
fn ledgers_of_different_keys_decide_the_same() {
    let decide = |key: &HashKey| {
        let mut bench = Bench::with_key(key);
        let mut all = Vec::new();
        let mut rng = crate::cycle::Rng::seeded(7);
        for i in 0..300_u64 {
            let mut draw = |n: u64| rng.below(n) as usize;
            match draw(8) {
                0 | 1 => {
                    let labels = [("zone", ["a", "b", "c"][draw(3)]), ("disk", ["ssd", "hdd"][draw(2)])];
                    let name = format!("n{}", draw(12));
                    bench.node(&Node { labels: labels.into_iter().collect(), ..offering(&name, &[("a.io/a", 2)]) });
                }
                2 => bench.ledger.borrow_mut().delete_node(&format!("n{}", draw(12))),
                3 => bench.ledger.borrow_mut().delete_pod(&format!("p{}", rng.below(i + 1))),
                4 if draw(3) == 0 => {
                    (0..4).for_each(|_| bench.ledger.borrow_mut().delete_node(&format!("n{}", draw(12))));
                }
                _ => {
                    let key = ["zone", "disk", "absent"][draw(3)];
                    let app = ["web", "db"][draw(2)];
                    let mut wanted = asking(&[("a.io/a", 1)][..draw(2)]);
                    wanted.labels = [("app", app)].into_iter().collect();
                    let term = term(key, &format!("app={app}"));
                    match draw(4) {
                        0 => wanted.anti_affinity = vec![term],
                        1 => wanted.affinity = vec![term],
                        2 => wanted.preferred_pods = vec![WeightedTerm { weight: 50, term }],
                        _ => {}
                    }
                    bench.pod(pod(&format!("p{i}"), wanted));
                }
            }
            all.extend(bench.place(i * 20));
        }
        bench.audit();
        all
    };
    let decided = decide(&HashKey::default());
    assert!(decided.len() > 30, "{} decisions", decided.len());
    for key in 1..4 {
        assert_eq!(decide(&HashKey::new([key, !key])), decided);
    }
}
