//! What a pod mounts, and of the storage objects only what upstream's four volume plugins read. Names and uids are kept where
//! a later write needs them as preconditions.

mod claim;
mod csi;
mod in_tree;
mod persistent;
mod pod;
mod writes;

pub use claim::{ClaimKey, ClaimSelector, PersistentVolumeClaim};
pub use csi::{BindingMode, CsiDriver, CsiNode, CsiStorageCapacity, StorageClass, VolumeAttachment};
pub use in_tree::InTreePlugin;
pub use persistent::{Attachable, ClaimRef, Migration, PersistentVolume, VolumeAffinity, VolumeSource};
pub use pod::{InlineDisk, PodVolume, PodVolumes};
pub use writes::{BindingWrite, ProvisionWrite, VolumeWrites};
