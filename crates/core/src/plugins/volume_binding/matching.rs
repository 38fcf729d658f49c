//! Existing volumes for claims that wait. After `findMatchingVolumes`, and `FindMatchingVolume` in
//! `component-helpers/storage/volume/pv_helpers.go`.

use crate::ledger::{VolumePlan, VolumeTable, is_meant_for};
use crate::limits::WORK_PER_CLAIM;
use crate::model::{
    ClaimSelector, Labels, NodeTest, NodeTestOperator, PersistentVolume, PersistentVolumeClaim, Quantity, Str,
};
use crate::plugins::context::{Stop, Work, work_of};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// A claim that waits, and the volumes that it may get on some node.
#[derive(Debug)]
pub(super) struct Candidates<'t> {
    wanted: Unmatched<'t>,
    volumes: Arc<Volumes>,
}

impl Candidates<'_> {
    /// How many volumes may be tried on one node.
    pub(super) fn tried(&self) -> usize {
        self.volumes.meant.len() + self.volumes.fitting.len()
    }
}

/// The volumes that a claim may get on some node: all that does not depend on the node is checked once.
#[derive(Debug, Default)]
struct Volumes {
    /// Volumes whose claimRef names this claim, by name: if there are any, only the first that is free counts.
    meant: Vec<Arc<PersistentVolume>>,
    /// Smallest first, then by name.
    fitting: Vec<Arc<PersistentVolume>>,
    /// `fitting` by place, where there are many.
    places: Option<Places>,
}

/// Up to so many volumes are tried one by one on every node.
pub(super) const FEW: usize = 16;

/// Volumes by a label that their node must have: most are local to a node or a zone, so that on a node only those of its place
/// are tried. Numbers are positions in the list of fitting volumes.
#[derive(Debug, Default)]
struct Places {
    by_label: Vec<(Str, FxHashMap<Str, Vec<usize>>)>,
    anywhere: Vec<usize>,
}

impl Places {
    fn add(&mut self, at: usize, volume: &PersistentVolume) {
        match pin(volume) {
            Some(test) => test.values.iter().for_each(|value| self.put(&test.key, value, at)),
            None => self.anywhere.push(at),
        }
    }

    fn put(&mut self, key: &Str, value: &Str, at: usize) {
        let known = self.by_label.iter().position(|(label, _)| label == key).unwrap_or_else(|| {
            self.by_label.push((key.clone(), FxHashMap::default()));
            self.by_label.len() - 1
        });
        let list = self.by_label[known].1.entry(value.clone()).or_default();
        // A label may list a value twice.
        if list.last() != Some(&at) {
            list.push(at);
        }
    }

    /// The lists of volumes that may be usable on a node with `labels`, each in ascending order.
    fn at(&self, labels: &Labels) -> impl Iterator<Item = &[usize]> {
        let listed = self.by_label.iter().filter_map(|(key, values)| values.get(&**labels.get(key)?));
        listed.chain([&self.anywhere]).map(Vec::as_slice)
    }
}

/// The test of a label's values that every node of the volume must pass, if there is one.
fn pin(volume: &PersistentVolume) -> Option<&NodeTest> {
    match &volume.affinity.as_ref()?.terms[..] {
        [tests] => tests.iter().find(|test| test.operator == NodeTestOperator::In),
        _ => None,
    }
}

/// What the waiting claims of one pod may get, as far as looks have come: one that is out of work leaves it to the next. Good for
/// the claims and volumes of one version.
#[derive(Debug, Default)]
pub(crate) struct Sought {
    /// Of the claims that all volumes were looked at for, in the order in which claims are matched.
    done: Vec<Arc<Volumes>>,
    /// Of the next claim, and where to go on.
    begun: Option<(Volumes, (Quantity, Str))>,
}

impl Sought {
    /// The volumes for each of the claims.
    pub(super) fn candidates<'t>(
        &mut self,
        table: &VolumeTable,
        waiting: &[Unmatched<'t>],
        work: &mut Work,
    ) -> Result<Vec<Candidates<'t>>, Stop> {
        for Unmatched { claim, .. } in waiting.iter().skip(self.done.len()) {
            self.seek(table, claim, work)?;
        }
        let found = waiting.iter().zip(&self.done);
        Ok(found.map(|(wanted, volumes)| Candidates { wanted: *wanted, volumes: volumes.clone() }).collect())
    }

    fn seek(&mut self, table: &VolumeTable, claim: &PersistentVolumeClaim, work: &mut Work) -> Result<(), Stop> {
        let (mut found, from) = if let Some(begun) = self.begun.take() {
            begun
        } else {
            work.take(WORK_PER_CLAIM)?;
            (Volumes::default(), (claim.request.unwrap_or(Quantity::ZERO), Str::default()))
        };
        for volume in table.of_class_from(&claim.class, &from) {
            if let Err(stop) = work.take(work_of(comparisons(claim, volume))) {
                self.begun = Some((found, volume.place()));
                return Err(stop);
            }
            found.consider(table, claim, volume);
        }
        self.done.push(Arc::new(found));
        Ok(())
    }
}

/// How many comparisons it takes to see whether a claim may get a volume, and where.
fn comparisons(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> usize {
    let selector = match &claim.selector {
        ClaimSelector::Matching(selector) => selector.comparisons(),
        ClaimSelector::Any | ClaimSelector::Broken(_) => 0,
    };
    selector + claim.access_modes.len() + pin(volume).map_or(0, |test| test.values.len())
}

impl Volumes {
    /// Takes up a volume of the claim's class that is large enough.
    fn consider(&mut self, table: &VolumeTable, claim: &PersistentVolumeClaim, volume: &Arc<PersistentVolume>) {
        let reference = table.claim_of(volume);
        let is_meant = reference.is_some_and(|reference| is_meant_for(reference, claim));
        let is_taken = reference.is_some() && !is_meant;
        let differs = volume.volume_mode != claim.volume_mode || volume.attributes_class != claim.attributes_class;
        if is_taken || differs || volume.deleting {
            return;
        }
        if is_meant {
            let at = self.meant.partition_point(|known| known.name < volume.name);
            self.meant.insert(at, volume.clone());
        } else if volume.available && selects(claim, volume) && offers_modes(volume, claim) {
            self.add(volume);
        }
    }

    fn add(&mut self, volume: &Arc<PersistentVolume>) {
        self.fitting.push(volume.clone());
        if let Some(places) = &mut self.places {
            places.add(self.fitting.len() - 1, volume);
        } else if self.fitting.len() > FEW {
            let places = self.places.insert(Places::default());
            self.fitting.iter().enumerate().for_each(|(at, volume)| places.add(at, volume));
        }
    }

    /// The volume that the claim gets on a node with `labels`, other than those in `chosen`.
    fn choose(&self, labels: &Labels, chosen: &Chosen) -> Option<&PersistentVolume> {
        let usable = |volume: &PersistentVolume| volume.affinity.as_ref().is_none_or(|a| a.matches(labels));
        let free = |volume: &PersistentVolume| !chosen.has(volume);
        match self.meant.iter().map(|volume| &**volume).find(|volume| free(volume)) {
            Some(volume) => usable(volume).then_some(volume),
            None => self.first(labels, |volume| free(volume) && usable(volume)),
        }
    }

    /// The first of the fitting volumes that is `good` on a node with `labels`.
    fn first(&self, labels: &Labels, good: impl Fn(&PersistentVolume) -> bool) -> Option<&PersistentVolume> {
        let Some(places) = &self.places else {
            return self.fitting.iter().map(|volume| &**volume).find(|volume| good(volume));
        };
        let first_of = |list: &[usize]| list.iter().copied().find(|at| good(&self.fitting[*at]));
        places.at(labels).filter_map(first_of).min().map(|at| &*self.fitting[at])
    }
}

/// The volumes that claims of the pod get on one node, by address: each claim asks about each volume before its own.
#[derive(Debug, Default)]
struct Chosen(FxHashSet<usize>);

impl Chosen {
    fn add(&mut self, volume: &PersistentVolume) {
        self.0.insert(std::ptr::from_ref(volume).addr());
    }

    fn has(&self, volume: &PersistentVolume) -> bool {
        #[cfg(test)]
        super::tests::COMPARED.set(super::tests::COMPARED.get() + 1);
        self.0.contains(&std::ptr::from_ref(volume).addr())
    }
}

fn selects(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    match &claim.selector {
        ClaimSelector::Any => true,
        ClaimSelector::Matching(selector) => selector.matches(&volume.labels),
        ClaimSelector::Broken(_) => false,
    }
}

fn offers_modes(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
}

/// Matches claims with volumes on a node with `labels`: matches go into `plan`, claims without one are returned.
///
/// Two volumes of a pod may name one claim. Upstream looks for two volumes then; only the first is bound here, and where there is
/// none for the first there is none for the second.
pub(super) fn find<'t>(
    all: &[Candidates<'t>],
    labels: &Labels,
    plan: &mut VolumePlan,
) -> Result<Vec<Unmatched<'t>>, Str> {
    let (mut chosen, mut unmatched) = (Chosen::default(), Vec::new());
    for Candidates { wanted, volumes } in all {
        let Unmatched { claim, repeated, .. } = *wanted;
        if let ClaimSelector::Broken(text) = &claim.selector {
            return Err(format!("error creating internal label selector for claim: {}: {text}", claim.key).into());
        }
        match volumes.choose(labels, &chosen) {
            Some(volume) => {
                chosen.add(volume);
                if !repeated {
                    plan.bindings.push((claim.key.clone(), volume.name.clone()));
                }
            }
            None => unmatched.push(*wanted),
        }
    }
    Ok(unmatched)
}

/// A claim that waits for a volume.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unmatched<'t> {
    pub(super) claim: &'t PersistentVolumeClaim,
    /// The place of its class.
    pub(super) class: usize,
    /// Whether another volume of the pod names the claim, and stands before this one: then the claim is matched or not already.
    pub(super) repeated: bool,
}
