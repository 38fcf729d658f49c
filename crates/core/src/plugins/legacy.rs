//! The filters and scores of the Policy era that look at a row alone, for imported Policies: no preset runs them.
//!
//! They keep the formulas of kube-scheduler 1.8 to 1.12, on today's scale of 0 to 100, and count what a pod requests as
//! today's scores do: init containers, sidecars and overhead included.

use super::context::{Cause, MAX_NODE_SCORE, Plugin, ResolvedPod};
use crate::ledger::{NodeId, NodeTable};
use crate::model::{AvoidedController, Controller, Labels};
use crate::profile::{CompiledProfile, LabelPreference, LegacyArgs, Score};

/// Why the first of these filters refuses the node, if one does. Preemption cannot mend any of them.
///
/// The filters of node pressure are after `pkg/scheduler/algorithm/predicates/predicates.go` of 1.12. Today's clusters taint such
/// nodes as well.
pub(super) fn refuses(profile: &CompiledProfile, pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> Option<Cause> {
    let on = |plugin| profile.filters.has(plugin);
    let pressure = nodes.pressure[node.index()];
    if on(Plugin::CheckNodeLabelPresence) && !has_labels(&profile.legacy, nodes.labels(node)) {
        return Some(Cause::LabelPresence);
    }
    // Shortage of memory concerns BestEffort pods only: they would be the first to be evicted.
    if on(Plugin::CheckNodeMemoryPressure) && pod.shape.row.best_effort && pressure.memory {
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
    pod: &ResolvedPod,
    nodes: &NodeTable,
    node: NodeId,
) -> i64 {
    let requested = || Requested::of(pod, nodes, node);
    match score {
        // `pkg/scheduler/core/generic_scheduler.go` of 1.12 gave 1 to each node.
        Score::EqualPriority => 1,
        Score::LeastRequestedPriority => requested().least(),
        Score::MostRequestedPriority => requested().most(),
        Score::BalancedResourceAllocationPriority => requested().balanced(),
        Score::LabelPreference => label_preference(&profile.legacy.label_preferences, nodes.labels(node)),
        Score::NodePreferAvoidPodsPriority => {
            prefer_avoid_pods(pod.shape.controller.as_ref(), &nodes.avoids[node.index()])
        }
        _ => 0,
    }
}

/// How much of cpu or of memory would be requested on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    capacity: i64,
    /// With the pod there, and with the defaults for containers that name nothing.
    requested: i64,
}

/// What the scores by requests read of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Requested {
    cpu: Share,
    memory: Share,
}

impl Requested {
    fn of(pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> Self {
        let (row, pod) = (&nodes.fixed[node.index()], &pod.shape.row.score_requests);
        let share = |capacity, used: i64, asked| Share { capacity, requested: used.saturating_add(asked) };
        Self {
            cpu: share(row.allocatable_cpu, row.non_zero_cpu, pod.milli_cpu),
            memory: share(row.allocatable_memory, row.non_zero_memory, pod.memory),
        }
    }

    /// LeastRequestedPriority: prefers empty nodes, cpu and memory counting alike.
    ///
    /// After `pkg/scheduler/algorithm/priorities/least_requested.go` of 1.12.
    fn least(self) -> i64 {
        i64::midpoint(self.cpu.percent_left(), self.memory.percent_left())
    }

    /// MostRequestedPriority: prefers full nodes, cpu and memory counting alike.
    ///
    /// After `pkg/scheduler/algorithm/priorities/most_requested.go` of 1.12. Unlike in today's MostAllocated, a resource of
    /// which more is requested than the node offers counts 0, not 100.
    fn most(self) -> i64 {
        i64::midpoint(self.cpu.percent_requested(), self.memory.percent_requested())
    }

    /// BalancedResourceAllocationPriority: prefers nodes where cpu and memory are in use to equal shares.
    ///
    /// After `pkg/scheduler/algorithm/priorities/balanced_resource_allocation.go` of 1.12, without its gated volume term.
    fn balanced(self) -> i64 {
        let (cpu, memory) = (self.cpu.fraction(), self.memory.fraction());
        if cpu >= 1.0 || memory >= 1.0 {
            return 0;
        }
        ((1.0 - (cpu - memory).abs()) * MAX_NODE_SCORE as f64) as i64
    }
}

impl Share {
    fn percent_left(self) -> i64 {
        if self.is_exceeded() { 0 } else { percent(self.capacity - self.requested, self.capacity) }
    }

    fn percent_requested(self) -> i64 {
        if self.is_exceeded() { 0 } else { percent(self.requested, self.capacity) }
    }

    fn is_exceeded(self) -> bool {
        self.capacity == 0 || self.requested > self.capacity
    }

    fn fraction(self) -> f64 {
        if self.capacity == 0 { 1.0 } else { self.requested as f64 / self.capacity as f64 }
    }
}

/// `part · 100 div whole`, exactly; `whole` is not 0.
fn percent(part: i64, whole: i64) -> i64 {
    (i128::from(part) * 100 / i128::from(whole)) as i64
}

/// LabelPreference: prefers nodes that have, or have not, the labels listed; the mean where several are listed.
///
/// After `pkg/scheduler/framework/plugins/nodelabel/node_label.go` of 1.19, into which the entries of a Policy were merged.
/// Without preferences the score skips the pod and is not called.
fn label_preference(preferences: &[LabelPreference], labels: &Labels) -> i64 {
    let met = preferences.iter().filter(|p| labels.get(&p.label).is_some() == p.present).count();
    MAX_NODE_SCORE * met as i64 / preferences.len().max(1) as i64
}

/// NodePreferAvoidPodsPriority: prefers nodes whose annotation does not ask to avoid the pods of the pod's controller.
///
/// After `pkg/scheduler/algorithm/priorities/node_prefer_avoid_pods.go` of 1.12. No node avoids pods without a controller, or
/// with another one than a ReplicationController or a ReplicaSet.
fn prefer_avoid_pods(controller: Option<&Controller>, avoided: &[AvoidedController]) -> i64 {
    let counts = |c: &&Controller| matches!(&*c.kind, "ReplicationController" | "ReplicaSet");
    let is_avoided = |c: &Controller| avoided.iter().any(|a| a.kind == c.kind && a.uid == c.uid);
    if controller.filter(counts).is_some_and(is_avoided) { 0 } else { MAX_NODE_SCORE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::{Explanation, NodeAnswer, explain};
    use crate::ledger::Ledger;
    use crate::model::{Node, PluginSet, PodShape, Pressure};
    use crate::testing::{node, pod, shape_of, with_row};
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
        let best_effort = || with_row(shape_of(0, 0), |row| row.best_effort = true);
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

    fn requested(cpu: (i64, i64), memory: (i64, i64)) -> Requested {
        let share = |(requested, capacity)| Share { capacity, requested };
        Requested { cpu: share(cpu), memory: share(memory) }
    }

    #[test]
    fn least_requested_is_the_mean_of_what_is_left() {
        for (cpu, memory, want) in [
            ((1500, 4000), (3 * GIB, 8 * GIB), 62),
            ((0, 4000), (0, 8 * GIB), 100),
            ((4000, 4000), (0, 8 * GIB), 50),
            // Full by one: nothing of this resource, the other still counts.
            ((4001, 4000), (4 * GIB, 8 * GIB), 25),
            ((100, 0), (0, 0), 0),
            // 33 and 66: the mean is cut down.
            ((2, 3), (1, 3), 49),
        ] {
            assert_eq!(requested(cpu, memory).least(), want, "{cpu:?} {memory:?}");
        }
    }

    #[test]
    fn most_requested_is_the_mean_of_what_is_requested() {
        for (cpu, memory, want) in [
            ((1500, 4000), (3 * GIB, 8 * GIB), 37),
            ((4000, 4000), (8 * GIB, 8 * GIB), 100),
            ((4001, 4000), (8 * GIB, 8 * GIB), 50),
            ((100, 0), (0, 0), 0),
            ((i64::MAX, i64::MAX), (i64::MAX / 2, i64::MAX), 74),
        ] {
            assert_eq!(requested(cpu, memory).most(), want, "{cpu:?} {memory:?}");
        }
    }

    #[test]
    fn balanced_is_one_less_the_difference_of_the_shares() {
        for (cpu, memory, want) in [
            ((1500, 4000), (3 * GIB, 8 * GIB), 100),
            ((3000, 4000), (2 * GIB, 8 * GIB), 50),
            ((0, 4000), (2 * GIB, 8 * GIB), 75),
            // A resource that is full, or not there: nothing.
            ((4000, 4000), (8 * GIB, 8 * GIB), 0),
            ((0, 0), (0, 8 * GIB), 0),
        ] {
            assert_eq!(requested(cpu, memory).balanced(), want, "{cpu:?} {memory:?}");
        }
    }

    #[test]
    fn label_preference_is_the_mean_of_the_preferences_met() {
        let preference = |label: &str, present| LabelPreference { label: label.into(), present };
        let labels: Labels = [("ssd", ""), ("zone", "a")].into_iter().collect();
        for (preferences, want) in [
            (vec![preference("ssd", true)], 100),
            (vec![preference("ssd", false)], 0),
            (vec![preference("gpu", false)], 100),
            (vec![preference("ssd", true), preference("gpu", true)], 50),
            (vec![preference("ssd", true), preference("zone", true), preference("zone", false)], 66),
            (vec![], 0),
        ] {
            assert_eq!(label_preference(&preferences, &labels), want, "{preferences:?}");
        }
    }

    #[test]
    fn only_pods_of_the_named_controller_are_avoided() {
        let controller = |kind: &str, uid: &str| Controller {
            api_version: "apps/v1".into(),
            kind: kind.into(),
            name: "web".into(),
            uid: uid.into(),
        };
        let avoided = |kind: &str, uid: &str| AvoidedController { kind: kind.into(), uid: uid.into() };
        let node = [avoided("ReplicaSet", "1"), avoided("StatefulSet", "2"), avoided("ReplicationController", "3")];
        for (controller, want) in [
            (None, 100),
            (Some(controller("ReplicaSet", "1")), 0),
            (Some(controller("ReplicaSet", "2")), 100),
            (Some(controller("ReplicationController", "3")), 0),
            (Some(controller("ReplicationController", "1")), 100),
            (Some(controller("StatefulSet", "2")), 100),
        ] {
            assert_eq!(prefer_avoid_pods(controller.as_ref(), &node), want, "{controller:?}");
        }
        assert_eq!(prefer_avoid_pods(Some(&controller("ReplicaSet", "1")), &[]), 100);
    }
}
