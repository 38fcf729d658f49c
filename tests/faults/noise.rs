//! An account like any other that asks for so much that its share of the API server, the priority level workload-low, is full.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use berth_lab::Api;
use serde_json::json;

use crate::load::LOADED;
use crate::stage::Stage;

/// Lists under way at a time. One of many pods takes several seats; the level has some 245 of the 600 that there are.
const CALLERS: usize = 128;

/// How many requests wait at a priority level.
const WAITING: &str = "apiserver_flowcontrol_current_inqueue_requests{";

pub(super) fn flood(stage: &mut Stage) {
    let api = stage.plane.api.with_token(&account(stage));
    let done = AtomicBool::new(false);
    let mut most = 0;
    thread::scope(|scope| {
        let _stops = Stops(&done);
        for _ in 0..CALLERS {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    match api.stream("/api/v1/pods", "application/json") {
                        Ok(mut pods) => drop(io::copy(&mut pods, &mut io::sink())),
                        Err(_) => thread::sleep(Duration::from_millis(100)),
                    }
                }
            });
        }
        let end = Instant::now() + stage.scale.span;
        while Instant::now() < end {
            stage.pass(Duration::from_secs(1));
            most = most.max(waiting(&stage.plane.api));
        }
    });
    stage.remark(format!("at most {most} requests waited in workload-low"));
}

/// Ends the callers, also when the stage panics: their scope waits for them.
struct Stops<'d>(&'d AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Requests that wait in workload-low now; 0 if nobody says.
fn waiting(api: &Api) -> u64 {
    let page = api.get("/metrics").unwrap_or_default();
    let lines = page.as_str().unwrap_or_default().lines();
    let ours = lines.filter(|line| line.starts_with(WAITING) && line.contains("priority_level=\"workload-low\""));
    ours.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// A token of an account that may read pods, and nothing else.
fn account(stage: &Stage) -> String {
    let api = &stage.plane.api;
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "noisy", "namespace": LOADED}});
    api.post(&format!("/api/v1/namespaces/{LOADED}/serviceaccounts"), &account).unwrap();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "noisy"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "noisy", "namespace": LOADED}],
    });
    api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).unwrap();
    stage.plane.token_for(LOADED, "noisy").unwrap()
}
