use super::{Meaning, PodRead, WriteError, meaning, read_pod};
use crate::lease::Gate;
use crate::send::{Answer, Call};
use berth_core::model::{PodKey, Str};
use kube::Client;
use std::time::Duration;

/// Longest pause between two tries of one request, whatever the API server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What a writer sends with: a client without retries, the gate that it asks before each request, and its patience.
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) gate: Gate,
    /// Longest wait for one answer.
    pub(crate) timeout: Duration,
}

impl Link {
    /// Sends once, without a look at the gate.
    pub(crate) async fn send(&self, call: &Call) -> Result<Answer, WriteError> {
        meaning(call.send(&self.client, self.timeout).await)
    }

    pub(crate) async fn read_pod(&self, key: &PodKey, uid: &Str) -> PodRead {
        read_pod(&self.client, self.timeout, key, uid).await
    }

    /// Sends one request up to `most` times; the pause between two tries starts at `pause` and doubles.
    pub(crate) fn tries(&self, most: u32, pause: Duration) -> Tries<'_> {
        Tries { link: self, most: most.max(1), made: 0, pause, wait: pause, doubt: false, last: String::new() }
    }
}

/// The repetition of one request until its outcome is known, while this process leads.
pub(crate) struct Tries<'a> {
    link: &'a Link,
    most: u32,
    made: u32,
    pause: Duration,
    wait: Duration,
    /// Whether one of the tries may have been carried out without our knowing.
    pub(crate) doubt: bool,
    /// What was wrong with the last try.
    pub(crate) last: String,
}

/// Why a request is not sent again.
pub(crate) enum GivenUp {
    NotLeading,
    TriedOften { tries: u32, last: String },
}

impl Tries<'_> {
    /// Sends the request, after a pause if it was sent before.
    ///
    /// A doubtful [`Meaning::Later`] comes back as [`Meaning::Unknown`]: who repeats a write has to look in either case.
    pub(crate) async fn next(&mut self, call: &Call) -> Result<Result<Answer, WriteError>, GivenUp> {
        if self.made > 0 {
            tokio::time::sleep(self.wait).await;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        if self.made >= self.most {
            return Err(GivenUp::TriedOften { tries: self.most, last: std::mem::take(&mut self.last) });
        }
        if !self.link.gate.is_open() {
            return Err(GivenUp::NotLeading);
        }
        self.made += 1;
        self.wait = self.pause;
        let mut sent = self.link.send(call).await;
        if let Err(error) = &mut sent {
            self.last.clone_from(&error.message);
            match error.meaning {
                Meaning::Later { doubtful: false } => {
                    self.wait = error.pause.unwrap_or(self.pause).min(LONGEST_PAUSE);
                }
                Meaning::Later { doubtful: true } | Meaning::Unknown => {
                    error.meaning = Meaning::Unknown;
                    self.doubt = true;
                }
                Meaning::ReadBack | Meaning::NotSent | Meaning::Refused => {}
            }
        }
        Ok(sent)
    }
}
