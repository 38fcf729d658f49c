//! Extended resources, for which classes stand and which some nodes offer.

use crate::pods::POD;
use crate::random::Random;
use serde_json::{Value, json};

pub(crate) const ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";

/// Adds some to the pod, and to the cluster.
pub(crate) fn add(random: &Random, question: &mut Value) {
    let names = ["x.example/a", "x.example/b"];
    let mut all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let classes = question["classes"].as_array_mut().unwrap();
    // Where two classes name one resource, upstream's index depends on who came first.
    for name in names {
        let at = random.below(classes.len());
        if classes[at]["spec"].get("extendedResourceName").is_none() && random.percent(80) {
            classes[at]["spec"]["extendedResourceName"] = json!(name);
        }
    }
    let implicit = classes[random.below(classes.len())]["metadata"]["name"].as_str().unwrap();
    all.push(format!("deviceclass.resource.kubernetes.io/{implicit}"));
    for node in question["nodes"].as_array_mut().unwrap() {
        for name in all.iter().filter(|_| random.percent(25)) {
            node["status"]["allocatable"][name] = json!((1 + random.below(3)).to_string());
        }
    }
    // Names of requests are sorted as texts: the tenth container comes before the second.
    let (most, asks) = if random.percent(6) { (10 + random.below(3), 12) } else { (random.between(1, 3), 45) };
    let container = |name: String| {
        let mut requests = json!({"cpu": "100m"});
        for name in all.iter().filter(|_| random.percent(asks)) {
            requests[name] = json!(random.below(3).to_string());
        }
        json!({"name": name, "image": "i", "resources": {"requests": requests}})
    };
    let spec = &mut question["pod"]["spec"];
    spec["containers"] = (0..most).map(|index| container(format!("c{index}"))).collect();
    let init = |index| {
        let mut init = container(format!("i{index}"));
        if random.percent(30) {
            init["restartPolicy"] = json!("Always");
        }
        init
    };
    spec["initContainers"] = (0..random.below(3)).map(init).collect();
    if random.percent(40) {
        question["pod"]["spec"].as_object_mut().unwrap().remove("resourceClaims");
    }
    if random.percent(8) {
        let left = leftover();
        question["claims"].as_array_mut().unwrap().push(left);
    }
}

/// The claim of an attempt before.
fn leftover() -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": POD, "controller": true});
    let request =
        json!({"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}});
    json!({
        "metadata": {
            "namespace": "default", "name": "leftover", "uid": "leftover", "resourceVersion": "3",
            "annotations": {ANNOTATION: "true"}, "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": [request]}},
        "status": {},
    })
}

/// Whether the pod has claims of its own, and devices need not provide any of its extended resources on some node: there upstream makes a
/// claim of nothing, and the pod fails for ever.
pub(crate) fn may_make_a_claim_of_nothing(question: &Value) -> bool {
    let spec = &question["pod"]["spec"];
    if spec["resourceClaims"].as_array().is_none_or(Vec::is_empty) {
        return false;
    }
    let lists = ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array());
    let requests = lists.flatten().filter_map(|container| container["resources"]["requests"].as_object()).flatten();
    let wanted: Vec<&str> = requests.filter(|(_, amount)| *amount != "0").map(|(name, _)| &**name).collect();
    let classes = question["classes"].as_array().unwrap();
    let is_backed = |name: &str| {
        let of_class = |class: &Value| {
            let implicit =
                format!("deviceclass.resource.kubernetes.io/{}", class["metadata"]["name"].as_str().unwrap());
            class["spec"]["extendedResourceName"] == name || implicit == name
        };
        classes.iter().any(of_class)
    };
    let backed: Vec<&str> = wanted.into_iter().filter(|name| is_backed(name)).collect();
    let nodes = question["nodes"].as_array().unwrap();
    let offers_all = |node: &Value| backed.iter().all(|name| node["status"]["allocatable"].get(name).is_some());
    !backed.is_empty() && nodes.iter().any(offers_all)
}
