//! Attempts that ask extenders, with scripted answers: one test a rule.

use super::*;
use crate::io::{
    BindRequest, EvictRequest, ExtenderError, ExtenderErrorKind, ExtenderQuestion, ExtenderReply, ExtenderRequest,
    NodeVictims, NominateRequest, Refusal, RefusalReason,
};
use crate::ledger::Ledger;
use crate::model::{Node, Pod, PodShape};
use crate::profile::{Extender, OnFailure, Preemption, Score};
use crate::testing::{extender, node, pod, shape, shape_of};
use std::cell::RefCell;

const GIB: i64 = 1 << 30;

pub(super) fn filter(name: &str, on_failure: OnFailure) -> Extender {
    Extender { filter: Some(on_failure), ..extender(name) }
}

pub(super) fn scorer(name: &str, on_failure: OnFailure) -> Extender {
    Extender { prioritize: Some(on_failure), ..extender(name) }
}

/// A profile under which free nodes are alike, so that only extenders tell them apart.
pub(super) fn profile(extenders: Vec<Extender>) -> CompiledProfile {
    let scores = vec![(Score::TaintToleration, 1)];
    let preemption = Preemption { enabled: false, ..Preemption::default() };
    CompiledProfile { scores, preemption, extenders, ..CompiledProfile::default_preset("test") }
}

pub(super) fn strs(names: &str) -> Vec<Str> {
    names.split_whitespace().map(Into::into).collect()
}

/// Keeps these nodes and has no message about the others.
pub(super) fn keeps(names: &str) -> ExtenderReply {
    ExtenderReply::Filter { survivors: Some(strs(names)), failed: Vec::new(), unresolvable: Vec::new() }
}

pub(super) fn scores(scores: &[(&str, i64)]) -> ExtenderReply {
    ExtenderReply::Prioritize(scores.iter().map(|(name, score)| ((*name).into(), *score)).collect())
}

fn messages(pairs: &[(&str, &str)]) -> Vec<(Str, Str)> {
    pairs.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect()
}

pub(super) fn broken() -> ExtenderError {
    ExtenderError { kind: ExtenderErrorKind::Timeout, message: "no answer within 2s".into() }
}

/// `node:victims`.
fn named(one: &NodeVictims) -> Str {
    format!("{}:{}", one.node, one.victims.join(",")).into()
}

/// A question that was put.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) attempt: AttemptId,
    pub(super) extender: usize,
    pub(super) pod: String,
    pub(super) verb: &'static str,
    pub(super) nodes: String,
}

/// One worker, and whatever it wants done.
pub(super) struct Bench {
    pub(super) ledger: RefCell<Ledger>,
    pub(super) worker: Worker,
    pub(super) inputs: Vec<Input>,
    pub(super) asked: Vec<Asked>,
    /// Pod, node, and which extender binds.
    pub(super) binds: Vec<(AttemptId, String, String, Option<usize>)>,
    /// Attempt, pod, `node:victims`, and the victims.
    pub(super) evictions: Vec<(AttemptId, String, String, Vec<Str>)>,
    pub(super) refusals: Vec<(String, RefusalReason, String)>,
    pub(super) now: u64,
}

impl Bench {
    pub(super) fn new(profile: CompiledProfile, nodes: &str) -> Self {
        let bench = Self {
            ledger: RefCell::new(Ledger::new()),
            worker: Worker::new(Arc::new(profile), 1),
            inputs: Vec::new(),
            asked: Vec::new(),
            binds: Vec::new(),
            evictions: Vec::new(),
            refusals: Vec::new(),
            now: 0,
        };
        for name in nodes.split_whitespace() {
            bench.node(&node(name, 1000, GIB, 10));
        }
        bench
    }

    pub(super) fn node(&self, node: &Node) {
        self.ledger.borrow_mut().apply_node(node);
    }

    pub(super) fn pod(&self, pod: Pod) {
        self.ledger.borrow_mut().apply_pod(pod);
    }

    pub(super) fn step(&mut self) -> Next {
        let mut effects = Vec::new();
        let now = Time::from_millis(self.now);
        let next = self.worker.step(now, &mut self.inputs, &self.ledger, &mut effects);
        for effect in effects {
            match effect {
                Effect::Bind(BindRequest { attempt, pod, node, extender, .. }) => {
                    let extender = extender.map(|name| self.place_of(&name));
                    self.binds.push((attempt, pod.key.name.to_string(), node.to_string(), extender));
                }
                Effect::Refuse(Refusal { pod, reason, text, .. }) => {
                    self.refusals.push((pod.key.name.to_string(), reason, text.to_string()));
                }
                Effect::AskExtender(ExtenderRequest { attempt, extender, pod, question }) => {
                    let (verb, nodes) = match question {
                        ExtenderQuestion::Filter { nodes } => ("filter", nodes),
                        ExtenderQuestion::Prioritize { nodes } => ("prioritize", nodes),
                        ExtenderQuestion::Preempt { candidates } => ("preempt", candidates.iter().map(named).collect()),
                    };
                    let mut nodes = nodes.to_vec();
                    nodes.sort();
                    let (pod, nodes) = (pod.key.name.to_string(), nodes.join(" "));
                    let extender = self.place_of(&extender);
                    self.asked.push(Asked { attempt, extender, pod, verb, nodes });
                }
                Effect::Evict(EvictRequest { attempt, preemptor, node, victims, .. }) => {
                    let victims: Vec<Str> = victims.iter().map(|placed| placed.uid.clone()).collect();
                    let of = preemptor.key.name.to_string();
                    self.evictions.push((attempt, of, format!("{node}:{}", victims.join(",")), victims));
                }
                // A pause of the profile ends nominations.
                Effect::Nominate(NominateRequest { node: None, .. }) => {}
                other => panic!("not here: {other:?}"),
            }
        }
        next
    }

    pub(super) fn tell(&mut self, input: Input) {
        self.worker.delivered(&input, &mut self.ledger.borrow_mut());
        self.inputs.push(input);
    }

    fn place_of(&self, extender: &str) -> usize {
        self.worker.profile().extenders.iter().position(|one| &*one.name == extender).unwrap()
    }

    pub(super) fn settle(&mut self) {
        while self.step() == Next::Now {}
    }

    /// Answers the oldest question that is open.
    pub(super) fn answer(&mut self, answer: Result<ExtenderReply, ExtenderError>) -> Asked {
        let asked = self.asked.remove(0);
        self.reply(&asked, answer);
        self.settle();
        asked
    }

    pub(super) fn reply(&mut self, asked: &Asked, answer: Result<ExtenderReply, ExtenderError>) {
        let attempt = asked.attempt;
        let named = self.worker.profile().extenders.get(asked.extender);
        let extender = named.map_or_else(|| "unknown".into(), |extender| extender.name.clone());
        self.inputs.push(Input::ExtenderAnswered { attempt, extender, answer });
    }

    pub(super) fn parked(&self) -> usize {
        self.worker.parked.len()
    }

    /// The questions that are open, as extender, verb and nodes.
    pub(super) fn open(&self) -> Vec<(usize, &str, &str)> {
        self.asked.iter().map(|asked| (asked.extender, asked.verb, &*asked.nodes)).collect()
    }

    pub(super) fn placed(&self) -> Vec<(&str, &str)> {
        self.binds.iter().map(|(_, pod, node, _)| (&**pod, &**node)).collect()
    }

    pub(super) fn one_refusal(&self) -> (RefusalReason, &str) {
        assert_eq!(self.refusals.len(), 1, "{:?}", self.refusals);
        (self.refusals[0].1, &self.refusals[0].2)
    }

    /// Nothing is parked, and the books are right.
    pub(super) fn assert_clean(&self) {
        assert_eq!(self.parked(), 0);
        assert!(self.worker.parked.unanswered.iter().all(|count| *count == 0), "{:?}", self.worker.parked);
        let parked = self.worker.popped.len();
        assert_eq!(parked, self.worker.binding.len(), "only binds are on the way");
        self.ledger.borrow().audit().expect("the columns equal the sums of the pods");
    }
}

#[test]
fn filters_are_asked_one_after_another_on_what_is_left_and_scores_all_at_once() {
    let both = |name| Extender { prioritize: Some(OnFailure::Ignore), ..filter(name, OnFailure::Fail) };
    let extenders = vec![both("x"), scorer("y", OnFailure::Ignore), both("z")];
    let mut bench = Bench::new(profile(extenders), "a b c d");
    bench.node(&node("small", 10, GIB, 10));
    bench.pod(pod("p", shape_of(100, 0)));
    bench.settle();
    assert_eq!(bench.open(), [(0, "filter", "a b c d")], "own filters first");
    bench.answer(Ok(keeps("d b a")));
    assert_eq!(bench.open(), [(2, "filter", "a b d")]);
    bench.answer(Ok(keeps("a b")));
    assert_eq!(bench.open(), [(0, "prioritize", "a b"), (1, "prioritize", "a b"), (2, "prioritize", "a b")]);
    bench.asked.swap(0, 2);
    bench.answer(Ok(scores(&[("b", 1)])));
    bench.answer(Ok(scores(&[("a", 3)])));
    assert!(bench.binds.is_empty(), "one has not answered");
    bench.answer(Ok(scores(&[("b", 3), ("c", 10)])));
    assert_eq!(bench.placed(), [("p", "b")]);
    bench.assert_clean();
}

/// Upstream takes the nodes that an extender hands back for empty ones (141781).
#[test]
fn survivors_are_scored_with_the_pods_on_them() {
    let scores = CompiledProfile::default_preset("test").scores;
    let profile = CompiledProfile { scores, ..profile(vec![filter("x", OnFailure::Fail)]) };
    let mut bench = Bench::new(profile, "a b");
    bench.pod(Pod { node_name: Some("b".into()), ..pod("placed", shape_of(900, 0)) });
    for name in ["p", "q", "r"] {
        bench.pod(pod(name, shape_of(10, 0)));
        bench.settle();
        bench.answer(Ok(keeps("a b")));
    }
    assert_eq!(bench.placed(), [("p", "a"), ("q", "a"), ("r", "a")]);
    bench.assert_clean();
}

#[test]
fn an_extender_that_leaves_no_node_is_the_last_and_its_messages_join_ours() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail), filter("y", OnFailure::Fail)]), "a b c d e");
    bench.node(&node("small", 10, GIB, 10));
    bench.pod(pod("p", shape_of(100, 0)));
    bench.settle();
    bench.answer(Ok(ExtenderReply::Filter {
        survivors: Some(Vec::new()),
        failed: messages(&[("a", "no gpu"), ("b", "Insufficient cpu"), ("c", "no gpu"), ("small", "not asked about")]),
        unresolvable: messages(&[("c", "no driver")]),
    }));
    assert!(bench.asked.is_empty(), "nothing is left to ask about");
    let text = "0/6 nodes are available: 1 no driver, 1 no gpu, 2 Insufficient cpu.";
    assert_eq!(bench.one_refusal(), (RefusalReason::Unschedulable, text), "d and e are left out without a message");
    bench.assert_clean();
}

#[test]
fn a_reply_without_nodes_leaves_none_and_a_full_list_leaves_all() {
    for (survivors, placed) in [(None, 0), (Some(strs("a b")), 1), (Some(strs("b a a")), 1)] {
        let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Ignore)]), "a b");
        bench.pod(pod("p", shape()));
        bench.settle();
        bench.answer(Ok(ExtenderReply::Filter { survivors, failed: Vec::new(), unresolvable: Vec::new() }));
        assert_eq!(bench.binds.len(), placed);
        if placed == 0 {
            assert_eq!(bench.one_refusal().1, "0/2 nodes are available:");
        }
        bench.assert_clean();
    }
}

#[test]
fn a_survivor_that_was_not_asked_about_is_an_error_that_may_be_ignored() {
    let text = "extender \"http://x\" claims a filtered node \"nowhere\" which is not found in the input node list";
    for on_failure in [OnFailure::Fail, OnFailure::Ignore] {
        let mut bench = Bench::new(profile(vec![filter("x", on_failure)]), "a b");
        bench.pod(pod("p", shape()));
        bench.settle();
        bench.answer(Ok(keeps("a nowhere")));
        if on_failure == OnFailure::Fail {
            assert_eq!(bench.one_refusal(), (RefusalReason::SchedulerError, text));
            assert!(bench.binds.is_empty());
        } else {
            assert_eq!((bench.binds.len(), bench.refusals.len()), (1, 0), "as if it were not there");
        }
        bench.assert_clean();
    }
}

#[test]
fn a_failed_filter_fails_the_attempt_which_waits_out_its_backoff_or_for_the_recovery() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail)]), "a b");
    bench.pod(pod("p", shape()));
    bench.settle();
    bench.answer(Err(broken()));
    let text = "extender \"http://x\" failed to filter: no answer within 2s";
    assert_eq!(bench.one_refusal(), (RefusalReason::SchedulerError, text));
    assert_eq!((bench.asked.len(), bench.worker.queue.counts().backoff), (0, 1), "not asked again at once");
    bench.now = 2_500;
    bench.settle();
    assert_eq!(bench.open().len(), 1, "the backoff is over");
    bench.answer(Err(broken()));
    assert!(bench.open().is_empty());
    bench.inputs.push(Input::ExtenderRecovered);
    bench.settle();
    assert_eq!(bench.open().len(), 1, "no need to wait any longer");
    bench.answer(Ok(keeps("b")));
    assert_eq!(bench.placed(), [("p", "b")]);
    bench.assert_clean();
}

fn left_alone() -> ExtenderError {
    ExtenderError { kind: ExtenderErrorKind::CircuitOpen, message: "x is not asked to filter at present".into() }
}

/// The probe's answer overtakes the refusals of those that were turned away beside it.
#[test]
fn pods_that_were_turned_away_while_the_probe_ran_are_tried_when_the_extender_recovers() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail)]), "a b");
    for name in ["p", "q", "r"] {
        bench.pod(pod(name, shape()));
    }
    bench.settle();
    let [probe, q, r] = <[Asked; 3]>::try_from(std::mem::take(&mut bench.asked)).unwrap();
    bench.inputs.push(Input::ExtenderRecovered);
    bench.reply(&probe, Ok(keeps("a")));
    bench.reply(&q, Err(left_alone()));
    bench.settle();
    bench.reply(&r, Err(left_alone()));
    bench.settle();
    let mut again: Vec<String> = bench.asked.iter().map(|asked| asked.pod.clone()).collect();
    again.sort();
    assert_eq!(again, ["q", "r"], "neither waits out its backoff");
    for asked in std::mem::take(&mut bench.asked) {
        bench.reply(&asked, Err(left_alone()));
    }
    bench.settle();
    assert!(bench.asked.is_empty(), "that was asked after the recovery");
}

#[test]
fn while_the_circuit_of_an_extender_is_open_one_pod_a_second_is_tried() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail)]), "a b");
    for name in ["p", "q"] {
        bench.pod(pod(name, shape()));
    }
    bench.settle();
    let mut asked = Vec::new();
    // Backoffs grow to ten seconds meanwhile.
    for second in 0..60 {
        bench.now = 1_000 * second + 500;
        bench.settle();
        for one in std::mem::take(&mut bench.asked) {
            asked.push((second, one.pod.clone()));
            bench.reply(&one, Err(left_alone()));
        }
        bench.settle();
        assert!(bench.asked.is_empty(), "not again within the second {second}");
    }
    let late: Vec<u64> = asked.iter().map(|(second, _)| *second).filter(|second| *second >= 20).collect();
    assert!((40..=80).contains(&late.len()), "{late:?}");
    for name in ["p", "q"] {
        assert!(asked.iter().any(|(second, pod)| *second >= 40 && pod == name), "they take turns");
    }
}

#[test]
fn a_failed_filter_that_is_ignored_leaves_everything_to_the_others() {
    let extenders = vec![filter("x", OnFailure::Ignore), filter("y", OnFailure::Fail)];
    let mut bench = Bench::new(profile(extenders), "a b");
    bench.pod(pod("p", shape()));
    bench.settle();
    bench.answer(Err(broken()));
    assert_eq!(bench.open(), [(1, "filter", "a b")]);
    bench.answer(Ok(keeps("b")));
    assert_eq!(bench.placed(), [("p", "b")]);
    assert!(bench.refusals.is_empty());
}

#[test]
fn failed_scores_are_left_out_unless_they_are_to_fail_the_attempt() {
    for on_failure in [OnFailure::Ignore, OnFailure::Fail] {
        let mut bench = Bench::new(profile(vec![scorer("x", on_failure), scorer("y", OnFailure::Ignore)]), "a b");
        bench.pod(pod("p", shape()));
        bench.settle();
        bench.answer(Err(broken()));
        if on_failure == OnFailure::Fail {
            let text = "extender \"http://x\" failed to prioritize: no answer within 2s";
            assert_eq!(bench.one_refusal(), (RefusalReason::SchedulerError, text));
            bench.answer(Ok(scores(&[("b", 1)])));
            assert!(bench.binds.is_empty(), "the attempt is over");
        } else {
            bench.answer(Ok(scores(&[("b", 1)])));
            assert_eq!(bench.placed(), [("p", "b")]);
        }
        bench.assert_clean();
    }
}

#[test]
fn an_answer_to_another_question_is_a_failure() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail)]), "a b");
    bench.pod(pod("p", shape()));
    bench.settle();
    bench.answer(Ok(scores(&[("a", 1)])));
    assert_eq!(bench.one_refusal().1, "extender \"http://x\" failed to filter: the answer is to another question");
    bench.assert_clean();
}

#[test]
fn one_feasible_node_is_not_scored() {
    let both = Extender { prioritize: Some(OnFailure::Ignore), ..filter("x", OnFailure::Fail) };
    let mut bench = Bench::new(profile(vec![both.clone()]), "a b");
    bench.pod(pod("p", shape()));
    bench.settle();
    bench.answer(Ok(keeps("a")));
    assert_eq!(bench.placed(), [("p", "a")], "one was left by the filter");
    let mut bench = Bench::new(profile(vec![scorer("x", OnFailure::Fail)]), "a");
    bench.pod(pod("p", shape()));
    bench.settle();
    assert_eq!(bench.placed(), [("p", "a")], "one was there");
    bench.assert_clean();
}

#[test]
fn pods_that_no_extender_concerns_are_placed_without_asking() {
    let gpu: Str = "example.com/gpu".into();
    let managing = Extender { managed: vec![gpu.clone()], ..filter("x", OnFailure::Fail) };
    let mut bench = Bench::new(profile(vec![managing]), "a b");
    let mut with_gpu = node("g", 1000, GIB, 10);
    with_gpu.allocatable.set_scalar(gpu.clone(), 4);
    bench.node(&with_gpu);
    let mut asks = shape();
    asks.row_mut().requests.set_scalar(gpu, 1);
    bench.pod(pod("plain", shape()));
    bench.pod(pod("gpu", asks));
    bench.settle();
    assert_eq!((bench.binds.len(), bench.open()), (1, vec![(0, "filter", "g")]));
    bench.answer(Ok(keeps("g")));
    assert_eq!(bench.binds.len(), 2);
    bench.assert_clean();
}

#[test]
fn where_own_filters_leave_no_node_no_extender_is_asked() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail)]), "a b");
    bench.pod(pod("p", shape_of(5000, 0)));
    bench.settle();
    assert!(bench.asked.is_empty());
    assert_eq!(bench.one_refusal().1, "0/2 nodes are available: 2 Insufficient cpu.");
    assert_eq!(bench.worker.queue.counts().unschedulable, 1, "it waits for the cluster, not for an extender");
}

#[test]
fn a_pod_refused_by_an_extender_is_tried_again_after_backoff_and_not_before_122019() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail)]), "a b");
    bench.pod(pod("p", shape()));
    for (asked_at, quiet_until) in [(0, 1_900), (2_000, 4_900), (5_000, 9_900), (10_000, 18_900)] {
        bench.now = asked_at;
        bench.settle();
        assert_eq!(bench.open().len(), 1, "asked at {asked_at}");
        bench.answer(Ok(keeps("")));
        let counts = bench.worker.queue.counts();
        assert_eq!((counts.backoff, counts.unschedulable), (1, 0));
        bench.now = quiet_until;
        bench.node(&node("another", 10, 0, 10));
        bench.settle();
        assert!(bench.asked.is_empty(), "the extender is left in peace until {quiet_until}");
    }
    bench.inputs.push(Input::ExtenderRecovered);
    bench.settle();
    assert_eq!(bench.open().len(), 1);
    assert!(bench.refusals.iter().all(|(_, reason, _)| *reason == RefusalReason::Unschedulable));
}

#[test]
fn the_nominated_node_is_asked_about_alone_and_taken_without_scores() {
    let both = Extender { prioritize: Some(OnFailure::Fail), ..filter("x", OnFailure::Fail) };
    let extenders = vec![both, filter("y", OnFailure::Fail)];
    let nominated = || Pod { nominated_node: Some("b".into()), ..pod("p", shape()) };
    let mut bench = Bench::new(profile(extenders.clone()), "a b c");
    bench.pod(nominated());
    bench.settle();
    assert_eq!(bench.open(), [(0, "filter", "b")]);
    bench.answer(Ok(keeps("b")));
    assert_eq!(bench.open(), [(1, "filter", "b")]);
    bench.answer(Ok(keeps("b")));
    assert_eq!(bench.placed(), [("p", "b")]);
    for refusal in [Ok(keeps("")), Err(broken())] {
        let mut bench = Bench::new(profile(extenders.clone()), "a b c");
        bench.pod(nominated());
        bench.settle();
        bench.answer(refusal);
        assert_eq!(bench.open(), [(0, "filter", "a b c")], "all nodes are looked at");
        bench.answer(Ok(keeps("c")));
        bench.answer(Ok(keeps("c")));
        assert_eq!(bench.placed(), [("p", "c")]);
        bench.assert_clean();
    }
}

#[test]
fn a_message_about_the_nominated_node_is_reported_unless_there_is_a_newer_one() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail)]), "a b");
    bench.pod(Pod { nominated_node: Some("b".into()), ..pod("p", shape()) });
    bench.settle();
    let (failed, unresolvable) = (messages(&[("b", "taken")]), Vec::new());
    bench.answer(Ok(ExtenderReply::Filter { survivors: Some(Vec::new()), failed, unresolvable }));
    bench.answer(Ok(keeps("")));
    assert_eq!(bench.one_refusal().1, "0/2 nodes are available: 1 taken.");
}

#[test]
fn survivors_are_filtered_again_and_a_conflict_is_asked_about_anew() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail)]), "a b c");
    bench.pod(pod("p", shape_of(600, 0)));
    bench.settle();
    // Meanwhile a is filled, c is deleted, and b is replaced by a node of the same name.
    bench.pod(Pod { node_name: Some("a".into()), ..pod("q", shape_of(600, 0)) });
    bench.ledger.borrow_mut().delete_node("c");
    bench.node(&Node { uid: "new".into(), ..node("b", 1000, GIB, 10) });
    bench.answer(Ok(keeps("a b c")));
    assert!(bench.binds.is_empty());
    assert_eq!(bench.worker.totals.conflicts, 1);
    assert_eq!(bench.open(), [(0, "filter", "b")], "tried again at once");
    bench.answer(Ok(keeps("b")));
    assert_eq!(bench.placed(), [("p", "b")]);
    bench.assert_clean();
}

#[test]
fn conflicts_without_end_are_an_error() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail)]), "a b");
    bench.pod(pod("p", shape_of(600, 0)));
    bench.settle();
    let mut questions = 0;
    while let Some(asked) = bench.asked.first().cloned() {
        // The nodes it was asked about are deleted by the time it answers.
        questions += 1;
        for name in ["a", "b"] {
            bench.node(&Node { uid: format!("{name}{questions}").into(), ..node(name, 1000, GIB, 10) });
        }
        bench.answer(Ok(keeps(&asked.nodes)));
    }
    assert_eq!((questions, bench.worker.totals.conflicts, bench.worker.totals.errors), (4, 4, 1));
    let text = "the nodes found changed before they could be taken, several times in a row; to be tried again";
    assert_eq!(bench.one_refusal(), (RefusalReason::SchedulerError, text));
    assert_eq!(bench.worker.queue.counts().backoff, 1);
    bench.assert_clean();
}

#[test]
fn the_worker_goes_on_with_other_pods_and_decides_by_the_cluster_as_it_is_then() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail)]), "a b");
    for name in ["p", "q"] {
        bench.pod(pod(name, shape_of(600, 0)));
    }
    bench.settle();
    assert_eq!(bench.parked(), 2, "both wait");
    bench.answer(Ok(keeps("a b")));
    let first = bench.binds[0].2.clone();
    bench.answer(Ok(keeps("a b")));
    assert_ne!(bench.binds[1].2, first, "only the other has capacity");
    bench.assert_clean();
}

#[test]
fn the_extender_that_binds_is_named() {
    let binder = Extender { binds: true, managed: vec!["example.com/gpu".into()], ..extender("x") };
    let mut bench = Bench::new(profile(vec![extender("w"), binder]), "a");
    let mut with_gpu = node("g", 1000, GIB, 10);
    with_gpu.allocatable.set_scalar("example.com/gpu".into(), 1);
    bench.node(&with_gpu);
    let mut asks: PodShape = shape();
    asks.row_mut().requests.set_scalar("example.com/gpu".into(), 1);
    bench.pod(pod("gpu", asks));
    bench.pod(pod("plain", shape_of(900, 0)));
    bench.settle();
    let mut binds: Vec<_> = bench.binds.iter().map(|(_, pod, _, by)| (&**pod, *by)).collect();
    binds.sort_unstable();
    assert_eq!(binds, [("gpu", Some(1)), ("plain", None)]);
    assert!(bench.asked.is_empty(), "who only binds is not asked");
}
