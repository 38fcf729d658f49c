use super::image_locality;
use super::row_scores::RowScores;
use super::taint_toleration::Tolerated;
use super::verdict::Verdict;
use super::work::work_of;
use crate::ledger::{ImageId, Ledger, NodeTable, ScalarId};
use crate::model::{
    NODE_LOOK_UP, NodeSelector, Plugin, PodShape, PreferredTerm, Requests, Str, Taint, TaintEffect, is_native,
};
use crate::profile::{CompiledProfile, FitArgs, Score};
use berth_devices::model::DeviceClass as ClassSpec;
use smallvec::SmallVec;
use std::sync::{Arc, LazyLock};

/// Which columns of the node table a score reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Cpu,
    Memory,
    Storage,
    Scalar(ScalarId),
    /// By its place in [`ResolvedPod::backed`].
    Backed(u8),
}

/// A resource that the pod requests and a DeviceClass stands for: where nodes offer none of it, devices are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackedResource {
    /// `None` where no node offers the resource.
    pub(crate) column: Option<ScalarId>,
    pub(crate) class: Arc<ClassSpec>,
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
    /// The column; `None` where no node offers the resource.
    pub(crate) scalar: Option<ScalarId>,
    pub(crate) amount: i64,
    /// Its bit in a verdict.
    pub(crate) bit: u32,
    /// Whether a DeviceClass stands for it, so that DynamicResources answers for nodes without any.
    pub(crate) is_delegated: bool,
}

/// Images of a pod that are on some node, with what each adds to the sum of ImageLocality.
pub(crate) type ImageWorths = SmallVec<[(ImageId, i64); 2]>;

/// A pod's shape resolved against a profile and the ledger: what filters and scores read.
///
/// All but `shape` is the same for pods whose shapes have the row and what [`ImageLocality`](Score::ImageLocality) reads in common.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedPod {
    /// Of the pod that is looked at now.
    pub(crate) shape: Arc<PodShape>,
    pub(crate) tolerates_cordon: bool,
    pub(crate) tolerated: Tolerated,
    pub(crate) scalars: SmallVec<[ScalarRequest; 1]>,
    pub(crate) fit_resources: SmallVec<[ScoredResource; 2]>,
    pub(crate) balanced_resources: SmallVec<[ScoredResource; 2]>,
    /// Of the resources of both.
    pub(crate) backed: SmallVec<[BackedResource; 1]>,
    /// Whether the pod requests any of the balanced resources: NodeResourcesBalancedAllocation skips it otherwise.
    pub(crate) balances: bool,
    pub(crate) images: ImageWorths,
    pub(crate) row_scores: RowScores,
    /// What judging a row takes that has no taints and no ports in use, in units of [`Work`](super::work::Work).
    pub(crate) cost: usize,
    scalars_version: u64,
    classes_version: u64,
    soft_taints: bool,
}

impl ResolvedPod {
    pub(crate) fn new(profile: &CompiledProfile, ledger: &Ledger, shape: &Arc<PodShape>) -> Self {
        Self::with_images(profile, ledger, shape, image_worths(shape, ledger))
    }

    /// As [`Self::new`], for [`image_worths`] that are known.
    pub(crate) fn with_images(
        profile: &CompiledProfile,
        ledger: &Ledger,
        shape: &Arc<PodShape>,
        images: ImageWorths,
    ) -> Self {
        Self::resolve(profile, ledger, shape.clone(), images, tolerates_cordon(shape))
    }

    /// Resolves again, for a shape that has in common with the last one what rows are asked, if the ledger has changed in what it
    /// depends on; returns whether any answer may differ now.
    ///
    /// It depends on the scalar columns, on DeviceClasses, on what the pod's images are worth, and on whether any node has a soft taint.
    pub(crate) fn refresh(
        &mut self,
        profile: &CompiledProfile,
        ledger: &Ledger,
        shape: &Arc<PodShape>,
        images: ImageWorths,
    ) -> bool {
        if !Arc::ptr_eq(&self.shape, shape) {
            self.shape = shape.clone();
        }
        let moved = self.scalars_version != ledger.nodes().scalars_version()
            || self.classes_version != ledger.devices().classes_version();
        let differs = self.soft_taints != ledger.nodes().has_soft_taints() || images != self.images;
        if !moved && !differs {
            return false;
        }
        let fresh = Self::resolve(profile, ledger, self.shape.clone(), images, self.tolerates_cordon);
        // Most pods name none of the resources whose columns moved: their answers stay good.
        let stale = differs || !self.has_columns_of(&fresh);
        *self = fresh;
        stale
    }

    fn has_columns_of(&self, other: &Self) -> bool {
        self.scalars == other.scalars
            && self.fit_resources == other.fit_resources
            && self.balanced_resources == other.balanced_resources
            && self.backed == other.backed
    }

    fn resolve(
        profile: &CompiledProfile,
        ledger: &Ledger,
        shape: Arc<PodShape>,
        images: ImageWorths,
        tolerates_cordon: bool,
    ) -> Self {
        let nodes = ledger.nodes();
        let requests = &shape.row.requests;
        let (classes, specs) = (ledger.device_classes(), ledger.devices().classes());
        let delegates = profile.filters.has(Plugin::DynamicResources);
        let scalars = (requests.scalars.iter().zip(Verdict::SCALARS..))
            .filter(|((name, amount), _)| *amount > 0 && !is_ignored(&profile.fit, name))
            .map(|((name, amount), bit)| ScalarRequest {
                scalar: nodes.scalar(name),
                amount: *amount,
                bit,
                is_delegated: delegates && classes.of_resource(name).is_some(),
            })
            .collect();
        let fit = &profile.fit;
        let weighed = fit.resources.iter().map(|r| (&r.name, r.weight));
        let unnamed = unnamed(fit, &shape.row.score_requests);
        let even = profile.balanced.iter().map(|name| (name, 1));
        let mut backed = SmallVec::new();
        let mut scored = |weights: &mut dyn Iterator<Item = (&Str, i64)>, requests| {
            let stands_for =
                |name: &Str| classes.of_resource(name).filter(|_| delegates).and_then(|class| specs.get(class));
            scored(weights, requests, nodes, &mut backed, stands_for)
        };
        let fit_resources = scored(&mut weighed.chain(unnamed), &shape.row.score_requests);
        let balanced_resources = scored(&mut { even }, requests);
        let soft_taints = nodes.has_soft_taints();
        let mut resolved = Self {
            tolerates_cordon,
            tolerated: Tolerated::new(&shape.row.tolerations),
            scalars,
            fit_resources,
            balanced_resources,
            backed,
            // Counts resources that no node has, too.
            balances: profile.balanced.iter().any(|name| requests.amount(name) != 0),
            cost: work_of(comparisons(profile, &shape) + images.len()),
            images,
            scalars_version: nodes.scalars_version(),
            classes_version: ledger.devices().classes_version(),
            soft_taints,
            row_scores: RowScores::default(),
            shape,
        };
        resolved.row_scores = RowScores::new(profile, &resolved, soft_taints);
        resolved
    }

    /// Whether the pod, or the profile for it, prefers some nodes by label.
    pub(crate) fn has_preferences(&self, profile: &CompiledProfile) -> bool {
        !self.shape.row.preferred_affinity.is_empty() || !profile.added_affinity.preferred.is_empty()
    }

    /// Whether the score counts devices for this pod, so that it looks beyond rows.
    pub(crate) fn counts_devices(&self, score: Score) -> bool {
        let resources = match score {
            Score::NodeResourcesFit => &self.fit_resources,
            Score::NodeResourcesBalancedAllocation => &self.balanced_resources,
            _ => return false,
        };
        resources.iter().any(|one| matches!(one.resource, Resource::Backed(_)))
    }

    /// Whether the score counts for this pod by rows alone; a skipped one contributes nothing at all.
    pub(crate) fn is_scored_by(&self, profile: &CompiledProfile, score: Score) -> bool {
        match score {
            _ if self.counts_devices(score) => false,
            Score::NodeAffinity => self.has_preferences(profile),
            Score::NodeResourcesBalancedAllocation => self.balances,
            Score::LabelPreference => !profile.legacy.label_preferences.is_empty(),
            // The relational scores decide by themselves.
            Score::PodTopologySpread
            | Score::InterPodAffinity
            | Score::SelectorSpread
            | Score::DynamicResources
            | Score::ScarceResourceAvoidance
            | Score::Fragmentation => false,
            _ => true,
        }
    }
}

/// How many comparisons judging one row for the pod may take, beside those of resources.
fn comparisons(profile: &CompiledProfile, shape: &PodShape) -> usize {
    let required = [&profile.added_affinity.required, &shape.row.required_affinity];
    let preferred = profile.added_affinity.preferred.iter().chain(&shape.row.preferred_affinity);
    let terms: usize = required.into_iter().flatten().map(NodeSelector::comparisons).sum();
    let wishes: usize = preferred.map(|PreferredTerm { term, .. }| term.comparisons()).sum();
    terms + wishes + shape.row.required_features.len() + NODE_LOOK_UP * shape.row.node_selector.len()
}

/// What the pod requests beside the resources that have a weight, where such resources count: with the weight that all of them have.
fn unnamed<'a>(fit: &'a FitArgs, requests: &'a Requests) -> impl Iterator<Item = (&'a Str, i64)> {
    static STORAGE: LazyLock<Str> = LazyLock::new(|| "ephemeral-storage".into());
    let storage = (requests.ephemeral_storage > 0).then(|| (&*STORAGE, 1));
    let scalars = requests.scalars.iter().filter(|(_, amount)| *amount > 0);
    let of = move |weight: i64| scalars.clone().map(move |(name, _)| (name, weight)).chain(storage);
    let all = fit.scalar_weight.into_iter().flat_map(of);
    all.filter(|(name, _)| fit.resources.iter().all(|r| r.name != **name))
}

/// The resources of `weights` that count for a pod with `requests`: a scalar that it does not request is left out.
///
/// After `calculateNodeAllocatableRequest` in `pkg/scheduler/framework/plugins/noderesources/resource_allocation.go`.
fn scored<'a, 'c>(
    weights: impl Iterator<Item = (&'a Str, i64)>,
    requests: &Requests,
    nodes: &NodeTable,
    backed: &mut SmallVec<[BackedResource; 1]>,
    stands_for: impl Fn(&Str) -> Option<&'c Arc<ClassSpec>>,
) -> SmallVec<[ScoredResource; 2]> {
    let mut scalar = |name: &Str| {
        let column = nodes.scalar(name);
        let Some(class) = stands_for(name) else { return column.map(Resource::Scalar) };
        let one = BackedResource { column, class: class.clone() };
        let place = backed.iter().position(|known| *known == one).unwrap_or_else(|| {
            backed.push(one);
            backed.len() - 1
        });
        u8::try_from(place).ok().map(Resource::Backed)
    };
    let resolve = |(name, weight): (&Str, i64)| {
        let request = requests.amount(name);
        let resource = match &**name {
            "cpu" => Resource::Cpu,
            "memory" => Resource::Memory,
            "ephemeral-storage" => Resource::Storage,
            _ if request == 0 => return None,
            _ => scalar(name)?,
        };
        Some(ScoredResource { resource, request, weight })
    };
    weights.filter_map(resolve).collect()
}

fn tolerates_cordon(shape: &PodShape) -> bool {
    let cordon =
        Taint { key: "node.kubernetes.io/unschedulable".into(), value: "".into(), effect: TaintEffect::NoSchedule };
    shape.row.tolerations.iter().any(|t| t.tolerates(&cordon))
}

/// What each image of the pod adds to the sum of ImageLocality: its size times the share of the nodes that have it.
///
/// One entry for each mention, so that two containers with one image count twice. None where no node has so much of them that its
/// score is above 0: then neither what they are nor where they are matters.
pub(crate) fn image_worths(shape: &PodShape, ledger: &Ledger) -> ImageWorths {
    let total = ledger.nodes().len() as f64;
    let worth = |name| {
        let image = ledger.images().find(name)?;
        let spread = ledger.images().spread(image);
        Some((image, (spread.size_bytes as f64 * (f64::from(spread.nodes) / total)) as i64))
    };
    let worths: ImageWorths = shape.images.iter().filter_map(|name| worth(name)).collect();
    if image_locality::is_worth_nothing(worths.iter().map(|(_, worth)| *worth)) { SmallVec::new() } else { worths }
}

/// Whether the profile leaves the fit of the scalar `name` unchecked; extended resources only, as upstream.
fn is_ignored(args: &FitArgs, name: &str) -> bool {
    let extended = !is_native(name);
    let group = || name.split_once('/').map_or(name, |(prefix, _)| prefix);
    extended
        && (args.ignored_resources.iter().any(|r| &**r == name)
            || args.ignored_resource_groups.iter().any(|g| &**g == group()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ResourceWeight;
    use crate::testing::{node, shape, with_row};

    #[test]
    fn what_a_pod_requests_beside_the_listed_resources_counts_if_scalars_have_a_weight() {
        let mut ledger = Ledger::new();
        let mut node = node("n", 4_000, 8 << 30, 110);
        node.allocatable.set_scalar("example.com/gpu".into(), 8);
        node.allocatable.set_scalar("example.com/nic".into(), 8);
        ledger.apply_node(&node);
        let shape = Arc::new(with_row(shape(), |row| {
            row.score_requests.ephemeral_storage = 7;
            for (name, amount) in [("example.com/gpu", 2), ("example.com/nic", 0), ("example.com/none", 1)] {
                row.score_requests.set_scalar(name.into(), amount);
            }
        }));
        let weights = |scalar_weight: Option<i64>, resources: &[&str]| {
            let mut profile = CompiledProfile::default_preset("test");
            profile.fit.scalar_weight = scalar_weight;
            profile.fit.resources.extend(resources.iter().map(|r| ResourceWeight { name: (*r).into(), weight: 3 }));
            let resolved = ResolvedPod::new(&profile, &ledger, &shape);
            resolved.fit_resources.iter().map(|r| (r.request, r.weight)).collect::<Vec<_>>()
        };
        let always = [(100, 1), (200 << 20, 1)];
        assert_eq!(weights(None, &[]), always);
        assert_eq!(weights(Some(10), &[])[2..], [(2, 10), (7, 1)]);
        assert_eq!(weights(Some(10), &["example.com/gpu", "ephemeral-storage"])[2..], [(2, 3), (7, 3)]);
    }

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
