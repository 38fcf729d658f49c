use crate::ledger::Ledger;
use crate::model::{Feature, Pod, Str};
use crate::profile::{CompiledProfile, NamespaceAccess, UnknownFields};

/// Why the profile holds the pod instead of placing it, if it does. No node would help, so no autoscaler should buy one.
pub(crate) fn hold_reason(profile: &CompiledProfile, ledger: &Ledger, pod: &Pod) -> Option<String> {
    if !admits(profile, ledger, pod) {
        return Some(format!(
            "namespace {} may not use SchedulerProfile {} (spec.namespaces)",
            pod.key.namespace, profile.name
        ));
    }
    if let Some(reason) = held_by_features(&pod.shape.holds) {
        return Some(reason);
    }
    if let Some(resource) = only_by_claim(profile, ledger, pod) {
        return Some(format!(
            "the pod requests {resource}, which a DeviceClass stands for and no node of SchedulerProfile {} lists: this \
             version of Berth does not implement dynamic resource allocation; it is held, not placed wrongly",
            profile.name
        ));
    }
    if profile.unknown_fields == UnknownFields::Hold && !pod.unknown_fields.is_empty() {
        return Some(format!(
            "the pod has spec fields that this version of Berth does not know: {}; SchedulerProfile {} holds such pods \
             (spec.unknownFields: Hold)",
            pod.unknown_fields.join(", "),
            profile.name
        ));
    }
    None
}

/// Lists that are too long come first: the rest of such a pod was not read.
fn held_by_features(holds: &[Feature]) -> Option<String> {
    let (too_large, missing): (Vec<&Feature>, Vec<&Feature>) =
        holds.iter().partition(|feature| matches!(feature, Feature::TooLarge { .. }));
    let listed = |features: &[&Feature]| features.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if !too_large.is_empty() {
        return Some(format!(
            "the pod has {}: Berth holds larger pods, so that one pod cannot slow the others; shorten the list",
            listed(&too_large)
        ));
    }
    (!missing.is_empty()).then(|| {
        format!(
            "the pod uses {}, which this version of Berth does not implement; it is held, not placed wrongly",
            listed(&missing)
        )
    })
}

/// An extended resource of the pod that only dynamic resource allocation could provide: a DeviceClass stands for it, and
/// no node that the profile places on lists it. Where one does, the pod is placed there like any other.
/// O(nodes) for a pod that requests such a resource.
///
/// After `shouldDelegateResourceToDRA` in `pkg/scheduler/framework/plugins/noderesources/fit.go`.
fn only_by_claim<'p>(profile: &CompiledProfile, ledger: &Ledger, pod: &'p Pod) -> Option<&'p Str> {
    if ledger.device_classes().is_empty() {
        return None;
    }
    let nodes = ledger.nodes();
    let is_listed = |name: &Str| {
        nodes.scalar(name).is_some_and(|scalar| {
            nodes
                .present_nodes()
                .any(|node| nodes.scalar_allocatable(scalar, node) > 0 && profile.places_on(nodes.labels(node)))
        })
    };
    let asked = pod.shape.requests.scalars.iter().filter(|(_, amount)| *amount > 0).map(|(name, _)| name);
    asked.filter(|name| ledger.device_classes().is_backed(name)).find(|name| !is_listed(name))
}

fn admits(profile: &CompiledProfile, ledger: &Ledger, pod: &Pod) -> bool {
    match &profile.namespaces {
        NamespaceAccess::All => true,
        NamespaceAccess::Restricted { names, match_labels } => {
            let namespace = &pod.key.namespace;
            names.contains(namespace)
                || (!match_labels.is_empty()
                    && ledger.namespace(namespace).is_some_and(|labels| match_labels.is_subset_of(labels)))
        }
    }
}
