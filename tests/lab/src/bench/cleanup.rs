//! Between two runs: nothing left of the last one, an API server that has caught up, and the objects that the next one asks for.

use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::Bench;
use super::cluster::PODS;
use super::progress::progress;
use crate::api::Patch;
use crate::parallel::for_each;

/// For deleting one kind: 8,000 pods take some ten seconds.
const DELETE_LIMIT: Duration = Duration::from_mins(5);
/// For the API server and etcd to go quiet after a run or after 150,000 creations.
const CALM_LIMIT: Duration = Duration::from_mins(2);
const CALM_WINDOW: Duration = Duration::from_secs(1);
/// Share of one core that both together may use in a quiet window.
const CALM_SHARE: f64 = 0.2;
const CALM_WINDOWS: usize = 2;
/// Requests in flight at a time.
const WIDTH: usize = 64;
const NAP: Duration = Duration::from_millis(100);

impl Bench {
    /// Removes pods and events of a run.
    pub(super) fn clean(&self) -> Result<()> {
        for kind in ["pods", "events"] {
            self.delete_all(&format!("/api/v1/namespaces/{PODS}/{kind}"))?;
        }
        Ok(())
    }

    /// Deletes all in a collection and waits until it is empty.
    pub(super) fn delete_all(&self, path: &str) -> Result<()> {
        let at_once = at_once();
        self.options.stop.wait_for(&format!("all of the last run in {path} to go"), DELETE_LIMIT, || {
            let answer = self.cluster.plane.api.request("DELETE", path, Some(&at_once))?;
            // A collection that takes longer than a request may last is deleted in several.
            if !answer.is_success() && answer.status < 500 && answer.status != 429 {
                bail!("DELETE {path}: {}: {}", answer.status, answer.body["message"]);
            }
            let left = self.cluster.plane.api.get(&format!("{path}?limit=1"))?;
            Ok(left["items"].as_array().is_some_and(Vec::is_empty).then_some(()))
        })
    }

    /// As [`Self::delete_all`], of objects that finalizers protect: the controllers that would remove these do not run here.
    pub(super) fn delete_protected(&self, path: &str) -> Result<()> {
        let list = self.cluster.plane.api.get(path)?;
        let protected = list["items"].as_array().into_iter().flatten();
        let protected = protected.filter(|object| object["metadata"]["finalizers"].is_array());
        let names: Vec<&str> = protected.filter_map(|object| object["metadata"]["name"].as_str()).collect();
        let free = json!({"metadata": {"finalizers": null}});
        self.each(names.len(), |index| {
            self.cluster.plane.api.patch(&format!("{path}/{}", names[index]), Patch::Merge, &free).map(drop)
        })?;
        self.delete_all(path)
    }

    /// Makes `count` objects in a collection.
    pub(super) fn make(&self, path: &str, count: usize, object: impl Fn(usize) -> Value + Sync) -> Result<()> {
        self.each(count, |index| self.cluster.plane.api.post(path, &object(index)).map(drop))
    }

    /// Makes a request for each number below `count`, many at a time, and gives up when the stop flag is raised.
    pub(super) fn each(&self, count: usize, request: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
        for_each(count, WIDTH, |index| {
            if self.options.stop.is_raised() {
                bail!("interrupted");
            }
            request(index)
        })
    }

    /// Waits until API server and etcd are nearly idle. Goes on with a line on stderr when they never are.
    pub(super) fn calm(&self) -> Result<()> {
        let mut quiet = 0;
        let windows = CALM_LIMIT.as_secs() / CALM_WINDOW.as_secs();
        let mut used = self.server_cpu_seconds()?;
        for _ in 0..windows {
            self.pause(CALM_WINDOW)?;
            let before = std::mem::replace(&mut used, self.server_cpu_seconds()?);
            quiet = if used - before < CALM_SHARE * CALM_WINDOW.as_secs_f64() { quiet + 1 } else { 0 };
            if quiet == CALM_WINDOWS {
                return Ok(());
            }
        }
        progress(&format!("the API server is not calm after {} s; going on", CALM_LIMIT.as_secs()))
    }

    /// Processor time of kube-apiserver and etcd so far.
    pub(super) fn server_cpu_seconds(&self) -> Result<f64> {
        Ok(self.cluster.plane.apiserver().cpu_seconds()? + self.cluster.plane.etcd().cpu_seconds()?)
    }

    /// Sleeps, and gives up when the stop flag is raised.
    pub(super) fn pause(&self, length: Duration) -> Result<()> {
        let end = std::time::Instant::now() + length;
        loop {
            if self.options.stop.is_raised() {
                bail!("interrupted");
            }
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

/// No kubelet would confirm a graceful deletion.
pub(super) fn at_once() -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
}
