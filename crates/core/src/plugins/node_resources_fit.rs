//! NodeResourcesFit: refuses nodes without the capacity for the pod, and scores by allocation.
//! After `pkg/scheduler/framework/plugins/noderesources/{fit,least_allocated,most_allocated,requested_to_capacity_ratio}.go`.

use super::backed_resources::Amounts;
use super::context::{MAX_NODE_SCORE, Overlay, ResolvedPod, Resource, ScoredResource, Verdict};
use super::overlay::Sum;
use crate::ledger::{EXACT_BELOW, FixedAmounts, NodeId, NodeTable};
use crate::profile::{FitArgs, FitStrategy, ShapePoint};

/// Looks at `overlay` only if `UNDER`. What the node has none of, and devices may provide, is for DynamicResources to refuse: after
/// `shouldDelegateResourceToDRA`.
#[inline]
pub(super) fn filter<const UNDER: bool>(
    pod: &ResolvedPod,
    nodes: &NodeTable,
    node: NodeId,
    overlay: &Overlay,
) -> Verdict {
    let row = &nodes.fixed[node.index()];
    let added = |sum: Sum| if UNDER { sum.get() } else { 0 };
    let wanted = &pod.shape.row.requests;
    let mut lacking = 0_u64;
    let mut unresolvable = false;
    let added_pods = if UNDER { overlay.pods } else { 0 };
    if row.used_pods + added_pods >= row.allocatable_pods {
        lacking |= 1 << Verdict::PODS;
    }
    let mut check = |bit: u32, request: i64, allocatable: i64, used: i64| {
        if request > 0 && request > allocatable - used {
            lacking |= 1 << bit;
            unresolvable |= request > allocatable;
        }
    };
    check(Verdict::CPU, wanted.milli_cpu, row.allocatable_cpu, row.used_cpu + added(overlay.cpu));
    check(Verdict::MEMORY, wanted.memory, row.allocatable_memory, row.used_memory + added(overlay.memory));
    let storage_used = row.used_storage + added(overlay.storage);
    check(Verdict::STORAGE, wanted.ephemeral_storage, row.allocatable_storage, storage_used);
    for scalar in &pod.scalars {
        let (allocatable, used) = scalar.scalar.map_or((0, 0), |id| {
            let added = if UNDER { overlay.scalar(id) } else { 0 };
            (nodes.scalar_allocatable(id, node), nodes.scalar_used(id, node) + added)
        });
        if !scalar.is_delegated || allocatable > 0 {
            check(scalar.bit, scalar.amount, allocatable, used);
        }
    }
    if lacking == 0 { Verdict::FITS } else { Verdict::lacking(lacking, unresolvable) }
}

/// The allocation score, 0 to 100; not normalised. `backed`: the amounts of the pod's backed resources, if it has any.
#[inline]
pub(crate) fn score(args: &FitArgs, pod: &ResolvedPod, nodes: &NodeTable, node: NodeId, backed: &[Amounts]) -> i64 {
    let resources = &pod.fit_resources;
    let amounts = |r: &ScoredResource| amounts(r, nodes, node, backed);
    match &args.strategy {
        FitStrategy::LeastAllocated => mean(resources, amounts, least),
        FitStrategy::MostAllocated => mean(resources, amounts, most),
        FitStrategy::RequestedToCapacityRatio(shape) => by_ratio(resources, amounts, shape),
    }
}

/// What the node offers of a resource, and what would be requested of it with the pod there.
#[inline]
fn amounts(r: &ScoredResource, nodes: &NodeTable, node: NodeId, backed: &[Amounts]) -> (i64, i64) {
    let row = &nodes.fixed[node.index()];
    let (allocatable, used) = match r.resource {
        Resource::Cpu => (row.allocatable_cpu, row.non_zero_cpu),
        Resource::Memory => (row.allocatable_memory, row.non_zero_memory),
        Resource::Storage => (row.allocatable_storage, row.used_storage),
        Resource::Scalar(id) => (nodes.scalar_allocatable(id, node), nodes.scalar_used(id, node)),
        Resource::Backed(place) => backed.get(usize::from(place)).copied().unwrap_or_default(),
    };
    (allocatable, used.saturating_add(r.request))
}

#[inline]
fn mean(
    resources: &[ScoredResource],
    amounts: impl Fn(&ScoredResource) -> (i64, i64),
    of: impl Fn(i64, i64) -> i64,
) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for r in resources {
        let (allocatable, requested) = amounts(r);
        if allocatable != 0 {
            sum += r.weight * of(allocatable, requested);
            weights += r.weight;
        }
    }
    weighted(sum, weights)
}

/// The mean of percentages, by their weighted sum and the sum of weights; 0 where none counts.
#[inline]
fn weighted(sum: i64, weights: i64) -> i64 {
    match weights {
        0 => 0,
        // Weights of one for cpu and memory, as in nearly every profile: then this is no division.
        2 => sum / 2,
        // At most 100 · 100 for each of a few dozen resources: a short division is enough.
        _ => i64::from(sum as u32 / weights as u32),
    }
}

/// The allocation score by LeastAllocated over cpu and memory, of a row that [has both](FixedAmounts::has_cpu_and_memory).
#[inline]
pub(super) fn least_of_both(row: &FixedAmounts, cpu: &ScoredResource, memory: &ScoredResource) -> i64 {
    let free = |allocatable: i64, used: i64, request| (allocatable - used.saturating_add(request)).max(0);
    let of_cpu = percent_by_doubles(free(row.allocatable_cpu, row.non_zero_cpu, cpu.request), row.allocatable_cpu);
    let of_memory =
        percent_by_doubles(free(row.allocatable_memory, row.non_zero_memory, memory.request), row.allocatable_memory);
    weighted(cpu.weight * of_cpu + memory.weight * of_memory, cpu.weight + memory.weight)
}

#[inline]
fn least(allocatable: i64, requested: i64) -> i64 {
    if requested > allocatable { 0 } else { percent(allocatable - requested, allocatable) }
}

#[inline]
fn most(allocatable: i64, requested: i64) -> i64 {
    percent(requested.min(allocatable), allocatable)
}

/// `part · 100 div whole` for 0 ≤ part ≤ whole, exactly.
///
/// Below 2⁴⁶ the numerator is below 2⁵³ and the quotient at most 100, so that a division of doubles, cut down, is the
/// integer division: a test compares them. It is several times faster where rows are looked at by the hundred.
#[inline]
fn percent(part: i64, whole: i64) -> i64 {
    if whole < EXACT_BELOW {
        percent_by_doubles(part, whole)
    } else {
        (i128::from(part) * i128::from(MAX_NODE_SCORE) / i128::from(whole)) as i64
    }
}

/// As [`percent`], of a whole below [`EXACT_BELOW`].
#[inline]
fn percent_by_doubles(part: i64, whole: i64) -> i64 {
    ((part * MAX_NODE_SCORE) as f64 / whole as f64) as i64
}

fn by_ratio(
    resources: &[ScoredResource],
    amounts: impl Fn(&ScoredResource) -> (i64, i64),
    shape: &[ShapePoint],
) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for r in resources {
        let (allocatable, requested) = amounts(r);
        if allocatable == 0 {
            continue;
        }
        let utilization = if requested > allocatable { 100 } else { percent(requested, allocatable) };
        let value = on_shape(shape, utilization);
        if value > 0 {
            sum += r.weight * value;
            weights += r.weight;
        }
    }
    if weights == 0 { 0 } else { (sum as f64 / weights as f64).round() as i64 }
}

/// The broken line through `shape` at `utilization`: constant outside, integer linear inside.
fn on_shape(shape: &[ShapePoint], utilization: i64) -> i64 {
    let next = shape.partition_point(|p| p.utilization < utilization);
    match (next.checked_sub(1).map(|i| shape[i]), shape.get(next)) {
        (None, Some(first)) => first.score,
        (Some(last), None) => last.score,
        (Some(a), Some(b)) => {
            a.score + (b.score - a.score) * (utilization - a.utilization) / (b.utilization - a.utilization)
        }
        (None, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_and_most_allocated_are_percentages_cut_down() {
        const GIB: i64 = 1 << 30;
        assert_eq!((least(4000, 1500), least(8 * GIB, 3 * GIB)), (62, 62));
        assert_eq!((most(4000, 1500), most(8 * GIB, 3 * GIB)), (37, 37));
        assert_eq!((least(100, 101), most(100, 101)), (0, 100));
    }

    #[test]
    fn a_division_of_doubles_is_the_integer_division() {
        let mut rng = crate::cycle::Rng::seeded(46);
        for _ in 0..200_000 {
            let whole = 1 + (rng.next() >> (18 + rng.below(40))) as i64;
            let part = rng.below(whole as u64 + 1) as i64;
            let exact = (i128::from(part) * 100 / i128::from(whole)) as i64;
            assert_eq!(percent(part, whole), exact, "{part} of {whole}");
            // The hardest cases lie next to a whole quotient.
            let edge = whole / 100 * (rng.below(100) as i64);
            for near in [edge - 1, edge, edge + 1] {
                let near = near.clamp(0, whole);
                assert_eq!(
                    percent(near, whole),
                    (i128::from(near) * 100 / i128::from(whole)) as i64,
                    "{near} of {whole}"
                );
            }
        }
    }

    #[test]
    fn amounts_beyond_any_real_node_do_not_overflow() {
        assert_eq!(percent(i64::MAX, i64::MAX), 100);
        assert_eq!(percent(i64::MAX / 2, i64::MAX), 49);
    }

    #[test]
    fn the_broken_line_is_flat_outside_and_integer_inside() {
        let shape = [ShapePoint { utilization: 20, score: 0 }, ShapePoint { utilization: 80, score: 100 }];
        assert_eq!([0, 20, 50, 51, 80, 100].map(|u| on_shape(&shape, u)), [0, 0, 50, 51, 100, 100]);
        let falling = [ShapePoint { utilization: 0, score: 100 }, ShapePoint { utilization: 100, score: 0 }];
        assert_eq!([0, 33, 100].map(|u| on_shape(&falling, u)), [100, 67, 0]);
    }
}
