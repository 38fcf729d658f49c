//! The form in which an expression is evaluated.

use crate::library::regex::Function;
use crate::signatures::Signature;
use crate::syntax::{Access, Make};
use crate::value::Value;
use regex::Regex;

/// A node of a [`Code`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At(pub(crate) u32);

#[derive(Debug)]
pub(crate) enum Node {
    Constant(Value<'static>),
    /// A constant that values borrow.
    Text(Box<str>),
    Device,
    /// `device.attributes["domain"].name`, or a part of it: one look-up after the other, by names that are constants.
    Path(Box<[Box<str>]>),
    Slot(u32),
    Select {
        operand: At,
        field: Box<str>,
        access: Access,
    },
    Index {
        operand: At,
        index: At,
        optional: bool,
    },
    And(Box<[At]>),
    Or(Box<[At]>),
    Conditional {
        condition: At,
        yes: At,
        no: At,
    },
    Equal {
        one: At,
        other: At,
        negated: bool,
    },
    In {
        item: At,
        range: At,
    },
    /// Among constants, which upstream keeps in a set.
    InSet {
        item: At,
        set: Box<[Value<'static>]>,
    },
    Call {
        candidates: Box<[&'static Signature]>,
        args: Box<[At]>,
    },
    /// A call with a pattern that is a constant.
    Search {
        function: Function,
        regex: Regex,
        args: Box<[At]>,
    },
    /// Each with whether it is optional.
    List(Box<[(At, bool)]>),
    Map(Box<[(At, At, bool)]>),
    Fold(Fold),
    Bind {
        slot: u32,
        init: At,
        body: At,
    },
    OptMap {
        target: At,
        slot: u32,
        body: At,
        flat: bool,
    },
    SortBy {
        target: At,
        slot: u32,
        key: At,
        is_fragile: bool,
    },
    /// `or`, or `orValue` if it is the value that is asked for.
    OptionalOr {
        target: At,
        other: At,
        is_value: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) make: Make,
    pub(crate) range: At,
    /// The slot of the variable; that of a second one follows it.
    pub(crate) slot: u32,
    pub(crate) has_second: bool,
    pub(crate) filter: Option<At>,
    pub(crate) body: At,
}

#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: At,
    pub(crate) slots: u32,
}

impl Code {
    pub(crate) fn node(&self, at: At) -> &Node {
        &self.nodes[at.0 as usize]
    }
}
