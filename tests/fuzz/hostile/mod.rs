//! Hostile clusters: whatever an API server takes, each decision stays within its bounds of work and memory, and is the one
//! that a scheduler without a past comes to.
//!
//! ```text
//!  pods nodes   objects as an API server would take them, drawn from a string of bytes
//!  devices      slices, classes and claims, likewise
//!  decide       decodes them, lets a worker decide pod by pod, and measures each step
//!  bounds       what a step may take; what went beyond; the worst five
//!  long         `make fuzz`: any number of clusters of 1,000 nodes, with the time of each step
//! ```

mod bounds;
mod decide;
mod devices;
mod long;
mod nodes;
mod pods;

use crate::SEED;
use crate::choices::{Choices, strings};
use bounds::Figures;
use nodes::Kind;
use serde_json::Value;

/// The scheduler name of every pod.
const SCHEDULER: &str = "berth";

/// What etcd takes by default; the API server itself takes twice as much from a client.
const LARGEST_OBJECT: usize = 3 << 19;

/// One string of bytes is one cluster. Only what is counted is looked at: this runs on any machine, beside anything.
pub(crate) fn target(bytes: &[u8]) {
    let mut figures = Figures::counted();
    decide::run(&draw(bytes, None), &mut figures);
    let beyond = figures.beyond();
    assert!(beyond.is_empty(), "{}\nin the cluster of the bytes {bytes:02x?}", beyond.join("\n"));
}

/// The fixed strings that the fuzz target begins with have pods with claims in them that get their devices.
#[test]
fn some_pods_of_hostile_clusters_get_devices() {
    let mut figures = Figures::counted();
    for bytes in strings(SEED, 60) {
        decide::run(&draw(&bytes, None), &mut figures);
    }
    assert!(figures.reserved >= 10, "{} pods were given devices", figures.reserved);
}

/// What the objects of a cluster refer to.
#[derive(Debug)]
struct World {
    nodes: usize,
    /// Label keys that every node has.
    keys: usize,
}

impl World {
    fn node(&self, choices: &mut Choices<'_>) -> String {
        format!("node-{}", choices.below(self.nodes))
    }

    /// A label key of nodes, or one that no node has where there are no more.
    fn key(&self, number: usize) -> String {
        if number < self.keys { key(number) } else { format!("example.com/invented-{number}") }
    }
}

/// The label key of nodes with this number.
fn key(number: usize) -> String {
    format!("example.com/k{number}")
}

/// A cluster as texts: what an API server sends.
#[derive(Debug)]
struct Cluster {
    preset: u8,
    nodes: Vec<String>,
    others: Vec<Value>,
    placed: Vec<PodText>,
    pending: Vec<PodText>,
    /// Versions of one pod that follow each other, before anything is decided.
    edits: Vec<PodText>,
    /// Objects that are too large for an API server.
    refused: usize,
}

#[derive(Debug)]
struct PodText {
    uid: String,
    text: String,
}

/// Draws a cluster; `nodes` of them, or a few.
fn draw(bytes: &[u8], nodes: Option<usize>) -> Cluster {
    let choices = &mut Choices::new(bytes);
    let (count, placed, pending) = sizes(choices, nodes);
    let kind = Kind::draw(choices);
    let world = World { nodes: count, keys: kind.keys };
    let mut refused = 0;
    let mut fits = |text: &str| {
        let fits = text.len() <= LARGEST_OBJECT;
        refused += usize::from(!fits);
        fits
    };
    let preset = choices.byte();
    let mut others = nodes::others(choices, &world);
    let mut pending: Vec<Value> = (0..pending).map(|i| pods::pending(choices, &world, i)).collect();
    devices::add(bytes, &world, &mut others, &mut pending);
    let edits = edits(choices, &pending[0]);
    let placed: Vec<Value> = (0..placed).map(|i| pods::placed(choices, &world, i)).collect();
    let nodes = (0..count).map(|number| nodes::node(choices, kind, number).to_string());
    let nodes = nodes.filter(|text| fits(text)).collect();
    let mut texts = |pods: Vec<Value>| -> Vec<PodText> {
        let texts = pods
            .iter()
            .map(|pod| PodText { uid: pod["metadata"]["uid"].as_str().unwrap().to_owned(), text: pod.to_string() });
        texts.filter(|pod| fits(&pod.text)).collect()
    };
    let (placed, pending, edits) = (texts(placed), texts(pending), texts(edits));
    Cluster { preset, nodes, others, placed, pending, edits, refused }
}

/// How many nodes, placed pods and pending pods: mostly few.
fn sizes(choices: &mut Choices<'_>, nodes: Option<usize>) -> (usize, usize, usize) {
    let count = match (nodes, choices.byte()) {
        (Some(nodes), _) => nodes,
        (None, 0..=215) => 1 + choices.below(24),
        (None, 216..=245) => 50 + choices.below(70),
        (None, 246..=253) => 250,
        (None, _) => 1_000,
    };
    let placed = match choices.byte() {
        0..=199 => choices.below(16),
        200..=243 => 80,
        _ => 300,
    };
    let pending = if choices.one_in(24) { 60 } else { 1 + choices.below(6) };
    (count, placed, pending)
}

/// Somebody patches a pod, again and again: labels of a megabyte, each time others.
fn edits(choices: &mut Choices<'_>, pod: &Value) -> Vec<Value> {
    if !choices.one_in(48) {
        return Vec::new();
    }
    let count = choices.pick(&[20, 60, 120]);
    (0..count)
        .map(|version| {
            let mut pod = pod.clone();
            pod["metadata"]["labels"] = serde_json::json!({"app": "web"});
            pods::put_labels(&mut pod, 8_000, version);
            pod
        })
        .collect()
}
