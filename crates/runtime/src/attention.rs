//! What a worker that waits has to hear of at once. What is no news to it it hears of within [`LATE`], all at once: a thread that is woken
//! for each change of the cluster costs more than what it then reads.

use berth_core::ledger::{Kinds, News};
use berth_core::profile::CompiledProfile;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// How late a worker may hear of what does not concern it: it counts as behind until then.
pub(super) const LATE: Duration = Duration::from_secs(1);

/// Written by the worker after each step, read by whoever changes the ledger.
#[derive(Debug)]
pub(super) struct Attention {
    kinds: AtomicU8,
    followed: AtomicU64,
}

impl Default for Attention {
    /// A worker that has not looked yet has to hear of everything.
    fn default() -> Self {
        Self { kinds: AtomicU8::new(Kinds::ALL.bits()), followed: AtomicU64::new(0) }
    }
}

impl Attention {
    /// The worker, which has followed the log up to `followed`, is interested in `kinds` until it says otherwise. Whether that is more than
    /// before: then it has to look at the ledger's version once more. What came since was told by what it had said before.
    pub(super) fn set(&self, kinds: Kinds, followed: u64) -> bool {
        self.followed.store(followed, Ordering::Relaxed);
        let before = Kinds::from_bits(self.kinds.swap(kinds.bits(), Ordering::SeqCst));
        !kinds.is_within(before)
    }

    /// Whether its worker, which serves `profile`, has to hear of `news` at once.
    pub(super) fn is_due(&self, news: &News, profile: &CompiledProfile) -> bool {
        let kinds = Kinds::from_bits(self.kinds.load(Ordering::SeqCst));
        news.concerns(kinds, &profile.scheduler_names) || news.leaves_behind(self.followed.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::ledger::Ledger;
    use berth_core::testing;

    #[test]
    fn a_worker_hears_of_its_own_pods_and_of_what_it_waits_for() {
        let profile = CompiledProfile::default_preset("a");
        let mut ledger = Ledger::new();
        ledger.apply_node(&testing::node("n", 1_000, 1 << 30, 10));
        let joined = News::since(ledger.log(), 0);
        let (attention, at) = (Attention::default(), ledger.version());
        assert!(attention.is_due(&joined, &profile), "it has not looked yet");
        assert!(!attention.set(Kinds::NONE, at));
        assert!(!attention.is_due(&joined, &profile));
        ledger.apply_pod(berth_core::model::Pod { scheduler_name: "a".into(), ..testing::pending_pod("ns", "p") });
        let own = News::since(ledger.log(), at);
        assert!(attention.is_due(&own, &profile));
        assert!(attention.set(Kinds::OTHER, at), "it has to look once more");
        assert!(attention.is_due(&joined, &profile));
    }
}
