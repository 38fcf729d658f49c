//! Which function each call means and which type each expression has. After `checker/checker.go` of cel-go.
//!
//! Some of what upstream does at run time depends on it: which ways to call a function are tried, and where a constant is refused.

use crate::error::CompileError;
use crate::library::sort;
use crate::signatures::{self, Signature};
use crate::syntax::{Access, Expr, Fold, Id, Literal, Make, Tree};
use crate::types::{Substitution, Type};

/// What the checker found out about an expression beside its type.
#[derive(Debug, Clone)]
pub(crate) enum Fact {
    Nothing,
    /// The variable in this slot.
    Slot(u32),
    Device,
    /// The name of a type.
    Type(&'static str),
    Call {
        candidates: Box<[&'static Signature]>,
        /// Whether the target is a part of the function's name.
        is_qualified: bool,
    },
    /// As `Introduces`, and whether the call that sorts is one that [`Signature::is_fragile`] speaks of.
    Sorts {
        slot: u32,
        is_fragile: bool,
    },
    /// The slot of the variable that the expression introduces; that of a second one follows it.
    Introduces(u32),
}

/// A tree with all that is known of it.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) types: Vec<Type>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) slots: u32,
    pub(crate) substitution: Substitution,
}

pub(crate) fn check(tree: &Tree, root: Id) -> Result<Checked, CompileError> {
    let mut checker = Checker {
        tree,
        types: vec![Type::Dyn; tree.len()],
        facts: vec![Fact::Nothing; tree.len()],
        substitution: Substitution::new(),
        scope: Vec::new(),
        slots: 0,
    };
    checker.visit(root)?;
    let Checker { mut types, facts, mut substitution, slots, .. } = checker;
    for of in &mut types {
        *of = substitution.apply(of, true)?;
    }
    Ok(Checked { types, facts, slots, substitution })
}

struct Checker<'t> {
    tree: &'t Tree,
    types: Vec<Type>,
    facts: Vec<Fact>,
    substitution: Substitution,
    /// The variables, the innermost last, with their types and slots. Each has a slot of its own: one that is bound late must find
    /// the others as they were.
    scope: Vec<(&'t str, Type, u32)>,
    slots: u32,
}

fn mismatch(expected: &Type, found: &Type) -> CompileError {
    CompileError::refused(format!("expected type '{expected}' but found '{found}'"))
}

/// The type that a name stands for, where it is one.
fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::Text,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "type" => Type::Meta(Type::Dyn.into()),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "optional_type" => Type::optional(Type::Dyn),
        "net.IP" => Type::Ip,
        "net.CIDR" => Type::Cidr,
        _ => return None,
    })
}

/// The name that a value gives its type, which of `null` is another one.
fn value_name(of: &Type) -> &'static str {
    if *of == Type::Null { "null_type" } else { of.name() }
}

impl<'t> Checker<'t> {
    fn type_of(&self, id: Id) -> Type {
        self.types[id.0 as usize].clone()
    }

    /// Its type, as far as it is known by now.
    fn known_type_of(&mut self, id: Id) -> Result<Type, CompileError> {
        let of = self.type_of(id);
        self.substitution.apply(&of, false)
    }

    fn set(&mut self, id: Id, of: Type, fact: Fact) {
        self.types[id.0 as usize] = of;
        self.facts[id.0 as usize] = fact;
    }

    fn introduce(&mut self, name: &'t str, of: Type) -> u32 {
        let slot = self.slots;
        self.slots += 1;
        self.scope.push((name, of, slot));
        slot
    }

    fn require(&mut self, id: Id, expected: &Type) -> Result<(), CompileError> {
        let found = self.type_of(id);
        if self.substitution.attempt(&[(&found, expected)])? {
            return Ok(());
        }
        Err(mismatch(expected, &found))
    }

    fn visit(&mut self, id: Id) -> Result<(), CompileError> {
        let tree = self.tree;
        match tree.get(id) {
            Expr::Literal(literal) => self.set(id, of_literal(literal), Fact::Nothing),
            Expr::Ident(name) => self.ident(id, name)?,
            Expr::Select { operand, field, access } => self.select(id, *operand, field, *access)?,
            Expr::Index { operand, index, optional } => {
                self.visit(*operand)?;
                self.visit(*index)?;
                let name = if *optional { "_[?_]" } else { "_[_]" };
                self.operator(id, name, &[*operand, *index])?;
            }
            Expr::Call { name, target, args } => self.call(id, name, *target, args)?,
            Expr::List(items) => self.list(id, items)?,
            Expr::Map(entries) => self.map(id, entries)?,
            Expr::And(terms) | Expr::Or(terms) => {
                for term in terms {
                    self.visit(*term)?;
                    self.require(*term, &Type::Bool)?;
                }
                self.set(id, Type::Bool, Fact::Nothing);
            }
            Expr::Conditional { condition, yes, no } => {
                for part in [condition, yes, no] {
                    self.visit(*part)?;
                }
                self.operator(id, "_?_:_", &[*condition, *yes, *no])?;
            }
            Expr::Fold(fold) => self.fold(id, fold)?,
            Expr::Bind { var, init, body } => {
                self.visit(*init)?;
                let of = self.type_of(*init);
                self.within(id, var, of, *body)?;
            }
            Expr::OptMap { target, var, body, flat } => self.opt_map(id, *target, var, *body, *flat)?,
            Expr::SortBy { target, var, key } => self.sort_by(id, *target, var, *key)?,
        }
        Ok(())
    }

    /// Checks the body with the variable, and gives the whole the body's type.
    fn within(&mut self, id: Id, var: &'t str, of: Type, body: Id) -> Result<(), CompileError> {
        let slot = self.introduce(var, of);
        self.visit(body)?;
        self.scope.pop();
        let of = self.known_type_of(body)?;
        self.set(id, of, Fact::Introduces(slot));
        Ok(())
    }

    fn ident(&mut self, id: Id, name: &str) -> Result<(), CompileError> {
        let name = name.trim_start_matches('.');
        if let Some((_, of, slot)) = self.scope.iter().rev().find(|(found, ..)| *found == name) {
            let (of, slot) = (of.clone(), *slot);
            self.set(id, of, Fact::Slot(slot));
        } else if name == "device" {
            self.set(id, Type::Device, Fact::Device);
        } else {
            let of = type_named(name).ok_or_else(|| CompileError::undeclared(name))?;
            let fact = Fact::Type(value_name(&of));
            self.set(id, Type::Meta(of.into()), fact);
        }
        Ok(())
    }

    fn select(&mut self, id: Id, operand: Id, field: &str, access: Access) -> Result<(), CompileError> {
        let name = if access == Access::Plain { self.tree.qualified_name(id) } else { None };
        let known = name.filter(|name| name.len() <= 64).and_then(|name| {
            let is_local = |first| self.scope.iter().any(|(found, ..)| *found == first);
            match type_named(&name) {
                None if name.starts_with("google.") && !is_local("google") => {
                    Some(Err(CompileError::undeclared(&name)))
                }
                None => None,
                Some(of) => Some(Ok(of)),
            }
        });
        if let Some(of) = known.transpose()? {
            let fact = Fact::Type(value_name(&of));
            self.set(id, Type::Meta(of.into()), fact);
            return Ok(());
        }
        self.visit(operand)?;
        let (of, is_optional) = self.known_type_of(operand)?.unwrapped();
        let found = match &of {
            Type::Map(_, value) => (**value).clone(),
            Type::Device => field_of_device(field)?,
            Type::Var(_) => {
                self.substitution.attempt(&[(&Type::Dyn, &of)])?;
                Type::Dyn
            }
            of if of.is_dyn() => Type::Dyn,
            other => {
                return Err(CompileError::refused(format!("type '{other}' does not support field selection")));
            }
        };
        let of = match access {
            Access::Test => Type::Bool,
            Access::Optional => Type::optional(found),
            Access::Plain if is_optional => Type::optional(found),
            Access::Plain => found,
        };
        let of = self.substitution.apply(&of, false)?;
        self.set(id, of, Fact::Nothing);
        Ok(())
    }

    fn operator(&mut self, id: Id, name: &str, args: &[Id]) -> Result<(), CompileError> {
        let types: Vec<Type> = args.iter().map(|arg| self.type_of(*arg)).collect();
        let (of, candidates) = self.resolve(name, false, &types)?;
        self.set(id, of, Fact::Call { candidates, is_qualified: false });
        Ok(())
    }

    fn call(&mut self, id: Id, name: &str, target: Option<Id>, args: &[Id]) -> Result<(), CompileError> {
        for arg in args {
            self.visit(*arg)?;
        }
        let Some(target) = target else { return self.operator(id, name, args) };
        let qualified = self.tree.qualified_name(target).map(|prefix| format!("{prefix}.{name}"));
        if let Some(qualified) = qualified
            && signatures::named(&qualified).next().is_some()
        {
            let types: Vec<Type> = args.iter().map(|arg| self.type_of(*arg)).collect();
            let (of, candidates) = self.resolve(&qualified, false, &types)?;
            self.set(id, of, Fact::Call { candidates, is_qualified: true });
            return Ok(());
        }
        self.visit(target)?;
        let types: Vec<Type> = [target].iter().chain(args).map(|arg| self.type_of(*arg)).collect();
        let (of, candidates) = self.resolve(name, true, &types)?;
        self.set(id, of, Fact::Call { candidates, is_qualified: false });
        Ok(())
    }

    /// The ways to call the function that fit these types, and the type of the result: `dyn` where the ways differ.
    fn resolve(
        &mut self,
        name: &str,
        is_member: bool,
        types: &[Type],
    ) -> Result<(Type, Box<[&'static Signature]>), CompileError> {
        let mut found: Option<Type> = None;
        let mut candidates = Vec::new();
        let mut is_known = false;
        for signature in signatures::named(name) {
            is_known = true;
            if signature.is_member != is_member || signature.args.len() != types.len() {
                continue;
            }
            let first = self.substitution.new_vars(2);
            let wanted: Vec<Type> = signature.args.iter().map(|shape| shape.typed(first)).collect();
            let pairs: Vec<(&Type, &Type)> = types.iter().zip(&wanted).collect();
            if !self.substitution.attempt(&pairs)? {
                continue;
            }
            candidates.push(signature);
            let result = self.substitution.apply(&signature.result.typed(first), false)?;
            found = Some(match found {
                None => result,
                Some(found) if found.is_dyn() || self.substitution.equivalent(&found, &result)? => found,
                Some(_) => Type::Dyn,
            });
        }
        match found {
            Some(found) => Ok((found, candidates.into())),
            None if is_known => {
                let types: Vec<String> = types.iter().map(ToString::to_string).collect();
                let applied = types.join(", ");
                Err(CompileError::refused(format!("found no matching overload for '{name}' applied to '({applied})'")))
            }
            None => Err(CompileError::undeclared(name)),
        }
    }

    /// The type of an element; of an optional one that in the optional.
    fn element(&mut self, id: Id, is_optional: bool) -> Result<Type, CompileError> {
        let of = self.type_of(id);
        if !is_optional {
            return Ok(of);
        }
        match of.unwrapped() {
            (inner, true) => Ok(inner),
            (of, false) if of.is_dyn() => Ok(of),
            (of, false) => Err(mismatch(&Type::optional(of.clone()), &of)),
        }
    }

    /// The type of elements of several types; whether they may be of several is not asked here.
    fn join(&mut self, joined: Option<Type>, next: Type) -> Result<Option<Type>, CompileError> {
        let Some(joined) = joined else { return Ok(Some(next)) };
        if !self.substitution.attempt(&[(&joined, &next)])? {
            return Ok(Some(Type::Dyn));
        }
        self.substitution.most_general(&joined, &next).map(Some)
    }

    fn or_var(&mut self, of: Option<Type>) -> Type {
        of.unwrap_or_else(|| Type::Var(self.substitution.new_vars(1)))
    }

    fn list(&mut self, id: Id, items: &[(Id, bool)]) -> Result<(), CompileError> {
        let mut joined = None;
        for (item, is_optional) in items {
            self.visit(*item)?;
            let of = self.element(*item, *is_optional)?;
            joined = self.join(joined, of)?;
        }
        let of = Type::list(self.or_var(joined));
        self.set(id, of, Fact::Nothing);
        Ok(())
    }

    fn map(&mut self, id: Id, entries: &[(Id, Id, bool)]) -> Result<(), CompileError> {
        let (mut keys, mut values) = (None, None);
        for (key, value, is_optional) in entries {
            self.visit(*key)?;
            let of = self.type_of(*key);
            keys = self.join(keys, of)?;
            self.visit(*value)?;
            let of = self.element(*value, *is_optional)?;
            values = self.join(values, of)?;
        }
        let of = Type::map(self.or_var(keys), self.or_var(values));
        self.set(id, of, Fact::Nothing);
        Ok(())
    }

    fn fold(&mut self, id: Id, fold: &'t Fold) -> Result<(), CompileError> {
        self.visit(fold.range)?;
        let range = self.known_type_of(fold.range)?;
        let (first, second) = match &range {
            Type::List(of) if fold.second.is_some() => (Type::Int, (**of).clone()),
            Type::List(of) => ((**of).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Var(_) => {
                self.substitution.attempt(&[(&Type::Dyn, &range)])?;
                (Type::Dyn, Type::Dyn)
            }
            other => {
                return Err(CompileError::refused(format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                )));
            }
        };
        let depth = self.scope.len();
        let slot = self.introduce(&fold.var, first.clone());
        if let Some(name) = &fold.second {
            self.introduce(name, second);
        }
        if let Some(filter) = fold.filter {
            self.visit(filter)?;
            self.require(filter, &Type::Bool)?;
        }
        self.visit(fold.body)?;
        let of = self.folded(fold, first)?;
        self.scope.truncate(depth);
        self.set(id, of, Fact::Introduces(slot));
        Ok(())
    }

    /// The type of what a macro makes of its elements.
    fn folded(&mut self, fold: &Fold, key: Type) -> Result<Type, CompileError> {
        let of = match fold.make {
            Make::All | Make::Exists | Make::ExistsOne => {
                self.require(fold.body, &Type::Bool)?;
                Type::Bool
            }
            Make::List => Type::list(self.type_of(fold.body)),
            Make::Values => Type::map(key, self.type_of(fold.body)),
            Make::Entries => {
                let first = self.substitution.new_vars(2);
                let of = Type::map(Type::Var(first), Type::Var(first + 1));
                self.require(fold.body, &of)?;
                of
            }
        };
        self.substitution.apply(&of, false)
    }

    fn opt_map(&mut self, id: Id, target: Id, var: &'t str, body: Id, flat: bool) -> Result<(), CompileError> {
        self.visit(target)?;
        let of = self.type_of(target);
        self.resolve("hasValue", true, std::slice::from_ref(&of))?;
        let (of, _) = self.resolve("value", true, &[of])?;
        self.within(id, var, of, body)?;
        let made = self.type_of(id);
        let made = if flat { made } else { Type::optional(made) };
        let none = Type::optional(Type::Var(self.substitution.new_vars(1)));
        let (of, _) = self.resolve("_?_:_", false, &[Type::Bool, made, none])?;
        self.types[id.0 as usize] = of;
        Ok(())
    }

    fn sort_by(&mut self, id: Id, target: Id, var: &'t str, key: Id) -> Result<(), CompileError> {
        self.visit(target)?;
        let list = self.known_type_of(target)?;
        let of = match &list {
            Type::List(of) => (**of).clone(),
            Type::Map(key, _) => (**key).clone(),
            Type::Dyn | Type::Var(_) => Type::Dyn,
            other => {
                return Err(CompileError::refused(format!("expression of type '{other}' cannot be sorted")));
            }
        };
        self.within(id, var, of, key)?;
        let keys = Type::list(self.type_of(key));
        let (of, candidates) = self.resolve(sort::BY_KEYS, true, &[list, keys])?;
        self.types[id.0 as usize] = of;
        if let Fact::Introduces(slot) = self.facts[id.0 as usize] {
            self.facts[id.0 as usize] = Fact::Sorts { slot, is_fragile: candidates.len() == 1 };
        }
        Ok(())
    }
}

fn of_literal(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::Text(_) => Type::Text,
        Literal::Bytes(_) => Type::Bytes,
    }
}

fn field_of_device(field: &str) -> Result<Type, CompileError> {
    let of_domains = |of| Type::map(Type::Text, Type::map(Type::Text, of));
    Ok(match field {
        "driver" => Type::Text,
        "allowMultipleAllocations" => Type::Bool,
        "attributes" => of_domains(Type::Any),
        "capacity" => of_domains(Type::Quantity),
        _ => return Err(CompileError::refused(format!("undefined field '{field}'"))),
    })
}
