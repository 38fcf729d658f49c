//! What is said to both servers. Each conversation has a namespace of its own.

use super::talk::Talk;
use serde_json::{Value, json};

pub(crate) type Hold = fn(&mut Talk<'_>);

/// By name.
#[rustfmt::skip] // One row per conversation: the table is read down, not across.
pub(crate) const ALL: &[(&str, Hold)] = &[
    // Binds.
    ("a bind", |t| { pod(t, "a"); bind(t, "a", "n", ""); get_pod(t, "a"); }),
    ("a bind with the pod's uid", |t| { pod(t, "a"); let uid = t.uid("a"); bind(t, "a", "n", &uid); get_pod(t, "a"); }),
    ("a bind with another uid", |t| { pod(t, "a"); bind(t, "a", "n", OTHER_UID); get_pod(t, "a"); }),
    ("a bind of a pod that is not there", |t| bind(t, "a", "n", "")),
    ("a second bind to the same node", |t| { pod(t, "a"); bind(t, "a", "n", ""); bind(t, "a", "n", ""); get_pod(t, "a"); }),
    ("a second bind to another node", |t| { pod(t, "a"); bind(t, "a", "n", ""); bind(t, "a", "m", ""); get_pod(t, "a"); }),
    ("a bind of a deleted pod", |t| { pod(t, "a"); remove(t, "a", json!({})); bind(t, "a", "n", ""); }),
    // A deletion goes by the API server's cache, in which a pod without a node has no grace: the bind must show there.
    ("a bind of a pod that terminates", |t| {
        pod(t, "a");
        let (v, p) = (t.version("a"), t.path("pods"));
        bind(t, "a", "n", "");
        t.watch(&p, &v, 1);
        remove(t, "a", json!({}));
        bind(t, "a", "n", "");
    }),
    ("a bind of a gated pod", |t| { gated(t, "a"); bind(t, "a", "n", ""); get_pod(t, "a"); }),
    ("a bind of a pod that was made anew, with the old uid", |t| {
        pod(t, "a");
        let uid = t.uid("a");
        remove(t, "a", json!({}));
        pod(t, "a");
        bind(t, "a", "n", &uid);
        get_pod(t, "a");
    }),
    ("a bind to a node that is not there", |t| { pod(t, "a"); bind(t, "a", "nowhere", ""); get_pod(t, "a"); }),
    ("a bind shows in a watch", |t| { pod(t, "a"); let v = t.version("a"); bind(t, "a", "n", ""); let p = t.path("pods"); t.watch(&p, &v, 1); }),
    // The status of pods.
    ("a condition", |t| { pod(t, "a"); refuse(t, "a", json!({}), "no"); get_pod(t, "a"); }),
    ("a condition twice is one write", |t| { pod(t, "a"); refuse(t, "a", json!({}), "no"); refuse(t, "a", json!({}), "no"); }),
    ("a condition replaced", |t| { pod(t, "a"); refuse(t, "a", json!({}), "no"); refuse(t, "a", json!({}), "never"); }),
    ("a second type of condition", |t| { pod(t, "a"); refuse(t, "a", json!({}), "no"); mark(t, "a", json!({})); }),
    ("a condition with the pod's uid", |t| { pod(t, "a"); let uid = t.uid("a"); refuse(t, "a", json!({"uid": uid}), "no"); }),
    ("a condition with another uid", |t| { pod(t, "a"); refuse(t, "a", json!({"uid": OTHER_UID}), "no"); get_pod(t, "a"); }),
    ("a condition with the pod's version", |t| { pod(t, "a"); let v = t.version("a"); refuse(t, "a", json!({"resourceVersion": v}), "no"); }),
    ("a condition with an old version", |t| {
        pod(t, "a");
        let v = t.version("a");
        mark(t, "a", json!({}));
        refuse(t, "a", json!({"resourceVersion": v}), "no");
        get_pod(t, "a");
    }),
    ("a condition with an old version of a bound pod", |t| {
        pod(t, "a");
        let v = t.version("a");
        bind(t, "a", "n", "");
        refuse(t, "a", json!({"resourceVersion": v}), "no");
        get_pod(t, "a");
    }),
    ("a condition of a pod that is not there", |t| refuse(t, "a", json!({}), "no")),
    ("a condition of a pod that was made anew", |t| {
        pod(t, "a");
        let uid = t.uid("a");
        remove(t, "a", json!({}));
        pod(t, "a");
        refuse(t, "a", json!({"uid": uid}), "no");
    }),
    ("a nomination", |t| { pod(t, "a"); nominate(t, "a", json!({}), json!("n")); get_pod(t, "a"); }),
    ("a nomination and its end", |t| { pod(t, "a"); nominate(t, "a", json!({}), json!("n")); nominate(t, "a", json!({}), Value::Null); }),
    ("a nomination with an old version", |t| {
        pod(t, "a");
        let v = t.version("a");
        mark(t, "a", json!({}));
        nominate(t, "a", json!({"resourceVersion": v}), json!("n"));
    }),
    ("the end of this very nomination", |t| { pod(t, "a"); nominate(t, "a", json!({}), json!("n")); end_nomination(t, "a", "n"); get_pod(t, "a"); }),
    ("the end of another nomination", |t| { pod(t, "a"); nominate(t, "a", json!({}), json!("m")); end_nomination(t, "a", "n"); get_pod(t, "a"); }),
    ("the end of no nomination", |t| { pod(t, "a"); end_nomination(t, "a", "n"); }),
    ("the end of a nomination of a pod that is not there", |t| { pod(t, "a"); remove(t, "a", json!({})); end_nomination(t, "a", "n"); }),
    ("a patch of the status leaves the spec", |t| {
        pod(t, "a");
        let path = t.path("pods/a/status");
        t.patch(&path, "merge", json!({"spec": {"nodeName": "n"}, "status": {"nominatedNodeName": "m"}}));
    }),
    ("a patch of no known kind", |t| { pod(t, "a"); let path = t.path("pods/a/status"); t.patch(&path, "other", json!({})); }),
    ("a nomination of a bound pod", |t| { pod(t, "a"); bind(t, "a", "n", ""); nominate(t, "a", json!({}), json!("n")); }),
    ("a bind of a nominated pod", |t| { pod(t, "a"); nominate(t, "a", json!({}), json!("n")); bind(t, "a", "n", ""); get_pod(t, "a"); }),
    ("a bind of a pod nominated elsewhere", |t| { pod(t, "a"); nominate(t, "a", json!({}), json!("m")); bind(t, "a", "n", ""); get_pod(t, "a"); }),
    ("the end of a nomination of a bound pod", |t| { pod(t, "a"); nominate(t, "a", json!({}), json!("n")); bind(t, "a", "n", ""); nominate(t, "a", json!({}), Value::Null); }),
    ("a bind with an old version", |t| { pod(t, "a"); let v = t.version("a"); mark(t, "a", json!({})); bind_at(t, "a", &v); get_pod(t, "a"); }),
    ("a watch from a version that is too old", |t| { pod(t, "a"); let p = t.path("pods"); t.watch(&p, "1", 1); }),
    ("a condition of a pod that terminates", |t| { pod(t, "a"); bind(t, "a", "n", ""); remove(t, "a", json!({})); mark(t, "a", json!({})); }),
    // Deletes.
    ("the deletion of a pod without a node", |t| { pod(t, "a"); remove(t, "a", json!({})); get_pod(t, "a"); }),
    ("the deletion of a bound pod", |t| { pod(t, "a"); bind(t, "a", "n", ""); remove(t, "a", json!({})); get_pod(t, "a"); }),
    ("the deletion of a bound pod, twice", |t| { pod(t, "a"); bind(t, "a", "n", ""); remove(t, "a", json!({})); remove(t, "a", json!({})); }),
    ("a deletion with the uid", |t| { pod(t, "a"); let uid = t.uid("a"); remove(t, "a", json!({"preconditions": {"uid": uid}})); }),
    ("a deletion with another uid", |t| { pod(t, "a"); remove(t, "a", json!({"preconditions": {"uid": OTHER_UID}})); get_pod(t, "a"); }),
    ("a deletion of a bound pod with another uid", |t| { pod(t, "a"); bind(t, "a", "n", ""); remove(t, "a", json!({"preconditions": {"uid": OTHER_UID}})); get_pod(t, "a"); }),
    ("a deletion with an old version", |t| {
        pod(t, "a");
        let v = t.version("a");
        mark(t, "a", json!({}));
        remove(t, "a", json!({"preconditions": {"resourceVersion": v}}));
    }),
    ("a deletion of what is not there", |t| remove(t, "a", json!({}))),
    ("a deletion at once", |t| { pod(t, "a"); bind(t, "a", "n", ""); remove(t, "a", json!({"gracePeriodSeconds": 0})); get_pod(t, "a"); }),
    ("a deletion with a grace period", |t| { pod(t, "a"); bind(t, "a", "n", ""); remove(t, "a", json!({"gracePeriodSeconds": 7})); }),
    ("the end of a pod that terminates", |t| {
        pod(t, "a");
        bind(t, "a", "n", "");
        remove(t, "a", json!({}));
        remove(t, "a", json!({"gracePeriodSeconds": 0}));
        get_pod(t, "a");
    }),
    // The Lease.
    ("a lease", |t| { lease(t, "me"); let p = leases(t, "/l"); t.get(&p); }),
    ("a lease that nobody holds", |t| { post_lease(t, json!({"leaseDurationSeconds": 15})); let v = t.version("l"); renew(t, "me", json!(v)); }),
    ("a lease that is there", |t| { lease(t, "me"); lease(t, "you"); }),
    ("a lease that is not there", |t| { let p = leases(t, "/l"); t.get(&p); }),
    ("a lease renewed", |t| { lease(t, "me"); let v = t.version("l"); renew(t, "me", json!(v)); }),
    ("a lease taken", |t| { lease(t, "me"); let v = t.version("l"); renew(t, "you", json!(v)); }),
    ("a lease taken by two", |t| { lease(t, "me"); let v = t.version("l"); renew(t, "you", json!(v)); renew(t, "they", json!(v)); let p = leases(t, "/l"); t.get(&p); }),
    ("a lease renewed after it was deleted", |t| { lease(t, "me"); let v = t.version("l"); let p = leases(t, "/l"); t.delete(&p, json!({})); renew(t, "me", json!(v)); }),
    ("a watch of one lease", |t| {
        lease(t, "me");
        let v = t.version("l");
        renew(t, "you", json!(v));
        let p = leases(t, "?fieldSelector=metadata.name%3Dl");
        t.watch(&p, &v, 1);
    }),
    ("a watch of another lease", |t| {
        lease(t, "me");
        let v = t.version("l");
        renew(t, "you", json!(v));
        let p = leases(t, "?fieldSelector=metadata.name%3Dk");
        t.watch(&p, &v, 0);
    }),
    // Revisions.
    ("a revision, twice", |t| { revision(t, "r", "x"); revision(t, "r", "x"); }),
    ("revisions by label", |t| { revision(t, "r", "x"); let p = revisions(t, "?labelSelector=of"); t.get(&p); }),
    ("revisions by the value of a label", |t| { revision(t, "r", "x"); revision(t, "s", "y"); let p = revisions(t, "?labelSelector=of%3Dy"); t.get(&p); }),
    ("a revision deleted, twice", |t| { revision(t, "r", "x"); let p = revisions(t, "/r"); t.delete(&p, json!({})); t.delete(&p, json!({})); }),
    // Profiles.
    ("a profile and its status", |t| { let n = profile(t); let v = t.version(&n); status(t, &n, json!(v), 1); }),
    ("a status with an old version", |t| { let n = profile(t); let v = t.version(&n); status(t, &n, json!(v), 1); status(t, &n, json!(v), 2); }),
    ("the same status twice is one write", |t| {
        let n = profile(t);
        let v = t.version(&n);
        status(t, &n, json!(v), 1);
        let v = t.version(&n);
        status(t, &n, json!(v), 1);
    }),
    ("a status of a profile that is gone", |t| { let n = profile(t); let v = t.version(&n); t.delete(&profiles(&n), json!({})); status(t, &n, json!(v), 1); }),
    ("another spec is another generation", |t| {
        let n = profile(t);
        t.patch(&profiles(&n), "merge", json!({"spec": {"preset": "BinPack"}}));
        t.patch(&profiles(&n), "merge", json!({"metadata": {"labels": {"a": "b"}}}));
    }),
    // Lists.
    ("a list of nothing", |t| { let p = t.path("pods"); t.get(&p); }),
    ("a list", |t| { pod(t, "b"); pod(t, "a"); let p = t.path("pods"); t.get(&p); }),
    ("pages of a list", |t| {
        for name in ["a", "b", "c"] {
            pod(t, name);
        }
        let p = t.path("pods?limit=2");
        let first = t.get(&p);
        let p = t.path(&format!("pods?limit=2&continue={}", first["metadata"]["continue"].as_str().unwrap_or_default()));
        t.get(&p);
    }),
    ("a page that holds everything", |t| { pod(t, "a"); let p = t.path("pods?limit=5"); t.get(&p); }),
    ("a page with a selector", |t| { pod(t, "a"); pod(t, "b"); let p = t.path(&format!("pods?limit=1&{ALIVE}")); t.get(&p); }),
    ("a list of pods that have not ended", |t| { pod(t, "a"); pod(t, "b"); phase(t, "a", "Succeeded"); let p = t.path(&format!("pods?{ALIVE}")); t.get(&p); }),
    // Watches.
    ("a watch of what comes and goes", |t| {
        pod(t, "a");
        let v = t.version("a");
        pod(t, "b");
        mark(t, "a", json!({}));
        remove(t, "b", json!({}));
        let p = t.path("pods");
        t.watch(&p, &v, 3);
    }),
    ("a watch of pods that have not ended", |t| {
        pod(t, "a");
        let v = t.version("a");
        phase(t, "a", "Running");
        phase(t, "a", "Failed");
        remove(t, "a", json!({"gracePeriodSeconds": 0}));
        let p = t.path(&format!("pods?{ALIVE}"));
        t.watch(&p, &v, 2);
    }),
    ("a watch of a pod that ends and is deleted", |t| {
        pod(t, "a");
        phase(t, "a", "Failed");
        let v = t.version("a");
        remove(t, "a", json!({"gracePeriodSeconds": 0}));
        let p = t.path(&format!("pods?{ALIVE}"));
        t.watch(&p, &v, 0);
    }),
    ("a watch that shows what a page did not", |t| {
        pod(t, "a");
        let p = t.path("pods");
        let list = t.get(&p);
        let v = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        pod(t, "b");
        t.watch(&p, &v, 1);
    }),
    ("a watch of a pod that terminates", |t| {
        pod(t, "a");
        bind(t, "a", "n", "");
        get_pod(t, "a");
        let v = t.version("a");
        remove(t, "a", json!({}));
        remove(t, "a", json!({"gracePeriodSeconds": 0}));
        let p = t.path("pods");
        t.watch(&p, &v, 2);
    }),
    // What is too old.
    // The real server's cache of profiles begins when they are defined; that of pods begins with the first version.
    ("a watch from before all that is kept", |t| { profile(t); t.forget(); t.watch(profiles("").trim_end_matches('/'), "1", 1); }),
    ("a page of a list from before all that is kept", |t| {
        for name in ["a", "b", "c"] {
            pod(t, name);
        }
        let p = t.path("pods?limit=2");
        let first = t.get(&p);
        t.forget();
        let p = t.path(&format!("pods?limit=2&continue={}", t.outdated(&first)));
        t.get(&p);
    }),
    // Bookmarks. The barrier of a new leader opens a watch for three seconds, and counts on one that is as new as a list from before.
    ("a bookmark before the end of a watch of what does not change", |t| bookmark(t, true, 3)),
    ("a watch that is too short for a bookmark", |t| bookmark(t, true, 1)),
    ("a watch that asks for no bookmarks", |t| bookmark(t, false, 3)),
    // No room.
    ("a request that flow control turns away", |t| { let p = t.path("pods"); t.turn_away(&p); }),
    // What is not there.
    ("a kind that is not there", |t| { t.get("/api/v1/moons"); }),
    ("a group that is not there", |t| { t.get("/apis/moons.example/v1/moons"); }),
    ("an object that is not there", |t| get_pod(t, "a")),
    ("a pod that is there", |t| { pod(t, "a"); pod(t, "a"); }),
    ("a pod without a name", |t| { let p = t.path("pods"); t.post(&p, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": containers()})); }),
];

pub(crate) const OTHER_UID: &str = "11111111-2222-4333-8444-555555555555";

const ALIVE: &str = "fieldSelector=status.phase%21%3DSucceeded,status.phase%21%3DFailed";

fn containers() -> Value {
    json!({"containers": [{"name": "c", "image": "registry.example/c:1"}]})
}

fn pod(t: &mut Talk<'_>, name: &str) {
    let path = t.path("pods");
    let mut spec = containers();
    spec["terminationGracePeriodSeconds"] = json!(30);
    t.post(&path, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}));
}

fn gated(t: &mut Talk<'_>, name: &str) {
    let path = t.path("pods");
    let mut spec = containers();
    spec["schedulingGates"] = json!([{"name": "example.com/gate"}]);
    t.post(&path, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}));
}

pub(crate) fn get_pod(t: &mut Talk<'_>, name: &str) {
    let path = t.path(&format!("pods/{name}"));
    t.get(&path);
}

fn bind(t: &mut Talk<'_>, name: &str, node: &str, uid: &str) {
    let path = t.path(&format!("pods/{name}/binding"));
    let mut metadata = json!({"name": name, "namespace": t.namespace});
    if !uid.is_empty() {
        metadata["uid"] = json!(uid);
    }
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
    t.post(&path, json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}));
}

fn bind_at(t: &mut Talk<'_>, name: &str, version: &str) {
    let path = t.path(&format!("pods/{name}/binding"));
    let metadata = json!({"name": name, "namespace": t.namespace, "resourceVersion": version});
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": "n"});
    t.post(&path, json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}));
}

fn condition(t: &mut Talk<'_>, name: &str, metadata: Value, condition: Value) {
    let path = t.path(&format!("pods/{name}/status"));
    t.patch(&path, "strategic-merge", json!({"metadata": metadata, "status": {"conditions": [condition]}}));
}

fn refuse(t: &mut Talk<'_>, name: &str, metadata: Value, message: &str) {
    condition(
        t,
        name,
        metadata,
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}),
    );
}

fn mark(t: &mut Talk<'_>, name: &str, metadata: Value) {
    condition(
        t,
        name,
        metadata,
        json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}),
    );
}

fn nominate(t: &mut Talk<'_>, name: &str, metadata: Value, node: Value) {
    let path = t.path(&format!("pods/{name}/status"));
    t.patch(&path, "merge", json!({"metadata": metadata, "status": {"nominatedNodeName": node}}));
}

fn end_nomination(t: &mut Talk<'_>, name: &str, node: &str) {
    let path = t.path(&format!("pods/{name}/status"));
    let uid = t.uid(name);
    let steps = json!([
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/status/nominatedNodeName", "value": node},
        {"op": "remove", "path": "/status/nominatedNodeName"},
    ]);
    t.patch(&path, "json", steps);
}

fn phase(t: &mut Talk<'_>, name: &str, phase: &str) {
    let path = t.path(&format!("pods/{name}/status"));
    t.patch(&path, "merge", json!({"status": {"phase": phase}}));
}

fn remove(t: &mut Talk<'_>, name: &str, mut options: Value) {
    options["apiVersion"] = json!("v1");
    options["kind"] = json!("DeleteOptions");
    let path = t.path(&format!("pods/{name}"));
    t.delete(&path, options);
}

/// A page of one pod, and a watch from before it, as the barrier makes them. Something of another kind has changed in between, so that
/// the list is newer than any pod.
fn bookmark(t: &mut Talk<'_>, asks: bool, seconds: u32) {
    pod(t, "a");
    pod(t, "b");
    let before = t.version("b");
    lease(t, "me");
    let page = t.path("pods?limit=1");
    let list = t.get(&page);
    let list = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let path = t.path(&format!("pods?allowWatchBookmarks={asks}"));
    t.bookmark(&path, &before, seconds, &list);
}

fn leases(t: &Talk<'_>, rest: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases{rest}", t.namespace)
}

fn lease(t: &mut Talk<'_>, holder: &str) {
    post_lease(t, json!({"holderIdentity": holder, "leaseDurationSeconds": 15}));
}

fn post_lease(t: &mut Talk<'_>, spec: Value) {
    let path = leases(t, "");
    t.post(
        &path,
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": spec}),
    );
}

fn renew(t: &mut Talk<'_>, holder: &str, version: Value) {
    let mut lease = t.object("l");
    lease["metadata"]["resourceVersion"] = version;
    lease["spec"]["holderIdentity"] = json!(holder);
    let path = leases(t, "/l");
    t.put(&path, lease);
}

fn revisions(t: &Talk<'_>, rest: &str) -> String {
    format!("/apis/apps/v1/namespaces/{}/controllerrevisions{rest}", t.namespace)
}

fn revision(t: &mut Talk<'_>, name: &str, of: &str) {
    let path = revisions(t, "");
    let metadata = json!({"name": name, "labels": {"of": of}});
    t.post(&path, json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "data": {"spec": {}}, "revision": 1}));
}

fn profiles(name: &str) -> String {
    format!("/apis/scheduling.berth.dev/v1alpha1/schedulerprofiles/{name}")
}

/// Returns its name: profiles have no namespace.
fn profile(t: &mut Talk<'_>) -> String {
    let name = t.namespace.clone();
    let body = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile", "metadata": {"name": name}, "spec": {}});
    t.post(profiles("").trim_end_matches('/'), body);
    name
}

fn status(t: &mut Talk<'_>, name: &str, version: Value, observed: i64) {
    let uid = t.uid(name);
    let path = format!("{}/status?fieldManager=berth&force=true", profiles(name));
    let body = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile",
        "metadata": {"name": name, "uid": uid, "resourceVersion": version}, "status": {"observedGeneration": observed}});
    t.patch(&path, "apply", body);
}
