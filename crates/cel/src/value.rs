//! What expressions compute with.

use crate::error::EvalError;
use crate::library::format::Format;
use crate::library::net::Prefix;
use crate::library::quantity::Held;
use crate::library::url::Url;
use crate::text::Text;
use crate::time::Timestamp;
use crate::types::Type;
use crate::view::View;
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A value borrows the texts of the device and of the program.
#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    List(Arc<List<'a>>),
    Map(Arc<Map<'a>>),
    /// A part of the device, read as a map.
    View(View<'a>),
    Optional(Option<Arc<Value<'a>>>),
    /// A type, by its name.
    Type(&'static str),
    Quantity(Held<'a>),
    /// A valid version as written.
    Semver(Text<'a>),
    Ip(IpAddr),
    Cidr(Prefix),
    Url(Arc<Url>),
    Format(&'static Format),
    /// What upstream has in an optional whose value it could not hand on ([`Self::handed_on`]): to look at it is an error.
    Broken,
}

#[derive(Debug, Default)]
pub(crate) struct List<'a> {
    pub(crate) items: Vec<Value<'a>>,
    /// Made by `+` of two lists: comparing such a list reports what comparing other lists hides.
    pub(crate) is_joined: bool,
}

pub(crate) type Map<'a> = BTreeMap<Key<'a>, Value<'a>>;

/// What can be the key of a map. Equal numbers of different types are different keys; a look-up tries them all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(Bits),
    Text(Text<'a>),
    Duration(i64),
}

/// A double that is a number, by the order of its bits: there is one zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bits(u64);

impl<'a> Key<'a> {
    pub(crate) fn new(value: &Value<'a>) -> Result<Self, EvalError> {
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Uint(value) => Self::Uint(*value),
            Value::Double(value) if !value.is_nan() => Self::Double(Bits((value + 0.0).to_bits())),
            Value::Text(value) => Self::Text(value.clone()),
            Value::Duration(value) => Self::Duration(*value),
            Value::Bytes(_) | Value::Semver(_) => return Err(EvalError::unhashable(value.type_name())),
            _ => return Err(EvalError::unsupported(format!("a map key of type {}", value.type_name()))),
        })
    }

    pub(crate) fn value(&self) -> Value<'a> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Double(Bits(bits)) => Value::Double(f64::from_bits(*bits)),
            Self::Text(value) => Value::Text(value.clone()),
            Self::Duration(value) => Value::Duration(*value),
        }
    }
}

impl Value<'_> {
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(Text::Shared(text.into()))
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(List { items, is_joined: false }))
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// The value, if it can be looked at. Whatever takes a value out of an optional or a list asks for this, so that expressions
    /// never have another one.
    pub(crate) fn sound(self) -> Result<Self, EvalError> {
        match self {
            Self::Broken => Err(EvalError::failed("unsupported conversion to ref.Val")),
            sound => Ok(sound),
        }
    }

    /// The value as upstream hands it on through a variable or a `?:`. What is in an optional is taken apart and put together again
    /// there, which upstream cannot do with the types of Kubernetes: those are lost, and only using them is an error.
    pub(crate) fn handed_on(self) -> Self {
        match self {
            Self::Optional(Some(inner)) => Self::some(inner.rebuilt()),
            other => other,
        }
    }

    /// What becomes of a value that is taken apart.
    pub(crate) fn rebuilt(&self) -> Self {
        match self {
            Self::Quantity(_) | Self::Semver(_) | Self::Ip(_) | Self::Cidr(_) | Self::Url(_) => Self::Broken,
            Self::Type(name) => Self::Text(Text::Borrowed(name)),
            Self::Optional(Some(inner)) => inner.rebuilt(),
            Self::Optional(None) => Self::Null,
            Self::List(list) if list.is_joined => Self::list(list.items.iter().map(Self::rebuilt).collect()),
            other => other.clone(),
        }
    }

    pub(crate) const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => Type::Duration.name(),
            Self::Timestamp(_) => Type::Timestamp.name(),
            Self::List(_) => "list",
            Self::Map(_) | Self::View(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) => Type::Quantity.name(),
            Self::Semver(_) => Type::Semver.name(),
            Self::Ip(_) => Type::Ip.name(),
            Self::Cidr(_) => Type::Cidr.name(),
            Self::Url(_) => Type::Url.name(),
            Self::Format(_) => Type::Format.name(),
            Self::Broken => "error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each evaluation moves some dozens of them.
    #[test]
    fn values_are_small() {
        assert!(size_of::<Value<'_>>() <= 40, "{}", size_of::<Value<'_>>());
        assert!(size_of::<Result<Value<'_>, EvalError>>() <= 40, "{}", size_of::<Result<Value<'_>, EvalError>>());
    }
}
