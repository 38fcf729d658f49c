//! The pods of the benchmark.

use serde_json::{Value, json};

use super::cluster::{BOUND, PODS, node_name};
use super::workload::Workload;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const IMAGE: &str = "registry.k8s.io/pause:3.10";
/// The labels that the pods of a StatefulSet have of their own.
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// What a pod with a claim calls it.
const DEVICE: &str = "device";

/// The name of a run's `index`-th pod, and of its claim where pods have some.
pub(super) fn pod_name(prefix: &str, index: usize) -> String {
    format!("{prefix}{index:06}")
}

/// The prefix of the pod by which a contestant proves that it binds, before the run of this prefix.
pub(super) fn probe_prefix(prefix: &str) -> String {
    format!("probe-{prefix}")
}

/// A pod of 100m and 200Mi that waits for the scheduler of this name, with what the workload asks of its place.
pub(super) fn waiting(name: &str, scheduler_name: &str, workload: Workload) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": PODS, "labels": {"app": "bench"}},
        "spec": {"schedulerName": scheduler_name, "containers": [container("100m")]},
    });
    let alike = json!({"matchLabels": {"app": "bench"}});
    let terms = |key: &str| json!([{"labelSelector": alike, "topologyKey": key}]);
    let spec = &mut pod["spec"];
    match workload {
        Workload::Race
        | Workload::Backlog
        | Workload::Extender
        | Workload::Churn
        | Workload::Latency
        | Workload::Faults
        | Workload::Unschedulable
        | Workload::ColdStart => {}
        Workload::Labels => {
            let index = name.rsplit('-').next().unwrap_or_default();
            pod["metadata"]["labels"] = json!({"app": "bench", POD_NAME: name, POD_INDEX: index});
        }
        Workload::Volumes => {
            spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
        }
        Workload::Preemption => {
            spec["priorityClassName"] = json!(HIGH);
            spec["containers"] = json!([container(FILLER_CPU)]);
        }
        Workload::Spread => {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": alike,
            }]);
        }
        Workload::AntiAffinity => {
            spec["affinity"] =
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms(HOSTNAME)}});
        }
        Workload::Claims => {
            spec["resourceClaims"] = json!([{"name": DEVICE, "resourceClaimName": name}]);
            spec["containers"][0]["resources"]["claims"] = json!([{"name": DEVICE}]);
        }
        Workload::Affinity => {
            spec["affinity"] = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms(ZONE)}});
        }
    }
    pod
}

/// A pod that may not be scheduled yet.
pub(super) fn gated(name: &str, scheduler_name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": BOUND, "labels": {"app": "gated"}},
        "spec": {
            "schedulerName": scheduler_name,
            "schedulingGates": [{"name": "example.com/quota"}],
            "containers": [container("100m")],
        },
    })
}

/// A pod of high priority that asks for more than any node has.
pub(super) fn too_big(name: &str, scheduler_name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": PODS, "labels": {"app": "too-big"}},
        "spec": {"schedulerName": scheduler_name, "priorityClassName": HIGH, "containers": [container(NOWHERE_CPU)]},
    })
}

/// The `index`-th pod that is bound already, spread evenly over `nodes`. Its name and labels are
/// those of a Deployment's pod; the API server lists it in about 1.7 KB, and so many bytes of `padding`.
pub(super) fn bound(index: usize, namespace: &str, (nodes, padding): (usize, usize)) -> Value {
    let service = format!("service-{:04}", index / 50);
    let mut container = container("100m");
    if padding > 0 {
        container["env"] = json!([{"name": "PADDING", "value": "x".repeat(padding)}]);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{service}-7c9d8b5f6b-{index:06}"),
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": service, "pod-template-hash": "7c9d8b5f6b"},
        },
        "spec": {"nodeName": node_name(index % nodes), "containers": [container]},
    })
}

/// The PriorityClasses of pods that take room from others, and of those that give it.
pub(super) const HIGH: &str = "bench-high";
pub(super) const LOW: &str = "bench-low";

/// What a filler and a pod that takes its room ask for: four fill a node.
const FILLER_CPU: &str = "4";

/// More than a node has.
const NOWHERE_CPU: &str = "17";

/// Pods of low priority that a node is full with.
pub(super) const FILLERS_PER_NODE: usize = 4;

/// The `index`-th pod of low priority, bound to its node; it goes as soon as it is deleted.
pub(super) fn filler(index: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("filler-{index:06}"), "namespace": PODS, "labels": {"app": "filler"}},
        "spec": {
            "nodeName": node_name(index / FILLERS_PER_NODE),
            "priorityClassName": LOW,
            "terminationGracePeriodSeconds": 0,
            "containers": [container(FILLER_CPU)],
        },
    })
}

fn container(cpu: &str) -> Value {
    json!({
        "name": "main",
        "image": IMAGE,
        "resources": {"requests": {"cpu": cpu, "memory": "200Mi"}},
    })
}
