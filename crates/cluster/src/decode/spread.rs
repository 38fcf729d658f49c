use super::findings::Findings;
use super::{Decoder, selectors};
use crate::slim::SpreadConstraint as SlimConstraint;
use berth_core::model::{LabelSelector, Labels, Requirement, SpreadConstraint};

const FIELD: &str = "spec.topologySpreadConstraints";

/// A constraint of a pod with `labels`, upstream's defaults filled in.
///
/// A value that upstream fails an attempt for, or that this version does not know, holds the pod. After `filterTopologySpreadConstraints` in
/// `pkg/scheduler/framework/plugins/podtopologyspread/common.go`.
pub(super) fn constraint(
    decoder: &mut Decoder,
    slim: &SlimConstraint<'_>,
    labels: &Labels,
    findings: &mut Findings,
) -> SpreadConstraint {
    let hard = match &*slim.when_unsatisfiable {
        "DoNotSchedule" => true,
        "ScheduleAnyway" => false,
        other => {
            findings.unknown(&format!("{FIELD}.whenUnsatisfiable"), other);
            true
        }
    };
    SpreadConstraint {
        max_skew: slim.max_skew,
        topology_key: decoder.text(&slim.topology_key),
        hard,
        selector: selector(decoder, slim, labels, findings),
        min_domains: slim.min_domains.unwrap_or(1),
        honor_affinity: honors(&slim.node_affinity_policy, true, "nodeAffinityPolicy", findings),
        honor_taints: honors(&slim.node_taints_policy, false, "nodeTaintsPolicy", findings),
    }
}

fn honors(policy: &str, default: bool, field: &str, findings: &mut Findings) -> bool {
    match policy {
        "" => default,
        "Honor" => true,
        "Ignore" => false,
        other => {
            findings.unknown(&format!("{FIELD}.{field}"), other);
            default
        }
    }
}

/// The selector with the pod's own values of `matchLabelKeys`; one that selects nothing stays so.
fn selector(
    decoder: &mut Decoder,
    slim: &SlimConstraint<'_>,
    labels: &Labels,
    findings: &mut Findings,
) -> Option<LabelSelector> {
    let given = selectors::label_selector(decoder, slim.label_selector.as_ref()?);
    let mut selector = given.unwrap_or_else(|what| {
        findings.unknown(&format!("{FIELD}.labelSelector"), &what);
        LabelSelector::default()
    });
    for key in &slim.match_label_keys {
        if let Some(value) = labels.get(key) {
            let own = Requirement::equals(decoder.text(key), value.clone());
            // An API server that merges the keys itself has put it there already.
            if !selector.requirements.contains(&own) {
                selector.requirements.push(own);
            }
        }
    }
    Some(selector)
}
