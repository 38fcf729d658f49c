//! The four volume plugins for one pod in one attempt: the pod's claims are resolved once and shared.
//!
//! Upstream's order, in PreFilter as in Filter: VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone.

pub(super) mod kept;
pub(super) mod mounts;

use super::context::{Cause, Overlay, Plugin, PluginContext, Stop, Verdict, Work, filter_failed};
use super::volume_binding::Sought;
use super::{node_volume_limits, volume_binding, volume_restrictions, volume_zone};
use crate::ledger::{NodeId, VolumePlan};
use crate::limits::COMPARISONS_PER_WORK;
use crate::model::{Pod, PodVolume, Str};
use mounts::Mounts;
use std::cell::OnceCell;

pub(super) const PLUGINS: [Plugin; 4] =
    [Plugin::VolumeRestrictions, Plugin::NodeVolumeLimits, Plugin::VolumeBinding, Plugin::VolumeZone];

/// The verdict of filters of which one failed.
pub(crate) const FAILED: Verdict = Verdict::unresolvable(Cause::Volumes);

/// What PreFilter found out about the pod's volumes. A plugin that skips the pod is `None`.
#[derive(Debug)]
pub(crate) struct Attempt<'t> {
    restrictions: Option<volume_restrictions::State>,
    limits: Option<node_volume_limits::State<'t>>,
    binding: Option<volume_binding::State<'t>>,
    zones: Option<volume_zone::State>,
    failure: OnceCell<Str>,
}

/// What is to be bound and provisioned for the claims of `pod` on `node`, which was just found to fit: what they may get is sought
/// already.
pub(crate) fn plan(cx: PluginContext<'_>, pod: &Pod, node: NodeId, sought: &mut Sought) -> VolumePlan {
    let attempt = Attempt::prepare(cx, pod, sought, &mut Work::unbounded()).ok().flatten();
    attempt.map(|attempt| attempt.plan(cx, node)).unwrap_or_default()
}

/// How many volumes the pods on a node have, and those that an overlay adds to it or takes away. A pod that is looked for among
/// those that are taken away counts as so many more.
pub(super) fn volumes_there(cx: PluginContext<'_>, node: NodeId, overlay: &Overlay) -> usize {
    let removed = overlay.removed.len();
    let placed = cx.ledger.volumes().placed_on(node).iter().map(|placed| 1 + removed + placed.volumes.len());
    let moved = overlay.mounts_added().chain(overlay.mounts_removed()).map(|(_, volumes)| volumes.len());
    placed.chain(moved).sum()
}

impl<'t> Attempt<'t> {
    /// Resolves the pod's volumes; `None` where no plugin of the profile looks at any of them. A look that is out of `work` goes on
    /// with what was `sought` by then.
    pub(crate) fn prepare(
        cx: PluginContext<'t>,
        pod: &Pod,
        sought: &mut Sought,
        work: &mut Work,
    ) -> Result<Option<Self>, Stop> {
        use Plugin::{NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone};
        let Some(volumes) = &pod.volumes else { return Ok(None) };
        let on = |filter| cx.profile.filters.has(filter);
        let matters = volumes.iter().any(|volume| !matches!(volume, PodVolume::Csi { .. }));
        if !matters || !PLUGINS.into_iter().any(on) {
            return Ok(None);
        }
        let mounts = Mounts::resolve(cx.ledger, pod, volumes);
        Ok(Some(Self {
            restrictions: if on(VolumeRestrictions) { volume_restrictions::State::prepare(cx, &mounts)? } else { None },
            limits: if on(NodeVolumeLimits) { node_volume_limits::State::prepare(cx, &mounts) } else { None },
            binding: if on(VolumeBinding) { volume_binding::State::prepare(cx, &mounts, sought, work)? } else { None },
            zones: if on(VolumeZone) { volume_zone::State::prepare(cx, &mounts)? } else { None },
            failure: OnceCell::new(),
        }))
    }

    /// The first volume filter's refusal of `node` with the pods of `overlay` on it. A filter that fails ends the attempt.
    pub(crate) fn filter(&self, cx: PluginContext<'_>, node: NodeId, overlay: &Overlay) -> Verdict {
        self.judge(cx, node, overlay).unwrap_or_else(|text| {
            self.fail(text);
            FAILED
        })
    }

    /// As [`Self::filter`]; upstream's text of a filter that failed, which ends the attempt only where the row comes to that filter.
    pub(crate) fn judge(&self, cx: PluginContext<'_>, node: NodeId, overlay: &Overlay) -> Result<Verdict, Str> {
        if let Some(state) = &self.restrictions
            && let Some(refusal) = state.filter(cx, node, overlay).refusal()
        {
            return Ok(refusal);
        }
        if let Some(state) = &self.limits {
            match state.filter(cx, node, overlay) {
                Ok(verdict) if verdict.fits() => {}
                Ok(refusal) => return Ok(refusal),
                Err(text) => return Err(filter_failed(Plugin::NodeVolumeLimits, &text)),
            }
        }
        if let Some(state) = &self.binding {
            match state.filter(cx, node) {
                Ok(verdict) if verdict.fits() => {}
                Ok(refusal) => return Ok(refusal),
                Err(text) => return Err(filter_failed(Plugin::VolumeBinding, &text)),
            }
        }
        Ok(self.zones.as_ref().map_or(Verdict::FITS, |state| state.filter(cx, node)))
    }

    /// What [`Self::filter`] takes, in units of [`Work`](super::context::Work).
    pub(crate) fn cost_on(&self, cx: PluginContext<'_>, node: NodeId, overlay: &Overlay) -> usize {
        let own = self.binding.as_ref().map_or(0, volume_binding::State::comparisons)
            + self.limits.as_ref().map_or(0, node_volume_limits::State::comparisons)
            + self.zones.as_ref().map_or(0, volume_zone::State::comparisons);
        let restricting = self.restrictions.as_ref().map_or(0, volume_restrictions::State::comparisons_with_each);
        let moving = match &self.limits {
            Some(limits) if !overlay.is_empty() => limits.comparisons_with_each(),
            _ => 0,
        };
        let with_each = restricting + moving;
        let others = if with_each == 0 { 0 } else { volumes_there(cx, node, overlay) };
        (own + with_each * others) / COMPARISONS_PER_WORK
    }

    /// Upstream's text of NodeVolumeLimits for a claim of the pod that does not exist.
    pub(crate) fn missing_claim(&self) -> Option<Str> {
        self.limits.as_ref().and_then(node_volume_limits::State::missing_claim)
    }

    /// Whether some claim of the pod is still to be bound.
    pub(crate) fn has_waiting_claims(&self) -> bool {
        self.binding.as_ref().is_some_and(volume_binding::State::has_waiting_claims)
    }

    pub(crate) fn plan(&self, cx: PluginContext<'_>, node: NodeId) -> VolumePlan {
        self.binding.as_ref().map(|state| state.plan(cx, node)).unwrap_or_default()
    }

    /// Whether placed pods use a claim of the pod that only one may use: no node's row tells.
    pub(crate) fn is_in_use(&self) -> bool {
        self.restrictions.as_ref().is_some_and(volume_restrictions::State::is_in_use)
    }

    /// A filter failed, with this text: that ends the attempt, whatever the node.
    pub(crate) fn fail(&self, text: Str) {
        self.failure.get_or_init(|| text);
    }

    /// Upstream's text of the filter that failed, if one did.
    pub(crate) fn failure(&self) -> Option<Str> {
        self.failure.get().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::limits::{STORAGE_PER_POD, WORK_PER_HOLD};
    use crate::model::InlineDisk;
    use crate::profile::CompiledProfile;
    use crate::volume_testing::{mounting, node_in, on};

    #[test]
    fn volumes_of_other_pods_are_counted_as_work() {
        let disks = |count: usize| -> Vec<PodVolume> {
            let disk = |i: usize| InlineDisk::Ebs { id: format!("disk-{i}").into() };
            (0..count).map(|i| PodVolume::Disk { volume: "v".into(), disk: disk(i), counts: Ok(None) }).collect()
        };
        let mut ledger = Ledger::new();
        for name in ["full", "empty"] {
            ledger.apply_node(&node_in(name, "z"));
        }
        for i in 0..50 {
            ledger.apply_pod(on("full", mounting(&format!("p{i}"), disks(512))));
        }
        let profile = CompiledProfile::default_preset("test");
        let cx = PluginContext { profile: &profile, ledger: &ledger };
        let pod = mounting("p", disks(STORAGE_PER_POD));
        let (mut sought, mut work) = (Sought::default(), Work::unbounded());
        let attempt = Attempt::prepare(cx, &pod, &mut sought, &mut work).ok().flatten().expect("it has disks");
        let cost = |name: &str| attempt.cost_on(cx, ledger.nodes().find(name).expect("applied"), Overlay::none());
        assert!(cost("empty") < 100 && cost("full") > WORK_PER_HOLD, "{} {}", cost("empty"), cost("full"));
    }
}
