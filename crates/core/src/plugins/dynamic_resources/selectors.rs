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
    all: Vec<Selector>,
    /// By expression, its place.
    places: FxHashMap<Str, usize>,
    /// Those that were asked last, found by their addresses: a search asks a few of them of one device after the other.
    recent: Vec<(Str, usize)>,
    /// What the answers take, in bytes.
    size: usize,
}

#[derive(Debug)]
struct Selector {
    program: Result<Program, SelectError>,
    answers: BySlice,
}

/// What a selector said.
#[derive(Debug, Default)]
struct BySlice {
    answers: Vec<Answers>,
    /// By the slice's address, the place of its answers.
    places: FxHashMap<usize, usize>,
    /// The slice that was asked about last, and its place.
    recent: Option<(usize, usize)>,
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
const STEPS_PER_BYTE: usize = 5;
const BYTES_PER_STEP: usize = 64;

/// What the answers of one slice take beside a byte for each device: their place, and what is left of a slice that is gone.
const BYTES_OF_SLICE: usize = 64 + size_of::<ResourceSlice>();

/// Expressions that are found by their addresses: those of a class and of a request, and of another such pair.
const RECENT: usize = 4;

impl Select for Selectors {
    fn selects(&mut self, expression: &Str, device: PublishedDevice<'_>, steps: &mut i64) -> Result<bool, SelectError> {
        *steps -= (expression.len() / BYTES_PER_STEP) as i64;
        if self.size >= SELECTOR_ANSWERS_KEPT {
            self.forget_answers();
        }
        let place = self.place(expression, steps);
        let Selector { program, answers } = &mut self.all[place];
        let program = program.as_ref().map_err(Clone::clone)?;
        let known = &mut answers.of(device.slice, &mut self.size).of_devices[device.in_slice as usize];
        if let Some(known) = known {
            return Ok(*known);
        }
        let answer = evaluate(program, &device.view(), steps)?;
        *known = Some(answer);
        Ok(answer)
    }
}

impl Selectors {
    fn place(&mut self, expression: &Str, steps: &mut i64) -> usize {
        if let Some((_, place)) = self.recent.iter().find(|(known, _)| Arc::ptr_eq(known, expression)) {
            return *place;
        }
        if self.all.len() >= SELECTORS_KEPT && !self.places.contains_key(expression) {
            *self = Self::default();
        }
        let place = *self.places.entry(expression.clone()).or_insert_with(|| {
            *steps -= (STEPS_PER_BYTE * expression.len()) as i64;
            self.all.push(Selector::new(expression));
            self.all.len() - 1
        });
        if self.recent.len() == RECENT {
            self.recent.remove(0);
        }
        self.recent.push((expression.clone(), place));
        place
    }

    fn forget_answers(&mut self) {
        self.all.iter_mut().for_each(|selector| selector.answers = BySlice::default());
        self.size = 0;
    }
}

impl Selector {
    fn new(expression: &str) -> Self {
        Self { program: Program::compile(expression).map_err(of_compiling), answers: BySlice::default() }
    }
}

impl BySlice {
    /// `size` becomes what all answers take.
    fn of(&mut self, slice: &Arc<ResourceSlice>, size: &mut usize) -> &mut Answers {
        let address = Arc::as_ptr(slice).addr();
        let place = match self.recent {
            Some((known, place)) if known == address => place,
            _ => *self.places.entry(address).or_insert_with(|| {
                let answers = Answers::none(slice);
                *size += BYTES_OF_SLICE + answers.of_devices.len();
                self.answers.push(answers);
                self.answers.len() - 1
            }),
        };
        self.recent = Some((address, place));
        &mut self.answers[place]
    }
}

impl Answers {
    fn none(slice: &Arc<ResourceSlice>) -> Self {
        Self { _slice: Arc::downgrade(slice), of_devices: vec![None; slice.devices.len()].into() }
    }
}

fn evaluate(program: &Program, device: &Device<'_>, steps: &mut i64) -> Result<bool, SelectError> {
    let mut left = SELECTOR_STEPS;
    let answer = program.matches(device, &mut left);
    *steps -= (SELECTOR_STEPS - left) as i64;
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
    use crate::cycle::Rng;
    use crate::device_testing::devices_of;
    use berth_devices::model::PoolId;

    /// What the selector says of the slice's first device, and what that took.
    fn ask(selectors: &mut Selectors, expression: &str, slice: &Arc<ResourceSlice>) -> (bool, i64) {
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
    fn whatever_was_asked_before_the_answer_is_that_of_a_first_question() {
        let mut rng = Rng::seeded(1);
        let texts = |i: u64| format!("device.driver == '{}'", i % 5);
        let expressions: Vec<Str> = (0..9).map(|i| texts(i).into()).collect();
        let driven_by = |i: usize| ResourceSlice {
            id: PoolId { driver: i.to_string().into(), pool: "p".into() },
            ..devices_of("a", &["0", "1"])
        };
        let mut slices: Vec<Arc<ResourceSlice>> = (0..5).map(driven_by).map(Arc::new).collect();
        let mut kept = Selectors::default();
        for _ in 0..5_000 {
            let (expression, slice) = (&expressions[rng.below(9) as usize], rng.below(5) as usize);
            match rng.below(20) {
                0 => kept.size = SELECTOR_ANSWERS_KEPT,
                1 => drop(ask(&mut kept, &format!("{} >= 0", rng.below(1_000)), &slices[slice])),
                2 => slices[slice] = Arc::new(driven_by(rng.below(5) as usize)),
                _ => {}
            }
            let device = PublishedDevice { slice: &slices[slice], in_slice: rng.below(2) as u32 };
            let answer = kept.selects(expression, device, &mut 1_000_000);
            assert_eq!(answer, Selectors::default().selects(expression, device, &mut 1_000_000));
        }
    }

    #[test]
    fn selectors_and_answers_do_not_add_up() {
        let mut selectors = Selectors::default();
        let names: Vec<String> = (0..128).map(|name| name.to_string()).collect();
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let slice = devices_of("a", &names);
        for number in 0..20_000 {
            ask(&mut selectors, &format!("{} >= 0", number % 500), &Arc::new(slice.clone()));
            assert!(selectors.all.len() <= SELECTORS_KEPT);
            let held: usize = selectors.all.iter().map(|selector| selector.answers.answers.len()).sum();
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
