use crate::core::ledger::{Ledger, LedgerAccess};
use std::sync::{PoisonError, RwLock};

/// The one ledger under its lock.
#[derive(Debug, Default)]
pub(super) struct SharedLedger(RwLock<Ledger>);

impl SharedLedger {
    /// Whether a panic left the ledger half written. Whoever catches that panic ends the process; until then others may
    /// go on for a moment, and what they decide is checked by the API server's preconditions.
    pub(super) fn is_broken(&self) -> bool {
        self.0.is_poisoned()
    }
}

impl LedgerAccess for SharedLedger {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        f(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        f(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}
