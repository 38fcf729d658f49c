//! What profiles in mode DryRun have compared. `berth shadow report` reads it: names of fields stay.

use super::super::context::Context;
use super::super::printable::{NAME, printable};
use super::super::shadow_status;
use super::{MESSAGE, pretty};
use berth_core::model::Plugin;
use berth_core::shadow::{Comparison, Finding, Preempts, ShadowPage};
use berth_telemetry::{DebugQuestion, DebugReply};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Comparisons of a page that asks for no number.
const COMPARISONS: usize = 100;

/// Most comparisons of a page: half a megabyte or so.
const MOST_COMPARISONS: usize = 1_000;

/// Comparisons of a profile, the oldest first; without a profile, the figures of all profiles that compare.
pub(super) fn page(cx: &Context, question: &DebugQuestion) -> DebugReply {
    let Some(profile) = question.get("profile").filter(|profile| !profile.is_empty()) else { return figures(cx) };
    let most = match question.get("limit").map(str::parse::<usize>) {
        None => COMPARISONS,
        Some(Ok(limit)) if (1..=MOST_COMPARISONS).contains(&limit) => limit,
        Some(_) => return DebugReply::text(400, format!("limit: write a number from 1 to {MOST_COMPARISONS}\n")),
    };
    let Ok(after) = question.get("continue").map_or(Ok(0), str::parse::<u64>) else {
        return DebugReply::text(400, "continue: write a number, as the last answer has it\n");
    };
    let shadow = cx.engine.worker(profile).and_then(|view| view.shadow);
    let (Some(shadow), Some(page)) = (shadow, cx.engine.comparisons(profile, after, most)) else {
        return DebugReply::text(
            404,
            "no profile of this name compares here: /debug/shadow lists those that do, and only the leader's has any\n",
        );
    };
    let figures = shadow_status::of(&shadow, cx.engine.clock());
    let ShadowPage { comparisons, oldest, more, .. } = page;
    let last = comparisons.last().filter(|_| more).map(|(number, _)| number.to_string());
    pretty(&json!({
        "profile": printable(profile, NAME),
        "figures": figures,
        "oldest": oldest,
        "continue": last,
        "comparisons": comparisons.iter().map(|(number, one)| of_comparison(*number, one)).collect::<Vec<_>>(),
    }))
}

fn figures(cx: &Context) -> DebugReply {
    let workers = cx.engine.workers();
    let all: Map<String, Value> = workers
        .iter()
        .filter_map(|(name, view)| {
            let figures = shadow_status::of(view.shadow.as_ref()?, cx.engine.clock());
            Some((name.to_string(), json!(figures)))
        })
        .collect();
    pretty(&json!({"profiles": all}))
}

fn of_comparison(number: u64, one: &Comparison) -> Value {
    let mut value = json!({
        "number": number,
        "pod": printable(&one.pod.to_string(), 2 * NAME),
        "uid": printable(&one.uid, NAME),
        "scheduler": printable(&one.scheduler, NAME),
        "time": Timestamp::from_microsecond(one.at_unix_us).map(|at| at.to_string()).unwrap_or_default(),
        "node": printable(&one.node, NAME),
        "nominated": one.nominated,
        "outcome": one.outcome().as_str(),
    });
    match &one.finding {
        Finding::Fits { ours, standing, apart } => {
            value["ours"] = json!(printable(ours, NAME));
            value["rank"] = json!(standing.rank);
            value["of"] = json!(standing.of);
            value["score"] = json!(standing.total);
            value["bestScore"] = json!(standing.best);
            let apart = apart.iter().map(|(score, by)| json!({"plugin": score.name(), "by": by}));
            value["apart"] = apart.collect();
        }
        Finding::Refused { ours, plugin, reason } => {
            value["ours"] = json!(printable(ours, NAME));
            value["plugin"] = json!(plugin.map(Plugin::name));
            value["reason"] = json!(printable(reason, MESSAGE));
        }
        Finding::Unschedulable { plugin, reason, preempts } => {
            value["plugin"] = json!(plugin.map(Plugin::name));
            value["reason"] = json!(printable(reason, MESSAGE));
            let would =
                |preempts: &Preempts| json!({"node": printable(&preempts.node, NAME), "victims": preempts.victims});
            value["wouldPreempt"] = preempts.as_ref().map_or(Value::Null, would);
        }
        Finding::Held(reason) | Finding::Failed(reason) => value["reason"] = json!(printable(reason, MESSAGE)),
    }
    value
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, pages};
    use super::*;
    use berth_core::model::Pod;
    use berth_core::profile::{CompiledProfile, Mode};
    use berth_core::testing::{node, pod, shape_of};
    use std::sync::Arc;

    fn parsed(reply: &DebugReply) -> Value {
        serde_json::from_str(&reply.body).unwrap_or_else(|error| panic!("{error}: {reply:?}"))
    }

    /// Another scheduler binds pods, with hostile names, to `a` and `b`, of which `a` is the best.
    fn bind(cx: &Context) {
        let profile = CompiledProfile::default_preset("trial");
        let profile = CompiledProfile { mode: Mode::DryRun, shadow: vec!["other".into()], ..profile };
        cx.engine.run(Arc::new(profile)).unwrap();
        cx.engine.apply(|ledger| {
            ledger.apply_node(&node("a", 64_000, 64 << 30, 110));
            ledger.apply_node(&node("b", 2_000, 2 << 30, 110));
        });
        for (name, on) in [("x\u{1b}", "a"), ("y", "b"), ("z", "a")] {
            let waits = Pod { scheduler_name: "other".into(), ..pod(name, shape_of(1_000, 1 << 30)) };
            cx.engine.apply(|ledger| ledger.apply_pod(waits.clone()));
            let bound = Pod { node_name: Some(on.into()), ..waits };
            cx.engine.about_to_bind(&bound, true);
            cx.engine.apply(|ledger| ledger.apply_pod(bound));
        }
    }

    #[tokio::test]
    async fn comparisons_come_page_by_page_and_say_what_speaks_against_a_node() {
        let (pages, _server) = pages().await;
        bind(&pages.cx);
        let query = [("profile", "trial"), ("limit", "2")];
        let first = parsed(&pages.answer(&ask("/debug/shadow", &query)).await);
        let one = &first["comparisons"][0];
        assert_eq!((&one["pod"], &one["outcome"]), (&json!("default/x\\u{1b}"), &json!("same")));
        let worse = &first["comparisons"][1];
        assert_eq!((&worse["outcome"], &worse["rank"], &worse["of"]), (&json!("worse"), &json!(2), &json!(2)));
        assert_eq!(worse["apart"][0]["plugin"], "NodeResourcesFit");
        assert_eq!((&first["continue"], &first["figures"]["compared"]), (&json!("2"), &json!(3)));
        let query = [("profile", "trial"), ("limit", "2"), ("continue", "2")];
        let last = parsed(&pages.answer(&ask("/debug/shadow", &query)).await);
        assert_eq!((&last["comparisons"][0]["number"], &last["continue"]), (&json!(3), &Value::Null));
        let all = parsed(&pages.answer(&ask("/debug/shadow", &[])).await);
        assert_eq!(all["profiles"]["trial"]["worse"], 1);
        pages.cx.engine.stop_all().await;
    }

    #[tokio::test]
    async fn what_cannot_be_asked_is_named() {
        let (pages, _server) = pages().await;
        bind(&pages.cx);
        for (query, status, named) in [
            ([("profile", "other"), ("limit", "1")], 404, "no profile"),
            ([("profile", "trial"), ("limit", "0")], 400, "limit"),
            ([("profile", "trial"), ("limit", "1001")], 400, "limit"),
            ([("profile", "trial"), ("continue", "x")], 400, "continue"),
        ] {
            let answer = pages.answer(&ask("/debug/shadow", &query)).await;
            assert!(answer.status == status && answer.body.contains(named), "{query:?}: {answer:?}");
        }
        pages.cx.engine.stop_all().await;
    }
}
