//! What looks at a pod's volumes have found so far, where the last was given up.

use crate::ledger::{Ledger, NodeId};
use crate::model::{Pod, PodVolumes, Str};
use crate::plugins::context::Verdict;
use crate::plugins::volume_binding::Sought;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Weak};

/// What is good for one pod as long as no claim, volume or the like changes: verdicts on rows, and the volumes that its claims may
/// get.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    uid: Option<Str>,
    volumes: Weak<PodVolumes>,
    version: u64,
    in_use: bool,
    rows: FxHashMap<NodeId, Row>,
    pub(crate) sought: Sought,
    /// Upstream's text of the first filter that failed.
    pub(crate) failure: Option<Str>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    version: u64,
    found: Found,
}

/// The verdicts of the filters that look at volumes: they do not all run one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) volumes: Verdict,
    pub(crate) disks: Verdict,
}

impl Kept {
    /// Forgets everything unless it was found for this pod, and nothing has changed since.
    pub(crate) fn begin(&mut self, ledger: &Ledger, pod: &Pod) {
        let Some(volumes) = &pod.volumes else {
            // The look at a pod with volumes is over. Most pods have none, and come after another one of these.
            if self.uid.is_some() {
                *self = Self::default();
            }
            return;
        };
        let version = ledger.volumes().version();
        let is_good = self.uid.as_ref() == Some(&pod.uid)
            && std::ptr::eq(self.volumes.as_ptr(), Arc::as_ptr(volumes))
            && self.version == version;
        if !is_good {
            let volumes = Arc::downgrade(volumes);
            *self = Self { uid: Some(pod.uid.clone()), volumes, version, ..Self::default() };
        }
    }

    /// Forgets the verdicts unless they were found with the same answer to whether placed pods use a claim of the pod that only one
    /// may use.
    pub(crate) fn see_use(&mut self, in_use: bool) {
        if self.in_use != in_use {
            self.in_use = in_use;
            self.rows.clear();
            self.failure = None;
        }
    }

    /// What was found on the row as it is now.
    pub(crate) fn found(&self, ledger: &Ledger, node: NodeId) -> Option<Found> {
        let row = self.rows.get(&node)?;
        (row.version == ledger.nodes().version[node.index()]).then_some(row.found)
    }

    pub(crate) fn keep(&mut self, ledger: &Ledger, node: NodeId, found: Found) {
        self.rows.insert(node, Row { version: ledger.nodes().version[node.index()], found });
    }
}
