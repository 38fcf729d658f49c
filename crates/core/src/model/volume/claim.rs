use crate::model::{LabelSelector, Quantity, Str};
use std::fmt;

/// The name by which people know a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimKey {
    /// Its namespace.
    pub namespace: Str,
    /// Its name within the namespace.
    pub name: Str,
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Which volumes a claim is content with, by label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum ClaimSelector {
    /// Every one.
    #[default]
    Any,
    /// Those that match.
    Matching(LabelSelector),
    /// It does not parse: what upstream says of it.
    Broken(Str),
}

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistentVolumeClaim {
    /// Namespace and name.
    pub key: ClaimKey,
    /// Its uid: one recreated under the same name is another claim.
    pub uid: Str,
    /// The resourceVersion this was read at.
    pub resource_version: Str,
    /// The uid of the object that controls it: the pod, for the claim of an ephemeral volume.
    pub controller: Option<Str>,
    /// Its storage class, the old annotation first; empty for none.
    pub class: Str,
    /// `spec.volumeName`.
    pub volume: Option<Str>,
    /// Whether the binder has marked it as completely bound.
    pub bind_completed: bool,
    /// The node that a scheduler has chosen for its volume to be made for.
    pub selected_node: Option<Str>,
    /// `spec.accessModes`.
    pub access_modes: Vec<Str>,
    /// The storage that it requests, if it says.
    pub request: Option<Quantity>,
    /// `spec.volumeMode`, `Filesystem` if absent.
    pub volume_mode: Str,
    /// `spec.selector`.
    pub selector: ClaimSelector,
    /// `spec.volumeAttributesClassName`; empty for none.
    pub attributes_class: Str,
    /// Whether its phase is `Lost`: the volume it was bound to is gone.
    pub lost: bool,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
}

impl PersistentVolumeClaim {
    /// Whether its volume is known and the binder is done with it.
    pub fn is_fully_bound(&self) -> bool {
        self.volume.is_some() && self.bind_completed
    }

    /// Whether only one pod at a time may use it.
    pub fn is_for_one_pod(&self) -> bool {
        self.access_modes.iter().any(|mode| &**mode == "ReadWriteOncePod")
    }
}
