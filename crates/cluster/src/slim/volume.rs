//! Storage objects, and disks as pods and PersistentVolumes name them.

use super::fields::slim;
use super::{Amount, LabelSelector, NodeSelector, Pairs, Resources, Text};
use serde::Deserialize;

/// The fields of a StorageClass or CSIStorageCapacity: they have no spec.
#[derive(Debug, Clone, Default)]
pub struct Top<'a> {
    pub provisioner: Text<'a>,
    /// `Immediate` or `WaitForFirstConsumer`.
    pub volume_binding_mode: Text<'a>,
    pub allowed_topologies: Vec<TopologyTerm<'a>>,
    /// The nodes that have access to a capacity.
    pub node_topology: Option<LabelSelector<'a>>,
    pub storage_class_name: Text<'a>,
    pub capacity: Option<Amount>,
    pub maximum_volume_size: Option<Amount>,
}

slim! {
    struct Phase<'a> {
        phase: Text<'a>,
    }

    struct VolumeSpec<'a> {
        capacity: Pairs<'a, Amount>,
        access_modes: Vec<Text<'a>>,
        claim_ref: Option<ObjectRef<'a>>,
        storage_class_name: Text<'a>,
        /// `Filesystem` or `Block`.
        volume_mode: Text<'a>,
        volume_attributes_class_name: Text<'a>,
        node_affinity: Option<VolumeNodeAffinity<'a>>,
        csi: Option<CsiSource<'a>>,
        gce_persistent_disk: Option<GcePd<'a>>,
        aws_elastic_block_store: Option<VolumeId<'a>>,
        azure_disk: Option<AzureDisk<'a>>,
        cinder: Option<VolumeId<'a>>,
        portworx_volume: Option<VolumeId<'a>>,
    }

    struct ObjectRef<'a> {
        namespace: Text<'a>,
        name: Text<'a>,
        uid: Text<'a>,
    }

    struct VolumeNodeAffinity<'a> {
        required: Option<NodeSelector<'a>>,
    }

    struct CsiSource<'a> {
        driver: Text<'a>,
        volume_handle: Text<'a>,
    }

    struct ClaimSpec<'a> {
        access_modes: Vec<Text<'a>>,
        resources: Resources<'a>,
        selector: Option<LabelSelector<'a>>,
        storage_class_name: Text<'a>,
        /// `Filesystem` or `Block`.
        volume_mode: Text<'a>,
        volume_attributes_class_name: Text<'a>,
        volume_name: Text<'a>,
    }

    struct TopologyTerm<'a> {
        match_label_expressions: Vec<TopologyRequirement<'a>>,
    }

    struct TopologyRequirement<'a> {
        key: Text<'a>,
        values: Vec<Text<'a>>,
    }

    struct CsiNodeSpec<'a> {
        drivers: Vec<CsiNodeDriver<'a>>,
    }

    struct CsiNodeDriver<'a> {
        name: Text<'a>,
        allocatable: Option<DriverLimits>,
    }

    struct AttachmentSpec<'a> {
        attacher: Text<'a>,
        node_name: Text<'a>,
        source: AttachmentSource<'a>,
    }

    struct AttachmentSource<'a> {
        /// The PersistentVolume; none for a volume named in a pod.
        persistent_volume_name: Text<'a>,
    }

    struct ClaimSource<'a> {
        claim_name: Text<'a>,
    }

    /// A CSI volume of a pod's own.
    struct InlineCsi<'a> {
        driver: Text<'a>,
    }

    struct GcePd<'a> {
        pd_name: Text<'a>,
        read_only: bool,
    }

    /// A volume of EBS, OpenStack or Portworx.
    struct VolumeId<'a> {
        #[serde(rename = "volumeID")]
        volume_id: Text<'a>,
    }

    struct Iscsi<'a> {
        iqn: Text<'a>,
        read_only: bool,
    }

    /// A Ceph block device.
    struct Rbd<'a> {
        monitors: Vec<Text<'a>>,
        image: Text<'a>,
        /// The pool, `rbd` if absent.
        pool: Text<'a>,
        read_only: bool,
    }

    struct AzureDisk<'a> {
        disk_name: Text<'a>,
        #[serde(rename = "diskURI")]
        disk_uri: Text<'a>,
        /// `Shared` (if absent), `Dedicated` or `Managed`.
        kind: Text<'a>,
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
pub struct DriverLimits {
    /// How many volumes the driver can attach to the node; absent for no limit.
    pub count: Option<i32>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CsiDriverSpec {
    pub storage_capacity: Option<bool>,
}
