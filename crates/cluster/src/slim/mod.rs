//! Objects as they come over the wire, cut down to what a scheduler reads.
//!
//! Texts are borrowed from the bytes they were read from. Reading never fails: metadata stands on its own and the rest
//! is a `Result`, so that a bad object neither stops a stream nor hides its name. As in Go, `null` and a missing field
//! are the same, and fields that are not read are skipped without a copy.
//!
//! ```text
//!  objects   what is read of each kind
//!  devices   the same of the kinds that are about devices
//!  raw       JSON that objects carry for others
//!  text      borrowed strings, ordered maps, quantities that may be bad, the few annotations and finalizers that are read
//!  time      times, of both encodings
//!  known     every published field of pods, claims and classes for devices, read or deliberately not
//!  unknown   the fields of a pod or claim that waits, and of a class, that are in no such list
//!  path      where in an object an error is
//! ```

mod devices;
pub mod known;
mod objects;
mod path;
mod raw;
mod text;
mod time;
pub mod unknown;

pub use devices::*;
pub use objects::*;
pub use raw::Raw;
pub use text::*;
pub use time::Time;

use crate::proto::{Encoded, Type, Value, names_in};
use path::path_at;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

/// Where and why an object does not decode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The field's path, such as `spec.containers[0].ports[1].hostPort`; empty for the object itself.
    pub field: String,
    pub message: String,
}

impl FieldError {
    /// The place and reason of an error that `serde_json` met in `bytes`.
    pub fn locate(bytes: &[u8], error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
        Self { field: path_at(bytes, error.line(), error.column()), message: message.to_owned() }
    }
}

/// What an object holds beside its metadata.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(
    default,
    rename_all = "camelCase",
    bound(deserialize = "'de: 'a, S: Deserialize<'de> + Default, T: Deserialize<'de> + Default")
)]
pub struct Parts<'a, S, T> {
    /// Moved to [`Slim::metadata`].
    #[serde(deserialize_with = "nullable")]
    metadata: SlimMeta<'a>,
    #[serde(deserialize_with = "nullable")]
    pub spec: S,
    #[serde(deserialize_with = "nullable")]
    pub status: T,
    // The fields of a StorageClass or CSIStorageCapacity: they have no spec.
    pub provisioner: Text<'a>,
    /// `Immediate` or `WaitForFirstConsumer`.
    pub volume_binding_mode: Text<'a>,
    #[serde(deserialize_with = "nullable")]
    pub allowed_topologies: Vec<TopologyTerm<'a>>,
    /// The nodes that have access to a capacity.
    pub node_topology: Option<LabelSelector<'a>>,
    pub storage_class_name: Text<'a>,
    pub capacity: Option<Amount>,
    pub maximum_volume_size: Option<Amount>,
}

/// Reads a field whose `null` means its default.
pub(crate) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// An object whose metadata was read, whatever the rest is like.
#[derive(Debug, Clone)]
pub struct Slim<'a, S, T> {
    /// Only the names if the object is bad, and nothing if it is no object at all.
    pub metadata: SlimMeta<'a>,
    pub parts: Result<Parts<'a, S, T>, FieldError>,
    /// Paths of fields that this version does not know, in the order met; noted for pods and claims that wait, and for classes. One that
    /// came without its name has its number, `spec.#99`.
    pub unknown: Vec<String>,
}

impl<'a, S, T> Slim<'a, S, T>
where
    S: Deserialize<'a> + Default,
    T: Deserialize<'a> + Default,
{
    /// Reads an object as it came. `room` is for its JSON, where that is needed to say what is wrong with it.
    pub fn read_encoded(object: Encoded<'a>, kind: Type, room: &'a OnceCell<Vec<u8>>) -> Self {
        let bytes = match object {
            Encoded::Json(json) => return Self::read(json),
            Encoded::Protobuf(bytes) => bytes,
        };
        let error = match Parts::deserialize(Value::object(bytes, kind)) {
            Ok(parts) => return Self::from(parts),
            Err(error) => error,
        };
        let Ok(json) = object.json(kind) else {
            let [name, namespace, uid, resource_version] = names_in(bytes).map(Text::from);
            let metadata = SlimMeta { name, namespace, uid, resource_version, ..SlimMeta::default() };
            let parts = Err(FieldError { field: String::new(), message: error.to_string() });
            return Self { metadata, parts, unknown: Vec::new() };
        };
        Self::read(room.get_or_init(|| json.into_owned()))
    }

    /// Reads an object from JSON.
    pub fn read(bytes: &'a [u8]) -> Self {
        match serde_json::from_slice::<Parts<'a, S, T>>(bytes) {
            Ok(parts) => parts.into(),
            Err(error) => {
                let parts = Err(FieldError::locate(bytes, &error));
                Self { metadata: names(bytes), parts, unknown: Vec::new() }
            }
        }
    }
}

impl<'a, S, T> From<Parts<'a, S, T>> for Slim<'a, S, T> {
    fn from(mut parts: Parts<'a, S, T>) -> Self {
        let metadata = std::mem::take(&mut parts.metadata);
        Self { metadata, parts: Ok(parts), unknown: Vec::new() }
    }
}

/// The names in an object of which nothing more could be read. One that is no text does not hide the others.
fn names(bytes: &[u8]) -> SlimMeta<'_> {
    #[derive(Deserialize, Default)]
    struct Names<'a> {
        #[serde(borrow)]
        metadata: HashMap<Cow<'a, str>, &'a RawValue>,
    }
    let found = serde_json::from_slice::<Names<'_>>(bytes).unwrap_or_default().metadata;
    let text = |field: &str| {
        found.get(field).and_then(|raw| serde_json::from_str::<Text<'_>>(raw.get()).ok()).unwrap_or_default()
    };
    SlimMeta {
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..SlimMeta::default()
    }
}

impl SlimResourceClaim<'_> {
    /// Whether it is to be allocated: only such a claim is looked at for unknown fields.
    pub fn is_open(&self) -> bool {
        self.parts.as_ref().is_ok_and(|parts| parts.status.allocation.is_none())
    }
}

impl SlimPod<'_> {
    /// Whether nobody has bound it and it has not ended: only such a pod is looked at for unknown fields.
    pub fn is_pending(&self) -> bool {
        self.parts.as_ref().is_ok_and(|p| p.spec.node_name.is_empty() && !p.status.is_finished())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_spec_does_not_hide_the_name() {
        let pod = SlimPod::read(br#"{"spec":{"priority":"high"},"metadata":{"name":"a","namespace":"b","uid":"u"}}"#);
        assert_eq!((&*pod.metadata.name, &*pod.metadata.namespace, &*pod.metadata.uid), ("a", "b", "u"));
        let error = pod.parts.unwrap_err();
        assert_eq!(error.field, "spec.priority");
        assert!(error.message.contains("invalid type: string \"high\""), "{}", error.message);
    }

    #[test]
    fn bad_labels_do_not_hide_the_name() {
        let pod = SlimPod::read(br#"{"metadata":{"labels":{"a":7},"name":"a"}}"#);
        assert_eq!(&*pod.metadata.name, "a");
        assert_eq!(pod.parts.unwrap_err().field, "metadata.labels.a");
        let pod = SlimPod::read(br#"{"metadata":{"namespace":[[7]],"name":"a","uid":{}}}"#);
        assert_eq!((&*pod.metadata.name, &*pod.metadata.namespace, &*pod.metadata.uid), ("a", "", ""));
    }

    #[test]
    fn what_is_no_json_is_read_too() {
        for text in ["", "{", "[7]", "7", "{\"metadata\":{\"name\":\"a\"", "\u{0}"] {
            let pod = SlimPod::read(text.as_bytes());
            assert!(pod.parts.is_err(), "{text}");
        }
        assert!(SlimNode::read(&[0xff, 0xfe]).parts.is_err());
    }

    #[test]
    fn null_is_the_same_as_missing() {
        let pod = SlimPod::read(
            br#"{"metadata":{"name":"a","creationTimestamp":null,"labels":null},
                "spec":{"containers":null,"nodeSelector":null,"affinity":null,"priority":null,"overhead":null,
                        "volumes":[{"name":"v","persistentVolumeClaim":null}]},"status":null}"#,
        );
        let spec = pod.parts.unwrap().spec;
        assert!(spec.containers.is_empty() && spec.volumes[0].persistent_volume_claim.is_none());
    }
}
