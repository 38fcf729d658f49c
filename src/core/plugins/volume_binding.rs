//! VolumeBinding: claims that are bound must be usable on the node, those that wait for it must be bindable there.
//! After `pkg/scheduler/framework/plugins/volumebinding`.

/// Upstream's texts, in the order in which they are given; a verdict's bits index them.
pub(crate) const REASONS: [&str; 4] = [
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
];
