//! The smallest changes that would place a pod that fits nowhere, each checked by the engine.
//!
//! ```text
//!  scene     what stands in the way, on each node, by every filter
//!  propose/  what might help, from that: one file for each thing that can be changed
//!  trial     an edit made, the engine's answer with it, the edit undone; within a budget
//!  change    a change in words, and how small it is
//! ```
//!
//! Proposers guess, the engine decides: `cycle::explain` has placed the pod with every change that is reported. A guess too
//! many costs a trial and a guess too few leaves something out, but no reported change is wrong.
//!
//! One pod costs at most [`TRIALS`] looks at the cluster, each O(nodes) and what the counters of spreading and affinity cost
//! from nothing; most pods cost a few dozen.

mod change;
mod propose;
mod scene;
mod trial;

#[cfg(test)]
mod tests;

pub use change::{Change, ChangeKind};

use berth_core::{ledger::Ledger, model::Pod, profile::CompiledProfile};
use berth_simulate::Cluster;
use change::{Draft, Smallness};
use scene::Scene;
use trial::Trial;

/// Changes reported for one pod: nobody reads more.
const REPORTED: usize = 10;

/// Changes of one kind reported for one pod, so that one kind does not crowd out the others.
const REPORTED_OF_A_KIND: usize = 3;

/// Looks at the cluster for one pod.
const TRIALS: u32 = 600;

/// The smallest changes that would place `pod`, smallest first, at most [`REPORTED`]. `ledger` holds `cluster`; it is changed for
/// each trial and put back.
///
/// Empty for a pod that is placed as it is, that is gated or held, or for which nothing here is enough.
pub(super) fn changes(cluster: &Cluster, ledger: &mut Ledger, profile: &CompiledProfile, pod: &Pod) -> Vec<Change> {
    let scene = Scene::new(cluster, ledger, profile, pod);
    let mut trial = Trial::new(profile, ledger, pod, TRIALS);
    let mut found: Vec<(Smallness, Change)> = Vec::new();
    let placed = |draft: Draft, trial: &mut Trial<'_>| {
        let placement = trial.places(&draft.edit)?;
        Some((draft.smallness(&placement), draft.into_change(&placement)))
    };
    for propose in propose::ALL {
        let drafts = propose(&scene, &mut trial);
        found.extend(drafts.into_iter().filter_map(|draft| placed(draft, &mut trial)));
    }
    // If only other pods or new nodes would help, several changes of the pod at once may help too.
    if found
        .iter()
        .all(|(_, change)| matches!(change.kind, ChangeKind::RemovePod | ChangeKind::FreeDevices | ChangeKind::AddNode))
    {
        let drafts = propose::together::make(&scene, &mut trial);
        found.extend(drafts.into_iter().filter_map(|draft| placed(draft, &mut trial)));
    }
    found.sort_by_cached_key(|(smallness, change)| {
        (*smallness, change.kind, change.field.clone(), change.node.clone(), change.text.clone())
    });
    let mut reported: Vec<Change> = Vec::new();
    for (_, change) in found {
        let alike = reported.iter().filter(|other| other.kind == change.kind).count();
        if reported.len() < REPORTED && alike < REPORTED_OF_A_KIND {
            reported.push(change);
        }
    }
    reported
}
