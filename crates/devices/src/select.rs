//! How selectors are asked.

use crate::model::Str;
use berth_cel::Device;

/// Evaluates the CEL expressions of classes and requests.
pub trait Select {
    /// Whether the expression selects the device. The same question has the same answer each time.
    ///
    /// What it takes beyond a look-up or two is counted down from `steps`, which end the search when they are used up.
    fn selects(&mut self, expression: &Str, device: &Device<'_>, steps: &mut u64) -> Result<bool, SelectError>;
}

/// Why a selector has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("CEL compile error: {0}")]
    Compile(String),
    #[error("CEL runtime error: {0}")]
    Runtime(String),
    /// Upstream could answer and we cannot: the pod is held.
    #[error("{0}")]
    Unsupported(String),
    /// The steps that were left did not do.
    #[error("the evaluation was cut off")]
    OutOfSteps,
}
