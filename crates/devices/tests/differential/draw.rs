//! Situations from seeds: small, with few distinct values, so that things collide.

use crate::objects::{self, CLASSES, NODES, Traits};
use crate::random::Random;
use serde_json::{Value, json};

/// What the claims of a situation have besides plain requests.
#[expect(clippy::struct_excessive_bools, reason = "each is a thing of its own")]
struct Wishes {
    all: bool,
    alternatives: bool,
    admin: bool,
    constraints: bool,
    distinct: bool,
    capacity: bool,
    config: bool,
    wrong: bool,
}

impl Wishes {
    fn draw(random: &Random, traits: &Traits) -> Self {
        Self {
            all: random.percent(25),
            alternatives: random.percent(30),
            admin: random.percent(15),
            constraints: random.percent(35),
            distinct: random.percent(10),
            capacity: if traits.shares { random.percent(75) } else { random.percent(10) },
            config: random.percent(25),
            wrong: random.percent(4),
        }
    }
}

/// What the oracle is asked.
pub(crate) fn situation(seed: u64) -> Value {
    let random = Random::new(seed);
    if random.percent(3) {
        return many_results(&random);
    }
    let traits = Traits::draw(&random);
    let wishes = Wishes::draw(&random, &traits);
    let nodes: Value = NODES[..random.between(1, 3)].iter().map(|name| objects::node(&random, name)).collect();
    let slices = objects::slices(&random, &traits);
    let classes = objects::classes(&random, &traits);
    let allocated = allocated(&random, &slices);
    let count = random.pick(&[1, 1, 1, 2, 2, 3]);
    let claims: Value = (0..count).map(|index| claim(&random, &traits, &wishes, index)).collect();
    json!({"nodes": nodes, "slices": slices, "classes": classes, "allocated": allocated, "claims": claims})
}

/// What others hold: devices of the slices, and a few that are gone.
fn allocated(random: &Random, slices: &Value) -> Value {
    let chance = random.pick(&[0, 5, 10, 30]);
    let mut all = Vec::new();
    for spec in slices.as_array().unwrap().iter().map(|slice| &slice["spec"]) {
        for device in spec["devices"].as_array().into_iter().flatten().filter(|_| random.percent(chance)) {
            let name = if random.percent(5) { json!("gone") } else { device["name"].clone() };
            let mut result = json!({
                "request": "r0", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": name});
            let is_shared = device.get("allowMultipleAllocations").is_some();
            if is_shared == random.percent(10) {
                if random.percent(10) {
                    result["adminAccess"] = json!(true);
                }
                all.push(result);
            } else {
                for _ in 0..random.between(1, 2) {
                    result["shareID"] = json!(format!("00000000-0000-4000-8000-{:012}", all.len()));
                    if let Some(consumed) = consumed(random, device) {
                        result["consumedCapacity"] = consumed;
                    }
                    all.push(result.clone());
                }
            }
        }
    }
    Value::Array(all)
}

fn consumed(random: &Random, device: &Value) -> Option<Value> {
    let capacity = device.get("capacity")?.as_object()?;
    let mut amounts = json!({});
    for name in capacity.keys() {
        amounts[name] =
            json!(if name == "memory" { random.pick(&["1Gi", "2Gi", "4Gi"]) } else { random.pick(&["0", "1"]) });
    }
    (!capacity.is_empty()).then_some(amounts)
}

fn claim(random: &Random, traits: &Traits, wishes: &Wishes, index: usize) -> Value {
    let count = random.pick(&[1, 1, 2, 2, 3]);
    let requests: Vec<Value> = (0..count).map(|number| request(random, traits, wishes, number)).collect();
    let mut devices = json!({"requests": requests});
    if wishes.constraints || wishes.distinct {
        let count = random.between(1, 2);
        devices["constraints"] = (0..count).map(|_| constraint(random, wishes, &requests)).collect();
    }
    if wishes.config {
        let count = random.between(1, 2);
        devices["config"] = (0..count)
            .map(|_| {
                let mut entry = objects::opaque(random);
                entry["requests"] = named_requests(random, &requests);
                entry
            })
            .collect();
    }
    json!({"metadata": {"namespace": "default", "name": format!("c{index}")}, "spec": {"devices": devices}})
}

fn request(random: &Random, traits: &Traits, wishes: &Wishes, number: usize) -> Value {
    let name = format!("r{number}");
    if wishes.alternatives && random.percent(60) {
        let count = random.between(1, 3);
        let subs: Value = (0..count)
            .map(|sub| {
                let mut details = details(random, traits, wishes);
                details["name"] = json!(format!("s{sub}"));
                details
            })
            .collect();
        return json!({"name": name, "firstAvailable": subs});
    }
    let mut details = details(random, traits, wishes);
    if wishes.admin && random.percent(60) {
        details["adminAccess"] = json!(random.percent(80));
    }
    json!({"name": name, "exactly": details})
}

fn details(random: &Random, traits: &Traits, wishes: &Wishes) -> Value {
    let mut details = json!({"deviceClassName": random.pick(&CLASSES), "allocationMode": "ExactCount"});
    details["count"] = json!(random.pick(&[1, 1, 1, 1, 1, 2, 2, 2, 3, 4]));
    if wishes.all && random.percent(50) {
        details["allocationMode"] = json!("All");
        details.as_object_mut().unwrap().remove("count");
    }
    if random.percent(35) {
        let count = random.between(1, 2);
        details["selectors"] = (0..count).map(|_| objects::selector(random, traits)).collect();
    }
    if traits.taints && random.percent(60) {
        details["tolerations"] = json!([toleration(random)]);
    }
    if wishes.capacity && random.percent(60) {
        let mut asked = json!({"memory": random.pick(&["500Mi", "1Gi", "1500Mi", "2Gi", "2Gi", "3Gi", "5Gi"])});
        if random.percent(30) {
            asked = json!({"slots": random.pick(&["0", "1", "1500m", "2", "3"])});
        }
        if random.percent(5) {
            asked["none"] = json!("1");
        }
        details["capacity"] = json!({"requests": asked});
    }
    if wishes.wrong && random.percent(30) {
        match random.below(4) {
            0 => details["allocationMode"] = json!("Some"),
            1 => details["selectors"] = json!([{"cel": {"expression": "true"}}, {}]),
            2 => details["deviceClassName"] = json!(""),
            _ => details["deviceClassName"] = json!("none"),
        }
    }
    details
}

fn toleration(random: &Random) -> Value {
    let mut toleration = json!({"operator": random.pick(&["Exists", "Exists", "Equal", "Like"])});
    if random.percent(60) {
        toleration["key"] = json!(random.pick(&["k", "l"]));
    }
    if toleration["operator"] == "Equal" && random.percent(60) {
        toleration["value"] = json!("v");
    }
    if random.percent(40) {
        toleration["effect"] = json!(random.pick(&["NoSchedule", "NoExecute"]));
    }
    if toleration.get("effect").is_some_and(|effect| effect == "NoExecute") && random.percent(50) {
        toleration["tolerationSeconds"] = json!(7);
    }
    toleration
}

/// None for all, or some of the requests and subrequests.
fn named_requests(random: &Random, requests: &[Value]) -> Value {
    let mut names = Vec::new();
    for request in requests {
        let name = request["name"].as_str().unwrap();
        names.push(name.to_owned());
        let subs = request["firstAvailable"].as_array().into_iter().flatten();
        names.extend(subs.map(|sub| format!("{name}/{}", sub["name"].as_str().unwrap())));
    }
    names.retain(|_| random.percent(30));
    json!(names)
}

fn constraint(random: &Random, wishes: &Wishes, requests: &[Value]) -> Value {
    let mut constraint = json!({"requests": named_requests(random, requests)});
    let id = random.pick(&["model", "size", "fast", "fw"]);
    let name = format!("{}.example/{id}", if random.percent(10) { "c" } else { "d" });
    if wishes.wrong && random.percent(10) {
        return constraint;
    }
    let kind = if wishes.distinct && (random.percent(70) || !wishes.constraints) {
        "distinctAttribute"
    } else {
        "matchAttribute"
    };
    constraint[kind] = json!(name);
    constraint
}

/// Alternatives of ten and twenty devices, near the 32 that a claim may have.
fn many_results(random: &Random) -> Value {
    let devices = |random: &Random, prefix: &str| -> Value {
        let count = random.between(12, 40);
        (0..count).map(|number| json!({"name": format!("{prefix}{number}")})).collect()
    };
    let slices: Value = ["d.example", "c.example"]
        .iter()
        .map(|driver| {
            let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
            json!({"metadata": {"name": driver}, "spec": {
                "driver": driver, "pool": pool, "allNodes": true, "devices": devices(random, "x")}})
        })
        .collect();
    let details = |random: &Random, counts: &[usize]| {
        let mode =
            if random.percent(10) { json!({"allocationMode": "All"}) } else { json!({"allocationMode": "ExactCount"}) };
        let mut details = mode;
        details["deviceClassName"] = json!(random.pick(&["any", "drv"]));
        if details["allocationMode"] == "ExactCount" {
            details["count"] = json!(random.pick(counts));
        }
        details
    };
    let request = |random: &Random, number: usize| {
        let name = format!("r{number}");
        if random.percent(30) {
            return json!({"name": name, "exactly": details(random, &[1, 5, 10, 20])});
        }
        let subs: Value = [[20, 30, 12], [10, 20, 2], [1, 12, 33]][..random.between(1, 3)]
            .iter()
            .enumerate()
            .map(|(sub, counts)| {
                let mut details = details(random, counts);
                details["name"] = json!(format!("s{sub}"));
                details
            })
            .collect();
        json!({"name": name, "firstAvailable": subs})
    };
    let claim = |random: &Random, index: usize| {
        let requests: Value = (0..random.between(1, 3)).map(|number| request(random, number)).collect();
        json!({"metadata": {"namespace": "default", "name": format!("c{index}")},
            "spec": {"devices": {"requests": requests}}})
    };
    let claims: Value = (0..random.between(1, 2)).map(|index| claim(random, index)).collect();
    json!({
        "nodes": [objects::node(random, "n1")],
        "slices": slices,
        "classes": [
            {"metadata": {"name": "any"}, "spec": {}},
            {"metadata": {"name": "drv"}, "spec": {"selectors": [{"cel": {"expression": crate::selectors::OF_D}}]}},
        ],
        "allocated": [],
        "claims": claims,
    })
}
