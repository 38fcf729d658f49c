use super::{Decoder, label_selector};
use crate::slim::{BudgetStatus, Parts, SelectorSpec, SlimMeta};
use berth_core::model::{PodDisruptionBudget, Str};

/// A PodDisruptionBudget. A selector that does not parse counts for nothing, as upstream.
pub(super) fn decode(
    decoder: &mut Decoder,
    metadata: &SlimMeta<'_>,
    parts: &Parts<SelectorSpec<'_>, BudgetStatus<'_>>,
) -> PodDisruptionBudget {
    let namespace = if metadata.namespace.is_empty() { "default" } else { &metadata.namespace };
    let mut disrupted_pods: Vec<Str> = parts.status.disrupted_pods.iter().map(|(name, _)| (&**name).into()).collect();
    disrupted_pods.sort();
    PodDisruptionBudget {
        namespace: decoder.text(namespace),
        name: decoder.text(&metadata.name),
        selector: parts.spec.selector.as_ref().and_then(|s| label_selector::parse(decoder, s).ok()),
        disruptions_allowed: parts.status.disruptions_allowed,
        disrupted_pods,
    }
}
