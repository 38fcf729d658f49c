//! A reported change, made in the manifests as a reader of the answer would make it.

use serde_json::{Map, Value, json};

const CORDON: &str = "node.kubernetes.io/unschedulable";

/// Makes `change` in `objects` for the pod `namespace/name`; false if that is not one place in the manifests.
pub fn apply(change: &Value, objects: &mut Vec<Value>, (namespace, name): (&str, &str)) -> bool {
    let kind = change["kind"].as_str().unwrap();
    let (from, to, field) = (&change["from"], &change["to"], change["field"].as_str().unwrap());
    let node_name = change["node"].as_str().unwrap();
    match kind {
        "Uncordon" => {
            let node = node(objects, node_name);
            node["spec"]["unschedulable"] = json!(false);
            if let Some(taints) = node["spec"]["taints"].as_array_mut() {
                taints.retain(|taint| taint["key"] != CORDON);
            }
        }
        "LabelNode" => set(&mut node(objects, node_name)["metadata"]["labels"], in_brackets(field), to),
        "RemoveTaint" | "RecoverNode" => {
            let kept: Vec<&str> = to.as_array().unwrap().iter().map(|taint| taint.as_str().unwrap()).collect();
            let taints = node(objects, node_name)["spec"]["taints"].as_array_mut().unwrap();
            taints.retain(|taint| kept.contains(&&*spelled(taint)));
        }
        "AddNode" => {
            let new = another(node(objects, node_name), field.strip_prefix("node ").unwrap());
            objects.push(new);
        }
        "RemovePod" => {
            let (namespace, name) = field.strip_prefix("pod ").unwrap().split_once('/').unwrap();
            let before = objects.len();
            objects.retain(|o| !(o["kind"] == "Pod" && key(o) == (namespace, name)));
            assert_eq!(objects.len() + 1, before, "{change}");
        }
        "Together" => {
            for part in to.as_array().unwrap() {
                let mut part = part.clone();
                part["node"] = json!(node_name);
                if !apply(&part, objects, (namespace, name)) {
                    return false;
                }
            }
        }
        "FixClaim" => fix_claim(field, objects, (namespace, name)),
        _ => {
            let pod = objects.iter_mut().find(|o| o["kind"] == "Pod" && key(o) == (namespace, name)).unwrap();
            return apply_to_pod(kind, pod, field, from, to);
        }
    }
    true
}

fn key(object: &Value) -> (&str, &str) {
    (object["metadata"]["namespace"].as_str().unwrap_or("default"), object["metadata"]["name"].as_str().unwrap())
}

fn node<'o>(objects: &'o mut [Value], name: &str) -> &'o mut Value {
    objects.iter_mut().find(|o| o["kind"] == "Node" && o["metadata"]["name"] == name).unwrap()
}

fn apply_to_pod(kind: &str, pod: &mut Value, field: &str, from: &Value, to: &Value) -> bool {
    match kind {
        "LowerRequest" => return request(pod, &[(in_brackets(field), to)]),
        "LowerRequests" => {
            let amounts: Vec<(&str, &Value)> = to.as_object().unwrap().iter().map(|(k, v)| (&**k, v)).collect();
            return request(pod, &amounts);
        }
        "LabelPod" => set(&mut pod["metadata"]["labels"], in_brackets(field), to),
        "ChangeNodeSelector" | "DropNodeSelector" => set(&mut pod["spec"]["nodeSelector"], in_brackets(field), to),
        "ChangeHostPort" => move_port(pod, field, from, to),
        _ => at(pod, field, to),
    }
    true
}

/// Sets what stands at a path such as `spec.a.b[1].c`; null takes it away.
fn at(pod: &mut Value, field: &str, to: &Value) {
    let mut steps: Vec<String> = Vec::new();
    for part in field.split('.') {
        let mut pieces = part.split('[');
        steps.push(pieces.next().unwrap().to_owned());
        steps.extend(pieces.map(|index| index.trim_end_matches(']').to_owned()));
    }
    let last = steps.pop().unwrap();
    let mut here = pod;
    for step in &steps {
        here = match step.parse::<usize>() {
            Ok(index) => &mut here[index],
            Err(_) => &mut here[&**step],
        };
    }
    match (last.parse::<usize>(), to.is_null()) {
        (Ok(index), true) => {
            here.as_array_mut().unwrap().remove(index);
        }
        (Ok(index), false) => {
            if here.is_null() {
                *here = json!([]);
            }
            here.as_array_mut().unwrap().insert(index, to.clone());
        }
        (Err(_), true) => {
            here.as_object_mut().unwrap().remove(&last).unwrap();
        }
        (Err(_), false) => here[&*last] = to.clone(),
    }
}

fn in_brackets(field: &str) -> &str {
    field.rsplit_once('[').unwrap().1.trim_end_matches(']')
}

fn set(map: &mut Value, key: &str, to: &Value) {
    if map.is_null() {
        *map = json!({});
    }
    match to {
        Value::Null => drop(map.as_object_mut().unwrap().remove(key).unwrap()),
        to => map[key] = to.clone(),
    }
}

/// False unless the pod's amounts stand in one place, so that it is clear where to write less.
fn request(pod: &mut Value, amounts: &[(&str, &Value)]) -> bool {
    let spec = &mut pod["spec"];
    let one = |list: &Value, many: usize| list.as_array().map_or(0, Vec::len) == many;
    let plain = one(&spec["containers"], 1)
        && one(&spec["initContainers"], 0)
        && spec["overhead"].is_null()
        && spec["resources"].is_null();
    if plain {
        for (name, to) in amounts {
            set(&mut spec["containers"][0]["resources"]["requests"], name, to);
        }
    }
    plain
}

/// `spec.containers[*].ports[hostPort=80,protocol=TCP].hostPort`.
fn move_port(pod: &mut Value, field: &str, from: &Value, to: &Value) {
    let inside = field.split_once("ports[").unwrap().1.split_once(']').unwrap().0;
    let parts: Map<String, Value> = inside
        .split(',')
        .map(|part| part.split_once('=').unwrap())
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect();
    let host_network = pod["spec"]["hostNetwork"] == true;
    let text =
        |value: &Value, default: &str| value.as_str().filter(|text| !text.is_empty()).unwrap_or(default).to_owned();
    for list in ["containers", "initContainers"] {
        let containers = pod["spec"][list].as_array_mut().into_iter().flatten();
        for port in containers.filter_map(|container| container["ports"].as_array_mut()).flatten() {
            let own = port["hostPort"].as_u64().filter(|own| *own > 0);
            let own = own.or_else(|| port["containerPort"].as_u64().filter(|_| host_network));
            let is_it = own == from.as_u64()
                && text(&port["protocol"], "TCP") == parts["protocol"]
                && text(&port["hostIP"], "0.0.0.0") == parts.get("hostIP").map_or("0.0.0.0", |ip| ip.as_str().unwrap());
            if is_it {
                port["hostPort"] = to.clone();
            }
        }
    }
}

fn spelled(taint: &Value) -> String {
    let text = |field: &str| taint[field].as_str().unwrap_or_default();
    let value = if text("value").is_empty() { String::new() } else { format!("={}", text("value")) };
    format!("{}{value}:{}", text("key"), text("effect"))
}

/// An empty, healthy node of the same sort.
fn another(like: &Value, name: &str) -> Value {
    let mut node = like.clone();
    node["metadata"]["name"] = json!(name);
    node["metadata"]["uid"] = json!(name);
    if like["metadata"]["labels"]["kubernetes.io/hostname"].is_string() {
        node["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name);
    }
    for (part, field) in [("spec", "unschedulable"), ("status", "images"), ("status", "conditions")] {
        node[part].as_object_mut().and_then(|map| map.remove(field));
    }
    if let Some(taints) = node["spec"]["taints"].as_array_mut() {
        taints.retain(|taint| !taint["key"].as_str().unwrap().starts_with("node.kubernetes.io/"));
    }
    node
}

/// The claim is there and bound to a volume that every node can use.
fn fix_claim(field: &str, objects: &mut Vec<Value>, pod: (&str, &str)) {
    let (namespace, name) = field.strip_prefix("persistentvolumeclaim ").unwrap().split_once('/').unwrap();
    let owner = objects.iter().find(|o| o["kind"] == "Pod" && key(o) == pod).unwrap()["metadata"]["uid"].clone();
    let volume = format!("fixed-{namespace}-{name}");
    let at = objects.iter().position(|o| o["kind"] == "PersistentVolumeClaim" && key(o) == (namespace, name));
    let mut claim = at.map_or_else(
        || {
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": namespace, "uid": format!("claim-{name}"),
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod.1, "uid": owner, "controller": true}]},
                "spec": {"accessModes": ["ReadWriteOnce"]}})
        },
        |at| objects.remove(at),
    );
    claim["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
    claim["spec"]["volumeName"] = json!(volume);
    claim["status"] = json!({"phase": "Bound"});
    let modes = claim["spec"]["accessModes"].clone();
    objects.push(json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": volume, "uid": volume},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": modes, "hostPath": {"path": "/data"},
            "storageClassName": claim["spec"]["storageClassName"],
            "claimRef": {"name": name, "namespace": namespace, "uid": claim["metadata"]["uid"]}},
        "status": {"phase": "Bound"}}));
    objects.push(claim);
}
