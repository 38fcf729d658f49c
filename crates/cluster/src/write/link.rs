use super::afoot::Afoot;
use super::{Meaning, PodRead, WriteError, meaning, read_pod};
use crate::lease::Gate;
use crate::limits::WriteLimits;
use crate::send::{Answer, Call, Kind};
use crate::transport::Transport;
use berth_core::model::{PodKey, Str};
use http::Method;
use std::time::Duration;
use tokio::time::Instant;

/// After so long a watch has shown what was done: one that is silent for longer counts as lost.
const IN_DOUBT: Duration = Duration::from_mins(3);

/// How often a request is sent, and the pauses between.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    pub tries: u32,
    /// The pause after the first try, where the API server asks for none.
    pub pause: Duration,
    /// Longest pause, whatever the API server asks for.
    pub longest: Duration,
}

impl Patience {
    /// The pause after `made` tries of which the last ended in `error`; `None` after the last try.
    pub(crate) fn after(&self, made: u32, error: &WriteError) -> Option<Duration> {
        (made < self.tries).then(|| error.pause.unwrap_or(self.pause).min(self.longest))
    }
}

/// What a writer sends with: a transport, the gate that it asks before each request, and its patience.
pub(crate) struct Link {
    pub(crate) transport: Transport,
    pub(crate) gate: Gate,
    limits: WriteLimits,
    afoot: Afoot,
}

impl Link {
    pub(crate) fn new(transport: Transport, gate: Gate, limits: WriteLimits) -> Self {
        Self { transport, gate, limits, afoot: Afoot::new(limits.lands_within()) }
    }

    /// Sends once, without a look at the gate. A write says how long the API server may work on it, and is among those that may land from
    /// now on until its outcome is known, or too old.
    pub(crate) async fn send(&self, call: &Call) -> Result<Answer, WriteError> {
        if call.method == Method::GET {
            return meaning(self.transport.send(call, self.limits.answer()).await);
        }
        let sent = self.afoot.send();
        let call = call.given_up_after(self.limits.server());
        let answer = meaning(self.transport.send(&call, self.limits.answer()).await);
        sent.ended(&answer);
        answer
    }

    pub(crate) async fn read_pod(&self, key: &PodKey, uid: &Str) -> PodRead {
        read_pod(&self.transport, self.limits.answer(), key, uid).await
    }

    /// Longest wait for one answer.
    pub(crate) const fn answer_limit(&self) -> Duration {
        self.limits.answer()
    }

    /// From when on a write that was given up at `given_up` cannot be carried out any more.
    pub(crate) fn over(&self, given_up: Instant) -> Instant {
        given_up + self.limits.lands_within()
    }

    /// Whether a write was given up within the last minutes that may have been carried out, and that no watch may have shown yet.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.afoot.was_given_up_within(IN_DOUBT)
    }

    /// Waits until no write that was sent may be carried out any more, but not beyond `end`. Returns how many may still be.
    pub(crate) async fn land(&self, end: Instant) -> usize {
        self.afoot.land(end).await
    }

    /// Sends one request again and again; the pause between two tries doubles. `progress` is told how each request to
    /// `namespace` went.
    pub(crate) fn tries<'a>(&'a self, patience: Patience, progress: &'a dyn Progress, namespace: &'a str) -> Tries<'a> {
        let wait = Duration::ZERO;
        Tries { link: self, patience, progress, namespace, made: 0, wait, doubt: false, last: String::new() }
    }

    /// Sends once, and tells `progress` how that went.
    pub(crate) async fn send_for(
        &self,
        call: &Call,
        progress: &dyn Progress,
        namespace: &str,
    ) -> Result<Answer, WriteError> {
        let sent = self.send(call).await;
        match &sent {
            Ok(_) => progress.answered(namespace, &call.kind()),
            Err(error) => progress.failed(namespace, &call.kind(), error),
        }
        sent
    }
}

/// Receives the result of each request, so that a namespace whose requests fail is paused and takes no slot from others.
pub trait Progress: Sync {
    fn answered(&self, namespace: &str, kind: &Kind);

    /// Also where the error is an answer that shows that the namespace is well.
    fn failed(&self, namespace: &str, kind: &Kind, error: &WriteError);
}

/// The repetition of one request until its outcome is known, while this process leads.
pub(crate) struct Tries<'a> {
    link: &'a Link,
    patience: Patience,
    progress: &'a dyn Progress,
    namespace: &'a str,
    made: u32,
    wait: Duration,
    /// Whether one of the tries may have been carried out without our knowing.
    pub(crate) doubt: bool,
    /// What was wrong with the last try.
    pub(crate) last: String,
}

/// Why a request is not sent again.
pub(crate) enum GivenUp {
    NotLeading,
    /// Nobody wants it any more.
    Unwanted,
    TriedOften {
        tries: u32,
        last: String,
    },
}

/// Why a write failed for good.
pub(crate) struct Failure {
    /// The HTTP status, where the API server refused.
    pub(crate) code: Option<u16>,
    pub(crate) message: String,
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { code: None, message }
    }
}

impl From<WriteError> for Failure {
    fn from(WriteError { code, message, .. }: WriteError) -> Self {
        Self { code, message }
    }
}

impl Tries<'_> {
    /// Sends the request, after a pause if it was sent before.
    ///
    /// A doubtful [`Meaning::Later`] comes back as [`Meaning::Unknown`]: who repeats a write has to look in either case.
    pub(crate) async fn next(&mut self, call: &Call) -> Result<Result<Answer, WriteError>, GivenUp> {
        self.next_if(call, || true).await
    }

    /// As [`Self::next`], if it `is_wanted` right before a request is sent again: much may happen in a pause.
    pub(crate) async fn next_if(
        &mut self,
        call: &Call,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Result<Answer, WriteError>, GivenUp> {
        let Patience { tries, longest, .. } = self.patience;
        if self.made >= tries.max(1) {
            return Err(GivenUp::TriedOften { tries, last: std::mem::take(&mut self.last) });
        }
        if self.made > 0 {
            tokio::time::sleep(self.wait).await;
            self.patience.pause = (self.patience.pause * 2).min(longest);
            if !is_wanted() {
                return Err(GivenUp::Unwanted);
            }
        }
        if !self.link.gate.is_open() {
            return Err(GivenUp::NotLeading);
        }
        self.made += 1;
        self.wait = self.patience.pause;
        let mut sent = self.link.send_for(call, self.progress, self.namespace).await;
        if let Err(error) = &mut sent {
            self.last.clone_from(&error.message);
            match error.meaning {
                Meaning::Later { doubtful: false, .. } => {
                    self.wait = error.pause.unwrap_or(self.wait).min(longest);
                }
                Meaning::Later { doubtful: true, .. } | Meaning::Unknown => {
                    error.meaning = Meaning::Unknown;
                    self.doubt = true;
                }
                Meaning::ReadBack | Meaning::NotSent | Meaning::Refused => {}
            }
        }
        Ok(sent)
    }
}
