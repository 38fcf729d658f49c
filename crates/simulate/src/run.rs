use super::timeline::{Change, Event, bound, nominated};
use super::{Cluster, Fate, PodReport, Report, claims, not_served, serving, volumes};
use berth_core::cycle::waits_for_claims;
use berth_core::io::{
    self, BindOutcome, BindRequest, Effect, EvictRequest, EvictionOutcome, ExtenderError, ExtenderQuestion,
    ExtenderReply, ExtenderRequest, Input, NominatedNode, RefusalText, VolumeRequest, VolumesOutcome,
};
use berth_core::ledger::{Ledger, LedgerAccess, Object, PodState};
use berth_core::model::{Pod, Str, Time};
use berth_core::profile::{CompiledProfile, Mode};
use berth_core::worker::{Next, Worker};
use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The sweep of long unschedulable pods does not run here: without an event, trying again changes nothing.
const NO_SWEEP: Duration = Duration::from_secs(1 << 32);

/// Answers for the profiles' extenders during a run.
pub trait Extenders {
    /// The answer about `pod` of the extender of this name in `profile`; an error if it gave none.
    fn answer(
        &mut self,
        profile: &CompiledProfile,
        extender: &Str,
        pod: &Arc<Pod>,
        question: ExtenderQuestion,
    ) -> Result<ExtenderReply, ExtenderError>;
}

/// What a run leaves behind.
#[derive(Debug)]
pub struct Outcome {
    pub report: Report,
    /// The cluster as it is in the end.
    pub ledger: Ledger,
    /// How much virtual time passed.
    pub elapsed: Duration,
    /// Every step, in order; empty unless the run was told to record.
    pub timeline: Vec<Event>,
}

/// How a run is done; the default asks nobody and records nothing.
#[derive(Default)]
pub struct Options<'a> {
    /// Fixes how ties between equally good nodes are broken.
    pub seed: u64,
    /// Answers for the profiles' extenders, if they are asked. Binds that are an extender's are done here.
    pub extenders: Option<&'a mut dyn Extenders>,
    /// Whether every step is kept: some hundred bytes for each, beside the pods that they share.
    pub record: bool,
}

/// What is known of one pending pod during the run.
#[derive(Debug, Default)]
struct Progress {
    node: Option<Str>,
    attempts: u32,
    refusal: Option<LastRefusal>,
    /// The node that it was nominated for last.
    nominated: Option<Str>,
    /// The pods that were removed for it, as namespace/name.
    victims: Vec<String>,
    /// For whom it was removed, and where.
    preempted: Option<String>,
}

/// The last refusal of a pod without a node.
#[derive(Debug)]
struct LastRefusal {
    reason: String,
    message: String,
    attempted: bool,
    /// [`Run::changes`] at that time.
    changes: usize,
}

/// A profile's worker and its undelivered inputs.
struct SteppedWorker {
    worker: Worker,
    inputs: Vec<Input>,
}

/// Lets `profiles` place the pending pods of `cluster` until nothing more happens.
///
/// `seed` fixes how ties between equally good nodes are broken. No extender is asked; see [`unasked`](super::unasked).
pub fn run(cluster: &Cluster, profiles: &[Arc<CompiledProfile>], seed: u64) -> Outcome {
    run_with(cluster, profiles, Options { seed, ..Options::default() })
}

/// As [`run`], as `options` say.
pub fn run_with<'a>(cluster: &Cluster, profiles: &'a [Arc<CompiledProfile>], options: Options<'a>) -> Outcome {
    let mut run = Run::new(cluster, profiles, options);
    run.until_quiet();
    let report = Report::new(cluster.pending().into_iter().map(|pod| run.report_on(pod)).collect());
    let timeline = run.timeline.take().unwrap_or_default();
    Outcome { report, elapsed: run.now.since(Time::ZERO), ledger: run.ledger.into_inner(), timeline }
}

/// A cluster in which profiles place what is pending. The caller may change it while nothing is under way.
pub(crate) struct Run<'a> {
    profiles: &'a [Arc<CompiledProfile>],
    ledger: RefCell<Ledger>,
    workers: Vec<SteppedWorker>,
    extenders: Option<&'a mut dyn Extenders>,
    now: Time,
    /// Pods placed or removed so far.
    changes: usize,
    /// The time of the last change.
    changed_at: Time,
    /// How long the run continues after the last change: long enough to try each pod once more.
    patience: Duration,
    /// By uid.
    progress: BTreeMap<Str, Progress>,
    /// Every step so far, if they are recorded.
    timeline: Option<Vec<Event>>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(cluster: &Cluster, profiles: &'a [Arc<CompiledProfile>], options: Options<'a>) -> Self {
        let Options { seed, extenders, record } = options;
        let mut sorted: Vec<&Arc<CompiledProfile>> = profiles.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        let workers = sorted.iter().enumerate().map(|(i, profile)| {
            let mut profile = CompiledProfile::clone(profile);
            profile.queue.max_unschedulable = NO_SWEEP;
            if extenders.is_none() {
                profile.extenders.clear();
            }
            let mut worker = Worker::new(Arc::new(profile), seed.wrapping_add(i as u64));
            worker.set_unix_us_at_zero(cluster.as_of_unix_us());
            SteppedWorker { worker, inputs: Vec::new() }
        });
        let workers = workers.collect();
        let longest_backoff = profiles.iter().map(|p| p.queue.max_backoff).max().unwrap_or_default();
        let ledger = RefCell::new(cluster.ledger());
        ledger.serve(profiles.iter().flat_map(|profile| profile.scheduler_names.iter().cloned()).collect());
        Self {
            profiles,
            ledger,
            workers,
            extenders,
            now: Time::ZERO,
            changes: 0,
            changed_at: Time::ZERO,
            // Backoff ends on whole seconds, so one lasts a second more at most.
            patience: longest_backoff + Duration::from_secs(2),
            progress: BTreeMap::new(),
            timeline: record.then(Vec::new),
        }
    }

    /// The cluster as it is now.
    pub(crate) fn ledger(&self) -> Ref<'_, Ledger> {
        self.ledger.borrow()
    }

    /// Adds or changes an object.
    pub(crate) fn apply(&mut self, object: Object) {
        object.apply(self.ledger.get_mut());
        self.note_change();
    }

    /// Takes the pod with this uid out.
    pub(crate) fn remove_pod(&mut self, uid: &str) {
        claims::delete_pod(self.ledger.get_mut(), uid);
        self.note_change();
    }

    /// The node that this run placed the pod with this uid on, while it is there.
    pub(crate) fn node_of(&self, uid: &str) -> Option<&Str> {
        self.progress.get(uid)?.node.as_ref()
    }

    /// Lets the workers go on until nothing more happens.
    pub(crate) fn until_quiet(&mut self) {
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

    /// Lets each worker step once. Returns whether some worker has more to do now, and the earliest time at which one wants to
    /// continue.
    fn round(&mut self) -> (bool, Option<Time>) {
        let mut acted = false;
        let mut earliest: Option<Time> = None;
        let mut effects = Vec::new();
        for i in 0..self.workers.len() {
            let stepped = &mut self.workers[i];
            match stepped.worker.step(self.now, &mut stepped.inputs, &self.ledger, &mut effects) {
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

    /// Performs a worker's effect; returns whether that may give workers something to do.
    fn perform(&mut self, at: usize, effect: Effect) -> bool {
        match effect {
            Effect::Bind(BindRequest { attempt, pod, node, epoch: _, extender: _ }) => {
                let progress = self.progress.entry(pod.uid.clone()).or_default();
                progress.attempts += 1;
                progress.node = Some(node.clone());
                progress.refusal = None;
                self.note_change();
                self.record(|| Change::Placed { pod: pod.clone(), node: node.clone() });
                self.ledger.borrow_mut().apply_pod(bound(&pod, node));
                self.workers[at].inputs.push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
                true
            }
            Effect::BindVolumes(VolumeRequest { attempt, node, writes, .. }) => {
                self.record(|| Change::Volumes { node: node.clone(), writes: Box::new(writes.clone()) });
                volumes::settle(&mut self.ledger.borrow_mut(), &writes, &node);
                self.workers[at].inputs.push(Input::VolumesWritten { attempt, outcome: VolumesOutcome::Written });
                true
            }
            Effect::ReserveClaims(request) => {
                let outcome = claims::settle(&mut self.ledger.borrow_mut(), &request);
                self.workers[at].inputs.push(Input::ClaimsWritten { attempt: request.attempt, outcome });
                true
            }
            Effect::Evict(request) => {
                self.evict(&request);
                let outcome = EvictionOutcome::Done;
                self.workers[at].inputs.push(Input::EvictionEnded { attempt: request.attempt, outcome });
                true
            }
            Effect::AskExtender(ExtenderRequest { attempt, extender, pod, question }) => {
                let Some(extenders) = &mut self.extenders else { return false };
                let SteppedWorker { worker, inputs } = &mut self.workers[at];
                let answer = extenders.answer(worker.profile(), &extender, &pod, question);
                inputs.push(Input::ExtenderAnswered { attempt, extender, answer });
                true
            }
            // Nothing comes between this nomination and the bind.
            Effect::Nominate(_) | Effect::AwaitDevices { .. } => false,
            Effect::Unreserve(request) => {
                let pod = &request.pod;
                if request.extended.is_some() {
                    claims::delete_made(&mut self.ledger.borrow_mut(), &pod.key.namespace, &pod.uid);
                }
                request.extended.is_some()
            }
            Effect::Deallocate(request) => {
                claims::deallocate(&mut self.ledger.borrow_mut(), &request.claim);
                true
            }
            Effect::Refuse(io::Refusal { pod, reason, text, attempted, nomination }) => {
                let progress = self.progress.entry(pod.uid.clone()).or_default();
                progress.attempts += u32::from(attempted);
                let (reason, message) = (reason.as_str().to_owned(), message_of(&text));
                progress.refusal = Some(LastRefusal { reason, message, attempted, changes: self.changes });
                self.record(|| Change::Refused { pod: pod.clone() });
                self.write_nomination(&pod, nomination)
            }
        }
    }

    /// Removes pods for another one, at once, whatever their grace period.
    fn evict(&mut self, request: &EvictRequest) {
        let EvictRequest { attempt: _, preemptor, node, victims, taken_back, lower_priority } = request;
        let progress = self.progress.entry(preemptor.uid.clone()).or_default();
        progress.victims.extend(victims.iter().chain(taken_back).map(|victim| victim.key.to_string()));
        for victim in victims {
            self.record(|| Change::Removed { uid: victim.uid.clone() });
            claims::delete_pod(&mut self.ledger.borrow_mut(), &victim.uid);
            // A victim that was placed in this run is in the report, too.
            if let Some(progress) = self.progress.get_mut(&victim.uid) {
                progress.node = None;
                progress.preempted = Some(format!("preempted by {} on node {node}", preemptor.key));
            }
        }
        for pod in lower_priority {
            self.see_nominated(pod, None);
        }
        self.note_change();
    }

    /// Applies the nomination that comes with a refusal. Victims that were terminating already vanish with it; returns whether
    /// some did.
    fn write_nomination(&mut self, pod: &Arc<Pod>, nomination: NominatedNode) -> bool {
        let node = match nomination {
            NominatedNode::Keep => return false,
            NominatedNode::Clear => {
                if pod.nominated_node.is_some() {
                    self.see_nominated(pod, None);
                }
                return false;
            }
            NominatedNode::Set(node) => node,
        };
        self.see_nominated(pod, Some(node.clone()));
        self.progress.entry(pod.uid.clone()).or_default().nominated = Some(node);
        let mut ledger = self.ledger.borrow_mut();
        let victims = ledger.pending_preemption(&pod.uid).map(|pending| pending.victims.clone()).unwrap_or_default();
        let is_terminating =
            |uid: &Str| matches!(ledger.pod(uid), Some(PodState::Bound(placed)) if placed.is_terminating());
        let terminating: Vec<Str> = victims.into_iter().filter(is_terminating).collect();
        for uid in &terminating {
            ledger.delete_pod(uid);
        }
        drop(ledger);
        for uid in &terminating {
            self.record(|| Change::Removed { uid: uid.clone() });
        }
        if !terminating.is_empty() {
            self.note_change();
        }
        !terminating.is_empty()
    }

    fn see_nominated(&mut self, pod: &Arc<Pod>, node: Option<Str>) {
        self.record(|| Change::Nominated { pod: pod.clone(), node: node.clone() });
        self.ledger.borrow_mut().apply_pod(nominated(pod, node));
    }

    fn record(&mut self, change: impl FnOnce() -> Change) {
        let at = self.now.since(Time::ZERO);
        if let Some(timeline) = &mut self.timeline {
            timeline.push(Event { at, change: change() });
        }
    }

    /// Something changed, so that pods that were refused are tried again.
    fn note_change(&mut self) {
        self.changes += 1;
        self.changed_at = self.now;
    }

    /// Whether some pod waits to be tried again, and something changed since it was refused.
    fn has_work(&self) -> bool {
        let stale = |refusal: &LastRefusal| refusal.attempted && refusal.changes < self.changes;
        self.workers.iter().any(|stepped| !stepped.worker.is_quiet())
            && self.progress.values().any(|p| p.node.is_none() && p.refusal.as_ref().is_none_or(stale))
    }

    /// What has become of `pod`, which was pending when it came. Asked once, since it takes what is known of the pod.
    pub(crate) fn report_on(&mut self, pod: &Pod) -> PodReport {
        let mut progress = self.progress.remove(&pod.uid).unwrap_or_default();
        let profile = serving(self.profiles, pod);
        let nominated_node = self.nominated_node(pod, &progress);
        let (fate, reason) = match progress.preempted {
            Some(by) if progress.node.is_none() => (Fate::Preempted, Some(("Preempted".to_owned(), by))),
            _ if progress.node.is_some() => (Fate::Placed, None),
            _ => fate(pod, profile, self.profiles, &self.ledger.borrow(), progress.refusal),
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
            reason: reason.as_ref().map(|(reason, _)| reason.clone()),
            message: reason.map(|(_, message)| message),
            fate,
            profile: profile.map(|p| p.name.clone()),
        }
    }

    /// The node that `pod` was nominated for, or still is while it waits.
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

/// What became of `pod`, which has no node, with reason and message.
fn fate(
    pod: &Pod,
    profile: Option<&Arc<CompiledProfile>>,
    profiles: &[Arc<CompiledProfile>],
    ledger: &Ledger,
    refusal: Option<LastRefusal>,
) -> (Fate, Option<(String, String)>) {
    let with = |reason: &str, message: String| Some((reason.to_owned(), message));
    let Some(profile) = profile else { return (Fate::Held, with("NoProfile", not_served(profiles, pod))) };
    if !pod.gates.is_empty() {
        let message = format!("waiting for scheduling gates: [{}]", pod.gates.join(" "));
        return (Fate::Gated, with("SchedulingGated", message));
    }
    if let Some(text) = waits_for_claims(profile, ledger, pod) {
        return (Fate::Gated, with("WaitsForClaims", text));
    }
    if let Some(refusal) = refusal {
        let fate = if refusal.attempted { Fate::Unschedulable } else { Fate::Held };
        return (fate, Some((refusal.reason, refusal.message)));
    }
    if pod.deleting {
        return (Fate::Held, with("Deleting", "the pod is being deleted".to_owned()));
    }
    let (reason, why) = match profile.mode {
        Mode::Paused => ("Paused", "is paused (spec.mode)"),
        Mode::DryRun => ("DryRun", "only compares (spec.mode is DryRun)"),
        Mode::Active => ("NotTried", "did not come to it"),
    };
    (Fate::Held, with(reason, format!("SchedulerProfile {} {why}", profile.name)))
}

/// The filters' message for a pod that fits nowhere. Why preemption does not help either is left to `explain`, which reports it
/// by node.
fn message_of(text: &RefusalText) -> String {
    match text {
        RefusalText::AfterPostFilter(diagnosis, _) => diagnosis.to_string(),
        other => other.to_string(),
    }
}

/// A line for each extender that concerns a pending pod of `cluster` and is not asked: its part is missing from the answers
/// about those pods. In the order of `profiles`.
pub fn unasked(cluster: &Cluster, profiles: &[Arc<CompiledProfile>]) -> Vec<String> {
    unasked_about(&cluster.pending(), profiles)
}

/// As [`unasked`], for these pods.
pub fn unasked_about(pending: &[&Pod], profiles: &[Arc<CompiledProfile>]) -> Vec<String> {
    let mut notes = Vec::new();
    for profile in profiles.iter().filter(|profile| !profile.extenders.is_empty()) {
        let of_profile = |pod: &&&Pod| serving(profiles, pod).is_some_and(|p| Arc::ptr_eq(p, profile));
        let pods: Vec<_> = pending.iter().filter(of_profile).collect();
        for extender in &profile.extenders {
            let concerned = pods.iter().filter(|pod| extender.is_interested(pod)).count();
            if concerned > 0 {
                let pods =
                    if concerned == 1 { "1 pending pod".to_owned() } else { format!("{concerned} pending pods") };
                notes.push(format!(
                    "extender {} of SchedulerProfile {} concerns {pods} and is not asked: it may leave out nodes or prefer others",
                    extender.name, profile.name
                ));
            }
        }
    }
    notes
}
