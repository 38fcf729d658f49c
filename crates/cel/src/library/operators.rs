//! Operators. `&&`, `||`, `?:`, `==`, `in` and indices have code of their own and are here for their types.

use crate::error::EvalError;
use crate::meter::Meter;
use crate::order;
use crate::signatures::{Evaluated, LIST_A, MAP_AB, OPTIONAL_A, Run, Shape, Signature};
use crate::value::{List, Value};
use std::cmp::Ordering;
use std::sync::Arc;

const fn operator(name: &'static str, args: &'static [Shape], result: Shape, run: Run) -> Signature {
    Signature::global(name, args, result, run).unguarded()
}

/// The types that have an order, each with itself, and the numbers with each other.
macro_rules! ordered {
    ($($name:literal $run:ident)*) => {
        [$(
            operator($name, &[Shape::Bool, Shape::Bool], Shape::Bool, $run),
            operator($name, &[Shape::Int, Shape::Int], Shape::Bool, $run),
            operator($name, &[Shape::Int, Shape::Double], Shape::Bool, $run),
            operator($name, &[Shape::Int, Shape::Uint], Shape::Bool, $run),
            operator($name, &[Shape::Uint, Shape::Uint], Shape::Bool, $run),
            operator($name, &[Shape::Uint, Shape::Double], Shape::Bool, $run),
            operator($name, &[Shape::Uint, Shape::Int], Shape::Bool, $run),
            operator($name, &[Shape::Double, Shape::Double], Shape::Bool, $run),
            operator($name, &[Shape::Double, Shape::Int], Shape::Bool, $run),
            operator($name, &[Shape::Double, Shape::Uint], Shape::Bool, $run),
            operator($name, &[Shape::Text, Shape::Text], Shape::Bool, $run),
            operator($name, &[Shape::Bytes, Shape::Bytes], Shape::Bool, $run),
            operator($name, &[Shape::Timestamp, Shape::Timestamp], Shape::Bool, $run),
            operator($name, &[Shape::Duration, Shape::Duration], Shape::Bool, $run),
        )*]
    };
}

pub(crate) const ORDERED: &[Signature] =
    &ordered! { "_<_" less "_<=_" less_or_equal "_>_" greater "_>=_" greater_or_equal };

const LIST_INDEX: &[Shape] = &[LIST_A, Shape::Int];
const MAP_INDEX: &[Shape] = &[MAP_AB, Shape::A];
const OPTIONAL_LIST_INDEX: &[Shape] = &[Shape::Optional(&LIST_A), Shape::Int];
const OPTIONAL_MAP_INDEX: &[Shape] = &[Shape::Optional(&MAP_AB), Shape::A];
const OPTIONAL_B: Shape = Shape::Optional(&Shape::B);

pub(crate) const SIGNATURES: &[Signature] = &[
    operator("!_", &[Shape::Bool], Shape::Bool, not),
    operator("-_", &[Shape::Double], Shape::Double, negate),
    operator("-_", &[Shape::Int], Shape::Int, negate),
    operator("_+_", &[Shape::Bytes, Shape::Bytes], Shape::Bytes, add),
    operator("_+_", &[Shape::Double, Shape::Double], Shape::Double, add),
    operator("_+_", &[Shape::Duration, Shape::Duration], Shape::Duration, add),
    operator("_+_", &[Shape::Duration, Shape::Timestamp], Shape::Timestamp, add),
    operator("_+_", &[Shape::Timestamp, Shape::Duration], Shape::Timestamp, add),
    operator("_+_", &[Shape::Int, Shape::Int], Shape::Int, add),
    operator("_+_", &[LIST_A, LIST_A], LIST_A, add),
    operator("_+_", &[Shape::Text, Shape::Text], Shape::Text, add),
    operator("_+_", &[Shape::Uint, Shape::Uint], Shape::Uint, add),
    operator("_-_", &[Shape::Double, Shape::Double], Shape::Double, subtract),
    operator("_-_", &[Shape::Duration, Shape::Duration], Shape::Duration, subtract),
    operator("_-_", &[Shape::Int, Shape::Int], Shape::Int, subtract),
    operator("_-_", &[Shape::Timestamp, Shape::Duration], Shape::Timestamp, subtract),
    operator("_-_", &[Shape::Timestamp, Shape::Timestamp], Shape::Duration, subtract),
    operator("_-_", &[Shape::Uint, Shape::Uint], Shape::Uint, subtract),
    operator("_*_", &[Shape::Double, Shape::Double], Shape::Double, multiply),
    operator("_*_", &[Shape::Int, Shape::Int], Shape::Int, multiply),
    operator("_*_", &[Shape::Uint, Shape::Uint], Shape::Uint, multiply),
    operator("_/_", &[Shape::Double, Shape::Double], Shape::Double, divide),
    operator("_/_", &[Shape::Int, Shape::Int], Shape::Int, divide),
    operator("_/_", &[Shape::Uint, Shape::Uint], Shape::Uint, divide),
    operator("_%_", &[Shape::Int, Shape::Int], Shape::Int, remainder),
    operator("_%_", &[Shape::Uint, Shape::Uint], Shape::Uint, remainder),
    operator("_==_", &[Shape::A, Shape::A], Shape::Bool, never),
    operator("_!=_", &[Shape::A, Shape::A], Shape::Bool, never),
    operator("@in", &[Shape::A, LIST_A], Shape::Bool, never),
    operator("@in", &[Shape::A, MAP_AB], Shape::Bool, never),
    operator("_?_:_", &[Shape::Bool, Shape::A, Shape::A], Shape::A, never),
    operator("_[_]", LIST_INDEX, Shape::A, never),
    operator("_[_]", MAP_INDEX, Shape::B, never),
    operator("_[_]", OPTIONAL_LIST_INDEX, OPTIONAL_A, never),
    operator("_[_]", OPTIONAL_MAP_INDEX, OPTIONAL_B, never),
    operator("_[?_]", LIST_INDEX, OPTIONAL_A, never),
    operator("_[?_]", OPTIONAL_LIST_INDEX, OPTIONAL_A, never),
    operator("_[?_]", MAP_INDEX, OPTIONAL_B, never),
    operator("_[?_]", OPTIONAL_MAP_INDEX, OPTIONAL_B, never),
];

fn never<'a>(_: &mut Meter<'_>, _: &[Value<'a>]) -> Evaluated<'a> {
    Err(EvalError::NoSuchOverload)
}

fn int<'a>(value: Option<i64>) -> Evaluated<'a> {
    value.map(Value::Int).ok_or_else(|| EvalError::failed("integer overflow"))
}

fn uint<'a>(value: Option<u64>) -> Evaluated<'a> {
    value.map(Value::Uint).ok_or_else(|| EvalError::failed("unsigned integer overflow"))
}

fn span<'a>(value: Option<i64>) -> Evaluated<'a> {
    value.map(Value::Duration).ok_or_else(|| EvalError::failed("duration overflow"))
}

fn point<'a>(value: Option<crate::time::Timestamp>) -> Evaluated<'a> {
    value.map(Value::Timestamp).ok_or_else(|| EvalError::failed("timestamp overflow"))
}

fn not<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Bool(value)] = args else { return Err(EvalError::NoSuchOverload) };
    Ok(Value::Bool(!value))
}

fn negate<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(value)] => int(value.checked_neg()),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        [Value::Duration(value)] => span(value.checked_neg()),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(super) fn add<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_add(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_add(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        [Value::Text(a), Value::Text(b)] => {
            meter.bytes(a.len() + b.len())?;
            Ok(Value::text([&**a, &**b].concat()))
        }
        [Value::Bytes(a), Value::Bytes(b)] => {
            meter.bytes(a.len() + b.len())?;
            Ok(Value::Bytes([&**a, &**b].concat().into()))
        }
        [Value::List(a), Value::List(b)] => {
            if a.items.is_empty() || b.items.is_empty() {
                return Ok(Value::List(Arc::clone(if a.items.is_empty() { b } else { a })));
            }
            meter.steps(a.items.len() + b.items.len())?;
            let items = a.items.iter().chain(&b.items).cloned().collect();
            Ok(Value::List(Arc::new(List { items, is_joined: true })))
        }
        [Value::Duration(a), Value::Duration(b)] => span(a.checked_add(*b)),
        [Value::Timestamp(at), Value::Duration(span)] | [Value::Duration(span), Value::Timestamp(at)] => {
            point(at.plus(*span))
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn subtract<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_sub(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_sub(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => span(a.checked_sub(*b)),
        [Value::Timestamp(at), Value::Duration(span)] => point(span.checked_neg().and_then(|back| at.plus(back))),
        [Value::Timestamp(a), Value::Timestamp(b)] => span(a.since(*b)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn multiply<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_mul(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_mul(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn divide<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(EvalError::failed("division by zero")),
        [Value::Int(a), Value::Int(b)] => int(a.checked_div(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_div(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn remainder<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(EvalError::failed("modulus by zero")),
        [Value::Int(a), Value::Int(b)] => int(a.checked_rem(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_rem(*b)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn ordering(meter: &mut Meter<'_>, args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    let [one, other] = args else { return Err(EvalError::NoSuchOverload) };
    if let (Value::Bytes(a), Value::Bytes(b)) = (one, other) {
        meter.bytes(a.len().min(b.len()))?;
    }
    order::compare(one, other)
}

fn less<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(ordering(meter, args)?.is_lt()))
}

fn less_or_equal<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(ordering(meter, args)?.is_le()))
}

fn greater<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(ordering(meter, args)?.is_gt()))
}

fn greater_or_equal<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(ordering(meter, args)?.is_ge()))
}
