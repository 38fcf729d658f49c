//! The filters and scores of the Policy era that look at a row alone, for imported Policies: no preset runs them.
//!
//! They keep the formulas of kube-scheduler 1.8 to 1.12, on today's scale of 0 to 100, and count what a pod requests as
//! today's scores do: init containers, sidecars and overhead included.

mod balanced;
mod equal;
mod label_preference;
mod label_presence;
mod least_requested;
mod most_requested;
mod node_pressure;
mod prefer_avoid_pods;
mod room;

pub(super) use label_presence::REASON as LABELS_REASON;
pub(super) use node_pressure::{DISK_REASON, MEMORY_REASON, PID_REASON};

use super::{Cause, ResolvedPod};
use crate::ledger::{NodeId, NodeTable};
use crate::profile::{CompiledProfile, Filter, Score};
use room::Room;

/// What the first of these filters refuses the node for, if one does. All of them are beyond what preemption can mend.
pub(super) fn refuses(
    profile: &CompiledProfile,
    subject: &ResolvedPod,
    nodes: &NodeTable,
    node: NodeId,
) -> Option<Cause> {
    let on = |filter| profile.filters.has(filter);
    let pressure = nodes.pressure[node.index()];
    if on(Filter::CheckNodeLabelPresence) && !label_presence::fits(&profile.legacy, nodes.labels(node)) {
        return Some(Cause::LabelPresence);
    }
    if on(Filter::CheckNodeMemoryPressure) && !node_pressure::has_memory(subject.shape.best_effort, pressure) {
        return Some(Cause::MemoryPressure);
    }
    if on(Filter::CheckNodeDiskPressure) && pressure.disk {
        return Some(Cause::DiskPressure);
    }
    (on(Filter::CheckNodePidPressure) && pressure.pid).then_some(Cause::PidPressure)
}

/// One of these scores, 0 to 100 and not normalised; 0 for a score that looks beyond the row.
pub(crate) fn score(
    score: Score,
    profile: &CompiledProfile,
    subject: &ResolvedPod,
    nodes: &NodeTable,
    node: NodeId,
) -> i64 {
    let room = || Room::of(subject, nodes, node);
    match score {
        Score::EqualPriority => equal::SCORE,
        Score::LeastRequestedPriority => least_requested::score(room()),
        Score::MostRequestedPriority => most_requested::score(room()),
        Score::BalancedResourceAllocationPriority => balanced::score(room()),
        Score::LabelPreference => label_preference::score(&profile.legacy.label_preferences, nodes.labels(node)),
        Score::NodePreferAvoidPodsPriority => {
            prefer_avoid_pods::score(subject.shape.controller.as_ref(), &nodes.avoids[node.index()])
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use crate::cycle::{Explanation, NodeAnswer, explain};
    use crate::ledger::Ledger;
    use crate::model::{AvoidedController, Controller, Node, PodShape, Pressure};
    use crate::profile::{CompiledProfile, Filter, FilterSet, LabelPreference, Score};
    use crate::testing::{node, pod, shape_of};
    use std::sync::Arc;

    const GIB: i64 = 1 << 30;

    fn answer(profile: &CompiledProfile, node: &Node, shape: PodShape) -> NodeAnswer {
        let mut ledger = Ledger::new();
        ledger.apply_node(node);
        match explain(profile, &ledger, &Arc::new(pod("p", shape))) {
            Explanation::Judged(mut judgement) => judgement.nodes.remove(0).1,
            other => panic!("{other:?}"),
        }
    }

    fn with(filters: FilterSet, scores: Vec<(Score, i64)>) -> CompiledProfile {
        CompiledProfile { filters, scores, ..CompiledProfile::default_preset("test") }
    }

    #[test]
    fn each_filter_refuses_for_its_own_reason() {
        let mut short = node("a", 4000, 8 * GIB, 10);
        short.pressure = Pressure { memory: true, disk: true, pid: true };
        let best_effort = || PodShape { best_effort: true, ..shape_of(0, 0) };
        for (filter, reason) in [
            (Filter::CheckNodeLabelPresence, "node(s) didn't have the requested labels"),
            (Filter::CheckNodeMemoryPressure, "node(s) had memory pressure"),
            (Filter::CheckNodeDiskPressure, "node(s) had disk pressure"),
            (Filter::CheckNodePidPressure, "node(s) had pid pressure"),
        ] {
            let mut profile = with(FilterSet::none().with(filter), Vec::new());
            profile.legacy.present_labels = vec!["rack".into()];
            let NodeAnswer::Refused { plugin, code, reasons, .. } = answer(&profile, &short, best_effort()) else {
                panic!("{filter:?} let it pass");
            };
            assert_eq!((plugin, code.as_str()), (filter.plugin(), "UnschedulableAndUnresolvable"));
            assert_eq!(reasons, [reason]);
            // A node that is well, with the label, passes; so does any where the filter does not run.
            let mut well = node("a", 4000, 8 * GIB, 10);
            well.labels = [("rack", "r")].into_iter().collect();
            assert!(matches!(answer(&profile, &well, best_effort()), NodeAnswer::Fits { .. }), "{filter:?}");
            let without = with(FilterSet::all(), Vec::new());
            assert!(matches!(answer(&without, &short, best_effort()), NodeAnswer::Fits { .. }), "{filter:?}");
        }
        let memory = with(FilterSet::none().with(Filter::CheckNodeMemoryPressure), Vec::new());
        assert!(matches!(answer(&memory, &short, shape_of(100, 0)), NodeAnswer::Fits { .. }), "not BestEffort");
    }

    #[test]
    fn each_score_is_weighed_by_its_own_name() {
        let mut node = node("a", 4000, 8 * GIB, 10);
        node.labels = [("ssd", "")].into_iter().collect();
        node.avoids = Arc::from([AvoidedController { kind: "ReplicaSet".into(), uid: "7".into() }]);
        let (api_version, kind, name, uid) = ("apps/v1".into(), "ReplicaSet".into(), "web".into(), "7".into());
        let avoided = Some(Controller { api_version, kind, name, uid });
        for (score, weighted) in [
            (Score::EqualPriority, 2),
            (Score::LeastRequestedPriority, 2 * 62),
            (Score::MostRequestedPriority, 2 * 37),
            (Score::BalancedResourceAllocationPriority, 2 * 100),
            (Score::LabelPreference, 2 * 50),
            (Score::NodePreferAvoidPodsPriority, 0),
        ] {
            let mut profile = with(FilterSet::all(), vec![(score, 2)]);
            profile.legacy.label_preferences = [("ssd", true), ("gpu", true)]
                .map(|(label, present)| LabelPreference { label: label.into(), present })
                .to_vec();
            let shape = PodShape { controller: avoided.clone(), ..shape_of(1500, 3 * GIB) };
            let NodeAnswer::Fits { scores, total } = answer(&profile, &node, shape) else { panic!("refused") };
            assert_eq!((scores.len(), scores[0].score, total), (1, score, weighted));
        }
    }
}
