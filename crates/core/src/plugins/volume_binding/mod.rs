//! VolumeBinding: claims that are bound must be usable on the node, those that wait for it must be bindable there.
//! After `pkg/scheduler/framework/plugins/volumebinding`.

#[cfg(test)]
mod hostile_tests;
mod matching;
mod progress;
mod provision;
#[cfg(test)]
mod tests;

pub(crate) use matching::Sought;
pub(crate) use progress::{Progress, progress};

use super::context::{Plugin, PluginContext, PreFilterRefusal, Stop, Verdict, Work};
use super::volumes::mounts::{Mount, Mounts, missing_claim};
use crate::ledger::{Ledger, NodeId, VolumePlan};
use crate::model::{
    BindingMode, PersistentVolume, PersistentVolumeClaim, StorageClass, Str, VolumeAffinity, VolumeSource,
};
use matching::{Candidates, Unmatched};
use provision::Classes;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

// A verdict's bits: each stands for the text at its place in `VOLUME_TEXTS`.
const NODE_CONFLICT: u64 = 1;
const BIND_CONFLICT: u64 = 1 << 1;
const NO_SPACE: u64 = 1 << 2;
const NO_VOLUME: u64 = 1 << 3;

/// Asking whether a volume is usable on a node, or whether it is chosen, in comparisons.
const LOOK_UP: usize = 4;

/// What PreFilter found out.
#[derive(Debug, Default)]
pub(crate) struct State<'t> {
    /// The volumes of bound claims, in the pod's order; `None` for a volume that does not exist.
    bound: Vec<Option<&'t PersistentVolume>>,
    /// The waiting claims that have a selected node, each with that node.
    selected: Vec<(Unmatched<'t>, &'t Str)>,
    /// The other waiting claims, smallest first, with the volumes they may get.
    matching: Vec<Candidates<'t>>,
    /// The classes of waiting claims.
    classes: Classes<'t>,
    /// See [`Self::comparisons`].
    comparisons: usize,
}

impl<'t> State<'t> {
    /// `None` where the pod has no claims.
    pub(crate) fn prepare(
        cx: PluginContext<'t>,
        mounts: &Mounts<'t, '_>,
        sought: &mut Sought,
        work: &mut Work,
    ) -> Result<Option<Self>, Stop> {
        let claims = readable_claims(mounts).map_err(refused)?;
        if claims.is_empty() {
            return Ok(None);
        }
        let volumes = cx.ledger.volumes();
        let mut state = Self::default();
        let (mut immediate, mut waiting, mut seen) = (false, Vec::new(), FxHashSet::default());
        let mut places = FxHashMap::default();
        for claim in claims {
            if let Some(name) = claim.volume.as_ref().filter(|_| claim.bind_completed) {
                state.bound.push(volumes.volume(name).map(|v| &**v));
                continue;
            }
            let Some(class) = delaying(cx.ledger, claim)?.filter(|_| claim.volume.is_none()) else {
                immediate = true;
                continue;
            };
            let repeated = !seen.insert(std::ptr::from_ref(claim).addr());
            let add = || state.classes.add(volumes, class);
            let class = *places.entry(std::ptr::from_ref(class).addr()).or_insert_with(add);
            let unmatched = Unmatched { claim, class, repeated };
            match volumes.selected_node(claim) {
                Some(node) => state.selected.push((unmatched, node)),
                None => waiting.push(unmatched),
            }
        }
        if immediate {
            return Err(refused("pod has unbound immediate PersistentVolumeClaims".to_owned()));
        }
        waiting.sort_by_key(|Unmatched { claim, .. }| claim.request.unwrap_or_default());
        state.matching = sought.candidates(volumes, &waiting, work)?;
        state.comparisons = state.count_comparisons();
        Ok(Some(state))
    }

    pub(crate) fn filter(&self, cx: PluginContext<'_>, node: NodeId) -> Result<Verdict, Str> {
        let reasons = self.look(cx, node, &mut VolumePlan::default())?;
        Ok(if reasons == 0 { Verdict::FITS } else { Verdict::volumes(reasons) })
    }

    /// How many comparisons [`Self::filter`] takes on one node, at most as a rule: a claim passes over what the claims before it
    /// have chosen, and tries some volumes of the node's place.
    pub(crate) const fn comparisons(&self) -> usize {
        self.comparisons
    }

    fn count_comparisons(&self) -> usize {
        let waiting = self.matching.len();
        let tried =
            self.matching.iter().map(|candidates| candidates.tried().min(waiting + matching::FEW)).sum::<usize>();
        LOOK_UP * (self.bound.len() + self.selected.len() + 2 * waiting + tried) + self.classes.comparisons()
    }

    pub(crate) fn has_waiting_claims(&self) -> bool {
        !(self.selected.is_empty() && self.matching.is_empty())
    }

    pub(crate) fn plan(&self, cx: PluginContext<'_>, node: NodeId) -> VolumePlan {
        let mut plan = VolumePlan::default();
        // The node was just found to fit, so that this finds no reason against it.
        if !matches!(self.look(cx, node, &mut plan), Ok(0)) {
            return VolumePlan::default();
        }
        plan
    }

    /// The reasons against `node` as bits; what would be done there goes into `plan`. After `FindPodVolumes`.
    fn look(&self, cx: PluginContext<'_>, node: NodeId, plan: &mut VolumePlan) -> Result<u64, Str> {
        let mut reasons = self.look_at_bound(cx, node)?;
        if !self.has_waiting_claims() {
            return Ok(reasons);
        }
        let name = cx.ledger.nodes().name(node);
        if self.selected.iter().any(|(_, selected)| *selected != name) {
            return Ok(reasons | BIND_CONFLICT);
        }
        let mut to_provision: SmallVec<[Unmatched<'_>; 2]> = self.selected.iter().map(|(claim, _)| *claim).collect();
        to_provision.extend(matching::find(&self.matching, cx.ledger.nodes().labels(node), plan)?);
        reasons |= self.classes.look(&to_provision, cx.ledger.nodes().labels(node));
        // A claim that was there before is provisioned already, or gets a volume.
        let once = to_provision.iter().filter(|unmatched| !unmatched.repeated);
        plan.provisions.extend(once.map(|unmatched| unmatched.claim.key.clone()));
        Ok(reasons)
    }

    fn look_at_bound(&self, cx: PluginContext<'_>, node: NodeId) -> Result<u64, Str> {
        for volume in &self.bound {
            let Some(volume) = volume else { return Ok(NO_VOLUME) };
            if !is_usable(cx.ledger, volume, node)? {
                return Ok(NODE_CONFLICT);
            }
        }
        Ok(0)
    }
}

fn refused(text: String) -> Stop {
    Stop::Refused(PreFilterRefusal::unresolvable(Plugin::VolumeBinding, text))
}

/// The pod's claims in its order, or upstream's text for the first that no pod can use. After `podHasPVCs`.
fn readable_claims<'t>(mounts: &Mounts<'t, '_>) -> Result<SmallVec<[&'t PersistentVolumeClaim; 2]>, String> {
    let mut claims = SmallVec::new();
    for mount in &mounts.all {
        let Mount::Claim { key, ephemeral, claim } = mount else { continue };
        let name = &*key.name;
        let Some(claim) = claim else {
            return Err(match ephemeral {
                true => format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"),
                false => missing_claim(name),
            });
        };
        if claim.lost {
            let volume = claim.volume.as_deref().unwrap_or_default();
            return Err(format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"));
        }
        if claim.deleting {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        if *ephemeral && let Some(text) = mounts.foreign(claim) {
            return Err(text);
        }
        claims.push(*claim);
    }
    Ok(claims)
}

/// The claim's class, if that waits for the first pod that uses the claim. After `IsDelayBindingMode`.
fn delaying<'t>(ledger: &'t Ledger, claim: &PersistentVolumeClaim) -> Result<Option<&'t StorageClass>, Stop> {
    let class = if claim.class.is_empty() { None } else { ledger.volumes().class(&claim.class) };
    let Some(class) = class else { return Ok(None) };
    match class.binding_mode {
        Some(mode) => Ok((mode == BindingMode::WaitForFirstConsumer).then_some(class)),
        None => Err(Stop::Failed(
            format!(
                "running PreFilter plugin \"VolumeBinding\": VolumeBindingMode not set for StorageClass {:?}",
                class.name
            )
            .into(),
        )),
    }
}

/// Whether a volume can be used on the node: by its CSI translation if the node's CSINode says that its plugin is migrated.
fn is_usable(ledger: &Ledger, volume: &PersistentVolume, node: NodeId) -> Result<bool, Str> {
    let affinity = affinity_on(ledger, volume, node)?;
    Ok(affinity.is_none_or(|affinity| affinity.matches(ledger.nodes().labels(node))))
}

/// The node affinity that counts for the volume on the node. After `tryTranslatePVToCSI`.
fn affinity_on<'v>(
    ledger: &Ledger,
    volume: &'v PersistentVolume,
    node: NodeId,
) -> Result<Option<&'v VolumeAffinity>, Str> {
    if let VolumeSource::InTree { migration, .. } = &volume.source
        && let Some(csi_node) = ledger.volumes().csi_node(ledger.nodes().name(node))
        && csi_node.migrated_plugins.iter().any(|plugin| **plugin == *migration.plugin.name())
    {
        return match &migration.affinity {
            Ok(affinity) => Ok(affinity.as_ref()),
            Err(text) => Err(format!("could not translate pv: {text}").into()),
        };
    }
    Ok(volume.affinity.as_ref())
}
