use super::*;
use crate::limits::COMPARISONS_KEPT;
use crate::model::{LabelSelector, Node, Plugin, PodShape, Requirement, RequirementOperator, Score};
use crate::profile::{Mode, NamespaceAccess};
use crate::testing::{node, pod, shape_of};
use std::cell::Cell;

const GIB: i64 = 1 << 30;

/// A ledger that nobody may write, and that counts how often it is locked.
struct ReadOnly {
    ledger: Ledger,
    holds: Cell<usize>,
}

impl LedgerAccess for ReadOnly {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        self.holds.set(self.holds.get() + 1);
        f(&self.ledger)
    }

    fn write<R>(&self, _: impl FnOnce(&mut Ledger) -> R) -> R {
        panic!("a comparison writes nothing")
    }
}

fn of(nodes: &[Node], pods: Vec<Pod>) -> ReadOnly {
    let mut ledger = Ledger::new();
    for node in nodes {
        ledger.apply_node(node);
    }
    for pod in pods {
        ledger.apply_pod(pod);
    }
    ReadOnly { ledger, holds: Cell::new(0) }
}

fn others_pod(name: &str, shape: PodShape) -> Pod {
    Pod { scheduler_name: "other".into(), ..pod(name, shape) }
}

fn profile() -> CompiledProfile {
    CompiledProfile { mode: Mode::DryRun, shadow: vec!["other".into()], ..CompiledProfile::default_preset("test") }
}

fn compared(profile: &CompiledProfile, ledger: &ReadOnly, pod: &str, on: &str) -> Result<Comparison, Skip> {
    let waiting = ledger.ledger.pending_pods(|one| *one.uid == *pod);
    let binding = Binding { pod: waiting[0].clone(), node: on.into(), at_unix_us: 5 };
    Shadow::new(profile, 1).compare(ledger, &binding)
}

#[test]
fn the_best_node_is_agreed_with_and_another_one_has_its_rank_and_the_score_against_it() {
    let nodes = [node("a", 8_000, 8 * GIB, 10), node("b", 2_000, 2 * GIB, 10), node("c", 8_000, 8 * GIB, 10)];
    let ledger = of(&nodes, vec![others_pod("p", shape_of(1_000, GIB))]);
    let outcomes = ["a", "c"].map(|on| compared(&profile(), &ledger, "p", on).unwrap().outcome());
    assert!(outcomes.contains(&Outcome::Same) && outcomes.contains(&Outcome::Tied), "{outcomes:?}");
    let worse = compared(&profile(), &ledger, "p", "b").unwrap();
    assert_eq!((worse.outcome(), worse.blames()), (Outcome::Worse, Some(("NodeResourcesFit", "Score"))));
    let Finding::Fits { standing, apart, .. } = &worse.finding else { panic!("{worse:?}") };
    assert_eq!((standing.rank, standing.of), (3, 3));
    assert_eq!(apart.iter().map(|(_, by)| by).sum::<i64>(), standing.best - standing.total);
    assert_eq!(apart[0].0, Score::NodeResourcesFit);
    assert!(worse.score_share().unwrap() < 10_000);
    assert_eq!((&*worse.scheduler, &*worse.node, worse.at_unix_us), ("other", "b", 5));
}

#[test]
fn a_node_that_a_filter_refuses_names_the_filter() {
    let nodes = [node("a", 8_000, 8 * GIB, 10), node("b", 500, 8 * GIB, 10)];
    let ledger = of(&nodes, vec![others_pod("p", shape_of(1_000, GIB))]);
    let refused = compared(&profile(), &ledger, "p", "b").unwrap();
    let want = Finding::Refused {
        ours: "a".into(),
        plugin: Some(Plugin::NodeResourcesFit),
        reason: "Insufficient cpu".to_owned(),
    };
    assert_eq!((refused.outcome(), &refused.finding), (Outcome::Refused, &want));
    assert_eq!(refused.blames(), Some(("NodeResourcesFit", "Filter")));
}

#[test]
fn a_node_that_the_selector_leaves_out_is_refused_by_no_plugin() {
    let mut nodes = [node("a", 8_000, 8 * GIB, 10), node("b", 8_000, 8 * GIB, 10)];
    nodes[0].labels = [("pool", "x")].into_iter().collect();
    let ledger = of(&nodes, vec![others_pod("p", shape_of(1_000, GIB))]);
    let operator = RequirementOperator::Exists;
    let requirements = vec![Requirement { key: "pool".into(), operator, values: Vec::new() }];
    let profile = CompiledProfile { node_selector: Some(LabelSelector { requirements }), ..profile() };
    let refused = compared(&profile, &ledger, "p", "b").unwrap();
    assert_eq!((refused.outcome(), refused.blames()), (Outcome::Refused, Some(("Berth", "Filter"))));
}

#[test]
fn a_pod_that_fits_nowhere_says_whom_it_would_have_evicted() {
    let low = Pod { node_name: Some("a".into()), priority: -1, ..others_pod("low", shape_of(1_000, 0)) };
    let nodes = [node("a", 1_000, GIB, 10)];
    let ledger = of(&nodes, vec![low, others_pod("p", shape_of(1_000, 0)), others_pod("huge", shape_of(9_000, 0))]);
    let found = compared(&profile(), &ledger, "p", "a").unwrap();
    let Finding::Unschedulable { plugin, reason, preempts } = &found.finding else { panic!("{found:?}") };
    assert_eq!(*plugin, Some(Plugin::NodeResourcesFit));
    assert_eq!(reason, "0/1 nodes are available: 1 Insufficient cpu.");
    assert_eq!(*preempts, Some(Preempts { node: "a".into(), victims: 1 }));
    let found = compared(&profile(), &ledger, "huge", "a").unwrap();
    assert!(matches!(found.finding, Finding::Unschedulable { preempts: None, .. }), "{found:?}");
}

#[test]
fn a_pod_that_the_profile_would_hold_and_a_node_that_is_not_known_are_told() {
    let ledger = of(&[node("a", 1_000, GIB, 10)], vec![others_pod("p", shape_of(1, 0))]);
    let namespaces =
        NamespaceAccess::Restricted { names: vec!["ci".into()], match_labels: crate::model::Labels::none() };
    let held = compared(&CompiledProfile { namespaces, ..profile() }, &ledger, "p", "a").unwrap();
    assert_eq!((held.outcome(), held.blames()), (Outcome::Held, None));
    assert_eq!(compared(&profile(), &ledger, "p", "gone"), Err(Skip::UnknownNode));
}

#[test]
fn a_pod_without_scores_is_well_placed_wherever_it_fits() {
    let nodes = [node("a", 8_000, 8 * GIB, 10), node("b", 2_000, 2 * GIB, 10)];
    let ledger = of(&nodes, vec![others_pod("p", shape_of(1_000, GIB))]);
    let profile = CompiledProfile { scores: Vec::new(), ..profile() };
    for on in ["a", "b"] {
        let found = compared(&profile, &ledger, "p", on).unwrap();
        assert!([Outcome::Same, Outcome::Tied].contains(&found.outcome()), "{found:?}");
    }
}

#[test]
fn a_node_to_which_the_pod_is_nominated_is_compared_like_any_other_and_marked() {
    let nodes = [node("a", 8_000, 8 * GIB, 10), node("b", 2_000, 2 * GIB, 10)];
    let nominated = Pod { nominated_node: Some("b".into()), ..others_pod("p", shape_of(1_000, GIB)) };
    let found = compared(&profile(), &of(&nodes, vec![nominated]), "p", "b").unwrap();
    assert_eq!((found.outcome(), found.nominated), (Outcome::Worse, true));
}

#[test]
fn many_nodes_are_judged_in_holds_of_bounded_work() {
    let nodes: Vec<Node> = (0..20_000).map(|i| node(&format!("n{i}"), 4_000 + 1_000 * (i % 7), 8 * GIB, 10)).collect();
    let ledger = of(&nodes, vec![others_pod("p", shape_of(1_000, GIB))]);
    let found = compared(&profile(), &ledger, "p", "n0").unwrap();
    assert_eq!(found.outcome(), Outcome::Worse);
    assert!(ledger.holds.get() > 3, "{} holds", ledger.holds.get());
}

#[test]
fn caches_are_given_back_after_some_time_without_a_comparison() {
    let ledger = of(&[node("a", 8_000, 8 * GIB, 10)], vec![others_pod("p", shape_of(1_000, GIB))]);
    let pod = ledger.ledger.pending_pods(|_| true)[0].clone();
    let mut shadow = Shadow::new(&profile(), 1);
    shadow.compare(&ledger, &Binding { pod, node: "a".into(), at_unix_us: 0 }).unwrap();
    let (first, later) = (Time::from_millis(5), Time::from_millis(5) + IDLE_AFTER);
    shadow.rest(first);
    assert_eq!((shadow.rests_at(), shadow.keeps_caches()), (Some(later), true));
    shadow.rest(later);
    assert_eq!((shadow.rests_at(), shadow.keeps_caches()), (None, false));
}

fn comparison(finding: Finding) -> Comparison {
    let pod = pod("p", shape_of(1, 0));
    Comparison {
        pod: pod.key,
        uid: pod.uid,
        scheduler: "other".into(),
        node: "a".into(),
        at_unix_us: 0,
        nominated: false,
        finding,
    }
}

#[test]
fn the_log_keeps_the_newest_and_counts_all() {
    let mut log = ShadowLog::default();
    for _ in 0..COMPARISONS_KEPT + 5 {
        log.push(comparison(Finding::Held("no".to_owned())));
    }
    log.skip(Skip::Behind);
    let totals = log.totals();
    assert_eq!(
        (totals.compared(), totals.of(Outcome::Held)),
        (COMPARISONS_KEPT as u64 + 5, COMPARISONS_KEPT as u64 + 5)
    );
    assert_eq!((totals.skipped(Skip::Behind), totals.all_skipped()), (1, 1));
    let numbers = |page: &ShadowPage| page.comparisons.iter().map(|(number, _)| *number).collect::<Vec<_>>();
    let first = log.page(0, 2);
    assert_eq!((numbers(&first), first.oldest, first.more), (vec![6, 7], 6, true));
    assert_eq!(numbers(&log.page(7, 2)), [8, 9]);
    let last = log.page(COMPARISONS_KEPT as u64 + 4, 10);
    assert_eq!((numbers(&last), last.more), (vec![COMPARISONS_KEPT as u64 + 5], false));
    assert!(log.page(u64::MAX, 10).comparisons.is_empty());
}

#[test]
fn totals_say_who_disagrees_and_how_good_the_nodes_were() {
    let mut log = ShadowLog::default();
    let standing = |total, rank| crate::cycle::Standing { rank, of: 2, total, best: 200 };
    let fits = |ours: &str, standing, apart| Finding::Fits { ours: ours.into(), standing, apart };
    log.push(comparison(fits("a", standing(200, 1), Vec::new())));
    log.push(comparison(fits("b", standing(200, 1), Vec::new())));
    log.push(comparison(fits("b", standing(100, 2), vec![(Score::ImageLocality, 150), (Score::NodeAffinity, -50)])));
    let plugin = Some(Plugin::TaintToleration);
    for _ in 0..2 {
        log.push(comparison(Finding::Refused { ours: "b".into(), plugin, reason: String::new() }));
    }
    let preempts = Some(Preempts { node: "a".into(), victims: 2 });
    log.push(comparison(Finding::Unschedulable { plugin: None, reason: String::new(), preempts }));
    let totals = log.totals();
    assert_eq!(Outcome::ALL.map(|outcome| totals.of(outcome)), [1, 1, 1, 2, 1, 0, 0]);
    assert_eq!((totals.mean_score_percent(), totals.would_preempt()), (Some(83), 1));
    let blamed = [("TaintToleration", "Filter", 2), ("Berth", "Filter", 1), ("ImageLocality", "Score", 1)];
    assert_eq!(totals.blamed(), blamed);
}
