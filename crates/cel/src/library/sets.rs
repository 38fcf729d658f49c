//! Lists read as sets.

use crate::equal;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::signatures::{Evaluated, LIST_A, Shape, Signature};
use crate::value::{List, Value};

const TWO: &[Shape] = &[LIST_A, LIST_A];

pub(crate) const SIGNATURES: &[Signature] = &[
    Signature::global("sets.contains", TWO, Shape::Bool, contains),
    Signature::global("sets.equivalent", TWO, Shape::Bool, equivalent),
    Signature::global("sets.intersects", TWO, Shape::Bool, intersects),
];

fn lists<'v, 'a>(args: &'v [Value<'a>]) -> Result<[&'v List<'a>; 2], EvalError> {
    match args {
        [Value::List(one), Value::List(other)] => Ok([one, other]),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn has_all<'a>(meter: &mut Meter<'_>, list: &List<'a>, part: &List<'a>) -> Result<bool, EvalError> {
    for item in &part.items {
        if !equal::contains(meter, &list.items, item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [list, part] = lists(args)?;
    has_all(meter, list, part).map(Value::Bool)
}

fn equivalent<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [one, other] = lists(args)?;
    Ok(Value::Bool(has_all(meter, one, other)? && has_all(meter, other, one)?))
}

fn intersects<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [one, other] = lists(args)?;
    for item in &one.items {
        if equal::contains(meter, &other.items, item)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
