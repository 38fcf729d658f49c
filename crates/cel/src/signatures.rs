//! What a function takes, what it gives, and the code that runs it. The tables are with the code, in `library`.

use crate::error::EvalError;
use crate::library;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::Value;

pub(crate) type Evaluated<'a> = Result<Value<'a>, EvalError>;

pub(crate) type Run = for<'a> fn(&mut Meter<'_>, &[Value<'a>]) -> Evaluated<'a>;

/// A type as tables write it. `A` and `B` are any types, the same wherever they appear in one signature.
#[derive(Debug)]
pub(crate) enum Shape {
    A,
    B,
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    List(&'static Shape),
    Map(&'static Shape, &'static Shape),
    Optional(&'static Shape),
    Type(&'static Shape),
    Quantity,
    Semver,
    Url,
    Format,
    Ip,
    Cidr,
}

pub(crate) const LIST_A: Shape = Shape::List(&Shape::A);
pub(crate) const MAP_AB: Shape = Shape::Map(&Shape::A, &Shape::B);
pub(crate) const OPTIONAL_A: Shape = Shape::Optional(&Shape::A);
pub(crate) const TEXTS: Shape = Shape::List(&Shape::Text);

/// One way to call a function.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) name: &'static str,
    /// Of a member the first of these is the target.
    pub(crate) args: &'static [Shape],
    pub(crate) result: Shape,
    pub(crate) is_member: bool,
    /// Whether values of other types than these do not reach `run`. Without it `run` decides, as where upstream looks at what a
    /// value can do instead of at its type.
    pub(crate) is_guarded: bool,
    /// Upstream breaks down where an argument has no value, since it counts the cost of the call all the same.
    pub(crate) is_fragile: bool,
    pub(crate) run: Run,
}

impl Signature {
    pub(crate) const fn global(name: &'static str, args: &'static [Shape], result: Shape, run: Run) -> Self {
        Self { name, args, result, is_member: false, is_guarded: true, is_fragile: false, run }
    }

    pub(crate) const fn member(name: &'static str, args: &'static [Shape], result: Shape, run: Run) -> Self {
        Self { name, args, result, is_member: true, is_guarded: true, is_fragile: false, run }
    }

    pub(crate) const fn unguarded(mut self) -> Self {
        self.is_guarded = false;
        self
    }

    pub(crate) const fn fragile(mut self) -> Self {
        self.is_fragile = true;
        self
    }

    /// Whether these values may be its arguments.
    pub(crate) fn takes(&self, values: &[Value<'_>]) -> bool {
        values.len() == self.args.len()
            && (!self.is_guarded || self.args.iter().zip(values).all(|(shape, value)| shape.admits(value)))
    }
}

impl Shape {
    /// The type, whose variables begin with `first`.
    pub(crate) fn typed(&self, first: u32) -> Type {
        match self {
            Self::A => Type::Var(first),
            Self::B => Type::Var(first + 1),
            Self::Dyn => Type::Dyn,
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::Text => Type::Text,
            Self::Bytes => Type::Bytes,
            Self::Duration => Type::Duration,
            Self::Timestamp => Type::Timestamp,
            Self::List(of) => Type::list(of.typed(first)),
            Self::Map(key, value) => Type::map(key.typed(first), value.typed(first)),
            Self::Optional(of) => Type::optional(of.typed(first)),
            Self::Type(of) => Type::Meta(of.typed(first).into()),
            Self::Quantity => Type::Quantity,
            Self::Semver => Type::Semver,
            Self::Url => Type::Url,
            Self::Format => Type::Format,
            Self::Ip => Type::Ip,
            Self::Cidr => Type::Cidr,
        }
    }

    /// Whether the value is of this type; of a list or map upstream looks at the first element alone.
    fn admits(&self, value: &Value<'_>) -> bool {
        match (self, value) {
            (Self::A | Self::B | Self::Dyn, _)
            | (Self::Bool, Value::Bool(_))
            | (Self::Int, Value::Int(_))
            | (Self::Uint, Value::Uint(_))
            | (Self::Double, Value::Double(_))
            | (Self::Text, Value::Text(_))
            | (Self::Bytes, Value::Bytes(_))
            | (Self::Duration, Value::Duration(_))
            | (Self::Timestamp, Value::Timestamp(_))
            | (Self::Optional(_), Value::Optional(_))
            | (Self::Type(_), Value::Type(_))
            | (Self::Quantity, Value::Quantity(_))
            | (Self::Semver, Value::Semver(_))
            | (Self::Url, Value::Url(_))
            | (Self::Format, Value::Format(_))
            | (Self::Ip, Value::Ip(_))
            // The keys of the device's maps are texts, and no function asks more of the values of a map.
            | (Self::Map(..), Value::View(_))
            | (Self::Cidr, Value::Cidr(_)) => true,
            (Self::List(of), Value::List(list)) => list.items.first().is_none_or(|first| of.admits(first)),
            (Self::Map(key, of), Value::Map(map)) => {
                map.iter().next().is_none_or(|(first, value)| key.admits(&first.value()) && of.admits(value))
            }
            _ => false,
        }
    }
}

/// All ways to call the function, in upstream's order.
pub(crate) fn named(name: &str) -> impl Iterator<Item = &'static Signature> {
    library::ALL.iter().copied().flatten().filter(move |signature| signature.name == name)
}
