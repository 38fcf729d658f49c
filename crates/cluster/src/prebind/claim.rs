//! The writes to one ResourceClaim: the requests, and what the claim shows of their outcome.

use super::allocation;
use crate::send::{Answer, Call};
use crate::slim::{DELETE_PROTECTION, EXTENDED_CLAIM};
use berth_core::io::IdleClaim;
use berth_core::model::{ClaimKey, ClaimWrite, Pod, Str};
use berth_devices::model::AllocationResult;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Adds to the lists of an object, and leaves alone what it does not name.
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// What is left to be written to a claim.
pub(super) struct Claim<'a> {
    pub(super) write: &'a ClaimWrite,
    pod: &'a Pod,
    /// What it gets, if that is for this pod to say.
    allocation: Option<Value>,
    /// The version of the object that was judged last.
    version: Str,
    has_finalizer: bool,
    /// Whether the allocation is among what is left.
    allocates: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A write of the status ignores metadata: the finalizer needs one of its own.
    Finalizer,
    Status,
}

/// What the claim itself shows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// All is written; with the object's version.
    Written(Str),
    /// Something is left, and can be written. Whether the object is another version than the one judged before.
    Left { moved: bool },
    /// It cannot be had any more. With the reason.
    Lost(String),
}

impl<'a> Claim<'a> {
    /// As it was judged. What is allocated is allocated `now`.
    pub(super) fn new(write: &'a ClaimWrite, pod: &'a Pod, now: Timestamp) -> Result<Self, serde_json::Error> {
        let allocation = write.allocation.as_ref().map(|result| allocation::encode(result, now)).transpose()?;
        let (version, has_finalizer) = (write.resource_version.clone(), write.has_finalizer);
        Ok(Self { write, pod, allocates: allocation.is_some(), allocation, version, has_finalizer })
    }

    pub(super) const fn step(&self) -> Step {
        if self.allocates && !self.has_finalizer { Step::Finalizer } else { Step::Status }
    }

    /// The request of the next step.
    pub(super) fn call(&self) -> Call {
        let mut patch = json!({"metadata": {"uid": *self.write.uid, "resourceVersion": *self.version}});
        let path = path(&self.write.key);
        if self.step() == Step::Finalizer {
            patch["metadata"]["finalizers"] = json!([DELETE_PROTECTION]);
            return Call::patch(format!("{path}?fieldManager=berth"), STRATEGIC, &patch);
        }
        let user = json!({"resource": "pods", "name": *self.pod.key.name, "uid": *self.pod.uid});
        patch["status"] = json!({"reservedFor": [user]});
        // An allocation that is there must stay as it is, with its time, or without one.
        if let Some(allocation) = self.allocation.as_ref().filter(|_| self.allocates) {
            patch["status"]["allocation"] = allocation.clone();
        }
        Call::patch(format!("{path}/status?fieldManager=berth"), STRATEGIC, &patch)
    }

    pub(super) fn read_call(&self) -> Call {
        Call::get(path(&self.write.key))
    }

    /// What failed with the next step.
    pub(super) fn failed(&self, why: &str) -> String {
        let what = match (self.step(), self.allocates) {
            (Step::Finalizer, _) => "finalizer",
            (Step::Status, true) => "allocation and reservation",
            (Step::Status, false) => "reservation",
        };
        format!("add {what} to claim {}: {why}", self.write.key)
    }

    /// The finalizer is there since this version.
    pub(super) fn has_got_finalizer(&mut self, version: Str) {
        (self.has_finalizer, self.version) = (true, version);
    }

    /// Judges the claim anew, as it is now.
    pub(super) fn see(&mut self, answer: &Answer) -> Result<Seen, serde_json::Error> {
        let Object { metadata, status } = serde_json::from_slice(&answer.body)?;
        let key = &self.write.key;
        let lost = |what: &str| Ok(Seen::Lost(format!("claim {key} got {what} in the meantime")));
        if metadata.uid != self.write.uid {
            // Another one under the same name.
            return lost("deleted");
        }
        let is_ours = match (&status.allocation, &self.write.allocation) {
            (Some(there), Some(ours)) => there.is(ours),
            (Some(there), None) => self.write.judged.as_ref().is_some_and(|judged| there.is(&judged.result)),
            (None, _) => false,
        };
        let is_reserved = status.reserved_for.iter().any(|user| user.uid == self.pod.uid);
        // Before its deletion: what was written before that counts, and is not to be written again.
        if is_ours && is_reserved {
            return Ok(Seen::Written(metadata.resource_version));
        }
        if metadata.deletion_timestamp.is_some() {
            return lost("deleted");
        }
        if status.allocation.is_some() && !is_ours {
            return lost("allocated elsewhere");
        }
        if status.allocation.is_none() && self.allocation.is_none() {
            return lost("deallocated elsewhere");
        }
        let moved = metadata.resource_version != self.version;
        self.has_finalizer = metadata.has_finalizer();
        self.version = metadata.resource_version;
        self.allocates = status.allocation.is_none();
        Ok(Seen::Left { moved })
    }
}

/// Takes a claim's reservation for the pod away, if it is the claim of this uid. Doing so twice does no more than doing so once.
pub(super) fn unreserve_call(key: &ClaimKey, uid: &str, pod: &Pod) -> Call {
    let patch = json!({
        "metadata": {"uid": uid},
        "status": {"reservedFor": [{"$patch": "delete", "uid": *pod.uid}]},
    });
    Call::patch(format!("{}/status?fieldManager=berth", path(key)), STRATEGIC, &patch)
}

/// Takes the claim's devices back, if it is as it was judged.
pub(super) fn deallocate_call(claim: &IdleClaim) -> Call {
    let patch = json!({
        "metadata": {"uid": *claim.uid, "resourceVersion": *claim.resource_version},
        "status": {"allocation": null, "reservedFor": null, "devices": null},
    });
    let path = format!("{}/status?fieldManager=berth", path(&claim.key));
    Call::patch(path, "application/merge-patch+json", &patch)
}

pub(super) fn read_call(key: &ClaimKey) -> Call {
    Call::get(path(key))
}

/// Whether the claim of this uid is there and reserved for the pod.
pub(super) fn is_reserved(answer: &Answer, uid: &str, pod: &Pod) -> Result<bool, serde_json::Error> {
    let Object { metadata, status } = serde_json::from_slice(&answer.body)?;
    Ok(*metadata.uid == *uid && status.reserved_for.iter().any(|user| user.uid == pod.uid))
}

pub(crate) fn path(key: &ClaimKey) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}", key.namespace, key.name)
}

/// A ResourceClaim, as far as a write has to know it.
#[derive(Deserialize)]
pub(super) struct Object {
    pub(super) metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) uid: Str,
    pub(super) resource_version: Str,
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    owner_references: Vec<Owner>,
    #[serde(default)]
    finalizers: Vec<Str>,
}

#[derive(Deserialize)]
struct Owner {
    uid: Str,
    #[serde(default)]
    controller: bool,
}

impl Metadata {
    pub(super) fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|one| &**one == DELETE_PROTECTION)
    }

    /// Whether the claim is for extended resources of the pod.
    pub(super) fn is_made_for(&self, pod: &Pod) -> bool {
        let is_own = |owner: &Owner| owner.controller && owner.uid == pod.uid;
        self.annotations.get(EXTENDED_CLAIM).is_some_and(|value| value == "true")
            && self.owner_references.iter().any(is_own)
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    allocation: Option<Allocation>,
    reserved_for: Vec<User>,
}

#[derive(Deserialize)]
struct User {
    uid: Str,
}

#[derive(Deserialize)]
struct Allocation {
    #[serde(default)]
    devices: Devices,
}

#[derive(Deserialize, Default)]
struct Devices {
    #[serde(default)]
    results: Vec<DeviceOf>,
}

#[derive(Deserialize)]
struct DeviceOf {
    request: Str,
    driver: Str,
    pool: Str,
    device: Str,
    #[serde(rename = "shareID")]
    share_id: Option<Str>,
}

impl Allocation {
    /// Whether it has these devices. All else follows from them and the claim, or may have been completed by the API server.
    fn is(&self, ours: &AllocationResult) -> bool {
        let same = |(there, ours): (&DeviceOf, &berth_devices::model::DeviceResult)| {
            let DeviceOf { request, driver, pool, device, share_id } = there;
            let their = (request, driver, pool, device, share_id);
            their == (&ours.request, &ours.driver, &ours.pool, &ours.device, &ours.share_id)
        };
        let there = &self.devices.results;
        there.len() == ours.results.len() && there.iter().zip(&ours.results).all(same)
    }
}
