//! A profile in mode DryRun beside the real kube-scheduler.

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};

use berth_lab::{ControlPlane, NodeSpec};
use serde_json::{Value, json};

use crate::cluster::{binary, namespace, own_plane, serving};
use crate::minor;
use crate::objects::{PROFILES, pod, pod_path, profile, wait_bound, wait_event, wait_reason};
use crate::{LATER, SOON};

const NODES: usize = 40;

/// One after the other, so that neither scheduler knows of a pod that the other one does not.
const PODS: usize = 240;

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
    let app = ["plain", "big", "web", "soft", "ssd", "db", "tolerant", "friend"][kind];
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
            let required = json!([near("db", host)]);
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
        Ok((profile["status"]["nodes"]["matched"] == NODES).then_some(()))
    });
    known.unwrap();
}

/// Nobody but kube-scheduler and those who made them has written to the pods.
fn are_untouched(plane: &ControlPlane) {
    let pods = plane.api.get(&pod_path("shadow", "")).unwrap();
    let pods = pods["items"].as_array().unwrap();
    assert_eq!(pods.len(), PODS);
    for pod in pods {
        let managers = pod["metadata"]["managedFields"].as_array().into_iter().flatten();
        assert!(managers.clone().all(|one| !one["manager"].as_str().unwrap_or_default().contains("berth")), "{pod:#}");
        assert!(pod["status"]["nominatedNodeName"].is_null(), "{pod:#}");
    }
}

#[test]
fn a_dry_run_with_equal_settings_agrees_with_kube_scheduler_and_writes_nothing() {
    let plane = own_plane(Vec::new());
    namespace(&plane, "shadow");
    plane.create_nodes(NODES, node).unwrap();
    let door = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let operator = serving(&plane, "berth-shadow", &[&format!("--debug-address={door}")]);
    dry_run(&plane, "trial", "Default");
    dry_run(&plane, "packed", "BinPack");
    wait_event(&plane, "default", "trial", "DryRun");
    let every_node = json!({"percentageOfNodesToScore": 100});
    let _scheduler = plane.start_kube_scheduler(&plane.kubeconfig, every_node).unwrap();
    for i in 0..PODS {
        plane.api.post(&pod_path("shadow", ""), &mixed(i)).unwrap();
        wait_bound(&plane, "shadow", &format!("p{i}"));
    }

    let seen = |answer: &Value| answer["figures"]["compared"].as_u64().zip(answer["figures"]["skipped"].as_u64());
    let all = plane.wait_for("the last comparison", SOON, || {
        let answer = figures(door, "trial");
        Ok(seen(&answer).filter(|(compared, skipped)| compared + skipped == PODS as u64).map(|_| answer))
    });
    let trial = all.unwrap();
    println!("equal settings: {:#}", trial["figures"]);
    let others = trial["comparisons"].as_array().unwrap().iter();
    let others: Vec<&Value> =
        others.filter(|one| !["same", "tied"].contains(&one["outcome"].as_str().unwrap())).collect();
    let compared = seen(&trial).unwrap().0;
    assert!(compared as usize * 10 >= PODS * 9, "{:#}", trial["figures"]);
    // kube-scheduler 1.35 weighs some nodes a point otherwise.
    if minor::is_ours() {
        assert!(others.len() * 1_000 <= compared as usize * 5, "{} of {compared}: {others:#?}", others.len());
        assert_eq!(report(door, &["trial", "--at-least", "99.5"]).status.code(), Some(0));
    }

    let packed = figures(door, "packed");
    println!("BinPack: {:#}", packed["figures"]);
    assert!(packed["figures"]["worse"].as_u64() > Some(PODS as u64 / 10), "{:#}", packed["figures"]);
    assert_eq!(packed["figures"]["disagreements"][0]["plugin"], "NodeResourcesFit");
    let output = report(door, &["packed", "--at-least", "99.5"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stdout).contains("has better nodes by its scores"));

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
    are_untouched(&plane);
    let lost = report(door, &["nobody"]);
    assert!(lost.status.code() == Some(1) && String::from_utf8_lossy(&lost.stderr).contains("mode DryRun"), "{lost:?}");
}
