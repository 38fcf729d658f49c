//! What is measured: each workload is a cluster, pods that are bound already, and pods to place.

use crate::manifests::{
    HOSTNAME, PodSpec, ZONE, bound_volume, colour, colour_of_team, csi_node, preferred, required, service, spread,
    team_namespace,
};
use serde_json::{Value, json};

/// A workload by name, with the objects it is made of.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) nodes: usize,
    pub(crate) zones: &'static [&'static str],
    /// Objects beside nodes and pods.
    pub(crate) objects: fn() -> Vec<Value>,
    /// Pods bound already, the first on the first node and so on.
    pub(crate) init: fn() -> Vec<PodSpec>,
    /// Pods to place.
    pub(crate) pods: fn() -> Vec<PodSpec>,
    /// A node changes after each so many pods; 0 for never.
    pub(crate) node_change_every: usize,
    /// What changes is that a node has pulled the pods' image; else how much memory it has.
    pub(crate) images: bool,
    /// Percent of the nodes to score; 0 as upstream.
    pub(crate) percentage: u8,
    /// Only measured on request.
    pub(crate) long: bool,
}

pub(crate) const ZONES: &[&str] = &["zone-0", "zone-1", "zone-2"];
const ONE_ZONE: &[&str] = &["zone1"];
pub(crate) const NO_ZONE: &[&str] = &[];
const TEAMS: usize = 100;

pub(crate) const PLAIN: Workload = Workload {
    name: "equal pods, sampled",
    nodes: 5_000,
    zones: ZONES,
    objects: Vec::new,
    init: Vec::new,
    pods: || vec![PodSpec::basic().sized(100, 200); 10_000],
    node_change_every: 0,
    images: false,
    percentage: 0,
    long: false,
};

impl PodSpec {
    pub(crate) fn sized(self, cpu: usize, memory: usize) -> Self {
        Self { requests: Some((cpu, memory)), ..self }
    }
}

/// A thousand shapes in turn.
fn thousand_shapes() -> Vec<PodSpec> {
    (0..10_000).map(|i| PodSpec::basic().sized(100 + i % 100, 200 + (i % 1000) / 100)).collect()
}

fn in_zones() -> PodSpec {
    let expression = json!({"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]});
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
    PodSpec::basic()
        .asking(json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}))
}

fn near() -> PodSpec {
    PodSpec::basic().labelled("color", "blue").asking(required("podAffinity", colour("blue", ZONE)))
}

pub(crate) fn apart() -> PodSpec {
    PodSpec::basic().labelled("color", "green").asking(required("podAntiAffinity", colour("green", HOSTNAME)))
}

fn rather_near() -> PodSpec {
    PodSpec::basic().labelled("color", "red").asking(preferred("podAffinity", colour("red", HOSTNAME)))
}

fn rather_apart() -> PodSpec {
    PodSpec::basic().labelled("color", "yellow").asking(preferred("podAntiAffinity", colour("yellow", HOSTNAME)))
}

pub(crate) fn spread_pod(when: &str) -> PodSpec {
    PodSpec::basic().labelled("color", "blue").asking(spread(when))
}

pub(crate) fn earlier(pod: PodSpec, count: usize) -> Vec<PodSpec> {
    vec![pod.in_namespace("sched-0"); count]
}

/// `each` pods in each of the team's namespaces.
fn in_teams(pod: &PodSpec, each: usize) -> Vec<PodSpec> {
    (0..TEAMS * each).map(|i| pod.clone().in_namespace(&format!("team-{:03}", i % TEAMS))).collect()
}

fn team_namespaces() -> Vec<Value> {
    (0..TEAMS).map(|i| team_namespace(&format!("team-{i:03}"))).chain([team_namespace("sched-1")]).collect()
}

fn of_team(kind: &str, when: fn(&str, Value) -> Value, key: &str) -> PodSpec {
    PodSpec::basic().labelled("color", "green").asking(when(kind, colour_of_team("green", key)))
}

fn mounting(kind: &str, count: usize) -> Vec<PodSpec> {
    let claim = |i: usize| json!({"claimName": format!("claim-{kind}-{i:05}")});
    let volumes = |i: usize| json!({"volumes": [{"name": "data", "persistentVolumeClaim": claim(i)}]});
    (0..count).map(|i| PodSpec::basic().asking(volumes(i))).collect()
}

fn volume_objects() -> Vec<Value> {
    let bound = ["init", "pod"].into_iter().flat_map(|kind| (0..5_000).flat_map(move |i| bound_volume(kind, i)));
    bound.chain((0..5_000).map(csi_node)).collect()
}

fn mixed() -> Vec<PodSpec> {
    let kinds = [PodSpec::basic(), near(), apart(), rather_near(), rather_apart()];
    (0..10_000).map(|i| kinds[i / 2_000].clone().in_namespace("sched-0")).collect()
}

/// Every workload of placements, in the order of the table in `docs/benchmarks.md`.
#[rustfmt::skip]
pub(crate) const WORKLOADS: [Workload; 20] = [
    PLAIN,
    Workload { name: "1000 shapes and node changes, sampled", pods: thousand_shapes, node_change_every: 10, ..PLAIN },
    Workload { name: "equal pods, every node", percentage: 100, ..PLAIN },
    Workload { name: "1000 shapes and node changes, every node", pods: thousand_shapes, node_change_every: 10, percentage: 100, ..PLAIN },
    Workload { name: "node affinity", zones: ONE_ZONE, init: || vec![in_zones(); 5_000], pods: || vec![in_zones(); 10_000], ..PLAIN },
    Workload { name: "required anti-affinity", zones: NO_ZONE, init: || earlier(apart(), 1_000), pods: || vec![apart(); 2_000], ..PLAIN },
    Workload { name: "required affinity", zones: ONE_ZONE, init: || earlier(near(), 5_000), pods: || vec![near(); 5_000], ..PLAIN },
    Workload { name: "preferred affinity", zones: NO_ZONE, init: || earlier(rather_near(), 5_000), pods: || vec![rather_near(); 5_000], ..PLAIN },
    Workload { name: "preferred anti-affinity", zones: NO_ZONE, init: || earlier(rather_apart(), 5_000), pods: || vec![rather_apart(); 5_000], ..PLAIN },
    Workload { name: "matching placed anti-affinity", zones: NO_ZONE, init: || earlier(apart(), 1_000), pods: || vec![PodSpec::basic().labelled("color", "green"); 5_000], ..PLAIN },
    Workload { name: "NS selector, required anti-affinity", nodes: 6_000, zones: NO_ZONE, objects: team_namespaces,
        init: || in_teams(&of_team("podAntiAffinity", required, HOSTNAME), 40), pods: || vec![of_team("podAntiAffinity", required, HOSTNAME); 2_000], ..PLAIN },
    Workload { name: "NS selector, required affinity", nodes: 6_000, zones: ONE_ZONE, objects: team_namespaces,
        init: || in_teams(&of_team("podAffinity", required, ZONE), 50), pods: || vec![of_team("podAffinity", required, ZONE); 2_000], ..PLAIN },
    Workload { name: "NS selector, preferred anti-affinity", nodes: 6_000, zones: NO_ZONE, objects: team_namespaces,
        init: || in_teams(&of_team("podAntiAffinity", preferred, HOSTNAME), 40), pods: || vec![of_team("podAntiAffinity", preferred, HOSTNAME); 2_000], ..PLAIN },
    Workload { name: "NS selector, preferred affinity", nodes: 6_000, zones: NO_ZONE, objects: team_namespaces,
        init: || in_teams(&of_team("podAffinity", preferred, HOSTNAME), 50), pods: || vec![of_team("podAffinity", preferred, HOSTNAME); 5_000], ..PLAIN },
    Workload { name: "topology spread, hard", init: || earlier(PodSpec::basic(), 5_000), pods: || vec![spread_pod("DoNotSchedule"); 5_000], ..PLAIN },
    Workload { name: "topology spread, soft", init: || earlier(PodSpec::basic(), 5_000), pods: || vec![spread_pod("ScheduleAnyway"); 5_000], ..PLAIN },
    Workload { name: "default spread with a Service", objects: || vec![service()], init: || earlier(PodSpec::basic(), 5_000),
        pods: || vec![PodSpec { requests: None, ..PodSpec::basic().labelled("app", "scheduler-perf") }; 50_000], ..PLAIN },
    Workload { name: "mixed", zones: ONE_ZONE, init: mixed, pods: || vec![PodSpec::basic(); 5_000], ..PLAIN },
    Workload { name: "plain pods beside a Service of others", objects: || vec![service()], pods: || vec![PodSpec::basic(); 10_000], ..PLAIN },
    Workload { name: "CSI volumes", zones: NO_ZONE, objects: volume_objects, init: || mounting("init", 5_000), pods: || mounting("pod", 5_000), ..PLAIN },
];
