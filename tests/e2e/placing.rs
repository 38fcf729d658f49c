//! The main job: pods land where filters (predicates) and scores (priorities) say, and whoever waits is told why.

use std::time::Instant;

use berth_lab::{Api, Patch};
use serde_json::{Value, json};

use crate::LATER;
use crate::objects::{condition, events, of_filters, pod_path, wait_event, wait_event_that};
use crate::world::World;

const HOSTNAME: &str = "kubernetes.io/hostname";

#[test]
fn a_profile_becomes_ready_and_its_columns_tell_how_it_goes() {
    let world = World::with("columns", &json!({"preset": "BinPack"}), 3);
    let ready = ["wait", "--for=condition=Ready", "sprof/columns", "--timeout=60s"];
    world.plane.kubectl_ok(&ready).unwrap();
    world.pod("fits", "100m", |_| {});
    world.pod("too-big", "64", |_| {});
    assert!(["0", "1", "2"].contains(&&*world.bound("fits")));
    world.unschedulable("too-big");
    // Counters are written once they are at rest.
    let row = world.plane.wait_for("the counters in the table", LATER, || {
        let table = world.plane.kubectl_ok(&["get", "sprof", "columns"])?;
        let mut lines = table.lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let header = lines.next().unwrap();
        assert_eq!(header, ["NAME", "MODE", "READY", "NODES", "PENDING", "UNSCHED", "OLDEST", "AGE"]);
        let row = lines.next().unwrap();
        Ok((row.get(5).is_some_and(|cell| cell == "1")).then_some(row))
    });
    let row = row.unwrap();
    assert_eq!(row[..6], ["columns", "Active", "True", "3", "1", "1"]);

    let status = &world.profile_now()["status"];
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(status["schedulerNames"], json!([{"name": "columns", "state": "Serving"}]));
    assert_eq!(status["effective"]["preset"], "BinPack");
    let scores = [
        "TaintToleration=3",
        "NodeAffinity=2",
        "NodeResourcesFit=5",
        "PodTopologySpread=1",
        "InterPodAffinity=2",
        "ScarceResourceAvoidance=10",
    ];
    assert_eq!(status["effective"]["scores"], json!(scores));
    assert_eq!(status["worker"]["state"], "Running");
    assert!(status["worker"]["holder"].as_str().unwrap().starts_with("berth-shared_"), "{status:#}");
    assert_eq!(status["totals"]["scheduled"], 2, "this one and the one that settled: {}", status["totals"]);
    assert_eq!(status["topReasons"][0]["reason"], "Insufficient cpu");
    let (healthy, reason, _) = condition(&world.profile_now(), "SchedulingHealthy").unwrap();
    assert_eq!((&*healthy, &*reason), ("False", "Backlog"));
    // A backlog is not the profile's fault.
    assert_eq!(condition(&world.profile_now(), "Ready").unwrap().0, "True");
}

/// Says how late the status was, of which tests have no limit but a generous one: what else runs here is not known.
#[test]
fn the_status_tells_of_bound_pods_soon_after() {
    let world = World::with("told", &json!({}), 4);
    let mut late = Vec::new();
    for round in 1..=5 {
        for i in 0..40 {
            world.pod(&format!("pod-{round}-{i}"), "50m", |_| {});
        }
        for i in 0..40 {
            world.bound(&format!("pod-{round}-{i}"));
        }
        let bound = Instant::now();
        let told = || {
            let status = &world.profile_now()["status"];
            // One more pod settled the world.
            let all = status["totals"]["scheduled"] == 1 + 40 * round && status["pods"]["pending"] == 0;
            Ok(all.then_some(()))
        };
        world.plane.wait_for("a status with all pods", LATER, told).unwrap();
        late.push(bound.elapsed());
    }
    eprintln!("the status came so long after the last of 40 pods was seen bound: {late:.1?}");
}

#[test]
fn pods_land_only_where_every_filter_allows() {
    let world = World::new("filters");
    world.node("ssd", "2", |node| node.label("disk", "ssd"));
    world.node("tainted", "2", |node| node.taint("dedicated", "gpu", "NoSchedule"));
    world.node("small", "1", |node| node.label("disk", "ssd"));
    world.node("cordoned", "8", |node| node.label("disk", "ssd"));
    let path = format!("/api/v1/nodes/{}", world.node_name("cordoned"));
    world.plane.api.patch(&path, Patch::Merge, &json!({"spec": {"unschedulable": true}})).unwrap();
    world.node("plain", "2", |node| node);
    world.profile("filters", &json!({"nodes": {"percentageToScore": 100}}));
    world.settle("plain");

    world.pod("selector", "1500m", |pod| pod["spec"]["nodeSelector"] = json!({"disk": "ssd"}));
    assert_eq!(world.bound("selector"), "ssd");
    world.pod("tolerates", "1500m", |pod| {
        pod["spec"]["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
        pod["spec"]["affinity"]["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}]}});
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
    });
    let first = world.bound("tolerates");
    assert!(["plain", "tainted"].contains(&&*first), "{first}");
    // The same port cannot be given twice on one node.
    let host_port = |pod: &mut Value| {
        pod["spec"]["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
    };
    for name in ["port-a", "port-b", "port-c"] {
        world.pod(name, "100m", host_port);
    }
    let mut taken: Vec<String> = ["port-a", "port-b", "port-c"].map(|name| world.bound(name)).to_vec();
    taken.push(first);
    taken.sort();
    assert_eq!(taken, ["plain", "small", "ssd", "tainted"]);
    world.pod("port-d", "100m", host_port);
    world.says(
        "port-d",
        "0/5 nodes are available: 1 node(s) were unschedulable, 4 node(s) didn't have free ports for the requested pod ports.",
    );
}

#[test]
fn who_fits_nowhere_is_told_in_the_words_of_upstream_and_events_say_it_too() {
    let world = World::new("words");
    for node in ["a", "b"] {
        world.node(node, "4", |node| node.taint("dedicated", "gpu", "NoSchedule"));
    }
    for node in ["c", "d", "e"] {
        world.node(node, "1", |node| node);
    }
    world.node("f", "4", |node| node);
    world.profile("words", &json!({}));
    let path = format!("/api/v1/nodes/{}", world.node_name("f"));
    world.plane.api.patch(&path, Patch::Merge, &json!({"spec": {"unschedulable": true}})).unwrap();
    world.node("g", "1", |node| node);
    world.settle("g");
    world.pod("waits", "2", |_| {});
    let message = "0/7 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s), 4 Insufficient cpu.";
    world.says("waits", message);
    let failed = wait_event_that(world.plane, "words", "FailedScheduling", |event| {
        event["note"].as_str().is_some_and(|note| of_filters(note) == message)
    });
    assert_eq!((&failed["regarding"]["name"], &failed["type"]), (&json!("waits"), &json!("Warning")));
    assert_eq!((&failed["action"], &failed["reportingController"]), (&json!("Scheduling"), &json!("words")));
    assert_eq!(failed["reportingInstance"], "words-berth-shared");

    // Capacity frees: the waiting pod is woken, and the second event follows the bind.
    world.plane.api.patch(&path, Patch::Merge, &json!({"spec": {"unschedulable": null}})).unwrap();
    assert_eq!(world.bound("waits"), "f");
    let scheduled = wait_event(world.plane, "words", "waits", "Scheduled");
    assert_eq!(scheduled["note"], "Successfully assigned words/waits to words-f");
    assert_eq!((&scheduled["type"], &scheduled["action"]), (&json!("Normal"), &json!("Binding")));
    assert_eq!(scheduled["regarding"]["uid"], world.get("waits")["metadata"]["uid"]);
    // The API server says so on binding, and a late refusal must not cover it.
    assert_eq!(condition(&world.get("waits"), "PodScheduled").unwrap().0, "True");
}

fn nominate(api: &Api, path: &str, node: &str) {
    api.patch(&format!("{path}/status"), Patch::Merge, &json!({"status": {"nominatedNodeName": node}})).unwrap();
}

fn open_gates(api: &Api, path: &str) {
    api.patch(path, Patch::Json, &json!([{"op": "remove", "path": "/spec/schedulingGates"}])).unwrap();
}

#[test]
fn a_node_nominated_from_outside_is_tried_first() {
    let world = World::new("nominated");
    world.node("small", "1", |node| node);
    world.node("large", "16", |node| node);
    world.profile("nominated", &json!({}));
    world.settle("large");
    // Both would go to the larger node, and one of them cannot go where it is nominated. A gate keeps each until it is
    // nominated: its end and the nomination come in one object, so that no worker sees one without the other.
    for (pod, cpu) in [("fits", "800m"), ("does-not-fit", "2")] {
        world.pod(pod, cpu, |pod| pod["spec"]["schedulingGates"] = json!([{"name": "example.com/nominating"}]));
        nominate(&world.plane.api, &pod_path("nominated", pod), "nominated-small");
        open_gates(&world.plane.api, &pod_path("nominated", pod));
    }
    assert_eq!(world.bound("fits"), "small");
    assert_eq!(world.bound("does-not-fit"), "large");
}

#[test]
fn anti_affinity_of_pods_that_run_keeps_others_away() {
    let world = World::new("excluded");
    world.node("large", "16", |node| node);
    world.node("small", "1", |node| node);
    // It runs there already, whoever placed it, and wants no web pod beside it.
    world.pod("lonely", "100m", |pod| {
        pod["spec"]["nodeName"] = json!("excluded-large");
        pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!([{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}]);
    });
    world.profile("excluded", &json!({}));
    world.settle("small");
    let web = |pod: &mut Value| pod["metadata"]["labels"] = json!({"app": "web"});
    world.pod("web-1", "600m", web);
    assert_eq!(world.bound("web-1"), "small");
    world.pod("web-2", "600m", web);
    world.says(
        "web-2",
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy existing pods anti-affinity rules.",
    );
    world.pod("other", "600m", |_| {});
    assert_eq!(world.bound("other"), "large");
    // Its end is an event that wakes who waited for it.
    world.delete("lonely");
    assert_eq!(world.bound("web-2"), "large");
}

#[test]
fn a_gated_pod_is_left_alone_until_its_last_gate_goes() {
    let world = World::with("gated", &json!({}), 1);
    world.pod("waits", "100m", |pod| pod["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]));
    world.pod("after", "100m", |_| {});
    world.bound("after");
    let pod = world.get("waits");
    assert!(pod["spec"]["nodeName"].is_null());
    assert_eq!(condition(&pod, "PodScheduled").unwrap().1, "SchedulingGated", "the API server's word stands");
    open_gates(&world.plane.api, &pod_path("gated", "waits"));
    assert_eq!(world.bound("waits"), "0");
    assert!(events(&world.plane.api, "gated", "FailedScheduling").is_empty());
}

/// A node that comes back under its name is another node.
#[test]
fn a_node_recreated_under_its_name_has_its_own_capacity() {
    let world = World::new("recreated");
    world.node("n", "8", |node| node);
    world.profile("recreated", &json!({}));
    world.settle("n");
    world.pod("before", "2", |_| {});
    assert_eq!(world.bound("before"), "n");
    let node = format!("/api/v1/nodes/{}", world.node_name("n"));
    world.plane.api.delete(&node, None).unwrap();
    world.pod("between", "2", |_| {});
    world.unschedulable("between");
    world.node("n", "3", |node| node);
    // The pod on the old node still counts on the new one: 2 of 3 CPUs are taken.
    world.pod("after", "1", |_| {});
    assert_eq!(world.bound("after"), "n");
    world.says("between", "0/1 nodes are available: 1 Insufficient cpu.");
}
