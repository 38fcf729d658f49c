use berth_core::cycle::{self, Explanation, NodeAnswer};
use berth_core::ledger::Ledger;
use berth_core::model::{Pod, Str};
use berth_core::profile::{CompiledProfile, Filter, FilterSet};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The resource name of pod slots, which no request of a pod can change.
pub(crate) const PODS: &str = "pods";

/// The resources that each node lacks for `pod`, by node name, in the order in which NodeResourcesFit checks them: asked as
/// if it were the only filter. O(nodes).
pub(crate) fn lacking(profile: &CompiledProfile, ledger: &Ledger, pod: &Pod) -> FxHashMap<Str, Vec<Str>> {
    let filters = FilterSet::none().with(Filter::NodeResourcesFit);
    let alone = CompiledProfile { filters, scores: Vec::new(), ..profile.clone() };
    let Explanation::Judged(judgement) = cycle::explain(&alone, ledger, &Arc::new(pod.clone())) else {
        return FxHashMap::default();
    };
    let lacking = judgement.nodes.into_iter().filter_map(|(node, answer)| match answer {
        NodeAnswer::Refused { lacking, .. } => Some((node, lacking)),
        NodeAnswer::Fits { .. } => None,
    });
    lacking.collect()
}
