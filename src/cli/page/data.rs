//! What the page shows: columns of numbers, and one table of texts. A cluster of 5,000 nodes and 50,000 pods takes a few MB.
//!
//! Nodes and pods are named by their place in the columns, texts by theirs in the table; −1 is none. What a node has taken is
//! not here: the page sums up the pods, so that it can do so for any moment of a run.

use berth_core::model::{Node, Pod, PodKey, Requests, Str, ZONE};
use berth_core::profile::CompiledProfile;
use berth_explain::spelled_taint;
use berth_simulate::{Cluster, serving};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Bytes of one text: messages are for reading.
const TEXT: usize = 4096;

/// Resources that a page tells apart: those that nodes offer first. Nodes with more kinds of devices are not known.
const RESOURCES: usize = 24;

/// A text of the table.
pub(super) type Text = u32;

/// A row of the pods.
pub(super) type PodRow = usize;

/// The table of texts: each once, the empty one first.
#[derive(Debug)]
pub(super) struct Texts {
    all: Vec<Str>,
    ids: HashMap<Str, Text>,
}

impl Texts {
    fn new() -> Self {
        let mut texts = Self { all: Vec::new(), ids: HashMap::new() };
        texts.id("");
        texts
    }

    /// The place of `text`, which is cut at [`TEXT`] bytes.
    pub(super) fn id(&mut self, text: &str) -> Text {
        if text.len() > TEXT {
            let shorter = format!("{}…", &text[..text.floor_char_boundary(TEXT - '…'.len_utf8())]);
            return self.id(&shorter);
        }
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let (id, text) = (self.all.len() as Text, Str::from(text));
        self.all.push(text.clone());
        self.ids.insert(text, id);
        id
    }
}

/// What the page is about.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Simulate,
    /// Two states that are two ways to place the same pods.
    Diff,
    Explain,
}

/// How amounts of a resource are written.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Count = 0,
    Milli = 1,
    Bytes = 2,
}

/// What became of a pod; `FATES` of `assets/js/data.js` has the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It had a node before.
    Running = 0,
    Placed = 1,
    Unschedulable = 2,
    /// It was placed, and removed again for another pod.
    Preempted = 3,
    Gated = 4,
    Held = 5,
    /// It had a node before, and was removed for another pod.
    Evicted = 6,
    /// It waits, and some node fits.
    Fits = 7,
    /// It waits, and nobody asked about it.
    Pending = 8,
}

/// What happened to a pod in a step; `EVENT` of `assets/js/data.js` has them, too.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Placed = 0,
    Refused = 1,
    Removed = 2,
}

#[derive(Debug, Default, Serialize)]
struct Nodes {
    name: Vec<Text>,
    zone: Vec<Text>,
    cordoned: Vec<u8>,
    taints: Vec<Text>,
    /// By resource, then by node.
    allocatable: Vec<Vec<i64>>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Pods {
    namespace: Vec<Text>,
    name: Vec<Text>,
    profile: Vec<i32>,
    priority: Vec<i32>,
    requests: Vec<u32>,
    pub(super) fate: Vec<u8>,
    /// The node in the first state and in the last.
    pub(super) from: Vec<i32>,
    pub(super) to: Vec<i32>,
    pub(super) attempts: Vec<u32>,
    pub(super) message: Vec<Text>,
    pub(super) answer: Vec<i32>,
    /// The pods that were removed for one.
    pub(super) victims: BTreeMap<PodRow, Vec<PodRow>>,
}

/// What the nodes say of one pod, or of all that are alike.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    /// At which moment it was judged, in words.
    pub(super) judged: Text,
    pub(super) feasible: usize,
    pub(super) of: usize,
    pub(super) scores: Vec<Text>,
    /// Node, total, and what each of `scores` adds to it.
    pub(super) best: Vec<Vec<i64>>,
    /// Number of nodes, plugin, reason, and the facts behind it.
    pub(super) refused: Vec<(usize, Text, Text, Text)>,
    /// What would place the pod; none where that was not looked for.
    pub(super) changes: Option<Vec<Text>>,
    pub(super) preemption: Text,
}

/// The steps of a run.
#[derive(Debug, Default, Serialize)]
pub(super) struct Events {
    /// Virtual time since the run began, in milliseconds.
    pub(super) at: Vec<u64>,
    pub(super) pod: Vec<PodRow>,
    pub(super) what: Vec<u8>,
    pub(super) node: Vec<i32>,
}

/// All that a page shows.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Data {
    kind: Kind,
    title: Text,
    subtitle: Text,
    version: Text,
    notes: Vec<Text>,
    /// Name, value, and what it is to be compared with.
    figures: Vec<(Text, usize, Text)>,
    states: Vec<Text>,
    resources: Vec<(Text, u8)>,
    nodes: Nodes,
    profiles: Vec<Text>,
    /// Amounts by resource; pods that take the same share a row.
    requests: Vec<Vec<i64>>,
    pub(super) pods: Pods,
    pub(super) answers: Vec<Answer>,
    pub(super) events: Option<Events>,
    #[serde(serialize_with = "all", rename = "strings")]
    pub(super) texts: Texts,
    #[serde(skip)]
    by_key: HashMap<PodKey, PodRow>,
    #[serde(skip)]
    by_uid: HashMap<Str, PodRow>,
    #[serde(skip)]
    by_node: HashMap<Str, i32>,
}

fn all<S: serde::Serializer>(texts: &Texts, to: S) -> Result<S::Ok, S::Error> {
    texts.all.serialize(to)
}

impl Data {
    /// The cluster as it is given: no pod has moved, and pods without a node wait.
    pub(super) fn of(kind: Kind, cluster: &Cluster, profiles: &[Arc<CompiledProfile>], states: &[&str]) -> Self {
        let mut texts = Texts::new();
        let names = resources(cluster);
        let mut data = Self {
            kind,
            title: 0,
            subtitle: 0,
            version: texts.id(env!("CARGO_PKG_VERSION")),
            notes: Vec::new(),
            figures: Vec::new(),
            states: states.iter().map(|state| texts.id(state)).collect(),
            resources: names.iter().map(|name| (texts.id(name), unit(name) as u8)).collect(),
            nodes: Nodes::default(),
            profiles: profiles.iter().map(|profile| texts.id(&profile.name)).collect(),
            requests: Vec::new(),
            pods: Pods::default(),
            answers: Vec::new(),
            events: None,
            texts,
            by_key: HashMap::new(),
            by_uid: HashMap::new(),
            by_node: HashMap::new(),
        };
        data.add_nodes(cluster, &names);
        data.add_pods(cluster, profiles, &names);
        data
    }

    /// What stands at the top of the page.
    pub(super) fn headed(mut self, title: &str, subtitle: &str, notes: &[String]) -> Self {
        self.title = self.texts.id(title);
        self.subtitle = self.texts.id(subtitle);
        self.notes = notes.iter().map(|note| self.texts.id(note)).collect();
        self
    }

    pub(super) fn figure(&mut self, name: &str, value: usize, aside: &str) {
        let figure = (self.texts.id(name), value, self.texts.id(aside));
        self.figures.push(figure);
    }

    pub(super) fn pod_count(&self) -> usize {
        self.pods.name.len()
    }

    pub(super) fn by_key(&self, key: &PodKey) -> Option<PodRow> {
        self.by_key.get(key).copied()
    }

    pub(super) fn by_uid(&self, uid: &str) -> Option<PodRow> {
        self.by_uid.get(uid).copied()
    }

    /// The place of the node `name`, or −1.
    pub(super) fn node(&self, name: &str) -> i32 {
        self.by_node.get(name).copied().unwrap_or(-1)
    }

    fn add_nodes(&mut self, cluster: &Cluster, names: &[Str]) {
        let allocatable = |name: &Str| cluster.nodes.iter().map(|node| offered(node, name)).collect();
        self.nodes.allocatable = names.iter().map(allocatable).collect();
        for (at, node) in cluster.nodes.iter().enumerate() {
            let taints = node.taints.iter().map(spelled_taint).collect::<Vec<_>>().join(", ");
            self.nodes.name.push(self.texts.id(&node.name));
            self.nodes.zone.push(node.labels.get(ZONE).map_or(0, |zone| self.texts.id(zone)));
            self.nodes.cordoned.push(u8::from(node.unschedulable));
            self.nodes.taints.push(self.texts.id(&taints));
            self.by_node.insert(node.name.clone(), at as i32);
        }
    }

    fn add_pods(&mut self, cluster: &Cluster, profiles: &[Arc<CompiledProfile>], names: &[Str]) {
        let mut pods: Vec<&Pod> = cluster.pods.iter().filter(|pod| !pod.finished).collect();
        pods.sort_by(|a, b| a.key.cmp(&b.key));
        let mut known: HashMap<Vec<i64>, u32> = HashMap::new();
        for (row, pod) in pods.into_iter().enumerate() {
            let amounts: Vec<i64> = names.iter().map(|name| taken(&pod.usage.requests, name)).collect();
            let requests = *known.entry(amounts).or_insert_with_key(|amounts| {
                self.requests.push(amounts.clone());
                (self.requests.len() - 1) as u32
            });
            let at = pod.node_name.as_deref().map_or(-1, |node| self.node(node));
            let profile = serving(profiles, pod).and_then(|own| profiles.iter().position(|p| Arc::ptr_eq(p, own)));
            let fate = if pod.node_name.is_some() { Fate::Running } else { Fate::Pending };
            self.by_key.insert(pod.key.clone(), row);
            self.by_uid.insert(pod.uid.clone(), row);
            self.pods.namespace.push(self.texts.id(&pod.key.namespace));
            self.pods.name.push(self.texts.id(&pod.key.name));
            self.pods.profile.push(profile.map_or(-1, |at| at as i32));
            self.pods.priority.push(pod.priority);
            self.pods.requests.push(requests);
            self.pods.fate.push(fate as u8);
            self.pods.from.push(at);
            self.pods.to.push(at);
            self.pods.attempts.push(0);
            self.pods.message.push(0);
            self.pods.answer.push(-1);
        }
    }
}

/// The pod slots of a node, as a resource of which each pod takes one.
const SLOTS: &str = "pods";

/// The names of the resources that nodes offer or pods request: the usual ones first, then by name, slots last.
fn resources(cluster: &Cluster) -> Vec<Str> {
    let scalars = |of: &Requests| of.scalars.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let offered: BTreeSet<Str> = cluster.nodes.iter().flat_map(|node| scalars(&node.allocatable)).collect();
    let wanted: BTreeSet<Str> = cluster.pods.iter().flat_map(|pod| scalars(&pod.usage.requests)).collect();
    let storage = cluster.nodes.iter().any(|node| node.allocatable.ephemeral_storage > 0);
    let mut names: Vec<Str> = vec!["cpu".into(), "memory".into()];
    names.extend(storage.then(|| Str::from("ephemeral-storage")));
    names.extend(offered.iter().cloned());
    names.extend(wanted.difference(&offered).cloned());
    names.truncate(RESOURCES);
    names.push(SLOTS.into());
    names
}

fn unit(name: &str) -> Unit {
    match name {
        "cpu" => Unit::Milli,
        "memory" | "ephemeral-storage" => Unit::Bytes,
        name if name.starts_with("hugepages-") => Unit::Bytes,
        _ => Unit::Count,
    }
}

fn offered(node: &Node, name: &str) -> i64 {
    if name == SLOTS { node.allocatable_pods } else { amount(&node.allocatable, name) }
}

fn taken(requests: &Requests, name: &str) -> i64 {
    if name == SLOTS { 1 } else { amount(requests, name) }
}

fn amount(of: &Requests, name: &str) -> i64 {
    match name {
        "cpu" => of.milli_cpu,
        "memory" => of.memory,
        "ephemeral-storage" => of.ephemeral_storage,
        scalar => of.scalar(scalar).unwrap_or(0),
    }
}
