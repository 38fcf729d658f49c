//! The volumes of pods, and the storage objects.
//!
//! ```text
//!  pod        volumes of a pod
//!  storage    claims, classes and the CSI kinds
//!  persistent PersistentVolumes
//!  topology   node affinity of volumes, as written and as a CSI driver would write it
//!  in_tree    disks that CSI drivers took over
//! ```

mod in_tree;
mod persistent;
mod pod;
mod storage;
#[cfg(test)]
mod tests;
mod topology;

pub(super) use pod::pod_volumes;

use super::{DecodeError, Decoder, bad, decode, or};
use crate::slim::{
    Amount, FieldError, Pairs, SlimClaim, SlimCsiDriver, SlimCsiNode, SlimCsiStorageCapacity, SlimStorageClass,
    SlimVolume, SlimVolumeAttachment, Text,
};
use berth_core::model::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, Quantity, StorageClass, Str,
    VolumeAttachment,
};

impl Decoder {
    pub fn volume(&mut self, slim: &SlimVolume<'_>) -> Result<PersistentVolume, DecodeError> {
        decode("persistentvolume", slim, |parts| persistent::decode(self, &slim.metadata, parts))
    }

    pub fn claim(&mut self, slim: &SlimClaim<'_>) -> Result<PersistentVolumeClaim, DecodeError> {
        decode("persistentvolumeclaim", slim, |parts| storage::claim(self, &slim.metadata, parts))
    }

    pub fn storage_class(&mut self, slim: &SlimStorageClass<'_>) -> Result<StorageClass, DecodeError> {
        decode("storageclass", slim, |_| Ok(storage::class(self, &slim.metadata, &slim.top)))
    }

    pub fn csi_node(&mut self, slim: &SlimCsiNode<'_>) -> Result<CsiNode, DecodeError> {
        decode("csinode", slim, |parts| Ok(storage::csi_node(self, &slim.metadata, &parts.spec)))
    }

    pub fn csi_driver(&mut self, slim: &SlimCsiDriver<'_>) -> Result<CsiDriver, DecodeError> {
        decode("csidriver", slim, |parts| {
            let storage_capacity = parts.spec.storage_capacity.unwrap_or_default();
            Ok(CsiDriver { name: self.text(&slim.metadata.name), storage_capacity })
        })
    }

    pub fn csi_capacity(&mut self, slim: &SlimCsiStorageCapacity<'_>) -> Result<CsiStorageCapacity, DecodeError> {
        decode("csistoragecapacity", slim, |_| storage::capacity(self, &slim.metadata, &slim.top))
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

/// `None` for an empty text. Names of volumes and claims do not repeat, so they are not shared.
fn some(text: &str) -> Option<Str> {
    (!text.is_empty()).then(|| text.into())
}

fn texts(decoder: &mut Decoder, list: &[Text<'_>]) -> Vec<Str> {
    list.iter().map(|text| decoder.text(text)).collect()
}

/// The amount of `storage` in a map that stands at `field`.
fn storage_amount(amounts: &Pairs<'_, Amount>, field: &str) -> Result<Option<Quantity>, FieldError> {
    let found = amounts.iter().rev().find(|(name, _)| &**name == "storage");
    found.map(|(_, amount)| quantity(amount, &format!("{field}[storage]"))).transpose()
}

fn quantity(amount: &Amount, field: &str) -> Result<Quantity, FieldError> {
    amount.0.clone().map_err(|error| bad(field, error.to_string()))
}
