//! One event of a watch, or one item of a list.

use super::ObjectKey;
use crate::decode::DecodeError;
use crate::proto::{self, Encoded, Type};
use crate::slim::{FieldError, Parts, Slim, Text};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::OnceCell;

/// An object as it was read, good or bad.
#[derive(Debug)]
pub struct ReadObject<T> {
    pub(super) key: ObjectKey,
    pub(super) resource_version: String,
    /// The object, or why it does not decode.
    pub(super) object: Result<T, DecodeError>,
    /// The path of a field that is to be named and came as a number.
    pub(super) unnamed: Option<String>,
}

/// One event of a watch as it is on the wire.
#[derive(Debug)]
pub enum Frame<T> {
    /// `ADDED` or `MODIFIED`.
    Present(ReadObject<T>),
    /// `DELETED`, with the version at which the object was deleted.
    Deleted(ReadObject<()>),
    /// The version up to which everything was sent.
    Bookmark { resource_version: String },
    /// The server ends the watch; `code` is the HTTP status it would have answered with.
    Error { code: u16, message: String },
    /// It is no event at all.
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
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

/// Why an API server refuses a call, or ends a watch.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ErrorStatus {
    pub(super) code: u16,
    reason: String,
    pub(super) message: String,
}

/// Where an object is, for whoever looks at it once more.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) text: Encoded<'a>,
    /// Whether the text is an event with the object in it.
    pub(super) is_event: bool,
}

/// Reads one event of a watch; `note` may look at it once more before the object is decoded.
pub(super) fn read<'a, S, T, O>(
    (event, kind): (Encoded<'a>, Type),
    room: &'a OnceCell<Vec<u8>>,
    note: impl FnOnce(&mut Slim<'a, S, T>, Seen<'a>),
    decode: impl FnOnce(&Slim<'a, S, T>) -> Result<O, DecodeError>,
) -> Frame<O>
where
    S: Deserialize<'a> + Default,
    T: Deserialize<'a> + Default,
{
    let read = match event {
        Encoded::Json(line) => in_json(line, kind),
        Encoded::Protobuf(frame) => in_protobuf(frame, kind, room),
    };
    match read {
        Ok((change, mut slim, seen)) => {
            if &*change == "DELETED" {
                return Frame::Deleted(read_object(&slim, |_| Ok(())));
            }
            note(&mut slim, seen);
            Frame::Present(read_object(&slim, decode))
        }
        Err(other) => other.into(),
    }
}

/// What happened to an object, the object, and where it is.
type Change<'a, S, T> = (Text<'a>, Slim<'a, S, T>, Seen<'a>);

fn in_json<'a, S, T>(line: &'a [u8], kind: Type) -> Result<Change<'a, S, T>, Control>
where
    S: Deserialize<'a> + Default,
    T: Deserialize<'a> + Default,
{
    let seen = Seen { text: Encoded::Json(line), is_event: true };
    // Nearly every line is an object that reads in one go; all others are looked at a second time.
    match serde_json::from_slice::<Envelope<'a, Parts<'a, S, T>>>(line) {
        Ok(envelope) if is_object(&envelope.kind) => Ok((envelope.kind, Slim::from(envelope.object), seen)),
        _ => match serde_json::from_slice::<Envelope<'a, &'a RawValue>>(line) {
            Ok(envelope) if is_object(&envelope.kind) => {
                Ok((envelope.kind, Slim::read(envelope.object.get().as_bytes()), seen))
            }
            Ok(envelope) => Err(control(&envelope.kind, Encoded::Json(envelope.object.get().as_bytes()), kind)),
            Err(error) => Err(Control::Unreadable(FieldError::locate(line, &error))),
        },
    }
}

fn in_protobuf<'a, S, T>(frame: &'a [u8], kind: Type, room: &'a OnceCell<Vec<u8>>) -> Result<Change<'a, S, T>, Control>
where
    S: Deserialize<'a> + Default,
    T: Deserialize<'a> + Default,
{
    let unreadable = |message| Control::Unreadable(FieldError { field: String::new(), message });
    let (change, object) = proto::event_in(frame).map_err(|error| unreadable(error.to_string()))?;
    let change = std::str::from_utf8(change).map_err(|error| unreadable(error.to_string()))?;
    let object = Encoded::Protobuf(object);
    if !is_object(change) {
        return Err(control(change, object, kind));
    }
    Ok((change.into(), Slim::read_encoded(object, kind, room), Seen { text: object, is_event: false }))
}

fn is_object(kind: &str) -> bool {
    matches!(kind, "ADDED" | "MODIFIED" | "DELETED")
}

/// An event that is not about an object.
enum Control {
    Bookmark { resource_version: String },
    Error { code: u16, message: String },
    Unreadable(FieldError),
}

impl<T> From<Control> for Frame<T> {
    fn from(control: Control) -> Self {
        match control {
            Control::Bookmark { resource_version } => Self::Bookmark { resource_version },
            Control::Error { code, message } => Self::Error { code, message },
            Control::Unreadable(error) => Self::Unreadable(error),
        }
    }
}

fn control(kind: &str, object: Encoded<'_>, of: Type) -> Control {
    let unreadable = |message: String| Control::Unreadable(FieldError { field: "type".to_owned(), message });
    match kind {
        "BOOKMARK" => match object.read::<Bookmark>(of) {
            Ok(Bookmark { metadata }) => Control::Bookmark { resource_version: metadata.resource_version },
            Err(error) => unreadable(format!("unreadable bookmark: {error}")),
        },
        "ERROR" => {
            let status = ErrorStatus::read(object);
            let code = if status.reason == "Expired" || status.reason == "Gone" { 410 } else { status.code };
            Control::Error { code, message: status.message }
        }
        other => unreadable(format!("unknown kind of watch event {other:?}")),
    }
}

impl ErrorStatus {
    /// Reads a `Status`; one that cannot be read says nothing.
    pub(super) fn read(object: Encoded<'_>) -> Self {
        Type::named("Status").and_then(|status| object.read(status).ok()).unwrap_or_default()
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
    // No field has such a name: see `Slim::unknown`.
    let unnamed = slim.unknown.iter().find(|path| path.contains('#')).cloned();
    ReadObject { key, resource_version: slim.metadata.resource_version.to_string(), object: decode(slim), unnamed }
}

/// The JSON of the object in an event of a watch.
pub(super) fn json_of(event: Encoded<'_>, kind: Type) -> Option<Cow<'_, [u8]>> {
    match event {
        Encoded::Json(line) => {
            let envelope = serde_json::from_slice::<Envelope<'_, &RawValue>>(line).ok()?;
            Some(Cow::Borrowed(envelope.object.get().as_bytes()))
        }
        Encoded::Protobuf(frame) => Encoded::Protobuf(proto::event_in(frame).ok()?.1).json(kind).ok(),
    }
}
