//! Binds by an extender. The outcome is the extender's answer, or is read from the pod; the rules are those of our own binds.
//!
//! Success is believed when the watch shows it: a pod that is not bound some seconds later is tried again, and does not keep capacity
//! for ever. A call without an answer may still land: the pod is read back, and while it is there unbound, the same extender is called
//! again with the same arguments, with the settings that are in force then. What ends such a bind is the pod; or the pod read back
//! unbound when nothing that was sent can land any more, and a definite answer of the extender, or that the profile has it no more.
//! An extender that gives no answer ends nothing, however long that takes.
//!
//! A process that ends makes no more calls, and reads the pods back until each shows how its bind ended, or has not shown it for as long as an
//! extender may take: until then its successor must not begin.

use super::READ_TIMEOUT;
use super::budget::Budget;
use super::error::{Failure, error};
use super::extender::{Extender, VerbCall};
use super::settings::Verb;
use super::wire::{BindVisitor, bind_request};
use berth_cluster::bind::{BindRequest, Found, read_back};
use berth_cluster::lease::Gate;
use berth_cluster::paced::Paced;
use berth_cluster::recheck::{Gone, Recheck, Shown};
use berth_cluster::transport::Transport;
use berth_cluster::write::Meaning;
use berth_core::io::{BindOutcome, ExtenderError, ExtenderErrorKind};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// First pause before the pod is read back; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Longest pause: an extender that has recovered is called again within it.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// First pause before the watch is asked for a bind that was answered with success; it doubles up to [`LONGEST_LOOK`].
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_millis(500);

/// From then on a bind that the watch does not show is one of unknown outcome, and keeps no other bind of its profile waiting.
const UNSEEN: Duration = Duration::from_secs(1);

static LIED: Paced = Paced::new();

/// The state that a ticket begins with.
const WAITING: u8 = 0;
const SENT: u8 = 1;
const REVOKED: u8 = 2;
const DOUBTFUL: u8 = 3;

/// Whether a bind was sent; it can be taken back until then.
#[derive(Debug, Default)]
pub(super) struct SendState {
    state: AtomicU8,
    /// Evidence came another way, or the process ends: no outcome is delivered any more.
    pub(super) end: CancellationToken,
}

impl SendState {
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
    let is_definite = failure.error.kind == ExtenderErrorKind::Reported
        // As for the API server: a client error is answered before anything is done, apart from a timeout.
        || failure.code.is_some_and(|code| (400..500).contains(&code) && code != 408);
    match failure.sent {
        _ if is_definite => Meaning::Refused,
        true => Meaning::Unknown,
        false => Meaning::NotSent,
    }
}

/// What was sent of a bind of unknown outcome.
struct Sent {
    /// Calls without an answer may be carried out until then.
    lands_until: Instant,
    /// When the last call ended.
    last: Instant,
    /// When a call was answered with success last.
    success: Option<Instant>,
}

/// One bind under way.
pub(super) struct ExtenderBind<'a> {
    /// The extender as the profile has it at this moment: its Secrets may be withdrawn while the bind is followed.
    pub(super) find: &'a (dyn Fn() -> Result<Arc<Extender>, ExtenderError> + Sync),
    pub(super) kube: &'a Transport,
    pub(super) gate: &'a Gate,
    pub(super) recheck: &'a dyn Recheck,
    /// How long after an answer of success the pod must be bound.
    pub(super) bound_within: Duration,
    /// How long a call that was given up may still be carried out.
    pub(super) lands_within: Duration,
    pub(super) budget: &'a Budget,
    pub(super) request: &'a BindRequest,
    pub(super) ticket: &'a SendState,
    /// The process ends: its successor settles what is open.
    pub(super) closing: &'a CancellationToken,
}

impl ExtenderBind<'_> {
    /// Binds the pod; `unknown` is called once, when the outcome is first not known. `None` if the bind was not sent, or is
    /// left to the next process. After a panic, what may have been sent is of unknown outcome like after a call without an
    /// answer.
    pub(super) async fn run_to_end(&self, unknown: impl Fn() + Send + Sync) -> Option<BindOutcome> {
        let is_told = AtomicBool::new(false);
        let unknown = || {
            if !is_told.swap(true, Ordering::Relaxed) {
                unknown();
            }
        };
        let mut pause = FIRST_PAUSE;
        let mut ended = AssertUnwindSafe(self.run(&unknown)).catch_unwind().await;
        loop {
            match ended {
                Ok(outcome) => return outcome,
                Err(_) if !self.ticket.is_sent() => {
                    return Some(BindOutcome::Refused { code: None, message: "an error in this process".to_owned() });
                }
                Err(_) => {}
            }
            self.ticket.doubt();
            unknown();
            self.pause(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            ended = AssertUnwindSafe(self.settle()).catch_unwind().await.map(Some);
        }
    }

    async fn run(&self, unknown: impl FnOnce() + Send) -> Option<BindOutcome> {
        let why = loop {
            self.wait_for_gate().await;
            let Err(failure) = self.call(false).await else { return self.confirm(unknown).await };
            let message = failure.error.message.to_string();
            match meaning(&failure) {
                Meaning::Unknown => break message,
                Meaning::NotSent if self.ticket.is_revoked() || self.closing.is_cancelled() => return None,
                Meaning::NotSent if self.is_gone(Gone::Node) => return Some(self.node_gone()),
                // The pod says how it ended.
                Meaning::NotSent if self.is_gone(Gone::Pod) => break message,
                // Without leadership the bind waits for it.
                Meaning::NotSent if !self.gate.is_open() => {}
                _ => return Some(BindOutcome::Refused { code: None, message }),
            }
        };
        self.ticket.doubt();
        let request = self.request;
        tracing::debug!(pod = %request.pod.key, node = %request.node, why, "bind outcome of the extender unknown");
        unknown();
        Some(self.settle().await)
    }

    fn is_gone(&self, what: Gone) -> bool {
        self.recheck.gone(self.request) == Some(what)
    }

    /// `was_read`: the pod was just read, and was not bound.
    async fn call(&self, was_read: bool) -> Result<(), Failure> {
        let BindRequest { pod, node, .. } = self.request;
        let extender = (self.find)()?;
        let payload = bind_request(&pod.key.namespace, &pod.key.name, &pod.uid, node);
        let mut reservation = self.budget.reserve();
        if let Err(full) = reservation.take(payload.own_bytes()) {
            return Err(Failure::unsent(ExtenderErrorKind::Busy, full.to_string()));
        }
        let may_go = || {
            !self.closing.is_cancelled()
                && self.gate.is_open()
                && self.recheck.gone(self.request).is_none_or(|gone| gone == Gone::Pod && was_read)
                && self.ticket.send()
        };
        let ask = VerbCall { verb: Verb::Bind, pod: &pod.uid, payload, visit: BindVisitor::default(), may_go: &may_go };
        let finish = |visit: BindVisitor| match visit.into_reply() {
            message if message.is_empty() => Ok(()),
            message => Err(error(ExtenderErrorKind::Reported, message)),
        };
        let result = extender.call(ask, finish).await;
        if matches!(&result, Err(failure) if !failure.sent && failure.error.kind != ExtenderErrorKind::Reported) {
            self.ticket.unsend();
        }
        result
    }

    fn node_gone(&self) -> BindOutcome {
        let node = &self.request.node;
        let message = format!("node {node} was deleted, or replaced by another one of its name, after it was chosen");
        BindOutcome::Refused { code: None, message }
    }

    /// The extender has answered that it bound the pod: waits until that shows. A process that ends reads the pod at once: an extender's word
    /// alone must not be announced as a fact, and it may bind the pod late.
    async fn confirm(&self, unknown: impl FnOnce() + Send) -> Option<BindOutcome> {
        let (answered, mut unknown) = (Instant::now(), Some(unknown));
        let mut pause = FIRST_LOOK;
        loop {
            let shown = self.recheck.shown(self.request);
            match &shown {
                Shown::On(node) if *node == self.request.node => return Some(BindOutcome::Bound),
                // It was asked for another one; or somebody else was faster.
                Shown::On(node) => return Some(BindOutcome::BoundElsewhere { node: node.clone() }),
                Shown::Waits | Shown::Gone => {}
            }
            let is_late = answered.elapsed() >= self.bound_within;
            // Whether a pod that is gone was bound before, nobody knows; one on a node that is not known counts as gone, too.
            if is_late || shown == Shown::Gone || self.closing.is_cancelled() {
                match read_back(self.kube, READ_TIMEOUT, self.request).await {
                    Found::Settled(outcome) => return Some(outcome),
                    Found::Unbound if is_late => return Some(self.lied(answered.elapsed())),
                    Found::Unbound | Found::Unread => {}
                }
            }
            if answered.elapsed() >= UNSEEN
                && let Some(unknown) = unknown.take()
            {
                unknown();
            }
            self.pause(pause).await;
            pause = (pause * 2).min(LONGEST_LOOK);
        }
    }

    /// Waits, and not longer than until the process begins to end.
    async fn pause(&self, pause: Duration) {
        if self.closing.is_cancelled() {
            return tokio::time::sleep(pause).await;
        }
        let _sooner = tokio::time::timeout(pause, self.closing.cancelled()).await;
    }

    fn not_bound(&self, after: Duration) -> BindOutcome {
        let BindRequest { node, extender, .. } = self.request;
        let (extender, seconds) = (extender.as_deref().unwrap_or_default(), after.as_secs());
        let message =
            format!("extender {extender} was asked to bind the pod to {node}; {seconds} s later it is not bound");
        BindOutcome::Refused { code: None, message }
    }

    fn lied(&self, after: Duration) -> BindOutcome {
        let BindRequest { pod, node, extender, .. } = self.request;
        let extender = extender.as_deref().unwrap_or_default();
        if let Some(left_out) = LIED.line() {
            tracing::warn!(pod = %pod.key, %node, extender, left_out, "an extender answered that it bound the pod, which is not bound");
        }
        let seconds = after.as_secs();
        let message =
            format!("extender {extender} answered that the pod is bound to {node}; {seconds} s later it is not bound");
        BindOutcome::Refused { code: None, message }
    }

    /// Brings a bind of unknown outcome to its end.
    async fn settle(&self) -> BindOutcome {
        let mut sent = Sent { lands_until: Instant::now() + self.lands_within, last: Instant::now(), success: None };
        let mut pause = FIRST_PAUSE;
        loop {
            self.pause(pause).await;
            pause = (pause * 2).min(if self.closing.is_cancelled() { LONGEST_LOOK } else { LONGEST_PAUSE });
            let asked = Instant::now();
            match read_back(self.kube, READ_TIMEOUT, self.request).await {
                Found::Settled(outcome) => return outcome,
                Found::Unread => continue,
                Found::Unbound => {}
            }
            // A call without an answer may still be under way at the extender.
            let is_late = asked >= sent.last + self.bound_within;
            let closes = self.closing.is_cancelled();
            if closes || self.is_gone(Gone::Node) {
                if is_late {
                    return if closes { self.not_bound(sent.last.elapsed()) } else { self.node_gone() };
                }
                continue;
            }
            // What was found unbound by then is not bound by an earlier call any more.
            let may_land = asked < sent.lands_until;
            if let Some(success) = sent.success.filter(|_| !may_land) {
                if asked >= success + self.bound_within {
                    return self.lied(success.elapsed());
                }
                continue;
            }
            self.wait_for_gate().await;
            if self.closing.is_cancelled() {
                continue;
            }
            let had_success = sent.success.is_some();
            if let Some(outcome) = self.call_again(&mut sent, may_land).await {
                return outcome;
            }
            if sent.success.is_some() && !had_success {
                // It should show now.
                pause = FIRST_PAUSE;
            }
        }
    }

    /// Makes the same call once more. Says how the bind has ended, if that is definite: never while an earlier call may land.
    async fn call_again(&self, sent: &mut Sent, may_land: bool) -> Option<BindOutcome> {
        let result = self.call(true).await;
        sent.last = Instant::now();
        let failure = match result {
            Ok(()) => {
                sent.success = Some(sent.last);
                return None;
            }
            Err(failure) => failure,
        };
        let is_definite = match meaning(&failure) {
            Meaning::Unknown => {
                sent.lands_until = sent.last + self.lands_within;
                false
            }
            Meaning::Refused => true,
            // The profile does not have it, or not this verb; any other reason may pass.
            _ => failure.error.kind == ExtenderErrorKind::Refused,
        };
        (is_definite && !may_land)
            .then(|| BindOutcome::Refused { code: None, message: failure.error.message.to_string() })
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
