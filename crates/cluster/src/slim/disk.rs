//! Disks as pods and PersistentVolumes name them.

use super::Text;
use super::text::nullable;
use serde::Deserialize;

/// A claim by name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimSource<'a> {
    /// The claim's name.
    #[serde(borrow)]
    pub claim_name: Text<'a>,
}

/// A CSI volume of a pod's own.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct InlineCsi<'a> {
    /// The driver.
    #[serde(borrow)]
    pub driver: Text<'a>,
}

/// A GCE persistent disk.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GcePd<'a> {
    /// Its name.
    #[serde(borrow)]
    pub pd_name: Text<'a>,
    /// Only read.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

/// A volume of EBS, OpenStack or Portworx.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct VolumeId<'a> {
    /// Its id.
    #[serde(borrow, rename = "volumeID")]
    pub volume_id: Text<'a>,
}

/// An iSCSI target.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Iscsi<'a> {
    /// Its qualified name.
    #[serde(borrow)]
    pub iqn: Text<'a>,
    /// Only read.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

/// A Ceph block device.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rbd<'a> {
    /// The monitors.
    #[serde(borrow, deserialize_with = "nullable")]
    pub monitors: Vec<Text<'a>>,
    /// The image.
    #[serde(borrow)]
    pub image: Text<'a>,
    /// The pool, `rbd` if absent.
    #[serde(borrow)]
    pub pool: Text<'a>,
    /// Only read.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

/// An Azure disk.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AzureDisk<'a> {
    /// Its name.
    #[serde(borrow)]
    pub disk_name: Text<'a>,
    /// Its URI.
    #[serde(borrow, rename = "diskURI")]
    pub disk_uri: Text<'a>,
    /// `Shared` (if absent), `Dedicated` or `Managed`.
    #[serde(borrow)]
    pub kind: Text<'a>,
}
