//! What happens to a pod that waits for devices when something changes: the worker tries it again, or does not, and upstream's queueing
//! hints say whether it should.

use crate::draw;
use crate::ours::{self, Answer};
use crate::pods::{self, POD};
use crate::random::Random;
use berth_core::io::Effect;
use berth_core::ledger::Ledger;
use berth_core::model::Time;
use berth_core::worker::{Next, Worker};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::time::Duration;

/// What happened: an object of a list of the question that came, changed or went, and the cluster after it.
pub(crate) struct Happening {
    kind: &'static str,
    before: Option<Value>,
    after: Option<Value>,
    pub(crate) question: Value,
}

/// A pod that waits, and what happens then; `None` where it does not wait, or nothing happens.
pub(crate) fn situation(seed: u64) -> Option<(Value, Happening)> {
    let mut question = pods::situation(seed);
    question["inFlight"] = json!([]);
    let random = Random::new(seed ^ 0xe7e47);
    let happening = match random.below(10) {
        0..=3 => of_claim(&random, &mut question),
        4..=6 => of_slice(&random, &question, seed),
        7 => of_class(&random, &question),
        8 => of_node(&random, &question),
        _ => Some(of_pod(&mut question)),
    }?;
    let waits = matches!(
        ours::answer(&question)?,
        Answer::Gated(_) | Answer::Refused(_) | Answer::FitsNowhere { frees: None, .. }
    );
    (waits && happening.before != happening.after).then_some((question, happening))
}

/// Replaces, adds or takes out one object of a list.
fn with(question: &Value, list: &str, before: Option<usize>, after: Option<Value>) -> Value {
    let mut question = question.clone();
    let objects = question[list].as_array_mut().unwrap();
    if let Some(at) = before {
        objects.remove(at);
    }
    let at = before.unwrap_or(objects.len());
    if let Some(after) = after {
        objects.insert(at, after);
    }
    question
}

fn happening(
    kind: &'static str,
    (question, list): (&Value, &str),
    at: Option<usize>,
    after: Option<Value>,
) -> Happening {
    let before = at.map(|at| question[list][at].clone());
    Happening { kind, question: with(question, list, at, after.clone()), before, after }
}

fn pick(random: &Random, list: &Value) -> Option<usize> {
    let count = list.as_array()?.len();
    (count > 0).then(|| random.below(count))
}

fn of_claim(random: &Random, question: &mut Value) -> Option<Happening> {
    let at = pick(random, &question["claims"])?;
    let mut claim = question["claims"][at].clone();
    match random.below(5) {
        // It is there only afterwards.
        0 => {
            *question = with(question, "claims", Some(at), None);
            return Some(happening("claim", (question, "claims"), None, Some(claim)));
        }
        1 => return Some(happening("claim", (question, "claims"), Some(at), None)),
        2 => claim["status"] = json!({}),
        3 => claim["status"]["reservedFor"] = json!([]),
        _ => claim["metadata"]["labels"] = json!({"told": "nothing"}),
    }
    claim["metadata"]["resourceVersion"] = json!("9");
    Some(happening("claim", (question, "claims"), Some(at), Some(claim)))
}

fn of_slice(random: &Random, question: &Value, seed: u64) -> Option<Happening> {
    let list = (question, "slices");
    Some(match random.below(4) {
        0 | 1 => {
            let others = draw::situation(seed ^ 0x0dd5)["slices"].clone();
            let mut other = others[pick(random, &others)?].clone();
            other["metadata"]["name"] = json!("new");
            other["spec"]["pool"]["name"] = json!("new");
            other["spec"]["pool"]["resourceSliceCount"] = json!(1);
            happening("slice", list, None, Some(other))
        }
        2 => happening("slice", list, Some(pick(random, &question["slices"])?), None),
        _ => {
            let at = pick(random, &question["slices"])?;
            let mut slice = question["slices"][at].clone();
            for device in slice["spec"]["devices"].as_array_mut()? {
                device.as_object_mut()?.remove("taints");
            }
            slice["spec"]["pool"]["generation"] = json!(9);
            slice["spec"]["pool"]["resourceSliceCount"] = json!(1);
            happening("slice", list, Some(at), Some(slice))
        }
    })
}

fn of_class(random: &Random, question: &Value) -> Option<Happening> {
    let at = pick(random, &question["classes"])?;
    let mut class = question["classes"][at].clone();
    class["spec"]["selectors"] = json!([]);
    Some(happening("class", (question, "classes"), Some(at), Some(class)))
}

fn of_node(random: &Random, question: &Value) -> Option<Happening> {
    let at = pick(random, &question["nodes"])?;
    let mut node = question["nodes"][at].clone();
    node["metadata"]["labels"] = json!({"zone": random.pick(&["a", "b"]), "arch": random.pick(&["x", "y"])});
    if random.percent(40) {
        node["metadata"]["name"] = json!("n9");
        return Some(happening("node", (question, "nodes"), None, Some(node)));
    }
    Some(happening("node", (question, "nodes"), Some(at), Some(node)))
}

/// Its status says which claims were made from its templates.
fn of_pod(question: &mut Value) -> Happening {
    let after = question["pod"].clone();
    question["pod"]["status"] = json!({});
    let before = question["pod"].clone();
    let question = json!({
        "pod": after, "nodes": question["nodes"], "claims": question["claims"], "slices": question["slices"],
        "classes": question["classes"], "inFlight": [],
    });
    Happening { kind: "pod", before: Some(before), after: Some(after), question }
}

impl Happening {
    /// What the oracle is asked.
    pub(crate) fn asked(&self) -> Value {
        let mut asked = self.question.clone();
        asked["hint"] = json!({"event": self.kind});
        for (field, object) in [("old", &self.before), ("new", &self.after)] {
            if let Some(object) = object {
                asked["hint"][field] = object.clone();
            }
        }
        asked
    }

    fn apply(&self, ledger: &mut Ledger) {
        let Some(after) = &self.after else { return self.delete(ledger) };
        let (version, kind) = match self.kind {
            "claim" => ("resource.k8s.io/v1", "ResourceClaim"),
            "slice" => ("resource.k8s.io/v1", "ResourceSlice"),
            "class" => ("resource.k8s.io/v1", "DeviceClass"),
            "node" => ("v1", "Node"),
            _ => ("v1", "Pod"),
        };
        ours::objects(after, version, kind).apply(ledger);
    }

    fn delete(&self, ledger: &mut Ledger) {
        let name = self.before.as_ref().unwrap()["metadata"]["name"].as_str().unwrap();
        match self.kind {
            "claim" => ledger.delete_resource_claim(&format!("default/{name}")),
            _ => ledger.delete_resource_slice(name),
        }
    }

    /// Whether a worker, in whose queue the pod waits, tries it again.
    pub(crate) fn wakes(&self, question: &Value) -> bool {
        let mut profile = ours::profile();
        // Nothing makes good for what a hint missed.
        profile.queue.max_unschedulable = Duration::MAX;
        let mut worker = Worker::new(profile.into(), 1);
        let ledger = RefCell::new(ours::ledger_of(question).0);
        let mut now = Time::ZERO;
        settle(&mut worker, &ledger, now);
        self.apply(&mut ledger.borrow_mut());
        now = now + Duration::from_secs(60);
        settle(&mut worker, &ledger, now)
    }
}

/// Steps until nothing is left to do; whether the pod was tried.
fn settle(worker: &mut Worker, ledger: &RefCell<Ledger>, now: Time) -> bool {
    let (mut inputs, mut effects, mut is_tried) = (Vec::new(), Vec::new(), false);
    while worker.step(now, &mut inputs, ledger, &mut effects) == Next::Now {}
    for effect in effects {
        is_tried |= match effect {
            Effect::Refuse(refusal) => refusal.attempted && &*refusal.pod.uid == POD,
            Effect::Bind(_) | Effect::ReserveClaims(_) | Effect::Deallocate(_) => true,
            _ => false,
        };
    }
    is_tried
}
