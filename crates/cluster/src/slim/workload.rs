use super::{LabelSelector, Pairs, Text};
use serde::Deserialize;

/// What is read of the spec of a Service or ReplicationController: they select by plain labels.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PlainSelectorSpec<'a> {
    /// Labels its pods have; without it, it has none.
    #[serde(borrow)]
    pub selector: Option<Pairs<'a, Text<'a>>>,
}

/// What is read of the spec of a ReplicaSet or StatefulSet.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct SelectorSpec<'a> {
    /// Which pods are its own; without it, none.
    #[serde(borrow)]
    pub selector: Option<LabelSelector<'a>>,
}
