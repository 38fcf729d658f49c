use crate::limits::{SELECTOR_STEPS, SELECTORS_KEPT};
use crate::model::Str;
use berth_cel::{CompileError, Device, EvalError, Program};
use berth_devices::{Select, SelectError};
use rustc_hash::FxHashMap;

/// The expressions that were asked, compiled. Only to be faster: made from nothing they give the same answers.
#[derive(Debug, Default)]
pub(crate) struct Selectors {
    programs: FxHashMap<Str, Result<Program, SelectError>>,
}

/// What compiling a byte of an expression takes, in steps of the search.
const STEPS_PER_BYTE: u64 = 5;

impl Select for Selectors {
    fn selects(&mut self, expression: &Str, device: &Device<'_>, steps: &mut u64) -> Result<bool, SelectError> {
        if !self.programs.contains_key(expression) {
            if self.programs.len() >= SELECTORS_KEPT {
                self.programs.clear();
            }
            *steps = steps.saturating_sub(STEPS_PER_BYTE * expression.len() as u64);
            let program = Program::compile(expression).map_err(of_compiling);
            self.programs.insert(expression.clone(), program);
        }
        let program = self.programs[expression].as_ref().map_err(Clone::clone)?;
        let granted = SELECTOR_STEPS.min(*steps);
        let mut left = granted;
        let answer = program.matches(device, &mut left);
        *steps -= granted - left;
        match answer {
            Err(EvalError::Budget) if granted < SELECTOR_STEPS => Err(SelectError::OutOfSteps),
            answer => answer.map_err(of_evaluating),
        }
    }
}

fn of_compiling(error: CompileError) -> SelectError {
    match error {
        CompileError::Unsupported(_) => SelectError::Unsupported(error.to_string()),
        other => SelectError::Compile(other.to_string()),
    }
}

fn of_evaluating(error: EvalError) -> SelectError {
    match error {
        EvalError::Unsupported(_) => SelectError::Unsupported(error.to_string()),
        other => SelectError::Runtime(other.to_string()),
    }
}
