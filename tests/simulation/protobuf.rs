//! In half of the worlds the API server answers in protobuf where that is asked for, and in the other half in JSON alone.

use super::model::api::{Answer, Asked};
use super::model::kinds::Of;
use super::random::Random;
use berth_cluster::proto::{Encoding, Type, testing};
use bytes::Bytes;
use serde_json::Value;

pub(crate) const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Whether the API server of this world has protobuf.
pub(crate) fn draw(seed: u64) -> bool {
    Random::new(seed).fork(23).in_thousand(500)
}

/// The type of what is asked for, if it is to come in protobuf.
pub(crate) fn wanted(asked: &Asked, of: Of) -> Option<Type> {
    Type::named(of.kind().name).filter(|_| Encoding::Protobuf.accept() == asked.accept.as_str())
}

/// The answer in protobuf: a list of objects of this type, or a refusal. Whoever reads one object, or metadata alone, asks for JSON.
pub(crate) fn answer(answer: Answer, of: Type) -> Answer {
    let Ok(json) = serde_json::from_slice::<Value>(&answer.body) else { return answer };
    let message = match json["items"].as_array() {
        Some(items) => testing::list(&json["metadata"], items.iter().map(|item| testing::message(item, of))),
        None => testing::message(&json, Type::named("Status").unwrap_or_default()),
    };
    Answer { body: testing::body(&message).into(), content_type: CONTENT_TYPE, ..answer }
}

/// The lines of a watch as events in protobuf.
pub(crate) fn events(lines: &[u8], of: Type) -> Bytes {
    let mut events = Vec::with_capacity(lines.len() / 2);
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let event: Value = serde_json::from_slice(line).unwrap_or_default();
        let change = event["type"].as_str().unwrap_or_default();
        let of = if change == "ERROR" { Type::named("Status").unwrap_or_default() } else { of };
        events.extend_from_slice(&testing::event(change, &testing::message(&event["object"], of)));
    }
    events.into()
}
