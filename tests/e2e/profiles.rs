//! Profiles while they live: changed, refused, in conflict, paused, deleted, awaited. (Restarts: `last_good`.)

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use berth_lab::Patch;
use serde_json::{Value, json};

use crate::SOON;
use crate::objects::{PROFILES, change_profile, condition, events, pod, pod_path, profile, wait_event, wait_reason};
use crate::world::World;

/// A label key that the schema lets through and that is no label key.
const NO_LABEL_KEY: &str = "example..com/pool";

/// A spec in which the pod's wish for a node stands against the room on it.
fn weighed(affinity: u32, room: u32) -> Value {
    json!({
        "preset": "NoScoring",
        "scores": [
            {"name": "NodeAffinity", "weight": affinity},
            {"name": "NodeResourcesFit", "weight": room},
        ],
    })
}

#[test]
fn a_weight_changed_on_a_live_profile_moves_the_next_pods() {
    let world = World::with("weights", &weighed(1, 1_000), 2);
    // Node 0 is the fuller one, and the one that the pods would rather have.
    world.pod("filler", "2", |pod| pod["spec"]["nodeName"] = json!("weights-0"));
    let wishes = |pod: &mut Value| {
        pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = json!([{
            "weight": 100,
            "preference": {"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["weights-0"]}]},
        }]);
    };
    world.pod("by-room", "100m", wishes);
    assert_eq!(world.bound("by-room"), "1");
    world.change(&weighed(1_000, 1));
    world.reason("Ready", "Serving");
    world.pod("by-wish", "100m", wishes);
    assert_eq!(world.bound("by-wish"), "0");
    let effective = &world.profile_now()["status"]["effective"]["scores"];
    assert_eq!(effective, &json!(["NodeAffinity=1000", "NodeResourcesFit=1"]));
}

#[test]
fn a_change_lets_every_unschedulable_pod_try_again() {
    let world = World::with("widened", &json!({}), 1);
    world
        .plane
        .create_nodes(1, |_| berth_lab::NodeSpec::new("widened-annex", "zone-b", "8", "8Gi").label("annex", "yes"))
        .unwrap();
    world.pod("big", "6", |_| {});
    world.says("big", "0/1 nodes are available: 1 Insufficient cpu.");
    world.change(&json!({"nodes": {"selector": {"matchLabels": {"annex": "yes", "world": null}}}}));
    assert_eq!(world.bound("big"), "annex");
}

#[test]
fn a_spec_that_does_not_compile_leaves_the_last_good_one_serving() {
    let world = World::with("mistaken", &json!({}), 2);
    world.reason("Ready", "Serving");
    let now = world.profile_now();
    world.change(&json!({"nodes": {"selector": {"matchLabels": {NO_LABEL_KEY: "batch"}}}}));
    let (status, message) = world.reason("Accepted", "InvalidSelector");
    assert_eq!(status, "False");
    assert!(message.starts_with("spec.nodes.selector") && message.contains(NO_LABEL_KEY), "{message}");
    let (status, message) = world.reason("Ready", "ServingLastGood");
    assert_eq!(status, "False");
    assert!(message.contains("generation 1 serves"), "{message}");
    assert_eq!(world.reason("Stalled", "InvalidSpec").0, "True");
    assert_eq!(wait_event(world.plane, "default", "mistaken", "ServingLastGood")["type"], "Warning");
    world.pod("still", "100m", |_| {});
    world.bound("still");

    world.change(&json!({"nodes": {"selector": {"matchLabels": {NO_LABEL_KEY: null}}}}));
    assert_eq!(world.reason("Ready", "Serving").0, "True");
    assert_eq!(world.profile_now()["spec"], now["spec"]);
    assert_eq!(world.reason("Stalled", "Settled").0, "False");
}

#[test]
fn a_first_spec_that_does_not_compile_serves_nobody_and_says_why() {
    let world = World::new("stillborn");
    let selector = json!({"nodes": {"selector": {"matchLabels": {NO_LABEL_KEY: "x"}}}});
    world.plane.api.post(PROFILES, &profile("stillborn", &selector)).unwrap();
    let (status, message) = world.reason("Ready", "NotAccepted");
    assert_eq!(status, "False");
    assert!(message.contains(NO_LABEL_KEY), "{message}");
    assert_eq!(world.reason("SchedulingHealthy", "NotServing").0, "Unknown");
    let told = wait_event(world.plane, "default", "stillborn", "InvalidSelector");
    assert!(told["type"] == "Warning" && told["note"].as_str().unwrap().contains(NO_LABEL_KEY), "{told:#}");
}

/// Waits for the next second of the wall clock: creation times have no finer grain.
fn next_second(world: &World) {
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let first = second();
    world.plane.wait_for("the next second", SOON, || Ok((second() > first).then_some(()))).unwrap();
}

#[test]
fn of_two_profiles_with_one_scheduler_name_the_older_serves_and_the_younger_takes_over() {
    let world = World::new("claimed");
    world.node("n", "4", |node| node);
    let names = json!({"schedulerNames": ["claimed"]});
    // By name alone the younger one would come first.
    world.profile("zz-older", &names);
    next_second(&world);
    world.profile("aa-younger", &json!({"schedulerNames": ["claimed", "claimed-too"]}));
    assert_eq!(wait_reason(world.plane, "zz-older", "Ready", "Serving").0, "True");
    let (status, message) = wait_reason(world.plane, "aa-younger", "Accepted", "SchedulerNameConflict");
    assert_eq!(status, "False");
    assert!(message.contains("\"claimed\"") && message.contains("zz-older"), "{message}");
    let younger = world.plane.api.get(&format!("{PROFILES}/aa-younger")).unwrap();
    let states = json!([{"name": "claimed", "state": "Conflict"}, {"name": "claimed-too", "state": "Serving"}]);
    assert_eq!(younger["status"]["schedulerNames"], states);
    world.pod("first", "100m", |_| {});
    world.bound("first");

    world.plane.api.delete(&format!("{PROFILES}/zz-older"), None).unwrap();
    assert_eq!(wait_reason(world.plane, "aa-younger", "Ready", "Serving").0, "True");
    world.pod("second", "100m", |_| {});
    world.bound("second");
    // Nobody was left behind, so nobody is told.
    assert!(events(&world.plane.api, "claimed", "SchedulerProfileDeleted").is_empty());
}

#[test]
fn an_edit_takes_no_name_from_the_profile_that_serves_it_and_leaves_its_own_names_served() {
    let world = World::new("incumbent");
    world.node("n", "4", |node| node);
    world.profile("aa-taker", &json!({"schedulerNames": ["taker"]}));
    next_second(&world);
    world.profile("zz-holder", &json!({"schedulerNames": ["incumbent"]}));
    for profile in ["aa-taker", "zz-holder"] {
        assert_eq!(wait_reason(world.plane, profile, "Ready", "Serving").0, "True");
    }
    // One edit asks for another profile's name, the next for a reserved one, and both leave out the own.
    for (name, reason) in [("incumbent", "SchedulerNameConflict"), ("default-scheduler", "ReservedSchedulerName")] {
        change_profile(world.plane, "aa-taker", &json!({"schedulerNames": [name]}));
        wait_reason(world.plane, "aa-taker", "Accepted", reason);
        wait_reason(world.plane, "aa-taker", "Ready", "ServingLastGood");
        assert_eq!(wait_reason(world.plane, "aa-taker", "Stalled", "InvalidSpec").0, "True");
        assert_eq!(wait_reason(world.plane, "zz-holder", "Ready", "Serving").0, "True");
        // Other refusals are told of as `ServingLastGood`.
        if reason == "SchedulerNameConflict" {
            assert_eq!(wait_event(world.plane, "default", "aa-taker", reason)["type"], "Warning");
        }
        for scheduler in ["incumbent", "taker"] {
            let pod_name = format!("{scheduler}-{}", name.split('-').next().unwrap_or(name));
            let one = pod("incumbent", &pod_name, scheduler, "100m");
            world.plane.api.post(&pod_path("incumbent", ""), &one).unwrap();
            world.bound(&pod_name);
        }
    }
}

#[test]
fn default_scheduler_is_refused_without_the_flag() {
    let world = World::new("reserved");
    world.node("n", "4", |node| node);
    world.profile("reserved", &json!({"schedulerNames": ["default-scheduler"]}));
    let (status, message) = world.reason("Accepted", "ReservedSchedulerName");
    assert_eq!(status, "False");
    assert!(message.contains("--serve-default-scheduler"), "{message}");
    assert_eq!(world.reason("Ready", "NotAccepted").0, "False");
    world.plane.api.post(&pod_path("reserved", ""), &pod("reserved", "left", "default-scheduler", "100m")).unwrap();
    // A profile that may serve comes later in the same streams; the other pod is left alone.
    world.profile("reserved-fence", &json!({}));
    world.plane.api.post(&pod_path("reserved", ""), &pod("reserved", "fence", "reserved-fence", "100m")).unwrap();
    world.bound("fence");
    let left = world.get("left");
    assert!(left["spec"]["nodeName"].is_null() && condition(&left, "PodScheduled").is_none(), "{left:#}");
}

#[test]
fn a_paused_profile_keeps_its_pods_queued_and_goes_on_where_it_was() {
    let world = World::with("paused", &json!({}), 1);
    world.change(&json!({"mode": "Paused"}));
    assert_eq!(world.reason("Ready", "Paused").0, "True", "it does what its spec asks");
    world.pod("waits", "100m", |_| {});
    // Another profile's pod, later in the same stream, is placed meanwhile.
    world.profile("paused-fence", &json!({}));
    world.plane.api.post(&pod_path("paused", ""), &pod("paused", "fence", "paused-fence", "100m")).unwrap();
    world.bound("fence");
    assert!(world.get("waits")["spec"]["nodeName"].is_null());
    // Nobody buys a node for a pod that only waits for a switch.
    let said = condition(&world.get("waits"), "PodScheduled");
    assert!(said.is_none_or(|(_, reason, _)| reason != "Unschedulable"));
    world.change(&json!({"mode": "Active"}));
    world.bound("waits");
    assert_eq!(world.reason("Ready", "Serving").0, "True");
    for reason in ["Accepted", "Paused", "Resumed"] {
        assert_eq!(wait_event(world.plane, "default", "paused", reason)["type"], "Normal", "{reason}");
    }
}

#[test]
fn a_deleted_profile_drains_and_says_on_the_profile_and_on_each_pod_who_is_left() {
    const PODS: usize = 103;
    const TOLD: usize = 100;
    let world = World::with("drained", &json!({}), 1);
    world.change(&json!({"mode": "Paused"}));
    world.reason("Ready", "Paused");
    let path = pod_path("drained", "");
    world.plane.create_objects(&path, PODS, 16, |i| pod("drained", &format!("p{i}"), "drained", "10m")).unwrap();
    world
        .plane
        .wait_for("all pods in the queue", SOON, || {
            let (_, page) = world.operator.page("/metrics")?;
            let waits = page
                .lines()
                .filter(|line| line.starts_with("scheduler_pending_pods") && line.contains("profile=\"drained\""))
                .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            Ok((waits.sum::<f64>() as usize == PODS).then_some(()))
        })
        .unwrap();
    world.plane.api.delete(&format!("{PROFILES}/drained"), None).unwrap();
    let told = wait_event(world.plane, "default", "drained", "PodsLeftPending");
    let note = told["note"].as_str().unwrap();
    assert!(note.starts_with("103 pending pods still name drained"), "{note}");
    assert_eq!((&told["type"], &told["regarding"]["kind"]), (&json!("Warning"), &json!("SchedulerProfile")));
    let all = world.plane.wait_for("an event on each pod", SOON, || {
        let all = events(&world.plane.api, "drained", "SchedulerProfileDeleted");
        Ok((all.len() >= TOLD).then_some(all))
    });
    let all = all.unwrap();
    let pods: BTreeSet<&str> = all.iter().map(|event| event["regarding"]["name"].as_str().unwrap()).collect();
    assert_eq!((all.len(), pods.len()), (TOLD, TOLD), "bounded, one for each");
    let note = all[0]["note"].as_str().unwrap();
    assert!(note.starts_with("SchedulerProfile drained was deleted"), "{note}");
    let bound = world.plane.api.get(&path).unwrap();
    assert!(bound["items"].as_array().unwrap().iter().all(|pod| pod["spec"]["nodeName"].is_null()));

    // Whoever comes next finds them.
    world.profile("drained", &json!({}));
    for name in ["p0", "p102"] {
        world.bound(name);
    }
}

#[test]
fn pods_that_name_a_profile_not_there_yet_are_served_when_it_comes() {
    let world = World::new("awaited");
    world.node("n", "4", |node| node);
    world.pod("early", "100m", |_| {});
    world.pod("early-too-big", "8", |_| {});
    // Both were seen before the profile came: a later pod of the same stream is placed.
    world.profile("awaited-fence", &json!({}));
    world.plane.api.post(&pod_path("awaited", ""), &pod("awaited", "fence", "awaited-fence", "100m")).unwrap();
    world.bound("fence");
    assert!(condition(&world.get("early"), "PodScheduled").is_none(), "nobody speaks for a profile that is not there");
    world.profile("awaited", &json!({}));
    assert_eq!(world.bound("early"), "n");
    world.unschedulable("early-too-big");
}

#[test]
fn a_restricted_profile_serves_the_namespaces_it_names_or_whose_labels_match() {
    let world = World::new("restricted");
    world.node("n", "4", |node| node);
    for name in ["restricted-named", "restricted-labelled"] {
        crate::cluster::namespace(world.plane, name);
    }
    let access = json!({"access": "Restricted", "names": ["restricted-named"], "matchLabels": {"team": "batch"}});
    world.profile("restricted", &json!({"namespaces": access}));
    for namespace in ["restricted", "restricted-named", "restricted-labelled"] {
        world.plane.api.post(&pod_path(namespace, ""), &pod(namespace, "p", "restricted", "100m")).unwrap();
    }
    crate::objects::wait_bound(world.plane, "restricted-named", "p");
    for namespace in ["restricted", "restricted-labelled"] {
        let message = crate::objects::wait_refused(world.plane, namespace, "p", "SchedulerError");
        let expected = format!("namespace {namespace} may not use SchedulerProfile restricted (spec.namespaces)");
        assert_eq!(message, expected);
    }
    let label = json!({"metadata": {"labels": {"team": "batch"}}});
    world.plane.api.patch("/api/v1/namespaces/restricted-labelled", Patch::Merge, &label).unwrap();
    crate::objects::wait_bound(world.plane, "restricted-labelled", "p");
    assert!(world.get("p")["spec"]["nodeName"].is_null());
}
