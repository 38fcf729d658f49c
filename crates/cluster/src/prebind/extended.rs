//! The claim for a pod's extended resources: it is made, the pod's status says of it, and it goes where the pod is not bound.
//!
//! ```text
//!  POST claim ─▶ as every claim: finalizer, status ─▶ PATCH pod status
//!  GET claim ─▶ PATCH (without the finalizer) ─▶ DELETE
//! ```
//!
//! The claim's name is chosen before, so that each of these can be repeated.

use super::claim::{Metadata, Object, STRATEGIC, path};
use super::reserve::{is_definite, why};
use super::{CreateResult, Kit, WriteResult};
use crate::lock;
use crate::paced::Paced;
use crate::send::{Answer, Call};
use crate::slim::{DELETE_PROTECTION, EXTENDED_CLAIM};
use crate::write::{Failure, Known, Meaning, PodRead, Progress, status_uri};
use berth_core::model::{ClaimKey, ClaimWrite, ExtendedClaim, Pod, RequestMapping};
use berth_devices::model::{DeviceRequest, Request};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// How often the pod's status is written at a newer version of the pod, as upstream.
const TOLD_TIMES: u32 = 4;

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

static NOT_DELETED: Paced = Paced::new();

/// How a write ended that is the same however often it is made.
enum Ended {
    Written(Answer),
    /// The object is gone, another one by now, or has one of that name: with what the API server says.
    Other(Failure),
}

/// Claims that are there, and that a request without an answer may still make once more, were they deleted: with when none can any more.
#[derive(Default)]
pub(super) struct LateCreates(Mutex<BTreeMap<ClaimKey, Instant>>);

impl LateCreates {
    fn note(&self, claim: &ClaimKey, over: Instant) {
        let (mut claims, now) = (lock(&self.0), Instant::now());
        // Most are never deleted.
        claims.retain(|_, over| *over > now);
        claims.insert(claim.clone(), over);
    }

    fn take(&self, claim: &ClaimKey) -> Option<Instant> {
        lock(&self.0).remove(claim)
    }
}

impl Kit {
    /// Makes the claim: gives what is then left to be written to it.
    pub(super) async fn make_claim(
        &self,
        (write, claim): (&ClaimWrite, &ExtendedClaim),
        pod: &Pod,
        progress: &dyn Progress,
    ) -> Result<ClaimWrite, Failure> {
        let name = &write.key;
        let failed = |Failure { code, message }: Failure| {
            self.resource_claims.count(WriteResult::Failed);
            self.claims_made.count(CreateResult::Failure);
            Failure { code, message: format!("create claim for extended resources {name}: {message}") }
        };
        let call = create_call(write, claim, pod);
        let sent = self.until_known(&call, &pod.key.namespace, progress).await;
        if let Ok((_, Some(given_up))) = sent {
            self.late_creates.note(&write.key, self.link.over(given_up));
        }
        let answer = match sent {
            Ok((Ended::Written(answer), _)) => answer,
            // It may be the one that was made by a request whose answer was lost.
            Ok((Ended::Other(refused), _)) => {
                let read = Call::get(path(&write.key));
                self.read(&read, self.patience, &pod.key.namespace, progress).await.map_err(|_| failed(refused))?
            }
            Err(failure) => return Err(failed(failure)),
        };
        let Some(metadata) = made_for(&answer, pod) else {
            return Err(failed("another claim has this name".to_owned().into()));
        };
        self.resource_claims.count(WriteResult::Written);
        self.claims_made.count(CreateResult::Success);
        let has_finalizer = metadata.has_finalizer();
        let Metadata { uid, resource_version, .. } = metadata;
        Ok(ClaimWrite { uid, resource_version, has_finalizer, creates: None, ..write.clone() })
    }

    /// Says in the pod's status which claim provides its extended resources: its kubelet reads that.
    pub(super) async fn tell_pod(
        &self,
        claim: &ClaimKey,
        mappings: &[RequestMapping],
        pod: &Pod,
        progress: &dyn Progress,
    ) -> Result<(), Failure> {
        let failed = |Failure { code, message }: Failure| {
            self.nominations.count(WriteResult::Failed);
            Failure { code, message: format!("update pod {} ExtendedResourceClaimStatus: {message}", pod.key) }
        };
        let Known { mut version, mut nominated, .. } = self.own.known(pod);
        let mut tries = 0;
        loop {
            tries += 1;
            let call = tell_call(claim, mappings, (pod, &version));
            let refused = match self.until_known(&call, &pod.key.namespace, progress).await {
                Ok((Ended::Written(answer), _)) => {
                    self.nominations.count(WriteResult::Written);
                    self.own.answered(&pod.uid, &answer, nominated, false);
                    return Ok(());
                }
                Ok((Ended::Other(refused), _)) if refused.code == Some(409) && tries < TOLD_TIMES => refused,
                Ok((Ended::Other(failure), _)) | Err(failure) => return Err(failed(failure)),
            };
            match self.link.read_pod(&pod.key, &pod.uid).await {
                PodRead::There(now) if now.waits() => (version, nominated) = (now.resource_version, now.nominated),
                _ => return Err(failed(refused)),
            }
        }
    }

    /// Deletes the claim that was made for the pod's extended resources, if it is there, once nothing makes it anew.
    pub(super) async fn delete_claim(&self, key: &ClaimKey, pod: &Pod, progress: &dyn Progress) {
        let result = self.delete_made(key, pod, progress).await.unwrap_or_else(|failure| {
            if let Some(left_out) = NOT_DELETED.line() {
                let why = failure.message;
                tracing::warn!(claim = %key, pod = %pod.key, why, left_out, "claim for extended resources not deleted");
            }
            WriteResult::Failed
        });
        self.resource_claims.count(result);
    }

    async fn delete_made(&self, key: &ClaimKey, pod: &Pod, progress: &dyn Progress) -> Result<WriteResult, Failure> {
        if let Some(over) = self.late_creates.take(key) {
            sleep_until(over).await;
        }
        let answer = match self.read(&Call::get(path(key)), self.patience, &key.namespace, progress).await {
            Ok(answer) => answer,
            Err(error) if error.code == Some(404) => return Ok(WriteResult::Conflict),
            Err(error) => return Err(error.into()),
        };
        let Some(metadata) = made_for(&answer, pod) else { return Ok(WriteResult::Conflict) };
        let release = release_call(key, &metadata.uid);
        let delete = Call::delete(path(key), &json!({"preconditions": {"uid": *metadata.uid}}));
        let calls = [metadata.has_finalizer().then_some(release), Some(delete)];
        for call in calls.into_iter().flatten() {
            if let (Ended::Other(_), _) = self.until_known(&call, &key.namespace, progress).await? {
                return Ok(WriteResult::Conflict);
            }
        }
        Ok(WriteResult::Written)
    }

    /// Sends the same write until its outcome is known, and says when a request was given up last that may still land. It fails only once none
    /// can any more: one that does so later would undo what the pod's next job writes.
    async fn until_known(
        &self,
        call: &Call,
        namespace: &str,
        progress: &dyn Progress,
    ) -> Result<(Ended, Option<Instant>), Failure> {
        let mut tries = self.link.tries(self.patience, progress, namespace);
        let mut given_up = None;
        let failure = loop {
            match tries.next(call).await {
                Ok(Ok(answer)) => return Ok((Ended::Written(answer), given_up)),
                Ok(Err(error)) if !is_definite(&error) => {
                    given_up = if error.meaning == Meaning::Unknown { Some(Instant::now()) } else { given_up };
                }
                Ok(Err(error)) if error.meaning == Meaning::ReadBack || error.code == Some(422) => {
                    return Ok((Ended::Other(error.into()), given_up));
                }
                Ok(Err(error)) => break error.into(),
                Err(given_up) => break why(given_up).into(),
            }
        };
        if let Some(given_up) = given_up {
            sleep_until(self.link.over(given_up)).await;
        }
        Err(failure)
    }
}

fn create_call(write: &ClaimWrite, claim: &ExtendedClaim, pod: &Pod) -> Call {
    let ClaimKey { namespace, name } = &write.key;
    let generate_name = ExtendedClaim::generate_name(pod, LONGEST_NAME);
    let object = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": **namespace,
            "name": **name,
            "generateName": generate_name,
            "annotations": {EXTENDED_CLAIM: "true"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": *pod.key.name, "uid": *pod.uid, "controller": true},
            ],
        },
        "spec": {"devices": {"requests": claim.spec.requests.iter().filter_map(request).collect::<Value>()}},
    });
    let path = format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims?fieldManager=berth");
    Call::post(path, object.to_string().into())
}

/// A request of a claim for extended resources has nothing else.
fn request(request: &DeviceRequest) -> Option<Value> {
    let Request::Exactly { details, .. } = &request.request else { return None };
    let exactly = json!({
        "deviceClassName": *details.device_class_name,
        "allocationMode": "ExactCount",
        "count": details.count,
    });
    Some(json!({"name": *request.name, "exactly": exactly}))
}

fn tell_call(claim: &ClaimKey, mappings: &[RequestMapping], (pod, version): (&Pod, &str)) -> Call {
    let mapping = |one: &RequestMapping| json!({"containerName": *one.container, "resourceName": *one.resource, "requestName": *one.request});
    let status = json!({
        "resourceClaimName": *claim.name,
        "requestMappings": mappings.iter().map(mapping).collect::<Value>(),
    });
    let metadata = json!({"uid": *pod.uid, "resourceVersion": version});
    let patch = json!({"metadata": metadata, "status": {"extendedResourceClaimStatus": status}});
    Call::patch(status_uri(&pod.key), "application/merge-patch+json", &patch)
}

/// Takes the finalizer away, which would keep the claim as long as it is reserved.
fn release_call(key: &ClaimKey, uid: &str) -> Call {
    let patch = json!({"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [DELETE_PROTECTION]}});
    Call::patch(format!("{}?fieldManager=berth", path(key)), STRATEGIC, &patch)
}

/// What an answer says of the claim, if it is for extended resources of the pod.
fn made_for(answer: &Answer, pod: &Pod) -> Option<Metadata> {
    let Object { metadata, .. } = serde_json::from_slice(&answer.body).ok()?;
    metadata.is_made_for(pod).then_some(metadata)
}
