//! What a whole cluster takes in memory. Each row is loaded by a process of its own: another row's leavings would count.

use crate::manifests::{self, PodSpec, with_images};
use crate::report::{Row, line};
use crate::workloads::PLAIN;
use berth_cluster::decode::Decoder;
use berth_cluster::manifest::from_manifest;
use berth_core::ledger::Ledger;
use berth_telemetry::ProcessStats;
use serde_json::{Value, json};
use std::process::Command;
use std::time::Instant;

/// The row that this process is to load.
const LOADS: &str = "BERTH_BENCH_LOADS";

struct Load {
    name: &'static str,
    nodes: usize,
    pods: usize,
    /// On each node.
    images: usize,
    /// Whether each pod has labels of its own.
    own_labels: bool,
    /// On each node, by a slice.
    devices: usize,
}

const SMALL: Load = Load {
    name: "memory of 10,000 nodes and 100,000 pods with labels of their own, 50 images a node",
    nodes: 10_000,
    pods: 100_000,
    images: 50,
    own_labels: true,
    devices: 0,
};
const LARGE: Load = Load {
    name: "memory of 100,000 nodes and 1,000,000 pods with labels of their own, 50 images a node",
    nodes: 100_000,
    pods: 1_000_000,
    ..SMALL
};
const LARGE_EQUAL: Load =
    Load { name: "memory of 100,000 nodes and 1,000,000 equal pods, no images", images: 0, own_labels: false, ..LARGE };
const TINY: Load =
    Load { name: "memory of 1,000 nodes and 10,000 pods, as above", nodes: 1_000, pods: 10_000, ..SMALL };
const MIDDLE: Load =
    Load { name: "memory of 5,000 nodes and 50,000 pods, as above", nodes: 5_000, pods: 50_000, ..SMALL };
const DENSE: Load = Load { name: "memory of 5,000 nodes and 150,000 pods, as above", pods: 150_000, ..MIDDLE };
const DEVICES: Load =
    Load { name: "memory of 5,000 nodes and 50,000 pods, as above, and 8 devices a node", devices: 8, ..MIDDLE };
const LOADED: [&Load; 7] = [&SMALL, &LARGE, &LARGE_EQUAL, &TINY, &MIDDLE, &DENSE, &DEVICES];

pub(crate) const ROWS: &[Row] = &[
    Row { name: SMALL.name, long: false, run: in_a_process },
    Row { name: LARGE.name, long: true, run: in_a_process },
    Row { name: LARGE_EQUAL.name, long: true, run: in_a_process },
];

/// How memory grows with the cluster.
pub(crate) fn grow(_: &'static str) {
    for load in [&TINY, &MIDDLE, &DENSE, &DEVICES, &SMALL, &LARGE] {
        in_a_process(load.name);
    }
}

fn in_a_process(name: &'static str) {
    let binary = std::env::current_exe().expect("the path of this program");
    let ended = Command::new(binary).env(LOADS, name).status().expect("this program again");
    assert!(ended.success(), "{name}: {ended}");
}

/// Loads what this process was started for, if it was started for that.
pub(crate) fn load_if_asked() -> bool {
    let Ok(name) = std::env::var(LOADS) else { return false };
    let load = LOADED.into_iter().find(|load| load.name == name).expect("a row by that name");
    let began = Instant::now();
    let ledger = load.ledger();
    let took = began.elapsed();
    let resident = ProcessStats::read().expect("Linux says what a process takes").resident_bytes;
    line(&name, &format!("{} MiB resident, {} nodes, built in {took:.1?}", resident / (1 << 20), ledger.nodes().len()));
    true
}

impl Load {
    fn ledger(&self) -> Ledger {
        let (mut decoder, mut ledger) = (Decoder::default(), Ledger::new());
        let nodes = (0..self.nodes).map(|i| {
            let images: Vec<usize> = (0..self.images).map(|k| (i * 7 + k * k) % 2_000).collect();
            with_images(manifests::node(i, PLAIN.zones, 0), &images)
        });
        let pods = (0..self.pods).map(|i| self.pod(i));
        let slices =
            (0..self.nodes).filter(|_| self.devices > 0).map(|i| full_slice(&format!("node-{i:05}"), self.devices));
        for manifest in nodes.chain(pods).chain(slices) {
            for object in from_manifest(&mut decoder, &manifest) {
                object.expect("a manifest of the benchmark decodes").apply(&mut ledger);
            }
        }
        ledger
    }

    fn pod(&self, i: usize) -> Value {
        let mut labels = json!({"app": "web"});
        if self.own_labels {
            labels["statefulset.kubernetes.io/pod-name"] = json!(format!("web-{i}"));
            labels["apps.kubernetes.io/pod-index"] = json!(i.to_string());
        }
        let owner = Some(("StatefulSet", "web".to_owned()));
        PodSpec { labels, owner, ..PodSpec::basic() }.manifest(i, Some(format!("node-{:05}", i % self.nodes)))
    }
}

/// Devices with what a driver of accelerators tells of each: ten attributes, of which three are its own, and two capacities.
fn full_slice(node: &str, count: usize) -> Value {
    let device = |i: usize| {
        json!({
            "name": format!("gpu-{i}"),
            "attributes": {
                "uuid": {"string": format!("GPU-{node}-{i}-4b1d-9c55-0242ac120002")}, "index": {"int": i}, "minor": {"int": i},
                "pciBusID": {"string": format!("0000:{i:02x}:00.0")}, "productName": {"string": "NVIDIA A100-SXM4-80GB"},
                "brand": {"string": "Nvidia"}, "architecture": {"string": "Ampere"}, "type": {"string": "gpu"},
                "driverVersion": {"version": "550.54.15"}, "cudaComputeCapability": {"version": "8.0.0"},
            },
            "capacity": {"memory": {"value": "80Gi"}, "multiprocessors": {"value": "108"}},
        })
    };
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("{node}-slice")},
        "spec": {
            "driver": "gpu.example.com", "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": (0..count).map(device).collect::<Value>(),
        },
    })
}
