//! Binds by an extender: its answer tells, or the pod itself. The rules are those of our own binds.
//!
//! While an earlier call of a bind may still land, only the pod tells how it ended: it is read back, and while it is there
//! unbound, the same arguments go to the same extender again.

use super::budget::Budget;
use super::error::Failure;
use super::extender::{Extender, VerbCall};
use super::settings::Verb;
use super::wire::{BindVisitor, bind_request};
use berth_cluster::bind::{BindRequest, Found, found, read_call};
use berth_cluster::lease::Gate;
use berth_core::io::{BindOutcome, ExtenderErrorKind};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// First pause before the pod is read back; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Longest pause: an extender that is well again hears of a pod within it.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// Longest wait for the API server when the pod is read.
const READ_TIMEOUT: Duration = Duration::from_secs(4);

const WAITING: u8 = 0;
const SENT: u8 = 1;
const REVOKED: u8 = 2;
const DOUBTFUL: u8 = 3;

/// Whether a bind was sent; it can be taken back until then.
#[derive(Debug)]
pub(super) struct Ticket {
    state: AtomicU8,
    /// Evidence came another way, or all is over: nothing is told any more.
    pub(super) end: CancellationToken,
}

impl Ticket {
    pub(super) fn new(end: CancellationToken) -> Self {
        Self { state: AtomicU8::new(WAITING), end }
    }

    /// Takes the bind back; false: it was sent.
    pub(super) fn revoke(&self) -> bool {
        let was = self.state.compare_exchange(WAITING, REVOKED, Ordering::AcqRel, Ordering::Acquire);
        if was.is_ok() {
            self.end.cancel();
        }
        was.is_ok()
    }

    /// Whether something of it may have taken effect.
    pub(super) fn is_sent(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), SENT | DOUBTFUL)
    }

    fn is_revoked(&self) -> bool {
        self.state.load(Ordering::Acquire) == REVOKED
    }

    /// It is sent now; false: it was taken back.
    fn send(&self) -> bool {
        let was = self.state.compare_exchange(WAITING, SENT, Ordering::AcqRel, Ordering::Acquire);
        was.map_or_else(|state| state != REVOKED, |_| true)
    }

    /// It turned out not to have been sent, unless an earlier call was.
    fn unsend(&self) {
        let _was = self.state.compare_exchange(SENT, WAITING, Ordering::AcqRel, Ordering::Acquire);
    }

    /// It may take effect at any time from now on.
    fn doubt(&self) {
        self.state.store(DOUBTFUL, Ordering::Release);
    }
}

/// What one call means for its bind.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It ends.
    End(BindOutcome),
    /// It may have taken effect, or may still.
    Unknown(String),
    /// It was not sent.
    NotSent(String),
}

/// Judges a call of which no earlier one is of unknown outcome.
fn judge(result: Result<(), Failure>) -> Verdict {
    let failure = match result {
        Ok(()) => return Verdict::End(BindOutcome::Bound),
        Err(failure) => failure,
    };
    let message = failure.error.message.to_string();
    let is_definite = failure.error.kind == ExtenderErrorKind::Said
        // As of the API server: a client's error is told before anything is done, apart from a timeout.
        || failure.code.is_some_and(|code| (400..500).contains(&code) && code != 408);
    match failure.sent {
        _ if is_definite => Verdict::End(BindOutcome::Refused { message }),
        true => Verdict::Unknown(message),
        false => Verdict::NotSent(message),
    }
}

/// One bind under way.
pub(super) struct Binder<'a> {
    pub(super) extender: &'a Extender,
    pub(super) kube: &'a kube::Client,
    pub(super) gate: &'a Gate,
    pub(super) budget: &'a Budget,
    pub(super) request: &'a BindRequest,
    pub(super) ticket: &'a Ticket,
    /// The process ends: what is open is left to its successor.
    pub(super) closing: &'a CancellationToken,
}

impl Binder<'_> {
    /// Binds the pod; `unknown` is called once, when the outcome is first not known. `None`: it was not sent, or is left.
    pub(super) async fn run(&self, unknown: impl FnOnce() + Send) -> Option<BindOutcome> {
        let why = loop {
            self.wait_for_gate().await;
            match judge(self.call().await) {
                Verdict::End(outcome) => return Some(outcome),
                Verdict::Unknown(why) => break why,
                Verdict::NotSent(_) if self.ticket.is_revoked() || self.closing.is_cancelled() => return None,
                // Without leadership it waits for it.
                Verdict::NotSent(_) if !self.gate.is_open() => {}
                Verdict::NotSent(message) => {
                    return Some(BindOutcome::Refused { message });
                }
            }
        };
        self.ticket.doubt();
        let request = self.request;
        tracing::debug!(pod = %request.pod.key, node = %request.node, why, "bind outcome of the extender unknown");
        let count = self.extender.unsettled();
        count.fetch_add(1, Ordering::Relaxed);
        let _fewer = Fewer(count);
        unknown();
        self.settle().await
    }

    async fn call(&self) -> Result<(), Failure> {
        let BindRequest { pod, node, .. } = self.request;
        let payload = bind_request(&pod.key.namespace, &pod.key.name, &pod.uid, node);
        let mut reservation = self.budget.reserve();
        if let Err(full) = reservation.take(payload.own_bytes()) {
            return Err(Failure::unsent(ExtenderErrorKind::Busy, full.to_string()));
        }
        let may_go = || !self.closing.is_cancelled() && self.gate.is_open() && self.ticket.send();
        let ask = VerbCall { verb: Verb::Bind, pod: &pod.uid, payload, visit: BindVisitor::default(), may_go: &may_go };
        let finish = |visit: BindVisitor| match visit.into_reply() {
            said if said.is_empty() => Ok(()),
            said => Err(super::error::error(ExtenderErrorKind::Said, said)),
        };
        let result = self.extender.call(ask, finish).await;
        if matches!(&result, Err(failure) if !failure.sent && failure.error.kind != ExtenderErrorKind::Said) {
            self.ticket.unsend();
        }
        result
    }

    /// Brings a bind of unknown outcome to its end.
    async fn settle(&self) -> Option<BindOutcome> {
        let mut pause = FIRST_PAUSE;
        loop {
            tokio::select! {
                () = self.closing.cancelled() => return None,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            match found(read_call(self.request).send(self.kube, READ_TIMEOUT).await, self.request) {
                Found::Here => return Some(BindOutcome::Bound),
                Found::Elsewhere(node) => return Some(BindOutcome::BoundElsewhere { node: Some(node) }),
                Found::Gone => return Some(BindOutcome::PodGone),
                Found::Unread(_) => {}
                Found::Unbound => {
                    self.wait_for_gate().await;
                    if self.closing.is_cancelled() {
                        return None;
                    }
                    // Whatever it answers, the first call may still land: the pod tells.
                    if self.call().await.is_ok() {
                        pause = FIRST_PAUSE;
                    }
                }
            }
        }
    }

    async fn wait_for_gate(&self) {
        let mut changes = self.gate.changes();
        while !self.gate.is_open() && !self.closing.is_cancelled() {
            tokio::select! {
                () = changes.next() => {}
                () = self.closing.cancelled() => {}
            }
        }
    }
}

struct Fewer<'a>(&'a AtomicUsize);

impl Drop for Fewer<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
