//! The JSON of an object in protobuf: for whoever is sent it, and to say where in an object an error is.

use super::fields::Type;
use super::read::{Name, ReadError, Value};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The object's JSON as an API server writes it, in another order of fields and without `null` and empty lists. Fields that have no published name are left out.
pub(super) fn to_json(bytes: &[u8], message: Type) -> Result<Vec<u8>, ReadError> {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    Printer(&mut out).deserialize(Value::object(bytes, message))?;
    Ok(out)
}

/// Writes a value behind what is there.
struct Printer<'w>(&'w mut Vec<u8>);

impl Printer<'_> {
    fn text(&mut self, text: &str) {
        // Nothing fails that writes to memory.
        let _ = serde_json::to_writer(&mut *self.0, text);
    }
}

impl<'de> DeserializeSeed<'de> for Printer<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Printer<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.extend_from_slice(value.to_string().as_bytes());
        Ok(())
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        self.text(text);
        Ok(())
    }

    /// JSON that an object carries in it.
    fn visit_bytes<E>(self, json: &[u8]) -> Result<(), E> {
        let json = serde_json::from_slice::<&RawValue>(json).map_or("null", RawValue::get);
        self.0.extend_from_slice(json.as_bytes());
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.extend_from_slice(b"null");
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.0.push(b'[');
        let start = self.0.len();
        loop {
            let before = self.0.len();
            if before > start {
                self.0.push(b',');
            }
            if list.next_element_seed(Printer(self.0))?.is_none() {
                self.0.truncate(before);
                break;
            }
        }
        self.0.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.0.push(b'{');
        let start = self.0.len();
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let Name::Published(name) = name else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if self.0.len() > start {
                self.0.push(b',');
            }
            self.text(&name);
            self.0.push(b':');
            map.next_value_seed(Printer(self.0))?;
        }
        self.0.push(b'}');
        Ok(())
    }
}
