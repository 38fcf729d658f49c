//! The files of this folder know each other: `mod.rs` says why.

use super::assumed::{AssumedClaims, AssumedVolumes};
use super::attached::{Attached, By};
use super::capacities::Capacities;
use super::uses::Uses;
use crate::ledger::keyed::{HashKey, KeyedMap};
use crate::ledger::{Change, Ledger, NodeId, PodState, VolumeChange, VolumeNames, parts, remove_from_group};
use crate::model::{
    Attachable, BindingMode, ClaimKey, CsiDriver, CsiNode, CsiStorageCapacity, InTreePlugin, PersistentVolume,
    PersistentVolumeClaim, Quantity, StorageClass, Str, VolumeAttachment, VolumeSource,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

#[derive(Debug)]
struct Attachment {
    object: VolumeAttachment,
    /// The row of its node, while that exists.
    node: Option<NodeId>,
    /// What it counts as, and on which row.
    counted: Option<(Attachable, NodeId)>,
}

/// Volumes, claims and their like. See the module's documentation.
#[derive(Debug, Default)]
pub struct VolumeTable {
    volumes: FxHashMap<Str, Arc<PersistentVolume>>,
    /// By class, there smallest first, and then by name.
    by_class: FxHashMap<Str, BTreeMap<(Quantity, Str), Arc<PersistentVolume>>>,
    claims: KeyedMap<ClaimKey, Arc<PersistentVolumeClaim>>,
    /// By the volume that the claims name.
    claims_of: Index<ClaimKey>,
    classes: FxHashMap<Str, Arc<StorageClass>>,
    csi_nodes: FxHashMap<Str, Arc<CsiNode>>,
    drivers: FxHashMap<Str, CsiDriver>,
    pub(super) capacities: Capacities,
    attachments: FxHashMap<Str, Attachment>,
    attachments_of: Index<Str>,
    attachments_on: Index<Str>,
    pub(super) uses: Uses,
    pub(super) attached: Attached,
    pub(super) assumed_volumes: AssumedVolumes,
    pub(super) assumed_claims: AssumedClaims,
    pub(super) version: u64,
    pub(super) claims_version: u64,
}

impl VolumeTable {
    /// Moves whenever something changes here that is neither of one node's row alone, as placed pods and what they mount are, nor of
    /// one claim.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Moves whenever a claim changes, or what is assumed of one.
    pub fn claims_version(&self) -> u64 {
        self.claims_version
    }

    pub(in crate::ledger) fn new(key: &HashKey) -> Self {
        Self {
            claims: key.map(),
            claims_of: key.map(),
            capacities: Capacities::new(key),
            attachments_of: key.map(),
            attachments_on: key.map(),
            uses: Uses::new(key),
            attached: Attached::new(key),
            ..Self::default()
        }
    }

    pub fn volume(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.volumes.get(name)
    }

    /// The PersistentVolumes of `class` from a capacity and a name on: smallest first, and then by name.
    pub fn of_class_from(&self, class: &str, from: &(Quantity, Str)) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        let volumes = self.by_class.get(class).into_iter();
        volumes.flat_map(move |volumes| volumes.range::<(Quantity, Str), _>(from..).map(|(_, volume)| volume))
    }

    pub fn claim(&self, key: &ClaimKey) -> Option<&Arc<PersistentVolumeClaim>> {
        self.claims.get(key)
    }

    pub fn class(&self, name: &str) -> Option<&Arc<StorageClass>> {
        self.classes.get(name)
    }

    pub fn csi_node(&self, name: &str) -> Option<&Arc<CsiNode>> {
        self.csi_nodes.get(name)
    }

    pub fn csi_driver(&self, name: &str) -> Option<&CsiDriver> {
        self.drivers.get(name)
    }

    /// What a claim counts as against attach limits: its volume, or while it is unbound a volume of its own, of its class's
    /// provisioner. After `getCSIDriverInfo` in `pkg/scheduler/framework/plugins/nodevolumelimits/csi.go`.
    pub fn counts_as(&self, key: &ClaimKey) -> Option<Attachable> {
        let claim = self.claims.get(key)?;
        if let Some(volume) = claim.volume.as_ref().and_then(|name| self.volumes.get(name)) {
            return volume.attachable().cloned();
        }
        let provisioner = &self.classes.get(&claim.class)?.provisioner;
        let driver = match InTreePlugin::named(provisioner) {
            Some(plugin) => plugin.driver()?.into(),
            None => provisioner.clone(),
        };
        // No driver's handle begins with a NUL.
        Some(Attachable { driver, handle: format!("\u{0}{key}").into() })
    }

    /// A table of the same objects, whose indexes are made from nothing; for audits.
    #[allow(clippy::iter_over_hash_type, reason = "indexes do not depend on the order")]
    fn copy_of_objects(&self) -> Self {
        let mut copy = Self { csi_nodes: self.csi_nodes.clone(), classes: self.classes.clone(), ..Self::default() };
        for volume in self.volumes.values() {
            copy.set_volume(volume.clone());
        }
        for claim in self.claims.values() {
            copy.set_claim(claim.clone());
        }
        for attachment in self.attachments.values() {
            copy.set_attachment(attachment.object.clone(), None);
        }
        for capacity in self.capacities.objects() {
            copy.capacities.set(capacity.clone());
        }
        copy
    }

    /// What [`copy_of_objects`](Self::copy_of_objects) makes anew; for audits.
    fn indexes(&self) -> impl PartialEq + Debug {
        (&self.by_class, &self.claims_of, &self.attachments_of, &self.attachments_on, &self.capacities.by_class)
    }

    fn set_volume(&mut self, volume: Arc<PersistentVolume>) -> Option<Arc<PersistentVolume>> {
        let before = self.volumes.insert(volume.name.clone(), volume.clone());
        let moves = |before: &PersistentVolume| before.class != volume.class || before.capacity != volume.capacity;
        if let Some(before) = before.as_ref().filter(|before| moves(before)) {
            remove_from_group(&mut self.by_class, &before.class, &before.place());
        }
        self.by_class.entry(volume.class.clone()).or_default().insert(volume.place(), volume.clone());
        if before.as_ref().is_none_or(|before| before.source != volume.source) {
            self.recount_volume(&volume.name);
        }
        before
    }

    fn drop_volume(&mut self, name: &str) -> bool {
        let Some(volume) = self.volumes.remove(name) else { return false };
        remove_from_group(&mut self.by_class, &volume.class, &volume.place());
        self.assumed_volumes.end(&volume.name);
        self.recount_volume(name);
        true
    }

    /// Counts anew the claims and attachments of the volume `name`.
    fn recount_volume(&mut self, name: &str) {
        for claim in self.claims_of.get(name).cloned().unwrap_or_default() {
            self.recount(&claim);
        }
        for attachment in self.attachments_of.get(name).cloned().unwrap_or_default() {
            self.recount_attachment(&attachment);
        }
    }

    fn set_claim(&mut self, claim: Arc<PersistentVolumeClaim>) -> Option<Arc<PersistentVolumeClaim>> {
        let key = claim.key.clone();
        let before = self.claims.insert(key.clone(), claim.clone());
        let old_volume = before.as_ref().and_then(|before| before.volume.as_ref());
        if old_volume != claim.volume.as_ref() {
            unlink(&mut self.claims_of, old_volume, &key);
            link(&mut self.claims_of, claim.volume.as_ref(), &key);
        }
        if before.as_ref().is_none_or(|before| before.volume != claim.volume || before.class != claim.class) {
            self.claim_moved(&key);
        }
        self.recount(&key);
        before
    }

    fn drop_claim(&mut self, key: &ClaimKey) -> bool {
        let Some(claim) = self.claims.remove(key) else { return false };
        unlink(&mut self.claims_of, claim.volume.as_ref(), key);
        self.assumed_claims.end(key);
        self.claim_moved(key);
        self.recount(key);
        true
    }

    fn set_attachment(&mut self, object: VolumeAttachment, node: Option<NodeId>) {
        self.drop_attachment(&object.name);
        let name = object.name.clone();
        link(&mut self.attachments_of, object.volume.as_ref(), &name);
        link(&mut self.attachments_on, Some(&object.node), &name);
        self.attachments.insert(name.clone(), Attachment { object, node, counted: None });
        self.recount_attachment(&name);
    }

    fn drop_attachment(&mut self, name: &str) -> bool {
        let Some(Attachment { object, counted, .. }) = self.attachments.remove(name) else { return false };
        unlink(&mut self.attachments_of, object.volume.as_ref(), &object.name);
        unlink(&mut self.attachments_on, Some(&object.node), &object.name);
        if let Some((volume, node)) = counted {
            self.attached.remove(&volume, node, By::Object);
        }
        true
    }

    /// Counts an attachment anew: its volume or node changed. Only CSI volumes count, whatever their driver is called there.
    fn recount_attachment(&mut self, name: &str) {
        let Some(attachment) = self.attachments.get_mut(name) else { return };
        let object = &attachment.object;
        let volume = object.volume.as_ref().and_then(|volume| self.volumes.get(volume));
        let counted = volume.filter(|_| !object.attacher.is_empty()).and_then(|volume| match &volume.source {
            VolumeSource::Csi(csi) => Some(Attachable { driver: object.attacher.clone(), handle: csi.handle.clone() }),
            VolumeSource::InTree { .. } | VolumeSource::Other => None,
        });
        let now = counted.zip(attachment.node);
        let before = std::mem::replace(&mut attachment.counted, now.clone());
        if before == now {
            return;
        }
        if let Some((volume, node)) = before {
            self.attached.remove(&volume, node, By::Object);
        }
        if let Some((volume, node)) = now {
            self.attached.add(&volume, node, By::Object);
        }
    }

    /// A node object was put into a row, or deleted from it.
    pub(in crate::ledger) fn set_node(&mut self, name: &Str, node: NodeId, present: bool) {
        let csi_node = self.csi_nodes.get(name).filter(|_| present).cloned();
        self.attached.set_limits(node, csi_node.as_deref());
        for name in self.attachments_on.get(name).cloned().unwrap_or_default() {
            if let Some(attachment) = self.attachments.get_mut(&name) {
                attachment.node = present.then_some(node);
            }
            self.recount_attachment(&name);
        }
    }
}

/// Objects of one kind by the name of another that they refer to. Each list is sorted.
type Index<K> = KeyedMap<Str, SmallVec<[K; 1]>>;

fn link<K: Clone + Ord>(index: &mut Index<K>, at: Option<&Str>, key: &K) {
    if let Some(at) = at {
        let keys = index.entry(at.clone()).or_default();
        keys.insert(keys.partition_point(|known| known < key), key.clone());
    }
}

fn unlink<K: PartialEq>(index: &mut Index<K>, at: Option<&Str>, key: &K) {
    let Some((at, keys)) = at.and_then(|at| Some((at, index.get_mut(at)?))) else { return };
    keys.retain(|known| *known != *key);
    if keys.is_empty() {
        index.remove(at);
    }
}

fn names_of(volume: &Arc<PersistentVolume>) -> VolumeNames {
    VolumeNames { volume: volume.name.clone(), claim: volume.claim.as_ref().map(|claim| claim.key.clone()) }
}

impl Ledger {
    /// A newer object than the one an assumption was made on ends the assumption.
    pub fn apply_volume(&mut self, volume: PersistentVolume) {
        let table = &mut self.volumes;
        if table.volumes.get(&volume.name).is_some_and(|known| **known == volume) {
            return;
        }
        table.assumed_volumes.see(&volume.name, &volume.resource_version);
        let volume = Arc::new(volume);
        let change = match table.set_volume(volume.clone()) {
            None => VolumeChange::VolumeAdded { names: names_of(&volume) },
            Some(before) => {
                VolumeChange::VolumeUpdated { names: names_of(&volume), zones: before.labels != volume.labels }
            }
        };
        self.volumes_changed(change);
    }

    pub fn delete_volume(&mut self, name: &str) {
        let names = self.volumes.volume(name).map(names_of);
        if let Some(names) = names.filter(|_| self.volumes.drop_volume(name)) {
            self.volumes_changed(VolumeChange::VolumeDeleted { names });
        }
    }

    /// A newer object than the one an assumption was made on ends the assumption.
    pub fn apply_claim(&mut self, claim: PersistentVolumeClaim) {
        let table = &mut self.volumes;
        if table.claims.get(&claim.key).is_some_and(|known| **known == claim) {
            return;
        }
        table.assumed_claims.see(&claim.key, &claim.resource_version);
        let claim = Arc::new(claim);
        let change = match table.set_claim(claim.clone()) {
            Some(before) if before.uid == claim.uid => VolumeChange::ClaimUpdated(claim.key.clone()),
            _ => VolumeChange::ClaimAdded(claim.key.clone()),
        };
        self.volumes_changed(change);
    }

    pub fn delete_claim(&mut self, identity: &str) {
        let (namespace, name) = parts(identity);
        let key = ClaimKey { namespace: namespace.into(), name: name.into() };
        if self.volumes.drop_claim(&key) {
            self.volumes_changed(VolumeChange::ClaimDeleted(key));
        }
    }

    pub fn apply_storage_class(&mut self, class: StorageClass) {
        let table = &mut self.volumes;
        let known = table.classes.get(&class.name).cloned();
        if known.as_deref() == Some(&class) {
            return;
        }
        let class = Arc::new(class);
        table.classes.insert(class.name.clone(), class.clone());
        if known.as_ref().is_none_or(|known| known.provisioner != class.provisioner) {
            table.recount_all();
        }
        self.volumes_changed(match known {
            None => VolumeChange::ClassAdded { waits: class.binding_mode == Some(BindingMode::WaitForFirstConsumer) },
            Some(known) => {
                VolumeChange::ClassUpdated { topologies: known.allowed_topologies != class.allowed_topologies }
            }
        });
    }

    pub fn delete_storage_class(&mut self, name: &str) {
        if self.volumes.classes.remove(name).is_some() {
            self.volumes.recount_all();
            self.volumes_changed(VolumeChange::ClassDeleted);
        }
    }

    pub fn apply_csi_node(&mut self, csi_node: CsiNode) {
        let known = self.volumes.csi_nodes.get(&csi_node.name).cloned();
        if known.as_deref() == Some(&csi_node) {
            return;
        }
        let change = match known {
            None => VolumeChange::CsiNodeAdded,
            Some(known) => {
                let limit = |csi_node: &CsiNode, driver: &str| csi_node.limit(driver).unwrap_or(0);
                let raised = |(driver, _): &(Str, _)| limit(&csi_node, driver) > limit(&known, driver);
                VolumeChange::CsiNodeUpdated {
                    // A limit that is lifted helps as well; upstream's hint does not see that.
                    raised: csi_node.drivers.iter().any(raised) || lifts_a_limit(&known, &csi_node),
                    migrated: known.migrated_plugins != csi_node.migrated_plugins,
                }
            }
        };
        let csi_node = Arc::new(csi_node);
        if let Some(node) = self.nodes.find(&csi_node.name) {
            self.volumes.attached.set_limits(node, Some(&csi_node));
        }
        self.volumes.csi_nodes.insert(csi_node.name.clone(), csi_node);
        self.volumes_changed(change);
    }

    pub fn delete_csi_node(&mut self, name: &str) {
        if self.volumes.csi_nodes.remove(name).is_none() {
            return;
        }
        if let Some(node) = self.nodes.find(name) {
            self.volumes.attached.set_limits(node, None);
        }
        self.volumes_changed(VolumeChange::CsiNodeDeleted);
    }

    pub fn apply_csi_driver(&mut self, driver: CsiDriver) {
        let known = self.volumes.drivers.insert(driver.name.clone(), driver.clone());
        if known.as_ref() != Some(&driver) {
            let boundless = known.is_some_and(|known| known.storage_capacity) && !driver.storage_capacity;
            self.volumes_changed(VolumeChange::CsiDriver { boundless });
        }
    }

    pub fn delete_csi_driver(&mut self, name: &str) {
        if let Some(known) = self.volumes.drivers.remove(name) {
            self.volumes_changed(VolumeChange::CsiDriver { boundless: known.storage_capacity });
        }
    }

    pub fn apply_csi_capacity(&mut self, capacity: CsiStorageCapacity) {
        let capacities = &mut self.volumes.capacities;
        let known = capacities.get(&(capacity.namespace.clone(), capacity.name.clone()));
        if known == Some(&capacity) {
            return;
        }
        let grew = known.is_none_or(|known| known.limit < capacity.limit || known.nodes != capacity.nodes);
        capacities.set(capacity);
        self.volumes_changed(if grew { VolumeChange::CapacityGrew } else { VolumeChange::CapacityChanged });
    }

    pub fn delete_csi_capacity(&mut self, identity: &str) {
        let (namespace, name) = parts(identity);
        if self.volumes.capacities.remove(&(namespace.into(), name.into())) {
            self.volumes_changed(VolumeChange::CapacityChanged);
        }
    }

    pub fn apply_volume_attachment(&mut self, attachment: VolumeAttachment) {
        if self.volumes.attachments.get(&attachment.name).is_some_and(|known| known.object == attachment) {
            return;
        }
        let node = self.nodes.find(&attachment.node);
        self.volumes.set_attachment(attachment, node);
        self.volumes_changed(VolumeChange::Attached);
    }

    pub fn delete_volume_attachment(&mut self, name: &str) {
        if self.volumes.drop_attachment(name) {
            self.volumes_changed(VolumeChange::Detached);
        }
    }

    /// Computes from nothing who uses what and what is attached where, and compares it with what was kept.
    pub(in crate::ledger) fn audit_volumes(&self) -> Result<(), String> {
        let (kept, mut naive) = (&self.volumes, self.volumes.copy_of_objects());
        for node in self.nodes.present_nodes() {
            naive.set_node(self.nodes.name(node), node, true);
        }
        #[allow(clippy::iter_over_hash_type, reason = "what is compared does not depend on the order")]
        for placed in self.pods.states.values().filter_map(PodState::placed) {
            naive.mount(placed);
        }
        if !kept.uses.same_as(&naive.uses) {
            return Err(format!("uses of claims {:?}, its pods make {:?}", kept.uses, naive.uses));
        }
        if !kept.attached.same_as(&naive.attached) {
            return Err(format!("attached {:?}, its pods and objects make {:?}", kept.attached, naive.attached));
        }
        if kept.indexes() != naive.indexes() {
            return Err(format!("indexes {:?}, its objects make {:?}", kept.indexes(), naive.indexes()));
        }
        self.audit_assumptions()
    }

    pub(super) fn volumes_changed(&mut self, change: VolumeChange) {
        use VolumeChange::{ClaimAdded, ClaimDeleted, ClaimUpdated};
        match change {
            ClaimAdded(_) | ClaimUpdated(_) | ClaimDeleted(_) => self.volumes.claims_version += 1,
            _ => self.volumes.version += 1,
        }
        self.record(None, Change::Volume(change));
    }
}

/// Whether some driver that had a limit has none any more.
fn lifts_a_limit(before: &CsiNode, after: &CsiNode) -> bool {
    before.drivers.iter().any(|(driver, limit)| limit.is_some() && after.limit(driver).is_none())
}
