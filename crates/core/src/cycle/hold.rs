use crate::ledger::Ledger;
use crate::model::{Feature, Pod, Str};
use crate::plugins::dynamic_resources;
use crate::profile::{CompiledProfile, UnknownFields};

/// Why a profile holds a pod instead of placing it. No node would help, so no autoscaler should buy one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hold {
    Namespace,
    Features,
    /// It needs ResourceClaims, which cannot be read for this reason.
    UnreadClaims(Str),
    UnknownFields,
    /// Of claims for devices, or of their classes: which.
    UnknownClaimFields(String),
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
            Self::UnreadClaims(why) => format!(
                "the pod needs resource claims, and ResourceClaims of resource.k8s.io/v1 cannot be read ({why}): it is held, not \
                 placed wrongly"
            ),
            Self::UnknownFields => format!(
                "the pod has spec fields that this version of Berth does not know: {}; SchedulerProfile {} holds such pods \
                 (spec.unknownFields: Hold)",
                pod.unknown_fields.join(", "),
                profile.name
            ),
            Self::UnknownClaimFields(fields) => format!(
                "what the pod claims has fields that this version of Berth does not know: {fields}; SchedulerProfile {} holds such pods \
                 (spec.unknownFields: Hold)",
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
}

impl<'a> Holds<'a> {
    pub(crate) const fn new(profile: &'a CompiledProfile, ledger: &'a Ledger) -> Self {
        Self { profile, ledger }
    }

    /// O(1); where unknown fields hold pods, O(the requests of the pod's claims).
    pub(crate) fn of(&self, pod: &Pod) -> Option<Hold> {
        if !admits(self.profile, self.ledger, pod) {
            return Some(Hold::Namespace);
        }
        if !pod.shape.held_by.is_empty() {
            return Some(Hold::Features);
        }
        let unread = self.ledger.devices().unread();
        if let Some(why) = unread.filter(|_| dynamic_resources::concerns(self.profile, self.ledger, pod)) {
            return Some(Hold::UnreadClaims(why.clone()));
        }
        if self.profile.unknown_fields == UnknownFields::Warn {
            return None;
        }
        if !pod.unknown_fields.is_empty() {
            return Some(Hold::UnknownFields);
        }
        let of_claims = dynamic_resources::unknown_fields(self.profile, self.ledger, pod);
        let text = |one: &dynamic_resources::UnknownFields<'_>| {
            let name = one.name.map_or(String::new(), |name| format!(" {name}"));
            format!("{} of {}{name}", one.fields.join(", "), one.plural)
        };
        let of_claims: Vec<String> = of_claims.iter().map(text).collect();
        (!of_claims.is_empty()).then(|| Hold::UnknownClaimFields(of_claims.join("; ")))
    }
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
