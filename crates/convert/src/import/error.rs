/// Why a configuration cannot be read: the field, what is wrong with it, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}: {fix}")]
pub struct ImportError {
    /// The field's path within the document, such as `profiles[0].plugins.score.enabled[1].weight`.
    pub field: String,
    /// What is wrong with it; names the offending value.
    pub message: String,
    /// What to write instead.
    pub fix: String,
}

impl ImportError {
    pub(super) fn new(field: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), fix: fix.into() }
    }
}
