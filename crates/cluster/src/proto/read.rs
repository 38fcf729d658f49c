//! Reads a message as if it were the object's JSON: what has a `Deserialize` for JSON needs no second one.

use super::fields::{Field, Kind, Many, Message, Type};
use super::wire::{Reader, Wire, WireError, bytes_of, field_of, number_of};
use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};
use serde::de::value::{BorrowedStrDeserializer, BytesDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::fmt;

/// Why a message does not decode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(String);

impl Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl From<WireError> for ReadError {
    fn from(error: WireError) -> Self {
        Self(error.to_string())
    }
}

/// Who deserializes a time as a newtype of this name gets its seconds of Unix time, where it has a text in RFC 3339 as well. Of JSON, which has
/// no such newtype, nobody gets a number for a time.
pub const TIME: &str = "Time";

/// One value. To deserialize it gives what the JSON of the same object would. The key of a field that has no published name is its number, see
/// [`Name`].
pub struct Value<'de> {
    kind: Kind,
    wire: Wire<'de>,
}

impl<'de> Value<'de> {
    /// The object in the bytes of a message.
    pub const fn object(bytes: &'de [u8], message: Type) -> Self {
        Self { kind: Kind::Message(message), wire: Wire::Bytes(bytes) }
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.kind {
            Kind::Text => text(self.wire.bytes()?, visitor),
            Kind::Bool => visitor.visit_bool(self.wire.number()? != 0),
            Kind::Signed => visitor.visit_i64(self.wire.number()?.cast_signed()),
            Kind::Raw => visitor.visit_borrowed_bytes(bytes_of(self.wire.bytes()?, 1)?),
            Kind::Time => time(self.wire.bytes()?, visitor),
            Kind::Quantity => match bytes_of(self.wire.bytes()?, 1)? {
                [] => visitor.visit_borrowed_str("0"),
                amount => text(amount, visitor),
            },
            Kind::IntOrString => int_or_string(self.wire.bytes()?, visitor),
            Kind::Message(message) => visitor.visit_map(Fields::new(self.wire.bytes()?, message.message())),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match seconds_in(&self) {
            Some(seconds) if name == TIME => visitor.visit_i64(seconds),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        struct enum identifier
    }
}

/// The seconds of a time that has a text in RFC 3339.
fn seconds_in(value: &Value<'_>) -> Option<i64> {
    match (value.kind, value.wire) {
        (Kind::Time, Wire::Bytes(bytes @ [_, ..])) => {
            let seconds = number_of(bytes, 1).ok()?.cast_signed();
            Timestamp::from_second(seconds).is_ok().then_some(seconds)
        }
        _ => None,
    }
}

/// A text. One that is not UTF-8 has a replacement character for each byte that is wrong, as in Go's JSON.
fn text<'de, V: Visitor<'de>>(bytes: &'de [u8], visitor: V) -> Result<V::Value, ReadError> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return visitor.visit_borrowed_str(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    visitor.visit_string(text)
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// A time in RFC 3339, of whole seconds as in JSON; the zero one is `null`.
fn time<'de, V: Visitor<'de>>(bytes: &[u8], visitor: V) -> Result<V::Value, ReadError> {
    if bytes.is_empty() {
        return visitor.visit_unit();
    }
    let seconds = number_of(bytes, 1)?.cast_signed();
    // Protobuf takes times that RFC 3339 has no text for. Whoever reads that field sees that it is none; the object reads on.
    let text = match (Timestamp::from_second(seconds), EPOCH.checked_add(SignedDuration::from_secs(seconds))) {
        (Ok(time), _) => time.to_string(),
        // The last hours of the year 9999, which are "never" to many.
        (_, Ok(time)) if time.year() >= 0 => format!("{time}Z"),
        _ => format!("{seconds} s after 1970"),
    };
    visitor.visit_string(text)
}

fn int_or_string<'de, V: Visitor<'de>>(bytes: &'de [u8], visitor: V) -> Result<V::Value, ReadError> {
    match number_of(bytes, 1)? {
        0 => visitor.visit_i64(number_of(bytes, 2)?.cast_signed()),
        _ => text(bytes_of(bytes, 3)?, visitor),
    }
}

/// The fields of a message, and of those that are inline in it.
struct Fields<'de> {
    /// The message, and the inline one that is being read in it.
    open: SmallVec<[(Reader<'de>, &'static Message); 3]>,
    /// The field whose value comes next; `None` for one without a name.
    next: Option<(u32, &'static Field, Wire<'de>)>,
}

impl<'de> Fields<'de> {
    fn new(bytes: &'de [u8], message: &'static Message) -> Self {
        Self { open: smallvec![(Reader(bytes), message)], next: None }
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        while let Some((reader, message)) = self.open.last_mut() {
            let Some((number, wire)) = reader.field()? else {
                self.open.pop();
                continue;
            };
            let Some(field) = message.field(number) else {
                self.next = None;
                return seed.deserialize(BytesDeserializer::new(&number.to_be_bytes())).map(Some);
            };
            if field.is_inline()
                && let Kind::Message(inner) = field.kind
            {
                self.open.push((Reader(wire.bytes()?), inner.message()));
            } else if !(field.left_out && wire.is_zero()) {
                self.next = Some((number, field, wire));
                return seed.deserialize(BorrowedStrDeserializer::new(field.name)).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let (Some((number, field, wire)), Some((reader, _))) = (self.next.take(), self.open.last_mut()) else {
            return seed.deserialize(().into_deserializer());
        };
        match field.many {
            Many::One => seed.deserialize(Value { kind: field.kind, wire }),
            Many::List | Many::Map => seed.deserialize(Values { number, field, first: Some(wire), reader }),
        }
    }
}

/// The values of a field that has several: they follow one another on the wire.
struct Values<'r, 'de> {
    number: u32,
    field: &'static Field,
    first: Option<Wire<'de>>,
    reader: &'r mut Reader<'de>,
}

impl<'de> Values<'_, 'de> {
    fn next(&mut self) -> Result<Option<Wire<'de>>, WireError> {
        match self.first.take() {
            Some(wire) => Ok(Some(wire)),
            None => self.reader.next_if(self.number),
        }
    }
}

impl<'de> Deserializer<'de> for Values<'_, 'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.field.many {
            Many::Map => visitor.visit_map(Entries { values: self, value: None }),
            Many::One | Many::List => visitor.visit_seq(self),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, ReadError> {
        while self.next()?.is_some() {}
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct enum identifier
    }
}

impl<'de> SeqAccess<'de> for Values<'_, 'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        let kind = self.field.kind;
        self.next()?.map(|wire| seed.deserialize(Value { kind, wire })).transpose()
    }
}

/// The entries of a map: each is a message with the key in its first field and the value in its second.
struct Entries<'r, 'de> {
    values: Values<'r, 'de>,
    value: Option<Wire<'de>>,
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        let Some(wire) = self.values.next()? else { return Ok(None) };
        let entry = wire.bytes()?;
        self.value = field_of(entry, 2)?;
        seed.deserialize(Value { kind: Kind::Text, wire: Wire::Bytes(bytes_of(entry, 1)?) }).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let kind = self.values.field.kind;
        let zero = if matches!(kind, Kind::Bool | Kind::Signed) { Wire::Number(0) } else { Wire::Bytes(&[]) };
        seed.deserialize(Value { kind, wire: self.value.take().unwrap_or(zero) })
    }
}

/// The key of a field, for whoever asks for fields that are not known.
#[derive(Debug, PartialEq, Eq)]
pub enum Name<'a> {
    Published(Cow<'a, str>),
    /// Protobuf has numbers only, and no published type has this one.
    Number(u32),
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
        Ok(Name::Published(Cow::Borrowed(name)))
    }

    fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
        Ok(Name::Published(Cow::Owned(name.to_owned())))
    }

    fn visit_bytes<E: Error>(self, number: &[u8]) -> Result<Name<'de>, E> {
        let number = number.try_into().map_err(|_| E::custom("no number of a field"))?;
        Ok(Name::Number(u32::from_be_bytes(number)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameVisitor)
    }
}
