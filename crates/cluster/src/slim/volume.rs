//! Storage objects.

use super::disk::{AzureDisk, GcePd, VolumeId};
use super::text::nullable;
use super::{Amount, LabelSelector, NodeSelector, Nothing, Pairs, Slim, Text};
use serde::Deserialize;

/// A PersistentVolume.
pub type SlimVolume<'a> = Slim<'a, VolumeSpec<'a>, Phase<'a>>;
/// A PersistentVolumeClaim.
pub type SlimClaim<'a> = Slim<'a, ClaimSpec<'a>, Phase<'a>>;
/// A StorageClass; all of it is in [`Top`].
pub type SlimStorageClass<'a> = Slim<'a, Nothing, Nothing>;
/// A CSINode.
pub type SlimCsiNode<'a> = Slim<'a, CsiNodeSpec<'a>, Nothing>;
/// A CSIDriver.
pub type SlimCsiDriver<'a> = Slim<'a, CsiDriverSpec, Nothing>;
/// A CSIStorageCapacity; all of it is in [`Top`].
pub type SlimCsiStorageCapacity<'a> = Slim<'a, Nothing, Nothing>;
/// A VolumeAttachment.
pub type SlimVolumeAttachment<'a> = Slim<'a, AttachmentSpec<'a>, Nothing>;

/// What a StorageClass or CSIStorageCapacity says beside its metadata: they have no spec.
#[derive(Debug, Clone, Default)]
pub struct Top<'a> {
    /// Who makes the volumes of a class.
    pub provisioner: Text<'a>,
    /// `Immediate` or `WaitForFirstConsumer`.
    pub volume_binding_mode: Text<'a>,
    /// Where volumes of a class can be made.
    pub allowed_topologies: Vec<TopologyTerm<'a>>,
    /// Which nodes have access to a capacity.
    pub node_topology: Option<LabelSelector<'a>>,
    /// The class of a capacity.
    pub storage_class_name: Text<'a>,
    /// How much room there is.
    pub capacity: Option<Amount>,
    /// The largest volume that can be made.
    pub maximum_volume_size: Option<Amount>,
}

/// A status of which only the phase is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Phase<'a> {
    /// The phase, as text.
    #[serde(borrow)]
    pub phase: Text<'a>,
}

/// The spec of a PersistentVolume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeSpec<'a> {
    /// What it holds.
    #[serde(borrow)]
    pub capacity: Pairs<'a, Amount>,
    /// How it can be mounted.
    #[serde(borrow, deserialize_with = "nullable")]
    pub access_modes: Vec<Text<'a>>,
    /// The claim it is meant for.
    #[serde(borrow)]
    pub claim_ref: Option<ObjectRef<'a>>,
    /// Its class.
    #[serde(borrow)]
    pub storage_class_name: Text<'a>,
    /// `Filesystem` or `Block`.
    #[serde(borrow)]
    pub volume_mode: Text<'a>,
    /// The class of its attributes.
    #[serde(borrow)]
    pub volume_attributes_class_name: Text<'a>,
    /// Where it can be used.
    #[serde(borrow)]
    pub node_affinity: Option<VolumeNodeAffinity<'a>>,
    /// A CSI volume.
    #[serde(borrow)]
    pub csi: Option<CsiSource<'a>>,
    /// A GCE persistent disk.
    #[serde(borrow)]
    pub gce_persistent_disk: Option<GcePd<'a>>,
    /// An EBS volume.
    #[serde(borrow)]
    pub aws_elastic_block_store: Option<VolumeId<'a>>,
    /// An Azure disk.
    #[serde(borrow)]
    pub azure_disk: Option<AzureDisk<'a>>,
    /// An OpenStack volume.
    #[serde(borrow)]
    pub cinder: Option<VolumeId<'a>>,
    /// A Portworx volume.
    #[serde(borrow)]
    pub portworx_volume: Option<VolumeId<'a>>,
}

/// An object by name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ObjectRef<'a> {
    /// Its namespace.
    #[serde(borrow)]
    pub namespace: Text<'a>,
    /// Its name.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// Its uid.
    #[serde(borrow)]
    pub uid: Text<'a>,
}

/// Where a volume can be used.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct VolumeNodeAffinity<'a> {
    /// Terms of which one must match.
    #[serde(borrow)]
    pub required: Option<NodeSelector<'a>>,
}

/// A CSI volume of a PersistentVolume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiSource<'a> {
    /// The driver.
    #[serde(borrow)]
    pub driver: Text<'a>,
    /// The driver's name for the volume.
    #[serde(borrow)]
    pub volume_handle: Text<'a>,
}

/// The spec of a PersistentVolumeClaim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimSpec<'a> {
    /// How it is to be mounted.
    #[serde(borrow, deserialize_with = "nullable")]
    pub access_modes: Vec<Text<'a>>,
    /// How much it asks for.
    #[serde(borrow, deserialize_with = "nullable")]
    pub resources: super::Resources<'a>,
    /// Which volumes it is content with.
    #[serde(borrow)]
    pub selector: Option<LabelSelector<'a>>,
    /// Its class, which may be the empty one.
    #[serde(borrow)]
    pub storage_class_name: Text<'a>,
    /// `Filesystem` or `Block`.
    #[serde(borrow)]
    pub volume_mode: Text<'a>,
    /// The class of its attributes.
    #[serde(borrow)]
    pub volume_attributes_class_name: Text<'a>,
    /// The volume it is bound to, or wants.
    #[serde(borrow)]
    pub volume_name: Text<'a>,
}

/// Labels that a node must have.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologyTerm<'a> {
    /// Each of them.
    #[serde(borrow, deserialize_with = "nullable")]
    pub match_label_expressions: Vec<TopologyRequirement<'a>>,
}

/// A label and the values it may have.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct TopologyRequirement<'a> {
    /// The label's key.
    #[serde(borrow)]
    pub key: Text<'a>,
    /// The values.
    #[serde(borrow, deserialize_with = "nullable")]
    pub values: Vec<Text<'a>>,
}

/// The spec of a CSINode.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct CsiNodeSpec<'a> {
    /// Its drivers.
    #[serde(borrow, deserialize_with = "nullable")]
    pub drivers: Vec<CsiNodeDriver<'a>>,
}

/// A driver on a node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct CsiNodeDriver<'a> {
    /// Its name.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// What it can do there.
    #[serde(deserialize_with = "nullable")]
    pub allocatable: DriverLimits,
}

/// What a driver can do on a node.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct DriverLimits {
    /// How many volumes it can attach.
    pub count: Option<i32>,
}

/// The spec of a CSIDriver.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiDriverSpec {
    /// Whether it tells how much room it has.
    #[serde(deserialize_with = "nullable")]
    pub storage_capacity: bool,
}

/// The spec of a VolumeAttachment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AttachmentSpec<'a> {
    /// The driver.
    #[serde(borrow)]
    pub attacher: Text<'a>,
    /// The node.
    #[serde(borrow)]
    pub node_name: Text<'a>,
    /// What.
    #[serde(borrow, deserialize_with = "nullable")]
    pub source: AttachmentSource<'a>,
}

/// What is attached.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AttachmentSource<'a> {
    /// The PersistentVolume; none for a volume named in a pod.
    #[serde(borrow)]
    pub persistent_volume_name: Text<'a>,
}
