//! ImageLocality: prefers nodes that have the pod's images already.
//! After `pkg/scheduler/framework/plugins/imagelocality/image_locality.go`.

use super::context::{MAX_NODE_SCORE, ResolvedPod};
use crate::ledger::{ImageId, Ledger, NodeId};

const MIB: i64 = 1 << 20;
/// Below this sum of image sizes nothing is gained.
const MIN_THRESHOLD: i64 = 23 * MIB;
/// Above this sum for each container nothing more is gained.
const MAX_CONTAINER_THRESHOLD: i64 = 1000 * MIB;

pub(crate) fn score(pod: &ResolvedPod, ledger: &Ledger, node: NodeId) -> i64 {
    if pod.images.is_empty() {
        return 0;
    }
    let here = |(image, worth): &(ImageId, i64)| {
        if ledger.images().is_on(*image, node) { *worth } else { 0 }
    };
    priority(pod.images.iter().map(here).sum(), i64::from(pod.shape.container_count))
}

/// Whether a node that has all images of a pod would score 0, if these are what each of them is worth.
pub(super) fn is_worth_nothing(worths: impl Iterator<Item = i64>) -> bool {
    worths.fold(0_i64, i64::saturating_add) <= MIN_THRESHOLD
}

fn priority(sum: i64, containers: i64) -> i64 {
    let max = MAX_CONTAINER_THRESHOLD * containers.max(1);
    MAX_NODE_SCORE * (sum.clamp(MIN_THRESHOLD, max) - MIN_THRESHOLD) / (max - MIN_THRESHOLD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_is_linear_between_the_thresholds() {
        assert_eq!(priority(250 * MIB, 1), 23);
        assert_eq!(priority(500 * MIB, 1), 48);
        assert_eq!(priority(30 * MIB, 1), 0);
        assert_eq!(priority(1500 * MIB, 2), 74);
        assert_eq!(priority(0, 1), 0);
        assert_eq!(priority(i64::MAX, 3), 100);
    }
}
