//! A race of pods of high priority in a cluster full of pods of low priority, which give way one by one.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::Bench;
use super::cluster::pods_path;
use super::contestant::Contestant;
use super::figures::Figures;
use super::pods::{FILLERS_PER_NODE, HIGH, LOW, filler};
use super::workload::Workload;

const PRIORITY_CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

impl Bench {
    /// Fills every node, runs the race, and counts who had to go.
    pub(super) fn preemption(&self, contestant: Contestant, prefix: &str) -> Result<Figures> {
        self.make_priority_classes()?;
        let fillers = self.options.nodes * FILLERS_PER_NODE;
        self.make(&pods_path(), fillers, filler)?;
        self.calm()?;
        let figures = self.race(Workload::Preemption, contestant, prefix)?;
        Ok(Figures { victims: Some(fillers - self.count_fillers()?), ..figures })
    }

    pub(super) fn make_priority_classes(&self) -> Result<()> {
        for (name, value) in [(HIGH, 1000), (LOW, -10)] {
            let class: Value = json!({
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            });
            let answer = self.cluster.plane.api.request("POST", PRIORITY_CLASSES, Some(&class))?;
            if !answer.is_success() && answer.status != 409 {
                bail!("POST {PRIORITY_CLASSES}: {}: {}", answer.status, answer.body["message"]);
            }
        }
        Ok(())
    }

    fn count_fillers(&self) -> Result<usize> {
        let path = format!("{}?labelSelector=app%3Dfiller", pods_path());
        Ok(self.cluster.plane.api.get(&path)?["items"].as_array().map_or(0, Vec::len))
    }
}
