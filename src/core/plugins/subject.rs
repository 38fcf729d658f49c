use super::{image_locality, node_unschedulable};
use crate::core::ledger::{ImageId, Ledger, ScalarId};
use crate::core::model::{PodShape, Requests, Str};
use crate::core::profile::{CompiledProfile, ResourceWeight, Score};
use smallvec::SmallVec;
use std::sync::Arc;

/// A resource as a score finds it in the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Cpu,
    Memory,
    Storage,
    Scalar(ScalarId),
}

/// A resource that a score counts for this pod.
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
    /// The column; none where no node or pod has ever named the resource.
    pub(crate) scalar: Option<ScalarId>,
    pub(crate) amount: i64,
    /// The bit of a verdict that stands for it.
    pub(crate) bit: u32,
}

/// A pod's shape resolved against a profile and the ledger: what filters and scores read.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) shape: Arc<PodShape>,
    pub(crate) tolerates_cordon: bool,
    pub(crate) scalars: SmallVec<[ScalarRequest; 1]>,
    pub(crate) fit_resources: SmallVec<[ScoredResource; 2]>,
    /// Empty where the balanced score skips the pod.
    pub(crate) balanced_resources: SmallVec<[ScoredResource; 2]>,
    /// Images of the pod that some node holds, with what each adds to the sum.
    pub(crate) images: SmallVec<[(ImageId, i64); 2]>,
    scalar_count: usize,
}

impl Subject {
    pub(crate) fn new(profile: &CompiledProfile, ledger: &Ledger, shape: &Arc<PodShape>) -> Self {
        let mut subject = Self {
            tolerates_cordon: node_unschedulable::tolerates(shape),
            shape: shape.clone(),
            scalars: SmallVec::new(),
            fit_resources: SmallVec::new(),
            balanced_resources: SmallVec::new(),
            images: SmallVec::new(),
            scalar_count: 0,
        };
        subject.resolve(profile, ledger);
        subject
    }

    /// Resolves what the ledger may have learnt since; says whether any answer may differ now.
    ///
    /// Scalar columns appear as names do, and an image's worth follows how far it has spread.
    pub(crate) fn refresh(&mut self, profile: &CompiledProfile, ledger: &Ledger) -> bool {
        let images = image_locality::worths(&self.shape, ledger);
        let stale = self.scalar_count != ledger.nodes().scalar_count() || images != self.images;
        if stale {
            self.resolve(profile, ledger);
        }
        stale
    }

    fn resolve(&mut self, profile: &CompiledProfile, ledger: &Ledger) {
        let nodes = ledger.nodes();
        let requests = &self.shape.requests;
        self.scalar_count = nodes.scalar_count();
        self.scalars = (requests.scalars.iter().zip(super::Verdict::SCALARS..))
            .filter(|((name, amount), _)| *amount > 0 && !super::node_resources_fit::is_ignored(&profile.fit, name))
            .map(|((name, amount), bit)| ScalarRequest { scalar: nodes.scalar(name), amount: *amount, bit })
            .collect();
        self.fit_resources = scored(&profile.fit.resources, &self.shape.score_requests, |n| nodes.scalar(n));
        let even: Vec<ResourceWeight> =
            profile.balanced.iter().map(|name| ResourceWeight { name: name.clone(), weight: 1 }).collect();
        let skips = even.iter().all(|r| amount(requests, &r.name) == 0);
        self.balanced_resources = if skips { SmallVec::new() } else { scored(&even, requests, |n| nodes.scalar(n)) };
        self.images = image_locality::worths(&self.shape, ledger);
    }

    /// Whether the score says anything of this pod; a skipped one contributes nothing at all.
    pub(crate) fn is_scored_by(&self, profile: &CompiledProfile, score: Score) -> bool {
        match score {
            Score::NodeAffinity => {
                !self.shape.preferred_affinity.is_empty() || !profile.added_affinity.preferred.is_empty()
            }
            Score::NodeResourcesBalancedAllocation => {
                profile.balanced.iter().any(|name| amount(&self.shape.requests, name) != 0)
            }
            Score::TaintToleration | Score::NodeResourcesFit | Score::ImageLocality => true,
        }
    }
}

/// The resources of `weights` that count for a pod with `requests`: a scalar that it does not request is left out.
///
/// After `calculateNodeAllocatableRequest` in `pkg/scheduler/framework/plugins/noderesources/resource_allocation.go`.
fn scored(
    weights: &[ResourceWeight],
    requests: &Requests,
    scalar: impl Fn(&Str) -> Option<ScalarId>,
) -> SmallVec<[ScoredResource; 2]> {
    let resolve = |r: &ResourceWeight| {
        let request = amount(requests, &r.name);
        let resource = match &*r.name {
            "cpu" => Resource::Cpu,
            "memory" => Resource::Memory,
            "ephemeral-storage" => Resource::Storage,
            _ if request == 0 => return None,
            _ => Resource::Scalar(scalar(&r.name)?),
        };
        Some(ScoredResource { resource, request, weight: r.weight })
    };
    weights.iter().filter_map(resolve).collect()
}

fn amount(requests: &Requests, name: &str) -> i64 {
    match name {
        "cpu" => requests.milli_cpu,
        "memory" => requests.memory,
        "ephemeral-storage" => requests.ephemeral_storage,
        scalar => requests.scalar(scalar).unwrap_or(0),
    }
}
