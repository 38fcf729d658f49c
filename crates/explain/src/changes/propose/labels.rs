//! Which one label a node lacks to be one that a pod selects.

use super::relabelled;
use berth_core::model::{Labels, Node, NodeSelector, NodeSelectorTerm, NodeTest, NodeTestOperator, Pod, Str};
use berth_core::profile::CompiledProfile;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) key: Str,
    /// What it must be; `None` where it must not be there.
    pub(super) value: Option<String>,
}

/// The one label that would let `node` be selected by the pod and the profile; none where more are needed, or none would do.
pub(super) fn missing(profile: &CompiledProfile, pod: &Pod, node: &Node) -> Option<Missing> {
    let shape = &pod.shape;
    let by_selector = shape.node_selector.iter().filter(|(key, value)| node.labels.get(key) != Some(*value));
    let wanted: Vec<Missing> =
        by_selector.map(|(key, value)| Missing { key: key.clone(), value: Some(value.to_string()) }).collect();
    let affinities = || shape.required_affinity.iter().chain(&profile.added_affinity.required);
    match &*wanted {
        [] => affinities().find_map(|required| by_term(required, node)),
        [one] => Some(one.clone()),
        _ => None,
    }
    // What one of them asks for may be what another forbids.
    .filter(|one| {
        let labels = relabelled(&node.labels, &one.key, one.value.as_deref());
        let admits = |labels: &Labels| affinities().all(|required| required.matches(&node.name, labels));
        shape.node_selector.is_subset_of(&labels) && admits(&labels)
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
pub(super) fn is_settable(key: &str) -> bool {
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
