//! The ResourceClaims that kube-controller-manager makes for pods by ResourceClaimTemplates: manifests of pods that were never in a cluster
//! have none. After `pkg/controller/resourceclaim/controller.go`.

use super::documents::{Object, names};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const VERSION: &str = "resource.k8s.io/v1";
pub(super) const KIND: &str = "ResourceClaimTemplate";

/// Adds the claims of pods that wait, which are not made yet, and writes into the pods' status what they are called. The templates are taken
/// out.
pub(super) fn make(objects: &mut Vec<Object>, notes: &mut Vec<String>) {
    let mut maker = Claims::new(all(objects).map(|object| &object.value));
    maker.names = objects.iter().filter(|object| is(object, "ResourceClaim")).map(Object::full_name).collect();
    let mut made = Vec::new();
    for pod in objects.iter_mut().filter(|object| object.kind == "Pod" && object.api_version == "v1") {
        let claims = maker.make_for(&mut pod.value);
        made.extend(claims.into_iter().map(|value| Object {
            value,
            api_version: VERSION.to_owned(),
            kind: "ResourceClaim".to_owned(),
            ..pod.clone()
        }));
    }
    objects.retain(|object| !is(object, KIND));
    objects.append(&mut made);
    notes.extend(maker.missing.iter().map(|(template, pods)| {
        let who = if *pods == 1 { "it waits for its claim" } else { "they wait for their claims" };
        format!(
            "resourceclaimtemplate {template}, which {} of the inputs names, is not among them: {who}; add its manifest",
            super::count(*pods, "pod")
        )
    }));
}

/// The templates among these objects.
pub(super) fn all(objects: &[Object]) -> impl Iterator<Item = &Object> {
    objects.iter().filter(|object| is(object, KIND))
}

fn is(object: &Object, kind: &str) -> bool {
    object.kind == kind && object.api_version == VERSION
}

/// The claims of a pod that is not there yet, by the templates among `written`, and the templates that are not among them. The pod's status
/// says what the claims are called.
pub(super) fn of_copy(pod: &mut Value, written: &[Value]) -> (Vec<Value>, Vec<String>) {
    let mut maker = Claims::new(written.iter().filter(|object| object["kind"] == KIND));
    let claims = maker.make_for(pod);
    (claims, maker.missing.into_keys().collect())
}

/// Makes claims.
struct Claims {
    /// By namespace and name, as the names of claims.
    templates: BTreeMap<String, Value>,
    names: BTreeSet<String>,
    /// What pods name and is not there, with how many pods name it.
    missing: BTreeMap<String, usize>,
}

impl Claims {
    fn new<'a>(templates: impl Iterator<Item = &'a Value>) -> Self {
        let spec_of = |template: &Value| {
            let (namespace, name) = names(template);
            (format!("{namespace}/{name}"), template["spec"]["spec"].clone())
        };
        Self { templates: templates.map(spec_of).collect(), names: BTreeSet::new(), missing: BTreeMap::new() }
    }

    /// The claims of the pod that are not made yet.
    fn make_for(&mut self, pod: &mut Value) -> Vec<Value> {
        let spec = &pod["spec"];
        if spec["nodeName"].as_str().is_some_and(|node| !node.is_empty()) {
            return Vec::new();
        }
        let known = pod["status"]["resourceClaimStatuses"].as_array().cloned().unwrap_or_default();
        let entries = spec["resourceClaims"].as_array().into_iter().flatten();
        let named =
            entries.filter_map(|entry| Some((entry["name"].as_str()?, entry["resourceClaimTemplateName"].as_str()?)));
        let open: Vec<(String, String)> = named
            .filter(|(name, _)| known.iter().all(|status| status["name"] != *name))
            .map(|(name, template)| (name.to_owned(), template.to_owned()))
            .collect();
        let (mut statuses, mut made) = (known, Vec::new());
        for (entry, template) in open {
            let (namespace, name) = names(pod);
            let template = format!("{namespace}/{template}");
            let Some(spec) = self.templates.get(&template) else {
                *self.missing.entry(template).or_default() += 1;
                continue;
            };
            let spec = spec.clone();
            let claim = self.free_name(namespace, &format!("{name}-{entry}"));
            statuses.push(json!({"name": entry, "resourceClaimName": claim}));
            made.push(claim_for(pod, &claim, &spec));
        }
        if !statuses.is_empty() && pod.is_object() {
            if !pod["status"].is_object() {
                pod["status"] = json!({});
            }
            pod["status"]["resourceClaimStatuses"] = statuses.into();
        }
        made
    }

    /// The first of `NAME`, `NAME-2`, `NAME-3` that no claim has.
    fn free_name(&mut self, namespace: &str, name: &str) -> String {
        let names = std::iter::once(name.to_owned()).chain((2..).map(|number| format!("{name}-{number}")));
        let mut free = names.filter(|name| self.names.insert(format!("{namespace}/{name}")));
        free.next().unwrap_or_default()
    }
}

/// A claim for the pod. A template's labels and annotations say nothing to schedulers.
fn claim_for(pod: &mut Value, claim: &str, spec: &Value) -> Value {
    let (namespace, name) = names(pod);
    let (namespace, uid) = (namespace.to_owned(), format!("simulated-pod-{namespace}-{name}"));
    let metadata = &mut pod["metadata"];
    if metadata["uid"].as_str().is_none_or(str::is_empty) {
        metadata["uid"] = uid.into();
    }
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": true});
    json!({
        "apiVersion": VERSION, "kind": "ResourceClaim",
        "metadata": {"namespace": namespace, "name": claim, "ownerReferences": [owner]},
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::inputs::documents::split;

    #[test]
    fn claims_are_made_once_for_each_pod_and_entry_under_names_of_their_own() {
        let pod = |name: &str, entry: &str, template: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ml"},
                "spec": {"resourceClaims": [{"name": entry, "resourceClaimTemplateName": template}]}})
        };
        let template = |version: &str, name: &str| {
            json!({"apiVersion": version, "kind": "ResourceClaimTemplate", "metadata": {"name": name, "namespace": "ml"},
                "spec": {"spec": {"devices": {"requests": [{"name": "gpu"}]}}}})
        };
        let mut running = pod("running", "gpu", "one");
        running["spec"]["nodeName"] = json!("a");
        let items = [
            template(VERSION, "one"),
            template("resource.k8s.io/v1beta1", "old"),
            pod("web", "a-b", "one"),
            pod("web-a", "b", "one"),
            pod("other", "gpu", "old"),
            running,
        ];
        let text = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let (mut objects, mut notes) = (split("f.json", &text).unwrap(), Vec::new());
        make(&mut objects, &mut notes);
        let claims: Vec<String> =
            objects.iter().filter(|object| object.kind == "ResourceClaim").map(Object::full_name).collect();
        assert_eq!(claims, ["ml/web-a-b", "ml/web-a-b-2"]);
        let named = |pod: &str| {
            let pod = objects.iter().find(|object| object.full_name() == format!("ml/{pod}")).unwrap();
            pod.value["status"]["resourceClaimStatuses"][0]["resourceClaimName"].clone()
        };
        assert_eq!((named("web"), named("web-a")), (json!("web-a-b"), json!("web-a-b-2")));
        assert_eq!((named("other"), named("running")), (Value::Null, Value::Null));
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with("resourceclaimtemplate ml/old, which 1 pod of the inputs names"), "{notes:?}");
        let before = objects.len();
        make(&mut objects, &mut Vec::new());
        assert_eq!(objects.len(), before, "nothing is made twice");
    }
}
