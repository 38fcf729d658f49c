//! Pods that keep coming at a steady rate, whatever happens to the API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use berth_lab::{Api, ControlPlane};
use serde_json::{Value, json};

use crate::objects::{pod, pod_path};

/// The namespace, and the profile of its pods.
pub(super) const LOADED: &str = "loaded";

/// Pods of one anti-affinity group: fewer than nodes, so that all find room.
const GROUP: usize = 100;

/// Pods are made until it is dropped.
pub(super) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Numbers given out; each is a pod that exists or is about to.
    begun: AtomicUsize,
    flows: AtomicBool,
    stop: AtomicBool,
    /// For each new pod the one so many before it is deleted; 0 keeps all.
    keep: AtomicUsize,
}

impl Load {
    /// `makers` threads, each with a pod every `pace`.
    pub(super) fn start(plane: &ControlPlane, makers: usize, pace: Duration) -> Self {
        let shared = Arc::new(Shared::default());
        let maker = |_| {
            let (api, shared) = (plane.api.clone(), shared.clone());
            thread::spawn(move || make(&api, &shared, pace))
        };
        Self { threads: (0..makers).map(maker).collect(), shared }
    }

    pub(super) fn flow(&self, flows: bool) {
        self.shared.flows.store(flows, Ordering::Relaxed);
    }

    /// How many pods it has made.
    pub(super) fn made(&self) -> usize {
        self.shared.begun.load(Ordering::Relaxed)
    }

    /// Deletes a pod for each that comes, so that about `pods` are there.
    pub(super) fn keep(&self, pods: usize) {
        self.shared.keep.store(pods, Ordering::Relaxed);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn make(api: &Api, shared: &Shared, pace: Duration) {
    let mut next = Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        // A rate, not a pause: what a slow answer took is not added to it. What an outage took is not made up for.
        next = (next + pace).max(Instant::now());
        thread::sleep(next.saturating_duration_since(Instant::now()));
        if shared.flows.load(Ordering::Relaxed) {
            let number = shared.begun.fetch_add(1, Ordering::Relaxed);
            let object = numbered(number);
            while !is_there(api, &object) && !shared.stop.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(200));
            }
            let keep = shared.keep.load(Ordering::Relaxed);
            if let Some(old) = number.checked_sub(keep).filter(|_| keep > 0) {
                let now = json!({"gracePeriodSeconds": 0});
                drop(api.delete(&pod_path(LOADED, &format!("p{old}")), Some(&now)));
            }
        }
    }
}

/// Whether the pod exists now; an answer that was lost is asked for again.
fn is_there(api: &Api, object: &Value) -> bool {
    let answer = api.request("POST", &pod_path(LOADED, ""), Some(object));
    answer.is_ok_and(|answer| answer.is_success() || answer.status == 409)
}

/// One in ten keeps off the nodes of its group, and one in ten holds a host port.
fn numbered(i: usize) -> Value {
    let mut pod = pod(LOADED, &format!("p{i}"), LOADED, ["100m", "250m", "400m"][i % 3]);
    if i.is_multiple_of(10) {
        let group = format!("g{}", i / (10 * GROUP));
        pod["metadata"]["labels"]["group"] = json!(group);
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"group": group}},
        }]}});
    }
    if i % 10 == 5 {
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8_000 + i / 10 % 7}]);
    }
    pod
}
