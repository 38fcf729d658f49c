//! One cluster decided by one worker, pod by pod, and each step measured.

use super::bounds::{Figures, Step};
use super::{Cluster, PodText, SCHEDULER};
use berth_api::SchedulerProfileSpec;
use berth_cluster::decode::Decoder;
use berth_cluster::manifest::from_manifest;
use berth_cluster::slim::{SlimNode, SlimPod, known, unknown};
use berth_core::cycle::{Decision, Explanation, NodeAnswer, Scheduler, explain};
use berth_core::io::{BindOutcome, Effect, EvictRequest, EvictionOutcome, Input, VolumesOutcome};
use berth_core::ledger::{HashKey, Ledger, LedgerAccess, PodState};
use berth_core::model::{Pod, ResourceClaim, Str, Time};
use berth_core::profile::CompiledProfile;
use berth_core::testing::{claims_are_written, without_post_filter};
use berth_core::worker::{Next, Worker};
use berth_counting::{live, measure};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Clusters of more nodes are decided once: from some hundred on a worker looks at a part of them, where another looks elsewhere.
const TWIN_NODES: usize = 99;

/// Lets a worker decide about all pods of `cluster`, and takes the pods away again.
pub(super) fn run(cluster: &Cluster, figures: &mut Figures) {
    let profile = profile(cluster.preset);
    figures.refused += cluster.refused;
    let mut decoder = Decoder::default();
    let mut subject = Subject::new(cluster, &profile, figures);
    subject.step("no pods", String::new);
    let before = live();
    let is_twin = cluster.nodes.len() <= TWIN_NODES;
    let mut twin = is_twin.then(|| Twin::new(cluster, &profile));
    for pod in &cluster.placed {
        subject.apply(&mut decoder, pod);
        if let Some(twin) = &mut twin {
            twin.apply(pod);
        }
    }
    subject.step("placed pods", String::new);
    for pod in &cluster.edits {
        subject.apply(&mut decoder, pod);
    }
    for pod in &cluster.pending {
        subject.apply(&mut decoder, pod);
        if let Some(twin) = &mut twin {
            twin.apply(pod);
        }
        let effects = subject.step(&pod.uid, || shape_of(&pod.text));
        if let Some(twin) = &twin {
            twin.compare(&effects, &pod.uid, subject.figures);
        }
        for effect in effects {
            subject.perform(effect, &mut twin);
        }
        if let Some(twin) = &mut twin {
            twin.follow(&subject.ledger, &cluster.pending);
        }
    }
    drop(twin);
    // A node reports that its images are in another order, and one less.
    let large: Vec<Value> =
        cluster.nodes.iter().filter(|text| text.len() > LARGE).map(|text| fewer_images(text)).collect();
    for node in large {
        subject.apply_node(&mut decoder, &node.to_string());
    }
    subject.timed("a snapshot", String::new, |subject| drop(subject.worker.snapshot(&subject.ledger)));
    for (pods, what) in [(&cluster.placed, "the placed pods go"), (&cluster.pending, "the pending pods go")] {
        for pod in pods {
            subject.ledger.write(|ledger| ledger.delete_pod(&pod.uid));
        }
        drop(subject.step(what, String::new));
    }
    subject.inputs = Vec::new();
    let with_decoder = live();
    drop(decoder);
    let by_decoder = with_decoder - live();
    let kept = live() - before;
    subject.figures.note_left(kept, by_decoder);
}

fn profile(preset: u8) -> Arc<CompiledProfile> {
    let spec = match preset {
        0..=159 => json!({"preset": "Default"}),
        160..=175 => json!({"preset": "BinPack"}),
        176..=191 => json!({"preset": "BinPack", "scores": [{"name": "Fragmentation"}]}),
        192..=223 => json!({"preset": "Spread"}),
        _ => json!({"preset": "NoScoring"}),
    };
    let spec: SchedulerProfileSpec = serde_json::from_value(spec).unwrap();
    Arc::new(berth_profile::compile(SCHEDULER, &spec).unwrap())
}

/// Bytes of an object that is hostile for sure.
const LARGE: usize = 64 << 10;

fn fewer_images(text: &str) -> Value {
    let mut node: Value = serde_json::from_str(text).unwrap();
    if let Some(images) = node["status"]["images"].as_array_mut() {
        images.pop();
        images.reverse();
    }
    node
}

/// The lists of an object that have more than a few entries.
fn shape_of(text: &str) -> String {
    fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if map.len() > 16 {
                    found.push(format!("{path}={}", map.len()));
                }
                map.iter().for_each(|(key, value)| walk(value, &format!("{path}.{key}"), found));
            }
            Value::Array(list) => {
                if list.len() > 4 {
                    found.push(format!("{path}={}", list.len()));
                }
                if let Some(first) = list.first() {
                    walk(first, &format!("{path}[]"), found);
                }
            }
            _ => {}
        }
    }
    let mut found = vec![format!(" of {} KiB", text.len() >> 10)];
    walk(&serde_json::from_str(text).unwrap_or_default(), "", &mut found);
    found.join(" ")
}

/// A ledger that knows how often and for how long it was held.
struct Clocked {
    ledger: RefCell<Ledger>,
    holds: Cell<usize>,
    longest: Cell<Duration>,
}

impl Clocked {
    fn held<R>(&self, f: impl FnOnce() -> R) -> R {
        let begun = Instant::now();
        let result = f();
        self.holds.set(self.holds.get() + 1);
        self.longest.set(self.longest.get().max(begun.elapsed()));
        result
    }
}

impl LedgerAccess for Clocked {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        self.held(|| self.ledger.read(f))
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        self.held(|| self.ledger.write(f))
    }
}

/// The worker that is measured, with its ledger.
struct Subject<'f> {
    ledger: Clocked,
    worker: Worker,
    inputs: Vec<Input>,
    /// Pods that the present step has decided about.
    decided: usize,
    figures: &'f mut Figures,
}

impl<'f> Subject<'f> {
    fn new(cluster: &Cluster, profile: &Arc<CompiledProfile>, figures: &'f mut Figures) -> Self {
        let ledger = Ledger::with_hash_key(&HashKey::new([1, 2]));
        let ledger = Clocked { ledger: RefCell::new(ledger), holds: Cell::default(), longest: Cell::default() };
        let mut subject =
            Self { ledger, worker: Worker::new(profile.clone(), 1), inputs: Vec::new(), decided: 0, figures };
        let decoder = &mut Decoder::plain();
        subject.ledger.serve(profile.scheduler_names.clone());
        let ledger = &subject.ledger.ledger;
        subject.figures.refused += apply_others(cluster, &mut ledger.borrow_mut());
        for text in &cluster.nodes {
            subject.apply_node(decoder, text);
        }
        subject
    }

    fn apply_node(&mut self, decoder: &mut Decoder, text: &str) {
        let (node, taken) = measure(|| decoder.node(&SlimNode::read(text.as_bytes())));
        self.figures.note_decoded("a node", text.len(), taken);
        let Ok(node) = node else { return self.figures.refused += 1 };
        self.timed(
            "a node is applied",
            || shape_of(text),
            |subject| subject.ledger.write(|ledger| ledger.apply_node(&node)),
        );
    }

    fn apply(&mut self, decoder: &mut Decoder, pod: &PodText) {
        let (read, taken) = measure(|| read(decoder, pod));
        self.figures.note_decoded(&pod.uid, pod.text.len(), taken);
        let Some(read) = read else { return self.figures.refused += 1 };
        let what = format!("{} is applied", pod.uid);
        self.timed(&what, || shape_of(&pod.text), |subject| subject.ledger.write(|ledger| ledger.apply_pod(read)));
    }

    /// Lets the worker step until it has nothing more to do.
    fn step(&mut self, what: &str, details: impl Fn() -> String) -> Vec<Effect> {
        let mut effects = Vec::new();
        loop {
            let next = self.timed(what, &details, |subject| {
                let Self { worker, inputs, ledger, .. } = subject;
                let before = effects.len();
                let next = worker.step(Time::ZERO, inputs, &*ledger, &mut effects);
                for effect in &effects[before..] {
                    if let Effect::Refuse(refusal) = effect {
                        drop(refusal.text.to_string());
                    }
                }
                subject.decided = effects[before..].iter().filter(|effect| is_decision(effect)).count();
                next
            });
            if next != Next::Now {
                return effects;
            }
        }
    }

    fn timed<R>(&mut self, what: &str, details: impl FnOnce() -> String, f: impl FnOnce(&mut Self) -> R) -> R {
        self.ledger.holds.set(0);
        self.ledger.longest.set(Duration::ZERO);
        self.decided = 0;
        let known = self.worker.heaviest_look();
        let begun = Instant::now();
        let (result, taken) = measure(|| f(self));
        let took = begun.elapsed();
        let (holds, longest) = (self.ledger.holds.get(), self.ledger.longest.get());
        let look = Some(self.worker.heaviest_look()).filter(|look| *look != known).unwrap_or_default();
        let step = Step { what: what.to_owned(), decided: self.decided, took, holds, longest, taken, look };
        self.figures.note(step, details);
        result
    }

    /// Does what the worker wants done, as an API server that takes everything but writes to volumes and their claims.
    fn perform(&mut self, effect: Effect, twin: &mut Option<Twin>) {
        let mut both = |f: &dyn Fn(&mut Ledger)| {
            f(&mut self.ledger.ledger.borrow_mut());
            if let Some(twin) = twin {
                f(&mut twin.ledger);
            }
        };
        match effect {
            Effect::Bind(request) => {
                let bound = Pod { node_name: Some(request.node), nominated_node: None, ..Pod::clone(&request.pod) };
                both(&|ledger| ledger.apply_pod(bound.clone()));
                self.inputs.push(Input::BindEnded { attempt: request.attempt, outcome: BindOutcome::Bound });
            }
            Effect::BindVolumes(request) => {
                // Once its claims for devices were written the twin has the pod on the node: it comes to nothing.
                if let Some(twin) = twin {
                    twin.ledger.delete_pod(&request.pod.uid);
                    twin.ledger.apply_pod(Pod::clone(&request.pod));
                }
                let outcome = VolumesOutcome::Failed { code: None, message: "no".to_owned() };
                self.inputs.push(Input::VolumesWritten { attempt: request.attempt, outcome });
            }
            Effect::ReserveClaims(request) => {
                let outcome = claims_are_written(&mut self.ledger.ledger.borrow_mut(), &request, "2");
                // The twin has decided nothing: it learns of the devices by what is seen, also of claims that were made, and of the pod's
                // place, which counts from the decision on, here and not with the bind.
                let ledger = self.ledger.ledger.borrow();
                let node = ledger.pod(&request.pod.uid).and_then(PodState::placed).map(|placed| placed.node);
                if let (Some(twin), Some(node)) = (twin, node) {
                    for claim in request.writes.iter().filter_map(|write| ledger.devices().claim(&write.key)) {
                        twin.ledger.apply_resource_claim(ResourceClaim::clone(claim));
                    }
                    let node_name = Some(ledger.nodes().name(node).clone());
                    twin.ledger.apply_pod(Pod { node_name, ..Pod::clone(&request.pod) });
                }
                drop(ledger);
                self.figures.reserved += 1;
                self.inputs.push(Input::ClaimsWritten { attempt: request.attempt, outcome });
            }
            Effect::Evict(EvictRequest { attempt, preemptor, victims, taken_back, .. }) => {
                for victim in victims.iter().chain(&taken_back) {
                    both(&|ledger| ledger.delete_pod(&victim.uid));
                }
                both(&|ledger| ledger.delete_pod(&preemptor.uid));
                self.inputs.push(Input::EvictionEnded { attempt, outcome: EvictionOutcome::Done });
            }
            Effect::AskExtender(_)
            | Effect::Nominate(_)
            | Effect::AwaitDevices { .. }
            | Effect::Unreserve(_)
            | Effect::Deallocate(_)
            | Effect::Refuse(_) => {}
        }
    }
}

/// How the errors begin that end an attempt for the devices of one node.
const OF_DEVICES: &str = "running \"DynamicResources\" filter plugin: ";

/// How the error ends where the search on a node took too many steps.
const TOO_LONG: &str = ": timed out trying to allocate devices";

/// As the watch of pods reads one; none where it is refused.
fn read(decoder: &mut Decoder, pod: &PodText) -> Option<Pod> {
    let bytes = pod.text.as_bytes();
    let mut slim = SlimPod::read(bytes);
    if slim.is_pending() {
        slim.unknown = unknown::unknown_fields(bytes, &known::POD);
    }
    decoder.pod(&slim).ok()
}

/// Applies what is neither node nor pod; returns how many objects are refused.
fn apply_others(cluster: &Cluster, ledger: &mut Ledger) -> usize {
    let decoder = &mut Decoder::plain();
    let mut refused = 0;
    for object in cluster.others.iter().flat_map(|other| from_manifest(decoder, other)) {
        match object {
            Ok(object) => object.apply(ledger),
            Err(_) => refused += 1,
        }
    }
    refused
}

/// The same cluster under another hash key, about which a scheduler without a past decides in one go, with other ties.
struct Twin {
    ledger: Ledger,
    profile: Arc<CompiledProfile>,
}

impl Twin {
    fn new(cluster: &Cluster, profile: &Arc<CompiledProfile>) -> Self {
        let ledger = RefCell::new(Ledger::with_hash_key(&HashKey::new([3, 4])));
        ledger.serve(profile.scheduler_names.clone());
        let mut ledger = ledger.into_inner();
        apply_others(cluster, &mut ledger);
        let decoder = &mut Decoder::small();
        for text in &cluster.nodes {
            if let Ok(node) = decoder.node(&SlimNode::read(text.as_bytes())) {
                ledger.apply_node(&node);
            }
        }
        Self { ledger, profile: profile.clone() }
    }

    fn apply(&mut self, pod: &PodText) {
        if let Some(pod) = read(&mut Decoder::small(), pod) {
            self.ledger.apply_pod(pod);
        }
    }

    /// Nominates whom the worker has nominated.
    fn follow(&mut self, ledger: &Clocked, pending: &[PodText]) {
        let ledger = ledger.ledger.borrow();
        for pod in pending {
            if let Some(PodState::Pending(known)) = ledger.pod(&pod.uid) {
                self.ledger.nominate(&pod.uid, known.nominated_node.clone());
            }
        }
    }

    /// Compares what the worker said of a pod with what is to be said.
    fn compare(&self, effects: &[Effect], uid: &str, figures: &mut Figures) {
        let Some(PodState::Pending(pod)) = self.ledger.pod(uid) else { return };
        let Some(said) = effects.iter().find_map(|effect| Said::of(effect, effects, uid)) else { return };
        let due = Scheduler::new(self.profile.clone(), 2).decide(&self.ledger, pod);
        let same = match (&said, &due) {
            (Said::Placed(node), Decision::Place(_)) => self.is_best(pod, node),
            (Said::Refused(text), Decision::NoFit(no_fit)) => *text == no_fit.diagnosis.to_string(),
            (Said::Refused(_), Decision::NoNodes) => true,
            // Without scores the first node that fits will do, before or after one that fails, and each begins at another.
            (Said::Refused(text), Decision::Place(_)) => self.profile.scores.is_empty() && text.starts_with(OF_DEVICES),
            (Said::Placed(_), Decision::Failed(due)) if self.profile.scores.is_empty() => due.starts_with(OF_DEVICES),
            (said, Decision::Failed(due)) => said.fails_as(due),
            _ => false,
        };
        if !same {
            figures.fault(&format!("{uid}: the worker said {said:?}, a new one {due:?}"));
        }
    }

    /// Whether no node is better, computed from nothing.
    fn is_best(&self, pod: &Arc<Pod>, node: &Str) -> bool {
        let Explanation::Judged(judgement) = explain(&self.profile, &self.ledger, pod) else { return false };
        let total = |answer: &NodeAnswer| if let NodeAnswer::Fits { total, .. } = answer { Some(*total) } else { None };
        let own = judgement.nodes.iter().find(|(name, _)| name == node).and_then(|(_, answer)| total(answer));
        let is_nominated = pod.nominated_node.as_ref() == Some(node);
        own.is_some() && (is_nominated || own == judgement.nodes.iter().filter_map(|(_, answer)| total(answer)).max())
    }
}

/// Whether the worker is through with a pod that it tried.
fn is_decision(effect: &Effect) -> bool {
    match effect {
        Effect::Bind(_) | Effect::BindVolumes(_) | Effect::ReserveClaims(_) => true,
        Effect::Refuse(refusal) => refusal.attempted,
        Effect::Evict(_)
        | Effect::AskExtender(_)
        | Effect::Nominate(_)
        | Effect::AwaitDevices { .. }
        | Effect::Unreserve(_)
        | Effect::Deallocate(_) => false,
    }
}

/// What a worker said of one pod that it tried.
#[derive(Debug)]
enum Said {
    Placed(Str),
    Refused(String),
}

impl Said {
    /// Whether it may be said where a scheduler without a past fails for this. Nodes may fail for several reasons, and the search of a worker
    /// begins at another node each time. It also knows what selectors have answered before, which counts as steps the first time.
    fn fails_as(&self, due: &str) -> bool {
        let is_alike = |text: &str| text == due || text.starts_with(OF_DEVICES) && due.starts_with(OF_DEVICES);
        due.ends_with(TOO_LONG) || matches!(self, Self::Refused(text) if is_alike(text))
    }

    fn of(effect: &Effect, effects: &[Effect], uid: &str) -> Option<Self> {
        match effect {
            Effect::Bind(request) if *request.pod.uid == *uid => Some(Self::Placed(request.node.clone())),
            Effect::BindVolumes(request) if *request.pod.uid == *uid => Some(Self::Placed(request.node.clone())),
            // The nomination goes before it, and says where.
            Effect::ReserveClaims(request) if *request.pod.uid == *uid => {
                effects.iter().find_map(|effect| match effect {
                    Effect::Nominate(request) if *request.pod.uid == *uid => request.node.clone().map(Self::Placed),
                    _ => None,
                })
            }
            Effect::Refuse(refusal) if *refusal.pod.uid == *uid && refusal.attempted => {
                Some(Self::Refused(without_post_filter(&refusal.text)))
            }
            _ => None,
        }
    }
}
