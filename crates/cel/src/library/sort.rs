//! `sort` and `sortBy`.

use crate::error::EvalError;
use crate::meter::Meter;
use crate::order;
use crate::signatures::{Evaluated, LIST_A, Shape, Signature};
use crate::value::Value;
use std::cmp::Ordering;

/// The call that `sortBy` ends with: a list and the keys of its items.
pub(crate) const BY_KEYS: &str = "@sortByAssociatedKeys";

macro_rules! of_ordered {
    ($($of:ident)*) => {
        &[
            $(Signature::member("sort", &[Shape::List(&Shape::$of)], Shape::List(&Shape::$of), sort).unguarded().fragile(),)*
            $(Signature::member(BY_KEYS, &[LIST_A, Shape::List(&Shape::$of)], LIST_A, by_keys).unguarded().fragile(),)*
        ]
    };
}

pub(crate) const SIGNATURES: &[Signature] = of_ordered!(Int Uint Double Bool Duration Timestamp Text Bytes);

fn sort<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [list] = args else { return Err(EvalError::NoSuchOverload) };
    by_keys(meter, &[list.clone(), list.clone()])
}

pub(crate) fn by_keys<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list), Value::List(keys)] = args else { return Err(EvalError::NoSuchOverload) };
    let (items, keys) = (&list.items, &keys.items);
    let Some(first) = keys.first() else { return Ok(Value::List(std::sync::Arc::clone(list))) };
    if !order::is_ordered(first) {
        return Err(EvalError::failed("list elements must be comparable"));
    }
    // Upstream finds unlike keys only when it compares them, which it does not with a list of one.
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(EvalError::failed("list elements must have the same type"));
    }
    meter.steps(items.len().saturating_mul(items.len().ilog2() as usize + 1))?;
    let mut order: Vec<usize> = (0..items.len().min(keys.len())).collect();
    order.sort_by(|a, b| order::compare(&keys[*a], &keys[*b]).unwrap_or(Ordering::Equal));
    Ok(Value::list(order.into_iter().map(|at| items[at].clone()).collect()))
}
