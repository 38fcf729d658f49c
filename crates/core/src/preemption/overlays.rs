//! A node without the pods that may be victims.

use crate::cycle::NodeScan;
use crate::ledger::{Ledger, NodeId, PlacedPod};
use crate::plugins::{Overlay, Verdict};
use std::sync::Arc;

/// The node under test, without its victims: as it is, and with the pods that are nominated to it.
#[derive(Debug, Default)]
pub(super) struct Overlays {
    pub(super) without: Overlay,
    nominated: Option<Overlay>,
    /// Whether filters look at amounts and ports alone, so that the overlays need not list the pods.
    pub(super) only_amounts: bool,
    /// What judging the row takes, whatever is laid over it, in units of [`Work`](crate::plugins::Work).
    row_cost: usize,
    /// Whether what is laid over the row makes it no dearer: nothing there has a port, and filters look at amounts alone.
    adds_no_cost: bool,
}

impl Overlays {
    /// `has_ports`: one of the pods that may be victims has a host port.
    pub(super) fn start_on(&mut self, scan: &NodeScan<'_>, node: NodeId, has_ports: bool) {
        self.without.clear();
        self.nominated = scan.checks.nominated_to(node).cloned();
        self.only_amounts = !scan.checks.looks_around();
        self.row_cost = scan.checks.cost_of_row(node);
        let is_nominated_with_ports = self.nominated.as_ref().is_some_and(Overlay::has_ports);
        self.adds_no_cost = self.only_amounts && !has_ports && !is_nominated_with_ports;
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Overlay> {
        std::iter::once(&mut self.without).chain(&mut self.nominated)
    }

    #[inline]
    pub(super) fn remove(&mut self, ledger: &Ledger, placed: &Arc<PlacedPod>) {
        if self.only_amounts {
            self.each().for_each(|overlay| overlay.remove_amounts(ledger.nodes(), placed));
        } else {
            self.each().for_each(|overlay| overlay.remove(ledger.nodes(), placed));
        }
    }

    #[inline]
    pub(super) fn restore(&mut self, ledger: &Ledger, placed: &Arc<PlacedPod>) {
        if self.only_amounts {
            self.each().for_each(|overlay| overlay.restore_amounts(ledger.nodes(), placed));
        } else {
            self.each().for_each(|overlay| overlay.restore(ledger.nodes(), placed));
        }
    }

    /// What [`Self::judge`] takes, in units of [`Work`](crate::plugins::Work).
    #[inline]
    pub(super) fn cost(&self, scan: &NodeScan<'_>, node: NodeId) -> usize {
        let overlays = 1 + usize::from(self.nominated.is_some());
        if self.adds_no_cost {
            return overlays * self.row_cost;
        }
        let added = |overlay| scan.checks.cost_of_overlay(node, overlay);
        overlays * self.row_cost + added(&self.without) + self.nominated.as_ref().map_or(0, added)
    }

    /// Filter with the pods that are nominated to the node, then without them.
    pub(super) fn judge(&self, scan: &NodeScan<'_>, node: NodeId) -> Verdict {
        let with = self.nominated.as_ref().map_or(Verdict::FITS, |overlay| scan.checks.judge_under(node, overlay));
        if with.fits() { scan.checks.judge_under(node, &self.without) } else { with }
    }

    /// As [`Self::judge`], of a node that did fit.
    #[inline]
    pub(super) fn still_fit(&self, scan: &NodeScan<'_>, node: NodeId) -> bool {
        let fits = |overlay| scan.checks.still_fits_under(node, overlay);
        self.nominated.as_ref().is_none_or(fits) && fits(&self.without)
    }
}
