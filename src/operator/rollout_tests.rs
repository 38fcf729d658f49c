//! The reconciler and real workers: what becomes of a changed spec that is tried on a share of the pods.

use super::reconciler_tests::{Bench, object};
use berth_api::{RolloutPhase, SchedulerProfileStatus};
use berth_core::ledger::Ledger;
use berth_core::model::Pod;
use berth_core::testing::{node, pending_pod};
use berth_core::worker::WorkerSnapshot;
use berth_testing::until;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A change with which pods fit nowhere, tried on half of them.
fn nowhere() -> Value {
    let selector = json!({"matchLabels": {"pool": "nowhere"}});
    json!({"nodes": {"selector": selector}, "rollout": {"percent": 50, "minPods": 5}})
}

/// A change that places pods as well as before.
fn packing() -> Value {
    json!({"preset": "BinPack", "rollout": {"percent": 50, "minPods": 1, "duration": "1s"}})
}

fn pods(bench: &Bench, from: usize, count: usize) {
    bench.cx.engine.apply(|ledger| {
        ledger.apply_node(&node("n", 1_000_000, 1 << 40, 1_000));
        for i in from..from + count {
            let pod = pending_pod("ns", &format!("p{i}"));
            ledger.apply_pod(Pod { scheduler_name: "batch".into(), ..pod });
        }
    });
}

fn placed(bench: &Bench) -> usize {
    bench.cx.engine.read(|ledger: &Ledger| ledger.nodes().find("n").map_or(0, |row| ledger.pods_on(row).len()))
}

fn has_two_arms(bench: &Bench) -> bool {
    let counts = |snapshot: &WorkerSnapshot| snapshot.arms.as_ref().is_some_and(|arms| arms.samples.since.is_some());
    let view = bench.cx.engine.worker("batch");
    view.is_some_and(|view| view.profile.canary.is_some() && view.snapshot.as_deref().is_some_and(counts))
}

/// A profile whose change is being tried.
async fn rolling_out(good: Value, changed: Value) -> Bench {
    let mut bench = Bench::new().await;
    bench.list(&[("batch", 1, 1, good)]).await;
    bench.serves("batch", &["batch"]).await;
    bench.edit("batch", 1, 2, changed).await;
    until("both arms", || has_two_arms(&bench)).await;
    bench
}

/// Another process takes over while the second generation of the profile is [`nowhere`], with the status that the last one wrote.
async fn led_by_another(mut bench: Bench) -> Bench {
    let told = serde_json::to_value(bench.status("batch").await).unwrap();
    let mut bench = bench.restarted().await;
    let mut known = serde_json::to_value(object("batch", 1, 2, &nowhere()).0.unwrap()).unwrap();
    known["status"] = told;
    bench.reconciler.take(Ok(Event::Init));
    bench.reconciler.take(Ok(Event::InitApply(serde_json::from_value(known).unwrap())));
    bench.reconciler.take(Ok(Event::InitDone));
    bench
}

async fn phase(bench: &mut Bench) -> Option<RolloutPhase> {
    bench.reconciler.tend_rollouts();
    bench.status("batch").await.rollout.and_then(|rollout| rollout.phase)
}

async fn wait_phase(bench: &mut Bench, wanted: RolloutPhase) -> SchedulerProfileStatus {
    wait(bench, async |bench| phase(bench).await == Some(wanted)).await;
    bench.status("batch").await
}

/// As `until`, of what has to be asked for.
async fn wait(bench: &mut Bench, mut is_so: impl AsyncFnMut(&mut Bench) -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !is_so(bench).await {
        assert!(Instant::now() < limit, "{:?}", bench.status("batch").await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

const KINDS: [&str; 3] = ["Ready", "Accepted", "Reconciling"];

#[tokio::test]
async fn a_change_whose_pods_fare_worse_is_broken_off_and_the_last_good_spec_places_them() {
    // The end of its pause holds for all pods, and stays.
    let mut bench = rolling_out(json!({"mode": "Paused"}), nowhere()).await;
    let running = ["Ready=True/Serving", "Accepted=True/Accepted", "Reconciling=True/RollingOut"];
    assert_eq!(bench.conditions("batch", &KINDS).await, running);
    let status = bench.status("batch").await;
    assert_eq!(status.conditions[0].message, "serving generation 1, and generation 2 for 50% of the pods");
    pods(&bench, 0, 60);
    let status = wait_phase(&mut bench, RolloutPhase::Aborted).await;
    let rollout = status.rollout.unwrap();
    assert!(rollout.message.starts_with("100.0% of ") && rollout.generation == 2, "{rollout:?}");
    until("all pods to be placed", || placed(&bench) == 60).await;
    let aborted = ["Ready=False/ServingLastGood", "Accepted=False/RolloutAborted", "Reconciling=False/Settled"];
    assert_eq!(bench.conditions("batch", &KINDS).await, aborted);
    let (object, note) = bench.events("RolloutAborted", 1).await.remove(0);
    assert!(object == "batch" && note.contains("fitted nowhere"), "{object}: {note}");
    assert!(!has_two_arms(&bench));
    // Nor does another leader try it again: the status tells it, and goes on telling it.
    let mut bench = Box::pin(led_by_another(bench)).await;
    bench.serves("batch", &["batch"]).await;
    assert_eq!(bench.conditions("batch", &KINDS).await, aborted);
    assert_eq!(bench.status("batch").await.rollout, Some(rollout));
    // Only another spec is.
    bench.edit("batch", 1, 3, json!({"preset": "BinPack"})).await;
    let serving = ["Ready=True/Serving", "Accepted=True/Accepted", "Reconciling=False/Settled"];
    wait(&mut bench, async |bench| bench.conditions("batch", &KINDS).await == serving).await;
    assert_eq!(bench.status("batch").await.rollout, None);
}

#[tokio::test]
async fn a_change_whose_pods_fare_as_well_takes_over_and_is_the_last_good_spec() {
    let mut bench = rolling_out(json!({}), packing()).await;
    let before = bench.status("batch").await.last_good_revision;
    pods(&bench, 0, 20);
    wait_phase(&mut bench, RolloutPhase::Complete).await;
    bench.reconciler.save_good().await;
    until("one arm", || !has_two_arms(&bench)).await;
    let status = bench.status("batch").await;
    assert_ne!(status.last_good_revision, before);
    assert_eq!(status.conditions[0].message, "serving generation 2");
    assert_eq!(bench.events("RolloutComplete", 1).await.len(), 1);
    let mut bench = bench.restarted().await;
    bench.list(&[("batch", 1, 2, packing())]).await;
    bench.serves("batch", &["batch"]).await;
    assert_eq!(bench.reasons("batch").await[0], "Ready=True/Serving");
    assert!(!has_two_arms(&bench), "it is the last good spec");
}

#[tokio::test]
async fn a_rollout_outlives_a_change_of_leader_and_ends_with_a_change_of_the_spec() {
    let mut bench = rolling_out(json!({}), nowhere()).await;
    let began = bench.status("batch").await.rollout.unwrap().started_at;
    let mut bench = Box::pin(led_by_another(bench)).await;
    until("both arms", || has_two_arms(&bench)).await;
    assert_eq!(bench.status("batch").await.rollout.unwrap().started_at, began);
    // A pause is for the pods of both.
    let mut paused = nowhere();
    paused["mode"] = json!("Paused");
    bench.edit("batch", 1, 3, paused).await;
    until("a pause", || {
        bench.cx.engine.worker("batch").is_some_and(|w| w.profile.mode == berth_core::profile::Mode::Paused)
    })
    .await;
    assert!(has_two_arms(&bench));
    let refused_edit = json!({"nodes": {"selector": {"matchLabels": {"a..b/c": "x"}}}});
    bench.edit("batch", 1, 4, refused_edit).await;
    until("one arm", || !has_two_arms(&bench)).await;
    let mode = bench.cx.engine.worker("batch").unwrap().profile.mode;
    assert_eq!(mode, berth_core::profile::Mode::Paused, "a refused edit ends no pause");
    bench.edit("batch", 1, 5, nowhere()).await;
    until("both arms", || has_two_arms(&bench)).await;
    bench.edit("batch", 1, 6, json!({"schedulerNames": ["other"], "rollout": {}})).await;
    let refused = ["Ready=False/ServingLastGood", "Accepted=False/InvalidArgs", "Reconciling=False/Settled"];
    until("one arm", || !has_two_arms(&bench)).await;
    assert_eq!(bench.conditions("batch", &KINDS).await, refused);
    bench.serves("batch", &["batch"]).await;
}
