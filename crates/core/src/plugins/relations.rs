//! The filters and scores that look beyond a row: at volumes, at the pods of a domain, at pods placed elsewhere.
//!
//! PreFilter makes [`Relations`] once for an attempt; their filters then run per node, after the row's own filters and
//! before the late ones. What they count is kept in [`Tables`] between attempts and brought up to date from the change log.

use super::{
    Code, MAX_NODE_SCORE, Overlay, Plugin, ResolvedPod, Verdict, inter_pod_affinity, max_volume_count,
    pod_topology_spread, selector_spread, service_affinity, volumes,
};
use crate::ledger::{Ledger, NodeId, VolumePlan};
use crate::model::{Pod, Str};
use crate::profile::{CompiledProfile, Score};

/// What a plugin reads: the profile it runs for and the ledger as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PluginContext<'a> {
    pub(crate) profile: &'a CompiledProfile,
    pub(crate) ledger: &'a Ledger,
}

/// Counters that relational plugins keep between attempts. Made from nothing they give the same answers, only later.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) spread: pod_topology_spread::Tables,
    pub(crate) affinity: inter_pod_affinity::Tables,
    pub(crate) selector_spread: selector_spread::Tables,
}

/// PreFilter refused the pod before any node was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The plugin.
    pub plugin: Plugin,
    /// The framework's code.
    pub code: Code,
    /// Upstream's message.
    pub message: Str,
}

impl Refusal {
    pub(crate) fn unresolvable(plugin: Plugin, message: impl Into<Str>) -> Self {
        Self { plugin, code: Code::UnschedulableAndUnresolvable, message: message.into() }
    }
}

/// How PreFilter or a filter ends an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// No node can take the pod.
    Refused(Refusal),
    /// The attempt failed; upstream's text.
    Failed(Str),
}

/// What PreFilter found out for one pod. A plugin that has nothing to say is not there.
#[derive(Debug, Default)]
pub(crate) struct Relations<'t> {
    pub(crate) volumes: Option<volumes::Attempt<'t>>,
    pub(crate) spread: Option<pod_topology_spread::Hard<'t>>,
    pub(crate) affinity: Option<inter_pod_affinity::Hard<'t>>,
    pub(crate) services: Option<service_affinity::Attempt>,
    pub(crate) disks: Option<max_volume_count::State>,
}

impl Tables {
    /// PreFilter of the relational plugins, in upstream's order.
    pub(crate) fn pre_filter<'t>(
        &'t mut self,
        cx: PluginContext<'t>,
        pod: &Pod,
        subject: &ResolvedPod,
    ) -> Result<Relations<'t>, Stop> {
        Ok(Relations {
            volumes: volumes::Attempt::prepare(cx, pod)?,
            spread: self.spread.prepare(cx, subject),
            affinity: self.affinity.prepare(cx, subject),
            services: service_affinity::Attempt::prepare(cx, subject),
            disks: max_volume_count::State::prepare(cx, pod),
        })
    }

    /// The normalised scores (0 to 100) of a relational score, one for each of the `feasible` nodes, into `out`.
    ///
    /// False where the plugin skips the pod: then it contributes nothing. A score out of range fails the attempt with upstream's
    /// text: a constraint with `maxSkew: 0`, which no API server accepts, brings one about.
    pub(crate) fn score(
        &mut self,
        score: Score,
        cx: PluginContext<'_>,
        subject: &ResolvedPod,
        feasible: &[NodeId],
        out: &mut Vec<i64>,
    ) -> Result<bool, Str> {
        out.clear();
        let runs = match score {
            Score::PodTopologySpread => self.spread.score(cx, subject, feasible, out),
            Score::InterPodAffinity => self.affinity.score(cx, subject, feasible, out),
            Score::SelectorSpread => self.selector_spread.score(cx, subject, feasible, out),
            _ => false,
        };
        match out.iter().find(|value| !(0..=MAX_NODE_SCORE).contains(*value)) {
            Some(invalid) if runs => Err(format!(
                "applying score defaultWeights on Score plugins: plugin {:?} returns an invalid score {invalid}, \
                 it should in the range of [0, {MAX_NODE_SCORE}] after normalizing",
                score.name()
            )
            .into()),
            _ => Ok(runs),
        }
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
    }

    /// The first relational filter's refusal of `node` with the pods of `overlay` on it.
    pub(crate) fn filter(
        &self,
        cx: PluginContext<'_>,
        subject: &ResolvedPod,
        node: NodeId,
        overlay: &Overlay,
    ) -> Verdict {
        if let Some(volumes) = &self.volumes {
            let verdict = volumes.filter(cx, node, overlay);
            if !verdict.fits() {
                return verdict;
            }
        }
        if let Some(spread) = &self.spread {
            let verdict = spread.filter(cx, subject, node, overlay);
            if !verdict.fits() {
                return verdict;
            }
        }
        if let Some(affinity) = &self.affinity {
            let verdict = affinity.filter(cx, subject, node, overlay);
            if !verdict.fits() {
                return verdict;
            }
        }
        if let Some(services) = &self.services {
            let verdict = services.filter(cx, subject, node, overlay);
            if !verdict.fits() {
                return verdict;
            }
        }
        self.disks.as_ref().map_or(Verdict::FITS, |disks| disks.filter(cx, node, overlay))
    }

    /// What NodeVolumeLimits says of a claim of the pod that is not there.
    pub(crate) fn missing_claim(&self) -> Option<Str> {
        self.volumes.as_ref().and_then(volumes::Attempt::missing_claim)
    }

    /// Whether some claim of the pod is still to be bound.
    pub(crate) fn have_waiting_claims(&self) -> bool {
        self.volumes.as_ref().is_some_and(volumes::Attempt::has_waiting_claims)
    }

    /// What is to be done for the pod's claims on `node`, which was just found to fit.
    pub(crate) fn volume_plan(&self, cx: PluginContext<'_>, node: NodeId) -> VolumePlan {
        self.volumes.as_ref().map(|volumes| volumes.plan(cx, node)).unwrap_or_default()
    }

    /// What ended the attempt while filters ran, if one failed.
    pub(crate) fn failure(&self) -> Option<Str> {
        self.volumes.as_ref().and_then(volumes::Attempt::failure)
    }
}
