//! Nobody overbooks a node, unless someone else places pods on the same nodes; then as rarely as a watch allows.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use berth_lab::{ControlPlane, NodeSpec};
use serde_json::{Value, json};

use crate::audit::{Audit, Bind};
use crate::cluster::{namespace, own_plane, serving};
use crate::history::{History, Recorder, summed};
use crate::objects::{PROFILES, condition, pod, pod_path, profile, wait_reason};

const NODES: usize = 100;
const PODS: usize = 2_000;
/// Milli-CPU of a node: 20 pods.
const ROOM: u64 = 2_000;
const LIMIT: Duration = Duration::from_mins(4);

/// A control plane with nodes of which `filled` milli-CPU are taken each.
fn nearly_full(name: &str, filled: u64, audit: &Audit) -> ControlPlane {
    let plane = own_plane(audit.flags());
    namespace(&plane, name);
    plane.create_nodes(NODES, |i| NodeSpec::new(&format!("n{i}"), "zone-a", "2", "64Gi")).unwrap();
    let fill = |i: usize| {
        let mut filler = pod(name, &format!("filler-{i}"), "nobody", &format!("{filled}m"));
        filler["spec"]["nodeName"] = json!(format!("n{i}"));
        filler
    };
    plane.create_objects(&pod_path(name, ""), NODES, 16, fill).unwrap();
    plane
}

/// Waits until each pod is bound or was refused.
fn wait_settled(plane: &ControlPlane, name: &str) -> (usize, usize) {
    let path = pod_path(name, "");
    let mut last = (0, 0);
    let settled = plane.wait_for("each pod to be bound or refused", LIMIT, || {
        std::thread::sleep(Duration::from_millis(500));
        let list = plane.api.get(&path)?;
        let pods = list["items"].as_array().unwrap();
        let ours = |pod: &&Value| pod["spec"]["schedulerName"] != "nobody";
        let bound = pods.iter().filter(ours).filter(|pod| pod["spec"]["nodeName"].is_string()).count();
        let refused = |pod: &&Value| {
            pod["spec"]["nodeName"].is_null() && condition(pod, "PodScheduled").is_some_and(|c| c.1 == "Unschedulable")
        };
        last = (bound, pods.iter().filter(ours).filter(refused).count());
        Ok((last.0 + last.1 == PODS).then_some(last))
    });
    settled.unwrap_or_else(|error| panic!("{error}: {last:?} bound and refused"))
}

fn overbooked(used: &BTreeMap<String, u64>) -> Vec<(&String, &u64)> {
    used.iter().filter(|(_, used)| **used > ROOM).collect()
}

/// Profiles contend for the last capacity.
#[test]
fn two_profiles_on_one_nearly_full_set_of_nodes_overbook_none() {
    let audit = Audit::new("contended");
    let free = NODES as u64 * 5;
    let plane = nearly_full("contended", ROOM - 500, &audit);
    let operator = serving(&plane, "berth-0", &[]);
    for name in ["one", "other"] {
        // Both want the same node at the same time: the fullest.
        plane.api.post(PROFILES, &profile(name, &json!({"preset": "BinPack"}))).unwrap();
        wait_reason(&plane, name, "Ready", "Serving");
    }
    let recorder = Recorder::start(&plane, "contended");
    let began = Instant::now();
    let object =
        |i: usize| pod("contended", &format!("p{i}"), if i.is_multiple_of(2) { "one" } else { "other" }, "100m");
    plane.create_objects(&pod_path("contended", ""), PODS, 32, object).unwrap();
    let (bound, refused) = wait_settled(&plane, "contended");
    let took = began.elapsed();
    let history = recorder.finish(&plane);
    let (used, _) = summed(&plane);
    assert_eq!(overbooked(&used), [], "checked against the API server");
    assert_eq!((bound as u64, refused as u64), (free, PODS as u64 - free), "and no room is left unused");
    assert!(history.moved.is_empty());
    let per_profile = |name: &str| history.landings.iter().filter(|landing| landing.scheduler == name).count();
    let (_, page) = operator.page("/metrics").unwrap();
    let conflicts: f64 = page
        .lines()
        .filter(|line| line.starts_with("berth_bind_conflicts_total{") && line.contains("kind=\"own\""))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum();
    println!(
        "overbooking: {PODS} pods of two profiles for {free} places, {:.1} s: one {}, other {}, overbooked 0, conflicts {conflicts}",
        took.as_secs_f64(),
        per_profile("one"),
        per_profile("other"),
    );
    assert!(per_profile("one") > 0 && per_profile("other") > 0);
}

/// A foreign scheduler places its own pods on the same nodes.
///
/// Two schedulers that do not share a ledger cannot both be right: each learns of the other's binds from a watch, later.
/// What Berth owes is to place nothing on a node that its watch had already shown full. Its watch cannot be read from
/// outside, but every watch has one order, that of resourceVersions: who places a pod has seen the pod made, and with it
/// everything before. So a landing on a node that was too full at the version at which the pod was *made* is against
/// better knowledge, and there must be none. What became full between then and the landing is the window; it is printed,
/// by the API server's clock, from its answer to the bind that filled the node to its receipt of the one too many.
#[test]
fn beside_a_foreign_scheduler_nothing_lands_on_a_node_that_the_watch_had_shown_full() {
    const OURS: &str = "ours";
    const THEIRS: &str = "theirs";
    let audit = Audit::new("shared-nodes");
    let plane = nearly_full("shared-nodes", ROOM / 2, &audit);
    let _operator = serving(&plane, "berth-0", &[]);
    // Both fill nodes up one after the other: they meet on the same ones all the time, and ever more nodes are full.
    plane.api.post(PROFILES, &profile(OURS, &json!({"preset": "BinPack"}))).unwrap();
    wait_reason(&plane, OURS, "Ready", "Serving");
    let fit = json!({"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}});
    let config = json!({
        "profiles": [{"schedulerName": THEIRS, "pluginConfig": [{"name": "NodeResourcesFit", "args": fit}]}],
        "clientConnection": {"qps": 5000, "burst": 5000},
    });
    let _upstream = plane.start_kube_scheduler(&plane.kubeconfig, config).unwrap();
    wait_until_upstream_serves(&plane, THEIRS);
    let recorder = Recorder::start(&plane, "shared-nodes");
    let began = Instant::now();
    // As many at a time as both can take: pods are young when they are placed, and the check above is sharp.
    let object =
        |i: usize| pod("shared-nodes", &format!("p{i}"), if i.is_multiple_of(2) { OURS } else { THEIRS }, "100m");
    plane.create_objects(&pod_path("shared-nodes", ""), PODS, 4, object).unwrap();
    wait_settled(&plane, "shared-nodes");
    let took = began.elapsed();
    let mut history = recorder.finish(&plane);
    add_fillers(&mut history);
    let (wrong, informed) = history.against_better_knowledge(OURS, ROOM);
    let (used, _) = summed(&plane);
    let in_history: BTreeMap<String, u64> =
        history.used().into_iter().map(|(node, used)| (node.to_owned(), used)).collect();
    assert_eq!(in_history, used, "the recording and the API server agree");
    let binds = audit.binds();
    println!(
        "overbooking beside kube-scheduler: {PODS} pods for {} places, {:.1} s; {} of {NODES} nodes overbooked, by {} milli-CPU at most",
        NODES as u64 * ROOM / 200,
        took.as_secs_f64(),
        overbooked(&used).len(),
        used.values().map(|used| used.saturating_sub(ROOM)).max().unwrap_or(0),
    );
    for scheduler in [OURS, THEIRS] {
        println!("  {}", windows(&history, &binds, scheduler));
    }
    println!(
        "  {informed} pods of ours were placed when some node was known to be full; against better knowledge: {}",
        wrong.len()
    );
    assert!(wrong.is_empty(), "placed on a node that the watch had shown full: {wrong:#?}");
}

fn wait_until_upstream_serves(plane: &ControlPlane, scheduler: &str) {
    let mut probe = pod("default", "probe", scheduler, "0");
    probe["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "n0"});
    plane.api.post(&pod_path("default", ""), &probe).unwrap();
    crate::objects::wait_bound(plane, "default", "probe");
}

/// The fillers were there before the recording.
fn add_fillers(history: &mut History) {
    let fillers = (0..NODES).map(|i| crate::history::Landing {
        made: 0,
        version: 0,
        name: format!("filler-{i}"),
        scheduler: "nobody".to_owned(),
        node: format!("n{i}"),
        cpu: ROOM / 2,
    });
    history.landings.splice(0..0, fillers);
}

/// One line: how many landings of `scheduler` found their node too full, and for how long it had been so.
fn windows(history: &History, binds: &[Bind], scheduler: &str) -> String {
    let done: HashMap<&str, &Bind> = binds.iter().filter(|b| b.code == 201).map(|b| (&*b.pod, b)).collect();
    let beyond = history.beyond(ROOM);
    let mut millis: Vec<f64> = beyond
        .iter()
        .filter(|(landing, _)| landing.scheduler == scheduler)
        .filter_map(|(landing, filled)| {
            let (ours, before) = (done.get(&*landing.name)?, done.get(&*filled.name)?);
            Some((ours.received_us - before.answered_us) as f64 / 1e3)
        })
        .collect();
    millis.sort_by(f64::total_cmp);
    let landed = history.landings.iter().filter(|landing| landing.scheduler == scheduler).count();
    let at = |share: f64| millis.get(((millis.len() as f64 - 1.0) * share).round() as usize).copied().unwrap_or(0.0);
    format!(
        "{scheduler}: {landed} bound, {} of them one too many; window p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
        beyond.iter().filter(|(landing, _)| landing.scheduler == scheduler).count(),
        at(0.5),
        at(0.99),
        at(1.0)
    )
}
