//! What might help, one file for each thing that can be changed.

mod capacity;
mod claims;
mod devices;
mod ports;
mod relations;
mod requests;
mod selection;
mod spread;
mod taints;
mod terms;
pub(super) mod together;

use super::change::{ChangeKind, Draft};
use super::scene::{Scene, View};
use super::trial::{Edit, Trial};
use berth_core::model::Labels;

/// A proposer: guesses from the scene, and may ask the engine what a guess depends on.
type Propose = fn(&Scene<'_>, &mut Trial<'_>) -> Vec<Draft>;

/// Every proposer. Those that need few trials come first.
pub(super) const ALL: [Propose; 12] = [
    taints::uncordon,
    taints::tolerate,
    taints::remove,
    selection::pod,
    selection::label_nodes,
    requests::lower,
    spread::relax,
    relations::relax,
    ports::change,
    claims::fix,
    devices::change,
    capacity::make,
];

/// Guesses of one sort that one proposer makes at most.
const GUESSES: usize = 8;

/// `labels` with `key` set to `value`, or without it.
fn relabelled(labels: &Labels, key: &str, value: Option<&str>) -> Labels {
    let others = labels.iter().filter(|(k, _)| &***k != key).map(|(k, v)| (k.clone(), v.clone()));
    Labels::from_pairs(others.chain(value.map(|value| (key.into(), value.into()))))
}
