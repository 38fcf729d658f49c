//! A pod of ours that someone else bound.

use berth_lab::Patch;
use serde_json::{Value, json};

use crate::LATER;
use crate::objects::{bind, condition, pod_path, wait_event};
use crate::world::World;

/// A second scheduler for one name overbooks nodes.
#[test]
fn a_pod_bound_by_someone_else_is_told_with_its_node_and_by_whom() {
    let world = World::with("foreign", &json!({}), 1);
    world.node("theirs", "16", |node| node.label("world", "foreign-annex"));
    assert_eq!(world.reason("SchedulingHealthy", "Idle").0, "True");
    let mut attempt = 0;
    // Within one lease duration of taking over, a bind may still be a predecessor's and is not told: then the next one is.
    let message = world.plane.wait_for("another scheduler to be noticed", LATER, || {
        let name = format!("taken-{attempt}");
        attempt += 1;
        world.pod(&name, "8", |_| {});
        world.unschedulable(&name);
        // What a scheduler leaves on a pod that it looked at before.
        let said = json!({"status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "theirs"}]}});
        let status = format!("{}/status?fieldManager=other-scheduler", pod_path("foreign", &name));
        world.plane.api.patch(&status, Patch::Strategic, &said)?;
        let answer = bind(&world.plane.api, "foreign", &name, "foreign-theirs");
        assert!(answer.is_success(), "{answer:?}");
        let told = world.plane.wait_for("the condition", std::time::Duration::from_secs(8), || Ok(noticed(&world)));
        Ok(told.ok())
    });
    let message = message.unwrap();
    assert!(message.contains("foreign/taken-") && message.contains("node foreign-theirs"), "{message}");
    wait_event(world.plane, "default", "foreign", "AnotherSchedulerServes");
    // The writer's name is looked up after the sighting; its message follows with the counters.
    let named = world.plane.wait_for("the other one's name", LATER, || {
        Ok(noticed(&world).filter(|message| message.contains("by other-scheduler")))
    });
    named.unwrap();
    assert_eq!(condition(&world.profile_now(), "Ready").unwrap().0, "True", "it speaks of results, not of validity");
    let (_, page) = world.operator.page("/metrics").unwrap();
    let foreign = page.lines().find(|line| {
        line.starts_with("berth_bind_conflicts_total")
            && line.contains("profile=\"foreign\"")
            && line.contains("kind=\"foreign\"")
    });
    assert!(foreign.is_some_and(|line| !line.ends_with(" 0")), "{foreign:?}");
}

fn noticed(world: &World) -> Option<String> {
    let profile: Value = world.profile_now();
    let found = condition(&profile, "SchedulingHealthy").filter(|(_, reason, _)| reason == "AnotherSchedulerServes");
    found.map(|(status, _, message)| {
        assert_eq!(status, "False");
        message
    })
}

/// A pod that was born with a node never waited for anyone: nobody took it.
#[test]
fn a_pod_born_with_a_node_was_bound_by_no_foreign_scheduler() {
    let world = World::with("born", &json!({}), 1);
    world.pod("static", "100m", |pod| pod["spec"]["nodeName"] = json!("born-0"));
    world.pod("after", "100m", |_| {});
    world.bound("after");
    let (_, page) = world.operator.page("/metrics").unwrap();
    let foreign = page.lines().find(|line| {
        line.starts_with("berth_bind_conflicts_total")
            && line.contains("profile=\"born\"")
            && line.contains("kind=\"foreign\"")
    });
    assert!(foreign.is_some_and(|line| line.ends_with(" 0") || line.ends_with(" 0.0")), "{foreign:?}");
}
