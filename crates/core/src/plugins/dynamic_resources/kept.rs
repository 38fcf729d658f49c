//! What looks at a pod's claims have found so far, where the last was given up.

use super::selectors::Selectors;
use crate::ledger::{Ledger, NodeId};
use crate::model::{Pod, ResourceClaim, Str};
use crate::plugins::context::{Cause, Verdict};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What is good for one pod as long as none of its claims changes, nor what claims hold, nor a slice, a class or a label of a node.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    uid: Option<Str>,
    /// The pod's claims as they were, each with whether its devices are late.
    claims: Vec<(Arc<ResourceClaim>, bool)>,
    versions: (u64, u64),
    rows: FxHashMap<NodeId, Found>,
    pub(super) selectors: Selectors,
}

/// What was found on one row.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(super) verdict: Verdict,
    /// Bit by bit, the claims of the pod that are allocated for other nodes; those beyond the 64th are left out.
    pub(super) unavailable: u64,
    /// The score before it is normalised.
    pub(super) raw_score: i64,
    /// What ends the attempt, in upstream's words.
    pub(super) failure: Option<Str>,
}

impl Found {
    pub(super) const fn fits(raw_score: i64) -> Self {
        Self { verdict: Verdict::FITS, unavailable: 0, raw_score, failure: None }
    }

    pub(super) const fn refused(cause: Cause) -> Self {
        Self { verdict: Verdict::unresolvable(cause), unavailable: 0, raw_score: 0, failure: None }
    }

    pub(super) fn failed(text: String) -> Self {
        Self { failure: Some(text.into()), ..Self::refused(Cause::Devices) }
    }
}

impl Kept {
    /// Forgets what was found unless it was found for this pod and these claims, and nothing has changed since.
    pub(super) fn begin(&mut self, ledger: &Ledger, pod: &Pod, claims: &[&Arc<ResourceClaim>]) {
        let versions = Self::versions(ledger);
        let is_late = |claim: &ResourceClaim| ledger.devices().is_late(&claim.key);
        let mut same = self.claims.iter().zip(claims);
        let is_good = self.uid.as_ref() == Some(&pod.uid)
            && self.versions == versions
            && self.claims.len() == claims.len()
            && same.all(|((kept, late), claim)| Arc::ptr_eq(kept, claim) && *late == is_late(claim));
        if !is_good {
            self.uid = Some(pod.uid.clone());
            self.claims = claims.iter().map(|claim| (Arc::clone(claim), is_late(claim))).collect();
            self.versions = versions;
            self.rows.clear();
        }
    }

    fn versions(ledger: &Ledger) -> (u64, u64) {
        (ledger.devices().version(), ledger.node_labels_version())
    }

    /// A pod without claims is scored next: what was found for another says nothing of it.
    pub(crate) fn end(&mut self) {
        self.uid = None;
        self.claims.clear();
        self.rows.clear();
    }

    pub(super) fn found(&self, node: NodeId) -> Option<&Found> {
        self.rows.get(&node)
    }

    pub(super) fn keep(&mut self, node: NodeId, found: Found) {
        self.rows.insert(node, found);
    }

    /// The raw scores of the nodes, which were judged for the pod that is scored. False if all are 0, so that the score tells none apart.
    pub(crate) fn raw_scores(&self, ledger: &Ledger, nodes: &[NodeId], out: &mut Vec<i64>) -> bool {
        if self.rows.is_empty() || self.versions != Self::versions(ledger) {
            return false;
        }
        out.extend(nodes.iter().map(|node| self.found(*node).map_or(0, |found| found.raw_score)));
        out.iter().any(|raw| *raw != 0)
    }
}
