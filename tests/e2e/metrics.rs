//! `/metrics`, `/livez` and `/readyz` of a running operator.

use std::collections::BTreeSet;

use serde_json::json;

use crate::SOON;
use crate::cluster::{namespace, shared, start};
use crate::world::World;

/// Served only while there is something to tell: their tests are in `leadership`, `unbound`, `extenders`, `debug`, `devices` and `shadow`.
const ONLY_SOMETIMES: [&str; 15] = [
    "berth_audit_last_run_timestamp_seconds",
    "berth_audit_last_run_duration_seconds",
    "berth_another_installation",
    "berth_resource_absent",
    "berth_extender_requests_total",
    "berth_extender_request_duration_seconds",
    "berth_extender_circuit_open",
    "berth_extender_calls",
    "berth_task_restarts_total",
    "berth_shadow_comparisons_total",
    "berth_shadow_disagreements_total",
    "berth_shadow_skipped_total",
    "berth_shadow_preemptions_total",
    "scheduler_dra_bindingconditions_allocations_total",
    "scheduler_dra_bindingconditions_wait_duration_seconds",
];

/// One row of a table in `docs/metrics.md`: name, type, and whether it has the label `profile`.
fn documented() -> Vec<(String, String, bool)> {
    let page = include_str!("../../docs/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    // The table of what kube-scheduler serves and Berth does not has two columns.
    cells
        .filter(|cells| cells.len() == 4)
        .map(|cells| (cells[0].trim_matches('`').to_owned(), cells[1].to_owned(), cells[2].contains("`profile`")))
        .collect()
}

#[test]
fn every_documented_metric_is_served_with_its_labels_and_no_other() {
    let world = World::with("measured", &json!({}), 1);
    world.pod("fits", "100m", |_| {});
    world.pod("too-big", "64", |_| {});
    world.bound("fits");
    world.unschedulable("too-big");
    let documented = documented();
    assert!(documented.len() >= 20, "the page was not understood: {documented:?}");
    let page = world.plane.wait_for("the counters of both pods", SOON, || {
        let (status, page) = world.operator.page("/metrics")?;
        assert_eq!(status, 200);
        let counted = |series: &str, labels: &[&str], value: f64| {
            page.lines().any(|line| {
                line.starts_with(series)
                    && line.contains("profile=\"measured\"")
                    && labels.iter().all(|label| line.contains(label))
                    && line.rsplit(' ').next().and_then(|text| text.parse().ok()) == Some(value)
            })
        };
        let all = counted("scheduler_unschedulable_pods{", &["plugin=\"NodeResourcesFit\""], 1.0)
            // The world settled with a pod of its own.
            && counted(
                "scheduler_queue_incoming_pods_total{",
                &["queue=\"active\"", "event=\"UnschedulablePodAdd\""],
                3.0,
            )
            && counted("scheduler_scheduling_attempt_duration_seconds_count{", &["result=\"scheduled\""], 2.0)
            && counted("scheduler_pod_scheduling_attempts_count{", &[], 2.0)
            && counted("berth_worker_up{", &[], 1.0)
            && counted("berth_nodes{", &["state=\"matched\""], 1.0)
            && counted("scheduler_pending_pods{", &["queue=\"unschedulable\""], 1.0)
            && counted("berth_profile_condition{", &["type=\"Ready\"", "status=\"True\"", "reason=\"Serving\""], 1.0);
        Ok(all.then_some(page))
    });
    let page = page.unwrap();
    for (name, kind, has_profile) in documented.iter().filter(|(name, ..)| !ONLY_SOMETIMES.contains(&&**name)) {
        assert!(page.contains(&format!("# HELP {name} ")), "{name}: no help");
        assert!(page.contains(&format!("# TYPE {name} {kind}")), "{name}: not a {kind}");
        let series = if kind == "histogram" { format!("{name}_count") } else { name.clone() };
        let mut lines = page.lines().filter(|line| {
            line.strip_prefix(&*series).is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' '))
        });
        let served =
            if *has_profile { lines.any(|line| line.contains("profile=\"measured\"")) } else { lines.next().is_some() };
        assert!(served, "{name} is not served{}", if *has_profile { " for the profile" } else { "" });
    }
    let known: BTreeSet<&str> = documented.iter().map(|(name, ..)| &**name).collect();
    let served = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let unknown: Vec<&str> = served.filter(|name| !known.contains(name)).collect();
    assert_eq!(unknown, Vec::<&str>::new(), "not in docs/metrics.md");
}

#[test]
fn a_working_operator_is_live_and_ready() {
    let shared = shared();
    assert_eq!(shared.operator.page("/livez").unwrap(), (200, "ok\n".to_owned()));
    assert_eq!(shared.operator.page("/readyz").unwrap(), (200, "ok\n".to_owned()));
    assert_eq!(shared.operator.page("/debug/pprof").unwrap().0, 404);
}

/// The API server says whose token it is and what its owner may get; probes need none. An operator that does not lead serves
/// its pages too.
#[test]
fn only_who_may_get_metrics_reads_them() {
    let plane = &shared().plane;
    namespace(plane, "scraping");
    for name in ["reader", "stranger"] {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        plane.api.post("/api/v1/namespaces/scraping/serviceaccounts", &account).unwrap();
    }
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "scraping"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "berth-metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "scraping"}],
    });
    plane.api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).unwrap();
    let operator = start(plane, "berth-scraped", &["--metrics-authorization=true"]);
    let live = || Ok(operator.page("/livez").is_ok_and(|(status, _)| status == 200).then_some(()));
    plane.wait_for("its pages", SOON, live).unwrap();

    let token = |name: &str| plane.token_for("scraping", name).unwrap();
    let read = || {
        let (status, page) = operator.page_as("/metrics", Some(&token("reader")))?;
        Ok((status == 200).then_some(page))
    };
    let page = plane.wait_for("metrics for an account that may get them", SOON, read).unwrap();
    assert!(page.contains("berth_build_info"), "{page}");
    let (status, page) = operator.page_as("/metrics", Some(&token("stranger"))).unwrap();
    assert_eq!(status, 403, "{page}");
    assert!(page.contains("system:serviceaccount:scraping:stranger"), "{page}");
    for token in [None, Some("made-up")] {
        assert_eq!(operator.page_as("/metrics", token).unwrap().0, 401);
    }
}
