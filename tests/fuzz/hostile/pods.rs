//! Pods that list much: each list of a pod that a scheduler reads, alone and together, around and far beyond its limit.

use super::World;
use crate::choices::Choices;
use berth_core::limits;
use serde_json::{Value, json};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Labels that one pod is drawn with at most: with eight times as many it is as large as an object may be.
const LABELS: usize = 2_000;

/// Draws so many entries of one list into a pod.
type Draw = fn(&mut Choices<'_>, &World, usize, &mut Value);

/// What a pod may have much of, and the number that counts as much.
const LISTS: [(usize, Draw); 17] = [
    (limits::SPREAD_CONSTRAINTS_PER_POD, spread),
    (limits::POD_AFFINITY_TERMS_PER_POD, |c, w, n, pod| terms(c, w, n, ("podAffinity", REQUIRED), pod)),
    (limits::POD_AFFINITY_TERMS_PER_POD, |c, w, n, pod| terms(c, w, n, ("podAntiAffinity", REQUIRED), pod)),
    (limits::POD_AFFINITY_TERMS_PER_POD, |c, w, n, pod| terms(c, w, n, ("podAffinity", PREFERRED), pod)),
    (limits::POD_AFFINITY_TERMS_PER_POD, |c, w, n, pod| terms(c, w, n, ("podAntiAffinity", PREFERRED), pod)),
    (limits::NODE_AFFINITY_TERMS_PER_POD, node_terms),
    (limits::NODE_AFFINITY_TERMS_PER_POD, preferred_nodes),
    (limits::SELECTOR_VALUES_PER_POD - 1, node_values),
    (limits::SELECTOR_VALUES_PER_POD, node_selector),
    (limits::TOLERATIONS_PER_POD, tolerations),
    (limits::HOST_PORTS_PER_POD, ports),
    (limits::SCALARS_PER_POD, scalars),
    (limits::CONTAINERS_PER_POD - 1, containers),
    (limits::STORAGE_PER_POD, volumes),
    (limits::STORAGE_PER_POD, disks),
    (LABELS, labels),
    (2, amounts),
];

/// Lists that are drawn together at their limits; what they share, the keys and values of all selectors, is divided.
const TOGETHER: [(usize, Draw); 9] = [
    (limits::SPREAD_CONSTRAINTS_PER_POD, spread),
    (limits::POD_AFFINITY_TERMS_PER_POD, |c, w, n, pod| terms(c, w, n, ("podAffinity", PREFERRED), pod)),
    (limits::POD_AFFINITY_TERMS_PER_POD, |c, w, n, pod| terms(c, w, n, ("podAntiAffinity", REQUIRED), pod)),
    (limits::POD_AFFINITY_TERMS_PER_POD, |c, w, n, pod| terms(c, w, n, ("podAntiAffinity", PREFERRED), pod)),
    (limits::NODE_AFFINITY_TERMS_PER_POD, node_terms),
    (limits::TOLERATIONS_PER_POD, tolerations),
    (limits::HOST_PORTS_PER_POD, ports),
    (limits::SCALARS_PER_POD, scalars),
    (limits::CONTAINERS_PER_POD - 1, containers),
];

/// A pod without a node, hostile or not.
pub(super) fn pending(choices: &mut Choices<'_>, world: &World, index: usize) -> Value {
    let mut pod = plain(choices, &format!("pending-{index}"));
    pod["spec"]["priority"] = choices.pick(&[0, 0, 10, 1_000_000_000, -10]).into();
    if choices.one_in(3) {
        pod["metadata"]["ownerReferences"] = controller(choices);
    }
    make_hostile(choices, world, &mut pod);
    if choices.one_in(12) {
        pod["status"] = json!({"phase": "Pending", "nominatedNodeName": world.node(choices)});
    }
    pod
}

/// A pod on a node, or on one that does not exist.
pub(super) fn placed(choices: &mut Choices<'_>, world: &World, index: usize) -> Value {
    let mut pod = plain(choices, &format!("placed-{index}"));
    if choices.one_in(3) {
        make_hostile(choices, world, &mut pod);
    }
    pod["metadata"]["labels"][format!("own-{}", index % 7)] = format!("{index}").into();
    let node = if choices.one_in(16) { format!("ghost-{index}") } else { world.node(choices) };
    pod["spec"]["nodeName"] = node.into();
    if choices.one_in(4) {
        pod["metadata"]["ownerReferences"] = controller(choices);
    }
    pod["status"] = json!({"phase": "Running"});
    pod
}

/// One of the ReplicaSets that may be there.
fn controller(choices: &mut Choices<'_>) -> Value {
    let name = format!("set-{}", choices.below(3));
    json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": true}])
}

pub(super) fn plain(choices: &mut Choices<'_>, name: &str) -> Value {
    let labels = json!({"app": choices.pick(&["web", "db", "web"])});
    let requests = json!({"cpu": "10m", "memory": "16Mi"});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": choices.pick(&["a", "a", "b"]), "uid": name, "labels": labels},
        "spec": {"schedulerName": super::SCHEDULER,
            "containers": [{"name": "c", "image": "app:1", "resources": {"requests": requests}}]}})
}

fn make_hostile(choices: &mut Choices<'_>, world: &World, pod: &mut Value) {
    if choices.one_in(10) {
        for (limit, draw) in TOGETHER {
            draw(choices, world, limit, pod);
        }
        return;
    }
    for _ in 0..choices.below(4) {
        let (limit, draw) = choices.pick(&LISTS);
        let count = length(choices, limit);
        draw(choices, world, count, pod);
    }
}

/// How many entries a list gets: few, many, as many as are taken, one more, or far more.
fn length(choices: &mut Choices<'_>, limit: usize) -> usize {
    match choices.byte() {
        0..=99 => 1 + choices.below(4),
        100..=149 => limit / 8 + 1,
        150..=224 => limit,
        225..=239 => limit + 1,
        _ => limit * 8,
    }
}

/// The list at `path`, put there where there is none.
fn list<'p>(pod: &'p mut Value, path: &[&str]) -> &'p mut Vec<Value> {
    let mut place = pod;
    for part in path {
        place = &mut place[*part];
    }
    if place.is_null() {
        *place = json!([]);
    }
    place.as_array_mut().unwrap()
}

/// A way to select pods; its entries differ by their number.
#[derive(Clone, Copy)]
struct Style {
    selector: u8,
    key: u8,
    scope: u8,
    values: usize,
}

impl Style {
    /// For a list of `count` terms whose values together are not too many.
    fn draw(choices: &mut Choices<'_>, count: usize) -> Self {
        let most = limits::SELECTOR_VALUES_PER_POD / 8 / count;
        let values = if choices.one_in(4) { most } else { choices.below(3).min(most) };
        Self { selector: choices.byte() % 5, key: choices.byte() % 5, scope: choices.byte() % 4, values }
    }

    fn selector(self, number: usize) -> Value {
        match self.selector {
            0 => json!({}),
            1 => json!({"matchLabels": {"app": "web"}}),
            2 => json!({"matchLabels": {"app": "web", format!("own-{}", number % 7): format!("{number}")}}),
            3 => json!({"matchExpressions": [{"key": "nobody", "operator": "DoesNotExist"},
                {"key": "app", "operator": "NotIn", "values": values(number, self.values + 1)}]}),
            _ => {
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": values(number, self.values + 1)}]})
            }
        }
    }

    fn topology_key(self, world: &World, number: usize) -> String {
        match self.key {
            0 => "kubernetes.io/hostname".to_owned(),
            1 => "topology.kubernetes.io/zone".to_owned(),
            2 => format!("example.com/invented-{number}"),
            _ => world.key(number),
        }
    }

    fn term(self, world: &World, number: usize) -> Value {
        let mut term = json!({"topologyKey": self.topology_key(world, number), "labelSelector": self.selector(number)});
        match self.scope {
            0 => term["namespaceSelector"] = json!({}),
            1 => term["namespaces"] = json!(["a", "b", format!("of-{number}")]),
            2 => term["namespaceSelector"] = json!({"matchLabels": {"team": "a"}}),
            _ => {}
        }
        term
    }
}

/// Values of a selector: some that pods have, and many that none has.
fn values(number: usize, count: usize) -> Vec<String> {
    (0..count).map(|i| if i == 0 { "web".to_owned() } else { format!("value-{number}-{i}") }).collect()
}

fn spread(choices: &mut Choices<'_>, world: &World, count: usize, pod: &mut Value) {
    let style = Style::draw(choices, count);
    let hard = choices.below(3);
    let (affinity, taints) = (choices.pick(&["Honor", "Ignore"]), choices.pick(&["Ignore", "Honor"]));
    let constraint = |number: usize| {
        // No two constraints have the same key.
        let key = match number {
            0 => "kubernetes.io/hostname".to_owned(),
            1 => "topology.kubernetes.io/zone".to_owned(),
            _ if style.key == 2 => format!("example.com/invented-{number}"),
            _ => world.key(number),
        };
        let is_hard = hard == 0 || hard == 1 && number.is_multiple_of(2);
        json!({"maxSkew": 1 + number % 3, "topologyKey": key, "labelSelector": style.selector(number),
            "whenUnsatisfiable": if is_hard { "DoNotSchedule" } else { "ScheduleAnyway" },
            "nodeAffinityPolicy": affinity, "nodeTaintsPolicy": taints})
    };
    pod["spec"]["topologySpreadConstraints"] = (0..count).map(constraint).collect();
}

fn terms(choices: &mut Choices<'_>, world: &World, count: usize, (kind, when): (&str, &str), pod: &mut Value) {
    let style = Style::draw(choices, count);
    let term = |number: usize| {
        let term = style.term(world, number);
        if when == REQUIRED { term } else { json!({"weight": 1 + number % 100, "podAffinityTerm": term}) }
    };
    pod["spec"]["affinity"][kind][when] = (0..count).map(term).collect();
}

fn node_term(style: Style, world: &World, number: usize) -> Value {
    match style.selector {
        0 => json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [format!("node-{number}")]}]}),
        1 => json!({"matchExpressions": [{"key": "rank", "operator": "Gt", "values": [format!("{number}")]}]}),
        2 => json!({"matchExpressions": [{"key": world.key(number), "operator": "Exists"}]}),
        3 => {
            json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values(number, style.values + 1)}]})
        }
        _ => {
            let names: Vec<String> = (0..=style.values).map(|i| format!("node-{}", number * 31 + i)).collect();
            json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": names}]})
        }
    }
}

fn node_terms(choices: &mut Choices<'_>, world: &World, count: usize, pod: &mut Value) {
    let style = Style::draw(choices, count);
    let terms = list(pod, &["spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"]);
    terms.extend((0..count).map(|number| node_term(style, world, number)));
}

fn preferred_nodes(choices: &mut Choices<'_>, world: &World, count: usize, pod: &mut Value) {
    // A preferred term has no fields.
    let style = Style { selector: 1 + choices.byte() % 4, ..Style::draw(choices, count) };
    let term = |number| json!({"weight": 1 + number % 100, "preference": node_term(style, world, number)});
    pod["spec"]["affinity"]["nodeAffinity"][PREFERRED] = (0..count).map(term).collect();
}

/// One expression with many values.
fn node_values(choices: &mut Choices<'_>, _: &World, count: usize, pod: &mut Value) {
    let operator = choices.pick(&["In", "NotIn"]);
    let names: Vec<String> = (0..count).map(|i| format!("node-{}", i * 3)).collect();
    let expression = json!({"key": "kubernetes.io/hostname", "operator": operator, "values": names});
    list(pod, &["spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"])
        .push(json!({"matchExpressions": [expression]}));
}

fn node_selector(choices: &mut Choices<'_>, world: &World, count: usize, pod: &mut Value) {
    let is_there = choices.one_in(2);
    for number in 0..count {
        let key = if is_there { world.key(number) } else { format!("example.com/invented-{number}") };
        pod["spec"]["nodeSelector"][key] = "0".into();
    }
}

fn tolerations(choices: &mut Choices<'_>, _: &World, count: usize, pod: &mut Value) {
    let style = choices.below(3);
    let toleration = |number: usize| match style {
        0 => json!({"key": format!("dedicated-{number}"), "operator": "Exists"}),
        1 => json!({"key": format!("dedicated-{number}"), "operator": "Equal", "value": "a", "effect": "NoSchedule"}),
        _ => {
            json!({"key": "dedicated-0", "operator": "Equal", "value": format!("{number}"), "effect": "PreferNoSchedule"})
        }
    };
    pod["spec"]["tolerations"] = (0..count).map(toleration).collect();
}

fn ports(choices: &mut Choices<'_>, _: &World, count: usize, pod: &mut Value) {
    let first = 1 + choices.below(3) * 20_000;
    let protocol = choices.pick(&["TCP", "UDP"]);
    let with_address = choices.one_in(2);
    let port = |number: usize| {
        let mut port = json!({"containerPort": first + number, "hostPort": first + number, "protocol": protocol});
        if with_address {
            port["hostIP"] = format!("10.0.{}.{}", number / 250, 1 + number % 250).into();
        }
        port
    };
    pod["spec"]["containers"][0]["ports"] = (0..count).map(port).collect();
}

fn scalars(choices: &mut Choices<'_>, _: &World, count: usize, pod: &mut Value) {
    let offered = choices.one_in(2);
    let amount = choices.pick(&["1", "0", "9007199254740991"]);
    let requests = &mut pod["spec"]["containers"][0]["resources"];
    for number in 0..count {
        let name = if offered { format!("example.com/device-{number}") } else { format!("example.com/no-{number}") };
        requests["requests"][&name] = amount.into();
        requests["limits"][&name] = amount.into();
    }
}

fn containers(choices: &mut Choices<'_>, _: &World, count: usize, pod: &mut Value) {
    let kind = if choices.one_in(3) { "initContainers" } else { "containers" };
    let known = choices.one_in(2);
    let container = |number: usize| {
        let image = if known { format!("image-{number}:1") } else { format!("registry.example.com/no/{number}") };
        json!({"name": format!("c{number}"), "image": image})
    };
    list(pod, &["spec", kind]).extend((0..count).map(container));
}

/// Volumes with claims: of the cluster, or that do not exist, or made for the pod.
fn volumes(choices: &mut Choices<'_>, _: &World, count: usize, pod: &mut Value) {
    let style = choices.below(4);
    let volume = |number: usize| {
        let name = format!("v{number}");
        match style {
            0 | 1 => json!({"name": name, "persistentVolumeClaim": {"claimName": format!("claim-{number}")}}),
            2 => json!({"name": name, "persistentVolumeClaim": {"claimName": "none"}}),
            _ => {
                json!({"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}})
            }
        }
    };
    list(pod, &["spec", "volumes"]).extend((0..count).map(volume));
}

/// Volumes with disks that are named in the pod.
fn disks(choices: &mut Choices<'_>, _: &World, count: usize, pod: &mut Value) {
    let style = choices.below(4);
    let volume = |number: usize| {
        let mut volume = json!({"name": format!("d{number}")});
        let (kind, disk) = match style {
            0 => ("awsElasticBlockStore", json!({"volumeID": format!("vol-{number}")})),
            1 => {
                ("gcePersistentDisk", json!({"pdName": format!("disk-{number}"), "readOnly": number.is_multiple_of(2)}))
            }
            2 => ("rbd", json!({"monitors": [format!("m{number}"), "m"], "image": format!("i{number}"), "pool": "p"})),
            _ => (
                "iscsi",
                json!({"targetPortal": "10.0.0.1", "iqn": format!("iqn.2026-01.com.example:{number}"), "lun": 0}),
            ),
        };
        volume[kind] = disk;
        volume
    };
    list(pod, &["spec", "volumes"]).extend((0..count).map(volume));
}

fn labels(choices: &mut Choices<'_>, _: &World, count: usize, pod: &mut Value) {
    let version = choices.byte();
    put_labels(pod, count, usize::from(version));
}

/// Labels whose values are those of one version of the pod.
pub(super) fn put_labels(pod: &mut Value, count: usize, version: usize) {
    for number in 0..count {
        pod["metadata"]["labels"][format!("label-{number}")] = format!("{version:0>50}").into();
    }
}

fn amounts(choices: &mut Choices<'_>, _: &World, count: usize, pod: &mut Value) {
    let huge = ["9223372036854775807", "8Ei", "9007199254740993", "1e18", "100m", "0"];
    let containers = list(pod, &["spec", "containers"]);
    for container in containers.iter_mut().take(count) {
        for resource in ["cpu", "memory", "ephemeral-storage"] {
            container["resources"]["requests"][resource] = choices.pick(&huge).into();
        }
    }
}
