//! When two values are equal. Values of different types are not, numbers aside; a few types refuse to be compared with others.

use crate::error::EvalError;
use crate::library::semver;
use crate::meter::Meter;
use crate::order;
use crate::value::{Key, List, Map, Value};
use crate::view::View;
use std::cmp::Ordering;

/// What `==` says, and what its left side says of its right one.
pub(crate) fn equal<'a>(meter: &mut Meter<'_>, one: &Value<'a>, other: &Value<'a>) -> Result<bool, EvalError> {
    meter.step()?;
    Ok(match (one, other) {
        (Value::Null, Value::Null) => true,
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), Value::Int(_) | Value::Uint(_) | Value::Double(_)) => {
            order::numbers(one, other) == Some(Ordering::Equal)
        }
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => {
            meter.bytes(a.len())?;
            a == b
        }
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a.instant() == b.instant(),
        (Value::List(a), Value::List(b)) => lists(meter, a, b)?,
        (Value::Map(_) | Value::View(_), Value::Map(_) | Value::View(_)) => maps(meter, one, other)?,
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => equal(meter, a, b)?,
            _ => false,
        },
        (Value::Type(a), Value::Type(b)) => a == b,
        // Upstream holds the sum of two quantities in another way, and then does not know it on the right.
        (Value::Quantity(a), Value::Quantity(b)) if !b.is_computed() => a.value() == b.value(),
        (Value::Semver(a), Value::Semver(b)) => semver::compare(a, b) == Ordering::Equal,
        (Value::Ip(a), Value::Ip(b)) => a == b,
        (Value::Cidr(a), Value::Cidr(b)) => a == b,
        (Value::Url(a), Value::Url(b)) => a == b,
        (Value::Format(a), Value::Format(b)) => a.name == b.name,
        (
            Value::Quantity(_)
            | Value::Semver(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Url(_)
            | Value::Format(_)
            | Value::Broken,
            _,
        ) => return Err(EvalError::NoSuchOverload),
        _ => false,
    })
}

/// Whether the list has the value; what cannot be compared is another value.
pub(crate) fn contains<'a>(meter: &mut Meter<'_>, items: &[Value<'a>], wanted: &Value<'a>) -> Result<bool, EvalError> {
    for item in items {
        match equal(meter, wanted, item) {
            Ok(true) => return Ok(true),
            Err(error) if error.is_fatal() => return Err(error),
            _ => {}
        }
    }
    Ok(false)
}

fn lists<'a>(meter: &mut Meter<'_>, one: &List<'a>, other: &List<'a>) -> Result<bool, EvalError> {
    if one.items.len() != other.items.len() {
        return Ok(false);
    }
    let mut hidden = None;
    for (a, b) in one.items.iter().zip(&other.items) {
        match equal(meter, a, b) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => hidden = hidden.or(Some(error)),
        }
    }
    // Elements that cannot be compared count as equal, except in lists that were joined.
    match hidden {
        Some(error) if one.is_joined || error.is_unsupported() => Err(error),
        _ => Ok(true),
    }
}

fn maps<'a>(meter: &mut Meter<'_>, one: &Value<'a>, other: &Value<'a>) -> Result<bool, EvalError> {
    if size(one) != size(other) {
        return Ok(false);
    }
    for (key, value) in entries(meter, one)? {
        let Some(found) = find(other, &key) else { return Ok(false) };
        match equal(meter, &value, &found) {
            Ok(false) => return Ok(false),
            Err(error) if error.is_fatal() || error.is_unsupported() => return Err(error),
            // As in lists, what cannot be compared counts as equal.
            Ok(true) | Err(_) => {}
        }
    }
    Ok(true)
}

/// The number of elements of a map; of anything else none.
pub(crate) fn size(map: &Value<'_>) -> usize {
    match map {
        Value::Map(map) => map.len(),
        Value::View(view) => view.len(),
        _ => 0,
    }
}

/// The entries of a map, in the order of their keys.
pub(crate) fn entries<'a>(meter: &mut Meter<'_>, map: &Value<'a>) -> Result<Vec<(Value<'a>, Value<'a>)>, EvalError> {
    meter.steps(size(map))?;
    Ok(match map {
        Value::Map(map) => map.iter().map(|(key, value)| (key.value(), value.clone())).collect(),
        Value::View(view) => {
            let entry = |key: &'a str| Some((Value::Text(crate::text::Text::Borrowed(key)), view.find(key)?.0));
            view.keys().into_iter().filter_map(entry).collect()
        }
        _ => Vec::new(),
    })
}

/// The value of a key as a look-up finds it: with the defaults of the device's domains, and numbers of any type.
pub(crate) fn find<'a>(map: &Value<'a>, key: &Value<'a>) -> Option<Value<'a>> {
    match (map, key) {
        (Value::Map(map), _) => find_in(map, key),
        (Value::View(view), Value::Text(key)) => view.find(key).map(|(value, _)| value),
        (Value::View(view), _) => view.default(),
        _ => None,
    }
}

/// Whether `in` finds the key: without the defaults.
pub(crate) fn has_key(map: &Value<'_>, key: &Value<'_>) -> bool {
    match (map, key) {
        (Value::Map(map), _) => find_in(map, key).is_some(),
        (Value::View(view), Value::Text(key)) => has_exactly(*view, key),
        _ => false,
    }
}

fn has_exactly(view: View<'_>, key: &str) -> bool {
    view.find(key).is_some_and(|(_, found)| found == crate::view::Found::Exactly)
}

pub(crate) fn find_in<'a>(map: &Map<'a>, key: &Value<'a>) -> Option<Value<'a>> {
    let get = |key: Key<'a>| map.get(&key).cloned();
    let exact = Key::new(key).ok().and_then(get);
    if exact.is_some() {
        return exact;
    }
    match key {
        Value::Double(value) => order::whole(*value).map(Key::Int).and_then(get).or_else(|| {
            let value = order::whole_uint(*value)?;
            get(Key::Uint(value))
        }),
        Value::Int(value) => u64::try_from(*value).ok().map(Key::Uint).and_then(get),
        Value::Uint(value) => i64::try_from(*value).ok().map(Key::Int).and_then(get),
        _ => None,
    }
}
