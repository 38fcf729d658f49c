//! An account like any other that asks for so much that its share of the API server, the priority level workload-low, is full.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use berth_lab::Api;
use serde_json::json;

use crate::SOON;
use crate::audit::Bind;
use crate::load::LOADED;
use crate::stage::{Stage, now_us};

/// Lists under way at a time. The level has some 245 of the API server's 600 seats, borrows up to a hundred that others leave idle,
/// and queues for 400 more requests of one account.
const CALLERS: usize = 600;

/// Asked for in turn. A few objects are soon sent: on a machine where the callers are the slow ones, they alone would never fill the
/// level. A list that must not be older than a revision that is not there yet keeps its seat for three seconds, and then fails.
const LISTS: [&str; 2] =
    ["/api/v1/pods?limit=50", "/api/v1/pods?resourceVersion=1000000000&resourceVersionMatch=NotOlderThan"];

/// The flow schemas of the chart, by which the operators' requests have shares that are not everybody's.
const OURS: [&str; 2] = ["berth", "berth-lease"];

/// Longest that a request of the operators may wait for its turn, as the bucket of the histogram is named. They are alone in their
/// level: the machine's other work does not count, since the clock stops once the request is let in.
const TURN: &str = "1";

pub(super) fn flood(stage: &mut Stage) {
    let token = account(stage);
    let api = stage.plane.api.with_token(&token);
    let done = AtomicBool::new(false);
    let (mut most, mut answers) = (0, Answers::read(&stage.plane.api));
    let began = now_us();
    // The load flows for a moment before a fault.
    let quiet = bind_times(stage, 0);
    thread::scope(|scope| {
        let _stops = Stops(&done);
        for _ in 0..CALLERS {
            scope.spawn(|| {
                for list in LISTS.iter().cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                    match api.stream(list, "application/json") {
                        Ok(mut pods) => drop(io::copy(&mut pods, &mut io::sink())),
                        Err(_) => thread::sleep(Duration::from_millis(100)),
                    }
                }
            });
        }
        let began = Instant::now();
        while began.elapsed() < stage.scale.span || (most == 0 && began.elapsed() < SOON) {
            stage.pass(Duration::from_millis(500));
            most = most.max(waiting(&stage.plane.api));
        }
    });
    answers = Answers::read(&stage.plane.api).since(&answers);
    // Otherwise nobody was held back, and the operators would not have been either.
    assert!(most > 0, "no request ever waited in workload-low: its level was not full");
    assert!(answers.let_in > 0, "no request of the operators came under the chart's flow schemas");
    assert_eq!((answers.refused, answers.late), (0, 0), "of the operators' requests: {answers:?}");
    stage.remark(format!(
        "up to {most} requests waited in workload-low, none of Berth's {} for {TURN} s; p50 / p99 of a bind request {}, before {quiet}",
        answers.let_in,
        bind_times(stage, began),
    ));
}

/// What became of the operators' requests at the door of the API server.
#[derive(Debug)]
struct Answers {
    let_in: u64,
    refused: u64,
    /// Those that waited for longer than [`TURN`].
    late: u64,
}

impl Answers {
    fn read(api: &Api) -> Self {
        let page = page(api);
        let ours = |name: &str, label: &str| -> u64 {
            OURS.iter().map(|schema| sum(&page, name, &[&format!("flow_schema=\"{schema}\""), label])).sum()
        };
        let waits = "apiserver_flowcontrol_request_wait_duration_seconds";
        let in_time = ours(&format!("{waits}_bucket"), &format!("le=\"{TURN}\""));
        Self {
            let_in: ours("apiserver_flowcontrol_dispatched_requests_total", ""),
            refused: ours("apiserver_flowcontrol_rejected_requests_total", ""),
            late: ours(&format!("{waits}_count"), "") - in_time,
        }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            let_in: self.let_in - before.let_in,
            refused: self.refused - before.refused,
            late: self.late - before.late,
        }
    }
}

/// p50 and p99 of what a bind request of this fault, from `since` on (microseconds of Unix time), took at the API server.
fn bind_times(stage: &Stage, since: i64) -> String {
    let late = |bind: &Bind| bind.code == 201 && bind.received_us >= since;
    let mut took: Vec<i64> =
        stage.binds().iter().filter(|bind| late(bind)).map(|bind| bind.answered_us - bind.received_us).collect();
    took.sort_unstable();
    let quantile = |of: usize| took.get(took.len() * of / 100).map_or(0, |micros| micros / 1_000);
    format!("{} / {} ms", quantile(50), quantile(99))
}

/// Ends the callers, also when the stage panics: their scope waits for them.
struct Stops<'d>(&'d AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Requests that wait in workload-low now.
fn waiting(api: &Api) -> u64 {
    sum(&page(api), "apiserver_flowcontrol_current_inqueue_requests", &["priority_level=\"workload-low\""])
}

/// The API server's own metrics; nothing if it does not answer.
fn page(api: &Api) -> String {
    api.get("/metrics").unwrap_or_default().as_str().unwrap_or_default().to_owned()
}

/// The sum of all series of this name that have these labels.
fn sum(page: &str, name: &str, labels: &[&str]) -> u64 {
    let is_one = |line: &&str| {
        let of_name = line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
        of_name && labels.iter().all(|label| line.contains(label))
    };
    page.lines().filter(is_one).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}

/// A token of an account that may list pods, and nothing else, from when the API server lets it.
fn account(stage: &mut Stage) -> String {
    let api = stage.plane.api.clone();
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "noisy", "namespace": LOADED}});
    api.post(&format!("/api/v1/namespaces/{LOADED}/serviceaccounts"), &account).unwrap();
    // Not the role "view": a controller fills it, and none runs here.
    let of_group = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "noisy"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
    });
    api.post(&format!("{of_group}/clusterroles"), &role).unwrap();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "noisy"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "noisy"},
        "subjects": [{"kind": "ServiceAccount", "name": "noisy", "namespace": LOADED}],
    });
    api.post(&format!("{of_group}/clusterrolebindings"), &binding).unwrap();
    let token = stage.plane.token_for(LOADED, "noisy").unwrap();
    let (noisy, began) = (api.with_token(&token), Instant::now());
    while let Err(refused) = noisy.get(LISTS[0]) {
        assert!(began.elapsed() < SOON, "the noisy account cannot list pods: {refused:#}");
        stage.pass(Duration::from_millis(100));
    }
    token
}
