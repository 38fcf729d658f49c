//! What a step may take, and what was seen to take more.

use berth_core::limits;
use berth_core::worker::HeaviestLook;
use berth_counting::Taken;
use std::time::Duration;

/// Work under one hold of the ledger's lock. A hold begins a piece of work as long as any of its work is left. The largest pieces that
/// are drawn here are judgements of a dry run, the terms of a pod with each match class taken away from a node: 64 terms and 32
/// constraints with 150 classes are 14,000 units, less than two holds' work. (Of 330 clusters one took 19,045 units under one hold,
/// the next 10,354; of 1,000 with 1,000 nodes the most was 23,832.) Two holds' work would be enough for all else.
const WORK_UNDER_ONE_HOLD: usize = 3 * limits::WORK_PER_HOLD;

/// What a step may hold at once, and leave behind, beyond the objects themselves.
const BYTES_PER_STEP: usize = 32 << 20;

/// What the ledger and a worker may keep of pods that are gone: the log, interned values that nobody uses, and tables, of which a
/// step leaves no more behind than its own bound.
const BYTES_LEFT: usize = limits::CHANGE_LOG_BYTES + 4 * limits::INTERNED_BYTES + BYTES_PER_STEP;

/// What a decoder keeps: five pools of 16 MiB.
const BYTES_OF_DECODER: usize = 80 << 20;

/// What decoding an object holds at once: so many times its text, and a little. A text of two letters takes as many bytes as the
/// counts of its `Arc`, its place in a list, and its place in the list that is read from the wire.
const BYTES_PER_BYTE: usize = 40;

/// For a decision at 1,000 nodes, or an object that is applied, on one core of a machine that does nothing else.
pub(super) const TIME_PER_STEP: Duration = Duration::from_millis(50);

/// So many of the longest steps are reported.
const WORST: usize = 5;

/// One step of a worker, or one object applied to the ledger.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) what: String,
    /// Pods that the worker decided about.
    pub(super) decided: usize,
    pub(super) took: Duration,
    /// Holds of the lock, and the longest.
    pub(super) holds: usize,
    pub(super) longest: Duration,
    pub(super) taken: Taken,
    /// The most that looks of the worker have taken, where this step took more than those before.
    pub(super) look: HeaviestLook,
}

/// What was measured, and what of it went beyond its bound.
#[derive(Debug)]
pub(super) struct Figures {
    /// Whether time is measured, too.
    timed: bool,
    case: String,
    beyond: Vec<String>,
    worst: Vec<(String, Step)>,
    pub(super) steps: usize,
    pub(super) decided: usize,
    /// Pods that were given devices.
    pub(super) reserved: usize,
    /// Objects that the API server or the decoder refuses.
    pub(super) refused: usize,
    pub(super) most_bytes: usize,
    pub(super) most_left: isize,
    pub(super) look: HeaviestLook,
}

impl Figures {
    pub(super) fn counted() -> Self {
        Self {
            timed: false,
            case: String::new(),
            beyond: Vec::new(),
            worst: Vec::new(),
            steps: 0,
            decided: 0,
            reserved: 0,
            refused: 0,
            most_bytes: 0,
            most_left: 0,
            look: HeaviestLook::default(),
        }
    }

    pub(super) fn timed() -> Self {
        Self { timed: true, ..Self::counted() }
    }

    pub(super) fn begin(&mut self, case: String) {
        self.case = case;
    }

    /// What went beyond its bound.
    pub(super) fn beyond(&self) -> &[String] {
        &self.beyond
    }

    /// The longest steps, the longest first.
    pub(super) fn worst(&self) -> impl Iterator<Item = String> + '_ {
        self.worst.iter().map(|(case, step)| format!("{case} {step}"))
    }

    pub(super) fn fault(&mut self, text: &str) {
        let case = &self.case;
        self.beyond.push(format!("{case} {text}"));
    }

    /// Checks one step; `details` say more of it where that is wanted.
    pub(super) fn note(&mut self, mut step: Step, details: impl FnOnce() -> String) {
        self.steps += 1;
        self.decided += step.decided;
        self.most_bytes = self.most_bytes.max(step.taken.peak);
        let faults = self.faults(&step);
        self.look =
            HeaviestLook { holds: self.look.holds.max(step.look.holds), work: self.look.work.max(step.look.work) };
        let is_long =
            self.timed && self.worst.last().is_none_or(|(_, least)| step.took > least.took || self.worst.len() < WORST);
        if faults.is_empty() && !is_long {
            return;
        }
        step.what += &details();
        for fault in faults {
            self.fault(&format!("{fault}: {step}"));
        }
        if is_long {
            self.worst.push((self.case.clone(), step));
            self.worst.sort_by_key(|(_, step)| std::cmp::Reverse(step.took));
            self.worst.truncate(WORST);
        }
    }

    fn faults(&self, step: &Step) -> Vec<&'static str> {
        let Step { decided, took, taken, look, .. } = step;
        let time = TIME_PER_STEP * (*decided).max(1) as u32;
        let rows = [
            (look.work > WORK_UNDER_ONE_HOLD, "too much work under one hold"),
            (look.holds > limits::HOLDS_PER_LOOK, "a look that did not end by itself"),
            (taken.peak > BYTES_PER_STEP, "too many bytes at once"),
            (taken.kept > BYTES_PER_STEP as isize, "too many bytes kept"),
            (self.timed && *took > time, "too long"),
        ];
        rows.into_iter().filter_map(|(beyond, what)| beyond.then_some(what)).collect()
    }

    /// Checks what decoding an object of `length` bytes took.
    pub(super) fn note_decoded(&mut self, what: &str, length: usize, taken: Taken) {
        let most = BYTES_PER_BYTE * length + (64 << 10);
        if taken.peak > most {
            self.fault(&format!("decoding {what} of {length} bytes held {} bytes, {most} are the most", taken.peak));
        }
    }

    /// Checks what is left when all pods are gone.
    pub(super) fn note_left(&mut self, kept: isize, by_decoder: isize) {
        self.most_left = self.most_left.max(kept);
        for (kept, most, who) in
            [(kept, BYTES_LEFT, "ledger and worker keep"), (by_decoder, BYTES_OF_DECODER, "the decoder keeps")]
        {
            if kept > most as isize {
                self.fault(&format!("{who} {kept} bytes of pods that are gone, {most} are the most"));
            }
        }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, decided, took, holds, longest, taken, look } = self;
        let ms = |of: &Duration| of.as_secs_f64() * 1e3;
        write!(
            f,
            "{:.1} ms for {decided} decisions in {holds} holds (longest {:.1} ms, most work {}), {} KiB at once, {} KiB kept: {what}",
            ms(took),
            ms(longest),
            look.work,
            taken.peak >> 10,
            taken.kept >> 10
        )
    }
}
