use super::super::context::Context;
use super::super::printable::{NAME, printable};
use super::pretty;
use berth_core::model::Plugin;
use berth_core::profile::{CompiledProfile, Extender, NamespaceAccess};
use berth_telemetry::DebugReply;
use serde_json::{Map, Value, json};
use std::fmt::Debug;

/// Names of a list that are shown.
const SHOWN: usize = 100;

/// What each worker serves: presets, defaults and plugin arguments resolved, under names of the spec where it has one.
pub(super) fn page(cx: &Context) -> DebugReply {
    let workers = cx.engine.workers();
    let profiles: Map<String, Value> =
        workers.into_iter().map(|(name, view)| (name.to_string(), of_profile(&view.profile))).collect();
    pretty(&json!({"profiles": profiles}))
}

fn of_profile(profile: &CompiledProfile) -> Value {
    let scores: Map<String, Value> =
        profile.scores.iter().map(|(score, weight)| (score.name().to_owned(), (*weight).into())).collect();
    json!({
        "schedulerNames": texts(profile.scheduler_names.iter()),
        "mode": shown(&profile.mode),
        "shadow": texts(profile.shadow.iter()),
        "unknownFields": shown(&profile.unknown_fields),
        "filters": profile.filters.iter().map(Plugin::name).collect::<Vec<_>>(),
        "scores": scores,
        "pluginArgs": {
            "nodeResourcesFit": shown(&profile.fit),
            "nodeResourcesBalancedAllocation": texts(profile.balanced.iter()),
            "nodeAffinity": shown(&profile.added_affinity),
            "podTopologySpread": shown(&profile.spread_defaults),
            "interPodAffinity": shown(&profile.inter_pod_affinity),
            "volumeBinding": {"bindTimeoutSeconds": profile.bind_timeout.as_secs()},
            "ofPolicies": shown(&profile.legacy),
        },
        "nodeSelector": profile.node_selector.as_ref().map(shown),
        "sampling": {"percentage": profile.sampling.percentage, "minFeasible": profile.sampling.min_feasible},
        "namespaces": of_namespaces(&profile.namespaces),
        "queue": {
            "initialBackoffSeconds": profile.queue.initial_backoff.as_secs_f64(),
            "maxBackoffSeconds": profile.queue.max_backoff.as_secs_f64(),
            "maxUnschedulableSeconds": profile.queue.max_unschedulable.as_secs_f64(),
        },
        "preemption": shown(&profile.preemption),
        "canary": profile.canary.as_ref().map(|canary| {
            json!({"percent": canary.share.percent, "by": shown(&canary.share.by), "profile": of_profile(&canary.profile)})
        }),
        "extenders": profile.extenders.iter().map(of_extender).collect::<Vec<_>>(),
    })
}

fn of_namespaces(access: &NamespaceAccess) -> Value {
    match access {
        NamespaceAccess::All => "all".into(),
        NamespaceAccess::Restricted { names, match_labels } => {
            json!({"names": texts(names.iter()), "matchLabels": shown(match_labels)})
        }
    }
}

fn of_extender(extender: &Extender) -> Value {
    json!({
        "name": printable(&extender.name, NAME),
        "url": printable(&extender.url, 2 * NAME),
        "filter": extender.filter.as_ref().map(shown),
        "prioritize": extender.prioritize.as_ref().map(shown),
        "preempt": extender.preempt.as_ref().map(shown),
        "bind": extender.binds,
        "weight": extender.weight,
        "nodeCacheCapable": !extender.full_nodes,
        "managedResources": texts(extender.managed.iter()),
        "podSelector": extender.pod_selector.as_ref().map(shown),
    })
}

fn texts<'a>(all: impl ExactSizeIterator<Item = &'a std::sync::Arc<str>>) -> Vec<String> {
    let more = all.len().saturating_sub(SHOWN);
    let mut shown: Vec<String> = all.take(SHOWN).map(|text| printable(text, NAME)).collect();
    if more > 0 {
        shown.push(format!("… and {more} more"));
    }
    shown
}

/// What has no form in JSON, as the engine writes it.
fn shown(value: &impl Debug) -> String {
    printable(&format!("{value:?}"), super::MESSAGE)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, pages};
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_profile_shows_its_defaults_and_a_long_list_is_cut() {
        let (pages, _server) = pages().await;
        let names: Vec<_> = (0..SHOWN + 5).map(|number| format!("n{number}").into()).collect();
        let profile = CompiledProfile {
            namespaces: NamespaceAccess::Restricted { names, match_labels: berth_core::model::Labels::none() },
            ..CompiledProfile::default_preset("a")
        };
        pages.cx.engine.run(Arc::new(profile)).unwrap();
        let body = pages.answer(&ask("/configz", &[])).await.body;
        let page: Value = serde_json::from_str(&body).unwrap();
        let profile = &page["profiles"]["a"];
        assert_eq!(
            (&profile["queue"]["maxBackoffSeconds"], &profile["scores"]["TaintToleration"]),
            (&json!(10.0), &json!(3))
        );
        assert_eq!(profile["namespaces"]["names"][SHOWN], "… and 5 more");
        pages.cx.engine.stop_all().await;
    }
}
