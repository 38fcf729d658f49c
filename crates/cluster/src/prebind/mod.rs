//! The pre-binder: what must be written before a pod can be bound to the node that was chosen for it.
//!
//! ```text
//!  nominate ─┐
//!  submit ───┴▶ queue, one job a pod at a time ─▶ PATCH … ─▶ deliver(worker, VolumesWritten)
//!                                                   │ 409, 404, timeout, reset, 5xx: GET, and if it is not as wanted the
//!                                                   └ same again, a few times
//! ```
//!
//! A job is a pod's nomination (`status.nominatedNodeName`, a courtesy to autoscalers) or its volumes: the claim of each
//! volume that we bind, and the node on each claim whose volume is to be provisioned. Every write names the uid and
//! resourceVersion that was judged, so it can be repeated: a second one that lands is refused, and a read-back shows whose
//! the first was. Nothing is undone in the cluster when a later write of a job fails: the volume controller continues
//! from what is there, and so does the next attempt.

mod nomination;
mod write;

#[cfg(test)]
mod tests;

pub use crate::queue::{Options, Pending};
pub use berth_core::io::{NominateRequest, VolumeRequest};
pub(crate) use nomination::end_nomination;

use crate::bind::{Deliver, WorkerId};
use crate::lease::Gate;
use crate::paced::Paced;
use crate::queue::{Job, Writer};
use crate::transport::Transport;
use crate::write::{Counters, Failure, GivenUp, Known, Link, Meaning, OwnWrites, Patience, PodRead, Progress, results};
use berth_core::io::{AttemptId, Input, VolumesOutcome};
use berth_core::model::{Pod, Str};
use nomination::nominate_call;
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
    Write(WorkerId, VolumeRequest),
}

/// What jobs are done with.
pub struct Kit {
    link: Link,
    patience: Patience,
    own: OwnWrites,
    volumes: Counters<WriteResult>,
    claims: Counters<WriteResult>,
    nominations: Counters<WriteResult>,
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

impl PreBinder {
    /// Starts the tasks on the current tokio runtime. Writes to pods are noted in `own`.
    pub fn new(
        transport: impl Into<Transport>,
        options: Options,
        gate: Gate,
        own: OwnWrites,
        deliver: Deliver,
    ) -> Self {
        let Options { concurrency, limits, patience } = options;
        let kit = Kit {
            link: Link::new(transport.into(), gate.clone(), limits),
            patience,
            own,
            volumes: Counters::default(),
            claims: Counters::default(),
            nominations: Counters::default(),
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

    /// Queues the writes to a pod's volumes and claims.
    pub fn submit(&self, worker: WorkerId, profile: &Str, request: VolumeRequest) {
        self.queue(Work { profile: profile.clone(), what: What::Write(worker, request) });
    }

    /// Results by the resource that was written.
    pub fn counters(&self) -> [(&'static str, &Counters<WriteResult>); 3] {
        let Kit { volumes, claims, nominations, .. } = self.kit();
        [("persistentvolumes", volumes), ("persistentvolumeclaims", claims), ("pods/status", nominations)]
    }
}

impl Work {
    fn of(&self) -> &Pod {
        match &self.what {
            What::Nominate(request) => &request.pod,
            What::Write(_, request) => &request.pod,
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
            What::Nominate(_) => None,
            What::Write(worker, request) => Some((*worker, request.attempt)),
        }
    }

    fn profile(&self) -> &Str {
        &self.profile
    }

    fn namespace(&self) -> &str {
        &self.of().key.namespace
    }

    /// The pod whose jobs run one after the other: a nomination lands before the volumes' writes.
    fn pod(&self) -> Option<&Str> {
        Some(&self.of().uid)
    }

    fn failed(&self, why: &str) -> Option<Input> {
        let What::Write(_, VolumeRequest { attempt, .. }) = &self.what else { return None };
        let outcome = VolumesOutcome::Failed { code: None, message: format!("not written: {why}") };
        Some(Input::VolumesWritten { attempt: *attempt, outcome })
    }

    async fn run(self, kit: &Kit, progress: &dyn Progress) -> Option<Input> {
        match self.what {
            What::Nominate(NominateRequest { pod, node: Some(node) }) => kit.nominate(&pod, node, progress).await,
            What::Nominate(NominateRequest { pod, node: None }) => kit.end_nomination(&pod, progress).await,
            What::Write(_, request) => {
                let outcome = match kit.write_all(&request, progress).await {
                    Ok(()) => VolumesOutcome::Written,
                    Err(Failure { code, message }) => VolumesOutcome::Failed { code, message },
                };
                return Some(Input::VolumesWritten { attempt: request.attempt, outcome });
            }
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
                Ok(Ok(_)) => return Ok(()),
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
            match write.found(self.link.send(&write.read_call()).await) {
                Found::Wanted => return Ok(()),
                Found::Other(what) => return Err((WriteResult::Conflict, what.into())),
                // Not carried out yet: the same write is sent again.
                Found::Untouched | Found::Unread(_) if error.meaning == Meaning::Unknown => {}
                Found::Untouched => return failed(error.into()),
                Found::Unread(why) => tries.last = why,
            }
        }
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
}
