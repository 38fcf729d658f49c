//! A changed profile that is tried on a share of the pods first.

use serde_json::{Value, json};

use crate::LATER;
use crate::objects::{condition, wait_event};
use crate::world::World;

const PODS: usize = 60;

impl World {
    fn made(&self, wave: &str) {
        (0..PODS).for_each(|i| drop(self.pod(&format!("{wave}-{i}"), "10m", |_| {})));
    }

    /// The nodes of the pods of a wave, once all are placed.
    fn landed(&self, wave: &str) -> Vec<String> {
        (0..PODS).map(|i| self.bound(&format!("{wave}-{i}"))).collect()
    }

    /// Waits until the status says so of the rollout of the newest generation.
    fn rollout(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let seen = self.plane.wait_for(what, LATER, || {
            let profile = self.profile_now();
            last = profile["status"]["rollout"].clone();
            let newest = last["generation"] == profile["metadata"]["generation"];
            Ok((newest && is_so(&last)).then(|| last.clone()))
        });
        seen.unwrap_or_else(|error| panic!("{error}: {last}"))
    }

    fn phase(&self, phase: &str) -> Value {
        self.rollout(&format!("the rollout to be {phase}"), |rollout| rollout["phase"] == phase)
    }

    /// Waits until pods are counted for both.
    fn counts(&self) {
        self.rollout("pods to be counted", |rollout| rollout["stable"].is_object());
    }

    fn is(&self, kind: &str, status: &str, reason: &str) {
        let message = self.reason(kind, reason);
        assert_eq!(message.0, status, "{kind}: {message:?}");
    }
}

/// Half of the pods are decided by the change: those go where it says. A change that places none is broken off and takes no pod with it; one
/// that places them as well takes over.
#[test]
fn a_change_decides_for_its_share_is_broken_off_when_its_pods_fare_worse_and_takes_over_when_they_do_not() {
    let world = World::with("rolling", &json!({}), 1);
    world.node("new", "4", |node| node.label("pool", "new"));
    let pool = |pool: Value| json!({"selector": {"matchLabels": {"pool": pool}}});
    let rollout = |duration: &str| json!({"percent": 50, "minPods": 10, "duration": duration});

    world.change(&json!({"nodes": pool(json!("new")), "rollout": rollout("1h")}));
    world.is("Reconciling", "True", "RollingOut");
    world.phase("Running");
    world.counts();
    let (_, text) = world.reason("Ready", "Serving");
    assert!(text.ends_with("and generation 2 for 50% of the pods"), "{text}");
    world.made("half");
    let landed = world.landed("half");
    assert!(landed.iter().any(|node| node == "0"), "the last good spec places some: {landed:?}");
    let counted = world.plane.wait_for("what was counted of both", LATER, || {
        let arms = world.profile_now()["status"]["rollout"].clone();
        let placed = |arm: &str| arms[arm]["placed"].as_u64().unwrap_or_default();
        Ok((placed("canary") + placed("stable") == PODS as u64).then(|| placed("canary") as usize))
    });
    let on_new = landed.iter().filter(|node| *node == "new").count();
    let of_canary = counted.unwrap();
    assert!(of_canary > 0 && on_new >= of_canary, "{on_new} pods are where {of_canary} of the change must be");

    world.change(&json!({"nodes": pool(json!("nowhere")), "rollout": rollout("1h")}));
    world.phase("Running");
    world.counts();
    world.made("worse");
    let aborted = world.phase("Aborted");
    assert!(aborted["message"].as_str().unwrap().contains("pods of the changed spec fitted nowhere"), "{aborted}");
    world.landed("worse");
    world.is("Accepted", "False", "RolloutAborted");
    world.is("Ready", "False", "ServingLastGood");
    world.is("Reconciling", "False", "Settled");
    wait_event(world.plane, "default", "rolling", "RolloutAborted");

    world.change(&json!({"nodes": pool(Value::Null), "preset": "BinPack", "rollout": rollout("1s")}));
    world.phase("Running");
    world.counts();
    world.made("better");
    world.phase("Complete");
    world.landed("better");
    world.is("Ready", "True", "Serving");
    world.is("Reconciling", "False", "Settled");
    wait_event(world.plane, "default", "rolling", "RolloutComplete");
    let (_, _, message) = condition(&world.profile_now(), "Ready").unwrap();
    assert_eq!(message, "serving generation 4");

    world.change(&json!({"queue": {"maxBackoff": "20s"}}));
    world.is("Accepted", "False", "InvalidArgs");
    let (_, _, message) = condition(&world.profile_now(), "Accepted").unwrap();
    assert!(message.contains("change spec.queue without spec.rollout first"), "{message}");
}
