//! The filters and scores of the Policy era that look at a row alone, for imported Policies: no preset runs them.
//!
//! They keep the formulas of kube-scheduler 1.8 to 1.12, on today's scale of 0 to 100, and count what a pod requests as
//! today's scores do: init containers, sidecars and overhead included.

mod scores;

use super::context::{Cause, Plugin, ResolvedPod};
use crate::ledger::{NodeId, NodeTable};
use crate::model::Labels;
use crate::profile::{CompiledProfile, LegacyArgs, Score};
use scores::Requested;

/// Why the first of these filters refuses the node, if one does. Preemption cannot mend any of them.
///
/// The filters of node pressure are after `pkg/scheduler/algorithm/predicates/predicates.go` of 1.12. Today's clusters taint such
/// nodes as well.
pub(super) fn refuses(
    profile: &CompiledProfile,
    subject: &ResolvedPod,
    nodes: &NodeTable,
    node: NodeId,
) -> Option<Cause> {
    let on = |plugin| profile.filters.has(plugin);
    let pressure = nodes.pressure[node.index()];
    if on(Plugin::CheckNodeLabelPresence) && !has_labels(&profile.legacy, nodes.labels(node)) {
        return Some(Cause::LabelPresence);
    }
    // Shortage of memory concerns BestEffort pods only: they would be the first to be evicted.
    if on(Plugin::CheckNodeMemoryPressure) && subject.shape.best_effort && pressure.memory {
        return Some(Cause::MemoryPressure);
    }
    if on(Plugin::CheckNodeDiskPressure) && pressure.disk {
        return Some(Cause::DiskPressure);
    }
    (on(Plugin::CheckNodePIDPressure) && pressure.pid).then_some(Cause::PidPressure)
}

/// CheckNodeLabelPresence: whether the node has every label that must be there and none that must not.
///
/// After `pkg/scheduler/framework/plugins/nodelabel/node_label.go` of 1.19.
fn has_labels(args: &LegacyArgs, labels: &Labels) -> bool {
    args.present_labels.iter().all(|key| labels.get(key).is_some())
        && args.absent_labels.iter().all(|key| labels.get(key).is_none())
}

/// One of these scores, 0 to 100 and not normalised; 0 for a score that looks beyond the row.
pub(crate) fn score(
    score: Score,
    profile: &CompiledProfile,
    subject: &ResolvedPod,
    nodes: &NodeTable,
    node: NodeId,
) -> i64 {
    let requested = || Requested::of(subject, nodes, node);
    match score {
        // `pkg/scheduler/core/generic_scheduler.go` of 1.12 gave 1 to each node.
        Score::EqualPriority => 1,
        Score::LeastRequestedPriority => requested().least(),
        Score::MostRequestedPriority => requested().most(),
        Score::BalancedResourceAllocationPriority => requested().balanced(),
        Score::LabelPreference => scores::label_preference(&profile.legacy.label_preferences, nodes.labels(node)),
        Score::NodePreferAvoidPodsPriority => {
            scores::prefer_avoid_pods(subject.shape.controller.as_ref(), &nodes.avoids[node.index()])
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::{Explanation, NodeAnswer, explain};
    use crate::ledger::Ledger;
    use crate::model::{AvoidedController, Controller, Node, PluginSet, PodShape, Pressure};
    use crate::profile::LabelPreference;
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

    fn with(filters: PluginSet, scores: Vec<(Score, i64)>) -> CompiledProfile {
        CompiledProfile { filters, scores, ..CompiledProfile::default_preset("test") }
    }

    #[test]
    fn each_filter_refuses_for_its_own_reason() {
        let mut short = node("a", 4000, 8 * GIB, 10);
        short.pressure = Pressure { memory: true, disk: true, pid: true };
        let best_effort = || PodShape { best_effort: true, ..shape_of(0, 0) };
        for (filter, reason) in [
            (Plugin::CheckNodeLabelPresence, "node(s) didn't have the requested labels"),
            (Plugin::CheckNodeMemoryPressure, "node(s) had memory pressure"),
            (Plugin::CheckNodeDiskPressure, "node(s) had disk pressure"),
            (Plugin::CheckNodePIDPressure, "node(s) had pid pressure"),
        ] {
            let mut profile = with(PluginSet::NONE.with(filter), Vec::new());
            profile.legacy.present_labels = vec!["rack".into()];
            let NodeAnswer::Refused { plugin, code, reasons, .. } = answer(&profile, &short, best_effort()) else {
                panic!("{filter:?} let it pass");
            };
            assert_eq!((plugin, code.as_str()), (filter, "UnschedulableAndUnresolvable"));
            assert_eq!(reasons, [reason]);
            // A node that is well, with the label, passes; so does any where the filter does not run.
            let mut well = node("a", 4000, 8 * GIB, 10);
            well.labels = [("rack", "r")].into_iter().collect();
            assert!(matches!(answer(&profile, &well, best_effort()), NodeAnswer::Fits { .. }), "{filter:?}");
            let without = with(PluginSet::DEFAULT_FILTERS, Vec::new());
            assert!(matches!(answer(&without, &short, best_effort()), NodeAnswer::Fits { .. }), "{filter:?}");
        }
        let memory = with(PluginSet::NONE.with(Plugin::CheckNodeMemoryPressure), Vec::new());
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
            let mut profile = with(PluginSet::DEFAULT_FILTERS, vec![(score, 2)]);
            profile.legacy.label_preferences = [("ssd", true), ("gpu", true)]
                .map(|(label, present)| LabelPreference { label: label.into(), present })
                .to_vec();
            let shape = PodShape { controller: avoided.clone(), ..shape_of(1500, 3 * GIB) };
            let NodeAnswer::Fits { scores, total } = answer(&profile, &node, shape) else { panic!("refused") };
            assert_eq!((scores.len(), scores[0].score, total), (1, score, weighted));
        }
    }

    #[test]
    fn labels_must_be_there_or_must_not_whatever_their_value() {
        let labels: Labels = [("rack", "r1"), ("retiring", "")].into_iter().collect();
        for (present, absent, want) in [
            (&[][..], &[][..], true),
            (&["rack"], &[], true),
            (&["rack", "gpu"], &[], false),
            (&["rack"], &["gpu"], true),
            // Any value counts, the empty one too.
            (&[], &["retiring"], false),
        ] {
            let keys = |of: &[&str]| of.iter().map(|key| (*key).into()).collect();
            let args =
                LegacyArgs { present_labels: keys(present), absent_labels: keys(absent), ..LegacyArgs::default() };
            assert_eq!(has_labels(&args, &labels), want, "{present:?} {absent:?}");
        }
    }
}
