use super::ClaimKey;
use crate::model::Str;

/// A volume that is to be bound to a claim: its `spec.claimRef` is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingWrite {
    /// The volume's name.
    pub volume: Str,
    /// The volume's uid, a precondition.
    pub volume_uid: Str,
    /// The volume's resourceVersion, a precondition.
    pub resource_version: Str,
    /// The claim.
    pub claim: ClaimKey,
    /// The claim's uid.
    pub claim_uid: Str,
    /// The claim's resourceVersion: it goes into the reference.
    pub claim_version: Str,
    /// Whether nobody has meant the volume for this claim before: then the annotation
    /// `pv.kubernetes.io/bound-by-controller: "yes"` is set as well.
    pub by_controller: bool,
    /// Whether there is anything to write; an administrator may have done it.
    pub needed: bool,
}

/// A claim whose volume is to be made for a node: its annotation `volume.kubernetes.io/selected-node` is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvisionWrite {
    /// The claim.
    pub claim: ClaimKey,
    /// The claim's uid, a precondition.
    pub claim_uid: Str,
    /// The claim's resourceVersion, a precondition.
    pub resource_version: Str,
    /// Whether there is anything to write; another pod of the claim may have had it done.
    pub needed: bool,
}

/// What a pod that was decided for a node needs done to its claims before it can be bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeWrites {
    /// Volumes to be bound to claims: written first, in this order.
    pub bindings: Vec<BindingWrite>,
    /// Claims to have volumes made: written next, in this order.
    pub provisions: Vec<ProvisionWrite>,
}

impl VolumeWrites {
    /// Whether nothing has to be done or waited for.
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty() && self.provisions.is_empty()
    }

    /// Whether anything is to be written.
    pub fn any_needed(&self) -> bool {
        self.bindings.iter().any(|b| b.needed) || self.provisions.iter().any(|p| p.needed)
    }
}
