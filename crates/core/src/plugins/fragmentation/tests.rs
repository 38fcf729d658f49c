use super::*;
use crate::cycle::Rng;
use crate::ledger::Ledger;
use crate::model::{PodShape, Requests};
use crate::profile::CompiledProfile;
use crate::testing::{node, pod, shape, with_row};
use std::collections::BTreeMap;
use std::sync::Arc;

const GPU: &str = "example.com/gpu";
const NIC: &str = "example.com/nic";

fn asking(cpu: i64, gpus: i64, nics: i64) -> PodShape {
    with_row(shape(), |row| {
        row.requests = Requests { milli_cpu: cpu, memory: 1 << 20, ..Requests::default() };
        for (name, amount) in [(GPU, gpus), (NIC, nics)] {
            if amount > 0 {
                row.requests.set_scalar(name.into(), amount);
            }
        }
    })
}

fn with_node(ledger: &mut Ledger, name: &str, cpu: i64, gpus: i64, nics: i64) {
    let mut node = node(name, cpu, 64 << 30, 110);
    for (name, amount) in [(GPU, gpus), (NIC, nics)] {
        if amount > 0 {
            node.allocatable.set_scalar(name.into(), amount);
        }
    }
    ledger.apply_node(&node);
}

fn place(ledger: &mut Ledger, name: &str, on: &str, shape: PodShape) {
    ledger.apply_pod(Pod { node_name: Some(on.into()), ..pod(name, shape) });
}

fn scores(tables: &mut Tables, ledger: &Ledger, shape: PodShape) -> Option<BTreeMap<String, i64>> {
    let profile = CompiledProfile::default_preset("test");
    let cx = PluginContext { profile: &profile, ledger };
    let resolved = ResolvedPod::new(&profile, ledger, &Arc::new(shape));
    let (order, mut out) = (ledger.node_order(), Vec::new());
    let claims = RefCell::default();
    let runs = tables.score(cx, &resolved, &claims, &order, &mut out, &mut Work::unbounded());
    let runs = runs.expect("the work is unbounded");
    runs.then(|| order.iter().map(|node| ledger.nodes().name(*node).to_string()).zip(out).collect())
}

fn counted(shapes: &[PodShape]) -> Tables {
    let mut tables = Tables::default();
    for (i, shape) in shapes.iter().enumerate() {
        count(&mut tables, &pod(&format!("p{i}"), shape.clone()));
    }
    tables
}

fn count(tables: &mut Tables, pod: &Pod) {
    let (profile, ledger) = (CompiledProfile::default_preset("test"), Ledger::new());
    tables.count(PluginContext { profile: &profile, ledger: &ledger }, pod);
}

/// Two nodes of eight, on one of which one is taken, and pods that ask for eight and for one.
fn whole_and_begun() -> (Ledger, Tables) {
    let mut ledger = Ledger::new();
    with_node(&mut ledger, "whole", 64_000, 8, 0);
    with_node(&mut ledger, "begun", 64_000, 8, 0);
    place(&mut ledger, "there", "begun", asking(1_000, 1, 0));
    (ledger, counted(&[asking(1_000, 8, 0), asking(1_000, 1, 0)]))
}

#[test]
fn a_pod_goes_where_what_is_left_can_be_used() {
    let (ledger, mut tables) = whole_and_begun();
    let scores = scores(&mut tables, &ledger, asking(1_000, 1, 0)).expect("they differ");
    assert_eq!((scores["whole"], scores["begun"]), (0, 100), "eight at once fit on the whole node only");
}

#[test]
fn a_pod_without_accelerators_strands_them_by_taking_the_cpu_that_their_pods_need() {
    let mut ledger = Ledger::new();
    with_node(&mut ledger, "plain", 8_000, 0, 0);
    with_node(&mut ledger, "gpus", 8_000, 2, 0);
    let mut tables = counted(&[asking(4_000, 1, 0), asking(6_000, 0, 0)]);
    let scores = scores(&mut tables, &ledger, asking(6_000, 0, 0)).expect("they differ");
    assert_eq!((scores["plain"], scores["gpus"]), (100, 0));
}

#[test]
fn nothing_is_told_apart_without_extended_resources_or_pods_that_ask_for_them() {
    let mut ledger = Ledger::new();
    with_node(&mut ledger, "a", 8_000, 0, 0);
    with_node(&mut ledger, "b", 4_000, 0, 0);
    assert_eq!(scores(&mut counted(&[asking(1, 1, 0)]), &ledger, asking(1, 0, 0)), None);
    with_node(&mut ledger, "c", 4_000, 4, 0);
    assert_eq!(scores(&mut counted(&[asking(1, 0, 0)]), &ledger, asking(1, 0, 0)), None);
    assert_eq!(scores(&mut Tables::default(), &ledger, asking(1, 1, 0)), None);
}

#[test]
fn a_pod_counts_once_however_often_an_attempt_looks() {
    let mut tables = Tables::default();
    for _ in 0..3 {
        count(&mut tables, &pod("p", asking(1, 1, 0)));
    }
    assert_eq!(tables.mix.version(), 1);
}

#[test]
fn what_came_lately_is_known_when_the_rest_is_given_back() {
    let (ledger, mut tables) = whole_and_begun();
    let before = scores(&mut tables, &ledger, asking(1_000, 1, 0));
    tables.clear();
    assert_eq!(scores(&mut tables, &ledger, asking(1_000, 1, 0)), before);
    assert!(before.is_some());
}

#[test]
fn pods_that_can_get_nothing_anywhere_take_no_place_among_the_kinds() {
    let mut ledger = Ledger::new();
    with_node(&mut ledger, "odd", 8_000, 3, 0);
    with_node(&mut ledger, "even", 8_000, 2, 0);
    let nowhere = (0..3 * FRAGMENTATION_KINDS as i64).map(|i| asking(i, 0, 1));
    let mut shapes: Vec<PodShape> = nowhere.clone().chain(nowhere).collect();
    shapes.push(asking(1, 2, 0));
    // A round ends with the pod that can be placed.
    shapes.extend((shapes.len()..256).map(|_| asking(1, 2, 0)));
    let scores = scores(&mut counted(&shapes), &ledger, asking(1, 2, 0)).expect("they differ");
    assert_eq!((scores["odd"], scores["even"]), (0, 100));
}

#[test]
fn a_look_that_is_given_up_and_made_again_says_the_same() {
    let mut ledger = Ledger::new();
    for i in 0..20 {
        with_node(&mut ledger, &format!("n{i}"), 8_000, i % 5, 0);
    }
    let shapes = [asking(1_000, 2, 0), asking(500, 1, 0)];
    let at_once = scores(&mut counted(&shapes), &ledger, asking(500, 1, 0)).expect("they differ");
    let (mut tables, profile) = (counted(&shapes), CompiledProfile::default_preset("test"));
    let cx = PluginContext { profile: &profile, ledger: &ledger };
    let resolved = ResolvedPod::new(&profile, &ledger, &Arc::new(asking(500, 1, 0)));
    let (order, mut out, mut looks, claims) = (ledger.node_order(), Vec::new(), 0, RefCell::default());
    while tables.score(cx, &resolved, &claims, &order, &mut out, &mut Work::of(3)).is_err() {
        looks += 1;
        assert!(out.is_empty() && looks < 100, "{looks}");
    }
    assert!(looks > 2, "{looks}");
    let in_parts: BTreeMap<String, i64> = order.iter().map(|n| ledger.nodes().name(*n).to_string()).zip(out).collect();
    assert_eq!(in_parts, at_once);
}

#[test]
fn amounts_beyond_any_real_node_do_not_overflow() {
    let mut ledger = Ledger::new();
    with_node(&mut ledger, "a", i64::MAX, i64::MAX, 1);
    with_node(&mut ledger, "b", 1, 1, 0);
    place(&mut ledger, "huge", "b", asking(i64::MAX, i64::MAX, i64::MAX));
    let shape = asking(i64::MAX, i64::MAX, 1);
    assert!(scores(&mut counted(&[shape.clone(), asking(1, 1, 0)]), &ledger, shape).is_some());
}

/// By the definition: what a node has free that pods of the mix cannot use, before the pod and with it.
fn naive(ledger: &Ledger, tables: &Tables, shape: &PodShape, name: &str) -> f64 {
    let nodes = ledger.nodes();
    let largest = |resource: &str| {
        let offered = |node: &NodeId| nodes.amounts(*node).0.amount(resource);
        ledger.node_order().iter().map(offered).max().unwrap_or(0)
    };
    let node = nodes.find(name).expect("there");
    let stranded = |extra: Option<&Requests>| {
        let (offered, used) = nodes.amounts(node);
        let left = |r: &str| offered.amount(r) - used.amount(r) - extra.map_or(0, |extra| extra.amount(r));
        let pods = 110 - nodes.pod_count(node) - i64::from(extra.is_some());
        let counts = |r: &str| if largest(r) == 0 { 0.0 } else { left(r).max(0) as f64 / largest(r) as f64 };
        let kinds = tables.mix.kinds().iter().filter(|(ask, _)| !ask.scalars.is_empty());
        let there = kinds.filter(|(ask, _)| ask.scalars.iter().all(|(name, _)| largest(name) > 0));
        there
            .map(|(ask, share)| {
                let fits = ask.scalars.iter().all(|(name, amount)| left(name) >= *amount);
                let fits = fits && left("cpu") >= ask.cpu && left("memory") >= ask.memory && pods > 0;
                let asked = |r: &str| ask.scalars.iter().any(|(name, _)| **name == *r);
                let lost = [GPU, NIC].into_iter().filter(|r| !(fits && asked(r)));
                share * lost.map(counts).sum::<f64>()
            })
            .sum::<f64>()
    };
    stranded(Some(&shape.row.requests)) - stranded(None)
}

#[test]
fn what_is_kept_says_what_the_definition_says() {
    for seed in 0..40 {
        let mut rng = Rng::seeded(seed);
        let (mut ledger, mut tables) = (Ledger::new(), Tables::default());
        let mut amount = |most: u64| rng.below(most + 1) as i64;
        for i in 0..8 {
            with_node(&mut ledger, &format!("n{i}"), 8_000, amount(8), amount(2));
        }
        for step in 0..60 {
            match amount(5) {
                0 => with_node(&mut ledger, &format!("n{}", amount(9)), 4_000 + amount(8_000), amount(8), amount(2)),
                1 => ledger.delete_node(&format!("n{}", amount(9))),
                2 => ledger.delete_pod(&format!("p{}", amount(60))),
                _ => {
                    let on = format!("n{}", amount(7));
                    place(&mut ledger, &format!("p{step}"), &on, asking(amount(2_000), amount(3), amount(1)));
                }
            }
            let shape = asking(amount(4) * 500, amount(4), amount(1));
            count(&mut tables, &pod(&format!("q{step}"), shape.clone()));
            let Some(scores) = scores(&mut tables, &ledger, shape.clone()) else { continue };
            let growth: BTreeMap<&String, f64> =
                scores.keys().map(|name| (name, naive(&ledger, &tables, &shape, name))).collect();
            let least = growth.values().copied().fold(f64::INFINITY, f64::min);
            let most = growth.values().copied().fold(f64::NEG_INFINITY, f64::max);
            assert_eq!(
                (scores.values().min(), scores.values().max()),
                (Some(&0), Some(&100)),
                "seed {seed}, step {step}"
            );
            for (name, score) in &scores {
                let exact = (most - growth[name]) / (most - least) * 100.0;
                assert!(
                    (exact - *score as f64).abs() < 0.501,
                    "seed {seed}, step {step}: {name} has {score}, not {exact}"
                );
            }
        }
    }
}
