//! Somebody deletes the Lease, also when a process begins that has never seen one.

use super::model::kinds::Of;
use super::model::store::key;
use super::plan::{Plan, Step};
use super::random::Random;
use super::world::{Act, Inner};
use berth_cluster::lease::LEASE_NAME;
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
}

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

    /// Who holds the Lease. While there is none, whoever held it last goes on; nobody else may.
    pub(crate) fn lease_changed(&mut self) {
        let Some(lease) = self.store.get(Of::Leases, &key("kube-system", LEASE_NAME)) else {
            self.trace.note(&["no lease"], &[], format_args!("lease: deleted"));
            return;
        };
        let holder = lease.text("/spec/holderIdentity").to_owned();
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
