//! The fields of an object that are not in the lists of known fields.

use super::known::{Shape, Use};
use crate::proto::Name;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Paths that one object reports at most: enough to act on, and a bound on what a hostile object costs.
const MOST: usize = 16;
/// Bytes of a field's name that are kept.
const LONGEST: usize = 128;

/// Paths of the fields in the JSON `bytes` that `shape` does not know, each once, in the order met, at most 16.
///
/// List indices are left out, so that two containers report one path. Bytes that are not JSON have no unknown field.
pub fn unknown_fields(bytes: &[u8], shape: &'static Shape) -> Vec<String> {
    unknown_fields_in(&mut serde_json::Deserializer::from_slice(bytes), shape)
}

/// As [`unknown_fields`], of any encoding.
pub fn unknown_fields_in<'de>(object: impl Deserializer<'de>, shape: &'static Shape) -> Vec<String> {
    let mut found = Vec::new();
    let walk = Walk { shape, path: &Path { up: None, name: "" }, found: &mut found };
    if walk.deserialize(object).is_ok() { found } else { Vec::new() }
}

struct Path<'p> {
    up: Option<&'p Path<'p>>,
    name: &'p str,
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.up {
            Some(up) if up.up.is_some() => write!(f, "{up}.{}", self.name),
            _ => f.write_str(self.name),
        }
    }
}

/// Visits of values that have no fields.
macro_rules! scalars {
    ($($visit:ident: $type:ty),+) => {$(
        fn $visit<E>(self, _: $type) -> Result<(), E> {
            Ok(())
        }
    )+};
}

struct Walk<'w> {
    shape: &'static Shape,
    path: &'w Path<'w>,
    found: &'w mut Vec<String>,
}

impl Walk<'_> {
    fn note(&mut self, field: &str) {
        if self.found.len() < MOST {
            let name: String = field.chars().take(LONGEST).collect();
            let path = Path { up: Some(self.path), name: &name }.to_string();
            let path = path.strip_prefix("object.").unwrap_or(&path);
            if !self.found.iter().any(|p| p == path) {
                self.found.push(path.to_owned());
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Name<'de>>()? {
            let key = match key {
                Name::Published(name) => name,
                Name::Number(number) => format!("#{number}").into(),
            };
            match self.shape.get(&key) {
                Some(Use::Into(shape)) => {
                    let path = Path { up: Some(self.path), name: &key };
                    map.next_value_seed(Walk { shape, path: &path, found: self.found })?;
                }
                Some(Use::Read | Use::Ignored) => drop(map.next_value::<IgnoredAny>()?),
                None => {
                    self.note(&key);
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Walk { shape: self.shape, path: self.path, found: self.found })?.is_some() {}
        Ok(())
    }

    scalars! { visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::known;
    use super::unknown_fields;

    const JSON: &str = r#"{"metadata":{"futureMeta":1},"future":0,"spec":{
        "futureSpec":{"a":[1]},"containers":[{"name":"a","futureC":1},{"futureC":2,"resources":{"futureR":{}}}],
        "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
            {"matchExpressions":[{"key":"a","operator":"In","values":["x"],"fuzzy":true}]}]}}},
        "volumes":[{"name":"v","holographic":{}}],"tolerations":null,"nodeSelector":{"any":"thing"}},"status":{"x":1}}"#;

    #[test]
    fn each_unknown_field_is_named_once() {
        let all = [
            "future",
            "spec.futureSpec",
            "spec.containers.futureC",
            "spec.containers.resources.futureR",
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.matchExpressions.fuzzy",
            "spec.volumes.holographic",
        ];
        assert_eq!(unknown_fields(JSON.as_bytes(), &known::POD), all);
        let frame = format!(r#"{{"type":"ADDED","object":{JSON}}}"#);
        assert_eq!(unknown_fields(frame.as_bytes(), known::PODS.event), all);
    }

    #[test]
    fn the_number_of_paths_is_bounded() {
        let fields: Vec<String> = (0..1_000).map(|i| format!("\"future{i}\":{i}")).collect();
        let json = format!("{{\"spec\":{{{}}}}}", fields.join(","));
        assert_eq!(unknown_fields(json.as_bytes(), &known::POD).len(), 16);
    }
}
