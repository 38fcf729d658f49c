//! Objects as they come over the wire, cut down to what a scheduler reads.
//!
//! Texts are borrowed from the bytes they were read from. Reading never fails: metadata stands on its own and the rest
//! is a `Result`, so that a bad object neither stops a stream nor hides its name. As in Go, `null` and a missing field
//! are the same, and fields that are not read are skipped without a copy.
//!
//! ```text
//!  fields        how a struct of slim objects is written
//!  text          borrowed strings, ordered maps, quantities that may be bad
//!  annotations   the few that are read
//!  pod node workload volume  what is read of each kind
//!  known         every published pod field, read or deliberately not
//!  unknown       the fields of a pending pod that are in no such list
//!  path          where in an object an error is
//! ```

mod annotations;
mod fields;
pub mod known;
mod node;
mod path;
mod pod;
mod text;
pub mod unknown;
mod volume;
mod workload;

pub use annotations::{
    Annotations, BIND_COMPLETED, CONFIG_MIRROR, CONFIG_SOURCE, MIGRATED_PLUGINS, PREFER_AVOID_PODS, SELECTED_NODE,
    STORAGE_CLASS,
};
pub use node::{DeviceClassSpec, NodeImage, NodeSpec, NodeStatus, NodeTaint};
pub use pod::{
    Affinity, Condition, Container, ContainerPort, ContainerStatus, Expression, ImageVolume, LabelSelector, Named,
    NodeAffinity, NodeSelector, NodeSelectorTerm, PodAffinity, PodAffinityTerm, PodSpec, PodStatus, PreferredTerm,
    Resources, RestartRule, SpreadConstraint, Toleration, Volume,
};
pub use text::{Amount, Pairs, Text};
pub use volume::{
    AttachmentSpec, AzureDisk, ClaimSource, ClaimSpec, CsiDriverSpec, CsiNodeSpec, GcePd, InlineCsi, Iscsi, Phase, Rbd,
    Top, TopologyTerm, VolumeId, VolumeNodeAffinity, VolumeSpec,
};
pub use workload::{BudgetStatus, PlainSelectorSpec, SelectorSpec};

use fields::{nullable, slim};
use path::path_at;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

slim! {
    struct SlimMeta<'a> {
        name: Text<'a>,
        /// Empty for cluster-scoped kinds.
        namespace: Text<'a>,
        uid: Text<'a>,
        resource_version: Text<'a>,
        /// In the order given.
        labels: Pairs<'a, Text<'a>>,
        /// RFC 3339.
        creation_timestamp: Text<'a>,
        /// RFC 3339; empty if the object is not being deleted.
        deletion_timestamp: Text<'a>,
        /// Those that are read.
        annotations: Annotations<'a>,
        owner_references: Vec<OwnerReference<'a>>,
    }

    struct OwnerReference<'a> {
        api_version: Text<'a>,
        kind: Text<'a>,
        name: Text<'a>,
        uid: Text<'a>,
        controller: bool,
    }
}

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

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts<S, T> {
    pub spec: S,
    pub status: T,
}

/// An object whose metadata was read, whatever the rest is like.
#[derive(Debug, Clone)]
pub struct Slim<'a, S, T> {
    /// Only the names if the object is bad, and nothing if it is no JSON.
    pub metadata: SlimMeta<'a>,
    pub parts: Result<Parts<S, T>, FieldError>,
    pub top: Top<'a>,
    /// Paths of fields that this version does not know, in the order met; noted for pending pods only.
    pub unknown: Vec<String>,
}

/// Nothing is read of this part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Nothing;

impl<'de> Deserialize<'de> for Nothing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

pub type SlimPod<'a> = Slim<'a, PodSpec<'a>, PodStatus<'a>>;
pub type SlimNode<'a> = Slim<'a, NodeSpec<'a>, NodeStatus<'a>>;
pub type SlimNamespace<'a> = Slim<'a, Nothing, Nothing>;
pub type SlimService<'a> = Slim<'a, PlainSelectorSpec<'a>, Nothing>;
pub type SlimReplicationController<'a> = Slim<'a, PlainSelectorSpec<'a>, Nothing>;
pub type SlimReplicaSet<'a> = Slim<'a, SelectorSpec<'a>, Nothing>;
pub type SlimStatefulSet<'a> = Slim<'a, SelectorSpec<'a>, Nothing>;
pub type SlimBudget<'a> = Slim<'a, SelectorSpec<'a>, BudgetStatus<'a>>;
pub type SlimDeviceClass<'a> = Slim<'a, DeviceClassSpec<'a>, Nothing>;
pub type SlimVolume<'a> = Slim<'a, VolumeSpec<'a>, Phase<'a>>;
pub type SlimClaim<'a> = Slim<'a, ClaimSpec<'a>, Phase<'a>>;
pub type SlimStorageClass<'a> = Slim<'a, Nothing, Nothing>;
pub type SlimCsiNode<'a> = Slim<'a, CsiNodeSpec<'a>, Nothing>;
pub type SlimCsiDriver<'a> = Slim<'a, CsiDriverSpec, Nothing>;
pub type SlimCsiStorageCapacity<'a> = Slim<'a, Nothing, Nothing>;
pub type SlimVolumeAttachment<'a> = Slim<'a, AttachmentSpec<'a>, Nothing>;

/// The wire form of a whole object; fails where [`Slim`] does not.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a, S: Deserialize<'de> + Default, T: Deserialize<'de> + Default"))]
pub(super) struct Wire<'a, S, T> {
    #[serde(borrow, default, deserialize_with = "nullable")]
    metadata: SlimMeta<'a>,
    #[serde(default, deserialize_with = "nullable")]
    spec: S,
    #[serde(default, deserialize_with = "nullable")]
    status: T,
    #[serde(borrow, default)]
    provisioner: Text<'a>,
    #[serde(borrow, default, rename = "volumeBindingMode")]
    volume_binding_mode: Text<'a>,
    #[serde(borrow, default, rename = "allowedTopologies", deserialize_with = "nullable")]
    allowed_topologies: Vec<TopologyTerm<'a>>,
    #[serde(borrow, default, rename = "nodeTopology")]
    node_topology: Option<LabelSelector<'a>>,
    #[serde(borrow, default, rename = "storageClassName")]
    storage_class_name: Text<'a>,
    #[serde(default)]
    capacity: Option<Amount>,
    #[serde(default, rename = "maximumVolumeSize")]
    maximum_volume_size: Option<Amount>,
}

#[derive(Deserialize)]
struct Names<'a> {
    #[serde(borrow)]
    metadata: NameMeta<'a>,
}

/// Raw, so that one that is no text does not hide the others.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct NameMeta<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow)]
    uid: Option<&'a RawValue>,
    #[serde(borrow)]
    resource_version: Option<&'a RawValue>,
}

impl<'a, S, T> Slim<'a, S, T>
where
    S: Deserialize<'a> + Default,
    T: Deserialize<'a> + Default,
{
    /// Reads an object from JSON.
    pub fn read(bytes: &'a [u8]) -> Self {
        match serde_json::from_slice::<Wire<'a, S, T>>(bytes) {
            Ok(wire) => Self::from_wire(wire),
            Err(error) => Self {
                metadata: names(bytes),
                parts: Err(FieldError::locate(bytes, &error)),
                top: Top::default(),
                unknown: Vec::new(),
            },
        }
    }

    pub(super) fn from_wire(wire: Wire<'a, S, T>) -> Self {
        let top = Top {
            provisioner: wire.provisioner,
            volume_binding_mode: wire.volume_binding_mode,
            allowed_topologies: wire.allowed_topologies,
            node_topology: wire.node_topology,
            storage_class_name: wire.storage_class_name,
            capacity: wire.capacity,
            maximum_volume_size: wire.maximum_volume_size,
        };
        let parts = Ok(Parts { spec: wire.spec, status: wire.status });
        Self { metadata: wire.metadata, parts, top, unknown: Vec::new() }
    }
}

/// The names in an object of which nothing more could be read.
fn names(bytes: &[u8]) -> SlimMeta<'_> {
    let found = serde_json::from_slice::<Names<'_>>(bytes).map(|n| n.metadata).unwrap_or_default();
    let text = |raw: Option<&'_ RawValue>| {
        let text = raw.and_then(|raw| serde_json::from_str::<Text<'_>>(raw.get()).ok());
        text.map(|text| Text(text.0.into_owned().into())).unwrap_or_default()
    };
    SlimMeta {
        name: text(found.name),
        namespace: text(found.namespace),
        uid: text(found.uid),
        resource_version: text(found.resource_version),
        ..SlimMeta::default()
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
