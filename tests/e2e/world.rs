//! One theme's corner of the shared control plane: nodes, a namespace and a profile that nobody else uses.

use berth_lab::{ControlPlane, NodeSpec, Operator};
use serde_json::{Value, json};

use crate::SOON;
use crate::cluster::{self, namespace, shared};
use crate::objects::{self, pod, pod_path, profile};

/// The label that nodes and selectors of one world carry.
const WORLD: &str = "world";

/// A corner; its name is that of its namespace, of its profile and of its scheduler.
pub(crate) struct World {
    pub(crate) name: String,
    pub(crate) plane: &'static ControlPlane,
    pub(crate) operator: &'static Operator,
}

/// Its profiles go with it: an operator serves a bounded number of them, and the worlds together make more.
impl Drop for World {
    fn drop(&mut self) {
        let Ok(list) = self.plane.api.get(objects::PROFILES) else { return };
        let selector = self.selector();
        for profile in list["items"].as_array().into_iter().flatten() {
            if profile["spec"]["nodes"]["selector"] == selector {
                let name = profile["metadata"]["name"].as_str().unwrap_or_default();
                let _gone_already = self.plane.api.delete(&format!("{}/{name}", objects::PROFILES), None);
            }
        }
    }
}

impl World {
    /// A corner with a namespace, and nothing in it.
    pub(crate) fn new(name: &str) -> Self {
        let cluster::Shared { operator, plane, .. } = shared();
        namespace(plane, name);
        Self { name: name.to_owned(), plane, operator }
    }

    /// A corner with a profile of this spec (its nodes are the world's own) and `nodes` of 4 CPUs.
    pub(crate) fn with(name: &str, spec: &Value, nodes: usize) -> Self {
        let world = Self::new(name);
        for index in 0..nodes {
            world.node(&index.to_string(), "4", |node| node);
        }
        world.profile(&world.name, spec);
        if let Some(last) = nodes.checked_sub(1) {
            world.settle(&last.to_string());
        }
        world
    }

    /// Waits until the operator has seen everything that happened to nodes up to the making of `node`, which must be able to
    /// run pods: nodes come in one stream, in order, and a pod that only `node` can run is bound.
    pub(crate) fn settle(&self, node: &str) {
        let name = format!("settle-{node}");
        self.pod(&name, "0", |pod| {
            pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": self.node_name(node)});
        });
        self.bound(&name);
        self.delete(&name);
    }

    /// The name of one of its nodes.
    pub(crate) fn node_name(&self, node: &str) -> String {
        format!("{}-{node}", self.name)
    }

    /// Makes a node of this world.
    pub(crate) fn node(&self, node: &str, cpu: &str, further: impl Fn(NodeSpec) -> NodeSpec + Sync) {
        let spec = NodeSpec::new(&self.node_name(node), "zone-a", cpu, "32Gi").label(WORLD, &self.name);
        let spec = further(spec);
        self.plane.create_nodes(1, |_| spec.clone()).unwrap();
    }

    /// Makes a profile that chooses among this world's nodes.
    pub(crate) fn profile(&self, name: &str, spec: &Value) {
        let mut spec = spec.clone();
        spec["nodes"]["selector"] = self.selector();
        self.plane.api.post(objects::PROFILES, &profile(name, &spec)).unwrap();
    }

    /// The selector of this world's nodes.
    pub(crate) fn selector(&self) -> Value {
        json!({"matchLabels": {WORLD: self.name}})
    }

    /// Makes a pod of this world, changed by `further`.
    pub(crate) fn pod(&self, name: &str, cpu: &str, further: impl FnOnce(&mut Value)) -> Value {
        let mut object = pod(&self.name, name, &self.name, cpu);
        further(&mut object);
        self.plane.api.post(&pod_path(&self.name, ""), &object).unwrap()
    }

    /// Waits until the pod is bound; which node it is on, without the world's name.
    pub(crate) fn bound(&self, name: &str) -> String {
        let node = objects::wait_bound(self.plane, &self.name, name);
        node.strip_prefix(&format!("{}-", self.name)).unwrap_or(&node).to_owned()
    }

    /// Waits until the pod is refused as unschedulable; the message.
    pub(crate) fn unschedulable(&self, name: &str) -> String {
        objects::wait_refused(self.plane, &self.name, name, "Unschedulable")
    }

    /// Waits until the pod is refused as unschedulable with this very message; what preemption says after it may be left out.
    pub(crate) fn says(&self, name: &str, message: &str) {
        let mut last = String::new();
        let said = self.plane.wait_for("the message", SOON, || {
            last = self.unschedulable(name);
            Ok((last == message || objects::of_filters(&last) == message).then_some(()))
        });
        said.unwrap_or_else(|error| panic!("{error}: pod {name} is to say\n{message}\nand says\n{last}"));
    }

    /// Waits until the pod is held for what no node would mend; the message.
    pub(crate) fn held(&self, name: &str) -> String {
        objects::wait_refused(self.plane, &self.name, name, "SchedulerError")
    }

    /// Waits until a condition of its profile has this reason; status and message.
    pub(crate) fn reason(&self, kind: &str, reason: &str) -> (String, String) {
        objects::wait_reason(self.plane, &self.name, kind, reason)
    }

    /// The pod as it is.
    pub(crate) fn get(&self, pod: &str) -> Value {
        self.plane.api.get(&pod_path(&self.name, pod)).unwrap()
    }

    /// The profile as it is.
    pub(crate) fn profile_now(&self) -> Value {
        self.plane.api.get(&format!("{}/{}", objects::PROFILES, self.name)).unwrap()
    }

    /// Changes the profile's spec.
    pub(crate) fn change(&self, spec: &Value) {
        objects::change_profile(self.plane, &self.name, spec);
    }

    /// Deletes a pod at once.
    pub(crate) fn delete(&self, pod: &str) {
        let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        self.plane.api.delete(&pod_path(&self.name, pod), Some(&now)).unwrap();
    }
}
