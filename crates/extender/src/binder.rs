//! Binds by an extender. The outcome is the extender's answer, or is read from the pod; the rules are those of our own binds.
//!
//! While an earlier call of a bind may still land, only the pod shows how it ended: it is read back, and while it is there
//! unbound, the same extender is called again with the same arguments.

use super::budget::Budget;
use super::error::Failure;
use super::extender::{Extender, VerbCall};
use super::settings::Verb;
use super::wire::{BindVisitor, bind_request};
use berth_cluster::bind::{BindRequest, Found, read_back};
use berth_cluster::lease::Gate;
use berth_cluster::write::Meaning;
use berth_core::io::{BindOutcome, ExtenderErrorKind};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// First pause before the pod is read back; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Longest pause: an extender that has recovered is called again within it.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// Longest wait for the API server when the pod is read back.
const READ_TIMEOUT: Duration = Duration::from_secs(4);

const WAITING: u8 = 0;
const SENT: u8 = 1;
const REVOKED: u8 = 2;
const DOUBTFUL: u8 = 3;

/// Whether a bind was sent; it can be taken back until then.
#[derive(Debug)]
pub(super) struct Ticket {
    state: AtomicU8,
    /// Evidence came another way, or the process ends: no outcome is delivered any more.
    pub(super) end: CancellationToken,
}

impl Ticket {
    pub(super) fn new(end: CancellationToken) -> Self {
        Self { state: AtomicU8::new(WAITING), end }
    }

    /// Takes the bind back; false if it was sent.
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

    /// Marks it as sent; false if it was taken back.
    fn send(&self) -> bool {
        let was = self.state.compare_exchange(WAITING, SENT, Ordering::AcqRel, Ordering::Acquire);
        was.map_or_else(|state| state != REVOKED, |_| true)
    }

    /// Marks a call as not sent after all, unless an earlier call may have been carried out.
    fn unsend(&self) {
        let _was = self.state.compare_exchange(SENT, WAITING, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Marks it as one that may be carried out at any time from now on.
    fn doubt(&self) {
        self.state.store(DOUBTFUL, Ordering::Release);
    }
}

/// What a failed call means for its bind, while no earlier call is of unknown outcome.
fn meaning(failure: &Failure) -> Meaning {
    let is_definite = failure.error.kind == ExtenderErrorKind::Said
        // As for the API server: a client error is answered before anything is done, apart from a timeout.
        || failure.code.is_some_and(|code| (400..500).contains(&code) && code != 408);
    match failure.sent {
        _ if is_definite => Meaning::Refused,
        true => Meaning::Unknown,
        false => Meaning::NotSent,
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
    /// The process ends: its successor settles what is open.
    pub(super) closing: &'a CancellationToken,
}

impl Binder<'_> {
    /// Binds the pod; `unknown` is called once, when the outcome is first not known. `None` if the bind was not sent, or is
    /// left to the next process.
    pub(super) async fn run(&self, unknown: impl FnOnce() + Send) -> Option<BindOutcome> {
        let why = loop {
            self.wait_for_gate().await;
            let Err(failure) = self.call().await else { return Some(BindOutcome::Bound) };
            let message = failure.error.message.to_string();
            match meaning(&failure) {
                Meaning::Unknown => break message,
                Meaning::NotSent if self.ticket.is_revoked() || self.closing.is_cancelled() => return None,
                // Without leadership the bind waits for it.
                Meaning::NotSent if !self.gate.is_open() => {}
                _ => return Some(BindOutcome::Refused { code: None, message }),
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
            message if message.is_empty() => Ok(()),
            message => Err(super::error::error(ExtenderErrorKind::Said, message)),
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
            match read_back(self.kube, READ_TIMEOUT, self.request).await {
                Found::Settled(outcome) => return Some(outcome),
                Found::Unread => {}
                Found::Unbound => {
                    self.wait_for_gate().await;
                    if self.closing.is_cancelled() {
                        return None;
                    }
                    // Whatever the answer, the first call may still land: the pod is read again.
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
