//! The volumes of pods, and the storage objects.
//!
//! ```text
//!  pod        volumes of a pod
//!  topology   node affinity of volumes, as written and as a CSI driver would write it
//!  in_tree    disks that CSI drivers took over
//! ```

mod in_tree;
mod pod;
#[cfg(test)]
mod tests;
mod topology;

pub(super) use pod::pod_volumes;

use super::findings::values_of_selector;
use super::{DecodeError, Decoder, bad, decode, or, selectors};
use crate::slim::{
    Amount, BIND_COMPLETED, FieldError, LabelSelector as SlimLabelSelector, MIGRATED_PLUGINS, Pairs, SELECTED_NODE,
    STORAGE_CLASS, SlimClaim, SlimCsiDriver, SlimCsiNode, SlimCsiStorageCapacity, SlimMeta, SlimStorageClass,
    SlimVolume, SlimVolumeAttachment, Text, VolumeSpec,
};
use berth_core::model::{
    Attachable, BindingMode, ClaimKey, ClaimRef, ClaimSelector, CsiDriver, CsiNode, CsiStorageCapacity, InTreePlugin,
    Migration, PersistentVolume, PersistentVolumeClaim, Quantity, StorageClass, Str, VolumeAttachment, VolumeSource,
};
use topology::RawAffinity;

impl Decoder {
    /// An affinity that does not parse matches no node, as upstream.
    pub fn volume(&mut self, slim: &SlimVolume<'_>) -> Result<PersistentVolume, DecodeError> {
        decode("persistentvolume", slim, |parts| {
            let (metadata, spec) = (&slim.metadata, &parts.spec);
            let affinity = RawAffinity::read(spec.node_affinity.as_ref());
            let claim = spec.claim_ref.as_ref().map(|claim| ClaimRef {
                key: ClaimKey { namespace: self.text(&claim.namespace), name: (&*claim.name).into() },
                uid: (&*claim.uid).into(),
            });
            Ok(PersistentVolume {
                name: (&*metadata.name).into(),
                uid: (&*metadata.uid).into(),
                resource_version: (&*metadata.resource_version).into(),
                labels: self.labels(&metadata.labels),
                class: self.class_of(metadata, &spec.storage_class_name),
                capacity: storage_amount(&spec.capacity, "spec.capacity")?.unwrap_or(Quantity::ZERO),
                access_modes: self.texts(&spec.access_modes),
                volume_mode: self.text(or(&spec.volume_mode, "Filesystem")),
                attributes_class: self.text(&spec.volume_attributes_class_name),
                claim,
                available: &*parts.status.phase == "Available",
                deleting: !metadata.deletion_timestamp.is_absent(),
                affinity: affinity.parse(self),
                source: source(self, spec, affinity, &metadata.labels),
            })
        })
    }

    /// A selector that does not parse fails the attempts that read it, as upstream; so does one that lists too much.
    pub fn claim(&mut self, slim: &SlimClaim<'_>) -> Result<PersistentVolumeClaim, DecodeError> {
        decode("persistentvolumeclaim", slim, |parts| {
            let (metadata, spec) = (&slim.metadata, &parts.spec);
            let controller = metadata.owner_references.iter().find(|owner| owner.controller);
            Ok(PersistentVolumeClaim {
                key: ClaimKey { namespace: self.namespace_of(metadata), name: (&*metadata.name).into() },
                uid: (&*metadata.uid).into(),
                resource_version: (&*metadata.resource_version).into(),
                controller: controller.map(|owner| (&*owner.uid).into()),
                class: self.class_of(metadata, &spec.storage_class_name),
                volume: some(&spec.volume_name),
                bind_completed: metadata.annotations.get(BIND_COMPLETED).is_some(),
                selected_node: metadata.annotations.get(SELECTED_NODE).map(|node| self.text(node)),
                access_modes: self.texts(&spec.access_modes),
                request: storage_amount(&spec.resources.requests, "spec.resources.requests")?,
                volume_mode: self.text(or(&spec.volume_mode, "Filesystem")),
                selector: claim_selector(self, spec.selector.as_ref()),
                attributes_class: self.text(&spec.volume_attributes_class_name),
                lost: &*parts.status.phase == "Lost",
                deleting: !metadata.deletion_timestamp.is_absent(),
            })
        })
    }

    /// The class of a volume or claim: the old annotation, if it is there at all, then the field.
    fn class_of(&mut self, metadata: &SlimMeta<'_>, field: &str) -> Str {
        self.text(metadata.annotations.get(STORAGE_CLASS).unwrap_or(field))
    }

    /// An unknown binding mode counts as `Immediate`, as upstream.
    pub fn storage_class(&mut self, slim: &SlimStorageClass<'_>) -> Result<StorageClass, DecodeError> {
        decode("storageclass", slim, |parts| {
            let binding_mode = match &*parts.volume_binding_mode {
                "" => None,
                "WaitForFirstConsumer" => Some(BindingMode::WaitForFirstConsumer),
                _ => Some(BindingMode::Immediate),
            };
            Ok(StorageClass {
                name: self.text(&slim.metadata.name),
                provisioner: self.text(&parts.provisioner),
                binding_mode,
                allowed_topologies: topology::allowed(self, &parts.allowed_topologies),
            })
        })
    }

    /// A driver without allocatable, or without a count in it, has no limit.
    pub fn csi_node(&mut self, slim: &SlimCsiNode<'_>) -> Result<CsiNode, DecodeError> {
        decode("csinode", slim, |parts| {
            let plugins = slim.metadata.annotations.get(MIGRATED_PLUGINS).unwrap_or_default();
            let mut migrated_plugins: Vec<Str> = plugins.split(',').map(|plugin| self.text(plugin)).collect();
            migrated_plugins.sort();
            let drivers = parts.spec.drivers.iter();
            let drivers = drivers.map(|d| (self.text(&d.name), d.allocatable.as_ref().and_then(|limits| limits.count)));
            let drivers = drivers.collect();
            Ok(CsiNode { name: self.text(&slim.metadata.name), drivers, migrated_plugins })
        })
    }

    pub fn csi_driver(&mut self, slim: &SlimCsiDriver<'_>) -> Result<CsiDriver, DecodeError> {
        decode("csidriver", slim, |parts| {
            let storage_capacity = parts.spec.storage_capacity.unwrap_or_default();
            Ok(CsiDriver { name: self.text(&slim.metadata.name), storage_capacity })
        })
    }

    /// A node topology that does not parse matches no node.
    pub fn csi_capacity(&mut self, slim: &SlimCsiStorageCapacity<'_>) -> Result<CsiStorageCapacity, DecodeError> {
        decode("csistoragecapacity", slim, |parts| {
            let largest = parts.maximum_volume_size.as_ref().map(|amount| quantity(amount, "maximumVolumeSize"));
            let available = || parts.capacity.as_ref().map(|amount| quantity(amount, "capacity"));
            Ok(CsiStorageCapacity {
                namespace: self.namespace_of(&slim.metadata),
                name: (&*slim.metadata.name).into(),
                class: self.text(&parts.storage_class_name),
                nodes: selectors::of_object(self, parts.node_topology.as_ref(), "nodeTopology")?,
                limit: largest.or_else(available).transpose()?.map(Quantity::value),
            })
        })
    }

    pub fn volume_attachment(&mut self, slim: &SlimVolumeAttachment<'_>) -> Result<VolumeAttachment, DecodeError> {
        decode("volumeattachment", slim, |parts| {
            Ok(VolumeAttachment {
                name: (&*slim.metadata.name).into(),
                attacher: self.text(&parts.spec.attacher),
                node: self.text(&parts.spec.node_name),
                volume: some(&parts.spec.source.persistent_volume_name),
            })
        })
    }
}

/// The claim itself is read: who waits for its volume learns why.
fn claim_selector(decoder: &mut Decoder, slim: Option<&SlimLabelSelector<'_>>) -> ClaimSelector {
    let Some(selector) = slim else { return ClaimSelector::Any };
    if let Err(FieldError { field, message }) = selectors::check_size("spec.selector", values_of_selector(slim)) {
        return ClaimSelector::Broken(format!("{field}: {message}").into());
    }
    match selectors::label_selector(decoder, selector) {
        Ok(selector) => ClaimSelector::Matching(selector),
        Err(part) => ClaimSelector::Broken(upstream_text(&part).into()),
    }
}

/// Upstream's error for the part of a selector that does not parse, for those that an API server lets through.
fn upstream_text(part: &str) -> String {
    match part.strip_prefix("operator ") {
        Some(operator) => format!("{operator:?} is not a valid label selector operator"),
        None => format!("Invalid value: {part}"),
    }
}

fn source<'s>(
    decoder: &mut Decoder,
    spec: &'s VolumeSpec<'_>,
    affinity: RawAffinity<'s>,
    labels: &'s Pairs<'_, Text<'_>>,
) -> VolumeSource {
    let label = |key: &str| labels.iter().rev().find(|(name, _)| &**name == key).map(|(_, value)| &**value);
    if let Some(csi) = &spec.csi {
        return VolumeSource::Csi(Attachable {
            driver: decoder.text(&csi.driver),
            handle: (&*csi.volume_handle).into(),
        });
    }
    let (plugin, disk, handle): (InTreePlugin, &str, Result<String, Str>) = if let Some(gce) = &spec.gce_persistent_disk
    {
        let beta = label("failure-domain.beta.kubernetes.io/zone").filter(|zone| !zone.is_empty());
        let zones = beta.or_else(|| label("topology.kubernetes.io/zone")).unwrap_or_default();
        (InTreePlugin::GcePd, &gce.pd_name, in_tree::gce_volume(&gce.pd_name, zones))
    } else if let Some(ebs) = &spec.aws_elastic_block_store {
        (InTreePlugin::Ebs, &ebs.volume_id, in_tree::ebs(&ebs.volume_id).map(str::to_owned))
    } else if let Some(azure) = &spec.azure_disk {
        (InTreePlugin::AzureDisk, &azure.disk_name, in_tree::azure_disk(azure).map(str::to_owned))
    } else if let Some(cinder) = &spec.cinder {
        (InTreePlugin::Cinder, &cinder.volume_id, Ok(cinder.volume_id.to_string()))
    } else if let Some(portworx) = &spec.portworx_volume {
        (InTreePlugin::Portworx, &portworx.volume_id, Ok(portworx.volume_id.to_string()))
    } else {
        return VolumeSource::Other;
    };
    let affinity = match in_tree::zone_key(plugin) {
        Some(key) => affinity.into_csi(key, label),
        None => affinity,
    };
    let translated = affinity.parse(decoder);
    VolumeSource::InTree {
        attachable: handle.as_ref().ok().and_then(|handle| in_tree::attachable(decoder, plugin, handle)),
        migration: Migration { plugin, affinity: handle.map(|_| translated) },
        disk: disk.into(),
    }
}

/// `None` for an empty text. Names of volumes and claims do not repeat, so they are not shared.
fn some(text: &str) -> Option<Str> {
    (!text.is_empty()).then(|| text.into())
}

/// The amount of `storage` in a map that stands at `field`.
fn storage_amount(amounts: &Pairs<'_, Amount>, field: &str) -> Result<Option<Quantity>, FieldError> {
    let found = amounts.iter().rev().find(|(name, _)| &**name == "storage");
    found.map(|(_, amount)| quantity(amount, &format!("{field}[storage]"))).transpose()
}

fn quantity(amount: &Amount, field: &str) -> Result<Quantity, FieldError> {
    amount.0.clone().map_err(|error| bad(field, error.to_string()))
}
