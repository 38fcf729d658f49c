use crate::ledger::Ledger;
use crate::model::{Feature, Pod, Str};
use crate::plugins::dynamic_resources;
use crate::profile::{CompiledProfile, UnknownFields};
use rustc_hash::FxHashMap;

/// Why a profile holds a pod instead of placing it. No node would help, so no autoscaler should buy one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hold {
    Namespace,
    Features,
    /// Only dynamic resource allocation could provide this resource.
    OnlyByClaim(Str),
    /// It has ResourceClaims, which cannot be read for this reason.
    UnreadClaims(Str),
    UnknownFields,
    /// The worker panicked twice while it tried the pod.
    Quarantined,
}

impl Hold {
    /// What the pod's owner is told.
    pub(crate) fn text(&self, profile: &CompiledProfile, pod: &Pod) -> String {
        match self {
            Self::Namespace => format!(
                "namespace {} may not use SchedulerProfile {} (spec.namespaces)",
                pod.key.namespace, profile.name
            ),
            Self::Features => held_by_features(&pod.shape.held_by),
            Self::Quarantined => "Berth failed twice while it tried this pod, and holds it so that other pods are placed: report \
                                  the failure, which the operator's log has. The pod is tried again when its SchedulerProfile \
                                  changes or the operator restarts"
                .to_owned(),
            Self::OnlyByClaim(resource) => format!(
                "the pod requests {resource}, which a DeviceClass stands for and no node of SchedulerProfile {} lists: this \
                 version of Berth does not implement dynamic resource allocation; it is held, not placed wrongly",
                profile.name
            ),
            Self::UnreadClaims(why) => format!(
                "the pod has resource claims, and ResourceClaims of resource.k8s.io/v1 cannot be read ({why}): it is held, not \
                 placed wrongly"
            ),
            Self::UnknownFields => format!(
                "the pod has spec fields that this version of Berth does not know: {}; SchedulerProfile {} holds such pods \
                 (spec.unknownFields: Hold)",
                pod.unknown_fields.join(", "),
                profile.name
            ),
        }
    }
}

/// Why the profile holds the pod, as its owner is told, if it does.
pub(crate) fn hold_reason(profile: &CompiledProfile, ledger: &Ledger, pod: &Pod) -> Option<String> {
    Holds::new(profile, ledger).of(pod).map(|hold| hold.text(profile, pod))
}

/// Says of pods whether the profile holds them, as the ledger is now.
pub(crate) struct Holds<'a> {
    profile: &'a CompiledProfile,
    ledger: &'a Ledger,
    /// By resource that a DeviceClass stands for: whether a node that the profile places on lists it.
    listed: FxHashMap<Str, bool>,
}

impl<'a> Holds<'a> {
    pub(crate) fn new(profile: &'a CompiledProfile, ledger: &'a Ledger) -> Self {
        Self { profile, ledger, listed: FxHashMap::default() }
    }

    /// O(1), and O(nodes) for the first pod that requests a resource that a DeviceClass stands for.
    pub(crate) fn of(&mut self, pod: &Pod) -> Option<Hold> {
        if !admits(self.profile, self.ledger, pod) {
            return Some(Hold::Namespace);
        }
        if !pod.shape.held_by.is_empty() {
            return Some(Hold::Features);
        }
        if let Some(resource) = self.only_by_claim(pod) {
            return Some(Hold::OnlyByClaim(resource.clone()));
        }
        let unread = self.ledger.devices().unread();
        if let Some(why) = unread.filter(|_| dynamic_resources::concerns(self.profile, pod)) {
            return Some(Hold::UnreadClaims(why.clone()));
        }
        let unknown = self.profile.unknown_fields == UnknownFields::Hold && !pod.unknown_fields.is_empty();
        unknown.then_some(Hold::UnknownFields)
    }

    /// An extended resource of the pod that only dynamic resource allocation could provide: a DeviceClass stands for it, and
    /// no node that the profile places on lists it. Where one does, the pod is placed there like any other.
    ///
    /// After `shouldDelegateResourceToDRA` in `pkg/scheduler/framework/plugins/noderesources/fit.go`.
    fn only_by_claim<'p>(&mut self, pod: &'p Pod) -> Option<&'p Str> {
        if self.ledger.device_classes().is_empty() {
            return None;
        }
        let asked = pod.shape.row.requests.scalars.iter().filter(|(_, amount)| *amount > 0).map(|(name, _)| name);
        let mut backed = asked.filter(|name| self.ledger.device_classes().is_backed(name));
        backed.find(|name| {
            let is_listed = || is_listed(self.profile, self.ledger, name);
            !*self.listed.entry((*name).clone()).or_insert_with(is_listed)
        })
    }
}

/// Whether some node that the profile places on lists the resource. O(nodes).
fn is_listed(profile: &CompiledProfile, ledger: &Ledger, resource: &Str) -> bool {
    let nodes = ledger.nodes();
    nodes.scalar(resource).is_some_and(|scalar| {
        nodes
            .present_nodes()
            .any(|node| nodes.scalar_allocatable(scalar, node) > 0 && profile.places_on(nodes.labels(node)))
    })
}

/// Lists that are too long come first: the rest of such a pod was not read.
fn held_by_features(holds: &[Feature]) -> String {
    let (too_large, missing): (Vec<&Feature>, Vec<&Feature>) =
        holds.iter().partition(|feature| matches!(feature, Feature::TooLarge { .. }));
    let listed = |features: &[&Feature]| features.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if too_large.is_empty() {
        format!(
            "the pod uses {}, which this version of Berth does not implement; it is held, not placed wrongly",
            listed(&missing)
        )
    } else {
        format!(
            "the pod has {}: Berth holds larger pods, so that one pod cannot slow the others; shorten the list",
            listed(&too_large)
        )
    }
}

fn admits(profile: &CompiledProfile, ledger: &Ledger, pod: &Pod) -> bool {
    let namespace = &pod.key.namespace;
    profile.namespaces.admits(namespace, ledger.namespace(namespace))
}
