//! Berth's answer, through the code behind `berth explain -f … -o json`.

use super::answer::Answer;
use super::cluster::Drawn;
use super::preemption::{Candidate, Detail, Live, Preemption, offset};
use berth::core::cycle::Scheduler;
use berth::core::ledger::Ledger;
use berth::core::model::Pod;
use berth::core::preemption::{self, Limits, Outcome, Search};
use berth::core::profile::CompiledProfile;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The moment at which pods are taken to start that have not: later than any that was drawn.
const NOW_UNIX_US: i64 = 1_790_000_000_000_000;

/// What Berth says of a cluster; a panic is an answer without pods that says so.
pub fn ask(drawn: &Drawn) -> Answer {
    let asked = catch_unwind(AssertUnwindSafe(|| explain(drawn)));
    asked.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Answer { pods: Vec::new(), error: format!("panic: {}", text.unwrap_or_default()) }
    })
}

fn explain(drawn: &Drawn) -> Answer {
    let objects: Vec<_> = drawn.objects.iter().chain(&drawn.config).collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let inputs = match berth::cli::inputs_from("cluster.json", &list.to_string()) {
        Ok(inputs) => inputs,
        Err(error) => return Answer { pods: Vec::new(), error: error.to_string() },
    };
    let report = berth::explain::explain(&inputs.cluster, &inputs.profiles, None);
    let mut answer: Answer = serde_json::from_value(serde_json::to_value(&report).unwrap()).unwrap();
    let ledger = inputs.cluster.ledger();
    for pod in inputs.cluster.pending() {
        let of_pod = answer.pods.iter_mut().find(|of| *of.name == *pod.key.name && *of.namespace == *pod.key.namespace);
        let Some(of_pod) = of_pod.filter(|of| of.feasible == 0 && of.nodes.is_some()) else { continue };
        let Some(profile) = berth::simulate::serving(&inputs.profiles, pod) else { continue };
        let pod = Arc::new(Pod::clone(pod));
        of_pod.preemption = everywhere(profile, &ledger, &pod);
        if let Some(preemption) = &mut of_pod.preemption {
            preemption.detail.live = live(profile, &ledger, &pod, offset(drawn));
        }
    }
    answer
}

/// What would be done, every potential node tried.
fn everywhere(profile: &Arc<CompiledProfile>, ledger: &Ledger, pod: &Arc<Pod>) -> Option<Preemption> {
    let found = preemption::explain(profile, ledger, pod, &Limits::at(NOW_UNIX_US))?;
    let candidates = found.candidates.into_iter().map(|on| Candidate {
        node: on.node.to_string(),
        victims: on.victims.iter().map(ToString::to_string).collect(),
        budget_violations: i64::from(on.violations),
        lower: 0,
        budgets_matter: false,
    });
    Some(Preemption {
        node: found.node.map(|node| node.to_string()),
        message: found.message,
        candidates: candidates.collect(),
        detail: Detail::default(),
    })
}

/// What a live cycle would find, and choose.
fn live(profile: &Arc<CompiledProfile>, ledger: &Ledger, pod: &Arc<Pod>, offset: usize) -> Option<Live> {
    let limits = Limits { search: Search::From(offset), ..Limits::at(NOW_UNIX_US) };
    let mut scheduler = Scheduler::new(profile.clone(), 0);
    let found = scheduler.preemption_candidates(ledger, pod, &limits).ok()?;
    let name = |node| ledger.nodes().name(node).to_string();
    let candidates = found.iter().map(|candidate| name(candidate.node)).collect();
    let chosen = match scheduler.pick(ledger, pod, found) {
        Outcome::Evict(plan) => vec![name(plan.node)],
        Outcome::NotEligible(_) | Outcome::NotHelpful(_) | Outcome::Failed(_) => Vec::new(),
    };
    Some(Live { candidates, best: chosen, ..Live::default() })
}
