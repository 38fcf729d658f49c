//! What upstream refuses although its types are right: mixed literals, and constants that no evaluation could use.

use crate::check::{Checked, Fact};
use crate::error::{CompileError, EvalError};
use crate::library::regex;
use crate::library::{self, convert};
use crate::syntax::{Expr, Id, Tree};
use crate::types::Type;

pub(crate) fn validate(tree: &Tree, checked: &mut Checked, root: Id) -> Result<(), CompileError> {
    visit(tree, checked, root, false)
}

/// An error in a constant refuses the expression, unless it is we who do not know better.
pub(crate) fn of_constant(error: EvalError) -> CompileError {
    match error {
        EvalError::Unsupported(what) => CompileError::Unsupported(what),
        EvalError::Budget => CompileError::unsupported("so large a constant"),
        other => CompileError::Constant(other.to_string().into()),
    }
}

/// Compiles a pattern that is a constant.
pub(crate) fn pattern(text: &str) -> Result<::regex::Regex, CompileError> {
    regex::compile(text).map_err(|wrong| of_constant(wrong.into()))
}

fn visit(tree: &Tree, checked: &mut Checked, id: Id, in_format: bool) -> Result<(), CompileError> {
    let mut in_format = in_format;
    match tree.get(id) {
        Expr::Call { name, target, args } => {
            call(tree, checked, id, name, *target, args)?;
            in_format |= **name == *"format";
        }
        // What is formatted may be of any types.
        Expr::List(items) if !in_format => {
            let items: Vec<(Id, bool)> = items.to_vec();
            uniform(checked, &items)?;
        }
        Expr::Map(entries) if !in_format => {
            let keys: Vec<(Id, bool)> = entries.iter().map(|(key, ..)| (*key, false)).collect();
            let values: Vec<(Id, bool)> = entries.iter().map(|(_, value, optional)| (*value, *optional)).collect();
            uniform(checked, &keys)?;
            uniform(checked, &values)?;
        }
        _ => {}
    }
    let mut result = Ok(());
    tree.get(id).for_each_child(|child| {
        if result.is_ok() && !is_name(checked, id, child, tree) {
            result = visit(tree, checked, child, in_format);
        }
    });
    result
}

/// Whether the child is a part of its parent's name, and no expression.
fn is_name(checked: &Checked, parent: Id, child: Id, tree: &Tree) -> bool {
    match (&checked.facts[parent.0 as usize], tree.get(parent)) {
        (Fact::Type(_), _) => true,
        (Fact::Call { is_qualified: true, .. }, Expr::Call { target, .. }) => *target == Some(child),
        _ => false,
    }
}

/// All elements are of one type, and not only of types that fit each other.
fn uniform(checked: &mut Checked, elements: &[(Id, bool)]) -> Result<(), CompileError> {
    let mut first: Option<Type> = None;
    for (id, is_optional) in elements {
        let of = checked.types[id.0 as usize].clone();
        let of = if *is_optional { of.unwrapped().0 } else { of };
        match &first {
            None => first = Some(of),
            Some(first) if !checked.substitution.equivalent(first, &of)? => {
                return Err(CompileError::refused(format!("expected type '{first}' but found '{of}'")));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn call(
    tree: &Tree,
    checked: &Checked,
    id: Id,
    name: &str,
    target: Option<Id>,
    args: &[Id],
) -> Result<(), CompileError> {
    // Of `matches(text, pattern)` upstream looks at the text.
    if name == "matches"
        && let Some(text) = args.first().and_then(|arg| tree.text(*arg))
    {
        pattern(text)?;
    }
    if name == "format"
        && let (Some(format), [list]) = (target.and_then(|target| tree.text(target)), args)
        && let Expr::List(items) = tree.get(*list)
        && !matches!(&checked.facts[id.0 as usize], Fact::Call { is_qualified: true, .. })
    {
        let types: Vec<Vec<&Type>> = items.iter().map(|(item, _)| types_in(tree, checked, *item)).collect();
        library::check_printf(format, &types).map_err(of_constant)?;
    }
    Ok(())
}

/// The type of an expression, and of all that a list or a map is written of.
fn types_in<'c>(tree: &Tree, checked: &'c Checked, id: Id) -> Vec<&'c Type> {
    let mut types = vec![&checked.types[id.0 as usize]];
    if matches!(tree.get(id), Expr::List(_) | Expr::Map(_)) {
        tree.get(id).for_each_child(|child| types.extend(types_in(tree, checked, child)));
    }
    types
}

/// Whether upstream evaluates the call at once if its argument is a constant.
pub(crate) fn is_evaluated_early(name: &str, arguments: usize) -> bool {
    arguments == 1 && convert::is_conversion(name)
}
