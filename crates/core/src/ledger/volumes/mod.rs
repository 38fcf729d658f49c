//! Volumes, claims and their like: what was seen of them, what is assumed of them, and who uses them where.
//!
//! ```text
//!  objects   what the watches saw, by name and by what refers to what
//!  assumed   laid over that: volumes promised to claims, claims promised to nodes, by pods that are not bound yet
//!  uses      which placed pods use which claims, where
//!  attached  how many volumes of each driver a node has attached, and how many it can
//!  change    what of all that a queueing hint may care for
//! ```
//!
//! Assumptions are shared by all workers, so that a volume promised by one is taken for the others. As in upstream's
//! assume cache, an observed object that is newer than the one an assumption was made on ends the assumption.

mod assumed;
mod attached;
mod audit;
mod change;
mod objects;
#[cfg(test)]
mod tests;
mod uses;

pub use assumed::VolumePlan;
pub(crate) use assumed::is_meant_for;
pub use change::VolumeChange;
pub use objects::VolumeTable;
pub use uses::PlacedVolumes;

use super::{Ledger, NodeId};
use crate::model::{PodKey, PodVolumes, Str};
use std::sync::Arc;

impl Ledger {
    /// Volumes, claims and their like.
    pub fn volumes(&self) -> &VolumeTable {
        &self.volumes
    }

    /// A pod with volumes takes its place on a node.
    pub(super) fn mount(&mut self, uid: &Str, pod: &PodKey, volumes: Option<&Arc<PodVolumes>>, node: NodeId) {
        if let Some(volumes) = volumes {
            self.volumes.mount(uid, pod, volumes, node);
        }
    }

    /// A pod with volumes leaves its node.
    pub(super) fn unmount(&mut self, uid: &str, pod: &PodKey, volumes: Option<&Arc<PodVolumes>>, node: NodeId) {
        if let Some(volumes) = volumes {
            self.volumes.unmount(uid, pod, volumes, node);
        }
    }
}
