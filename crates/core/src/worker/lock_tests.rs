//! How much a worker does while it holds the ledger's lock.

use super::*;
use crate::cycle::JUDGED;
use crate::io::VolumesOutcome;
use crate::ledger::Ledger;
use crate::limits::{
    CHANGES_PER_HOLD, COMPARISONS_PER_WORK, HOLDS_PER_LOOK, NOMINATIONS_PER_HOLD, PARKED_PODS_PER_HOLD, PODS_PER_HOLD,
    SELECTOR_VALUES_PER_POD, WORK_PER_CLAIM, WORK_PER_HOLD,
};
use crate::model::{
    LabelSelector, Labels, NodeSelector, NodeSelectorTerm, NodeTest, NodeTestOperator, PersistentVolumeClaim, Plugin,
    PluginSet, PodDisruptionBudget, PodShape, Requirement, RequirementOperator,
};
use crate::plugins::inter_pod_affinity::testing::{labelled, term};
use crate::preemption::{COMPARED, RUN_TIMES_READ};
use crate::profile::NamespaceAccess;
use crate::testing::{node, pod, shape, shape_of, with_row};
use crate::volume_testing::{claim, using, volume, waiting_class};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// What happens before each hold of the lock; it is told whether the hold is for writing.
type Meanwhile = Box<dyn FnMut(&mut Ledger, bool)>;

/// A ledger that counts the rows judged under each hold of its lock.
pub(super) struct Counted {
    pub(super) ledger: RefCell<Ledger>,
    pub(super) judged: RefCell<Vec<usize>>,
    meanwhile: RefCell<Meanwhile>,
}

impl Counted {
    pub(super) fn with_nodes(nodes: usize) -> Self {
        let mut ledger = Ledger::new();
        for i in 0..nodes {
            ledger.apply_node(&node(&format!("n{i}"), 1000, 1 << 30, 10));
        }
        Self { ledger: RefCell::new(ledger), judged: RefCell::default(), meanwhile: RefCell::new(Box::new(|_, _| {})) }
    }

    /// With a pod that has so many claims, which wait for so many volumes.
    pub(super) fn with_claims(nodes: usize, claims: usize, volumes: usize) -> Self {
        let counted = Self::with_nodes(nodes);
        let mut ledger = counted.ledger.borrow_mut();
        ledger.apply_storage_class(waiting_class("local", "kubernetes.io/no-provisioner"));
        (0..volumes).for_each(|v| ledger.apply_volume(volume(&format!("v{v}"), "local", 1)));
        let names: Vec<String> = (0..claims).map(|c| format!("c{c}")).collect();
        for name in &names {
            ledger.apply_claim(claim(name, "local", 1));
        }
        ledger.apply_pod(using("p", &names.iter().map(String::as_str).collect::<Vec<_>>()));
        drop(ledger);
        counted
    }

    /// Lets the worker take up that pod: all of its claims are bound.
    pub(super) fn binds_claims(&self, worker: &mut Worker, claims: usize) {
        let mut effects = Vec::new();
        worker.step(Time::ZERO, &mut Vec::new(), self, &mut effects);
        let bound = effects.iter().find_map(|effect| match effect {
            Effect::BindVolumes(request) => Some(request.writes.bindings.len()),
            _ => None,
        });
        assert_eq!(bound, Some(claims));
    }

    pub(super) fn meanwhile(&self, happens: impl FnMut(&mut Ledger, bool) + 'static) {
        *self.meanwhile.borrow_mut() = Box::new(happens);
    }

    fn held<R>(&self, for_writing: bool, f: impl FnOnce() -> R) -> R {
        (self.meanwhile.borrow_mut())(&mut self.ledger.borrow_mut(), for_writing);
        let before = JUDGED.get();
        let result = f();
        self.judged.borrow_mut().push(JUDGED.get() - before);
        result
    }

    /// How often a worker takes the lock in a step in which one change is to be taken up.
    fn holds_of_one_change(&self, worker: &mut Worker) -> usize {
        worker.step(Time::ZERO, &mut Vec::new(), self, &mut Vec::new());
        self.judged.take();
        self.ledger.borrow_mut().apply_pod(pod("one", shape()));
        worker.step(Time::ZERO, &mut Vec::new(), self, &mut Vec::new());
        self.judged.take().len()
    }

    /// Lets the worker take up a new pod; gives the rows judged under each hold, and how its effects read.
    fn try_pod(&self, worker: &mut Worker, name: &str, shape: PodShape) -> (Vec<usize>, String) {
        self.ledger.borrow_mut().apply_pod(pod(name, shape));
        let mut effects = Vec::new();
        worker.step(Time::ZERO, &mut Vec::new(), self, &mut effects);
        (self.judged.take(), format!("{effects:?}"))
    }
}

impl LedgerAccess for Counted {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        self.held(false, || self.ledger.read(f))
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        self.held(true, || self.ledger.write(f))
    }
}

pub(super) fn worker(profile: CompiledProfile) -> Worker {
    Worker::new(Arc::new(profile), 1)
}

#[test]
fn no_hold_judges_more_rows_than_there_is_work_for() {
    let nodes = 20_000;
    let ledger = Counted::with_nodes(nodes);
    let mut worker = worker(CompiledProfile::default_preset("test"));
    // What was found for an equal pod stays good until something happens.
    let mut changed = 0;
    let mut is_refused = |turn: &str, shape: PodShape| {
        changed += 1;
        ledger.ledger.borrow_mut().apply_node(&node(&format!("new-{changed}"), 1000, 1 << 30, 10));
        let (judged, effects) = ledger.try_pod(&mut worker, turn, shape);
        assert!(judged.iter().all(|rows| *rows <= WORK_PER_HOLD), "{turn}: {judged:?}");
        assert!(effects.contains("Refuse"), "{turn}: {effects}");
        assert_eq!(judged.iter().sum::<usize>(), nodes + changed, "{turn}: each row once: {judged:?}");
    };
    is_refused("seen for the first time", shape_of(2000, 0));
    // Pods as large as an API server takes leave no room for all.
    for other in 0..8 {
        let large = Labels::from_pairs([("large".into(), "x".repeat(2 << 20).as_str().into())]);
        is_refused(&format!("other-{other}"), PodShape { labels: large, ..shape_of(3000 + other, 0) });
    }
    is_refused("has no class of its own", shape_of(2001, 0));
    is_refused("comes back and gets one", shape_of(2001, 0));
}

#[test]
fn an_equal_pod_is_judged_on_the_rows_that_changed() {
    let nodes = 2 * WORK_PER_HOLD;
    let ledger = Counted::with_nodes(nodes);
    let mut worker = worker(CompiledProfile::default_preset("test"));
    for (pod, rows) in [("first", nodes), ("second", 1), ("third", 1)] {
        let (judged, effects) = ledger.try_pod(&mut worker, pod, shape_of(2000, 0));
        assert_eq!(judged.iter().sum::<usize>(), rows, "{judged:?}");
        assert!(effects.contains("Refuse"), "{effects}");
        // What was found for an equal pod stays good until something happens.
        ledger.ledger.borrow_mut().apply_node(&node(&format!("before-{pod}"), 1000, 1 << 30, 10));
    }
}

/// 5168 of volcano: what all other workers' binds had touched was taken up for each decision, and more of them were slower than one.
#[test]
fn what_others_place_costs_a_worker_the_rows_where_they_placed_it_5168() {
    let nodes = 300;
    let ledger = Counted::with_nodes(nodes);
    let mut profile = CompiledProfile::default_preset("test");
    profile.sampling.percentage = 100;
    let mut worker = worker(profile);
    let (judged, _) = ledger.try_pod(&mut worker, "first", shape_of(10, 0));
    assert_eq!(judged.iter().sum::<usize>(), nodes, "each row once: {judged:?}");
    let (judged, _) = ledger.try_pod(&mut worker, "second", shape_of(10, 0));
    assert_eq!(judged.iter().sum::<usize>(), 1, "where the first was placed: {judged:?}");
    for others in [1, 10, 100] {
        for i in 0..others {
            let (name, on) = (format!("other-{others}-{i}"), Some(format!("n{i}").into()));
            let other = Pod { scheduler_name: "other".into(), node_name: on, ..pod(&name, shape_of(10, 0)) };
            ledger.ledger.borrow_mut().apply_pod(other);
        }
        let (judged, effects) = ledger.try_pod(&mut worker, &format!("beside {others}"), shape_of(10, 0));
        assert!(effects.contains("Bind"), "{effects}");
        // The worker's own last pod is on one of these rows, or on one more.
        let judged = judged.iter().sum::<usize>();
        assert!((others..=others + 1).contains(&judged), "{judged} rows after {others} pods of others");
    }
}

/// As many values of selectors as a pod may have, and no node has one of them.
fn costly() -> PodShape {
    let test = NodeTest { key: "missing".into(), operator: NodeTestOperator::DoesNotExist, values: Vec::new() };
    let mut expressions = vec![test.clone(); SELECTOR_VALUES_PER_POD - 1];
    expressions.push(NodeTest { operator: NodeTestOperator::Exists, ..test });
    let term = NodeSelectorTerm { expressions, ..NodeSelectorTerm::default() };
    with_row(shape(), |row| row.required_affinity = Some(NodeSelector { terms: vec![term] }))
}

#[test]
fn a_look_at_a_cluster_that_changes_all_the_time_is_given_up() {
    // More than are judged under one hold, and each of them is another one at the next.
    let nodes = 50;
    let ledger = Counted::with_nodes(nodes);
    let mut holds = 0;
    ledger.meanwhile(move |ledger, _| {
        holds += 1;
        // A look without an end ends the test.
        let changes = if holds < 2 * HOLDS_PER_LOOK { nodes } else { 0 };
        (0..changes).for_each(|i| ledger.apply_node(&node(&format!("n{i}"), 1000 + holds as i64 % 2, 1 << 30, 10)));
    });
    let mut profile = CompiledProfile::default_preset("test");
    profile.preemption.enabled = false;
    let (judged, effects) = ledger.try_pod(&mut worker(profile), "p", costly());
    assert!((HOLDS_PER_LOOK..HOLDS_PER_LOOK + 8).contains(&judged.len()), "{} holds", judged.len());
    assert!(judged.iter().all(|rows| *rows < nodes), "no hold judges them all");
    assert!(effects.contains("the cluster changes faster than the pod can be judged"), "{effects}");
}

/// More nodes than are judged under one hold, too small for a pod that fits where one of lower priority is.
fn one_to_evict() -> Counted {
    let ledger = Counted::with_nodes(1);
    {
        let mut ledger = ledger.ledger.borrow_mut();
        change_small_nodes(&mut ledger, 10);
        ledger.apply_pod(Pod { node_name: Some("n0".into()), ..pod("low", shape_of(1000, 0)) });
        ledger.apply_pod(Pod { priority: 10, ..pod("high", shape_of(1000, 0)) });
    }
    ledger.serve(vec!["test".into()]);
    ledger
}

/// A tenant's pods, each with labels of its own, and budgets, on nodes too small for a pod of higher priority.
fn many_budgets(pods: usize, budgets: usize) -> Counted {
    let ledger = Counted::with_nodes(4);
    {
        let mut ledger = ledger.ledger.borrow_mut();
        for i in 0..pods {
            let labels = [("own", &*i.to_string())].into_iter().collect();
            let shape = PodShape { labels, ..shape_of(1000 / (pods as i64 / 4), 0) };
            ledger.apply_pod(Pod { node_name: Some(format!("n{}", i % 4).into()), ..pod(&format!("low-{i}"), shape) });
        }
        for i in 0..budgets {
            let absent =
                Requirement { key: "absent".into(), operator: RequirementOperator::DoesNotExist, values: Vec::new() };
            let selector = LabelSelector { requirements: vec![absent; 8] };
            ledger.apply_budget(PodDisruptionBudget {
                namespace: "default".into(),
                name: format!("b{i}").into(),
                selector: Some(selector),
                disruptions_allowed: i as i32 % 2,
                disrupted_pods: Vec::new(),
            });
        }
        ledger.apply_pod(Pod { priority: 10, ..pod("high", shape_of(1000, 0)) });
    }
    ledger.serve(vec!["test".into()]);
    ledger
}

#[test]
fn budgets_are_compared_in_parts_and_with_each_class_of_pods_once() {
    for strict_budgets in [false, true] {
        let ledger = many_budgets(120, 1_000);
        let compared = Rc::new(RefCell::new(Vec::new()));
        let (of_holds, mut before) = (compared.clone(), COMPARED.get());
        ledger.meanwhile(move |_, _| {
            let now = COMPARED.get();
            of_holds.borrow_mut().push(now - std::mem::replace(&mut before, now));
        });
        let mut profile = CompiledProfile::default_preset("test");
        profile.preemption.strict_budgets = strict_budgets;
        let mut effects = Vec::new();
        worker(profile).step(Time::ZERO, &mut Vec::new(), &ledger, &mut effects);
        assert_eq!(effects.iter().any(|effect| matches!(effect, Effect::Evict(_))), !strict_budgets, "{effects:?}");
        let compared = compared.borrow();
        assert!(compared.iter().all(|budgets| *budgets <= WORK_PER_HOLD), "{compared:?}");
        assert_eq!(compared.iter().sum::<usize>(), 120 * 1_000, "{compared:?}");
    }
}

fn change_small_nodes(ledger: &mut Ledger, milli_cpu: i64) {
    (0..WORK_PER_HOLD + 100).for_each(|i| ledger.apply_node(&node(&format!("small-{i}"), milli_cpu, 1 << 30, 10)));
}

#[test]
fn a_plan_to_evict_is_checked_with_the_work_of_one_hold() {
    let ledger = one_to_evict();
    let mut changed = false;
    ledger.meanwhile(move |ledger, for_writing| {
        if for_writing && !std::mem::replace(&mut changed, true) {
            change_small_nodes(ledger, 11);
        }
    });
    let mut worker = worker(CompiledProfile::default_preset("test"));
    let mut effects = Vec::new();
    worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut effects);
    let judged = ledger.judged.take();
    assert!(judged.iter().all(|rows| *rows <= WORK_PER_HOLD), "{judged:?}");
    assert_eq!(worker.totals.conflicts, 1, "the plan is made anew");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Evict(_))), "{effects:?}");
}

/// A node that two hundred pods of different sizes are on, and a pod that is not on it as long as one of them is.
#[test]
fn victims_on_one_node_are_judged_in_parts() {
    let lower = 200;
    let ledger = Counted::with_nodes(0);
    {
        let mut ledger = ledger.ledger.borrow_mut();
        ledger.apply_node(&node("n0", lower, 1 << 30, 1_000));
        for i in 0..lower {
            ledger.apply_pod(Pod { node_name: Some("n0".into()), ..pod(&format!("low-{i}"), shape_of(1, i)) });
        }
        let absent = NodeTest { key: "missing".into(), operator: NodeTestOperator::DoesNotExist, values: Vec::new() };
        let term =
            NodeSelectorTerm { expressions: vec![absent; SELECTOR_VALUES_PER_POD], ..NodeSelectorTerm::default() };
        let costly =
            with_row(shape_of(lower, 0), |row| row.required_affinity = Some(NodeSelector { terms: vec![term] }));
        ledger.apply_pod(Pod { priority: 10, ..pod("high", costly) });
    }
    ledger.serve(vec!["test".into()]);
    let mut worker = worker(CompiledProfile::default_preset("test"));
    let mut effects = Vec::new();
    worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut effects);
    let evicted = effects.iter().find_map(|effect| match effect {
        Effect::Evict(request) => Some(request.victims.len()),
        _ => None,
    });
    assert_eq!(evicted, Some(lower as usize));
    let look = worker.heaviest_look();
    assert!(look.work <= 2 * WORK_PER_HOLD && look.holds > 4, "{look:?}");
}

#[test]
fn rows_that_change_before_victims_are_sought_are_judged_in_parts() {
    for change_at in 2..8 {
        let ledger = one_to_evict();
        let mut holds = 0;
        ledger.meanwhile(move |ledger, _| {
            holds += 1;
            if holds == change_at {
                change_small_nodes(ledger, 11);
            }
        });
        let mut effects = Vec::new();
        worker(CompiledProfile::default_preset("test")).step(Time::ZERO, &mut Vec::new(), &ledger, &mut effects);
        let judged = ledger.judged.take();
        assert!(judged.iter().all(|rows| *rows <= WORK_PER_HOLD), "{change_at}: {judged:?}");
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Evict(_))), "{change_at}: {effects:?}");
    }
}

#[test]
fn a_pod_with_long_selectors_is_judged_on_fewer_rows_under_each_hold() {
    let nodes = 500;
    let ledger = Counted::with_nodes(nodes);
    let (judged, _) = ledger.try_pod(&mut worker(CompiledProfile::default_preset("test")), "p", costly());
    let most = WORK_PER_HOLD.div_ceil(1 + SELECTOR_VALUES_PER_POD / COMPARISONS_PER_WORK);
    assert!(judged.iter().all(|rows| *rows <= most), "{judged:?}");
    assert_eq!(judged.iter().sum::<usize>(), nodes);
}

#[test]
fn claims_that_are_being_bound_are_looked_at_in_parts() {
    let (pods, claims) = (64, 80);
    let ledger = Counted::with_nodes(1);
    {
        let mut ledger = ledger.ledger.borrow_mut();
        ledger.apply_node(&node("n0", 1000, 1 << 30, pods));
        ledger.apply_storage_class(waiting_class("made", "driver"));
        for p in 0..pods {
            let names: Vec<String> = (0..claims).map(|c| format!("c{p}-{c}")).collect();
            for name in &names {
                ledger.apply_claim(claim(name, "made", 1));
            }
            ledger.apply_pod(using(&format!("p{p}"), &names.iter().map(String::as_str).collect::<Vec<_>>()));
        }
    }
    let mut worker = worker(CompiledProfile::default_preset("test"));
    let mut effects = Vec::new();
    worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut effects);
    let written = |effect: &Effect| match effect {
        Effect::BindVolumes(request) => {
            Some(Input::VolumesWritten { attempt: request.attempt, outcome: VolumesOutcome::Written })
        }
        _ => None,
    };
    let mut inputs: Vec<Input> = effects.iter().filter_map(written).collect();
    assert_eq!(inputs.len(), pods as usize);
    ledger.judged.take();
    worker.step(Time::ZERO, &mut inputs, &ledger, &mut Vec::new());
    let parts = (pods as usize * (1 + WORK_PER_CLAIM * claims)).div_ceil(WORK_PER_HOLD);
    assert!(parts > 2);
    assert_eq!(ledger.judged.take().len(), 1 + parts, "the log, and the claims in parts");
    assert_eq!(worker.volumes.len(), pods as usize);
}

/// Each claim is compared with each volume that it may get.
#[test]
fn volumes_that_claims_may_get_are_sought_in_parts() {
    let (claims, volumes) = (100, 400);
    let ledger = Counted::with_claims(1, claims, volumes);
    let mut worker = worker(CompiledProfile::default_preset("test"));
    ledger.binds_claims(&mut worker, claims);
    let parts = (claims * (WORK_PER_CLAIM + volumes)).div_ceil(WORK_PER_HOLD);
    let look = worker.heaviest_look();
    assert!(parts > 2 && look.holds >= parts && look.work < 2 * WORK_PER_HOLD, "{parts} parts: {look:?}");
}

#[test]
fn pods_that_have_not_run_long_enough_are_looked_at_in_parts() {
    let (nodes, pods) = (10, 3 * PODS_PER_HOLD + 10);
    let ledger = Counted::with_nodes(nodes);
    // Microseconds that they have run: one of the last has run for longest, and one long enough.
    let ran = |i: usize| if i == 3 * PODS_PER_HOLD { 50_000 } else { (i * 7 % 40_000) as i64 };
    for i in 0..pods {
        let started_unix_us = Some(if i == 5 { -60_000_000 } else { -ran(i) });
        // Half of them on one node: more than are looked at under one hold.
        let node_name = Some(format!("n{}", if i % 2 == 0 { 0 } else { 1 + i / 2 % (nodes - 1) }).into());
        ledger.ledger.borrow_mut().apply_pod(Pod {
            node_name,
            started_unix_us,
            priority: if i % 100 == 3 { 20 } else { 0 },
            ..pod(&format!("low-{i}"), shape_of(1, 0))
        });
    }
    ledger.ledger.borrow_mut().apply_pod(Pod { priority: 10, ..pod("high", shape_of(1000, 0)) });
    ledger.serve(vec!["test".into()]);
    let looked_at = Rc::new(RefCell::new(vec![0]));
    let noted = looked_at.clone();
    ledger.meanwhile(move |_, _| noted.borrow_mut().push(RUN_TIMES_READ.replace(0)));
    let mut profile = CompiledProfile::default_preset("test");
    profile.preemption.min_runtime = Duration::from_secs(20);
    let mut effects = Vec::new();
    let next = worker(profile).step(Time::ZERO, &mut Vec::new(), &ledger, &mut effects);
    looked_at.borrow_mut().push(RUN_TIMES_READ.replace(0));
    let looked_at = looked_at.take();
    assert!(looked_at.iter().all(|pods| *pods <= PODS_PER_HOLD), "{looked_at:?}");
    assert_eq!(looked_at.iter().sum::<usize>(), pods, "each once: {looked_at:?}");
    assert_eq!(next, Next::At(Time::ZERO + Duration::from_micros(20_000_000 - 50_000)), "{effects:?}");
}

/// A profile that holds the pods of tests.
fn of_another_namespace() -> CompiledProfile {
    let mut profile = CompiledProfile::default_preset("test");
    profile.namespaces = NamespaceAccess::Restricted {
        names: std::iter::once("other".into()).collect(),
        match_labels: [].into_iter().collect(),
    };
    profile
}

#[test]
fn a_long_log_and_many_pods_are_taken_up_in_parts() {
    let ledger = Counted::with_nodes(1);
    let mut first = worker(of_another_namespace());
    first.step(Time::ZERO, &mut Vec::new(), &ledger, &mut Vec::new());
    let of_start = ledger.judged.take().len();
    let of_one = ledger.holds_of_one_change(&mut first);
    let pods = 3 * CHANGES_PER_HOLD;
    for i in 1..pods {
        ledger.ledger.borrow_mut().apply_pod(pod(&format!("p{i}"), shape()));
    }
    first.step(Time::ZERO, &mut Vec::new(), &ledger, &mut Vec::new());
    assert_eq!(ledger.judged.take().len(), of_one - 1 + 3, "the changes in parts");
    let mut second = worker(of_another_namespace());
    second.step(Time::ZERO, &mut Vec::new(), &ledger, &mut Vec::new());
    assert_eq!(ledger.judged.take().len(), of_start + 1 + 3, "what there is, and then the pods, in parts");
    assert_eq!((first.queue.counts().held, second.queue.counts().held), (pods, pods));
}

#[test]
fn changes_that_come_while_a_log_is_followed_are_for_the_next_step() {
    let ledger = Counted::with_nodes(1);
    let mut worker = worker(of_another_namespace());
    let of_one = ledger.holds_of_one_change(&mut worker);
    ledger.ledger.borrow_mut().apply_pod(pod("p", shape()));
    let mut made = 0;
    ledger.meanwhile(move |ledger, _| {
        for _ in 0..=CHANGES_PER_HOLD {
            made += 1;
            ledger.apply_pod(pod(&format!("p{made}"), shape()));
        }
    });
    ledger.judged.take();
    worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut Vec::new());
    assert_eq!(ledger.judged.take().len(), of_one + 1, "as far as the log went at the first hold");
    worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut Vec::new());
    assert!(worker.queue.counts().held > 2 * CHANGES_PER_HOLD, "and nothing is lost");
}

#[test]
fn a_snapshot_asks_about_so_many_parked_pods_under_one_hold() {
    let pods = 2 * PARKED_PODS_PER_HOLD + 1;
    let ledger = Counted::with_nodes(1);
    let mut worker = worker(of_another_namespace());
    for i in 0..pods {
        ledger.ledger.borrow_mut().apply_pod(pod(&format!("p{i}"), shape()));
    }
    worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut Vec::new());
    ledger.judged.take();
    let snapshot = worker.snapshot(&ledger);
    assert_eq!(ledger.judged.take().len(), 1 + 3, "the nodes, and three parts of the pods");
    assert_eq!(snapshot.top_reasons.iter().map(|top| (top.plugin, top.pods)).collect::<Vec<_>>(), [("Berth", pods)]);
}

#[test]
fn a_worker_that_begins_looks_at_all_pods_in_parts_whoever_schedules_them() {
    let ledger = Counted::with_nodes(1);
    let begin = || {
        worker(CompiledProfile::default_preset("test")).step(Time::ZERO, &mut Vec::new(), &ledger, &mut Vec::new());
        ledger.judged.take().len()
    };
    let of_start = begin();
    for i in 0..4 * PODS_PER_HOLD {
        ledger.ledger.borrow_mut().apply_pod(Pod { scheduler_name: "other".into(), ..pod(&format!("p{i}"), shape()) });
    }
    assert_eq!(begin(), of_start + 3);
}

/// Each of the pods that wait has affinity of its own, and none of the pods that come matches it.
#[test]
fn pods_that_wait_are_compared_with_those_that_come_in_parts() {
    let ledger = Counted::with_nodes(1);
    let mut worker = worker(CompiledProfile::default_preset("test"));
    let waiting = 60;
    for i in 0..waiting {
        let asks = labelled("app=web").near(term("kubernetes.io/hostname", &format!("wanted-{i}")));
        ledger.ledger.borrow_mut().apply_pod(asks.named(&format!("p{i}")));
    }
    while worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut Vec::new()) == Next::Now {}
    assert_eq!(worker.queue.counts().unschedulable, waiting);
    worker.heaviest = HeaviestLook::default();
    for i in 0..100 {
        let comes = labelled(&format!("i={i}")).named(&format!("comes-{i}"));
        ledger.ledger.borrow_mut().apply_pod(Pod {
            node_name: Some("n0".into()),
            scheduler_name: "other".into(),
            ..comes
        });
    }
    worker.step(Time::from_millis(1), &mut Vec::new(), &ledger, &mut Vec::new());
    let look = worker.heaviest_look();
    assert!(look.holds > 1 && look.work <= WORK_PER_HOLD + 8, "{look:?}");
    assert_eq!(worker.queue.counts().unschedulable, waiting, "none was woken");
}

#[test]
fn claims_that_changed_are_looked_for_in_parts_of_the_log() {
    let ledger = Counted::with_nodes(1);
    let names: Vec<String> = (0..100).map(|c| format!("c{c}")).collect();
    let waits = using("p", &names.iter().map(String::as_str).collect::<Vec<_>>());
    let changes = |name: &str, count: usize| {
        for version in 0..count {
            let resource_version = format!("{version}").into();
            ledger.ledger.borrow_mut().apply_claim(PersistentVolumeClaim { resource_version, ..claim(name, "", 1) });
        }
    };
    let seen = ledger.ledger.borrow().version();
    let missed = |by: Plugin| super::follow::missed_claim(&ledger, &waits, PluginSet::of(by), seen);
    changes("other", 3 * CHANGES_PER_HOLD);
    ledger.judged.take();
    assert!(!missed(Plugin::VolumeBinding));
    assert_eq!(ledger.judged.take().len(), 3);
    changes("c99", 1);
    assert!(missed(Plugin::VolumeBinding) && !missed(Plugin::NodeResourcesFit));
    // What comes meanwhile is not read to an end.
    changes("other", CHANGES_PER_HOLD);
    let seen = ledger.ledger.borrow().version();
    changes("other", CHANGES_PER_HOLD);
    ledger.meanwhile(|ledger, _| {
        for version in 0..=CHANGES_PER_HOLD {
            let resource_version = format!("{}-{version}", ledger.version()).into();
            ledger.apply_claim(PersistentVolumeClaim { resource_version, ..claim("more", "", 1) });
        }
    });
    ledger.judged.take();
    assert!(!super::follow::missed_claim(&ledger, &waits, PluginSet::of(Plugin::VolumeBinding), seen));
    assert_eq!(ledger.judged.take().len(), 3, "to where it ended at the first hold");
}

#[test]
fn nominations_of_pods_that_nobody_serves_any_more_end_in_parts() {
    let ledger = Counted::with_nodes(1);
    let pods = 3 * NOMINATIONS_PER_HOLD;
    ledger.serve(vec!["test".into(), "stays".into()]);
    for i in 0..pods {
        let nominated = Pod { nominated_node: Some(format!("n{}", i % 50).into()), ..pod(&format!("p{i}"), shape()) };
        let scheduler_name = if i % 3 == 0 { "stays".into() } else { "test".into() };
        ledger.ledger.borrow_mut().apply_pod(Pod { scheduler_name, ..nominated });
    }
    ledger.judged.take();
    let gone = "p1";
    let mut holds = 0;
    ledger.meanwhile(move |ledger, _| {
        holds += 1;
        if holds == 2 {
            ledger.delete_pod(gone);
        }
    });
    let ended = ledger.serve(vec!["stays".into()]);
    assert_eq!((ended.len(), ledger.judged.take().len()), (pods / 3 * 2 - 1, 1 + 2));
    assert!(
        ended.iter().all(|pod| pod.nominated_node.is_some() && &*pod.scheduler_name == "test" && &*pod.uid != gone)
    );
    let left = ledger.ledger.borrow().pending_pods(|pod| pod.nominated_node.is_some());
    assert!(left.len() == pods / 3 && left.iter().all(|pod| &*pod.scheduler_name == "stays"));
}
