//! What pods may cost that ask for as much as they can.

use super::Tables;
use super::tests::{HOST, ZONE, constraint, hard, place, web};
use crate::ledger::Ledger;
use crate::limits::{COUNTER_BYTES, LAYOUT_BYTES, SELECTOR_VALUES_PER_POD, SPREAD_CONSTRAINTS_PER_POD};
use crate::model::{
    Footprint, LabelSelector, Labels, NodeSelector, NodeSelectorTerm, NodeTest, NodeTestOperator, PodShape,
    Requirement, RequirementOperator, Service, SpreadConstraint, Str,
};
use crate::plugins::context::Stop;
use crate::plugins::counts::{GATED, LAID_OUT};
use crate::plugins::{Cause, Overlay, PluginContext, ResolvedPod, Work};
use crate::profile::{CompiledProfile, SpreadDefaults};
use crate::testing::{node, with_row};
use std::sync::Arc;

const NODES: usize = 100;
const KEYS: usize = SPREAD_CONSTRAINTS_PER_POD;

/// Nodes that have all of the labels `k0`, `k1`, …
fn cluster() -> Ledger {
    let mut ledger = Ledger::new();
    for i in 0..NODES {
        let (mut object, value) = (node(&format!("n{i}"), 4000, 1 << 32, 110), format!("{}", i % 3));
        let key = |at: usize| (format!("k{at}").as_str().into(), value.as_str().into());
        object.labels = Labels::from_pairs((0..KEYS).map(key).chain([(HOST.into(), object.name.clone())]));
        ledger.apply_node(&object);
    }
    ledger
}

fn spread(key: &str) -> Vec<SpreadConstraint> {
    (0..KEYS).map(|i| hard(&format!("{key}{i}"), 1)).collect()
}

/// How many rows were looked at for whether they count, and how many were laid out, by one PreFilter; and what it said of each.
fn looks(tables: &mut Tables, ledger: &Ledger, shape: &Arc<PodShape>) -> (usize, usize, Vec<Cause>) {
    let profile = CompiledProfile::default_preset("test");
    let (cx, resolved) = (PluginContext { profile: &profile, ledger }, ResolvedPod::new(&profile, ledger, shape));
    let before = (GATED.get(), LAID_OUT.get());
    let hard = tables.prepare(cx, &resolved, &mut Work::unbounded()).expect("nothing stops").expect("constraints");
    let after = (GATED.get(), LAID_OUT.get());
    let says = ledger.node_order().into_iter().map(|node| hard.filter(&resolved, node, Overlay::none()).cause());
    (after.0 - before.0, after.1 - before.1, says.collect())
}

#[test]
fn constraints_on_many_keys_look_once_at_each_node_for_whether_it_counts() {
    let (ledger, mut tables) = (cluster(), Tables::default());
    let shape = Arc::new(web(spread("k")));
    let (gated, laid_out, says) = looks(&mut tables, &ledger, &shape);
    assert_eq!((gated, laid_out), (NODES, KEYS * NODES), "a place each, and whether it counts once for all");
    assert!(says.iter().all(|cause| *cause == Cause::None));
    assert_eq!(looks(&mut tables, &ledger, &shape).1, 0, "kept");
}

/// They are kept with the constraints, as a part of the pod, and nothing reads or copies them.
#[test]
fn labels_of_a_pod_are_no_work_of_its_constraints() {
    let (ledger, mut tables) = (cluster(), Tables::default());
    let profile = CompiledProfile::default_preset("test");
    let mut work_with = |labels: usize| {
        let one = SpreadConstraint { honor_taints: true, ..hard("k0", 1) };
        let more = (0..labels).map(|i| (format!("label-{i}").as_str().into(), "x".repeat(50).as_str().into()));
        let shape = PodShape { labels: Labels::from_pairs(more), ..web(vec![one]) };
        let resolved = ResolvedPod::new(&profile, &ledger, &Arc::new(shape));
        let mut work = Work::unbounded();
        tables.prepare(PluginContext { profile: &profile, ledger: &ledger }, &resolved, &mut work).expect("it ends");
        work.done()
    };
    work_with(1);
    assert_eq!(work_with(16_000), work_with(1));
}

#[test]
fn keys_that_no_node_has_lay_out_nothing() {
    let (ledger, mut tables) = (cluster(), Tables::default());
    for spread in [spread("invented-"), [spread("k"), spread("invented-")].concat()] {
        let (gated, laid_out, says) = looks(&mut tables, &ledger, &Arc::new(web(spread)));
        assert_eq!((gated, laid_out), (0, 0));
        assert!(says.iter().all(|cause| *cause == Cause::SpreadLabel), "a label is missing, as upstream says");
    }
    assert_eq!(tables.layouts.bytes(), 0);
    let soft: Vec<_> = spread("invented-").into_iter().map(|c| SpreadConstraint { hard: false, ..c }).collect();
    let (profile, shape) = (CompiledProfile::default_preset("test"), Arc::new(web(soft)));
    let (cx, resolved) =
        (PluginContext { profile: &profile, ledger: &ledger }, ResolvedPod::new(&profile, &ledger, &shape));
    let mut out = Vec::new();
    let scored = tables.score(cx, &resolved, &ledger.node_order(), &mut out, &mut Work::unbounded());
    assert_eq!((scored, out), (Ok(true), vec![0; NODES]));
    assert_eq!(tables.layouts.bytes(), 0);
}

/// `k0` has no column, since no pod names it.
#[test]
fn domains_that_are_read_from_labels_are_read_in_parts() {
    let (mut ledger, mut tables) = (cluster(), Tables::default());
    let selector = Some([("app", "web")].into_iter().collect());
    ledger.apply_service(Service { namespace: "default".into(), name: "s".into(), selector });
    let mut profile = CompiledProfile::default_preset("test");
    let default = SpreadConstraint { selector: None, ..constraint("k0", 1, true, "web") };
    profile.spread_defaults = SpreadDefaults::List(vec![default]);
    let shape = Arc::new(web(Vec::new()));
    let cx = PluginContext { profile: &profile, ledger: &ledger };
    let resolved = ResolvedPod::new(&profile, &ledger, &shape);
    let (mut looks, before) = (0, LAID_OUT.get());
    while tables.prepare(cx, &resolved, &mut Work::of(20)).is_err() {
        looks += 1;
        assert!(
            LAID_OUT.get() - before <= looks * 12,
            "what is read from a label takes as long as other rows together"
        );
    }
    assert!(looks >= 8, "{looks} looks");
    assert_eq!(LAID_OUT.get() - before, NODES, "each row once");
}

/// As much as a pod may ask for: `values` of node affinity.
fn choosy(spread: Vec<SpreadConstraint>, values: usize, first: usize) -> Arc<PodShape> {
    let values: Vec<Str> = (first..first + values).map(|i| format!("{i:060}").into()).collect();
    let test = NodeTest { key: HOST.into(), operator: NodeTestOperator::NotIn, values };
    let term = NodeSelectorTerm { expressions: vec![test], ..NodeSelectorTerm::default() };
    Arc::new(with_row(web(spread), |row| row.required_affinity = Some(NodeSelector { terms: vec![term] })))
}

#[test]
fn constraints_share_the_node_affinity_with_their_pod() {
    let (ledger, mut tables) = (cluster(), Tables::default());
    let shape = choosy(spread("k"), SELECTOR_VALUES_PER_POD, 0);
    looks(&mut tables, &ledger, &shape);
    let profile = CompiledProfile::default_preset("test");
    let (cx, resolved) =
        (PluginContext { profile: &profile, ledger: &ledger }, ResolvedPod::new(&profile, &ledger, &shape));
    let plan = tables.plan(cx, &resolved, &mut Work::unbounded()).expect("constraints");
    let first = &plan.hard[0].layout.eligible;
    assert!(plan.hard.iter().all(|one| Arc::ptr_eq(&one.layout.eligible, first)));
    assert!(first.row.as_ref().is_some_and(|row| Arc::ptr_eq(row, &shape.row)), "not a copy");
    let (large, small) = (plan.heap_bytes(), 1 << 20);
    assert!(large < small, "{large} bytes");
}

#[test]
fn a_plan_weighs_the_pod_that_it_keeps_whatever_the_policies_of_its_other_constraints() {
    let (ledger, mut tables) = (cluster(), Tables::default());
    let mut constraints = spread("k");
    for ignores in &mut constraints[1..] {
        (ignores.honor_affinity, ignores.honor_taints) = (false, false);
    }
    let shape = choosy(constraints, SELECTOR_VALUES_PER_POD, 0);
    let profile = CompiledProfile::default_preset("test");
    let (cx, resolved) =
        (PluginContext { profile: &profile, ledger: &ledger }, ResolvedPod::new(&profile, &ledger, &shape));
    let plan = tables.plan(cx, &resolved, &mut Work::unbounded()).expect("constraints");
    assert!(plan.heap_bytes() >= shape.heap_bytes(), "{} of {}", plan.heap_bytes(), shape.heap_bytes());
}

#[test]
fn what_is_kept_of_large_pods_takes_a_bounded_number_of_bytes() {
    let (mut ledger, mut tables) = (cluster(), Tables::default());
    place(&mut ledger, "n", |pod| pod.node_name = Some("n1".into()));
    let mut shapes = Vec::new();
    for i in 0..120 {
        let values = (0..SELECTOR_VALUES_PER_POD / 2).map(|value| format!("{i}-{value:050}").into()).collect();
        let not = Requirement { key: "app".into(), operator: RequirementOperator::NotIn, values };
        let selector = Some(LabelSelector { requirements: vec![not] });
        let large = SpreadConstraint { selector, ..hard(HOST, 5) };
        let shape = choosy(vec![large], SELECTOR_VALUES_PER_POD / 2, i * SELECTOR_VALUES_PER_POD);
        looks(&mut tables, &ledger, &shape);
        shapes.push(Arc::downgrade(&shape.row));
        assert!(tables.layouts.bytes() <= LAYOUT_BYTES && tables.counters.bytes() <= COUNTER_BYTES + (1 << 20));
    }
    let alive = shapes.iter().filter(|shape| shape.strong_count() > 0).count();
    assert!((10..=115).contains(&alive), "{alive} shapes of pods that are gone are kept alive");
    looks(&mut tables, &ledger, &Arc::new(web(vec![hard(ZONE, 1)])));
}

#[test]
fn a_look_that_is_out_of_work_counts_on_where_it_ended() {
    let (mut ledger, mut tables) = (cluster(), Tables::default());
    let (profile, shape) = (CompiledProfile::default_preset("test"), Arc::new(web(spread("k"))));
    let mut looks = |ledger: &Ledger| {
        let (cx, resolved) = (PluginContext { profile: &profile, ledger }, ResolvedPod::new(&profile, ledger, &shape));
        (1..10_000).find(|_| tables.prepare(cx, &resolved, &mut Work::of(10)).map(drop) != Err(Stop::Unfinished))
    };
    assert!(looks(&ledger) >= Some(KEYS * NODES / 40), "rows of layouts");
    place(&mut ledger, &"n".repeat(95), |pod| pod.node_name = Some("n1".into()));
    assert!(looks(&ledger).is_some_and(|looks| (9..=20).contains(&looks)), "changes of the log");
}
