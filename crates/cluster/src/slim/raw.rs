//! JSON that an object carries for somebody else.

use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// JSON as it was written, or nothing; `null` is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Raw<'a> {
    #[default]
    Absent,
    Json(&'a str),
    /// Bytes that are no JSON: protobuf carries anything.
    Bad,
}

impl Raw<'_> {
    /// The JSON in one way of writing: without space between tokens, and with no more characters escaped than must be. An API server
    /// escapes more where it writes JSON than where it passes on what it got. Numbers stay as they are: to parse them would round them.
    /// `None` if it is no JSON.
    pub fn compact(&self) -> Option<String> {
        match self {
            Self::Absent => Some("null".to_owned()),
            Self::Json(json) => Some(compact(json)),
            Self::Bad => None,
        }
    }
}

/// `json` must be valid.
fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(start) = rest.find('"') {
        let (plain, quoted) = rest.split_at(start);
        push_plain(&mut out, plain);
        let (text, after) = quoted.split_at(text_length(quoted));
        let read = serde_json::from_str::<String>(text).ok();
        // Half a surrogate pair is JSON, and no text: it stays escaped.
        match read.and_then(|read| serde_json::to_string(&read).ok()) {
            Some(written) => out.push_str(&written),
            None => out.push_str(text),
        }
        rest = after;
    }
    push_plain(&mut out, rest);
    out
}

fn push_plain(out: &mut String, plain: &str) {
    out.extend(plain.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r')));
}

/// How long the text with its quotes is that `json` begins with.
fn text_length(json: &str) -> usize {
    let mut escaped = false;
    let end = json.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(json.len(), |end| end + 2)
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    /// Only JSON calls this: a message knows which of its fields carry JSON.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw<'de>, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|json| Raw::Json(json.get()))
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Raw<'de>, E> {
        Ok(match serde_json::from_slice::<&RawValue>(bytes) {
            _ if bytes.is_empty() => Raw::Absent,
            Ok(json) if json.get() == "null" => Raw::Absent,
            Ok(json) => Raw::Json(json.get()),
            Err(_) => Raw::Bad,
        })
    }

    fn visit_unit<E>(self) -> Result<Raw<'de>, E> {
        Ok(Raw::Absent)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct("Raw", RawVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_way_of_writing_is_changed() {
        for (json, compacted) in [
            (
                "{ \"b\" :\n1.50e+2,\t\"a\": [ 123456789012345678901234567890 , null ] }",
                r#"{"b":1.50e+2,"a":[123456789012345678901234567890,null]}"#,
            ),
            (r#""a\u003cb\u003e\u0026 \" \\""#, r#""a<b>& \" \\""#),
            (r#"{"\ud83d\ude00":"\ud83d"}"#, r#"{"😀":"\ud83d"}"#),
            (r#"["\\",""," "]"#, r#"["\\",""," "]"#),
            ("true", "true"),
        ] {
            assert_eq!(Raw::Json(json).compact().as_deref(), Some(compacted), "{json}");
        }
        assert_eq!(Raw::Absent.compact().as_deref(), Some("null"));
        assert_eq!(Raw::Bad.compact(), None);
    }

    proptest! {
        #[test]
        fn what_is_compacted_is_the_same_json(key in any::<String>(), text in any::<String>(), number in any::<i64>()) {
            let value = serde_json::json!({key: [text, number, {"a": null}]});
            let compacted = Raw::Json(&serde_json::to_string_pretty(&value).unwrap()).compact().unwrap();
            prop_assert_eq!(compacted, value.to_string());
        }

        #[test]
        fn no_text_is_too_odd(json in any::<String>()) {
            prop_assert!(Raw::Json(&json).compact().is_some());
        }
    }
}
