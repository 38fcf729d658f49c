//! The place beside a worker from which a profile in mode DryRun follows the pods of other schedulers.

use super::quarantine::panic_message;
use berth_core::ledger::LedgerAccess;
use berth_core::model::{Str, Time};
use berth_core::profile::{CompiledProfile, Mode};
use berth_core::shadow::{Binding, Shadow, ShadowLog, ShadowPage, ShadowTotals, Skip};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a profile has compared since it was taken up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowView {
    pub totals: ShadowTotals,
    /// When counting began.
    pub since: Time,
}

/// Where a profile's shadow is, while there is one.
#[derive(Debug)]
pub(super) struct Seat {
    seed: u64,
    following: Mutex<Option<Arc<Following>>>,
}

/// One profile that follows others. A new profile gets a new one, which counts from nothing.
#[derive(Debug)]
pub(super) struct Following {
    profile: Arc<CompiledProfile>,
    seed: u64,
    since: Time,
    /// Held for as long as a comparison takes.
    shadow: Mutex<Shadow>,
    log: Mutex<ShadowLog>,
}

/// A lock that a panic left behind is as good as before: what it guards is replaced then.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seat {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed, following: Mutex::new(None) }
    }

    /// Follows as `profile` says, from `now` on.
    pub(super) fn set_profile(&self, profile: &Arc<CompiledProfile>, now: Time) {
        let follows = profile.mode == Mode::DryRun && !profile.shadow.is_empty();
        *lock(&self.following) = follows.then(|| Arc::new(Following::new(profile.clone(), self.seed, now)));
    }

    /// What follows the pods of `scheduler`, if they are followed.
    pub(super) fn following(&self, scheduler: &str) -> Option<Arc<Following>> {
        lock(&self.following).as_ref().filter(|following| following.follows(scheduler)).cloned()
    }

    fn present(&self) -> Option<Arc<Following>> {
        lock(&self.following).clone()
    }

    pub(super) fn view(&self) -> Option<ShadowView> {
        let following = self.present()?;
        let totals = lock(&following.log).totals().clone();
        Some(ShadowView { totals, since: following.since })
    }

    pub(super) fn page(&self, after: u64, most: usize) -> Option<ShadowPage> {
        Some(lock(&self.present()?.log).page(after, most))
    }

    /// When [`Self::rest`] is to be called, although nothing has happened.
    pub(super) fn rests_at(&self) -> Option<Time> {
        self.present()?.shadow.try_lock().ok()?.rests_at()
    }

    /// Gives back what is not used. One that compares at this moment is in use.
    pub(super) fn rest(&self, now: Time) {
        let Some(following) = self.present() else { return };
        if let Ok(mut shadow) = following.shadow.try_lock() {
            shadow.rest(now);
        }
    }
}

impl Following {
    fn new(profile: Arc<CompiledProfile>, seed: u64, since: Time) -> Self {
        let shadow = Mutex::new(Shadow::new(&profile, seed));
        Self { profile, seed, since, shadow, log: Mutex::default() }
    }

    fn follows(&self, scheduler: &str) -> bool {
        self.profile.shadow.iter().any(|name| **name == *scheduler)
    }

    pub(super) fn skip(&self, why: Skip) {
        lock(&self.log).skip(why);
    }

    /// Compares, and notes what comes of it. A panic ends this comparison alone: who calls has a watch to go on with.
    pub(super) fn compare(&self, ledger: &impl LedgerAccess, binding: &Binding) {
        let mut shadow = lock(&self.shadow);
        let compared = catch_unwind(AssertUnwindSafe(|| shadow.compare(ledger, binding)));
        let compared = compared.unwrap_or_else(|panic| {
            let message = panic_message(&*panic);
            let profile: &Str = &self.profile.name;
            tracing::error!(%profile, pod = %binding.pod.key, message, "comparison of a pod panicked");
            *shadow = Shadow::new(&self.profile, self.seed);
            Err(Skip::Failed)
        });
        drop(shadow);
        match compared {
            Ok(comparison) => lock(&self.log).push(comparison),
            Err(why) => self.skip(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::ledger::Ledger;
    use berth_core::testing;

    struct Panics;

    impl LedgerAccess for Panics {
        fn read<R>(&self, _: impl FnOnce(&Ledger) -> R) -> R {
            panic!("told to")
        }
        fn write<R>(&self, _: impl FnOnce(&mut Ledger) -> R) -> R {
            panic!("told to")
        }
    }

    #[test]
    fn a_comparison_that_panics_is_counted_and_ends_nothing_else() {
        let profile = CompiledProfile { mode: Mode::DryRun, ..CompiledProfile::default_preset("trial") };
        let following = Following::new(Arc::new(profile), 1, Time::ZERO);
        let binding = Binding { pod: Arc::new(testing::pending_pod("ns", "p")), node: "n".into(), at_unix_us: 0 };
        for times in 1..3 {
            following.compare(&Panics, &binding);
            assert_eq!(lock(&following.log).totals().skipped(Skip::Failed), times);
        }
    }
}
