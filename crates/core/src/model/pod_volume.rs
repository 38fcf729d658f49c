//! What a pod mounts, as far as a plugin looks at it.

use super::{Attachable, ClaimKey, Footprint, Str};
use std::cmp::Ordering;

#[cfg(test)]
thread_local! {
    /// How many names of pods' claims were compared with that of a claim in this thread.
    pub(crate) static CLAIMS_COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

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
pub struct PodVolumes {
    list: Box<[PodVolume]>,
    /// The places of claims in the list, sorted by what [`PodVolume::claim_order`] says of them. Tenants choose how many pods wait with
    /// how many claims, and how often a claim changes: each waiting pod is asked whether it names that.
    by_claim: Box<[u32]>,
}

impl From<Vec<PodVolume>> for PodVolumes {
    fn from(list: Vec<PodVolume>) -> Self {
        let mut by_claim: Vec<u32> =
            (0..list.len() as u32).filter(|at| list[*at as usize].claim_order().is_some()).collect();
        by_claim.sort_unstable_by_key(|at| list[*at as usize].claim_order());
        Self { by_claim: by_claim.into(), list: list.into() }
    }
}

impl Footprint for PodVolumes {
    fn heap_bytes(&self) -> usize {
        self.list.heap_bytes() + size_of_val(&*self.by_claim)
    }
}

impl PodVolumes {
    pub fn iter(&self) -> impl Iterator<Item = &PodVolume> {
        self.list.iter()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The volume at this place of the list.
    pub fn get(&self, at: usize) -> Option<&PodVolume> {
        self.list.get(at)
    }

    /// Whether the pod `name` names one of `claims`, which are sorted names of its namespace. Whichever are fewer, these or the pod's,
    /// are looked for among the others by halves.
    pub fn names_any(&self, name: &str, claims: &[&str]) -> bool {
        if claims.len() <= self.by_claim.len() {
            return claims.iter().any(|claim| self.names(name, claim));
        }
        let mut own = self.by_claim.iter().filter_map(|at| self.list[*at as usize].claim(name));
        own.any(|(own, _)| claims.binary_search_by(|claim| compared(claim, &own)).is_ok())
    }

    fn names(&self, name: &str, claim: &str) -> bool {
        let has = |wanted: (bool, &str)| {
            let place = self.by_claim.binary_search_by(|at| {
                let own = self.list[*at as usize].claim_order().unwrap_or_default();
                own.0.cmp(&wanted.0).then_with(|| compared(own.1, wanted.1))
            });
            place.is_ok()
        };
        let volume = claim.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        has((false, claim)) || volume.is_some_and(|volume| has((true, volume)))
    }

    pub fn disks(&self) -> impl Iterator<Item = &InlineDisk> {
        self.list.iter().filter_map(|volume| match volume {
            PodVolume::Disk { disk, .. } => Some(disk),
            _ => None,
        })
    }

    /// The claims of the pod `name` in `namespace`, each with whether it was made for the pod.
    pub fn claims<'a>(&'a self, namespace: &'a Str, name: &'a str) -> impl Iterator<Item = (ClaimKey, bool)> + 'a {
        self.list.iter().filter_map(move |volume| {
            let (claim, ephemeral) = volume.claim(name)?;
            Some((ClaimKey { namespace: namespace.clone(), name: claim }, ephemeral))
        })
    }
}

fn compared(one: &str, other: &str) -> Ordering {
    #[cfg(test)]
    CLAIMS_COMPARED.set(CLAIMS_COMPARED.get() + 1);
    one.cmp(other)
}

impl PodVolume {
    /// What a claim is found by, whatever the pod is called: whether it is made for the pod, and the name that the pod has for it.
    fn claim_order(&self) -> Option<(bool, &str)> {
        match self {
            Self::Claim { claim } => Some((false, claim)),
            Self::Ephemeral { volume } => Some((true, volume)),
            Self::Disk { .. } | Self::Csi { .. } => None,
        }
    }

    /// The name of its claim if the pod is called `pod`, and whether the claim was made for the pod.
    pub fn claim(&self, pod: &str) -> Option<(Str, bool)> {
        match self {
            Self::Claim { claim } => Some((claim.clone(), false)),
            Self::Ephemeral { volume } => Some((format!("{pod}-{volume}").into(), true)),
            Self::Disk { .. } | Self::Csi { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_found_by_halves_as_one_by_one() {
        let (namespace, names): (Str, _) = ("n".into(), ["a", "b", "a-b", "a-a", "a-a-b", "b-a", "c", ""]);
        // Up to four volumes, some of them the same.
        let volume = |kind: usize, name: usize| match kind {
            0 => PodVolume::Claim { claim: names[name % names.len()].into() },
            1 => PodVolume::Ephemeral { volume: names[name % names.len()].into() },
            _ => PodVolume::Csi { driver: names[name % names.len()].into() },
        };
        for drawn in 0..3_000 {
            let list = (0..4).map(|i| volume((drawn >> i) % 3, drawn / 5 + (drawn >> (2 * i)))).take(drawn % 5);
            let volumes = PodVolumes::from(list.collect::<Vec<_>>());
            for pod in ["a", "a-a", "b"] {
                let own: Vec<Str> = volumes.claims(&namespace, pod).map(|(claim, _)| claim.name).collect();
                let mut claims: Vec<&str> = names.iter().copied().skip(drawn % 7).step_by(1 + drawn % 3).collect();
                claims.sort_unstable();
                let expected = claims.iter().any(|claim| own.iter().any(|name| **name == **claim));
                assert_eq!(volumes.names_any(pod, &claims), expected, "{pod} {volumes:?} {claims:?}");
                for claim in claims {
                    let expected = own.iter().any(|name| **name == *claim);
                    assert_eq!(volumes.names_any(pod, &[claim]), expected, "{pod} {volumes:?} {claim}");
                }
            }
        }
    }
}
