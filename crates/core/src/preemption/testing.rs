//! Small clusters for the tests of preemption, and the outcome in one line.

use super::{Limits, Outcome, Search};
use crate::cycle::Scheduler;
use crate::ledger::{Ledger, PodState};
use crate::model::{LabelSelector, Pod, PodDisruptionBudget, PodShape, Requirement};
use crate::plugins::Work;
use crate::profile::{CompiledProfile, Preemption};
use crate::testing::{node, pod, shape_of};
use std::sync::Arc;

/// The moment at which tests decide, in microseconds.
pub(super) const NOW: i64 = 1_000_000_000;

/// A ledger with nodes of 2 cores and 10 pods each.
pub(super) fn nodes(names: &[&str]) -> Ledger {
    let mut ledger = Ledger::new();
    for name in names {
        ledger.apply_node(&node(name, 2000, 8 << 30, 10));
    }
    ledger
}

/// A pod on a node: so much CPU, this priority, started at that second; its label `app` is the first letter of its name.
pub(super) fn on(node: &str, name: &str, priority: i32, milli_cpu: i64, started: i64) -> Pod {
    let shape = PodShape { labels: [("app", &name[..1])].into_iter().collect(), ..shape_of(milli_cpu, 0) };
    let started_unix_us = (started > 0).then_some(started * 1_000_000);
    Pod { node_name: Some(node.into()), priority, started_unix_us, ..pod(name, shape) }
}

/// The pod that waits, of priority 100.
pub(super) fn waits(milli_cpu: i64) -> Pod {
    Pod { priority: 100, ..pod("waits", shape_of(milli_cpu, 0)) }
}

/// A budget for pods of an app with so many disruptions left.
pub(super) fn budget(app: &str, left: i32) -> PodDisruptionBudget {
    let is_app = Requirement::equals("app".into(), app.into());
    PodDisruptionBudget {
        namespace: "default".into(),
        name: format!("of-{app}").into(),
        selector: Some(LabelSelector { requirements: vec![is_app] }),
        disruptions_allowed: left,
        disrupted_pods: Vec::new(),
    }
}

/// A default profile with these settings.
pub(super) fn profile(preemption: Preemption) -> Arc<CompiledProfile> {
    Arc::new(CompiledProfile { preemption, ..CompiledProfile::default_preset("test") })
}

/// Puts the pod in and gives it as the ledger has it.
pub(super) fn pending(ledger: &mut Ledger, pod: Pod) -> Arc<Pod> {
    let uid = pod.uid.clone();
    ledger.apply_pod(pod);
    match ledger.pod(&uid) {
        Some(PodState::Pending(pod)) => pod.clone(),
        other => panic!("{uid} is not pending: {other:?}"),
    }
}

/// Limits that look at every node.
pub(super) fn everywhere<'a>() -> Limits<'a> {
    Limits { search: Search::Everywhere, ..Limits::at(NOW) }
}

/// Every candidate with its victims and violations, and the choice; or the text, after `keeps` or `fails` where the pod
/// keeps its nomination.
pub(super) fn outcome(ledger: &mut Ledger, preemption: &Preemption, limits: &Limits<'_>, waiting: Pod) -> String {
    let waiting = pending(ledger, waiting);
    let mut scheduler = Scheduler::new(profile(preemption.clone()), 7);
    let candidates = match scheduler.preemption_candidates(ledger, &waiting, limits) {
        Ok(candidates) => candidates,
        Err(Outcome::NotHelpful(text)) => return text,
        Err(Outcome::NotEligible(text)) => return format!("keeps: {text}"),
        Err(Outcome::Failed(text)) => return format!("fails: {text}"),
        Err(Outcome::Fits) => return "fits".to_owned(),
        Err(Outcome::Evict(plan)) => panic!("{plan:?}"),
    };
    let one = |candidate: &super::Candidate| {
        let victims: Vec<&str> = candidate.victims.iter().map(|placed| &*placed.key.name).collect();
        format!("{} [{}] {}", ledger.nodes().name(candidate.node), victims.join(" "), candidate.violations)
    };
    let all: Vec<String> = candidates.iter().map(one).collect();
    let Outcome::Evict(plan) = scheduler.pick(ledger, &waiting, candidates) else { panic!("a candidate is chosen") };
    let valid =
        scheduler.plan_still_valid(ledger, &plan, limits, (&mut super::DryRuns::default(), &mut Work::unbounded()));
    assert!(valid, "a plan stays valid as long as nothing changes");
    format!("{}; best {}", all.join(", "), ledger.nodes().name(plan.node))
}

/// As [`outcome`] with upstream's defaults.
pub(super) fn upstream(ledger: &mut Ledger, waiting: Pod) -> String {
    outcome(ledger, &Preemption::default(), &everywhere(), waiting)
}
