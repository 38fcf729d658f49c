//! NodeVolumeLimits: a node's CSI drivers attach only so many volumes.
//! After `pkg/scheduler/framework/plugins/nodevolumelimits/csi.go`.

use super::relations::Cx;
use super::volumes::{Mount, Mounts, missing_claim};
use super::{Cause, Overlay, Verdict};
use crate::core::ledger::{NodeId, Spots};
use crate::core::model::{Attachable, ClaimKey, PersistentVolumeClaim, Pod, PodVolume, Str};
use std::sync::Arc;

/// A volume that the pod would have attached.
#[derive(Debug)]
struct Wanted<'t> {
    volume: Attachable,
    /// Nodes with pods that mount it already.
    mounted: Option<&'t Spots>,
}

/// What keeps the plugin from counting: the first of the pod's volumes that does.
#[derive(Debug)]
enum Problem {
    /// A claim is not there: every node is refused.
    Missing(Str),
    /// The attempt fails; upstream's text.
    Fails(Str),
    /// The attempt fails on nodes that have a CSINode; upstream's text.
    FailsWithCsiNode(Str),
}

/// What PreFilter found out: the volumes by driver, and what is wrong with some.
#[derive(Debug)]
pub(crate) struct State<'t> {
    /// Sorted by driver.
    wanted: Vec<Wanted<'t>>,
    /// In the pod's order, none after the first that holds on every node.
    problems: Vec<Problem>,
}

impl<'t> State<'t> {
    /// None where the plugin skips the pod.
    pub(crate) fn prepare(cx: Cx<'t>, mounts: &Mounts<'t, '_>) -> Option<Self> {
        let mut state = Self { wanted: Vec::new(), problems: Vec::new() };
        let mut counts = false;
        for mount in &mounts.all {
            match mount {
                Mount::Claim { key, ephemeral, claim } => {
                    counts = true;
                    if let Some(problem) = problem_of(mounts, key, *ephemeral, *claim) {
                        state.problems.push(problem);
                    }
                    state.want(cx, cx.ledger.volumes().counts_as(key));
                }
                Mount::Other(at) => counts |= state.inline(cx, &mounts.volumes.0[*at]),
            }
        }
        state.wanted.sort_by(|a, b| a.volume.driver.cmp(&b.volume.driver));
        counts.then_some(state)
    }

    /// What upstream says of a claim that is not there.
    pub(crate) fn missing_claim(&self) -> Option<Str> {
        self.problems.iter().find_map(|problem| match problem {
            Problem::Missing(text) => Some(text.clone()),
            Problem::Fails(_) | Problem::FailsWithCsiNode(_) => None,
        })
    }

    /// Says whether the plugin looks at such a volume.
    fn inline(&mut self, cx: Cx<'t>, volume: &PodVolume) -> bool {
        let PodVolume::Disk { volume: name, disk, counts } = volume else { return false };
        match counts {
            Ok(attachable) => self.want(cx, attachable.clone()),
            Err(text) => {
                let text = format!("converting volume({name}) from inline to csi: {text}");
                self.problems.push(Problem::FailsWithCsiNode(text.into()));
            }
        }
        disk.is_migratable()
    }

    fn want(&mut self, cx: Cx<'t>, volume: Option<Attachable>) {
        let Some(volume) = volume else { return };
        if self.wanted.iter().all(|wanted| wanted.volume != volume) {
            let mounted = cx.ledger.volumes().mounted_on(&volume);
            self.wanted.push(Wanted { volume, mounted });
        }
    }

    pub(crate) fn filter(&self, cx: Cx<'_>, node: NodeId, overlay: &Overlay) -> Result<Verdict, Str> {
        let volumes = cx.ledger.volumes();
        for problem in &self.problems {
            match problem {
                Problem::Missing(_) => return Ok(Verdict::unresolvable(Cause::MissingClaim)),
                Problem::Fails(text) => return Err(text.clone()),
                Problem::FailsWithCsiNode(text) if volumes.csi_node(cx.ledger.nodes().name(node)).is_some() => {
                    return Err(text.clone());
                }
                Problem::FailsWithCsiNode(_) => {}
            }
        }
        let mut rest = &self.wanted[..];
        while let Some(first) = rest.first() {
            let driver = &first.volume.driver;
            let (own, others) = rest.split_at(rest.partition_point(|wanted| wanted.volume.driver <= *driver));
            rest = others;
            let Some(room) = volumes.room(node, driver) else { continue };
            let added = if overlay.added.is_empty() { Vec::new() } else { attached_by(cx, &overlay.added, driver) };
            let is_new = |wanted: &&Wanted<'_>| {
                wanted.mounted.is_none_or(|nodes| nodes.on(node) == 0) && !added.contains(&wanted.volume)
            };
            let new = own.iter().filter(is_new).count() as i64;
            let more = added.iter().filter(|volume| !volumes.is_attached(volume, node)).count() as i64;
            if new > 0 && new + more > room {
                return Ok(Verdict::unschedulable(Cause::VolumeLimit));
            }
        }
        Ok(Verdict::FITS)
    }
}

fn problem_of(
    mounts: &Mounts<'_, '_>,
    key: &ClaimKey,
    ephemeral: bool,
    claim: Option<&PersistentVolumeClaim>,
) -> Option<Problem> {
    if key.name.is_empty() {
        return Some(Problem::Fails("PersistentVolumeClaim had no name".into()));
    }
    let Some(claim) = claim else {
        let text = format!("looking up PVC {key}: {}", missing_claim(&key.name));
        return Some(Problem::Missing(text.into()));
    };
    let foreign = if ephemeral { mounts.foreign(claim) } else { None };
    foreign.map(|text| Problem::Fails(text.into()))
}

/// The volumes of `driver` that `pods` would have attached, each once.
fn attached_by(cx: Cx<'_>, pods: &[Arc<Pod>], driver: &str) -> Vec<Attachable> {
    let mut all = Vec::new();
    for pod in pods {
        let Some(volumes) = &pod.volumes else { continue };
        let claims = volumes.claims(&pod.key.namespace, &pod.key.name);
        all.extend(claims.filter_map(|(claim, _)| cx.ledger.volumes().counts_as(&claim)));
        all.extend(volumes.iter().filter_map(|volume| match volume {
            PodVolume::Disk { counts: Ok(Some(attachable)), .. } => Some(attachable.clone()),
            _ => None,
        }));
    }
    all.retain(|volume| *volume.driver == *driver);
    all.sort();
    all.dedup();
    all
}
