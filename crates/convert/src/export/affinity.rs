//! `addedAffinity` of NodeAffinity: the profile's own, and its node selector, for which kube-scheduler has no other field.

use super::{Losses, Subject};
use crate::import::Loss;
use berth_api::{
    AddedAffinity, LabelSelector, LabelSelectorOperator, NodeSelector, NodeSelectorOperator, NodeSelectorRequirement,
    NodeSelectorTerm,
};
use berth_core::plugins::Plugin;
use serde_json::{Map, Value};

pub(super) fn added(subject: &Subject<'_>, losses: &mut Losses) -> Option<Map<String, Value>> {
    let own = subject.spec.plugin_args.node_affinity.as_ref().and_then(|args| args.added_affinity.as_ref());
    let mut affinity = own.cloned().unwrap_or_default();
    let selector = subject.spec.nodes.selector.as_ref().map(requirements).unwrap_or_default();
    if !selector.is_empty() {
        let field = "spec.nodes.selector";
        if subject.compiled.filters.has(Plugin::NodeAffinity) {
            let what = "becomes addedAffinity of NodeAffinity: other nodes are refused, and count in the N of 0/N nodes \
                        and in percentageOfNodesToScore";
            losses.add(subject.name, Loss::changed(field, what));
            restrict(&mut affinity, &selector);
        } else {
            let what = "kube-scheduler could only hold it with NodeAffinity, whose filter this profile disables";
            losses.add(subject.name, Loss::lost(field, what));
        }
    }
    if affinity == AddedAffinity::default() {
        return None;
    }
    let value = serde_json::to_value(affinity).unwrap_or_default();
    Some(Map::from_iter([("addedAffinity".to_owned(), value)]))
}

/// Adds `selector` to every required term but empty ones: those match nothing, and a condition would make them match.
fn restrict(affinity: &mut AddedAffinity, selector: &[NodeSelectorRequirement]) {
    let required = affinity.required_during_scheduling_ignored_during_execution.get_or_insert_with(|| NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm { match_expressions: selector.to_vec(), match_fields: Vec::new() }],
    });
    for term in &mut required.node_selector_terms {
        let empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
        if !empty && term.match_expressions != selector {
            term.match_expressions.extend_from_slice(selector);
        }
    }
}

fn requirements(selector: &LabelSelector) -> Vec<NodeSelectorRequirement> {
    let label = |(key, value): (&String, &String)| NodeSelectorRequirement {
        key: key.clone(),
        operator: NodeSelectorOperator::In,
        values: vec![value.clone()],
    };
    let labels = selector.match_labels.iter().map(label);
    let expressions = selector.match_expressions.iter().map(|expression| NodeSelectorRequirement {
        key: expression.key.clone(),
        operator: match expression.operator {
            LabelSelectorOperator::In => NodeSelectorOperator::In,
            LabelSelectorOperator::NotIn => NodeSelectorOperator::NotIn,
            LabelSelectorOperator::Exists => NodeSelectorOperator::Exists,
            LabelSelectorOperator::DoesNotExist => NodeSelectorOperator::DoesNotExist,
        },
        values: expression.values.clone(),
    });
    labels.chain(expressions).collect()
}
