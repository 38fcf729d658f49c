//! L1 from half a minute after healing on, once a second: a pod that a leader has kept waiting for so long, although a node had room for it and
//! nothing stood in the leader's way. Before a minute is over much still may: a replica that was killed last, a watch or the look at profiles
//! that pauses for up to 30 s after many failures. So a pod counts only while the leader's gate is open, it has been shown what there was some
//! seconds ago, and it has said itself that the pod's profile is Ready as it is.
//!
//! Left out, for what else has to be there first: pods with claims, worlds with extenders, and those whose watches leave something out.

use super::facts::PodFact;
use super::model::kinds::Of;
use super::model::store::key;
use super::world::Inner;
use berth::operator::Inside;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// So long after everything has healed pods begin to be looked for.
pub(crate) const FROM: Duration = Duration::from_secs(30);

/// So long all of this has been so at each look: longer than the longest backoff, and some seconds for what an attempt may wait for.
const FOR: Duration = Duration::from_secs(15);

/// How many looks ago that was which the leader must have been shown: a watch that was opened before everything healed may be 4 s late.
const LOOKS_AGO: usize = 6;

#[derive(Debug, Default)]
pub(crate) struct Steady {
    leader: Option<usize>,
    /// The newest versions of pods, nodes and namespaces at the last looks.
    newest: VecDeque<[u64; 3]>,
    /// Pods that could be placed at once, by uid, with each node, and since when.
    since: BTreeMap<(String, String), Instant>,
}

impl Inner {
    /// Looks for pods that the leader keeps waiting, after it was noted where they have room; `counts`: those that it finds break the rule.
    pub(crate) fn look_who_is_kept_waiting(&mut self, now: Instant, counts: bool) {
        if self.plan.has_resource || self.plan.leaves_out {
            return;
        }
        let newest = [Of::Pods, Of::Nodes, Of::Namespaces].map(|of| self.store.of(of).newest);
        self.steady.newest.push_back(newest);
        if self.steady.newest.len() > LOOKS_AGO {
            self.steady.newest.pop_front();
        }
        let before = std::mem::take(&mut self.steady.since);
        let leader = self.rules.leader;
        let goes_on = leader == std::mem::replace(&mut self.steady.leader, leader);
        let Some(leader) = leader.filter(|leader| goes_on && self.keeps_up(*leader)) else { return };
        let is_kept = |room: &&(String, String)| self.could_be_placed(leader, &self.facts.pods[&room.0], &room.1);
        let since = |room: &(String, String)| (room.clone(), before.get(room).copied().unwrap_or(now));
        let since: BTreeMap<(String, String), Instant> =
            self.has_room_since.keys().filter(is_kept).map(since).collect();
        let late = since.iter().find(|(_, since)| counts && **since + FOR <= now);
        if let Some(((uid, node), since)) = late {
            let (pod, seconds) = (&self.facts.pods[uid].key, now.duration_since(*since).as_secs());
            let what = format!("pod {pod} waits, {node} has room, and operator {leader} has known it for {seconds} s");
            self.rules.breaks("L1", &what);
        }
        self.steady.since = since;
    }

    /// Whether nothing keeps the leader from placing pods, by what there was some looks ago.
    fn keeps_up(&self, leader: usize) -> bool {
        let operator = &self.operators[leader];
        let is_open = operator.inside.as_ref().is_some_and(Inside::is_gate_open);
        let then = self.steady.newest.front().filter(|_| self.steady.newest.len() == LOOKS_AGO);
        let has_been_shown = then.is_some_and(|then| self.rules.has_been_shown(leader, *then));
        operator.connected && !operator.stop.is_cancelled() && is_open && has_been_shown
    }

    /// Whether nothing but the leader keeps a pod waiting for which a node has room.
    fn could_be_placed(&self, leader: usize, pod: &PodFact, node: &str) -> bool {
        let is_let_go = |other: &PodFact| {
            // What nobody serves any more is given up within half a minute.
            other.nominated.as_deref() == Some(node) && self.facts.profiles.serving(other).is_none()
        };
        !pod.gated
            && !pod.is_prepared()
            && self.is_said_to_be_ready(leader, &pod.scheduler)
            && !self.facts.pending.iter().any(|uid| is_let_go(&self.facts.pods[uid]))
    }

    /// Whether this process has said that a profile is Ready as it is. Who serves the name that profiles hand to each other is not asked.
    fn is_said_to_be_ready(&self, process: usize, profile: &str) -> bool {
        let Some(profile) = self.store.get(Of::Profiles, &key("", profile)) else { return false };
        let status = &profile.value["status"];
        let ready = status["conditions"].as_array().and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
        ready.is_some_and(|ready| ready["status"] == "True")
            && status["observedGeneration"] == profile.value["metadata"]["generation"]
            && status.pointer("/worker/holder").and_then(Value::as_str) == Some(&*self.operators[process].holder)
    }
}
