//! What looks at a pod's volumes have found so far, where the last was given up.

use crate::ledger::{Ledger, NodeId};
use crate::model::{Pod, PodVolumes, Str};
use crate::plugins::context::Verdict;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Weak};

/// Verdicts on rows, good for one pod as long as no claim, volume or the like changes.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    uid: Option<Str>,
    volumes: Weak<PodVolumes>,
    version: u64,
    in_use: bool,
    rows: FxHashMap<NodeId, Row>,
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
    pub(crate) fn begin(&mut self, ledger: &Ledger, pod: &Pod, in_use: bool) {
        let version = ledger.volumes().version();
        let same = |volumes: &Arc<PodVolumes>| std::ptr::eq(self.volumes.as_ptr(), Arc::as_ptr(volumes));
        let is_good = self.uid.as_ref() == Some(&pod.uid)
            && pod.volumes.as_ref().is_some_and(same)
            && (self.version, self.in_use) == (version, in_use);
        if !is_good {
            let volumes = pod.volumes.as_ref().map(Arc::downgrade).unwrap_or_default();
            *self = Self { uid: Some(pod.uid.clone()), volumes, version, in_use, ..Self::default() };
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
