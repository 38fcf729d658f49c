//! What the chart renders to, for many sets of values, is taken by a real API server that is asked to be strict: each field is one that
//! it knows, and each value one that it would store.
//!
//! So are the objects of the Prometheus Operator, whose own definitions are installed. `tests/chart/alerts.rs` has promtool read the rules.

use std::path::{Path, PathBuf};
use std::process::Command;

use berth_lab::{ControlPlane, Options, Outcome};
use serde_json::Value;

use crate::SOON;
use crate::cluster::{HOME, namespace};

/// Sets of values, each with what it is for.
const SETS: [(&str, &[&str]); 23] = [
    ("as it comes", &[]),
    ("every value", &["-f", "charts/berth/ci/every-value.yaml"]),
    (
        "every value with what it switches off",
        &[
            "-f",
            "charts/berth/ci/every-value.yaml",
            "--set",
            "rbac.create=true,flowSchemas.enabled=true,crds.enabled=true,podDisruptionBudget.enabled=true",
        ],
    ),
    ("one replica", &["--set", "replicaCount=1"]),
    ("outside of the cluster", &["--set", "replicaCount=0"]),
    (
        "five replicas with a slow Lease",
        &[
            "--set",
            "replicaCount=5,operator.leaderElection.leaseDurationSeconds=60,\
        operator.leaderElection.renewDeadlineSeconds=40,operator.leaderElection.retryPeriodSeconds=5",
        ],
    ),
    ("OpenShift", &["--set", "podSecurityContext.runAsUser=null,podSecurityContext.runAsGroup=null"]),
    ("no security contexts", &["--set", "podSecurityContext=null,containerSecurityContext=null"]),
    ("the node's network", &["--set", "hostNetwork=true,metrics.port=18080,probes.port=18081"]),
    ("another one's definition", &["--set", "crds.enabled=false"]),
    ("a definition that goes with the release", &["--set", "crds.keep=false"]),
    (
        "admission policies",
        &["--set", "admissionPolicy.enabled=true,admissionPolicy.protectedNamespaces={kube-system}"],
    ),
    ("namespaces that choose", &["--set", "namespaceRouting.enabled=true"]),
    (
        "a closed network with two kinds of addresses",
        &[
            "--set",
            "networkPolicy.enabled=true",
            "--set-json",
            r#"networkPolicy.apiServer={"cidrs":["192.0.2.10/32","2001:db8::10/128"],"ports":[6443]}"#,
            "--set-json",
            r#"networkPolicy.metricsFrom=[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"monitoring"}}}]"#,
            "--set-json",
            r#"networkPolicy.extenders=[{"to":[{"podSelector":{}}],"ports":[{"port":8888,"protocol":"TCP"}]}]"#,
        ],
    ),
    ("another one's account", &["--set", "rbac.create=false,serviceAccount.create=false,serviceAccount.name=someone"]),
    ("open metrics", &["--set", "metrics.authorization.enabled=false"]),
    (
        "a reader of metrics",
        &["--set-json", r#"metrics.authorization.readers=[{"name":"prometheus","namespace":"monitoring"}]"#],
    ),
    (
        "monitoring",
        &[
            "--set",
            "metrics.podMonitor.enabled=true,metrics.serviceMonitor.enabled=true,\
        metrics.prometheusRule.enabled=true,metrics.prometheusRule.runbookUrl=https://example.com/berth/docs,\
        dashboards.enabled=true",
        ],
    ),
    (
        "no flow schemas, and a class of its own",
        &["--set", "flowSchemas.enabled=false,priorityClassName=system-node-critical"],
    ),
    (
        "the only scheduler, with extenders",
        &[
            "--set",
            "operator.serveDefaultScheduler=true,\
        operator.extenders.allowHosts={*.example.com,10.0.0.0/8},operator.extenders.allowHttp={127.0.0.1}",
        ],
    ),
    (
        "more of everything",
        &[
            "--set-json",
            r#"extraEnv=[{"name":"SSL_CERT_FILE","value":"/ca/ca.crt"}]"#,
            "--set-json",
            r#"extraVolumes=[{"name":"ca","configMap":{"name":"ca"}}]"#,
            "--set-json",
            r#"extraVolumeMounts=[{"name":"ca","mountPath":"/ca","readOnly":true}]"#,
            "--set-json",
            r#"extraContainers=[{"name":"extender","image":"images.example/extender:1"}]"#,
            "--set-json",
            r#"extraObjects=[{"apiVersion":"scheduling.berth.dev/v1alpha1","kind":"SchedulerProfile",
            "metadata":{"name":"binpack"},"spec":{"preset":"BinPack"}}]"#,
        ],
    ),
    (
        "a place of its own",
        &[
            "--set-json",
            r#"nodeSelector={"node-role.kubernetes.io/control-plane":""}"#,
            "--set-json",
            r#"tolerations=[{"key":"node-role.kubernetes.io/control-plane","operator":"Exists"}]"#,
            "--set-json",
            "topologySpreadConstraints=[]",
            "--set-json",
            r#"affinity={"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname",
            "labelSelector":{"matchLabels":{"app.kubernetes.io/name":"berth"}}}]}}"#,
        ],
    ),
    (
        "long names, many labels",
        &[
            "--set",
            "nameOverride=a-name-that-is-just-as-long-as-the-schema-lets-it-be",
            "--set-json",
            r#"commonLabels={"team":"platform"}"#,
            "--set-json",
            r#"commonAnnotations={"example.com/by":"us"}"#,
            "--set-json",
            r#"podLabels={"tier":"control"}"#,
            "--set-json",
            r#"imagePullSecrets=[{"name":"pull"}]"#,
            "--set-json",
            r#"dnsConfig={"options":[{"name":"ndots","value":"1"}]}"#,
        ],
    ),
];

/// The kinds of the Prometheus Operator that the chart makes objects of.
const MONITORING: [&str; 3] = ["podmonitors", "servicemonitors", "prometheusrules"];

/// The folder of the Prometheus Operator's definitions, from its Go module.
fn definitions() -> PathBuf {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream/prometheus-operator");
    let args = ["mod", "download", "-json", "github.com/prometheus-operator/prometheus-operator"];
    let output = Command::new("go").args(args).current_dir(module).output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    Path::new(told["Dir"].as_str().unwrap_or_else(|| panic!("{told}"))).join("example/prometheus-operator-crd")
}

/// What the chart renders to, without the objects that this API server cannot know.
fn rendered(plane: &ControlPlane, args: &[&str]) -> Vec<Value> {
    let fixed = ["template", "berth", "charts/berth", "--namespace", HOME];
    let text = plane.helm(&[&fixed, args].concat()).unwrap();
    let all: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let served = plane.api.get("/apis/admissionregistration.k8s.io/v1").unwrap().to_string();
    let is_known = |object: &Value| {
        let kind = object["kind"].as_str().unwrap_or_default();
        // Before Kubernetes 1.36 there is none of these.
        !kind.starts_with("MutatingAdmissionPolicy") || served.contains("mutatingadmissionpolicies")
    };
    all.into_iter().filter(is_known).collect()
}

/// Asks the API server to apply the objects, strictly and without storing anything.
fn tried(plane: &ControlPlane, objects: &[Value]) -> Outcome {
    let file = plane.dir().join("rendered.json");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(&file, list.to_string()).unwrap();
    let strict = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f"];
    plane.kubectl(&[&strict[..], &[file.to_str().unwrap()]].concat()).unwrap()
}

#[test]
fn a_strict_api_server_takes_what_the_chart_renders_whatever_the_values() {
    let plane = ControlPlane::start(&Options::default()).unwrap();
    // The release's, and the one that a set of values puts the Lease into.
    namespace(&plane, HOME);
    namespace(&plane, "leases");
    plane.kubectl_ok(&["apply", "--server-side", "-f", "crds"]).unwrap();
    let definitions = definitions();
    for kind in MONITORING {
        let file = definitions.join(format!("monitoring.coreos.com_{kind}.yaml"));
        plane.kubectl_ok(&["apply", "--server-side", "-f", file.to_str().unwrap()]).unwrap();
    }
    let timeout = format!("--timeout={}s", SOON.as_secs());
    plane.kubectl_ok(&["wait", "--for=condition=Established", "crd", "--all", &timeout]).unwrap();
    let mut refused = Vec::new();
    for (name, args) in SETS {
        let objects = rendered(&plane, args);
        assert!(objects.len() > 3, "{name}: {objects:#?}");
        let outcome = tried(&plane, &objects);
        let taken = outcome.stdout.lines().filter(|line| line.ends_with("serverside-applied (server dry run)")).count();
        if !outcome.success || taken != objects.len() {
            refused.push(format!("{name}: {taken} of {} taken: {}", objects.len(), outcome.stderr));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    // And the check does check.
    let mut objects = rendered(&plane, &[]);
    let deployment = objects.iter_mut().find(|object| object["kind"] == "Deployment").unwrap();
    deployment["spec"]["template"]["spec"]["hostNetworks"] = true.into();
    let outcome = tried(&plane, &objects);
    assert!(!outcome.success && outcome.stderr.contains("hostNetworks"), "{}", outcome.stderr);
    let mut objects = rendered(&plane, &["--set", "metrics.podMonitor.enabled=true"]);
    let monitor = objects.iter_mut().find(|object| object["kind"] == "PodMonitor").unwrap();
    monitor["spec"]["podMetricsEndpoint"] = monitor["spec"]["podMetricsEndpoints"].take();
    let outcome = tried(&plane, &objects);
    assert!(!outcome.success && outcome.stderr.contains("podMetricsEndpoint"), "{}", outcome.stderr);
}
