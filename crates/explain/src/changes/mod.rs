//! The smallest changes that would place a pod that fits nowhere, each checked by the engine before it is told.
//!
//! ```text
//!  scene     what stands in the way, on each node, by every filter
//!  propose/  what might help, from that: one file for each thing that can be changed
//!  edit      a change, made and undone again
//!  trial     the engine's answer with the change made, within a budget
//!  order     how small a change is
//! ```
//!
//! Proposers guess, the engine decides: what is told was seen to place the pod by `cycle::explain` itself. So a guess too
//! many costs a trial and a guess too few leaves something out, but nothing that is told is wrong.
//!
//! One pod costs at most [`TRIALS`] looks at the cluster, each O(nodes) and what the counters of spreading and affinity cost
//! from nothing; most pods cost a few dozen.

mod change;
mod edit;
mod order;
mod propose;
mod scene;
mod trial;

#[cfg(test)]
mod tests;

pub use change::{Change, ChangeKind};
pub use order::Smallness;

use berth_core::ledger::Ledger;
use berth_core::model::Pod;
use berth_core::profile::CompiledProfile;
use berth_simulate::Cluster;
use scene::Scene;
use trial::Trial;

/// Changes told of one pod: more than these nobody reads.
pub const TOLD: usize = 10;

/// Changes of one kind told of one pod, so that one kind does not crowd out the others.
const TOLD_OF_A_KIND: usize = 3;

/// Looks at the cluster for one pod.
pub const TRIALS: u32 = 600;

/// The smallest changes that would place `pod`, smallest first, at most [`TOLD`]. `ledger` holds `cluster`; it is changed for
/// each trial and put back.
///
/// Empty for a pod that is placed as it is, that is gated or held, or for which nothing here is enough.
pub fn changes(cluster: &Cluster, ledger: &mut Ledger, profile: &CompiledProfile, pod: &Pod) -> Vec<Change> {
    let scene = Scene::new(cluster, ledger, profile, pod);
    let mut trial = Trial::new(profile, ledger, pod, TRIALS);
    let mut found: Vec<(Smallness, Change)> = Vec::new();
    for propose in propose::ALL {
        for draft in propose(&scene, &mut trial) {
            if let Some(placement) = trial.places(&draft.edit) {
                let smallness = order::smallness(&draft, &placement);
                found.push((smallness, draft.told(&placement)));
            }
        }
    }
    // Where only others could make room, the pod itself may do it by several changes at once.
    if found.iter().all(|(_, change)| matches!(change.kind, ChangeKind::RemovePod | ChangeKind::AddNode)) {
        for draft in propose::together::make(&scene, &mut trial) {
            if let Some(placement) = trial.places(&draft.edit) {
                found.push((order::smallness(&draft, &placement), draft.told(&placement)));
            }
        }
    }
    found.sort();
    let mut told: Vec<Change> = Vec::new();
    for (_, change) in found {
        let alike = told.iter().filter(|other| other.kind == change.kind).count();
        if told.len() < TOLD && alike < TOLD_OF_A_KIND {
            told.push(change);
        }
    }
    told
}
