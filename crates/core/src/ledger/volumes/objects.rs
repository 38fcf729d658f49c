use super::super::{Change, Ledger, NodeId, VolumeChange, parts, unseen};
use super::assumed::Assumptions;
use super::attached::{Attached, By};
use super::uses::Uses;
use crate::model::{
    Attachable, BindingMode, ClaimKey, CsiDriver, CsiNode, CsiStorageCapacity, InTreePlugin, PersistentVolume,
    PersistentVolumeClaim, StorageClass, Str, VolumeAttachment, VolumeSource,
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
struct Attachment {
    object: VolumeAttachment,
    counted: Option<Attachable>,
    /// The row that it is counted on.
    node: Option<NodeId>,
}

/// Volumes, claims and their like. See the module's documentation.
#[derive(Debug, Default)]
pub struct VolumeTable {
    volumes: FxHashMap<Str, Arc<PersistentVolume>>,
    /// By class and name.
    by_class: FxHashMap<Str, BTreeMap<Str, Arc<PersistentVolume>>>,
    claims: FxHashMap<ClaimKey, Arc<PersistentVolumeClaim>>,
    /// By the volume that the claims name.
    claims_of: FxHashMap<Str, SmallVec<[ClaimKey; 1]>>,
    classes: FxHashMap<Str, Arc<StorageClass>>,
    csi_nodes: FxHashMap<Str, Arc<CsiNode>>,
    drivers: FxHashMap<Str, CsiDriver>,
    /// By class, namespace and name.
    capacities: FxHashMap<Str, BTreeMap<(Str, Str), CsiStorageCapacity>>,
    /// The class of each capacity.
    capacity_classes: FxHashMap<(Str, Str), Str>,
    attachments: FxHashMap<Str, Attachment>,
    attachments_of: FxHashMap<Str, SmallVec<[Str; 1]>>,
    attachments_on: FxHashMap<Str, SmallVec<[Str; 1]>>,
    pub(super) uses: Uses,
    pub(super) attached: Attached,
    pub(super) assumed: Assumptions,
}

impl VolumeTable {
    pub fn volume(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.volumes.get(name)
    }

    /// The PersistentVolumes of `class` in the order of their names.
    pub fn of_class(&self, class: &str) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        self.by_class.get(class).into_iter().flat_map(BTreeMap::values)
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

    /// The CSIStorageCapacities of `class` in the order of their names.
    pub fn capacities(&self, class: &str) -> impl Iterator<Item = &CsiStorageCapacity> {
        self.capacities.get(class).into_iter().flat_map(BTreeMap::values)
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
    pub(super) fn copy_of_objects(&self) -> Self {
        let mut copy = Self { csi_nodes: self.csi_nodes.clone(), classes: self.classes.clone(), ..Self::default() };
        #[allow(clippy::iter_over_hash_type, reason = "indexes do not depend on the order")]
        for volume in self.volumes.values() {
            copy.set_volume(volume.clone());
        }
        #[allow(clippy::iter_over_hash_type, reason = "indexes do not depend on the order")]
        for claim in self.claims.values() {
            copy.set_claim(claim.clone());
        }
        #[allow(clippy::iter_over_hash_type, reason = "indexes do not depend on the order")]
        for attachment in self.attachments.values() {
            copy.set_attachment(attachment.object.clone());
        }
        copy
    }

    /// Every index as sorted texts; for audits.
    pub(super) fn indexes(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        all.extend(self.by_class.iter().map(|(class, volumes)| format!("class {class}: {:?}", volumes.keys())));
        let sorted = |kind: &str, at: &Str, mut names: Vec<String>| {
            names.sort();
            format!("{kind} {at}: {names:?}")
        };
        let named = |names: &SmallVec<[Str; 1]>| names.iter().map(ToString::to_string).collect();
        let claims = |keys: &SmallVec<[ClaimKey; 1]>| keys.iter().map(ToString::to_string).collect();
        all.extend(self.claims_of.iter().map(|(at, keys)| sorted("claims of", at, claims(keys))));
        all.extend(self.attachments_of.iter().map(|(at, names)| sorted("attachments of", at, named(names))));
        all.extend(self.attachments_on.iter().map(|(at, names)| sorted("attachments on", at, named(names))));
        all.sort();
        all
    }

    fn set_volume(&mut self, volume: Arc<PersistentVolume>) -> Option<Arc<PersistentVolume>> {
        let before = self.volumes.insert(volume.name.clone(), volume.clone());
        if let Some(before) = before.as_ref().filter(|before| before.class != volume.class) {
            self.leave_class(before);
        }
        self.by_class.entry(volume.class.clone()).or_default().insert(volume.name.clone(), volume.clone());
        if before.as_ref().is_none_or(|before| before.source != volume.source) {
            self.recount_volume(&volume.name);
        }
        before
    }

    fn leave_class(&mut self, volume: &PersistentVolume) {
        if let Some(class) = self.by_class.get_mut(&volume.class) {
            class.remove(&volume.name);
            if class.is_empty() {
                self.by_class.remove(&volume.class);
            }
        }
    }

    fn drop_volume(&mut self, name: &str) -> bool {
        let Some(volume) = self.volumes.remove(name) else { return false };
        self.leave_class(&volume);
        self.assumed.drop_volume(name);
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
        let volume = claim.volume.clone();
        let before = self.claims.insert(key.clone(), claim);
        let old_volume = before.as_ref().and_then(|before| before.volume.clone());
        if old_volume != volume {
            unlink(&mut self.claims_of, old_volume.as_ref(), &key);
            link(&mut self.claims_of, volume.as_ref(), &key);
        }
        self.recount(&key);
        before
    }

    fn drop_claim(&mut self, key: &ClaimKey) -> bool {
        let Some(claim) = self.claims.remove(key) else { return false };
        unlink(&mut self.claims_of, claim.volume.as_ref(), key);
        self.assumed.drop_claim(key);
        self.recount(key);
        true
    }

    fn set_attachment(&mut self, object: VolumeAttachment) {
        self.drop_attachment(&object.name);
        let name = object.name.clone();
        link(&mut self.attachments_of, object.volume.as_ref(), &name);
        link(&mut self.attachments_on, Some(&object.node), &name);
        self.attachments.insert(name, Attachment { object, counted: None, node: None });
    }

    fn drop_attachment(&mut self, name: &str) -> bool {
        let Some(Attachment { object, counted, node }) = self.attachments.remove(name) else { return false };
        unlink(&mut self.attachments_of, object.volume.as_ref(), &object.name);
        unlink(&mut self.attachments_on, Some(&object.node), &object.name);
        if let (Some(counted), Some(node)) = (counted, node) {
            self.attached.remove(&counted, node, By::Object);
        }
        true
    }

    /// Counts an attachment anew: its volume changed. Only CSI volumes count, whatever their driver is called there.
    fn recount_attachment(&mut self, name: &str) {
        let Some(attachment) = self.attachments.get_mut(name) else { return };
        let object = &attachment.object;
        let volume = object.volume.as_ref().and_then(|volume| self.volumes.get(volume));
        let now = volume.filter(|_| !object.attacher.is_empty()).and_then(|volume| match &volume.source {
            VolumeSource::Csi(csi) => Some(Attachable { driver: object.attacher.clone(), handle: csi.handle.clone() }),
            VolumeSource::InTree { .. } | VolumeSource::Other => None,
        });
        let before = std::mem::replace(&mut attachment.counted, now.clone());
        let Some(node) = attachment.node else { return };
        if before == now {
            return;
        }
        if let Some(before) = before {
            self.attached.remove(&before, node, By::Object);
        }
        if let Some(now) = now {
            self.attached.add(&now, node, By::Object);
        }
    }

    /// Counts an attachment on the row of its node, or on none.
    fn place_attachment(&mut self, name: &str, node: Option<NodeId>) {
        self.recount_attachment(name);
        let Some(attachment) = self.attachments.get_mut(name) else { return };
        let before = std::mem::replace(&mut attachment.node, node);
        if let (Some(counted), true) = (&attachment.counted, before != node) {
            if let Some(before) = before {
                self.attached.remove(counted, before, By::Object);
            }
            if let Some(node) = node {
                self.attached.add(counted, node, By::Object);
            }
        }
    }

    /// A node object was put into a row, or deleted from it.
    pub(in crate::ledger) fn set_node(&mut self, name: &Str, node: NodeId, present: bool) {
        let csi_node = self.csi_nodes.get(name).filter(|_| present).cloned();
        self.attached.set_limits(node, csi_node.as_deref());
        for attachment in self.attachments_on.get(name).cloned().unwrap_or_default() {
            self.place_attachment(&attachment, present.then_some(node));
        }
    }
}

fn link<K: Clone>(index: &mut FxHashMap<Str, SmallVec<[K; 1]>>, at: Option<&Str>, key: &K) {
    if let Some(at) = at {
        index.entry(at.clone()).or_default().push(key.clone());
    }
}

fn unlink<K: PartialEq>(index: &mut FxHashMap<Str, SmallVec<[K; 1]>>, at: Option<&Str>, key: &K) {
    let Some((at, keys)) = at.and_then(|at| Some((at, index.get_mut(at)?))) else { return };
    keys.retain(|known| *known != *key);
    if keys.is_empty() {
        index.remove(at);
    }
}

impl Ledger {
    /// A newer object than the one an assumption was made on ends the assumption.
    pub fn apply_volume(&mut self, volume: PersistentVolume) {
        let table = &mut self.volumes;
        if table.volumes.get(&volume.name).is_some_and(|known| **known == volume) {
            return;
        }
        table.assumed.see_volume(&volume);
        let volume = Arc::new(volume);
        let change = match table.set_volume(volume.clone()) {
            None => VolumeChange::VolumeAdded,
            Some(before) => VolumeChange::VolumeUpdated { zones: before.labels != volume.labels },
        };
        self.volumes_changed(change);
    }

    pub fn delete_volume(&mut self, name: &str) {
        if self.volumes.drop_volume(name) {
            self.volumes_changed(VolumeChange::VolumeDeleted);
        }
    }

    pub fn retain_volumes(&mut self, names: &FxHashSet<Str>) {
        for name in unseen(self.volumes.volumes.keys(), names) {
            self.delete_volume(&name);
        }
    }

    /// A newer object than the one an assumption was made on ends the assumption.
    pub fn apply_claim(&mut self, claim: PersistentVolumeClaim) {
        let table = &mut self.volumes;
        if table.claims.get(&claim.key).is_some_and(|known| **known == claim) {
            return;
        }
        table.assumed.see_claim(&claim);
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

    pub fn retain_claims(&mut self, identities: &FxHashSet<Str>) {
        for identity in unseen(self.volumes.claims.keys().map(ToString::to_string), identities) {
            self.delete_claim(&identity);
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

    pub fn retain_storage_classes(&mut self, names: &FxHashSet<Str>) {
        for name in unseen(self.volumes.classes.keys(), names) {
            self.delete_storage_class(&name);
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

    pub fn retain_csi_nodes(&mut self, names: &FxHashSet<Str>) {
        for name in unseen(self.volumes.csi_nodes.keys(), names) {
            self.delete_csi_node(&name);
        }
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

    pub fn retain_csi_drivers(&mut self, names: &FxHashSet<Str>) {
        for name in unseen(self.volumes.drivers.keys(), names) {
            self.delete_csi_driver(&name);
        }
    }

    pub fn apply_csi_capacity(&mut self, capacity: CsiStorageCapacity) {
        let key = (capacity.namespace.clone(), capacity.name.clone());
        let known = self.volumes.take_capacity(&key);
        let grew = known.as_ref().is_none_or(|known| known.limit < capacity.limit || known.nodes != capacity.nodes);
        let same = known.as_ref() == Some(&capacity);
        self.volumes.capacity_classes.insert(key.clone(), capacity.class.clone());
        self.volumes.capacities.entry(capacity.class.clone()).or_default().insert(key, capacity);
        if !same {
            self.volumes_changed(if grew { VolumeChange::CapacityGrew } else { VolumeChange::CapacityChanged });
        }
    }

    pub fn delete_csi_capacity(&mut self, identity: &str) {
        let (namespace, name) = parts(identity);
        if self.volumes.take_capacity(&(namespace.into(), name.into())).is_some() {
            self.volumes_changed(VolumeChange::CapacityChanged);
        }
    }

    pub fn retain_csi_capacities(&mut self, identities: &FxHashSet<Str>) {
        let all = self.volumes.capacity_classes.keys().map(|(namespace, name)| format!("{namespace}/{name}"));
        for identity in unseen(all, identities) {
            self.delete_csi_capacity(&identity);
        }
    }

    pub fn apply_volume_attachment(&mut self, attachment: VolumeAttachment) {
        if self.volumes.attachments.get(&attachment.name).is_some_and(|known| known.object == attachment) {
            return;
        }
        let name = attachment.name.clone();
        let node = self.nodes.find(&attachment.node);
        self.volumes.set_attachment(attachment);
        self.volumes.place_attachment(&name, node);
        self.volumes_changed(VolumeChange::Attached);
    }

    pub fn delete_volume_attachment(&mut self, name: &str) {
        if self.volumes.drop_attachment(name) {
            self.volumes_changed(VolumeChange::Detached);
        }
    }

    pub fn retain_volume_attachments(&mut self, names: &FxHashSet<Str>) {
        for name in unseen(self.volumes.attachments.keys(), names) {
            self.delete_volume_attachment(&name);
        }
    }

    pub(super) fn volumes_changed(&mut self, change: VolumeChange) {
        self.record(None, Change::Volume(change));
    }
}

impl VolumeTable {
    fn take_capacity(&mut self, key: &(Str, Str)) -> Option<CsiStorageCapacity> {
        let class = self.capacity_classes.remove(key)?;
        let of_class = self.capacities.get_mut(&class)?;
        let known = of_class.remove(key);
        if of_class.is_empty() {
            self.capacities.remove(&class);
        }
        known
    }
}

/// Whether some driver that had a limit has none any more.
fn lifts_a_limit(before: &CsiNode, after: &CsiNode) -> bool {
    before.drivers.iter().any(|(driver, limit)| limit.is_some() && after.limit(driver).is_none())
}
