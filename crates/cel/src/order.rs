//! Which of two values comes first.

use crate::error::EvalError;
use crate::value::Value;
use std::cmp::Ordering;

/// 2^63 and 2^64, the first doubles beyond ints and uints.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_64: f64 = 18_446_744_073_709_551_616.0;

/// The order of two values of one type, or of two numbers.
pub(crate) fn compare(one: &Value<'_>, other: &Value<'_>) -> Result<Ordering, EvalError> {
    Ok(match (one, other) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), Value::Int(_) | Value::Uint(_) | Value::Double(_)) => {
            numbers(one, other).ok_or_else(|| EvalError::failed("NaN values cannot be ordered"))?
        }
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.instant().cmp(&b.instant()),
        _ => return Err(EvalError::NoSuchOverload),
    })
}

/// Whether the type has an order at all.
pub(crate) const fn is_ordered(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Text(_)
            | Value::Bytes(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
    )
}

/// The order of two numbers of any type, of which NaN has none. Beside a double an integer is rounded to one.
pub(crate) fn numbers(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    match (one, other) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), Value::Int(b)) => a.partial_cmp(&(*b as f64)),
        (Value::Int(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
        (Value::Double(a), Value::Uint(b)) => a.partial_cmp(&(*b as f64)),
        (Value::Uint(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
        _ => None,
    }
}

/// The double cut to an int. As upstream, neither end of the range belongs to it.
pub(crate) fn int(value: f64) -> Option<i64> {
    (value > -TWO_63 && value < TWO_63).then_some(value as i64)
}

pub(crate) fn uint(value: f64) -> Option<u64> {
    (0.0..TWO_64).contains(&value).then_some(value as u64)
}

/// The double if it is an int.
#[allow(clippy::float_cmp)]
pub(crate) fn whole(value: f64) -> Option<i64> {
    int(value).filter(|cut| *cut as f64 == value)
}

#[allow(clippy::float_cmp)]
pub(crate) fn whole_uint(value: f64) -> Option<u64> {
    uint(value).filter(|cut| *cut as f64 == value)
}
