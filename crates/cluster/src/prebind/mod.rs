//! The pre-binder: what must be written before a pod can be bound to the node that was chosen for it.
//!
//! ```text
//!  nominate ──┐
//!  reserve ───┤
//!  submit ────┼▶ queue, one job a pod at a time ─▶ PATCH … ─▶ deliver(worker, ClaimsWritten or VolumesWritten)
//!  unreserve ─┘                                      │ 409, 404, timeout, reset, 5xx: GET, and if it is not as wanted the
//!                                                    └ same again, a few times
//! ```
//!
//! A job is a pod's nomination (`status.nominatedNodeName`, a courtesy to autoscalers), its ResourceClaims, which are allocated
//! and reserved for it, or its volumes: the claim of each volume that we bind, and the node on each claim whose volume is to be
//! provisioned. Every write names the uid and resourceVersion that was judged, so it can be repeated: a second one that lands is
//! refused, and a read-back shows whose the first was. Nothing is undone in the cluster when a later write of a job fails: the
//! volume controller continues from what is there, and so does the next attempt. Reservations of ResourceClaims are given back by
//! a job of their own, and a claim that was made for the pod's extended resources is deleted by it.

mod allocation;
mod claim;
mod extended;
mod nomination;
mod reserve;
mod write;

#[cfg(test)]
mod claim_tests;
#[cfg(test)]
mod extended_tests;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod tests;

pub use crate::queue::{Options, Pending};
pub use berth_core::io::{ClaimRequest, DeallocateRequest, NominateRequest, UnreserveRequest, VolumeRequest};
pub(crate) use claim::path as claim_path;
pub(crate) use nomination::end_nomination;

use crate::bind::{Deliver, WorkerId};
use crate::lease::Gate;
use crate::paced::Paced;
use crate::queue::{Job, Writer};
use crate::recheck::Recheck;
use crate::send::Answer;
use crate::transport::Transport;
use crate::watch::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, RESOURCE_CLAIMS};
use crate::write::{Counters, Failure, GivenUp, Known, Link, Meaning, OwnWrites, Patience, PodRead, Progress, results};
use berth_core::io::{AttemptId, ClaimsFailure, ClaimsOutcome, Input, VolumesOutcome};
use berth_core::model::{Pod, Str};
use extended::LateCreates;
use nomination::nominate_call;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::{Instant, sleep_until};
use write::{Found, Target, Write};

/// Times a nomination is sent: a second one where the pod had changed meanwhile.
const NOMINATION_TRIES: u32 = 2;

static NOT_NOMINATED: Paced = Paced::new();

/// Submits what is to be written before binds, and takes it back.
pub type PreBinder = Writer<Work>;

pub struct Work {
    profile: Str,
    what: What,
}

enum What {
    Nominate(NominateRequest),
    /// The nomination that the pod's object reports ends.
    EndReported(Arc<Pod>),
    Write(WorkerId, VolumeRequest),
    Reserve(WorkerId, ClaimRequest),
    Unreserve(UnreserveRequest),
    Deallocate(DeallocateRequest),
}

/// What jobs are done with.
pub struct Kit {
    link: Link,
    patience: Patience,
    own: OwnWrites,
    recheck: Arc<dyn Recheck>,
    volumes: Counters<WriteResult>,
    claims: Counters<WriteResult>,
    /// ResourceClaims that are made and deleted, and their finalizers.
    resource_claims: Counters<WriteResult>,
    /// ResourceClaims that are made, alone.
    claims_made: Counters<CreateResult>,
    /// Allocations and reservations of ResourceClaims.
    claim_status: Counters<WriteResult>,
    nominations: Counters<WriteResult>,
    late_creates: LateCreates,
    /// The newest versions of PersistentVolumes and of their claims that answers have told of.
    newest_volume: AtomicU64,
    newest_volume_claim: AtomicU64,
}

results! {
    WriteResult {
        Written = "written",
        /// Someone else was faster: the object is another one, deleted, or has other contents.
        Conflict = "conflict",
        /// The API server refused, or its answer did not come in time, however often it was asked.
        Failed = "failed",
    }
}

results! {
    /// By kube-scheduler's labels.
    CreateResult {
        Success = "success",
        Failure = "failure",
    }
}

impl PreBinder {
    /// Starts the tasks on the current tokio runtime. Writes to pods are noted in `own`; `recheck` is asked whether a reservation is still
    /// to be given back.
    pub fn new(
        transport: impl Into<Transport>,
        options: Options,
        gate: Gate,
        own: OwnWrites,
        recheck: Arc<dyn Recheck>,
        deliver: Deliver,
    ) -> Self {
        let Options { concurrency, limits, patience } = options;
        let kit = Kit {
            link: Link::new(transport.into(), gate.clone(), limits),
            patience,
            own,
            recheck,
            volumes: Counters::default(),
            claims: Counters::default(),
            resource_claims: Counters::default(),
            claims_made: Counters::default(),
            claim_status: Counters::default(),
            nominations: Counters::default(),
            late_creates: LateCreates::default(),
            newest_volume: AtomicU64::new(0),
            newest_volume_claim: AtomicU64::new(0),
        };
        Self::start(kit, gate, concurrency, deliver)
    }

    /// Queues a nomination, or its end. Never blocks. What is queued for the same pod afterwards waits for it.
    pub fn nominate(&self, profile: &Str, request: NominateRequest) {
        // Ending a nomination needs a look at what was written meanwhile.
        let known = request.node.is_some() && request.pod.nominated_node == request.node;
        if !known {
            self.queue(Work { profile: profile.clone(), what: What::Nominate(request) });
        }
    }

    /// Queues the end of the nomination that the pod's object reports. One to another node that was written since stays.
    pub fn end_reported_nomination(&self, pod: Arc<Pod>) {
        self.queue(Work { profile: Str::default(), what: What::EndReported(pod) });
    }

    /// Queues the writes to a pod's volumes and claims.
    pub fn submit(&self, worker: WorkerId, profile: &Str, request: VolumeRequest) {
        self.queue(Work { profile: profile.clone(), what: What::Write(worker, request) });
    }

    /// Queues the writes to a pod's ResourceClaims.
    pub fn reserve(&self, worker: WorkerId, profile: &Str, request: ClaimRequest) {
        self.queue(Work { profile: profile.clone(), what: What::Reserve(worker, request) });
    }

    /// Queues that a pod's reservations are given back. What is queued for the same pod afterwards waits for it.
    pub fn unreserve(&self, profile: &Str, request: UnreserveRequest) {
        self.queue(Work { profile: profile.clone(), what: What::Unreserve(request) });
    }

    /// Queues the end of an allocation that nobody uses.
    pub fn deallocate(&self, profile: &Str, request: DeallocateRequest) {
        self.queue(Work { profile: profile.clone(), what: What::Deallocate(request) });
    }

    /// The newest version of PersistentVolumes and of their claims that we have made or read back; 0 for none.
    pub fn written(&self) -> [(&'static str, u64); 2] {
        let Kit { newest_volume, newest_volume_claim, .. } = self.kit();
        [(PERSISTENT_VOLUMES, newest_volume), (PERSISTENT_VOLUME_CLAIMS, newest_volume_claim)]
            .map(|(plural, newest)| (plural, newest.load(Ordering::Relaxed)))
    }

    /// Whether something may have been written within the last minutes without an answer that said so: the watch may have that still to show.
    pub fn is_in_doubt(&self) -> bool {
        self.kit().link.is_in_doubt()
    }

    /// Results by the resource that was written.
    pub fn counters(&self) -> [(&'static str, &Counters<WriteResult>); 5] {
        let Kit { volumes, claims, resource_claims, claim_status, nominations, .. } = self.kit();
        [
            (PERSISTENT_VOLUMES, volumes),
            (PERSISTENT_VOLUME_CLAIMS, claims),
            (RESOURCE_CLAIMS, resource_claims),
            ("resourceclaims/status", claim_status),
            ("pods/status", nominations),
        ]
    }

    /// Claims that were made for pods' extended resources, and that could not be made.
    pub fn claims_made(&self) -> &Counters<CreateResult> {
        &self.kit().claims_made
    }
}

impl Work {
    fn of(&self) -> &Pod {
        match &self.what {
            What::Nominate(request) => &request.pod,
            What::EndReported(pod) => pod,
            What::Write(_, request) => &request.pod,
            What::Reserve(_, request) => &request.pod,
            What::Unreserve(request) => &request.pod,
            What::Deallocate(request) => &request.pod,
        }
    }
}

impl Job for Work {
    type Kit = Kit;

    async fn land(kit: &Kit, end: Instant) -> usize {
        kit.link.land(end).await
    }

    fn owner(&self) -> Option<(WorkerId, AttemptId)> {
        match &self.what {
            What::Nominate(_) | What::EndReported(_) | What::Unreserve(_) | What::Deallocate(_) => None,
            What::Write(worker, request) => Some((*worker, request.attempt)),
            What::Reserve(worker, request) => Some((*worker, request.attempt)),
        }
    }

    /// A reservation is to be given back all the more if its pod's next job is taken back.
    fn is_preparation(&self) -> bool {
        matches!(self.what, What::Nominate(_))
    }

    fn profile(&self) -> &Str {
        &self.profile
    }

    fn namespace(&self) -> &str {
        &self.of().key.namespace
    }

    /// The pod whose jobs run one after the other: a nomination lands before the volumes' writes, and what is given back before it is
    /// reserved anew.
    fn pod(&self) -> Option<&Str> {
        Some(&self.of().uid)
    }

    fn failed(&self, why: &str) -> Option<Input> {
        let (code, message) = (None, format!("not written: {why}"));
        match &self.what {
            What::Nominate(_) | What::EndReported(_) | What::Unreserve(_) | What::Deallocate(_) => None,
            What::Write(_, VolumeRequest { attempt, .. }) => {
                let outcome = VolumesOutcome::Failed { code, message };
                Some(Input::VolumesWritten { attempt: *attempt, outcome })
            }
            What::Reserve(_, ClaimRequest { attempt, .. }) => {
                let failure = Some(ClaimsFailure { code, message });
                Some(Input::ClaimsWritten {
                    attempt: *attempt,
                    outcome: ClaimsOutcome { written: Vec::new(), failure },
                })
            }
        }
    }

    async fn run(self, kit: &Kit, progress: &dyn Progress) -> Option<Input> {
        match self.what {
            What::Nominate(NominateRequest { pod, node: Some(node) }) => kit.nominate(&pod, node, progress).await,
            What::Nominate(NominateRequest { pod, node: None }) => kit.end_nomination(&pod, progress).await,
            What::EndReported(pod) => kit.end_reported(&pod, progress).await,
            What::Write(_, request) => {
                let outcome = match kit.write_all(&request, progress).await {
                    Ok(()) => VolumesOutcome::Written,
                    Err(Failure { code, message }) => VolumesOutcome::Failed { code, message },
                };
                return Some(Input::VolumesWritten { attempt: request.attempt, outcome });
            }
            What::Reserve(_, request) => {
                let outcome = kit.reserve(&request, progress).await;
                return Some(Input::ClaimsWritten { attempt: request.attempt, outcome });
            }
            What::Unreserve(request) => kit.unreserve(&request, progress).await,
            What::Deallocate(request) => kit.deallocate(&request, progress).await,
        }
        None
    }
}

impl Kit {
    /// Sends the writes one by one, volumes before claims; stops at the first failure.
    async fn write_all(&self, request: &VolumeRequest, progress: &dyn Progress) -> Result<(), Failure> {
        let bindings = request.writes.bindings.iter().map(Write::bind);
        let provisions = request.writes.provisions.iter().map(|one| Write::select_node(one, &request.node));
        for write in bindings.chain(provisions) {
            let counters = match write.target {
                Target::Volume => &self.volumes,
                Target::Claim => &self.claims,
            };
            let sent = self.write(&write, &request.pod.key.namespace, progress).await;
            counters.count(sent.as_ref().map_or_else(|(result, _)| *result, |()| WriteResult::Written));
            sent.map_err(|(_, Failure { code, message })| Failure { code, message: write.named(&message) })?;
        }
        Ok(())
    }

    /// Sends one write until its outcome is known, or it was sent often enough.
    async fn write(
        &self,
        write: &Write,
        namespace: &str,
        progress: &dyn Progress,
    ) -> Result<(), (WriteResult, Failure)> {
        let call = write.call();
        let failed = |failure| Err((WriteResult::Failed, failure));
        let mut tries = self.link.tries(self.patience, progress, namespace);
        loop {
            let doubt = tries.doubt;
            let error = match tries.next(&call).await {
                Ok(Ok(answer)) => {
                    self.note_written(&write.target, &answer);
                    return Ok(());
                }
                Ok(Err(error)) => error,
                Err(GivenUp::NotLeading | GivenUp::Unwanted) => {
                    return failed("not written: this process leads no more".to_owned().into());
                }
                Err(GivenUp::TriedOften { tries, last }) => {
                    return failed(format!("not written in {tries} tries: {last}").into());
                }
            };
            match error.meaning {
                Meaning::Refused if !doubt => return failed(error.into()),
                Meaning::Later { .. } | Meaning::NotSent => {
                    "the API server could not be reached, or asked for patience".clone_into(&mut tries.last);
                    continue;
                }
                Meaning::Refused | Meaning::ReadBack | Meaning::Unknown => {}
            }
            let read = self.link.send(&write.read_call()).await;
            if let Ok(answer) = &read {
                self.note_written(&write.target, answer);
            }
            match write.found(read) {
                Found::Wanted => return Ok(()),
                Found::Other(what) => return Err((WriteResult::Conflict, what.into())),
                // Not carried out yet: the same write is sent again.
                Found::Untouched | Found::Unread(_) if error.meaning == Meaning::Unknown => {}
                Found::Untouched => return failed(error.into()),
                Found::Unread(why) => tries.last = why,
            }
        }
    }

    fn note_written(&self, target: &Target, answer: &Answer) {
        let newest = match target {
            Target::Volume => &self.newest_volume,
            Target::Claim => &self.newest_volume_claim,
        };
        let version = answer.resource_version().and_then(|version| version.parse().ok());
        newest.fetch_max(version.unwrap_or_default(), Ordering::Relaxed);
    }

    /// Writes a nomination, once more at its newer version if the pod has changed.
    async fn nominate(&self, pod: &Pod, node: Str, progress: &dyn Progress) {
        let mut version = self.own.known(pod).version;
        for _ in 0..NOMINATION_TRIES {
            if !self.link.gate.is_open() || version.is_empty() {
                break;
            }
            let call = nominate_call(pod, &node, &version);
            match self.link.send_for(&call, progress, &pod.key.namespace).await {
                Ok(answer) => {
                    self.nominations.count(WriteResult::Written);
                    self.own.answered(&pod.uid, &answer, Some(node), false);
                    return;
                }
                Err(error) if error.meaning == Meaning::ReadBack => {}
                Err(error) => {
                    if error.may_land() {
                        self.own.lost(&pod.uid, &node);
                    }
                    if let Some(code) = error.code
                        && let Some(left_out) = NOT_NOMINATED.line()
                    {
                        tracing::warn!(pod = %pod.key, code, message = error.message, left_out, "nomination not written");
                    }
                    break;
                }
            }
            match self.link.read_pod(&pod.key, &pod.uid).await {
                PodRead::There(now) if now.waits() && now.resource_version != version => version = now.resource_version,
                _ => return self.nominations.count(WriteResult::Conflict),
            }
        }
        self.nominations.count(WriteResult::Failed);
    }

    /// Ends the nomination that the pod has by us, or had when it was judged, if it is still there. One whose write was lost ends once that
    /// cannot be carried out any more.
    async fn end_nomination(&self, pod: &Pod, progress: &dyn Progress) {
        let Known { nominated, lost, .. } = self.own.known(pod);
        let node = match (nominated, lost) {
            // Waiting would not help: once this end is written, what was lost is refused for its version.
            (Some(node), _) => node,
            (None, Some(lost)) => {
                sleep_until(self.link.over(Instant::now())).await;
                lost
            }
            (None, None) => return,
        };
        let result = end_nomination(&self.link, &self.own, self.patience, (pod, &node), progress).await;
        self.nominations.count(result);
    }

    /// Ends the nomination that the pod's object reports, and none to another node.
    async fn end_reported(&self, pod: &Pod, progress: &dyn Progress) {
        let Known { nominated, .. } = self.own.known(pod);
        if let Some(node) = nominated.filter(|now| pod.nominated_node.as_ref() == Some(now)) {
            let result = end_nomination(&self.link, &self.own, self.patience, (pod, &node), progress).await;
            self.nominations.count(result);
        }
    }
}
