//! Filters (predicates) and scores (priorities): one file per plugin, and here the registry that calls them in upstream's order.
//!
//! Plugins import [`context`] and never this file; the table of their names, weights and causes is `model/plugin.rs`.
//!
//! A filter or score of a row's own facts is a plain function of a [`ResolvedPod`] and a row of the node table; filters also get an
//! [`Overlay`]. Nothing is called through a pointer, and nothing here allocates. `cycle::rows` runs filters with the empty overlay
//! and keeps the answers by row; nominated pods and commit's re-check run them for one row with the pods they add.
//! Filters that look beyond the row (at volumes, at the pods of a domain) are prepared for each attempt as [`Relations`].

mod backed_resources;
mod balanced_allocation;
mod cache;
mod context;
mod counts;
pub(crate) mod dynamic_resources;
mod fragmentation;
pub(crate) mod helped;
pub(crate) mod hints;
mod image_locality;
pub(crate) mod inter_pod_affinity;
mod legacy;
mod max_volume_count;
pub(crate) mod node_affinity;
mod node_ports;
mod node_resources_fit;
mod node_volume_limits;
mod nominated;
mod overlay;
pub(crate) mod pod_topology_spread;
mod resolved_pod;
mod row_scores;
mod scarce_resource_avoidance;
mod selector_spread;
mod service_affinity;
pub(crate) mod taint_toleration;
mod verdict;
pub(crate) mod volume_binding;
mod volume_restrictions;
mod volume_zone;
pub(crate) mod volumes;
mod watch;
mod work;

pub use crate::model::{Cause, Plugin, PluginSet};
pub(crate) use context::{MAX_NODE_SCORE, PluginContext, default_normalize, reverse_normalize};
pub use dynamic_resources::{ClaimSurvey, SurveyedAsk};
pub(crate) use helped::{HELPED_BY_PLACED, claim_matters_to};
pub use hints::{WakeEvent, wake_events};
pub(crate) use nominated::Nominated;
pub(crate) use overlay::Overlay;
pub(crate) use resolved_pod::{ImageWorths, ResolvedPod, image_worths};
pub(crate) use row_scores::fixed_score;
pub use verdict::{Code, PreFilterRefusal, Verdict};
pub(crate) use verdict::{Stop, VOLUME_TEXTS, lacking_text, volume_text};
pub use watch::{PluginLaps, PluginPart};
pub(crate) use watch::{PluginWatch, Stopwatch};
pub use work::Work;

use crate::io::IdleClaim;
use crate::ledger::{ClaimPlan, Ledger, NodeId, NodeTable, VolumePlan};
use crate::limits::COMPARISONS_PER_WORK;
use crate::model::{Pod, Score, Str};
use crate::profile::CompiledProfile;
use std::cell::RefCell;

/// SchedulingGates: upstream's text for a pod that its gates keep from being looked at.
///
/// After `pkg/scheduler/framework/plugins/schedulinggates`.
pub(crate) fn gated_text(gates: &[Str]) -> String {
    format!("waiting for scheduling gates: [{}]", gates.join(" "))
}

/// Runs the profile's filters on one row in upstream's order and returns the first refusal.
#[inline]
pub(crate) fn filter(profile: &CompiledProfile, pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> Verdict {
    filter_row::<false>(profile, pod, nodes, node, Overlay::none())
}

/// As [`filter`], with `overlay` laid over the row.
pub(crate) fn filter_under(
    profile: &CompiledProfile,
    pod: &ResolvedPod,
    nodes: &NodeTable,
    node: NodeId,
    overlay: &Overlay,
) -> Verdict {
    filter_row::<true>(profile, pod, nodes, node, overlay)
}

/// Rows are judged by the million, and nearly always as they are: that form of it, `UNDER` false, reads no overlay.
#[inline]
fn filter_row<const UNDER: bool>(
    profile: &CompiledProfile,
    pod: &ResolvedPod,
    nodes: &NodeTable,
    node: NodeId,
    overlay: &Overlay,
) -> Verdict {
    let on = |plugin| profile.filters.has(plugin);
    if on(Plugin::NodeUnschedulable) && !pod.tolerates_cordon && nodes.unschedulable[node.index()] {
        return Verdict::unresolvable(Cause::NodeUnschedulable);
    }
    // NodeName is only a name here, which profiles can disable and explanations list: a pod with a nodeName is bound, never pending.
    if on(Plugin::TaintToleration) && !taint_toleration::fits(pod, nodes, node) {
        return Verdict::unresolvable(Cause::UntoleratedTaint);
    }
    if on(Plugin::NodeAffinity)
        && let Some(cause) = node_affinity::refuses(profile, pod, nodes, node)
    {
        return Verdict::unresolvable(cause);
    }
    if on(Plugin::NodePorts) && !node_ports::fits::<UNDER>(pod, nodes, node, overlay) {
        return Verdict::unschedulable(Cause::HostPorts);
    }
    if on(Plugin::NodeResourcesFit)
        && let Some(refusal) = node_resources_fit::filter::<UNDER>(pod, nodes, node, overlay).refusal()
    {
        return refusal;
    }
    if on(Plugin::NodeDeclaredFeatures) && !declares_features(pod, nodes, node) {
        return Verdict::unresolvable(Cause::DeclaredFeatures);
    }
    if profile.filters.has_legacy()
        && let Some(cause) = legacy::refuses(profile, pod, nodes, node)
    {
        return Verdict::unresolvable(cause);
    }
    Verdict::FITS
}

/// Whether those filters of [`filter`] let the pod onto the row that look at an overlay: the others say what they say without it.
#[inline]
pub(crate) fn fits_under(
    profile: &CompiledProfile,
    pod: &ResolvedPod,
    nodes: &NodeTable,
    node: NodeId,
    overlay: &Overlay,
) -> bool {
    let on = |plugin| profile.filters.has(plugin);
    (!on(Plugin::NodePorts) || node_ports::fits::<true>(pod, nodes, node, overlay))
        && (!on(Plugin::NodeResourcesFit) || node_resources_fit::filter::<true>(pod, nodes, node, overlay).fits())
}

/// NodeDeclaredFeatures: whether the node declares every feature that the pod needs, which decoding infers from the pod's spec.
///
/// After `pkg/scheduler/framework/plugins/nodedeclaredfeatures/nodedeclaredfeatures.go`.
#[inline]
fn declares_features(pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> bool {
    let required = &pod.shape.row.required_features;
    required.is_empty() || required.iter().all(|f| nodes.declared_features[node.index()].binary_search(f).is_ok())
}

/// What judging the row for the pod takes, in units of [`Work`].
#[inline]
pub(crate) fn cost_on(pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> usize {
    let comparisons = node_ports::comparisons(pod, nodes, node)
        + taint_toleration::comparisons(&pod.shape.row.tolerations, nodes, node);
    pod.cost + comparisons / COMPARISONS_PER_WORK
}

/// Counters that relational plugins keep between attempts, only to be faster: made from nothing they give the same answers. Of Fragmentation
/// also which pods came lately, which [`Self::clear`] keeps.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    spread: pod_topology_spread::Tables,
    affinity: inter_pod_affinity::Tables,
    selector_spread: selector_spread::Tables,
    fragmentation: fragmentation::Tables,
    scarce: scarce_resource_avoidance::Tables,
    backed: backed_resources::Tables,
    nominated: nominated::Kept,
    /// Not a table: part of one look.
    volumes: RefCell<volumes::kept::Kept>,
    /// As `volumes`.
    devices: RefCell<dynamic_resources::kept::Kept>,
}

/// What PreFilter found out for one pod about volumes, and about pods on other nodes. A plugin that skips the pod is `None`.
#[derive(Debug, Default)]
pub(crate) struct Relations<'t> {
    volumes: Option<volumes::Attempt<'t>>,
    spread: Option<pod_topology_spread::Hard<'t>>,
    pub(crate) affinity: Option<inter_pod_affinity::Hard<'t>>,
    services: Option<service_affinity::Attempt>,
    disks: Option<max_volume_count::State>,
    claims: Option<dynamic_resources::State<'t>>,
    /// For a pod with volumes.
    kept: Option<&'t RefCell<volumes::kept::Kept>>,
}

impl Tables {
    /// Has the next decisions give back what was not used since the last call.
    pub(crate) fn age(&mut self) {
        self.spread.age();
        self.affinity.age();
        self.selector_spread.age();
    }

    /// Gives back all that only makes decisions cheap.
    pub(crate) fn clear(&mut self) {
        let mut fragmentation = std::mem::take(&mut self.fragmentation);
        fragmentation.clear();
        *self = Self { fragmentation, ..Self::default() };
    }

    /// A look at the pod begins: it is one of those that come.
    pub(crate) fn count(&mut self, cx: PluginContext<'_>, pod: &Pod) {
        if cx.profile.weight(Score::Fragmentation).is_some() {
            self.fragmentation.count(cx, pod);
        }
    }

    /// What nominated pods add to nodes, as `pod` sees it.
    pub(crate) fn nominated(&mut self, ledger: &Ledger, pod: &Pod) -> Nominated {
        self.nominated.seen_by(ledger, pod)
    }

    /// PreFilter of the relational plugins, in upstream's order.
    pub(crate) fn pre_filter<'t>(
        &'t mut self,
        cx: PluginContext<'t>,
        pod: &Pod,
        resolved: &ResolvedPod,
        work: &mut Work,
        watch: &mut PluginWatch<'_>,
    ) -> Result<Relations<'t>, Stop> {
        watch.begin();
        let kept = &self.volumes;
        let mut known = kept.borrow_mut();
        known.begin(cx.ledger, pod);
        let volumes = volumes::Attempt::prepare(cx, pod, &mut known.sought, work);
        let volumes = watch.end_of(PluginPart::Volumes, volumes)?;
        known.see_use(volumes.as_ref().is_some_and(volumes::Attempt::is_in_use));
        drop(known);
        let disks = max_volume_count::State::prepare(cx, pod);
        let looks_at_volumes = volumes.is_some() || disks.is_some();
        watch.end(PluginPart::Disks, disks.is_some());
        let spread = watch.end_of(PluginPart::Spread, self.spread.prepare(cx, resolved, work))?;
        let affinity = watch.end_of(PluginPart::Affinity, self.affinity.prepare(cx, resolved, work))?;
        let services = service_affinity::Attempt::prepare(cx, resolved);
        watch.end(PluginPart::ServiceAffinity, services.is_some());
        let claims = dynamic_resources::State::prepare(cx, pod, &self.devices);
        let claims = watch.end_of(PluginPart::Claims, claims)?;
        Ok(Relations { volumes, spread, affinity, services, disks, claims, kept: looks_at_volumes.then_some(kept) })
    }

    /// The normalised scores (0 to 100) of a relational score, one for each of the `feasible` nodes, into `out`.
    ///
    /// False where the plugin skips the pod: then it contributes nothing. A score out of range fails the attempt with upstream's
    /// text; a constraint with `maxSkew: 0`, which no API server accepts, leads to one.
    pub(crate) fn score(
        &mut self,
        score: Score,
        cx: PluginContext<'_>,
        pod: &ResolvedPod,
        feasible: &[NodeId],
        out: &mut Vec<i64>,
        work: &mut Work,
    ) -> Result<bool, Stop> {
        out.clear();
        let runs = match score {
            Score::PodTopologySpread => self.spread.score(cx, pod, feasible, out, work)?,
            Score::InterPodAffinity => self.affinity.score(cx, pod, feasible, out, work)?,
            Score::SelectorSpread => self.selector_spread.score(cx, pod, feasible, out, work)?,
            Score::DynamicResources => self.score_claims(feasible, out),
            Score::NodeResourcesFit | Score::NodeResourcesBalancedAllocation if pod.counts_devices(score) => {
                let select = &mut self.devices.borrow_mut().selectors;
                self.backed.score(score, (cx, pod), select, feasible, out, work)?;
                true
            }
            Score::ScarceResourceAvoidance => {
                let asks_for_devices = self.devices.borrow().is_asked();
                self.scarce.score(cx, pod, asks_for_devices, feasible, out, work)?
            }
            Score::Fragmentation => self.fragmentation.score(cx, pod, &self.devices, feasible, out, work)?,
            _ => false,
        };
        match out.iter().find(|value| !(0..=MAX_NODE_SCORE).contains(*value)) {
            Some(invalid) if runs => {
                let text = format!(
                    "applying score defaultWeights on Score plugins: plugin {:?} returns an invalid score {invalid}, \
                     it should in the range of [0, {MAX_NODE_SCORE}] after normalizing",
                    score.name()
                );
                Err(Stop::Failed(text.into()))
            }
            _ => Ok(runs),
        }
    }

    /// The normalised scores of the alternatives that were taken of prioritized lists; false where they tell no nodes apart.
    fn score_claims(&self, feasible: &[NodeId], out: &mut Vec<i64>) -> bool {
        let tells_apart = self.devices.borrow().raw_scores(feasible, out);
        let highest = out.iter().copied().max().unwrap_or(0);
        for value in out {
            *value = default_normalize(*value, highest);
        }
        tells_apart
    }

    /// What is decided for the claims of `pod` on `node`, which the look that ends here has found to fit; `None` where it does not any
    /// more.
    pub(crate) fn claim_plan(&self, cx: PluginContext<'_>, pod: &Pod, node: NodeId) -> Option<ClaimPlan> {
        match dynamic_resources::State::prepare(cx, pod, &self.devices) {
            Ok(None) => Some(ClaimPlan::default()),
            Ok(Some(state)) => state.plan(cx, pod, node),
            Err(_) => None,
        }
    }

    /// What is to be bound and provisioned for the claims of `pod` on `node`, which the look that ends here has found to fit.
    pub(crate) fn volume_plan(&self, cx: PluginContext<'_>, pod: &Pod, node: NodeId) -> VolumePlan {
        volumes::plan(cx, pod, node, &mut self.volumes.borrow_mut().sought)
    }
}

impl Relations<'_> {
    /// Whether there is nothing to look at beyond the row.
    pub(crate) const fn is_empty(&self) -> bool {
        self.volumes.is_none()
            && self.spread.is_none()
            && self.affinity.is_none()
            && self.services.is_none()
            && self.disks.is_none()
            && self.claims.is_none()
    }

    /// Whether [`Self::judge_costly`] has anything to do.
    #[inline]
    pub(crate) const fn are_costly(&self) -> bool {
        self.kept.is_some() || self.claims.is_some()
    }

    /// Judges a row by what takes any of `work`, and keeps the verdict: the next look finds it if this one is given up.
    pub(crate) fn judge_costly(&self, cx: PluginContext<'_>, node: NodeId, work: &mut Work) -> Result<(), Stop> {
        self.judge_volumes(cx, node, work)?;
        self.judge_devices(cx, node, work)
    }

    /// The part of [`Self::judge_costly`] that no pod on the node changes.
    pub(crate) fn judge_devices(&self, cx: PluginContext<'_>, node: NodeId, work: &mut Work) -> Result<(), Stop> {
        match &self.claims {
            Some(claims) => claims.judge(cx, node, work),
            None => Ok(()),
        }
    }

    fn judge_volumes(&self, cx: PluginContext<'_>, node: NodeId, work: &mut Work) -> Result<(), Stop> {
        let Some(kept) = self.kept else { return Ok(()) };
        let overlay = Overlay::none();
        let cost = self.volumes.as_ref().map_or(0, |volumes| volumes.cost_on(cx, node, overlay))
            + self.disks.as_ref().map_or(0, |disks| disks.cost_on(cx, node, overlay));
        if cost == 0 || kept.borrow().found(cx.ledger, node).is_some() {
            return Ok(());
        }
        work.take(cost)?;
        let volumes = self.volumes.as_ref().map_or(Ok(Verdict::FITS), |volumes| volumes.judge(cx, node, overlay));
        let disks = self.disks.as_ref().map_or(Verdict::FITS, |disks| disks.filter(cx, node, overlay));
        kept.borrow_mut().keep(cx.ledger, node, volumes, disks);
        Ok(())
    }

    /// The verdicts of filters of volumes on a row as it is, if they are known.
    fn found(&self, cx: PluginContext<'_>, node: NodeId, overlay: &Overlay) -> Option<volumes::kept::Found> {
        let kept = self.kept.filter(|_| overlay.is_empty())?;
        kept.borrow().found(cx.ledger, node)
    }

    /// The first relational filter's refusal of `node` with the pods of `overlay` on it.
    pub(crate) fn filter(&self, cx: PluginContext<'_>, pod: &ResolvedPod, node: NodeId, overlay: &Overlay) -> Verdict {
        let found = self.found(cx, node, overlay);
        if let Some(volumes) = &self.volumes
            && let Some(refusal) = self.filter_volumes(volumes, found, cx, node, overlay).refusal()
        {
            return refusal;
        }
        if let Some(spread) = &self.spread
            && let Some(refusal) = spread.filter(pod, node, overlay).refusal()
        {
            return refusal;
        }
        if let Some(affinity) = &self.affinity
            && let Some(refusal) = affinity.filter(cx, pod, node, overlay).refusal()
        {
            return refusal;
        }
        if let Some(claims) = &self.claims
            && let Some(refusal) = claims.filter(cx, node).refusal()
        {
            return refusal;
        }
        if let Some(services) = &self.services
            && let Some(refusal) = services.filter(cx, pod, node, overlay).refusal()
        {
            return refusal;
        }
        let judge = |disks: &max_volume_count::State| disks.filter(cx, node, overlay);
        self.disks.as_ref().map_or(Verdict::FITS, |disks| found.map_or_else(|| judge(disks), |found| found.disks))
    }

    fn filter_volumes(
        &self,
        volumes: &volumes::Attempt<'_>,
        found: Option<volumes::kept::Found>,
        cx: PluginContext<'_>,
        node: NodeId,
        overlay: &Overlay,
    ) -> Verdict {
        let Some(found) = found else { return volumes.filter(cx, node, overlay) };
        if let Some(text) = self.kept.and_then(|kept| found.failure(kept)) {
            volumes.fail(text);
        }
        found.volumes
    }

    /// What [`Self::filter`] takes beyond a few look-ups, in units of [`Work`]: volumes of the pod and of others, and pods that are
    /// added to a node or taken away.
    pub(crate) fn cost_under(
        &self,
        cx: PluginContext<'_>,
        pod: &ResolvedPod,
        node: NodeId,
        overlay: &Overlay,
    ) -> usize {
        self.spread.as_ref().map_or(0, |spread| spread.cost_under(overlay))
            + self.affinity.as_ref().map_or(0, |affinity| affinity.cost_under(&pod.shape, overlay))
            + self.volumes.as_ref().map_or(0, |volumes| volumes.cost_on(cx, node, overlay))
            + self.disks.as_ref().map_or(0, |disks| disks.cost_on(cx, node, overlay))
    }

    /// Upstream's text of NodeVolumeLimits for a claim of the pod that does not exist.
    pub(crate) fn missing_claim(&self) -> Option<Str> {
        self.volumes.as_ref().and_then(volumes::Attempt::missing_claim)
    }

    /// Whether some claim of the pod is still to be bound.
    pub(crate) fn have_waiting_claims(&self) -> bool {
        self.volumes.as_ref().is_some_and(volumes::Attempt::has_waiting_claims)
    }

    /// What is to be bound and provisioned for the pod's claims on `node`, which was just found to fit.
    pub(crate) fn volume_plan(&self, cx: PluginContext<'_>, node: NodeId) -> VolumePlan {
        self.volumes.as_ref().map(|volumes| volumes.plan(cx, node)).unwrap_or_default()
    }

    /// What is decided for the pod's claims of devices on `node`, which was just found to fit; `None` where it does not any more.
    pub(crate) fn claim_plan(&self, cx: PluginContext<'_>, pod: &Pod, node: NodeId) -> Option<ClaimPlan> {
        self.claims.as_ref().map_or(Some(ClaimPlan::default()), |claims| claims.plan(cx, pod, node))
    }

    /// An allocated claim of the pod that kept it from a node that was looked at, and that nobody else uses.
    pub(crate) fn idle_claim(&self, pod: &Pod) -> Option<IdleClaim> {
        self.claims.as_ref().and_then(|claims| claims.idle_claim(pod))
    }

    /// Upstream's text of the filter that failed, and so ends the attempt.
    pub(crate) fn failure(&self) -> Option<Str> {
        let of_volumes = self.volumes.as_ref().and_then(volumes::Attempt::failure);
        of_volumes.or_else(|| self.claims.as_ref().and_then(dynamic_resources::State::failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::testing::{node, shape};
    use std::sync::Arc;

    fn verdict(required: &[&str], declared: &[&str], profile: &CompiledProfile) -> Verdict {
        let texts = |of: &[&str]| of.iter().map(|f| Str::from(*f)).collect::<Vec<Str>>();
        let mut ledger = Ledger::new();
        let mut object = node("a", 1000, 1 << 30, 10);
        object.declared_features = texts(declared).into();
        ledger.apply_node(&object);
        let mut pod = shape();
        pod.row_mut().required_features = texts(required);
        let resolved = ResolvedPod::new(profile, &ledger, &Arc::new(pod));
        filter(profile, &resolved, ledger.nodes(), ledger.nodes().find("a").expect("applied"))
    }

    #[test]
    fn every_required_feature_must_be_declared_by_the_node() {
        let profile = CompiledProfile::default_preset("p");
        for (required, declared, fits) in [
            (&[][..], &[][..], true),
            (&[], &["A"], true),
            (&["A"], &["A"], true),
            (&["A", "C"], &["A", "B", "C"], true),
            (&["A"], &[], false),
            (&["A", "C"], &["A", "B"], false),
        ] {
            let verdict = verdict(required, declared, &profile);
            assert_eq!(verdict.fits(), fits, "{required:?} of {declared:?}");
            if !fits {
                assert_eq!(
                    (verdict.cause(), verdict.code()),
                    (Cause::DeclaredFeatures, Code::UnschedulableAndUnresolvable)
                );
            }
        }
    }

    #[test]
    fn the_filter_of_declared_features_can_be_switched_off() {
        let mut profile = CompiledProfile::default_preset("p");
        profile.filters = profile.filters.without(Plugin::NodeDeclaredFeatures);
        assert!(verdict(&["A"], &[], &profile).fits());
    }
}
