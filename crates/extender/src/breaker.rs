//! The circuit breaker of one verb of an extender.
//!
//! It opens after [`FAILURES`] failures in a row that came from at least two pods: one pod that the extender cannot handle
//! must not cut off the others. While it is open, one call is let through every `open_for`, preferably of another pod than
//! the last one; the first that is answered closes it.
//!
//! Pure: time is an argument.

use berth_core::model::Str;
use std::time::Duration;
use tokio::time::Instant;

/// Failures in a row that open a breaker.
pub const FAILURES: u32 = 5;

/// A call that was let through. Pass it back with the outcome of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// How often the breaker had opened or closed before.
    turn: u64,
    is_probe: bool,
    pod: Str,
    /// When it was let through.
    at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Opened,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Circuit {
    Closed,
    /// Open, and one call was let through that has not ended.
    Probing,
    Open,
}

#[derive(Debug)]
enum State {
    Closed,
    Open {
        /// When the next call may be let through.
        due: Instant,
        /// The pod of the last call that was let through.
        last: Str,
        /// Whether a call of another pod was turned away since.
        another: bool,
        probing: bool,
    },
}

#[derive(Debug)]
pub struct Breaker {
    open_for: Duration,
    state: State,
    failures: u32,
    first: Option<Str>,
    several: bool,
    turn: u64,
}

impl Breaker {
    /// Closed. Once open, it lets one call through every `open_for`.
    pub const fn new(open_for: Duration) -> Self {
        Self { open_for, state: State::Closed, failures: 0, first: None, several: false, turn: 0 }
    }

    pub const fn set_open_for(&mut self, open_for: Duration) {
        self.open_for = open_for;
    }

    /// Failures since the last success.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    pub const fn circuit(&self) -> Circuit {
        match self.state {
            State::Closed => Circuit::Closed,
            State::Open { probing: true, .. } => Circuit::Probing,
            State::Open { .. } => Circuit::Open,
        }
    }

    /// Whether a call of this pod would be let through now.
    pub fn would_pass(&self, pod: &str, now: Instant) -> bool {
        match &self.state {
            State::Closed => true,
            State::Open { due, last, another, probing } => {
                // The pod probed last waits half an `open_for` longer, so that another pod's probe goes first.
                let patience = if *another && **last == *pod { self.open_for / 2 } else { Duration::ZERO };
                !probing && now >= *due + patience
            }
        }
    }

    /// A call of this pod was not let through.
    pub fn turned_away(&mut self, pod: &str) {
        if let State::Open { last, another, .. } = &mut self.state {
            *another |= **last != *pod;
        }
    }

    /// Lets a call of this pod through; `None` if the circuit is open.
    pub fn ask(&mut self, pod: &Str, now: Instant) -> Option<Pass> {
        if !self.would_pass(pod, now) {
            self.turned_away(pod);
            return None;
        }
        let is_probe = match &mut self.state {
            State::Closed => false,
            State::Open { last, another, probing, .. } => {
                *last = pod.clone();
                (*another, *probing) = (false, true);
                true
            }
        };
        Some(Pass { turn: self.turn, is_probe, pod: pod.clone(), at: now })
    }

    pub fn succeeded(&mut self, pass: &Pass) -> Option<Change> {
        if pass.turn != self.turn {
            return None;
        }
        (self.failures, self.first, self.several) = (0, None, false);
        if matches!(self.state, State::Closed) {
            return None;
        }
        self.state = State::Closed;
        self.turn += 1;
        Some(Change::Closed)
    }

    pub fn failed(&mut self, pass: &Pass, now: Instant) -> Option<Change> {
        if pass.turn != self.turn {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        match &self.first {
            None => self.first = Some(pass.pod.clone()),
            Some(first) => self.several |= *first != pass.pod,
        }
        match &mut self.state {
            State::Open { due, probing, .. } => {
                // Counted from the probe's start: a probe that hangs until its timeout does not put off the next one.
                (*due, *probing) = (pass.at + self.open_for, false);
                None
            }
            State::Closed if self.failures >= FAILURES && self.several => {
                let due = now + self.open_for;
                self.state = State::Open { due, last: pass.pod.clone(), another: false, probing: false };
                self.turn += 1;
                Some(Change::Opened)
            }
            State::Closed => None,
        }
    }

    /// A call was not sent, or we cut it off, which says nothing about the extender. Another may be let through at once.
    pub fn abandoned(&mut self, pass: &Pass) {
        if let State::Open { probing, .. } = &mut self.state
            && pass.is_probe
            && pass.turn == self.turn
        {
            *probing = false;
        }
    }
}
