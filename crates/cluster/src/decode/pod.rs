use super::findings::Findings;
use super::resources::{PodAmounts, is_sidecar};
use super::{Decoder, bad, declared, devices, node, or, pod_affinity, selectors, spread, volume};
use crate::slim::{
    CONFIG_MIRROR, ContainerPort, FieldError, Parts, PodSpec, PodStatus, PreferredTerm as SlimPreferredTerm, SlimMeta,
    SlimPod, Time, Toleration as SlimToleration,
};
use berth_core::limits;
use berth_core::model::{
    Controller, Feature, HostPort, NodeSelector, NodeSelectorTerm, Pod, PodKey, PodShape, PreferredTerm, Protocol,
    RowShape, ScheduledCondition, Str, Toleration, TolerationOperator, Usage,
};

/// A pod whose name is known to be there.
pub(super) fn decode(
    decoder: &mut Decoder,
    slim: &SlimPod<'_>,
    parts: &Parts<'_, PodSpec<'_>, PodStatus<'_>>,
) -> Result<Pod, FieldError> {
    let metadata = &slim.metadata;
    let Parts { spec, status, .. } = parts;
    let namespace = decoder.namespace_of(metadata);
    let bound = !spec.node_name.is_empty();
    let mut findings = Findings::default();
    let amounts = PodAmounts::read(parts)?;
    let ports = host_ports(decoder, spec, &mut findings)?;
    let usage = Usage { ports: ports.clone(), ..amounts.usage(decoder) };
    // Selectors of other pods look at namespace, labels and affinity terms of a pod, bound or not.
    let labels = decoder.labels(&metadata.labels);
    let mut shape = PodShape { namespace: namespace.clone(), labels, ..PodShape::default() };
    let volumes = volume::pod_volumes(decoder, spec);
    let whole = !bound || decoder.reads_bound_pods_whole;
    let within = whole && findings.is_within_limits(spec, volumes.as_deref());
    if bound || within {
        pod_affinity::read(decoder, spec, &mut shape, &mut findings);
    }
    if within {
        shape.controller = controller(decoder, metadata);
        let mut row = requested(decoder, &amounts, ports, status);
        placement(decoder, spec, &mut shape, &mut row, findings);
        shape.row = decoder.rows.share(row);
    } else if whole {
        // A pod that lists too much is not decoded further: it is held, and costs no more than its name.
        shape.held_by = findings.finish();
    }
    let extended = if within { devices::extended_requests(decoder, spec, &shape.row.requests) } else { None };
    let unknown_fields = decoder.unknown_fields(&slim.unknown);
    Ok(Pod {
        key: PodKey { namespace, name: (&*metadata.name).into() },
        uid: (&*metadata.uid).into(),
        resource_version: (&*metadata.resource_version).into(),
        scheduler_name: decoder.text(or(&spec.scheduler_name, "default-scheduler")),
        node_name: decoder.optional(&spec.node_name),
        nominated_node: decoder.optional(&status.nominated_node_name),
        priority: spec.priority.unwrap_or(0),
        preempts: &*spec.preemption_policy != "Never",
        // A time that does not parse counts as none, as if the pod had not started.
        started_unix_us: status.start_time.unix_us(),
        is_static: bound && is_static(metadata, &spec.node_name),
        preempted: is_preempted(status),
        deleting: !metadata.deletion_timestamp.is_absent(),
        finished: status.is_finished(),
        created_unix_us: created(metadata)?,
        gates: spec.scheduling_gates.iter().map(|g| decoder.text(&g.name)).collect(),
        shape: decoder.shapes.share(shape),
        usage: decoder.usages.share(usage),
        volumes,
        resource_claims: devices::pod_claims(decoder, spec, status),
        extended,
        scheduled: if bound { None } else { scheduled(decoder, status) },
        unknown_fields,
    })
}

/// Whether a kubelet runs the pod from a file of its own, and made this object to show it: the pod's node controls such a mirror.
/// Annotations alone say nothing, since any template may set them; and a kubelet neither runs nor keeps a mirror that it did not
/// make.
///
/// After `createMirrorPod` in `pkg/kubelet/pod/mirror_client.go`.
fn is_static(metadata: &SlimMeta<'_>, node_name: &str) -> bool {
    metadata.annotations.get(CONFIG_MIRROR).is_some()
        && metadata.owner_references.iter().any(|owner| {
            owner.controller && (&*owner.api_version, &*owner.kind, &*owner.name) == ("v1", "Node", node_name)
        })
}

fn is_preempted(status: &PodStatus<'_>) -> bool {
    let mut conditions = status.conditions.iter();
    conditions.any(|c| (&*c.kind, &*c.status, &*c.reason) == ("DisruptionTarget", "True", "PreemptionByScheduler"))
}

/// The owner reference that is marked as the controller.
fn controller(decoder: &mut Decoder, metadata: &SlimMeta<'_>) -> Option<Controller> {
    let owner = metadata.owner_references.iter().find(|owner| owner.controller)?;
    Some(Controller {
        api_version: decoder.text(&owner.api_version),
        kind: decoder.text(&owner.kind),
        name: decoder.text(&owner.name),
        uid: decoder.text(&owner.uid),
    })
}

fn created(metadata: &SlimMeta<'_>) -> Result<i64, FieldError> {
    match &metadata.creation_timestamp {
        Time::Absent => Ok(0),
        Time::At(time) => Ok(*time),
        Time::Bad(text) => {
            let message = format!("{text:?} is no time: write one such as 2026-01-31T12:00:00Z");
            Err(bad("metadata.creationTimestamp", message))
        }
    }
}

fn scheduled(decoder: &mut Decoder, status: &PodStatus<'_>) -> Option<ScheduledCondition> {
    let condition = status.conditions.iter().find(|c| &*c.kind == "PodScheduled")?;
    Some(ScheduledCondition {
        status: &*condition.status == "True",
        reason: decoder.text(&condition.reason),
        message: decoder.text(&condition.message),
    })
}

/// What the pod takes of its node.
fn requested(
    decoder: &mut Decoder,
    amounts: &PodAmounts<'_>,
    host_ports: Vec<HostPort>,
    status: &PodStatus<'_>,
) -> RowShape {
    RowShape {
        requests: amounts.fit(decoder),
        score_requests: amounts.score(decoder),
        host_ports,
        best_effort: &*status.quality == "BestEffort",
        ..RowShape::default()
    }
}

/// Fills in what only a pod that is to be placed needs.
fn placement(
    decoder: &mut Decoder,
    spec: &PodSpec<'_>,
    shape: &mut PodShape,
    row: &mut RowShape,
    mut findings: Findings,
) {
    findings.read(spec);
    row.required_features = declared::required_features(decoder, spec, &mut findings);
    let scalars = row.requests.scalars.len();
    findings.hold_if(scalars > limits::SCALARS_PER_POD, || Feature::TooLarge {
        field: "spec.containers[].resources.requests (extended resources)".into(),
        count: scalars,
        limit: limits::SCALARS_PER_POD,
    });
    row.node_selector = decoder.labels(&spec.node_selector);
    if let Some(affinity) = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref()) {
        let required = affinity.required.as_ref().map(|r| &r.node_selector_terms);
        row.required_affinity = required.map(|terms| NodeSelector {
            terms: terms.iter().map(|t| selectors::node_term(decoder, t, REQUIRED, &mut findings)).collect(),
        });
        row.preferred_affinity = affinity.preferred.iter().map(|p| preferred(decoder, p, &mut findings)).collect();
    }
    row.tolerations = spec.tolerations.iter().map(|t| toleration(decoder, t, &mut findings)).collect();
    let constraints = spec.topology_spread_constraints.iter();
    shape.spread = constraints.map(|c| spread::constraint(decoder, c, &shape.labels, &mut findings)).collect();
    let containers = spec.init_containers.iter().chain(&spec.containers);
    let volumes = spec.volumes.iter().filter_map(|v| v.image.as_ref());
    let images = containers.map(|c| &c.image).chain(volumes.map(|i| &i.reference));
    shape.images = images.map(|name| image_name(decoder, name)).collect();
    shape.container_count = (spec.init_containers.len() + spec.containers.len()) as u32;
    shape.held_by = findings.finish();
}

const REQUIRED: &str = "spec.affinity.nodeAffinity.required";
const PREFERRED: &str = "spec.affinity.nodeAffinity.preferred";

/// A preferred term. Upstream does not parse what weighs nothing, and fails a pod with another that does not parse.
fn preferred(decoder: &mut Decoder, slim: &SlimPreferredTerm<'_>, findings: &mut Findings) -> PreferredTerm {
    let term = match slim.weight {
        0 => NodeSelectorTerm::default(),
        _ => selectors::node_term(decoder, &slim.preference, PREFERRED, findings),
    };
    if term.broken {
        findings.unknown(PREFERRED, "a term that does not parse");
    }
    PreferredTerm { weight: slim.weight, term }
}

/// An image name with the tag that the kubelet would report. After `imagelocality/image_locality.go`.
fn image_name(decoder: &mut Decoder, name: &str) -> Str {
    if name.rfind(':') <= name.rfind('/') { decoder.text(&format!("{name}:latest")) } else { decoder.text(name) }
}

fn toleration(decoder: &mut Decoder, slim: &SlimToleration<'_>, findings: &mut Findings) -> Toleration {
    let mut operator = match &*slim.operator {
        "" | "Equal" => TolerationOperator::Equal,
        "Exists" => TolerationOperator::Exists,
        "Lt" | "Gt" => TolerationOperator::Never,
        other => {
            findings.unknown("spec.tolerations.operator", other);
            TolerationOperator::Never
        }
    };
    let effect = node::effect(&slim.effect);
    if effect.is_none() && !slim.effect.is_empty() {
        findings.unknown("spec.tolerations.effect", &slim.effect);
        operator = TolerationOperator::Never;
    }
    Toleration { key: decoder.text(&slim.key), operator, value: decoder.text(&slim.value), effect }
}

fn host_ports(decoder: &mut Decoder, spec: &PodSpec<'_>, findings: &mut Findings) -> Result<Vec<HostPort>, FieldError> {
    let mut ports = Vec::new();
    let init = spec.init_containers.iter().enumerate().filter(|(_, c)| is_sidecar(c));
    let all = init.map(|c| ("initContainers", c)).chain(spec.containers.iter().enumerate().map(|c| ("containers", c)));
    for (list, (index, container)) in all {
        for (at, port) in container.ports.iter().enumerate().filter(|(_, port)| port.host_port > 0) {
            let number = u16::try_from(port.host_port).map_err(|_| {
                let message = format!("{} is no port: use 1 to 65535", port.host_port);
                bad(format!("spec.{list}[{index}].ports[{at}].hostPort"), message)
            })?;
            let protocol = protocol(port, findings);
            ports.push(HostPort { protocol, port: number, ip: decoder.text(or(&port.host_ip, "0.0.0.0")) });
        }
    }
    ports.sort();
    ports.dedup();
    Ok(ports)
}

fn protocol(port: &ContainerPort<'_>, findings: &mut Findings) -> Protocol {
    match &*port.protocol {
        "" | "TCP" => Protocol::Tcp,
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        other => {
            findings.unknown("spec.containers.ports.protocol", other);
            Protocol::Tcp
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::decode::Decoder;
    use crate::slim::SlimPod;
    use serde_json::{Value, json};

    /// Whether a pod on node n with these annotations and this controller counts as its kubelet's own.
    fn is_static(annotations: &Value, owner: &Value) -> bool {
        let pod = json!({"metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": annotations,
            "ownerReferences": [owner]}, "spec": {"nodeName": "n"}});
        Decoder::small().pod(&SlimPod::read(pod.to_string().as_bytes())).unwrap().is_static
    }

    #[test]
    fn only_the_mirror_of_a_pod_that_its_own_node_controls_is_static() {
        let mirror = json!({"kubernetes.io/config.mirror": "h", "kubernetes.io/config.source": "file"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "x", "controller": true});
        assert!(is_static(&mirror, &node));
        let changed = |field: &str, value: Value| {
            let mut owner = node.clone();
            owner[field] = value;
            owner
        };
        for (field, value) in [
            ("kind", json!("ReplicaSet")),
            ("apiVersion", json!("example.com/v1")),
            ("name", json!("m")),
            ("controller", json!(false)),
        ] {
            assert!(!is_static(&mirror, &changed(field, value)), "{field}");
        }
        assert!(!is_static(&json!({"kubernetes.io/config.source": "file"}), &node), "anyone may write that");
        assert!(!is_static(&json!({}), &node));
        let pending = json!({"metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": mirror,
            "ownerReferences": [node]}, "spec": {}});
        assert!(!Decoder::small().pod(&SlimPod::read(pending.to_string().as_bytes())).unwrap().is_static);
    }
}
