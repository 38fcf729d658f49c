use crate::ledger::{NodeId, NodeTable};
use crate::plugins::ResolvedPod;

/// A resource of a node as the scores of the Policy era see it: cpu or memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// What the node offers.
    pub(super) capacity: i64,
    /// What would be requested of it with the pod there, with the defaults for containers that name nothing.
    pub(super) requested: i64,
}

/// What those scores see of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) cpu: Share,
    pub(super) memory: Share,
}

impl Room {
    pub(super) fn of(subject: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> Self {
        let (i, pod) = (node.index(), &subject.shape.score_requests);
        let share = |capacity, used: i64, asked| Share { capacity, requested: used.saturating_add(asked) };
        Self {
            cpu: share(nodes.allocatable_cpu[i], nodes.non_zero_cpu[i], pod.milli_cpu),
            memory: share(nodes.allocatable_memory[i], nodes.non_zero_memory[i], pod.memory),
        }
    }
}

/// `part · 100 div whole`, exactly; `whole` is not 0.
pub(super) fn percent(part: i64, whole: i64) -> i64 {
    (i128::from(part) * 100 / i128::from(whole)) as i64
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const GIB: i64 = 1 << 30;

    pub(crate) fn room(cpu: (i64, i64), memory: (i64, i64)) -> Room {
        let share = |(requested, capacity)| Share { capacity, requested };
        Room { cpu: share(cpu), memory: share(memory) }
    }
}
