use super::{Decoder, bad, resources};
use crate::slim::{Condition, FieldError, NodeSpec, NodeStatus, NodeTaint, PREFER_AVOID_PODS, Parts, SlimMeta};
use berth_core::limits;
use berth_core::model::{AvoidedController, Image, Node, Pressure, Taint, TaintEffect};
use serde::Deserialize;
use std::sync::Arc;

/// A node; without allocatable it offers nothing, as upstream.
pub(super) fn decode(
    decoder: &mut Decoder,
    metadata: &SlimMeta<'_>,
    parts: &Parts<'_, NodeSpec<'_>, NodeStatus<'_>>,
) -> Result<Node, FieldError> {
    let offered = resources::Amounts::read(&parts.status.allocatable, "status.allocatable", resources::Sign::Any)?;
    let allocatable = offered.requests(decoder);
    let scalars = allocatable.scalars.iter().filter(|(_, amount)| *amount > 0).count();
    if scalars > limits::SCALARS_PER_NODE {
        let most = limits::SCALARS_PER_NODE;
        let message = format!(
            "{scalars} extended resources and page sizes, at most {most} are read, so that one node cannot use up the columns of \
             all: remove device plugins that the node does not need"
        );
        return Err(bad("status.allocatable", message));
    }
    let images = parts.status.images.iter();
    let images = images.map(|i| Image { names: decoder.texts(&i.names), size_bytes: i.size_bytes.max(0) }).collect();
    let mut declared_features = decoder.texts(&parts.status.declared_features);
    declared_features.sort();
    let taints = parts.spec.taints.iter().map(|t| taint(decoder, t)).collect();
    Ok(Node {
        name: decoder.text(&metadata.name),
        uid: (&*metadata.uid).into(),
        labels: decoder.labels(&metadata.labels),
        unschedulable: parts.spec.unschedulable,
        taints,
        allocatable,
        allocatable_pods: offered.get("pods").value().max(0),
        images,
        declared_features: declared_features.into(),
        pressure: pressure(&parts.status.conditions),
        avoids: metadata.annotations.get(PREFER_AVOID_PODS).map_or_else(|| Arc::from([]), |text| avoids(decoder, text)),
    })
}

fn pressure(conditions: &[Condition<'_>]) -> Pressure {
    let is_true = |kind: &str| conditions.iter().any(|c| &*c.kind == kind && &*c.status == "True");
    Pressure { memory: is_true("MemoryPressure"), disk: is_true("DiskPressure"), pid: is_true("PIDPressure") }
}

/// What is read of the annotation; reasons and times of an entry are for people.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct AvoidPods {
    prefer_avoid_pods: Option<Vec<AvoidEntry>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct AvoidEntry {
    pod_signature: PodSignature,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PodSignature {
    pod_controller: Option<PodController>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodController {
    kind: String,
    uid: String,
}

/// The controllers that the annotation names; one that does not parse names none, as upstream.
fn avoids(decoder: &mut Decoder, annotation: &str) -> Arc<[AvoidedController]> {
    let wish: AvoidPods = serde_json::from_str(annotation).unwrap_or_default();
    let named = wish.prefer_avoid_pods.unwrap_or_default().into_iter().filter_map(|e| e.pod_signature.pod_controller);
    named.map(|c| AvoidedController { kind: decoder.text(&c.kind), uid: (&*c.uid).into() }).collect()
}

fn taint(decoder: &mut Decoder, taint: &NodeTaint<'_>) -> Taint {
    Taint {
        key: decoder.text(&taint.key),
        value: decoder.text(&taint.value),
        // An effect that this version does not know keeps pods away: that can be no wrong placement.
        effect: effect(&taint.effect).unwrap_or(TaintEffect::NoSchedule),
    }
}

pub(super) fn effect(text: &str) -> Option<TaintEffect> {
    match text {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::decode::Decoder;
    use crate::slim::{PREFER_AVOID_PODS, SlimDeviceClass, SlimNode};
    use berth_core::model::{Node, Pressure};
    use serde_json::{Map, Value, json};

    fn node(annotation: Option<&str>, status: Value) -> Node {
        let mut object = json!({"metadata": {"name": "a", "annotations": {"long": "and unread"}}, "status": status});
        if let Some(annotation) = annotation {
            object["metadata"]["annotations"][PREFER_AVOID_PODS] = annotation.into();
        }
        Decoder::small().node(&SlimNode::read(object.to_string().as_bytes())).unwrap()
    }

    #[test]
    fn conditions_that_are_true_are_pressure() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        let conditions = json!([
            condition("Ready", "True"),
            condition("MemoryPressure", "True"),
            condition("DiskPressure", "Unknown"),
            condition("PIDPressure", "False")
        ]);
        let read = node(None, json!({"conditions": conditions, "declaredFeatures": ["B", "A"]}));
        assert_eq!(read.pressure, Pressure { memory: true, disk: false, pid: false });
        assert_eq!(read.declared_features.iter().map(|f| &**f).collect::<Vec<_>>(), ["A", "B"]);
        let bare = node(None, json!({"conditions": null, "declaredFeatures": null}));
        assert!(bare.pressure == Pressure::default() && bare.declared_features.is_empty() && bare.avoids.is_empty());
    }

    #[test]
    fn the_annotation_names_controllers_or_nothing() {
        let wish = json!({"preferAvoidPods": [
            {"podSignature": {"podController": {"apiVersion": "v1", "kind": "ReplicationController", "name": "foo",
                "uid": "abcdef", "controller": true}}, "reason": "some reason", "evictionTime": "2016-01-01T00:00:00Z"},
            {"podSignature": {}}, {}]});
        let read = node(Some(&wish.to_string()), json!({}));
        let avoided: Vec<(&str, &str)> = read.avoids.iter().map(|a| (&*a.kind, &*a.uid)).collect();
        assert_eq!(avoided, [("ReplicationController", "abcdef")]);
        for nothing in ["", "{", "{}", "null", "[]", r#"{"preferAvoidPods": 7}"#, r#"{"preferAvoidPods": null}"#] {
            assert!(node(Some(nothing), json!({})).avoids.is_empty(), "{nothing}");
        }
    }

    /// One node must not take the columns of all resources.
    #[test]
    fn a_node_that_offers_too_many_scalars_is_refused() {
        let read = |count: usize, amount: &str| {
            let offered: Map<String, Value> = (0..count).map(|i| (format!("a.io/r{i}"), amount.into())).collect();
            let object = json!({"metadata": {"name": "a"}, "status": {"allocatable": offered}}).to_string();
            Decoder::small().node(&SlimNode::read(object.as_bytes()))
        };
        assert_eq!(read(64, "1").expect("within the limit").allocatable.scalars.len(), 64);
        assert_eq!(read(600, "0").expect("nothing is offered").allocatable.scalars.len(), 600);
        let error = read(65, "1").expect_err("beyond the limit").to_string();
        assert!(error.starts_with("node a: status.allocatable: 65 extended resources"), "{error}");
    }

    #[test]
    fn a_device_class_may_stand_for_an_extended_resource() {
        let read = |spec: Value| {
            let object = json!({"metadata": {"name": "gpu"}, "spec": spec}).to_string();
            Decoder::small().device_class(&SlimDeviceClass::read(object.as_bytes())).unwrap().extended_resource
        };
        assert_eq!(read(json!({"extendedResourceName": "example.com/gpu"})).as_deref(), Some("example.com/gpu"));
        assert_eq!(read(json!({"selectors": [{"cel": {"expression": "true"}}]})), None);
        assert_eq!(read(Value::Null), None);
    }
}
