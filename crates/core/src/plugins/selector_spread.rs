//! SelectorSpread of the Policy era: prefers nodes and zones with fewer pods of the same Services and controllers.
//! After `pkg/scheduler/framework/plugins/selectorspread` of 1.22.

use super::cache::{ByShape, CacheKey};
use super::context::{MAX_NODE_SCORE, PluginContext, ResolvedPod, Stop, WORK_PER_ZONE_READ, Work};
use super::counts::{Alike, Counters};
use crate::ledger::{Ledger, NodeId, Workloads};
use crate::model::{LabelSelector, PodShape, Requirement, Str};
use crate::profile::LegacyArgs;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The zone's part of a score; the rest is the node's.
const ZONE_PART: f64 = 2.0 / 3.0;

#[derive(Debug, Default)]
pub(crate) struct Tables {
    alike: ByShape<Option<Arc<CacheKey<Alike>>>>,
    counters: Counters,
    zones: Zones,
}

type RegionAndZone = (Option<Str>, Option<Str>);

/// The zone of each row by number, 0 for none, as of one version of the nodes' labels.
#[derive(Debug, Default)]
struct Zones {
    of_row: Vec<u32>,
    count: usize,
    labels_version: u64,
    sums: Vec<i64>,
}

impl Zones {
    fn follow(&mut self, ledger: &Ledger, work: &mut Work) -> Result<(), Stop> {
        let rows = ledger.nodes().rows();
        if self.labels_version == ledger.node_labels_version() && self.of_row.len() == rows {
            return Ok(());
        }
        work.take(rows * WORK_PER_ZONE_READ)?;
        self.labels_version = ledger.node_labels_version();
        let mut numbers: FxHashMap<CacheKey<RegionAndZone>, u32> = FxHashMap::default();
        let mut number = |node: NodeId| match ledger.region_and_zone(node) {
            (None, None) => 0,
            zone => {
                let next = numbers.len() as u32 + 1;
                *numbers.entry(CacheKey::new(ledger, zone, 0)).or_insert(next)
            }
        };
        self.of_row = (0..rows).map(|row| number(NodeId::new(row as u32))).collect();
        self.count = numbers.len();
        Ok(())
    }

    fn of(&self, node: NodeId) -> usize {
        self.of_row.get(node.index()).copied().unwrap_or(0) as usize
    }

    /// Turns counts by node into scores.
    fn spread(&mut self, feasible: &[NodeId], counts: &mut [i64]) {
        let mut sums = std::mem::take(&mut self.sums);
        sums.clear();
        sums.resize(self.count + 1, 0);
        let mut zoned = false;
        for (node, count) in feasible.iter().zip(counts.iter()) {
            zoned |= self.of(*node) != 0;
            sums[self.of(*node)] += count;
        }
        let most = counts.iter().copied().max().unwrap_or(0);
        let most_in_zone = sums.iter().skip(1).copied().max().unwrap_or(0);
        for (node, count) in feasible.iter().zip(counts.iter_mut()) {
            let mut score = part(*count, most);
            let zone = self.of(*node);
            if zoned && zone != 0 {
                score = score * (1.0 - ZONE_PART) + ZONE_PART * part(sums[zone], most_in_zone);
            }
            *count = score as i64;
        }
        self.sums = sums;
    }
}

impl Tables {
    pub(crate) fn age(&mut self) {
        self.counters.age();
    }

    /// Writes the scores of the `feasible` nodes into `out`. False for a pod that has spread constraints of its own.
    pub(crate) fn score(
        &mut self,
        cx: PluginContext<'_>,
        pod: &ResolvedPod,
        feasible: &[NodeId],
        out: &mut Vec<i64>,
        work: &mut Work,
    ) -> Result<bool, Stop> {
        let (ledger, shape) = (cx.ledger, &pod.shape);
        if !shape.spread.is_empty() {
            return Ok(false);
        }
        let version = ledger.workloads_version(&shape.namespace);
        let alike = self.alike.get(shape, version, || {
            work.spend(ledger.workloads(&shape.namespace).map_or(0, Workloads::len));
            let alike = alike(ledger, shape, &cx.profile.legacy);
            let bytes = alike.as_ref().map_or(0, |alike| alike.bytes());
            (alike, bytes)
        });
        self.counters.catch_up(ledger, work)?;
        let counts = match alike.as_ref() {
            Some(alike) => {
                let counter = self.counters.get_by_node(ledger, alike, work)?;
                self.counters.by_node(counter)
            }
            None => &[],
        };
        self.zones.follow(ledger, work)?;
        out.clear();
        out.extend(feasible.iter().map(|node| i64::from(counts.get(node.index()).copied().unwrap_or(0))));
        self.zones.spread(feasible, out);
        Ok(true)
    }
}

/// The highest score for a count of 0, and 0 for the highest count.
fn part(count: i64, most: i64) -> f64 {
    let highest = MAX_NODE_SCORE as f64;
    if most > 0 { highest * ((most - count) as f64 / most as f64) } else { highest }
}

/// The pods that count as the pod's own kind; none where nothing selects the pod.
///
/// The selectors are those of Services, ReplicationControllers, ReplicaSets and StatefulSets that select the pod. All must
/// match; a Service without requirements then says nothing. Until 1.13 one match was enough.
fn alike(ledger: &Ledger, shape: &PodShape, args: &LegacyArgs) -> Option<Arc<CacheKey<Alike>>> {
    let workloads = ledger.workloads(&shape.namespace)?;
    let mut selectors: Vec<LabelSelector> = workloads.services_of(&shape.labels).map(LabelSelector::from).collect();
    if !args.spread_services_only {
        selectors.extend(workloads.controllers_of(&shape.labels).cloned());
    }
    if !args.spread_any_selector {
        let mut requirements: Vec<Requirement> = selectors.into_iter().flat_map(|s| s.requirements).collect();
        // A thousand Services may all ask for the same label.
        requirements.sort_by(|a, b| (&a.key, &a.values).cmp(&(&b.key, &b.values)));
        requirements.dedup();
        selectors = if requirements.is_empty() { Vec::new() } else { vec![LabelSelector { requirements }] };
    }
    (!selectors.is_empty()).then(|| Alike { namespace: shape.namespace.clone(), selectors }.into_key(ledger))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Labels, Pod, Service, Workload, WorkloadKind};
    use crate::profile::CompiledProfile;
    use crate::testing::{node, pod, shape};

    fn web() -> PodShape {
        PodShape { labels: [("app", "web"), ("tier", "front")].into_iter().collect(), ..shape() }
    }

    fn cluster(zones: &[Option<&str>]) -> Ledger {
        let mut ledger = Ledger::new();
        for (i, zone) in zones.iter().enumerate() {
            let mut node = node(&format!("n{i}"), 4000, 1 << 32, 110);
            node.labels = zone.iter().map(|zone| ("topology.kubernetes.io/zone", *zone)).collect();
            ledger.apply_node(&node);
        }
        ledger
    }

    fn place(ledger: &mut Ledger, node: &str, count: usize, change: impl Fn(&mut Pod)) {
        for _ in 0..count {
            let mut placed = pod(&format!("p{}", ledger.version()), web());
            placed.node_name = Some(node.into());
            change(&mut placed);
            ledger.apply_pod(placed);
        }
    }

    fn service(ledger: &mut Ledger, name: &str, selector: &[(&str, &str)]) {
        let selector: Labels = selector.iter().copied().collect();
        ledger.apply_service(Service { namespace: "default".into(), name: name.into(), selector: Some(selector) });
    }

    fn scores(ledger: &Ledger, shape: PodShape) -> Option<Vec<i64>> {
        scores_with(ledger, shape, LegacyArgs::default())
    }

    fn scores_with(ledger: &Ledger, shape: PodShape, legacy: LegacyArgs) -> Option<Vec<i64>> {
        let profile = CompiledProfile { legacy, ..CompiledProfile::default_preset("test") };
        let (cx, mut out) = (PluginContext { profile: &profile, ledger }, Vec::new());
        let resolved = ResolvedPod::new(&profile, ledger, &Arc::new(shape));
        let runs = Tables::default().score(cx, &resolved, &ledger.node_order(), &mut out, &mut Work::unbounded());
        (runs == Ok(true)).then_some(out)
    }

    #[test]
    fn two_thirds_of_a_score_are_the_zones() {
        let mut ledger = cluster(&[Some("z1"), Some("z1"), Some("z2")]);
        service(&mut ledger, "s", &[("app", "web")]);
        place(&mut ledger, "n0", 2, |_| ());
        place(&mut ledger, "n1", 1, |_| ());
        let order: Vec<usize> = ledger.node_order().iter().map(|n| n.index()).collect();
        assert_eq!(order, [0, 2, 1]);
        assert_eq!(scores(&ledger, web()), Some(vec![0, 100, 16]));
    }

    #[test]
    fn pods_count_that_live_in_the_namespace_and_match_all_selectors() {
        let mut ledger = cluster(&[None, None, None]);
        place(&mut ledger, "n0", 4, |_| ());
        assert_eq!(scores(&ledger, web()), Some(vec![100; 3]), "nothing selects the pod");
        service(&mut ledger, "s", &[("app", "web")]);
        service(&mut ledger, "other", &[("app", "db")]);
        assert_eq!(scores(&ledger, web()), Some(vec![0, 100, 100]), "no zones: the node alone");
        place(&mut ledger, "n1", 2, |_| ());
        place(&mut ledger, "n1", 3, |p| p.deleting = true);
        place(&mut ledger, "n2", 9, |p| Arc::make_mut(&mut p.shape).namespace = "other".into());
        assert_eq!(scores(&ledger, web()), Some(vec![0, 50, 100]), "the same namespace, not being deleted");
        replica_set(&mut ledger, &[("tier", "front")]);
        place(&mut ledger, "n2", 4, relabel(&[("app", "web"), ("tier", "back")]));
        assert_eq!(scores(&ledger, web()), Some(vec![0, 50, 100]), "all selectors must match");
    }

    fn replica_set(ledger: &mut Ledger, selector: &[(&str, &str)]) {
        let labels: Labels = selector.iter().copied().collect();
        let selector = Some(LabelSelector::from(&labels));
        let (kind, namespace, name) = (WorkloadKind::ReplicaSet, "default".into(), "rs".into());
        ledger.apply_controller(Workload { kind, namespace, name, selector });
    }

    fn relabel(labels: &[(&str, &str)]) -> impl Fn(&mut Pod) {
        move |pod| Arc::make_mut(&mut pod.shape).labels = labels.iter().copied().collect()
    }

    /// One pod that both select on n0, two that the Service alone selects on n1, four that the ReplicaSet alone does on n2.
    fn service_and_replica_set() -> Ledger {
        let mut ledger = cluster(&[None, None, None]);
        service(&mut ledger, "s", &[("app", "web")]);
        replica_set(&mut ledger, &[("tier", "front")]);
        place(&mut ledger, "n0", 1, |_| ());
        place(&mut ledger, "n1", 2, relabel(&[("app", "web"), ("tier", "back")]));
        place(&mut ledger, "n2", 4, relabel(&[("app", "old"), ("tier", "front")]));
        ledger
    }

    #[test]
    fn service_spreading_counts_by_services_alone() {
        let ledger = service_and_replica_set();
        assert_eq!(scores(&ledger, web()), Some(vec![0, 100, 100]), "of 1, 0, 0");
        let services_only = LegacyArgs { spread_services_only: true, ..LegacyArgs::default() };
        assert_eq!(scores_with(&ledger, web(), services_only), Some(vec![50, 0, 100]), "of 1, 2, 0");
    }

    #[test]
    fn until_1_13_a_pod_counts_that_any_selector_matches() {
        let mut ledger = service_and_replica_set();
        let any = LegacyArgs { spread_any_selector: true, ..LegacyArgs::default() };
        assert_eq!(scores_with(&ledger, web(), any.clone()), Some(vec![75, 50, 0]), "of 1, 2, 4");
        let no_label = PodShape { labels: Labels::none(), ..web() };
        assert_eq!(scores_with(&ledger, no_label.clone(), any.clone()), Some(vec![100; 3]), "nothing selects the pod");
        service(&mut ledger, "all", &[]);
        assert_eq!(scores_with(&ledger, no_label, any), Some(vec![75, 50, 0]), "a Service that selects every pod");
    }

    #[test]
    fn zones_count_where_the_node_has_one() {
        let mut ledger = cluster(&[Some("z1"), None]);
        service(&mut ledger, "s", &[("app", "web")]);
        place(&mut ledger, "n0", 1, |_| ());
        place(&mut ledger, "n1", 2, |_| ());
        let names: Vec<String> = ledger.node_order().iter().map(|n| ledger.nodes().name(*n).to_string()).collect();
        assert_eq!(names, ["n0", "n1"]);
        assert_eq!(scores(&ledger, web()), Some(vec![16, 0]), "50 by node and 0 by zone; 0 by node alone");
    }

    #[test]
    fn a_pod_with_constraints_of_its_own_is_skipped() {
        let ledger = cluster(&[None]);
        let spread = super::super::pod_topology_spread::tests::constraint("zone", 1, true, "web");
        assert_eq!(scores(&ledger, PodShape { spread: vec![spread], ..web() }), None);
    }
}
