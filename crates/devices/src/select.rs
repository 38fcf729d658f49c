//! How selectors are asked.

use crate::model::{Device, ResourceSlice, Str};
use std::sync::Arc;

/// Evaluates the CEL expressions of classes and requests.
pub trait Select {
    /// Whether the expression selects the device. The same question has the same answer each time.
    ///
    /// What it takes beyond a look-up or two is taken from `steps`, also if it is more than is left: then they are below zero.
    fn selects(&mut self, expression: &Str, device: PublishedDevice<'_>, steps: &mut i64) -> Result<bool, SelectError>;
}

/// A device, by its place among those of a slice. A slice never changes: the same one has the same devices.
#[derive(Debug, Clone, Copy)]
pub struct PublishedDevice<'a> {
    pub slice: &'a Arc<ResourceSlice>,
    pub in_slice: u32,
}

impl<'a> PublishedDevice<'a> {
    pub fn device(self) -> &'a Device {
        &self.slice.devices[self.in_slice as usize]
    }

    /// As selectors see it.
    pub fn view(self) -> berth_cel::Device<'a> {
        self.device().view(&self.slice.id.driver)
    }
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
}
