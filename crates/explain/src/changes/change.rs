use super::trial::{Edit, Placement};
use berth_core::model::Str;
use serde::Serialize;
use serde_json::Value;
use std::cmp::Reverse;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ChangeKind {
    /// The pod requests less of one resource: the largest amount that fits.
    LowerRequest,
    /// The pod requests less of several resources, which one node lacks together: what is free there.
    LowerRequests,
    /// The pod tolerates one taint more.
    Tolerate,
    /// One nodeSelector value becomes another that nodes have: a likely misspelling.
    ChangeNodeSelector,
    /// One nodeSelector entry is dropped.
    DropNodeSelector,
    /// One expression of the required node affinity is dropped, or all of it where no smaller part will do.
    DropNodeAffinity,
    /// One spread constraint takes a larger maxSkew: the smallest that fits.
    RaiseMaxSkew,
    /// One spread constraint asks for fewer domains: the most that fit.
    LowerMinDomains,
    /// One spread constraint becomes a preference.
    ScheduleAnyway,
    /// One required affinity term to pods is dropped.
    DropPodAffinity,
    /// One required anti-affinity term to pods is dropped.
    DropPodAntiAffinity,
    /// The pod gets one label, or loses one.
    LabelPod,
    /// One host port becomes another.
    ChangeHostPort,
    /// Several of these at once, each a change of the pod: where nothing single is enough.
    Together,
    /// A claim of the pod is made, or bound to a volume that any node can use.
    FixClaim,
    /// One request of a ResourceClaim is for fewer devices: as many as one node has.
    LowerDeviceCount,
    /// One request of a ResourceClaim loses one selector.
    DropDeviceSelector,
    /// One request of a ResourceClaim tolerates one taint of devices more.
    TolerateDeviceTaint,
    /// Another ResourceClaim gives up its devices.
    FreeDevices,
    /// A node is uncordoned.
    Uncordon,
    /// A node gets one label, or loses one.
    LabelNode,
    /// A node loses the taints that keep the pod away.
    RemoveTaint,
    /// A node recovers from what its condition taints say.
    RecoverNode,
    /// A running pod is moved or deleted.
    RemovePod,
    /// One more node like one that is there.
    AddNode,
}

/// A change that would place a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    pub kind: ChangeKind,
    /// The field, of the pod or, for kinds that say so, of the node or claim; the removed pod
    /// for [`ChangeKind::RemovePod`].
    pub field: String,
    /// The present value; null if there is none.
    pub from: Value,
    /// The value with the change; null if there would be none.
    pub to: Value,
    /// The node that the pod would then go to, or that is changed; a node like the new one for [`ChangeKind::AddNode`].
    pub node: Str,
    /// The change in words.
    pub text: String,
}

/// A change that might help, before the engine was asked.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) kind: ChangeKind,
    pub(super) edit: Edit,
    pub(super) field: String,
    pub(super) from: Value,
    pub(super) to: Value,
    /// The change in words, without the node that the pod would then go to.
    pub(super) text: String,
    /// How small among changes of its class, from 0: smaller is smaller.
    pub(super) weight: u64,
}

impl Draft {
    pub(super) fn smallness(&self, placement: &Placement) -> Smallness {
        let class = class(self.kind, self.weight);
        Smallness { class, weight: self.weight, opens: Reverse(placement.feasible) }
    }

    /// The change as it is reported once the engine has placed the pod.
    pub(super) fn into_change(self, placement: &Placement) -> Change {
        let Self { kind, edit, field, from, to, text, .. } = self;
        let (node, place) = match edit {
            Edit::Node(node) => (node.after.name, String::new()),
            Edit::NewNode { like, .. } => (like, String::new()),
            Edit::Pod(_) | Edit::RemovedPod(_) | Edit::Claim { .. } | Edit::ResourceClaim { .. } => {
                let place = match placement.feasible {
                    1 => format!(": it fits {}", placement.node),
                    more => format!(": it fits {} and {} more", placement.node, more - 1),
                };
                (placement.node.clone(), place)
            }
        };
        Change { kind, field, from, to, node, text: format!("{text}{place}") }
    }
}

/// How small a change is: first by what it asks of people, then by how much of it. The smallest sorts first. `docs/explaining.md` has the classes in words.
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

fn class(kind: ChangeKind, weight: u64) -> u8 {
    match kind {
        // A number or a word of the pod's is corrected.
        ChangeKind::LowerRequest | ChangeKind::LowerRequests if weight <= TUNED => 1,
        ChangeKind::ChangeNodeSelector | ChangeKind::ChangeHostPort | ChangeKind::RaiseMaxSkew => 1,
        // Something is added to the pod.
        ChangeKind::Tolerate | ChangeKind::TolerateDeviceTaint => 2,
        ChangeKind::LabelPod if weight == 0 => 2,
        // A node is opened.
        ChangeKind::Uncordon | ChangeKind::LabelNode | ChangeKind::RemoveTaint | ChangeKind::RecoverNode => 3,
        // The pod gives up a rule.
        ChangeKind::DropNodeSelector
        | ChangeKind::DropNodeAffinity
        | ChangeKind::DropDeviceSelector
        | ChangeKind::LowerMinDomains
        | ChangeKind::ScheduleAnyway
        | ChangeKind::DropPodAffinity
        | ChangeKind::DropPodAntiAffinity
        | ChangeKind::LabelPod => 4,
        ChangeKind::LowerRequest | ChangeKind::LowerRequests if weight <= HALVED => 5,
        ChangeKind::LowerDeviceCount => 5,
        ChangeKind::FixClaim | ChangeKind::Together => 6,
        // Others pay.
        ChangeKind::RemovePod | ChangeKind::FreeDevices => 7,
        ChangeKind::AddNode => 8,
        ChangeKind::LowerRequest | ChangeKind::LowerRequests => 9,
    }
}
