//! Lists, from the extensions of CEL and from Kubernetes.

use crate::equal;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::order;
use crate::signatures::{Evaluated, LIST_A, OPTIONAL_A, Run, Shape, Signature};
use crate::value::{List, Value};
use std::cmp::Ordering;

const LIST_LIST_A: Shape = Shape::List(&LIST_A);
const DYNS: Shape = Shape::List(&Shape::Dyn);

const fn member(name: &'static str, args: &'static [Shape], result: Shape, run: Run) -> Signature {
    Signature::member(name, args, result, run)
}

/// A member of lists of each type that has an order.
macro_rules! of_ordered {
    ($name:literal, $run:ident, $($result:tt)*) => { of_ordered!(@ $name, $run, [$($result)*]
        Int Uint Double Bool Duration Timestamp Text Bytes) };
    (@ $name:literal, $run:ident, $result:tt $($of:ident)*) => {
        &[$(member($name, &[Shape::List(&Shape::$of)], of_ordered!(# $result $of), $run)),*]
    };
    (# [bool] $of:ident) => { Shape::Bool };
    (# [same] $of:ident) => { Shape::$of };
}

pub(crate) const SORTED: &[Signature] = of_ordered!("isSorted", is_sorted, bool);
pub(crate) const MIN: &[Signature] = of_ordered!("min", min, same);
pub(crate) const MAX: &[Signature] = of_ordered!("max", max, same);

pub(crate) const SIGNATURES: &[Signature] = &[
    member("sum", &[Shape::List(&Shape::Int)], Shape::Int, sum_of_ints),
    member("sum", &[Shape::List(&Shape::Uint)], Shape::Uint, sum_of_uints),
    member("sum", &[Shape::List(&Shape::Double)], Shape::Double, sum_of_doubles),
    member("sum", &[Shape::List(&Shape::Duration)], Shape::Duration, sum_of_durations),
    member("indexOf", &[LIST_A, Shape::A], Shape::Int, index_of),
    member("lastIndexOf", &[LIST_A, Shape::A], Shape::Int, last_index_of),
    member("slice", &[LIST_A, Shape::Int, Shape::Int], LIST_A, slice),
    member("flatten", &[LIST_LIST_A], LIST_A, flatten).unguarded(),
    member("flatten", &[DYNS, Shape::Int], DYNS, flatten).unguarded(),
    Signature::global("lists.range", &[Shape::Int], Shape::List(&Shape::Int), range),
    member("reverse", &[LIST_A], LIST_A, reverse),
    member("distinct", &[LIST_A], LIST_A, distinct).fragile(),
    member("first", &[LIST_A], OPTIONAL_A, first),
    member("last", &[LIST_A], OPTIONAL_A, last),
    // Of the devices' own library: a value is read as a list of one.
    member("includes", &[Shape::Dyn, Shape::Dyn], Shape::Bool, includes),
];

/// The values that an attribute may list; longer lists are refused.
const MOST_INCLUDED: usize = 48;

fn items<'v, 'a>(args: &'v [Value<'a>]) -> Result<&'v List<'a>, EvalError> {
    match args.first() {
        Some(Value::List(list)) => Ok(list),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn is_sorted<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let items = &items(args)?.items;
    meter.steps(items.len())?;
    for (at, item) in items.iter().enumerate() {
        if !order::is_ordered(item) {
            return Err(EvalError::NoSuchOverload);
        }
        // What cannot be compared is no disorder.
        if at > 0 && order::compare(&items[at - 1], item).is_ok_and(Ordering::is_gt) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn min<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    extreme(meter, args, "min", Ordering::Greater)
}

fn max<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    extreme(meter, args, "max", Ordering::Less)
}

/// The first item that no later one replaces: one does if the item found so far compares to it like this.
fn extreme<'a>(meter: &mut Meter<'_>, args: &[Value<'a>], name: &str, replaced: Ordering) -> Evaluated<'a> {
    let items = &items(args)?.items;
    meter.steps(items.len())?;
    let mut found: Option<&Value<'a>> = None;
    for item in items {
        if !order::is_ordered(item) {
            return Err(EvalError::NoSuchOverload);
        }
        if found.is_none_or(|found| order::compare(found, item) == Ok(replaced)) {
            found = Some(item);
        }
    }
    found.cloned().ok_or_else(|| EvalError::failed(format!("{name} called on empty list")))
}

fn sum_of_ints<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    sum(meter, args, Value::Int(0))
}

fn sum_of_uints<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    sum(meter, args, Value::Uint(0))
}

fn sum_of_doubles<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    sum(meter, args, Value::Double(0.0))
}

fn sum_of_durations<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    sum(meter, args, Value::Duration(0))
}

fn sum<'a>(meter: &mut Meter<'_>, args: &[Value<'a>], zero: Value<'a>) -> Evaluated<'a> {
    let items = &items(args)?.items;
    meter.steps(items.len())?;
    items.iter().try_fold(zero, |sum, item| super::operators::add(meter, &[sum, item.clone()]))
}

fn position<'a>(meter: &mut Meter<'_>, item: &Value<'a>, wanted: &Value<'a>) -> Result<bool, EvalError> {
    match equal::equal(meter, item, wanted) {
        Err(error) if !error.is_fatal() => Ok(false),
        other => other,
    }
}

fn index_of<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list), wanted] = args else { return Err(EvalError::NoSuchOverload) };
    for (at, item) in list.items.iter().enumerate() {
        if position(meter, item, wanted)? {
            return Ok(Value::Int(at as i64));
        }
    }
    Ok(Value::Int(-1))
}

fn last_index_of<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list), wanted] = args else { return Err(EvalError::NoSuchOverload) };
    for (at, item) in list.items.iter().enumerate().rev() {
        if position(meter, item, wanted)? {
            return Ok(Value::Int(at as i64));
        }
    }
    Ok(Value::Int(-1))
}

fn slice<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else { return Err(EvalError::NoSuchOverload) };
    let bounds = usize::try_from(*start).ok().zip(usize::try_from(*end).ok());
    let Some(found) = bounds.and_then(|(start, end)| list.items.get(start..end)) else {
        return Err(EvalError::failed(format!("cannot slice({start}, {end}), list is length {}", list.items.len())));
    };
    meter.steps(found.len())?;
    Ok(Value::list(found.to_vec()))
}

fn flatten<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return Err(EvalError::NoSuchOverload),
    };
    let depth = u64::try_from(depth).map_err(|_| EvalError::failed("level must be non-negative"))?;
    let mut flat = Vec::new();
    flatten_into(meter, list, depth, &mut flat)?;
    Ok(Value::list(flat))
}

fn flatten_into<'a>(
    meter: &mut Meter<'_>,
    list: &List<'a>,
    depth: u64,
    flat: &mut Vec<Value<'a>>,
) -> Result<(), EvalError> {
    for item in &list.items {
        meter.step()?;
        match item {
            Value::List(inner) if depth > 0 => flatten_into(meter, inner, depth - 1, flat)?,
            other => flat.push(other.clone()),
        }
    }
    Ok(())
}

fn range<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Int(end)] = args else { return Err(EvalError::NoSuchOverload) };
    meter.steps(usize::try_from(*end).unwrap_or(0))?;
    Ok(Value::list((0..*end).map(Value::Int).collect()))
}

fn reverse<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let items = &items(args)?.items;
    meter.steps(items.len())?;
    Ok(Value::list(items.iter().rev().cloned().collect()))
}

fn distinct<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let mut found: Vec<Value<'a>> = Vec::new();
    for item in &items(args)?.items {
        if !equal::contains(meter, &found, item)? {
            found.push(item.clone());
        }
    }
    Ok(Value::list(found))
}

fn first<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(items(args)?.items.first().map_or(Value::Optional(None), |item| Value::some(item.clone())))
}

fn last<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(items(args)?.items.last().map_or(Value::Optional(None), |item| Value::some(item.clone())))
}

fn includes<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::List(list), wanted] => {
            let looked_at = &list.items[..list.items.len().min(MOST_INCLUDED)];
            for item in looked_at {
                if position(meter, item, wanted)? {
                    return Ok(Value::Bool(true));
                }
            }
            if list.items.len() > MOST_INCLUDED {
                let text = "'includes' function cannot be applied to lists longer than 48 values";
                return Err(EvalError::failed(text));
            }
            Ok(Value::Bool(false))
        }
        [value, wanted] => position(meter, value, wanted).map(Value::Bool),
        _ => Err(EvalError::NoSuchOverload),
    }
}
