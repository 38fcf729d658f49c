//! Durations as Kubernetes users write them: `500ms`, `10s`, `1m30s`, `2h`.

use std::{borrow::Cow, fmt, str::FromStr, time};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A span of time in a profile: whole numbers with the units ms, s, m and h, as in `1m30s`. Resolution: 1 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(time::Duration);

/// Why a text is not a [`Duration`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: write whole numbers with ms, s, m or h, such as 500ms, 10s or 1m30s")]
pub struct DurationError {
    text: String,
}

/// Units with their length in milliseconds, largest first.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Duration {
    /// A duration of whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(time::Duration::from_secs(seconds))
    }

    /// A duration of whole milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(time::Duration::from_millis(milliseconds))
    }

    /// Converts to the standard library's type.
    pub const fn get(self) -> time::Duration {
        self.0
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let total = parse_millis(text).ok_or_else(|| DurationError { text: text.to_owned() })?;
        Ok(Self::from_millis(total))
    }
}

fn parse_millis(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0u64;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = number.parse::<u64>().ok()?.checked_mul(*millis)?.checked_add(total)?;
        if tail.is_empty() {
            return Some(total);
        }
        rest = tail;
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, millis) in UNITS {
            if rest >= millis {
                write!(f, "{}{unit}", rest / millis)?;
                rest %= millis;
            }
        }
        Ok(())
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // Six digits: 999,999 hours still fit the 64-bit nanoseconds that CEL's duration() counts in.
        json_schema!({"type": "string", "maxLength": 16, "pattern": "^([0-9]{1,6}(ms|s|m|h))+$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_users_write() {
        for (text, millis) in
            [("1s", 1_000), ("500ms", 500), ("1m30s", 90_000), ("5m", 300_000), ("2h", 7_200_000), ("0s", 0)]
        {
            assert_eq!(text.parse::<Duration>().unwrap(), Duration::from_millis(millis), "{text}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        for text in ["1s", "500ms", "1m30s", "5m", "2h", "1h1ms", "0s"] {
            assert_eq!(text.parse::<Duration>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_other_texts() {
        for text in
            ["", "5", "s", "-1s", "1.5s", "1 s", "1d", "5m3", "1sm", "99999999999999999999h", "18446744073709551615h"]
        {
            let error = text.parse::<Duration>().unwrap_err();
            assert!(error.to_string().contains("500ms, 10s or 1m30s"), "{text}: {error}");
        }
    }
}
