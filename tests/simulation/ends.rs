//! What must be so in the end: L1, L2, L4 and L5 after everything has healed, nothing left after everything was deleted, and S8 and L3 now
//! and then. (L3 is in `sweeps.rs`.)

use super::facts::{NodeLife, PodFact};
use super::model::kinds::Of;
use super::operators::BIND_CONCURRENCY;
use super::world::Inner;
use berth::operator::Inside;
use berth_core::ledger::Ledger;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Binds that a worker has decided and that wait for a first answer: twice what is sent at once, and as much again for others while those of
/// some namespaces get none.
const WINDOW: usize = 4 * BIND_CONCURRENCY;

/// After the last move of a pod, and after a pod that waits has got room: it may still have to be bound to a volume.
const SETTLED: Duration = Duration::from_secs(5);

/// So often, and with such a pause, it is looked after healing where pods that wait have room: from ten seconds after it on.
pub(crate) const LOOKS: u32 = 50;
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// The longest backoff, or the time between two audits, and some seconds: a pod of which an extender refused nodes is tried again after its
/// backoff, whatever frees room; and that a pod has left its node may be found by the audit alone.
const TRIED_AGAIN_WITHIN: Duration = Duration::from_secs(14);

impl Inner {
    /// Notes since when pods that wait have room, and on which nodes: where many come and go, one may find each time that another was there
    /// first.
    pub(crate) fn look_for_room(&mut self, now: Instant) {
        let mut rooms = BTreeMap::new();
        for uid in &self.facts.pending {
            for life in self.facts.nodes().filter(|life| self.fits(&self.facts.pods[uid], life)) {
                let room = (uid.clone(), life.name.clone());
                let since = self.has_room_since.get(&room).copied().unwrap_or(now);
                rooms.insert(room, since);
            }
        }
        self.has_room_since = rooms;
    }

    /// Notes since when binds of each profile are under way. A decision may be made and taken back again and again: a pod makes room on a node
    /// that an extender refuses it then.
    pub(crate) fn look_for_binds(&mut self, now: Instant) {
        let leader = self.rules.leader;
        let open =
            leader.into_iter().flat_map(|leader| self.binds_under_way(leader).map(move |(name, _)| (leader, name)));
        let with_since = |key: (usize, String)| {
            let since = self.binds_since.get(&key).copied().unwrap_or(now);
            (key, since)
        };
        self.binds_since = open.map(with_since).collect();
    }

    /// The profiles that have decided what nobody has answered for, sent binds, or binds of unknown outcome; as of up to a second ago.
    fn binds_under_way(&self, leader: usize) -> impl Iterator<Item = (String, [usize; 3])> + use<> {
        let inside = self.operators[leader].inside.clone();
        let workers = inside.map(|inside| inside.engine().workers()).into_iter().flatten();
        workers.filter_map(|(profile, view)| {
            let snapshot = view.snapshot.as_ref()?;
            let open = [view.unacknowledged, snapshot.in_flight, snapshot.unknown_binds];
            (open != [0; 3]).then(|| (profile.to_string(), open))
        })
    }

    /// Whether a pod may wait although a node has room for it: it is being placed, or waits for its backoff, or for an audit.
    fn may_wait_longer(&self, pod: &PodFact, life: &NodeLife) -> bool {
        let is_late = self.extenders.filter(pod) || self.plan.leaves_out;
        let patience = if is_late { TRIED_AGAIN_WITHIN } else { SETTLED };
        let since = self.has_room_since.get(&(pod.uid.clone(), life.name.clone()));
        since.is_none_or(|since| since.elapsed() < patience)
    }

    fn insides(&self) -> Vec<(usize, Inside)> {
        let running = self.operators.iter().enumerate().filter(|(_, operator)| operator.connected);
        running.filter_map(|(process, operator)| Some((process, operator.inside.clone()?))).collect()
    }

    /// S8: the sums that every ledger keeps are those of its pods and claims. And the rule window, and L3.
    pub(crate) fn audit(&mut self) {
        for (process, inside) in self.insides() {
            if let Err(why) = inside.engine().read(Ledger::audit) {
                self.rules.breaks("S8", &format!("operator {process}: {why}"));
            }
            self.is_in_window(process, &inside);
            self.needs_no_sweep(process, &inside);
        }
    }

    /// Window: no worker has decided so much more than can be sent. Pods that wait for extenders or volumes first come all at once when those
    /// have answered.
    fn is_in_window(&mut self, process: usize, inside: &Inside) {
        if !self.plan.locals.is_empty() || self.plan.has_resource || self.plan.devices > 0 {
            return;
        }
        for (profile, view) in inside.engine().workers() {
            let open = view.unacknowledged;
            if open > WINDOW {
                let what =
                    format!("operator {process}: {profile} has decided {open} pods that nobody has answered for");
                self.rules.breaks("window", &what);
            }
        }
    }

    /// L1, L2, L4 and L5. All faults are over for long enough.
    pub(crate) fn is_well(&mut self) {
        self.no_made_claim_is_left(Instant::now());
        let mut wrong = Vec::new();
        for uid in &self.facts.pending {
            let pod = &self.facts.pods[uid];
            if pod.gated || !self.is_served(pod) {
                continue;
            }
            let has_waited = |life: &&NodeLife| self.fits(pod, life) && !self.may_wait_longer(pod, life);
            if let Some(node) = self.facts.nodes().find(has_waited) {
                wrong.push(("L1", format!("pod {} waits, and {} has room for it", pod.key, node.name)));
            }
            if pod.nominated.as_ref().is_some_and(|node| !self.facts.nodes().any(|life| life.name == *node)) {
                wrong.push(("L5", format!("pod {} is nominated to {:?}, which is gone", pod.key, pod.nominated)));
            }
        }
        for profile in self.store.of(Of::Profiles).objects.values() {
            let conditions = profile.value.pointer("/status/conditions").and_then(Value::as_array);
            let ready = conditions.and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
            let observed = profile.value.pointer("/status/observedGeneration");
            // A changed spec whose pods fared worse is not in force, and says so.
            let aborted = conditions.is_some_and(|all| all.iter().any(|one| one["reason"] == "RolloutAborted"));
            if ready.is_none_or(|ready| ready["status"] != "True" && !aborted)
                || observed != Some(&profile.value["metadata"]["generation"])
            {
                wrong.push(("L4", format!("profile {}: {ready:?}, {observed:?}", profile.text("/metadata/name"))));
            }
        }
        let Some(leader) = self.rules.leader else {
            self.rules.breaks("L4", "nobody leads");
            return;
        };
        for (profile, open) in self.binds_under_way(leader) {
            let since = self.binds_since.get(&(leader, profile.clone()));
            let is_stuck = since.is_some_and(|since| since.elapsed() > SETTLED);
            if is_stuck && self.moved_at.elapsed() > SETTLED {
                wrong.push(("L2", format!("{profile}: binds {open:?} are under way, and nothing happens")));
            }
        }
        for (rule, what) in wrong {
            self.rules.breaks(rule, &what);
        }
    }

    fn is_served(&self, pod: &PodFact) -> bool {
        self.facts.profiles.serving(pod).is_some()
    }

    /// Whether a pod could be placed there, as the cluster is.
    fn fits(&self, pod: &PodFact, life: &NodeLife) -> bool {
        let may_be_there = !life.cordoned
            && pod.pool.as_ref().is_none_or(|pool| *pool == life.pool)
            && pod.zone.as_ref().is_none_or(|zone| *zone == life.zone)
            && self.facts.profiles.let_pod(pod, life)
            && self.extenders.let_pod(pod, &life.name);
        may_be_there && self.has_room(pod, life)
    }

    fn has_room(&self, pod: &PodFact, life: &NodeLife) -> bool {
        let waiting = self.facts.pending.iter().map(|uid| &self.facts.pods[uid]);
        // Room is kept for those that are nominated there.
        let nominated: Vec<&PodFact> = waiting
            .filter(|other| other.uid != pod.uid && other.nominated.as_ref() == Some(&life.name))
            .filter(|other| self.is_served(other))
            .filter(|other| other.priority >= pod.priority)
            .collect();
        let beside: Vec<&PodFact> = self.facts.pods_on(&life.name).chain(nominated.iter().copied()).collect();
        beside.iter().map(|one| one.cpu).sum::<i64>() + pod.cpu <= life.cpu
            && (pod.memory == 0 || beside.iter().map(|one| one.memory).sum::<i128>() + pod.memory <= life.memory)
            && beside.len() < life.pods
            && !(pod.port.is_some() && beside.iter().any(|one| one.port == pod.port))
            && !beside.iter().any(|one| one.keeps_away(pod))
            && self.facts.spreading_lets(pod, life, &nominated)
            && self.volumes_let(pod, life)
            && self.devices_let(pod, life)
    }

    /// Every internal size is back at its start.
    pub(crate) fn is_empty(&mut self) {
        if let Some(pod) = self.store.of(Of::Pods).objects.keys().next() {
            let what = format!("the world itself is wrong: pod {pod} is still there");
            self.rules.breaks("drain", &what);
        }
        for (process, inside) in self.insides() {
            for (what, size) in inside.sizes().into_iter().filter(|(_, size)| *size > 0) {
                self.rules.breaks("drain", &format!("operator {process} still holds {size} {what}"));
            }
        }
    }
}
