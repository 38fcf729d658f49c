use super::Ledger;
use std::cell::RefCell;

/// How a worker reaches the ledger: under a lock in the operator, plainly in tests and the simulator.
///
/// Neither closure may call back into the same access.
pub trait LedgerAccess {
    /// Reads.
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R;
    /// Writes.
    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R;
}

impl LedgerAccess for RefCell<Ledger> {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        f(&self.borrow())
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        f(&mut self.borrow_mut())
    }
}
