//! Bytes in one of the two encodings in which an API server answers.

use super::fields::Type;
use super::json::to_json;
use super::read::{ReadError, Value};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use serde::Deserialize;
use std::borrow::Cow;

/// An encoding of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Protobuf,
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

impl Encoding {
    /// What asks for it, as a value of `Accept`. A server that has no protobuf of a kind answers in JSON.
    pub const fn accept(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf, application/json",
        })
    }

    /// In what an answer with these headers is.
    pub fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        if kind.is_some_and(|kind| kind.starts_with(PROTOBUF.as_bytes())) { Self::Protobuf } else { Self::Json }
    }

    /// The bytes, taken to be in this encoding.
    pub const fn with(self, bytes: &[u8]) -> Encoded<'_> {
        match self {
            Self::Json => Encoded::Json(bytes),
            Self::Protobuf => Encoded::Protobuf(bytes),
        }
    }
}

/// An object, or an event of a watch, as it came.
#[derive(Debug, Clone, Copy)]
pub enum Encoded<'a> {
    Json(&'a [u8]),
    /// A message without an envelope.
    Protobuf(&'a [u8]),
}

impl<'a> Encoded<'a> {
    /// Reads an object of the kind; the error is for people.
    pub fn read<T: Deserialize<'a>>(self, kind: Type) -> Result<T, String> {
        match self {
            Self::Json(json) => serde_json::from_slice(json).map_err(|error| error.to_string()),
            Self::Protobuf(bytes) => T::deserialize(Value::object(bytes, kind)).map_err(|error| error.to_string()),
        }
    }

    /// The JSON of an object of the kind.
    pub fn json(self, kind: Type) -> Result<Cow<'a, [u8]>, ReadError> {
        match self {
            Self::Json(json) => Ok(Cow::Borrowed(json)),
            Self::Protobuf(bytes) => to_json(bytes, kind).map(Cow::Owned),
        }
    }
}
