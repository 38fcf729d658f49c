use super::ClaimKey;
use crate::model::Str;

/// A volume that is to be bound to a claim: its `spec.claimRef` is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingWrite {
    pub volume: Str,
    /// The volume's uid, a precondition.
    pub volume_uid: Str,
    /// The volume's resourceVersion, a precondition.
    pub resource_version: Str,
    pub claim: ClaimKey,
    pub claim_uid: Str,
    /// The claim's resourceVersion, which goes into the reference.
    pub claim_version: Str,
    /// Whether the volume was not meant for this claim before: then the annotation `pv.kubernetes.io/bound-by-controller: "yes"`
    /// is set as well.
    pub by_controller: bool,
    /// Whether there is anything to write: an administrator may have done it already.
    pub needed: bool,
}

/// A claim whose volume is to be made for a node: its annotation `volume.kubernetes.io/selected-node` is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvisionWrite {
    pub claim: ClaimKey,
    /// The claim's uid, a precondition.
    pub claim_uid: Str,
    /// The claim's resourceVersion, a precondition.
    pub resource_version: Str,
    /// Whether there is anything to write: it may have been done for another pod of the claim.
    pub needed: bool,
}

/// What must be written to the claims of an assumed pod before it can be bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeWrites {
    /// Written first, in this order.
    pub bindings: Vec<BindingWrite>,
    /// Written next, in this order.
    pub provisions: Vec<ProvisionWrite>,
}

impl VolumeWrites {
    pub fn any_needed(&self) -> bool {
        self.bindings.iter().any(|b| b.needed) || self.provisions.iter().any(|p| p.needed)
    }
}
