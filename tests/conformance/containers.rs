//! Containers, and all that a pod says of resources: pod level, overhead, resizes.

use super::cluster::World;
use super::draw::{Draw, Theme};
use serde_json::{Map, Value, json};

/// Amounts of CPU, odd ones too.
const CPU: [&str; 13] =
    ["100m", "250m", "1", "0", "0.1", "1500m", "333m", "2", "0.0005", "1e-1", "700m", "100500u", "4"];
const MEMORY: [&str; 13] =
    ["128Mi", "200Mi", "1Gi", "0", "100M", "1.5Gi", "123456789", "1Ki", "0.5", "512Mi", "128974848000m", "2Gi", "1e9"];
const STORAGE: [&str; 5] = ["1Gi", "500M", "0", "20Gi", "1"];
const HUGE: [&str; 4] = ["2Mi", "64Mi", "32Mi", "0"];
const COUNT: [&str; 4] = ["1", "2", "0", "5"];
const SMALL_CPU: [&str; 4] = ["100m", "50m", "250m", "0"];
const SMALL_MEMORY: [&str; 4] = ["64Mi", "100M", "0", "256Mi"];

const IMAGES: [&str; 12] = [
    "web:v1",
    "registry.example.com:5000/db",
    "registry.example.com:5000/tool:latest",
    "cache",
    "cache:v2",
    "big@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "model",
    "side",
    "nowhere:v9",
    "empty",
    "registry.example.com/web:v1",
    "",
];

const PORTS: [i64; 4] = [80, 443, 8080, 0];
const ADDRESSES: [&str; 5] = ["", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::"];
const PROTOCOLS: [&str; 4] = ["", "TCP", "UDP", "SCTP"];

/// The containers of a pod, with the statuses of those that were resized.
pub struct Containers {
    main: Vec<Value>,
    init: Vec<Value>,
    statuses: Vec<Value>,
    init_statuses: Vec<Value>,
    level: Option<Value>,
    level_status: Option<(Value, Value)>,
    overhead: Option<Value>,
    conditions: Vec<Value>,
}

impl Containers {
    pub fn draw(draw: &mut Draw, world: &World, pending: bool) -> Self {
        let mut all = Self {
            main: Vec::new(),
            init: Vec::new(),
            statuses: Vec::new(),
            init_statuses: Vec::new(),
            level: None,
            level_status: None,
            overhead: None,
            conditions: Vec::new(),
        };
        let tight = world.is(Theme::Room) || world.is(Theme::Resized);
        let count = if draw.percent(if world.crowd.is_some() { 88 } else { 65 }) { 1 } else { draw.between(2, 3) };
        for index in 0..count {
            all.main.push(container(draw, world, &format!("c{index}"), pending));
        }
        if draw.percent(if tight { 45 } else { 8 }) {
            for index in 0..draw.between(1, 3) {
                let mut init = container(draw, world, &format!("i{index}"), pending);
                if draw.percent(45) {
                    init["restartPolicy"] = json!("Always");
                }
                all.init.push(init);
            }
        }
        if draw.percent(if tight { 15 } else { 2 }) {
            all.level = Some(pod_level(draw, tight));
        }
        if draw.percent(if tight { 12 } else { 3 }) {
            all.overhead = Some(requests(draw, tight, false));
        }
        all.resize(draw, world, pending);
        all
    }

    /// Statuses that say what containers really have.
    fn resize(&mut self, draw: &mut Draw, world: &World, pending: bool) {
        // No kubelet has said anything yet of a pod that runs nowhere.
        if pending || !world.percent(draw, Theme::Resized, 70, 1) {
            return;
        }
        for container in &self.main {
            self.statuses.extend(status(draw, container));
        }
        for container in &self.init {
            self.init_statuses.extend(status(draw, container));
        }
        if self.level.is_some() && draw.percent(60) {
            let allocated = if draw.percent(70) { pod_level(draw, true)["requests"].clone() } else { json!({}) };
            self.level_status = Some((pod_level(draw, true), allocated));
        }
        if draw.percent(40) {
            let reason = draw.pick(&["Infeasible", "Infeasible", "Deferred"]);
            self.conditions.push(json!({"type": "PodResizePending", "status": "True", "reason": reason}));
        }
    }

    pub fn write(self, spec: &mut Map<String, Value>, status: &mut Map<String, Value>) {
        spec.insert("containers".into(), Value::Array(self.main));
        let lists = [
            ("initContainers", self.init, true),
            ("containerStatuses", self.statuses, false),
            ("initContainerStatuses", self.init_statuses, false),
            ("conditions", self.conditions, false),
        ];
        for (field, list, of_spec) in lists {
            if !list.is_empty() {
                let part = if of_spec { &mut *spec } else { &mut *status };
                part.insert(field.into(), Value::Array(list));
            }
        }
        if let Some(level) = self.level {
            spec.insert("resources".into(), level);
        }
        if let Some((resources, allocated)) = self.level_status {
            status.insert("resources".into(), resources);
            status.insert("allocatedResources".into(), allocated);
        }
        if let Some(overhead) = self.overhead {
            spec.insert("overhead".into(), overhead);
        }
    }
}

fn container(draw: &mut Draw, world: &World, name: &str, pending: bool) -> Value {
    let tight = world.is(Theme::Room) || world.is(Theme::Resized);
    let mut container = Map::new();
    container.insert("name".into(), json!(name));
    let image = if world.percent(draw, Theme::Images, 90, 25) { draw.pick(&IMAGES) } else { "plain:v1" };
    container.insert("image".into(), json!(image));
    if !draw.percent(20) {
        let asked = match &world.crowd {
            Some(crowd) => crowd.requests(draw, pending),
            None => requests(draw, tight, true),
        };
        container.insert("resources".into(), json!({"requests": asked}));
    }
    if world.percent(draw, Theme::Ports, 70, 3) {
        let count = draw.between(1, 2);
        container.insert("ports".into(), (0..count).map(|_| port(draw)).collect());
    }
    if pending && world.percent(draw, Theme::Features, 40, 1) {
        let action = if draw.percent(80) { "RestartAllContainers" } else { "Restart" };
        container.insert(
            "restartPolicyRules".into(),
            json!([{"action": action, "exitCodes": {"operator": "In", "values": [42]}}]),
        );
    }
    Value::Object(container)
}

/// Requests; without scalars where `scalars` is not set.
fn requests(draw: &mut Draw, tight: bool, scalars: bool) -> Value {
    let mut requests = Map::new();
    let (cpu, memory): (&[&str], &[&str]) = if tight { (&CPU, &MEMORY) } else { (&SMALL_CPU, &SMALL_MEMORY) };
    if draw.percent(80) {
        requests.insert("cpu".into(), json!(draw.pick(cpu)));
    }
    if draw.percent(80) {
        requests.insert("memory".into(), json!(draw.pick(memory)));
    }
    if draw.percent(if tight { 20 } else { 4 }) {
        requests.insert("ephemeral-storage".into(), json!(draw.pick(&STORAGE)));
    }
    if scalars {
        for (name, amounts) in [
            ("example.com/gpu", &COUNT[..]),
            ("example.com/odd", &COUNT),
            ("other.io/fpga", &COUNT),
            ("hugepages-2Mi", &HUGE),
            ("kubernetes.io/thing", &COUNT),
            ("unprefixed", &COUNT),
            ("nobody.io/has-it", &COUNT),
        ] {
            let often = if name.starts_with("hugepages-") { 25 } else { 9 };
            if draw.percent(if tight { often } else { 1 }) {
                requests.insert(name.into(), json!(draw.pick(amounts)));
            }
        }
    }
    Value::Object(requests)
}

/// Amounts of the pod level, as an API server writes them: upstream adds the overhead to those of another form in
/// place, each time it looks at them.
fn pod_level(draw: &mut Draw, tight: bool) -> Value {
    let mut level = requests(draw, tight, false);
    for amount in level.as_object_mut().into_iter().flat_map(|amounts| amounts.values_mut()) {
        match amount.as_str() {
            Some("1.5Gi") => *amount = json!("1536Mi"),
            Some("0.1" | "1e-1") => *amount = json!("100m"),
            Some("0.5" | "0.0005") => *amount = json!("1"),
            Some("1e9" | "128974848000m" | "100500u") => *amount = json!("2"),
            _ => {}
        }
    }
    if draw.percent(25) {
        level["hugepages-2Mi"] = json!(draw.pick(&HUGE));
    }
    json!({"requests": level})
}

/// The status of a container: resized, set aside for, or neither.
fn status(draw: &mut Draw, container: &Value) -> Option<Value> {
    if draw.percent(15) {
        return None;
    }
    let mut status = json!({"name": container["name"]});
    if draw.percent(85) {
        status["resources"] = json!({"requests": requests(draw, true, false)});
    }
    if draw.percent(80) {
        status["allocatedResources"] = requests(draw, true, false);
    }
    Some(status)
}

fn port(draw: &mut Draw) -> Value {
    let mut port = json!({"containerPort": 8080, "hostPort": draw.pick(&PORTS)});
    for (field, values) in [("hostIP", &ADDRESSES[..]), ("protocol", &PROTOCOLS)] {
        let value = draw.pick(values);
        if !value.is_empty() {
            port[field] = json!(value);
        }
    }
    port
}
