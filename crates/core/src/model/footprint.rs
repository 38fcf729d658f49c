use super::{
    AffinityTerm, InlineDisk, LabelSelector, Labels, NamespaceScope, NodeSelector, NodeSelectorTerm, NodeTest, Pod,
    PodShape, PodVolume, PreferredTerm, Requests, Requirement, RowShape, SpreadConstraint, Str, Toleration, Usage,
    WeightedTerm,
};
use std::sync::Arc;

/// About how many bytes a value keeps on the heap, so that what is stored for reuse can be bounded.
///
/// A text counts wherever it occurs, although it may be shared.
pub trait Footprint {
    fn heap_bytes(&self) -> usize;
}

impl Footprint for Str {
    fn heap_bytes(&self) -> usize {
        // The counts of an Arc stand before the text.
        self.len() + 2 * size_of::<usize>()
    }
}

impl<T: Footprint> Footprint for Arc<T> {
    fn heap_bytes(&self) -> usize {
        size_of::<T>() + T::heap_bytes(self)
    }
}

impl<T: Footprint> Footprint for Option<T> {
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, T::heap_bytes)
    }
}

impl<T: Footprint> Footprint for Vec<T> {
    fn heap_bytes(&self) -> usize {
        self.as_slice().heap_bytes()
    }
}

impl<T: Footprint> Footprint for Box<[T]> {
    fn heap_bytes(&self) -> usize {
        (**self).heap_bytes()
    }
}

impl<T: Footprint> Footprint for [T] {
    fn heap_bytes(&self) -> usize {
        self.iter().map(|one| size_of::<T>() + one.heap_bytes()).sum()
    }
}

impl Footprint for Labels {
    fn heap_bytes(&self) -> usize {
        self.iter().map(|(key, value)| size_of::<(Str, Str)>() + key.heap_bytes() + value.heap_bytes()).sum()
    }
}

impl Footprint for Requests {
    fn heap_bytes(&self) -> usize {
        self.scalars.iter().map(|(name, _)| size_of::<(Str, i64)>() + name.heap_bytes()).sum()
    }
}

impl Footprint for Usage {
    fn heap_bytes(&self) -> usize {
        self.requests.heap_bytes()
            + self.ports.iter().map(|port| size_of_val(port) + port.ip.heap_bytes()).sum::<usize>()
    }
}

impl Footprint for Requirement {
    fn heap_bytes(&self) -> usize {
        self.key.heap_bytes() + self.values.heap_bytes()
    }
}

impl Footprint for LabelSelector {
    fn heap_bytes(&self) -> usize {
        self.requirements.heap_bytes()
    }
}

impl Footprint for NodeTest {
    fn heap_bytes(&self) -> usize {
        self.key.heap_bytes() + self.values.heap_bytes()
    }
}

impl Footprint for NodeSelectorTerm {
    fn heap_bytes(&self) -> usize {
        let names = self.names.iter().map(|one| size_of_val(one) + one.1.heap_bytes());
        self.expressions.heap_bytes() + names.sum::<usize>()
    }
}

impl Footprint for NodeSelector {
    fn heap_bytes(&self) -> usize {
        self.terms.heap_bytes()
    }
}

impl Footprint for PreferredTerm {
    fn heap_bytes(&self) -> usize {
        self.term.heap_bytes()
    }
}

impl Footprint for Toleration {
    fn heap_bytes(&self) -> usize {
        self.key.heap_bytes() + self.value.heap_bytes()
    }
}

impl Footprint for NamespaceScope {
    fn heap_bytes(&self) -> usize {
        self.names.heap_bytes() + self.selector.heap_bytes()
    }
}

impl Footprint for AffinityTerm {
    fn heap_bytes(&self) -> usize {
        self.selector.heap_bytes() + self.namespaces.heap_bytes() + self.topology_key.heap_bytes()
    }
}

impl Footprint for WeightedTerm {
    fn heap_bytes(&self) -> usize {
        self.term.heap_bytes()
    }
}

impl Footprint for SpreadConstraint {
    fn heap_bytes(&self) -> usize {
        self.selector.heap_bytes() + self.topology_key.heap_bytes()
    }
}

/// What a pod may have much of; its namespace, controller and held features are a few texts.
impl Footprint for PodShape {
    fn heap_bytes(&self) -> usize {
        self.row.heap_bytes()
            + self.labels.heap_bytes()
            + self.images.heap_bytes()
            + self.affinity.heap_bytes()
            + self.anti_affinity.heap_bytes()
            + self.preferred_pods.heap_bytes()
            + self.spread.heap_bytes()
    }
}

impl Footprint for RowShape {
    fn heap_bytes(&self) -> usize {
        let ports = self.host_ports.iter().map(|port| size_of_val(port) + port.ip.heap_bytes()).sum::<usize>();
        self.requests.heap_bytes()
            + self.score_requests.heap_bytes()
            + self.node_selector.heap_bytes()
            + self.required_affinity.heap_bytes()
            + self.preferred_affinity.heap_bytes()
            + self.tolerations.heap_bytes()
            + ports
            + self.required_features.heap_bytes()
    }
}

impl Footprint for InlineDisk {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::GcePd { name: text, .. }
            | Self::Ebs { id: text }
            | Self::Iscsi { iqn: text, .. }
            | Self::Cinder { id: text }
            | Self::Portworx { id: text } => text.heap_bytes(),
            Self::Rbd { monitors, pool, image, .. } => monitors.heap_bytes() + pool.heap_bytes() + image.heap_bytes(),
            Self::AzureDisk { name, uri } => name.heap_bytes() + uri.heap_bytes(),
            Self::AzureFile | Self::Vsphere => 0,
        }
    }
}

impl Footprint for PodVolume {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Claim { claim: text } | Self::Ephemeral { volume: text } | Self::Csi { driver: text } => {
                text.heap_bytes()
            }
            // What it counts as repeats a text of the disk.
            Self::Disk { volume, disk, .. } => volume.heap_bytes() + 2 * disk.heap_bytes(),
        }
    }
}

impl Pod {
    /// What the pod takes besides its shape and its usage, which pods alike share.
    pub(crate) fn own_bytes(&self) -> usize {
        let condition = self.scheduled.as_ref().map_or(0, |condition| condition.message.heap_bytes());
        size_of::<Self>()
            + self.key.name.heap_bytes()
            + self.uid.heap_bytes()
            + self.gates.heap_bytes()
            + self.unknown_fields.heap_bytes()
            + self.volumes.heap_bytes()
            + self
                .resource_claims
                .iter()
                .flat_map(|claims| claims.iter())
                .map(|one| size_of_val(one) + one.heap_bytes())
                .sum::<usize>()
            + self
                .extended
                .iter()
                .flat_map(|containers| containers.iter())
                .map(|one| size_of_val(one) + one.resources.capacity() * size_of::<(Str, u32, i64)>())
                .sum::<usize>()
            + condition
    }
}
