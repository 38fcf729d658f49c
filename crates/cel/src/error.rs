/// Why an expression is no program. The texts follow upstream's; only their beginnings are a contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It does not parse or does not check.
    #[error("compilation failed: {0}")]
    Refused(Box<str>),
    /// A conversion of a constant, or a constant pattern, cannot be evaluated.
    #[error("program instantiation failed: {0}")]
    Constant(Box<str>),
    #[error("must evaluate to bool or the unknown type, not {0}")]
    Result(Box<str>),
    /// Upstream may know it, we do not: whoever selects by it must wait, since any answer could be wrong.
    #[error("{0}: this version does not support that")]
    Unsupported(Box<str>),
}

impl CompileError {
    pub(crate) fn refused(text: impl Into<Box<str>>) -> Self {
        Self::Refused(text.into())
    }

    pub(crate) fn unsupported(what: impl Into<Box<str>>) -> Self {
        Self::Unsupported(what.into())
    }

    /// There is no such variable, function or type, unless it is one that upstream has and we do not.
    pub(crate) fn undeclared(name: &str) -> Self {
        if AUTHORIZER.contains(&name) || name.starts_with("google.") || name.starts_with("kubernetes.") {
            return Self::unsupported(name);
        }
        Self::refused(format!("undeclared reference to '{name}' (in container '')"))
    }

    /// Whether the expression could be right, as opposed to one that upstream refuses as well.
    pub const fn is_unsupported(&self) -> bool {
        matches!(self, Self::Unsupported(_))
    }
}

/// Functions that upstream declares for authorizers, of which there is none here; it may still compile their calls.
const AUTHORIZER: [&str; 14] = [
    "path",
    "group",
    "serviceAccount",
    "resource",
    "subresource",
    "namespace",
    "name",
    "check",
    "errored",
    "error",
    "allowed",
    "reason",
    "fieldSelector",
    "labelSelector",
];

/// Why an expression has no answer for a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    #[error("no such key: {0}")]
    NoSuchKey(Box<str>),
    #[error("index out of bounds: {0}")]
    OutOfBounds(i64),
    #[error("no such overload")]
    NoSuchOverload,
    /// A function's own words.
    #[error("{0}")]
    Failed(Box<str>),
    /// The device has an attribute that no expression can look at, whatever it asks.
    #[error("attribute {0}")]
    Attribute(Box<str>),
    #[error("CEL result of type {0} could not be converted to bool")]
    NotBool(&'static str),
    /// Upstream's evaluator breaks down here, past any `||` that could save another error.
    #[error("internal error: {0}")]
    Internal(Box<str>),
    #[error("operation cancelled: actual cost limit exceeded")]
    Budget,
    /// As [`CompileError::Unsupported`], for what only the values show.
    #[error("{0}: this version does not support that")]
    Unsupported(Box<str>),
}

impl EvalError {
    pub(crate) fn failed(text: impl Into<Box<str>>) -> Self {
        Self::Failed(text.into())
    }

    pub(crate) fn unsupported(what: impl Into<Box<str>>) -> Self {
        Self::Unsupported(what.into())
    }

    /// Of a value that upstream tries to find in a hash table, and cannot.
    pub(crate) fn unhashable(of: &str) -> Self {
        Self::Internal(format!("runtime error: hash of unhashable type {of}").into())
    }

    /// Whether `false && …`, `true || …` and their like do not save it.
    pub(crate) const fn is_fatal(&self) -> bool {
        matches!(self, Self::Budget | Self::Internal(_))
    }

    /// Whether upstream may well have an answer.
    pub const fn is_unsupported(&self) -> bool {
        matches!(self, Self::Unsupported(_))
    }
}
