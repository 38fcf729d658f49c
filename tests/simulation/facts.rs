//! What is so in the cluster, read off the model's changes: which pod runs where, since which version, and which nodes there were.

use super::budgets::BudgetFact;
use super::devices::Devices;
use super::extenders::RESOURCE;
use super::model::store::{Change, Verb, at, text};
use super::profiles::ProfileFacts;
use super::spreading::{Constraint, SPREAD};
use super::storage::{BIND_COMPLETED, SELECTED_NODE};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Who made a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Operator(usize),
    /// Users, kubelets, controllers.
    Cluster,
    ForeignScheduler,
}

#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct PodFact {
    pub(crate) uid: String,
    pub(crate) key: String,
    pub(crate) cpu: i64,
    /// Bytes.
    pub(crate) memory: i128,
    pub(crate) port: Option<u64>,
    /// The value of label `app`.
    pub(crate) app: String,
    /// The claims that it mounts, as `namespace/name`.
    pub(crate) claims: Vec<String>,
    /// Whether it asks for the resource that some extenders manage.
    pub(crate) managed: bool,
    pub(crate) devices: Option<Devices>,
    /// Whether no two pods of its `app` may share a node.
    pub(crate) alone: bool,
    pub(crate) pool: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) spread: Vec<Constraint>,
    /// Whether it has the label of all pods that are to be spread.
    pub(crate) is_spread: bool,
    /// Whether it tolerates the taint that some nodes have.
    pub(crate) tolerates: bool,
    pub(crate) priority: i64,
    pub(crate) scheduler: String,
    pub(crate) gated: bool,
    /// Since which version it is there.
    pub(crate) made: u64,
    /// Since which version it has no scheduling gates. They never come back.
    pub(crate) ungated: Option<u64>,
    pub(crate) node: Option<String>,
    /// Who bound it, and the version at which that was.
    pub(crate) bound: Option<(By, u64)>,
    pub(crate) nominated: Option<String>,
    pub(crate) terminating: Option<u64>,
    /// Whether its kubelet says that it runs.
    runs: bool,
    /// Succeeded or failed.
    pub(crate) ended: bool,
    /// Whether it has the condition DisruptionTarget.
    marked: bool,
    pub(crate) gone: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct ClaimFact {
    pub(crate) uid: String,
    pub(crate) class: String,
    /// Whether only one pod at a time may use it.
    pub(crate) one_pod: bool,
    /// The node for which its volume is to be made.
    pub(crate) selected: Option<String>,
    /// The volume that it is completely bound to.
    pub(crate) volume: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct VolumeFact {
    class: String,
    /// The label that its nodes have.
    place: (String, String),
    /// The uid of its claim, and the version since which it has it.
    pub(crate) claim: Option<String>,
    pub(crate) since: u64,
}

impl VolumeFact {
    pub(crate) fn is_usable_on(&self, life: &NodeLife) -> bool {
        let (label, value) = &self.place;
        *value == *if label == "pool" { &life.pool } else { &life.name }
    }

    pub(crate) fn is_free(&self, class: &str) -> bool {
        self.claim.is_none() && self.class == class
    }
}

/// One life of a node: its name may be used again.
#[derive(Debug, Clone)]
pub(crate) struct NodeLife {
    pub(crate) name: String,
    pub(crate) cpu: i64,
    /// Bytes.
    pub(crate) memory: i128,
    /// How many pods it takes.
    pub(crate) pods: usize,
    pub(crate) pool: String,
    /// Empty where nodes are in none.
    pub(crate) zone: String,
    pub(crate) tainted: bool,
    pub(crate) cordoned: bool,
    pub(crate) from: u64,
    pub(crate) to: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) pods: BTreeMap<String, PodFact>,
    /// Pods that have a node and have not ended, by it.
    pub(crate) on: BTreeMap<String, BTreeSet<String>>,
    /// Pods without a node.
    pub(crate) pending: BTreeSet<String>,
    pub(crate) lives: Vec<NodeLife>,
    /// By `namespace/name`.
    pub(crate) claims: BTreeMap<String, ClaimFact>,
    pub(crate) volumes: BTreeMap<String, VolumeFact>,
    pub(crate) budgets: BTreeMap<String, BudgetFact>,
    pub(crate) profiles: ProfileFacts,
}

/// The zone that a pod requires, in its spec.
const ZONE_OF_POD: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions/0/values/0";

fn named(value: &Value, at: &str) -> Option<String> {
    Some(text(value, at)).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Thousandths of a CPU.
pub(crate) fn millis(quantity: &str) -> i64 {
    match quantity.strip_suffix('m') {
        Some(millis) => millis.parse().unwrap_or_default(),
        None => quantity.parse::<i64>().unwrap_or_default() * 1_000,
    }
}

/// Bytes, of the quantities that are drawn.
fn bytes(quantity: &str) -> i128 {
    let number = |digits: &str| digits.parse::<i128>().unwrap_or_default();
    match quantity.split_at_checked(quantity.len().saturating_sub(2)) {
        Some((digits, "Gi")) => number(digits) << 30,
        Some((digits, "Mi")) => number(digits) << 20,
        _ => number(quantity),
    }
}

/// The claims that a pod mounts.
fn claims_of(pod: &Value) -> Vec<String> {
    let namespace = text(pod, "/metadata/namespace");
    let volumes = at(pod, "/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    volumes.map(|volume| format!("{namespace}/{}", text(volume, "/persistentVolumeClaim/claimName"))).collect()
}

impl PodFact {
    fn new(uid: &str, value: &Value, version: u64) -> Self {
        Self {
            uid: uid.to_owned(),
            key: format!("{}/{}", text(value, "/metadata/namespace"), text(value, "/metadata/name")),
            cpu: millis(text(value, "/spec/containers/0/resources/requests/cpu")),
            memory: bytes(text(value, "/spec/containers/0/resources/requests/memory")),
            port: at(value, "/spec/containers/0/ports/0/hostPort").and_then(Value::as_u64),
            app: text(value, "/metadata/labels/app").to_owned(),
            claims: claims_of(value),
            managed: at(value, "/spec/containers/0/resources/requests").is_some_and(|all| all.get(RESOURCE).is_some()),
            devices: Devices::of(value),
            alone: at(value, "/spec/affinity/podAntiAffinity").is_some(),
            pool: named(value, "/spec/nodeSelector/pool"),
            zone: named(value, ZONE_OF_POD),
            spread: Constraint::all_of(value),
            is_spread: at(value, "/metadata/labels").is_some_and(|all| all.get(SPREAD).is_some()),
            tolerates: false,
            priority: at(value, "/spec/priority").and_then(Value::as_i64).unwrap_or_default(),
            scheduler: text(value, "/spec/schedulerName").to_owned(),
            gated: false,
            made: version,
            ungated: None,
            node: None,
            bound: None,
            nominated: None,
            terminating: None,
            runs: false,
            ended: false,
            marked: false,
            gone: None,
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        self.key.split('/').next().unwrap_or_default()
    }

    /// Whether something is written for it between its decision and its bind: that may take long.
    pub(crate) fn is_prepared(&self) -> bool {
        !self.claims.is_empty() || self.devices.is_some()
    }

    /// Whether it takes room on its node.
    pub(crate) fn takes_room(&self) -> bool {
        self.node.is_some() && !self.ended && self.gone.is_none()
    }

    /// Whether required anti-affinity, its own or the other's, keeps the two from sharing a node.
    pub(crate) fn keeps_away(&self, other: &Self) -> bool {
        (self.alone || other.alone) && self.app == other.app && self.namespace() == other.namespace()
    }

    /// Whether a budget counts on it: it runs, and does not terminate.
    pub(crate) fn is_healthy(&self) -> bool {
        self.runs && self.terminating.is_none() && self.gone.is_none()
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.node.is_none() && !self.ended && self.gone.is_none() && self.terminating.is_none()
    }
}

/// What a change of a pod meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    None,
    Bound,
    Terminating,
    Ended,
    Gone,
    /// It is to be evicted.
    Marked,
}

impl Facts {
    /// Takes in a change of a pod.
    pub(crate) fn pod(&mut self, change: &Change, by: By) -> (String, News) {
        let (value, version) = (&change.object.value, change.version);
        let uid = change.object.uid().to_owned();
        let pod = self.pods.entry(uid.clone()).or_insert_with(|| PodFact::new(&uid, value, version));
        let mut news = News::None;
        pod.runs = text(value, "/status/phase") == "Running";
        pod.gated = at(value, "/spec/schedulingGates").and_then(Value::as_array).is_some_and(|g| !g.is_empty());
        if !pod.gated {
            pod.ungated.get_or_insert(version);
        }
        pod.tolerates = at(value, "/spec/tolerations").is_some();
        pod.nominated = named(value, "/status/nominatedNodeName");
        if pod.node.is_none()
            && let Some(node) = named(value, "/spec/nodeName")
        {
            self.on.entry(node.clone()).or_default().insert(uid.clone());
            pod.node = Some(node);
            pod.bound = Some((by, version));
            news = News::Bound;
        }
        let conditions = at(value, "/status/conditions").and_then(Value::as_array);
        if !pod.marked && conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "DisruptionTarget")) {
            pod.marked = true;
            news = News::Marked;
        }
        if pod.terminating.is_none() && !text(value, "/metadata/deletionTimestamp").is_empty() {
            pod.terminating = Some(version);
            news = News::Terminating;
        }
        if !pod.ended && !change.object.is_alive() {
            pod.ended = true;
            news = News::Ended;
        }
        if change.verb == Verb::Deleted {
            pod.gone = Some(version);
            news = News::Gone;
        }
        if !pod.takes_room()
            && let Some(on) = pod.node.as_ref().and_then(|node| self.on.get_mut(node))
        {
            on.remove(&uid);
        }
        if pod.is_pending() {
            self.pending.insert(uid.clone());
        } else {
            self.pending.remove(&uid);
        }
        (uid, news)
    }

    pub(crate) fn node(&mut self, change: &Change) {
        let (value, version) = (&change.object.value, change.version);
        let name = text(value, "/metadata/name").to_owned();
        let cordoned = at(value, "/spec/unschedulable").and_then(Value::as_bool).unwrap_or_default();
        match change.verb {
            Verb::Added => self.lives.push(NodeLife {
                name,
                cpu: millis(text(value, "/status/allocatable/cpu")),
                memory: bytes(text(value, "/status/allocatable/memory")),
                pods: text(value, "/status/allocatable/pods").parse().unwrap_or_default(),
                pool: text(value, "/metadata/labels/pool").to_owned(),
                zone: value["metadata"]["labels"]["topology.kubernetes.io/zone"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                tainted: at(value, "/spec/taints").is_some(),
                cordoned,
                from: version,
                to: None,
            }),
            Verb::Modified => self.living(&name).cordoned = cordoned,
            Verb::Deleted => self.living(&name).to = Some(version),
        }
    }

    pub(crate) fn claim(&mut self, change: &Change) {
        let value = &change.object.value;
        let at = format!("{}/{}", text(value, "/metadata/namespace"), text(value, "/metadata/name"));
        if change.verb == Verb::Deleted {
            self.claims.remove(&at);
            return;
        }
        let annotation = |name: &str| value["metadata"]["annotations"].get(name)?.as_str().map(str::to_owned);
        let claim = ClaimFact {
            uid: change.object.uid().to_owned(),
            class: text(value, "/spec/storageClassName").to_owned(),
            one_pod: text(value, "/spec/accessModes/0") == "ReadWriteOncePod",
            selected: annotation(SELECTED_NODE),
            volume: annotation(BIND_COMPLETED).and_then(|_| named(value, "/spec/volumeName")),
        };
        self.claims.insert(at, claim);
    }

    pub(crate) fn volume(&mut self, change: &Change) {
        let value = &change.object.value;
        let name = text(value, "/metadata/name").to_owned();
        if change.verb == Verb::Deleted {
            self.volumes.remove(&name);
            return;
        }
        let claim = named(value, "/spec/claimRef/uid");
        let known = self.volumes.get(&name).filter(|known| known.claim == claim).map(|known| known.since);
        let test = &value["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0];
        let volume = VolumeFact {
            class: text(value, "/spec/storageClassName").to_owned(),
            place: (text(test, "/key").to_owned(), text(test, "/values/0").to_owned()),
            claim,
            since: known.unwrap_or(change.version),
        };
        self.volumes.insert(name, volume);
    }

    fn living(&mut self, name: &str) -> &mut NodeLife {
        self.lives.iter_mut().rev().find(|life| life.name == name).unwrap()
    }

    /// The life of a node that somebody knows who has seen everything up to `version`.
    pub(crate) fn life_at(&self, name: &str, version: u64) -> Option<&NodeLife> {
        let known = self.lives.iter().rev().find(|life| life.name == name && life.from <= version)?;
        known.to.is_none_or(|to| to > version).then_some(known)
    }

    /// The living nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &NodeLife> {
        self.lives.iter().filter(|life| life.to.is_none())
    }

    /// The pods that take room on a node.
    pub(crate) fn pods_on(&self, node: &str) -> impl Iterator<Item = &PodFact> {
        self.on.get(node).into_iter().flatten().filter_map(|uid| self.pods.get(uid))
    }
}
