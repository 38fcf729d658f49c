use super::Text;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::fmt;

/// The controllers whose pods a node would rather not have; the NodePreferAvoidPods plugin of the Policy era reads it.
pub const PREFER_AVOID_PODS: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

/// The storage class of a volume or claim before there was a field for it; it takes precedence over the field.
pub const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Set once the volume controller has bound a claim.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The node for which a claim's volume is to be provisioned.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The in-tree plugins that a CSINode has handed over, separated by commas.
pub const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// The source of a kubelet's pod: `api`, or a file or URL of the kubelet's own.
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";

/// Marks the mirror pod that a kubelet creates in the API for a static pod.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";

/// Every annotation that is read, of whatever kind of object.
const READ: [&str; 7] =
    [PREFER_AVOID_PODS, STORAGE_CLASS, BIND_COMPLETED, SELECTED_NODE, MIGRATED_PLUGINS, CONFIG_SOURCE, CONFIG_MIRROR];

/// The annotations that a scheduler reads. The others, often long, are passed over without a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Annotations<'a>(Vec<(&'static str, Text<'a>)>);

impl Annotations<'_> {
    /// `key` must be one of those that are read.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| *k == key).map(|(_, value)| &**value)
    }
}

struct AnnotationsVisitor;

impl<'de> Visitor<'de> for AnnotationsVisitor {
    type Value = Annotations<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Annotations::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut read = Vec::new();
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match READ.into_iter().find(|known| **known == *key) {
                Some(known) => read.push((known, map.next_value()?)),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Annotations(read))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Annotations<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnnotationsVisitor)
    }
}
