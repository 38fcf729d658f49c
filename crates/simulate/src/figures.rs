//! How full, spread and fragmented a cluster is.

use berth_core::ledger::Ledger;
use berth_core::model::{Pod, Str, ZONE};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A part of a whole, both in the same unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Share {
    pub part: i64,
    pub of: i64,
}

impl Share {
    fn add(&mut self, part: i64, of: i64) {
        self.part = self.part.saturating_add(part);
        self.of = self.of.saturating_add(of);
    }

    /// In thousandths, rounded down; 0 of nothing.
    pub fn permille(self) -> i64 {
        (i128::from(self.part) * 1_000 / i128::from(self.of.max(1))) as i64
    }
}

/// CPU in thousandths of a core, memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CpuAndMemory<T> {
    pub cpu: T,
    pub memory: T,
}

/// A cluster in figures, with regard to some of its pods.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Nodes that have one of the pods.
    pub nodes_used: Share,
    /// What all pods take of what these nodes offer.
    pub requested: CpuAndMemory<Share>,
    /// Workloads with several of the pods, as their controllers tell them apart, and those of them with all pods on one node.
    pub on_one_node: Share,
    /// The same for zones, of the workloads with a pod on a node that has a zone.
    pub in_one_zone: Share,
    /// What nine of ten of the pods that are placed anew do not exceed, whether they find a node or not.
    pub typical: CpuAndMemory<i64>,
    /// What is free, and the part of it on nodes that have no room for a pod of that size.
    pub stranded: CpuAndMemory<Share>,
}

/// What nine of ten of `pods` do not exceed.
pub(crate) fn typical(pods: &[Pod]) -> CpuAndMemory<i64> {
    let of = |amount: fn(&Pod) -> i64| nine_of_ten(pods.iter().map(amount).collect());
    CpuAndMemory { cpu: of(|pod| pod.usage.requests.milli_cpu), memory: of(|pod| pod.usage.requests.memory) }
}

/// The figures of a cluster with regard to `pods`, each with its node; what is stranded is that for pods of the size `typical`.
pub(crate) fn of<'p>(
    ledger: &Ledger,
    pods: impl Iterator<Item = (&'p Pod, &'p Str)>,
    typical: CpuAndMemory<i64>,
) -> Figures {
    let pods: Vec<(&Pod, &Str)> = pods.collect();
    let used: BTreeSet<&Str> = pods.iter().map(|(_, node)| *node).collect();
    let mut figures = Figures { typical, ..Figures::default() };
    let nodes = ledger.nodes();
    for node in ledger.node_order() {
        let (offered, taken) = nodes.amounts(node);
        let is_used = used.contains(nodes.name(node));
        figures.nodes_used.add(i64::from(is_used), 1);
        if is_used {
            figures.requested.cpu.add(taken.milli_cpu, offered.milli_cpu);
            figures.requested.memory.add(taken.memory, offered.memory);
        }
        let free = |offered: i64, taken: i64| offered.saturating_sub(taken).max(0);
        let (cpu, memory) = (free(offered.milli_cpu, taken.milli_cpu), free(offered.memory, taken.memory));
        let is_stranded = cpu < typical.cpu || memory < typical.memory;
        figures.stranded.cpu.add(if is_stranded { cpu } else { 0 }, cpu);
        figures.stranded.memory.add(if is_stranded { memory } else { 0 }, memory);
    }
    figures.on_one_node = in_one(&pods, Some);
    figures.in_one_zone = in_one(&pods, |node| nodes.find(node).and_then(|node| nodes.labels(node).get(ZONE)));
    figures
}

/// How many workloads with several pods have all of them in one place, of those that have a place.
fn in_one<'a>(pods: &[(&'a Pod, &'a Str)], place: impl Fn(&'a Str) -> Option<&'a Str>) -> Share {
    let mut workloads: BTreeMap<&Str, (usize, BTreeSet<&Str>)> = BTreeMap::new();
    for (pod, node) in pods {
        if let (Some(owner), Some(place)) = (&pod.shape.controller, place(node)) {
            let (count, places) = workloads.entry(&owner.uid).or_default();
            *count += 1;
            places.insert(place);
        }
    }
    let mut share = Share::default();
    for (_, places) in workloads.into_values().filter(|(count, _)| *count > 1) {
        share.add(i64::from(places.len() == 1), 1);
    }
    share
}

/// The least value that nine of ten do not exceed; 0 of none.
fn nine_of_ten(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    let at = (values.len() * 9).div_ceil(10).saturating_sub(1);
    values.get(at).copied().unwrap_or_default()
}
