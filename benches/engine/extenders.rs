//! Pods about which an extender is asked.

use crate::Prepared;
use crate::held::Held;
use crate::manifests::PodSpec;
use crate::workloads::{PLAIN, Workload};
use berth_core::io::{BindOutcome, BindRequest, Effect, ExtenderQuestion, ExtenderReply, ExtenderRequest, Input};
use berth_core::ledger::LedgerAccess;
use berth_core::model::{Pod, Time};
use berth_core::profile::{CompiledProfile, Extender, OnFailure};
use berth_core::worker::{Next, Worker};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Every pod concerns an extender that filters and scores, is sent names and answers at once.
pub(crate) const ASKING: Workload =
    Workload { name: "extender, names only", nodes: 1_000, pods: || vec![PodSpec::basic(); 10_000], ..PLAIN };

pub(crate) fn extender(filter: OnFailure) -> Extender {
    Extender {
        name: "bench".into(),
        url: "http://bench".into(),
        filter: Some(filter),
        prioritize: Some(OnFailure::Ignore),
        preempt: None,
        binds: false,
        weight: 1,
        full_nodes: false,
        managed: Vec::new(),
        pod_selector: None,
    }
}

/// Keeps every node, and gives each a score of its own.
fn reply(question: &ExtenderQuestion) -> ExtenderReply {
    match question {
        ExtenderQuestion::Filter { nodes } => {
            ExtenderReply::Filter { survivors: Some(nodes.to_vec()), failed: Vec::new(), unresolvable: Vec::new() }
        }
        ExtenderQuestion::Prioritize { nodes } => {
            ExtenderReply::Prioritize(nodes.iter().enumerate().map(|(i, node)| (node.clone(), i as i64 % 11)).collect())
        }
        ExtenderQuestion::Preempt { candidates } => ExtenderReply::Preempt(candidates.clone()),
    }
}

/// Places every pod; each question is answered before the next step.
pub(crate) fn place_all_asking(prepared: &Prepared) -> Duration {
    place_on(&RefCell::new(prepared.pending_ledger()), prepared)
}

/// As [`place_all_asking`], once: the longest holds of the ledger's lock.
pub(crate) fn holds(prepared: &Prepared) -> String {
    let ledger = Held::new(prepared.pending_ledger());
    place_on(&ledger, prepared);
    ledger.take_text()
}

fn place_on(ledger: &impl LedgerAccess, prepared: &Prepared) -> Duration {
    let extenders = vec![extender(OnFailure::Fail)];
    let profile = CompiledProfile { extenders, ..CompiledProfile::clone(&prepared.profile) };
    let mut worker = Worker::new(Arc::new(profile), 1);
    let (mut inputs, mut effects) = (Vec::new(), Vec::new());
    let (mut bound, mut asked) = (0, 0);
    let started = Instant::now();
    loop {
        let next = worker.step(Time::ZERO, &mut inputs, ledger, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::AskExtender(ExtenderRequest { attempt, extender, question, .. }) => {
                    asked += 1;
                    inputs.push(Input::ExtenderAnswered { attempt, extender, answer: Ok(reply(&question)) });
                }
                Effect::Bind(BindRequest { attempt, pod, node, .. }) => {
                    bound += 1;
                    inputs.push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
                    ledger.write(|ledger| ledger.apply_pod(Pod { node_name: Some(node), ..(*pod).clone() }));
                }
                _ => {}
            }
        }
        if next == Next::Idle && inputs.is_empty() {
            break;
        }
    }
    let took = started.elapsed();
    assert_eq!(
        (bound, asked),
        (prepared.pods.len(), 2 * prepared.pods.len()),
        "each pod is asked about twice and placed"
    );
    took
}
