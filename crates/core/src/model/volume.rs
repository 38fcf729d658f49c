//! Only what upstream's four volume plugins read of the storage objects. Names and uids are kept where a later write needs them
//! as preconditions.

use super::{LabelSelector, Labels, NodeTest, Quantity, Str};
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

    /// Whether both say the same of everything that plugins read. Whoever writes something else into a claim changes its
    /// resourceVersion alone.
    pub fn reads_as(&self, other: &Self) -> bool {
        // A field that comes to be must be thought of here.
        let Self {
            key,
            uid,
            resource_version: _,
            controller,
            class,
            volume,
            bind_completed,
            selected_node,
            access_modes,
            request,
            volume_mode,
            selector,
            attributes_class,
            lost,
            deleting,
        } = self;
        (key, uid, controller, class) == (&other.key, &other.uid, &other.controller, &other.class)
            && (volume, bind_completed, selected_node) == (&other.volume, &other.bind_completed, &other.selected_node)
            && (access_modes, request, volume_mode) == (&other.access_modes, &other.request, &other.volume_mode)
            && (selector, attributes_class) == (&other.selector, &other.attributes_class)
            && (lost, deleting) == (&other.lost, &other.deleting)
    }

    /// Whether only one pod at a time may use it.
    pub fn is_for_one_pod(&self) -> bool {
        self.access_modes.iter().any(|mode| &**mode == "ReadWriteOncePod")
    }
}

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

    /// How many comparisons [`Self::matches`] may take.
    pub fn comparisons(&self) -> usize {
        self.terms.iter().flatten().map(NodeTest::comparisons).sum()
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
    /// Where it stands among those of its class: claims get the smallest that fits, and of these the first by name.
    pub fn place(&self) -> (Quantity, Str) {
        (self.capacity, self.name.clone())
    }

    /// What the volume counts as against a node's attach limit.
    pub const fn attachable(&self) -> Option<&Attachable> {
        match &self.source {
            VolumeSource::Csi(attachable) => Some(attachable),
            VolumeSource::InTree { attachable, .. } => attachable.as_ref(),
            VolumeSource::Other => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BindingMode {
    Immediate,
    WaitForFirstConsumer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageClass {
    pub name: Str,
    pub provisioner: Str,
    /// `None` only where no API server filled it in.
    pub binding_mode: Option<BindingMode>,
    /// The nodes for which its volumes can be made; `None` is every node.
    pub allowed_topologies: Option<VolumeAffinity>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiNode {
    pub name: Str,
    /// With the number of volumes that each can attach there, where there is a limit.
    pub drivers: Vec<(Str, Option<i32>)>,
    /// The in-tree plugins that the node has migrated to CSI drivers, sorted.
    pub migrated_plugins: Vec<Str>,
}

impl CsiNode {
    /// `None` where there is no limit.
    pub fn limit(&self, driver: &str) -> Option<i32> {
        // If a driver is named twice, the last one counts, as in upstream's map.
        self.drivers.iter().rev().filter(|(name, _)| &**name == driver).find_map(|(_, limit)| *limit)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiDriver {
    pub name: Str,
    /// Whether it reports its capacity as CSIStorageCapacity objects.
    pub storage_capacity: bool,
}

/// The capacity for volumes of a class in some part of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiStorageCapacity {
    pub namespace: Str,
    pub name: Str,
    pub class: Str,
    /// The nodes with access; `None` where none has, or the selector does not parse.
    pub nodes: Option<LabelSelector>,
    /// The largest volume that can be made, in bytes; `None` where it is not reported.
    pub limit: Option<i64>,
}

/// The volume is attached to the node, or is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeAttachment {
    pub name: Str,
    /// The driver; empty for none.
    pub attacher: Str,
    pub node: Str,
    /// The PersistentVolume, where it is one.
    pub volume: Option<Str>,
}

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

/// An in-tree volume plugin whose volumes have been migrated to a CSI driver. After `csi-translation-lib`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InTreePlugin {
    Ebs,
    GcePd,
    AzureDisk,
    AzureFile,
    Cinder,
    Vsphere,
    Portworx,
}

impl InTreePlugin {
    pub const ALL: [Self; 7] =
        [Self::Ebs, Self::GcePd, Self::AzureDisk, Self::AzureFile, Self::Cinder, Self::Vsphere, Self::Portworx];

    /// The name as a provisioner and in annotations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ebs => "kubernetes.io/aws-ebs",
            Self::GcePd => "kubernetes.io/gce-pd",
            Self::AzureDisk => "kubernetes.io/azure-disk",
            Self::AzureFile => "kubernetes.io/azure-file",
            Self::Cinder => "kubernetes.io/cinder",
            Self::Vsphere => "kubernetes.io/vsphere-volume",
            Self::Portworx => "kubernetes.io/portworx-volume",
        }
    }

    /// The CSI driver, where upstream's scheduler counts its volumes: it has no switch for Azure files and vSphere disks.
    pub const fn driver(self) -> Option<&'static str> {
        match self {
            Self::Ebs => Some("ebs.csi.aws.com"),
            Self::GcePd => Some("pd.csi.storage.gke.io"),
            Self::AzureDisk => Some("disk.csi.azure.com"),
            Self::Cinder => Some("cinder.csi.openstack.org"),
            Self::Portworx => Some("pxd.portworx.com"),
            Self::AzureFile | Self::Vsphere => None,
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.name() == name)
    }
}
