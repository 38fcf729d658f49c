//! Pods as their controllers make them, from pods and workloads as they were written.

use super::written::{Named, PodSource};
use super::{claim_templates, count};
use anyhow::{anyhow, bail};
use berth_cluster::decode::{Decoder, Object};
use berth_cluster::manifest::from_manifest;
use berth_core::model::{
    BindingMode, ClaimKey, ClaimSource, PersistentVolumeClaim, Pod, PodResourceClaim, ResourceClaim, Str,
};
use berth_simulate::{Budget, Cluster, Health, LocalVolume, OnNode, Template, unbound};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Makes templates of pods, for one cluster.
pub(crate) struct Maker<'a> {
    cluster: &'a Cluster,
    decoder: Decoder,
    /// Claims that are left aside, by class.
    immediate: BTreeMap<Str, usize>,
    /// ResourceClaimTemplates that are named and not there.
    missing: Vec<String>,
}

impl<'a> Maker<'a> {
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, decoder: Decoder::default(), immediate: BTreeMap::new(), missing: Vec::new() }
    }

    /// Lines for the user about what templates leave aside.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let immediate = self.immediate.iter().map(|(class, claims)| {
            format!(
                "{} of class {class:?}, which makes volumes before pods are placed: where they will be is not known; judged without them",
                count(*claims, "new claim")
            )
        });
        let missing = self.missing.iter();
        immediate.chain(missing.map(|template| {
            format!(
                "resourceclaimtemplate {template} is not there, or this account may not get it: copies wait for their claims"
            )
        }))
    }

    /// The pods among `written` that run on `nodes`, in the order written.
    pub(crate) fn on_nodes(&mut self, written: &[Value], nodes: &[Str]) -> anyhow::Result<Vec<OnNode>> {
        let on_node = |pod: &&Value| {
            let node = pod["spec"]["nodeName"].as_str();
            pod["kind"] == "Pod" && node.is_some_and(|node| nodes.iter().any(|own| **own == *node))
        };
        let mut pods = Vec::new();
        for pod in written.iter().filter(on_node) {
            let running = self.pod(&with_uid(pod))?;
            if !running.finished {
                let (template, local_volumes) = (self.template(as_made(pod), None)?, local_volumes(pod));
                pods.push(OnNode { running, template, health: health(pod), local_volumes });
            }
        }
        Ok(pods)
    }

    /// A template for more pods like the one that `named` is or makes, and what that was taken from, in words.
    ///
    /// Of a workload with pods its newest counts: it has what admission added.
    pub(crate) fn like(&mut self, named: &Named, written: &[Value]) -> anyhow::Result<(Template, String)> {
        let found = written.iter().find(|object| {
            object["kind"] == named.kind.name()
                && object["metadata"]["name"] == *named.name
                && object["metadata"]["namespace"] == *named.namespace
        });
        let Some(object) = found else { bail!("{named}: not found: check its kind, namespace and name") };
        if named.kind == PodSource::Pod {
            return Ok((self.template(as_made(object), None)?, format!("like {named}")));
        }
        let set = (named.kind == PodSource::StatefulSet).then_some(object);
        if let Some(pod) = newest_pod(named, written) {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            return Ok((self.template(as_made(pod), set)?, format!("like pod {}/{name} of {named}", named.namespace)));
        }
        if !object["spec"]["template"]["spec"].is_object() {
            bail!("{named}: spec.template is missing: write it, or name a pod");
        }
        let mut pod = from_template(named, object);
        let (claims, missing) = claim_templates::of_copy(&mut pod, written);
        self.missing.extend(missing);
        // Not what is there under such names.
        let resource_claims =
            claims.iter().map(|claim| self.resource_claim(claim)).collect::<anyhow::Result<Vec<_>>>()?;
        let template = Template { resource_claims, ..self.template(pod, set)? };
        Ok((
            template,
            format!("like the template of {named}, which has no pod: what admission would add is not counted"),
        ))
    }

    /// The template that `pod`, as its controller makes it, is; a pod of the StatefulSet `set` has claims by its templates.
    fn template(&mut self, mut pod: Value, set: Option<&Value>) -> anyhow::Result<Template> {
        let claims = self.own_claims(&mut pod, set)?;
        let pod = self.pod(&pod)?;
        let resource_claims = self.own_resource_claims(&pod);
        Ok(Template { pod, claims, resource_claims })
    }

    /// The claims that were made for the pod by templates.
    fn own_resource_claims(&self, pod: &Pod) -> Vec<ResourceClaim> {
        let is_own = |claim: &ResourceClaim| {
            let mut entries = pod.resource_claims.iter().flat_map(|entries| entries.iter());
            let made = |entry: &PodResourceClaim| entry.source == ClaimSource::Generated(claim.key.name.clone());
            claim.key.namespace == pod.key.namespace && entries.any(made)
        };
        let claims = self.cluster.others.iter().filter_map(|object| match object {
            Object::ResourceClaim(claim) if is_own(claim) => Some(ResourceClaim::clone(claim)),
            _ => None,
        });
        claims.collect()
    }

    /// The claims that are made with `pod`. A volume whose claim is bound before its pod is placed goes from the pod: where it
    /// would be, only its provisioner knows.
    fn own_claims(&mut self, pod: &mut Value, set: Option<&Value>) -> anyhow::Result<Vec<PersistentVolumeClaim>> {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let Some(volumes) = pod["spec"]["volumes"].as_array_mut() else { return Ok(Vec::new()) };
        let mut claims = Vec::new();
        for volume in std::mem::take(volumes) {
            let of_pod = &volume["ephemeral"]["volumeClaimTemplate"];
            let claimed = volume["persistentVolumeClaim"]["claimName"].as_str();
            let made = if of_pod.is_object() {
                Some((format!("{name}-{}", volume["name"].as_str().unwrap_or_default()), of_pod))
            } else {
                claimed.and_then(|claim| Some((claim.to_owned(), claim_template(set?, claim, &name)?)))
            };
            if let Some((claim, template)) = made {
                let claim = self.claim(&namespace, &claim, template)?;
                if !self.waits_for_a_pod(&claim.class) {
                    *self.immediate.entry(claim.class).or_default() += 1;
                    continue;
                }
                claims.push(unbound(&claim));
            }
            volumes.push(volume);
        }
        Ok(claims)
    }

    /// The claim of this name; where there is none, one as `template` has it.
    fn claim(&mut self, namespace: &str, name: &str, template: &Value) -> anyhow::Result<PersistentVolumeClaim> {
        let key = ClaimKey { namespace: namespace.into(), name: name.into() };
        let known = self.cluster.others.iter().find_map(|object| match object {
            Object::Claim(claim) if claim.key == key => Some(claim),
            _ => None,
        });
        if let Some(claim) = known {
            return Ok(PersistentVolumeClaim::clone(claim));
        }
        let manifest = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": namespace, "name": name, "uid": name}, "spec": template["spec"]});
        match self.decode(&manifest)? {
            Object::Claim(claim) => Ok(*claim),
            _ => bail!("persistentvolumeclaim {key}: not a claim"),
        }
    }

    fn waits_for_a_pod(&self, class: &str) -> bool {
        self.cluster.others.iter().any(|object| match object {
            Object::StorageClass(own) => {
                &*own.name == class && own.binding_mode == Some(BindingMode::WaitForFirstConsumer)
            }
            _ => false,
        })
    }

    fn pod(&mut self, manifest: &Value) -> anyhow::Result<Pod> {
        match self.decode(manifest)? {
            Object::Pod(pod) => Ok(*pod),
            _ => bail!("{}: not a pod", manifest["metadata"]["name"]),
        }
    }

    fn resource_claim(&mut self, manifest: &Value) -> anyhow::Result<ResourceClaim> {
        match self.decode(manifest)? {
            Object::ResourceClaim(claim) => Ok(*claim),
            _ => bail!("{}: not a ResourceClaim", manifest["metadata"]["name"]),
        }
    }

    fn decode(&mut self, manifest: &Value) -> anyhow::Result<Object> {
        let decoded = from_manifest(&mut self.decoder, manifest).into_iter().next();
        Ok(decoded.ok_or_else(|| anyhow!("{}: an empty list", manifest["metadata"]["name"]))??)
    }
}

/// The budgets of `cluster`, with what `written` says of pods that are not ready.
pub(crate) fn budgets(cluster: &Cluster, written: &[Value]) -> Vec<Budget> {
    let spares_unready = |namespace: &str, name: &str| {
        let found = written.iter().find(|object| {
            object["kind"] == "PodDisruptionBudget"
                && object["metadata"]["name"] == *name
                && object["metadata"]["namespace"] == *namespace
        });
        found.is_some_and(|budget| {
            let count = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
            let wanted = count("desiredHealthy");
            budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
                || wanted > 0 && count("currentHealthy") >= wanted
        })
    };
    let budgets = cluster.others.iter().filter_map(|object| match object {
        Object::Budget(budget) => {
            let spares_unready = spares_unready(&budget.namespace, &budget.name);
            Some(Budget { budget: budget.clone(), spares_unready })
        }
        _ => None,
    });
    budgets.collect()
}

/// The pod as its controller makes it anew: what only its life on a node added is gone.
fn as_made(pod: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["namespace", "name", "labels", "annotations", "ownerReferences"] {
        metadata.insert(field.to_owned(), pod["metadata"][field].clone());
    }
    metadata.insert("uid".to_owned(), "anew".into());
    let mut spec = pod["spec"].as_object().cloned().unwrap_or_default();
    spec.retain(|field, _| !matches!(field.as_str(), "nodeName" | "schedulingGates"));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec,
        "status": {"qosClass": pod["status"]["qosClass"], "resourceClaimStatuses": pod["status"]["resourceClaimStatuses"]}})
}

/// The pod that `object`, the workload `named`, would make.
fn from_template(named: &Named, object: &Value) -> Value {
    let template = &object["spec"]["template"];
    let mut spec = template["spec"].clone();
    let claims = object["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten();
    let volumes = claims.filter_map(|claim| {
        let name = claim["metadata"]["name"].as_str()?;
        Some(json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-{}", named.name)}}))
    });
    let volumes: Vec<Value> = spec["volumes"].as_array().into_iter().flatten().cloned().chain(volumes).collect();
    spec["volumes"] = volumes.into();
    let owner = json!({"apiVersion": named.kind.api_version(), "kind": named.kind.name(), "name": named.name,
        "uid": object["metadata"]["uid"], "controller": true});
    // The pods of a Deployment are a ReplicaSet's, of which nothing is known here.
    let owners: Vec<Value> = (named.kind != PodSource::Deployment).then_some(owner).into_iter().collect();
    as_made(
        &json!({"metadata": {"namespace": named.namespace, "name": named.name, "labels": template["metadata"]["labels"],
        "annotations": template["metadata"]["annotations"], "ownerReferences": owners}, "spec": spec}),
    )
}

/// The template of the StatefulSet `set` by which `claim` was made for the pod called `pod`.
fn claim_template<'v>(set: &'v Value, claim: &str, pod: &str) -> Option<&'v Value> {
    let template = claim.strip_suffix(pod)?.strip_suffix('-')?;
    set["spec"]["volumeClaimTemplates"].as_array()?.iter().find(|own| own["metadata"]["name"] == *template)
}

/// The newest pod of the workload that is neither leaving nor has ended.
fn newest_pod<'v>(named: &Named, written: &'v [Value]) -> Option<&'v Value> {
    let owned = |pod: &Value| {
        let mut owners = pod["metadata"]["ownerReferences"].as_array()?.iter();
        let owner = owners.find(|owner| owner["controller"] == true)?;
        let name = owner["name"].as_str()?;
        match named.kind {
            // A ReplicaSet of it is called by it and a hash.
            PodSource::Deployment => {
                let hash = name.strip_prefix(&*named.name)?.strip_prefix('-')?;
                Some(owner["kind"] == "ReplicaSet" && !hash.contains('-'))
            }
            kind => Some(owner["kind"] == kind.name() && name == named.name),
        }
    };
    let lives = |pod: &&Value| {
        pod["kind"] == "Pod"
            && pod["metadata"]["namespace"] == *named.namespace
            && pod["metadata"]["deletionTimestamp"].is_null()
            && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
            && owned(pod).unwrap_or_default()
    };
    let text = |pod: &'v Value, field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    written.iter().filter(lives).max_by_key(|pod| (text(pod, "creationTimestamp"), text(pod, "name")))
}

fn with_uid(pod: &Value) -> Value {
    let mut pod = pod.clone();
    if pod["metadata"]["uid"].as_str().is_none_or(str::is_empty) {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        let uid = format!("simulated-pod-{}-{}", text("namespace"), text("name"));
        pod["metadata"]["uid"] = uid.into();
    }
    pod
}

/// A manifest without a status is taken for a pod that does well.
fn health(pod: &Value) -> Health {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True");
    match phase {
        "Pending" => Health::NotStarted,
        "" => Health::Ready,
        _ if ready => Health::Ready,
        _ => Health::NotReady,
    }
}

/// What the spec itself keeps on the node. Claims are looked at where it is known which nodes are drained.
fn local_volumes(pod: &Value) -> Vec<LocalVolume> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let local = volumes.filter_map(|volume| {
        let kind = ["emptyDir", "hostPath"].into_iter().find(|kind| volume[*kind].is_object())?;
        Some(LocalVolume { name: volume["name"].as_str().unwrap_or_default().to_owned(), kind })
    });
    local.collect()
}
