use super::{ExtenderPreemptState, Limits, Outcome, Reply, Search};
use crate::cycle::Scheduler;
use crate::extender::{ExtenderError, ExtenderErrorKind, ExtenderQuestion, ExtenderReply, NodeVictims};
use crate::ledger::{Ledger, PodState};
use crate::model::Pod;
use crate::plugins::Work;
use crate::profile::{CompiledProfile, Extender, OnFailure};
use crate::testing::{extender, node, pod, shape_of};
use std::sync::Arc;

fn on(node: &str, name: &str, priority: i32) -> Pod {
    Pod { node_name: Some(node.into()), priority, started_unix_us: Some(1), ..pod(name, shape_of(900, 0)) }
}

/// Three full nodes, and a pod of priority 100 that needs one of them.
fn cluster() -> (Ledger, Arc<Pod>) {
    let mut ledger = Ledger::new();
    for name in ["a", "b", "c"] {
        ledger.apply_node(&node(name, 1000, 1 << 30, 10));
    }
    for (to, name, priority) in [("a", "low", 1), ("b", "mid", 5), ("c", "high", 50)] {
        ledger.apply_pod(on(to, name, priority));
    }
    ledger.apply_pod(Pod { node_name: Some("a".into()), priority: 200, ..pod("above", shape_of(50, 0)) });
    ledger.apply_pod(Pod { node_name: Some("a".into()), is_static: true, ..pod("static", shape_of(10, 0)) });
    ledger.apply_pod(Pod { priority: 100, ..pod("waits", shape_of(500, 0)) });
    let Some(PodState::Pending(waits)) = ledger.pod("waits").cloned() else { panic!("pending") };
    (ledger, waits)
}

fn preempting(name: &str, preempt: Option<OnFailure>) -> Extender {
    Extender { preempt, ..extender(name) }
}

/// Nodes with their victims, `a:low,x c:high`.
#[allow(clippy::unnecessary_wraps, reason = "an answer may be an error")]
fn reply(text: &str) -> Result<ExtenderReply, ExtenderError> {
    let one = |part: &str| {
        let (node, victims) = part.split_once(':').expect("node:victims");
        let victims = victims.split(',').filter(|uid| !uid.is_empty()).map(Into::into).collect();
        NodeVictims { node: node.into(), victims, budget_violations: 0 }
    };
    Ok(ExtenderReply::Preempt(text.split_whitespace().map(one).collect()))
}

fn question_text(question: &ExtenderQuestion) -> String {
    let ExtenderQuestion::Preempt { candidates } = question else { panic!("{question:?}") };
    let one = |one: &NodeVictims| format!("{}:{}", one.node, one.victims.join(","));
    candidates.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Lets the extenders answer in turn; gives the questions, and the victims that are evicted in the end or the message.
fn preempt(extenders: Vec<Extender>, answers: Vec<Result<ExtenderReply, ExtenderError>>) -> (Vec<String>, String) {
    let (ledger, waits) = cluster();
    let profile = Arc::new(CompiledProfile { extenders, ..CompiledProfile::default_preset("test") });
    let mut scheduler = Scheduler::new(profile.clone(), 1);
    let limits = Limits { search: Search::Everywhere, ..Limits::at(1_000_000) };
    let candidates = scheduler.preemption_candidates(&ledger, &waits, &limits).expect("evictions help");
    let mut asked = Vec::new();
    let left = match ExtenderPreemptState::begin(&profile, &ledger, &waits, candidates) {
        Err(candidates) => candidates,
        Ok(mut state) => {
            let mut answers = answers.into_iter();
            loop {
                asked.push(question_text(&state.question().1));
                let answer = answers.next().expect("an answer to each question");
                match state.answer(&profile, &ledger, &limits, answer) {
                    Reply::Ask => {}
                    Reply::Done => break state.candidates(&ledger),
                    Reply::Failed(text) => return (asked, text.to_string()),
                }
            }
        }
    };
    let outcome = match scheduler.pick(&ledger, &waits, left) {
        Outcome::Evict(plan) => {
            assert!(
                scheduler.plan_still_valid(
                    &ledger,
                    &plan,
                    &limits,
                    (&mut super::DryRuns::default(), &mut Work::unbounded())
                ),
                "the plan is valid"
            );
            let victims: Vec<&str> = plan.victims.iter().map(|placed| &*placed.uid).collect();
            format!("{}:{}", ledger.nodes().name(plan.node), victims.join(","))
        }
        Outcome::NotEligible(text) | Outcome::NotHelpful(text) => text,
        Outcome::Failed(text) => text.to_string(),
        Outcome::Fits => "fits".to_owned(),
    };
    (asked, outcome)
}

const FAIL: Option<OnFailure> = Some(OnFailure::Fail);
const IGNORE: Option<OnFailure> = Some(OnFailure::Ignore);

fn broken() -> Result<ExtenderReply, ExtenderError> {
    Err(ExtenderError { kind: ExtenderErrorKind::Timeout, message: "no answer within 2s".into() })
}

#[test]
fn each_extender_is_asked_about_what_the_one_before_left() {
    let extenders = vec![preempting("x", FAIL), preempting("w", None), preempting("y", FAIL)];
    let (asked, outcome) = preempt(extenders, vec![reply("c:high b:mid"), reply("c:high")]);
    assert_eq!(asked, ["a:low b:mid c:high", "b:mid c:high"]);
    assert_eq!(outcome, "c:high");
}

#[test]
fn without_an_extender_that_preempts_none_is_asked() {
    let (asked, outcome) = preempt(vec![preempting("x", None)], Vec::new());
    assert_eq!((asked.len(), &*outcome), (0, "a:low"));
}

#[test]
fn an_empty_answer_ends_the_preemption() {
    let (asked, outcome) = preempt(vec![preempting("x", FAIL), preempting("y", FAIL)], vec![reply("")]);
    assert_eq!((asked.len(), &*outcome), (1, "preemption: no candidate node for preemption"));
}

#[test]
fn failures_end_the_preemption_unless_they_are_ignored() {
    let timed_out = "preemption: extender \"http://x\" failed to preempt: no answer within 2s";
    let nobody = "preemption: expected at least one victim pod on node \"b\"";
    let unknown = "preemption: extender: http://x claims to preempt pod (UID: nobody) on node: b, but the pod is not found on that node";
    let elsewhere = "preemption: extender: http://x claims to preempt pod (UID: mid) on node: c, but the pod is not found on that node";
    let gone = "preemption: extender: http://x claims to preempt pod (UID: low) on node: gone, but the pod is not found on that node";
    let protected = "preemption: extender: http://x claims to preempt pod default/above on node: a, which may not be evicted for this pod";
    let fixed = "preemption: extender: http://x claims to preempt pod default/static on node: a, which may not be evicted for this pod";
    let other = "preemption: extender \"http://x\" failed to preempt: the answer is to another question";
    for (answer, text, ignored) in [
        (broken(), timed_out, "a:low"),
        (reply("c:high b:"), nobody, "c:high"),
        (reply("b:mid,nobody"), unknown, "a:low"),
        (reply("c:mid"), elsewhere, "a:low"),
        (reply("gone:low"), gone, "a:low"),
        (reply("a:low,above"), protected, "a:low"),
        (reply("a:static,low"), fixed, "a:low"),
        (Ok(ExtenderReply::Prioritize(Vec::new())), other, "a:low"),
    ] {
        assert_eq!(preempt(vec![preempting("x", FAIL)], vec![answer.clone()]).1, text);
        assert_eq!(preempt(vec![preempting("x", IGNORE)], vec![answer]).1, ignored, "{text}");
    }
}

#[test]
fn a_victim_that_is_named_again_counts_once() {
    let extenders = vec![preempting("x", FAIL), preempting("y", FAIL)];
    let (asked, outcome) = preempt(extenders, vec![reply("a:low,low b:mid,mid"), reply("a:low,low,low")]);
    assert_eq!(asked[1], "a:low b:mid");
    assert_eq!(outcome, "a:low");
}

#[test]
fn more_victims_may_be_named_than_were_asked_about() {
    let (mut ledger, waits) = cluster();
    ledger.apply_pod(Pod { node_name: Some("b".into()), priority: 7, ..pod("more", shape_of(10, 0)) });
    let profile = CompiledProfile { extenders: vec![preempting("x", FAIL)], ..CompiledProfile::default_preset("test") };
    let mut scheduler = Scheduler::new(Arc::new(profile.clone()), 1);
    let limits = Limits::at(1_000_000);
    let candidates = scheduler.preemption_candidates(&ledger, &waits, &limits).expect("evictions help");
    let mut state = ExtenderPreemptState::begin(&profile, &ledger, &waits, candidates).expect("asks");
    assert_eq!(state.answer(&profile, &ledger, &limits, reply("b:mid,more")), Reply::Done);
    let candidates = state.clone().candidates(&ledger);
    let victims: Vec<&str> = candidates[0].victims.iter().map(|placed| &*placed.uid).collect();
    assert_eq!(victims, ["more", "mid"], "most important first");
    ledger.apply_node(&crate::model::Node { uid: "new".into(), ..node("b", 1000, 1 << 30, 10) });
    assert!(state.candidates(&ledger).is_empty(), "another node has its name");
}
