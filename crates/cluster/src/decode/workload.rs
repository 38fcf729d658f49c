use super::{Decoder, or, selectors};
use crate::slim::{BudgetStatus, Pairs, Parts, PlainSelectorSpec, SelectorSpec, SlimMeta, Text};
use berth_core::model::{LabelSelector, PodDisruptionBudget, Service, Str, Workload, WorkloadKind};

pub(super) fn service(decoder: &mut Decoder, metadata: &SlimMeta<'_>, spec: &PlainSelectorSpec<'_>) -> Service {
    let (namespace, name) = names(decoder, metadata);
    Service { namespace, name, selector: spec.selector.as_ref().map(|s| decoder.labels(s)) }
}

pub(super) fn plain(decoder: &mut Decoder, metadata: &SlimMeta<'_>, spec: &PlainSelectorSpec<'_>) -> Workload {
    let (namespace, name) = names(decoder, metadata);
    let selector = spec.selector.as_ref().map(|s| of_labels(decoder, s));
    Workload { kind: WorkloadKind::ReplicationController, namespace, name, selector }
}

/// A ReplicaSet or StatefulSet. A selector that does not parse selects nothing, as upstream.
pub(super) fn set(
    decoder: &mut Decoder,
    kind: WorkloadKind,
    metadata: &SlimMeta<'_>,
    spec: &SelectorSpec<'_>,
) -> Workload {
    let (namespace, name) = names(decoder, metadata);
    let selector = spec.selector.as_ref().and_then(|s| selectors::label_selector(decoder, s).ok());
    Workload { kind, namespace, name, selector }
}

/// A PodDisruptionBudget. A selector that does not parse counts for nothing, as upstream.
pub(super) fn budget(
    decoder: &mut Decoder,
    metadata: &SlimMeta<'_>,
    parts: &Parts<SelectorSpec<'_>, BudgetStatus<'_>>,
) -> PodDisruptionBudget {
    let (namespace, name) = names(decoder, metadata);
    let mut disrupted_pods: Vec<Str> = parts.status.disrupted_pods.iter().map(|(name, _)| (&**name).into()).collect();
    disrupted_pods.sort();
    PodDisruptionBudget {
        namespace,
        name,
        selector: parts.spec.selector.as_ref().and_then(|s| selectors::label_selector(decoder, s).ok()),
        disruptions_allowed: parts.status.disruptions_allowed,
        disrupted_pods,
    }
}

fn names(decoder: &mut Decoder, metadata: &SlimMeta<'_>) -> (Str, Str) {
    (decoder.text(or(&metadata.namespace, "default")), decoder.text(&metadata.name))
}

fn of_labels(decoder: &mut Decoder, pairs: &Pairs<'_, Text<'_>>) -> LabelSelector {
    let labels = decoder.labels(pairs);
    LabelSelector { requirements: labels.iter().map(|(k, v)| selectors::equals(k.clone(), v.clone())).collect() }
}
