//! etcd reaches its quota: it takes no write but deletions until there is room again and somebody disarms its alarm.

use std::time::{Duration, Instant};

use berth_lab::{Api, ETCD_QUOTA};
use serde_json::json;

use crate::cluster::namespace;
use crate::stage::Stage;

/// Who fills it.
const HOARD: &str = "hoard";

/// What is left to be filled, in bytes: pods alone would take minutes.
const ROOM: u64 = 64 << 20;

/// Bytes in each ConfigMap. An object may have a mebibyte.
const SIZE: usize = 900 << 10;

pub(super) fn reach(stage: &mut Stage) {
    let size = stage.plane.reclaim_etcd().unwrap();
    stage.plane.restart_etcd(size + ROOM).unwrap();
    namespace(&stage.plane, HOARD);
    let made = fill(&stage.plane.api);
    let full = Instant::now();
    stage.pass(Duration::from_secs(20));
    for i in 0..made {
        let answer = stage.plane.api.request("DELETE", &format!("{}/{}", maps(), name(i)), None).unwrap();
        let is_gone = answer.is_success() || answer.status == 404;
        assert!(is_gone, "a deletion while the alarm is on: {} {}", answer.status, answer.body["message"]);
    }
    stage.plane.reclaim_etcd().unwrap();
    stage.remark(format!("no write but deletions for {} s", full.elapsed().as_secs()));
    // The cases that follow need more room than this one.
    stage.plane.restart_etcd(ETCD_QUOTA).unwrap();
}

/// Makes ConfigMaps until etcd takes no more; how many there are at most.
fn fill(api: &Api) -> usize {
    let text = "x".repeat(SIZE);
    let most = 2 * ROOM as usize / SIZE;
    let mut last = String::new();
    for i in 0..most {
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name(i)},
            "data": {"text": text},
        });
        let answer = api.request("POST", &maps(), Some(&map)).unwrap();
        if !answer.is_success() {
            last = answer.body.to_string();
        }
        if last.contains("database space exceeded") {
            return i;
        }
    }
    panic!("{most} ConfigMaps of {SIZE} bytes, and etcd's quota is not reached; the last error: {last}")
}

fn maps() -> String {
    format!("/api/v1/namespaces/{HOARD}/configmaps")
}

fn name(i: usize) -> String {
    format!("hoarded-{i}")
}
