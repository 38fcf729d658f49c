//! Existing volumes for claims that wait. After `findMatchingVolumes`, and `FindMatchingVolume` in
//! `component-helpers/storage/volume/pv_helpers.go`.

use crate::ledger::{VolumePlan, VolumeTable, is_meant_for};
use crate::model::{
    ClaimSelector, Labels, NodeTest, NodeTestOperator, PersistentVolume, PersistentVolumeClaim, Quantity, Str,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// A claim and the volumes that it may get on some node: all that does not depend on the node is checked once.
#[derive(Debug)]
pub(super) struct Candidates<'t> {
    claim: &'t PersistentVolumeClaim,
    /// Whether another volume of the pod names the claim, and stands before this one.
    repeated: bool,
    /// Volumes whose claimRef names this claim, by name: if there are any, only the first that is free counts.
    meant: Vec<&'t PersistentVolume>,
    /// Smallest first, then by name.
    fitting: Vec<&'t PersistentVolume>,
    /// `fitting` by place, where there are many.
    places: Option<Places<'t>>,
}

/// Up to so many volumes are tried one by one on every node.
pub(super) const FEW: usize = 16;

/// Volumes by a label that their node must have: most are local to a node or a zone, so that on a node only those of its place
/// are tried. Numbers are positions in the list of fitting volumes.
#[derive(Debug, Default)]
struct Places<'t> {
    by_label: Vec<(&'t str, FxHashMap<&'t str, Vec<usize>>)>,
    anywhere: Vec<usize>,
}

impl<'t> Places<'t> {
    fn of(fitting: &[&'t PersistentVolume]) -> Self {
        let mut places = Self::default();
        for (at, volume) in fitting.iter().enumerate() {
            match pin(volume) {
                Some(test) => test.values.iter().for_each(|value| places.put(&test.key, value, at)),
                None => places.anywhere.push(at),
            }
        }
        places
    }

    fn put(&mut self, key: &'t str, value: &'t str, at: usize) {
        let known = self.by_label.iter().position(|(label, _)| *label == key).unwrap_or_else(|| {
            self.by_label.push((key, FxHashMap::default()));
            self.by_label.len() - 1
        });
        let list = self.by_label[known].1.entry(value).or_default();
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

impl<'t> Candidates<'t> {
    pub(super) fn of(volumes: &'t VolumeTable, claim: &'t PersistentVolumeClaim, repeated: bool) -> Self {
        let requested = claim.request.unwrap_or(Quantity::ZERO);
        let (mut meant, mut fitting) = (Vec::new(), Vec::new());
        for volume in volumes.of_class(&claim.class).map(|volume| &**volume) {
            let reference = volumes.claim_of(volume);
            let is_meant = reference.is_some_and(|reference| is_meant_for(reference, claim));
            let is_taken = reference.is_some() && !is_meant;
            let differs = volume.volume_mode != claim.volume_mode || volume.attributes_class != claim.attributes_class;
            if is_taken || differs || volume.deleting || volume.capacity < requested {
                continue;
            }
            if is_meant {
                meant.push(volume);
            } else if volume.available && selects(claim, volume) && offers_modes(volume, claim) {
                fitting.push(volume);
            }
        }
        fitting.sort_by_key(|volume| volume.capacity);
        let places = (fitting.len() > FEW).then(|| Places::of(&fitting));
        Self { claim, repeated, meant, fitting, places }
    }

    /// How many volumes may be tried on one node.
    pub(super) fn tried(&self) -> usize {
        self.meant.len() + self.fitting.len()
    }

    /// The volume that the claim gets on a node with `labels`, other than those in `chosen`.
    fn choose(&self, labels: &Labels, chosen: &Chosen) -> Option<&'t PersistentVolume> {
        let usable = |volume: &PersistentVolume| volume.affinity.as_ref().is_none_or(|a| a.matches(labels));
        let free = |volume: &PersistentVolume| !chosen.has(volume);
        match self.meant.iter().copied().find(|volume| free(volume)) {
            Some(volume) => usable(volume).then_some(volume),
            None => self.first(labels, |volume| free(volume) && usable(volume)),
        }
    }

    /// The first of the fitting volumes that is `good` on a node with `labels`.
    fn first(&self, labels: &Labels, good: impl Fn(&PersistentVolume) -> bool) -> Option<&'t PersistentVolume> {
        let Some(places) = &self.places else { return self.fitting.iter().copied().find(|volume| good(volume)) };
        let first_of = |list: &[usize]| list.iter().copied().find(|at| good(self.fitting[*at]));
        places.at(labels).filter_map(first_of).min().map(|at| self.fitting[at])
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
    for candidates in all {
        let Candidates { claim, repeated, .. } = *candidates;
        if let ClaimSelector::Broken(text) = &claim.selector {
            return Err(format!("error creating internal label selector for claim: {}: {text}", claim.key).into());
        }
        match candidates.choose(labels, &chosen) {
            Some(volume) => {
                chosen.add(volume);
                if !repeated {
                    plan.bindings.push((claim.key.clone(), volume.name.clone()));
                }
            }
            None => unmatched.push(Unmatched { claim, repeated }),
        }
    }
    Ok(unmatched)
}

/// A claim whose volume is to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unmatched<'t> {
    pub(super) claim: &'t PersistentVolumeClaim,
    /// Whether the claim was there before, matched or not.
    pub(super) repeated: bool,
}
