//! Filters (predicates) and scores (priorities): one file per plugin.
//!
//! A filter of a row's own facts is a plain function of a [`ResolvedPod`] (a pod's shape resolved against the ledger), a row of
//! the node table and an [`Overlay`]. There are two entries over that one body: the batch over many rows calls it with the empty overlay and
//! keeps the answers by row version (`cycle::class`); nominated pods and commit's re-check call it for one row with what
//! they add. A score is a plain function of the same row. Nothing is called through a pointer, nothing allocates.
//!
//! Verdicts are small and `Copy`; their text is made by [`Verdict::reasons`] when someone reads it.

pub(crate) mod balanced_allocation;
mod counts;
pub(crate) mod hints;
pub(crate) mod image_locality;
pub(crate) mod inter_pod_affinity;
pub(crate) mod legacy;
pub(crate) mod max_volume_count;
pub(crate) mod node_affinity;
pub(crate) mod node_declared_features;
pub(crate) mod node_name;
pub(crate) mod node_ports;
pub(crate) mod node_resources_fit;
pub(crate) mod node_unschedulable;
pub(crate) mod node_volume_limits;
mod normalize;
mod overlay;
mod plugin;
pub(crate) mod pod_topology_spread;
pub(crate) mod relations;
mod resolved_pod;
pub(crate) mod scheduling_gates;
pub(crate) mod selector_spread;
pub(crate) mod service_affinity;
pub(crate) mod taint_toleration;
mod verdict;
pub(crate) mod volume_binding;
pub(crate) mod volume_restrictions;
pub(crate) mod volume_zone;
pub(crate) mod volumes;

pub use hints::{WakeEvent, wake_events};
pub(crate) use normalize::{default_normalize, reverse_normalize};
pub(crate) use overlay::Overlay;
pub use plugin::{Plugin, PluginSet};
pub use relations::Refusal;
pub(crate) use relations::{PluginContext, Relations, Stop, Tables};
pub(crate) use resolved_pod::{ResolvedPod, Resource, ScoredResource};
pub use verdict::{Cause, Code, Verdict};
pub(crate) use verdict::{lacking_text, volume_text};

use crate::ledger::{NodeId, NodeTable};
use crate::profile::{CompiledProfile, Filter};

/// The highest score of a node by one plugin, before weights.
pub(crate) const MAX_NODE_SCORE: i64 = 100;

/// Runs the profile's filters on one row in upstream's order and gives the first refusal.
#[inline]
pub(crate) fn filter(
    profile: &CompiledProfile,
    subject: &ResolvedPod,
    nodes: &NodeTable,
    node: NodeId,
    overlay: &Overlay,
) -> Verdict {
    let on = |filter| profile.filters.has(filter);
    if on(Filter::NodeUnschedulable) && !node_unschedulable::fits(subject, nodes, node) {
        return Verdict::unresolvable(Cause::NodeUnschedulable);
    }
    if on(Filter::NodeName) && !node_name::fits(subject, nodes, node) {
        return Verdict::unresolvable(Cause::NodeName);
    }
    if on(Filter::TaintToleration) && !taint_toleration::fits(subject, nodes, node) {
        return Verdict::unresolvable(Cause::UntoleratedTaint);
    }
    if on(Filter::NodeAffinity)
        && let Some(cause) = node_affinity::refuses(profile, subject, nodes, node)
    {
        return Verdict::unresolvable(cause);
    }
    if on(Filter::NodePorts) && !node_ports::fits(subject, nodes, node, overlay) {
        return Verdict::unschedulable(Cause::HostPorts);
    }
    if on(Filter::NodeResourcesFit) {
        let verdict = node_resources_fit::filter(subject, nodes, node, overlay);
        if !verdict.fits() {
            return verdict;
        }
    }
    if on(Filter::NodeDeclaredFeatures) && !node_declared_features::fits(subject, nodes, node) {
        return Verdict::unresolvable(Cause::DeclaredFeatures);
    }
    if profile.filters.has_legacy()
        && let Some(cause) = legacy::refuses(profile, subject, nodes, node)
    {
        return Verdict::unresolvable(cause);
    }
    Verdict::FITS
}
