//! Calls that are syntax: what they do with their arguments no function could.

use crate::error::CompileError;
use crate::syntax::{Access, Expr, Fold, Id, Make, Tree};

/// The names that upstream gives to what a macro gathers.
const ACCUMULATORS: [&str; 2] = ["__result__", "@result"];

/// What a call without target stands for, if it is a macro.
pub(crate) fn global(tree: &mut Tree, name: &str, args: &[Id]) -> Result<Option<Id>, CompileError> {
    let ("has", [arg]) = (name, args) else { return Ok(None) };
    let Expr::Select { operand, field, access: Access::Plain } = tree.get(*arg) else {
        return Err(CompileError::refused("invalid argument to has() macro"));
    };
    let test = Expr::Select { operand: *operand, field: field.clone(), access: Access::Test };
    tree.add(test).map(Some)
}

/// What a call on a target stands for, if it is a macro.
pub(crate) fn member(tree: &mut Tree, name: &str, target: Id, args: &[Id]) -> Result<Option<Id>, CompileError> {
    let expr = match (name, args) {
        ("bind", [var, init, body]) if matches!(tree.get(target), Expr::Ident(name) if **name == *"cel") => {
            Expr::Bind { var: bound(tree, *var)?, init: *init, body: *body }
        }
        ("optMap" | "optFlatMap", [var, body]) => {
            Expr::OptMap { target, var: bound(tree, *var)?, body: *body, flat: name == "optFlatMap" }
        }
        ("sortBy", [var, key]) => {
            if matches!(tree.get(target), Expr::Literal(_) | Expr::Map(_)) {
                return Err(CompileError::refused("sortBy can only be applied to a list"));
            }
            Expr::SortBy { target, var: variable(tree, *var)?, key: *key }
        }
        _ => match fold(tree, name, target, args)? {
            Some(fold) => Expr::Fold(fold),
            None => return Ok(None),
        },
    };
    tree.add(expr).map(Some)
}

/// The macros that go over a list or a map.
fn fold(tree: &Tree, name: &str, range: Id, args: &[Id]) -> Result<Option<Fold>, CompileError> {
    let one = |make, var: Id, filter, body| {
        Ok(Some(Fold { make, range, var: variable(tree, var)?, second: None, filter, body }))
    };
    let two = |make, vars: [Id; 2], filter, body| {
        let [var, second] = [variable(tree, vars[0])?, variable(tree, vars[1])?];
        if var == second {
            return Err(CompileError::refused(format!("duplicate variable name: {var}")));
        }
        if make == Make::Values {
            // The macro itself puts values under their keys.
            bound(tree, vars[0])?;
        }
        Ok(Some(Fold { make, range, var, second: Some(second), filter, body }))
    };
    match (name, args) {
        ("all", [var, body]) => one(Make::All, *var, None, *body),
        ("exists", [var, body]) => one(Make::Exists, *var, None, *body),
        ("exists_one" | "existsOne", [var, body]) => one(Make::ExistsOne, *var, None, *body),
        ("map", [var, body]) => one(Make::List, *var, None, *body),
        ("map", [var, filter, body]) => one(Make::List, *var, Some(*filter), *body),
        ("filter", [var, filter]) => one(Make::List, *var, Some(*filter), *var),
        ("all", [a, b, body]) => two(Make::All, [*a, *b], None, *body),
        ("exists", [a, b, body]) => two(Make::Exists, [*a, *b], None, *body),
        ("exists_one" | "existsOne", [a, b, body]) => two(Make::ExistsOne, [*a, *b], None, *body),
        ("transformList", [a, b, body]) => two(Make::List, [*a, *b], None, *body),
        ("transformList", [a, b, filter, body]) => two(Make::List, [*a, *b], Some(*filter), *body),
        ("transformMap", [a, b, body]) => two(Make::Values, [*a, *b], None, *body),
        ("transformMap", [a, b, filter, body]) => two(Make::Values, [*a, *b], Some(*filter), *body),
        ("transformMapEntry", [a, b, body]) => two(Make::Entries, [*a, *b], None, *body),
        ("transformMapEntry", [a, b, filter, body]) => two(Make::Entries, [*a, *b], Some(*filter), *body),
        _ => Ok(None),
    }
}

fn ident(tree: &Tree, id: Id) -> Result<Box<str>, CompileError> {
    match tree.get(id) {
        Expr::Ident(name) => Ok(name.clone()),
        _ => Err(CompileError::refused("argument must be a simple name")),
    }
}

/// A variable that the macro itself reads, which it cannot by a name that begins with a dot.
fn bound(tree: &Tree, id: Id) -> Result<Box<str>, CompileError> {
    let name = ident(tree, id)?;
    if name.starts_with('.') { Err(CompileError::undeclared(&name)) } else { Ok(name) }
}

fn variable(tree: &Tree, id: Id) -> Result<Box<str>, CompileError> {
    let name = ident(tree, id)?;
    if ACCUMULATORS.contains(&&*name) {
        return Err(CompileError::refused("iteration variable overwrites accumulator variable"));
    }
    Ok(name)
}
