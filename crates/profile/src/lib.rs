//! From what a user writes to what a worker runs: presets, and [`compile`], which resolves a spec or says why it cannot.
//!
//! The API server has refused most bad specs before they come here (schema and CEL). The rest is what a schema
//! cannot check, and specs that no API server has seen: files given to `berth simulate` and `berth explain`.

mod args;
mod compile;
mod extenders;
mod names;
mod plugins;
mod preemption;
mod preset;
mod selectors;

pub use compile::compile;
pub use names::{is_dns1123_subdomain, is_qualified_name};
pub use selectors::label_key;

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
    fn args(field: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { reason: Accepted::InvalidArgs, field: field.into(), message: message.into(), fix: fix.into() }
    }

    fn selector(field: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { reason: Accepted::InvalidSelector, field: field.into(), message: message.into(), fix: fix.into() }
    }
}

#[cfg(test)]
mod compile_tests;
