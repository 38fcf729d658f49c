//! Builders that the tests of all crates share.

use crate::io::{ClaimRequest, ClaimsOutcome, RefusalText, WrittenClaim};
use crate::ledger::Ledger;
use crate::model::{
    ClaimKey, Labels, Node, Pod, PodKey, PodShape, Pressure, Requests, ResourceClaim, RowShape, ScheduledCondition,
    Usage,
};
use crate::profile::Extender;
use std::sync::Arc;

/// What a refusal says, without what PostFilter says to it.
pub fn without_post_filter(text: &RefusalText) -> String {
    match text {
        RefusalText::AfterPostFilter(diagnosis, _) => diagnosis.to_string(),
        other => other.to_string(),
    }
}

/// Without requests; the score counts its one container with the defaults.
pub fn shape() -> PodShape {
    PodShape {
        namespace: "default".into(),
        labels: Labels::none(),
        row: Arc::new(RowShape {
            score_requests: Requests { milli_cpu: 100, memory: 200 << 20, ..Requests::default() },
            ..RowShape::default()
        }),
        images: Vec::new(),
        container_count: 1,
        affinity: Vec::new(),
        anti_affinity: Vec::new(),
        preferred_pods: Vec::new(),
        spread: Vec::new(),
        controller: None,
        held_by: Vec::new(),
    }
}

pub fn shape_of(milli_cpu: i64, memory: i64) -> PodShape {
    let requests = Requests { milli_cpu, memory, ..Requests::default() };
    with_row(shape(), |row| (row.score_requests, row.requests) = (requests.clone(), requests))
}

/// `shape` with what nodes are asked about it changed.
pub fn with_row(mut shape: PodShape, change: impl FnOnce(&mut RowShape)) -> PodShape {
    change(shape.row_mut());
    shape
}

/// A pending pod whose uid is its name.
pub fn pod(name: &str, shape: PodShape) -> Pod {
    let usage = Usage {
        requests: shape.row.requests.clone(),
        non_zero_milli_cpu: shape.row.score_requests.milli_cpu,
        non_zero_memory: shape.row.score_requests.memory,
        ports: shape.row.host_ports.clone(),
    };
    Pod {
        key: PodKey { namespace: shape.namespace.clone(), name: name.into() },
        uid: name.into(),
        resource_version: "1".into(),
        scheduler_name: "test".into(),
        node_name: None,
        nominated_node: None,
        priority: 0,
        preempts: true,
        started_unix_us: None,
        is_static: false,
        preempted: false,
        deleting: false,
        finished: false,
        created_unix_us: 0,
        gates: Vec::new(),
        shape: Arc::new(shape),
        usage: Arc::new(usage),
        volumes: None,
        resource_claims: None,
        extended: None,
        scheduled: None,
        unknown_fields: Vec::new(),
    }
}

/// A node whose uid is its name.
pub fn node(name: &str, milli_cpu: i64, memory: i64, pods: i64) -> Node {
    Node {
        name: name.into(),
        uid: name.into(),
        labels: [("kubernetes.io/hostname", name)].into_iter().collect(),
        unschedulable: false,
        taints: Arc::from([]),
        allocatable: Requests { milli_cpu, memory, ..Requests::default() },
        allocatable_pods: pods,
        images: Vec::new(),
        declared_features: Arc::from([]),
        pressure: Pressure::default(),
        avoids: Arc::from([]),
    }
}

/// An extender without any verb.
pub fn extender(name: &str) -> Extender {
    Extender {
        name: name.into(),
        url: format!("http://{name}").into(),
        filter: None,
        prioritize: None,
        preempt: None,
        binds: false,
        weight: 1,
        full_nodes: false,
        managed: Vec::new(),
        pod_selector: None,
    }
}

/// A claim that asks for nothing. Its uid is `uid-<name>`, its resourceVersion 7.
pub fn resource_claim(namespace: &str, name: &str) -> ResourceClaim {
    ResourceClaim {
        key: ClaimKey { namespace: namespace.into(), name: name.into() },
        uid: format!("uid-{name}").into(),
        resource_version: "7".into(),
        deleting: false,
        controller: None,
        has_finalizer: false,
        is_extended: false,
        spec: Arc::default(),
        allocation: None,
        reserved_for: Vec::new(),
        devices: Vec::new(),
    }
}

/// Its uid is `uid-<name>`, its resourceVersion 7.
pub fn pending_pod(namespace: &str, name: &str) -> Pod {
    let shape = PodShape { namespace: namespace.into(), ..shape() };
    Pod {
        uid: format!("uid-{name}").into(),
        resource_version: "7".into(),
        scheduler_name: "bin".into(),
        ..pod(name, shape)
    }
}

/// [`pending_pod`] with a `PodScheduled=False` condition.
pub fn refused_pod(namespace: &str, name: &str, reason: &str, message: &str) -> Pod {
    let mut pod = pending_pod(namespace, name);
    pod.scheduled = Some(ScheduledCondition { status: false, reason: reason.into(), message: message.into() });
    pod
}

/// All writes to a pod's ResourceClaims end well, and are seen at this version. A claim that is made has its name for a uid.
pub fn claims_are_written(ledger: &mut Ledger, request: &ClaimRequest, version: &str) -> ClaimsOutcome {
    let written = request.writes.iter().map(|write| WrittenClaim {
        key: write.key.clone(),
        uid: if write.creates.is_some() { write.key.name.clone() } else { write.uid.clone() },
        resource_version: version.into(),
    });
    let outcome = ClaimsOutcome { written: written.collect(), failure: None };
    ledger.claims_written(&request.pod.uid, &request.writes, &outcome);
    for write in request.writes.iter() {
        if let Some(claim) = ledger.devices().claim(&write.key) {
            let seen = claim.once_written(write.allocation.as_deref(), &request.pod.uid);
            ledger.apply_resource_claim(ResourceClaim { resource_version: version.into(), ..seen });
        }
    }
    outcome
}
