//! From a checked tree to code, with everything computed that does not depend on the device.

use crate::check::{Checked, Fact};
use crate::code::{At, Code, Fold, Node};
use crate::error::CompileError;
use crate::evaluate;
use crate::library::regex::Function;
use crate::look_up;
use crate::meter::Meter;
use crate::signatures::Signature;
use crate::syntax::{Access, Expr, Id, Literal, Tree};
use crate::text::Text;
use crate::validate;
use crate::value::{Key, Value};
use std::sync::Arc;

/// The steps that one constant may take.
const CONSTANT_STEPS: u64 = 100_000;

/// Functions that are worth calling once instead of for each device.
const FOLDED: [&str; 7] = ["quantity", "semver", "ip", "cidr", "url", "isSemver", "isQuantity"];

pub(crate) fn compile(tree: &Tree, checked: &Checked, root: Id) -> Result<Code, CompileError> {
    let mut compiler = Compiler { tree, checked, nodes: Vec::new(), constants: Vec::new() };
    let root = compiler.expr(root)?;
    Ok(Code { nodes: compiler.nodes, root, slots: checked.slots })
}

/// Whose constant a node is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Constant {
    No,
    /// Ours: upstream computes it each time.
    Folded,
    /// Upstream's, too, which looks for these before it evaluates anything.
    Known,
}

struct Compiler<'t> {
    tree: &'t Tree,
    checked: &'t Checked,
    nodes: Vec<Node>,
    constants: Vec<Constant>,
}

impl Compiler<'_> {
    fn add(&mut self, node: Node) -> At {
        self.add_constant(node, Constant::No)
    }

    fn add_constant(&mut self, node: Node, constant: Constant) -> At {
        let at = At(self.nodes.len() as u32);
        self.nodes.push(node);
        self.constants.push(constant);
        at
    }

    fn constant_at(&self, at: At) -> Constant {
        self.constants[at.0 as usize]
    }

    /// The value of a node that is a constant.
    fn value(&self, at: At) -> Option<Value<'static>> {
        match &self.nodes[at.0 as usize] {
            Node::Constant(value) => Some(value.clone()),
            Node::Text(text) => Some(Value::text(&**text)),
            _ => None,
        }
    }

    /// What the constants have in common, and their values if all are some.
    fn values(&self, ats: &[At]) -> Option<(Constant, Vec<Value<'static>>)> {
        let values: Vec<_> = ats.iter().map(|at| self.value(*at)).collect::<Option<_>>()?;
        let is_known = ats.iter().all(|at| self.constant_at(*at) == Constant::Known);
        Some((if is_known { Constant::Known } else { Constant::Folded }, values))
    }

    fn exprs(&mut self, ids: &[Id]) -> Result<Box<[At]>, CompileError> {
        ids.iter().map(|id| self.expr(*id)).collect()
    }

    fn fact(&self, id: Id) -> &Fact {
        &self.checked.facts[id.0 as usize]
    }

    fn slot(&self, id: Id) -> u32 {
        if let Fact::Introduces(slot) | Fact::Slot(slot) | Fact::Sorts { slot, .. } = self.fact(id) { *slot } else { 0 }
    }

    fn expr(&mut self, id: Id) -> Result<At, CompileError> {
        let node = match self.tree.get(id) {
            Expr::Literal(literal) => return Ok(self.literal(literal)),
            Expr::Ident(_) | Expr::Select { .. } if let Fact::Type(name) = self.fact(id) => {
                let node = Node::Constant(Value::Type(name));
                return Ok(self.add_constant(node, Constant::Known));
            }
            Expr::Ident(_) => self.name(id),
            Expr::Select { operand, field, access } => {
                let operand = self.expr(*operand)?;
                match self.path(operand, field).filter(|_| *access == Access::Plain) {
                    Some(path) => path,
                    None => Node::Select { operand, field: field.clone(), access: *access },
                }
            }
            Expr::Index { operand, index, optional } => {
                let (operand, index) = (self.expr(*operand)?, self.expr(*index)?);
                if self.constant_at(index) == Constant::Known
                    && let Some(value) = self.value(index)
                {
                    look_up::check_key(&value).map_err(validate::of_constant)?;
                }
                let path =
                    if let Node::Text(key) = &self.nodes[index.0 as usize] { self.path(operand, key) } else { None };
                match path.filter(|_| !optional) {
                    Some(path) => path,
                    None => Node::Index { operand, index, optional: *optional },
                }
            }
            Expr::Call { name, target, args } => return self.call(id, name, *target, args),
            Expr::List(items) => return self.list(items),
            Expr::Map(entries) => return self.map(entries),
            Expr::And(terms) => Node::And(self.exprs(terms)?),
            Expr::Or(terms) => Node::Or(self.exprs(terms)?),
            Expr::Conditional { condition, yes, no } => {
                Node::Conditional { condition: self.expr(*condition)?, yes: self.expr(*yes)?, no: self.expr(*no)? }
            }
            Expr::Fold(fold) => Node::Fold(Fold {
                make: fold.make,
                range: self.expr(fold.range)?,
                slot: self.slot(id),
                has_second: fold.second.is_some(),
                filter: fold.filter.map(|filter| self.expr(filter)).transpose()?,
                body: self.expr(fold.body)?,
            }),
            Expr::Bind { init, body, .. } => {
                Node::Bind { slot: self.slot(id), init: self.expr(*init)?, body: self.expr(*body)? }
            }
            Expr::OptMap { target, body, flat, .. } => {
                let (target, body) = (self.expr(*target)?, self.expr(*body)?);
                Node::OptMap { target, slot: self.slot(id), body, flat: *flat }
            }
            Expr::SortBy { target, key, .. } => {
                let (target, key) = (self.expr(*target)?, self.expr(*key)?);
                let is_fragile = matches!(self.fact(id), Fact::Sorts { is_fragile: true, .. });
                Node::SortBy { target, slot: self.slot(id), key, is_fragile }
            }
        };
        Ok(self.add(node))
    }

    /// The path that goes on from a path, or from the device, with this key.
    fn path(&self, operand: At, key: &str) -> Option<Node> {
        let before: &[Box<str>] = match &self.nodes[operand.0 as usize] {
            Node::Device => &[],
            Node::Path(keys) => keys,
            _ => return None,
        };
        Some(Node::Path(before.iter().cloned().chain([key.into()]).collect()))
    }

    fn name(&self, id: Id) -> Node {
        match self.fact(id) {
            Fact::Device => Node::Device,
            _ => Node::Slot(self.slot(id)),
        }
    }

    fn literal(&mut self, literal: &Literal) -> At {
        let node = match literal {
            Literal::Text(text) => Node::Text(text.clone()),
            Literal::Null => Node::Constant(Value::Null),
            Literal::Bool(value) => Node::Constant(Value::Bool(*value)),
            Literal::Int(value) => Node::Constant(Value::Int(*value)),
            Literal::Uint(value) => Node::Constant(Value::Uint(*value)),
            Literal::Double(value) => Node::Constant(Value::Double(*value)),
            Literal::Bytes(bytes) => Node::Constant(Value::Bytes((**bytes).into())),
        };
        self.add_constant(node, Constant::Known)
    }

    fn list(&mut self, items: &[(Id, bool)]) -> Result<At, CompileError> {
        let items: Box<[(At, bool)]> = items
            .iter()
            .map(|(item, optional)| Ok((self.expr(*item)?, *optional)))
            .collect::<Result<_, CompileError>>()?;
        let ats: Vec<At> = items.iter().map(|(at, _)| *at).collect();
        if items.iter().all(|(_, optional)| !optional)
            && let Some((constant, values)) = self.values(&ats)
        {
            return Ok(self.add_constant(Node::Constant(Value::list(values)), constant));
        }
        Ok(self.add(Node::List(items)))
    }

    fn map(&mut self, entries: &[(Id, Id, bool)]) -> Result<At, CompileError> {
        let entry = |(key, value, optional): &(Id, Id, bool)| Ok((self.expr(*key)?, self.expr(*value)?, *optional));
        let entries: Box<[(At, At, bool)]> = entries.iter().map(entry).collect::<Result<_, CompileError>>()?;
        let keys: Vec<At> = entries.iter().map(|(key, ..)| *key).collect();
        let values: Vec<At> = entries.iter().map(|(_, value, _)| *value).collect();
        if entries.iter().all(|(.., optional)| !optional)
            && let (Some((of_keys, keys)), Some((of_values, values))) = (self.values(&keys), self.values(&values))
            && let Ok(keys) = keys.iter().map(Key::new).collect::<Result<Vec<_>, _>>()
        {
            let is_known = of_keys == Constant::Known && of_values == Constant::Known;
            let constant = if is_known { Constant::Known } else { Constant::Folded };
            let map = keys.into_iter().zip(values).collect();
            return Ok(self.add_constant(Node::Constant(Value::Map(Arc::new(map))), constant));
        }
        Ok(self.add(Node::Map(entries)))
    }

    fn call(&mut self, id: Id, name: &str, target: Option<Id>, args: &[Id]) -> Result<At, CompileError> {
        let Fact::Call { candidates, is_qualified } = self.fact(id).clone() else {
            return Err(CompileError::refused(format!("undeclared reference to '{name}'")));
        };
        let target = target.filter(|_| !is_qualified);
        let ids: Vec<Id> = target.into_iter().chain(args.iter().copied()).collect();
        let ats = self.exprs(&ids)?;
        match (name, &*ats) {
            ("_==_" | "_!=_", [one, other]) => {
                Ok(self.add(Node::Equal { one: *one, other: *other, negated: name == "_!=_" }))
            }
            ("@in", [item, range]) => Ok(self.membership(*item, *range)),
            ("or" | "orValue", [target, other]) => {
                Ok(self.add(Node::OptionalOr { target: *target, other: *other, is_value: name == "orValue" }))
            }
            _ => self.function(name, candidates, ats),
        }
    }

    fn function(
        &mut self,
        name: &str,
        candidates: Box<[&'static Signature]>,
        args: Box<[At]>,
    ) -> Result<At, CompileError> {
        if let Some(function) = Function::named(name)
            && let Some(pattern) = args.get(1).filter(|at| self.constant_at(**at) == Constant::Known)
            && let Some(Value::Text(pattern)) = self.value(*pattern)
        {
            let regex = validate::pattern(&pattern)?;
            return Ok(self.add(Node::Search { function, regex, args }));
        }
        if let Some((constant, values)) = self.values(&args) {
            let is_early = validate::is_evaluated_early(name, values.len());
            if is_early || FOLDED.contains(&name) {
                let mut steps = CONSTANT_STEPS;
                let result = evaluate::call(&mut Meter::new(&mut steps), &candidates, &values);
                match result {
                    Ok(value) => {
                        let constant = if is_early { constant } else { Constant::Folded };
                        return Ok(self.add_constant(Node::Constant(value), constant));
                    }
                    Err(error) if is_early && constant == Constant::Known => return Err(validate::of_constant(error)),
                    // An error at each evaluation, then, and only where it is reached.
                    Err(_) => {}
                }
            }
        }
        Ok(self.add(Node::Call { candidates, args }))
    }

    fn membership(&mut self, item: At, range: At) -> At {
        let known = self.constant_at(range) == Constant::Known;
        if known && let Some(Value::List(list)) = self.value(range) {
            let is_simple = |value: &Value<'_>| {
                matches!(value, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Text(_))
            };
            // Nothing is in nothing, whatever looking at the item would say.
            if list.items.is_empty() {
                return self.add_constant(Node::Constant(Value::Bool(false)), Constant::Known);
            }
            if list.items.iter().all(is_simple) {
                return self.add(Node::InSet { item, set: list.items.clone().into() });
            }
        }
        self.add(Node::In { item, range })
    }
}

/// Borrows what is in the program.
pub(crate) const fn borrowed(text: &str) -> Value<'_> {
    Value::Text(Text::Borrowed(text))
}
