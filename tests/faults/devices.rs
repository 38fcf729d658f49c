//! Devices of the load: which pods have claims of them, and what the API server says of them in the end.

use std::collections::BTreeMap;

use berth_lab::{Api, ControlPlane, Driver, Patch};
use serde_json::{Value, json};

use crate::load::{LOADED, delete_all, name};
use crate::objects::{ask_for, pod_path};
use crate::stage::node;
use crate::volumes::text;

/// The driver, and the class of its devices.
const DRIVER: &str = "devices.lab.berth.dev";

/// The template of claims.
const TEMPLATE: &str = "one-device";

/// Devices of a node. Its processors are taken by some 65 pods, nine or ten of which have a device of their own: some nodes run out of
/// devices, and a pod that finds none there finds one on the nodes that are still empty.
const OF_A_NODE: usize = 11;

/// Claims as the API server has them, by name.
pub(super) type Claims<'a> = BTreeMap<&'a str, &'a Value>;

/// Publishes the devices of this many nodes. They stay when their node is deleted and made anew.
pub(super) fn set_up(plane: &ControlPlane, nodes: usize) -> Driver {
    let nodes: Vec<String> = (0..nodes).map(|i| node(i).name).collect();
    plane.start_driver(DRIVER, &nodes, OF_A_NODE).unwrap()
}

/// Path of a claim, or of all where `name` is empty.
pub(super) fn claim_path(name: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/{LOADED}/resourceclaims/{name}").trim_end_matches('/').to_owned()
}

/// From what the claim of a pod of the load comes.
enum Claimed {
    /// It is made before the pod.
    Named(String),
    /// The controller makes it from the template.
    Templated,
    /// The scheduler makes it for the extended resource that the pod asks for.
    Made,
}

/// The claim of the pod of this number: one in ten has one of its own, and one in fifty shares that of the pod before it. Of those that
/// share none every other one comes from a template. One in twenty asks for an extended resource.
fn claim_of(i: usize) -> Option<Claimed> {
    match (i % 10, i % 20, i % 50) {
        (1, 11, rest) if rest != 1 => Some(Claimed::Templated),
        (1, ..) => Some(Claimed::Named(format!("device-{i}"))),
        (_, 6, _) => Some(Claimed::Made),
        (.., 2) => Some(Claimed::Named(format!("device-{}", i - 1))),
        _ => None,
    }
}

/// What must be there for the pod of this number, with its collection: a claim of one device, or a template of such claims.
pub(super) fn needed_by(i: usize) -> Option<(String, Value)> {
    let spec = json!({"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": DRIVER}}]}});
    // Both pods that share one bring it: one of them may have come, and gone with its claim, before the other is made.
    let (collection, kind, name, spec) = match claim_of(i)? {
        Claimed::Named(claim) => (claim_path(""), "ResourceClaim", claim, spec),
        Claimed::Templated => (template_path(), "ResourceClaimTemplate", TEMPLATE.to_owned(), json!({"spec": spec})),
        Claimed::Made => return None,
    };
    let metadata = json!({"name": name, "namespace": LOADED});
    Some((collection, json!({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})))
}

fn template_path() -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/{LOADED}/resourceclaimtemplates")
}

/// Has the pod of this number ask for its claim, if it has one.
pub(super) fn ask(pod: &mut Value, i: usize) {
    match claim_of(i) {
        None => return,
        Some(Claimed::Named(claim)) => {
            pod["spec"]["resourceClaims"] = json!([{"name": "device", "resourceClaimName": claim}]);
        }
        Some(Claimed::Templated) => {
            pod["spec"]["resourceClaims"] = json!([{"name": "device", "resourceClaimTemplateName": TEMPLATE}]);
        }
        Some(Claimed::Made) => ask_for(pod, &Driver::resource(DRIVER)),
    }
    // Of two that share a device one must go where the other is, and that node may be full by then.
    if matches!(i % 50, 1 | 2) {
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("0");
    }
}

/// The claim that is to go with the pod of this number, unless another pod wants it. Of one that was made for the pod it says which it is, as
/// long as it is there: no garbage collector runs.
pub(super) fn ends_with(api: &Api, i: usize) -> Option<String> {
    match claim_of(i).filter(|_| i % 50 != 1)? {
        Claimed::Named(claim) => Some(claim),
        Claimed::Templated | Claimed::Made => claim_in(&api.get(&pod_path(LOADED, &name(i))).ok()?).map(str::to_owned),
    }
}

/// Deletes the claim of a pod that went. It goes once the controller has taken its device back.
pub(super) fn end(api: &Api, claim: &str) {
    drop(api.delete(&claim_path(claim), None));
}

/// Whether the pod of this number waits until the controller has made its claim.
pub(super) fn waits_for_controller(i: usize) -> bool {
    matches!(claim_of(i), Some(Claimed::Templated))
}

/// Deletes all claims; whether none is left.
pub(super) fn clear(api: &Api) -> bool {
    delete_all(api, &claim_path(""), None)
}

/// The claims that are allocated, or reserved for a pod.
pub(super) fn held(api: &Api) -> Vec<Value> {
    let claims = api.get(&claim_path("")).unwrap();
    let is_held = |claim: &&Value| !claim["status"]["allocation"].is_null() || users(claim).next().is_some();
    claims["items"].as_array().unwrap().iter().filter(is_held).cloned().collect()
}

pub(super) fn told(claim: &Value) -> String {
    format!("claim {}: {}", text(&claim["metadata"]["name"]), claim["status"])
}

/// Has the controller look at the claims once more. It looks when it sees a pod go, and of pods that came and went while it could not watch,
/// as around the end of an API server, it saw neither.
pub(super) fn touch(api: &Api, claims: &[Value], round: u32) {
    let touched = json!({"metadata": {"annotations": {"faults.lab.berth.dev/round": round.to_string()}}});
    for claim in claims {
        drop(api.patch(&claim_path(text(&claim["metadata"]["name"])), Patch::Merge, &touched));
    }
}

/// Whether another pod uses the pod's claim on a node that takes no more pods: this one fits nowhere else.
pub(super) fn is_away(claims: &Claims<'_>, takes_more: impl Fn(&str) -> bool, pod: &Value) -> bool {
    let Some(claim) = claim_in(pod).and_then(|claim| claims.get(claim)) else { return false };
    let is_used = users(claim).any(|user| user["uid"] != pod["metadata"]["uid"]);
    is_used && devices_of(claim).any(|[_, pool, _]| !takes_more(pool))
}

/// What must not be of the devices of these pods.
pub(super) fn broken(claims: &Claims<'_>, pods: &[Value]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut owner: BTreeMap<[&str; 3], &str> = BTreeMap::new();
    for (claim, object) in claims {
        for device in devices_of(object) {
            if let Some(other) = owner.insert(device, claim) {
                broken.push(format!("device {} is given to two claims, {other} and {claim}", device.join("/")));
            }
        }
    }
    for pod in pods {
        let (name, status) = (text(&pod["metadata"]["name"]), &pod["status"]);
        if status["reason"] == Driver::REASON {
            broken.push(format!("pod {name} was refused: {}", text(&status["message"])));
        }
        // From a pod that a kubelet refused the controller takes its claim.
        let Some(node) = pod["spec"]["nodeName"].as_str().filter(|_| status["phase"] != "Failed") else { continue };
        if let Err(why) = allows(claims, pod, node) {
            broken.push(format!("pod {name} is on {node}, and {why}"));
        }
    }
    broken
}

/// Whether the pod may run on the node; `Err` says why not.
fn allows(claims: &Claims<'_>, pod: &Value, node: &str) -> Result<(), String> {
    if pod["spec"]["resourceClaims"].is_null() && !asks_for_device(pod) {
        return Ok(());
    }
    let claim = claim_in(pod).ok_or("nothing says which claim was made for it")?;
    let object = claims.get(claim).ok_or_else(|| format!("its claim {claim} is gone"))?;
    let device = devices_of(object).next();
    let [_, pool, _] = device.ok_or_else(|| format!("its claim {claim} is not allocated"))?;
    if pool != node {
        return Err(format!("its claim {claim} has a device of {pool}"));
    }
    let is_reserved = users(object).any(|user| user["uid"] == pod["metadata"]["uid"]);
    if is_reserved { Ok(()) } else { Err(format!("its claim {claim} is not reserved for it")) }
}

fn asks_for_device(pod: &Value) -> bool {
    !pod["spec"]["containers"][0]["resources"]["requests"][Driver::resource(DRIVER)].is_null()
}

/// The claim of a pod of the load: it has at most one.
fn claim_in(pod: &Value) -> Option<&str> {
    let status = &pod["status"];
    let named = [
        &pod["spec"]["resourceClaims"][0],
        &status["resourceClaimStatuses"][0],
        &status["extendedResourceClaimStatus"],
    ];
    named.into_iter().find_map(|of| of["resourceClaimName"].as_str())
}

/// What is allocated to a claim: each with its driver and its pool, which is named as its node.
fn devices_of(claim: &Value) -> impl Iterator<Item = [&str; 3]> {
    let results = claim["status"]["allocation"]["devices"]["results"].as_array().into_iter().flatten();
    results.map(|result| ["driver", "pool", "device"].map(|field| text(&result[field])))
}

/// For whom a claim is reserved.
fn users(claim: &Value) -> impl Iterator<Item = &Value> {
    claim["status"]["reservedFor"].as_array().into_iter().flatten()
}

/// The checks can fail: claims made by hand in which they must, and some in which all is well.
#[test]
fn what_must_not_be_of_devices_is_told() {
    let claim = |pool: &str, device: &str, user: &str| {
        let result = json!({"driver": "d", "pool": pool, "device": device});
        json!({"status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [{"uid": user}]}})
    };
    let mut pod = json!({
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"nodeName": "here", "resourceClaims": [{"resourceClaimName": "one"}]},
    });
    let told = |claims: &[(&str, Value)], pod: &Value| {
        let claims: Claims<'_> = claims.iter().map(|(name, claim)| (*name, claim)).collect();
        broken(&claims, std::slice::from_ref(pod))
    };
    let fine = [("one", claim("here", "a", "u")), ("two", claim("here", "b", "v"))];
    assert_eq!(told(&fine, &pod), Vec::<String>::new());
    for (claims, wrong) in [
        (vec![], "pod p is on here, and its claim one is gone"),
        (vec![("one", json!({}))], "pod p is on here, and its claim one is not allocated"),
        (vec![("one", claim("there", "a", "u"))], "pod p is on here, and its claim one has a device of there"),
        (vec![("one", claim("here", "a", "v"))], "pod p is on here, and its claim one is not reserved for it"),
        (
            vec![("one", claim("here", "a", "u")), ("two", claim("here", "a", "v"))],
            "device d/here/a is given to two claims, one and two",
        ),
    ] {
        assert_eq!(told(&claims, &pod), [wrong]);
    }
    // One that waits may do so if its device is another pod's and its node is gone, or full.
    for (pool, user, expected) in [("gone", "v", true), ("gone", "u", false), ("here", "v", false)] {
        let object = claim(pool, "a", user);
        assert_eq!(
            is_away(&BTreeMap::from([("one", &object)]), |node| node == "here", &pod),
            expected,
            "{pool} {user}"
        );
    }
    let mut templated = pod.clone();
    templated["spec"]["resourceClaims"] = json!([{"resourceClaimTemplateName": TEMPLATE}]);
    assert_eq!(told(&[], &templated), ["pod p is on here, and nothing says which claim was made for it"]);
    templated["status"] = json!({"resourceClaimStatuses": [{"name": "device", "resourceClaimName": "one"}]});
    assert_eq!(told(&fine, &templated), Vec::<String>::new());
    let mut extended = pod.clone();
    extended["spec"] =
        json!({"nodeName": "here", "containers": [{"resources": {"requests": {Driver::resource(DRIVER): "1"}}}]});
    assert_eq!(told(&[], &extended), ["pod p is on here, and nothing says which claim was made for it"]);
    extended["status"] = json!({"extendedResourceClaimStatus": {"resourceClaimName": "one"}});
    assert_eq!(told(&fine, &extended), Vec::<String>::new());
    pod["status"] = json!({"phase": "Failed", "reason": Driver::REASON, "message": "claim one is not allocated"});
    assert_eq!(told(&[], &pod), ["pod p was refused: claim one is not allocated"]);
}
