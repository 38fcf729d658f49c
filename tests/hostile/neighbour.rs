//! A well-behaved neighbour: a namespace that gets ordinary pods at a steady rate, with the time from creation to bind of each.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use berth_lab::{Api, ControlPlane};
use serde_json::{Value, json};

use crate::P99;
use crate::objects::{pod, pod_path};

/// The neighbour's namespace and profile.
pub(super) const NEIGHBOUR: &str = "neighbour";

/// Between two pods: twenty a second.
const PERIOD: Duration = Duration::from_millis(50);

/// How long a bound pod stays.
const STAY: Duration = Duration::from_secs(2);

/// Pods are made until it is dropped.
pub(super) struct Neighbour {
    times: Arc<Times>,
    threads: Vec<JoinHandle<()>>,
}

/// Whose pods it has.
#[derive(Debug, Clone, Copy)]
struct Of {
    namespace: &'static str,
    profile: &'static str,
}

/// The waits of some pods.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waits {
    pub(super) p50: Duration,
    pub(super) p99: Duration,
}

/// What a thread of the neighbour does.
type Work = Box<dyn FnOnce(&Api, &Times, Of) + Send>;

#[derive(Default)]
struct Times {
    /// Pods that are not bound yet, and when they were made.
    waiting: Mutex<HashMap<String, Instant>>,
    /// When a pod was made, and how long it waited.
    bound: Mutex<Vec<(Instant, Duration)>>,
    stop: AtomicBool,
}

impl Neighbour {
    pub(super) fn start(plane: &ControlPlane, namespace: &'static str, profile: &'static str) -> Self {
        let of = Of { namespace, profile };
        let times = Arc::new(Times::default());
        let list = plane.api.get(&format!("{}?limit=1", pod_path(namespace, ""))).unwrap();
        let from = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let (sender, bound) = channel();
        let spawn = |work: Work| {
            let (api, times) = (plane.api.clone(), times.clone());
            thread::spawn(move || work(&api, &times, of))
        };
        let threads = vec![
            spawn(Box::new(move |api, times, of| watch(api, times, of, from, &sender))),
            spawn(Box::new(make)),
            spawn(Box::new(move |api, times, of| remove(api, times, of, &bound))),
        ];
        Self { times, threads }
    }

    /// The waits of the pods made since `from`; where there are none, somebody waited all the time.
    pub(super) fn quantiles_since(&self, from: Instant) -> Waits {
        let waits = self.waits_since(from);
        let quantile = |of: usize| waits.get((waits.len() * of / 100).min(waits.len().saturating_sub(1))).copied();
        let never = from.elapsed();
        Waits { p50: quantile(50).unwrap_or(never), p99: quantile(99).unwrap_or(never) }
    }

    /// The waits of the pods made since `from`, sorted; a pod that still waits counts with its age.
    fn waits_since(&self, from: Instant) -> Vec<Duration> {
        let bound = self.times.bound.lock().unwrap();
        let waiting = self.times.waiting.lock().unwrap();
        let open = waiting.values().filter(|made| **made >= from).map(Instant::elapsed);
        let mut waits: Vec<_> =
            bound.iter().filter(|(made, _)| *made >= from).map(|(_, wait)| *wait).chain(open).collect();
        waits.sort_unstable();
        waits
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {} ms", self.p50.as_millis(), self.p99.as_millis())
    }
}

impl Waits {
    /// Says so if these, of `whose` pods, exceed what they may be beside a case; `quiet` was taken before it.
    pub(super) fn beyond(self, quiet: Self, whose: &str) -> Option<String> {
        let bound = P99.max(3 * quiet.p99);
        (self.p99 > bound).then(|| format!("{whose}p99 over {} ms", bound.as_millis()))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.times.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn make(api: &Api, times: &Times, Of { namespace, profile }: Of) {
    let began = Instant::now();
    for number in 0_u32.. {
        if times.stop.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("n{number}");
        times.waiting.lock().unwrap().insert(name.clone(), Instant::now());
        if api.post(&pod_path(namespace, ""), &pod(namespace, &name, profile, "10m")).is_err() {
            times.waiting.lock().unwrap().remove(&name);
        }
        // A rate, not a pause: what a slow answer took is not added to it.
        thread::sleep((began + PERIOD * (number + 1)).saturating_duration_since(Instant::now()));
    }
}

fn watch(api: &Api, times: &Times, of: Of, mut version: String, bound: &Sender<(String, Instant)>) {
    while !times.stop.load(Ordering::Relaxed) {
        let path = pod_path(of.namespace, "");
        let query = format!("{path}?watch=1&timeoutSeconds=5&resourceVersion={version}");
        let Ok(stream) = api.stream(&query, "application/json") else { continue };
        for line in BufReader::new(stream).lines() {
            let Some(event) = line.ok().and_then(|line| serde_json::from_str::<Value>(&line).ok()) else { break };
            let object = &event["object"];
            let Some(seen) = object["metadata"]["resourceVersion"].as_str() else { break };
            seen.clone_into(&mut version);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if !object["spec"]["nodeName"].is_string() {
                continue;
            }
            let made = times.waiting.lock().unwrap().remove(name);
            if let Some(made) = made {
                times.bound.lock().unwrap().push((made, made.elapsed()));
                let _ = bound.send((name.to_owned(), Instant::now()));
            }
        }
    }
}

fn remove(api: &Api, times: &Times, of: Of, bound: &Receiver<(String, Instant)>) {
    let at_once = json!({"gracePeriodSeconds": 0});
    for (name, since) in bound {
        while since.elapsed() < STAY && !times.stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = api.delete(&pod_path(of.namespace, &name), Some(&at_once));
    }
}
