//! What a pod mounts, as far as a plugin looks at it.

use super::{Attachable, ClaimKey, Str};

/// A disk that a pod names itself, without a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum InlineDisk {
    GcePd { name: Str, read_only: bool },
    Ebs { id: Str },
    Iscsi { iqn: Str, read_only: bool },
    Rbd { monitors: Vec<Str>, pool: Str, image: Str, read_only: bool },
    AzureDisk { name: Str, uri: Str },
    AzureFile,
    Cinder { id: Str },
    Vsphere,
    Portworx { id: Str },
}

impl InlineDisk {
    /// Whether disks of its kind have been migrated to a CSI driver.
    pub const fn is_migratable(&self) -> bool {
        !matches!(self, Self::Iscsi { .. } | Self::Rbd { .. })
    }

    /// What two pods on one node cannot both use, unless both only read: one thing, or one for each monitor of an RBD image, of which
    /// two disks must share one. None for disks that any number of pods may use. After `isVolumeConflict` of VolumeRestrictions.
    pub fn locks(&self) -> impl Iterator<Item = DiskLock<'_>> {
        let lock = |kind, names, reads| Some(DiskLock { names: (kind, names), reads });
        let (one, monitors, image): (_, &[Str], Option<(&str, &str, bool)>) = match self {
            Self::Ebs { id } => (lock(0, [&**id, "", ""], false), &[][..], None),
            Self::GcePd { name, read_only } => (lock(1, [&**name, "", ""], *read_only), &[][..], None),
            Self::Iscsi { iqn, read_only } => (lock(2, [&**iqn, "", ""], *read_only), &[][..], None),
            Self::Rbd { monitors, pool, image, read_only } => {
                (None, monitors.as_slice(), Some((&**pool, &**image, *read_only)))
            }
            _ => (None, &[][..], None),
        };
        let of_image = monitors.iter().filter_map(move |monitor| {
            let (pool, image, reads) = image?;
            Some(DiskLock { names: (3, [image, pool, &**monitor]), reads })
        });
        one.into_iter().chain(of_image)
    }
}

/// See [`InlineDisk::locks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskLock<'a> {
    /// The kind of disk, and what tells it from others.
    pub names: (u8, [&'a str; 3]),
    /// Whether the disk is only read. Nobody shares an EBS volume.
    pub reads: bool,
}

/// One volume of a pod, as far as a plugin looks at it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PodVolume {
    Claim {
        /// In the pod's namespace.
        claim: Str,
    },
    /// A claim made for the pod, named `<pod>-<volume>`, which the pod must own.
    Ephemeral { volume: Str },
    /// A disk named in the pod itself.
    Disk {
        volume: Str,
        disk: InlineDisk,
        /// What it counts as; `None` if it does not count; upstream's message where it cannot be translated.
        counts: Result<Option<Attachable>, Str>,
    },
    /// A CSI volume that lives as long as the pod.
    Csi { driver: Str },
}

/// In the order given, as far as a plugin looks at them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PodVolumes(pub Vec<PodVolume>);

impl PodVolumes {
    pub fn iter(&self) -> impl Iterator<Item = &PodVolume> {
        self.0.iter()
    }

    pub fn disks(&self) -> impl Iterator<Item = &InlineDisk> {
        self.0.iter().filter_map(|volume| match volume {
            PodVolume::Disk { disk, .. } => Some(disk),
            _ => None,
        })
    }

    /// The claims of the pod `name` in `namespace`, each with whether it was made for the pod.
    pub fn claims<'a>(&'a self, namespace: &'a Str, name: &'a str) -> impl Iterator<Item = (ClaimKey, bool)> + 'a {
        self.0.iter().filter_map(move |volume| {
            let (claim, ephemeral) = volume.claim(name)?;
            Some((ClaimKey { namespace: namespace.clone(), name: claim }, ephemeral))
        })
    }
}

impl PodVolume {
    /// The name of its claim if the pod is called `pod`, and whether the claim was made for the pod.
    pub fn claim(&self, pod: &str) -> Option<(Str, bool)> {
        match self {
            Self::Claim { claim } => Some((claim.clone(), false)),
            Self::Ephemeral { volume } => Some((format!("{pod}-{volume}").into(), true)),
            Self::Disk { .. } | Self::Csi { .. } => None,
        }
    }
}
