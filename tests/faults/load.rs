//! Pods that keep coming at a steady rate, whatever happens to the API server.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use berth_lab::{Api, ControlPlane, for_each};
use serde_json::{Value, json};

use crate::objects::{pod, pod_path};
use crate::storage::mount;
use crate::{devices, volumes};

/// The namespace, and the profile of its pods.
pub(super) const LOADED: &str = "loaded";

/// Pods of one anti-affinity group: fewer than nodes, so that all find room.
const GROUP: usize = 100;

/// Requests under way at a time when many pods come at once.
const AT_ONCE: usize = 16;

/// Pods are made until it is dropped.
pub(super) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Numbers given out; each is a pod that exists or is about to.
    begun: AtomicUsize,
    /// Pods of lower numbers are none of the load's any more.
    ended: AtomicUsize,
    flows: AtomicBool,
    stop: AtomicBool,
    /// For each new pod the one so many before it is deleted; 0 keeps all.
    keep: AtomicUsize,
    /// Whether some pods have claims.
    claims: bool,
}

impl Load {
    /// `makers` threads, each with a pod every `pace`; with `claims`, some of the pods have volumes or devices.
    pub(super) fn start(plane: &ControlPlane, makers: usize, pace: Duration, claims: bool) -> Self {
        let shared = Arc::new(Shared { claims, ..Shared::default() });
        let maker = |i: usize| {
            let (api, shared) = (plane.api.clone(), shared.clone());
            // One after the other: if all came at once, so would the binds, with gaps between them that are not Berth's.
            let first = pace * i as u32 / makers as u32;
            thread::spawn(move || make(&api, &shared, first, pace))
        };
        Self { threads: (0..makers).map(maker).collect(), shared }
    }

    pub(super) fn flow(&self, flows: bool) {
        self.shared.flows.store(flows, Ordering::Relaxed);
    }

    /// How many pods it has made.
    pub(super) fn made(&self) -> usize {
        self.shared.begun.load(Ordering::Relaxed)
    }

    /// The numbers of those that nobody has deleted. The last may be about to be made.
    pub(super) fn there(&self) -> Range<usize> {
        let (made, keep) = (self.made(), self.shared.keep.load(Ordering::Relaxed));
        let kept = if keep > 0 { made.saturating_sub(keep) } else { 0 };
        kept.max(self.shared.ended.load(Ordering::Relaxed))..made
    }

    /// All pods that it has made are gone.
    pub(super) fn forget(&self) {
        self.shared.ended.store(self.made(), Ordering::Relaxed);
    }

    /// Makes so many at once, beside those that come anyway; the number of the first.
    pub(super) fn at_once(&self, api: &Api, count: usize) -> usize {
        let first = self.shared.begun.fetch_add(count, Ordering::Relaxed);
        for_each(count, AT_ONCE, |i| {
            make_one(api, &self.shared, first + i);
            Ok(())
        })
        .unwrap();
        first
    }

    /// Deletes a pod for each that comes, so that about `pods` are there.
    pub(super) fn keep(&self, pods: usize) {
        self.shared.keep.store(pods, Ordering::Relaxed);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Makes a pod each `pace`, at first after `first` more.
fn make(api: &Api, shared: &Shared, first: Duration, pace: Duration) {
    let mut next = Instant::now() + first;
    while !shared.stop.load(Ordering::Relaxed) {
        // A rate, not a pause: what a slow answer took is not added to it. What an outage took is not made up for.
        next = (next + pace).max(Instant::now());
        thread::sleep(next.saturating_duration_since(Instant::now()));
        if shared.flows.load(Ordering::Relaxed) {
            let number = shared.begun.fetch_add(1, Ordering::Relaxed);
            make_one(api, shared, number);
            let keep = shared.keep.load(Ordering::Relaxed);
            if let Some(old) = number.checked_sub(keep).filter(|_| keep > 0) {
                let now = json!({"gracePeriodSeconds": 0});
                let claim = if shared.claims { devices::ends_with(api, old) } else { None };
                drop(api.delete(&pod_path(LOADED, &name(old)), Some(&now)));
                if shared.claims {
                    volumes::end_after(api, old);
                }
                if let Some(claim) = claim {
                    devices::end(api, &claim);
                }
            }
        }
    }
}

/// Makes the pod of this number, and before it what it needs; what fails is asked for again.
fn make_one(api: &Api, shared: &Shared, number: usize) {
    let mut needs = Vec::new();
    if shared.claims {
        needs.extend(volumes::needed_by(number));
        needs.extend(devices::needed_by(number));
    }
    let pod = (pod_path(LOADED, ""), numbered(number, shared.claims));
    for (collection, object) in needs.iter().chain([&pod]) {
        while !is_there(api, collection, object) && !shared.stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Whether the object exists now: an answer to an earlier try may have been lost.
fn is_there(api: &Api, collection: &str, object: &Value) -> bool {
    let answer = api.request("POST", collection, Some(object));
    answer.is_ok_and(|answer| answer.is_success() || answer.status == 409)
}

/// Deletes all objects of a collection; whether none is left. The answer holds all that was deleted, and the API server may break off in
/// the middle of it: this is asked again until nothing is left.
pub(super) fn delete_all(api: &Api, collection: &str, options: Option<&Value>) -> bool {
    let _asked_again = api.delete(collection, options);
    let left = api.get(&format!("{collection}?limit=1"));
    left.is_ok_and(|left| left["items"].as_array().is_none_or(Vec::is_empty))
}

/// The name of the pod of this number.
pub(super) fn name(number: usize) -> String {
    format!("p{number}")
}

/// One in ten keeps off the nodes of its group, one in ten holds a host port, and some have a claim.
fn numbered(i: usize, claims: bool) -> Value {
    let mut pod = pod(LOADED, &name(i), LOADED, ["100m", "250m", "400m"][i % 3]);
    if let Some(claim) = volumes::claim_of(i).filter(|_| claims) {
        mount(&mut pod, &[&claim]);
    }
    if claims {
        devices::ask(&mut pod, i);
    }
    if i.is_multiple_of(10) {
        let group = format!("g{}", i / (10 * GROUP));
        pod["metadata"]["labels"]["group"] = json!(group);
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"group": group}},
        }]}});
    }
    if i % 10 == 5 {
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8_000 + i / 10 % 7}]);
    }
    pod
}
