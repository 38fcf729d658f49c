//! How small a change is: first by what it asks of people, then by how much of it.

use super::change::{ChangeKind, Draft};
use super::trial::Placement;
use std::cmp::Reverse;

/// How small a change is; the smallest sorts first. `docs/explaining.md` has the classes in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Smallness {
    class: u8,
    weight: u64,
    /// Of equally small changes, the one that opens more nodes comes first.
    opens: Reverse<usize>,
}

/// Up to this many thousandths less, a request is only tuned.
const TUNED: u64 = 250;

/// Beyond this many thousandths less, the pod is hardly the same.
const HALVED: u64 = 500;

pub(super) fn smallness(draft: &Draft, placement: &Placement) -> Smallness {
    Smallness { class: class(draft.kind, draft.weight), weight: draft.weight, opens: Reverse(placement.feasible) }
}

fn class(kind: ChangeKind, weight: u64) -> u8 {
    match kind {
        // A number or a word of the pod's is corrected.
        ChangeKind::LowerRequest | ChangeKind::LowerRequests if weight <= TUNED => 1,
        ChangeKind::ChangeNodeSelector | ChangeKind::ChangeHostPort | ChangeKind::RaiseMaxSkew => 1,
        // Something is added to the pod.
        ChangeKind::Tolerate => 2,
        ChangeKind::LabelPod if weight == 0 => 2,
        // A node is opened.
        ChangeKind::Uncordon | ChangeKind::LabelNode | ChangeKind::RemoveTaint | ChangeKind::RecoverNode => 3,
        // The pod gives up a rule.
        ChangeKind::DropNodeSelector
        | ChangeKind::DropNodeAffinity
        | ChangeKind::LowerMinDomains
        | ChangeKind::ScheduleAnyway
        | ChangeKind::DropPodAffinity
        | ChangeKind::DropPodAntiAffinity
        | ChangeKind::LabelPod => 4,
        ChangeKind::LowerRequest | ChangeKind::LowerRequests if weight <= HALVED => 5,
        ChangeKind::FixClaim | ChangeKind::Together => 6,
        // Others pay.
        ChangeKind::RemovePod => 7,
        ChangeKind::AddNode => 8,
        ChangeKind::LowerRequest | ChangeKind::LowerRequests => 9,
    }
}
