//! Somebody deletes the Lease, also when a process begins that has never seen one, or takes its holder out of it; and the rule gates.

use super::model::kinds::Of;
use super::model::store::key;
use super::plan::{Plan, Step};
use super::random::Random;
use super::world::{Act, Inner};
use berth::operator::Inside;
use berth_cluster::lease::LEASE_NAME;
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

impl Plan {
    pub(crate) fn draw_lost_leases(&mut self, random: &mut Random) {
        let operators = self.operators;
        for _ in 0..random.pick(&[0, 0, 1, 2, 3]) {
            self.at_random(random, |random| Step::DeleteLease {
                begins: random.in_thousand(500).then(|| (random.index(operators), random.millis(0, 400))),
            });
        }
    }

    pub(crate) fn draw_cleared_leases(&mut self, random: &mut Random) {
        for _ in 0..random.pick(&[0, 0, 1, 2]) {
            self.at_random(random, |_| Step::ClearLease);
        }
    }
}

/// What a process writes as the duration of a Lease that it gives back, in seconds.
const GIVEN_BACK: u64 = 1;

impl Inner {
    /// Deletes the Lease. Where a replica is to begin then, its process is killed first, unless it leads, and begins so long before.
    pub(crate) fn lose_lease(&mut self, begins: Option<(usize, Duration)>, now: Instant) -> Option<(usize, Instant)> {
        let leads = |process: usize| self.rules.leader == Some(process);
        let beside = begins.filter(|(replica, _)| !self.process_of(*replica).is_none_or(leads));
        let Some((replica, before)) = beside else {
            self.store.delete(Of::Leases, &key("kube-system", LEASE_NAME), now);
            return None;
        };
        let back_at = now + Duration::from_secs(1);
        self.later(back_at + before, Act::Step(Step::DeleteLease { begins: None }));
        Some((replica, back_at))
    }

    /// Takes the holder out of the Lease, and leaves all else in it.
    pub(crate) fn clear_lease(&mut self, now: Instant) {
        let Some(lease) = self.store.get(Of::Leases, &key("kube-system", LEASE_NAME)) else { return };
        let mut value = lease.value.clone();
        value["spec"]["holderIdentity"] = "".into();
        self.store.update(Of::Leases, value, now);
    }

    /// Gates: a process whose gate is open holds the Lease, so that no two are open. One that was killed sends nothing, whatever its gate.
    pub(crate) fn look_at_gates(&mut self) {
        for process in 0..self.operators.len() {
            let operator = &self.operators[process];
            let is_open = operator.connected && operator.inside.as_ref().is_some_and(Inside::is_gate_open);
            if is_open && self.rules.leader != Some(process) {
                let what = format!("that of operator {process} is open, and {:?} holds the Lease", self.rules.leader);
                self.rules.breaks("gates", &what);
            }
        }
    }

    /// Who holds the Lease. While there is none, or nobody holds it, whoever held it last goes on; nobody else may.
    pub(crate) fn lease_changed(&mut self) {
        let Some(lease) = self.store.get(Of::Leases, &key("kube-system", LEASE_NAME)) else {
            self.trace.note(&["no lease"], &[], format_args!("lease: deleted"));
            return;
        };
        let holder = lease.text("/spec/holderIdentity").to_owned();
        let duration = lease.value.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64);
        if holder.is_empty() && duration != Some(GIVEN_BACK) {
            self.trace.note(&["lease cleared"], &[], format_args!("lease: nobody holds it"));
            return;
        }
        let leader = self.operators.iter().position(|operator| operator.holder == holder);
        if leader != self.rules.leader {
            self.trace.note(
                &["lease"],
                &[leader.map_or(u64::MAX, |one| one as u64)],
                format_args!("lease: {leader:?}"),
            );
        }
        self.rules.leads(leader);
    }
}
