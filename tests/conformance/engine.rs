//! Berth's answer, through the code behind `berth explain -f … -o json`.
//!
//! Every third cluster is judged by what `berth convert` prints for its configuration, read back: what a user who moves over
//! applies. And of every third upstream is told what `berth convert` makes of the profiles again: what a user who leaves runs.
//! Whatever the way, the answers are to be those of upstream with the original.

use super::answer::Answer;
use super::cluster::Drawn;
use super::preemption::{Live, offset};
use berth_core::cycle::Scheduler;
use berth_core::ledger::Ledger;
use berth_core::model::Pod;
use berth_core::preemption::{Limits, Outcome, Search};
use berth_core::profile::CompiledProfile;
use serde_json::Value;
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

/// Whether the profiles of a cluster are those that `berth convert` prints.
pub fn is_converted(drawn: &Drawn) -> bool {
    drawn.config.is_some() && drawn.seed.is_multiple_of(3)
}

/// The configuration that upstream is told.
pub fn told_upstream(drawn: &Drawn) -> Option<Value> {
    let config = drawn.config.as_ref()?;
    if drawn.seed % 3 != 1 {
        return Some(config.clone());
    }
    let back =
        berth::cli::converted_back("config.json", &config.to_string()).unwrap_or_else(|e| panic!("{e}: {config}"));
    Some(back)
}

/// The configuration of a cluster, or the SchedulerProfiles that it is converted to.
fn profiles(drawn: &Drawn) -> Result<Vec<Value>, String> {
    let Some(config) = drawn.config.as_ref().filter(|_| is_converted(drawn)) else {
        return Ok(drawn.config.iter().cloned().collect());
    };
    let yaml = berth::cli::converted("config.json", &config.to_string()).map_err(|error| error.to_string())?;
    let documents = serde_saphyr::from_multiple::<Value>(&yaml).map_err(|error| format!("{error}: {yaml}"))?;
    Ok(documents)
}

fn explain(drawn: &Drawn) -> Answer {
    let profiles = match profiles(drawn) {
        Ok(profiles) => profiles,
        Err(error) => return Answer { pods: Vec::new(), error },
    };
    let objects: Vec<_> = drawn.objects.iter().chain(&profiles).collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let inputs = match berth::cli::inputs_from("cluster.json", &list.to_string()) {
        Ok(inputs) => inputs,
        Err(error) => return Answer { pods: Vec::new(), error: error.to_string() },
    };
    let mut report = berth_explain::explain(&inputs.cluster, &inputs.profiles, None);
    berth_explain::add_preemption(&mut report, &inputs.cluster, &inputs.profiles, NOW_UNIX_US);
    let mut answer: Answer = serde_json::from_value(serde_json::to_value(&report).unwrap()).unwrap();
    let ledger = inputs.cluster.ledger();
    for pod in inputs.cluster.pending() {
        let of_pod = answer.pods.iter_mut().find(|of| *of.name == *pod.key.name && *of.namespace == *pod.key.namespace);
        let preemption = of_pod.and_then(|of_pod| of_pod.preemption.as_mut());
        let profile = berth_simulate::serving(&inputs.profiles, pod);
        if let (Some(preemption), Some(profile)) = (preemption, profile) {
            preemption.detail.live = live(profile, &ledger, &Arc::new(Pod::clone(pod)), offset(drawn));
        }
    }
    answer
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
        Outcome::NotEligible(_) | Outcome::NotHelpful(_) | Outcome::Failed(_) | Outcome::Fits => Vec::new(),
    };
    Some(Live { candidates, best: chosen, ..Live::default() })
}
