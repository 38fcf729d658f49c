use super::mailbox::{Mailbox, Workers};
use super::pulse::Pulse;
use super::quarantine::Quarantine;
use super::seat::{Seat, ShadowView};
use super::stats::BindStats;
use berth_core::ledger::{Kinds, News};
use berth_core::model::{Str, Time};
use berth_core::profile::CompiledProfile;
use berth_core::worker::WorkerSnapshot;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a worker's thread is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerState {
    /// It works (or is paused by its profile).
    Running,
    /// It panicked with this message, and is started again when the pause is over.
    Failed { message: String, again_at: Time },
    /// It gave back what it had not sent, and ended.
    Stopped,
}

/// A worker as others see it.
#[derive(Debug, Clone)]
pub struct WorkerView {
    /// What runs, or is to run after a failure.
    pub profile: Arc<CompiledProfile>,
    pub state: WorkerState,
    /// At most a second old while the worker works; `None` before its first step.
    pub snapshot: Option<Arc<WorkerSnapshot>>,
    /// When it was first started.
    pub started_at: Time,
    /// How often it was started again after a failure.
    pub restarts: u64,
    pub binds: Arc<BindStats>,
    /// Its binds that were decided and not yet answered.
    pub unacknowledged: usize,
    /// The ledger's version up to which it had followed the change log when its last step ended; `None` before its first step.
    pub followed: Option<u64>,
    /// Pods that are held because their attempts made the worker panic.
    pub quarantined: usize,
    /// Since when its thread has been in one step. A step takes milliseconds; one of many seconds hangs.
    pub busy_since: Option<Time>,
    /// What was compared with other schedulers; `None` but in mode DryRun.
    pub shadow: Option<ShadowView>,
}

impl WorkerView {
    pub fn is_running(&self) -> bool {
        self.state == WorkerState::Running
    }
}

/// What a worker's thread and the engine share.
#[derive(Debug)]
pub(super) struct WorkerHandle {
    pub(super) name: Str,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) binds: Arc<BindStats>,
    pub(super) pulse: Pulse,
    pub(super) seat: Seat,
    quarantine: Mutex<Quarantine>,
    published: Mutex<Published>,
}

/// What the worker says after each step.
#[derive(Debug)]
struct Published {
    view: WorkerView,
    /// The kinds of changes of which it has to hear at once.
    interest: Kinds,
}

impl WorkerHandle {
    /// `seed` is that of the profile's draws among equals.
    pub(super) fn new(profile: Arc<CompiledProfile>, started_at: Time, place: Workers, seed: u64) -> Self {
        let name = profile.name.clone();
        let seat = Seat::new(seed);
        seat.set_profile(&profile, started_at);
        let binds = Arc::<BindStats>::default();
        let view = WorkerView {
            profile,
            state: WorkerState::Running,
            snapshot: None,
            started_at,
            restarts: 0,
            binds: binds.clone(),
            unacknowledged: 0,
            followed: None,
            quarantined: 0,
            busy_since: None,
            shadow: None,
        };
        let (mailbox, pulse, quarantine) = (Arc::new(Mailbox::new(place)), Pulse::default(), Mutex::default());
        // One that has not looked yet has to hear of everything.
        let published = Mutex::new(Published { view, interest: Kinds::ALL });
        Self { name, mailbox, binds, pulse, seat, quarantine, published }
    }

    pub(super) fn profile(&self) -> Arc<CompiledProfile> {
        self.update(|view| view.profile.clone())
    }

    /// Takes up another profile `now`. It may do without what made the worker panic: quarantined pods get another chance.
    pub(super) fn set_profile(&self, profile: Arc<CompiledProfile>, now: Time) {
        self.quarantine(Quarantine::clear);
        self.seat.set_profile(&profile, now);
        self.update(|view| view.profile = profile);
    }

    /// Tells the worker of `news`: at once if that concerns it, else late.
    pub(super) fn tell(&self, news: &News) {
        if self.concerns(news) { self.mailbox.wake() } else { self.mailbox.wake_late() }
    }

    fn concerns(&self, news: &News) -> bool {
        let published = self.lock();
        let Published { view, interest } = &*published;
        news.concerns(*interest, &view.profile.scheduler_names) || news.leaves_behind(view.followed.unwrap_or_default())
    }

    /// A step has ended, and the worker is interested in these kinds of changes until the next one ends. Whether that is more than before:
    /// then it has to look at the ledger's version once more. What came since was told by what it had said before.
    pub(super) fn step_ended(&self, unacknowledged: usize, followed: Option<u64>, interest: Kinds) -> bool {
        let mut published = self.lock();
        published.view.unacknowledged = unacknowledged;
        published.view.followed = followed;
        let before = std::mem::replace(&mut published.interest, interest);
        !interest.is_within(before)
    }

    /// Changes or reads the quarantine; the view follows.
    pub(super) fn quarantine<R>(&self, f: impl FnOnce(&mut Quarantine) -> R) -> R {
        let mut quarantine = self.quarantine.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut quarantine);
        let quarantined = quarantine.held().count();
        self.update(|view| view.quarantined = quarantined);
        result
    }

    /// What was counted of both arms of a rollout began with the worker that has failed: nobody is to judge by it.
    pub(super) fn forget_arms(&self) {
        self.update(|view| {
            if let Some(snapshot) = &mut view.snapshot {
                Arc::make_mut(snapshot).arms = None;
            }
        });
    }

    pub(super) fn set_state(&self, state: WorkerState) {
        self.update(|view| view.state = state);
    }

    pub(super) fn view(&self) -> WorkerView {
        let (busy_since, shadow) = (self.pulse.busy_since(), self.seat.view());
        self.update(|view| WorkerView { busy_since, shadow, ..view.clone() })
    }

    pub(super) fn update<R>(&self, f: impl FnOnce(&mut WorkerView) -> R) -> R {
        f(&mut self.lock().view)
    }

    fn lock(&self) -> MutexGuard<'_, Published> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::ledger::Ledger;
    use berth_core::model::Pod;
    use berth_core::testing;

    #[test]
    fn a_worker_hears_of_its_own_pods_and_of_what_it_waits_for() {
        let profile = Arc::new(CompiledProfile::default_preset("a"));
        let handle = WorkerHandle::new(profile, Time::ZERO, Workers::OnThreads, 1);
        let mut ledger = Ledger::new();
        ledger.apply_node(&testing::node("n", 1_000, 1 << 30, 10));
        let (joined, at) = (News::since(ledger.log(), 0), ledger.version());
        assert!(handle.concerns(&joined), "it has not looked yet");
        assert!(!handle.step_ended(0, Some(at), Kinds::NONE));
        assert!(!handle.concerns(&joined));
        ledger.apply_pod(Pod { scheduler_name: "a".into(), ..testing::pending_pod("ns", "p") });
        assert!(handle.concerns(&News::since(ledger.log(), at)));
        assert!(handle.step_ended(0, Some(at), Kinds::OTHER), "it has to look once more");
        assert!(handle.concerns(&joined));
    }
}
