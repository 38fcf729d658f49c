//! What an expression says, with its macros expanded: a tree whose nodes lie in one list.

use crate::error::CompileError;

/// The deepest tree. Upstream's parser gives up at 250, so nothing that an API server took is refused here; and everything that
/// walks a tree recurses once a level.
const MAX_DEPTH: u16 = 260;

/// A node of a [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id(pub(crate) u32);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Box<str>),
    Bytes(Box<[u8]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// `a.b`: an error where there is none.
    Plain,
    /// `a.?b`
    Optional,
    /// `has(a.b)`
    Test,
}

/// What a macro over a range makes of its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Make {
    All,
    Exists,
    ExistsOne,
    /// `map`, `filter` and `transformList`.
    List,
    /// `transformMap`: the value of each key.
    Values,
    /// `transformMapEntry`: a map of entries.
    Entries,
}

#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) make: Make,
    pub(crate) range: Id,
    pub(crate) var: Box<str>,
    pub(crate) second: Option<Box<str>>,
    pub(crate) filter: Option<Id>,
    pub(crate) body: Id,
}

#[derive(Debug)]
pub(crate) enum Expr {
    Literal(Literal),
    /// With a dot before it where it was written so.
    Ident(Box<str>),
    Select {
        operand: Id,
        field: Box<str>,
        access: Access,
    },
    Index {
        operand: Id,
        index: Id,
        optional: bool,
    },
    /// Functions, and all operators that are no expression of their own; those are named as upstream names them.
    Call {
        name: Box<str>,
        target: Option<Id>,
        args: Box<[Id]>,
    },
    /// Each with whether it is optional.
    List(Box<[(Id, bool)]>),
    /// Key, value, and whether it is optional.
    Map(Box<[(Id, Id, bool)]>),
    And(Box<[Id]>),
    Or(Box<[Id]>),
    Conditional {
        condition: Id,
        yes: Id,
        no: Id,
    },
    Fold(Fold),
    /// `cel.bind`
    Bind {
        var: Box<str>,
        init: Id,
        body: Id,
    },
    /// `optMap`, or `optFlatMap` if flat.
    OptMap {
        target: Id,
        var: Box<str>,
        body: Id,
        flat: bool,
    },
    SortBy {
        target: Id,
        var: Box<str>,
        key: Id,
    },
}

/// Children come before their parents.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    exprs: Vec<Expr>,
    depths: Vec<u16>,
}

impl Tree {
    pub(crate) fn len(&self) -> usize {
        self.exprs.len()
    }

    pub(crate) fn get(&self, id: Id) -> &Expr {
        &self.exprs[id.0 as usize]
    }

    pub(crate) fn add(&mut self, expr: Expr) -> Result<Id, CompileError> {
        let mut depth = 0;
        expr.for_each_child(|child| depth = depth.max(self.depths[child.0 as usize]));
        if depth >= MAX_DEPTH {
            return Err(CompileError::refused("max recursion depth exceeded"));
        }
        let id = Id(self.exprs.len() as u32);
        self.exprs.push(expr);
        self.depths.push(depth + 1);
        Ok(id)
    }

    /// `a.b.c` of an identifier and plain selections.
    pub(crate) fn qualified_name(&self, id: Id) -> Option<String> {
        match self.get(id) {
            Expr::Ident(name) => Some(name.trim_start_matches('.').to_owned()),
            Expr::Select { operand, field, access: Access::Plain } => {
                let mut name = self.qualified_name(*operand)?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }

    pub(crate) fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Expr::Literal(Literal::Text(text)) => Some(text),
            _ => None,
        }
    }
}

impl Expr {
    pub(crate) fn for_each_child(&self, mut visit: impl FnMut(Id)) {
        match self {
            Self::Literal(_) | Self::Ident(_) => {}
            Self::Select { operand, .. } => visit(*operand),
            Self::Index { operand, index, .. } => [*operand, *index].into_iter().for_each(visit),
            Self::Call { target, args, .. } => target.iter().chain(args.iter()).copied().for_each(visit),
            Self::List(items) => items.iter().for_each(|(item, _)| visit(*item)),
            Self::Map(entries) => entries.iter().for_each(|(key, value, _)| {
                visit(*key);
                visit(*value);
            }),
            Self::And(terms) | Self::Or(terms) => terms.iter().copied().for_each(visit),
            Self::Conditional { condition, yes, no } => [*condition, *yes, *no].into_iter().for_each(visit),
            Self::Fold(fold) => [Some(fold.range), fold.filter, Some(fold.body)].into_iter().flatten().for_each(visit),
            Self::Bind { init, body, .. } => [*init, *body].into_iter().for_each(visit),
            Self::OptMap { target, body, .. } => [*target, *body].into_iter().for_each(visit),
            Self::SortBy { target, key, .. } => [*target, *key].into_iter().for_each(visit),
        }
    }
}
