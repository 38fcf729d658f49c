//! `berth simulate` and `berth diff` on the real API server: what they say happens.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::cluster::binary;
use crate::objects::{change_profile, profile};
use crate::world::World;

fn berth(world: &World, args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(args).args(["-o", "json", "--kubeconfig"]).arg(&world.plane.kubeconfig).output().unwrap()
}

/// The answer; other worlds may make it a no.
fn answer(world: &World, args: &[&str]) -> Value {
    let output = berth(world, args);
    let said = serde_json::from_slice(&output.stdout);
    said.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// The only pod of `list` that is this world's.
fn own<'a>(world: &World, list: &'a Value) -> &'a Value {
    let mut own = list.as_array().unwrap().iter().filter(|pod| pod["namespace"] == *world.name);
    let (Some(one), None) = (own.next(), own.next()) else { panic!("not one pod of {}: {list:#}", world.name) };
    one
}

#[test]
fn a_changed_profile_does_what_diff_says_of_it() {
    let only = |node: &str| {
        let test = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [format!("diffed-{node}")]});
        json!({"pluginArgs": {"nodeAffinity": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [test]}]}}}}})
    };
    let world = World::new("diffed");
    world.node("0", "4", |node| node);
    world.node("1", "4", |node| node);
    world.profile(&world.name, &only("0"));
    world.settle("0");
    world.pod("first", "3", |_| {});
    assert_eq!(world.bound("first"), "0");
    world.pod("second", "3", |_| {});
    let message = world.unschedulable("second");

    let simulated = answer(&world, &["simulate"]);
    let second = own(&world, &simulated["pods"]);
    assert!(
        second["node"].is_null() && message.starts_with(second["message"].as_str().unwrap()),
        "{second:#} {message}"
    );

    let mut spec = json!({});
    spec["nodes"]["selector"] = world.selector();
    let changed = world.plane.dir().join("diffed.json");
    std::fs::write(&changed, profile(&world.name, &spec).to_string()).unwrap();
    let found = answer(&world, &["diff", "-f", changed.to_str().unwrap()]);
    let second = own(&world, &found["waiting"]["fitNow"]);
    assert_eq!((&second["name"], &second["node"]), (&json!("second"), &json!("diffed-1")), "{second:#}");
    change_profile(world.plane, &world.name, &json!({"pluginArgs": null}));
    assert_eq!(world.bound("second"), "1");

    // And back again: of the placed pods, read whole from the API server, one fits no longer.
    spec["pluginArgs"] = only("0")["pluginArgs"].clone();
    std::fs::write(&changed, profile(&world.name, &spec).to_string()).unwrap();
    let output = berth(&world, &["diff", "-f", changed.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    own(&world, &found["placed"]["noLongerFit"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("not everything could be read at one resourceVersion"), "{said}");
}
