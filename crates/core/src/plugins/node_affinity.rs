//! NodeAffinity: nodeSelector, node affinity, and the profile's added affinity.
//! After `pkg/scheduler/framework/plugins/nodeaffinity`.

use super::context::{Cause, ResolvedPod};
use crate::ledger::{NodeId, NodeTable};
use crate::model::{LookUp, PodShape, PreferredTerm, Str};
use crate::profile::CompiledProfile;

/// Upstream's PreFilter message where the names that a pod asks for exclude each other.
pub(crate) const CONFLICT: &str = "pod affinity terms conflict";

/// The nodes that the pod's required affinity names by `metadata.name`, if every term does.
///
/// Per term the names intersect, over the terms they unite: sorted. Only the pod's own terms count, as upstream.
pub(crate) fn named(shape: &PodShape) -> Option<Vec<Str>> {
    let required = shape.row.required_affinity.as_ref().filter(|r| !r.terms.is_empty())?;
    let mut all: Vec<Str> = Vec::new();
    for term in &required.terms {
        let wanted: Vec<&Str> = term.names.iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name).collect();
        let first = wanted.first()?;
        if wanted.iter().all(|name| name == first) {
            all.push((*first).clone());
        }
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

#[inline]
pub(super) fn refuses(profile: &CompiledProfile, pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> Option<Cause> {
    let pod_selects = !pod.shape.row.node_selector.is_empty() || pod.shape.row.required_affinity.is_some();
    if pod_selects || profile.added_affinity.required.is_some() { unmatched(profile, pod, nodes, node) } else { None }
}

fn unmatched(profile: &CompiledProfile, pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> Option<Cause> {
    let shape = &pod.shape;
    let (name, labels) = (nodes.name(node), nodes.labels(node));
    if profile.added_affinity.required.as_ref().is_some_and(|added| !added.matches(name, labels)) {
        return Some(Cause::AddedAffinity);
    }
    let selected = shape.row.node_selector.is_subset_of(labels);
    let affine = shape.row.required_affinity.as_ref().is_none_or(|required| required.matches(name, labels));
    (!(selected && affine)).then_some(Cause::NodeAffinity)
}

/// The sum of the weights of the preferred terms that match: the pod's and the added ones.
pub(crate) fn score(profile: &CompiledProfile, pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> i64 {
    if pod.shape.row.preferred_affinity.is_empty() && profile.added_affinity.preferred.is_empty() {
        return 0;
    }
    let (name, labels) = (nodes.name(node), nodes.labels(node));
    let sum = |terms: &[PreferredTerm]| {
        let labels = &mut LookUp::new(labels);
        terms.iter().filter(|t| t.term.matches_in(name, labels)).map(|t| i64::from(t.weight)).sum::<i64>()
    };
    sum(&profile.added_affinity.preferred) + sum(&pod.shape.row.preferred_affinity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NodeSelector, NodeSelectorTerm};
    use crate::testing::shape;

    fn names_of(terms: &[&[&str]]) -> Option<Vec<Str>> {
        let mut pod = shape();
        let term = |names: &&[&str]| NodeSelectorTerm {
            names: names.iter().map(|n| (true, (*n).into())).collect(),
            ..NodeSelectorTerm::default()
        };
        pod.row_mut().required_affinity = Some(NodeSelector { terms: terms.iter().map(term).collect() });
        named(&pod)
    }

    #[test]
    fn names_intersect_within_a_term_and_unite_over_terms() {
        assert_eq!(names_of(&[&["b"], &["a"], &["b"]]), Some(vec!["a".into(), "b".into()]));
        assert_eq!(names_of(&[&["a", "b"]]), Some(vec![]));
        assert_eq!(names_of(&[&["a"], &[]]), None);
        assert_eq!(named(&shape()), None);
    }
}
