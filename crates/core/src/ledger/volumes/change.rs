use crate::model::ClaimKey;

/// What changed of volumes and their like, as far as a queueing hint may care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeChange {
    /// A PersistentVolume is new.
    VolumeAdded,
    /// A PersistentVolume changed.
    VolumeUpdated {
        /// Whether the zones or regions of its labels did.
        zones: bool,
    },
    /// A PersistentVolume is gone.
    VolumeGone,
    /// A claim is new.
    ClaimAdded(ClaimKey),
    /// A claim changed.
    ClaimUpdated(ClaimKey),
    /// A claim is gone.
    ClaimGone(ClaimKey),
    /// A StorageClass is new.
    ClassAdded {
        /// Whether its claims wait for their first pod.
        waits: bool,
    },
    /// A StorageClass changed.
    ClassUpdated {
        /// Whether the places where its volumes can be made did.
        topologies: bool,
    },
    /// A StorageClass is gone.
    ClassGone,
    /// A CSINode is new.
    CsiNodeAdded,
    /// A CSINode changed.
    CsiNodeUpdated {
        /// Whether some driver can attach more than before.
        raised: bool,
        /// Whether the plugins that it has handed over did.
        migrated: bool,
    },
    /// A CSINode is gone.
    CsiNodeGone,
    /// A CSIDriver is new, changed or gone.
    CsiDriver {
        /// Whether it told of its room before, and does so no more.
        boundless: bool,
    },
    /// There may be more room for volumes: a CSIStorageCapacity is new or tells of more.
    CapacityGrew,
    /// A CSIStorageCapacity changed otherwise, or is gone.
    CapacityChanged,
    /// A VolumeAttachment is new or changed.
    Attached,
    /// A VolumeAttachment is gone.
    Detached,
    /// What was assumed for a pod was undone: a volume or claim is free again.
    Released,
}

impl VolumeChange {
    /// The claim that appeared, changed or went: that concerns only pods that name it.
    pub const fn claim(&self) -> Option<&ClaimKey> {
        match self {
            Self::ClaimAdded(key) | Self::ClaimUpdated(key) | Self::ClaimGone(key) => Some(key),
            _ => None,
        }
    }
}
