//! One write to a volume or claim: the request, and what the object shows of its outcome.

use crate::send::{Answer, Call};
use crate::write::WriteError;
use berth_core::model::{BindingWrite, ProvisionWrite, Str};
use serde_json::{Value, json};

/// Marks for the volume controller that a volume's claim was chosen for it, and not named by an administrator.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// The node for which a claim's volume is to be made.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

pub(super) enum Target {
    Volume,
    Claim,
}

/// One write to a volume or claim. Sending it twice does no more than sending it once.
pub(super) struct Write {
    pub(super) target: Target,
    /// How messages name the object.
    object: String,
    path: String,
    /// Has the uid and resourceVersion that were judged as preconditions.
    patch: Value,
    /// Where in the object the wanted value is, and what it is.
    wanted: (&'static str, Str),
}

impl Write {
    /// Ties a volume to its claim.
    pub(super) fn bind(binding: &BindingWrite) -> Self {
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
            wanted: ("/spec/claimRef/uid", binding.claim_uid.clone()),
        }
    }

    /// Asks for the volume of a claim to be made for `node`.
    pub(super) fn select_node(provision: &ProvisionWrite, node: &Str) -> Self {
        let claim = &provision.claim;
        let mut patch = json!({"metadata": precondition(&provision.claim_uid, &provision.resource_version)});
        patch["metadata"]["annotations"] = json!({SELECTED_NODE: **node});
        Self {
            target: Target::Claim,
            object: format!("persistentvolumeclaim {claim}"),
            path: format!("/api/v1/namespaces/{}/persistentvolumeclaims/{}", claim.namespace, claim.name),
            patch,
            wanted: ("/metadata/annotations/volume.kubernetes.io~1selected-node", node.clone()),
        }
    }

    pub(super) fn call(&self) -> Call {
        Call::patch(format!("{}?fieldManager=berth", self.path), "application/merge-patch+json", &self.patch)
    }

    pub(super) fn read_call(&self) -> Call {
        Call::get(self.path.clone())
    }

    /// What the answer to the read-back shows.
    pub(super) fn found(&self, read: Result<Answer, WriteError>) -> Found {
        let answer = match read {
            Ok(answer) => answer,
            Err(error) if error.code == Some(404) => return Found::Other(format!("{} is gone", self.object)),
            Err(error) => return Found::Unread(error.message),
        };
        let object: Value = match serde_json::from_slice(&answer.body) {
            Ok(object) => object,
            Err(error) => return Found::Unread(format!("{}: {error}", self.object)),
        };
        let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let (at, wanted) = &self.wanted;
        let judged = &self.patch["metadata"];
        if text("/metadata/uid") != judged["uid"] {
            return Found::Other(format!("{} is another one by now", self.object));
        }
        if text(at) == &**wanted {
            return Found::Wanted;
        }
        if text("/metadata/resourceVersion") == judged["resourceVersion"] {
            return Found::Untouched;
        }
        Found::Other(format!("{} has changed since it was chosen", self.object))
    }

    /// The message with the object's name before it, unless the message names the object.
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

/// What the object itself shows of a write whose outcome is in doubt.
pub(super) enum Found {
    /// As wanted.
    Wanted,
    /// As it was judged.
    Untouched,
    /// Neither: the write cannot be carried out any more. With the reason.
    Other(String),
    /// The reason why it could not be read.
    Unread(String),
}
