//! What Prometheus and Grafana make of a real run: a Prometheus scrapes an operator by a token, and evaluates the chart's dashboard
//! and alerts, and upstream's dashboard, rules and alerts for kube-scheduler, unchanged.

mod names;
mod picture;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use berth_lab::{
    ControlPlane, Extender, ExtenderOptions, NodeSpec, Operator, Options, Prometheus, free_address, promtool,
};
use serde_json::{Value, json};

use crate::cluster::{HOME, install_chart, namespace, serving};
use crate::objects::{PROFILES, bind, pod, pod_path, profile, wait_bound, wait_refused};
use crate::preemption::class;
use crate::refused::{CLUSTER_ROLE, restore, withdraw};
use crate::{LATER, SOON};

/// Series of which upstream's queries find nothing, beside those that kube-scheduler does not serve either (see `names`).
const NOT_IN_GO: &str = "go_goroutines";

/// The selector of upstream's query that finds something only after the API server has answered so, which it never does in this run.
const REDIRECTED: &str = r#"code=~"3..""#;

/// Path of the webhooks that the API server asks whether it may write.
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// What Grafana would fill in for its variables: all of each, and a window for rates of many scrapes.
const VARIABLES: [(&str, &str); 5] =
    [("$__rate_interval", "15s"), ("$cluster", "lab"), ("$instance", ".+"), ("$namespace", ".*"), ("$profile", ".+")];

/// The profile, its scheduler, and the namespace of its pods.
const BATCH: &str = "batch";

/// How long the run of a picture takes: enough for a curve.
const PICTURED: Duration = Duration::from_mins(3);

fn upstreams() -> Value {
    serde_saphyr::from_str(include_str!("scraped/kubernetes-mixin.yaml")).unwrap()
}

fn dashboard() -> Value {
    serde_json::from_str(include_str!("../../charts/berth/files/dashboard.json")).unwrap()
}

/// A directory for promtool.
fn workplace(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Upstream's groups of rules, as a file of Prometheus.
fn upstreams_rules() -> Value {
    json!({"groups": upstreams()["groups"]})
}

/// The groups that the chart's PrometheusRule has, likewise.
fn our_rules(plane: &ControlPlane) -> Value {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/berth");
    let values = "metrics.prometheusRule.enabled=true,metrics.prometheusRule.runbookUrl=https://example.com/berth/docs";
    let values = ["--set", values, "--show-only", "templates/prometheusrule.yaml"];
    let args = ["template", "berth", chart.to_str().unwrap(), "--namespace", HOME];
    let rule: Value = serde_saphyr::from_str(&plane.helm(&[&args[..], &values].concat()).unwrap()).unwrap();
    rule["spec"].clone()
}

/// An operator that a Prometheus scrapes, by the token of an account that the chart's values name.
struct Scraped {
    prometheus: Prometheus,
    token: String,
    operator: Operator,
    _extender: Extender,
    plane: ControlPlane,
    began: SystemTime,
}

impl Scraped {
    fn start() -> Self {
        let plane = ControlPlane::start(&Options::default()).unwrap();
        let readers =
            "metrics.authorization.readers[0].name=prometheus,metrics.authorization.readers[0].namespace=monitoring";
        install_chart(&plane, &["--set", readers]);
        namespace(&plane, "monitoring");
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "prometheus"}});
        plane.api.post("/api/v1/namespaces/monitoring/serviceaccounts", &account).unwrap();
        let token = plane.token_for("monitoring", "prometheus").unwrap();
        let hosts = ["--extender-allow-http=127.0.0.1", "--extender-allow-host=127.0.0.1"];
        let operator = serving(&plane, "berth-0", &[hosts[0], hosts[1], "--metrics-authorization=true"]);

        namespace(&plane, BATCH);
        plane.create_nodes(1, |_| NodeSpec::new("node-0", "zone-a", "4", "32Gi")).unwrap();
        let extender = plane.start_extender("extender-scraped", &ExtenderOptions::default()).unwrap();
        let mut spec = extender.spec("gpu");
        spec["podSelector"] = json!({"matchLabels": {"ask": "yes"}});
        plane.api.post(PROFILES, &profile(BATCH, &json!({"extenders": [spec]}))).unwrap();

        // The job by which upstream's queries choose kube-scheduler.
        let labels = json!({"instance": "berth-0", "cluster": "lab", "namespace": HOME, "pod": "berth-0"});
        let target = operator.http.trim_start_matches("http://");
        let scrape = json!([{
            "job_name": "kube-scheduler",
            "static_configs": [{"targets": [target], "labels": labels}],
            "authorization": {"credentials": token},
        }]);
        let prometheus = plane.start_prometheus(&scrape, &[our_rules(&plane), upstreams_rules()]).unwrap();
        Self { prometheus, token, operator, _extender: extender, plane, began: SystemTime::now() }
    }

    fn make(&self, name: &str, cpu: &str, further: impl FnOnce(&mut Value)) {
        let mut object = pod(BATCH, name, BATCH, cpu);
        further(&mut object);
        self.plane.api.post(&pod_path(BATCH, ""), &object).unwrap();
    }

    fn ranked(&self, name: &str, priority: i64) {
        let class = class(&self.plane, priority);
        self.make(name, "3", |pod| {
            pod["spec"]["priorityClassName"] = json!(class);
            pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
        });
        wait_bound(&self.plane, BATCH, name);
    }

    fn delete(&self, name: &str) {
        let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        self.plane.api.delete(&pod_path(BATCH, name), Some(&now)).unwrap();
    }

    /// Binds, refuses and preempts a pod each, asks an extender, and binds a crowd of `more` pods. Only the refused pod stays, till
    /// the next round.
    fn exercise(&self, round: usize, more: usize) {
        let name = |what: &str| format!("{what}-{round}");
        self.make(&name("fits"), "100m", |pod| pod["metadata"]["labels"]["ask"] = json!("yes"));
        wait_bound(&self.plane, BATCH, &name("fits"));
        let crowd: Vec<String> = (0..more).map(|i| format!("crowd-{round}-{i}")).collect();
        for name in &crowd {
            self.make(name, "10m", |_| {});
        }
        for name in &crowd {
            wait_bound(&self.plane, BATCH, name);
        }
        self.ranked(&name("low"), 10);
        self.ranked(&name("high"), 1000);
        if let Some(before) = round.checked_sub(1) {
            self.delete(&format!("too-big-{before}"));
        }
        self.make(&name("too-big"), "64", |_| {});
        wait_refused(&self.plane, BATCH, &name("too-big"), "Unschedulable");
        crowd.iter().chain([&name("fits"), &name("high")]).for_each(|name| self.delete(name));
    }

    /// Has the API server refuse an event, for want of the right (403), and fail at a bind, whose webhook nobody answers for (500); mends both.
    fn refuse_and_fail(&self) {
        let rules = withdraw(&self.plane, CLUSTER_ROLE, "create", "events");
        self.make("untold", "100m", |_| {});
        wait_bound(&self.plane, BATCH, "untold");
        self.wait_answered("403");
        restore(&self.plane, CLUSTER_ROLE, &rules);

        self.plane.api.post(WEBHOOKS, &unanswered_for_binds()).unwrap();
        // The API server knows of it a moment later. No pod is needed: it is asked before.
        let is_asked = || Ok((bind(&self.plane.api, BATCH, "nobody", "node-0").status == 500).then_some(()));
        self.plane.wait_for("the webhook to be asked", SOON, is_asked).unwrap();
        self.make("doubtful", "100m", |_| {});
        self.wait_answered("500");
        self.plane.api.delete(&format!("{WEBHOOKS}/unanswered"), None).unwrap();
        wait_bound(&self.plane, BATCH, "doubtful");
        for name in ["untold", "doubtful"] {
            self.delete(name);
        }
    }

    /// Waits until the operator has counted an answer of the API server with this code.
    fn wait_answered(&self, code: &str) {
        let label = format!("code=\"{code}\"");
        let is_one = |line: &str| line.starts_with("rest_client_requests_total{") && line.contains(&label);
        let counted = || {
            let (_, page) = self.operator.page_as("/metrics", Some(&self.token))?;
            Ok(page.lines().any(is_one).then_some(()))
        };
        self.plane.wait_for(&format!("an answer {code}"), SOON, counted).unwrap();
    }

    /// The series that a query finds at each second of the run, or at every `step` seconds; variables are filled in as Grafana
    /// does.
    fn range(&self, query: &str, step: u32) -> Vec<Value> {
        let unix = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_secs_f64().to_string();
        let (start, end, step) = (unix(self.began), unix(SystemTime::now()), step.to_string());
        let query = [("query", &*filled(query)), ("start", &*start), ("end", &*end), ("step", &*step)];
        self.prometheus.get("query_range", &query).unwrap()["result"].as_array().unwrap().clone()
    }

    /// Whether a query finds a number.
    fn finds(&self, query: &str) -> bool {
        let series = self.range(query, 1);
        let values = series.iter().flat_map(|one| one["values"].as_array().into_iter().flatten());
        values.map(|at| at[1].as_str().unwrap()).any(|value| value != "NaN")
    }
}

/// A webhook for binds at an address where nobody listens.
fn unanswered_for_binds() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "unanswered"},
        "webhooks": [{
            "name": "unanswered.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"url": format!("https://{}/", free_address().unwrap())},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}],
        }],
    })
}

/// A query without variables.
fn filled(query: &str) -> String {
    VARIABLES.iter().fold(query.to_owned(), |query, (variable, value)| query.replace(variable, value))
}

/// The queries of upstream's dashboard, but for that on redirections.
fn upstreams_panels() -> Vec<String> {
    let upstreams = upstreams();
    let panels = upstreams["dashboard"].as_object().unwrap().values();
    let queries = panels.flat_map(|queries| queries.as_array().unwrap());
    let queries = queries.map(|query| query.as_str().unwrap().to_owned());
    queries.filter(|query| !query.contains(REDIRECTED)).collect()
}

/// The series that upstream's rules record.
fn upstreams_records() -> Vec<String> {
    let upstreams = upstreams();
    let rules = upstreams["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
    let recorded = rules.filter_map(|rule| {
        let quantile = rule["labels"]["quantile"].as_str()?;
        Some(format!("{}{{quantile=\"{quantile}\"}}", rule["record"].as_str()?))
    });
    recorded.collect()
}

/// The queries of the chart's dashboard.
fn our_panels() -> Vec<String> {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// Whoever has dashboards and rules for kube-scheduler keeps them. `BERTH_DASHBOARD` names a file for a picture of the run.
#[test]
fn our_dashboard_and_upstreams_find_their_series_and_all_rules_are_evaluated() {
    let scraped = Scraped::start();
    let (nothing, upstreams): (Vec<String>, Vec<String>) = upstreams_panels()
        .into_iter()
        .partition(|query| query.contains(NOT_IN_GO) || names::NOT_SERVED.iter().any(|one| query.contains(one)));
    let (ours, records) = (our_panels(), upstreams_records());
    assert!(ours.len() > 30 && upstreams.len() > 9 && records.len() == 9, "{ours:?} {upstreams:?} {records:?}");

    let picture = std::env::var_os("BERTH_DASHBOARD");
    scraped.refuse_and_fail();
    let mut left: Vec<String> = ours.into_iter().chain(upstreams).chain(records).collect();
    let mut rounds = 0;
    let (began, pictured) = (Instant::now(), picture.as_ref().map_or(Duration::ZERO, |_| PICTURED));
    // The operator looks at its CustomResourceDefinition each minute: till then it may not have read anything.
    while !left.is_empty() || began.elapsed() < pictured {
        assert!(began.elapsed() < LATER + pictured, "queries that find nothing after {rounds} rounds: {left:#?}");
        let more = if picture.is_some() { 10 * (rounds % 6) } else { 0 };
        scraped.exercise(rounds, more);
        rounds += 1;
        left.retain(|query| !scraped.finds(query));
    }
    let found: Vec<&String> = nothing.iter().filter(|query| scraped.finds(query)).collect();
    assert!(found.is_empty(), "what is said to be missing is there: {found:?}");
    every_variable_has_values(&scraped);
    every_rule_is_evaluated(&scraped);

    let page = workplace("scraped").join("scrape.txt");
    fs::write(&page, scraped.operator.page_as("/metrics", Some(&scraped.token)).unwrap().1).unwrap();
    let parsed = promtool(page.parent().unwrap(), &["check", "metrics"], Some(&page)).unwrap();
    assert!(parsed.success, "{}{}", parsed.stdout, parsed.stderr);
    if let Some(file) = picture {
        fs::write(file, picture::draw(&dashboard(), |query| scraped.range(query, 2))).unwrap();
    }
}

/// Grafana asks for the values that each variable may have: `label_values(SELECTOR, LABEL)`.
fn every_variable_has_values(scraped: &Scraped) {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    for variable in variables.iter().filter(|variable| variable["type"] == "query") {
        let query = filled(variable["query"].as_str().unwrap());
        let inner = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).unwrap();
        let (selector, label) = inner.rsplit_once(", ").unwrap();
        let values = scraped.prometheus.get(&format!("label/{label}/values"), &[("match[]", selector)]).unwrap();
        assert!(!values.as_array().unwrap().is_empty(), "{variable}");
    }
}

/// The server has taken the chart's rules and upstream's, and evaluates each without an error.
fn every_rule_is_evaluated(scraped: &Scraped) {
    let rules = || {
        let groups = scraped.prometheus.get("rules", &[])?;
        let groups = groups["groups"].as_array().unwrap().iter();
        let rules: Vec<Value> = groups.flat_map(|group| group["rules"].as_array().unwrap().clone()).collect();
        Ok(rules.iter().all(|rule| rule["health"] != "unknown").then_some(rules))
    };
    let rules = scraped.plane.wait_for("all rules to be evaluated", LATER, rules).unwrap();
    let failed: Vec<&Value> = rules.iter().filter(|rule| rule["health"] != "ok").collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let alerts = rules.iter().filter(|rule| rule["name"].as_str().unwrap().starts_with("Berth")).count();
    assert!(alerts >= 20 && rules.len() > alerts + 9, "{alerts} alerts of {} rules", rules.len());
}

/// They look at `up` alone, which Prometheus makes of every scrape.
#[test]
fn upstreams_alerts_fire_when_the_target_is_gone_and_are_silent_while_it_is_scraped() {
    let directory = workplace("scraped-alerts");
    fs::write(directory.join("rules.yaml"), upstreams_rules().to_string()).unwrap();
    fs::write(directory.join("alerts.yaml"), include_str!("scraped/alerts.yaml")).unwrap();
    let tested = promtool(&directory, &["test", "rules", "alerts.yaml"], None).unwrap();
    assert!(tested.success, "{}{}", tested.stdout, tested.stderr);
}
