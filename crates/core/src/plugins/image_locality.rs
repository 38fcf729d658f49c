//! ImageLocality: prefers nodes that hold the pod's images already.
//! After `pkg/scheduler/framework/plugins/imagelocality/image_locality.go`.

use super::{MAX_NODE_SCORE, ResolvedPod};
use crate::ledger::{ImageId, Ledger, NodeId};
use crate::model::PodShape;
use smallvec::SmallVec;

const MIB: i64 = 1 << 20;
/// Below this sum of image sizes nothing is gained.
const MIN_THRESHOLD: i64 = 23 * MIB;
/// Above this sum for each container nothing more is gained.
const MAX_CONTAINER_THRESHOLD: i64 = 1000 * MIB;

/// What each image of the pod is worth where it is: its size times the share of the nodes that hold it.
///
/// One entry for each mention, so that two containers with one image count twice.
pub(super) fn worths(shape: &PodShape, ledger: &Ledger) -> SmallVec<[(ImageId, i64); 2]> {
    let total = ledger.nodes().len() as f64;
    let worth = |name| {
        let image = ledger.images().find(name)?;
        let spread = ledger.images().spread(image);
        Some((image, (spread.size_bytes as f64 * (f64::from(spread.nodes) / total)) as i64))
    };
    shape.images.iter().filter_map(|name| worth(name)).collect()
}

pub(crate) fn score(subject: &ResolvedPod, ledger: &Ledger, node: NodeId) -> i64 {
    if subject.images.is_empty() {
        return 0;
    }
    let held = |(image, worth): &(ImageId, i64)| {
        if ledger.images().is_on(*image, node) { *worth } else { 0 }
    };
    priority(subject.images.iter().map(held).sum(), i64::from(subject.shape.container_count))
}

fn priority(sum: i64, containers: i64) -> i64 {
    let max = MAX_CONTAINER_THRESHOLD * containers.max(1);
    MAX_NODE_SCORE * (sum.clamp(MIN_THRESHOLD, max) - MIN_THRESHOLD) / (max - MIN_THRESHOLD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_vectors() {
        assert_eq!(priority(250 * MIB, 1), 23);
        assert_eq!(priority(500 * MIB, 1), 48);
        assert_eq!(priority(30 * MIB, 1), 0);
        assert_eq!(priority(1500 * MIB, 2), 74);
        assert_eq!(priority(0, 1), 0);
        assert_eq!(priority(i64::MAX, 3), 100);
    }
}
