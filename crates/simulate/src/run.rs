use super::{Cluster, Extenders, Fate, PodReport, Report, evict, not_served, serving, volumes};
use berth_core::io::{
    self, BindOutcome, BindRequest, Effect, EvictRequest, EvictionOutcome, ExtenderRequest, Input, VolumeRequest,
    VolumesOutcome,
};
use berth_core::ledger::{Ledger, PodState};
use berth_core::model::{Pod, Str, Time};
use berth_core::profile::{CompiledProfile, Mode};
use berth_core::worker::{Next, Worker};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The sweep of long unschedulable pods does not run here: without an event, trying again changes nothing.
const NO_SWEEP: Duration = Duration::from_secs(1 << 32);

/// What a run leaves behind.
#[derive(Debug)]
pub struct Outcome {
    /// What became of each pending pod.
    pub report: Report,
    /// The cluster as it is in the end.
    pub ledger: Ledger,
    /// How much virtual time passed.
    pub elapsed: Duration,
}

/// What is known of one pending pod while the run goes on.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) node: Option<Str>,
    attempts: u32,
    refusal: Option<Refusal>,
    /// The node on which room was made for it last.
    pub(super) nominated: Option<Str>,
    /// The pods that were removed for it, as namespace/name.
    pub(super) victims: Vec<String>,
    /// For whom it was removed, and where.
    pub(super) preempted: Option<String>,
}

/// The last that was said of a pod without a node.
#[derive(Debug)]
struct Refusal {
    reason: String,
    message: String,
    attempted: bool,
    /// How much had happened by then.
    changes: usize,
}

/// A profile's worker and what it has not been told yet.
pub(super) struct Seat {
    worker: Worker,
    pub(super) inputs: Vec<Input>,
}

/// Lets `profiles` place the pending pods of `cluster` until nothing more happens.
///
/// `seed` fixes how ties between equally good nodes are broken. No extender is asked; see [`unasked`](super::unasked).
pub fn run(cluster: &Cluster, profiles: &[Arc<CompiledProfile>], seed: u64) -> Outcome {
    start(cluster, profiles, seed, None)
}

/// The same, with `extenders` asked whatever the profiles ask theirs. What they bind is bound here.
pub fn run_asking(
    cluster: &Cluster,
    profiles: &[Arc<CompiledProfile>],
    seed: u64,
    extenders: &mut dyn Extenders,
) -> Outcome {
    start(cluster, profiles, seed, Some(extenders))
}

fn start(
    cluster: &Cluster,
    profiles: &[Arc<CompiledProfile>],
    seed: u64,
    extenders: Option<&mut dyn Extenders>,
) -> Outcome {
    let mut sorted: Vec<&Arc<CompiledProfile>> = profiles.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let seats = sorted.iter().enumerate().map(|(i, profile)| {
        let mut profile = CompiledProfile::clone(profile);
        profile.queue.max_unschedulable = NO_SWEEP;
        if extenders.is_none() {
            profile.extenders.clear();
        }
        let mut worker = Worker::new(Arc::new(profile), seed.wrapping_add(i as u64));
        worker.set_unix_us_at_zero(cluster.as_of_unix_us());
        Seat { worker, inputs: Vec::new() }
    });
    let longest_backoff = profiles.iter().map(|p| p.queue.max_backoff).max().unwrap_or_default();
    let mut ledger = cluster.ledger();
    ledger.set_own_schedulers(profiles.iter().flat_map(|profile| profile.scheduler_names.iter().cloned()).collect());
    let mut run = Run {
        ledger: RefCell::new(ledger),
        seats: seats.collect(),
        extenders,
        now: Time::ZERO,
        changes: 0,
        changed_at: Time::ZERO,
        // Backoff ends on whole seconds, so one lasts a second more at most.
        patience: longest_backoff + Duration::from_secs(2),
        progress: BTreeMap::new(),
    };
    run.until_quiet();
    let report = run.report(cluster, profiles);
    Outcome { report, elapsed: run.now.since(Time::ZERO), ledger: run.ledger.into_inner() }
}

pub(super) struct Run<'a> {
    pub(super) ledger: RefCell<Ledger>,
    pub(super) seats: Vec<Seat>,
    extenders: Option<&'a mut dyn Extenders>,
    now: Time,
    /// How many pods have been placed or removed.
    changes: usize,
    /// When the last of them was.
    changed_at: Time,
    /// For how long pods are tried again after the last change: once each, since nothing else changes here.
    patience: Duration,
    /// By uid.
    pub(super) progress: BTreeMap<Str, Progress>,
}

impl Run<'_> {
    fn until_quiet(&mut self) {
        loop {
            let (acted, next) = self.round();
            if acted {
                continue;
            }
            let Some(next) = next.filter(|_| self.has_work()) else { return };
            if next > self.changed_at + self.patience {
                return;
            }
            self.now = next.max(self.now);
        }
    }

    /// Lets each worker step once. Returns whether one is not done with this moment, and when one wants to go on.
    fn round(&mut self) -> (bool, Option<Time>) {
        let mut acted = false;
        let mut earliest: Option<Time> = None;
        let mut effects = Vec::new();
        for i in 0..self.seats.len() {
            let seat = &mut self.seats[i];
            match seat.worker.step(self.now, &mut seat.inputs, &self.ledger, &mut effects) {
                Next::Now => acted = true,
                Next::At(at) => earliest = Some(earliest.map_or(at, |e| e.min(at))),
                Next::Idle => {}
            }
            for effect in effects.drain(..) {
                acted |= self.perform(i, effect);
            }
        }
        (acted, earliest)
    }

    /// Does what a worker wants done; returns whether that may give workers something to do.
    fn perform(&mut self, seat: usize, effect: Effect) -> bool {
        match effect {
            Effect::Bind(BindRequest { attempt, pod, node, extender: _ }) => {
                let progress = self.progress.entry(pod.uid.clone()).or_default();
                progress.attempts += 1;
                progress.node = Some(node.clone());
                progress.refusal = None;
                self.note_change();
                let bound = Pod { node_name: Some(node), nominated_node: None, ..Pod::clone(&pod) };
                self.ledger.borrow_mut().apply_pod(bound);
                self.seats[seat].inputs.push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
                true
            }
            Effect::BindVolumes(VolumeRequest { attempt, node, writes, .. }) => {
                volumes::settle(&mut self.ledger.borrow_mut(), &writes, &node);
                self.seats[seat].inputs.push(Input::VolumesWritten { attempt, outcome: VolumesOutcome::Written });
                true
            }
            Effect::Evict(EvictRequest { attempt, preemptor, node, victims, taken_back, lower_priority }) => {
                self.evict(&preemptor, &node, &victims, &taken_back, &lower_priority);
                self.seats[seat].inputs.push(Input::EvictionEnded { attempt, outcome: EvictionOutcome::Done });
                true
            }
            Effect::AskExtender(ExtenderRequest { attempt, extender, pod, question }) => {
                let Some(extenders) = &mut self.extenders else { return false };
                let Seat { worker, inputs } = &mut self.seats[seat];
                let answer = extenders.answer(worker.profile(), &extender, &pod, question);
                inputs.push(Input::ExtenderAnswered { attempt, extender, answer });
                true
            }
            // Whatever is nominated here is placed before anyone else is asked.
            Effect::Nominate(_) => false,
            Effect::Refuse(io::Refusal { pod, reason, text, attempted, nomination }) => {
                let progress = self.progress.entry(pod.uid.clone()).or_default();
                progress.attempts += u32::from(attempted);
                let (reason, message) = (reason.as_str().to_owned(), evict::message_of(&text));
                progress.refusal = Some(Refusal { reason, message, attempted, changes: self.changes });
                self.write_nomination(&pod, nomination)
            }
        }
    }

    /// Something changed, so that pods that were refused are tried again.
    pub(super) fn note_change(&mut self) {
        self.changes += 1;
        self.changed_at = self.now;
    }

    /// Whether some pod waits to be tried again, and something changed since it was refused.
    fn has_work(&self) -> bool {
        let stale = |refusal: &Refusal| refusal.attempted && refusal.changes < self.changes;
        self.seats.iter().any(|seat| !seat.worker.is_quiet())
            && self.progress.values().any(|p| p.node.is_none() && p.refusal.as_ref().is_none_or(stale))
    }

    fn report(&mut self, cluster: &Cluster, profiles: &[Arc<CompiledProfile>]) -> Report {
        let pods = cluster.pending().into_iter().map(|pod| {
            let mut progress = self.progress.remove(&pod.uid).unwrap_or_default();
            let profile = serving(profiles, pod);
            let nominated_node = self.nominated_node(pod, &progress);
            let (fate, said) = match progress.preempted {
                Some(by) if progress.node.is_none() => (Fate::Preempted, Some(("Preempted".to_owned(), by))),
                _ => fate(pod, profile, profiles, progress.node.is_some(), progress.refusal),
            };
            progress.victims.sort_unstable();
            progress.victims.dedup();
            PodReport {
                namespace: pod.key.namespace.clone(),
                name: pod.key.name.clone(),
                node: progress.node,
                nominated_node,
                victims: progress.victims,
                attempts: progress.attempts,
                reason: said.as_ref().map(|(reason, _)| reason.clone()),
                message: said.map(|(_, message)| message),
                fate,
                profile: profile.map(|p| p.name.clone()),
            }
        });
        Report::new(pods.collect())
    }

    /// The node on which room was made for `pod`, or the one that it is promised as long as it waits.
    fn nominated_node(&self, pod: &Pod, progress: &Progress) -> Option<Str> {
        if progress.node.is_some() {
            return progress.nominated.clone();
        }
        match self.ledger.borrow().pod(&pod.uid) {
            Some(PodState::Pending(pod)) => pod.nominated_node.clone(),
            _ => None,
        }
    }
}

/// What became of `pod`, and reason and message where it has no node.
fn fate(
    pod: &Pod,
    profile: Option<&Arc<CompiledProfile>>,
    profiles: &[Arc<CompiledProfile>],
    placed: bool,
    refusal: Option<Refusal>,
) -> (Fate, Option<(String, String)>) {
    let said = |reason: &str, message: String| Some((reason.to_owned(), message));
    if placed {
        return (Fate::Placed, None);
    }
    let Some(profile) = profile else { return (Fate::Held, said("NoProfile", not_served(profiles, pod))) };
    if !pod.gates.is_empty() {
        return (
            Fate::Gated,
            said("SchedulingGated", format!("waiting for scheduling gates: [{}]", pod.gates.join(" "))),
        );
    }
    if let Some(refusal) = refusal {
        let fate = if refusal.attempted { Fate::Unschedulable } else { Fate::Held };
        return (fate, Some((refusal.reason, refusal.message)));
    }
    if pod.deleting {
        return (Fate::Held, said("Deleting", "the pod is being deleted".to_owned()));
    }
    match profile.mode {
        Mode::Paused => {
            (Fate::Held, said("Paused", format!("SchedulerProfile {} is paused (spec.mode)", profile.name)))
        }
        Mode::Active => (Fate::Held, said("NotTried", format!("SchedulerProfile {} did not come to it", profile.name))),
    }
}
