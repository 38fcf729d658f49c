use super::text::nullable;
use super::{Amount, Condition, Pairs, Text};
use serde::Deserialize;

/// What is read of a node's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpec<'a> {
    /// Cordoned.
    #[serde(deserialize_with = "nullable")]
    pub unschedulable: bool,
    /// Its taints.
    #[serde(borrow, deserialize_with = "nullable")]
    pub taints: Vec<NodeTaint<'a>>,
}

/// A taint.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NodeTaint<'a> {
    /// Its key.
    #[serde(borrow)]
    pub key: Text<'a>,
    /// Its value.
    #[serde(borrow)]
    pub value: Text<'a>,
    /// Its effect, as text.
    #[serde(borrow)]
    pub effect: Text<'a>,
}

/// What is read of a node's status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus<'a> {
    /// What it offers to pods.
    #[serde(borrow)]
    pub allocatable: Pairs<'a, Amount>,
    /// The images it holds.
    #[serde(borrow, deserialize_with = "nullable")]
    pub images: Vec<NodeImage<'a>>,
    /// Conditions.
    #[serde(borrow, deserialize_with = "nullable")]
    pub conditions: Vec<Condition<'a>>,
    /// The features it declares.
    #[serde(borrow, deserialize_with = "nullable")]
    pub declared_features: Vec<Text<'a>>,
}

/// An image on a node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeImage<'a> {
    /// Every name it goes by.
    #[serde(borrow, deserialize_with = "nullable")]
    pub names: Vec<Text<'a>>,
    /// Its size in bytes.
    #[serde(deserialize_with = "nullable")]
    pub size_bytes: i64,
}
