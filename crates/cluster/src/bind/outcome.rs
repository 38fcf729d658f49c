//! The request of a bind, and what the pod shows of its outcome.

use super::BindRequest;
use crate::send::Call;
use crate::transport::Transport;
use crate::write::{PodRead, pod_path, read_pod};
use berth_core::io::BindOutcome;
use serde_json::json;
use std::time::Duration;

/// What the pod itself shows of a bind whose outcome is in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The bind has this outcome.
    Settled(BindOutcome),
    /// The pod is there and not bound.
    Unbound,
    /// The pod could not be read.
    Unread,
}

/// Reads back the pod of a bind.
pub async fn read_back(by: &Transport, timeout: Duration, request: &BindRequest) -> Found {
    found(read_pod(by, timeout, &request.pod.key, &request.pod.uid).await, request)
}

fn found(read: PodRead, request: &BindRequest) -> Found {
    let now = match read {
        PodRead::Deleted => return Found::Settled(BindOutcome::PodDeleted),
        PodRead::Unread(_) => return Found::Unread,
        PodRead::There(now) => now,
    };
    match now.node {
        Some(node) if node == request.node => Found::Settled(BindOutcome::Bound),
        Some(node) => Found::Settled(BindOutcome::BoundElsewhere { node }),
        // The API server does not bind a pod that is being deleted.
        None if now.terminating => Found::Settled(BindOutcome::PodDeleted),
        None => Found::Unbound,
    }
}

/// The POST of a Binding with the pod's uid as precondition.
pub(super) fn bind_call(request: &BindRequest) -> Call {
    let key = &request.pod.key;
    let uri = format!("{}/binding?fieldManager=berth", pod_path(key));
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": *key.name, "namespace": *key.namespace, "uid": *request.pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": *request.node},
    });
    Call::post(uri, binding.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::pod;
    use crate::write::PodNow;
    use berth_core::io::AttemptId;
    use std::sync::Arc;

    #[test]
    fn the_pod_settles_a_bind_unless_it_is_there_unbound() {
        let pod = Arc::new(pod("ns", "p"));
        let request = BindRequest { attempt: AttemptId(1), pod, node: "n1".into(), epoch: 0, extender: None };
        let there = |node: Option<&str>, terminating| {
            PodRead::There(PodNow { node: node.map(Into::into), terminating, ..PodNow::default() })
        };
        let elsewhere = BindOutcome::BoundElsewhere { node: "n2".into() };
        let table = [
            (there(Some("n1"), false), Found::Settled(BindOutcome::Bound)),
            (there(Some("n1"), true), Found::Settled(BindOutcome::Bound)),
            (there(Some("n2"), false), Found::Settled(elsewhere)),
            (there(None, true), Found::Settled(BindOutcome::PodDeleted)),
            (there(None, false), Found::Unbound),
            (PodRead::Deleted, Found::Settled(BindOutcome::PodDeleted)),
            (PodRead::Unread("oops".into()), Found::Unread),
        ];
        for (read, want) in table {
            assert_eq!(found(read.clone(), &request), want, "{read:?}");
        }
    }
}
