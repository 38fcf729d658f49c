//! Scores that see accelerators, on a cluster of nodes with eight each.

use crate::decode;
use crate::devices::{SEVERAL, place_alone};
use crate::manifests::{self, PodSpec};
use crate::report::Row;
use crate::workloads::NO_ZONE;
use crate::{Prepared, RESOURCE};
use berth_core::profile::CompiledProfile;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const ROWS: &[Row] = &[
    Row { name: "packing: Fragmentation, 5,000 nodes of 8", long: false, run: |name| place(name, &fragmentation()) },
    Row { name: "packing: Fragmentation, claims, 5,000 nodes of 8", long: false, run: place_claims },
    Row {
        name: "packing: BinPack, 5,000 nodes of 8",
        long: false,
        run: |name| place(name, &json!({"preset": "BinPack"})),
    },
];

fn fragmentation() -> Value {
    json!({"scores": [{"name": "Fragmentation", "weight": 10}]})
}

/// Half of the nodes have accelerators.
fn node(i: usize) -> Value {
    let mut node = manifests::node(i, NO_ZONE, 0);
    if i.is_multiple_of(2) {
        node["status"]["allocatable"][RESOURCE] = json!("8");
    }
    node
}

/// Of ten pods two ask for no accelerator, five for one, and the others for two, four and eight.
fn pod(i: usize) -> PodSpec {
    let accelerators = [0, 1, 1, 2, 1, 0, 4, 1, 8, 1][i % 10];
    let mut requests = json!({"cpu": "100m", "memory": "500Mi"});
    if accelerators > 0 {
        requests[RESOURCE] = json!(accelerators.to_string());
    }
    let container = json!({"name": "main", "image": "registry.example/pause:3", "resources": {"requests": requests}});
    PodSpec::basic().asking(json!({"containers": [container]}))
}

fn place(name: &str, spec: &Value) {
    let cluster = decode((0..5_000).map(node));
    let pods = decode((0..10_000).map(|i| pod(i).manifest(i, None))).pods;
    place_alone(name, &Prepared { cluster, pods, changed: Vec::new(), profile: profile(spec) });
}

/// All nodes have accelerators behind slices, and pods ask for them by claims.
fn place_claims(name: &str) {
    place_alone(name, &Prepared { profile: profile(&fragmentation()), ..SEVERAL.prepared() });
}

fn profile(spec: &Value) -> Arc<CompiledProfile> {
    let spec = serde_json::from_value(spec.clone()).expect("a spec");
    Arc::new(berth_profile::compile("bench", &spec).expect("it compiles"))
}
