//! Step by step as in upstream: who may preempt, where, whom it takes, and which node is chosen.

use super::testing::{NOW, budget, everywhere, nodes, on, outcome, pending, profile, upstream, waits};
use super::*;
use crate::cycle::Decision;
use crate::model::{LabelSelector, PodDisruptionBudget, TaintEffect, Toleration};
use crate::plugins::{Code, Work};
use crate::profile::Preemption;
use crate::testing::{node, shape_of, with_row};
use std::collections::BTreeMap;

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// Pods on nodes of two cores; which nodes there are follows from them.
fn cluster(pods: &[Pod]) -> Ledger {
    let mut names: Vec<&str> = pods.iter().filter_map(|pod| pod.node_name.as_deref()).collect();
    names.dedup();
    let mut ledger = nodes(&names);
    for pod in pods {
        ledger.apply_pod(pod.clone());
    }
    ledger
}

#[test]
fn reprieve_leaves_few_and_unimportant_victims() {
    for (what, pods, wants, want) in [
        (
            "the pod of lower priority is the victim",
            vec![on("a", "x", 5, 2000, 1), on("b", "y", 4, 2000, 1)],
            1000,
            "a [x] 0, b [y] 0; best b",
        ),
        (
            "the small one is spared, the important one is not",
            vec![on("a", "l", 1, 500, 1), on("a", "m", 2, 1500, 1)],
            1000,
            "a [m] 0; best a",
        ),
        (
            "the important one is spared",
            vec![on("a", "l", 1, 1000, 1), on("a", "m", 2, 1000, 1)],
            1000,
            "a [l] 0; best a",
        ),
        ("the older one is spared", vec![on("a", "n", 1, 1000, 2), on("a", "o", 1, 1000, 1)], 1000, "a [n] 0; best a"),
        (
            "what has not started is the youngest",
            vec![on("a", "n", 1, 1000, 0), on("a", "o", 1, 1000, 999)],
            1000,
            "a [n] 0; best a",
        ),
        (
            "of equals the first to come is spared",
            vec![on("a", "n", 1, 1000, 0), on("a", "o", 1, 1000, 0)],
            1000,
            "a [o] 0; best a",
        ),
        (
            "victims come most important first",
            vec![on("a", "l", 1, 500, 1), on("a", "n", 3, 1000, 1), on("a", "m", 2, 500, 1)],
            1500,
            "a [n l] 0; best a",
        ),
    ] {
        assert_eq!(upstream(&mut cluster(&pods), waits(wants)), want, "{what}");
    }
}

#[test]
fn a_pod_of_equal_priority_and_a_static_pod_are_no_victims() {
    let text = format!("preemption: 0/1 nodes are available: 1 {NO_VICTIMS}.");
    assert_eq!(upstream(&mut cluster(&[on("a", "x", 100, 2000, 1)]), waits(1000)), text);
    let of_kubelet = Pod { is_static: true, ..on("a", "x", 1, 2000, 1) };
    assert_eq!(upstream(&mut cluster(&[of_kubelet]), waits(1000)), text);
}

#[test]
fn terminating_pods_are_victims_like_others() {
    let terminating = Pod { deleting: true, ..on("a", "x", 1, 2000, 1) };
    assert_eq!(upstream(&mut cluster(&[terminating]), waits(1000)), "a [x] 0; best a");
}

#[test]
fn the_text_counts_each_node_once() {
    let pods =
        [on("a", "x", 500, 1500, 1), on("a", "y", 5, 250, 1), on("b", "z", 500, 2000, 1), on("c", "x2", 5, 2000, 1)];
    let mut ledger = cluster(&pods);
    let mut closed = node("c", 2000, 8 << 30, 10);
    closed.unschedulable = true;
    ledger.apply_node(&closed);
    let want = format!("preemption: 0/3 nodes are available: 1 Insufficient cpu, 1 {NO_VICTIMS}, 1 {NOT_HELPFUL}.");
    assert_eq!(upstream(&mut ledger, waits(1000)), want);
    // More than any node has: no eviction helps.
    let want = format!("preemption: 0/3 nodes are available: 3 {NOT_HELPFUL}.");
    assert_eq!(upstream(&mut ledger, Pod { uid: "w2".into(), ..waits(3000) }), want);
}

#[test]
fn nodes_that_evictions_cannot_open_are_no_candidates() {
    let mut ledger = cluster(&[on("a", "x", 1, 2000, 1), on("b", "y", 1, 2000, 1)]);
    let taint = crate::model::Taint { key: "k".into(), value: "".into(), effect: TaintEffect::NoSchedule };
    let mut tainted = node("a", 2000, 8 << 30, 10);
    tainted.taints = Arc::from([taint]);
    ledger.apply_node(&tainted);
    assert_eq!(upstream(&mut ledger, waits(1000)), "b [y] 0; best b");
    let tolerates = Toleration {
        key: "k".into(),
        operator: crate::model::TolerationOperator::Exists,
        value: "".into(),
        effect: None,
    };
    let tolerant = with_row(shape_of(1000, 0), |row| row.tolerations = vec![tolerates]);
    let tolerant = Pod { priority: 100, ..crate::testing::pod("tolerant", tolerant) };
    assert_eq!(upstream(&mut ledger, tolerant), "a [x] 0, b [y] 0; best a");
}

#[test]
fn budgets_are_respected_where_there_is_a_choice() {
    let both = [on("a", "l", 1, 1000, 1), on("a", "m", 2, 1000, 1)];
    let mut ledger = cluster(&both);
    ledger.apply_budget(budget("l", 0));
    assert_eq!(upstream(&mut ledger, waits(1000)), "a [m] 0; best a", "the budget protects the lower priority");
    let mut ledger = cluster(&[on("a", "l", 1, 2000, 1)]);
    ledger.apply_budget(budget("l", 0));
    assert_eq!(upstream(&mut ledger, waits(1000)), "a [l] 1; best a", "violated where nothing else helps");
    ledger.apply_budget(PodDisruptionBudget { disrupted_pods: vec!["l".into()], ..budget("l", 0) });
    assert_eq!(upstream(&mut ledger, waits(1000)), "a [l] 0; best a", "counted already");
    ledger.apply_budget(PodDisruptionBudget { selector: Some(LabelSelector::default()), ..budget("l", 0) });
    assert_eq!(upstream(&mut ledger, waits(1000)), "a [l] 0; best a", "an empty selector selects nothing");
    ledger.apply_budget(PodDisruptionBudget { namespace: "other".into(), ..budget("l", 0) });
    assert_eq!(upstream(&mut ledger, waits(1000)), "a [l] 0; best a", "of another namespace");
}

#[test]
fn a_budget_is_spent_on_the_most_important_pods_and_by_node() {
    // One eviction is allowed: upstream spends it on the most important pod, and spares the other two first.
    let three = |node| [on(node, "l1", 1, 600, 1), on(node, "l2", 2, 600, 1), on(node, "l3", 3, 600, 1)];
    let mut ledger = cluster(&three("a"));
    ledger.apply_budget(budget("l", 1));
    assert_eq!(upstream(&mut ledger, waits(500)), "a [l3] 0; best a");
    assert_eq!(upstream(&mut ledger, Pod { uid: "w2".into(), ..waits(1000) }), "a [l3 l1] 1; best a");
    // Each node starts with the whole budget.
    let there = three("b").map(|pod| Pod { uid: format!("{}b", pod.uid).into(), key: of_b(&pod), ..pod });
    ledger.apply_node(&node("b", 2000, 8 << 30, 10));
    for pod in there {
        ledger.apply_pod(pod);
    }
    assert_eq!(upstream(&mut ledger, Pod { uid: "w3".into(), ..waits(500) }), "a [l3] 0, b [l3b] 0; best a");
}

fn of_b(pod: &Pod) -> crate::model::PodKey {
    crate::model::PodKey { name: format!("{}b", pod.key.name).into(), ..pod.key.clone() }
}

#[test]
fn a_pod_under_two_budgets_is_charged_to_both() {
    let mut ledger = cluster(&[on("a", "l1", 2, 1000, 1), on("a", "l2", 1, 1000, 1)]);
    ledger.apply_budget(budget("l", 2));
    ledger.apply_budget(PodDisruptionBudget { name: "second".into(), ..budget("l", 1) });
    assert_eq!(upstream(&mut ledger, waits(2000)), "a [l1 l2] 1; best a");
}

/// Each criterion decides where the ones before it are equal.
#[test]
fn candidates_are_compared_by_six_criteria_in_turn() {
    const LOWEST: i32 = i32::MIN;
    let two = |node, one: (i32, i64), other: (i32, i64)| {
        let name = |i| format!("{node}{i}");
        [on(node, &name(1), one.0, 1500, one.1), on(node, &name(2), other.0, 500, other.1)]
    };
    for (what, a, b, best) in [
        ("fewest violations", vec![on("a", "l", 1, 2000, 1)], vec![on("b", "m", 2, 2000, 1)], "b"),
        ("lowest top priority", vec![on("a", "x", 5, 2000, 1)], vec![on("b", "y", 4, 2000, 1)], "b"),
        ("lowest sum", two("a", (2, 1), (1, 1)).to_vec(), vec![on("b", "n", 2, 2000, 1)], "b"),
        ("lowest sum of as many", two("a", (2, 1), (1, 1)).to_vec(), two("b", (2, 1), (0, 1)).to_vec(), "b"),
        ("fewest victims", two("a", (2, 1), (LOWEST, 1)).to_vec(), vec![on("b", "n", 2, 2000, 1)], "b"),
        ("latest start", vec![on("a", "x", 2, 2000, 1)], vec![on("b", "m", 2, 2000, 2)], "b"),
        ("not started is latest", vec![on("a", "x", 2, 2000, 3)], vec![on("b", "m", 2, 2000, 0)], "b"),
        ("start of the first", two("a", (2, 1), (1, 9)).to_vec(), two("b", (2, 2), (1, 1)).to_vec(), "b"),
        ("earliest start of several", two("a", (2, 1), (2, 9)).to_vec(), two("b", (2, 3), (2, 2)).to_vec(), "b"),
        ("the first", vec![on("a", "x", 2, 2000, 1)], vec![on("b", "m", 2, 2000, 1)], "a"),
    ] {
        let mut ledger = cluster(&[a, b].concat());
        ledger.apply_budget(budget("l", 0));
        let text = upstream(&mut ledger, waits(2000));
        assert!(text.ends_with(&format!("best {best}")), "{what}: {text}");
    }
}

#[test]
fn a_pod_that_may_not_preempt_gets_the_reason() {
    let full = || cluster(&[on("a", "x", 1, 2000, 1)]);
    let never = Pod { preempts: false, ..waits(1000) };
    assert_eq!(upstream(&mut full(), never), "keeps: preemption: not eligible due to preemptionPolicy=Never.");
    let off = Preemption { enabled: false, ..Preemption::default() };
    assert_eq!(
        outcome(&mut full(), &off, &everywhere(), waits(1000)),
        "",
        "as without the plugin, the nomination ends"
    );
}

#[test]
fn a_pod_that_waits_for_victims_does_not_preempt_again() {
    let waiting = "keeps: preemption: not eligible due to a terminating pod on the nominated node.";
    let nominated = |node: &str| Pod { nominated_node: Some(node.into()), ..waits(1000) };
    let terminating = |node, priority| Pod { deleting: true, preempted: true, ..on(node, "x", priority, 2000, 1) };
    let beside = || on("b", "y", 2, 2000, 1);
    assert_eq!(upstream(&mut cluster(&[terminating("a", 1), beside()]), nominated("a")), waiting);
    let again = "a [x] 0, b [y] 0; best a";
    for (what, x) in [
        ("for another reason", Pod { preempted: false, ..terminating("a", 1) }),
        ("not yet", Pod { deleting: false, ..terminating("a", 1) }),
    ] {
        assert_eq!(upstream(&mut cluster(&[x, beside()]), nominated("a")), again, "{what}");
    }
    let higher = upstream(&mut cluster(&[terminating("a", 100), beside()]), nominated("a"));
    assert_eq!(higher, "b [y] 0; best b", "the terminating pod is of the same priority, so not evicted for this pod");
    let deleted = upstream(&mut cluster(&[terminating("a", 1), beside()]), nominated("gone"));
    assert_eq!(deleted, again, "the nominated node does not exist");
    let mut closed = cluster(&[terminating("a", 1), beside()]);
    let mut cordoned = node("a", 2000, 8 << 30, 10);
    cordoned.unschedulable = true;
    closed.apply_node(&cordoned);
    assert_eq!(upstream(&mut closed, nominated("a")), "b [y] 0; best b", "no eviction would open that node");
    // A plan in force counts before its victims are seen terminating.
    let mut ledger = cluster(&[on("a", "x", 1, 2000, 1), beside()]);
    let evicting: Vec<_> = ledger.nodes().find("a").map(|a| ledger.pods_on(a).to_vec()).unwrap_or_default();
    let limits = Limits { evicting: &evicting, ..everywhere() };
    assert_eq!(outcome(&mut ledger, &Preemption::default(), &limits, nominated("a")), waiting);
}

#[test]
fn pods_nominated_to_the_node_keep_their_place() {
    let mut ledger = cluster(&[on("a", "x", 1, 1000, 1), on("a", "y", 2, 1000, 1)]);
    let nominated_pod = |name: &str, priority| Pod {
        priority,
        nominated_node: Some("a".into()),
        ..crate::testing::pod(name, shape_of(1000, 0))
    };
    ledger.apply_pod(nominated_pod("lower", 99));
    assert_eq!(upstream(&mut ledger, waits(1000)), "a [x] 0; best a", "one of lower priority loses it");
    ledger.apply_pod(nominated_pod("equal", 100));
    assert_eq!(upstream(&mut ledger, waits(1000)), "a [y x] 0; best a");
    ledger.apply_pod(nominated_pod("higher", 200));
    let text = "preemption: 0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(upstream(&mut ledger, waits(1000)), text);
}

#[test]
fn the_search_ends_with_enough_candidates_108308() {
    let names = ["a", "b", "c", "d"];
    let pods: Vec<Pod> =
        names.iter().zip(["x", "l", "m", "n"]).map(|(node, name)| on(node, name, 5, 2000, 1)).collect();
    let few = Preemption { candidates_percentage: 10, candidates_absolute: 1, ..Preemption::default() };
    let from = |start| Limits { search: Search::From(start), ..Limits::at(NOW) };
    let mut ledger = cluster(&pods);
    assert_eq!(outcome(&mut ledger, &few, &from(5), waits(1000)), "b [l] 0; best b");
    // A candidate that violates a budget is not enough: the search goes on, around the end, and puts the better one first.
    ledger.apply_budget(budget("m", 0));
    ledger.apply_budget(budget("n", 0));
    assert_eq!(outcome(&mut ledger, &few, &from(2), waits(1000)), "a [x] 0, c [m] 1; best a");
    let three = Preemption { candidates_absolute: 3, ..few.clone() };
    assert_eq!(outcome(&mut ledger, &three, &from(2), waits(1000)), "a [x] 0, c [m] 1, d [n] 1; best a");
    let none = Preemption { candidates_absolute: 0, ..few };
    assert_eq!(outcome(&mut ledger, &none, &from(1), waits(1000)), "b [l] 0; best b", "at least one is looked for");
    let mut starts = std::collections::BTreeSet::new();
    let mut scheduler = Scheduler::new(profile(none), 1);
    let waiting = pending(&mut ledger, waits(1000));
    for _ in 0..50 {
        let found = scheduler.preemption_candidates(&ledger, &waiting, &Limits::at(NOW)).expect("there are candidates");
        starts.insert(found[0].node);
    }
    assert_eq!(starts.len(), 2, "the start is random: b, or a");
}

#[test]
fn refusals_of_extenders_count_with_their_code() {
    let mut ledger = cluster(&[on("a", "x", 1, 2000, 1), on("b", "y", 1, 2000, 1)]);
    ledger.apply_node(&node("c", 2000, 8 << 30, 10));
    ledger.apply_pod(on("c", "z", 1, 100, 1));
    let id = |ledger: &Ledger, name| ledger.nodes().find(name).expect("it is there");
    let (a, c) = (id(&ledger, "a"), id(&ledger, "c"));
    let refused = BTreeMap::from([(a, Code::UnschedulableAndUnresolvable), (c, Code::Unschedulable)]);
    let limits = Limits { refused: &refused, ..everywhere() };
    let default = Preemption::default();
    assert_eq!(
        outcome(&mut ledger, &default, &limits, waits(1000)),
        "b [y] 0; best b",
        "c fits as it is, for the filters"
    );
    ledger.delete_node("b");
    let text = "fails: preemption: expected at least one victim pod on node \"c\"";
    assert_eq!(outcome(&mut ledger, &default, &limits, waits(1000)), text);
}

#[test]
fn where_pre_filter_refuses_no_eviction_helps() {
    let mut ledger = cluster(&[on("a", "x", 1, 2000, 1)]);
    let mut lost = waits(1000);
    lost.volumes = Some(Arc::new(crate::model::PodVolumes::from(vec![crate::volume_testing::named("gone")])));
    let text = format!("preemption: 0/1 nodes are available: 1 {NOT_HELPFUL}.");
    assert_eq!(upstream(&mut ledger, lost), text);
    assert_eq!(upstream(&mut nodes(&[]), waits(1000)), "fails: preemption: no nodes available");
}

/// 4 of scheduler-library: what was taken away on trial stayed away for whoever was looked at next.
#[test]
fn what_is_tried_for_one_pod_is_not_there_for_the_next_scheduler_library_4() {
    let mut ledger = cluster(&[on("a", "x", 1, 2000, 1), on("b", "y", 1, 1500, 1)]);
    let waiting = pending(&mut ledger, waits(1000));
    let next = pending(&mut ledger, crate::testing::pod("next", shape_of(1000, 0)));
    let mut scheduler = Scheduler::new(profile(Preemption::default()), 1);
    let fits = |scheduler: &mut Scheduler, ledger: &Ledger| match scheduler.decide(ledger, &next) {
        Decision::Place(_) => true,
        Decision::NoFit(_) => false,
        other => panic!("{other:?}"),
    };
    // From the second look on, what is found of the nodes is kept.
    assert!(!fits(&mut scheduler, &ledger) && !fits(&mut scheduler, &ledger));
    let Outcome::Evict(plan) = scheduler.preempt(&ledger, &waiting, &everywhere()) else { panic!("a plan") };
    ledger.audit().expect("the sums are those of the pods");
    assert!(!fits(&mut scheduler, &ledger), "nobody was evicted");
    for victim in &plan.victims {
        ledger.delete_pod(&victim.uid);
    }
    assert!(fits(&mut scheduler, &ledger));
}

#[test]
fn a_plan_is_valid_as_long_as_its_victims_free_enough() {
    let mut ledger = cluster(&[on("a", "x", 1, 1500, 1), on("a", "y", 200, 500, 1)]);
    let waiting = pending(&mut ledger, waits(1500));
    let limits = everywhere();
    let mut scheduler = Scheduler::new(profile(Preemption::default()), 1);
    let Outcome::Evict(plan) = scheduler.preempt(&ledger, &waiting, &limits) else { panic!("a plan") };
    assert_eq!(ledger.nodes().name(plan.node).to_string(), "a");
    let is_valid = |scheduler: &mut Scheduler, ledger: &Ledger| {
        scheduler.plan_still_valid(ledger, &plan, &limits, (&mut DryRuns::default(), &mut Work::unbounded()))
    };
    assert!(is_valid(&mut scheduler, &ledger));
    ledger.apply_pod(Pod { deleting: true, ..on("a", "x", 1, 1500, 1) });
    assert!(is_valid(&mut scheduler, &ledger), "a victim that terminates is still there");
    ledger.apply_pod(on("a", "z", 300, 100, 1));
    assert!(!is_valid(&mut scheduler, &ledger), "another pod took resources");
    ledger.delete_pod("z");
    assert!(is_valid(&mut scheduler, &ledger));
    let nominated_pod =
        Pod { nominated_node: Some("a".into()), priority: 100, ..crate::testing::pod("p", shape_of(100, 0)) };
    ledger.apply_pod(nominated_pod);
    assert!(!is_valid(&mut scheduler, &ledger), "the node is nominated for another pod");
    ledger.delete_pod("p");
    ledger.delete_pod("x");
    assert!(!is_valid(&mut scheduler, &ledger), "the victim is deleted: decide anew");
    ledger.apply_pod(on("a", "x", 1, 1500, 1));
    assert!(is_valid(&mut scheduler, &ledger));
    ledger.delete_node("a");
    ledger.apply_node(&node("a", 2000, 8 << 30, 10));
    assert!(!is_valid(&mut scheduler, &ledger), "another node of that name");
}
