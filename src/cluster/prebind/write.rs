//! One write to a volume or claim: the request, and how to tell from the object whether it was carried out.

use crate::cluster::send::{Answer, Call, NoAnswer};
use serde_json::{Value, json};
use std::time::Duration;

/// Says to the volume controller that a volume's claim was chosen for it, and not named by an administrator.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// The node for which a claim's volume is to be made.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// An object that is named in a write: the version that was judged is its precondition.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// Its namespace; empty for a volume.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// The resourceVersion at which it was judged.
    pub resource_version: &'a str,
}

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
    uid: String,
    /// Where in the object the wanted value is, and what it is.
    wanted: (&'static str, String),
}

impl Write {
    /// Binds `volume` to `claim`. `chosen`: the volume was not meant for this claim before.
    pub fn bind(volume: Judged<'_>, claim: Judged<'_>, chosen: bool) -> Self {
        let mut patch = json!({
            "metadata": precondition(volume),
            "spec": {"claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
                "resourceVersion": claim.resource_version,
            }},
        });
        if chosen {
            patch["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
        }
        Self {
            target: Target::Volume,
            object: format!("persistentvolume {}", volume.name),
            path: format!("/api/v1/persistentvolumes/{}", volume.name),
            patch,
            uid: volume.uid.to_owned(),
            wanted: ("/spec/claimRef/uid", claim.uid.to_owned()),
        }
    }

    /// Asks for the volume of `claim` to be made for `node`.
    pub fn select_node(claim: Judged<'_>, node: &str) -> Self {
        let mut patch = json!({"metadata": precondition(claim)});
        patch["metadata"]["annotations"] = json!({SELECTED_NODE: node});
        Self {
            target: Target::Claim,
            object: format!("persistentvolumeclaim {}/{}", claim.namespace, claim.name),
            path: format!("/api/v1/namespaces/{}/persistentvolumeclaims/{}", claim.namespace, claim.name),
            patch,
            uid: claim.uid.to_owned(),
            wanted: ("/metadata/annotations/volume.kubernetes.io~1selected-node", node.to_owned()),
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
        if text("/metadata/uid") != self.uid {
            return Found::Other(format!("{} is another one by now", self.object));
        }
        if text(at) == wanted {
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

fn precondition(object: Judged<'_>) -> Value {
    json!({"uid": object.uid, "resourceVersion": object.resource_version})
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
