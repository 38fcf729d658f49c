use super::{Decoder, label_selector};
use crate::slim::{Pairs, PlainSelectorSpec, SelectorSpec, SlimMeta, Text};
use berth_core::model::{LabelSelector, Service, Str, Workload, WorkloadKind};

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
    let selector = spec.selector.as_ref().and_then(|s| label_selector::parse(decoder, s).ok());
    Workload { kind, namespace, name, selector }
}

fn names(decoder: &mut Decoder, metadata: &SlimMeta<'_>) -> (Str, Str) {
    let namespace = if metadata.namespace.is_empty() { "default" } else { &metadata.namespace };
    (decoder.text(namespace), decoder.text(&metadata.name))
}

fn of_labels(decoder: &mut Decoder, pairs: &Pairs<'_, Text<'_>>) -> LabelSelector {
    let labels = decoder.labels(pairs);
    LabelSelector { requirements: labels.iter().map(|(k, v)| label_selector::is(k.clone(), v.clone())).collect() }
}
