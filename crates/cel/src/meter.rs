use crate::error::EvalError;

/// Bytes that cost as much as one step. As in upstream's cost, reading ten characters is a step.
const BYTES_PER_STEP: usize = 10;

/// What an evaluation may still do.
///
/// Each node of a program costs a step, and everything whose work or memory grows with its values costs in proportion, or an
/// expression of a few bytes could double a string as often as it likes.
#[derive(Debug)]
pub(crate) struct Meter<'m> {
    left: &'m mut u64,
}

impl<'m> Meter<'m> {
    pub(crate) const fn new(left: &'m mut u64) -> Self {
        Self { left }
    }

    pub(crate) fn step(&mut self) -> Result<(), EvalError> {
        self.steps(1)
    }

    pub(crate) fn steps(&mut self, count: usize) -> Result<(), EvalError> {
        let left = self.left.checked_sub(count as u64);
        *self.left = left.unwrap_or(0);
        if left.is_some() { Ok(()) } else { Err(EvalError::Budget) }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<(), EvalError> {
        self.steps(count / BYTES_PER_STEP)
    }
}
