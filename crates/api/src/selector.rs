//! Label selectors with bounds, so that the API server can estimate the cost of rules over them.

use crate::patterns::{LABEL_KEY, LABEL_VALUE, exists_takes_no_values, in_needs_values, label_keys, label_map};
use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Selects objects by their labels: all of `matchLabels` and all of `matchExpressions` must hold. Empty selects all.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must be there with exactly these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "label_map")]
    #[x_kube(validation = label_keys("example.com/pool"))]
    pub match_labels: BTreeMap<String, String>,
    /// Conditions on labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One condition on a label.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = in_needs_values(),
    validation = exists_takes_no_values()
)]
pub struct LabelSelectorRequirement {
    /// The label's key.
    #[schemars(length(min = 1, max = 317), regex(pattern = LABEL_KEY))]
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    pub operator: LabelSelectorOperator,
    /// The values of In and NotIn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 63), regex(pattern = LABEL_VALUE)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub values: Vec<String>,
}

/// Operators of [`LabelSelectorRequirement`].
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabelSelectorOperator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
}
