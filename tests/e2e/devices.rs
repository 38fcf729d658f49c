//! ResourceClaims on a real API server: devices are allocated and reserved before a pod is bound, and given to nobody else.

use crate::minor;
use crate::objects::wait_event;
use crate::world::World;
use crate::{LATER, SOON};
use berth_lab::Patch;
use serde_json::{Value, json};

const API: &str = "/apis/resource.k8s.io/v1";
const DRIVER: &str = "devices.lab.berth.dev";

fn claims(world: &World, name: &str) -> String {
    format!("{API}/namespaces/{}/resourceclaims/{name}", world.name).trim_end_matches('/').to_owned()
}

/// The class of the world's devices, and two devices on its node `0`.
fn publish(world: &World) {
    let devices = json!([
        {"name": "gpu-0", "attributes": {"model": {"string": "A100"}}},
        {"name": "gpu-1", "attributes": {"model": {"string": "V100"}}},
    ]);
    publish_these(world, &devices);
}

/// The class of the world's devices, and these on its node `0`.
fn publish_these(world: &World, devices: &Value) {
    let api = &world.plane.api;
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": world.name},
        "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{DRIVER}'")}}]},
    });
    api.post(&format!("{API}/deviceclasses"), &class).unwrap();
    let node = world.node_name("0");
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node},
        "spec": {
            "driver": DRIVER, "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    });
    api.post(&format!("{API}/resourceslices"), &slice).unwrap();
}

/// A claim of one device, or of one that the expression selects.
fn claim(world: &World, name: &str, selector: Option<&str>) {
    let mut request = json!({"deviceClassName": world.name});
    if let Some(expression) = selector {
        request["selectors"] = json!([{"cel": {"expression": expression}}]);
    }
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}},
    });
    world.plane.api.post(&claims(world, ""), &claim).unwrap();
}

fn pod(world: &World, name: &str, claim: &str) -> Value {
    world.pod(name, "100m", |pod| {
        pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": claim}]);
    })
}

#[test]
fn devices_are_allocated_and_reserved_before_the_pod_is_bound() {
    if !minor::is_ours() {
        return;
    }
    let world = World::with("devices", &json!({}), 2);
    publish(&world);
    let api = &world.plane.api;

    // The claim comes after its pod, which waits for it without a word.
    let first = pod(&world, "first", "of-v100");
    claim(&world, "of-v100", Some(&format!("device.attributes['{DRIVER}'].model == 'V100'")));
    assert_eq!(world.bound("first"), "0");
    let allocated = api.get(&claims(&world, "of-v100")).unwrap();
    let result = &allocated["status"]["allocation"]["devices"]["results"][0];
    assert_eq!((&result["device"], &result["driver"]), (&json!("gpu-1"), &json!(DRIVER)));
    assert_eq!(allocated["status"]["reservedFor"][0]["uid"], first["metadata"]["uid"]);
    assert_eq!(allocated["metadata"]["finalizers"][0], "resource.kubernetes.io/delete-protection");
    let selector = &allocated["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0];
    assert_eq!(selector["values"][0], world.node_name("0"));
    assert!(allocated["status"]["allocation"]["allocationTimestamp"].is_string());

    // A second pod shares the claim, and is added to those that it is reserved for.
    pod(&world, "second", "of-v100");
    assert_eq!(world.bound("second"), "0");
    let shared = api.get(&claims(&world, "of-v100")).unwrap();
    assert_eq!(shared["status"]["reservedFor"].as_array().unwrap().len(), 2);

    // The last device goes to the next claim, and one more finds none until it is given back.
    claim(&world, "any", None);
    pod(&world, "third", "any");
    assert_eq!(world.bound("third"), "0");
    claim(&world, "late", None);
    pod(&world, "fourth", "late");
    world.says("fourth", "0/2 nodes are available: 2 cannot allocate all claims.");
    let free = json!({"status": {"allocation": null, "reservedFor": null}});
    api.patch(&format!("{}/status", claims(&world, "any")), Patch::Merge, &free).unwrap();
    assert_eq!(world.bound("fourth"), "0");
    let late = api.get(&claims(&world, "late")).unwrap();
    assert_eq!(late["status"]["allocation"]["devices"]["results"][0]["device"], "gpu-0");

    // Another scheduler gives the same device to a claim of its own, and no precondition stops it.
    claim(&world, "theirs", None);
    let same = json!({"status": {"allocation": late["status"]["allocation"]}});
    api.patch(&format!("{}/status", claims(&world, "theirs")), Patch::Merge, &same).unwrap();
    let (status, message) = world.reason("SchedulingHealthy", "DeviceAllocatedTwice");
    let both =
        format!("the claims {0}/late and {0}/theirs hold device gpu-0 of pool {1}", world.name, world.node_name("0"));
    assert!(status == "False" && message.starts_with(&both), "{message}");
    let freed = json!({"status": {"allocation": null}});
    api.patch(&format!("{}/status", claims(&world, "theirs")), Patch::Merge, &freed).unwrap();
    world.reason("SchedulingHealthy", "Idle");
}

#[test]
fn an_idle_claim_for_a_full_node_is_deallocated_and_allocated_anew() {
    if !minor::is_ours() {
        return;
    }
    let world = World::with("idle-claim", &json!({}), 2);
    publish(&world);
    let api = &world.plane.api;
    claim(&world, "idle", None);
    // Allocated for a node that is not there any more.
    let terms = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]);
    let result = json!({"request": "gpu", "driver": DRIVER, "pool": "gone", "device": "gpu-0"});
    let allocation = json!({"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": terms}});
    let status = json!({"status": {"allocation": allocation}});
    api.patch(&format!("{}/status", claims(&world, "idle")), Patch::Merge, &status).unwrap();
    pod(&world, "p", "idle");
    assert_eq!(world.bound("p"), "0");
    let now = world
        .plane
        .wait_for("the new allocation", SOON, || {
            let claim = api.get(&claims(&world, "idle"))?;
            let pool = claim["status"]["allocation"]["devices"]["results"][0]["pool"].clone();
            Ok((pool == world.node_name("0")).then_some(claim))
        })
        .unwrap();
    assert_eq!(now["status"]["reservedFor"].as_array().unwrap().len(), 1);
}

/// The driver prepares its device once a claim has it, as one does that attaches it to the node over a fabric.
#[test]
fn a_pod_waits_until_the_driver_has_made_its_device_ready() {
    if !minor::is_ours() {
        return;
    }
    let world = World::with("fabric", &json!({}), 2);
    let device = json!({"name": "gpu-0", "bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]});
    publish_these(&world, &json!([device]));
    let api = &world.plane.api;
    claim(&world, "attached", None);
    pod(&world, "p", "attached");
    let allocated = world
        .plane
        .wait_for("the allocation", SOON, || {
            let claim = api.get(&claims(&world, "attached"))?;
            Ok(claim["status"]["reservedFor"].is_array().then_some(claim))
        })
        .unwrap();
    let told = wait_event(world.plane, &world.name, "p", "BindingConditionsPending");
    let note = format!("waiting for binding conditions for device on node {}", world.node_name("0"));
    assert_eq!((&told["note"], &told["type"]), (&json!(note), &json!("Normal")));
    assert!(world.get("p")["spec"]["nodeName"].is_null());

    let result = &allocated["status"]["allocation"]["devices"]["results"][0];
    let condition = json!({
        "type": "Attached", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let ready = json!({
        "driver": result["driver"], "pool": result["pool"], "device": result["device"], "conditions": [condition],
    });
    let status = json!({"status": {"devices": [ready]}});
    api.patch(&format!("{}/status", claims(&world, "attached")), Patch::Merge, &status).unwrap();
    assert_eq!(world.bound("p"), "0");
    let labels = format!("{{profile=\"{}\",driver=\"{DRIVER}\",status=\"success\"}} 1", world.name);
    let counted = ["allocations_total", "wait_duration_seconds_count"]
        .map(|name| format!("scheduler_dra_bindingconditions_{name}{labels}"));
    let is_counted = || {
        let (_, page) = world.operator.page("/metrics")?;
        Ok(counted.iter().all(|line| page.lines().any(|served| served == line)).then_some(()))
    };
    world.plane.wait_for("the wait in the metrics", SOON, is_counted).unwrap();
}

/// The claims that were made for the pod's extended resources.
fn made_for(world: &World, pod: &Value) -> Vec<Value> {
    let all = world.plane.api.get(&claims(world, "")).unwrap();
    let mut all = all["items"].as_array().unwrap().clone();
    all.retain(|claim| claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]);
    all
}

#[test]
fn an_extended_resource_is_provided_by_devices_or_by_a_plugin() {
    if !minor::is_ours() {
        return;
    }
    let world = World::with("extended", &json!({}), 2);
    let resource = "extended.lab.berth.dev/gpu";
    publish(&world);
    let api = &world.plane.api;
    let named = json!({"spec": {"extendedResourceName": resource}});
    api.patch(&format!("{API}/deviceclasses/{}", world.name), Patch::Merge, &named).unwrap();
    let asking = |name: &str, amount: &str| {
        world.pod(name, "100m", |pod| {
            let requests = json!({"cpu": "100m", resource: amount});
            pod["spec"]["containers"][0]["resources"] = json!({"requests": requests, "limits": requests});
        })
    };

    let first = asking("first", "2");
    assert_eq!(world.bound("first"), "0");
    let [claim] = &made_for(&world, &first)[..] else { panic!("one claim") };
    let name = claim["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("first-extended-resources-"), "{name}");
    assert_eq!(claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"], "true");
    assert_eq!(claim["metadata"]["finalizers"][0], "resource.kubernetes.io/delete-protection");
    assert_eq!(claim["spec"]["devices"]["requests"][0]["exactly"]["count"], 2);
    assert_eq!(claim["status"]["allocation"]["devices"]["results"].as_array().unwrap().len(), 2);
    assert_eq!(claim["status"]["reservedFor"][0]["uid"], first["metadata"]["uid"]);
    let told = &world.get("first")["status"]["extendedResourceClaimStatus"];
    let container = &first["spec"]["containers"][0]["name"];
    let mapping = json!({"containerName": container, "resourceName": resource, "requestName": "container-0-request-1"});
    assert_eq!(*told, json!({"resourceClaimName": name, "requestMappings": [mapping]}));

    // No devices are left. What was made for the first goes with it, and the second gets them.
    let second = asking("second", "1");
    world.says("second", "0/2 nodes are available: 2 cannot allocate all claims.");
    assert!(made_for(&world, &second).is_empty());
    let release = json!({"metadata": {"finalizers": null}});
    api.patch(&claims(&world, name), Patch::Merge, &release).unwrap();
    api.delete(&claims(&world, name), None).unwrap();
    assert_eq!(world.bound("second"), "0");
    assert_eq!(made_for(&world, &second).len(), 1);

    // A node with a device plugin is as good, and needs no claim.
    let third = asking("third", "2");
    world.says("third", "0/2 nodes are available: 2 cannot allocate all claims.");
    world.node("plugin", "1", |node| node.resource(resource, "2"));
    assert_eq!(world.bound("third"), "plugin");
    assert!(made_for(&world, &third).is_empty());
}

/// Makes a claim for the pod's extended resources, as `manager`.
fn leave(world: &World, name: &str, pod: &Value, manager: &str) {
    let (uid, of) = (&pod["metadata"]["uid"], &pod["metadata"]["name"]);
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": of, "uid": uid, "controller": true});
    let left = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": name, "ownerReferences": [owner],
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": "container-0-request-1", "exactly": {"deviceClassName": world.name}}]}},
    });
    world.plane.api.post(&format!("{}?fieldManager={manager}", claims(world, "")), &left).unwrap();
}

/// A process that ended between its writes has left the claim, and no profile serves the pod any more.
#[test]
fn a_claim_of_ours_that_no_profile_looks_after_is_deleted_and_that_of_another_scheduler_stays() {
    if !minor::is_ours() {
        return;
    }
    let world = World::with("abandoned", &json!({}), 1);
    publish(&world);
    let pod = world.pod("p", "100m", |pod| pod["spec"]["schedulerName"] = json!("nobody-serves-this"));
    leave(&world, "theirs", &pod, "kube-scheduler");
    leave(&world, "ours", &pod, "berth");
    let are_left = |names: &[&str]| {
        let left = made_for(&world, &pod);
        left.iter().map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>() == names
    };
    assert!(are_left(&["ours", "theirs"]));
    world.plane.wait_for("the end of our claim", LATER, || Ok(are_left(&["theirs"]).then_some(()))).unwrap();
}

/// A process that ended between its writes has left the claim.
#[test]
fn the_claim_of_an_attempt_before_is_deleted_and_the_pod_placed() {
    if !minor::is_ours() {
        return;
    }
    let world = World::with("leftover", &json!({}), 2);
    let resource = "leftover.lab.berth.dev/gpu";
    publish(&world);
    let api = &world.plane.api;
    let named = json!({"spec": {"extendedResourceName": resource}});
    api.patch(&format!("{API}/deviceclasses/{}", world.name), Patch::Merge, &named).unwrap();
    let pod = world.pod("p", "100m", |pod| {
        pod["spec"]["schedulingGates"] = json!([{"name": "example.com/later"}]);
        let requests = json!({"cpu": "100m", resource: "1"});
        pod["spec"]["containers"][0]["resources"] = json!({"requests": requests, "limits": requests});
    });
    leave(&world, "left", &pod, "berth");
    let open = json!([{"op": "remove", "path": "/spec/schedulingGates"}]);
    api.patch(&crate::objects::pod_path(&world.name, "p"), Patch::Json, &open).unwrap();
    assert_eq!(world.bound("p"), "0");
    let made = made_for(&world, &pod);
    assert!(made.len() == 1 && made[0]["metadata"]["name"] != "left", "{made:?}");
}
