use crate::model::{LabelSelector, Quantity, Str};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimKey {
    pub namespace: Str,
    pub name: Str,
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Which volumes may be bound to a claim, by label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum ClaimSelector {
    #[default]
    Any,
    Matching(LabelSelector),
    /// The selector does not parse; upstream's message.
    Broken(Str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistentVolumeClaim {
    pub key: ClaimKey,
    /// A claim recreated under the same name is another claim.
    pub uid: Str,
    pub resource_version: Str,
    /// The uid of the object that controls it: the pod, for the claim of an ephemeral volume.
    pub controller: Option<Str>,
    /// The old annotation goes before the field; empty for none.
    pub class: Str,
    pub volume: Option<Str>,
    /// Whether the volume controller has marked it as completely bound.
    pub bind_completed: bool,
    /// The node that a scheduler has chosen, and for which its volume is to be made.
    pub selected_node: Option<Str>,
    pub access_modes: Vec<Str>,
    pub request: Option<Quantity>,
    /// `spec.volumeMode`, `Filesystem` if absent.
    pub volume_mode: Str,
    pub selector: ClaimSelector,
    /// `spec.volumeAttributesClassName`; empty for none.
    pub attributes_class: Str,
    /// Whether its phase is `Lost`: the volume that it was bound to was deleted.
    pub lost: bool,
    pub deleting: bool,
}

impl PersistentVolumeClaim {
    /// Whether its volume is known and completely bound.
    pub fn is_fully_bound(&self) -> bool {
        self.volume.is_some() && self.bind_completed
    }

    /// Whether only one pod at a time may use it.
    pub fn is_for_one_pod(&self) -> bool {
        self.access_modes.iter().any(|mode| &**mode == "ReadWriteOncePod")
    }
}
