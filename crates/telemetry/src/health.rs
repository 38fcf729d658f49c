use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What must hold for the process to be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// This process holds the lease.
    Leadership,
    /// Pods, nodes and namespaces were read after the lease was taken, and their watches are alive.
    Caches,
    /// Profiles were read.
    Profiles,
    /// Nothing failed permanently.
    Process,
}

impl Check {
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

/// What stands in the way of being ready. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<BTreeMap<Check, String>>>);

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

    /// What does not hold, one line each; empty if the process is ready.
    pub fn failing(&self) -> Vec<String> {
        self.lock().iter().map(|(check, reason)| format!("{}: {reason}", check.name())).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Check, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
