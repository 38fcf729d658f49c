use crate::limits::{SELECTOR_ANSWERS_KEPT, SELECTOR_STEPS, SELECTORS_KEPT};
use crate::model::Str;
use berth_cel::{CompileError, Device, EvalError, Program};
use berth_devices::model::ResourceSlice;
use berth_devices::{PublishedDevice, Select, SelectError};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Weak};

/// The expressions that were asked, compiled, and what they said. Only to be faster: made from nothing they give the same answers.
#[derive(Debug, Default)]
pub(crate) struct Selectors {
    selectors: FxHashMap<Str, Selector>,
    /// What the answers take, in bytes.
    size: usize,
}

#[derive(Debug)]
struct Selector {
    program: Result<Program, SelectError>,
    /// By the slice's address.
    answers: FxHashMap<usize, Answers>,
}

/// What a selector said of the devices of one slice.
#[derive(Debug)]
struct Answers {
    /// Keeps another slice from getting the address, and nothing of this one.
    _slice: Weak<ResourceSlice>,
    /// Errors are not kept: who meets one stops.
    of_devices: Box<[Option<bool>]>,
}

/// What compiling a byte of an expression takes, in steps of the search, and how many bytes are looked up in one.
const STEPS_PER_BYTE: u64 = 5;
const BYTES_PER_STEP: u64 = 64;

/// What the answers of one slice take beside a byte for each device: their place, and what is left of a slice that is gone.
const BYTES_OF_SLICE: usize = 64 + size_of::<ResourceSlice>();

impl Select for Selectors {
    fn selects(&mut self, expression: &Str, device: PublishedDevice<'_>, steps: &mut u64) -> Result<bool, SelectError> {
        let length = expression.len() as u64;
        *steps = steps.saturating_sub(length / BYTES_PER_STEP);
        if self.selectors.len() >= SELECTORS_KEPT && !self.selectors.contains_key(expression) {
            self.selectors.clear();
            self.size = 0;
        }
        if self.size >= SELECTOR_ANSWERS_KEPT {
            self.forget_answers();
        }
        let selector = self.selectors.entry(expression.clone()).or_insert_with(|| {
            *steps = steps.saturating_sub(STEPS_PER_BYTE * length);
            Selector::new(expression)
        });
        let program = selector.program.as_ref().map_err(Clone::clone)?;
        let answers = selector.answers.entry(Arc::as_ptr(device.slice).addr()).or_insert_with(|| {
            let answers = Answers::none(device.slice);
            self.size += BYTES_OF_SLICE + answers.of_devices.len();
            answers
        });
        let known = &mut answers.of_devices[device.in_slice as usize];
        if let Some(known) = known {
            return Ok(*known);
        }
        let answer = evaluate(program, &device.view(), steps)?;
        *known = Some(answer);
        Ok(answer)
    }
}

impl Selectors {
    fn forget_answers(&mut self) {
        #[allow(clippy::iter_over_hash_type, reason = "each is cleared")]
        for selector in self.selectors.values_mut() {
            selector.answers = FxHashMap::default();
        }
        self.size = 0;
    }
}

impl Selector {
    fn new(expression: &str) -> Self {
        Self { program: Program::compile(expression).map_err(of_compiling), answers: FxHashMap::default() }
    }
}

impl Answers {
    fn none(slice: &Arc<ResourceSlice>) -> Self {
        Self { _slice: Arc::downgrade(slice), of_devices: vec![None; slice.devices.len()].into() }
    }
}

fn evaluate(program: &Program, device: &Device<'_>, steps: &mut u64) -> Result<bool, SelectError> {
    let mut left = SELECTOR_STEPS;
    let answer = program.matches(device, &mut left);
    *steps = steps.saturating_sub(SELECTOR_STEPS - left);
    answer.map_err(of_evaluating)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_testing::devices_of;

    /// What the selector says of the slice's first device, and what that took.
    fn ask(selectors: &mut Selectors, expression: &str, slice: &Arc<ResourceSlice>) -> (bool, u64) {
        let mut steps = 1_000_000;
        let device = PublishedDevice { slice, in_slice: 0 };
        let answer = selectors.selects(&expression.into(), device, &mut steps).unwrap();
        (answer, 1_000_000 - steps)
    }

    #[test]
    fn what_was_said_of_a_slice_is_known_until_it_is_another() {
        let mut selectors = Selectors::default();
        let slice = Arc::new(devices_of("a", &["0", "1"]));
        let expression = "device.driver == 'd'";
        assert!(ask(&mut selectors, expression, &slice).1 > 0);
        assert_eq!(ask(&mut selectors, expression, &slice), (true, 0));
        let mut other = devices_of("a", &["0", "1"]);
        other.id.driver = "e".into();
        let other = Arc::new(other);
        assert!(matches!(ask(&mut selectors, expression, &other), (false, 1..)));
        assert!(matches!(ask(&mut selectors, "device.driver != 'd'", &slice), (false, 1..)));
    }

    #[test]
    fn selectors_and_answers_do_not_add_up() {
        let mut selectors = Selectors::default();
        let names: Vec<String> = (0..128).map(|name| name.to_string()).collect();
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let slice = devices_of("a", &names);
        for number in 0..20_000 {
            ask(&mut selectors, &format!("{} >= 0", number % 500), &Arc::new(slice.clone()));
            assert!(selectors.selectors.len() <= SELECTORS_KEPT);
            let held: usize = selectors.selectors.values().map(|selector| selector.answers.len()).sum();
            assert!(held * (BYTES_OF_SLICE + 128) <= SELECTOR_ANSWERS_KEPT + 1_000, "{held} after {number}");
        }
        let mut selectors = Selectors::default();
        let mut most = 0;
        for _ in 0..20_000 {
            ask(&mut selectors, "true", &Arc::new(slice.clone()));
            most = most.max(selectors.size);
        }
        assert!((SELECTOR_ANSWERS_KEPT / 2..SELECTOR_ANSWERS_KEPT + 1_000).contains(&most), "{most}");
    }
}
