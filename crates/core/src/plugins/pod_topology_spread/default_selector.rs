use crate::ledger::Ledger;
use crate::model::{LabelSelector, PodShape, Requirement, RequirementOperator, Str, WorkloadKind};
use std::collections::BTreeMap;

/// Which pods are alike to one without constraints of its own: those that the Services that select it and its
/// controller select together. Without requirements where there is neither.
///
/// After `DefaultSelector` in `pkg/scheduler/framework/plugins/helper/spread.go`.
pub(super) fn default_selector(ledger: &Ledger, shape: &PodShape) -> LabelSelector {
    let Some(workloads) = ledger.workloads(&shape.namespace) else { return LabelSelector::default() };
    let mut labels: BTreeMap<Str, Str> = BTreeMap::new();
    for selector in workloads.services_of(&shape.labels) {
        labels.extend(selector.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    let owner = shape.controller.as_ref().and_then(|owner| Some((WorkloadKind::of(owner)?, &owner.name)));
    let own = owner.and_then(|(kind, name)| Some((kind, workloads.controller(kind, name)?)));
    let mut more = Vec::new();
    match own {
        // Its labels replace those of Services, where they differ.
        Some((WorkloadKind::ReplicationController, selector)) => {
            let value = |r: &Requirement| Some((r.key.clone(), r.values.first()?.clone()));
            labels.extend(selector.requirements.iter().filter_map(value));
        }
        Some((WorkloadKind::ReplicaSet | WorkloadKind::StatefulSet, selector)) => {
            more.clone_from(&selector.requirements);
        }
        None => {}
    }
    let is = |(key, value)| Requirement { key, operator: RequirementOperator::In, values: vec![value] };
    LabelSelector { requirements: labels.into_iter().map(is).chain(more).collect() }
}
