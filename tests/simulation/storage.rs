//! Claims and volumes: whoever makes them, the volume controller, and the provisioner that it calls on.

use super::facts::{ClaimFact, PodFact};
use super::model::kinds::Of;
use super::model::store::key;
use super::plan::ClaimPlan;
use super::world::{Act, Inner};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// The class whose volumes are there from the beginning, each on one node.
const LOCAL: &str = "local";

/// The class whose volumes are made once a node is chosen.
pub(crate) const MADE: &str = "made";

pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The pod that a claim was made for, if it goes with that pod.
const OF_POD: &str = "of-pod";

fn class(name: &str, provisioner: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})
}

/// A volume that can be used on nodes with this label.
fn volume(name: &str, class: &str, mode: &str, (label, value): (&str, &str)) -> Value {
    let test = json!({"key": label, "operator": "In", "values": [value]});
    json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": [mode], "storageClassName": class, "volumeMode": "Filesystem",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [test]}]}},
        },
        "status": {"phase": "Available"},
    })
}

impl ClaimPlan {
    fn class(self) -> &'static str {
        if self == Self::Local { LOCAL } else { MADE }
    }

    fn mode(self) -> &'static str {
        if self == Self::OnePod { "ReadWriteOncePod" } else { "ReadWriteOnce" }
    }
}

impl Inner {
    pub(crate) fn set_up_storage(&mut self, now: Instant) {
        if self.plan.locals.is_empty() {
            return;
        }
        self.store.create(Of::StorageClasses, class(LOCAL, "kubernetes.io/no-provisioner"), now);
        self.store.create(Of::StorageClasses, class(MADE, "drawn.example.com"), now);
        for (index, node) in self.plan.locals.clone().into_iter().enumerate() {
            let on = ("kubernetes.io/hostname", format!("n{node}"));
            let local = volume(&format!("local-{index}"), LOCAL, "ReadWriteOnce", (on.0, &on.1));
            self.store.create(Of::Volumes, local, now);
        }
    }

    /// Makes a claim unless it is there, or the pod that it would go with is gone.
    pub(crate) fn make_claim(&mut self, at: &str, plan: ClaimPlan, of_pod: Option<&str>, now: Instant) {
        let Some((namespace, name)) = at.split_once('/') else { return };
        let is_left = of_pod.is_some_and(|pod| self.store.get(Of::Pods, pod).is_none());
        if is_left || self.store.get(Of::Claims, at).is_some() {
            return;
        }
        let claim = json!({
            "metadata": {"name": name, "namespace": namespace, "labels": {OF_POD: of_pod.unwrap_or_default().replace('/', ".")}},
            "spec": {"accessModes": [plan.mode()], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": plan.class(),
                "volumeMode": "Filesystem"},
            "status": {"phase": "Pending"},
        });
        self.store.create(Of::Claims, claim, now);
    }

    /// The volume controller looks again, soon.
    pub(crate) fn look_at_volumes_soon(&mut self, now: Instant) {
        if !self.plan.locals.is_empty() && !std::mem::replace(&mut self.volumes_are_due, true) {
            let most = if self.healed { 500 } else { 3_000 };
            let at = now + self.random.millis(10, most);
            self.later(at, Act::Volumes);
        }
    }

    /// One look of the volume controller: claims and volumes that belong together are bound, volumes that are asked for are made, and
    /// what nobody needs any more goes.
    pub(crate) fn look_after_volumes(&mut self, now: Instant) {
        self.volumes_are_due = false;
        self.collect_claims(now);
        let mut claims: Vec<(String, ClaimFact)> = self.facts.claims.clone().into_iter().collect();
        claims.retain(|(at, _)| self.store.get(Of::Claims, at).is_some());
        for (at, claim) in &claims {
            if claim.volume.is_some() {
                continue;
            }
            let meant = self.facts.volumes.iter().find(|(_, volume)| volume.claim.as_ref() == Some(&claim.uid));
            if let Some(name) = meant.map(|(name, _)| name.clone()) {
                self.bind_claim(at, &name, now);
            } else if claim.selected.is_some() && claim.class == MADE {
                self.provision(at, claim, now);
            }
        }
        self.release_volumes(&claims, now);
    }

    /// Deletes the claims that went with a pod which is gone. In the end, those that no pod uses.
    fn collect_claims(&mut self, now: Instant) {
        let used: BTreeSet<String> =
            self.facts.pods.values().filter(|pod| pod.gone.is_none()).flat_map(|pod| pod.claims.clone()).collect();
        let unused: Vec<String> = self.facts.claims.keys().filter(|at| !used.contains(*at)).cloned().collect();
        for at in unused {
            let of_pod =
                self.store.get(Of::Claims, &at).is_some_and(|claim| !claim.text("/metadata/labels/of-pod").is_empty());
            if of_pod || self.workloads.is_empty() {
                self.store.delete(Of::Claims, &at, now);
            }
        }
    }

    fn change_volume(&mut self, name: &str, now: Instant, change: impl FnOnce(&mut Value)) {
        let Some(there) = self.store.get(Of::Volumes, &key("", name)) else { return };
        let mut value = there.value.clone();
        change(&mut value);
        self.store.update(Of::Volumes, value, now);
    }

    fn change_claim(&mut self, at: &str, now: Instant, change: impl FnOnce(&mut Value)) {
        let Some(there) = self.store.get(Of::Claims, at) else { return };
        let mut value = there.value.clone();
        change(&mut value);
        self.store.update(Of::Claims, value, now);
    }

    /// As the controller's four writes: the volume, its phase, the claim, its phase.
    fn bind_claim(&mut self, at: &str, name: &str, now: Instant) {
        self.change_volume(name, now, |volume| volume["status"]["phase"] = "Bound".into());
        self.change_claim(at, now, |claim| {
            claim["spec"]["volumeName"] = name.into();
            claim["metadata"]["annotations"][BIND_COMPLETED] = "yes".into();
        });
        self.change_claim(at, now, |claim| claim["status"]["phase"] = "Bound".into());
    }

    /// Makes the volume of a claim where it was asked for. Where that fails, the node is taken back, so that the pod goes elsewhere.
    fn provision(&mut self, at: &str, claim: &ClaimFact, now: Instant) {
        let Some(node) = &claim.selected else { return };
        let life = self.facts.nodes().find(|life| life.name == *node).cloned();
        let luck = if self.healed { 999 } else { self.random.below(1_000) };
        if luck < 200 {
            // It takes longer.
            return self.look_at_volumes_soon(now);
        }
        let Some(life) = life.filter(|_| luck >= 350) else {
            return self.change_claim(at, now, |claim| {
                if let Some(annotations) = claim["metadata"]["annotations"].as_object_mut() {
                    annotations.remove(SELECTED_NODE);
                }
            });
        };
        let place = if luck.is_multiple_of(2) { ("pool", life.pool) } else { ("kubernetes.io/hostname", life.name) };
        let mode = if claim.one_pod { ClaimPlan::OnePod } else { ClaimPlan::Made }.mode();
        let mut made = volume(&format!("pvc-{}", claim.uid), MADE, mode, (place.0, &place.1));
        let (namespace, name) = at.split_once('/').unwrap_or_default();
        made["spec"]["claimRef"] = json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace,
            "name": name, "uid": claim.uid});
        let name = made["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.store.create(Of::Volumes, made, now);
        self.bind_claim(at, &name, now);
    }

    /// Volumes of claims that are gone, or that have got another one.
    fn release_volumes(&mut self, claims: &[(String, ClaimFact)], now: Instant) {
        let volumes: Vec<(String, String)> = self
            .facts
            .volumes
            .iter()
            .filter_map(|(name, volume)| Some((name.clone(), volume.claim.clone()?)))
            .collect();
        for (name, uid) in volumes {
            let needs =
                |claim: &ClaimFact| claim.uid == uid && claim.volume.as_ref().is_none_or(|bound| *bound == name);
            if claims.iter().any(|(_, claim)| needs(claim)) {
                continue;
            }
            if name.starts_with("pvc-") {
                self.store.delete(Of::Volumes, &key("", &name), now);
            } else {
                // An administrator gives it to others.
                self.change_volume(&name, now, |volume| {
                    volume["status"]["phase"] = "Available".into();
                    volume["spec"].as_object_mut().unwrap().remove("claimRef");
                    volume["metadata"].as_object_mut().unwrap().remove("annotations");
                });
            }
        }
    }

    /// Whether a pod's claims let it go to a node, or would let it: a claim that waits can be bound there.
    pub(crate) fn volumes_let(&self, pod: &PodFact, node: &super::facts::NodeLife) -> bool {
        let mut locals =
            self.facts.volumes.values().filter(|volume| volume.is_free(LOCAL) && volume.is_usable_on(node)).count();
        for at in &pod.claims {
            let Some(claim) = self.facts.claims.get(at) else { return false };
            let shares = |other: &&PodFact| other.uid != pod.uid && other.takes_room() && other.claims.contains(at);
            if claim.one_pod && self.facts.pods.values().any(|other| shares(&other)) {
                return false;
            }
            let its = self.facts.volumes.values().find(|volume| volume.claim.as_ref() == Some(&claim.uid));
            let lets = match its {
                Some(volume) => volume.is_usable_on(node),
                None if claim.volume.is_some() => false,
                None if claim.class == MADE => claim.selected.as_ref().is_none_or(|selected| *selected == node.name),
                None => {
                    locals = locals.wrapping_sub(1);
                    locals != usize::MAX
                }
            };
            if !lets {
                return false;
            }
        }
        true
    }
}

/// How long after a pod its claims come at most: it waits for them.
pub(crate) const CLAIMED_WITHIN: Duration = Duration::from_secs(2);
