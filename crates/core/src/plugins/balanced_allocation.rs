//! NodeResourcesBalancedAllocation: prefers nodes whose resources the pod makes evenly used, in the difference form of 1.36.
//! After `pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go`.

use super::backed_resources::Amounts;
use super::context::{MAX_NODE_SCORE, ResolvedPod, Resource, ScoredResource};
use crate::ledger::{FixedAmounts, NodeId, NodeTable};
use smallvec::SmallVec;

/// `backed`: the amounts of the pod's backed resources, if it has any.
#[inline]
pub(crate) fn score(pod: &ResolvedPod, nodes: &NodeTable, node: NodeId, backed: &[Amounts]) -> i64 {
    let fractions = |r: &ScoredResource| fractions(r, nodes, node, backed);
    let [before, after] = match &*pod.balanced_resources {
        // The common case, cpu and memory, without a list.
        [a, b] => match (fractions(a), fractions(b)) {
            (Some(a), Some(b)) => [evenness(&[a[0], b[0]]), evenness(&[a[1], b[1]])],
            _ => [MAX_NODE_SCORE; 2],
        },
        resources => {
            let all: SmallVec<[[f64; 2]; 4]> = resources.iter().filter_map(fractions).collect();
            [0, 1].map(|when| evenness(&all.iter().map(|f| f[when]).collect::<SmallVec<[f64; 4]>>()))
        }
    };
    change(before, after)
}

/// As [`score`], of cpu and memory, on a row that [has both](FixedAmounts::has_cpu_and_memory).
#[inline]
pub(super) fn of_both(row: &FixedAmounts, cpu: i64, memory: i64) -> i64 {
    let (of_cpu, of_memory) = (row.allocatable_cpu as f64, row.allocatable_memory as f64);
    let even =
        |cpu: i64, memory: i64| evenness(&[(cpu as f64 / of_cpu).min(1.0), (memory as f64 / of_memory).min(1.0)]);
    let before = even(row.used_cpu, row.used_memory);
    let after = even(row.used_cpu.saturating_add(cpu), row.used_memory.saturating_add(memory));
    change(before, after)
}

/// The score for a node whose evenness changes so.
#[inline]
const fn change(before: i64, after: i64) -> i64 {
    MAX_NODE_SCORE / 2 + (MAX_NODE_SCORE / 2 + after - before) / 2
}

/// The share of a resource in use on the node, without the pod and with it; `None` where the node offers nothing of it.
#[inline]
fn fractions(r: &ScoredResource, nodes: &NodeTable, node: NodeId, backed: &[Amounts]) -> Option<[f64; 2]> {
    let row = &nodes.fixed[node.index()];
    let (allocatable, used) = match r.resource {
        Resource::Cpu => (row.allocatable_cpu, row.used_cpu),
        Resource::Memory => (row.allocatable_memory, row.used_memory),
        Resource::Storage => (row.allocatable_storage, row.used_storage),
        Resource::Scalar(id) => (nodes.scalar_allocatable(id, node), nodes.scalar_used(id, node)),
        Resource::Backed(place) => backed.get(usize::from(place)).copied().unwrap_or_default(),
    };
    let of = |used: i64| (used as f64 / allocatable as f64).min(1.0);
    (allocatable != 0).then(|| [of(used), of(used.saturating_add(r.request))])
}

/// 100 times one less the standard deviation of the fractions, cut down to an integer.
#[inline]
fn evenness(fractions: &[f64]) -> i64 {
    let deviation = match fractions {
        [a, b] => ((a - b) / 2.0).abs(),
        [_, _, _, ..] => {
            let count = fractions.len() as f64;
            let mean = fractions.iter().sum::<f64>() / count;
            (fractions.iter().map(|f| (f - mean) * (f - mean)).sum::<f64>() / count).sqrt()
        }
        _ => 0.0,
    };
    ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balanced(before: &[f64], after: &[f64]) -> i64 {
        MAX_NODE_SCORE / 2 + (MAX_NODE_SCORE / 2 + evenness(after) - evenness(before)) / 2
    }

    #[test]
    fn the_score_is_the_change_of_evenness() {
        assert_eq!(balanced(&[0.25, 0.25], &[0.375, 0.375]), 75);
        assert_eq!(balanced(&[0.25, 0.25], &[0.75, 0.25]), 62);
        assert_eq!(balanced(&[0.5, 0.125], &[0.5, 0.5]), 84);
    }

    #[test]
    fn one_resource_is_always_even_and_three_use_the_population_deviation() {
        assert_eq!(evenness(&[0.9]), 100);
        assert_eq!(evenness(&[]), 100);
        // Mean 0.5, squares 0.25 + 0 + 0.25 over 3: deviation 0.408.
        assert_eq!(evenness(&[0.0, 0.5, 1.0]), 59);
    }
}
