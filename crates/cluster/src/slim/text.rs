use berth_core::model::{Quantity, QuantityError};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

/// A text borrowed from the bytes it was read from where it holds no escapes; `null` is the empty text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

/// A map as the pairs it holds, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairs<'a, V>(pub Vec<(Text<'a>, V)>);

impl<V> Default for Pairs<'_, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'a, V> Deref for Pairs<'a, V> {
    type Target = [(Text<'a>, V)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

struct PairsVisitor<'a, V>(PhantomData<Pairs<'a, V>>);

impl<'de: 'a, 'a, V: Deserialize<'de>> Visitor<'de> for PairsVisitor<'a, V> {
    type Value = Pairs<'a, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Pairs<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PairsVisitor(PhantomData))
    }
}

/// A quantity, or why the text is none. Numbers without quotes are taken too, and `null` is nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount(pub Result<Quantity, QuantityError>);

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    fn visit_str<E>(self, text: &str) -> Result<Amount, E> {
        Ok(Amount(Quantity::parse(text)))
    }

    fn visit_unit<E>(self) -> Result<Amount, E> {
        Ok(Amount(Ok(Quantity::ZERO)))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Amount, E> {
        Ok(Amount(Quantity::parse(&number.to_string())))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Amount, E> {
        Ok(Amount(Quantity::parse(&number.to_string())))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Amount, E> {
        Ok(Amount(Quantity::parse(&number.to_string())))
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

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

/// Marks the mirror pod that a kubelet creates in the API for a static pod.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";

/// `true` on a ResourceClaim that was made for the extended resources of a pod.
pub const EXTENDED_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";

/// Every annotation that is read, of whatever kind of object.
const READ: [&str; 7] =
    [PREFER_AVOID_PODS, STORAGE_CLASS, BIND_COMPLETED, SELECTED_NODE, MIGRATED_PLUGINS, CONFIG_MIRROR, EXTENDED_CLAIM];

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

/// The finalizer that keeps an allocated ResourceClaim from being removed.
pub(crate) const DELETE_PROTECTION: &str = "resource.kubernetes.io/delete-protection";

/// Which of the finalizers that are read an object has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Finalizers {
    /// `resource.kubernetes.io/delete-protection`.
    pub delete_protection: bool,
}

struct FinalizersVisitor;

impl<'de> Visitor<'de> for FinalizersVisitor {
    type Value = Finalizers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Finalizers, A::Error> {
        let mut found = Finalizers::default();
        while let Some(finalizer) = list.next_element::<Text<'de>>()? {
            found.delete_protection |= &*finalizer == DELETE_PROTECTION;
        }
        Ok(found)
    }
}

impl<'de> Deserialize<'de> for Finalizers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FinalizersVisitor)
    }
}
