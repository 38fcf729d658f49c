use super::{Decoder, resources};
use crate::cluster::slim::{FieldError, NodeSpec, NodeStatus, NodeTaint, Parts, SlimMeta};
use crate::core::model::{Image, Node, Taint, TaintEffect};

/// A node; without allocatable it offers nothing, as upstream.
pub(super) fn decode(
    decoder: &mut Decoder,
    metadata: &SlimMeta<'_>,
    parts: &Parts<NodeSpec<'_>, NodeStatus<'_>>,
) -> Result<Node, FieldError> {
    let offered = resources::Amounts::read(&parts.status.allocatable, "status.allocatable", resources::Sign::Any)?;
    let images = parts.status.images.iter().map(|image| Image {
        names: image.names.iter().map(|name| decoder.text(name)).collect(),
        size_bytes: image.size_bytes.max(0),
    });
    let images = images.collect();
    let taints = parts.spec.taints.iter().map(|t| taint(decoder, t)).collect();
    Ok(Node {
        name: decoder.text(&metadata.name),
        uid: (&*metadata.uid).into(),
        labels: decoder.labels(&metadata.labels),
        unschedulable: parts.spec.unschedulable,
        taints,
        allocatable: offered.requests(decoder),
        allocatable_pods: offered.get("pods").value().max(0),
        images,
    })
}

fn taint(decoder: &mut Decoder, taint: &NodeTaint<'_>) -> Taint {
    Taint {
        key: decoder.text(&taint.key),
        value: decoder.text(&taint.value),
        // An effect that this version does not know keeps pods away: that can be no wrong placement.
        effect: effect(&taint.effect).unwrap_or(TaintEffect::NoSchedule),
    }
}

/// The effect named by `text`.
pub(super) fn effect(text: &str) -> Option<TaintEffect> {
    match text {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}
