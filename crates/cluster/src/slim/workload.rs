use super::fields::slim;
use super::{LabelSelector, Pairs, Text};
use serde::de::IgnoredAny;

slim! {
    /// The spec of a Service or ReplicationController: they select by plain labels.
    struct PlainSelectorSpec<'a> {
        /// Selects no pods if absent.
        selector: Option<Pairs<'a, Text<'a>>>,
    }

    /// The spec of a ReplicaSet, StatefulSet or PodDisruptionBudget.
    struct SelectorSpec<'a> {
        /// Selects no pods if absent.
        selector: Option<LabelSelector<'a>>,
    }

    struct BudgetStatus<'a> {
        disruptions_allowed: i32,
        /// By pod name: evictions that are counted already. When they were does not matter.
        disrupted_pods: Pairs<'a, IgnoredAny>,
    }
}
