//! The formulas of the scores.

use crate::ledger::{NodeId, NodeTable};
use crate::model::{AvoidedController, Controller, Labels};
use crate::plugins::context::{MAX_NODE_SCORE, ResolvedPod};
use crate::profile::LabelPreference;

/// How much of cpu or of memory would be requested on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    capacity: i64,
    /// With the pod there, and with the defaults for containers that name nothing.
    requested: i64,
}

/// What the scores by requests read of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Requested {
    cpu: Share,
    memory: Share,
}

impl Requested {
    pub(super) fn of(subject: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> Self {
        let (i, pod) = (node.index(), &subject.shape.score_requests);
        let share = |capacity, used: i64, asked| Share { capacity, requested: used.saturating_add(asked) };
        Self {
            cpu: share(nodes.allocatable_cpu[i], nodes.non_zero_cpu[i], pod.milli_cpu),
            memory: share(nodes.allocatable_memory[i], nodes.non_zero_memory[i], pod.memory),
        }
    }

    /// LeastRequestedPriority: prefers empty nodes, cpu and memory counting alike.
    ///
    /// After `pkg/scheduler/algorithm/priorities/least_requested.go` of 1.12.
    pub(super) fn least(self) -> i64 {
        i64::midpoint(self.cpu.percent_left(), self.memory.percent_left())
    }

    /// MostRequestedPriority: prefers full nodes, cpu and memory counting alike.
    ///
    /// After `pkg/scheduler/algorithm/priorities/most_requested.go` of 1.12. Unlike in today's MostAllocated, a resource of
    /// which more is requested than the node offers counts 0, not 100.
    pub(super) fn most(self) -> i64 {
        i64::midpoint(self.cpu.percent_requested(), self.memory.percent_requested())
    }

    /// BalancedResourceAllocationPriority: prefers nodes where cpu and memory are in use to equal shares.
    ///
    /// After `pkg/scheduler/algorithm/priorities/balanced_resource_allocation.go` of 1.12, without its gated volume term.
    pub(super) fn balanced(self) -> i64 {
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
pub(super) fn label_preference(preferences: &[LabelPreference], labels: &Labels) -> i64 {
    let met = preferences.iter().filter(|p| labels.get(&p.label).is_some() == p.present).count();
    MAX_NODE_SCORE * met as i64 / preferences.len().max(1) as i64
}

/// NodePreferAvoidPodsPriority: prefers nodes whose annotation does not ask to avoid the pods of the pod's controller.
///
/// After `pkg/scheduler/algorithm/priorities/node_prefer_avoid_pods.go` of 1.12. No node avoids pods without a controller, or
/// with another one than a ReplicationController or a ReplicaSet.
pub(super) fn prefer_avoid_pods(controller: Option<&Controller>, avoided: &[AvoidedController]) -> i64 {
    let counts = |c: &&Controller| matches!(&*c.kind, "ReplicationController" | "ReplicaSet");
    let is_avoided = |c: &Controller| avoided.iter().any(|a| a.kind == c.kind && a.uid == c.uid);
    if controller.filter(counts).is_some_and(is_avoided) { 0 } else { MAX_NODE_SCORE }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: i64 = 1 << 30;

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
