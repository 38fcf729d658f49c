//! Nodes and pods as manifests; the sizes are those of upstream's scheduler_perf.

use serde_json::{Value, json};

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

/// Four cores, 32 GiB and 110 pods, in one of `zones`.
pub(crate) fn node(i: usize, zones: &[&str], revision: usize) -> Value {
    let name = format!("node-{i:05}");
    let mut labels = json!({HOSTNAME: name});
    if !zones.is_empty() {
        labels[ZONE] = json!(zones[i % zones.len()]);
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": labels},
        "status": {"allocatable": {
            "cpu": "4", "memory": (32_768_i64 * (1 << 20) + revision as i64).to_string(), "pods": "110",
            "ephemeral-storage": "100Gi",
        }},
    })
}

/// `node` with the images of these numbers, of 100 to 900 MB, each by its digest and by its tag as kubelets report them; the first is
/// that of the pods.
pub(crate) fn with_images(mut node: Value, numbers: &[usize]) -> Value {
    let image = |i: &usize| {
        let name = if *i == 0 { "registry.example/pause".into() } else { format!("registry.example/team-{i}/app") };
        json!({
            "names": [format!("{name}@sha256:{i:064x}"), format!("{name}:3")], "sizeBytes": 100_000_000 * (1 + i % 9),
        })
    };
    node["status"]["images"] = numbers.iter().map(image).collect();
    node
}

/// A namespace with the label that selectors of namespaces look for.
pub(crate) fn team_namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": "devops"}}})
}

/// A pod that a workload asks for.
#[derive(Clone)]
pub(crate) struct PodSpec {
    pub(crate) namespace: String,
    pub(crate) labels: Value,
    /// Kind and name of its controller.
    pub(crate) owner: Option<(&'static str, String)>,
    /// The node that it is nominated to.
    pub(crate) nominated: Option<String>,
    /// cpu in millicores and memory in MiB; none requests nothing.
    pub(crate) requests: Option<(usize, usize)>,
    /// Laid over the spec.
    pub(crate) spec: Value,
}

impl PodSpec {
    /// 100m and 500Mi.
    pub(crate) fn basic() -> Self {
        Self {
            namespace: "sched-1".into(),
            labels: json!({}),
            owner: None,
            nominated: None,
            requests: Some((100, 500)),
            spec: json!({}),
        }
    }

    pub(crate) fn labelled(self, key: &str, value: &str) -> Self {
        Self { labels: json!({key: value}), ..self }
    }

    pub(crate) fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: namespace.into(), ..self }
    }

    pub(crate) fn asking(self, spec: Value) -> Self {
        Self { spec, ..self }
    }

    /// The `i`-th pod; bound where a node is given.
    pub(crate) fn manifest(&self, i: usize, node: Option<String>) -> Value {
        let kind = if node.is_some() { "init" } else { "pod" };
        let name = format!("{kind}-{i:05}");
        let resources = match self.requests {
            None => json!({}),
            Some((cpu, memory)) => json!({"requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}}),
        };
        let mut spec = json!({
            "schedulerName": "bench",
            "containers": [{"name": "main", "image": "registry.example/pause:3", "resources": resources}],
        });
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), self.spec.as_object()) {
            spec.extend(more.clone());
        }
        if let Some(node) = node {
            spec["nodeName"] = json!(node);
        }
        let mut metadata = json!({
            "name": name, "namespace": self.namespace, "labels": self.labels,
            "uid": format!("{name}-0000-4000-8000-000000000000"), "resourceVersion": "1",
        });
        if let Some((kind, owner)) = &self.owner {
            let version = if *kind == "Job" { "batch/v1" } else { "apps/v1" };
            metadata["ownerReferences"] =
                json!([{"apiVersion": version, "kind": kind, "name": owner, "uid": owner, "controller": true}]);
        }
        let status = self.nominated.as_ref().map_or_else(|| json!({}), |node| json!({"nominatedNodeName": node}));
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
    }
}

/// `affinity` with one required term.
pub(crate) fn required(kind: &str, term: Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

/// `affinity` with one preferred term of weight 1.
pub(crate) fn preferred(kind: &str, term: Value) -> Value {
    let weighted = json!({"weight": 1, "podAffinityTerm": term});
    json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}})
}

/// A term on pods of a colour in the two namespaces of the workload.
pub(crate) fn colour(colour: &str, key: &str) -> Value {
    json!({
        "labelSelector": {"matchLabels": {"color": colour}}, "topologyKey": key, "namespaces": ["sched-0", "sched-1"],
    })
}

/// A term about pods of this colour in every namespace of the team.
pub(crate) fn colour_of_team(colour: &str, key: &str) -> Value {
    json!({
        "labelSelector": {"matchLabels": {"color": colour}}, "topologyKey": key,
        "namespaceSelector": {"matchLabels": {"team": "devops"}},
    })
}

/// One spread constraint on pods of a colour over zones.
pub(crate) fn spread(when: &str) -> Value {
    json!({"topologySpreadConstraints": [{
        "maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }]})
}

/// The `i`-th volume and its claim, bound to each other, of a CSI driver.
pub(crate) fn bound_volume(kind: &str, i: usize) -> [Value; 2] {
    let (volume, claim) = (format!("pv-{kind}-{i:05}"), format!("claim-{kind}-{i:05}"));
    [
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume, "uid": volume},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadOnlyMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": volume},
                "claimRef": {"namespace": "sched-1", "name": claim, "uid": claim},
            },
            "status": {"phase": "Bound"},
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": claim, "namespace": "sched-1", "uid": claim,
                "annotations": {"pv.kubernetes.io/bind-completed": "true"},
            },
            "spec": {
                "accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume,
            },
            "status": {"phase": "Bound"},
        }),
    ]
}

/// The attach limit of the `i`-th node.
pub(crate) fn csi_node(i: usize) -> Value {
    let name = format!("node-{i:05}");
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
        "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": name, "allocatable": {"count": 39}}]},
    })
}

/// A Service that selects the pods of the default-spreading workload.
pub(crate) fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "bench", "namespace": "sched-1"},
        "spec": {"selector": {"app": "scheduler-perf"}},
    })
}
