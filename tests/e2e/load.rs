//! Pods that keep coming while operators come and go, and what became of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use berth_lab::{ControlPlane, NodeSpec, Operator};
use serde_json::json;

use crate::LATER;
use crate::audit::Audit;
use crate::cluster::{binary, namespace, start_binary};
use crate::history::{Recorder, summed};
use crate::objects::{change_profile, pod, pod_path, wait_reason};

const NODES: usize = 400;
/// Milli-CPU of a node: 30 pods.
const ROOM: u64 = 3_000;
/// More are not made: they would find no room.
const MOST: usize = NODES * 30 - 100;
/// Threads that make pods: so many that the rate does not depend on how soon the API server answers.
const MAKERS: u32 = 8;

/// Pods of one profile in a namespace of its name. Its nodes are to be filled one after the other, so that each fill is a chance to
/// overbook.
pub(crate) struct Load<'a> {
    name: &'static str,
    pub(crate) plane: &'a ControlPlane,
    pub(crate) audit: &'a Audit,
    pub(crate) recorder: Recorder,
    made: AtomicUsize,
    flows: AtomicBool,
    done: AtomicBool,
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Starts an operator and waits until it is ready: it leads or stands by.
pub(crate) fn ready(plane: &ControlPlane, name: &str) -> Operator {
    ready_from(plane, &binary(), name)
}

/// The same from another binary than that under test.
pub(crate) fn ready_from(plane: &ControlPlane, binary: &Path, name: &str) -> Operator {
    let mut operator = start_binary(plane, binary.to_owned(), name, &[]);
    plane.wait_until_ready(&mut operator).unwrap();
    operator
}

/// Microseconds of Unix time.
pub(crate) fn now_us() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

impl<'a> Load<'a> {
    /// The nodes and the namespace are made here; `name` is the profile's too.
    pub(crate) fn new(name: &'static str, plane: &'a ControlPlane, audit: &'a Audit) -> Self {
        namespace(plane, name);
        plane.create_nodes(NODES, |i| NodeSpec::new(&format!("n{i}"), "zone-a", "3", "64Gi")).unwrap();
        let recorder = Recorder::start(plane, name);
        Self {
            name,
            plane,
            audit,
            recorder,
            made: AtomicUsize::new(0),
            flows: AtomicBool::new(true),
            done: AtomicBool::new(false),
        }
    }

    /// Makes so many pods a second while `work` runs.
    pub(crate) fn beside<R>(&self, rate: u32, work: impl FnOnce() -> R) -> R {
        let pace = Duration::from_secs(1) * MAKERS / rate;
        thread::scope(|scope| {
            let _ends = EndOnDrop(&self.done);
            for maker in 0..MAKERS {
                // One after the other: if all came at once, so would the binds, with gaps between them that are not Berth's.
                let first = pace / MAKERS * maker;
                scope.spawn(move || self.make_pods(first, pace));
            }
            work()
        })
    }

    fn make_pods(&self, first: Duration, pace: Duration) {
        let mut next = Instant::now() + first;
        while !self.done.load(Ordering::Relaxed) {
            // A measure of time, not of luck.
            thread::sleep(next.saturating_duration_since(Instant::now()));
            // A rate, not a pause: what an answer takes is not added to it.
            next = (next + pace).max(Instant::now());
            if self.flows.load(Ordering::Relaxed) && self.made.load(Ordering::Relaxed) < MOST {
                let pod = self.pod(self.made.fetch_add(1, Ordering::Relaxed));
                self.plane.api.post(&pod_path(self.name, ""), &pod).unwrap();
            }
        }
    }

    /// How many pods there are, or are about to be.
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    fn pod(&self, i: usize) -> serde_json::Value {
        pod(self.name, &format!("p{i}"), self.name, "100m")
    }

    /// No pods come until the next call with `true`.
    pub(crate) fn flow(&self, flows: bool) {
        self.flows.store(flows, Ordering::Relaxed);
    }

    /// Makes `count` pods that are all to be bound at once, and returns when a tenth of them is: how many there are, and how many of
    /// all still wait.
    pub(crate) fn begin_backlog(&self, count: usize) -> (usize, usize) {
        change_profile(self.plane, self.name, &json!({"mode": "Paused"}));
        wait_reason(self.plane, self.name, "Ready", "Paused");
        let first = self.made.fetch_add(count, Ordering::Relaxed);
        self.plane.create_objects(&pod_path(self.name, ""), count, 16, |i| self.pod(first + i)).unwrap();
        let bound = self.recorder.bound();
        change_profile(self.plane, self.name, &json!({"mode": "Active"}));
        self.wait_until_bound(bound + count / 10);
        let made = self.made.load(Ordering::Relaxed);
        (made, made - self.recorder.bound())
    }

    pub(crate) fn wait_until_bound(&self, wanted: usize) {
        let bound = || Ok((self.recorder.bound() >= wanted).then_some(()));
        self.plane.wait_for(&format!("{wanted} pods bound"), LATER, bound).unwrap();
    }

    /// Waits until so many more pods are bound.
    pub(crate) fn wait_for_binds(&self, more: usize) {
        self.wait_until_bound(self.recorder.bound() + more);
    }

    /// As [`Audit::longest_gap`].
    pub(crate) fn longest_gap(&self, since: i64) -> f64 {
        self.audit.longest_gap(since)
    }

    /// Waits for the last pod, and looks at all that happened; an operator must still lead.
    pub(crate) fn nothing_was_lost_doubled_or_overbooked(self) {
        let made = self.made.load(Ordering::Relaxed);
        self.wait_until_bound(made);
        let Self { name, plane, audit, recorder, .. } = self;
        let history = recorder.finish(plane);
        assert!(history.moved.is_empty(), "{:?}", history.moved);
        let (used, _) = summed(plane);
        let overbooked: Vec<_> = used.iter().filter(|(_, used)| **used > ROOM).collect();
        assert!(overbooked.is_empty(), "{overbooked:?}");
        let mut bound: BTreeMap<String, usize> = BTreeMap::new();
        let (mut refused, binds) = (0, audit.binds());
        for bind in &binds {
            match bind.code {
                201 => *bound.entry(bind.pod.clone()).or_default() += 1,
                _ => refused += 1,
            }
        }
        let twice: Vec<_> = bound.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
        println!("{name}: {made} pods, {} binds, {refused} of them refused, overbooked 0, twice 0", binds.len());
    }
}
