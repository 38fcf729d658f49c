//! A cluster for the tests of `berth top`.

use super::facts::{Facts, Profile};
use super::metrics::Scrape;
use crate::cli::live::lease::Leader;
use berth_cluster::decode::Decoder;
use berth_cluster::manifest::from_manifest;
use berth_cluster::watch::WatchEvent;
use berth_core::ledger::Object;
use serde_json::{Value, json};
use std::time::Duration;

/// The moment at which the sample is looked at: 2026-01-01T00:10:00Z.
pub(super) const NOW_US: i64 = 1_767_226_200_000_000;

pub(super) fn object(mut manifest: Value, kind: &str) -> Object {
    manifest["apiVersion"] = json!("v1");
    manifest["kind"] = json!(kind);
    from_manifest(&mut Decoder::default(), &manifest).remove(0).unwrap()
}

/// A pod of scheduler `batch` that asks for `cpu`, on `node` unless that is empty.
pub(super) fn pod(name: &str, cpu: &str, node: &str) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "ci", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"schedulerName": "batch", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    });
    if !node.is_empty() {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

/// `pod` as it is once it was refused.
pub(super) fn refused(mut pod: Value, message: &str) -> Value {
    pod["status"]["conditions"] =
        json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]);
    pod
}

pub(super) fn node(name: &str, cpu: &str) -> Value {
    let allocatable = json!({"cpu": cpu, "memory": "16Gi", "pods": "110"});
    json!({
        "metadata": {"name": name, "uid": name, "labels": {"topology.kubernetes.io/zone": "zone-a"}},
        "status": {"allocatable": allocatable},
    })
}

pub(super) fn apply(facts: &mut Facts, manifest: Value, kind: &str) {
    facts.take(kind == "Pod", WatchEvent::Apply(object(manifest, kind)));
}

/// Ends the whole reads of pods and nodes.
pub(super) fn synced(facts: &mut Facts) {
    facts.take::<Object>(true, WatchEvent::Synced);
    facts.take::<Object>(false, WatchEvent::Synced);
}

pub(super) fn profile() -> Profile {
    Profile::read(json!({
        "metadata": {"name": "batch"},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Serving", "message": "all is well",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "schedulerNames": [{"name": "batch", "state": "Serving"}],
            "nodes": {"matched": 2, "schedulable": 1},
            "pods": {"active": 0, "backoff": 0, "unschedulable": 7, "gated": 0, "held": 0, "inFlight": 0, "pending": 7,
                "oldestPendingSince": "2026-01-01T00:05:00Z"},
            "topReasons": [{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "pods": 7}],
            "extenders": [{"name": "gpu", "state": "Degraded", "circuit": "Open", "p99": "12ms", "consecutiveFailures": 3,
                "lastError": {"verb": "filter", "reason": "Timeout", "message": "nothing within 2s"}}],
        },
    }))
}

const FIRST: &str = r#"scheduler_pending_pods{queue="active",profile="batch"} 1
scheduler_pending_pods{queue="unschedulable",profile="batch"} 2
berth_bind_outcomes_total{profile="batch",outcome="bound"} 100
scheduler_schedule_attempts_total{result="scheduled",profile="batch"} 100
scheduler_unschedulable_pods{plugin="TaintToleration",profile="batch"} 2
berth_extender_requests_total{profile="batch",extender="gpu",result="ok"} 10
"#;

/// Two scrapes, a second apart.
pub(super) async fn scraped(facts: &mut Facts) {
    let second = FIRST.replace("} 100", "} 112").replace("} 10\n", "} 15\n");
    for (seconds, text) in [(1, FIRST), (2, &*second)] {
        facts.scraped(Duration::from_secs(seconds), Scrape::read(text.as_bytes()).await.unwrap());
    }
}

/// A profile with an extender, two nodes, and a pod each that is placed, refused, gated, and nobody's.
pub(super) fn facts() -> Facts {
    let mut facts = Facts { server: "https://10.0.0.1".to_owned(), profiles: vec![profile()], ..Facts::default() };
    facts.led_by(Leader::Leads { holder: "berth-0_1-2".to_owned(), seconds: 1 });
    apply(&mut facts, node("small", "4"), "Node");
    let mut cordoned = node("large", "16");
    cordoned["spec"] = json!({"unschedulable": true});
    apply(&mut facts, cordoned, "Node");
    apply(&mut facts, pod("web", "3", "small"), "Pod");
    let message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. preemption: no.";
    apply(&mut facts, refused(pod("train", "8", ""), message), "Pod");
    let mut gated = pod("later", "1", "");
    gated["spec"]["schedulingGates"] = json!([{"name": "quota"}]);
    apply(&mut facts, gated, "Pod");
    let mut lost = pod("lost", "1", "");
    lost["spec"]["schedulerName"] = json!("batsh");
    apply(&mut facts, lost, "Pod");
    let mut others = pod("others", "1", "");
    others["spec"]["schedulerName"] = json!("default-scheduler");
    apply(&mut facts, others, "Pod");
    synced(&mut facts);
    facts
}
