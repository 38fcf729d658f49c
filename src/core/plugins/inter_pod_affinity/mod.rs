//! InterPodAffinity: pods want to be near some pods and away from others.
//! After `pkg/scheduler/framework/plugins/interpodaffinity`.

use super::relations::Cx;
use super::{Cause, Overlay, Subject, Verdict};
use crate::core::ledger::{Ledger, NodeId};
use crate::core::model::{Labels, PodShape, Str};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Labels (key and value) that close a node.
type Domains = FxHashSet<(Str, Str)>;

/// Closed domains by shape, good for one version of the terms. Each entry keeps the shape whose address is its key.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    version: u64,
    by_shape: FxHashMap<*const PodShape, (Arc<PodShape>, Domains)>,
}

/// What excludes nodes in one attempt.
#[derive(Debug)]
pub(crate) struct Hard<'t> {
    closed: Option<&'t Domains>,
}

impl Tables {
    /// PreFilter: none where no placed or promised pod's term can exclude the pod.
    pub(crate) fn prepare<'t>(&'t mut self, cx: Cx<'t>, subject: &Subject) -> Option<Hard<'t>> {
        let (terms, shape) = (&cx.ledger.terms().anti_affinity, &subject.shape);
        if terms.is_empty() {
            return (!cx.ledger.nominations().is_empty()).then_some(Hard { closed: None });
        }
        if self.version != terms.version() {
            self.version = terms.version();
            self.by_shape.clear();
        }
        let compute = || (shape.clone(), closed_domains(cx.ledger, shape));
        let closed = &self.by_shape.entry(Arc::as_ptr(shape)).or_insert_with(compute).1;
        let matters = !(closed.is_empty() && cx.ledger.nominations().is_empty());
        matters.then_some(Hard { closed: Some(closed) })
    }

    /// PreScore, Score and NormalizeScore over the feasible nodes.
    pub(crate) fn score(&mut self, _cx: Cx<'_>, _subject: &Subject, _feasible: &[NodeId], _out: &mut Vec<i64>) -> bool {
        false
    }
}

impl Hard<'_> {
    pub(crate) fn filter(&self, cx: Cx<'_>, subject: &Subject, node: NodeId, overlay: &Overlay) -> Verdict {
        let labels = cx.ledger.nodes().labels(node);
        let closed = self.closed.is_some_and(|closed| excludes(closed, labels));
        let shape = &subject.shape;
        let promised = overlay.added.iter().flat_map(|pod| &pod.shape.anti_affinity).any(|term| {
            labels.get(&term.topology_key).is_some() && cx.ledger.speaks_of(term, &shape.namespace, &shape.labels)
        });
        if closed || promised { Verdict::unschedulable(Cause::ExistingAntiAffinity) } else { Verdict::FITS }
    }
}

/// Whether a node with `labels` is in one of the `closed` domains.
fn excludes(closed: &Domains, labels: &Labels) -> bool {
    !closed.is_empty() && labels.iter().any(|(key, value)| closed.contains(&(key.clone(), value.clone())))
}

/// The (label, value) domains that placed pods' anti-affinity closes to pods of `shape`.
fn closed_domains(ledger: &Ledger, shape: &PodShape) -> Domains {
    let mut closed = Domains::default();
    for (term, spots) in ledger.terms().anti_affinity.iter() {
        if !ledger.speaks_of(term, &shape.namespace, &shape.labels) {
            continue;
        }
        for (node, _) in spots.iter() {
            if let Some(value) = ledger.nodes().labels(node).get(&term.topology_key) {
                closed.insert((term.topology_key.clone(), value.clone()));
            }
        }
    }
    closed
}
