//! The admission policies: what the operator's own token may write with them on. The shared control plane has them, so that all
//! other themes show that the operator needs no more than they let through: it places pods, binds volumes and preempts.

use berth_lab::{Answer, Api, Patch};
use serde_json::{Value, json};

use crate::SOON;
use crate::cluster::{HOME, PROTECTED, namespace, shared};
use crate::minor;
use crate::objects::{pod, pod_path};
use crate::storage::{NOBODY, VOLUMES, claim, claim_path, class, local_volume};
use crate::world::World;

/// Somebody with the operator's token. Requests change nothing, whatever the answer.
struct Thief(Api);

impl Thief {
    fn new() -> Self {
        let plane = &shared().plane;
        Self(plane.api.with_token(&plane.token_for(HOME, "berth").unwrap()))
    }

    fn patch(&self, path: &str, body: &Value) -> Result<Value, String> {
        let kind = if path.ends_with("/status") { Patch::Strategic } else { Patch::Merge };
        self.0.patch(&format!("{path}?dryRun=All"), kind, body).map_err(|error| format!("{error:#}"))
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.0.post(&format!("{path}?dryRun=All"), body).map_err(|error| format!("{error:#}"))
    }

    fn delete(&self, path: &str) -> Answer {
        self.0.request("DELETE", &format!("{path}?dryRun=All"), None).unwrap()
    }
}

/// The request was refused by a policy, whose message contains `why`.
#[track_caller]
fn refused(answer: Result<Value, String>, why: &str) {
    let error = answer.expect_err(why);
    assert!(error.contains("ValidatingAdmissionPolicy") && error.contains(why), "{error}");
}

/// A policy is in force some time after it was made.
fn wait_for_policies(thief: &Thief) {
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let named =
        |name: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}});
    let other = named("other");
    let in_force = || Ok(thief.post(lease, &other).err().filter(|error| error.contains("no Lease but its own")));
    shared().plane.wait_for("the policies to be in force", SOON, in_force).unwrap();
    let mark = thief.post(lease, &named("berth.scheduling.berth.dev-mark"));
    assert!(mark.as_ref().is_err_and(|error| error.contains("already exists")), "the operator made it: {mark:?}");
}

#[test]
fn of_pods_the_token_writes_what_a_scheduler_writes() {
    let world = World::with("narrowed", &json!({}), 1);
    let thief = Thief::new();
    wait_for_policies(&thief);
    world.pod("placed", "100m", |pod| pod["metadata"]["labels"] = json!({"app": "mine"}));
    world.bound("placed");
    let waiting = world.pod("waiting", "100m", |pod| pod["spec"]["schedulerName"] = json!("nobody-serves-this"));
    let status = |name: &str| format!("{}/status", pod_path("narrowed", name));
    for metadata in [
        json!({"labels": {"app": "stolen"}}),
        json!({"annotations": {"a": "b"}}),
        json!({"finalizers": ["example.com/stuck"]}),
    ] {
        refused(thief.patch(&status("placed"), &json!({"metadata": metadata})), "no labels, annotations or finalizers");
    }
    for fields in [
        json!({"podIPs": [{"ip": "10.9.8.7"}], "podIP": "10.9.8.7"}),
        json!({"phase": "Failed"}),
        json!({"reason": "Evicted", "message": "gone"}),
        json!({"containerStatuses": [{"name": "main", "ready": true, "image": "x", "imageID": "x", "restartCount": 0}]}),
    ] {
        refused(
            thief.patch(&status("placed"), &json!({"status": fields})),
            "conditions, nominatedNodeName and extended",
        );
    }
    for condition in [
        json!({"type": "Ready", "status": "True"}),
        json!({"type": "PodScheduled", "status": "True"}),
        json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}),
    ] {
        let body = json!({"status": {"conditions": [condition]}});
        refused(thief.patch(&status("waiting"), &body), "of a pod's conditions");
    }
    for fields in [
        json!({"nominatedNodeName": "narrowed-0"}),
        json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}]}),
        json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}),
    ] {
        thief.patch(&status("waiting"), &json!({"status": fields})).unwrap();
    }
    let binding = |metadata: Value| {
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": "narrowed-0"}})
    };
    let uid = waiting["metadata"]["uid"].as_str().unwrap();
    let path = format!("{}/binding", pod_path("narrowed", "waiting"));
    refused(thief.post(&path, &binding(json!({"name": "waiting"}))), "one uid");
    for more in [json!({"annotations": {"a": "b"}}), json!({"labels": {"app": "mine"}})] {
        let mut metadata = json!({"name": "waiting", "uid": uid});
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refused(thief.post(&path, &binding(metadata)), "no annotations or labels by a Binding");
    }
    thief.post(&path, &binding(json!({"name": "waiting", "uid": uid}))).unwrap();
}

#[test]
fn pods_of_protected_namespaces_are_left_alone() {
    let plane = &shared().plane;
    namespace(plane, PROTECTED);
    plane.api.post(&pod_path(PROTECTED, ""), &pod(PROTECTED, "system", "default-scheduler", "1m")).unwrap();
    let uid = plane.api.get(&pod_path(PROTECTED, "system")).unwrap()["metadata"]["uid"].clone();
    let thief = Thief::new();
    wait_for_policies(&thief);
    let path = pod_path(PROTECTED, "system");
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "system", "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "any"}});
    refused(thief.post(&format!("{path}/binding"), &binding), "protectedNamespaces");
    refused(
        thief.patch(&format!("{path}/status"), &json!({"status": {"nominatedNodeName": "any"}})),
        "protectedNamespaces",
    );
    let deleted = thief.delete(&path);
    assert!(deleted.body.to_string().contains("protectedNamespaces"), "{deleted:?}");
}

#[test]
fn of_volumes_and_claims_the_token_writes_bindings_alone() {
    let plane = &shared().plane;
    let thief = Thief::new();
    wait_for_policies(&thief);
    namespace(plane, "narrowed-volumes");
    class(plane, "narrowed-volumes", NOBODY, "WaitForFirstConsumer");
    let volume = |name: &str, reference: Option<Value>| {
        let mut volume = local_volume(name, "narrowed-volumes", "nowhere");
        if let Some(reference) = reference {
            volume["spec"]["claimRef"] = reference;
        }
        plane.api.post(VOLUMES, &volume).unwrap();
        format!("{VOLUMES}/{name}")
    };
    let to = |name: &str, uid: Option<&str>| {
        let mut reference =
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "narrowed-volumes", "name": name});
        if let Some(uid) = uid {
            reference["uid"] = json!(uid);
        }
        reference
    };
    // No claim of these names exists, so that no volume controller touches the volumes.
    let free = volume("narrowed-free", None);
    let reserved = volume("narrowed-reserved", Some(to("a", None)));
    let tied = volume("narrowed-tied", Some(to("a", Some("11111111-1111-1111-1111-111111111111"))));
    let claim_ref = |name: &str| json!({"spec": {"claimRef": to(name, Some("22222222-2222-2222-2222-222222222222"))}});
    let mut bind = claim_ref("a");
    bind["metadata"]["annotations"] = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
    thief.patch(&free, &bind).unwrap();
    thief.patch(&reserved, &claim_ref("a")).unwrap();
    refused(thief.patch(&reserved, &claim_ref("b")), "only while it is tied to none");
    refused(thief.patch(&tied, &claim_ref("a")), "only while it is tied to none");
    refused(thief.patch(&free, &json!({"spec": {"claimRef": to("a", None)}})), "only while it is tied to none");
    for spec in [
        json!({"persistentVolumeReclaimPolicy": "Delete"}),
        json!({"mountOptions": ["suid"]}),
        json!({"capacity": {"storage": "9Gi"}}),
    ] {
        refused(thief.patch(&free, &json!({"spec": spec})), "of a volume's spec");
    }
    for metadata in [
        json!({"labels": {"a": "b"}}),
        json!({"annotations": {"a": "b"}}),
        json!({"annotations": {"pv.kubernetes.io/bound-by-controller": "no"}}),
        json!({"finalizers": null}),
    ] {
        refused(thief.patch(&free, &json!({"metadata": metadata})), "of a volume's metadata");
    }
    claim(plane, "narrowed-volumes", "waits", "narrowed-volumes", |_| {});
    let waits = claim_path("narrowed-volumes", "waits");
    let annotated = |key: &str| json!({"metadata": {"annotations": {(key): "narrowed-0"}}});
    thief.patch(&waits, &annotated("volume.kubernetes.io/selected-node")).unwrap();
    refused(thief.patch(&waits, &annotated("volume.kubernetes.io/storage-provisioner")), "of a claim's metadata");
    refused(thief.patch(&waits, &json!({"metadata": {"labels": {"a": "b"}}})), "of a claim's metadata");
    refused(thief.patch(&waits, &json!({"spec": {"volumeName": "narrowed-tied"}})), "no claim's spec");
}

#[test]
fn of_resource_claims_the_token_makes_and_deletes_those_for_extended_resources_alone() {
    if !minor::is_ours() {
        return;
    }
    let plane = &shared().plane;
    let thief = Thief::new();
    wait_for_policies(&thief);
    namespace(plane, "narrowed-devices");
    let path = "/apis/resource.k8s.io/v1/namespaces/narrowed-devices/resourceclaims";
    let claim = |name: &str, annotation: &str, exactly: Value| {
        let uid = "11111111-1111-1111-1111-111111111111";
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true});
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {
                "name": name, "ownerReferences": [owner], "finalizers": ["resource.kubernetes.io/delete-protection"],
                "annotations": {"resource.kubernetes.io/extended-resource-claim": annotation},
            },
            "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        })
    };
    let one = || json!({"deviceClassName": "gpu"});
    thief.post(path, &claim("a", "true", one())).unwrap();
    refused(thief.post(path, &claim("a", "false", one())), "for the extended resources of a pod alone");
    let mut free = claim("a", "true", one());
    free["metadata"]["ownerReferences"] = json!([]);
    refused(thief.post(path, &free), "for the extended resources of a pod alone");
    let admin = claim("a", "true", json!({"deviceClassName": "gpu", "adminAccess": true}));
    assert!(thief.post(path, &admin).is_err(), "the namespace may not have it, and the operator asks for none");
    for (name, annotation) in [("made", "true"), ("own", "false")] {
        plane.api.post(path, &claim(name, annotation, one())).unwrap();
    }
    let release = json!({"metadata": {"finalizers": null}});
    thief.patch(&format!("{path}/made"), &release).unwrap();
    refused(thief.patch(&format!("{path}/own"), &release), "from claims for extended resources alone");
    assert_eq!(thief.delete(&format!("{path}/made")).status, 200);
    let kept = thief.delete(&format!("{path}/own"));
    assert!(kept.body.to_string().contains("for the extended resources of a pod alone"), "{kept:?}");
}

#[test]
fn no_revision_of_another_owner_is_made_or_deleted() {
    let plane = &shared().plane;
    let thief = Thief::new();
    wait_for_policies(&thief);
    let path = format!("/apis/apps/v1/namespaces/{HOME}/controllerrevisions");
    let revision = |name: &str, metadata: Value| {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "revision": 1, "data": {}});
        object["metadata"]["name"] = json!(name);
        object
    };
    let owned = json!({"ownerReferences": [{"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile",
        "name": "p", "uid": "11111111-1111-1111-1111-111111111111"}]});
    let mut adoptable = owned.clone();
    adoptable["labels"] = json!({"app": "database"});
    refused(thief.post(&path, &revision("a", json!({}))), "no revision but those");
    refused(thief.post(&path, &revision("a", adoptable)), "no revision but those");
    thief.post(&path, &revision("a", owned)).unwrap();
    plane.api.post(&path, &revision("of-a-statefulset", json!({"labels": {"app": "database"}}))).unwrap();
    let deleted = thief.delete(&format!("{path}/of-a-statefulset"));
    assert!(deleted.body.to_string().contains("no revision but those"), "{deleted:?}");
}
