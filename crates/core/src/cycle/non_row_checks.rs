use super::diagnosis::{NoFit, Tally};
use super::rows::CachedRows;
use crate::io::IdleClaim;
use crate::ledger::{ClaimPlan, NodeId, VolumePlan};
use crate::model::{Pod, Str};
use crate::plugins::{
    Nominated, Overlay, Plugin, PluginContext, PluginWatch, PreFilterRefusal, Relations, ResolvedPod, Stop, Tables,
    Verdict, Work, cost_on, filter, filter_under, fits_under, node_affinity,
};

/// What PreFilter leaves for one pod, and what the cached verdicts of its class leave out because it is not a row's own:
/// nominations, and what plugins found in other pods, domains and volumes.
///
/// For most pods there is none of it, and this costs a few comparisons an attempt.
#[derive(Debug)]
pub(crate) struct NonRowChecks<'t> {
    pub(crate) cx: PluginContext<'t>,
    pub(crate) resolved: &'t ResolvedPod,
    /// The nodes of the profile that the pod's node affinity names, if it names any: the others are not looked at.
    pub(super) named: Option<Vec<NodeId>>,
    /// Nodes nominated for pods of at least this pod's priority, with what those pods add.
    nominated: Nominated,
    relations: Relations<'t>,
}

/// PreFilter. `resolved` is `pod` resolved against the ledger of `cx` as it is now.
pub(super) fn prepare<'t>(
    cx: PluginContext<'t>,
    tables: &'t mut Tables,
    pod: &Pod,
    resolved: &'t ResolvedPod,
    work: &mut Work,
    watch: &mut PluginWatch<'_>,
) -> Result<NonRowChecks<'t>, Stop> {
    let named = named(cx, pod)?;
    let nominated = tables.nominated(cx.ledger, pod);
    let relations = tables.pre_filter(cx, pod, resolved, work, watch)?;
    Ok(NonRowChecks { cx, resolved, named, nominated, relations })
}

impl NonRowChecks<'_> {
    /// Whether every row's own verdict stands.
    pub(super) fn is_empty(&self) -> bool {
        self.nominated.is_empty() && self.relations.is_empty()
    }

    /// Whether PreFilter leaves the node.
    pub(super) fn is_left(&self, node: NodeId) -> bool {
        self.named.as_ref().is_none_or(|named| named.contains(&node))
    }

    /// The verdict of a row whose own verdict is `own`.
    pub(super) fn judge(&self, node: NodeId, own: impl FnOnce() -> Verdict) -> Verdict {
        self.judge_in(self.cx, self.resolved, node, own)
    }

    /// As [`Self::judge`], for scans, which keep `cx` and `resolved` at hand: they are `self`'s own, and would be read from it
    /// again for each row.
    ///
    /// With pods nominated to the node both passes must fit: with those pods (resources, ports, anti-affinity) and without
    /// them. A refusal of the first pass is final.
    #[inline]
    pub(super) fn judge_in(
        &self,
        cx: PluginContext<'_>,
        resolved: &ResolvedPod,
        node: NodeId,
        own: impl FnOnce() -> Verdict,
    ) -> Verdict {
        if let Some(overlay) = self.nominated.on(node) {
            let with_nominated = self.judge_under(node, overlay);
            if !with_nominated.fits() {
                return with_nominated;
            }
        }
        self.complete(cx, resolved, node, own(), Overlay::none())
    }

    /// Whether [`Self::judge_costly`] has anything to do, and a filter may fail: for pods with volumes or claims.
    pub(super) const fn are_costly(&self) -> bool {
        self.relations.are_costly()
    }

    /// Takes from `work` what the pod's volumes and claims need on a row whose own verdict is `own`; what was found is kept.
    pub(super) fn judge_costly(&self, node: NodeId, own: Verdict, work: &mut Work) -> Result<(), Stop> {
        if own.fits() || own.cause().is_late() {
            return self.relations.judge_costly(self.cx, node, work);
        }
        Ok(())
    }

    /// Takes from `work` what the search for the pod's devices takes on the row; what was found is kept.
    pub(crate) fn judge_devices(&self, node: NodeId, work: &mut Work) -> Result<(), Stop> {
        self.relations.judge_devices(self.cx, node, work)
    }

    /// The verdict of one row computed from nothing. An error is want of work.
    pub(super) fn judge_fresh(&self, node: NodeId, work: &mut Work) -> Result<Verdict, Stop> {
        let own = filter(self.cx.profile, self.resolved, self.cx.ledger.nodes(), node);
        self.judge_within(node, own, work)
    }

    /// The verdict of a row whose own is `own`, with as much of the search for devices as there is `work` for.
    pub(super) fn judge_within(&self, node: NodeId, own: Verdict, work: &mut Work) -> Result<Verdict, Stop> {
        if own.fits() || own.cause().is_late() {
            self.judge_devices(node, work)?;
        }
        Ok(self.judge(node, || own))
    }

    /// The verdict of a row with `overlay` laid over it, in one pass: nominated pods count only if they are in the overlay.
    pub(crate) fn judge_under(&self, node: NodeId, overlay: &Overlay) -> Verdict {
        let own = filter_under(self.cx.profile, self.resolved, self.cx.ledger.nodes(), node, overlay);
        self.complete(self.cx, self.resolved, node, own, overlay)
    }

    /// Whether a row that fits under one overlay fits under another as well: only what an overlay can change is judged.
    pub(crate) fn still_fits_under(&self, node: NodeId, overlay: &Overlay) -> bool {
        let Self { cx, resolved, relations, .. } = self;
        fits_under(cx.profile, resolved, cx.ledger.nodes(), node, overlay)
            && (relations.is_empty() || relations.filter(*cx, resolved, node, overlay).fits())
    }

    /// What [`Self::judge_under`] takes with nothing laid over the row, in units of [`Work`].
    pub(crate) fn cost_of_row(&self, node: NodeId) -> usize {
        cost_on(self.resolved, self.cx.ledger.nodes(), node)
    }

    /// What `overlay` adds to that.
    pub(crate) fn cost_of_overlay(&self, node: NodeId, overlay: &Overlay) -> usize {
        self.relations.cost_under(self.cx, self.resolved, node, overlay)
            + overlay.cost_of_ports(self.resolved.shape.row.host_ports.len())
    }

    /// What pods of at least the pod's priority that are nominated to the node would add to it, if there are any.
    pub(crate) fn nominated_to(&self, node: NodeId) -> Option<&Overlay> {
        self.nominated.on(node)
    }

    /// The whole chain's verdict where the row's own filters say `own`.
    #[inline]
    fn complete(
        &self,
        cx: PluginContext<'_>,
        resolved: &ResolvedPod,
        node: NodeId,
        own: Verdict,
        overlay: &Overlay,
    ) -> Verdict {
        if !own.fits() && !own.cause().is_late() {
            return own;
        }
        let beyond = self.relations.filter(cx, resolved, node, overlay);
        // The row's late filters run between those of the Policy era that look beyond it.
        let is_first = !own.fits() && own.cause().is_before(beyond.cause());
        if beyond.fits() || is_first { own } else { beyond }
    }

    /// The message of NodeVolumeLimits about a claim of the pod that does not exist.
    pub(crate) fn missing_claim(&self) -> Option<Str> {
        self.relations.missing_claim()
    }

    /// The end of an attempt in which none of so many nodes fits.
    pub(super) fn no_fit(&self, tally: &Tally, pod: &Pod, nodes: usize) -> NoFit {
        let no_fit = tally.no_fit(&pod.shape, nodes as u32, self.missing_claim());
        NoFit { idle_claim: self.idle_claim(pod), ..no_fit }
    }

    /// The pod's claim that is in its way, and nobody else's.
    pub(super) fn idle_claim(&self, pod: &Pod) -> Option<IdleClaim> {
        self.relations.idle_claim(pod)
    }

    /// What ended the attempt while nodes were judged, if a filter failed.
    pub(crate) fn failure(&self) -> Option<Str> {
        self.relations.failure()
    }

    /// Whether something beyond the row was looked at: other pods, domains or volumes.
    pub(crate) const fn looks_around(&self) -> bool {
        !self.relations.is_empty()
    }

    /// Whether some claim of the pod is still to be bound.
    pub(super) fn have_waiting_claims(&self) -> bool {
        self.relations.have_waiting_claims()
    }

    /// What is decided for the pod's claims of devices on `node`, which was just found to fit; `None` where it does not any more.
    pub(super) fn claim_plan(&self, pod: &Pod, node: NodeId) -> Option<ClaimPlan> {
        self.relations.claim_plan(self.cx, pod, node)
    }

    /// What is to be done for the pod's claims on `node`, which was just found to fit.
    pub(super) fn volume_plan(&self, node: NodeId) -> VolumePlan {
        self.relations.volume_plan(self.cx, node)
    }

    #[cfg(test)]
    pub(super) const fn has_pod_affinity(&self) -> bool {
        self.relations.affinity.is_some()
    }
}

/// One pod's view of the nodes, for PostFilter: PreFilter done, verdicts from the class cache, and any node judged again
/// under an overlay.
#[derive(Debug)]
pub(crate) struct NodeScan<'t> {
    /// Judges a node from nothing as well.
    pub(crate) checks: NonRowChecks<'t>,
    pub(super) rows: &'t mut CachedRows,
    /// The nodes that the profile places on, in scan order.
    pub(super) nodes: &'t [NodeId],
}

impl NodeScan<'_> {
    /// How many nodes the profile places on.
    pub(crate) fn total(&self) -> usize {
        self.nodes.len()
    }

    /// Calls `each` with the verdict of each node that PreFilter leaves, in scan order whatever order the pod names them in,
    /// as upstream collects them from its list of nodes. O(nodes), from the cache where rows did not change.
    pub(crate) fn verdicts(&mut self, work: &mut Work, mut each: impl FnMut(NodeId, Verdict)) -> Result<(), Stop> {
        let Self { checks, rows, nodes } = self;
        let NonRowChecks { cx, resolved, .. } = *checks;
        let (plain, are_costly) = (checks.is_empty(), checks.are_costly());
        for node in nodes.iter().filter(|node| checks.is_left(**node)) {
            let Some(own) = rows.answer_within(cx, resolved, *node, work) else { return Err(Stop::Unfinished) };
            let own = own.verdict();
            if plain {
                each(*node, own);
                continue;
            }
            if are_costly {
                checks.judge_costly(*node, own, work)?;
            }
            each(*node, checks.judge_in(cx, resolved, *node, || own));
        }
        Ok(())
    }

    /// The verdict of one node as it is; none where the profile does not place there, or PreFilter leaves it out. An error is want of
    /// work.
    pub(crate) fn verdict(&mut self, node: NodeId, work: &mut Work) -> Result<Option<Verdict>, Stop> {
        let Self { checks, rows, .. } = self;
        let PluginContext { profile, ledger } = checks.cx;
        if !(checks.is_left(node) && profile.places_on(ledger.nodes().labels(node))) {
            return Ok(None);
        }
        let own = rows.verdict(checks.cx, checks.resolved, node);
        checks.judge_within(node, own, work).map(Some)
    }
}

/// The nodes of the profile that NodeAffinity's PreFilter leaves, if only some; refuses a pod whose terms conflict.
fn named(cx: PluginContext<'_>, pod: &Pod) -> Result<Option<Vec<NodeId>>, Stop> {
    if !cx.profile.filters.has(Plugin::NodeAffinity) {
        return Ok(None);
    }
    let Some(names) = node_affinity::named(&pod.shape) else {
        return Ok(None);
    };
    if names.is_empty() {
        return Err(Stop::Refused(PreFilterRefusal::unresolvable(Plugin::NodeAffinity, node_affinity::CONFLICT)));
    }
    let nodes = cx.ledger.nodes();
    let known = names.iter().filter_map(|name| nodes.find(name));
    Ok(Some(known.filter(|node| cx.profile.places_on(nodes.labels(*node))).collect()))
}
