//! The control plane of the benchmark: nodes without kwok, the chart, and for each contestant an account whose requests
//! go by the same FlowSchemas.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::contestant::{Contestant, null_scheduler};
use super::options::{BenchOptions, PODS_PER_NODE};
use super::pods::gated;
use super::progress::progress;
use super::workload::Workload;
use crate::control_plane::{ControlPlane, Durability, Options};
use crate::extender::{Extender, ExtenderOptions};
use crate::nodes::NodeSpec;

/// The namespace of the pods to be placed.
pub(super) const PODS: &str = "bench";
/// The namespace of the pods that are bound already.
pub(super) const BOUND: &str = "bench-bound";
/// The namespace of the accounts beside Berth's own. Not kube-system: accounts there have a FlowSchema of their own.
pub(super) const ACCOUNTS: &str = "bench-accounts";

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
/// Nodes made between two looks at the stop flag.
const NODE_CHUNK: usize = 500;
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// Requests in flight at a time while objects are made.
const WIDTH: usize = 32;
const FLOW_SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";

/// A cluster on which contestants can be started one after the other.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) plane: ControlPlane,
    pub(super) binary: PathBuf,
    pub(super) null_scheduler: PathBuf,
    /// Profiles of Berth that have pods, and those that have none.
    profiles: usize,
    idle: usize,
    /// The server that contestants ask, where a workload has one.
    pub(super) extender: Option<Extender>,
}

impl Cluster {
    pub(super) fn start(options: &BenchOptions) -> Result<Self> {
        let has = |contestant| options.contestants.contains(&contestant);
        if has(Contestant::Berth) && !options.binary.exists() {
            anyhow::bail!("{} does not exist: run `make build` first", options.binary.display());
        }
        let null_scheduler = if has(Contestant::Null) { null_scheduler()? } else { PathBuf::new() };
        progress("starting etcd (fsync) and kube-apiserver")?;
        let plane = ControlPlane::start(&Options {
            durability: Durability::Fsync,
            // One worker, the default, takes longer over 8,000 pods than a request may last.
            apiserver_args: vec!["--delete-collection-workers=16".to_owned()],
            stop: options.stop.clone(),
            ..Options::default()
        })?;
        progress(&format!("they serve at {}; logs in {}", plane.server, plane.dir().display()))?;
        let extender = if options.workloads.iter().any(|workload| workload.asks()) {
            Some(plane.start_extender("extender", &ExtenderOptions { quiet: true, ..ExtenderOptions::default() })?)
        } else {
            None
        };
        let (binary, profiles, idle) = (options.binary.clone(), options.profiles, options.idle);
        let cluster = Self { plane, binary, null_scheduler, profiles, idle, extender };
        cluster.make_nodes(options)?;
        cluster.install_chart(has(Contestant::Berth))?;
        cluster.make_namespaces(options.namespaces)?;
        cluster.make_gated(options)?;
        for contestant in [Contestant::KubeScheduler, Contestant::Null] {
            cluster.make_account(contestant)?;
        }
        progress("the chart is installed; the other accounts have FlowSchemas equal to its own")?;
        Ok(cluster)
    }

    /// What the API server calls itself.
    pub(super) fn version(&self) -> Result<String> {
        let version = self.plane.api.get("/version")?;
        Ok(version["gitVersion"].as_str().context("/version names no gitVersion")?.to_owned())
    }

    fn make_nodes(&self, &BenchOptions { nodes: count, images, ref stop, .. }: &BenchOptions) -> Result<()> {
        let began = Instant::now();
        for first in (0..count).step_by(NODE_CHUNK) {
            if stop.is_raised() {
                anyhow::bail!("interrupted");
            }
            self.plane
                .create_nodes(NODE_CHUNK.min(count - first), |index| NodeSpec { images, ..node(first + index) })?;
        }
        progress(&format!("{count} nodes made in {:.1} s", began.elapsed().as_secs_f64()))
    }

    /// Those of the pods that are bound already, but for the first, which is always there.
    fn make_namespaces(&self, count: usize) -> Result<()> {
        let namespace = |index: usize| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": bound_namespace(index + 1)}});
        self.plane.create_objects("/api/v1/namespaces", count - 1, WIDTH, namespace)
    }

    /// Pods that wait for their gates in all runs.
    fn make_gated(&self, options: &BenchOptions) -> Result<()> {
        let path = format!("/api/v1/namespaces/{BOUND}/pods");
        for contestant in &options.contestants {
            let pod =
                |index: usize| gated(&format!("gated-{}-{index:06}", contestant.key()), contestant.server_of_others());
            self.plane.create_objects(&path, options.gated, WIDTH, pod)?;
        }
        Ok(())
    }

    /// The chart is always there, so that the API server is the same whoever takes part.
    fn install_chart(&self, with_profile: bool) -> Result<()> {
        let install = ["install", "berth", "charts/berth", "--namespace", "berth-system", "--create-namespace"];
        self.plane.helm(&install)?;
        for name in [PODS, BOUND, ACCOUNTS] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            self.plane.api.post("/api/v1/namespaces", &namespace)?;
        }
        if with_profile {
            self.plane.kubectl_ok(&["wait", "--for=condition=Established", "--timeout=60s", DEFINITION])?;
            self.apply_profile(Workload::Race)?;
        }
        Ok(())
    }

    /// The `schedulerName` of a contestant's `index`-th pod.
    pub(super) fn server_of(&self, contestant: Contestant, index: usize) -> String {
        let name = contestant.scheduler_name();
        match index % self.profiles {
            number if number > 0 && contestant == Contestant::Berth => format!("{name}-{number}"),
            _ => name.to_owned(),
        }
    }

    /// Gives Berth the profiles that a workload asks for.
    pub(super) fn apply_profile(&self, workload: Workload) -> Result<()> {
        let asked = self.extender.as_ref().filter(|_| workload.asks());
        let extenders: Vec<Value> = asked.into_iter().map(|extender| extender.spec("bench")).collect();
        let profile = |number: usize| {
            json!({
                "apiVersion": "scheduling.berth.dev/v1alpha1",
                "kind": "SchedulerProfile",
                "metadata": {"name": self.server_of(Contestant::Berth, number)},
                "spec": {"preset": "Default", "extenders": extenders},
            })
        };
        (0..self.profiles).try_for_each(|number| self.plane.apply(&profile(number).to_string()).map(drop))?;
        (0..self.idle).try_for_each(|number| {
            let mut idle = profile(0);
            idle["metadata"]["name"] = json!(format!("idle-{number:02}"));
            idle["spec"]["extenders"] = json!([]);
            self.plane.apply(&idle.to_string()).map(drop)
        })
    }

    fn make_account(&self, contestant: Contestant) -> Result<()> {
        let name = contestant.scheduler_name();
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        self.plane.api.post(&format!("/api/v1/namespaces/{ACCOUNTS}/serviceaccounts"), &account)?;
        let roles = match contestant {
            Contestant::Null => {
                self.plane.api.post(&format!("{RBAC}/clusterroles"), &null_role(name))?;
                vec![name]
            }
            _ => vec!["system:kube-scheduler", "system:volume-scheduler"],
        };
        for role in roles {
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("{name}:{role}")},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "namespace": ACCOUNTS, "name": name}],
            });
            self.plane.api.post(&format!("{RBAC}/clusterrolebindings"), &binding)?;
        }
        self.copy_flow_schemas(name)
    }

    /// Gives an account the chart's FlowSchemas as they are served, with another subject, and with `update` beside each
    /// `patch`: kube-scheduler replaces claims as a whole where Berth patches them.
    fn copy_flow_schemas(&self, account: &str) -> Result<()> {
        let chart = self.plane.api.get(&format!("{FLOW_SCHEMAS}?labelSelector=app.kubernetes.io/instance%3Dberth"))?;
        let schemas = chart["items"].as_array().filter(|schemas| !schemas.is_empty());
        for schema in schemas.context("the chart installed no FlowSchemas")? {
            let name = schema["metadata"]["name"].as_str().context("a FlowSchema without a name")?;
            let mut spec = schema["spec"].clone();
            for rule in spec["rules"].as_array_mut().into_iter().flatten() {
                rule["subjects"] = json!([
                    {"kind": "ServiceAccount", "serviceAccount": {"namespace": ACCOUNTS, "name": account}},
                ]);
                for about in rule.get_mut("resourceRules").and_then(Value::as_array_mut).into_iter().flatten() {
                    update_beside_patch(&mut about["verbs"]);
                }
            }
            let copy = json!({
                "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
                "kind": "FlowSchema",
                "metadata": {"name": format!("{account}-{name}")},
                "spec": spec,
            });
            self.plane.api.post(FLOW_SCHEMAS, &copy)?;
        }
        Ok(())
    }
}

fn update_beside_patch(verbs: &mut Value) {
    let [patch, update] = [json!("patch"), json!("update")];
    if let Some(verbs) = verbs.as_array_mut()
        && verbs.contains(&patch)
        && !verbs.contains(&update)
    {
        verbs.push(update);
    }
}

const DEFINITION: &str = "crd/schedulerprofiles.scheduling.berth.dev";

fn null_role(name: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
            {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
            // `binding` is what API servers from 1.36 on ask for where an allocation or a reservation is written.
            {
                "apiGroups": ["resource.k8s.io"],
                "resources": ["resourceclaims", "resourceclaims/status", "resourceclaims/binding"],
                "verbs": ["patch"],
            },
        ],
    })
}

/// Room for 110 pods of 100m and 200Mi, so that no contestant has a pod to turn away.
fn node(index: usize) -> NodeSpec {
    NodeSpec::new(&node_name(index), ZONES[index % ZONES.len()], "16", "64Gi")
        .resource("pods", &PODS_PER_NODE.to_string())
}

/// The namespace of some of the pods that are bound already.
pub(super) fn bound_namespace(number: usize) -> String {
    if number == 0 { BOUND.to_owned() } else { format!("{BOUND}-{number:04}") }
}

/// The collection of the pods to be placed.
pub(super) fn pods_path() -> String {
    format!("/api/v1/namespaces/{PODS}/pods")
}

/// The name of the `index`-th node.
pub(super) fn node_name(index: usize) -> String {
    format!("node-{index:05}")
}
