//! The files of this folder know each other: `mod.rs` says why.

use super::VolumeTable;
use super::attached::By;
use crate::ledger::keyed::{HashKey, KeyedMap};
use crate::ledger::{CountsByNode, NodeId, NodeTable, PlacedPod};
use crate::model::{Attachable, ClaimKey, PodKey, PodVolume, PodVolumes, Str};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A placed pod with volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedVolumes {
    pub uid: Str,
    pub pod: PodKey,
    pub volumes: Arc<PodVolumes>,
}

/// How placed pods use one claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Use {
    /// Where, once for each volume that names it.
    pub(super) all: CountsByNode,
    /// As `all`, without claims that were made for a pod: only these count for ReadWriteOncePod.
    named: CountsByNode,
    /// What the claim counts as on those nodes.
    pub(super) counted: Option<Attachable>,
}

/// Who uses which claims, where.
#[derive(Debug, Default)]
pub(super) struct Uses {
    pub(super) claims: KeyedMap<ClaimKey, Use>,
    pods: FxHashMap<NodeId, Vec<PlacedVolumes>>,
    /// By row, as far as anything was ever mounted there: see [`VolumeTable::mounts_version`].
    versions: Vec<u64>,
}

impl Uses {
    pub(super) fn new(key: &HashKey) -> Self {
        Self { claims: key.map(), pods: FxHashMap::default(), versions: Vec::new() }
    }

    fn mounts_changed(&mut self, node: NodeId) {
        if self.versions.len() <= node.index() {
            self.versions.resize(node.index() + 1, 0);
        }
        self.versions[node.index()] += 1;
    }

    pub(super) fn same_as(&self, other: &Self) -> bool {
        let sorted = |uses: &Self| -> FxHashMap<NodeId, Vec<PlacedVolumes>> {
            let by_uid = |mut pods: Vec<PlacedVolumes>| {
                pods.sort_by(|a, b| a.uid.cmp(&b.uid));
                pods
            };
            uses.pods.clone().into_iter().map(|(node, pods)| (node, by_uid(pods))).collect()
        };
        self.claims == other.claims && sorted(self) == sorted(other)
    }
}

impl VolumeTable {
    /// How many volumes of pods name the claim, on nodes that exist.
    pub fn uses_of(&self, claim: &ClaimKey, nodes: &NodeTable) -> usize {
        let counts = self.uses.claims.get(claim).into_iter().flat_map(|uses| uses.named.iter());
        counts.filter(|(node, _)| nodes.present[node.index()]).map(|(_, uses)| uses as usize).sum()
    }

    /// The pods with volumes on the node, in an order that means nothing.
    pub fn placed_on(&self, node: NodeId) -> &[PlacedVolumes] {
        self.uses.pods.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Moves whenever the pods on the node mount something else: they came or went, or a claim of theirs has another volume or class,
    /// appeared, or is gone.
    pub fn mounts_version(&self, node: NodeId) -> u64 {
        self.uses.versions.get(node.index()).copied().unwrap_or_default()
    }

    /// A claim has another volume or class, appeared, or is gone.
    pub(super) fn claim_moved(&mut self, claim: &ClaimKey) {
        let Uses { claims, versions, .. } = &mut self.uses;
        for (node, _) in claims.get(claim).into_iter().flat_map(|uses| uses.all.iter()) {
            // Mounting it there has made the entry.
            versions[node.index()] += 1;
        }
    }

    pub(in crate::ledger) fn mount(&mut self, placed: &PlacedPod) {
        let PlacedPod { uid, key: pod, node, volumes: Some(volumes), .. } = placed else { return };
        let node = *node;
        self.uses.mounts_changed(node);
        let entry = PlacedVolumes { uid: uid.clone(), pod: pod.clone(), volumes: volumes.clone() };
        self.uses.pods.entry(node).or_default().push(entry);
        for (claim, ephemeral) in volumes.claims(&pod.namespace, &pod.name) {
            if !self.uses.claims.contains_key(&claim) {
                let counted = self.counts_as(&claim);
                self.uses.claims.insert(claim.clone(), Use { counted, ..Use::default() });
            }
            let Some(uses) = self.uses.claims.get_mut(&claim) else { continue };
            uses.all.add(node);
            if !ephemeral {
                uses.named.add(node);
            }
            if let Some(attachable) = &uses.counted
                && uses.all.on(node) == 1
            {
                self.attached.add(attachable, node, By::Pod);
            }
        }
        for attachable in inline(volumes) {
            self.attached.add(attachable, node, By::Pod);
        }
    }

    pub(in crate::ledger) fn unmount(&mut self, placed: &PlacedPod) {
        let PlacedPod { uid, key: pod, node, volumes: Some(volumes), .. } = placed else { return };
        let node = *node;
        self.uses.mounts_changed(node);
        if let Some(pods) = self.uses.pods.get_mut(&node) {
            if let Some(at) = pods.iter().position(|placed| placed.uid == *uid) {
                pods.swap_remove(at);
            }
            if pods.is_empty() {
                self.uses.pods.remove(&node);
            }
        }
        for (claim, ephemeral) in volumes.claims(&pod.namespace, &pod.name) {
            let Some(uses) = self.uses.claims.get_mut(&claim) else { continue };
            uses.all.remove(node);
            if !ephemeral {
                uses.named.remove(node);
            }
            if let Some(attachable) = &uses.counted
                && uses.all.on(node) == 0
            {
                self.attached.remove(attachable, node, By::Pod);
            }
            if uses.all.is_empty() {
                self.uses.claims.remove(&claim);
            }
        }
        for attachable in inline(volumes) {
            self.attached.remove(attachable, node, By::Pod);
        }
    }

    /// Counts a claim anew: the claim, its volume or its class changed.
    pub(super) fn recount(&mut self, claim: &ClaimKey) {
        if !self.uses.claims.contains_key(claim) {
            return;
        }
        let now = self.counts_as(claim);
        let Some(uses) = self.uses.claims.get_mut(claim) else { return };
        let before = std::mem::replace(&mut uses.counted, now);
        if before == uses.counted {
            return;
        }
        for (node, _) in uses.all.iter() {
            if let Some(attachable) = &before {
                self.attached.remove(attachable, node, By::Pod);
            }
            if let Some(attachable) = &uses.counted {
                self.attached.add(attachable, node, By::Pod);
            }
        }
    }

    /// Counts every claim anew: a class changed its provisioner.
    pub(super) fn recount_all(&mut self) {
        let mut claims: Vec<ClaimKey> = self.uses.claims.keys().cloned().collect();
        claims.sort_unstable();
        for claim in claims {
            self.recount(&claim);
        }
    }
}

/// Disks named in the pod itself, as far as they count.
fn inline(volumes: &PodVolumes) -> impl Iterator<Item = &Attachable> {
    volumes.iter().filter_map(|volume| match volume {
        PodVolume::Disk { counts: Ok(Some(attachable)), .. } => Some(attachable),
        _ => None,
    })
}
