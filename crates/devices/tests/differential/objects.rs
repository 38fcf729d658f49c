//! Slices and classes of a situation.

use crate::random::Random;
use crate::selectors::{ANY, GUARDED_A, LARGE, MODEL_A, NO_BOOL, NONE, OF_C, OF_D, SHARED, SIZE_1};
use serde_json::{Map, Value, json};

/// What a situation has besides plain devices: each kind is in some situations only, so that plain ones stay frequent.
#[expect(clippy::struct_excessive_bools, reason = "each is a thing of its own")]
pub(crate) struct Traits {
    pub(crate) counters: bool,
    pub(crate) shares: bool,
    pub(crate) taints: bool,
    pub(crate) binding: bool,
    pub(crate) per_device: bool,
    pub(crate) generations: bool,
    pub(crate) broken: bool,
    /// Pools of two drivers have one name, also pools with counters.
    pub(crate) same_names: bool,
    pub(crate) erring: bool,
}

impl Traits {
    pub(crate) fn draw(random: &Random) -> Self {
        Self {
            counters: random.percent(25),
            shares: random.percent(30),
            taints: random.percent(20),
            binding: random.percent(15),
            per_device: random.percent(20),
            generations: random.percent(15),
            broken: random.percent(12),
            same_names: random.percent(5),
            erring: random.percent(10),
        }
    }
}

pub(crate) const NODES: [&str; 3] = ["n1", "n0", "n2"];
const DRIVERS: [&str; 2] = ["d.example", "c.example"];
const POOLS: [&str; 4] = ["p", "a", "z", "n1"];
pub(crate) const CLASSES: [&str; 4] = ["any", "gpu", "drv", "big"];

pub(crate) fn node(random: &Random, name: &str) -> Value {
    let mut labels = json!({"zone": random.pick(&["a", "b"]), "arch": random.pick(&["x", "y"])});
    if random.percent(20) {
        labels["slots"] = json!(random.pick(&["1", "2"]));
    }
    json!({"metadata": {"name": name, "labels": labels}})
}

pub(crate) fn selector(random: &Random, traits: &Traits) -> Value {
    let expression = if traits.erring && random.percent(30) {
        random.pick(&[MODEL_A, SIZE_1, LARGE, NO_BOOL])
    } else {
        random.pick(&[ANY, ANY, ANY, OF_D, OF_D, OF_C, GUARDED_A, SHARED, if random.percent(15) { NONE } else { ANY }])
    };
    json!({"cel": {"expression": expression}})
}

fn some(random: &Random, most: usize, mut one: impl FnMut(&Random) -> Value) -> Value {
    let count = random.between(0, most);
    (0..count).map(|_| one(random)).collect()
}

pub(crate) fn opaque(random: &Random) -> Value {
    json!({"opaque": {"driver": random.pick(&DRIVERS), "parameters": {"mode": random.pick(&["x", "y"])}}})
}

pub(crate) fn classes(random: &Random, traits: &Traits) -> Value {
    let class = |name: &&str| {
        let mut spec = json!({"config": some(random, 2, opaque)});
        spec["selectors"] = match *name {
            "any" => json!([]),
            "drv" => json!([{"cel": {"expression": OF_D}}]),
            _ => some(random, 2, |random| selector(random, traits)),
        };
        json!({"metadata": {"name": name}, "spec": spec})
    };
    CLASSES.iter().map(class).collect()
}

/// A node selector, most often of one requirement.
fn node_selector(random: &Random) -> Value {
    let requirement = |random: &Random| match random.below(7) {
        0 => json!({"key": "zone", "operator": "NotIn", "values": ["a"]}),
        1 => json!({"key": "arch", "operator": "In", "values": ["x", "y"]}),
        2 => json!({"key": "arch", "operator": "In", "values": ["y", "x"]}),
        3 => json!({"key": "slots", "operator": random.pick(&["Exists", "DoesNotExist"])}),
        4 => json!({"key": "slots", "operator": random.pick(&["Gt", "Lt"]), "values": ["1"]}),
        _ => json!({"key": "zone", "operator": "In", "values": [random.pick(&["a", "b"])]}),
    };
    let mut term = json!({"matchExpressions": some(random, 2, requirement)});
    if random.percent(15) {
        term["matchFields"] = json!([{"key": "metadata.name", "operator": "In", "values": [random.pick(&NODES)]}]);
    }
    let terms = if random.percent(2) { json!([term, term]) } else { json!([term]) };
    json!({"nodeSelectorTerms": terms})
}

/// From which nodes a slice or a device can be used.
fn place(random: &Random, object: &mut Value, per_device: bool) {
    match random.below(if per_device { 8 } else { 6 }) {
        0 | 1 => object["nodeName"] = json!(random.pick(&["n1", "n1", "n1", "n0", "n2"])),
        2..=4 => object["allNodes"] = json!(true),
        5 => object["nodeSelector"] = node_selector(random),
        _ => object["perDeviceNodeSelection"] = json!(true),
    }
}

fn attributes(random: &Random) -> Value {
    let mut all = Map::new();
    let mut add = |random: &Random, id: &str, value: Value| {
        if random.percent(80) {
            let name = if random.percent(20) { format!("d.example/{id}") } else { id.to_owned() };
            all.insert(name, value);
        }
    };
    let model =
        if random.percent(5) { json!({"version": "1.0.0"}) } else { json!({"string": random.pick(&["a", "b"])}) };
    add(random, "model", model);
    let size = if random.percent(5) { json!({"string": "1"}) } else { json!({"int": random.between(1, 3)}) };
    add(random, "size", size);
    let fast = random.percent(50);
    add(random, "fast", json!({"bool": fast}));
    let fw = random.pick(&["1.0.0", "1.0.0+b", "2.0.0"]);
    add(random, "fw", json!({"version": fw}));
    Value::Object(all)
}

fn capacity(random: &Random, is_shared: bool) -> Value {
    let mut all = json!({});
    if random.percent(85) {
        let mut memory = json!({"value": random.pick(&["4Gi", "8Gi", "10Gi"])});
        if is_shared && random.percent(60) {
            let mut range = json!({"min": random.pick(&["1Gi", "500Mi"])});
            if random.percent(60) {
                range["step"] = json!(random.pick(&["1Gi", "512Mi"]));
            }
            if random.percent(40) {
                range["max"] = json!(random.pick(&["4Gi", "8Gi"]));
            }
            // What an API server takes: the default obeys the range.
            let default = if range.get("step").is_some() { range["min"].clone() } else { json!("2Gi") };
            memory["requestPolicy"] = json!({"validRange": range, "default": default});
        }
        all["memory"] = memory;
    }
    if random.percent(40) {
        let mut slots = json!({"value": random.pick(&["2", "4", "1500m"])});
        if is_shared && random.percent(50) {
            slots["requestPolicy"] = json!({"validValues": ["0", "1", "2"], "default": random.pick(&["0", "1"])});
        }
        all["slots"] = slots;
    }
    all
}

fn device(random: &Random, traits: &Traits, name: &str, per_device: bool, counters: bool) -> Value {
    let mut device = json!({"name": name, "attributes": attributes(random)});
    let is_shared = traits.shares && random.percent(50);
    if is_shared {
        device["allowMultipleAllocations"] = json!(true);
    }
    if traits.shares || random.percent(25) {
        device["capacity"] = capacity(random, is_shared);
    }
    if counters && random.percent(75) {
        device["consumesCounters"] = consumption(random, traits);
    }
    if per_device {
        place(random, &mut device, false);
    }
    if traits.taints && random.percent(35) {
        device["taints"] = some(random, 2, |random| {
            let effect = random.pick(&["NoSchedule", "NoExecute", "None", "Later"]);
            json!({"key": random.pick(&["k", "l"]), "value": random.pick(&["", "v"]), "effect": effect})
        });
    }
    if traits.binding && random.percent(30) {
        device["bindingConditions"] = json!(["attached"]);
        device["bindingFailureConditions"] = json!(["failed"]);
    }
    if random.percent(6) {
        device["bindsToNode"] = json!(true);
    }
    device
}

fn consumption(random: &Random, traits: &Traits) -> Value {
    let gb = json!({"counterSet": "mem", "counters": {"gb": {"value": random.pick(&["1", "2", "4"])}}});
    let cores = json!({"counterSet": "cores", "counters": {
        "n": {"value": random.pick(&["1", "2"])}, "m": {"value": random.pick(&["500m", "1"])}}});
    if traits.broken && random.percent(10) {
        let (set, counter) = random.pick(&[("none", "gb"), ("mem", "none")]);
        return json!([{"counterSet": set, "counters": {counter: {"value": "1"}}}]);
    }
    match random.below(4) {
        0 => json!([gb]),
        1 => json!([cores]),
        2 => json!([cores, gb]),
        _ => json!([gb, cores]),
    }
}

fn counter_slice(random: &Random, traits: &Traits) -> Value {
    let mem = json!({"name": "mem", "counters": {"gb": {"value": random.pick(&["4", "6", "8"])}}});
    let cores = json!({"name": "cores", "counters": {"n": {"value": random.pick(&["2", "4"])}, "m": {"value": "2"}}});
    if traits.broken && random.percent(10) { json!([mem, mem]) } else { json!([mem, cores]) }
}

/// The slices of all pools, in no order.
pub(crate) fn slices(random: &Random, traits: &Traits) -> Value {
    let mut ids: Vec<(&str, &str)> = DRIVERS.iter().flat_map(|d| POOLS.iter().map(move |p| (*d, *p))).collect();
    random.shuffle(&mut ids);
    if !traits.same_names {
        let mut seen = Vec::new();
        ids.retain(|(_, pool)| !seen.contains(pool) && (seen.push(*pool), true).1);
    }
    ids.truncate(random.pick(&[1, 2, 3, 4, 4]));
    let mut names: Vec<usize> = (10..99).collect();
    random.shuffle(&mut names);
    let mut all = Vec::new();
    for id in ids {
        let has_two = traits.generations && random.percent(40);
        for generation in if has_two { vec![1, 2] } else { vec![1] } {
            let mut own = pool(random, traits, id, generation);
            for slice in &mut own {
                slice["metadata"] = json!({"name": format!("s{}", names.pop().unwrap())});
            }
            all.append(&mut own);
        }
    }
    random.shuffle(&mut all);
    Value::Array(all)
}

/// The slices of one generation, without names.
fn pool(random: &Random, traits: &Traits, (driver, name): (&str, &str), generation: i64) -> Vec<Value> {
    let count = random.pick(&[1, 2, 2, 3]);
    let counters = traits.counters && random.percent(60);
    let mut devices: Vec<usize> = (1..30).collect();
    random.shuffle(&mut devices);
    let mut specs = Vec::new();
    if counters {
        specs.push(json!({"sharedCounters": counter_slice(random, traits)}));
        place(random, &mut specs[0], false);
    }
    for _ in 0..count {
        let mut spec = json!({});
        place(random, &mut spec, traits.per_device);
        let per_device = spec.get("perDeviceNodeSelection").is_some();
        let most = random.pick(&[2, 4, 6]);
        let of_slice = (0..random.between(1, most)).map(|_| {
            let name = if traits.broken && random.percent(6) { 1 } else { devices.pop().unwrap() };
            device(random, traits, &format!("x{name}"), per_device, counters)
        });
        spec["devices"] = of_slice.collect();
        specs.push(spec);
    }
    let total = specs.len();
    let said = if traits.broken && random.percent(20) { random.between(1, total + 1) } else { total };
    if traits.generations && random.percent(15) && total > 1 {
        specs.pop();
    }
    let finish = |mut spec: Value| {
        spec["driver"] = json!(driver);
        spec["pool"] = json!({"name": name, "generation": generation, "resourceSliceCount": said});
        json!({"spec": spec})
    };
    specs.into_iter().map(finish).collect()
}
