//! A scheduler that has preempted before against one that has not.

use super::kept::ANSWERED;
use super::testing::{NOW, budget, on, pending, profile};
use super::*;
use crate::limits::WORK_PER_HOLD;
use crate::model::{HostPort, PodShape, Protocol};
use crate::plugins::Work;
use crate::plugins::inter_pod_affinity::testing::term;
use crate::profile::Preemption;
use crate::testing::{node, pod, shape_of};

const NODES: u64 = 8;

/// One change of what a dry run reads, or of something beside it. With `relations` some pods have a term about others.
fn change(rng: &mut Rng, ledger: &mut Ledger, relations: bool) {
    let name = format!("n{}", rng.below(NODES));
    let app = ["web", "db"][rng.below(2) as usize];
    match rng.below(16) {
        0 => {
            let mut drawn = node(&name, 2_000 + 100 * rng.below(2) as i64, 8 << 30, 4 + rng.below(4) as i64);
            drawn.unschedulable = rng.below(4) == 0;
            ledger.apply_node(&drawn);
        }
        1 if rng.below(4) == 0 => ledger.delete_node(&name),
        2 | 3 => {
            let mut drawn = budget(app, rng.below(4) as i32);
            drawn.namespace = ["default", "other"][rng.below(2) as usize].into();
            drawn.disrupted_pods = (0..rng.below(8).saturating_sub(5)).map(|i| format!("p{i}").into()).collect();
            ledger.apply_budget(drawn);
        }
        4 if rng.below(3) == 0 => ledger.delete_budget(&format!("default/of-{app}")),
        5 => ledger.delete_pod(&format!("p{}", rng.below(32))),
        6 | 7 => {
            let nominated = Pod {
                nominated_node: (rng.below(3) > 0).then(|| name.into()),
                priority: rng.below(8) as i32,
                ..pod(&format!("q{}", rng.below(4)), shape(rng))
            };
            ledger.apply_pod(nominated);
        }
        // Some are there already: they get other labels, begin to terminate, or start.
        _ => {
            let number = rng.below(32);
            let mut shape = PodShape { labels: [("app", app)].into_iter().collect(), ..shape(rng) };
            if relations && rng.below(6) == 0 {
                shape.anti_affinity =
                    vec![term("kubernetes.io/hostname", ["app=web", "app=waits"][rng.below(2) as usize])];
            }
            let mut placed = Pod {
                node_name: Some(format!("n{}", number % NODES).into()),
                priority: (number % 3) as i32,
                is_static: number == 7,
                started_unix_us: (rng.below(4) > 0).then_some(NOW - 2 + rng.below(4) as i64),
                deleting: rng.below(6) == 0,
                ..pod(&format!("p{number}"), shape)
            };
            placed.key.namespace = ["default", "other"][(number / 8 % 2) as usize].into();
            ledger.apply_pod(placed);
        }
    }
}

fn shape(rng: &mut Rng) -> PodShape {
    let mut shape = shape_of(400 * (1 + rng.below(3)) as i64, 0);
    if rng.below(8) == 0 {
        shape.row_mut().host_ports = vec![HostPort { protocol: Protocol::Tcp, port: 80, ip: "0.0.0.0".into() }];
    }
    shape
}

/// The best candidate, found in parts of so much work, with something done to the ledger in between.
fn best(
    scheduler: &mut Scheduler,
    ledger: &mut Ledger,
    (pod, limits): (&Arc<Pod>, &Limits<'_>),
    part: usize,
    mut between: impl FnMut(&mut Ledger),
) -> String {
    let mut known = DryRuns::default();
    let found = loop {
        let mut work = if part == 0 { Work::unbounded() } else { Work::of(part) };
        if let Some(found) = scheduler.preemption_candidates_within(ledger, pod, limits, &mut known, &mut work) {
            break found;
        }
        between(ledger);
    };
    match found.map(pick) {
        Ok(best) => format!("{:?}", best.map(|one| (one.node, one.victims, one.violations))),
        Err(outcome) => format!("{outcome:?}"),
    }
}

/// 200 sequences of 60 changes. After each of them pods of two kinds preempt, at times that move on; a third kind comes now and then, for
/// which there is no room. Sometimes a look is made while the cluster changes: then the next one counts. In every second sequence pods that
/// are placed, and one of those that preempt, keep others from their nodes.
#[test]
fn a_kept_result_is_what_a_fresh_look_finds() {
    let (mut candidates, mut answered) = (0, [0, 0]);
    for seed in 0..200 {
        let (relations, before) = (seed % 2 == 1, ANSWERED.get());
        let mut rng = Rng::seeded(seed);
        let mut ledger = Ledger::new();
        for i in 0..NODES {
            ledger.apply_node(&node(&format!("n{i}"), 2_000, 8 << 30, 6));
        }
        let mut kept = Scheduler::new(profile(Preemption::default()), seed);
        let mut now = NOW - 2;
        for step in 0..60 {
            change(&mut rng, &mut ledger, relations);
            for kind in 0..2 + i32::from(rng.below(6) == 0) {
                let mut asks = shape_of(1_700 + 100 * i64::from(kind), 0);
                if relations {
                    asks.labels = [("app", "waits")].into_iter().collect();
                    asks.anti_affinity =
                        (kind == 1).then(|| term("kubernetes.io/hostname", "app=db")).into_iter().collect();
                }
                let waits = Pod { priority: 3 + kind, ..pod("waits", asks) };
                let waits = pending(&mut ledger, waits);
                now += i64::from(rng.below(10) == 0);
                let search = Search::From(rng.below(NODES) as usize);
                let limits = Limits { search, only_best: true, ..Limits::at(now) };
                // A look begins anew with the tables of neighbours until they are complete: it needs more at a time.
                let parts = if relations { [0, 1_000, WORK_PER_HOLD] } else { [0, 1, 20] };
                let (part, look) = (parts[rng.below(3) as usize], (&waits, &limits));
                if rng.below(8) == 0 {
                    let _of_no_moment =
                        best(&mut kept, &mut ledger, look, parts[1], |ledger| change(&mut rng, ledger, relations));
                }
                let got = best(&mut kept, &mut ledger, look, part, |_| {});
                let mut fresh = Scheduler::new(profile(Preemption::default()), seed);
                let want = best(&mut fresh, &mut ledger, look, 0, |_| {});
                assert_eq!(got, want, "seed {seed}, step {step}, kind {kind}");
                candidates += usize::from(got.starts_with("Some"));
                ledger.delete_pod("waits");
            }
        }
        answered[usize::from(relations)] += ANSWERED.get() - before;
    }
    let known = answered[0] + answered[1];
    assert!(candidates > 10_000 && known > 20_000, "{candidates} candidates, {known} results were known");
    assert!(answered[1] > 2_000, "{} were known beside neighbours", answered[1]);
}

#[test]
fn what_is_kept_is_given_back() {
    let mut ledger = Ledger::new();
    ledger.apply_node(&node("n", 1_000, 8 << 30, 6));
    ledger.apply_pod(Pod { node_name: Some("n".into()), ..pod("p", shape_of(1_000, 0)) });
    let waits = pending(&mut ledger, Pod { priority: 1, ..pod("waits", shape_of(1_000, 0)) });
    let mut scheduler = Scheduler::new(profile(Preemption::default()), 1);
    let answered = |scheduler: &mut Scheduler| {
        let before = ANSWERED.get();
        assert!(matches!(scheduler.preempt(&ledger, &waits, &Limits::at(NOW)), Outcome::Evict(_)));
        ANSWERED.get() - before
    };
    assert_eq!([answered(&mut scheduler), answered(&mut scheduler)], [0, 1]);
    scheduler.age();
    assert_eq!(answered(&mut scheduler), 1, "it was used");
    scheduler.age();
    scheduler.age();
    assert_eq!(answered(&mut scheduler), 0);
    scheduler.shed();
    assert_eq!(answered(&mut scheduler), 0);
    scheduler.set_profile(profile(Preemption::default()));
    assert_eq!(answered(&mut scheduler), 0);
}

#[test]
fn nothing_is_kept_where_it_would_depend_on_too_many_budgets() {
    for (budgets, known) in [(10, 1), (1_100, 0)] {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("n", 1_000, 8 << 30, 6));
        ledger.apply_pod(Pod { node_name: Some("n".into()), ..pod("p", shape_of(1_000, 0)) });
        (0..budgets).for_each(|i| ledger.apply_budget(budget(&format!("app-{i}"), 1)));
        let waits = pending(&mut ledger, Pod { priority: 1, ..pod("waits", shape_of(1_000, 0)) });
        let mut scheduler = Scheduler::new(profile(Preemption::default()), 1);
        let before = ANSWERED.get();
        for _ in 0..2 {
            assert!(matches!(scheduler.preempt(&ledger, &waits, &Limits::at(NOW)), Outcome::Evict(_)));
        }
        assert_eq!(ANSWERED.get() - before, known, "{budgets} budgets");
    }
}

/// All nodes violate a budget, and one candidate of that kind is enough: the others are passed over, and each is looked at once.
#[test]
fn a_look_in_parts_ends_where_every_candidate_violates_a_budget() {
    const NODES: i64 = 40;
    let mut ledger = Ledger::new();
    ledger.apply_budget(budget("w", 1));
    for i in 0..NODES {
        ledger.apply_node(&node(&format!("n{i}"), 1_000, 8 << 30, 20));
        for j in 0..10 {
            ledger.apply_pod(on(&format!("n{i}"), &format!("w-{i}-{j}"), 0, 100, 1 + i));
        }
    }
    let waits = pending(&mut ledger, Pod { priority: 1, ..pod("waits", shape_of(1_000, 0)) });
    let of_one = Preemption { candidates_percentage: 0, candidates_absolute: 1, ..Preemption::default() };
    let mut scheduler = Scheduler::new(profile(of_one), 1);
    for only_best in [false, true] {
        let limits = Limits { search: Search::From(0), only_best, ..Limits::at(NOW) };
        let (mut known, mut holds) = (DryRuns::default(), 0);
        let found = loop {
            holds += 1;
            assert!(holds < 100 * NODES, "the look does not end");
            let work = &mut Work::of(12);
            if let Some(found) = scheduler.preemption_candidates_within(&ledger, &waits, &limits, &mut known, work) {
                break found;
            }
        };
        assert!(holds > 10, "{holds} holds");
        assert_eq!(found.map(|found| found.len()).ok(), Some(1));
    }
}
