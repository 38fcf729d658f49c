//! Objects as they were written, for commands that need more of them than the engine keeps: of a running pod it keeps nothing
//! that only placing reads, and of a workload no pod template.

use super::claim_templates;
use super::documents::Object;
use serde_json::Value;
use std::{fmt, str::FromStr};

/// Which objects to keep as they were written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// The pods on these nodes.
    pub(crate) on_nodes: Vec<String>,
    /// Every PodDisruptionBudget.
    pub(crate) budgets: bool,
    /// This pod or workload, and the pods and the ResourceClaimTemplates of its namespace.
    pub(crate) like: Option<Named>,
}

/// A pod, or what makes pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) kind: PodSource,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.name().to_lowercase(), self.namespace, self.name)
    }
}

/// The kinds that say what a pod is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodSource {
    Pod,
    Deployment,
    ReplicaSet,
    StatefulSet,
    Job,
}

impl PodSource {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Deployment => "Deployment",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::Job => "Job",
        }
    }

    pub(crate) const fn api_version(self) -> &'static str {
        match self {
            Self::Pod => "v1",
            Self::Deployment | Self::ReplicaSet | Self::StatefulSet => "apps/v1",
            Self::Job => "batch/v1",
        }
    }

    /// The name in paths.
    pub(crate) const fn resource(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Deployment => "deployments",
            Self::ReplicaSet => "replicasets",
            Self::StatefulSet => "statefulsets",
            Self::Job => "jobs",
        }
    }
}

/// As kubectl names kinds.
impl FromStr for PodSource {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "pod" | "pods" | "po" => Ok(Self::Pod),
            "deployment" | "deployments" | "deploy" => Ok(Self::Deployment),
            "replicaset" | "replicasets" | "rs" => Ok(Self::ReplicaSet),
            "statefulset" | "statefulsets" | "sts" => Ok(Self::StatefulSet),
            "job" | "jobs" => Ok(Self::Job),
            _ => Err(()),
        }
    }
}

impl Wanted {
    /// Whether the object is wanted, which the engine may not read at all.
    pub(super) fn takes(&self, object: &Object) -> bool {
        let Object { api_version, kind, value, .. } = object;
        let namespace = || value["metadata"]["namespace"].as_str().filter(|text| !text.is_empty()).unwrap_or("default");
        let is_like = |like: &Named| {
            let named = value["metadata"]["name"] == *like.name && namespace() == like.namespace;
            named && (like.kind.api_version(), like.kind.name()) == (api_version.as_str(), kind.as_str())
        };
        let is_neighbour = |like: &Named| namespace() == like.namespace;
        match (api_version.as_str(), kind.as_str()) {
            ("v1", "Pod") => {
                let node = value["spec"]["nodeName"].as_str();
                node.is_some_and(|node| self.on_nodes.iter().any(|wanted| wanted == node))
                    || self.like.as_ref().is_some_and(is_neighbour)
            }
            ("policy/v1", "PodDisruptionBudget") => self.budgets,
            (claim_templates::VERSION, claim_templates::KIND) => self.like.as_ref().is_some_and(is_neighbour),
            _ => self.like.as_ref().is_some_and(is_like),
        }
    }

    /// The object by itself, with what its list or an API server would say of it.
    pub(super) fn completed(object: &Object) -> Value {
        let mut value = object.value.clone();
        let namespace = object.full_name().split('/').next().unwrap_or_default().to_owned();
        value["apiVersion"] = object.api_version.clone().into();
        value["kind"] = object.kind.clone().into();
        if value["metadata"].is_object() {
            value["metadata"]["namespace"] = namespace.into();
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::inputs::documents::split;
    use serde_json::json;

    #[test]
    fn what_is_wanted_is_kept_whole() {
        let object = |api: &str, kind: &str, name: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec});
        let items = [
            object("v1", "Pod", "on-a", json!({"nodeName": "a"})),
            object("v1", "Pod", "on-b", json!({"nodeName": "b"})),
            object("apps/v1", "Deployment", "web", json!({"replicas": 3})),
            object("apps/v1", "Deployment", "other", json!({})),
            object("example.com/v1", "Deployment", "web", json!({})),
            object("policy/v1", "PodDisruptionBudget", "web", json!({})),
            object("resource.k8s.io/v1", "ResourceClaimTemplate", "one", json!({})),
        ];
        let text = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let objects = split("f.json", &text).unwrap();
        let kept = |wanted: &Wanted| -> Vec<String> {
            let kept = objects.iter().filter(|object| wanted.takes(object)).map(Wanted::completed);
            kept.map(|v| format!("{} {} {}", v["kind"], v["metadata"]["namespace"], v["metadata"]["name"])).collect()
        };
        let on_a = Wanted { on_nodes: vec!["a".into()], budgets: true, like: None };
        assert_eq!(kept(&on_a), [r#""Pod" "default" "on-a""#, r#""PodDisruptionBudget" "default" "web""#]);
        let named = |namespace: &str| Named {
            kind: "deploy".parse().unwrap(),
            namespace: namespace.into(),
            name: "web".into(),
        };
        let like = |namespace| Wanted { like: Some(named(namespace)), ..Wanted::default() };
        let want = [
            r#""Pod" "default" "on-a""#,
            r#""Pod" "default" "on-b""#,
            r#""Deployment" "default" "web""#,
            r#""ResourceClaimTemplate" "default" "one""#,
        ];
        assert_eq!(kept(&like("default")), want);
        assert_eq!(kept(&like("ci")), [""; 0]);
        assert_eq!(kept(&Wanted::default()), [""; 0]);
    }
}
