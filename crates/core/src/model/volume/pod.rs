use super::{Attachable, ClaimKey};
use crate::model::Str;

/// A disk that a pod names itself, without a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum InlineDisk {
    /// A GCE persistent disk.
    GcePd {
        /// Its name.
        name: Str,
        /// Whether the pod only reads.
        read_only: bool,
    },
    /// An EBS volume.
    Ebs {
        /// Its id.
        id: Str,
    },
    /// An iSCSI target.
    Iscsi {
        /// Its qualified name.
        iqn: Str,
        /// Whether the pod only reads.
        read_only: bool,
    },
    /// A Ceph block device.
    Rbd {
        /// The monitors.
        monitors: Vec<Str>,
        /// The pool.
        pool: Str,
        /// The image.
        image: Str,
        /// Whether the pod only reads.
        read_only: bool,
    },
    /// An Azure disk.
    AzureDisk {
        /// Its name.
        name: Str,
        /// Its URI.
        uri: Str,
    },
    /// An Azure file share.
    AzureFile,
    /// An OpenStack volume.
    Cinder {
        /// Its id.
        id: Str,
    },
    /// A vSphere disk.
    Vsphere,
    /// A Portworx volume.
    Portworx {
        /// Its id.
        id: Str,
    },
}

impl InlineDisk {
    /// Whether pods on one node may not share it freely. After `needsRestrictionsCheck` of VolumeRestrictions.
    pub const fn is_restricted(&self) -> bool {
        matches!(self, Self::GcePd { .. } | Self::Ebs { .. } | Self::Iscsi { .. } | Self::Rbd { .. })
    }

    /// Whether a CSI driver has taken over disks of its kind.
    pub const fn is_migratable(&self) -> bool {
        !matches!(self, Self::Iscsi { .. } | Self::Rbd { .. })
    }

    /// Whether two pods with one each cannot be on one node. After `isVolumeConflict` of VolumeRestrictions.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::GcePd { name, read_only }, Self::GcePd { name: of_other, read_only: other_reads }) => {
                name == of_other && !(*read_only && *other_reads)
            }
            (Self::Ebs { id }, Self::Ebs { id: of_other }) => id == of_other,
            (Self::Iscsi { iqn, read_only }, Self::Iscsi { iqn: of_other, read_only: other_reads }) => {
                iqn == of_other && !(*read_only && *other_reads)
            }
            (
                Self::Rbd { monitors, pool, image, read_only },
                Self::Rbd { monitors: others, pool: other_pool, image: other_image, read_only: other_reads },
            ) => {
                let shared = monitors.iter().any(|monitor| others.contains(monitor));
                shared && pool == other_pool && image == other_image && !(*read_only && *other_reads)
            }
            _ => false,
        }
    }
}

/// One volume of a pod, as far as a plugin looks at it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PodVolume {
    /// A claim by name.
    Claim {
        /// The claim's name, in the pod's namespace.
        claim: Str,
    },
    /// A claim made for the pod, named `<pod>-<volume>`, which the pod must own.
    Ephemeral {
        /// The volume's name.
        volume: Str,
    },
    /// A disk named in the pod itself.
    Disk {
        /// The volume's name.
        volume: Str,
        /// The disk.
        disk: InlineDisk,
        /// What it counts as; or what upstream says where it cannot be translated. Nothing where it does not count.
        counts: Result<Option<Attachable>, Str>,
    },
    /// A CSI volume that lives as long as the pod.
    Csi {
        /// The driver.
        driver: Str,
    },
}

/// What a pod mounts, as far as a plugin looks at it, in the order given. A pod without any has no such list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PodVolumes(pub Vec<PodVolume>);

impl PodVolumes {
    /// The volumes.
    pub fn iter(&self) -> impl Iterator<Item = &PodVolume> {
        self.0.iter()
    }

    /// The disks named in the pod itself.
    pub fn disks(&self) -> impl Iterator<Item = &InlineDisk> {
        self.0.iter().filter_map(|volume| match volume {
            PodVolume::Disk { disk, .. } => Some(disk),
            _ => None,
        })
    }

    /// The claims of the pod `name` in `namespace`, and of each whether it was made for the pod.
    pub fn claims<'a>(&'a self, namespace: &'a Str, name: &'a str) -> impl Iterator<Item = (ClaimKey, bool)> + 'a {
        self.0.iter().filter_map(move |volume| {
            let (claim, ephemeral) = volume.claim(name)?;
            Some((ClaimKey { namespace: namespace.clone(), name: claim }, ephemeral))
        })
    }
}

impl PodVolume {
    /// The name of its claim where the pod is called `pod`, and whether the claim was made for the pod.
    pub fn claim(&self, pod: &str) -> Option<(Str, bool)> {
        match self {
            Self::Claim { claim } => Some((claim.clone(), false)),
            Self::Ephemeral { volume } => Some((format!("{pod}-{volume}").into(), true)),
            Self::Disk { .. } | Self::Csi { .. } => None,
        }
    }
}
