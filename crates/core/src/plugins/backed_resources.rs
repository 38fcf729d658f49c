//! NodeResourcesFit and NodeResourcesBalancedAllocation for a pod that requests a resource for which a DeviceClass stands: where no device
//! plugin offers any, devices are counted. After `calculateResourceAllocatableRequest` in
//! `pkg/scheduler/framework/plugins/noderesources/resource_allocation.go`.

use super::context::{PluginContext, ResolvedPod, Stop, Work};
use super::dynamic_resources::LabelsOf;
use super::resolved_pod::BackedResource;
use super::work::SUMMED_PER_WORK;
use super::{balanced_allocation, node_resources_fit};
use crate::ledger::{Ledger, NodeId};
use crate::profile::Score;
use berth_devices::model::DeviceClass as ClassSpec;
use berth_devices::node_selector::Node;
use berth_devices::{Select, Totals};
use smallvec::SmallVec;
use std::sync::Arc;

/// What a node offers of a resource, and what is taken of it.
pub(super) type Amounts = (i64, i64);

/// Classes of which counts are kept, 40 bytes for each row; more while a pod asks for more.
const CLASSES_KEPT: usize = 4;

/// What was counted; only to be faster.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The class that was counted last comes first.
    classes: Vec<Counted>,
    labels_version: u64,
}

#[derive(Debug)]
struct Counted {
    class: Arc<ClassSpec>,
    rows: Vec<Row>,
}

/// The counts of one node.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    /// Of the node's devices.
    version: u64,
    totals: Totals,
    is_complete: bool,
}

impl Tables {
    /// Writes the scores of the `feasible` nodes into `out`. O(nodes), and O(devices of a node) for each on which devices were allocated
    /// or freed since.
    pub(super) fn score(
        &mut self,
        score: Score,
        (cx, pod): (PluginContext<'_>, &ResolvedPod),
        select: &mut dyn Select,
        feasible: &[NodeId],
        out: &mut Vec<i64>,
        work: &mut Work,
    ) -> Result<(), Stop> {
        let nodes = cx.ledger.nodes();
        if self.labels_version != cx.ledger.node_labels_version() {
            self.labels_version = cx.ledger.node_labels_version();
            self.classes.clear();
        }
        self.make_room(&pod.backed, nodes.rows(), work);
        for node in feasible {
            let mut amounts = |one| self.amounts(cx.ledger, *node, one, select, work);
            let backed: SmallVec<[Amounts; 1]> = pod.backed.iter().map(&mut amounts).collect::<Result<_, _>>()?;
            out.push(match score {
                Score::NodeResourcesFit => node_resources_fit::score(&cx.profile.fit, pod, nodes, *node, &backed),
                _ => balanced_allocation::score(pod, nodes, *node, &backed),
            });
        }
        Ok(())
    }

    fn amounts(
        &mut self,
        ledger: &Ledger,
        node: NodeId,
        resource: &BackedResource,
        select: &mut dyn Select,
        work: &mut Work,
    ) -> Result<Amounts, Stop> {
        let nodes = ledger.nodes();
        if let Some(column) = resource.column.filter(|column| nodes.scalar_allocatable(*column, node) != 0) {
            return Ok((nodes.scalar_allocatable(column, node), nodes.scalar_used(column, node)));
        }
        let version = ledger.devices().version_on(node);
        let known = self.classes.iter_mut().find(|known| Arc::ptr_eq(&known.class, &resource.class));
        let Some(row) = known.and_then(|known| known.rows.get_mut(node.index())) else { return Ok((0, 0)) };
        if row.version != version {
            *row = Row { version, ..Row::default() };
        }
        while !row.is_complete {
            work.take(1)?;
            count(ledger, node, &resource.class, row, select, work);
        }
        Ok((row.totals.devices, row.totals.allocated))
    }

    /// Keeps rows for the classes of these resources, which come first.
    fn make_room(&mut self, resources: &[BackedResource], rows: usize, work: &mut Work) {
        for resource in resources {
            if let Some(at) = self.classes.iter().position(|known| Arc::ptr_eq(&known.class, &resource.class)) {
                self.classes[..=at].rotate_right(1);
            } else {
                self.classes.insert(0, Counted { class: resource.class.clone(), rows: Vec::new() });
            }
            let known = &mut self.classes[0].rows;
            if known.len() < rows {
                work.spend((rows - known.len()) / SUMMED_PER_WORK);
                known.resize(rows, Row::default());
            }
        }
        self.classes.truncate(resources.len().max(CLASSES_KEPT));
    }
}

/// Counts on, until that is complete or `work` is used up.
fn count(ledger: &Ledger, node: NodeId, class: &ClassSpec, row: &mut Row, select: &mut dyn Select, work: &mut Work) {
    let (nodes, devices) = (ledger.nodes(), ledger.devices());
    let labels = LabelsOf(nodes.labels(node));
    let node = Node { name: nodes.name(node), labels: &labels };
    let of = (devices.slices(), devices.allocated());
    let (is_complete, _) = work.search_devices(|steps| row.totals.count(of, &node, class, select, steps));
    row.is_complete = is_complete;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::{Decision, Rng, Scheduler};
    use crate::device_testing::{allocated, claim, class, devices_of};
    use crate::ledger::PodState;
    use crate::model::{DeviceClass, ExtendedRequests, Pod};
    use crate::profile::{CompiledProfile, FitStrategy, ResourceWeight};
    use crate::testing::{node, pod, shape, with_row};

    use berth_cel::{Attribute, QualifiedName};

    const GPU: &str = "example.com/gpu";

    /// Nodes `a` with four devices, of which two are taken, and `b` with four of a device plugin, none of them taken.
    fn cluster() -> Ledger {
        let mut ledger = Ledger::new();
        ledger.apply_device_class(DeviceClass {
            extended_resource: Some(GPU.into()),
            ..class("gpu", Some("device.driver == 'd'"))
        });
        ledger.apply_node(&node("a", 4_000, 8 << 30, 100));
        ledger.apply_resource_slice(devices_of("a", &["0", "1", "2", "3"]));
        let mut plain = node("b", 4_000, 8 << 30, 100);
        plain.allocatable.set_scalar(GPU.into(), 4);
        ledger.apply_node(&plain);
        ledger.apply_resource_claim(allocated(claim("c1", 1), "a", "0", &["x"]));
        ledger.apply_resource_claim(allocated(claim("c2", 1), "a", "1", &["y"]));
        let requesting = with_row(shape(), |row| {
            row.requests.set_scalar(GPU.into(), 1);
            row.score_requests.set_scalar(GPU.into(), 1);
        });
        let container = ExtendedRequests {
            container: "main".into(),
            index: 0,
            is_short_lived: false,
            resources: vec![(GPU.into(), 1, 1)],
        };
        ledger.apply_pod(Pod { extended: Some([container].into()), ..pod("p", requesting) });
        ledger
    }

    fn profile(strategy: FitStrategy) -> CompiledProfile {
        let mut profile = CompiledProfile::default_preset("test");
        profile.fit.strategy = strategy;
        profile.fit.resources = vec![ResourceWeight { name: GPU.into(), weight: 1 }];
        profile.balanced = vec!["cpu".into(), GPU.into()];
        profile
    }

    fn scores(ledger: &Ledger, profile: &CompiledProfile, score: Score, part: usize) -> Vec<i64> {
        scores_of(ledger, profile, score, &mut super::super::Tables::default(), part)
    }

    fn scores_of(
        ledger: &Ledger,
        profile: &CompiledProfile,
        score: Score,
        tables: &mut super::super::Tables,
        part: usize,
    ) -> Vec<i64> {
        let Some(PodState::Pending(pod)) = ledger.pod("p").cloned() else { panic!("it waits") };
        let (cx, resolved) = (PluginContext { profile, ledger }, ResolvedPod::new(profile, ledger, &pod.shape));
        assert!(resolved.counts_devices(score));
        let order: Vec<NodeId> = ["a", "b", "c"].iter().filter_map(|name| ledger.nodes().find(name)).collect();
        let mut out = Vec::new();
        while tables.score(score, cx, &resolved, &order, &mut out, &mut Work::of(part)) != Ok(true) {}
        out
    }

    /// The node that the pod goes to.
    fn chosen(scheduler: &mut Scheduler, ledger: &Ledger) -> String {
        let Some(PodState::Pending(pod)) = ledger.pod("p").cloned() else { panic!("it waits") };
        let Decision::Place(proposal) = scheduler.decide(ledger, &pod) else { panic!("it fits") };
        ledger.nodes().name(proposal.node).to_string()
    }

    #[test]
    fn devices_count_as_what_a_device_plugin_offers_does() {
        let ledger = cluster();
        for part in [1, 1_000] {
            let of = |strategy, score| scores(&ledger, &profile(strategy), score, part);
            assert_eq!(of(FitStrategy::LeastAllocated, Score::NodeResourcesFit), [25, 75]);
            assert_eq!(of(FitStrategy::MostAllocated, Score::NodeResourcesFit), [75, 25]);
            // 0.5 and 0.75 of the devices, 0 and 0 of the cpu: deviation 0.25 and 0.375; with none taken 0 and 0.125.
            assert_eq!(of(FitStrategy::LeastAllocated, Score::NodeResourcesBalancedAllocation), [68, 68]);
        }
    }

    #[test]
    fn a_pod_goes_where_more_devices_are_taken_under_most_allocated() {
        let mut ledger = cluster();
        let profile = Arc::new(profile(FitStrategy::MostAllocated));
        let mut scheduler = Scheduler::new(profile, 1);
        assert_eq!(chosen(&mut scheduler, &ledger), "a");
        ledger.delete_resource_claim("default/c1");
        ledger.delete_resource_claim("default/c2");
        let holding = with_row(shape(), |row| row.requests.set_scalar(GPU.into(), 2));
        ledger.apply_pod(Pod { node_name: Some("b".into()), ..pod("q", holding) });
        assert_eq!(chosen(&mut scheduler, &ledger), "b");
    }

    #[test]
    fn a_pod_that_asks_for_more_classes_than_are_kept_is_scored_all_the_same() {
        let mut ledger = cluster();
        let mut profile = profile(FitStrategy::LeastAllocated);
        let mut requesting = shape();
        let mut slice = devices_of("a", &["0", "1", "2", "3"]);
        slice.devices[3].attributes = vec![(QualifiedName::parse("kind"), Attribute::Int(1))];
        ledger.apply_resource_slice(slice);
        for i in 0..6 {
            let name = format!("example.com/x{i}");
            let selector = if i == 0 { "has(device.attributes['d'].kind)" } else { "device.driver == 'd'" };
            let standing = class(&format!("c{i}"), Some(selector));
            ledger.apply_device_class(DeviceClass { extended_resource: Some((&*name).into()), ..standing });
            requesting = with_row(requesting, |row| row.score_requests.set_scalar((&*name).into(), 1));
            profile.fit.resources.push(ResourceWeight { name: (&*name).into(), weight: 1 });
        }
        ledger.apply_pod(pod("p", requesting));
        // Of one class no device would be left, of five a quarter.
        assert_eq!(scores(&ledger, &profile, Score::NodeResourcesFit, 1), [20, 0]);
    }

    #[test]
    fn a_class_that_selects_others_now_is_counted_anew() {
        let mut ledger = cluster();
        let profile = Arc::new(profile(FitStrategy::LeastAllocated));
        let mut scheduler = Scheduler::new(profile, 1);
        // The answers of a shape are kept from the second time on.
        let mut thrice = |ledger: &Ledger| [(); 3].map(|()| chosen(&mut scheduler, ledger));
        ledger.delete_resource_claim("default/c1");
        ledger.delete_resource_claim("default/c2");
        let mut slice = devices_of("a", &["0", "1", "2", "3"]);
        slice.devices[0].attributes = vec![(QualifiedName::parse("kind"), Attribute::Int(1))];
        ledger.apply_resource_slice(slice);
        let holding = with_row(shape(), |row| row.requests.set_scalar(GPU.into(), 1));
        ledger.apply_pod(Pod { node_name: Some("b".into()), ..pod("q", holding) });
        assert_eq!(thrice(&ledger), ["a"; 3]);
        let one = class("gpu", Some("has(device.attributes['d'].kind)"));
        ledger.apply_device_class(DeviceClass { extended_resource: Some(GPU.into()), ..one });
        assert_eq!(thrice(&ledger), ["b"; 3], "of one device nothing would be left");
    }

    /// One change of what is counted, or of something beside it.
    fn change(rng: &mut Rng, ledger: &mut Ledger) {
        let on = ["a", "b", "c"][rng.below(3) as usize];
        let device = ["0", "1", "2", "3"][rng.below(4) as usize];
        match rng.below(8) {
            0 => {
                let mut drawn = node(on, 4_000, 8 << 30, 100);
                drawn.allocatable.set_scalar(GPU.into(), [0, 0, 4][rng.below(3) as usize]);
                drawn.labels = [("zone", ["x", "y"][rng.below(2) as usize])].into_iter().collect();
                ledger.apply_node(&drawn);
            }
            1 | 2 => {
                let count = rng.below(5) as usize;
                let mut slice = devices_of(on, &["0", "1", "2", "3"][..count]);
                for device in &mut slice.devices {
                    device.attributes = vec![(QualifiedName::parse("kind"), Attribute::Int(rng.below(2) as i64))];
                }
                ledger.apply_resource_slice(slice);
            }
            3 if rng.below(3) == 0 => {
                let selects = ["device.driver == 'd'", "device.attributes['d'].kind == 1"][rng.below(2) as usize];
                let standing = class("gpu", Some(selects));
                ledger.apply_device_class(DeviceClass { extended_resource: Some(GPU.into()), ..standing });
            }
            4 => ledger.delete_resource_claim(&format!("default/{on}-{device}")),
            5 => {
                let holding = with_row(shape(), |row| row.requests.set_scalar(GPU.into(), 1));
                ledger.apply_pod(Pod { node_name: Some(on.into()), ..pod(&format!("holds-{device}"), holding) });
            }
            _ => ledger.apply_resource_claim(allocated(claim(&format!("{on}-{device}"), 1), on, device, &["x"])),
        }
    }

    /// 100 sequences of 60 changes. What was counted is looked at in parts of any size, and by both scores.
    #[test]
    fn a_kept_count_is_what_a_fresh_look_counts() {
        let mut different = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let (mut rng, mut ledger) = (Rng::seeded(seed), cluster());
            ledger.apply_node(&node("c", 4_000, 8 << 30, 100));
            let profile = profile(FitStrategy::MostAllocated);
            let mut kept = super::super::Tables::default();
            for step in 0..60 {
                change(&mut rng, &mut ledger);
                let score = [Score::NodeResourcesFit, Score::NodeResourcesBalancedAllocation][rng.below(2) as usize];
                let part = 1 + rng.below(4) as usize;
                let got = scores_of(&ledger, &profile, score, &mut kept, part);
                assert_eq!(got, scores(&ledger, &profile, score, 1_000), "seed {seed}, step {step}");
                different.insert(got);
            }
        }
        assert!(different.len() > 50, "{} different answers", different.len());
    }
}
