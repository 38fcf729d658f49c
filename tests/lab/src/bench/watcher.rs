//! Stamps when each pod was seen bound, by a watch of the driver's own: the same clock for every contestant.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::cluster::pods_path;
use crate::api::Api;

/// Names and versions only: the smallest answer that says what is needed.
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// Only bound pods are in the selection, so a pod enters it when it is bound.
const SELECTION: &str = "fieldSelector=spec.nodeName!%3D";
/// Failures in a row after which the watch begins anew: the version may be refused in a way not known here.
const RESUMPTIONS: usize = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// What has been seen bound of the pods that are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Binds {
    pub(super) count: usize,
    pub(super) first: Instant,
    pub(super) last: Instant,
}

/// The watch. It ends soon after this value is dropped.
#[derive(Debug)]
pub(super) struct BindWatcher {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    followed: Mutex<Followed>,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Followed {
    prefix: String,
    seen: HashMap<String, Instant>,
    /// How often the watch could not be resumed: pods bound meanwhile were stamped late.
    gaps: usize,
}

impl BindWatcher {
    /// Begins to watch; on return nothing that is bound from now on can be missed.
    pub(super) fn start(api: &Api) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let version = list(api, &shared)?;
        let (api, watched) = (api.clone(), Arc::clone(&shared));
        // Not joined: it may sit in a read until the API server ends.
        thread::Builder::new().name("bind-watcher".to_owned()).spawn(move || follow_all(&api, &watched, version))?;
        Ok(Self { shared })
    }

    /// Forgets what was seen; from now on pods whose names begin with `prefix` count.
    pub(super) fn follow(&self, prefix: &str) {
        *self.shared.lock() = Followed { prefix: prefix.to_owned(), ..Followed::default() };
    }

    /// What has been seen so far; `None` while that is nothing.
    pub(super) fn binds(&self) -> Option<Binds> {
        let followed = self.shared.lock();
        let (first, last) = (followed.seen.values().min()?, followed.seen.values().max()?);
        Some(Binds { count: followed.seen.len(), first: *first, last: *last })
    }

    /// When each pod that has been seen was.
    pub(super) fn stamps(&self) -> HashMap<String, Instant> {
        self.shared.lock().seen.clone()
    }

    /// How many have been seen so far.
    pub(super) fn count(&self) -> usize {
        self.shared.lock().seen.len()
    }

    /// How often since [`Self::follow`] the watch had to begin anew, so that stamps may be late.
    pub(super) fn gaps(&self) -> usize {
        self.shared.lock().gaps
    }
}

impl Drop for BindWatcher {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stamp(&self, name: &str, at: Instant) {
        let mut followed = self.lock();
        if name.starts_with(&followed.prefix) && !followed.seen.contains_key(name) {
            followed.seen.insert(name.to_owned(), at);
        }
    }
}

fn collection() -> String {
    format!("{}?{SELECTION}", pods_path())
}

fn version_of(object: &Value) -> Option<&str> {
    object["metadata"]["resourceVersion"].as_str()
}

/// Stamps what is bound now; returns the version to watch from.
fn list(api: &Api, shared: &Shared) -> Result<String> {
    let list: Value = serde_json::from_reader(BufReader::new(api.stream(&collection(), METADATA_LIST)?))?;
    let at = Instant::now();
    for pod in list["items"].as_array().into_iter().flatten() {
        shared.stamp(pod["metadata"]["name"].as_str().unwrap_or_default(), at);
    }
    Ok(version_of(&list).context("a list of pods has no resourceVersion")?.to_owned())
}

/// Watches until told to end. A watch that is cut is resumed; one that cannot be begins anew with a list.
fn follow_all(api: &Api, shared: &Shared, version: String) {
    let mut version = Some(version);
    let mut failures = 0;
    while !shared.ended.load(Ordering::Relaxed) {
        let outcome = match &mut version {
            Some(version) => watch(api, shared, version),
            None => list(api, shared).map(|listed| version = Some(listed)),
        };
        let Err(error) = outcome else {
            failures = 0;
            continue;
        };
        failures += 1;
        if version.is_some() && (error.is::<Expired>() || failures == RESUMPTIONS) {
            version = None;
            failures = 0;
            shared.lock().gaps += 1;
        } else {
            thread::sleep(PAUSE);
        }
    }
}

/// The API server no longer knows the version to watch from.
#[derive(Debug)]
struct Expired;

impl std::fmt::Display for Expired {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the watch can not be resumed")
    }
}

impl std::error::Error for Expired {}

/// Stamps until the stream ends; `version` moves on with every event.
fn watch(api: &Api, shared: &Shared, version: &mut String) -> Result<()> {
    let path = format!("{}&watch=1&allowWatchBookmarks=true&resourceVersion={version}", collection());
    for line in BufReader::new(api.stream(&path, METADATA)?).lines() {
        let line = line?;
        let at = Instant::now();
        let event: Value = serde_json::from_str(&line)?;
        let object = &event["object"];
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => shared.stamp(object["metadata"]["name"].as_str().unwrap_or_default(), at),
            Some("ERROR") if object["code"] == 410 => bail!(Expired),
            Some("ERROR") => bail!("the watch answered {object}"),
            _ => {}
        }
        if let Some(seen) = version_of(object) {
            seen.clone_into(version);
        }
        if shared.ended.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stamp_of_a_followed_pod_counts() {
        let watcher = BindWatcher { shared: Arc::new(Shared::default()) };
        watcher.follow("race-1-");
        assert_eq!(watcher.binds(), None);
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        watcher.shared.stamp("probe-1", at(0));
        watcher.shared.stamp("race-1-a", at(1));
        watcher.shared.stamp("race-1-b", at(2));
        watcher.shared.stamp("race-1-a", at(3));
        assert_eq!(watcher.binds(), Some(Binds { count: 2, first: at(1), last: at(2) }));
        watcher.follow("race-2-");
        assert_eq!(watcher.count(), 0);
    }
}
