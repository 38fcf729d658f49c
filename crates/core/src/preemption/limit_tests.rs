//! What a profile may add to upstream's preemption, each off by default.

use super::testing::{NOW, budget, everywhere, nodes, on, outcome, pending, profile, waits};
use super::*;
use crate::model::{PodDisruptionBudget, PodKey};
use crate::profile::{Preemption, VictimScope};
use std::time::Duration;

const NO_VICTIMS: &str = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
const BUDGETS: &str = "preemption: 0/1 nodes are available: 1 PodDisruptionBudgets leave too few preemption victims.";

fn one_node(pods: &[Pod]) -> Ledger {
    let mut ledger = nodes(&["a"]);
    for pod in pods {
        ledger.apply_pod(pod.clone());
    }
    ledger
}

fn strict() -> Preemption {
    Preemption { strict_budgets: true, ..Preemption::default() }
}

fn in_namespace(namespace: &str, pod: Pod) -> Pod {
    let key = PodKey { namespace: namespace.into(), name: pod.key.name.clone() };
    Pod { key, ..pod }
}

#[test]
fn the_scope_limits_whose_pods_are_victims() {
    let of = |scheduler: &str| Pod { scheduler_name: scheduler.into(), ..on("a", "x", 1, 2000, 1) };
    let own = ["test".into(), "sister".into()];
    let limits = Limits { own_schedulers: &own, ..everywhere() };
    for (scope, scheduler, is_victim) in [
        (VictimScope::Any, "foreign", true),
        (VictimScope::OwnProfiles, "foreign", false),
        (VictimScope::OwnProfiles, "sister", true),
        (VictimScope::SameProfile, "sister", false),
        (VictimScope::SameProfile, "test", true),
    ] {
        let preemption = Preemption { scope, ..Preemption::default() };
        let want = if is_victim { "a [x] 0; best a" } else { NO_VICTIMS };
        let text = outcome(&mut one_node(&[of(scheduler)]), &preemption, &limits, waits(1000));
        assert_eq!(text, want, "{scope:?}: {scheduler}");
    }
}

#[test]
fn pods_of_protected_namespaces_and_young_pods_are_no_victims() {
    let protects = Preemption { protected_namespaces: vec!["prod".into()], ..Preemption::default() };
    let pods = [in_namespace("prod", on("a", "x", 1, 1000, 1)), on("a", "y", 2, 1000, 1)];
    assert_eq!(outcome(&mut one_node(&pods), &protects, &everywhere(), waits(1000)), "a [y] 0; best a");
    let patient = Preemption { min_runtime: Duration::from_secs(60), ..Preemption::default() };
    let now = NOW / 1_000_000;
    for (started, is_victim) in [(now - 59, false), (now - 60, true), (0, false), (now + 60, false)] {
        let want = if is_victim { "a [x] 0; best a" } else { NO_VICTIMS };
        let text = outcome(&mut one_node(&[on("a", "x", 1, 2000, started)]), &patient, &everywhere(), waits(1000));
        assert_eq!(text, want, "started at {started}");
    }
}

#[test]
fn leaving_pods_are_neither_protected_nor_counted() {
    let all = Preemption {
        protected_namespaces: vec!["default".into()],
        scope: VictimScope::SameProfile,
        min_runtime: Duration::from_secs(3600),
        max_per_pod: Some(0),
        strict_budgets: true,
        ..Preemption::default()
    };
    let mut ledger = one_node(&[Pod { deleting: true, ..on("a", "x", 1, 2000, 1) }]);
    ledger.apply_budget(budget("x", 0));
    assert_eq!(outcome(&mut ledger, &all, &everywhere(), waits(1000)), "a [x] 0; best a");
    let mut ledger = one_node(&[on("a", "x", 1, 2000, 1)]);
    assert_eq!(outcome(&mut ledger, &all, &everywhere(), waits(1000)), NO_VICTIMS);
    let evicting = ledger.nodes().find("a").map(|a| ledger.pods_on(a).to_vec()).unwrap_or_default();
    let limits = Limits { evicting: &evicting, ..everywhere() };
    assert_eq!(outcome(&mut ledger, &all, &limits, waits(1000)), "a [x] 0; best a");
}

#[test]
fn a_node_that_takes_too_many_victims_is_no_candidate() {
    let mut ledger = nodes(&["a", "b"]);
    for pod in [on("a", "l", 1, 500, 1), on("a", "m", 1, 1500, 1), on("b", "n", 50, 2000, 1)] {
        ledger.apply_pod(pod);
    }
    assert_eq!(outcome(&mut ledger, &Preemption::default(), &everywhere(), waits(2000)), "a [l m] 0, b [n] 0; best a");
    let one = Preemption { max_per_pod: Some(1), ..Preemption::default() };
    assert_eq!(outcome(&mut ledger, &one, &everywhere(), waits(2000)), "b [n] 0; best b");
    let minute = Preemption { max_per_minute: Some(10), ..Preemption::default() };
    let left = |victims| Limits { budget_left: Some(victims), ..everywhere() };
    assert_eq!(outcome(&mut ledger, &minute, &left(2), waits(2000)), "a [l m] 0, b [n] 0; best a");
    assert_eq!(outcome(&mut ledger, &minute, &left(1), waits(2000)), "b [n] 0; best b");
    let spent = "keeps: preemption: not eligible due to maxVictimsPerMinute of the profile.";
    assert_eq!(outcome(&mut ledger, &minute, &left(0), waits(2000)), spent);
    ledger.delete_node("b");
    let text = "preemption: 0/1 nodes are available: 1 Preemption takes more victims than maxVictimsPerPod allows.";
    assert_eq!(outcome(&mut ledger, &one, &everywhere(), waits(2000)), text);
    let text = "preemption: 0/1 nodes are available: 1 Preemption takes more victims than maxVictimsPerMinute leaves.";
    assert_eq!(outcome(&mut ledger, &minute, &left(1), waits(2000)), text);
}

#[test]
fn strict_budgets_are_never_violated() {
    let mut ledger = one_node(&[on("a", "l", 1, 2000, 1)]);
    ledger.apply_budget(budget("l", 0));
    assert_eq!(outcome(&mut ledger, &strict(), &everywhere(), waits(1000)), BUDGETS);
    ledger.apply_budget(PodDisruptionBudget { disrupted_pods: vec!["l".into()], ..budget("l", 0) });
    assert_eq!(outcome(&mut ledger, &strict(), &everywhere(), waits(1000)), "a [l] 0; best a", "counted already");
    ledger.apply_budget(budget("l", 1));
    assert_eq!(outcome(&mut ledger, &strict(), &everywhere(), waits(1000)), "a [l] 0; best a");
    // Others are evicted instead, though they are more important.
    let mut ledger = one_node(&[on("a", "l", 1, 1000, 1), on("a", "m", 2, 1000, 1)]);
    ledger.apply_budget(budget("l", 0));
    assert_eq!(outcome(&mut ledger, &strict(), &everywhere(), waits(1000)), "a [m] 0; best a");
    assert_eq!(outcome(&mut ledger, &strict(), &everywhere(), Pod { uid: "w2".into(), ..waits(2000) }), BUDGETS);
}

#[test]
fn a_strict_budget_is_spent_on_the_least_important_pods() {
    let three = [on("a", "l1", 1, 600, 1), on("a", "l2", 2, 600, 1), on("a", "l3", 3, 600, 1)];
    let mut ledger = one_node(&three);
    ledger.apply_budget(budget("l", 1));
    assert_eq!(outcome(&mut ledger, &strict(), &everywhere(), waits(500)), "a [l1] 0; best a");
    assert_eq!(outcome(&mut ledger, &strict(), &everywhere(), Pod { uid: "w2".into(), ..waits(1000) }), BUDGETS);
    // Where only a more important one frees enough, the budget is spent on that one.
    let mut ledger = one_node(&[on("a", "l1", 1, 200, 1), on("a", "l2", 2, 1800, 1)]);
    ledger.apply_budget(budget("l", 1));
    assert_eq!(outcome(&mut ledger, &strict(), &everywhere(), waits(1500)), "a [l2] 0; best a");
}

#[test]
fn evictions_under_way_are_deducted_from_strict_budgets() {
    let mut ledger = nodes(&["a", "b"]);
    for pod in [on("a", "l1", 1, 2000, 1), on("b", "l2", 1, 2000, 1)] {
        ledger.apply_pod(pod);
    }
    ledger.apply_budget(budget("l", 1));
    let evicting = ledger.nodes().find("a").map(|a| ledger.pods_on(a).to_vec()).unwrap_or_default();
    let mut scheduler = Scheduler::new(profile(strict()), 1);
    let waiting = pending(&mut ledger, waits(1000));
    let Outcome::Evict(plan) =
        scheduler.preempt(&ledger, &waiting, &Limits { search: Search::From(1), ..everywhere() })
    else {
        panic!("a plan")
    };
    let busy = Limits { evicting: &evicting, ..everywhere() };
    let on_b = ledger.nodes().find("b") == Some(plan.node);
    assert!(
        on_b && scheduler.plan_still_valid(
            &ledger,
            &plan,
            &everywhere(),
            (&mut DryRuns::default(), &mut Work::unbounded())
        )
    );
    assert!(
        !scheduler.plan_still_valid(&ledger, &plan, &busy, (&mut DryRuns::default(), &mut Work::unbounded())),
        "another worker was faster"
    );
    assert_eq!(outcome(&mut ledger, &strict(), &busy, waits(1000)), "a [l1] 0; best a", "only what is leaving");
    assert_eq!(
        outcome(&mut ledger, &Preemption::default(), &busy, waits(1000)),
        "a [l1] 0, b [l2] 0; best a",
        "upstream does not know of them"
    );
}
