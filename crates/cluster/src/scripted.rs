//! What the tests of the edge share: a scripted server, gates, inboxes.

use crate::bind::{BindRequest, Deliver, WorkerId};
use crate::lease::Gate;
use crate::recheck::{Gone, Recheck, Victim};
use berth_core::io::Input;
use berth_core::model::ClaimKey;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) use berth_core::testing::{pending_pod as pod, refused_pod};
pub(crate) use berth_testing::{Asked, Reply, Scripted, until};

/// What the ledger knows: nothing has changed, unless a test says so.
#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) node_deleted: AtomicBool,
    pub(crate) pod_deleted: AtomicBool,
    /// Victims, by uid, for which nobody waits or that are gone.
    pub(crate) victims: Mutex<BTreeMap<String, Victim>>,
    /// Whether pods have reserved their claims anew.
    pub(crate) reserved_anew: AtomicBool,
    /// The uids of victims whose deletion was answered.
    pub(crate) answered: Mutex<Vec<String>>,
}

impl Recheck for Cluster {
    fn gone(&self, _: &BindRequest) -> Option<Gone> {
        let of_pod = || self.pod_deleted.load(Ordering::Relaxed).then_some(Gone::Pod);
        self.node_deleted.load(Ordering::Relaxed).then_some(Gone::Node).or_else(of_pod)
    }

    fn victim(&self, uid: &str) -> Victim {
        self.victims.lock().unwrap().get(uid).copied().unwrap_or(Victim::Awaited)
    }

    fn is_giving_back(&self, _: &str, _: &ClaimKey, _: &str) -> bool {
        !self.reserved_anew.load(Ordering::Relaxed)
    }

    fn deletion_answered(&self, uid: &str) {
        self.answered.lock().unwrap().push(uid.to_owned());
    }
}

/// What a writer delivered.
pub(crate) type Inputs = Arc<Mutex<Vec<(WorkerId, Input)>>>;

/// Keeps what a writer delivers.
pub(crate) fn inbox() -> (Inputs, Deliver) {
    let inputs = Inputs::default();
    let kept = inputs.clone();
    (inputs, Arc::new(move |worker, input| kept.lock().unwrap().push((worker, input))))
}

/// Opens a gate for longer than any test.
pub(crate) fn open(gate: &Gate) {
    gate.lease_until(tokio::time::Instant::now() + Duration::from_hours(1));
    gate.admit();
}

pub(crate) fn open_gate() -> Gate {
    let gate = Gate::new();
    open(&gate);
    gate
}
