use berth_api::conditions::Accepted;

/// Why a spec does not compile: the condition's reason, the field, what is wrong with it, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}: {fix}")]
pub struct CompileError {
    /// The reason that the profile's `Accepted` condition carries.
    pub reason: Accepted,
    /// The field's path within the object, such as `spec.nodes.selector.matchLabels`.
    pub field: String,
    /// What is wrong with it; names the offending value.
    pub message: String,
    /// What to write instead.
    pub fix: String,
}

impl CompileError {
    /// An argument that cannot be used.
    pub(super) fn args(field: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { reason: Accepted::InvalidArgs, field: field.into(), message: message.into(), fix: fix.into() }
    }

    /// A selector or an affinity that cannot be used.
    pub(super) fn selector(field: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { reason: Accepted::InvalidSelector, field: field.into(), message: message.into(), fix: fix.into() }
    }
}
