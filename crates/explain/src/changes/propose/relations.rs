//! Affinity and anti-affinity between pods: a term dropped, a label of the pod changed.

use super::{ChangeKind, Draft, Edit, GUESSES, Scene, Trial, relabelled, terms::pod_term};
use berth_core::ledger::Ledger;
use berth_core::model::{AffinityTerm, LabelSelector, Pod, PodShape, Requirement, RequirementOperator, Str};
use berth_core::plugins::{Cause, Plugin};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// What relaxes InterPodAffinity on the pod's side.
pub(super) fn relax(scene: &Scene<'_>, trial: &mut Trial<'_>) -> Vec<Draft> {
    let mut causes: Vec<Cause> = scene.only(&[Plugin::InterPodAffinity]).filter_map(|v| v.obstacles[0].cause).collect();
    causes.dedup();
    let mut drafts = Vec::new();
    if causes.contains(&Cause::PodAffinity) {
        drafts.extend(founder(scene.pod));
        let terms = 0..scene.pod.shape.affinity.len();
        drafts.extend(terms.take(GUESSES).map(|at| without_term(scene.pod, ChangeKind::DropPodAffinity, at)));
    }
    if causes.contains(&Cause::PodAntiAffinity) {
        let terms = 0..scene.pod.shape.anti_affinity.len();
        drafts.extend(terms.take(GUESSES).map(|at| without_term(scene.pod, ChangeKind::DropPodAntiAffinity, at)));
    }
    if causes.contains(&Cause::ExistingAntiAffinity) {
        drafts.extend(avoided(scene.pod, trial.ledger()));
    }
    drafts
}

/// One required term turned into a preference: of the affinity or of the anti-affinity to pods, as `kind` says.
pub(super) fn without_term(pod: &Pod, kind: ChangeKind, at: usize) -> Draft {
    type Terms = fn(&mut PodShape) -> &mut Vec<AffinityTerm>;
    let (terms, path, sort): (Terms, _, _) = match kind {
        ChangeKind::DropPodAffinity => (|shape| &mut shape.affinity, "podAffinity", "affinity"),
        _ => (|shape| &mut shape.anti_affinity, "podAntiAffinity", "anti-affinity"),
    };
    let mut changed = PodShape::clone(&pod.shape);
    let term = pod_term(&terms(&mut changed).remove(at));
    Draft {
        kind,
        edit: Edit::Pod(Box::new(Pod { shape: Arc::new(changed), ..pod.clone() })),
        field: format!("spec.affinity.{path}.{REQUIRED}[{at}]"),
        from: json!(term),
        to: Value::Null,
        text: format!("make the required {sort} to pods with {term} a preferred one"),
        weight: 0,
    }
}

/// The label with which the pod matches its own affinity: then it may be the first of the pods that do.
fn founder(pod: &Pod) -> Option<Draft> {
    let shape = &pod.shape;
    if !is_relabelled_alike(pod) {
        return None;
    }
    let requirements = || shape.affinity.iter().flat_map(|term| &term.selector).flat_map(|s| &s.requirements);
    let alone = |requirement: &Requirement| LabelSelector { requirements: vec![requirement.clone()] };
    let mut failing: Vec<&Requirement> = requirements().filter(|r| !alone(r).matches(&shape.labels)).collect();
    failing.dedup();
    let [requirement] = &*failing else { return None };
    let value = match requirement.operator {
        RequirementOperator::In => Some(requirement.values.first()?.to_string()),
        RequirementOperator::Exists => Some("true".to_owned()),
        RequirementOperator::NotIn | RequirementOperator::DoesNotExist => None,
    };
    let key = &requirement.key;
    let text = match &value {
        Some(value) => format!("label the pod {key}={value}, so that it is one of those its own affinity means"),
        None => format!("take the label {key} from the pod, so that it is one of those its own affinity means"),
    };
    Some(labelled(pod, key, value, text, 0))
}

/// Whether another label changes nothing else of the pod's demands. `matchLabelKeys` of a spread constraint would: decoding puts
/// them into its selector, with the values that the pod's labels have then.
fn is_relabelled_alike(pod: &Pod) -> bool {
    pod.shape.spread.is_empty()
}

/// Each label of the pod that anti-affinity of placed pods selects, removed.
fn avoided(pod: &Pod, ledger: &Ledger) -> Vec<Draft> {
    let shape = &pod.shape;
    if !is_relabelled_alike(pod) {
        return Vec::new();
    }
    let terms = ledger.terms().anti_affinity.iter().map(|(term, _)| term);
    let mut keys: BTreeSet<&Str> = BTreeSet::new();
    for term in terms.filter(|term| ledger.speaks_of(term, &shape.namespace, &shape.labels)) {
        let requirements = term.selector.iter().flat_map(|selector| &selector.requirements);
        let needs = |r: &&Requirement| matches!(r.operator, RequirementOperator::In | RequirementOperator::Exists);
        keys.extend(requirements.filter(needs).map(|r| &r.key));
    }
    let draft = |key: &Str| {
        let text = format!("take the label {key} from the pod: running pods keep away from it");
        labelled(pod, key, None, text, 1)
    };
    keys.into_iter().take(GUESSES).map(draft).collect()
}

fn labelled(pod: &Pod, key: &Str, value: Option<String>, text: String, weight: u64) -> Draft {
    let now = pod.shape.labels.get(key);
    Draft {
        kind: ChangeKind::LabelPod,
        field: format!("metadata.labels[{key}]"),
        from: now.map_or(Value::Null, |now| json!(&**now)),
        to: value.as_ref().map_or(Value::Null, |value| json!(value)),
        text,
        weight,
        edit: Edit::of_pod(pod, |shape| shape.labels = relabelled(&shape.labels, key, value.as_deref())),
    }
}
