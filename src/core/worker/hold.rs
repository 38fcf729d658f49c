use crate::core::ledger::Ledger;
use crate::core::model::Pod;
use crate::core::profile::{CompiledProfile, NamespaceAccess, UnknownFields};

/// Why the profile holds the pod instead of placing it, if it does. No node would help, so no autoscaler should buy one.
pub fn hold_reason(profile: &CompiledProfile, ledger: &Ledger, pod: &Pod) -> Option<String> {
    if !admits(profile, ledger, pod) {
        return Some(format!(
            "namespace {} may not use SchedulerProfile {} (spec.namespaces)",
            pod.key.namespace, profile.name
        ));
    }
    if !pod.shape.holds.is_empty() {
        let features: Vec<String> = pod.shape.holds.iter().map(ToString::to_string).collect();
        return Some(format!(
            "the pod uses {}, which this version of Berth does not implement; it is held, not placed wrongly",
            features.join(", ")
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
