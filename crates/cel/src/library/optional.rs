//! Values that may be missing. `or` and `orValue` look at their argument only if they need it, and have code of their own.

use crate::equal;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::signatures::{Evaluated, LIST_A, OPTIONAL_A, Shape, Signature};
use crate::value::Value;

const LIST_OPTIONAL_A: Shape = Shape::List(&OPTIONAL_A);

pub(crate) const SIGNATURES: &[Signature] = &[
    Signature::global("optional.of", &[Shape::A], OPTIONAL_A, of),
    Signature::global("optional.ofNonZeroValue", &[Shape::A], OPTIONAL_A, of_non_zero),
    Signature::global("optional.none", &[], OPTIONAL_A, none),
    Signature::member("value", &[OPTIONAL_A], Shape::A, value),
    Signature::member("hasValue", &[OPTIONAL_A], Shape::Bool, has_value),
    Signature::member("or", &[OPTIONAL_A, OPTIONAL_A], OPTIONAL_A, none),
    Signature::member("orValue", &[OPTIONAL_A, Shape::A], Shape::A, none),
    Signature::global("optional.unwrap", &[LIST_OPTIONAL_A], LIST_A, unwrap),
    Signature::member("unwrapOpt", &[LIST_OPTIONAL_A], LIST_A, unwrap),
];

fn of<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    args.first().cloned().map(Value::some).ok_or(EvalError::NoSuchOverload)
}

fn of_non_zero<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let Some(value) = args.first() else { return Err(EvalError::NoSuchOverload) };
    let is_zero = match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) | Value::Duration(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::Text(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.items.is_empty(),
        Value::Map(_) | Value::View(_) => equal::size(value) == 0,
        // The first second of year 1.
        Value::Timestamp(at) => at.instant() == (-62_135_596_800, 0),
        _ => false,
    };
    if is_zero { none(meter, args) } else { of(meter, args) }
}

#[allow(clippy::unnecessary_wraps)]
fn none<'a>(_: &mut Meter<'_>, _: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Optional(None))
}

pub(crate) fn value<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Optional(Some(value))] => (**value).clone().sound(),
        [Value::Optional(None)] => Err(EvalError::failed("optional.none() dereference")),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn has_value<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Optional(value)] = args else { return Err(EvalError::NoSuchOverload) };
    Ok(Value::Bool(value.is_some()))
}

fn unwrap<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return Err(EvalError::NoSuchOverload) };
    meter.steps(list.items.len())?;
    let mut found = Vec::new();
    for item in &list.items {
        match item {
            Value::Optional(Some(value)) => found.push((**value).clone()),
            Value::Optional(None) => {}
            other => return Err(EvalError::failed(format!("value of type {} is not optional", other.type_name()))),
        }
    }
    Ok(Value::list(found))
}
