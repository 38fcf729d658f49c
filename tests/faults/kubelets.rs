//! What the kubelets of all nodes do about pods that do not fit: kwok's nodes take everything.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use berth_lab::{Api, ControlPlane, Patch, follow};
use serde_json::{Value, json};

use crate::load::LOADED;
use crate::objects::{milli, milli_of, pod_path};

/// One agent for all nodes and one namespace. It admits pods in the order of the watch, as each kubelet does.
pub(super) struct Kubelets {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    refused: AtomicUsize,
    /// Those of them that Berth had bound.
    ours: AtomicUsize,
    stop: AtomicBool,
}

/// What is admitted: on each node the milli-CPU, and which pods.
#[derive(Default)]
struct Admitted {
    taken: HashMap<String, u64>,
    pods: HashSet<String>,
}

impl Kubelets {
    pub(super) fn start(plane: &ControlPlane, namespace: &str) -> Self {
        let nodes = plane.api.get("/api/v1/nodes").unwrap();
        let room: HashMap<String, u64> = nodes["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| {
                let cpu = node["status"]["allocatable"]["cpu"].as_str().unwrap();
                (node["metadata"]["name"].as_str().unwrap().to_owned(), milli(cpu))
            })
            .collect();
        let shared = Arc::new(Shared::default());
        let (api, path, inner) = (plane.api.clone(), pod_path(namespace, ""), shared.clone());
        let thread = thread::spawn(move || admit_all(&api, &path, &room, &inner));
        Self { shared, thread }
    }

    /// Ends them; how many pods they refused, and how many of these Berth had bound.
    pub(super) fn stop(self) -> (usize, usize) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        (self.shared.refused.load(Ordering::Relaxed), self.shared.ours.load(Ordering::Relaxed))
    }
}

fn admit_all(api: &Api, path: &str, room: &HashMap<String, u64>, shared: &Shared) {
    let mut admitted = Admitted::default();
    follow(api, path, &shared.stop, |event, pod| {
        if event != "DELETED" {
            admit(api, pod, room, shared, &mut admitted);
        }
        Ok(())
    });
    // A busy API server shows binds late: those that were not seen before the end are looked at now.
    let left = api.get(path).unwrap();
    for pod in left["items"].as_array().into_iter().flatten() {
        admit(api, pod, room, shared, &mut admitted);
    }
}

fn admit(api: &Api, pod: &Value, room: &HashMap<String, u64>, shared: &Shared, admitted: &mut Admitted) {
    if !admitted.admits(pod, room) {
        shared.refused.fetch_add(1, Ordering::Relaxed);
        let is_ours = pod["spec"]["schedulerName"] == LOADED;
        shared.ours.fetch_add(usize::from(is_ours), Ordering::Relaxed);
        while !refuse(api, pod) {
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Admitted {
    /// Whether the pod fits beside what was admitted before, or is admitted already, or concerns no kubelet.
    fn admits(&mut self, pod: &Value, room: &HashMap<String, u64>) -> bool {
        let Some(node) = pod["spec"]["nodeName"].as_str() else { return true };
        if pod["status"]["phase"] == "Failed" || !self.pods.insert(pod["metadata"]["uid"].to_string()) {
            return true;
        }
        let taken = self.taken.entry(node.to_owned()).or_default();
        let fits = *taken + milli_of(pod) <= room.get(node).copied().unwrap_or(0);
        if fits {
            *taken += milli_of(pod);
        }
        fits
    }
}

/// As a kubelet rejects a pod that does not fit: `pkg/kubelet/lifecycle/predicate.go`. False where the API server is too busy for it.
fn refuse(api: &Api, pod: &Value) -> bool {
    let name = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    let path = format!("{}/status", pod_path(&name("namespace"), &name("name")));
    let failed = json!({"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}});
    // A pod that is gone needs no refusal.
    let answer = api.request_as("PATCH", &path, Some((Patch::Merge.content_type(), &failed)));
    answer.is_ok_and(|answer| answer.is_success() || answer.status == 404)
}
