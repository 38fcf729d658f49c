//! How the election stands, for the rest of the process.

use crate::client::Fault;
use crate::lease::decide::{Holder, Observed};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseState {
    /// The Lease has not been read yet; with what went wrong last, `None` before the first try.
    Starting {
        fault: Option<Fault>,
    },
    /// Another replica of our installation holds it; that process may be dead.
    Standby {
        holder: String,
    },
    /// A process of another installation holds it; it may be dead.
    Waiting {
        holder: String,
    },
    /// Another installation holds it and has renewed it for longer than one lease duration: it is alive.
    AnotherInstallation {
        holder: String,
    },
    /// It could not be read for longer than it lasts: who holds it is not known.
    Unread {
        fault: Fault,
    },
    /// It was deleted, or somebody took its holder out of it: whoever held it may still lead.
    Deleted,
    Leading,
    /// We led and do not any more; the caller exits. Final.
    Lost {
        reason: String,
    },
    /// Released on request. Final.
    Released,
}

impl LeaseState {
    /// What it means that we wait.
    pub(super) fn while_waiting(seen: &Observed) -> Self {
        let record = seen.record.as_ref();
        let Some(Holder::Other(holder)) = record.map(|record| &record.holder) else { return Self::Deleted };
        let holder = holder.clone();
        if record.is_some_and(|record| record.is_ours) {
            return Self::Standby { holder };
        }
        match seen.other_installation() {
            Some(_) => Self::AnotherInstallation { holder },
            None => Self::Waiting { holder },
        }
    }
}
