use super::verdict::Verdict;
use crate::ledger::{ImageId, Ledger, ScalarId};
use crate::model::{PodShape, Requests, Str, Taint, TaintEffect};
use crate::profile::{CompiledProfile, FitArgs, Score};
use smallvec::SmallVec;
use std::sync::Arc;

/// Which columns of the node table a score reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Cpu,
    Memory,
    Storage,
    Scalar(ScalarId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScoredResource {
    pub(crate) resource: Resource,
    /// What the pod adds.
    pub(crate) request: i64,
    pub(crate) weight: i64,
}

/// A scalar resource whose fit is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScalarRequest {
    /// The column; `None` where no node or pod has ever named the resource.
    pub(crate) scalar: Option<ScalarId>,
    pub(crate) amount: i64,
    /// Its bit in a verdict.
    pub(crate) bit: u32,
}

/// A pod's shape resolved against a profile and the ledger: what filters and scores read.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedPod {
    pub(crate) shape: Arc<PodShape>,
    pub(crate) tolerates_cordon: bool,
    pub(crate) scalars: SmallVec<[ScalarRequest; 1]>,
    pub(crate) fit_resources: SmallVec<[ScoredResource; 2]>,
    pub(crate) balanced_resources: SmallVec<[ScoredResource; 2]>,
    /// Whether the pod requests any of the balanced resources: NodeResourcesBalancedAllocation skips it otherwise.
    pub(crate) balances: bool,
    /// Images of the pod that are on some node, with what each adds to the sum of ImageLocality.
    pub(crate) images: SmallVec<[(ImageId, i64); 2]>,
    scalar_count: usize,
    soft_taints: bool,
}

impl ResolvedPod {
    pub(crate) fn new(profile: &CompiledProfile, ledger: &Ledger, shape: &Arc<PodShape>) -> Self {
        let mut subject = Self {
            tolerates_cordon: tolerates_cordon(shape),
            shape: shape.clone(),
            scalars: SmallVec::new(),
            fit_resources: SmallVec::new(),
            balanced_resources: SmallVec::new(),
            balances: false,
            images: SmallVec::new(),
            scalar_count: 0,
            soft_taints: false,
        };
        subject.resolve(profile, ledger);
        subject
    }

    /// Resolves again if the ledger has changed in what it depends on; returns whether any answer may differ now.
    ///
    /// It depends on the scalar columns, on how many nodes have each image, and on whether any node has a soft taint.
    pub(crate) fn refresh(&mut self, profile: &CompiledProfile, ledger: &Ledger) -> bool {
        let images = image_worths(&self.shape, ledger);
        let stale = self.scalar_count != ledger.nodes().scalar_count()
            || self.soft_taints != ledger.nodes().has_soft_taints()
            || images != self.images;
        if stale {
            self.resolve(profile, ledger);
        }
        stale
    }

    fn resolve(&mut self, profile: &CompiledProfile, ledger: &Ledger) {
        let nodes = ledger.nodes();
        let requests = &self.shape.requests;
        self.scalar_count = nodes.scalar_count();
        self.soft_taints = nodes.has_soft_taints();
        self.scalars = (requests.scalars.iter().zip(Verdict::SCALARS..))
            .filter(|((name, amount), _)| *amount > 0 && !is_ignored(&profile.fit, name))
            .map(|((name, amount), bit)| ScalarRequest { scalar: nodes.scalar(name), amount: *amount, bit })
            .collect();
        let weighed = profile.fit.resources.iter().map(|r| (&r.name, r.weight));
        self.fit_resources = scored(weighed, &self.shape.score_requests, |n| nodes.scalar(n));
        let even = profile.balanced.iter().map(|name| (name, 1));
        self.balanced_resources = scored(even, requests, |n| nodes.scalar(n));
        // Counts resources that no node has, too.
        self.balances = profile.balanced.iter().any(|name| amount(requests, name) != 0);
        self.images = image_worths(&self.shape, ledger);
    }

    /// Whether the pod, or the profile for it, prefers some nodes by label.
    pub(crate) fn has_preferences(&self, profile: &CompiledProfile) -> bool {
        !self.shape.preferred_affinity.is_empty() || !profile.added_affinity.preferred.is_empty()
    }

    /// Whether the score counts for this pod; a skipped one contributes nothing at all.
    pub(crate) fn is_scored_by(&self, profile: &CompiledProfile, score: Score) -> bool {
        match score {
            Score::NodeAffinity => self.has_preferences(profile),
            Score::NodeResourcesBalancedAllocation => self.balances,
            Score::LabelPreference => !profile.legacy.label_preferences.is_empty(),
            // The relational scores decide by themselves.
            Score::PodTopologySpread | Score::InterPodAffinity | Score::SelectorSpread => false,
            _ => true,
        }
    }
}

/// The resources of `weights` that count for a pod with `requests`: a scalar that it does not request is left out.
///
/// After `calculateNodeAllocatableRequest` in `pkg/scheduler/framework/plugins/noderesources/resource_allocation.go`.
fn scored<'a>(
    weights: impl Iterator<Item = (&'a Str, i64)>,
    requests: &Requests,
    scalar: impl Fn(&Str) -> Option<ScalarId>,
) -> SmallVec<[ScoredResource; 2]> {
    let resolve = |(name, weight): (&Str, i64)| {
        let request = amount(requests, name);
        let resource = match &**name {
            "cpu" => Resource::Cpu,
            "memory" => Resource::Memory,
            "ephemeral-storage" => Resource::Storage,
            _ if request == 0 => return None,
            _ => Resource::Scalar(scalar(name)?),
        };
        Some(ScoredResource { resource, request, weight })
    };
    weights.filter_map(resolve).collect()
}

fn amount(requests: &Requests, name: &str) -> i64 {
    match name {
        "cpu" => requests.milli_cpu,
        "memory" => requests.memory,
        "ephemeral-storage" => requests.ephemeral_storage,
        scalar => requests.scalar(scalar).unwrap_or(0),
    }
}

fn tolerates_cordon(shape: &PodShape) -> bool {
    let cordon =
        Taint { key: "node.kubernetes.io/unschedulable".into(), value: "".into(), effect: TaintEffect::NoSchedule };
    shape.tolerations.iter().any(|t| t.tolerates(&cordon))
}

/// What each image of the pod adds to the sum of ImageLocality: its size times the share of the nodes that have it.
///
/// One entry for each mention, so that two containers with one image count twice.
fn image_worths(shape: &PodShape, ledger: &Ledger) -> SmallVec<[(ImageId, i64); 2]> {
    let total = ledger.nodes().len() as f64;
    let worth = |name| {
        let image = ledger.images().find(name)?;
        let spread = ledger.images().spread(image);
        Some((image, (spread.size_bytes as f64 * (f64::from(spread.nodes) / total)) as i64))
    };
    shape.images.iter().filter_map(|name| worth(name)).collect()
}

/// Whether the profile leaves the fit of the scalar `name` unchecked; extended resources only, as upstream.
fn is_ignored(args: &FitArgs, name: &str) -> bool {
    let extended = name.contains('/') && !name.contains("kubernetes.io/");
    let group = || name.split_once('/').map_or(name, |(prefix, _)| prefix);
    extended
        && (args.ignored_resources.iter().any(|r| &**r == name)
            || args.ignored_resource_groups.iter().any(|g| &**g == group()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_extended_resources_can_be_ignored() {
        let args = FitArgs {
            ignored_resources: vec!["example.com/a".into(), "hugepages-2Mi".into()],
            ignored_resource_groups: vec!["vendor.io".into()],
            ..FitArgs::default()
        };
        for (name, ignored) in
            [("example.com/a", true), ("example.com/b", false), ("vendor.io/gpu", true), ("hugepages-2Mi", false)]
        {
            assert_eq!(is_ignored(&args, name), ignored, "{name}");
        }
    }
}
