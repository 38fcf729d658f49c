//! What comes and goes while the pods of a race are placed: upstream's SchedulingWithMixedChurn and Unschedulable
//! (`scheduler_perf/misc/performance-config.yaml`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use serde_json::{Value, json};

use super::Bench;
use super::cleanup::at_once;
use super::cluster::{PODS, pods_path};
use super::contestant::Contestant;
use super::figures::Figures;
use super::pods::too_big;
use super::workload::Workload;
use crate::nodes::NodeSpec;

/// How often a node, a Service and a pod are made anew.
const RECREATED_EVERY: Duration = Duration::from_secs(1);
/// How often one more pod comes that fits nowhere.
const COMES_EVERY: Duration = Duration::from_millis(200);
const NAME: &str = "churn";
/// How often the end of the race is looked for between two changes.
const LOOK: Duration = Duration::from_millis(20);

/// Pods on each node that are placed before some come that fit nowhere: upstream has 20,000 on 5,000 nodes.
pub(super) const PLACED_PER_NODE: usize = 4;

impl Bench {
    /// A race while a node, a Service and a pod come and go.
    pub(super) fn churn(&self, contestant: Contestant, prefix: &str) -> Result<Figures> {
        self.make_priority_classes()?;
        self.race(Workload::Churn, contestant, prefix)
    }

    /// A race beside placed pods, which are made before the first one, and stay.
    pub(super) fn unschedulable(&mut self, contestant: Contestant, prefix: &str) -> Result<Figures> {
        self.fill(self.options.nodes * PLACED_PER_NODE)?;
        self.make_priority_classes()?;
        self.calm()?;
        self.race(Workload::Unschedulable, contestant, prefix)
    }

    /// Runs `race` with what the workload has happen beside it.
    pub(super) fn beside<T>(
        &self,
        workload: Workload,
        contestant: Contestant,
        race: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let over = AtomicBool::new(false);
        let served_by = contestant.server_of_others();
        thread::scope(|scope| {
            let beside = scope.spawn(|| match workload {
                Workload::Churn => self.recreate(served_by, &over),
                Workload::Unschedulable => self.come_that_fit_nowhere(served_by, &over),
                _ => Ok(()),
            });
            let outcome = {
                // Also where the race panics: the scope waits for the other thread.
                let _over = Raises(&over);
                race()
            };
            let beside = beside.join().map_err(|_| anyhow!("what goes on beside a race panicked"))?;
            outcome.and_then(|placed| beside.map(|()| placed))
        })
    }

    fn recreate(&self, served_by: &str, over: &AtomicBool) -> Result<()> {
        let api = &self.cluster.plane.api;
        let (nodes, pods, services) =
            ("/api/v1/nodes".to_owned(), pods_path(), format!("/api/v1/namespaces/{PODS}/services"));
        let gone = || {
            let at_once = at_once();
            [&nodes, &pods, &services].into_iter().try_for_each(|collection| {
                let answer = api.request("DELETE", &format!("{collection}/{NAME}"), Some(&at_once))?;
                match answer.status {
                    404 => Ok(()),
                    _ if answer.is_success() => Ok(()),
                    status => bail!("DELETE {collection}/{NAME}: {status}: {}", answer.body["message"]),
                }
            })
        };
        let recreated = every(RECREATED_EVERY, over, |_| {
            gone()?;
            self.cluster.plane.create_nodes(1, |_| NodeSpec::new(NAME, "zone-a", "4", "32Gi"))?;
            api.post(&pods, &too_big(NAME, served_by))?;
            api.post(&services, &service())?;
            Ok(())
        });
        // Whatever came of it: they must not be there in the next run.
        gone().and(recreated)
    }

    fn come_that_fit_nowhere(&self, served_by: &str, over: &AtomicBool) -> Result<()> {
        every(COMES_EVERY, over, |turn| {
            self.cluster.plane.api.post(&pods_path(), &too_big(&format!("big-{turn:06}"), served_by)).map(drop)
        })
    }
}

/// Raises a flag when it is dropped.
struct Raises<'a>(&'a AtomicBool);

impl Drop for Raises<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls `act` with 0, 1, … once in each interval until it is over. Turns that were missed come without a pause.
fn every(interval: Duration, over: &AtomicBool, mut act: impl FnMut(u32) -> Result<()>) -> Result<()> {
    let began = Instant::now();
    for turn in 0.. {
        while began.elapsed() < interval * turn {
            if over.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::sleep(LOOK);
        }
        if over.load(Ordering::Relaxed) {
            break;
        }
        act(turn)?;
    }
    Ok(())
}

fn service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": PODS},
        "spec": {"selector": {"app": NAME}, "ports": [{"port": 80}]},
    })
}
