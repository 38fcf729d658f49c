//! Types, and which values of one may stand for another. After `checker/types.go` of cel-go.

use crate::error::CompileError;
use std::fmt;
use std::rc::Rc;

/// What comparing and substituting types may cost for one expression: types can double with each level of an expression.
const FUEL: u32 = 1_000_000;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    /// Unknown until the evaluation.
    Dyn,
    /// The same, as attributes have it.
    Any,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    List(Rc<Type>),
    Map(Rc<Type>, Rc<Type>),
    Optional(Rc<Type>),
    /// The type of types.
    Meta(Rc<Type>),
    Device,
    Quantity,
    Semver,
    Url,
    Format,
    Ip,
    Cidr,
    /// To be found out.
    Var(u32),
}

impl Type {
    pub(crate) fn list(of: Self) -> Self {
        Self::List(Rc::new(of))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Rc::new(key), Rc::new(value))
    }

    pub(crate) fn optional(of: Self) -> Self {
        Self::Optional(Rc::new(of))
    }

    pub(crate) const fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    /// The type in an optional, and whether it was one.
    pub(crate) fn unwrapped(&self) -> (Self, bool) {
        match self {
            Self::Optional(of) => ((**of).clone(), true),
            other => (other.clone(), false),
        }
    }

    fn params(&self) -> [Option<&Rc<Self>>; 2] {
        match self {
            Self::List(of) | Self::Optional(of) | Self::Meta(of) => [Some(of), None],
            Self::Map(key, value) => [Some(key), Some(value)],
            _ => [None, None],
        }
    }

    fn is_same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Whether `null` may stand for it.
    const fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Optional(_)
                | Self::Ip
                | Self::Cidr
                | Self::Device
                | Self::Quantity
                | Self::Semver
                | Self::Url
                | Self::Format
                | Self::Duration
                | Self::Timestamp
        )
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Dyn | Self::Var(_) => "dyn",
            Self::Any => "any",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Optional(_) => "optional_type",
            Self::Meta(_) => "type",
            Self::Device => "kubernetes.DRADevice",
            Self::Quantity => "kubernetes.Quantity",
            Self::Semver => "kubernetes.Semver",
            Self::Url => "kubernetes.URL",
            Self::Format => "kubernetes.NamedFormat",
            Self::Ip => "net.IP",
            Self::Cidr => "net.CIDR",
        }
    }
}

/// Only the outermost three levels: a type can be far longer than its expression.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self, f, 3)
    }
}

fn write(of: &Type, f: &mut fmt::Formatter<'_>, levels: u32) -> fmt::Result {
    f.write_str(of.name())?;
    let [Some(first), second] = of.params() else { return Ok(()) };
    if levels == 0 {
        return f.write_str("(...)");
    }
    f.write_str("(")?;
    write(first, f, levels - 1)?;
    if let Some(second) = second {
        f.write_str(", ")?;
        write(second, f, levels - 1)?;
    }
    f.write_str(")")
}

/// What the variables among the types stand for.
#[derive(Debug)]
pub(crate) struct Substitution {
    bound: Vec<Option<Type>>,
    /// What [`Self::attempt`] takes back: variables with what they stood for.
    undo: Vec<(u32, Option<Type>)>,
    fuel: u32,
}

/// `None` once there is no fuel left, so that `?` ends everything.
type Fuelled<T> = Option<T>;

impl Substitution {
    pub(crate) const fn new() -> Self {
        Self { bound: Vec::new(), undo: Vec::new(), fuel: FUEL }
    }

    pub(crate) fn new_vars(&mut self, count: usize) -> u32 {
        let first = self.bound.len() as u32;
        self.bound.resize(self.bound.len() + count, None);
        first
    }

    /// Whether values of the one types may stand for those of the other; if not, no variable has changed.
    pub(crate) fn attempt(&mut self, pairs: &[(&Type, &Type)]) -> Result<bool, CompileError> {
        self.undo.clear();
        let mut fits = Some(true);
        for (one, other) in pairs {
            fits = self.assignable(one, other);
            if fits != Some(true) {
                break;
            }
        }
        if fits != Some(true) {
            while let Some((var, old)) = self.undo.pop() {
                self.bound[var as usize] = old;
            }
        }
        fits.ok_or_else(too_large)
    }

    /// The type with everything that is known of its variables; those of which nothing is known are `dyn` in the end.
    pub(crate) fn apply(&mut self, of: &Type, is_end: bool) -> Result<Type, CompileError> {
        self.substituted(of, is_end).ok_or_else(too_large)
    }

    pub(crate) fn most_general(&mut self, one: &Type, other: &Type) -> Result<Type, CompileError> {
        self.more_general(one, other).ok_or_else(too_large)
    }

    /// Whether the two are one type.
    pub(crate) fn equivalent(&mut self, one: &Type, other: &Type) -> Result<bool, CompileError> {
        self.same(one, other).ok_or_else(too_large)
    }

    fn burn(&mut self) -> Fuelled<()> {
        self.fuel = self.fuel.checked_sub(1)?;
        Some(())
    }

    fn bind(&mut self, var: u32, to: Type) {
        let old = self.bound[var as usize].replace(to);
        self.undo.push((var, old));
    }

    fn same(&mut self, one: &Type, other: &Type) -> Fuelled<bool> {
        self.burn()?;
        if !one.is_same_kind(other) {
            return Some(false);
        }
        match (one, other) {
            (Type::Var(a), Type::Var(b)) => Some(a == b),
            _ => self.each(one, other, Self::same),
        }
    }

    /// Whether it holds of the parameters of two types of one kind.
    fn each(&mut self, one: &Type, other: &Type, holds: fn(&mut Self, &Type, &Type) -> Fuelled<bool>) -> Fuelled<bool> {
        for (a, b) in one.params().into_iter().zip(other.params()) {
            if let (Some(a), Some(b)) = (a, b)
                && !holds(self, a, b)?
            {
                return Some(false);
            }
        }
        Some(true)
    }

    fn less_specific(&mut self, one: &Type, other: &Type) -> Fuelled<bool> {
        self.burn()?;
        if one.is_dyn() || matches!(one, Type::Var(_)) {
            return Some(true);
        }
        if other.is_dyn() || !one.is_same_kind(other) {
            return Some(false);
        }
        match one {
            Type::Meta(_) => Some(true),
            _ => self.each(one, other, Self::less_specific),
        }
    }

    fn more_general(&mut self, one: &Type, other: &Type) -> Fuelled<Type> {
        Some(if self.less_specific(one, other)? { one.clone() } else { other.clone() })
    }

    fn assignable(&mut self, one: &Type, other: &Type) -> Fuelled<bool> {
        self.burn()?;
        if let Type::Var(var) = other {
            let (fits, was_bound) = self.stands_for(*var, one)?;
            if fits || was_bound {
                return Some(fits);
            }
        }
        if let Type::Var(var) = one {
            return Some(self.stands_for(*var, other)?.0);
        }
        if one.is_dyn() || other.is_dyn() {
            return Some(true);
        }
        match (one, other) {
            (Type::Null, nullable) | (nullable, Type::Null) => Some(nullable.is_nullable()),
            (Type::Meta(_), Type::Meta(_)) => Some(true),
            _ if one.is_same_kind(other) => self.each(one, other, Self::assignable),
            _ => Some(false),
        }
    }

    /// Whether the variable may stand for the type, and whether it stood for something before.
    fn stands_for(&mut self, var: u32, of: &Type) -> Fuelled<(bool, bool)> {
        if *of == Type::Var(var) {
            return Some((true, true));
        }
        if let Some(bound) = self.bound[var as usize].clone() {
            if self.same(of, &bound)? {
                return Some((true, true));
            }
            if !self.assignable(of, &bound)? {
                return Some((false, true));
            }
            let general = self.more_general(of, &bound)?;
            if self.is_free_of(&general, var)? {
                self.bind(var, general);
            }
            return Some((true, true));
        }
        let may = self.is_free_of(of, var)?;
        if may {
            self.bind(var, of.clone());
        }
        Some((may, false))
    }

    fn is_free_of(&mut self, of: &Type, var: u32) -> Fuelled<bool> {
        self.burn()?;
        if let Type::Var(found) = of {
            return match self.bound[*found as usize].clone() {
                _ if *found == var => Some(false),
                Some(bound) => self.is_free_of(&bound, var),
                None => Some(true),
            };
        }
        for param in of.params().into_iter().flatten() {
            if !self.is_free_of(param, var)? {
                return Some(false);
            }
        }
        Some(true)
    }

    fn substituted(&mut self, of: &Type, is_end: bool) -> Fuelled<Type> {
        self.burn()?;
        Some(match of {
            Type::Var(var) => match self.bound[*var as usize].clone() {
                Some(bound) => self.substituted(&bound, is_end)?,
                None if is_end => Type::Dyn,
                None => of.clone(),
            },
            Type::List(of) => Type::list(self.substituted(of, is_end)?),
            Type::Optional(of) => Type::optional(self.substituted(of, is_end)?),
            Type::Meta(of) => Type::Meta(Rc::new(self.substituted(of, is_end)?)),
            Type::Map(key, value) => Type::map(self.substituted(key, is_end)?, self.substituted(value, is_end)?),
            other => other.clone(),
        })
    }
}

fn too_large() -> CompileError {
    CompileError::unsupported("an expression whose types are this large")
}
