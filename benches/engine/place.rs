//! Placing every pod of a workload: what a run takes, and what one decision takes.

use crate::held::Held;
use crate::manifests;
use crate::workloads::Workload;
use crate::{Prepared, decode};
use berth_core::cycle::{Decision, Scheduler};
use berth_core::io::{BindOutcome, BindRequest, Effect, Input};
use berth_core::ledger::{Ledger, LedgerAccess, PodState};
use berth_core::model::{Pod, Time};
use berth_core::profile::{CompiledProfile, Sampling};
use berth_core::worker::{Next, Worker};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Prepared {
    pub(crate) fn of(workload: &Workload) -> Self {
        let node = |i: usize, revision: usize| manifests::node(i, workload.zones, revision);
        let objects = (0..workload.nodes).map(|i| node(i, 0)).chain((workload.objects)());
        let init = (workload.init)();
        let init =
            init.iter().enumerate().map(|(i, pod)| pod.manifest(i, Some(format!("node-{:05}", i % workload.nodes))));
        let cluster = decode(objects.chain(init));
        let pods = decode((workload.pods)().iter().enumerate().map(|(i, pod)| pod.manifest(i, None))).pods;
        let changes = pods.len().checked_div(workload.node_change_every).unwrap_or(0);
        let changed = (1..=changes).map(|i| {
            if workload.images {
                manifests::with_images(node(i % workload.nodes, 0), &[0])
            } else {
                node(i * workload.node_change_every % workload.nodes, i)
            }
        });
        let changed = decode(changed).nodes;
        let sampling = Sampling { percentage: workload.percentage, min_feasible: 100 };
        let profile = Arc::new(CompiledProfile { sampling, ..CompiledProfile::default_preset("bench") });
        Self { cluster, pods, changed, profile }
    }

    pub(crate) fn pending_ledger(&self) -> Ledger {
        let mut ledger = self.cluster.ledger();
        for pod in &self.pods {
            ledger.apply_pod(pod.clone());
        }
        ledger
    }
}

/// Places every pod through a worker; gives the time from the first step to the last bind's outcome.
pub(crate) fn place_all(workload: &Workload, prepared: &Prepared) -> Duration {
    place_on(&RefCell::new(prepared.pending_ledger()), workload, prepared)
}

/// As [`place_all`], once: the longest holds of the ledger's lock.
pub(crate) fn holds(workload: &Workload, prepared: &Prepared) -> String {
    let ledger = Held::new(prepared.pending_ledger());
    place_on(&ledger, workload, prepared);
    ledger.take_text()
}

fn place_on(ledger: &impl LedgerAccess, workload: &Workload, prepared: &Prepared) -> Duration {
    let mut worker = Worker::new(prepared.profile.clone(), 1);
    let (mut inputs, mut effects) = (Vec::new(), Vec::new());
    let mut changed = prepared.changed.iter();
    let mut bound = 0;
    let started = Instant::now();
    while worker.step(Time::ZERO, &mut inputs, ledger, &mut effects) != Next::Idle || bound < prepared.pods.len() {
        for effect in effects.drain(..) {
            let Effect::Bind(BindRequest { attempt, pod, node: name, .. }) = effect else { continue };
            inputs.push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
            ledger.write(|ledger| ledger.apply_pod(Pod { node_name: Some(name), ..(*pod).clone() }));
            bound += 1;
            if workload.node_change_every > 0
                && bound % workload.node_change_every == 0
                && let Some(node) = changed.next()
            {
                ledger.write(|ledger| ledger.apply_node(node));
            }
        }
    }
    started.elapsed()
}

/// The time of each decision with its commit.
pub(crate) fn decision_times(workload: &Workload, prepared: &Prepared) -> Vec<Duration> {
    let mut ledger: Ledger = prepared.cluster.ledger();
    let mut scheduler = Scheduler::new(prepared.profile.clone(), 1);
    let mut times = Vec::with_capacity(prepared.pods.len());
    let mut changed = prepared.changed.iter();
    for (i, pod) in prepared.pods.iter().enumerate() {
        ledger.apply_pod(pod.clone());
        let Some(PodState::Pending(pod)) = ledger.pod(&pod.uid).cloned() else { continue };
        let started = Instant::now();
        let proposal = match scheduler.decide(&ledger, &pod) {
            Decision::Place(proposal) => proposal,
            other => panic!("{}: pod {i} is not placed: {other:?}", workload.name),
        };
        let refits = |l: &_| scheduler.refits(l, &pod, proposal.node);
        let committed = ledger.commit(&proposal, refits);
        times.push(started.elapsed());
        assert!(committed.is_ok(), "no one else decides here");
        if workload.node_change_every > 0
            && (i + 1) % workload.node_change_every == 0
            && let Some(node) = changed.next()
        {
            ledger.apply_node(node);
        }
    }
    times
}
