//! What is said to both servers of volumes, of claims for volumes and for devices, and of nodes: what operators write before a bind, and what
//! others do to the same objects.

use super::conversations::{Hold, OTHER_UID, get_pod};
use super::talk::Talk;
use serde_json::{Value, json};

/// By name.
#[rustfmt::skip] // One row per conversation: the table is read down, not across.
pub(crate) const ALL: &[(&str, Hold)] = &[
    // Volumes, and the claims for them.
    ("a volume tied to its claim", |t| { let (v, c) = volume_and_claim(t); let at = t.version(&v); tie(t, &v, &c, json!({"resourceVersion": at})); }),
    ("a volume tied to its claim twice is one write", |t| { let (v, c) = volume_and_claim(t); tie(t, &v, &c, json!({})); tie(t, &v, &c, json!({})); }),
    ("a volume tied at an old version", |t| {
        let (v, c) = volume_and_claim(t);
        let at = t.version(&v);
        t.patch(&volumes(&v), "merge", json!({"metadata": {"labels": {"a": "b"}}}));
        tie(t, &v, &c, json!({"resourceVersion": at}));
        t.get(&volumes(&v));
    }),
    ("a volume tied with another uid", |t| { let (v, c) = volume_and_claim(t); tie(t, &v, &c, json!({"uid": OTHER_UID})); t.get(&volumes(&v)); }),
    ("a volume tied that is not there", |t| { let (_, c) = volume_and_claim(t); tie(t, "nothing", &c, json!({})); }),
    ("a node selected for a claim", |t| { let c = claim(t); let at = t.version(&c); select(t, &c, json!({"resourceVersion": at}), json!("n")); }),
    ("a node selected at an old version", |t| { let c = claim(t); let at = t.version(&c); select(t, &c, json!({}), json!("n")); select(t, &c, json!({"resourceVersion": at}), json!("m")); }),
    ("a node selected for a claim with another uid", |t| { let c = claim(t); select(t, &c, json!({"uid": OTHER_UID}), json!("n")); }),
    ("a selected node taken back", |t| { let c = claim(t); select(t, &c, json!({}), json!("n")); select(t, &c, json!({}), Value::Null); }),
    ("a node selected for a claim that is not there", |t| select(t, "c", json!({}), json!("n"))),
    ("a watch of claims for volumes", |t| { let c = claim(t); let at = t.version(&c); select(t, &c, json!({}), json!("n")); let p = t.path("persistentvolumeclaims"); t.watch(&p, &at, 1); }),
    // Claims for devices.
    ("a device claim, twice", |t| { devices(t); devices(t); }),
    ("a finalizer of a device claim", |t| { devices(t); let at = t.version("d"); protect(t, json!({"resourceVersion": at})); protect(t, json!({})); }),
    ("a finalizer at an old version", |t| { devices(t); let at = t.version("d"); protect(t, json!({})); label(t); protect(t, json!({"resourceVersion": at})); }),
    ("a finalizer of a claim with another uid", |t| { devices(t); protect(t, json!({"uid": OTHER_UID})); }),
    ("an allocation with a reservation", |t| { devices(t); protect(t, json!({})); let at = t.version("d"); allocate(t, "gpu-0", json!({"resourceVersion": at})); get_devices(t); }),
    ("an allocation at an old version", |t| { devices(t); let at = t.version("d"); protect(t, json!({})); allocate(t, "gpu-0", json!({"resourceVersion": at})); get_devices(t); }),
    ("an allocation of a claim with another uid", |t| { devices(t); protect(t, json!({})); allocate(t, "gpu-0", json!({"uid": OTHER_UID})); }),
    ("an allocation of a claim that is not there", |t| allocate(t, "gpu-0", json!({}))),
    ("an allocation written twice", |t| { devices(t); protect(t, json!({})); allocate(t, "gpu-0", json!({})); allocate(t, "gpu-0", json!({})); }),
    ("another allocation over one that is there", |t| { devices(t); protect(t, json!({})); allocate(t, "gpu-0", json!({})); allocate(t, "gpu-1", json!({})); get_devices(t); }),
    ("a patch of the status leaves the finalizers", |t| {
        devices(t);
        let path = device_claims(t, "/d/status");
        t.patch(&path, STRATEGIC, json!({"metadata": {"finalizers": ["example.com/f"]}, "status": {"reservedFor": []}}));
    }),
    ("a second pod's reservation, and the first one's again", |t| { allocated(t); reserve(t, "two", json!({})); reserve(t, "one", json!({})); get_devices(t); }),
    ("a reservation without an allocation", |t| { devices(t); protect(t, json!({})); reserve(t, "one", json!({})); get_devices(t); }),
    ("a reservation given back", |t| { allocated(t); reserve(t, "two", json!({})); give_back(t, "one", json!({})); get_devices(t); }),
    ("a reservation given back that is not there", |t| { allocated(t); give_back(t, "two", json!({})); }),
    ("the last reservation given back", |t| { allocated(t); give_back(t, "one", json!({})); get_devices(t); }),
    ("a reservation of another claim given back", |t| { allocated(t); give_back(t, "one", json!({"uid": OTHER_UID})); get_devices(t); }),
    ("a deallocation", |t| { allocated(t); give_back(t, "one", json!({})); let at = t.version("d"); deallocate(t, json!({"resourceVersion": at})); get_devices(t); }),
    ("a deallocation at an old version", |t| { allocated(t); let at = t.version("d"); give_back(t, "one", json!({})); deallocate(t, json!({"resourceVersion": at})); get_devices(t); }),
    ("a deallocation of what is reserved", |t| { allocated(t); deallocate(t, json!({})); get_devices(t); }),
    ("a claim with a finalizer is deleted", |t| { allocated(t); delete_devices(t, json!({})); get_devices(t); delete_devices(t, json!({})); }),
    ("a claim without a finalizer is deleted", |t| { devices(t); delete_devices(t, json!({})); get_devices(t); }),
    ("a claim with another uid is deleted", |t| { devices(t); delete_devices(t, json!({"preconditions": {"uid": OTHER_UID}})); get_devices(t); }),
    ("a reservation of a claim that terminates", |t| { allocated(t); delete_devices(t, json!({})); reserve(t, "two", json!({})); get_devices(t); }),
    ("an allocation of a claim that terminates", |t| { devices(t); protect(t, json!({})); delete_devices(t, json!({})); allocate(t, "gpu-0", json!({})); get_devices(t); }),
    ("an allocation without a reservation of a claim that terminates", |t| {
        devices(t);
        protect(t, json!({}));
        delete_devices(t, json!({}));
        let result = json!({"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"});
        write_status(t, STRATEGIC, json!({}), json!({"allocation": {"devices": {"results": [result]}}}));
        get_devices(t);
    }),
    ("a reservation given back of a claim that terminates", |t| { allocated(t); delete_devices(t, json!({})); give_back(t, "one", json!({})); get_devices(t); }),
    ("the last finalizer of a claim that terminates", |t| {
        allocated(t);
        give_back(t, "one", json!({}));
        deallocate(t, json!({}));
        delete_devices(t, json!({}));
        let path = device_claims(t, "/d");
        t.patch(&path, "merge", json!({"metadata": {"finalizers": null}}));
        get_devices(t);
    }),
    ("a watch of device claims", |t| { devices(t); let at = t.version("d"); protect(t, json!({})); allocate(t, "gpu-0", json!({})); let p = device_claims(t, ""); t.watch(&p, &at, 2); }),
    ("a pod told of its claim for extended resources", |t| {
        pod_with_devices(t, "a");
        let path = t.path("pods/a/status");
        let told = json!({"resourceClaimName": "d", "requestMappings": [{"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}]});
        t.patch(&path, "merge", json!({"status": {"extendedResourceClaimStatus": told}}));
        get_pod(t, "a");
    }),
    // Nodes.
    ("a node, twice", |t| { node(t); node(t); }),
    ("a node that was made anew", |t| {
        node(t);
        let name = node_name(t);
        let at = t.version(&name);
        t.delete(&nodes(t, ""), json!({}));
        node(t);
        t.patch(&nodes(t, "/status"), "merge", json!({"metadata": {"resourceVersion": at}, "status": {"capacity": {"cpu": "1"}}}));
    }),
    ("a node cordoned", |t| { node(t); t.patch(&nodes(t, ""), "merge", json!({"spec": {"unschedulable": true}})); }),
];

const STRATEGIC: &str = "strategic-merge";

const PROTECTION: &str = "resource.kubernetes.io/delete-protection";

/// Of the cluster, so its name has that of the conversation.
fn volume_and_claim(t: &mut Talk<'_>) -> (String, String) {
    let name = format!("{}-v", t.namespace);
    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
        "hostPath": {"path": "/v"}});
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec});
    t.post("/api/v1/persistentvolumes", volume);
    (name, claim(t))
}

fn volumes(name: &str) -> String {
    format!("/api/v1/persistentvolumes/{name}")
}

fn claim(t: &mut Talk<'_>) -> String {
    let path = t.path("persistentvolumeclaims");
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "none",
        "resources": {"requests": {"storage": "1Gi"}}});
    t.post(
        &path,
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}),
    );
    "c".to_owned()
}

fn tie(t: &mut Talk<'_>, volume: &str, claim: &str, metadata: Value) {
    let (uid, version) = (t.uid(claim), t.version(claim));
    let to = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": t.namespace, "name": claim,
        "uid": uid, "resourceVersion": version});
    t.patch(&volumes(volume), "merge", json!({"metadata": metadata, "spec": {"claimRef": to}}));
}

fn select(t: &mut Talk<'_>, claim: &str, mut metadata: Value, node: Value) {
    metadata["annotations"] = json!({"volume.kubernetes.io/selected-node": node});
    let path = t.path(&format!("persistentvolumeclaims/{claim}"));
    t.patch(&path, "merge", json!({"metadata": metadata}));
}

fn device_claims(t: &Talk<'_>, rest: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims{rest}", t.namespace)
}

fn devices(t: &mut Talk<'_>) {
    let path = device_claims(t, "");
    let spec = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}});
    let claim =
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "d"}, "spec": spec});
    t.post(&path, claim);
}

fn get_devices(t: &mut Talk<'_>) {
    let path = device_claims(t, "/d");
    t.get(&path);
}

fn label(t: &mut Talk<'_>) {
    let path = device_claims(t, "/d");
    t.patch(&path, "merge", json!({"metadata": {"labels": {"a": "b"}}}));
}

fn protect(t: &mut Talk<'_>, mut metadata: Value) {
    metadata["finalizers"] = json!([PROTECTION]);
    let path = device_claims(t, "/d");
    t.patch(&path, STRATEGIC, json!({"metadata": metadata}));
}

fn write_status(t: &mut Talk<'_>, kind: &str, metadata: Value, status: Value) {
    let path = device_claims(t, "/d/status");
    t.patch(&path, kind, json!({"metadata": metadata, "status": status}));
}

fn user(name: &str) -> Value {
    json!({"resource": "pods", "name": name, "uid": format!("uid-of-{name}")})
}

fn allocate(t: &mut Talk<'_>, device: &str, metadata: Value) {
    let result = json!({"request": "r", "driver": "gpu.example.com", "pool": "n", "device": device});
    let status = json!({"allocation": {"devices": {"results": [result]}}, "reservedFor": [user("one")]});
    write_status(t, STRATEGIC, metadata, status);
}

/// One that is allocated, and reserved for the pod `one`.
fn allocated(t: &mut Talk<'_>) {
    devices(t);
    protect(t, json!({}));
    allocate(t, "gpu-0", json!({}));
}

fn reserve(t: &mut Talk<'_>, pod: &str, metadata: Value) {
    write_status(t, STRATEGIC, metadata, json!({"reservedFor": [user(pod)]}));
}

fn give_back(t: &mut Talk<'_>, pod: &str, metadata: Value) {
    let away = json!({"$patch": "delete", "uid": format!("uid-of-{pod}")});
    write_status(t, STRATEGIC, metadata, json!({"reservedFor": [away]}));
}

fn deallocate(t: &mut Talk<'_>, metadata: Value) {
    write_status(t, "merge", metadata, json!({"allocation": null, "reservedFor": null, "devices": null}));
}

fn delete_devices(t: &mut Talk<'_>, options: Value) {
    let path = device_claims(t, "/d");
    t.delete(&path, options);
}

fn pod_with_devices(t: &mut Talk<'_>, name: &str) {
    let path = t.path("pods");
    let resources = json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}});
    let container = json!({"name": "c", "image": "registry.example/c:1", "resources": resources});
    t.post(
        &path,
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}),
    );
}

fn node_name(t: &Talk<'_>) -> String {
    format!("{}-n", t.namespace)
}

fn nodes(t: &Talk<'_>, rest: &str) -> String {
    format!("/api/v1/nodes/{}{rest}", node_name(t))
}

fn node(t: &mut Talk<'_>) {
    let name = node_name(t);
    t.post("/api/v1/nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
}
