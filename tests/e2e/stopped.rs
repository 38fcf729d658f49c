//! A leader that stands still and goes on: what it still sends once another one leads.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use berth_lab::{ControlPlane, Operator, process};
use rustix::process::Signal;

use crate::audit::{Audit, Write, credential_of, micros};
use crate::cluster::LEASE;

/// Longest wait for another one to lead: a lease, and a shared machine.
const SUCCESSOR: Duration = Duration::from_mins(1);

/// Binds under way at a time, at most: the default of `--bind-concurrency`, and repeats of those whose outcome is unknown.
const BINDS: usize = 64 + 8;

/// An operator that led when it was stopped.
pub(crate) struct Stopped {
    credential: String,
    /// The connections it had: on each, one request may have been past the check of leadership.
    connections: usize,
    /// When it stood still, in microseconds of Unix time.
    at_us: i64,
    /// When another one took the Lease.
    succeeded_us: i64,
}

/// Writes that came once another one led.
pub(crate) struct Late {
    pub(crate) writes: usize,
    /// How many binds can have been past the check of leadership when it was stopped.
    pub(crate) most: usize,
}

impl Stopped {
    /// Stops the leader. `server` is the address that it speaks to.
    pub(crate) fn stop(plane: &ControlPlane, leader: &Operator, server: &str) -> Self {
        let credential = credential_of(plane, leader);
        let port = server.rsplit(':').next().unwrap().parse().unwrap();
        leader.process.signal(Signal::STOP).unwrap();
        let at_us = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap();
        let connections = process::connections(leader.process.pid(), port).unwrap();
        Self { credential, connections, at_us, succeeded_us: i64::MAX }
    }

    /// Waits until another one has the Lease.
    pub(crate) fn wait_for_successor(&mut self, plane: &ControlPlane, leader: &Operator) {
        let pod = format!("{}_", leader.process.name());
        let taken = || {
            let spec = plane.api.get(LEASE)?["spec"].take();
            let is_others = spec["holderIdentity"].as_str().is_some_and(|holder| !holder.starts_with(&pod));
            Ok(is_others.then(|| micros(&spec["acquireTime"])))
        };
        self.succeeded_us = plane.wait_for("another one to take the Lease", SUCCESSOR, taken).unwrap();
    }

    /// What came of it after another one had taken the Lease, to be asked once it has ended. Its gate was shut by then: each write
    /// must have been past it when the process was stopped. `None` if it had nothing under way then: nothing is shown by that.
    pub(crate) fn late_writes(&self, audit: &Audit) -> Option<Late> {
        let all = audit.writes_of(&self.credential);
        assert!(!all.is_empty(), "the log does not tell whose requests it has");
        let (late, before): (Vec<Write>, Vec<Write>) =
            all.into_iter().partition(|write| write.received_us >= self.succeeded_us);
        // Those whose answers it cannot have read: each of them is one of the binds that were under way, and was sent.
        let sent = before.iter().filter(|write| write.is_bind && write.answered_us > self.at_us).count();
        if sent == 0 {
            return None;
        }
        let most = BINDS.saturating_sub(sent);
        let binds = late.iter().filter(|write| write.is_bind).count();
        assert!(binds <= most, "{sent} of at most {BINDS} binds were sent when it was stopped, and then {late:#?}");
        assert!(late.len() <= self.connections, "{} connections, and then {late:#?}", self.connections);
        Some(Late { writes: late.len(), most })
    }
}
