use crate::proto::TIME;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A time. RFC 3339 in JSON; protobuf has its seconds, and gives them without a text in between.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Time<'a> {
    #[default]
    Absent,
    /// Microseconds of Unix time.
    At(i64),
    /// The text, which is no time that we know.
    Bad(Cow<'a, str>),
}

impl<'a> Time<'a> {
    fn read(text: Cow<'a, str>) -> Self {
        match text.parse::<jiff::Timestamp>() {
            Ok(time) => Self::At(time.as_microsecond()),
            Err(_) if text.is_empty() => Self::Absent,
            Err(_) => Self::Bad(text),
        }
    }

    /// Microseconds of Unix time, of what is a time.
    pub const fn unix_us(&self) -> Option<i64> {
        match self {
            Self::At(time) => Some(*time),
            Self::Absent | Self::Bad(_) => None,
        }
    }

    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

struct TimeVisitor {
    takes_seconds: bool,
}

impl<'de> Visitor<'de> for TimeVisitor {
    type Value = Time<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Time<'de>, D::Error> {
        deserializer.deserialize_any(Self { takes_seconds: false })
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Time<'de>, E> {
        Ok(Time::read(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Time<'de>, E> {
        Ok(Time::read(Cow::Owned(text.to_owned())))
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Time<'de>, E> {
        match seconds.checked_mul(1_000_000) {
            Some(time) if self.takes_seconds => Ok(Time::At(time)),
            _ => Err(E::invalid_type(serde::de::Unexpected::Signed(seconds), &self)),
        }
    }

    fn visit_unit<E>(self) -> Result<Time<'de>, E> {
        Ok(Time::Absent)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Time<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(TIME, TimeVisitor { takes_seconds: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_json_is_a_text() {
        let read = |json: &'static str| serde_json::from_str::<Time<'_>>(json);
        assert_eq!(read(r#""1970-01-01T00:00:07Z""#).unwrap(), Time::At(7_000_000));
        assert_eq!(read("null").unwrap(), Time::Absent);
        assert_eq!(read(r#""""#).unwrap(), Time::Absent);
        assert_eq!(read(r#""soon""#).unwrap(), Time::Bad("soon".into()));
        assert_eq!(
            read("7").unwrap_err().to_string(),
            "invalid type: integer `7`, expected a string at line 1 column 1"
        );
        assert!(read("-7").is_err() && read("true").is_err());
    }
}
