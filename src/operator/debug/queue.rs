use super::super::context::Context;
use super::super::printable::{NAME, printable};
use super::{MESSAGE, pretty};
use berth_core::model::PodKey;
use berth_core::queue::Counts;
use berth_core::worker::ListedPod;
use berth_runtime::{WorkerState, WorkerView};
use berth_telemetry::{DebugQuestion, DebugReply};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// Pods of a page that asks for no number.
const PODS: usize = 100;

/// Most pods of a page: half a megabyte or so.
const MOST_PODS: usize = 500;

/// Longest wait for a worker. It answers between two steps, which take milliseconds.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// Pods of a profile with what each waits for; without a profile, how many pods each worker has.
pub(super) async fn page(cx: &Context, question: &DebugQuestion) -> DebugReply {
    let Some(profile) = question.get("profile").filter(|profile| !profile.is_empty()) else { return workers(cx) };
    let most = match question.get("limit").map(str::parse::<usize>) {
        None => PODS,
        Some(Ok(limit)) if (1..=MOST_PODS).contains(&limit) => limit,
        Some(_) => return DebugReply::text(400, format!("limit: write a number from 1 to {MOST_PODS}\n")),
    };
    let after = match question.get("continue").map(key) {
        None => None,
        Some(Some(key)) => Some(key),
        Some(None) => return DebugReply::text(400, "continue: write NAMESPACE/NAME, as the last answer has it\n"),
    };
    if cx.engine.worker(profile).is_none() {
        return DebugReply::text(404, "no worker serves this profile here: /debug/queue lists those that there are\n");
    }
    let Ok(Some(page)) = timeout(ANSWERED_WITHIN, cx.engine.pods(profile, after, most)).await else {
        return DebugReply::text(
            503,
            "the worker does not answer: it is busy, failed or hangs; its state is in /debug/queue\n",
        );
    };
    let last = page.pods.last().filter(|_| page.more).map(|pod| pod.key.to_string());
    pretty(&json!({
        "profile": printable(profile, NAME),
        "total": page.total,
        "continue": last,
        "pods": page.pods.iter().map(|pod| of_pod(cx, pod)).collect::<Vec<_>>(),
    }))
}

fn key(text: &str) -> Option<PodKey> {
    let (namespace, name) = text.split_once('/')?;
    Some(PodKey { namespace: namespace.into(), name: name.into() })
}

pub(super) fn of_pod(cx: &Context, pod: &ListedPod) -> Value {
    let clock = cx.engine.clock();
    json!({
        "name": printable(&pod.key.to_string(), 2 * NAME),
        "uid": printable(&pod.uid, NAME),
        "priority": pod.priority,
        "state": pod.state,
        "attempts": pod.attempts,
        "since": clock.on_wall(pod.since).to_string(),
        "nextTry": pod.next_try.map(|at| clock.on_wall(at).to_string()),
        "plugins": pod.plugins,
        "reason": printable(&pod.reason, MESSAGE),
    })
}

fn workers(cx: &Context) -> DebugReply {
    let workers = cx.engine.workers();
    let profiles: Map<String, Value> =
        workers.iter().map(|(name, view)| (name.to_string(), of_worker(cx, view))).collect();
    pretty(&json!({"profiles": profiles}))
}

pub(super) fn of_worker(cx: &Context, view: &WorkerView) -> Value {
    let state = match &view.state {
        WorkerState::Running => "running".to_owned(),
        WorkerState::Failed { message, .. } => format!("failed: {}", printable(message, MESSAGE)),
        WorkerState::Stopped => "stopped".to_owned(),
    };
    let clock = cx.engine.clock();
    let mut value = json!({
        "state": state,
        "restarts": view.restarts,
        "quarantined": view.quarantined,
        "unacknowledgedBinds": view.unacknowledged,
        "inOneStepSince": view.busy_since.map(|since| clock.on_wall(since).to_string()),
    });
    if let Some(snapshot) = &view.snapshot {
        let Counts { active, backoff, unschedulable, gated, held } = snapshot.counts;
        value["pods"] = json!({"active": active, "backoff": backoff, "unschedulable": unschedulable, "gated": gated,
            "held": held, "decided": snapshot.in_flight, "askExtenders": snapshot.parked});
    }
    value
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, pages};
    use super::*;
    use berth_core::model::Pod;
    use berth_core::profile::CompiledProfile;
    use berth_core::testing::pending_pod;
    use berth_testing::until;
    use std::sync::Arc;

    fn parsed(reply: &DebugReply) -> Value {
        serde_json::from_str(&reply.body).unwrap_or_else(|error| panic!("{error}: {reply:?}"))
    }

    #[tokio::test]
    async fn pods_come_page_by_page_with_what_they_wait_for() {
        let (pages, _server) = pages().await;
        let engine = &pages.cx.engine;
        engine.run(Arc::new(CompiledProfile::default_preset("bin"))).unwrap();
        engine.apply(|ledger| {
            for name in ["a", "b", "c"] {
                ledger.apply_pod(Pod { gates: vec!["wait\u{1b}".into()], ..pending_pod("ns", name) });
            }
        });
        let counted = || engine.worker("bin").and_then(|view| Some(view.snapshot?.counts.gated == 3)).unwrap_or(false);
        until("the worker has them", counted).await;

        let mut continued = String::new();
        for name in ["a", "b", "c"] {
            let query = [("profile", "bin"), ("limit", "1"), ("continue", continued.as_str())];
            let query = if continued.is_empty() { &query[..2] } else { &query[..] };
            let page = parsed(&pages.answer(&ask("/debug/queue", query)).await);
            let pod = &page["pods"][0];
            assert_eq!(
                (page["total"].as_u64(), &pod["name"], &pod["state"]),
                (Some(3), &json!(format!("ns/{name}")), &json!("gated"))
            );
            assert_eq!(pod["reason"], "scheduling gates: wait\\u{1b}");
            continued = page["continue"].as_str().unwrap_or_default().to_owned();
        }
        assert!(continued.is_empty(), "the last page has no other");
        let all = parsed(&pages.answer(&ask("/debug/queue", &[])).await);
        assert_eq!(
            (&all["profiles"]["bin"]["state"], &all["profiles"]["bin"]["pods"]["gated"]),
            (&json!("running"), &json!(3))
        );
        engine.stop_all().await;
    }

    #[tokio::test]
    async fn what_cannot_be_asked_is_named() {
        let (pages, _server) = pages().await;
        pages.cx.engine.run(Arc::new(CompiledProfile::default_preset("bin"))).unwrap();
        for (query, status, named) in [
            ([("profile", "other"), ("limit", "1")], 404, "no worker"),
            ([("profile", "bin"), ("limit", "0")], 400, "limit"),
            ([("profile", "bin"), ("limit", "501")], 400, "limit"),
            ([("profile", "bin"), ("continue", "x")], 400, "continue"),
        ] {
            let answer = pages.answer(&ask("/debug/queue", &query)).await;
            assert!(answer.status == status && answer.body.contains(named), "{query:?}: {answer:?}");
        }
        pages.cx.engine.stop_all().await;
    }
}
