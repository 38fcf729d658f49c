//! Leadership: one operator works at a time, by a Lease of one fixed name.
//!
//! [`decide`] is pure; [`elect`] reads and writes as it says, on a thread of its own, and moves the [`Gate`], which every write that needs
//! leadership asks right before it is sent. The Lease is not fencing: a request that was sent before leadership ended
//! may still land. So the gate shuts so long before another may lead as a request may be under way ([`limits`](crate::limits)), and opens
//! again if the Lease is renewed in time.

mod decide;
mod elector;
mod follow;
mod identity;
mod object;

pub use decide::{Decision, Holder, Observed, Record, Timing, TimingError, decide};
pub use elector::{LeaseHandle, LeaseOptions, LeaseState, elect};
pub use follow::is_taken;
pub use identity::Identity;
pub use object::installation_of;

use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// The Lease's name in whatever namespace: one for all installations, so that two notice each other.
pub const LEASE_NAME: &str = "berth.scheduling.berth.dev";

/// The name of the mark beside it, a Lease that nobody holds: since it was made, somebody may lead.
pub const MARK_NAME: &str = "berth.scheduling.berth.dev-mark";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct State {
    leased_until: Option<Instant>,
    /// Nothing is sent from then on, `None` for from now on.
    sends_until: Option<Instant>,
    /// What is kept of the cluster is as new as leadership.
    admitted: bool,
    /// We led once and do not any more.
    over: bool,
}

/// Decides at the last moment whether a write may be sent. Cheap to clone; all clones are one gate.
///
/// Open only while leadership lasts *and* what is kept of the cluster is as new as leadership ([`Gate::admit`]).
/// It shuts by itself when its deadline passes, whatever else in the process hangs.
#[derive(Debug, Clone)]
pub struct Gate(Arc<watch::Sender<State>>);

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(State::default())))
    }

    /// Leadership lasts until then, and writes may be sent as long; a time in the past shuts the gate.
    pub fn lease_until(&self, until: Instant) {
        self.lease(until, until);
    }

    /// Leadership lasts until then, and writes may be sent until `sends_until`. The Lease calls this at each renewal.
    pub(crate) fn lease(&self, until: Instant, sends_until: Instant) {
        self.0.send_modify(|state| (state.leased_until, state.sends_until) = (Some(until), Some(sends_until)));
    }

    /// No write may be sent until the next renewal: it is in doubt who leads.
    pub(crate) fn pause(&self) {
        self.0.send_modify(|state| state.sends_until = None);
    }

    /// The barrier after taking over is behind us: writes may be sent.
    pub fn admit(&self) {
        self.0.send_modify(|state| state.admitted = true);
    }

    /// No write may be sent any more, until leadership is taken and the state read again.
    pub fn shut(&self) {
        self.0.send_modify(|state| {
            *state = State { over: state.over || state.leased_until.is_some(), ..State::default() };
        });
    }

    /// Whether a write may be sent at this moment.
    pub fn is_open(&self) -> bool {
        let state = *self.0.borrow();
        let now = Instant::now();
        state.admitted
            && [state.leased_until, state.sends_until].into_iter().all(|until| until.is_some_and(|at| now < at))
    }

    /// Whether leadership lasts at this moment, whatever is known of the cluster: for what says how things stand.
    pub fn leads(&self) -> bool {
        self.0.borrow().leased_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether we led once and do not any more. A process that never led may still speak of itself.
    pub fn is_over(&self) -> bool {
        let state = *self.0.borrow();
        state.leased_until.map_or(state.over, |until| Instant::now() >= until)
    }

    /// Waits for the next change, renewals included; the deadline passing is not one.
    pub fn changes(&self) -> GateChanges {
        GateChanges(self.0.subscribe())
    }
}

pub struct GateChanges(watch::Receiver<State>);

impl GateChanges {
    /// Returns after the next change; never once all clones of the gate are dropped.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn opens_only_with_leadership_and_a_read_and_shuts_by_itself() {
        let gate = Gate::new();
        assert!(!gate.is_open() && !gate.leads() && !gate.is_over());
        gate.admit();
        assert!(!gate.is_open(), "a read alone is not leadership");
        gate.lease_until(Instant::now() + Duration::from_secs(10));
        assert!(gate.is_open());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!gate.is_open() && !gate.leads() && gate.is_over(), "the deadline passed");
        gate.lease_until(Instant::now() + Duration::from_secs(10));
        assert!(gate.is_open());
        gate.shut();
        gate.lease_until(Instant::now() + Duration::from_secs(10));
        assert!(!gate.is_open(), "leadership taken again needs a read again");
        assert!(gate.leads() && !gate.is_over(), "it leads all the same");
        gate.shut();
        assert!(gate.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn sends_nothing_for_the_last_part_of_leadership_nor_while_it_is_in_doubt() {
        let (gate, secs) = (Gate::new(), Duration::from_secs);
        gate.admit();
        let renew = || gate.lease(Instant::now() + secs(10), Instant::now() + secs(6));
        renew();
        tokio::time::advance(secs(6)).await;
        assert!(!gate.is_open() && gate.leads() && !gate.is_over());
        renew();
        assert!(gate.is_open(), "what was read is as new as leadership still");
        gate.pause();
        assert!(!gate.is_open() && gate.leads() && !gate.is_over());
        renew();
        assert!(gate.is_open());
    }
}
