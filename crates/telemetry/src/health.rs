use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What must hold for the process to be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// This process holds the lease, or another replica of its installation does.
    Leadership,
    /// Everything that scheduling depends on was read, and the watches are alive.
    Caches,
    /// Profiles were read, if this process leads.
    Profiles,
    /// Nothing failed permanently.
    Process,
}

impl Check {
    const ALL: [Self; 4] = [Self::Leadership, Self::Caches, Self::Profiles, Self::Process];

    /// The name in the answer of `/readyz`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leadership => "leadership",
            Self::Caches => "caches",
            Self::Profiles => "profiles",
            Self::Process => "process",
        }
    }
}

/// Says why the process hangs, if it does.
type Watchdog = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// What stands in the way of being ready, and whether the process hangs. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Health {
    failing: Arc<Mutex<BTreeMap<Check, String>>>,
    /// Who leads, as far as this process knows.
    role: Arc<Mutex<String>>,
    watchdog: Arc<OnceLock<Watchdog>>,
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Health").field("failing", &self.failing()).finish_non_exhaustive()
    }
}

impl Health {
    /// A process that waits for all of `checks`.
    pub fn waiting_for(checks: &[Check]) -> Self {
        let health = Self::default();
        for check in checks {
            health.fail(*check, "not there yet");
        }
        health
    }

    pub fn pass(&self, check: Check) {
        self.lock().remove(&check);
    }

    pub fn fail(&self, check: Check, reason: impl Into<String>) {
        self.lock().insert(check, reason.into());
    }

    /// Says who leads, for people.
    pub fn set_role(&self, role: impl Into<String>) {
        *self.role.lock().unwrap_or_else(PoisonError::into_inner) = role.into();
    }

    /// Every check, one line each as kube-apiserver writes them, and then who leads.
    pub fn verbose(&self) -> String {
        let failing = self.lock();
        let mut text = String::new();
        for check in Check::ALL {
            let (name, reason) = (check.name(), failing.get(&check));
            text += &reason.map_or_else(|| format!("[+]{name} ok\n"), |reason| format!("[-]{name} failed: {reason}\n"));
        }
        drop(failing);
        let role = self.role.lock().unwrap_or_else(PoisonError::into_inner);
        if !role.is_empty() {
            text.push_str(&role);
            text.push('\n');
        }
        text
    }

    /// What does not hold, one line each; empty if the process is ready.
    pub fn failing(&self) -> Vec<String> {
        self.lock().iter().map(|(check, reason)| format!("{}: {reason}", check.name())).collect()
    }

    /// Sets what says why the process hangs, once. It is asked by every look at the process's life, and must not wait for a lock
    /// that a hanging thread may hold.
    pub fn set_watchdog(&self, watchdog: impl Fn() -> Option<String> + Send + Sync + 'static) {
        // A second one changes nothing.
        let _ = self.watchdog.set(Box::new(watchdog));
    }

    /// Why the process hangs and is to be started again, if it does.
    pub fn hangs(&self) -> Option<String> {
        self.watchdog.get().and_then(|watchdog| watchdog())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Check, String>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
