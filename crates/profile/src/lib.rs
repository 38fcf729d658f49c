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
mod rollout;
mod route;
mod selectors;

pub use compile::compile;
pub use names::{is_dns1123_subdomain, is_qualified_name};
pub use rollout::{RolloutPlan, not_for_rollout, rollout};
pub use route::routed_namespaces;
pub use selectors::label_key;

use berth_api::conditions::Accepted;
use berth_core::model::Str;
use std::ops::RangeInclusive;

/// Why a spec does not compile: the condition's reason, the field, what is wrong with it, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}: {fix}")]
pub struct CompileError {
    /// The reason that the profile's `Accepted` condition carries.
    pub reason: Accepted,
    /// The field's path within the object, such as `spec.nodes.selector.matchLabels`.
    pub field: String,
    /// Names the offending value.
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

/// `value` if it lies in `range`; `fix` says which values do.
fn number(
    value: i32,
    range: RangeInclusive<u32>,
    field: impl Into<String>,
    fix: impl Into<String>,
) -> Result<u32, CompileError> {
    let number = u32::try_from(value).ok().filter(|number| range.contains(number));
    number.ok_or_else(|| CompileError::args(field, format!("{value} is out of range"), fix))
}

/// Resolves each of `items` by `of`, which is given the item's field as well; `field` is the list's path.
fn each<T, R>(
    items: &[T],
    field: &str,
    of: impl Fn(&T, &str) -> Result<R, CompileError>,
) -> Result<Vec<R>, CompileError> {
    items.iter().enumerate().map(|(i, item)| of(item, &format!("{field}[{i}]"))).collect()
}

/// Sorted, each name once.
fn sorted(names: &[String]) -> Vec<Str> {
    let mut names: Vec<Str> = names.iter().map(|name| name.as_str().into()).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod compile_tests;
