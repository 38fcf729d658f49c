//! What an API server would send in protobuf, made of the JSON that it would send.

use super::envelope::MAGIC;
use super::fields::{Field, Kind, Many, Type};
use jiff::Timestamp;
use serde_json::Value;

/// The message of an object. Fields that the kind does not have are left out, as are values of another type than their field has.
pub fn message(object: &Value, kind: Type) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, field) in kind.message().fields() {
        if field.is_inline() {
            put_bytes(&mut out, number, &value(object, field.kind).unwrap_or_default());
        } else {
            put_field(&mut out, number, field, &object[field.name]);
        }
    }
    out
}

/// A body with an object in it, or with a list whose items are of this kind.
pub fn body(object: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put_bytes(&mut out, 1, &type_meta());
    put_bytes(&mut out, 2, object);
    put_bytes(&mut out, 3, b"");
    put_bytes(&mut out, 4, b"");
    out
}

/// The message of a list.
pub fn list(metadata: &Value, items: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, 1, &message(metadata, Type::named("ListMeta").unwrap_or_default()));
    for item in items {
        put_bytes(&mut out, 2, &item);
    }
    out
}

/// An event of a watch with its size before it; `change` is `ADDED` or the like.
pub fn event(change: &str, object: &[u8]) -> Vec<u8> {
    let (mut raw, mut event) = (Vec::new(), Vec::new());
    put_bytes(&mut raw, 1, &body(object));
    put_bytes(&mut event, 1, change.as_bytes());
    put_bytes(&mut event, 2, &raw);
    let size = u32::try_from(event.len()).unwrap_or_default();
    [&size.to_be_bytes()[..], &event].concat()
}

/// Puts a field of bytes behind a message, such as one that no published type has.
pub fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_number(out, u64::from(number) << 3 | 2);
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn type_meta() -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, 1, b"v1");
    put_bytes(&mut out, 2, b"Kind");
    out
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_field(out: &mut Vec<u8>, number: u32, field: &Field, json: &Value) {
    match field.many {
        Many::One => put_value(out, number, field.kind, json),
        Many::List => json.as_array().into_iter().flatten().for_each(|one| put_value(out, number, field.kind, one)),
        Many::Map => {
            for (key, one) in json.as_object().into_iter().flatten() {
                let mut entry = Vec::new();
                put_bytes(&mut entry, 1, key.as_bytes());
                put_value(&mut entry, 2, field.kind, one);
                put_bytes(out, number, &entry);
            }
        }
    }
}

fn put_value(out: &mut Vec<u8>, number: u32, kind: Kind, json: &Value) {
    let whole = match kind {
        Kind::Bool => json.as_bool().map(u64::from),
        Kind::Signed => json.as_i64().map(i64::cast_unsigned),
        _ => None,
    };
    match whole {
        Some(whole) => {
            put_number(out, u64::from(number) << 3);
            put_number(out, whole);
        }
        None => {
            if let Some(bytes) = value(json, kind) {
                put_bytes(out, number, &bytes);
            }
        }
    }
}

/// The bytes of a value that is no number.
fn value(json: &Value, kind: Kind) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match kind {
        Kind::Bool | Kind::Signed => return None,
        Kind::Text => out.extend_from_slice(json.as_str()?.as_bytes()),
        Kind::Quantity => put_bytes(&mut out, 1, json.as_str()?.as_bytes()),
        Kind::Raw if json.is_null() => return None,
        Kind::Raw => put_bytes(&mut out, 1, json.to_string().as_bytes()),
        Kind::Time => {
            let time: Timestamp = json.as_str()?.parse().ok()?;
            put_value(&mut out, 1, Kind::Signed, &time.as_second().into());
        }
        Kind::IntOrString => {
            let is_text = json.is_string();
            put_value(&mut out, 1, Kind::Signed, &i64::from(is_text).into());
            put_value(&mut out, if is_text { 3 } else { 2 }, if is_text { Kind::Text } else { Kind::Signed }, json);
        }
        Kind::Message(inner) => {
            json.as_object()?;
            out = message(json, inner);
        }
    }
    Some(out)
}
