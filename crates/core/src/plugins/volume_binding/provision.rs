//! Whether volumes can be made. After `checkVolumeProvisions` and `hasEnoughCapacity`.

use super::{BIND_CONFLICT, NO_SPACE};
use crate::ledger::{Ledger, NodeId};
use crate::model::{Labels, PersistentVolumeClaim, StorageClass};

/// The provisioner of classes whose volumes are only ever made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// What speaks against making volumes for `claims` on the node, as bits: the first that does.
pub(super) fn look(ledger: &Ledger, claims: &[&PersistentVolumeClaim], node: NodeId) -> u64 {
    let labels = ledger.nodes().labels(node);
    for claim in claims {
        let Some(class) = ledger.volumes().class(&claim.class) else { return BIND_CONFLICT };
        let makes = !class.provisioner.is_empty() && &*class.provisioner != NO_PROVISIONER;
        let allowed = class.allowed_topologies.as_ref().is_none_or(|places| places.matches(labels));
        if !makes || !allowed {
            return BIND_CONFLICT;
        }
        if !has_room(ledger, claim, class, labels) {
            return NO_SPACE;
        }
    }
    0
}

/// Only drivers that tell of their room can be short of it.
fn has_room(ledger: &Ledger, claim: &PersistentVolumeClaim, class: &StorageClass, labels: &Labels) -> bool {
    let Some(request) = claim.request else { return true };
    let tells = ledger.volumes().csi_driver(&class.provisioner).is_some_and(|driver| driver.storage_capacity);
    if !tells {
        return true;
    }
    let size = request.value();
    ledger.volumes().capacities(&class.name).any(|capacity| {
        capacity.limit.is_some_and(|limit| limit >= size)
            && capacity.nodes.as_ref().is_some_and(|nodes| nodes.matches(labels))
    })
}
