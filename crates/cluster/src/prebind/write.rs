//! One write to a volume or claim: the request, and how to tell from the object whether it was carried out.

use crate::send::{Answer, Call, NoAnswer};
use berth_core::model::{BindingWrite, ProvisionWrite, Str};
use serde_json::{Value, json};
use std::time::Duration;

/// Says to the volume controller that a volume's claim was chosen for it, and not named by an administrator.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// The node for which a claim's volume is to be made.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// What a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A PersistentVolume.
    Volume,
    /// A PersistentVolumeClaim.
    Claim,
}

/// One write. Sending it twice does no more than sending it once.
#[derive(Debug, Clone)]
pub struct Write {
    pub(super) target: Target,
    /// How messages name the object.
    object: String,
    path: String,
    patch: Value,
    uid: Str,
    /// Where in the object the wanted value is, and what it is.
    wanted: (&'static str, Str),
}

impl Write {
    /// Ties a volume to its claim.
    pub fn bind(binding: &BindingWrite) -> Self {
        let BindingWrite { volume, claim, .. } = binding;
        let mut patch = json!({
            "metadata": precondition(&binding.volume_uid, &binding.resource_version),
            "spec": {"claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": *claim.namespace,
                "name": *claim.name,
                "uid": *binding.claim_uid,
                "resourceVersion": *binding.claim_version,
            }},
        });
        if binding.by_controller {
            patch["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
        }
        Self {
            target: Target::Volume,
            object: format!("persistentvolume {volume}"),
            path: format!("/api/v1/persistentvolumes/{volume}"),
            patch,
            uid: binding.volume_uid.clone(),
            wanted: ("/spec/claimRef/uid", binding.claim_uid.clone()),
        }
    }

    /// Asks for the volume of a claim to be made for `node`.
    pub fn select_node(provision: &ProvisionWrite, node: &Str) -> Self {
        let claim = &provision.claim;
        let mut patch = json!({"metadata": precondition(&provision.claim_uid, &provision.resource_version)});
        patch["metadata"]["annotations"] = json!({SELECTED_NODE: **node});
        Self {
            target: Target::Claim,
            object: format!("persistentvolumeclaim {claim}"),
            path: format!("/api/v1/namespaces/{}/persistentvolumeclaims/{}", claim.namespace, claim.name),
            patch,
            uid: provision.claim_uid.clone(),
            wanted: ("/metadata/annotations/volume.kubernetes.io~1selected-node", node.clone()),
        }
    }

    /// The request; the API server gives up when we do.
    pub(super) fn call(&self, timeout: Duration) -> Call {
        let uri = format!("{}?fieldManager=berth&timeout={}ms", self.path, timeout.as_millis());
        Call::patch(uri, "application/merge-patch+json", self.patch.to_string().into_bytes())
    }

    /// The request that reads the object back.
    pub(super) fn read(&self) -> Call {
        Call::get(self.path.clone())
    }

    /// What the object itself tells.
    pub(super) fn found(&self, answer: Result<Answer, NoAnswer>) -> Found {
        let answer = match answer {
            Ok(answer) if answer.code == 404 => return Found::Other(format!("{} is gone", self.object)),
            Ok(answer) if answer.is_success() => answer,
            Ok(answer) => return Found::Unread(answer.message()),
            Err(error) => return Found::Unread(error.to_string()),
        };
        let object: Value = match serde_json::from_slice(&answer.body) {
            Ok(object) => object,
            Err(error) => return Found::Unread(format!("{}: {error}", self.object)),
        };
        let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let (at, wanted) = &self.wanted;
        if text("/metadata/uid") != &*self.uid {
            return Found::Other(format!("{} is another one by now", self.object));
        }
        if text(at) == &**wanted {
            return Found::Wanted;
        }
        if text("/metadata/resourceVersion") == self.patch["metadata"]["resourceVersion"] {
            return Found::Untouched;
        }
        Found::Other(format!("{} has changed since it was chosen", self.object))
    }

    /// A message that names the object.
    pub(super) fn named(&self, message: &str) -> String {
        // The API server's messages mostly do so themselves.
        if message.contains(self.object.rsplit(['/', ' ']).next().unwrap_or_default()) {
            message.to_owned()
        } else {
            format!("{}: {message}", self.object)
        }
    }
}

fn precondition(uid: &str, resource_version: &str) -> Value {
    json!({"uid": uid, "resourceVersion": resource_version})
}

/// What the object itself tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// As wanted.
    Wanted,
    /// As it was judged.
    Untouched,
    /// Neither: the write cannot be carried out any more.
    Other(String),
    /// It could not be read.
    Unread(String),
}

/// What one answer to a write says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Carried out.
    Written,
    /// It conflicts with what is there (409, 404): only the object tells how.
    Conflict(String),
    /// Not allowed as it is.
    Refused(String),
    /// Not now: again after a pause, for so long if the API server says.
    Later(Option<Duration>),
    /// It may have been carried out.
    Unknown(String),
}

/// The meaning of an answer.
pub(super) fn judge(answer: Result<Answer, NoAnswer>) -> Verdict {
    let answer = match answer {
        Ok(answer) => answer,
        Err(NoAnswer::NotSent(_)) => return Verdict::Later(None),
        Err(NoAnswer::Lost(why)) => return Verdict::Unknown(why),
    };
    match answer.code {
        200..300 => Verdict::Written,
        404 | 409 => Verdict::Conflict(answer.message()),
        429 => Verdict::Later(answer.retry_after),
        408 | 500.. => Verdict::Unknown(answer.message()),
        _ => Verdict::Refused(answer.message()),
    }
}
