use super::storage::class_of;
use super::topology::RawAffinity;
use super::{Decoder, in_tree, or, storage_amount, texts};
use crate::slim::{FieldError, Parts, Phase, SlimMeta, VolumeSpec};
use berth_core::model::{
    Attachable, ClaimKey, ClaimRef, InTreePlugin, Migration, PersistentVolume, Quantity, Str, VolumeAffinity,
    VolumeSource,
};

/// An affinity that does not parse matches no node, as upstream.
pub(super) fn decode(
    decoder: &mut Decoder,
    metadata: &SlimMeta<'_>,
    parts: &Parts<VolumeSpec<'_>, Phase<'_>>,
) -> Result<PersistentVolume, FieldError> {
    let spec = &parts.spec;
    let affinity = RawAffinity::read(spec.node_affinity.as_ref());
    let label = |key: &str| metadata.labels.iter().rev().find(|(name, _)| &**name == key).map(|(_, value)| &**value);
    let claim = spec.claim_ref.as_ref().map(|claim| ClaimRef {
        key: ClaimKey { namespace: decoder.text(&claim.namespace), name: (&*claim.name).into() },
        uid: (&*claim.uid).into(),
    });
    Ok(PersistentVolume {
        name: (&*metadata.name).into(),
        uid: (&*metadata.uid).into(),
        resource_version: (&*metadata.resource_version).into(),
        labels: decoder.labels(&metadata.labels),
        class: class_of(decoder, metadata, &spec.storage_class_name),
        capacity: storage_amount(&spec.capacity, "spec.capacity")?.unwrap_or(Quantity::ZERO),
        access_modes: texts(decoder, &spec.access_modes),
        volume_mode: decoder.text(or(&spec.volume_mode, "Filesystem")),
        attributes_class: decoder.text(&spec.volume_attributes_class_name),
        claim,
        available: &*parts.status.phase == "Available",
        deleting: !metadata.deletion_timestamp.is_empty(),
        affinity: affinity.parse(decoder),
        source: source(decoder, spec, affinity, label),
    })
}

fn source<'s>(
    decoder: &mut Decoder,
    spec: &'s VolumeSpec<'_>,
    affinity: RawAffinity<'s>,
    label: impl Fn(&str) -> Option<&'s str>,
) -> VolumeSource {
    if let Some(csi) = &spec.csi {
        let (driver, handle) = (decoder.text(&csi.driver), (&*csi.volume_handle).into());
        return VolumeSource::Csi(Attachable { driver, handle });
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
    let translated = translate(decoder, plugin, affinity, label);
    VolumeSource::InTree {
        attachable: handle.as_ref().ok().and_then(|handle| in_tree::attachable(decoder, plugin, handle)),
        migration: Migration { plugin, affinity: handle.map(|_| translated) },
        disk: disk.into(),
    }
}

fn translate<'s>(
    decoder: &mut Decoder,
    plugin: InTreePlugin,
    affinity: RawAffinity<'s>,
    label: impl Fn(&str) -> Option<&'s str>,
) -> Option<VolumeAffinity> {
    match in_tree::zone_key(plugin) {
        Some(key) => affinity.into_csi(key, label).parse(decoder),
        None => affinity.parse(decoder),
    }
}
