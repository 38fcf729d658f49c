//! `berth drain-check` and `berth headroom` on the real API server: what they say happens.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::SOON;
use crate::cluster::binary;
use crate::objects::of_filters;
use crate::world::World;

fn berth(world: &World, args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(args).args(["-n", &world.name, "-o", "json", "--kubeconfig"]).arg(&world.plane.kubeconfig);
    command.output().unwrap()
}

/// The exit code, and the answer.
fn answer(world: &World, args: &[&str]) -> (Option<i32>, Value) {
    let output = berth(world, args);
    let said = serde_json::from_slice(&output.stdout);
    (output.status.code(), said.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))))
}

/// As a ReplicaSet makes it. Nothing collects the pods of one that is not there: no controller runs here.
fn of_web(pod: &mut Value) {
    pod["metadata"]["labels"] = json!({"app": "web"});
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true}]);
}

/// Waits until the operator has seen that `node` is cordoned: a pod that only it could run is refused.
fn wait_cordoned(world: &World, node: &str) {
    let probe = |number: u32| {
        let pinned = |pod: &mut Value| pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
        world.pod(&format!("probe-{number}"), "0", pinned);
    };
    let mut number = 0;
    probe(number);
    let seen = || {
        let name = format!("probe-{number}");
        let pod = world.get(&name);
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let refused = conditions.any(|one| one["type"] == "PodScheduled" && one["status"] == "False");
        let bound = pod["spec"]["nodeName"].is_string();
        if refused || bound {
            world.delete(&name);
        }
        if bound {
            number += 1;
            probe(number);
        }
        Ok(refused.then_some(()))
    };
    world.plane.wait_for("the cordon", SOON, seen).unwrap();
}

#[test]
fn a_drain_ends_as_drain_check_says_and_as_many_more_fit_as_headroom_says() {
    let world = World::with("drain-checked", &json!({}), 2);
    let (from, to) = (world.node_name("0"), world.node_name("1"));
    let on = |node: &str| json!(node);
    world.pod("busy", "2", |pod| pod["spec"]["nodeName"] = on(&to));
    let web = [("web-0", "500m"), ("web-1", "500m"), ("web-2", "500m"), ("wide", "2")];
    for (name, cpu) in web {
        world.pod(name, cpu, |pod| {
            of_web(pod);
            pod["spec"]["nodeName"] = on(&from);
        });
    }
    world.pod("bare", "100m", |pod| pod["spec"]["nodeName"] = on(&from));

    let (code, said) = answer(&world, &["drain-check", &from]);
    assert_eq!(code, Some(2), "{said:#}");
    let fates: Vec<(&str, &str, Option<&str>)> = said["pods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| (pod["name"].as_str().unwrap(), pod["fate"].as_str().unwrap(), pod["to"].as_str()))
        .collect();
    let there = Some(&*to);
    let want = [
        ("bare", "Bare", None),
        ("web-0", "Moves", there),
        ("web-1", "Moves", there),
        ("web-2", "Moves", there),
        ("wide", "Unschedulable", None),
    ];
    assert_eq!(fates, want, "{said:#}");

    // The same by hand, with the operator instead.
    world.plane.kubectl_ok(&["cordon", &from]).unwrap();
    wait_cordoned(&world, &from);
    for (name, cpu) in web {
        world.delete(name);
        world.pod(name, cpu, of_web);
        if name != "wide" {
            assert_eq!(world.bound(name), "1");
        }
    }
    let message = world.unschedulable("wide");
    assert_eq!(said["pods"][4]["message"], of_filters(&message));

    let (code, said) = answer(&world, &["headroom", "--like", "pod/web-0"]);
    assert_eq!((code, &said["count"]), (Some(0), &json!(1)), "{said:#}");
    world.pod("web-3", "500m", of_web);
    assert_eq!(world.bound("web-3"), "1");
    world.pod("web-4", "500m", of_web);
    assert_eq!(said["stop"]["message"], of_filters(&world.unschedulable("web-4")));
    let like_from = format!("node/{from}");
    let more = ["headroom", "--like", "pod/web-0", "--add-nodes", "1", "--like", &like_from];
    let (code, said) = answer(&world, &more);
    assert_eq!((code, &said["nodes"][0]["node"]), (Some(0), &json!(format!("{from}-added-1"))), "{said:#}");
    world.plane.kubectl_ok(&["uncordon", &from]).unwrap();
}
