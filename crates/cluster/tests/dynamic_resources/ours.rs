//! What Berth says, by its decoders, its ledger and its scheduler.

use berth_cluster::decode::{Decoder, Object};
use berth_cluster::manifest::from_manifest;
use berth_core::cycle::{Decision, Explanation, NodeAnswer, Scheduler, explain};
use berth_core::ledger::{ClaimPlan, Ledger, PodState, Proposal};
use berth_core::model::{Plugin, PluginSet, Pod, RequestMapping, ResourceClaim, Score, Str};
use berth_core::profile::{CompiledProfile, FitStrategy, ResourceWeight};
use berth_devices::model::{AllocationResult, DeviceRequest};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// By PreEnqueue.
    Gated(String),
    /// By PreFilter.
    Refused(String),
    /// The attempt ends in an error.
    Failed(String),
    FitsNowhere {
        /// The code, and why not.
        nodes: BTreeMap<String, String>,
        /// What PostFilter says, if it frees a claim.
        frees: Option<String>,
    },
    Placed {
        node: String,
        /// As above; empty for nodes that fit.
        nodes: BTreeMap<String, String>,
        /// Normalised.
        scores: BTreeMap<String, i64>,
        written: Vec<Written>,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Its name; nothing if it is made.
    pub(crate) claim: String,
    /// What it is made from, and what the pod is told of it.
    pub(crate) made: Option<(Vec<DeviceRequest>, Vec<RequestMapping>)>,
    pub(crate) allocation: Option<AllocationResult>,
    pub(crate) reserved_for: Vec<String>,
}

impl Answer {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Gated(_) => "gated",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
            Self::FitsNowhere { frees: None, .. } => "fits nowhere",
            Self::FitsNowhere { frees: Some(text), .. } if text.starts_with("deletion") => "frees a claim",
            Self::FitsNowhere { frees: Some(_), .. } => "frees devices",
            Self::Placed { .. } => "placed",
        }
    }
}

/// Shares have names that nobody can foresee: they are numbered.
pub(crate) fn numbered(written: &mut [Written]) {
    numbered_in(written.iter_mut().filter_map(|one| one.allocation.as_mut()));
}

pub(crate) fn numbered_in<'a>(allocations: impl IntoIterator<Item = &'a mut AllocationResult>) {
    let mut known: Vec<Str> = Vec::new();
    for result in allocations.into_iter().flat_map(|one| &mut one.results) {
        if let Some(id) = &mut result.share_id {
            let at = known.iter().position(|one| one == id).unwrap_or_else(|| {
                known.push(id.clone());
                known.len() - 1
            });
            *id = at.to_string().into();
        }
    }
}

pub(crate) fn objects(object: &Value, version: &str, kind: &str) -> Object {
    let mut object = object.clone();
    (object["apiVersion"], object["kind"]) = (version.into(), kind.into());
    from_manifest(&mut Decoder::default(), &object).remove(0).unwrap_or_else(|error| panic!("{error}: {object}"))
}

pub(crate) fn claim_in(object: &Value) -> ResourceClaim {
    let Object::ResourceClaim(claim) = objects(object, "resource.k8s.io/v1", "ResourceClaim") else { panic!() };
    *claim
}

/// With all that the question has but the pod and what is in flight.
pub(crate) fn ledger_before(question: &Value) -> Ledger {
    let mut ledger = Ledger::new();
    let kinds = [
        ("nodes", "v1", "Node"),
        ("classes", "resource.k8s.io/v1", "DeviceClass"),
        ("slices", "resource.k8s.io/v1", "ResourceSlice"),
        ("claims", "resource.k8s.io/v1", "ResourceClaim"),
    ];
    for (list, version, kind) in kinds {
        for object in question[list].as_array().unwrap() {
            objects(object, version, kind).apply(&mut ledger);
        }
    }
    ledger
}

pub(crate) fn ledger_of(question: &Value) -> (Ledger, Arc<Pod>) {
    let mut ledger = ledger_before(question);
    objects(&question["pod"], "v1", "Pod").apply(&mut ledger);
    let Some(PodState::Pending(pod)) = ledger.pod("pod-p").cloned() else { panic!("it waits") };
    put_in_flight(&mut ledger, question, &pod);
    (ledger, pod)
}

/// Has another pod decided that gets nothing of each claim that is in flight.
fn put_in_flight(ledger: &mut Ledger, question: &Value, pod: &Arc<Pod>) {
    let uids: Vec<&str> = question["inFlight"].as_array().unwrap().iter().map(|uid| uid.as_str().unwrap()).collect();
    if uids.is_empty() {
        return;
    }
    let mut other = Pod::clone(pod);
    (other.uid, other.key.name) = ("another".into(), "another".into());
    other.resource_claims = None;
    other.extended = None;
    ledger.apply_pod(other);
    let Some(PodState::Pending(other)) = ledger.pod("another").cloned() else { panic!("it waits") };
    let in_flight = ledger.devices().claims().filter(|claim| uids.contains(&&*claim.uid));
    let nothing = Some(Arc::new(AllocationResult::default()));
    let mut claims: Vec<_> = in_flight.map(|claim| (claim.key.clone(), claim.uid.clone(), nothing.clone())).collect();
    claims.sort_by(|a, b| a.0.cmp(&b.0));
    let Decision::Place(proposal) = Scheduler::new(Arc::new(profile()), 1).decide(ledger, &other) else { panic!() };
    let proposal = Proposal { claims: ClaimPlan { claims, extended: None }, ..proposal };
    ledger.commit(&proposal, |_| None).unwrap();
}

pub(crate) fn profile() -> CompiledProfile {
    let mut profile = CompiledProfile::default_preset("p");
    profile.filters = PluginSet::of(Plugin::DynamicResources);
    profile.scores = vec![(Score::DynamicResources, 1)];
    profile.preemption.enabled = false;
    profile
}

/// The scores of the nodes that fit, by the score that the question weighs with.
pub(crate) fn weighed(question: &Value) -> Option<BTreeMap<String, i64>> {
    let (ledger, pod) = ledger_of(question);
    let weigh = &question["weigh"];
    let resources = weigh["resources"].as_array().unwrap().iter().map(|one| ResourceWeight {
        name: one["name"].as_str().unwrap().into(),
        weight: one["weight"].as_i64().unwrap(),
    });
    let mut profile = profile();
    let score = match weigh["strategy"].as_str() {
        None => {
            profile.balanced = resources.map(|one| one.name).collect();
            Score::NodeResourcesBalancedAllocation
        }
        Some(strategy) => {
            profile.fit.resources = resources.collect();
            let is_least = strategy == "LeastAllocated";
            profile.fit.strategy = if is_least { FitStrategy::LeastAllocated } else { FitStrategy::MostAllocated };
            Score::NodeResourcesFit
        }
    };
    profile.scores = vec![(score, 1)];
    let Explanation::Judged(judgement) = explain(&profile, &ledger, &pod) else { return None };
    let total = |answer: &NodeAnswer| if let NodeAnswer::Fits { total, .. } = answer { Some(*total) } else { None };
    Some(judgement.nodes.iter().filter_map(|(name, answer)| Some((name.to_string(), total(answer)?))).collect())
}

/// `None` where upstream's search might take seconds.
pub(crate) fn answer(question: &Value) -> Option<Answer> {
    let (mut ledger, pod) = ledger_of(question);
    answer_in(&mut ledger, &mut Scheduler::new(Arc::new(profile()), 1), &pod)
}

/// As above, by what the scheduler has kept. A pod that is placed holds what it got from then on.
pub(crate) fn answer_in(ledger: &mut Ledger, scheduler: &mut Scheduler, pod: &Arc<Pod>) -> Option<Answer> {
    let judgement = match explain(&profile(), ledger, pod) {
        Explanation::Gated(text) => return Some(Answer::Gated(text)),
        Explanation::Held(text) => panic!("held: {text}"),
        Explanation::Failed(text) if text.contains("timed out") => return None,
        Explanation::Failed(text) => return Some(Answer::Failed(text.to_string())),
        Explanation::Judged(judgement) => judgement,
    };
    if let Some(text) = judgement.diagnosis.as_ref().and_then(|diagnosis| diagnosis.pre_filter()) {
        return Some(Answer::Refused(text.to_string()));
    }
    let (mut nodes, mut scores) = (BTreeMap::new(), BTreeMap::new());
    for (name, answer) in &judgement.nodes {
        match answer {
            NodeAnswer::Refused { code, reasons, .. } => {
                nodes.insert(name.to_string(), format!("{}: {}", code.as_str(), reasons[0]));
            }
            NodeAnswer::Fits { total, .. } => {
                nodes.insert(name.to_string(), String::new());
                scores.insert(name.to_string(), *total);
            }
        }
    }
    match scheduler.decide(ledger, pod) {
        Decision::NoFit(no_fit) => {
            let explained = judgement.diagnosis.as_ref().map(ToString::to_string);
            assert_eq!(Some(no_fit.diagnosis.to_string()), explained);
            let frees = no_fit.idle_claim.map(|claim| claim.given_back().to_owned());
            Some(Answer::FitsNowhere { nodes, frees })
        }
        Decision::Place(proposal) => {
            let node = ledger.nodes().name(proposal.node).to_string();
            assert_eq!(scores.get(&node), scores.values().max(), "{node} of {scores:?}");
            let committed = ledger.commit(&proposal, |_| None).unwrap();
            let writes = committed.claims.unwrap_or_default();
            let of = |write: &berth_core::model::ClaimWrite| {
                let claim = ledger.devices().claim(&write.key).unwrap();
                let known = claim.allocation.as_ref().map(|allocation| allocation.result.clone());
                let mut reserved_for: Vec<String> = claim.reserved_for.iter().map(ToString::to_string).collect();
                reserved_for.push(pod.uid.to_string());
                reserved_for.sort();
                let allocation = write.allocation.as_ref().map(|result| AllocationResult::clone(result)).or(known);
                let made = write.creates.as_ref();
                let claim = if made.is_some() { String::new() } else { write.key.name.to_string() };
                let made = made.map(|made| (made.spec.requests.clone(), made.mappings.clone()));
                Written { claim, made, allocation, reserved_for }
            };
            let mut written: Vec<Written> = writes.iter().filter(|write| write.needed).map(of).collect();
            numbered(&mut written);
            Some(Answer::Placed { node, nodes, scores, written })
        }
        other => panic!("{other:?}"),
    }
}
