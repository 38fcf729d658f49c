//! Fields and indices, of values that may be missing as well.

use crate::equal;
use crate::error::EvalError;
use crate::order;
use crate::signatures::Evaluated;
use crate::value::Value;

/// `of[key]`. In an optional, and if it is asked for optionally, what is missing is no error.
pub(crate) fn get<'a>(of: Value<'a>, key: &Value<'a>, optional: bool) -> Evaluated<'a> {
    match of {
        Value::Optional(None) => Ok(of),
        Value::Optional(Some(inner)) => find(&inner, key).map(some),
        of if optional => find(&of, key).map(some),
        of => match find(&of, key)? {
            Some(found) => found.sound(),
            None => Err(missing(&of, key)),
        },
    }
}

/// Whether `of` has the field: `has(of.field)`.
pub(crate) fn test<'a>(of: Value<'a>, field: &Value<'a>) -> Evaluated<'a> {
    let found = match &of {
        Value::Optional(None) => None,
        Value::Optional(Some(inner)) => find(inner, field)?,
        of => find(of, field)?,
    };
    Ok(Value::Bool(found.is_some()))
}

fn some(found: Option<Value<'_>>) -> Value<'_> {
    found.map_or(Value::Optional(None), Value::some)
}

fn missing(of: &Value<'_>, key: &Value<'_>) -> EvalError {
    match (of, key) {
        (Value::List(_), Value::Int(index)) => EvalError::OutOfBounds(*index),
        (Value::List(_), _) => EvalError::OutOfBounds(-1),
        (_, Value::Text(key)) => EvalError::NoSuchKey((**key).into()),
        (_, Value::Int(key)) => EvalError::NoSuchKey(key.to_string().into()),
        (_, key) => EvalError::NoSuchKey(format!("a {}", key.type_name()).into()),
    }
}

/// Refuses what can be no key, whatever is looked up in.
pub(crate) fn check_key(key: &Value<'_>) -> Result<(), EvalError> {
    match key {
        Value::Text(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_) => Ok(()),
        other => Err(EvalError::failed(format!("invalid qualifier type: {}", other.type_name()))),
    }
}

fn find<'a>(of: &Value<'a>, key: &Value<'a>) -> Result<Option<Value<'a>>, EvalError> {
    check_key(key)?;
    match of {
        Value::Map(_) | Value::View(_) => Ok(equal::find(of, key)),
        Value::List(list) => {
            let index = match key {
                Value::Int(index) => Some(*index),
                Value::Uint(index) => i64::try_from(*index).ok(),
                Value::Double(index) => order::whole(*index),
                _ => None,
            };
            let unsupported = || EvalError::failed(format!("unsupported index type '{}' in list", key.type_name()));
            let index = index.ok_or_else(unsupported)?;
            Ok(usize::try_from(index).ok().and_then(|index| list.items.get(index).cloned()))
        }
        Value::Broken => Value::Broken.sound().map(|_| None),
        _ => Ok(None),
    }
}
