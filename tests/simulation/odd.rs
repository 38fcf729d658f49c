//! What worlds have now and then: pods that somebody places himself, with absurd amounts or resources that nobody offers; pods that are
//! edited while they wait; and many pods at once while a webhook hangs.

use super::actors::pod;
use super::model::kinds::Of;
use super::model::store::key;
use super::plan::{Plan, PodPlan, Step};
use super::random::Random;
use super::world::{Act, Inner};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// The key of the taint that some nodes have.
pub(crate) const TAINT: &str = "example.com/drawn";

/// The most that a quantity can be, in bytes.
const ABSURD: &str = "9223372036854775807";

/// More than there is room for in any table that has a column for each.
const INVENTED: usize = 520;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OddStep {
    /// Somebody places two pods that ask for more memory than there is anywhere.
    Absurd { node: usize },
    /// Somebody places a pod that asks for many resources which nobody offers, for so long.
    Inventive { node: usize, runs: Duration },
    /// One of the pods that wait is edited: from now on it tolerates the taint.
    Tolerate(u64),
    /// One of the pods that wait is deleted, and a finalizer holds it for a while.
    DeleteHeld(u64),
    /// Many pods come while a webhook that is asked about writes of pods hangs.
    Many { pod: PodPlan, count: u64, hangs: Duration },
}

impl Plan {
    pub(crate) fn draw_odd(&mut self, random: &mut Random) {
        let nodes = self.nodes.len();
        if random.in_thousand(150) {
            for _ in 0..random.between(1, 3) {
                self.at_random(random, |random| Step::Odd(OddStep::Absurd { node: random.index(nodes) }));
            }
        }
        if random.in_thousand(50) {
            let step = OddStep::Inventive { node: random.index(nodes), runs: random.millis(5_000, 90_000) };
            self.at_random(random, |_| Step::Odd(step));
        }
        if random.in_thousand(100) {
            let plan = self.pod(random);
            let pod = PodPlan { cpu: 50, port: None, alone: false, runs: Some(random.millis(1_000, 20_000)), ..plan };
            let step = OddStep::Many { pod, count: random.between(40, 80), hangs: random.millis(12_000, 30_000) };
            self.at_random(random, |_| Step::Odd(step));
        }
    }
}

impl Inner {
    pub(crate) fn perform_odd(&mut self, step: OddStep, now: Instant) {
        match step {
            OddStep::Absurd { node } => {
                for _ in 0..2 {
                    self.place_odd(node, |requests| requests["memory"] = ABSURD.into(), now);
                }
            }
            OddStep::Inventive { node, runs } => {
                let invent = |requests: &mut serde_json::Value| {
                    for index in 0..INVENTED {
                        requests[format!("invented.example.com/r{index}")] = "1".into();
                    }
                };
                if let Some(uid) = self.place_odd(node, invent, now) {
                    self.later(now + runs, Act::Succeed(uid));
                }
            }
            OddStep::Tolerate(which) => self.make_tolerant(which, now),
            OddStep::DeleteHeld(which) => self.delete_held(which, now),
            OddStep::Many { pod, count, hangs } => {
                self.network.webhook_hangs = Some(now + hangs);
                for index in 0..count {
                    let name = format!("m{}-{index}", self.store.version());
                    self.make_pod(&pod, &name, "many", now);
                }
            }
        }
    }

    /// A pod whose creator names its node, if that is there. Returns its uid.
    fn place_odd(&mut self, node: usize, ask: impl Fn(&mut serde_json::Value), now: Instant) -> Option<String> {
        let node = format!("n{node}");
        self.store.get(Of::Nodes, &key("", &node))?;
        let plan = PodPlan { cpu: 100, grace: 1, ..PodPlan::default() };
        let mut odd = pod(&plan, "red", &format!("odd{}", self.store.version()), "odd", &[]);
        odd["spec"]["nodeName"] = node.into();
        ask(&mut odd["spec"]["containers"][0]["resources"]["requests"]);
        Some(self.store.create(Of::Pods, odd, now).uid().to_owned())
    }

    fn make_tolerant(&mut self, which: u64, now: Instant) {
        let waiting: Vec<String> =
            self.facts.pending.iter().filter(|uid| !self.facts.pods[*uid].tolerates).cloned().collect();
        if !waiting.is_empty() {
            let uid = &waiting[(which % waiting.len() as u64) as usize];
            self.change_pod(uid, now, |pod| pod["spec"]["tolerations"] = json!([{"key": TAINT, "operator": "Exists"}]));
        }
    }
}
