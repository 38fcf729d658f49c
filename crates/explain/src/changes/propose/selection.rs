//! nodeSelector and required node affinity: changes of the pod, and of the nodes' labels.

use super::terms::{name_test, node_term, node_test};
use super::{ChangeKind, Draft, Edit, GUESSES, Scene, Trial, View, relabelled};
use berth_core::model::{Labels, Node, NodeSelector, NodeSelectorTerm, NodeTest, NodeTestOperator, Pod, PodShape, Str};
use berth_core::plugins::Plugin;
use berth_core::profile::CompiledProfile;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const REQUIRED: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";

/// One entry of the pod's selection dropped, or a value that no node has respelled as nodes spell it.
pub(super) fn pod(scene: &Scene<'_>, _: &mut Trial<'_>) -> Vec<Draft> {
    if scene.only(&[Plugin::NodeAffinity]).next().is_none() {
        return Vec::new();
    }
    let mut drafts = Vec::new();
    for (key, value) in scene.pod.shape.row.node_selector.iter().take(GUESSES) {
        drafts.extend(respelled(scene, key, value));
        drafts.push(dropped(scene.pod, key, value));
    }
    drafts.extend(affinity(scene.pod).into_iter().take(GUESSES));
    drafts
}

pub(super) fn dropped(pod: &Pod, key: &Str, value: &Str) -> Draft {
    Draft {
        kind: ChangeKind::DropNodeSelector,
        edit: Edit::of_pod(pod, |shape| {
            shape.row_mut().node_selector = relabelled(&shape.row.node_selector, key, None);
        }),
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
            shape.row_mut().node_selector = relabelled(&shape.row.node_selector, key, Some(other));
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
    let Some(required) = &pod.shape.row.required_affinity else { return Vec::new() };
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
    let required = pod.shape.row.required_affinity.as_ref()?;
    let all: Vec<String> = required.terms.iter().map(node_term).collect();
    Some(Draft {
        kind: ChangeKind::DropNodeAffinity,
        edit: Edit::of_pod(pod, |shape: &mut PodShape| shape.row_mut().required_affinity = None),
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
            if let Some(required) = &mut shape.row_mut().required_affinity {
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

#[derive(Debug, Clone, PartialEq, Eq)]
struct Missing {
    key: Str,
    /// What it must be; `None` where it must not be there.
    value: Option<String>,
}

/// The one label that would let `node` be selected by the pod and the profile; none where more are needed, or none would do.
fn missing(profile: &CompiledProfile, pod: &Pod, node: &Node) -> Option<Missing> {
    let shape = &pod.shape;
    let by_selector = shape.row.node_selector.iter().filter(|(key, value)| node.labels.get(key) != Some(*value));
    let wanted: Vec<Missing> =
        by_selector.map(|(key, value)| Missing { key: key.clone(), value: Some(value.to_string()) }).collect();
    let affinities = || shape.row.required_affinity.iter().chain(&profile.added_affinity.required);
    match &*wanted {
        [] => affinities().find_map(|required| by_term(required, node)),
        [one] => Some(one.clone()),
        _ => None,
    }
    // What one of them asks for may be what another forbids.
    .filter(|one| {
        let labels = relabelled(&node.labels, &one.key, one.value.as_deref());
        let admits = |labels: &Labels| affinities().all(|required| required.matches(&node.name, labels));
        shape.row.node_selector.is_subset_of(&labels) && admits(&labels)
    })
}

/// The label that makes a term match that fails in one expression only.
fn by_term(required: &NodeSelector, node: &Node) -> Option<Missing> {
    if required.matches(&node.name, &node.labels) {
        return None;
    }
    let named = |term: &&NodeSelectorTerm| term.names.iter().all(|(wanted, name)| (*name == node.name) == *wanted);
    required.terms.iter().filter(|term| !term.broken).filter(named).find_map(|term| {
        let mut failing = term.expressions.iter().filter(|test| !test.matches(&node.labels));
        let (first, second) = (failing.next()?, failing.next());
        second.is_none().then(|| passing(first)).flatten()
    })
}

/// The label with which a node passes the test.
fn passing(test: &NodeTest) -> Option<Missing> {
    let number = || test.values.first()?.parse::<i64>().ok();
    let value = match test.operator {
        NodeTestOperator::In => Some(test.values.first()?.to_string()),
        NodeTestOperator::Exists => Some("true".to_owned()),
        NodeTestOperator::Gt => Some(number()?.checked_add(1)?.to_string()),
        NodeTestOperator::Lt => Some(number()?.checked_sub(1)?.to_string()),
        NodeTestOperator::NotIn | NodeTestOperator::DoesNotExist => None,
    };
    Some(Missing { key: test.key.clone(), value })
}

/// Whether people may set this label: some are facts that only the kubelet, the cloud or an autoscaler knows.
fn is_settable(key: &str) -> bool {
    const OF_THE_SYSTEM: [&str; 6] =
        ["kubernetes.io", "k8s.io", "karpenter.sh", "eks.amazonaws.com", "cloud.google.com", "kubernetes.azure.com"];
    let Some((domain, _)) = key.split_once('/') else { return true };
    domain == "node-restriction.kubernetes.io"
        || !(domain.starts_with("topology.")
            || OF_THE_SYSTEM
                .iter()
                .any(|system| domain.strip_suffix(system).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_the_system_are_not_settable() {
        for key in ["disk", "team.example.com/pool", "node-restriction.kubernetes.io/zone"] {
            assert!(is_settable(key), "{key}");
        }
        for key in [
            "kubernetes.io/hostname",
            "topology.kubernetes.io/zone",
            "failure-domain.beta.kubernetes.io/zone",
            "topology.csi.example.com/zone",
            "cloud.google.com/gke-nodepool",
        ] {
            assert!(!is_settable(key), "{key}");
        }
    }
}
