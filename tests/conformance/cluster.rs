//! One small nasty cluster, drawn from a seed.

use super::budgets;
use super::config::{SECOND, config};
use super::crowd::{self, Crowd};
use super::draw::{Draw, Theme};
use super::nodes::node;
use super::pods::{Place, draw_pod};
use super::storage::{self, Storage};
use super::workloads;
use serde_json::{Value, json};

/// What both sides are asked about.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// The sub-seed that gives this very cluster.
    pub seed: u64,
    /// Kubernetes objects.
    pub objects: Vec<Value>,
    /// A KubeSchedulerConfiguration; none for the defaults.
    pub config: Option<Value>,
}

/// What the parts of a cluster know of one another while it is drawn.
#[derive(Debug)]
pub struct World {
    themes: Vec<Theme>,
    /// Set where nodes are full, and preemption is what the cluster is about.
    pub crowd: Option<Crowd>,
    pub nodes: Vec<String>,
    pub namespaces: Vec<&'static str>,
    pub storage: Storage,
    /// Workloads that pods may belong to: kind, name, uid, namespace.
    pub owners: Vec<(&'static str, String, String, &'static str)>,
}

impl World {
    pub fn is(&self, theme: Theme) -> bool {
        self.themes.contains(&theme)
    }

    /// Whether claims or disks are what the cluster is about.
    pub fn storage_wanted(&self) -> bool {
        let themes = [Theme::BoundClaims, Theme::LateClaims, Theme::BrokenClaims, Theme::Limits, Theme::Disks];
        themes.iter().any(|theme| self.is(*theme))
    }

    /// `hot` percent in a cluster with `theme`, `cold` percent in others.
    pub fn percent(&self, draw: &mut Draw, theme: Theme, hot: u32, cold: u32) -> bool {
        draw.percent(if self.is(theme) { hot } else { cold })
    }
}

/// Of a hundred clusters, those about preemption.
const CROWDED: u32 = 60;

/// Labels of namespaces. The last one has no object: it is being deleted, or was never seen.
pub const NAMESPACES: [(&str, &[(&str, &str)]); 5] = [
    ("default", &[("kubernetes.io/metadata.name", "default"), ("team", "red")]),
    ("ns-a", &[("kubernetes.io/metadata.name", "ns-a"), ("team", "blue"), ("env", "prod")]),
    ("ns-b", &[("env", "test")]),
    ("ns-bare", &[]),
    ("ns-gone", &[]),
];

/// The cluster of `seed`; with a configuration in some.
pub fn draw_cluster(seed: u64) -> Drawn {
    let mut draw = Draw::new(seed);
    let (crowd, themes) = if draw.percent(CROWDED) {
        let (crowd, themes) = Crowd::draw(&mut draw);
        (Some(crowd), themes)
    } else {
        (None, themes(&mut draw))
    };
    let count = match &crowd {
        Some(crowd) => crowd.node_count(&mut draw),
        None => node_count(&mut draw),
    };
    let namespaces = namespaces(&mut draw, crowd.is_some());
    let mut world = World {
        themes,
        crowd,
        nodes: (0..count).map(|i| format!("n{i}")).collect(),
        namespaces,
        storage: Storage::default(),
        owners: Vec::new(),
    };
    let mut objects = Vec::new();
    for (name, labels) in NAMESPACES.iter().take(NAMESPACES.len() - 1) {
        let labels: serde_json::Map<String, Value> = labels.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": format!("ns-{name}"), "labels": labels}}));
    }
    for index in 0..world.nodes.len() {
        objects.push(node(&mut draw, &world, index));
    }
    storage::draw_storage(&mut draw, &mut world, &mut objects);
    workloads::draw_workloads(&mut draw, &mut world, &mut objects);
    draw_pods(&mut draw, &mut world, &mut objects);
    let usual = if world.crowd.is_some() { 60 } else { 35 };
    let configured = world.percent(&mut draw, Theme::BrokenClaims, 80, usual);
    let config = configured.then(|| config(&mut draw, &world));
    if let Some(config) = &config {
        choose_profiles(&mut draw, config, &mut objects);
    }
    Drawn { seed, objects, config }
}

/// Pods of the second profile, and some that no profile serves.
fn choose_profiles(draw: &mut Draw, config: &Value, objects: &mut [Value]) {
    let two = config["profiles"].as_array().is_some_and(|profiles| profiles.len() > 1);
    for pod in objects.iter_mut().filter(|o| o["kind"] == "Pod" && o["spec"]["nodeName"].is_null()) {
        match draw.below(100) {
            0..=1 => pod["spec"]["schedulerName"] = json!("nobody"),
            2..=49 if two => pod["spec"]["schedulerName"] = json!(SECOND),
            _ => {}
        }
    }
}

fn themes(draw: &mut Draw) -> Vec<Theme> {
    let mut themes: Vec<Theme> = (0..draw.between(1, 3)).map(|_| draw.pick(&Theme::WEIGHED)).collect();
    if draw.percent(10) {
        let place = [Theme::Spread, Theme::Spread, Theme::PodAffinity, Theme::NodeAffinity, Theme::LateClaims];
        themes.extend([Theme::BadInput, draw.pick(&place)]);
    }
    themes
}

/// Mostly few, so that thousands of clusters take a minute.
fn node_count(draw: &mut Draw) -> usize {
    match draw.below(100) {
        0 => 0,
        1 => 1,
        2..=69 => draw.between(2, 5) as usize,
        70..=94 => draw.between(6, 12) as usize,
        _ => draw.between(13, 40) as usize,
    }
}

fn namespaces(draw: &mut Draw, crowded: bool) -> Vec<&'static str> {
    let all: Vec<&'static str> = NAMESPACES.iter().map(|(name, _)| *name).collect();
    if draw.percent(if crowded { 70 } else { 35 }) { vec![draw.pick(&all[..2])] } else { draw.some(&all, 2, 4) }
}

fn draw_pods(draw: &mut Draw, world: &mut World, objects: &mut Vec<Value>) {
    if let Some(crowd) = world.crowd.clone() {
        crowd::draw_placed(draw, world, &crowd, objects);
    } else {
        draw_placed(draw, world, objects);
    }
    budgets::draw_budgets(draw, world, objects);
    let pending = match draw.below(100) {
        0..=79 if world.crowd.is_some() => draw.between(2, 5),
        0..=79 => draw.between(1, 4),
        80..=97 => draw.between(5, 9),
        _ => draw.between(10, 20),
    };
    for index in 0..pending as usize {
        draw_pod(draw, world, &format!("p{index}"), &Place::Pending, objects);
    }
}

fn draw_placed(draw: &mut Draw, world: &mut World, objects: &mut Vec<Value>) {
    let nodes = world.nodes.len();
    let assigned = match draw.below(100) {
        0..=9 => 0,
        10..=69 => draw.between(1, 2 * nodes as i64 + 2),
        70..=96 => draw.between(1, 4 * nodes as i64 + 2),
        _ => draw.between(30, 120),
    };
    for index in 0..assigned.min(120) as usize {
        let ghost = nodes == 0 || draw.percent(1);
        let on = if ghost { "no-such-node".to_owned() } else { draw.one_of(&world.nodes).clone() };
        draw_pod(draw, world, &format!("a{index}"), &Place::On(on), objects);
    }
}
