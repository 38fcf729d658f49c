//! Berth's answer, through the code behind `berth explain -f … -o json`.

use super::answer::Answer;
use super::cluster::Drawn;
use super::preemption::{Live, offset};
use berth::core::cycle::Scheduler;
use berth::core::ledger::Ledger;
use berth::core::model::Pod;
use berth::core::preemption::{Limits, Outcome, Search};
use berth::core::profile::CompiledProfile;
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

fn explain(drawn: &Drawn) -> Answer {
    let objects: Vec<_> = drawn.objects.iter().chain(&drawn.config).collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let inputs = match berth::cli::inputs_from("cluster.json", &list.to_string()) {
        Ok(inputs) => inputs,
        Err(error) => return Answer { pods: Vec::new(), error: error.to_string() },
    };
    let mut report = berth::explain::explain(&inputs.cluster, &inputs.profiles, None);
    berth::explain::add_preemption(&mut report, &inputs.cluster, &inputs.profiles, NOW_UNIX_US);
    let mut answer: Answer = serde_json::from_value(serde_json::to_value(&report).unwrap()).unwrap();
    let ledger = inputs.cluster.ledger();
    for pod in inputs.cluster.pending() {
        let of_pod = answer.pods.iter_mut().find(|of| *of.name == *pod.key.name && *of.namespace == *pod.key.namespace);
        let preemption = of_pod.and_then(|of_pod| of_pod.preemption.as_mut());
        let profile = berth::simulate::serving(&inputs.profiles, pod);
        if let (Some(preemption), Some(profile)) = (preemption, profile) {
            let profile = as_configured(drawn, profile, &pod.scheduler_name);
            preemption.detail.live = live(&profile, &ledger, &Arc::new(Pod::clone(pod)), offset(drawn));
        }
    }
    answer
}

/// The profile with its arguments of DefaultPreemption, which the import of configurations loses yet.
fn as_configured(drawn: &Drawn, profile: &Arc<CompiledProfile>, scheduler: &str) -> Arc<CompiledProfile> {
    let profiles = drawn.config.as_ref().and_then(|config| config["profiles"].as_array());
    let named = |p: &&Value| p["schedulerName"].as_str().unwrap_or("default-scheduler") == scheduler;
    let args = profiles.into_iter().flatten().find(named).and_then(|p| p["pluginConfig"].as_array());
    let Some(args) = args.into_iter().flatten().find(|of| of["name"] == "DefaultPreemption").map(|of| &of["args"])
    else {
        return profile.clone();
    };
    let mut profile = CompiledProfile::clone(profile);
    let number = |field: &str, default| args[field].as_u64().map_or(default, |number| number as u32);
    profile.preemption.candidates_percentage = number("minCandidateNodesPercentage", 10);
    profile.preemption.candidates_absolute = number("minCandidateNodesAbsolute", 100);
    Arc::new(profile)
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
