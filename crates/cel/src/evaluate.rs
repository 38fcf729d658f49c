//! What an expression says of a device.

use crate::code::{At, Code, Node};
use crate::compile::borrowed;
use crate::device::Device;
use crate::equal;
use crate::error::EvalError;
use crate::library::sort;
use crate::look_up;
use crate::meter::Meter;
use crate::signatures::{Evaluated, Signature};
use crate::syntax::Access;
use crate::value::{Key, Map, Value};
use crate::view::{self, View};
use std::sync::Arc;

/// One evaluation. `'a` is how long both the program and the device live.
pub(crate) struct Machine<'a, 'm> {
    code: &'a Code,
    device: &'a Device<'a>,
    slots: Vec<Slot<'a>>,
    pub(crate) meter: Meter<'m>,
}

#[derive(Debug, Clone)]
enum Slot<'a> {
    Value(Value<'a>),
    /// Not asked for until now: evaluated at its first use, as upstream does.
    Late(At),
    Failed(EvalError),
}

/// Calls the first of the functions that takes the values.
pub(crate) fn call<'a>(meter: &mut Meter<'_>, candidates: &[&'static Signature], args: &[Value<'a>]) -> Evaluated<'a> {
    match candidates.iter().find(|candidate| candidate.takes(args)) {
        Some(found) => (found.run)(meter, args),
        None => Err(EvalError::NoSuchOverload),
    }
}

/// What upstream makes of an error in the argument of a fragile function.
fn broken(error: EvalError) -> EvalError {
    match error {
        EvalError::Budget | EvalError::Internal(_) | EvalError::Unsupported(_) => error,
        other => EvalError::Internal(other.to_string().into()),
    }
}

impl<'a, 'm> Machine<'a, 'm> {
    pub(crate) fn new(code: &'a Code, device: &'a Device<'a>, meter: Meter<'m>) -> Self {
        Self { code, device, slots: vec![Slot::Value(Value::Null); code.slots as usize], meter }
    }

    pub(crate) fn run(&mut self) -> Result<bool, EvalError> {
        match self.eval(self.code.root)? {
            Value::Bool(matches) => Ok(matches),
            other => Err(EvalError::NotBool(other.type_name())),
        }
    }

    pub(crate) fn set(&mut self, slot: u32, value: Value<'a>) {
        self.slots[slot as usize] = Slot::Value(value);
    }

    pub(crate) fn eval(&mut self, at: At) -> Evaluated<'a> {
        self.meter.step()?;
        match self.code.node(at) {
            Node::Constant(value) => Ok(value.clone()),
            Node::Text(text) => Ok(borrowed(text)),
            Node::Device => Ok(Value::View(View::new(self.device))),
            Node::Path(keys) => self.path(keys),
            Node::Slot(slot) => self.slot(*slot).map(Value::handed_on),
            Node::Select { operand, field, access } => self.select(*operand, field, *access),
            Node::Index { operand, index, optional } => self.index(*operand, *index, *optional),
            Node::And(terms) => self.chain(terms, false),
            Node::Or(terms) => self.chain(terms, true),
            Node::Conditional { condition, yes, no } => {
                let chosen = if self.condition(*condition)? { *yes } else { *no };
                self.eval(chosen).map(Value::handed_on)
            }
            Node::Equal { one, other, negated } => self.equal(*one, *other, *negated),
            Node::In { item, range } => self.membership(*item, *range),
            Node::InSet { item, set } => self.in_set(*item, set),
            Node::Call { candidates, args } => self.call(candidates, args),
            Node::Search { function, regex, args } => {
                let args = self.all(args)?;
                function.search(&mut self.meter, regex, &args)
            }
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Fold(fold) => self.fold(fold),
            Node::Bind { slot, init, body } => {
                self.slots[*slot as usize] = Slot::Late(*init);
                self.eval(*body)
            }
            Node::OptMap { target, slot, body, flat } => self.opt_map(*target, *slot, *body, *flat),
            Node::SortBy { target, slot, key, is_fragile } => {
                let sorted = self.sort_by(*target, *slot, *key);
                if *is_fragile { sorted.map_err(broken) } else { sorted }
            }
            Node::OptionalOr { target, other, is_value } => self.optional_or(*target, *other, *is_value),
        }
    }

    fn path(&mut self, keys: &'a [Box<str>]) -> Evaluated<'a> {
        self.meter.steps(keys.len())?;
        if let [part, domain, id] = keys
            && let Some(found) = view::direct(self.device, part, domain, id)
        {
            return found;
        }
        let mut view = View::new(self.device);
        for (at, key) in keys.iter().enumerate() {
            match view.find(key) {
                Some((Value::View(inner), _)) => view = inner,
                Some((mut found, _)) => {
                    for key in &keys[at + 1..] {
                        found = look_up::get(found, &borrowed(key), false)?;
                    }
                    return Ok(found);
                }
                None => return Err(EvalError::NoSuchKey(key.clone())),
            }
        }
        Ok(Value::View(view))
    }

    fn slot(&mut self, slot: u32) -> Evaluated<'a> {
        match &self.slots[slot as usize] {
            Slot::Value(value) => value.clone().sound(),
            Slot::Failed(error) => Err(error.clone()),
            Slot::Late(init) => {
                let found = self.eval(*init);
                self.slots[slot as usize] = match &found {
                    Ok(value) => Slot::Value(value.clone()),
                    Err(error) => Slot::Failed(error.clone()),
                };
                found
            }
        }
    }

    /// Whether it holds; what is no bool is an error.
    pub(crate) fn condition(&mut self, at: At) -> Result<bool, EvalError> {
        match self.eval(at)? {
            Value::Bool(value) => Ok(value),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    /// Both values, or the first error, unless the second is one that ends everything.
    fn both(&mut self, one: At, other: At) -> Result<[Value<'a>; 2], EvalError> {
        match (self.eval(one), self.eval(other)) {
            (Ok(one), Ok(other)) => Ok([one, other]),
            (_, Err(error)) if error.is_fatal() => Err(error),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    fn all(&mut self, ats: &[At]) -> Result<Vec<Value<'a>>, EvalError> {
        ats.iter().map(|at| self.eval(*at)).collect()
    }

    /// What a field or an index is looked up in. An optional is taken apart before the first of several look-ups.
    fn operand(&mut self, at: At) -> Evaluated<'a> {
        let operand = self.eval(at)?;
        let is_first = !matches!(self.code.node(at), Node::Select { .. } | Node::Index { .. });
        Ok(if is_first { operand.handed_on() } else { operand })
    }

    #[inline(never)]
    fn select(&mut self, operand: At, field: &'a str, access: Access) -> Evaluated<'a> {
        let operand = self.operand(operand)?;
        let field = borrowed(field);
        match access {
            Access::Plain => look_up::get(operand, &field, false),
            Access::Optional => look_up::get(operand, &field, true),
            Access::Test => look_up::test(operand, &field),
        }
    }

    #[inline(never)]
    fn index(&mut self, operand: At, index: At, optional: bool) -> Evaluated<'a> {
        let operand = self.operand(operand)?;
        if let Value::Optional(None) = operand {
            return Ok(operand);
        }
        let index = self.eval(index)?;
        look_up::get(operand, &index, optional)
    }

    /// The first term that decides, whatever errors there are before it; else the first error.
    #[inline(never)]
    fn chain(&mut self, terms: &[At], decides: bool) -> Evaluated<'a> {
        let mut error = None;
        for term in terms {
            match self.condition(*term) {
                Ok(value) if value == decides => return Ok(Value::Bool(decides)),
                Ok(_) => {}
                Err(found) if found.is_fatal() => return Err(found),
                Err(found) => error = error.or(Some(found)),
            }
        }
        error.map_or(Ok(Value::Bool(!decides)), Err)
    }

    #[inline(never)]
    fn equal(&mut self, one: At, other: At, negated: bool) -> Evaluated<'a> {
        let (one, other) = (self.eval(one), self.eval(other));
        let (one, other) = match (&one, &other) {
            (Ok(one), Ok(other)) => (one, other),
            (_, Err(error)) if error.is_fatal() => return Err(error.clone()),
            (Err(error), _) | (_, Err(error)) => return Err(error.clone()),
        };
        match equal::equal(&mut self.meter, one, other) {
            Ok(equal) => Ok(Value::Bool(equal != negated)),
            // What cannot be compared is not equal, says upstream's `!=`, and its `==` says that it cannot be compared.
            Err(error) if negated && !error.is_fatal() && !error.is_unsupported() => Ok(Value::Bool(true)),
            Err(error) => Err(error),
        }
    }

    #[inline(never)]
    fn membership(&mut self, item: At, range: At) -> Evaluated<'a> {
        let [item, range] = self.both(item, range)?;
        match &range {
            Value::List(list) => equal::contains(&mut self.meter, &list.items, &item).map(Value::Bool),
            // Upstream's maps hash the key.
            Value::Map(_) if matches!(item, Value::Bytes(_) | Value::Semver(_)) && equal::size(&range) > 0 => {
                Err(EvalError::unhashable(item.type_name()))
            }
            Value::Map(_) | Value::View(_) => Ok(Value::Bool(equal::has_key(&range, &item))),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    #[inline(never)]
    fn in_set(&mut self, item: At, set: &[Value<'static>]) -> Evaluated<'a> {
        let item = self.eval(item)?;
        if matches!(item, Value::Bytes(_) | Value::Semver(_)) {
            return Err(EvalError::unhashable(item.type_name()));
        }
        equal::contains(&mut self.meter, set, &item).map(Value::Bool)
    }

    #[inline(never)]
    fn call(&mut self, candidates: &[&'static Signature], args: &[At]) -> Evaluated<'a> {
        match args {
            [one] => {
                let arg = self.eval(*one);
                if let [Signature { is_fragile: true, .. }] = candidates
                    && !matches!(arg, Ok(Value::List(_)))
                {
                    return Err(broken(arg.err().unwrap_or(EvalError::NoSuchOverload)));
                }
                call(&mut self.meter, candidates, &[arg?])
            }
            [one, other] => {
                // Where upstream has yet to choose among several functions, it looks no further than the first error.
                let is_chosen = candidates.len() == 1 || candidates.iter().any(|candidate| !candidate.is_guarded);
                let args = if is_chosen { self.both(*one, *other)? } else { [self.eval(*one)?, self.eval(*other)?] };
                call(&mut self.meter, candidates, &args)
            }
            more => {
                let args = self.all(more)?;
                call(&mut self.meter, candidates, &args)
            }
        }
    }

    /// The value of an element, or nothing if that is an empty optional.
    fn element(&mut self, at: At, optional: bool) -> Result<Option<Value<'a>>, EvalError> {
        match self.eval(at)? {
            value if !optional => Ok(Some(value)),
            Value::Optional(value) => Ok(value.map(|value| (*value).clone())),
            other => Err(EvalError::failed(format!(
                "cannot initialize optional element from non-optional value of type {}",
                other.type_name()
            ))),
        }
    }

    #[inline(never)]
    fn list(&mut self, items: &[(At, bool)]) -> Evaluated<'a> {
        let mut found = Vec::with_capacity(items.len());
        for (item, optional) in items {
            found.extend(self.element(*item, *optional)?);
        }
        Ok(Value::list(found))
    }

    #[inline(never)]
    fn map(&mut self, entries: &[(At, At, bool)]) -> Evaluated<'a> {
        let mut found = Map::new();
        for (key, value, optional) in entries {
            let key = self.eval(*key)?;
            let value = self.element(*value, *optional)?;
            let key = Key::new(&key)?;
            // A later entry takes the place of an earlier one, also by being empty.
            match value {
                Some(value) => found.insert(key, value),
                None => found.remove(&key),
            };
        }
        Ok(Value::Map(Arc::new(found)))
    }

    #[inline(never)]
    fn opt_map(&mut self, target: At, slot: u32, body: At, flat: bool) -> Evaluated<'a> {
        match self.eval(target)? {
            Value::Optional(Some(value)) => {
                // The variable is looked at only where it is used.
                self.set(slot, (*value).clone());
                let made = self.eval(body)?;
                Ok(if flat { made } else { Value::some(made) }.handed_on())
            }
            none @ Value::Optional(None) => Ok(none),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    #[inline(never)]
    fn sort_by(&mut self, target: At, slot: u32, key: At) -> Evaluated<'a> {
        let target = self.eval(target)?;
        let mut keys = Vec::new();
        for (first, _) in self.elements(&target)? {
            self.set(slot, first);
            keys.push(self.eval(key)?);
        }
        sort::by_keys(&mut self.meter, &[target, Value::list(keys)])
    }

    #[inline(never)]
    fn optional_or(&mut self, target: At, other: At, is_value: bool) -> Evaluated<'a> {
        match self.eval(target)? {
            Value::Optional(Some(value)) if is_value => (*value).clone().sound(),
            Value::Optional(None) => self.eval(other),
            found => Ok(found),
        }
    }
}
