//! One line of a watch, or one item of a list.

use super::ObjectKey;
use crate::decode::DecodeError;
use crate::slim::{FieldError, Parts, Slim, Text};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashMap;

/// An object as it was read, good or bad.
#[derive(Debug)]
pub struct ReadObject<T> {
    pub(super) key: ObjectKey,
    pub(super) resource_version: String,
    /// The object, or why it does not decode.
    pub(super) object: Result<T, DecodeError>,
}

/// One event of a watch as it is on the wire.
#[derive(Debug)]
pub enum Frame<T> {
    /// `ADDED` or `MODIFIED`.
    Present(ReadObject<T>),
    /// `DELETED`, with the version at which the object was deleted.
    Deleted(ReadObject<()>),
    /// The version up to which everything was sent.
    Bookmark {
        resource_version: String,
        /// Whether this ends the initial events.
        initial_end: bool,
    },
    /// The server ends the watch; `code` is the HTTP status it would have answered with.
    Error { code: u16, message: String },
    /// The line is no event at all.
    Unreadable(FieldError),
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a, O: Deserialize<'de>"))]
struct Envelope<'a, O> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    object: O,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    annotations: HashMap<String, String>,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ErrorStatus {
    code: u16,
    reason: String,
    message: String,
}

/// Reads one line of a watch; `note` may look at the line once more before the object is decoded.
pub(super) fn read<'a, S, T, O>(
    line: &'a [u8],
    note: impl FnOnce(&mut Slim<'a, S, T>),
    decode: impl FnOnce(&Slim<'a, S, T>) -> Result<O, DecodeError>,
) -> Frame<O>
where
    S: Deserialize<'a> + Default,
    T: Deserialize<'a> + Default,
{
    // Nearly every line is an object that reads in one go; all others are looked at a second time.
    let (kind, mut slim) = match serde_json::from_slice::<Envelope<'a, Parts<'a, S, T>>>(line) {
        Ok(envelope) if is_object(&envelope.kind) => (envelope.kind, Slim::from(envelope.object)),
        _ => match serde_json::from_slice::<Envelope<'a, &'a RawValue>>(line) {
            Ok(envelope) if is_object(&envelope.kind) => (envelope.kind, Slim::read(envelope.object.get().as_bytes())),
            Ok(envelope) => return control(&envelope.kind, envelope.object),
            Err(error) => return Frame::Unreadable(FieldError::locate(line, &error)),
        },
    };
    if &*kind == "DELETED" {
        return Frame::Deleted(read_object(&slim, |_| Ok(())));
    }
    note(&mut slim);
    Frame::Present(read_object(&slim, decode))
}

fn is_object(kind: &str) -> bool {
    matches!(kind, "ADDED" | "MODIFIED" | "DELETED")
}

fn control<T>(kind: &str, object: &RawValue) -> Frame<T> {
    let unreadable = |message: String| Frame::Unreadable(FieldError { field: "type".to_owned(), message });
    match kind {
        "BOOKMARK" => match serde_json::from_str::<Bookmark>(object.get()) {
            Ok(Bookmark { metadata }) => Frame::Bookmark {
                initial_end: metadata.annotations.get("k8s.io/initial-events-end").is_some_and(|v| v == "true"),
                resource_version: metadata.resource_version,
            },
            Err(error) => unreadable(format!("unreadable bookmark: {error}")),
        },
        "ERROR" => {
            let status: ErrorStatus = serde_json::from_str(object.get()).unwrap_or_default();
            let code = if status.reason == "Expired" || status.reason == "Gone" { 410 } else { status.code };
            Frame::Error { code, message: status.message }
        }
        other => unreadable(format!("unknown kind of watch event {other:?}")),
    }
}

/// An object with its key, decoded.
pub(super) fn read_object<'a, S, T, O>(
    slim: &Slim<'a, S, T>,
    decode: impl FnOnce(&Slim<'a, S, T>) -> Result<O, DecodeError>,
) -> ReadObject<O> {
    let key = ObjectKey {
        namespace: slim.metadata.namespace.to_string(),
        name: slim.metadata.name.to_string(),
        uid: slim.metadata.uid.to_string(),
    };
    ReadObject { key, resource_version: slim.metadata.resource_version.to_string(), object: decode(slim) }
}

/// The text of the object in a line of a watch.
pub(super) fn object_of(line: &[u8]) -> Option<&[u8]> {
    serde_json::from_slice::<Envelope<'_, &RawValue>>(line).ok().map(|envelope| envelope.object.get().as_bytes())
}
