//! How long the ledger's lock is held at a time.

use berth_core::ledger::{Ledger, LedgerAccess};
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// A ledger that one thread works on, with the longest time for which it was read or written at once: for so long others would have
/// waited.
pub(crate) struct Held {
    ledger: RefCell<Ledger>,
    longest: Cell<Longest>,
}

/// The longest holds, to read and to write.
#[derive(Default, Clone, Copy)]
pub(crate) struct Longest([Duration; 2]);

impl Longest {
    /// Of these as well.
    pub(crate) fn note(&mut self, holds: [Duration; 2]) {
        for (longest, held) in self.0.iter_mut().zip(holds) {
            *longest = held.max(*longest);
        }
    }

    pub(crate) fn text(self) -> String {
        let [read, written] = self.0;
        format!("longest hold {read:.1?} to read, {written:.1?} to write")
    }
}

const READ: usize = 0;
const WRITTEN: usize = 1;

impl Held {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self { ledger: RefCell::new(ledger), longest: Cell::default() }
    }

    /// Changes the ledger as watches do; that hold does not count.
    pub(crate) fn change<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        f(&mut self.ledger.borrow_mut())
    }

    /// The longest holds since this was last asked.
    pub(crate) fn take_text(&self) -> String {
        self.longest.take().text()
    }

    fn note(&self, kind: usize, began: Instant) {
        let (mut longest, mut holds) = (self.longest.get(), [Duration::ZERO; 2]);
        holds[kind] = began.elapsed();
        longest.note(holds);
        self.longest.set(longest);
    }
}

impl LedgerAccess for Held {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        let began = Instant::now();
        let result = self.ledger.read(f);
        self.note(READ, began);
        result
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        let began = Instant::now();
        let result = self.ledger.write(f);
        self.note(WRITTEN, began);
        result
    }
}
