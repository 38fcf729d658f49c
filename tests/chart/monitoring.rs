//! Monitors, alerts and the dashboard: they select what the chart makes, name series that the operator serves, and lead to
//! runbooks that exist.

use std::collections::BTreeSet;

use berth_telemetry::{Kind, Metric};
use serde_json::{Value, json};

use super::{object, rendered, template, text, yaml};

/// Whether an object with these labels is selected.
fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector["matchLabels"].as_object().unwrap();
    !wanted.is_empty() && wanted.iter().all(|(label, value)| labels[label] == *value)
}

#[test]
fn monitors_find_the_metrics() {
    let both = "metrics.podMonitor.enabled=true,metrics.serviceMonitor.enabled=true";
    let objects = rendered(&["--set", both]);
    let pod = &object(&objects, "Deployment", "berth")["spec"]["template"];
    let ports = pod["spec"]["containers"][0]["ports"].as_array().unwrap();
    let served: Vec<&Value> = ports.iter().filter(|port| port["containerPort"] == 8080).map(|p| &p["name"]).collect();

    let monitor = &object(&objects, "PodMonitor", "berth")["spec"];
    assert!(selects(&monitor["selector"], &pod["metadata"]["labels"]));
    assert_eq!(served, [&monitor["podMetricsEndpoints"][0]["port"]]);

    let service = object(&objects, "Service", "berth-metrics");
    let monitor = &object(&objects, "ServiceMonitor", "berth")["spec"];
    assert!(selects(&monitor["selector"], &service["metadata"]["labels"]));
    assert_eq!(monitor["endpoints"][0]["port"], service["spec"]["ports"][0]["name"]);
    assert_eq!(served, [&service["spec"]["ports"][0]["targetPort"]]);
    assert!(selects(&json!({"matchLabels": service["spec"]["selector"]}), &pod["metadata"]["labels"]));

    let hook = &object(&objects, "Pod", "berth-test")["metadata"]["labels"];
    assert!(!selects(&object(&objects, "PodMonitor", "berth")["spec"]["selector"], hook));
    assert!(rendered(&[]).iter().all(|object| !object["apiVersion"].as_str().unwrap().contains("monitoring")));
}

/// The address of the runbooks, without which there are no alerts.
pub(super) const RUNBOOKS: &str = "metrics.prometheusRule.runbookUrl=https://example.com/berth/docs";

/// The values that make the alerts.
pub(super) const WITH_ALERTS: &[&str] = &["--set", "metrics.prometheusRule.enabled=true", "--set", RUNBOOKS];

/// The alerts of the PrometheusRule.
pub(super) fn alerts() -> Vec<Value> {
    let objects = rendered(WITH_ALERTS);
    object(&objects, "PrometheusRule", "berth")["spec"]["groups"][0]["rules"].as_array().unwrap().clone()
}

pub(super) fn field<'a>(alert: &'a Value, pointer: &str) -> &'a str {
    alert.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no {pointer} in {alert}"))
}

/// The words of an expression: names of series, labels and functions.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[test]
fn each_alert_has_a_runbook_and_each_runbook_an_alert() {
    let page = text("docs/alerts.md");
    let sections: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let alerts = alerts();
    let names: BTreeSet<&str> = alerts.iter().map(|alert| field(alert, "/alert")).collect();
    assert_eq!(names.len(), alerts.len(), "two alerts of one name");
    assert_eq!(names, sections, "alerts of charts/berth/files/alerts.yaml, and sections of docs/alerts.md");
    for alert in &alerts {
        let name = field(alert, "/alert");
        // A heading's anchor is its text in lower case, and the names are those of the headings.
        let anchor = format!("https://example.com/berth/docs/alerts.md#{}", name.to_lowercase());
        assert_eq!(field(alert, "/annotations/runbook_url"), anchor);
        assert!(["critical", "warning", "info"].contains(&field(alert, "/labels/severity")), "{name}");
        let section = page.split("\n## ").find(|section| section.starts_with(&format!("{name}\n"))).unwrap();
        for part in ["**Seen:**", "**Why:**", "**Do:**", "**Over when:**"] {
            assert!(section.contains(part), "docs/alerts.md: {name} has no {part}");
        }
    }
}

/// From Alertmanager a relative address opens nothing.
#[test]
fn alerts_without_an_address_for_their_runbooks_are_refused() {
    let enabled = "metrics.prometheusRule.enabled=true";
    for unset in [enabled, &format!("{enabled},metrics.prometheusRule.runbookUrl=")] {
        let outcome = template(&["--set", unset]);
        assert!(!outcome.success, "--set {unset} was accepted");
        for part in ["metrics.prometheusRule.runbookUrl must be set", "docs/ of Berth's repository", "/alerts.md#"] {
            assert!(outcome.stderr.contains(part), "--set {unset}: no {part} in {}", outcome.stderr);
        }
    }
    for relative in ["docs", "/docs", "//example.com/docs", "example.com/docs", "ftp://example.com/docs", "https://"] {
        let set = format!("metrics.prometheusRule.runbookUrl={relative}");
        let outcome = template(&["--set", &set]);
        assert!(!outcome.success, "--set {set} was accepted");
        let named = outcome.stderr.contains("runbookUrl") && outcome.stderr.contains("does not match pattern");
        assert!(named, "--set {set}: {}", outcome.stderr);
    }
    assert!(template(&[]).success, "without alerts no address is needed");
}

/// The series that an expression names.
fn series(expr: &str) -> Vec<&str> {
    let prefixes = ["scheduler_", "berth_", "leader_election_", "process_", "rest_client_"];
    words(expr).filter(|word| prefixes.iter().any(|prefix| word.starts_with(*prefix))).collect()
}

/// Whether the operator serves series of this name.
fn is_served(series: &str) -> bool {
    let of_histogram = ["_bucket", "_count", "_sum"].into_iter().find_map(|suffix| series.strip_suffix(suffix));
    Metric::ALL.iter().any(|metric| match metric.kind() {
        Kind::Histogram => of_histogram == Some(metric.name()),
        Kind::Counter | Kind::Gauge => series == metric.name(),
    })
}

#[test]
fn alerts_name_series_that_are_served_and_reasons_that_exist() {
    let reasons = text("docs/conditions.md");
    for alert in alerts() {
        let (name, expr) = (field(&alert, "/alert"), field(&alert, "/expr"));
        assert!(!alert.to_string().contains("${"), "{name}: a name was not filled in");
        let series = series(expr);
        assert!(!series.is_empty(), "{name}: no series in {expr}");
        for one in series {
            assert!(is_served(one), "{name}: {one}");
        }
        if let Some((_, rest)) = expr.split_once("type=\"") {
            let kind = rest.split('"').next().unwrap();
            let (_, rest) = rest.split_once("reason").unwrap();
            for reason in rest.split('"').nth(1).unwrap().split('|') {
                assert!(reasons.contains(&format!("### {kind}: {reason}\n")), "{name}: no reason {reason} of {kind}");
            }
        }
    }
}

/// A label that the expression sums away is empty in the text.
#[test]
fn texts_of_alerts_use_labels_that_are_there() {
    for alert in alerts() {
        let expr = field(&alert, "/expr");
        let kept = expr.split_once("by (").map_or("", |(_, rest)| rest.split(')').next().unwrap());
        let kept: BTreeSet<&str> = words(kept).collect();
        for pointer in ["/annotations/summary", "/annotations/description"] {
            for rest in field(&alert, pointer).split("$labels.").skip(1) {
                let label = words(rest).next().unwrap();
                assert!(kept.contains(label), "{}: {label} is not in {expr}", field(&alert, "/alert"));
            }
        }
    }
}

/// A metric that gets another name is renamed in one place.
#[test]
fn series_that_only_berth_has_are_named_once_each() {
    let file = text("charts/berth/files/alerts.yaml");
    let series = yaml(&file);
    for (key, name) in series["series"].as_object().unwrap() {
        assert_eq!(file.matches(name.as_str().unwrap()).count(), 1, "{name}");
        assert!(file.contains(&format!("${{{key}}}")), "{key} is used by no alert");
    }
}

#[test]
fn the_dashboard_is_a_config_map_that_grafanas_sidecar_finds() {
    assert!(rendered(&[]).iter().all(|object| object["kind"] != "ConfigMap"));
    let objects = rendered(&["--set", "dashboards.enabled=true"]);
    let map = object(&objects, "ConfigMap", "berth-dashboard");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    assert_eq!(map["data"]["berth.json"], text("charts/berth/files/dashboard.json").trim_end());
}

#[test]
fn the_picture_of_the_dashboard_has_its_panels() {
    let dashboard: Value = serde_json::from_str(&text("charts/berth/files/dashboard.json")).unwrap();
    let picture = text("docs/pictures/dashboard.svg");
    let drawn: BTreeSet<&str> =
        picture.split("class=\"t\">").skip(1).filter_map(|rest| rest.split('<').next()).collect();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let titles: BTreeSet<&str> = panels.map(|panel| field(panel, "/title")).collect();
    assert_eq!(drawn, titles, "docs/pictures/dashboard.svg, which `make pictures` draws, and the dashboard");
}

/// Whether its queries find something, `tests/e2e/scraped.rs` knows.
#[test]
fn the_dashboard_draws_series_that_are_served() {
    let dashboard: Value = serde_json::from_str(&text("charts/berth/files/dashboard.json")).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let known: BTreeSet<&str> = variables.iter().map(|variable| field(variable, "/name")).collect();
    assert_eq!(known, BTreeSet::from(["datasource", "namespace", "profile"]));
    for one in variables.iter().flat_map(|variable| series(field(variable, "/query"))) {
        assert!(is_served(one), "a variable: {one}");
    }
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels of one id");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = field(panel, "/title");
        assert!(!field(panel, "/description").is_empty(), "{title}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title}: no query");
        for target in targets {
            assert_eq!(field(target, "/datasource/uid"), "${datasource}", "{title}");
            let (expr, legend) = (field(target, "/expr"), field(target, "/legendFormat"));
            assert!(!series(expr).is_empty(), "{title}: no series in {expr}");
            for one in series(expr) {
                assert!(is_served(one), "{title}: {one}");
            }
            for variable in expr.split('$').skip(1).filter_map(|rest| words(rest).next()) {
                assert!(variable == "__rate_interval" || known.contains(variable), "{title}: no variable {variable}");
            }
            let labels = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
            for label in labels.filter(|label| *label != "instance") {
                assert!(words(expr).any(|word| word == label), "{title}: {label} is not in {expr}");
            }
        }
    }
}
