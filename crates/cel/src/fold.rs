//! The macros that go over a list or a map.

use crate::code::Fold;
use crate::equal;
use crate::error::EvalError;
use crate::evaluate::Machine;
use crate::signatures::Evaluated;
use crate::syntax::Make;
use crate::value::{Key, Map, Value};
use std::sync::Arc;

impl<'a> Machine<'a, '_> {
    /// What a range has: items, with themselves, or keys with their values.
    pub(crate) fn elements(&mut self, range: &Value<'a>) -> Result<Vec<(Value<'a>, Value<'a>)>, EvalError> {
        match range {
            Value::List(list) => {
                self.meter.steps(list.items.len())?;
                Ok(list.items.iter().map(|item| (item.clone(), item.clone())).collect())
            }
            Value::Map(_) | Value::View(_) => equal::entries(&mut self.meter, range),
            other => Err(EvalError::failed(format!("got '{}', expected iterable type", other.type_name()))),
        }
    }

    #[inline(never)]
    pub(crate) fn fold(&mut self, fold: &'a Fold) -> Evaluated<'a> {
        let range = self.eval(fold.range)?;
        let mut elements = self.elements(&range)?;
        if fold.has_second && matches!(range, Value::List(_)) {
            for (at, (first, _)) in elements.iter_mut().enumerate() {
                *first = Value::Int(at as i64);
            }
        }
        match fold.make {
            Make::All => self.quantify(fold, elements, false),
            Make::Exists => self.quantify(fold, elements, true),
            Make::ExistsOne => self.exactly_one(fold, elements),
            Make::List => self.gather(fold, elements),
            Make::Values | Make::Entries => self.gather_map(fold, elements),
        }
    }

    fn bind(&mut self, fold: &Fold, (first, second): (Value<'a>, Value<'a>)) {
        self.set(fold.slot, first);
        if fold.has_second {
            self.set(fold.slot + 1, second);
        }
    }

    /// Whether an element decides; if none does, the first error counts.
    fn quantify(&mut self, fold: &Fold, elements: Vec<(Value<'a>, Value<'a>)>, decides: bool) -> Evaluated<'a> {
        let mut error = None;
        for element in elements {
            self.bind(fold, element);
            match self.condition(fold.body) {
                Ok(value) if value == decides => return Ok(Value::Bool(decides)),
                Ok(_) => {}
                Err(found) if found.is_fatal() => return Err(found),
                Err(found) => error = error.or(Some(found)),
            }
        }
        error.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn exactly_one(&mut self, fold: &Fold, elements: Vec<(Value<'a>, Value<'a>)>) -> Evaluated<'a> {
        let mut count = 0;
        for element in elements {
            self.bind(fold, element);
            count += u32::from(self.condition(fold.body)?);
        }
        Ok(Value::Bool(count == 1))
    }

    fn is_kept(&mut self, fold: &Fold) -> Result<bool, EvalError> {
        fold.filter.map_or(Ok(true), |filter| self.condition(filter))
    }

    fn gather(&mut self, fold: &Fold, elements: Vec<(Value<'a>, Value<'a>)>) -> Evaluated<'a> {
        let mut found = Vec::new();
        for element in elements {
            self.bind(fold, element);
            if self.is_kept(fold)? {
                found.push(self.eval(fold.body)?);
            }
        }
        Ok(Value::list(found))
    }

    fn gather_map(&mut self, fold: &Fold, elements: Vec<(Value<'a>, Value<'a>)>) -> Evaluated<'a> {
        let mut found = Map::new();
        for element in elements {
            let key = element.0.clone();
            self.bind(fold, element);
            if !self.is_kept(fold)? {
                continue;
            }
            let made = self.eval(fold.body)?;
            let entries = match (fold.make, &made) {
                (Make::Values, _) => vec![(key, made)],
                (_, Value::Map(_) | Value::View(_)) => equal::entries(&mut self.meter, &made)?,
                _ => return Err(EvalError::NoSuchOverload),
            };
            for (key, value) in entries {
                if equal::find_in(&found, &key).is_some() {
                    return Err(EvalError::failed("insert failed: key already exists"));
                }
                found.insert(Key::new(&key)?, value);
            }
        }
        Ok(Value::Map(Arc::new(found)))
    }
}
