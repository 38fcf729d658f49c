//! ResourceClaims are allocated and reserved for a pod, and reservations given back.
//!
//! ```text
//!  finalizer ─▶ status (allocation, reservedFor) ─▶ written
//!      │            │ 409: GET, judged anew, both from there, at most 5 times in all
//!      │            │ outcome unknown: GET, judged anew, and the same again with patience
//!      └────────────┴ refused, or not to be had any more: failed
//! ```
//!
//! While a write of an allocation may still land, its devices must count as taken: the job does not end before that.

use super::claim::{Claim, Seen, Step, deallocate_call, is_reserved, read_call, unreserve_call};
use super::{Kit, WriteResult};
use crate::paced::Paced;
use crate::send::{Answer, Call};
use crate::write::{Failure, GivenUp, Meaning, Patience, Progress, WriteError};
use berth_core::io::{ClaimRequest, ClaimsFailure, ClaimsOutcome, DeallocateRequest, UnreserveRequest, WrittenClaim};
use berth_core::model::{ClaimKey, ClaimWrite, Pod, Str};
use jiff::Timestamp;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// How often a claim is judged, and the pause after a conflict, as upstream.
const JUDGED_TIMES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);

static NOT_GIVEN_BACK: Paced = Paced::new();
static NOT_DEALLOCATED: Paced = Paced::new();
static NOT_LOOKED_AT: Paced = Paced::new();

/// What a failed write counts as, and what is said of it.
type Failed = (WriteResult, Failure);

/// Where the writes to a claim stand after a step.
enum Next {
    /// At their end; with the claim's version.
    Written(Str),
    /// The next step can be made.
    Step,
    /// The claim had changed; what is left was judged anew.
    Judged(WriteError),
}

/// The writes to one claim.
struct Writing<'a> {
    kit: &'a Kit,
    progress: &'a dyn Progress,
    claim: Claim<'a>,
    /// When a write of the status was given up last that may still land.
    given_up: Option<Instant>,
}

impl Kit {
    /// Writes to one claim after the other, and stops at the first failure.
    pub(super) async fn reserve(&self, request: &ClaimRequest, progress: &dyn Progress) -> ClaimsOutcome {
        let mut outcome = ClaimsOutcome { written: Vec::new(), failure: None };
        for write in request.writes.iter() {
            let written = match &write.creates {
                None => self.write_claim(write, &request.pod, progress).await,
                Some(claim) => match self.make_claim((write, claim), &request.pod, progress).await {
                    Ok(made) => self.write_claim(&made, &request.pod, progress).await,
                    Err(failure) => Err(failure),
                },
            };
            let mut ended = written.map(|written| outcome.written.push(written));
            if let (Some(claim), Ok(())) = (&write.creates, &ended) {
                ended = self.tell_pod(&write.key, &claim.mappings, &request.pod, progress).await;
            }
            if let Err(Failure { code, message }) = ended {
                outcome.failure = Some(ClaimsFailure { code, message });
                break;
            }
        }
        outcome
    }

    async fn write_claim(
        &self,
        write: &ClaimWrite,
        pod: &Pod,
        progress: &dyn Progress,
    ) -> Result<WrittenClaim, Failure> {
        let claim = Claim::new(write, pod, Timestamp::now())
            .map_err(|error| Failure::from(format!("encode allocation of claim {}: {error}", write.key)))?;
        let mut writing = Writing { kit: self, progress, claim, given_up: None };
        match writing.write().await {
            Ok(resource_version) => {
                self.claim_status.count(WriteResult::Written);
                Ok(WrittenClaim { key: write.key.clone(), uid: write.uid.clone(), resource_version })
            }
            Err((result, failure)) => {
                let counters = match writing.claim.step() {
                    Step::Finalizer => &self.resource_claims,
                    Step::Status => &self.claim_status,
                };
                counters.count(result);
                Err(failure)
            }
        }
    }

    /// Reads until there is an answer, or patience is over.
    pub(super) async fn read(
        &self,
        call: &Call,
        patience: Patience,
        namespace: &str,
        progress: &dyn Progress,
    ) -> Result<Answer, WriteError> {
        let (mut patience, mut made) = (patience, 0);
        loop {
            made += 1;
            let error = match self.link.send_for(call, progress, namespace).await {
                Ok(answer) => return Ok(answer),
                Err(error) if is_definite(&error) => return Err(error),
                Err(error) => error,
            };
            let Some(pause) = patience.after(made, &error) else { return Err(error) };
            sleep(pause).await;
            patience.pause = (patience.pause * 2).min(patience.longest);
        }
    }

    pub(super) async fn unreserve(&self, request: &UnreserveRequest, progress: &dyn Progress) {
        for (key, uid) in &request.claims {
            // The worker of another profile may have taken the pod over and been faster.
            if !self.recheck.is_giving_back(&request.pod.uid, key, uid) {
                continue;
            }
            let result = match self.give_back(key, uid, &request.pod, progress).await {
                Ok(result) => result,
                Err(why) => {
                    if let Some(left_out) = NOT_GIVEN_BACK.line() {
                        tracing::warn!(claim = %key, pod = %request.pod.key, why, left_out, "reservation not given back");
                    }
                    WriteResult::Failed
                }
            };
            self.claim_status.count(result);
        }
        if let Some(made) = &request.extended {
            self.delete_claim(made, &request.pod, progress).await;
        }
    }

    /// Takes a claim's devices back. If it has changed, it may be in nobody's way any more, or the next attempt judges it anew.
    ///
    /// A write that may still land is waited for: the pod's next job may find the claim reserved, which changes nothing and no version.
    pub(super) async fn deallocate(&self, request: &DeallocateRequest, progress: &dyn Progress) {
        let DeallocateRequest { pod, claim } = request;
        let call = deallocate_call(claim);
        let mut tries = self.link.tries(self.patience, progress, &claim.key.namespace);
        let mut given_up = None;
        let result = loop {
            match tries.next(&call).await {
                Ok(Ok(_)) => break WriteResult::Written,
                Ok(Err(error)) if is_definite(&error) => {
                    if error.meaning == Meaning::ReadBack {
                        break WriteResult::Conflict;
                    }
                    if let Some(left_out) = NOT_DEALLOCATED.line() {
                        let why = error.message;
                        tracing::warn!(claim = %claim.key, pod = %pod.key, why, left_out, "idle claim not deallocated");
                    }
                    break WriteResult::Failed;
                }
                Ok(Err(error)) if error.meaning == Meaning::Unknown => given_up = Some(Instant::now()),
                Ok(Err(_)) => {}
                Err(_) => break WriteResult::Failed,
            }
        };
        self.claim_status.count(result);
        // Once the claim has another version, none of these lands any more.
        if let Some(given_up) = given_up.filter(|_| result == WriteResult::Failed) {
            sleep_until(self.link.over(given_up)).await;
        }
    }

    /// Takes one claim's reservation away, unless there is none.
    async fn give_back(
        &self,
        key: &ClaimKey,
        uid: &Str,
        pod: &Pod,
        progress: &dyn Progress,
    ) -> Result<WriteResult, String> {
        let call = unreserve_call(key, uid, pod);
        let mut tries = self.link.tries(self.patience, progress, &key.namespace);
        let mut given_up = None;
        let result = loop {
            let error = match tries.next(&call).await {
                Ok(Ok(_)) => break Ok(WriteResult::Written),
                Ok(Err(error)) => error,
                Err(given_up) => break Err(why(given_up)),
            };
            match (error.meaning, error.code) {
                (Meaning::Later { .. } | Meaning::NotSent, _) => {}
                (Meaning::Unknown, _) => given_up = Some(Instant::now()),
                // It is gone, or another one by now.
                (_, Some(404 | 422)) => break Ok(WriteResult::Conflict),
                (Meaning::Refused, _) => break Err(error.message),
                (Meaning::ReadBack, _) => match self.link.send(&read_call(key)).await {
                    Ok(answer) if is_reserved(&answer, uid, pod).is_ok_and(|is| !is) => {
                        break Ok(WriteResult::Conflict);
                    }
                    Err(error) if error.code == Some(404) => break Ok(WriteResult::Conflict),
                    Ok(_) | Err(_) => {}
                },
            }
        };
        // It names no version: one that lands late would take away what the pod's next job reserves.
        if let Some(given_up) = given_up {
            sleep_until(self.link.over(given_up)).await;
        }
        result
    }
}

impl Writing<'_> {
    async fn write(&mut self) -> Result<Str, Failed> {
        let mut judged = 1;
        loop {
            match self.step().await? {
                Next::Written(version) => return Ok(version),
                Next::Step => {}
                Next::Judged(error) if judged == JUDGED_TIMES => {
                    let failure = Failure { message: self.claim.failed(&error.message), ..error.into() };
                    return self.ended((WriteResult::Conflict, failure)).await;
                }
                Next::Judged(_) => {
                    judged += 1;
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Makes the next step at the version that was judged, until its outcome is known.
    async fn step(&mut self) -> Result<Next, Failed> {
        let (kit, progress, write) = (self.kit, self.progress, self.claim.write);
        let (step, call) = (self.claim.step(), self.claim.call());
        let mut tries = kit.link.tries(kit.patience, progress, &write.key.namespace);
        loop {
            let error = match tries.next(&call).await {
                Ok(Ok(answer)) => match self.landed(step, &answer) {
                    Some(next) => return Ok(next),
                    None => unreadable(),
                },
                Ok(Err(error)) => error,
                Err(given_up) => {
                    let failure = self.claim.failed(&why(given_up)).into();
                    return self.ended((WriteResult::Failed, failure)).await.map(Next::Written);
                }
            };
            let is_unknown = error.meaning == Meaning::Unknown;
            match error.meaning {
                Meaning::Later { .. } | Meaning::NotSent => continue,
                Meaning::Unknown => {}
                Meaning::ReadBack if error.code == Some(409) => {}
                Meaning::Refused | Meaning::ReadBack => {
                    let failure = Failure { message: self.claim.failed(&error.message), ..error.into() };
                    return self.ended((WriteResult::Failed, failure)).await.map(Next::Written);
                }
            }
            if is_unknown && step == Step::Status {
                self.given_up = Some(Instant::now());
            }
            // The write itself is repeated where its outcome is unknown: one look will do between.
            let patience = Patience { tries: if is_unknown { 1 } else { kit.patience.tries }, ..kit.patience };
            match self.look(patience).await {
                Ok(Seen::Written(version)) => return Ok(Next::Written(version)),
                Ok(Seen::Lost(message)) => return Err((WriteResult::Conflict, message.into())),
                Ok(Seen::Left { moved: false }) if is_unknown => {}
                Ok(Seen::Left { .. }) => return Ok(Next::Judged(error)),
                Err(unread) if is_unknown && unread.code != Some(404) => tries.last = unread.message,
                Err(unread) => {
                    let failed = self.unread(unread);
                    return self.ended(failed).await.map(Next::Written);
                }
            }
        }
    }

    /// `None` where the answer does not say which version the claim has since.
    fn landed(&mut self, step: Step, answer: &Answer) -> Option<Next> {
        let version = answer.resource_version()?;
        if step == Step::Status {
            return Some(Next::Written(version));
        }
        self.kit.resource_claims.count(WriteResult::Written);
        self.claim.has_got_finalizer(version);
        Some(Next::Step)
    }

    /// Judges the claim as it is now. What was sent for an older version cannot land any more.
    async fn look(&mut self, patience: Patience) -> Result<Seen, WriteError> {
        let namespace = &self.claim.write.key.namespace;
        let answer = self.kit.read(&self.claim.read_call(), patience, namespace, self.progress).await?;
        let seen =
            self.claim.see(&answer).map_err(|error| WriteError { message: error.to_string(), ..unreadable() })?;
        if seen != (Seen::Left { moved: false }) {
            self.given_up = None;
        }
        Ok(seen)
    }

    fn unread(&mut self, unread: WriteError) -> Failed {
        let is_gone = unread.code == Some(404);
        if is_gone {
            self.given_up = None;
        }
        let message = format!("get updated claim {} after conflict: {}", self.claim.write.key, unread.message);
        let code = unread.code.filter(|_| is_definite(&unread));
        (if is_gone { WriteResult::Conflict } else { WriteResult::Failed }, Failure { code, message })
    }

    /// Fails, but not while the allocation may still come, or may have come: then it waits, and looks until the claim says so, however
    /// long that takes. Whoever leads next reads what there is.
    async fn ended(&mut self, failed: Failed) -> Result<Str, Failed> {
        if let Some(given_up) = self.given_up.take() {
            sleep_until(self.kit.link.over(given_up)).await;
            let mut patience = self.kit.patience;
            // Not `is_open`: the gate may shut for a moment and open again, and the devices would count as free by then.
            while self.kit.link.gate.leads() {
                match self.look(self.kit.patience).await {
                    Ok(Seen::Written(version)) => return Ok(version),
                    Ok(Seen::Left { .. } | Seen::Lost(_)) => break,
                    Err(error) if error.code == Some(404) => break,
                    Err(unread) => {
                        if let Some(left_out) = NOT_LOOKED_AT.line() {
                            let (claim, why) = (&self.claim.write.key, unread.message);
                            tracing::warn!(%claim, why, left_out, "not known whether devices were allocated; they count as taken");
                        }
                        sleep(patience.pause).await;
                        patience.pause = (patience.pause * 2).min(patience.longest);
                    }
                }
            }
        }
        Err(failed)
    }
}

/// Whether asking again would bring nothing else.
pub(super) fn is_definite(error: &WriteError) -> bool {
    matches!(error.meaning, Meaning::Refused | Meaning::ReadBack)
}

/// An answer that came, and says nothing.
fn unreadable() -> WriteError {
    let message = "the answer has no resourceVersion".to_owned();
    WriteError { meaning: Meaning::Unknown, code: None, pause: None, message }
}

pub(super) fn why(given_up: GivenUp) -> String {
    match given_up {
        GivenUp::NotLeading | GivenUp::Unwanted => "not written: this process leads no more".to_owned(),
        GivenUp::TriedOften { tries, last } => format!("not written in {tries} tries: {last}"),
    }
}
