use super::testing::{message, put_bytes};
use super::{Encoded, Type, Value};
use crate::decode::Decoder;
use crate::slim::unknown::unknown_fields_in;
use crate::slim::{SlimBudget, SlimNode, SlimPod, known};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;
use std::cell::OnceCell;
use std::collections::HashMap;

fn kind(name: &str) -> Type {
    Type::named(name).unwrap()
}

/// A pod with something of everything that is written in a way of its own.
fn pod() -> serde_json::Value {
    json!({
        "metadata": {
            "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "generation": -3,
            "creationTimestamp": "2026-01-31T12:00:00Z", "labels": {"app": "x", "": "empty"}, "annotations": {"#1": "é\"\n"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "o", "controller": true}],
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"f:nodeName": {}}}}],
        },
        "spec": {
            "containers": [
                {"name": "one", "image": "i:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                    "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}],
                    "livenessProbe": {"httpGet": {"port": "web", "path": "/"}, "periodSeconds": 5},
                    "readinessProbe": {"tcpSocket": {"port": 80}}},
                {"name": "two"},
            ],
            "volumes": [
                {"name": "claim", "persistentVolumeClaim": {"claimName": "data", "readOnly": true}},
                {"name": "config", "configMap": {"name": "c"}},
            ],
            "nodeSelector": {"disk": "ssd"}, "priority": -5, "hostUsers": false, "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x", "y"]}]}]}}},
        },
        "status": {"phase": "Pending", "startTime": "2026-01-31T12:00:01Z"},
    })
}

#[test]
fn an_object_decodes_to_the_same_in_both_encodings() {
    let (text, bytes) = (pod().to_string(), message(&pod(), kind("Pod")));
    let room = OnceCell::new();
    let from_json = SlimPod::read(text.as_bytes());
    let from_bytes = SlimPod::read_encoded(Encoded::Protobuf(&bytes), kind("Pod"), &room);
    assert_eq!(format!("{from_json:?}"), format!("{from_bytes:?}"));
    let read = Decoder::small().pod(&from_bytes).unwrap();
    assert_eq!(read, Decoder::small().pod(&from_json).unwrap());
    assert_eq!((&*read.key.name, read.priority), ("a", -5));
    assert!(room.get().is_none(), "no JSON was needed");
}

#[test]
fn the_json_of_a_message_is_that_of_its_object() {
    let bytes = message(&pod(), kind("Pod"));
    let json: serde_json::Value =
        serde_json::from_slice(&Encoded::Protobuf(&bytes).json(kind("Pod")).unwrap()).unwrap();
    assert_eq!(json, pod());
    let claim = json!({"metadata": {"name": "c"}, "status": {"allocation": {"devices": {"config": [
        {"source": "FromClass", "opaque": {"driver": "d", "parameters": {"any": [1, {"thing": null}]}}}]}}}});
    let bytes = message(&claim, kind("ResourceClaim"));
    let json: serde_json::Value =
        serde_json::from_slice(&Encoded::Protobuf(&bytes).json(kind("ResourceClaim")).unwrap()).unwrap();
    assert_eq!(json["status"]["allocation"]["devices"]["config"], claim["status"]["allocation"]["devices"]["config"]);
}

/// What a server writes that has a value where JSON has nothing.
#[test]
fn a_zero_that_json_leaves_out_is_left_out() {
    let (mut spec, mut meta, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    put_bytes(&mut spec, 10, b"");
    put_bytes(&mut meta, 8, b"");
    put_bytes(&mut bytes, 1, &meta);
    put_bytes(&mut bytes, 2, &spec);
    let json = Encoded::Protobuf(&bytes).json(kind("Pod")).unwrap();
    assert_eq!(std::str::from_utf8(&json), Ok(r#"{"metadata":{},"spec":{}}"#));
}

#[test]
fn a_text_that_is_not_utf_8_has_a_character_for_each_byte_as_in_go() {
    let mut meta = Vec::new();
    put_bytes(&mut meta, 1, b"a\xe2\x82b\xff");
    let read = HashMap::<String, String>::deserialize(Value::object(&meta, kind("ObjectMeta"))).unwrap();
    assert_eq!(read["name"], "a\u{fffd}\u{fffd}b\u{fffd}");
}

#[test]
fn what_is_wrong_with_an_object_is_said_as_in_json() {
    let mut object = pod();
    object["spec"]["containers"][1]["resources"] = json!({"requests": {"cpu": "much"}});
    let (text, bytes) = (object.to_string(), message(&object, kind("Pod")));
    let room = OnceCell::new();
    let from_bytes = SlimPod::read_encoded(Encoded::Protobuf(&bytes), kind("Pod"), &room);
    let wrong = Decoder::small().pod(&from_bytes).unwrap_err();
    assert_eq!(wrong, Decoder::small().pod(&SlimPod::read(text.as_bytes())).unwrap_err());
    assert_eq!(wrong.field, "spec.containers[1].resources.requests[cpu]");
}

#[test]
fn what_does_not_read_is_named_by_its_json() {
    // A number that is too large for what is read, 2⁴⁰, in the field of the priority.
    let (mut bytes, mut spec, mut meta) = (Vec::new(), Vec::new(), Vec::new());
    spec.extend_from_slice(&[0xc8, 0x01, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20]);
    put_bytes(&mut meta, 1, b"a");
    put_bytes(&mut bytes, 1, &meta);
    put_bytes(&mut bytes, 2, &spec);
    let room = OnceCell::new();
    let pod = SlimPod::read_encoded(Encoded::Protobuf(&bytes), kind("Pod"), &room);
    assert_eq!((&*pod.metadata.name, &*pod.parts.unwrap_err().field), ("a", "spec.priority"));
}

#[test]
fn a_field_without_a_name_has_its_number() {
    let mut spec = message(&pod()["spec"], kind("PodSpec"));
    put_bytes(&mut spec, 99, b"of a later version");
    let mut toleration = message(&json!({"key": "k"}), kind("Toleration"));
    put_bytes(&mut toleration, 77, b"");
    put_bytes(&mut spec, 22, &toleration);
    let mut bytes = Vec::new();
    put_bytes(&mut bytes, 2, &spec);
    let found = unknown_fields_in(Value::object(&bytes, kind("Pod")), &known::POD);
    assert_eq!(found, ["spec.#99", "spec.tolerations.#77"]);
    assert!(unknown_fields_in(Value::object(&message(&pod(), kind("Pod")), kind("Pod")), &known::POD).is_empty());
}

/// All that read a message, on bytes that may be none.
fn read_all(bytes: &[u8]) {
    for name in ["Pod", "Node", "PodDisruptionBudget", "ResourceClaim", "Status", "ListMeta"] {
        let _ = Encoded::Protobuf(bytes).json(kind(name));
    }
    let rooms: [OnceCell<Vec<u8>>; 3] = Default::default();
    let pod = SlimPod::read_encoded(Encoded::Protobuf(bytes), kind("Pod"), &rooms[0]);
    let _ = Decoder::small().pod(&pod);
    let _ = Decoder::small().node(&SlimNode::read_encoded(Encoded::Protobuf(bytes), kind("Node"), &rooms[1]));
    let _ = SlimBudget::read_encoded(Encoded::Protobuf(bytes), kind("PodDisruptionBudget"), &rooms[2]);
    let _ = unknown_fields_in(Value::object(bytes, kind("Pod")), &known::POD);
}

proptest! {
    #[test]
    fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
    }

    #[test]
    fn no_change_of_a_message_is_too_odd(at in any::<prop::sample::Index>(), byte in any::<u8>(), end in any::<prop::sample::Index>()) {
        let mut bytes = message(&pod(), kind("Pod"));
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(end.index(bytes.len()) + 1);
        read_all(&bytes);
    }
}
