use super::super::selectors;
use super::{Decoder, or, quantity, some, storage_amount, texts, topology};
use crate::slim::{
    BIND_COMPLETED, ClaimSpec, CsiNodeSpec, FieldError, MIGRATED_PLUGINS, Parts, Phase, SELECTED_NODE, STORAGE_CLASS,
    SlimMeta, Top,
};
use berth_core::model::{
    BindingMode, ClaimKey, ClaimSelector, CsiNode, CsiStorageCapacity, PersistentVolumeClaim, Quantity, StorageClass,
    Str,
};

/// The class of a volume or claim: the old annotation, if it is there at all, then the field.
pub(super) fn class_of(decoder: &mut Decoder, metadata: &SlimMeta<'_>, field: &str) -> Str {
    decoder.text(metadata.annotations.get(STORAGE_CLASS).unwrap_or(field))
}

/// A selector that does not parse fails the attempts that read it, as upstream.
pub(super) fn claim(
    decoder: &mut Decoder,
    metadata: &SlimMeta<'_>,
    parts: &Parts<ClaimSpec<'_>, Phase<'_>>,
) -> Result<PersistentVolumeClaim, FieldError> {
    let (spec, annotations) = (&parts.spec, &metadata.annotations);
    let namespace = decoder.text(or(&metadata.namespace, "default"));
    let selector = match spec.selector.as_ref().map(|s| selectors::label_selector(decoder, s)) {
        None => ClaimSelector::Any,
        Some(Ok(selector)) => ClaimSelector::Matching(selector),
        Some(Err(part)) => ClaimSelector::Broken(upstream_text(&part).into()),
    };
    Ok(PersistentVolumeClaim {
        key: ClaimKey { namespace, name: (&*metadata.name).into() },
        uid: (&*metadata.uid).into(),
        resource_version: (&*metadata.resource_version).into(),
        controller: metadata.owner_references.iter().find(|owner| owner.controller).map(|owner| (&*owner.uid).into()),
        class: class_of(decoder, metadata, &spec.storage_class_name),
        volume: some(&spec.volume_name),
        bind_completed: annotations.get(BIND_COMPLETED).is_some(),
        selected_node: annotations.get(SELECTED_NODE).map(|node| decoder.text(node)),
        access_modes: texts(decoder, &spec.access_modes),
        request: storage_amount(&spec.resources.requests, "spec.resources.requests")?,
        volume_mode: decoder.text(or(&spec.volume_mode, "Filesystem")),
        selector,
        attributes_class: decoder.text(&spec.volume_attributes_class_name),
        lost: &*parts.status.phase == "Lost",
        deleting: !metadata.deletion_timestamp.is_empty(),
    })
}

/// Upstream's error for the part of a selector that does not parse, for those that an API server lets through.
fn upstream_text(part: &str) -> String {
    match part.strip_prefix("operator ") {
        Some(operator) => format!("{operator:?} is not a valid label selector operator"),
        None => format!("Invalid value: {part}"),
    }
}

/// An unknown binding mode counts as `Immediate`, as upstream.
pub(super) fn class(decoder: &mut Decoder, metadata: &SlimMeta<'_>, body: &Top<'_>) -> StorageClass {
    let binding_mode = match &*body.volume_binding_mode {
        "" => None,
        "WaitForFirstConsumer" => Some(BindingMode::WaitForFirstConsumer),
        _ => Some(BindingMode::Immediate),
    };
    StorageClass {
        name: decoder.text(&metadata.name),
        provisioner: decoder.text(&body.provisioner),
        binding_mode,
        allowed_topologies: topology::allowed(decoder, &body.allowed_topologies),
    }
}

/// A driver without allocatable, or without a count in it, has no limit.
pub(super) fn csi_node(decoder: &mut Decoder, metadata: &SlimMeta<'_>, spec: &CsiNodeSpec<'_>) -> CsiNode {
    let plugins = metadata.annotations.get(MIGRATED_PLUGINS).unwrap_or_default();
    let mut migrated_plugins: Vec<Str> = plugins.split(',').map(|plugin| decoder.text(plugin)).collect();
    migrated_plugins.sort();
    CsiNode {
        name: decoder.text(&metadata.name),
        drivers: spec
            .drivers
            .iter()
            .map(|d| (decoder.text(&d.name), d.allocatable.as_ref().and_then(|limits| limits.count)))
            .collect(),
        migrated_plugins,
    }
}

/// A node topology that does not parse matches no node.
pub(super) fn capacity(
    decoder: &mut Decoder,
    metadata: &SlimMeta<'_>,
    body: &Top<'_>,
) -> Result<CsiStorageCapacity, FieldError> {
    let largest = body.maximum_volume_size.as_ref().map(|amount| quantity(amount, "maximumVolumeSize"));
    let available = || body.capacity.as_ref().map(|amount| quantity(amount, "capacity"));
    Ok(CsiStorageCapacity {
        namespace: decoder.text(or(&metadata.namespace, "default")),
        name: (&*metadata.name).into(),
        class: decoder.text(&body.storage_class_name),
        nodes: body.node_topology.as_ref().and_then(|s| selectors::label_selector(decoder, s).ok()),
        limit: largest.or_else(available).transpose()?.map(Quantity::value),
    })
}
