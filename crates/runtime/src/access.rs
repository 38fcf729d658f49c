use berth_core::ledger::{Ledger, LedgerAccess};
use std::hint::spin_loop;
use std::sync::{PoisonError, RwLock, RwLockWriteGuard, TryLockError};

/// How often a writer looks for the lock before it sleeps, some 50 µs in all: others hold it for a few, and to be put to sleep and
/// woken costs tens of them. A worker beside a busy one otherwise costs that one 4% of its rate just by reading what happened.
const LOOKS: u32 = 1_000;

/// The one ledger under its lock.
#[derive(Debug, Default)]
pub(super) struct SharedLedger(RwLock<Ledger>);

impl SharedLedger {
    /// Whether a panic left the ledger half written. Whoever catches that panic ends the process; until then others may
    /// go on for a moment, and what they decide is checked by the API server's preconditions.
    pub(super) fn is_broken(&self) -> bool {
        self.0.is_poisoned()
    }

    fn lock(&self) -> RwLockWriteGuard<'_, Ledger> {
        for _ in 0..LOOKS {
            match self.0.try_write() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(broken)) => return broken.into_inner(),
                Err(TryLockError::WouldBlock) => spin_loop(),
            }
        }
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LedgerAccess for SharedLedger {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        f(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        f(&mut self.lock())
    }
}
