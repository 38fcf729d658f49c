use berth_core::model::Time;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Since when a worker's thread has been busy without a look at its mailbox. Written once a step, read without a lock: it must
/// tell the truth about a thread that hangs with every lock in its hands.
#[derive(Debug, Default)]
pub(super) struct Pulse(AtomicU64);

impl Pulse {
    /// A step begins.
    pub(super) fn begin(&self, now: Time) {
        // 0 means idle.
        self.0.store(now.as_nanos().max(1), Ordering::Relaxed);
    }

    /// The thread waits for mail, or has ended.
    pub(super) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub(super) fn busy_since(&self) -> Option<Time> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Time::ZERO + Duration::from_nanos(nanos)),
        }
    }
}
