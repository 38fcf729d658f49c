use super::{ClaimKey, InTreePlugin};
use crate::model::{Labels, NodeTest, Quantity, Str};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimRef {
    pub key: ClaimKey,
    /// Empty where an administrator wrote the reference by hand.
    pub uid: Str,
}

/// A volume as one CSI driver knows it: what counts against a node's attach limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attachable {
    pub driver: Str,
    /// What the driver calls the volume.
    pub handle: Str,
}

/// The nodes that a volume can be used on, by label: one of the terms must match, and of a term all tests.
///
/// Upstream checks a node's labels alone: `matchFields` match every node, so that a term of fields only is a term without
/// tests here. Terms that are empty or do not parse match nothing and are left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct VolumeAffinity {
    pub terms: Vec<Vec<NodeTest>>,
}

impl VolumeAffinity {
    pub fn matches(&self, labels: &Labels) -> bool {
        self.terms.iter().any(|tests| tests.iter().all(|test| test.matches(labels)))
    }
}

/// An in-tree volume on nodes that have migrated to its CSI driver.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Migration {
    pub plugin: InTreePlugin,
    /// The node affinity as translated for the driver; or upstream's message where it cannot be translated.
    pub affinity: Result<Option<VolumeAffinity>, Str>,
}

/// What a volume is made of, as far as it counts against attach limits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum VolumeSource {
    /// No CSI driver attaches the volume.
    #[default]
    Other,
    Csi(Attachable),
    /// An in-tree disk that has been migrated to a CSI driver.
    InTree {
        /// What it counts as; `None` where it cannot be translated.
        attachable: Option<Attachable>,
        migration: Migration,
        /// What the in-tree plugin calls the disk, for the limits of the Policy era.
        disk: Str,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistentVolume {
    pub name: Str,
    pub uid: Str,
    pub resource_version: Str,
    /// Claims select by them, and zones are among them.
    pub labels: Labels,
    /// The old annotation goes before the field; empty for none.
    pub class: Str,
    pub capacity: Quantity,
    pub access_modes: Vec<Str>,
    /// `spec.volumeMode`, `Filesystem` if absent.
    pub volume_mode: Str,
    /// `spec.volumeAttributesClassName`; empty for none.
    pub attributes_class: Str,
    pub claim: Option<ClaimRef>,
    /// Whether its phase is `Available`.
    pub available: bool,
    pub deleting: bool,
    /// `None` is every node.
    pub affinity: Option<VolumeAffinity>,
    pub source: VolumeSource,
}

impl PersistentVolume {
    /// What the volume counts as against a node's attach limit.
    pub const fn attachable(&self) -> Option<&Attachable> {
        match &self.source {
            VolumeSource::Csi(attachable) => Some(attachable),
            VolumeSource::InTree { attachable, .. } => attachable.as_ref(),
            VolumeSource::Other => None,
        }
    }
}
