//! Whole objects in the form in which extenders get them: the API server's JSON without `kind`, `apiVersion` and
//! `metadata.managedFields`.

use bytes::Bytes;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The members of an object, their values as they were written.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Key(key)) = map.next_key()? {
                    let value: &'de RawValue = map.next_value().map_err(A::Error::custom)?;
                    members.push((key, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// The form of an object that is sent. Unknown fields and the order of fields are kept; what a watch reads in protobuf has none that are unknown.
pub fn sent_form(raw: &[u8]) -> Result<Bytes, serde_json::Error> {
    let members: Members<'_> = serde_json::from_slice(raw)?;
    let mut out = Vec::with_capacity(raw.len());
    write(&mut out, members, |out, key, value| match key {
        "kind" | "apiVersion" => Ok(false),
        "metadata" => {
            let Ok(meta) = serde_json::from_str::<Members<'_>>(value.get()) else { return Ok(true) };
            push_key(out, key)?;
            write(out, meta, |_, key, _| Ok(key != "managedFields"))?;
            Ok(false)
        }
        _ => Ok(true),
    })?;
    // Whoever keeps it would keep the room of what was cut out as well.
    out.shrink_to_fit();
    Ok(Bytes::from(out))
}

/// Writes the members for which `keep` returns true. Where it returns false, `keep` may have written the member itself.
fn write<'a>(
    out: &mut Vec<u8>,
    members: Members<'a>,
    mut keep: impl FnMut(&mut Vec<u8>, &str, &'a RawValue) -> Result<bool, serde_json::Error>,
) -> Result<(), serde_json::Error> {
    out.push(b'{');
    let mut is_first = true;
    for (key, value) in members.0 {
        let before = out.len();
        if !is_first {
            out.push(b',');
        }
        let start = out.len();
        if keep(out, &key, value)? {
            push_key(out, &key)?;
            out.extend_from_slice(value.get().as_bytes());
        }
        if out.len() == start {
            out.truncate(before);
        } else {
            is_first = false;
        }
    }
    out.push(b'}');
    Ok(())
}

fn push_key(out: &mut Vec<u8>, key: &str) -> Result<(), serde_json::Error> {
    serde_json::to_writer(&mut *out, key)?;
    out.push(b':');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn sent(object: &Value) -> Value {
        serde_json::from_slice(&sent_form(object.to_string().as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn three_keys_are_cut_out_and_all_else_stays() {
        let full = json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {"managedFields": [{"manager": "kubectl"}], "name": "a", "labels": {"kind": "x"}, "new": null},
            "spec": {"containers": [{"kind": 1, "apiVersion": 2}], "invented": {"managedFields": 3}},
            "status": {},
        });
        let cut = json!({
            "metadata": {"name": "a", "labels": {"kind": "x"}, "new": null},
            "spec": {"containers": [{"kind": 1, "apiVersion": 2}], "invented": {"managedFields": 3}},
            "status": {},
        });
        assert_eq!(sent(&full), cut);
        assert_eq!(sent(&cut), cut, "what is cut already stays as it is");
    }

    #[test]
    fn objects_with_nothing_left_are_empty() {
        for (raw, want) in [
            (r"{}", "{}"),
            (r#"{"kind":"A","apiVersion":"v1"}"#, "{}"),
            (r#"{"metadata":{"managedFields":[]},"kind":"A"}"#, r#"{"metadata":{}}"#),
            (r#"{"kind":"A","metadata":null,"a" : [1 , 2]}"#, r#"{"metadata":null,"a":[1 , 2]}"#),
        ] {
            assert_eq!(sent_form(raw.as_bytes()).unwrap(), want.as_bytes(), "{raw}");
        }
        assert!(sent_form(b"[]").is_err());
        assert!(sent_form(b"{").is_err());
    }
}
