//! Volumes that are to be made for claims. After `checkVolumeProvisions` and `hasEnoughCapacity`.

use super::matching::Unmatched;
use super::{BIND_CONFLICT, LOOK_UP, NO_SPACE};
use crate::ledger::{ClassCapacities, VolumeTable};
use crate::model::{Labels, StorageClass, VolumeAffinity};
use smallvec::{SmallVec, smallvec};

/// The provisioner of classes whose volumes are never made dynamically.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The classes of a pod's waiting claims, each once: a node is asked once for all claims of one.
#[derive(Debug, Default)]
pub(super) struct Classes<'t>(Vec<Class<'t>>);

#[derive(Debug)]
struct Class<'t> {
    class: &'t StorageClass,
    reported: Reported<'t>,
}

/// Only drivers that report their capacity can be short of it.
#[derive(Debug)]
enum Reported<'t> {
    Nothing,
    /// `None` where there is none yet.
    Capacities(Option<&'t ClassCapacities>),
}

/// What a node offers for volumes of one class.
#[derive(Debug, Clone, Copy)]
enum Offer {
    Nothing,
    AnySize,
    /// In bytes; `None` where there is no capacity.
    UpTo(Option<i64>),
}

impl<'t> Classes<'t> {
    /// Adds a class; gives its place.
    pub(super) fn add(&mut self, volumes: &'t VolumeTable, class: &'t StorageClass) -> usize {
        let reports = volumes.csi_driver(&class.provisioner).is_some_and(|driver| driver.storage_capacity);
        let reported = if reports { Reported::Capacities(volumes.capacities(&class.name)) } else { Reported::Nothing };
        self.0.push(Class { class, reported });
        self.0.len() - 1
    }

    /// The first reason against making volumes for `claims` on a node with `labels`, as bits.
    pub(super) fn look(&self, claims: &[Unmatched<'_>], labels: &Labels) -> u64 {
        let mut offers: SmallVec<[Option<Offer>; 2]> = smallvec![None; self.0.len()];
        for Unmatched { claim, class, .. } in claims {
            let offer = offers[*class].get_or_insert_with(|| self.0[*class].offer(labels));
            match (offer, claim.request) {
                (Offer::Nothing, _) => return BIND_CONFLICT,
                (Offer::UpTo(limit), Some(request)) if limit.is_none_or(|limit| limit < request.value()) => {
                    return NO_SPACE;
                }
                (Offer::AnySize | Offer::UpTo(_), _) => {}
            }
        }
        0
    }

    /// How many comparisons [`Self::look`] takes beside those of each claim.
    pub(super) fn comparisons(&self) -> usize {
        self.0.iter().map(Class::comparisons).sum()
    }
}

impl Class<'_> {
    fn offer(&self, labels: &Labels) -> Offer {
        let provisions = !self.class.provisioner.is_empty() && &*self.class.provisioner != NO_PROVISIONER;
        let allowed = self.class.allowed_topologies.as_ref().is_none_or(|places| places.matches(labels));
        match &self.reported {
            _ if !provisions || !allowed => Offer::Nothing,
            Reported::Nothing => Offer::AnySize,
            Reported::Capacities(of_class) => Offer::UpTo(of_class.and_then(|of_class| of_class.largest(labels))),
        }
    }

    fn comparisons(&self) -> usize {
        let allowed = self.class.allowed_topologies.as_ref().map_or(0, VolumeAffinity::comparisons);
        let capacities = match self.reported {
            Reported::Capacities(Some(of_class)) => of_class.comparisons(),
            Reported::Capacities(None) | Reported::Nothing => 0,
        };
        LOOK_UP + allowed + capacities
    }
}
