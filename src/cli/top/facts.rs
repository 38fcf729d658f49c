//! What `berth top` knows of a cluster: of each pod and node a few small facts, of each profile its status, and the last scrapes.
//! Everything comes in as events; nothing here reads a clock or the network.

use super::metrics::Scrape;
use super::rates::{Counter, Key, Window};
use crate::cli::live::lease::Leader;
use berth_api::SchedulerNameState;
use berth_api::SchedulerProfileStatus;
use berth_cluster::watch::WatchEvent;
use berth_core::ledger::Object;
use berth_core::model::{Node, Pod, PodKey, Requests, Str, TaintEffect, Usage, ZONE};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Characters that are kept of why a pod waits.
const MESSAGE: usize = 400;

/// Scheduler names of which placed pods are counted. Tenants choose the names.
const NAMES: usize = 1_000;

/// Everything that the screen shows follows from this.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The API server that is asked.
    pub(super) server: String,
    pub(super) pods: Pods,
    pub(super) nodes: Nodes,
    pub(super) profiles: Vec<Profile>,
    pub(super) leader: Option<Leader>,
    /// The last scrape; `None` where metrics cannot be read.
    pub(super) scrape: Option<Scrape>,
    /// Counters of the last scrapes, and of the watches.
    pub(super) of_scrapes: Window,
    pub(super) of_watches: Window,
    /// What could not be read, by what it is.
    pub(super) troubles: BTreeMap<&'static str, String>,
}

impl Facts {
    /// Takes an event of a watch of pods or nodes.
    pub(super) fn take<T: Into<Object>>(&mut self, of_pods: bool, event: WatchEvent<T>) {
        match event {
            WatchEvent::Begin if of_pods => self.pods.round += 1,
            WatchEvent::Begin => self.nodes.round += 1,
            WatchEvent::Item(object) | WatchEvent::Apply(object) => match object.into() {
                Object::Pod(pod) => self.pods.apply(&pod),
                Object::Node(node) => self.nodes.apply(&node),
                _ => {}
            },
            WatchEvent::Synced if of_pods => self.pods.synced(),
            WatchEvent::Synced => self.nodes.synced(),
            WatchEvent::Delete(key) if of_pods => self.pods.delete(&key.uid),
            WatchEvent::Delete(key) => drop(self.nodes.all.remove(&*key.name)),
            WatchEvent::Bad(bad) if of_pods => self.pods.keep(&bad.key.uid),
            WatchEvent::Bad(bad) => self.nodes.keep(&bad.key.name),
        }
    }

    /// Takes a scrape that ended at `at`.
    pub(super) fn scraped(&mut self, at: Duration, scrape: Scrape) {
        let mut counters = BTreeMap::new();
        for (profile, of) in &scrape.profiles {
            let key = |counter, extender: &str| -> Key { (counter, profile.clone(), extender.to_owned()) };
            counters.insert(key(Counter::Bound, ""), of.bound);
            counters.insert(key(Counter::Tried, ""), of.tried);
            for (name, extender) in &of.extenders {
                counters.insert(key(Counter::Asked, name), extender.asked);
                counters.insert(key(Counter::Failed, name), extender.failed);
            }
        }
        self.of_scrapes.push(at, counters);
        self.scrape = Some(scrape);
        self.troubles.remove("metrics");
    }

    /// The metrics cannot be read, and why.
    pub(super) fn not_scraped(&mut self, why: String) {
        self.scrape = None;
        self.of_scrapes.clear();
        self.troubles.insert("metrics", why);
    }

    /// Looks at what the watches have counted, once there is something to count from.
    pub(super) fn count(&mut self, at: Duration) {
        if self.pods.is_whole {
            let counters = self.pods.placed_so_far.iter();
            let counters =
                counters.map(|(name, count)| ((Counter::Placed, name.to_string(), String::new()), *count as f64));
            self.of_watches.push(at, counters.collect());
        }
    }

    /// Who leads. Counters of another process begin anew.
    pub(super) fn led_by(&mut self, leader: Leader) {
        let holder = |leader: Option<&Leader>| match leader {
            Some(Leader::Leads { holder, .. } | Leader::Silent { holder, .. }) => Some(holder.clone()),
            _ => None,
        };
        if holder(self.leader.as_ref()) != holder(Some(&leader)) {
            self.of_scrapes.clear();
        }
        self.leader = Some(leader);
    }
}

/// A profile and what its status says.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) name: String,
    /// The scheduler names that it serves; those that it asks for where no operator has said.
    pub(super) names: Vec<Str>,
    pub(super) status: SchedulerProfileStatus,
}

impl Profile {
    /// A status that cannot be read counts as none.
    pub(super) fn read(mut object: Value) -> Self {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let status: SchedulerProfileStatus = serde_json::from_value(object["status"].take()).unwrap_or_default();
        let served = status.scheduler_names.iter().filter(|one| one.state == Some(SchedulerNameState::Serving));
        let mut names: Vec<Str> = served.map(|one| one.name.as_str().into()).collect();
        if status.scheduler_names.is_empty() {
            let asked = object["spec"]["schedulerNames"].as_array().map_or(&[][..], Vec::as_slice);
            names.extend(asked.iter().filter_map(Value::as_str).map(Str::from));
            if asked.is_empty() {
                names.push(name.as_str().into());
            }
        }
        Self { name, names, status }
    }
}

/// A pod without a node.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) key: PodKey,
    pub(super) scheduler_name: Str,
    pub(super) created_unix_us: i64,
    /// Scheduling gates that are left.
    pub(super) gates: usize,
    /// The reason of `PodScheduled=False`; empty where nobody has tried the pod.
    pub(super) reason: Str,
    /// Its message, cut.
    pub(super) message: Str,
    round: u32,
}

#[derive(Debug)]
struct Placed {
    node: Str,
    usage: Arc<Usage>,
    round: u32,
}

/// What the pods of a node take.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Taken {
    pub(super) requests: Requests,
    pub(super) pods: i64,
}

impl Taken {
    fn add(&mut self, requests: &Requests, times: i64) {
        self.pods += times;
        self.requests.milli_cpu += times * requests.milli_cpu;
        self.requests.memory += times * requests.memory;
        self.requests.ephemeral_storage += times * requests.ephemeral_storage;
        for (name, amount) in &requests.scalars {
            self.requests.set_scalar(name.clone(), self.requests.amount(name) + times * amount);
        }
    }
}

/// The pods, by uid.
#[derive(Debug, Default)]
pub(super) struct Pods {
    waiting: HashMap<Str, Waiting>,
    placed: HashMap<Str, Placed>,
    taken: HashMap<Str, Taken>,
    /// Pods that got a node while we watched, by scheduler name.
    placed_so_far: HashMap<Str, u64>,
    /// Counts whole reads; what was not seen in the last one is gone.
    round: u32,
    /// Whether they were read whole once.
    pub(super) is_whole: bool,
}

impl Pods {
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.values()
    }

    pub(super) fn placed(&self) -> usize {
        self.placed.len()
    }

    /// What the pods on `node` take.
    pub(super) fn on(&self, node: &str) -> Option<&Taken> {
        self.taken.get(node)
    }

    fn apply(&mut self, pod: &Pod) {
        let was_waiting = self.waiting.remove(&pod.uid).is_some();
        self.delete(&pod.uid);
        match &pod.node_name {
            _ if pod.finished => {}
            Some(node) => {
                if was_waiting {
                    self.count(&pod.scheduler_name);
                }
                self.taken.entry(node.clone()).or_default().add(&pod.usage.requests, 1);
                let placed = Placed { node: node.clone(), usage: pod.usage.clone(), round: self.round };
                self.placed.insert(pod.uid.clone(), placed);
            }
            // It vanishes without any scheduler's help.
            None if pod.deleting => {}
            None => drop(self.waiting.insert(pod.uid.clone(), Waiting::of(pod, self.round))),
        }
    }

    fn count(&mut self, scheduler_name: &Str) {
        if let Some(count) = self.placed_so_far.get_mut(scheduler_name) {
            *count += 1;
        } else if self.placed_so_far.len() < NAMES {
            self.placed_so_far.insert(scheduler_name.clone(), 1);
        }
    }

    fn delete(&mut self, uid: &str) {
        self.waiting.remove(uid);
        let Some(placed) = self.placed.remove(uid) else { return };
        if let Some(taken) = self.taken.get_mut(&placed.node) {
            taken.add(&placed.usage.requests, -1);
            if taken.pods == 0 {
                self.taken.remove(&placed.node);
            }
        }
    }

    /// The pod is there, whatever it is like now.
    fn keep(&mut self, uid: &str) {
        let round = self.round;
        self.waiting.get_mut(uid).into_iter().for_each(|pod| pod.round = round);
        self.placed.get_mut(uid).into_iter().for_each(|pod| pod.round = round);
    }

    fn synced(&mut self) {
        let round = self.round;
        self.waiting.retain(|_, pod| pod.round == round);
        let gone = self.placed.iter().filter(|(_, pod)| pod.round != round);
        let gone: Vec<Str> = gone.map(|(uid, _)| uid.clone()).collect();
        for uid in gone {
            self.delete(&uid);
        }
        self.is_whole = true;
    }
}

impl Waiting {
    fn of(pod: &Pod, round: u32) -> Self {
        let (reason, message) = match &pod.scheduled {
            Some(said) if !said.status => (said.reason.clone(), cut(&said.message)),
            _ => (Str::default(), Str::default()),
        };
        Self {
            key: pod.key.clone(),
            scheduler_name: pod.scheduler_name.clone(),
            created_unix_us: pod.created_unix_us,
            gates: pod.gates.len(),
            reason,
            message,
            round,
        }
    }
}

/// At most [`MESSAGE`] characters; shared where nothing is cut.
fn cut(text: &Str) -> Str {
    text.char_indices().nth(MESSAGE).map_or_else(|| text.clone(), |(end, _)| text[..end].into())
}

/// What is kept of a node.
#[derive(Debug)]
pub(super) struct NodeFact {
    pub(super) zone: Option<Str>,
    pub(super) unschedulable: bool,
    /// Taints that keep pods away.
    pub(super) taints: usize,
    pub(super) allocatable: Requests,
    pub(super) allocatable_pods: i64,
    round: u32,
}

/// The nodes, by name.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    all: HashMap<Str, NodeFact>,
    round: u32,
    /// Whether they were read whole once.
    pub(super) is_whole: bool,
}

impl Nodes {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Str, &NodeFact)> {
        self.all.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    fn apply(&mut self, node: &Node) {
        let keeps_away = |taint: &&berth_core::model::Taint| taint.effect != TaintEffect::PreferNoSchedule;
        let fact = NodeFact {
            zone: node.labels.get(ZONE).cloned(),
            unschedulable: node.unschedulable,
            taints: node.taints.iter().filter(keeps_away).count(),
            allocatable: node.allocatable.clone(),
            allocatable_pods: node.allocatable_pods,
            round: self.round,
        };
        self.all.insert(node.name.clone(), fact);
    }

    fn keep(&mut self, name: &str) {
        let round = self.round;
        self.all.get_mut(name).into_iter().for_each(|node| node.round = round);
    }

    fn synced(&mut self) {
        let round = self.round;
        self.all.retain(|_, node| node.round == round);
        self.is_whole = true;
    }
}

#[cfg(test)]
mod tests;
