//! Machines that exist only as objects.

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::api::Patch;
use crate::control_plane::ControlPlane;
use crate::parallel::for_each;

/// Requests in flight at a time while nodes are made: more only makes them wait in the server.
const WIDTH: usize = 32;

/// A node to be made: ready, with room for pods.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    /// Its name, and the value of its `kubernetes.io/hostname` label.
    pub name: String,
    /// The value of its `topology.kubernetes.io/zone` label.
    pub zone: String,
    /// Capacity and allocatable, by resource name.
    pub resources: Vec<(String, String)>,
    /// Further labels.
    pub labels: Vec<(String, String)>,
    /// Taints, as in the node's spec.
    pub taints: Vec<Value>,
    /// Annotations.
    pub annotations: Vec<(String, String)>,
    /// How many images it lists, as a kubelet does: each by its digest and by its tag.
    pub images: usize,
}

impl NodeSpec {
    /// A node with 110 pods and the given quantities of cpu and memory.
    pub fn new(name: &str, zone: &str, cpu: &str, memory: &str) -> Self {
        Self {
            name: name.to_owned(),
            zone: zone.to_owned(),
            resources: Vec::new(),
            labels: Vec::new(),
            taints: Vec::new(),
            annotations: Vec::new(),
            images: 0,
        }
        .resource("cpu", cpu)
        .resource("memory", memory)
        .resource("pods", "110")
    }

    /// This node with this quantity of a resource, in the place of an earlier one.
    #[must_use]
    pub fn resource(mut self, name: &str, quantity: &str) -> Self {
        self.resources.retain(|(known, _)| known != name);
        self.resources.push((name.to_owned(), quantity.to_owned()));
        self
    }

    /// This node with one more label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.push((key.to_owned(), value.to_owned()));
        self
    }

    /// This node with one more taint.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.taints.push(json!({"key": key, "value": value, "effect": effect}));
        self
    }

    /// The `Node` object, its status included: the API server takes it on creation, as it does from a kubelet.
    pub fn object(&self) -> Value {
        let mut labels = map(&self.labels);
        labels.insert("kubernetes.io/hostname".to_owned(), json!(self.name));
        labels.insert("kubernetes.io/os".to_owned(), json!("linux"));
        labels.insert("topology.kubernetes.io/zone".to_owned(), json!(self.zone));
        let resources = Value::Object(map(&self.resources));
        let image = |number: usize| {
            let repository = format!("registry.example/team-{number}/application");
            let names = [format!("{repository}@sha256:{number:064x}"), format!("{repository}:v1.2.{number}")];
            json!({"names": names, "sizeBytes": 100_000_000 + number})
        };
        let images: Vec<Value> = (0..self.images).map(image).collect();
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels, "annotations": map(&self.annotations)},
            "spec": {"taints": self.taints},
            "status": {
                "capacity": resources,
                "allocatable": resources,
                "images": images,
                "conditions": [{
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "made for a test",
                }],
            },
        })
    }
}

impl ControlPlane {
    /// Makes `count` nodes, ready and without the `node.kubernetes.io/not-ready` taint that admission puts on each.
    pub fn create_nodes(&self, count: usize, spec: impl Fn(usize) -> NodeSpec + Sync) -> Result<()> {
        for_each(count, WIDTH, |index| {
            let spec = spec(index);
            self.api.post("/api/v1/nodes", &spec.object())?;
            let path = format!("/api/v1/nodes/{}", spec.name);
            self.api.patch(&path, Patch::Merge, &json!({"spec": {"taints": spec.taints}}))?;
            Ok(())
        })
    }

    /// Makes `count` objects at a collection's path (`/api/v1/namespaces/NS/pods`), `width` at a time.
    pub fn create_objects(
        &self,
        path: &str,
        count: usize,
        width: usize,
        object: impl Fn(usize) -> Value + Sync,
    ) -> Result<()> {
        for_each(count, width, |index| self.api.post(path, &object(index)).map(drop))
    }
}

fn map(pairs: &[(String, String)]) -> Map<String, Value> {
    pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect()
}
