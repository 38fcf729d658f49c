//! Several pods one after the other, while slices and classes come, change and go, and pods end: Berth goes on with what it keeps, and upstream
//! is asked anew each time.

use crate::oracle::Oracle;
use crate::ours::{self, Answer};
use crate::pods::{self, POD};
use crate::random::Random;
use crate::{theirs, writing};
use berth_core::cycle::Scheduler;
use berth_core::ledger::{Ledger, PodState};
use serde_json::{Value, json};

/// What happens in a sequence.
const STEPS: usize = 16;

const CLASS: &str = "DeviceClass";
const CLAIM: &str = "ResourceClaim";
const SLICE: &str = "ResourceSlice";

pub(crate) struct Sequence {
    random: Random,
    /// What there is, as a question to the oracle.
    now: Value,
    ledger: Ledger,
    scheduler: Scheduler,
    /// The uids of pods that have a node, each with the names of its claims.
    placed: Vec<(String, Vec<String>)>,
    /// The pod that was tried last, with its claims, if it got no node.
    waiting: Option<Value>,
}

/// A situation that the sequence may take things from.
fn drawn(random: &Random) -> Value {
    pods::situation(random.below(1 << 40) as u64)
}

/// What a device takes of counters after its slice is gone is remembered by Berth alone.
fn has_counters(slice: &Value) -> bool {
    let text = slice["spec"].to_string();
    text.contains("sharedCounters") || text.contains("consumesCounters")
}

impl Sequence {
    pub(crate) fn new(seed: u64) -> Self {
        let random = Random::new(seed ^ 0x5e9);
        let mut now = drawn(&random);
        now["inFlight"] = json!([]);
        now["slices"].as_array_mut().unwrap().retain(|slice| !has_counters(slice));
        now["claims"].as_array_mut().unwrap().retain(|claim| !is_of_pod(claim));
        for class in now["classes"].as_array_mut().unwrap() {
            class["spec"].as_object_mut().unwrap().remove("extendedResourceName");
        }
        let (ledger, scheduler) = (ours::ledger_before(&now), Scheduler::new(ours::profile().into(), seed));
        Self { random, now, ledger, scheduler, placed: Vec::new(), waiting: None }
    }

    /// Has each thing happen, and `compare` both answers for each pod that is tried: the question, ours, and what upstream says.
    pub(crate) fn run(mut self, oracle: &mut Oracle, mut compare: impl FnMut(&Value, &Answer, &Value)) {
        for step in 0..STEPS {
            if self.random.percent(40) {
                self.change();
            }
            let Some(pod) = self.next_pod(step) else { continue };
            let uid = pod["pod"]["metadata"]["uid"].as_str().unwrap();
            let Some(PodState::Pending(pending)) = self.ledger.pod(uid).cloned() else { panic!("{uid} does not wait") };
            if let Some(answer) = ours::answer_in(&mut self.ledger, &mut self.scheduler, &pending) {
                if let Answer::Placed { node, .. } = &answer {
                    self.now["choose"] = json!(node);
                }
                let theirs = oracle.ask([&self.now].into_iter()).remove(0);
                compare(&self.now, &answer, &theirs);
                self.go_on(uid, &pod, &answer, &theirs);
            }
            assert_eq!(self.ledger.audit(), Ok(()), "{:#}", self.now);
        }
    }

    /// One that waits, of which something may be kept, or another one.
    fn next_pod(&mut self, step: usize) -> Option<Value> {
        if let Some(waits) = self.waiting.take() {
            if self.random.percent(70) {
                return Some(waits);
            }
            self.ledger.delete_pod(waits["pod"]["metadata"]["uid"].as_str().unwrap());
        }
        let mut pod = drawn(&self.random);
        if !writing::concerns(&pod) || pod["claims"].to_string().contains("distinctAttribute") {
            return None;
        }
        rename(&mut pod, step);
        self.come(&pod);
        Some(pod)
    }

    /// A pod with its claims.
    fn come(&mut self, pod: &Value) {
        for claim in pod["claims"].as_array().unwrap().iter().filter(|claim| is_of_pod(claim)) {
            self.set("claims", CLAIM, claim);
        }
        see(&mut self.ledger, "Pod", &pod["pod"]);
        self.now["pod"] = pod["pod"].clone();
        self.now["choose"] = json!("");
    }

    /// The pod is bound, with the claims that upstream wrote, or it waits.
    fn go_on(&mut self, uid: &str, pod: &Value, answer: &Answer, theirs: &Value) {
        let Answer::Placed { node, .. } = answer else {
            self.waiting = Some(pod.clone());
            return;
        };
        let writes = theirs["writes"].as_array().into_iter().flatten();
        for write in writes.filter(|write| write["subresource"] == "status" && write["verb"] == "update") {
            let mut claim = write["body"].clone();
            claim["metadata"]["resourceVersion"] = json!("100");
            self.set("claims", CLAIM, &claim);
        }
        let mut bound = pod["pod"].clone();
        bound["spec"]["nodeName"] = json!(node);
        see(&mut self.ledger, "Pod", &bound);
        let names = pod["claims"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|claim| is_of_pod(claim))
            .map(|claim| name(claim).to_owned());
        self.placed.push((uid.to_owned(), names.collect()));
    }

    fn change(&mut self) {
        let other = drawn(&self.random);
        match self.random.below(5) {
            0 | 1 => {
                let slice = one_of(&self.random, &other["slices"]);
                if let Some(slice) = slice.filter(|slice| !has_counters(slice) && self.agrees(slice)) {
                    self.set("slices", SLICE, &slice);
                }
            }
            2 => {
                if let Some(slice) = one_of(&self.random, &self.now["slices"]) {
                    self.now["slices"].as_array_mut().unwrap().retain(|one| name(one) != name(&slice));
                    self.ledger.delete_resource_slice(name(&slice));
                }
            }
            3 => {
                if let Some(mut class) = one_of(&self.random, &other["classes"]) {
                    class["spec"].as_object_mut().unwrap().remove("extendedResourceName");
                    self.set("classes", CLASS, &class);
                }
            }
            _ => self.end(),
        }
    }

    /// Whether other slices of its pool and generation say as it does how many there are. If not, which one upstream follows is chance.
    fn agrees(&self, slice: &Value) -> bool {
        let pool = &slice["spec"]["pool"];
        let is_other = |other: &Value| name(other) != name(slice) && other["spec"]["driver"] == slice["spec"]["driver"];
        let others = self.now["slices"].as_array().unwrap().iter().filter(|other| is_other(other));
        let mut pools = others.map(|other| &other["spec"]["pool"]);
        pools.all(|other| {
            (&other["name"], &other["generation"]) != (&pool["name"], &pool["generation"])
                || other["resourceSliceCount"] == pool["resourceSliceCount"]
        })
    }

    /// A pod that has a node ends, and the controller takes its claims back.
    fn end(&mut self) {
        if self.placed.is_empty() {
            return;
        }
        let (uid, claims) = self.placed.swap_remove(self.random.below(self.placed.len()));
        self.ledger.delete_pod(&uid);
        for claim in claims {
            let known = self.now["claims"].as_array().unwrap().iter().find(|one| name(one) == claim);
            let mut freed = known.unwrap().clone();
            freed["metadata"]["resourceVersion"] = json!("200");
            freed["status"] = json!({});
            self.set("claims", CLAIM, &freed);
        }
    }

    /// An object is made, or is another one now.
    fn set(&mut self, list: &str, kind: &str, object: &Value) {
        let all = self.now[list].as_array_mut().unwrap();
        match all.iter_mut().find(|one| name(one) == name(object)) {
            Some(known) => *known = object.clone(),
            None => all.push(object.clone()),
        }
        see(&mut self.ledger, kind, object);
    }
}

fn see(ledger: &mut Ledger, kind: &str, object: &Value) {
    let version = if kind == "Pod" { "v1" } else { "resource.k8s.io/v1" };
    ours::objects(object, version, kind).apply(ledger);
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn one_of(random: &Random, list: &Value) -> Option<Value> {
    let list = list.as_array().unwrap();
    (!list.is_empty()).then(|| list[random.below(list.len())].clone())
}

fn is_of_pod(claim: &Value) -> bool {
    claim["metadata"]["uid"].as_str().unwrap().starts_with("claim-")
}

/// Another pod, with claims of its own, at each step.
fn rename(question: &mut Value, step: usize) {
    let mut text = question.to_string().replace(&format!("\"{POD}\""), &format!("\"{POD}-{step}\""));
    for claim in 0..3 {
        text = text.replace(&format!("\"c{claim}\""), &format!("\"c{claim}-{step}\""));
        text = text.replace(&format!("\"claim-{claim}\""), &format!("\"claim-{claim}-{step}\""));
    }
    *question = serde_json::from_str(&text).unwrap();
    question["pod"]["metadata"]["name"] = json!(format!("p{step}"));
}

/// What both say of the pods of one sequence, by kind; with what is not the same it ends.
pub(crate) fn compare(seed: u64, oracle: &mut Oracle, mut same: impl FnMut(&Answer)) {
    Sequence::new(seed).run(oracle, |question, ours, answer| {
        assert_eq!(*ours, theirs::answer(question, answer), "{}", crate::case(seed, question, answer));
        same(ours);
    });
}
