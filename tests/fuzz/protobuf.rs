//! Objects in protobuf: whatever bytes they are, reading them never panics; and a message means what its JSON means.

use crate::choices::Choices;
use crate::manifest::templates;
use crate::mutate::mutate;
use berth_cluster::decode::Decoder;
use berth_cluster::proto::testing::{body, event, message};
use berth_cluster::proto::{Encoded, Type, Value, event_in, names_in, object_in};
use berth_cluster::slim::unknown::{unknown_fields, unknown_fields_in};
use berth_cluster::slim::{SlimBudget, SlimNode, SlimPod, known};
use std::borrow::Cow;
use std::cell::OnceCell;

pub(crate) fn target(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut object = choices.pick(&templates());
    mutate(&mut choices, &mut object);
    let kind = object["kind"].as_str().and_then(Type::named).unwrap_or_else(|| Type::named("Pod").unwrap());
    let mut object = message(&object, kind);
    means_its_json(&object);
    for _ in 0..=choices.below(4) {
        if !object.is_empty() {
            let at = choices.below(object.len());
            object[at] = choices.byte();
        }
    }
    if choices.one_in(4) {
        object.truncate(choices.below(object.len() + 1));
    }
    survive(&object);
    survive(choices.rest());
}

/// What is read of a message, as a pod and as a node, is what is read of its JSON.
fn means_its_json(message: &[u8]) {
    let json = |kind: &str| {
        let json = Encoded::Protobuf(message).json(Type::named(kind).unwrap());
        json.ok().map(Cow::into_owned)
    };
    let (kind, room) = (Type::named("Pod").unwrap(), OnceCell::new());
    if let Some(json) = json("Pod") {
        let of_message = SlimPod::read_encoded(Encoded::Protobuf(message), kind, &room);
        let (got, want) = (Decoder::small().pod(&of_message), Decoder::small().pod(&SlimPod::read(&json)));
        assert_eq!(format!("{got:?}"), format!("{want:?}"), "{}", String::from_utf8_lossy(&json));
        // JSON has no name for a number that the kind does not have.
        let mut unknown = unknown_fields_in(Value::object(message, kind), &known::POD);
        unknown.retain(|path| !path.contains('#'));
        assert_eq!(unknown, unknown_fields(&json, &known::POD), "{}", String::from_utf8_lossy(&json));
    }
    let (kind, room) = (Type::named("Node").unwrap(), OnceCell::new());
    if let Some(json) = json("Node") {
        let of_message = SlimNode::read_encoded(Encoded::Protobuf(message), kind, &room);
        let (got, want) = (Decoder::small().node(&of_message), Decoder::small().node(&SlimNode::read(&json)));
        assert_eq!(format!("{got:?}"), format!("{want:?}"), "{}", String::from_utf8_lossy(&json));
    }
}

/// All that reads a message, on bytes that may be none.
fn survive(bytes: &[u8]) {
    for kind in ["Pod", "Node", "PodDisruptionBudget", "ResourceClaim", "ResourceSlice", "Status", "ListMeta"] {
        let _ = Encoded::Protobuf(bytes).json(Type::named(kind).unwrap());
    }
    let rooms: [OnceCell<Vec<u8>>; 3] = Default::default();
    let [pod, node, budget] = ["Pod", "Node", "PodDisruptionBudget"].map(|kind| Type::named(kind).unwrap());
    let _ = Decoder::small().pod(&SlimPod::read_encoded(Encoded::Protobuf(bytes), pod, &rooms[0]));
    let _ = Decoder::small().node(&SlimNode::read_encoded(Encoded::Protobuf(bytes), node, &rooms[1]));
    let _ = SlimBudget::read_encoded(Encoded::Protobuf(bytes), budget, &rooms[2]);
    let _ = unknown_fields_in(Value::object(bytes, pod), &known::POD);
    let _ = names_in(bytes);
    let _ = (object_in(bytes), event_in(bytes));
    assert_eq!(object_in(&body(bytes)), Ok(bytes));
    assert_eq!(event_in(&event("ADDED", bytes)[4..]), Ok((&b"ADDED"[..], bytes)));
}
