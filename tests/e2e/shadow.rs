//! A profile in mode DryRun beside the real kube-scheduler.

use std::net::SocketAddr;
use std::process::{Command, Output};

use berth_lab::{ControlPlane, NodeSpec, free_address};
use serde_json::{Value, json};

use crate::cluster::{binary, namespace, own_plane, serving};
use crate::minor;
use crate::objects::{PROFILES, pod, pod_path, profile, wait_bound, wait_event, wait_reason};
use crate::{LATER, SOON};

/// `make shadow` asks for more of the pods that come one after the other, so that neither scheduler knows of a pod that the other one does
/// not; as many come at once after them.
fn asked() -> Option<usize> {
    let asked = std::env::var("BERTH_SHADOW_PODS").ok().filter(|asked| !asked.is_empty())?;
    Some(asked.parse().unwrap_or_else(|_| panic!("BERTH_SHADOW_PODS={asked} is no number")))
}

fn pods() -> usize {
    asked().unwrap_or(240)
}

fn nodes() -> usize {
    pods() / 6
}

fn node(i: usize) -> NodeSpec {
    let (zone, cpu) = (["a", "b", "c"][i % 3], ["4", "8", "16", "6"][i % 4]);
    let node = NodeSpec::new(&format!("n{i}"), zone, cpu, "32Gi").label("disk", ["ssd", "hdd"][i % 2]);
    match i % 10 {
        9 => node.taint("dedicated", "x", "NoSchedule"),
        8 => node.taint("shunned", "x", "PreferNoSchedule"),
        _ => node,
    }
}

/// A pod of one of eight kinds, so that each filter and score of the default profile that reads pods and nodes has a say.
fn mixed(i: usize) -> Value {
    let mut object = pod("shadow", &format!("p{i}"), "default-scheduler", ["100m", "500m", "250m"][i % 3]);
    let apps = |app: &str| json!({"matchLabels": {"app": app}});
    let near = |app: &str, key: &str| json!({"labelSelector": apps(app), "topologyKey": key});
    let (host, zone) = ("kubernetes.io/hostname", "topology.kubernetes.io/zone");
    let spread = |app: &str, key: &str, when: &str| json!([{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": apps(app)}]);
    let kind = i % 8;
    // No two of a database share a node: those that come later are of another one.
    let db = if i < pods() { "db" } else { "later-db" };
    let app = ["plain", "big", "web", "soft", "ssd", db, "tolerant", "friend"][kind];
    object["metadata"]["labels"] = json!({"app": app});
    let spec = &mut object["spec"];
    match kind {
        1 => spec["containers"][0]["resources"]["requests"] = json!({"cpu": "900m", "memory": "1Gi"}),
        2 => spec["topologySpreadConstraints"] = spread("web", zone, "DoNotSchedule"),
        3 => spec["topologySpreadConstraints"] = spread("soft", host, "ScheduleAnyway"),
        4 => {
            let wish = json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]});
            let preferred = json!([{"weight": 50, "preference": wish}]);
            spec["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
        }
        5 => {
            let required = json!([near(db, host)]);
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
        }
        6 => spec["tolerations"] = json!([{"operator": "Exists"}]),
        7 => {
            let preferred = json!([{"weight": 100, "podAffinityTerm": near("web", zone)}]);
            spec["affinity"] = json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
        }
        _ => {}
    }
    object
}

fn report(door: SocketAddr, args: &[&str]) -> Output {
    let url = format!("http://{door}");
    let args = [&["shadow", "report", "--debug-url", &url], args].concat();
    Command::new(binary()).args(args).output().unwrap()
}

fn figures(door: SocketAddr, profile: &str) -> Value {
    let output = report(door, &[profile, "-o", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A profile that decides beside kube-scheduler, once it knows all nodes.
fn dry_run(plane: &ControlPlane, name: &str, preset: &str) {
    let spec = json!({"mode": "DryRun", "preset": preset, "shadow": {"schedulerNames": ["default-scheduler"]}});
    plane.api.post(PROFILES, &profile(name, &spec)).unwrap();
    assert_eq!(wait_reason(plane, name, "Ready", "DryRun").0, "True");
    let known = plane.wait_for("all nodes to be known", LATER, || {
        let profile = plane.api.get(&format!("{PROFILES}/{name}"))?;
        Ok((profile["status"]["nodes"]["matched"] == nodes()).then_some(()))
    });
    known.unwrap();
}

/// Nobody but kube-scheduler and those who made them has written to the pods.
fn are_untouched(plane: &ControlPlane, count: usize) {
    let all = plane.api.get(&pod_path("shadow", "")).unwrap();
    let all = all["items"].as_array().unwrap();
    assert_eq!(all.len(), count);
    for pod in all {
        let managers = pod["metadata"]["managedFields"].as_array().into_iter().flatten();
        assert!(managers.clone().all(|one| !one["manager"].as_str().unwrap_or_default().contains("berth")), "{pod:#}");
        assert!(pod["status"]["nominatedNodeName"].is_null(), "{pod:#}");
    }
}

/// What the profile `trial` says once it has seen so many pods bound.
fn when_seen(plane: &ControlPlane, door: SocketAddr, pods: usize) -> Value {
    let all = plane.wait_for("the last comparison", SOON, || {
        let answer = figures(door, "trial");
        let count = |of: &str| answer["figures"][of].as_u64().unwrap_or_default();
        Ok((count("compared") + count("skipped") == pods as u64).then_some(answer))
    });
    all.unwrap()
}

/// As many pods again, all at once: what the profile says of those.
fn at_full_rate(plane: &ControlPlane, door: SocketAddr, before: &Value) {
    let more = pods();
    plane.create_objects(&pod_path("shadow", ""), more, 16, |i| mixed(more + i)).unwrap();
    let bound = plane.wait_for("all to be bound", LATER * 10, || {
        let waiting = plane.api.get(&format!("{}?fieldSelector=spec.nodeName=&limit=1", pod_path("shadow", "")))?;
        Ok(waiting["items"].as_array().is_some_and(Vec::is_empty).then_some(()))
    });
    bound.unwrap();
    let after = when_seen(plane, door, 2 * more);
    let (before, after) = (&before["figures"], &after["figures"]);
    for what in ["compared", "same", "tied", "worse", "refused", "unschedulable", "held", "failed", "skipped"] {
        let count = |of: &Value| of[what].as_u64().unwrap_or_default();
        println!("at full rate: {what} {}", count(after) - count(before));
    }
    are_untouched(plane, 2 * more);
}

#[test]
fn a_dry_run_with_equal_settings_agrees_with_kube_scheduler_and_writes_nothing() {
    let plane = own_plane(Vec::new());
    namespace(&plane, "shadow");
    plane.create_nodes(nodes(), node).unwrap();
    let door = free_address().unwrap();
    let operator = serving(&plane, "berth-shadow", &[&format!("--debug-address={door}")]);
    dry_run(&plane, "trial", "Default");
    dry_run(&plane, "packed", "BinPack");
    wait_event(&plane, "default", "trial", "DryRun");
    let every_node = json!({"percentageOfNodesToScore": 100});
    let _scheduler = plane.start_kube_scheduler(&plane.kubeconfig, every_node).unwrap();
    for i in 0..pods() {
        plane.api.post(&pod_path("shadow", ""), &mixed(i)).unwrap();
        wait_bound(&plane, "shadow", &format!("p{i}"));
    }

    let trial = when_seen(&plane, door, pods());
    println!("equal settings: {:#}", trial["figures"]);
    let others = trial["comparisons"].as_array().unwrap().iter();
    let others: Vec<&Value> =
        others.filter(|one| !["same", "tied"].contains(&one["outcome"].as_str().unwrap())).collect();
    let compared = trial["figures"]["compared"].as_u64().unwrap();
    assert!(compared as usize * 10 >= pods() * 9, "{:#}", trial["figures"]);
    // kube-scheduler 1.35 weighs some nodes a point otherwise.
    if minor::is_ours() {
        assert!(others.len() * 1_000 <= compared as usize * 5, "{} of {compared}: {others:#?}", others.len());
        assert_eq!(report(door, &["trial", "--at-least", "99.5"]).status.code(), Some(0));
    }

    let packed = figures(door, "packed");
    println!("BinPack: {:#}", packed["figures"]);
    assert!(packed["figures"]["worse"].as_u64() > Some(pods() as u64 / 10), "{:#}", packed["figures"]);
    assert_eq!(packed["figures"]["disagreements"][0]["plugin"], "NodeResourcesFit");
    let output = report(door, &["packed", "--at-least", "99.5"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stdout).contains("has better nodes by its scores"));

    let page = plane.dir().join("packed.html");
    let to_page = ["packed", "--kubeconfig", plane.kubeconfig.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let output = report(door, &to_page);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("the profile would have placed it on "), "{}", page.len());

    let told = plane.wait_for("the status", LATER, || {
        let profile = plane.api.get(&format!("{PROFILES}/trial"))?;
        Ok((profile["status"]["shadow"]["compared"].as_u64() == Some(compared)).then_some(()))
    });
    told.unwrap();
    let (_, page) = operator.page("/metrics").unwrap();
    for series in ["comparisons", "disagreements", "skipped", "preemptions"] {
        let name = format!("berth_shadow_{series}_total{{");
        assert!(page.lines().any(|line| line.starts_with(&name) && line.contains("profile=\"packed\"")), "{name}");
    }
    are_untouched(&plane, pods());
    if asked().is_some() {
        at_full_rate(&plane, door, &trial);
    }
    let lost = report(door, &["nobody"]);
    assert!(lost.status.code() == Some(1) && String::from_utf8_lossy(&lost.stderr).contains("mode DryRun"), "{lost:?}");
}
