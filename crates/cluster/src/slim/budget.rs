use super::Pairs;
use super::text::nullable;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What is read of the status of a PodDisruptionBudget.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BudgetStatus<'a> {
    /// Evictions allowed now.
    #[serde(deserialize_with = "nullable")]
    pub disruptions_allowed: i32,
    /// By pod name: evictions already counted; when does not matter.
    #[serde(borrow)]
    pub disrupted_pods: Pairs<'a, IgnoredAny>,
}
