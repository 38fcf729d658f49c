//! What failed in other schedulers, as far as no other file here is about it. Each test names the issue; `docs/reliability.md` has
//! the whole list.

use super::extender_tests::{Bench as ExtenderBench, broken, filter, profile};
use super::preemption_tests::{BACKOFF, Bench};
use super::volume_tests::{Bench as VolumeBench, claimed, newer};
use super::*;
use crate::cycle::{Decision, Scheduler};
use crate::io::{BindOutcome, BindRequest, RefusalReason, VolumesOutcome};
use crate::ledger::{Conflict, Ledger, PodState};
use crate::model::{Node, PersistentVolume, SpreadConstraint};
use crate::plugins::inter_pod_affinity::testing::{labelled, labels, selector, term};
use crate::profile::{Extender, OnFailure, Sampling};
use crate::queue::Counts;
use crate::testing::{node, pod, shape_of};
use crate::volume_testing::{bound, claim, only_in, using, volume};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// A ledger that is changed right before the access `at`.
struct ChangedAt<'a, F> {
    ledger: &'a RefCell<Ledger>,
    accesses: Cell<usize>,
    at: usize,
    change: F,
}

impl<F: Fn(&mut Ledger)> ChangedAt<'_, F> {
    fn pass(&self) {
        if self.accesses.replace(self.accesses.get() + 1) == self.at {
            (self.change)(&mut self.ledger.borrow_mut());
        }
    }
}

impl<F: Fn(&mut Ledger)> LedgerAccess for ChangedAt<'_, F> {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        self.pass();
        f(&self.ledger.borrow())
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        self.pass();
        f(&mut self.ledger.borrow_mut())
    }
}

/// A pod of 600m on node a.
fn running(name: &str) -> Pod {
    Pod { node_name: Some("a".into()), ..pod(name, shape_of(600, 0)) }
}

/// A worker that tries the pod `waits`, which does not fit beside another one. `change` comes right before the access `at`, and the
/// worker goes on a minute later. Gives what it wanted done; `None` if the attempt had no such moment.
fn tried_while(at: usize, change: impl Fn(&mut Ledger)) -> Option<(Worker, Vec<Effect>)> {
    let ledger = RefCell::new(Ledger::new());
    ledger.borrow_mut().apply_node(&node("a", 1000, 1 << 30, 10));
    ledger.borrow_mut().apply_pod(running("other"));
    ledger.borrow_mut().apply_pod(pod("waits", shape_of(600, 0)));
    let mut profile = CompiledProfile::default_preset("test");
    profile.preemption.enabled = false;
    // The sweep must not hide what was missed.
    profile.queue.max_unschedulable = Duration::MAX;
    let (mut worker, mut effects) = (Worker::new(Arc::new(profile), 1), Vec::new());
    let changed = ChangedAt { ledger: &ledger, accesses: Cell::new(0), at, change };
    worker.step(Time::ZERO, &mut Vec::new(), &changed, &mut effects);
    if changed.accesses.get() <= at {
        return None;
    }
    while worker.step(Time::from_millis(60_000), &mut Vec::new(), &ledger, &mut effects) == Next::Now {}
    Some((worker, effects))
}

fn binds(effects: &[Effect]) -> Vec<&BindRequest> {
    effects.iter().filter_map(|effect| if let Effect::Bind(request) = effect { Some(request) } else { None }).collect()
}

/// 72122: an event between the verdict and the place among unschedulable pods woke nobody.
#[test]
fn capacity_that_is_freed_at_any_moment_of_an_attempt_is_not_missed_72122() {
    let bound_at = |at| tried_while(at, |ledger| ledger.delete_pod("other")).map(|(_, effects)| binds(&effects).len());
    let bound: Vec<usize> = (0..).map_while(bound_at).collect();
    assert!(bound.len() > 2 && bound.iter().all(|many| *many == 1), "{bound:?}");
}

/// 118226, 120662, 52914 and 141645: an update during the attempt was lost, or left the pod at two places.
#[test]
fn a_pod_edited_at_any_moment_of_its_attempt_is_tried_once_as_it_is_now_118226() {
    let smaller = || Pod { resource_version: "2".into(), ..pod("waits", shape_of(300, 0)) };
    let bound_at = |at| {
        let (worker, effects) = tried_while(at, |ledger| ledger.apply_pod(smaller()))?;
        let asked: Vec<i64> = binds(&effects).iter().map(|bind| bind.pod.shape.row.requests.milli_cpu).collect();
        Some((asked, worker.queue.counts()))
    };
    let bound: Vec<(Vec<i64>, Counts)> = (0..).map_while(bound_at).collect();
    assert!(bound.len() > 2 && bound.iter().all(|one| *one == (vec![300], Counts::default())), "{bound:?}");
}

/// 104521, 141255, 141078 and 106545: a deletion and a creation that are seen as one update.
#[test]
fn another_pod_of_a_known_name_takes_the_place_of_the_first_one_104521() {
    for before in ["pending", "assumed", "bound"] {
        for after in [None, Some("a"), Some("b")] {
            let mut bench = Bench::new();
            bench.waits("p", 1, 0);
            if before == "pending" {
                bench.settle(0);
            }
            for name in ["a", "b"] {
                bench.seen(|ledger| ledger.apply_node(&node(name, 1000, 64 << 30, 110)));
            }
            if before != "pending" {
                bench.settle(0);
            }
            if before == "bound" {
                let (worker, attempt, pod, node) = bench.binds.remove(0);
                bench.seen(|ledger| ledger.apply_pod(Pod { node_name: Some(node), ..Pod::clone(&pod) }));
                bench.tell(worker, Input::BindEnded { attempt, outcome: BindOutcome::Bound });
                bench.settle(0);
            }
            let new = Pod { uid: "new".into(), node_name: after.map(Into::into), ..pod("p", shape_of(1000, 1 << 20)) };
            bench.seen(|ledger| ledger.apply_pod(new));
            bench.later(BACKOFF);
            bench.settle(0);
            let context = format!("{before}, then {after:?}");
            assert_eq!(bench.workers[0].queue.counts(), Counts::default(), "{context}");
            let of_new = bench.binds.iter().filter(|(_, _, pod, _)| *pod.uid == *"new").count();
            assert_eq!(of_new, usize::from(after.is_none()), "{context}");
            let ledger = bench.ledger.borrow();
            let on = |name: &str| ledger.pods_on(ledger.nodes().find(name).expect("it is there")).len();
            assert_eq!((ledger.pod("p").is_none(), on("a") + on("b")), (true, 1), "{context}");
        }
    }
}

/// 138316: what was kept of a pod under way stayed when another one of its name came.
#[test]
fn a_pod_recreated_during_its_bind_leaves_nothing_in_the_worker_138316() {
    let mut bench = Bench::new();
    bench.seen(|ledger| ledger.apply_node(&node("a", 1000, 64 << 30, 110)));
    bench.waits("p", 1, 0);
    bench.settle(0);
    let (worker, attempt, ..) = bench.binds.remove(0);
    bench.seen(|ledger| ledger.apply_pod(Pod { uid: "new".into(), ..pod("p", shape_of(1000, 1 << 20)) }));
    bench.settle(0);
    bench.tell(worker, Input::BindEnded { attempt, outcome: BindOutcome::PodDeleted });
    bench.settle(0);
    let worker = &bench.workers[0];
    assert_eq!((worker.binding.len(), worker.popped.len()), (1, 1), "those of the new one");
    assert_eq!((&*bench.binds[0].2.uid, worker.queue.counts()), ("new", Counts::default()));
}

/// 26043 and 56682: a pod that was assumed twice, and one that was forgotten twice, left wrong sums.
#[test]
fn a_pod_is_assumed_once_and_forgotten_once_26043() {
    let mut ledger = Ledger::new();
    ledger.apply_node(&node("a", 2000, 1 << 30, 10));
    ledger.apply_pod(pod("p", shape_of(600, 0)));
    let Some(PodState::Pending(pending)) = ledger.pod("p").cloned() else { panic!("it waits") };
    let mut scheduler = Scheduler::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    let Decision::Place(proposal) = scheduler.decide(&ledger, &pending) else { panic!("it fits") };
    let commit = |ledger: &mut Ledger| {
        ledger.commit(&proposal, |_| Some((proposal.volumes.clone(), proposal.claims.clone()))).map(|_| ())
    };
    assert_eq!(commit(&mut ledger), Ok(()));
    assert_eq!(commit(&mut ledger), Err(Conflict::PodChanged));
    assert_eq!(ledger.pods_on(proposal.node).len(), 1);
    for _ in 0..2 {
        ledger.forget("p");
        assert!(ledger.pods_on(proposal.node).is_empty());
        ledger.audit().expect("the sums are those of the pods");
    }
    ledger.apply_pod(running("p"));
    ledger.forget("p");
    assert!(matches!(ledger.pod("p"), Some(PodState::Bound(_))), "it is seen there");
}

/// 42063, 46347 and 50916: upstream's process ended when a pod was seen elsewhere than its cache had it.
#[test]
fn a_pod_seen_on_another_node_than_it_was_known_on_is_moved_there_42063() {
    for was_assumed in [true, false] {
        let mut bench = Bench::new();
        for name in ["a", "b"] {
            bench.seen(|ledger| ledger.apply_node(&node(name, 1000, 64 << 30, 110)));
        }
        let known = if was_assumed {
            bench.waits("p", 1, 0);
            bench.settle(0);
            bench.binds[0].3.to_string()
        } else {
            bench.runs("p", "a", 0);
            "a".to_owned()
        };
        let other = if known == "a" { "b" } else { "a" };
        bench.runs("p", other, 0);
        // Each step audits the ledger.
        bench.settle(0);
        let ledger = bench.ledger.borrow();
        let on = |name: &str| ledger.pods_on(ledger.nodes().find(name).expect("it is there")).len();
        assert_eq!((on(&known), on(other)), (0, 1));
    }
}

/// 93964: the pods of a node that was made anew under its name were lost.
#[test]
fn pods_of_a_node_that_is_deleted_and_made_anew_are_kept_and_count_93964() {
    let mut ledger = Ledger::new();
    ledger.apply_node(&node("a", 1000, 1 << 30, 10));
    ledger.apply_pod(running("p"));
    ledger.delete_node("a");
    assert!(matches!(ledger.pod("p"), Some(PodState::Bound(_))));
    ledger.apply_node(&Node { uid: "again".into(), ..node("a", 1000, 1 << 30, 10) });
    let a = ledger.nodes().find("a").expect("it is there");
    assert_eq!((ledger.nodes().fixed[a.index()].used_cpu, ledger.pods_on(a).len()), (600, 1));
    ledger.audit().expect("the sums are those of the pods");
}

/// 31968, 33772 and 89552: a node that was deleted before its pods ended the process, or stayed.
#[test]
fn a_node_that_is_deleted_before_its_pods_goes_with_the_last_of_them_89552() {
    let mut ledger = Ledger::new();
    ledger.apply_node(&node("a", 1000, 1 << 30, 10));
    ledger.apply_pod(running("p"));
    ledger.delete_node("a");
    ledger.audit().expect("the sums are those of the pods");
    ledger.delete_pod("p");
    ledger.apply_node(&node("b", 1000, 1 << 30, 10));
    assert_eq!(ledger.nodes().rows(), 1, "its row is free for another one");
    ledger.audit().expect("the sums are those of the pods");
}

/// 2928 of volcano: a pod that was shown twice was counted twice.
#[test]
fn a_pod_that_is_shown_again_counts_once_2928() {
    let mut ledger = Ledger::new();
    ledger.apply_node(&node("a", 1000, 1 << 30, 10));
    for version in ["1", "1", "2"] {
        ledger.apply_pod(Pod { resource_version: version.into(), ..running("p") });
    }
    let a = ledger.nodes().find("a").expect("it is there");
    assert_eq!((ledger.nodes().fixed[a.index()].used_cpu, ledger.pods_on(a).len()), (600, 1));
    ledger.audit().expect("the sums are those of the pods");
}

/// 86373, 106546 and 87616: pods at the head of the queue that fit nowhere were tried again at each event, and nobody else.
#[test]
fn pods_of_high_priority_that_fit_nowhere_delay_others_by_one_attempt_each_86373() {
    const HUGE: usize = 200;
    let mut bench = Bench::with(|profile| profile.preemption.enabled = false);
    bench.seen(|ledger| ledger.apply_node(&node("a", 4000, 64 << 30, 110)));
    for i in 0..HUGE {
        bench.waits(&format!("huge-{i}"), 8, 100);
    }
    bench.settle(0);
    for turn in 0..10 {
        // Each new node lets all of them try again: there is somebody to evict.
        let (tiny, small) = (format!("tiny-{turn}"), format!("small-{turn}"));
        bench.seen(|ledger| {
            ledger.apply_node(&node(&tiny, 500, 1 << 30, 1));
            ledger.apply_pod(Pod { node_name: Some(tiny.as_str().into()), ..pod(&small, shape_of(500, 0)) });
        });
        bench.waits(&format!("low-{turn}"), 0, 0);
        bench.later(Duration::from_secs(2));
        for _ in 0..=HUGE / DECISIONS_PER_STEP {
            bench.step(0);
        }
        assert_eq!(bench.binds.len(), turn + 1, "the pod of low priority had its turn");
    }
    assert!(bench.refusals.len() >= 2 * HUGE, "the others were tried again: {}", bench.refusals.len());
}

/// 65131: pods that keep others away, and wait for their volumes, did not see each other.
#[test]
fn pods_that_wait_for_their_volumes_keep_others_away_65131() {
    let mut bench = VolumeBench::new();
    for (name, claimed) in [("p", "c"), ("q", "d"), ("r", "e")] {
        let alone = labelled("app=db").away(term("zone", "app=db")).named(name);
        bench.seen(|ledger| {
            ledger.apply_claim(claim(claimed, "made", 1));
            ledger.apply_pod(Pod { volumes: using(name, &[claimed]).volumes, ..alone });
        });
    }
    bench.settle(0);
    let mut nodes: Vec<&str> = bench.writes.iter().map(|(_, _, node, _)| &**node).collect();
    nodes.sort_unstable();
    assert_eq!((nodes, bench.binds.len()), (vec!["a", "b"], 0));
    let (refused, _, text) = &bench.refusals[0];
    assert!(refused == "r" && text.contains("anti-affinity rules"), "{refused}: {text}");
    bench.audit();
}

/// 73263: one of two claims was bound and the other not: the pod was tied to one node by the first and sent to another one.
#[test]
fn a_pod_of_which_one_claim_was_bound_goes_on_at_the_node_of_that_one_73263() {
    let mut bench = VolumeBench::new();
    let local = |name: &str| {
        let zone = if name.ends_with('x') { "x" } else { "y" };
        PersistentVolume { affinity: Some(only_in(zone)), ..volume(name, "local", 5) }
    };
    bench.seen(|ledger| {
        for name in ["1x", "2x", "1y", "2y"] {
            ledger.apply_volume(local(name));
        }
        for name in ["c", "d"] {
            ledger.apply_claim(claim(name, "local", 1));
        }
        ledger.apply_pod(using("p", &["c", "d"]));
    });
    bench.settle(0);
    let (_, _, node, writes) = bench.writes[0].clone();
    let (first, second) = (writes.bindings[0].clone(), writes.bindings[1].clone());
    bench.seen(|ledger| {
        ledger.apply_volume(claimed(local(&first.volume), &first.claim.name));
        let seen = bound(&first.claim.name, &first.volume);
        ledger.apply_claim(newer(seen, |claim| claim.resource_version = "2".into()));
    });
    bench.wrote(VolumesOutcome::Failed { code: None, message: "the object has been modified".into() });
    bench.audit();
    bench.now = 20_000;
    bench.settle(0);
    let (_, _, again, writes) = &bench.writes[0];
    let claims: Vec<&str> = writes.bindings.iter().map(|write| &*write.claim.name).collect();
    assert_eq!((again, claims), (&node, vec![&*second.claim.name]));
    bench.audit();
}

/// At most so many more pods of `app` in one domain than in another.
fn spread(max_skew: i32, topology_key: &str, app: &str) -> SpreadConstraint {
    SpreadConstraint {
        max_skew,
        topology_key: topology_key.into(),
        hard: true,
        selector: Some(selector(app)),
        min_domains: 1,
        honor_affinity: true,
        honor_taints: false,
    }
}

/// 116629: the volumes of a rollout are where there is one pod too many. The pod waits as with upstream, and its owner is told of both.
#[test]
fn a_pod_whose_volume_is_where_there_are_too_many_pods_is_told_of_both_116629() {
    let mut bench = VolumeBench::new();
    let mut web = labelled("app=web");
    web.0.spread.push(spread(1, "zone", "app=web"));
    let running = |name: &str, node: &str| Pod { node_name: Some(node.into()), ..web.named(name) };
    bench.seen(|ledger| {
        ledger.apply_volume(PersistentVolume { affinity: Some(only_in("x")), ..volume("v", "", 1) });
        ledger.apply_claim(bound("c", "v"));
        ledger.apply_pod(running("in-x", "a"));
        ledger.apply_pod(Pod { volumes: using("p", &["c"]).volumes, ..web.named("p") });
    });
    bench.settle(0);
    let (refused, reason, text) = &bench.refusals[0];
    assert_eq!((&**refused, *reason), ("p", RefusalReason::Unschedulable));
    for why in ["1 node(s) didn't match PersistentVolume's node affinity", "1 node(s) didn't match pod topology spread"]
    {
        assert!(text.contains(why), "{text}");
    }
    bench.now = 20_000;
    bench.seen(|ledger| ledger.apply_pod(running("in-y", "b")));
    bench.settle(0);
    assert_eq!(bench.binds.iter().map(|(_, _, _, node)| &**node).collect::<Vec<_>>(), ["a"], "it fits now");
    bench.audit();
}

/// 122494: what an extender did not bind. That its failures are ignored lets nobody else bind the pod: it may be the only one to count
/// what the pod takes.
#[test]
fn a_bind_that_an_extender_refuses_is_put_to_it_again_although_its_failures_are_ignored_122494() {
    let binder = Extender { binds: true, ..filter("x", OnFailure::Ignore) };
    let mut bench = ExtenderBench::new(profile(vec![binder]), "a");
    bench.pod(pod("p", shape_of(100, 0)));
    for turn in 0..3 {
        bench.now = 20_000 * turn;
        bench.settle();
        bench.answer(Err(broken()));
        assert_eq!(bench.binds.len(), 1, "turn {turn}: it need not filter");
        let (attempt, _, node, by) = bench.binds.remove(0);
        assert_eq!((&*node, by), ("a", Some(0)), "turn {turn}");
        let outcome = BindOutcome::Refused { code: Some(500), message: "no".into() };
        bench.tell(Input::BindEnded { attempt, outcome });
        bench.settle();
        assert_eq!(bench.worker.queue.counts(), Counts { backoff: 1, ..Counts::default() }, "turn {turn}");
    }
    assert!(bench.refusals.iter().all(|(_, reason, _)| *reason == RefusalReason::SchedulerError));
    bench.assert_clean();
}

/// A ledger before each access to which somebody else does something.
struct Interrupted<'a> {
    ledger: &'a RefCell<Ledger>,
    by: RefCell<Box<dyn FnMut() + 'a>>,
}

impl LedgerAccess for Interrupted<'_> {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        (self.by.borrow_mut())();
        f(&self.ledger.borrow())
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        (self.by.borrow_mut())();
        f(&mut self.ledger.borrow_mut())
    }
}

/// Nodes for the pods of `test` and others for those of `other`, no two alike.
fn two_pools() -> RefCell<Ledger> {
    let mut ledger = Ledger::new();
    for (pool, smallest) in [("test", 4_000), ("other", 4_100)] {
        for i in 0..4 {
            let name = format!("{pool}-{i}");
            let labels = labels(&format!("kubernetes.io/hostname={name} pool={pool}"));
            ledger.apply_node(&Node { labels, ..node(&name, smallest + 500 * i, 64 << 30, 110) });
        }
    }
    RefCell::new(ledger)
}

/// One of three kinds of pods that spread over the nodes of their scheduler.
fn of_pool(scheduler: &str, i: i64) -> Pod {
    let app = format!("app={scheduler}");
    let mut asks = labelled(&app);
    asks.0.spread.push(spread(3, "kubernetes.io/hostname", &app));
    asks.0.row_mut().requests.milli_cpu = 100 * (1 + i % 3);
    asks.0.row_mut().node_selector = labels(&format!("pool={scheduler}"));
    Pod { scheduler_name: scheduler.into(), ..asks.named(&format!("{scheduler}-{i:02}")) }
}

/// A worker that compares two nodes at a time: it matters where its look begins.
fn of_two_nodes(scheduler: &str) -> Worker {
    let sampling = Sampling { percentage: 25, min_feasible: 1 };
    Worker::new(Arc::new(CompiledProfile { sampling, ..CompiledProfile::default_preset(scheduler) }), 1)
}

fn placements(effects: &[Effect]) -> Vec<(String, String)> {
    binds(effects).iter().map(|bind| (bind.pod.key.name.to_string(), bind.node.to_string())).collect()
}

/// 5146, 5147 and 5154 of volcano: workers wrote into each other's state of an attempt, and moved the place where the other's look begins.
#[test]
fn a_worker_that_another_interrupts_at_each_look_decides_as_it_would_alone_5146() {
    const PODS: i64 = 20;
    let alone = ["test", "other"].map(|name| {
        let (ledger, mut worker, mut effects) = (two_pools(), of_two_nodes(name), Vec::new());
        for i in 0..PODS {
            ledger.borrow_mut().apply_pod(of_pool(name, i));
            worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut effects);
        }
        placements(&effects)
    });
    assert_eq!(alone.each_ref().map(Vec::len), [PODS as usize; 2]);
    let (ledger, mut test, mut other) = (two_pools(), of_two_nodes("test"), of_two_nodes("other"));
    let (mut of_test, mut of_other, mut came) = (Vec::new(), Vec::new(), 0);
    (0..PODS).for_each(|i| ledger.borrow_mut().apply_pod(of_pool("test", i)));
    {
        let by = RefCell::new(Box::new(|| {
            if came < PODS {
                ledger.borrow_mut().apply_pod(of_pool("other", came));
                came += 1;
            }
            other.step(Time::ZERO, &mut Vec::new(), &ledger, &mut of_other);
        }) as Box<dyn FnMut()>);
        let interrupted = Interrupted { ledger: &ledger, by };
        while test.step(Time::ZERO, &mut Vec::new(), &interrupted, &mut of_test) == Next::Now {}
    }
    assert_eq!(came, PODS);
    assert_eq!([placements(&of_test), placements(&of_other)], alone);
}
