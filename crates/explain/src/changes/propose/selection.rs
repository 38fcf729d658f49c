//! nodeSelector and required node affinity: changes of the pod, and of the nodes' labels.

use super::labels::{Missing, is_settable, missing};
use super::terms::{name_test, node_term, node_test};
use super::{GUESSES, relabelled};
use crate::changes::change::{ChangeKind, Draft};
use crate::changes::edit::Edit;
use crate::changes::scene::{Scene, View};
use crate::changes::trial::Trial;
use berth_core::model::{NodeSelector, Pod, PodShape, Str};
use berth_core::plugins::Plugin;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const REQUIRED: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";

/// One entry of the pod's selection dropped, or a value that no node has respelled as nodes spell it.
pub(super) fn pod(scene: &Scene<'_>, _: &mut Trial<'_>) -> Vec<Draft> {
    if scene.only(&[Plugin::NodeAffinity]).next().is_none() {
        return Vec::new();
    }
    let mut drafts = Vec::new();
    for (key, value) in scene.pod.shape.node_selector.iter().take(GUESSES) {
        drafts.extend(respelled(scene, key, value));
        drafts.push(dropped(scene.pod, key, value));
    }
    drafts.extend(affinity(scene.pod).into_iter().take(GUESSES));
    drafts
}

pub(super) fn dropped(pod: &Pod, key: &Str, value: &Str) -> Draft {
    Draft {
        kind: ChangeKind::DropNodeSelector,
        edit: Edit::of_pod(pod, |shape| shape.node_selector = relabelled(&shape.node_selector, key, None)),
        field: format!("spec.nodeSelector[{key}]"),
        from: json!(&**value),
        to: Value::Null,
        text: format!("drop nodeSelector {key}={value}"),
        weight: 0,
    }
}

/// The nodes' value that is one or two letters from a value that no node has.
fn respelled(scene: &Scene<'_>, key: &Str, value: &Str) -> Option<Draft> {
    let there: BTreeSet<&Str> = scene.views.iter().filter_map(|view| view.node.labels.get(key)).collect();
    if there.contains(value) {
        return None;
    }
    let near = there.into_iter().map(|other| (strsim::levenshtein(value, other), other)).min()?;
    let (_, other) = Some(near).filter(|(apart, _)| *apart <= 2 && *apart < value.chars().count())?;
    Some(Draft {
        kind: ChangeKind::ChangeNodeSelector,
        edit: Edit::of_pod(scene.pod, |shape| {
            shape.node_selector = relabelled(&shape.node_selector, key, Some(other));
        }),
        field: format!("spec.nodeSelector[{key}]"),
        from: json!(&**value),
        to: json!(&**other),
        text: format!("spell nodeSelector {key}={other} instead of {key}={value}"),
        weight: 0,
    })
}

/// Each expression of the required affinity dropped, and all of it turned into a preference.
fn affinity(pod: &Pod) -> Vec<Draft> {
    let Some(required) = &pod.shape.required_affinity else { return Vec::new() };
    let mut drafts = Vec::new();
    for (at, term) in required.terms.iter().enumerate() {
        // An empty term matches no node: something must be left of it.
        if term.expressions.len() + term.names.len() < 2 || term.broken {
            continue;
        }
        for (index, test) in term.expressions.iter().enumerate() {
            let field = format!("{REQUIRED}.nodeSelectorTerms[{at}].matchExpressions[{index}]");
            drafts.push(without(pod, field, node_test(test), |required| {
                required.terms[at].expressions.remove(index);
            }));
        }
        for (index, test) in term.names.iter().enumerate() {
            let field = format!("{REQUIRED}.nodeSelectorTerms[{at}].matchFields[{index}]");
            drafts.push(without(pod, field, name_test(test), |required| {
                required.terms[at].names.remove(index);
            }));
        }
    }
    drafts.extend(preferred(pod));
    drafts
}

/// All of the required affinity turned into a preference.
pub(super) fn preferred(pod: &Pod) -> Option<Draft> {
    let required = pod.shape.required_affinity.as_ref()?;
    let all: Vec<String> = required.terms.iter().map(node_term).collect();
    Some(Draft {
        kind: ChangeKind::DropNodeAffinity,
        edit: Edit::of_pod(pod, |shape: &mut PodShape| shape.required_affinity = None),
        field: REQUIRED.to_owned(),
        from: json!(all.join(" or ")),
        to: Value::Null,
        text: format!("make the required node affinity ({}) a preferred one", all.join(" or ")),
        weight: 1,
    })
}

fn without(pod: &Pod, field: String, test: String, change: impl FnOnce(&mut NodeSelector)) -> Draft {
    Draft {
        kind: ChangeKind::DropNodeAffinity,
        edit: Edit::of_pod(pod, |shape| {
            if let Some(required) = &mut shape.required_affinity {
                change(required);
            }
        }),
        field,
        from: json!(test),
        to: Value::Null,
        text: format!("drop the node affinity expression {test}"),
        weight: 0,
    }
}

/// One label of a node, where that is all it lacks. Labels that the system sets are not for people to change.
pub(super) fn label_nodes(scene: &Scene<'_>, _: &mut Trial<'_>) -> Vec<Draft> {
    let drafts = scene.only(&[Plugin::NodeAffinity]).filter_map(|view| labelled(scene, view));
    drafts.take(GUESSES).collect()
}

fn labelled(scene: &Scene<'_>, view: &View<'_>) -> Option<Draft> {
    let Missing { key, value } = missing(scene.profile, scene.pod, view.node)?;
    if !is_settable(&key) {
        return None;
    }
    let name = &view.node.name;
    let now = view.node.labels.get(&key);
    let text = match (now, &value) {
        (None, Some(value)) => format!("label {name} with {key}={value}"),
        (Some(now), Some(value)) => format!("label {name} with {key}={value} instead of {now}"),
        (_, None) => format!("take the label {key} from {name}"),
    };
    Some(Draft {
        kind: ChangeKind::LabelNode,
        field: format!("metadata.labels[{key}]"),
        from: now.map_or(Value::Null, |now| json!(&**now)),
        to: value.as_ref().map_or(Value::Null, |value| json!(value)),
        text,
        // A label that is new takes nothing from anyone.
        weight: u64::from(now.is_some()),
        edit: Edit::of_node(view.node, |node| node.labels = relabelled(&node.labels, &key, value.as_deref())),
    })
}
