use super::{ClaimKey, InTreePlugin, VolumeAffinity};
use crate::model::{Labels, Quantity, Str};

/// The claim that a volume is meant for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimRef {
    /// Namespace and name.
    pub key: ClaimKey,
    /// The claim's uid; empty where an administrator wrote the reference by hand.
    pub uid: Str,
}

/// A volume as one CSI driver knows it: what counts against a node's attach limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attachable {
    /// The driver's name.
    pub driver: Str,
    /// The driver's name for the volume.
    pub handle: Str,
}

/// What becomes of an in-tree volume on nodes whose CSI driver has taken over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Migration {
    /// The in-tree plugin.
    pub plugin: InTreePlugin,
    /// The node affinity in the driver's words; or what upstream says where it cannot be translated.
    pub affinity: Result<Option<VolumeAffinity>, Str>,
}

/// What a volume is made of, as far as it counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum VolumeSource {
    /// Something that no CSI driver attaches.
    #[default]
    Other,
    /// A CSI volume.
    Csi(Attachable),
    /// An in-tree disk that a CSI driver has taken over.
    InTree {
        /// What it counts as; nothing where it cannot be translated.
        attachable: Option<Attachable>,
        /// Where it can be used, on nodes that have migrated.
        migration: Migration,
        /// The disk as the in-tree plugin knows it, for the limits of the Policy era.
        disk: Str,
    },
}

/// A PersistentVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistentVolume {
    /// Its name.
    pub name: Str,
    /// Its uid.
    pub uid: Str,
    /// The resourceVersion this was read at.
    pub resource_version: Str,
    /// Its labels: claims select by them, and zones are among them.
    pub labels: Labels,
    /// Its storage class, the old annotation first; empty for none.
    pub class: Str,
    /// The storage it holds.
    pub capacity: Quantity,
    /// `spec.accessModes`.
    pub access_modes: Vec<Str>,
    /// `spec.volumeMode`, `Filesystem` if absent.
    pub volume_mode: Str,
    /// `spec.volumeAttributesClassName`; empty for none.
    pub attributes_class: Str,
    /// The claim it is meant for.
    pub claim: Option<ClaimRef>,
    /// Whether its phase is `Available`.
    pub available: bool,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
    /// Where it can be used; `None` is everywhere.
    pub affinity: Option<VolumeAffinity>,
    /// What it is made of.
    pub source: VolumeSource,
}

impl PersistentVolume {
    /// What it counts as against a node's attach limit.
    pub const fn attachable(&self) -> Option<&Attachable> {
        match &self.source {
            VolumeSource::Csi(attachable) => Some(attachable),
            VolumeSource::InTree { attachable, .. } => attachable.as_ref(),
            VolumeSource::Other => None,
        }
    }
}
