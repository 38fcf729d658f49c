//! What really happened: every change of the pods as a watch shows it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use berth_lab::{Api, ControlPlane};
use serde_json::Value;

use crate::LATER;
use crate::objects::{milli_of, pod, pod_path};

/// Seconds after which the API server ends our watch, so that the recorder sees that it is to end.
const WATCH_SECONDS: u32 = 5;

/// One change of one pod.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// The resourceVersion: one order for all pods, that of every watch.
    pub(crate) version: u64,
    pub(crate) uid: String,
    pub(crate) name: String,
    pub(crate) scheduler: String,
    pub(crate) node: Option<String>,
    pub(crate) cpu: u64,
}

/// Records every change of a namespace's pods until it is finished.
pub(crate) struct Recorder {
    namespace: String,
    shared: Arc<Recorded>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Recorded {
    changes: Mutex<Vec<Change>>,
    bound: AtomicUsize,
    stop: AtomicBool,
}

impl Recorder {
    /// Starts before anything is in the namespace.
    pub(crate) fn start(plane: &ControlPlane, namespace: &str) -> Self {
        let shared = Arc::new(Recorded::default());
        let list = plane.api.get(&format!("{}?limit=1", pod_path(namespace, ""))).unwrap();
        let from = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let (api, path, inner) = (plane.api.clone(), pod_path(namespace, ""), shared.clone());
        let thread = thread::spawn(move || record(&api, &path, from, &inner));
        Self { namespace: namespace.to_owned(), shared, thread }
    }

    /// Pods seen bound so far.
    pub(crate) fn bound(&self) -> usize {
        self.shared.bound.load(Ordering::Relaxed)
    }

    /// Everything up to now, in order: ends when a pod that is made now has been seen.
    pub(crate) fn finish(self, plane: &ControlPlane) -> History {
        let last = pod(&self.namespace, "end-of-history", "nobody", "0");
        plane.api.post(&pod_path(&self.namespace, ""), &last).unwrap();
        plane
            .wait_for("the recorder to see the last pod", LATER, || {
                assert!(!self.thread.is_finished(), "the recorder gave up");
                let changes = self.shared.changes.lock().unwrap();
                Ok(changes.iter().rev().any(|change| change.name == "end-of-history").then_some(()))
            })
            .unwrap();
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        History::of(std::mem::take(&mut *self.shared.changes.lock().unwrap()))
    }
}

fn record(api: &Api, path: &str, mut version: String, into: &Recorded) {
    let mut bound: HashSet<String> = HashSet::new();
    while !into.stop.load(Ordering::Relaxed) {
        let query = format!("{path}?watch=1&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}");
        let Ok(stream) = api.stream(&query, "application/json") else { continue };
        for line in BufReader::new(stream).lines() {
            // A line cut short is read again from the version before it.
            let Some(event) = line.ok().and_then(|line| serde_json::from_str::<Value>(&line).ok()) else { break };
            assert_ne!(event["type"], "ERROR", "the history has a gap: {event}");
            let object = &event["object"];
            event["object"]["metadata"]["resourceVersion"].as_str().unwrap().clone_into(&mut version);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let change = Change {
                version: version.parse().unwrap(),
                uid: text(&object["metadata"]["uid"]),
                name: text(&object["metadata"]["name"]),
                scheduler: text(&object["spec"]["schedulerName"]),
                node: object["spec"]["nodeName"].as_str().map(str::to_owned),
                cpu: milli_of(object),
            };
            if change.node.is_some() && bound.insert(change.uid.clone()) {
                into.bound.fetch_add(1, Ordering::Relaxed);
            }
            into.changes.lock().unwrap().push(change);
        }
    }
}

/// One pod's arrival on a node.
#[derive(Debug, Clone)]
pub(crate) struct Landing {
    /// The version at which the pod was made; whoever placed it has seen everything up to it.
    pub(crate) made: u64,
    /// The version at which it had its node.
    pub(crate) version: u64,
    pub(crate) name: String,
    pub(crate) scheduler: String,
    pub(crate) node: String,
    pub(crate) cpu: u64,
}

/// The pods' lives, put in order.
pub(crate) struct History {
    /// Who landed where, by version.
    pub(crate) landings: Vec<Landing>,
    /// Pods whose node changed: the API server makes that impossible.
    pub(crate) moved: Vec<String>,
}

impl History {
    fn of(mut changes: Vec<Change>) -> Self {
        changes.sort_by_key(|change| change.version);
        let mut made: HashMap<String, u64> = HashMap::new();
        let mut landed: HashMap<String, String> = HashMap::new();
        let mut history = Self { landings: Vec::new(), moved: Vec::new() };
        for change in changes {
            let made = *made.entry(change.uid.clone()).or_insert(change.version);
            let Some(node) = change.node else { continue };
            match landed.insert(change.uid, node.clone()) {
                Some(before) if before == node => {}
                Some(_) => history.moved.push(change.name),
                None => history.landings.push(Landing {
                    made,
                    version: change.version,
                    name: change.name,
                    scheduler: change.scheduler,
                    node,
                    cpu: change.cpu,
                }),
            }
        }
        history
    }

    /// Milli-CPU taken on each node in the end.
    pub(crate) fn used(&self) -> BTreeMap<&str, u64> {
        let mut used = BTreeMap::new();
        for landing in &self.landings {
            *used.entry(&*landing.node).or_default() += landing.cpu;
        }
        used
    }

    /// The landings that found their node too full at the API server, each with the one that had filled it before.
    pub(crate) fn beyond(&self, room: u64) -> Vec<(&Landing, &Landing)> {
        let mut on: HashMap<&str, Vec<&Landing>> = HashMap::new();
        let mut beyond = Vec::new();
        for landing in &self.landings {
            let there = on.entry(&landing.node).or_default();
            // The first that, with those before it, left no room for this one.
            let mut used = 0;
            let filled = there.iter().find(|before| {
                used += before.cpu;
                used + landing.cpu > room
            });
            beyond.extend(filled.map(|filled| (landing, *filled)));
            there.push(landing);
        }
        beyond
    }

    /// Landings of `scheduler` on nodes that were too full already when the pod was made: their placer's own watch had
    /// shown that, as a watch has one order. Also how many pods were made when some node was full.
    pub(crate) fn against_better_knowledge(&self, scheduler: &str, room: u64) -> (Vec<&Landing>, usize) {
        let mut wrong = Vec::new();
        let mut informed = 0;
        for landing in self.landings.iter().filter(|landing| landing.scheduler == scheduler) {
            let known = self.landings.iter().take_while(|before| before.version <= landing.made);
            let mut used: HashMap<&str, u64> = HashMap::new();
            for before in known {
                *used.entry(&before.node).or_default() += before.cpu;
            }
            informed += usize::from(used.values().any(|taken| taken + landing.cpu > room));
            if used.get(&*landing.node).copied().unwrap_or(0) + landing.cpu > room {
                wrong.push(landing);
            }
        }
        (wrong, informed)
    }
}

/// What the API server says of the end: milli-CPU taken on each node by pods that are bound, and pods that are not.
pub(crate) fn summed(plane: &ControlPlane) -> (BTreeMap<String, u64>, usize) {
    let list = plane.api.get("/api/v1/pods").unwrap();
    let mut used: BTreeMap<String, u64> = BTreeMap::new();
    let mut waiting = 0;
    for pod in list["items"].as_array().unwrap() {
        match pod["spec"]["nodeName"].as_str() {
            Some(node) => *used.entry(node.to_owned()).or_default() += milli_of(pod),
            None => waiting += 1,
        }
    }
    (used, waiting)
}

/// The checks can fail: a history made by hand in which they must.
#[test]
fn a_landing_beyond_the_room_is_told_and_so_is_whether_its_watch_could_have_known() {
    let landing = |made, version, name: &str, scheduler: &str| Landing {
        made,
        version,
        name: name.to_owned(),
        scheduler: scheduler.to_owned(),
        node: "n".to_owned(),
        cpu: 100,
    };
    let history = History {
        landings: vec![
            landing(1, 10, "a", "theirs"),
            landing(2, 20, "b", "theirs"),
            // Made before the node was full: it could not know.
            landing(15, 30, "c", "ours"),
            // Made after the node was full, by an order that every watch keeps.
            landing(25, 40, "d", "ours"),
        ],
        moved: Vec::new(),
    };
    let beyond: Vec<(&str, &str)> =
        history.beyond(200).into_iter().map(|(one, filled)| (&*one.name, &*filled.name)).collect();
    assert_eq!(beyond, [("c", "b"), ("d", "b")]);
    let (wrong, informed) = history.against_better_knowledge("ours", 200);
    assert_eq!(wrong.iter().map(|landing| &*landing.name).collect::<Vec<_>>(), ["d"]);
    assert_eq!(informed, 1);
    assert_eq!(history.used(), BTreeMap::from([("n", 400)]));
}
