//! Node affinity with bounds, in the field names of a pod's `spec.affinity.nodeAffinity`.

use crate::patterns::{DNS_NAME, LABEL_KEY, LABEL_VALUE, exists_takes_no_values, in_needs_values};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Node affinity that a profile adds to its pods.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AddedAffinity {
    /// Nodes that do not match are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    /// Nodes that match are liked better, by the weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub preferred_during_scheduling_ignored_during_execution: Vec<PreferredNodeSelectorTerm>,
}

/// Selects nodes: at least one term must match.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelector {
    /// The terms, of which one must match.
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// A term that nodes are liked better for.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PreferredNodeSelectorTerm {
    /// What a match adds to the node's score before normalisation, 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub weight: i32,
    /// The term.
    pub preference: NodeSelectorTerm,
}

/// Conditions on a node, all of which must hold. A term without conditions matches no node.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    /// Conditions on the node's labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// Conditions on the node's fields; the one field there is is `metadata.name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_fields: Vec<FieldSelectorRequirement>,
}

/// One condition on a node's label.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = in_needs_values(),
    validation = exists_takes_no_values(),
    validation = Rule::new("!(self.operator in ['Gt', 'Lt']) || (has(self.values) && self.values.size() == 1 && self.values[0].matches('^[0-9]{1,18}$'))")
        .message("values: operators Gt and Lt need exactly one value, a whole number of at most 18 digits")
        .field_path(".values")
)]
pub struct NodeSelectorRequirement {
    /// The label's key.
    #[schemars(length(min = 1, max = 317), regex(pattern = LABEL_KEY))]
    pub key: String,
    /// In, NotIn, Exists, DoesNotExist, Gt or Lt.
    pub operator: NodeSelectorOperator,
    /// The values of In and NotIn, or the one whole number of Gt and Lt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 63), regex(pattern = LABEL_VALUE)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub values: Vec<String>,
}

/// Operators of [`NodeSelectorRequirement`].
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeSelectorOperator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
    /// The label is a whole number greater than the value.
    Gt,
    /// The label is a whole number less than the value.
    Lt,
}

/// One condition on a node's field.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.key == 'metadata.name'")
        .message("key: metadata.name is the only field that can be matched")
        .field_path(".key"),
    validation = Rule::new("self.operator in ['In', 'NotIn']")
        .message("operator: fields can only be matched with In or NotIn")
        .field_path(".operator")
)]
pub struct FieldSelectorRequirement {
    /// The field: `metadata.name`.
    #[schemars(length(min = 1, max = 63))]
    pub key: String,
    /// In or NotIn.
    pub operator: NodeSelectorOperator,
    /// The node's name, exactly one.
    #[schemars(length(min = 1, max = 1), inner(length(min = 1, max = 253), regex(pattern = DNS_NAME)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub values: Vec<String>,
}
