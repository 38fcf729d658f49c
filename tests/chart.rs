//! The Helm chart, from its text to a real API server: rendered with every value, installed, upgraded, uninstalled,
//! and what its account may and may not do.
//!
//! Helm, kubectl and the API server are the real ones (`berth-lab` builds them when they are missing).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "chart/alerts.rs"]
mod alerts;
#[path = "chart/installed.rs"]
mod installed;
#[path = "chart/monitoring.rs"]
mod monitoring;
#[path = "chart/pods.rs"]
mod pods;
#[path = "chart/rights.rs"]
mod rights;
#[path = "chart/written.rs"]
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_lab::{Outcome, Upstream};
use serde_json::{Map, Value, json};

/// Groups of values that have an effect only while their `enabled` is true, which it is not by default.
const SWITCHED: [&str; 6] = [
    "admissionPolicy",
    "networkPolicy",
    "metrics.podMonitor",
    "metrics.serviceMonitor",
    "metrics.prometheusRule",
    "dashboards",
];
/// Name of the CustomResourceDefinition.
const CRD: &str = "schedulerprofiles.scheduling.berth.dev";
/// Namespace of the release in these tests.
const HOME: &str = "berth-system";

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("reading {path}: {error}"))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Runs helm on the chart's files alone, without a cluster.
fn helm(args: &[&str]) -> Outcome {
    let output = Command::new(Upstream::find_or_build().unwrap().binary("helm"))
        .args(args)
        .env("KUBECONFIG", "/dev/null")
        .output()
        .unwrap();
    Outcome {
        success: output.status.success(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn template(args: &[&str]) -> Outcome {
    let chart = repository("charts/berth");
    let fixed = ["template", "berth", chart.to_str().unwrap(), "--namespace", HOME];
    helm(&[&fixed, args].concat())
}

/// The objects that the chart renders to.
fn rendered(args: &[&str]) -> Vec<Value> {
    let outcome = template(args);
    assert!(outcome.success, "helm template {args:?}: {}", outcome.stderr);
    serde_saphyr::from_multiple(&outcome.stdout).unwrap()
}

/// The object of this kind and name among `objects`.
fn object<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
        .unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// Paths of all values that can be set: those of scalars, lists and empty maps.
fn leaves(value: &Value) -> BTreeMap<String, Value> {
    fn walk(prefix: &str, value: &Value, out: &mut BTreeMap<String, Value>) {
        match value.as_object() {
            Some(map) if !map.is_empty() => {
                for (key, inner) in map {
                    let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    walk(&path, inner, out);
                }
            }
            _ => {
                out.insert(prefix.to_owned(), value.clone());
            }
        }
    }
    let mut out = BTreeMap::new();
    walk("", value, &mut out);
    out
}

fn defaults() -> BTreeMap<String, Value> {
    leaves(&yaml(&text("charts/berth/values.yaml")))
}

/// `{"a": {"b": value}}` for the path `a.b`.
fn nested(path: &str, value: Value) -> Value {
    path.rsplit('.').fold(value, |inner, key| Value::Object(Map::from_iter([(key.to_owned(), inner)])))
}

/// Where two documents differ first, if they do. Numbers are compared by value: one tool writes 1, another 1.0.
fn difference(left: &Value, right: &Value, at: &str) -> Option<String> {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| difference(&left[key], &right[key], &format!("{at}/{key}")))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(index, (x, y))| difference(x, y, &format!("{at}/{index}")))
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => None,
        _ if left == right => None,
        _ => Some(format!("{at}: {left} against {right}")),
    }
}

#[test]
fn the_chart_holds_the_generated_crd_byte_for_byte() {
    let generated = text("crds/scheduling.berth.dev_schedulerprofiles.yaml");
    assert_eq!(text("charts/berth/files/crd.yaml"), generated, "run `make crds`");
}

#[test]
fn versions_agree() {
    let chart = yaml(&text("charts/berth/Chart.yaml"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"), "appVersion in Chart.yaml and version in Cargo.toml");
    let toolchain = text("rust-toolchain.toml");
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    assert!(
        text("Dockerfile").contains(&format!("FROM rust:{channel}-bookworm")),
        "Dockerfile and rust-toolchain.toml"
    );
}

#[test]
fn helm_lint_finds_nothing() {
    let chart = repository("charts/berth");
    let every = repository("charts/berth/ci/every-value.yaml");
    let (chart, every) = (chart.to_str().unwrap(), every.to_str().unwrap());
    for args in [vec!["lint", "--strict", chart], vec!["lint", "--strict", chart, "-f", every]] {
        let outcome = helm(&args);
        assert!(outcome.success, "helm {args:?}: {}{}", outcome.stdout, outcome.stderr);
        assert!(!outcome.stdout.contains("[WARNING]"), "{}", outcome.stdout);
    }
}

#[test]
fn the_crd_is_rendered_whole_with_labels_and_the_keep_annotation() {
    let objects = rendered(&[]);
    let crd = object(&objects, "CustomResourceDefinition", CRD);
    let source = yaml(&text("charts/berth/files/crd.yaml"));
    assert_eq!(difference(&crd["spec"], &source["spec"], "spec"), None);
    assert_eq!(crd["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    assert_eq!(crd["metadata"]["labels"]["app.kubernetes.io/instance"], "berth");
    let deleted = rendered(&["--set", "crds.keep=false"]);
    let crd = object(&deleted, "CustomResourceDefinition", CRD);
    assert!(crd["metadata"]["annotations"]["helm.sh/resource-policy"].is_null());
    let without = rendered(&["--set", "crds.enabled=false"]);
    assert!(without.iter().all(|object| object["kind"] != "CustomResourceDefinition"));
}

#[test]
fn the_deployment_is_what_the_operator_relies_on() {
    let objects = rendered(&[]);
    let spec = &object(&objects, "Deployment", "berth")["spec"];
    assert_eq!(spec["replicas"], 2);
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
    assert_eq!(spec["strategy"], rolling);
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["schedulerName"], "default-scheduler");
    assert_eq!(pod["serviceAccountName"], "berth");
    assert_eq!(pod["priorityClassName"], "system-cluster-critical");
    assert_eq!(pod["terminationGracePeriodSeconds"], 30);
    let container = &pod["containers"][0];
    assert_eq!(
        container["args"],
        json!([
            "operator",
            "--lease-namespace=kube-system",
            "--leader-elect-lease-duration=15s",
            "--leader-elect-renew-deadline=10s",
            "--leader-elect-retry-period=2s",
            "--installation=berth-system/berth",
            "--state-namespace=$(POD_NAMESPACE)",
            "--http-address=[::]:8080",
            "--probe-address=[::]:8081",
            "--metrics-authorization=true",
            "--debug-address=127.0.0.1:8082",
            "--audit-interval=300s",
            "--log-format=json",
            "--log-level=info",
            "--bind-qps=0"
        ])
    );
    let fields: BTreeMap<_, _> = container["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|env| (env["name"].as_str().unwrap(), env["valueFrom"]["fieldRef"]["fieldPath"].as_str().unwrap()))
        .collect();
    let expected =
        [("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace"), ("POD_UID", "metadata.uid")];
    assert_eq!(fields, BTreeMap::from(expected));
    assert_eq!(container["livenessProbe"]["httpGet"], json!({"path": "/livez", "port": "probes"}));
    assert_eq!(container["readinessProbe"]["httpGet"], json!({"path": "/readyz", "port": "probes"}));
    let ports = json!([
        {"name": "http", "containerPort": 8080, "protocol": "TCP"},
        {"name": "probes", "containerPort": 8081, "protocol": "TCP"}
    ]);
    assert_eq!(container["ports"], ports);
    assert_eq!(pod["enableServiceLinks"], false);
}

/// A lost node, a drain and an upgrade must each leave an operator that works.
#[test]
fn replicas_are_apart_go_one_at_a_time_and_leave_a_lost_node_soon() {
    let objects = rendered(&[]);
    let deployment = &object(&objects, "Deployment", "berth")["spec"];
    let pod = &deployment["template"]["spec"];
    let own = &deployment["selector"];
    let spread: Vec<Value> = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
        .map(|key| {
            json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": own,
                "matchLabelKeys": ["pod-template-hash"]})
        })
        .into();
    assert_eq!(pod["topologySpreadConstraints"], json!(spread));
    let lost = |seconds: u32| {
        ["not-ready", "unreachable"].map(|taint| {
            json!({"key": format!("node.kubernetes.io/{taint}"), "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": seconds})
        })
    };
    assert_eq!(pod["tolerations"], json!(lost(30)));
    let more = "lostNodeTolerationSeconds=20,tolerations[0].operator=Exists";
    let objects = rendered(&["--set", more]);
    let tolerations = &object(&objects, "Deployment", "berth")["spec"]["template"]["spec"]["tolerations"];
    let [first, second] = lost(20);
    assert_eq!(*tolerations, json!([first, second, {"operator": "Exists"}]));

    let budget = &object(&objects, "PodDisruptionBudget", "berth")["spec"];
    assert_eq!((&budget["maxUnavailable"], &budget["selector"]), (&json!(1), own));
    for without in ["replicaCount=0", "replicaCount=1", "podDisruptionBudget.enabled=false"] {
        assert!(
            rendered(&["--set", without]).iter().all(|object| object["kind"] != "PodDisruptionBudget"),
            "{without}"
        );
    }
}

#[test]
fn times_of_the_lease_that_do_not_go_together_are_refused_before_they_are_installed() {
    for (times, named) in [
        (
            "leaseDurationSeconds=12,operator.leaderElection.renewDeadlineSeconds=12",
            "leaseDurationSeconds (12) must be more than renewDeadlineSeconds (12)",
        ),
        (
            "leaseDurationSeconds=11",
            "leaseDurationSeconds (11) must be more than 9, the seconds that a request may be under way",
        ),
        ("retryPeriodSeconds=9", "renewDeadlineSeconds (10) must be more than 1.2 times retryPeriodSeconds (9)"),
        ("retryPeriodSeconds=0", "retryPeriodSeconds"),
    ] {
        let outcome = template(&["--set", &format!("operator.leaderElection.{times}")]);
        assert!(!outcome.success && outcome.stderr.contains(named), "{times}: {}", outcome.stderr);
    }
    let quick = "leaseDurationSeconds=11,operator.leaderElection.renewDeadlineSeconds=2,operator.leaderElection.retryPeriodSeconds=1";
    assert!(template(&["--set", &format!("operator.leaderElection.{quick}")]).success);
}

/// What a scrape's token is judged by, and who may judge: only while tokens are asked for.
#[test]
fn rights_for_reviews_are_there_only_while_tokens_are_asked_for() {
    let of_metrics = |args: &[&str]| -> BTreeSet<String> {
        let objects = rendered(args);
        let texts = objects.iter().map(|object| (object["kind"].as_str(), object["metadata"]["name"].as_str()));
        let named = texts.filter_map(|(kind, name)| Some(format!("{} {}", kind?, name?)));
        named.filter(|text| text.contains("metrics")).collect()
    };
    let own = ["ClusterRole berth-metrics", "ClusterRole berth-metrics-reader", "ClusterRoleBinding berth-metrics"];
    assert_eq!(of_metrics(&[]), own.map(str::to_owned).into());
    assert_eq!(of_metrics(&["--set", "metrics.authorization.enabled=false"]), BTreeSet::new());
    let reader =
        "metrics.authorization.readers[0].name=prometheus-k8s,metrics.authorization.readers[0].namespace=monitoring";
    let objects = rendered(&["--set", reader]);
    let binding = object(&objects, "ClusterRoleBinding", "berth-metrics-reader");
    let subject = json!({"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "monitoring"});
    assert_eq!(binding["subjects"], json!([subject]));
}

#[test]
fn the_network_policy_lets_in_and_out_what_is_named() {
    assert!(rendered(&[]).iter().all(|object| object["kind"] != "NetworkPolicy"));
    let objects = rendered(&["--set", "networkPolicy.enabled=true"]);
    let spec = &object(&objects, "NetworkPolicy", "berth")["spec"];
    let pod = &object(&objects, "Deployment", "berth")["spec"]["template"]["metadata"]["labels"];
    for (label, value) in spec["podSelector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(&pod[label], value, "{label} does not select the operator's pod");
    }
    assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(spec["ingress"], json!([]));
    let tcp = |port: u16| json!({"port": port, "protocol": "TCP"});
    let dns = json!({"ports": [{"port": 53, "protocol": "UDP"}, tcp(53)]});
    assert_eq!(spec["egress"], json!([dns, {"ports": [tcp(443), tcp(6443)]}]));

    let every = repository("charts/berth/ci/every-value.yaml");
    let objects = rendered(&["-f", every.to_str().unwrap()]);
    let spec = &object(&objects, "NetworkPolicy", "quay")["spec"];
    let from = |name: &str| json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}]);
    let block = |cidr: &str| json!({"ipBlock": {"cidr": cidr}});
    assert_eq!(
        spec["ingress"],
        json!([
            {"from": from("monitoring"), "ports": [tcp(9090)]},
            {"from": [block("192.0.2.0/24")], "ports": [tcp(9091)]}
        ])
    );
    assert_eq!(
        spec["egress"],
        json!([
            dns,
            {"ports": [tcp(6443)], "to": [block("192.0.2.10/32"), block("2001:db8::10/128")]},
            {"to": from("extenders"), "ports": [tcp(8888)]}
        ])
    );
}

#[test]
fn all_values_at_once_reach_the_objects() {
    let every = repository("charts/berth/ci/every-value.yaml");
    // The switches that would take away the objects to look at stay on; each is tested alone below.
    let objects = rendered(&["-f", every.to_str().unwrap(), "--set", "rbac.create=true,flowSchemas.enabled=true"]);
    assert!(objects.iter().all(|object| object["kind"] != "ServiceAccount"));
    assert!(objects.iter().all(|object| object["metadata"]["labels"]["team"] == "platform"));
    let deployment = object(&objects, "Deployment", "quay");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let args: BTreeSet<_> = container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for arg in [
        "--lease-namespace=leases",
        "--leader-elect-lease-duration=30s",
        "--leader-elect-renew-deadline=8s",
        "--leader-elect-retry-period=1s",
        "--installation=berth-system/quay",
        "--log-level=debug",
        "--bind-qps=500",
        "--bind-concurrency=48",
        "--serve-default-scheduler",
        "--namespace-routing",
    ] {
        assert!(args.contains(arg), "{arg} is missing in {args:?}");
    }
    assert!(container["image"].as_str().unwrap().starts_with("images.example/berth@sha256:0123"));
    let role = object(&objects, "Role", "quay-lease");
    assert_eq!(role["metadata"]["namespace"], "leases");
    let account = json!({"kind": "ServiceAccount", "name": "someone", "namespace": HOME});
    for binding in objects.iter().filter(|object| {
        object["kind"].as_str().unwrap().ends_with("RoleBinding") || object["kind"] == "ClusterRoleBinding"
    }) {
        assert_eq!(binding["subjects"], json!([account]));
    }
    let lease = object(&objects, "FlowSchema", "quay-lease");
    assert_eq!(lease["spec"]["rules"][0]["resourceRules"][0]["namespaces"], json!(["leases"]));
}

#[test]
fn each_value_alone_has_an_effect_and_is_documented() {
    let every = leaves(&yaml(&text("charts/berth/ci/every-value.yaml")));
    let readme = text("charts/berth/README.md");
    let baseline = template(&[]).stdout;
    let switched = SWITCHED.map(|group| {
        // Alerts need the address of their runbooks; nothing else reads it.
        let outcome = template(&["--set", &format!("{group}.enabled=true"), "--set", monitoring::RUNBOOKS]);
        assert!(outcome.success, "{group}: {}", outcome.stderr);
        outcome.stdout
    });
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chart-one-value.yaml");
    for (path, default) in defaults() {
        assert!(readme.contains(&format!("| `{path}` |")), "{path} is not in the chart's README");
        let parent = yaml(&text("charts/berth/ci/every-value.yaml"));
        let changed = parent.pointer(&format!("/{}", path.replace('.', "/")));
        let changed = changed.unwrap_or_else(|| panic!("{path} is not in ci/every-value.yaml")).clone();
        assert_ne!(changed, default, "ci/every-value.yaml sets {path} to its default");
        let mut values = nested(&path, changed);
        if path == "serviceAccount.create" {
            values["serviceAccount"]["name"] = json!("berth");
        }
        let mut without = &baseline;
        for (group, enabled) in SWITCHED.iter().zip(&switched) {
            let within = path.strip_prefix(*group).and_then(|rest| rest.strip_prefix('.'));
            if within.is_some_and(|rest| rest != "enabled") {
                values.pointer_mut(&format!("/{}", group.replace('.', "/"))).unwrap()["enabled"] = json!(true);
                without = enabled;
            }
        }
        fs::write(&file, values.to_string()).unwrap();
        // A value on the command line goes before the file's.
        let mut args = vec!["-f", file.to_str().unwrap()];
        if path != "metrics.prometheusRule.runbookUrl" {
            args.extend(["--set", monitoring::RUNBOOKS]);
        }
        let outcome = template(&args);
        assert!(outcome.success, "{path}: {}", outcome.stderr);
        assert!(outcome.stdout != *without, "{path} changes nothing");
    }
    let known = defaults();
    for path in every.keys() {
        let mut prefixes = path.match_indices('.').map(|(end, _)| &path[..end]).chain([path.as_str()]);
        assert!(prefixes.any(|prefix| known.contains_key(prefix)), "{path} is no value of the chart");
    }
}

#[test]
fn every_line_of_the_values_has_a_comment_above_it() {
    let values = text("charts/berth/values.yaml");
    let lines: Vec<&str> = values.lines().collect();
    let groups = [
        "crds:",
        "image:",
        "podDisruptionBudget:",
        "operator:",
        "serviceAccount:",
        "rbac:",
        "admissionPolicy:",
        "namespaceRouting:",
        "metrics:",
        "authorization:",
        "podMonitor:",
        "serviceMonitor:",
        "prometheusRule:",
        "dashboards:",
        "labels:",
        "probes:",
        "debug:",
        "networkPolicy:",
        "flowSchemas:",
        "requests:",
        "limits:",
        "seccompProfile:",
        "capabilities:",
    ];
    for (index, line) in lines.iter().enumerate() {
        let key = line.trim();
        if key.is_empty() || key.starts_with('#') || groups.contains(&key) {
            continue;
        }
        assert!(
            index > 0 && lines[index - 1].trim().starts_with('#'),
            "values.yaml:{}: no comment above {key}",
            index + 1
        );
    }
}

#[test]
fn bad_values_are_refused_with_their_name() {
    for (set, named) in [
        ("replicas=2", "replicas"),
        ("replicaCount=-1", "replicaCount"),
        ("topologySpreadConstraints[0].maxSkew=1", "topologyKey"),
        ("schedulerName=binpack", "schedulerName"),
        ("operator.leaseName=other", "leaseName"),
        ("operator.bindQps=-1", "bindQps"),
        ("operator.bindQps=fast", "bindQps"),
        ("operator.bindConcurrency=5000", "bindConcurrency"),
        ("operator.logLevel=loud", "logLevel"),
        ("operator.auditIntervalSeconds=5", "auditIntervalSeconds"),
        ("debug.port=80", "port"),
        ("operator.leaseNamespace=Not_A_Namespace", "leaseNamespace"),
        ("operator.serveDefaultScheduler=perhaps", "serveDefaultScheduler"),
        ("crds.keep=keep", "keep"),
        ("crds.install=true", "install"),
        ("image.digest=sha256:12", "digest"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("serviceAccount.create=false", "name"),
        ("flowSchemas=off", "flowSchemas"),
        ("admissionPolicy.enabled=maybe", "enabled"),
        ("admissionPolicy.protectedNamespaces[0]=Kube_System", "protectedNamespaces"),
        ("namespaceRouting.enabled=maybe", "enabled"),
        ("namespaceRouting.exempt=true", "exempt"),
        ("metrics.port=80", "port"),
        ("metrics.podMonitor.interval=15s", "interval"),
        ("metrics.prometheusRule.sliSeconds=5", "sliSeconds"),
        ("probes.liveness.path=/healthz", "path"),
        ("terminationGracePeriodSeconds=5", "terminationGracePeriodSeconds"),
        ("dnsPolicy=Cluster", "dnsPolicy"),
        ("extraArgs[0]=events=false", "extraArgs"),
        ("extraEnv[0]=SSL_CERT_FILE", "extraEnv"),
        ("metrics.authorization.readers[0].name=prometheus", "namespace"),
        ("networkPolicy.apiServer.cidrs[0]=192.0.2.10", "cidrs"),
        ("networkPolicy.apiServer.ports[0]=https", "ports"),
        ("profiles[0].name=binpack", "profiles"),
    ] {
        let outcome = template(&["--set", set]);
        assert!(!outcome.success, "--set {set} was accepted");
        assert!(outcome.stderr.contains(named), "--set {set}: the message does not name {named}: {}", outcome.stderr);
    }
}
