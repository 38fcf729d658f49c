//! Storage objects. More of them is read than metadata, spec and status: some of their annotations, and fields that stand
//! at the top. So they are read twice, once for the metadata and once as a whole: [`Slim::read_whole`] for an object,
//! [`Slim::read_line`] for a line of a watch whose metadata was read already.

use super::disk::{AzureDisk, GcePd, VolumeId};
use super::text::nullable;
use super::{Amount, FieldError, LabelSelector, NodeSelector, Nothing, Pairs, Parts, Slim, Text};
use serde::Deserialize;

/// A PersistentVolume.
pub type SlimVolume<'a> = Slim<'a, VolumeBody<'a>, Nothing>;
/// A PersistentVolumeClaim.
pub type SlimClaim<'a> = Slim<'a, ClaimBody<'a>, Nothing>;
/// A StorageClass.
pub type SlimStorageClass<'a> = Slim<'a, StorageClassBody<'a>, Nothing>;
/// A CSINode.
pub type SlimCsiNode<'a> = Slim<'a, CsiNodeBody<'a>, Nothing>;
/// A CSIDriver.
pub type SlimCsiDriver<'a> = Slim<'a, CsiDriverBody, Nothing>;
/// A CSIStorageCapacity.
pub type SlimCsiStorageCapacity<'a> = Slim<'a, CapacityBody<'a>, Nothing>;
/// A VolumeAttachment.
pub type SlimVolumeAttachment<'a> = Slim<'a, AttachmentBody<'a>, Nothing>;

#[derive(Deserialize)]
#[serde(bound(deserialize = "B: Deserialize<'de>"))]
struct Line<B> {
    object: B,
}

impl<'a, B: Deserialize<'a> + Default> Slim<'a, B, Nothing> {
    /// Reads an object of which more than metadata, spec and status is wanted.
    pub fn read_whole(bytes: &'a [u8]) -> Self {
        let Slim { metadata, parts, unknown } = Slim::<'a, Nothing, Nothing>::read(bytes);
        let body = || serde_json::from_slice(bytes).map_err(|error| FieldError::locate(bytes, &error));
        let parts = parts.and_then(|_| body()).map(|spec| Parts { spec, status: Nothing });
        Self { metadata, parts, unknown }
    }

    /// Reads the rest of an object that came in this `line` of a watch.
    pub fn read_line(&mut self, line: &'a [u8]) {
        if self.parts.is_ok() {
            let body = serde_json::from_slice(line).map_err(|error| FieldError::locate(line, &error));
            self.parts = body.map(|Line { object }| Parts { spec: object, status: Nothing });
        }
    }
}

/// What else is read of metadata.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MoreMeta<'a> {
    /// Annotations, in the order given.
    #[serde(borrow)]
    pub annotations: Pairs<'a, Text<'a>>,
    /// What it belongs to.
    #[serde(borrow, deserialize_with = "nullable")]
    pub owner_references: Vec<Owner<'a>>,
}

impl MoreMeta<'_> {
    /// The annotation `key`.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.iter().rev().find(|(name, _)| &**name == key).map(|(_, value)| &**value)
    }
}

/// An object that another belongs to.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Owner<'a> {
    /// Its uid.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Whether it is the one that made the other.
    #[serde(deserialize_with = "nullable")]
    pub controller: bool,
}

/// What is read of a PersistentVolume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct VolumeBody<'a> {
    /// Annotations.
    #[serde(borrow, deserialize_with = "nullable")]
    pub metadata: MoreMeta<'a>,
    /// What it is.
    #[serde(borrow, deserialize_with = "nullable")]
    pub spec: VolumeSpec<'a>,
    /// How it does.
    #[serde(borrow, deserialize_with = "nullable")]
    pub status: Phase<'a>,
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

/// What is read of a PersistentVolumeClaim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ClaimBody<'a> {
    /// Annotations and owners.
    #[serde(borrow, deserialize_with = "nullable")]
    pub metadata: MoreMeta<'a>,
    /// What it asks for.
    #[serde(borrow, deserialize_with = "nullable")]
    pub spec: ClaimSpec<'a>,
    /// How it does.
    #[serde(borrow, deserialize_with = "nullable")]
    pub status: Phase<'a>,
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

/// What is read of a StorageClass.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageClassBody<'a> {
    /// Who makes its volumes.
    #[serde(borrow)]
    pub provisioner: Text<'a>,
    /// `Immediate` or `WaitForFirstConsumer`.
    #[serde(borrow)]
    pub volume_binding_mode: Text<'a>,
    /// Where its volumes can be made.
    #[serde(borrow, deserialize_with = "nullable")]
    pub allowed_topologies: Vec<TopologyTerm<'a>>,
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

/// What is read of a CSINode.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct CsiNodeBody<'a> {
    /// Annotations.
    #[serde(borrow, deserialize_with = "nullable")]
    pub metadata: MoreMeta<'a>,
    /// Its drivers.
    #[serde(borrow, deserialize_with = "nullable")]
    pub spec: CsiNodeSpec<'a>,
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

/// What is read of a CSIDriver.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct CsiDriverBody {
    /// What it does.
    #[serde(deserialize_with = "nullable")]
    pub spec: CsiDriverSpec,
}

/// The spec of a CSIDriver.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiDriverSpec {
    /// Whether it tells how much room it has.
    #[serde(deserialize_with = "nullable")]
    pub storage_capacity: bool,
}

/// What is read of a CSIStorageCapacity.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CapacityBody<'a> {
    /// Which nodes have access.
    #[serde(borrow)]
    pub node_topology: Option<LabelSelector<'a>>,
    /// The class.
    #[serde(borrow)]
    pub storage_class_name: Text<'a>,
    /// How much room there is.
    pub capacity: Option<Amount>,
    /// The largest volume that can be made.
    pub maximum_volume_size: Option<Amount>,
}

/// What is read of a VolumeAttachment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AttachmentBody<'a> {
    /// What is to be attached.
    #[serde(borrow, deserialize_with = "nullable")]
    pub spec: AttachmentSpec<'a>,
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
