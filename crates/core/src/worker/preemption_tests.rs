//! Preemption from the failed attempt to the placed pod; each test of a failure that others had names the issue.

use super::*;
use crate::io::{BindRequest, EvictRequest, EvictionOutcome, NominatedNode, Refusal};
use crate::ledger::PodState;
use crate::ledger::{Ledger, LedgerAccess};
use crate::model::Pod;
use crate::testing::{node, pod, shape_of};
use crate::volume_testing::{claim, node_in, using, waiting_class};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// A preemption as a worker asked for it.
pub(super) struct Asked {
    pub(super) worker: usize,
    pub(super) attempt: AttemptId,
    pub(super) preemptor: String,
    pub(super) node: String,
    pub(super) victims: Vec<String>,
    pub(super) taken_back: Vec<String>,
    pub(super) lower_priority: Vec<String>,
}

/// A ledger, workers for `test` and `other` on it, and evictions and binds that end when the test ends them.
pub(super) struct Bench {
    pub(super) ledger: RefCell<Ledger>,
    pub(super) workers: Vec<Worker>,
    pub(super) inputs: Vec<Vec<Input>>,
    pub(super) asked: Vec<Asked>,
    pub(super) binds: Vec<(usize, AttemptId, Arc<Pod>, Str)>,
    pub(super) refusals: Vec<(String, String, NominatedNode)>,
    pub(super) now: u64,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(super) fn with(set: impl Fn(&mut CompiledProfile)) -> Self {
        let profile = |name: &str| {
            let mut profile = CompiledProfile::default_preset(name);
            set(&mut profile);
            Arc::new(profile)
        };
        let bench = Self {
            ledger: RefCell::new(Ledger::new()),
            workers: vec![Worker::new(profile("test"), 1), Worker::new(profile("other"), 2)],
            inputs: vec![Vec::new(), Vec::new()],
            asked: Vec::new(),
            binds: Vec::new(),
            refusals: Vec::new(),
            now: 0,
        };
        bench.ledger.serve(vec!["test".into(), "other".into()]);
        bench
    }

    /// Gives the last of the workers a list of inputs.
    pub(super) fn add_worker(&mut self) {
        self.inputs.push(Vec::new());
    }

    /// With nodes of 4 CPUs, each filled by pods of 1 CPU and priority 0 named after it: `a-0` to `a-3`.
    pub(super) fn full(nodes: &[&str]) -> Self {
        let bench = Self::new();
        bench.fill(nodes);
        bench
    }

    pub(super) fn fill(&self, nodes: &[&str]) {
        for name in nodes {
            self.seen(|ledger| ledger.apply_node(&node(name, 4000, 64 << 30, 110)));
            for i in 0..4 {
                self.runs(&format!("{name}-{i}"), name, 0);
            }
        }
    }

    pub(super) fn seen<R>(&self, change: impl FnOnce(&mut Ledger) -> R) -> R {
        change(&mut self.ledger.borrow_mut())
    }

    /// A pod of 1 CPU is seen running.
    pub(super) fn runs(&self, name: &str, on: &str, priority: i32) {
        self.runs_by(name, on, priority, "test");
    }

    pub(super) fn runs_by(&self, name: &str, on: &str, priority: i32, scheduler: &str) {
        let pod = Pod {
            node_name: Some(on.into()),
            scheduler_name: scheduler.into(),
            priority,
            ..pod(name, shape_of(1000, 1 << 20))
        };
        self.seen(|ledger| ledger.apply_pod(pod));
    }

    /// A pod that waits.
    pub(super) fn waits(&self, name: &str, cpus: i64, priority: i32) {
        self.waits_for("test", name, cpus, priority);
    }

    pub(super) fn waits_for(&self, scheduler: &str, name: &str, cpus: i64, priority: i32) {
        let pod = Pod { scheduler_name: scheduler.into(), priority, ..pod(name, shape_of(cpus * 1000, 1 << 20)) };
        self.seen(|ledger| ledger.apply_pod(pod));
    }

    pub(super) fn deleted(&self, uid: &str) {
        self.seen(|ledger| ledger.delete_pod(uid));
    }

    /// The pod is seen being deleted, marked by a scheduler or not.
    fn terminating(&self, uid: &str, on: &str, preempted: bool) {
        let pod = Pod { node_name: Some(on.into()), deleting: true, preempted, ..pod(uid, shape_of(1000, 1 << 20)) };
        self.seen(|ledger| ledger.apply_pod(pod));
    }

    /// Steps until the worker has nothing to do at once.
    pub(super) fn settle(&mut self, worker: usize) -> Next {
        loop {
            let next = self.step(worker);
            if next != Next::Now {
                return next;
            }
        }
    }

    pub(super) fn step(&mut self, worker: usize) -> Next {
        let mut effects = Vec::new();
        let now = Time::from_millis(self.now);
        let next = self.workers[worker].step(now, &mut self.inputs[worker], &self.ledger, &mut effects);
        for effect in effects {
            match effect {
                Effect::Bind(BindRequest { attempt, pod, node, .. }) => self.binds.push((worker, attempt, pod, node)),
                Effect::Evict(EvictRequest { attempt, preemptor, node, victims, taken_back, lower_priority }) => {
                    let uids = |pods: Vec<Arc<crate::ledger::PlacedPod>>| {
                        pods.iter().map(|one| one.uid.to_string()).collect::<Vec<_>>()
                    };
                    self.asked.push(Asked {
                        worker,
                        attempt,
                        preemptor: preemptor.uid.to_string(),
                        node: node.to_string(),
                        victims: uids(victims),
                        taken_back: uids(taken_back),
                        lower_priority: lower_priority.iter().map(|pod| pod.uid.to_string()).collect(),
                    });
                }
                Effect::Refuse(Refusal { pod, text, nomination, .. }) => {
                    self.refusals.push((pod.uid.to_string(), text.to_string(), nomination));
                }
                Effect::BindVolumes(_)
                | Effect::ReserveClaims(_)
                | Effect::Unreserve(_)
                | Effect::Deallocate(_)
                | Effect::Nominate(_)
                | Effect::AwaitDevices { .. }
                | Effect::AskExtender(_) => {}
            }
        }
        self.ledger.borrow().audit().expect("what is kept equals what the pods make");
        next
    }

    pub(super) fn tell(&mut self, worker: usize, input: Input) {
        self.workers[worker].delivered(&input, &mut self.ledger.borrow_mut());
        self.inputs[worker].push(input);
    }

    /// The first preemption ends.
    pub(super) fn ended(&mut self, outcome: EvictionOutcome) -> Asked {
        let asked = self.asked.remove(0);
        self.tell(asked.worker, Input::EvictionEnded { attempt: asked.attempt, outcome });
        self.settle(asked.worker);
        asked
    }

    pub(super) fn failed(&mut self, left: &[&str]) -> Asked {
        let left = left.iter().map(|uid| (*uid).into()).collect();
        self.ended(EvictionOutcome::Failed { code: None, message: "no".into(), left })
    }

    /// Later by so much: backoffs end on whole seconds.
    pub(super) fn later(&mut self, by: Duration) {
        self.now += by.as_millis() as u64;
    }

    pub(super) fn gated(&self) -> usize {
        self.workers[0].queue.counts().gated
    }

    pub(super) fn nominated(&self, uid: &str) -> Option<String> {
        match self.ledger.borrow().pod(uid) {
            Some(PodState::Pending(pod)) => pod.nominated_node.as_ref().map(ToString::to_string),
            _ => None,
        }
    }

    /// What was reported last.
    pub(super) fn last_report(&self) -> (&str, &NominatedNode) {
        let (_, text, nomination) = self.refusals.last().expect("something was reported");
        (text, nomination)
    }
}

pub(super) const BACKOFF: Duration = Duration::from_secs(11);

#[test]
fn a_pod_of_high_priority_gets_the_capacity_of_its_victims() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("high", 2, 10);
    bench.settle(0);
    assert_eq!((bench.asked.len(), bench.asked[0].node.as_str(), bench.asked[0].victims.len()), (1, "a", 2));
    assert_eq!(bench.last_report(), ("0/1 nodes are available: 1 Insufficient cpu.", &NominatedNode::Set("a".into())));
    assert_eq!((bench.gated(), bench.nominated("high").as_deref()), (1, Some("a")));
    let asked = bench.ended(EvictionOutcome::Done);
    assert_eq!((bench.gated(), bench.workers[0].queue.counts().unschedulable), (0, 1), "it waits for capacity");
    for victim in &asked.victims {
        bench.deleted(victim);
    }
    bench.settle(0);
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1);
    assert_eq!(&*bench.binds[0].3, "a");
    let totals = bench.workers[0].totals.preemption;
    let by_victims: Vec<u64> = totals.victims.buckets().map(|(_, preemptions)| preemptions).collect();
    assert_eq!((totals.attempts, totals.victims.sum(), &*by_victims), (1, 2, &[0, 1, 0, 0, 0, 0, 0, 0][..]));
}

#[test]
fn the_gate_opens_when_all_victims_are_terminating_although_no_answer_came() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("high", 2, 10);
    bench.settle(0);
    let victims = bench.asked[0].victims.clone();
    bench.terminating(&victims[0], "a", true);
    bench.settle(0);
    assert_eq!(bench.gated(), 1, "one of them is not terminating yet");
    bench.terminating(&victims[1], "a", true);
    bench.settle(0);
    assert_eq!(bench.gated(), 0);
    // The answer comes late, and changes nothing.
    bench.ended(EvictionOutcome::Done);
    assert_eq!(bench.workers[0].queue.counts().unschedulable, 1);
}

/// 134217, 134249, 134294: a pod whose victims were terminating had dozens more deleted for it.
#[test]
fn no_second_preemption_before_the_victims_of_the_first_are_deleted_134217() {
    for marked in [true, false] {
        let mut bench = Bench::full(&["a", "b"]);
        bench.waits("high", 2, 10);
        bench.settle(0);
        let asked = bench.ended(EvictionOutcome::Done);
        // Nothing is seen of the deletions yet, and something else makes the pod try again.
        bench.seen(|ledger| ledger.apply_node(&node("tiny", 500, 1 << 30, 1)));
        bench.later(BACKOFF);
        bench.settle(0);
        assert!(bench.asked.is_empty(), "the ledger knows what was asked for");
        let (text, nomination) = bench.last_report();
        assert!(text.ends_with("preemption: not eligible due to a terminating pod on the nominated node."), "{text}");
        assert_eq!(*nomination, NominatedNode::Keep);
        bench.terminating(&asked.victims[0], &asked.node, marked);
        bench.terminating(&asked.victims[1], &asked.node, marked);
        bench.seen(|ledger| ledger.apply_node(&node("tiny2", 500, 1 << 30, 1)));
        bench.later(BACKOFF);
        bench.settle(0);
        // Of the four, one is deleted: not enough yet.
        bench.deleted(&asked.victims[0]);
        bench.settle(0);
        bench.later(BACKOFF);
        bench.settle(0);
        assert!(bench.asked.is_empty() && bench.binds.is_empty());
        bench.deleted(&asked.victims[1]);
        bench.settle(0);
        bench.later(BACKOFF);
        bench.settle(0);
        assert_eq!(bench.binds.len(), 1, "{:?}", bench.refusals.last());
    }
}

/// 66549: one victim was deleted and the next could not be.
#[test]
fn a_preemption_that_fails_in_part_counts_on_what_was_deleted_66549() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("high", 2, 10);
    bench.settle(0);
    let victims = bench.asked[0].victims.clone();
    bench.failed(&[&victims[1]]);
    assert!(bench.refusals.iter().any(|(_, text, _)| text.ends_with("preemption: no")), "{:?}", bench.refusals);
    // It was tried again at once and waits for the one that terminates.
    assert!(bench.asked.is_empty());
    assert!(bench.last_report().0.contains("terminating pod on the nominated node"), "{:?}", bench.last_report());
    bench.deleted(&victims[0]);
    bench.settle(0);
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(bench.asked.len(), 1, "then for the rest");
    assert_eq!(bench.asked[0].victims.len(), 1);
    assert!(!bench.asked[0].victims.contains(&victims[0]));
}

#[test]
fn a_preemption_that_fails_wholly_is_tried_again_at_once_and_then_with_backoff() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("high", 1, 10);
    bench.settle(0);
    let all: Vec<String> = bench.asked[0].victims.clone();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    bench.failed(&all);
    assert_eq!(bench.asked.len(), 1, "at once");
    bench.failed(&all);
    assert_eq!((bench.asked.len(), bench.workers[0].queue.counts().backoff), (0, 1), "not in a loop");
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(bench.asked.len(), 1);
    assert_eq!(bench.workers[0].totals.preemption.failed, 2);
}

/// 70622: victims whose capacity is not needed any more.
#[test]
fn nothing_is_evicted_if_capacity_was_freed_between_decision_and_commit_70622() {
    let bench = Bench::full(&["a"]);
    bench.waits("high", 1, 10);
    let (pod, victim) = {
        let ledger = bench.ledger.borrow();
        let Some(PodState::Pending(pod)) = ledger.pod("high") else { panic!("it waits") };
        (pod.clone(), ledger.pods_on(ledger.nodes().find("a").unwrap())[0].clone())
    };
    let proposal = |seen| crate::ledger::EvictionProposal {
        pod: pod.clone(),
        node: victim.node,
        epoch: bench.ledger.borrow().nodes().epoch[victim.node.index()],
        seen,
        victims: vec![victim.clone()],
    };
    let decided = proposal(bench.ledger.borrow().version());
    bench.deleted("a-3");
    let conflict = bench.seen(|ledger| ledger.commit_eviction(&decided, |_| true)).unwrap_err();
    assert_eq!(conflict, crate::ledger::Conflict::NoLongerFits);
    assert!(!bench.ledger.borrow().is_being_evicted(&victim.uid) && bench.nominated("high").is_none());
    // A deleted victim is no victim.
    bench.deleted(&victim.uid);
    let late = proposal(bench.ledger.borrow().version());
    assert!(bench.seen(|ledger| ledger.commit_eviction(&late, |_| true)).is_err());
}

/// A ledger in which a pod is deleted right before the access `at`.
struct Meddled<'a> {
    ledger: &'a RefCell<Ledger>,
    accesses: Cell<usize>,
    at: usize,
    deletes: &'a str,
}

impl Meddled<'_> {
    fn meddle(&self) {
        if self.accesses.replace(self.accesses.get() + 1) == self.at {
            self.ledger.borrow_mut().delete_pod(self.deletes);
        }
    }
}

impl LedgerAccess for Meddled<'_> {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        self.meddle();
        f(&self.ledger.borrow())
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        self.meddle();
        f(&mut self.ledger.borrow_mut())
    }
}

/// A pod that fitted nowhere when it was looked at, and somewhere when victims were chosen: one victim too many.
#[test]
fn nothing_is_evicted_if_capacity_was_freed_anywhere_since_the_pod_was_found_to_fit_nowhere() {
    for at in 0..6 {
        let bench = Bench::full(&["a", "b"]);
        bench.waits("high", 1, 10);
        let ledger = Meddled { ledger: &bench.ledger, accesses: Cell::new(0), at, deletes: "b-3" };
        let mut worker = Worker::new(bench.workers[0].profile().clone(), 1);
        let mut effects = Vec::new();
        while worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut effects) == Next::Now {}
        let evicts = effects.iter().any(|effect| matches!(effect, Effect::Evict(_)));
        let binds = effects.iter().any(|effect| matches!(effect, Effect::Bind(_)));
        let accesses = ledger.accesses.get();
        assert_ne!(evicts, binds, "before access {at} of {accesses}");
        // A deletion after the preemption is in force comes too late.
        assert!(binds || at >= accesses - 2, "before access {at} of {accesses}");
    }
}

#[test]
fn two_workers_that_want_the_same_victims_make_one_preemption() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("one", 4, 10);
    bench.waits_for("other", "two", 4, 10);
    bench.settle(0);
    bench.settle(1);
    assert_eq!(bench.asked.len(), 1, "the capacity is kept for the first");
    assert_eq!((bench.asked[0].preemptor.as_str(), bench.asked[0].victims.len()), ("one", 4));
    assert!(bench.nominated("two").is_none());
    let (text, nomination) = bench.last_report();
    assert!(text.contains("preemption: ") && *nomination == NominatedNode::Clear, "{text}");
}

/// A pod of higher priority than the preemptor takes the capacity of its victims over, and deletes none a second time.
#[test]
fn a_pod_of_higher_priority_counts_on_the_victims_of_another_preemptor() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("low", 2, 10);
    bench.settle(0);
    let first = bench.asked.remove(0);
    bench.waits_for("other", "top", 3, 20);
    bench.settle(1);
    let second = bench.asked.remove(0);
    assert!(second.victims.iter().all(|victim| !first.victims.contains(victim)), "{:?}", second.victims);
    assert_eq!(second.lower_priority, ["low"]);
    assert!(bench.nominated("low").is_none() && bench.nominated("top").is_some());
    // One that the first preemption asked for stays: the second does not wait for it for ever.
    bench.tell(
        0,
        Input::EvictionEnded {
            attempt: first.attempt,
            outcome: EvictionOutcome::Failed {
                code: None,
                message: "no".into(),
                left: first.victims.iter().map(|uid| uid.as_str().into()).collect(),
            },
        },
    );
    bench.settle(0);
    bench.tell(1, Input::EvictionEnded { attempt: second.attempt, outcome: EvictionOutcome::Done });
    for victim in &second.victims {
        bench.deleted(victim);
    }
    bench.settle(1);
    bench.later(BACKOFF);
    bench.settle(1);
    assert!(!bench.asked.is_empty() || !bench.binds.is_empty(), "{:?}", bench.last_report());
}

/// 72124, 93505: others see the nomination before the API server has it.
#[test]
fn a_nomination_counts_for_all_workers_at_once_72124() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("high", 2, 10);
    bench.settle(0);
    let asked = bench.ended(EvictionOutcome::Done);
    for victim in &asked.victims {
        bench.deleted(victim);
    }
    // The capacity is there, and another worker's pod of lower priority comes first.
    bench.waits_for("other", "thief", 1, 0);
    bench.settle(1);
    assert!(bench.binds.is_empty(), "the capacity is kept for the nominated pod");
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1);
}

/// 95752: the nominated node is out of reach; the pod must not wait there for ever.
#[test]
fn a_nominated_node_that_is_closed_is_left_for_another_95752() {
    let mut bench = Bench::full(&["a", "b"]);
    bench.waits("high", 4, 10);
    bench.settle(0);
    let first = bench.ended(EvictionOutcome::Done);
    bench.seen(|ledger| {
        ledger.apply_node(&crate::model::Node { unschedulable: true, ..node(&first.node, 4000, 64 << 30, 110) });
    });
    bench.later(Duration::from_mins(6));
    bench.settle(0);
    assert_eq!(bench.asked.len(), 1, "{:?}", bench.last_report());
    assert_ne!(bench.asked[0].node, first.node);
    assert_eq!(bench.nominated("high").as_deref(), Some(bench.asked[0].node.as_str()));
}

/// 85677, 106780: a nomination of which nothing can come is ended, and its capacity is for others.
#[test]
fn a_nomination_ends_where_preemption_helps_no_more_85677() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("high", 4, 10);
    bench.settle(0);
    let asked = bench.ended(EvictionOutcome::Done);
    for victim in &asked.victims {
        bench.deleted(victim);
    }
    bench.runs("system", "a", 100);
    bench.settle(0);
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!((bench.nominated("high"), bench.last_report().1), (None, &NominatedNode::Clear));
    bench.waits_for("other", "small", 1, 0);
    bench.settle(1);
    assert_eq!(bench.binds.len(), 1, "what is left is for whoever fits");
}

/// The victims of a node that is gone stay until somebody collects them.
#[test]
fn a_nomination_ends_where_its_node_was_deleted_under_the_victims() {
    let mut bench = Bench::full(&["a"]);
    bench.seen(|ledger| ledger.apply_node(&node("small", 1000, 64 << 30, 110)));
    bench.waits("high", 4, 10);
    bench.settle(0);
    let asked = bench.ended(EvictionOutcome::Done);
    assert_eq!(bench.nominated("high").as_deref(), Some("a"));
    bench.seen(|ledger| ledger.delete_node("a"));
    bench.settle(0);
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(
        (bench.nominated("high"), bench.last_report().1),
        (None, &NominatedNode::Clear),
        "{:?}",
        bench.last_report()
    );
    for victim in &asked.victims {
        bench.deleted(victim);
    }
    bench.settle(0);
}

#[test]
fn a_deleted_preemptor_leaves_no_nomination() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("high", 2, 10);
    bench.settle(0);
    bench.deleted("high");
    bench.settle(0);
    assert_eq!((bench.gated(), bench.ledger.borrow().nominations().is_empty()), (0, true));
    // What terminates all the same is not evicted a second time: the next pod counts on it.
    bench.waits("next", 2, 10);
    bench.settle(0);
    assert_eq!((bench.asked.len(), bench.nominated("next").as_deref()), (1, Some("a")));
    let first = bench.ended(EvictionOutcome::Done);
    for victim in &first.victims {
        bench.deleted(victim);
    }
    bench.settle(0);
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1);
}

#[test]
fn the_assumption_of_a_victim_that_waits_for_its_volumes_is_undone_and_the_victim_not_deleted() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_node(&node_in("a", "x"));
        ledger.apply_storage_class(waiting_class("made", "driver"));
        ledger.apply_claim(claim("c", "made", 1));
        ledger.apply_pod(Pod { volumes: using("p", &["c"]).volumes, ..pod("p", shape_of(4000, 1 << 20)) });
    });
    bench.settle(0);
    assert!(matches!(bench.ledger.borrow().pod("p"), Some(PodState::Assumed { waits: true, .. })));
    bench.waits_for("other", "high", 2, 10);
    bench.settle(1);
    let asked = bench.asked.remove(0);
    assert_eq!((asked.victims.len(), asked.taken_back), (0, vec!["p".to_owned()]));
    assert!(matches!(bench.ledger.borrow().pod("p"), Some(PodState::Pending(_))));
    assert!(!bench.seen(|ledger| ledger.begin_bind("p")), "its worker may be about to bind it");
    bench.settle(0);
    assert!(
        bench.last_report().0.contains("preempted by a pod of higher priority before it was bound"),
        "{:?}",
        bench.last_report()
    );
    assert_eq!((bench.workers[0].queue.counts().backoff, bench.workers[0].volumes.len()), (1, 0));
    bench.later(BACKOFF);
    bench.settle(1);
    assert_eq!(bench.binds.len(), 1, "nothing was to be waited for: {:?}", bench.last_report());
}

#[test]
fn a_victim_whose_bind_was_sent_is_deleted_like_any_other() {
    let mut bench = Bench::new();
    bench.seen(|ledger| ledger.apply_node(&node("a", 4000, 64 << 30, 110)));
    bench.waits("p", 4, 0);
    bench.settle(0);
    bench.waits_for("other", "high", 2, 10);
    bench.settle(1);
    assert_eq!(bench.asked[0].victims, ["p"]);
    // The deletion comes first, and the bind finds no pod.
    let (worker, attempt, ..) = bench.binds.remove(0);
    bench.tell(worker, Input::BindEnded { attempt, outcome: crate::io::BindOutcome::PodDeleted });
    bench.settle(0);
    bench.ended(EvictionOutcome::Done);
    bench.later(BACKOFF);
    bench.settle(1);
    assert_eq!(bench.binds.len(), 1);
}
