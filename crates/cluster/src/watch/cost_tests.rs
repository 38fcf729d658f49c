//! What a whole read costs whoever reads, a stage at a time.

use super::frame::ReadObject;
use super::kinds::Pods;
use super::shown::Shown;
use super::split_protobuf::MessageSplitter;
use super::{Feed, WatchEvent, Watched};
use crate::proto::{Encoded, Type, testing};
use berth_core::ledger::Ledger;
use berth_core::model::Pod;
use serde_json::{Value, json};
use std::time::Instant;

const PODS: usize = 100_000;

/// A pod as an API server shows one that runs, in about 1.1 KB of protobuf.
fn pod(index: usize) -> Value {
    let service = format!("service-{:04}", index / 50);
    let time = "2026-01-31T12:00:00Z";
    let tolerated = |key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    json!({
        "metadata": {
            "name": format!("{service}-7c9d8b5f6b-{index:06}"), "namespace": "bound", "resourceVersion": (1_000_000 + index).to_string(),
            "uid": format!("{index:08x}-0000-4000-8000-{:012x}", index.wrapping_mul(2_654_435_761)), "creationTimestamp": time, "generation": 1,
            "labels": {"app.kubernetes.io/name": service, "pod-template-hash": "7c9d8b5f6b"},
            "managedFields": [{"manager": "bench", "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app.kubernetes.io/name": {}}}, "f:spec": {"f:containers": {}}}}],
        },
        "spec": {
            "nodeName": format!("node-{:05}", index % 5_000), "schedulerName": "default-scheduler", "priority": 0, "restartPolicy": "Always",
            "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "terminationMessagePath": "/dev/termination-log",
                "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}}, "imagePullPolicy": "IfNotPresent"}],
            "tolerations": [tolerated("node.kubernetes.io/not-ready"), tolerated("node.kubernetes.io/unreachable")],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": time}]},
    })
}

/// One stage more each time: reading, decoding, noting what was shown, noting what is known, applying.
#[test]
#[ignore = "a measurement: cargo test --release -p berth-cluster --lib -- --ignored --nocapture what_a_whole_read_costs"]
fn what_a_whole_read_costs() {
    let kind = Type::named("Pod").unwrap();
    let items = (0..PODS).map(|index| testing::message(&pod(index), kind));
    let body = testing::body(&testing::list(&json!({"resourceVersion": "7"}), items));
    println!("{PODS} pods of {} bytes; µs a pod:", body.len() / PODS);
    for (stage, name) in ["cut", "decoded", "shown", "noted", "applied"].into_iter().enumerate() {
        let began = Instant::now();
        let (mut splitter, mut decoder) = (MessageSplitter::new(), Pods::decoder());
        let (shown, mut feed, mut ledger) = (Shown::default(), Feed::<Pods>::default(), Ledger::new());
        feed.note(&WatchEvent::Begin);
        shown.begin();
        let mut each = |item: Encoded<'_>| {
            if stage == 0 {
                return;
            }
            let read: ReadObject<Pod> = Pods::item(&mut decoder, item);
            if stage >= 2 {
                shown.present(&read.key.uid, &read.resource_version, read.object.is_ok());
            }
            let event = WatchEvent::Item(read.object.unwrap());
            if stage >= 3 {
                feed.note(&event);
            }
            if stage >= 4 {
                Feed::<Pods>::apply(event, &mut ledger);
            }
        };
        for chunk in body.chunks(16 << 10) {
            splitter.push(chunk, &mut each);
        }
        shown.synced();
        feed.note(&WatchEvent::Synced);
        let each = began.elapsed().as_secs_f64() * 1e6 / PODS as f64;
        println!("{name:>8} {each:5.2}");
    }
}
