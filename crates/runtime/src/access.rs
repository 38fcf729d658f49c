use berth_core::ledger::{Ledger, LedgerAccess};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard, TryLockError};

/// How often a writer looks for the lock before it sleeps, some 50 µs in all: others hold it for a few, and to be put to sleep and
/// woken costs tens of them. A worker beside a busy one otherwise costs that one 4% of its rate just by reading what happened.
const LOOKS: u32 = 1_000;

/// The one ledger under its lock.
#[derive(Debug, Default)]
pub(super) struct SharedLedger {
    ledger: RwLock<Ledger>,
    /// Whether a write has given capacity back since somebody asked.
    freed: AtomicBool,
}

impl SharedLedger {
    /// Whether a panic left the ledger half written. Whoever catches that panic ends the process; until then others may
    /// go on for a moment, and what they decide is checked by the API server's preconditions.
    pub(super) fn is_broken(&self) -> bool {
        self.ledger.is_poisoned()
    }

    /// Whether capacity came back since the last call: then every worker is to be woken, by whoever asks first.
    pub(super) fn take_freed(&self) -> bool {
        self.freed.load(Ordering::Relaxed) && self.freed.swap(false, Ordering::Relaxed)
    }

    fn lock(&self) -> RwLockWriteGuard<'_, Ledger> {
        for _ in 0..LOOKS {
            match self.ledger.try_write() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(broken)) => return broken.into_inner(),
                Err(TryLockError::WouldBlock) => spin_loop(),
            }
        }
        self.ledger.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LedgerAccess for SharedLedger {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        f(&self.ledger.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        let mut ledger = self.lock();
        let before = ledger.log().freed();
        let result = f(&mut ledger);
        if ledger.log().freed() != before {
            self.freed.store(true, Ordering::Relaxed);
        }
        result
    }
}
