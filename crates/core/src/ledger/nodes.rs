use super::keyed::{HashKey, KeyedMap};
use super::order::{NodeId, zone_of};
use super::placed::PodsOnNode;
use super::scalars::{ScalarColumns, ScalarId, add_up};
use super::touched::TouchedRows;
use super::{Change, Ledger, NodeAspects, PlacedPod};
use crate::limits::{GHOST_ROWS, LARGEST_SUM};
use crate::model::{AvoidedController, HostPort, Labels, Node, Pressure, Requests, Str, Taint, Usage};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use std::hash::BuildHasher;
use std::sync::Arc;

/// A percentage of less than this is the integer division of doubles: see NodeResourcesFit.
pub(crate) const EXACT_BELOW: i64 = 1 << 46;

/// What a node offers of what every node has, and what its pods take of it. Nearly every filter and score of a row reads most of this, and
/// rows are judged in no order: it is in two lines of the processor's cache, where columns of their own were in ten.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FixedAmounts {
    pub(crate) allocatable_cpu: i64,
    pub(crate) allocatable_memory: i64,
    pub(crate) allocatable_storage: i64,
    pub(crate) allocatable_pods: i64,
    pub(crate) used_cpu: i64,
    pub(crate) used_memory: i64,
    pub(crate) used_storage: i64,
    pub(crate) used_pods: i64,
    pub(crate) non_zero_cpu: i64,
    pub(crate) non_zero_memory: i64,
}

impl FixedAmounts {
    /// Whether the node offers both, and no more of either than divisions of doubles are exact for: below 2⁴⁶.
    #[inline]
    pub(crate) const fn has_cpu_and_memory(&self) -> bool {
        let (cpu, memory) = (self.allocatable_cpu, self.allocatable_memory);
        0 < cpu && cpu < EXACT_BELOW && 0 < memory && memory < EXACT_BELOW
    }
}

/// One row a node, one column a fact, or some that are read together.
///
/// A row stays while the node exists or pods on it do; pods may be seen before their node. Rows are reused, versions are
/// not: whatever was cached for a row before is recognised as old.
///
/// What pods take is summed up to [`LARGEST_SUM`], so that no arithmetic on a column can overflow.
#[derive(Debug, Default)]
pub struct NodeTable {
    ids: KeyedMap<Str, NodeId>,
    free: Vec<NodeId>,
    present_count: usize,
    pub(crate) name: Vec<Str>,
    pub(crate) present: Vec<bool>,
    /// The version at which this node object was added: another node under the same name has another epoch.
    pub(crate) epoch: Vec<u64>,
    /// The version at which anything in the row last changed.
    pub(crate) version: Vec<u64>,
    /// The rows whose versions were set last.
    touched: TouchedRows,
    uid: Vec<Str>,
    pub(crate) labels: Vec<Labels>,
    pub(crate) taints: Vec<Arc<[Taint]>>,
    pub(crate) unschedulable: Vec<bool>,
    /// Whether there is any taint: spares a look at the taints themselves on most nodes.
    pub(crate) tainted: Vec<bool>,
    /// What the images that the node reports hash to: they are kept in the table of images, by number, and the names of 50 images are 4 KB.
    images: Vec<u64>,
    pub(crate) declared_features: Vec<Arc<[Str]>>,
    pub(crate) pressure: Vec<Pressure>,
    pub(crate) avoids: Vec<Arc<[AvoidedController]>>,
    pub(crate) fixed: Vec<FixedAmounts>,
    /// Those of all pods on the row, sorted.
    pub(crate) ports: Vec<SmallVec<[HostPort; 1]>>,
    scalars: ScalarColumns,
    /// Whether some sum of the row may have stopped at [`LARGEST_SUM`]: then it is not known what is left without a pod.
    saturated: Vec<bool>,
    soft_taints: usize,
    /// On how many nodes each label key is.
    label_keys: KeyedMap<Str, u32>,
    /// How often a label key came to its first node.
    label_keys_added: u64,
}

/// Adds sorted ports to sorted ports. O(all).
pub(crate) fn add_ports(ports: &mut SmallVec<[HostPort; 1]>, more: &[HostPort]) {
    if !more.is_empty() {
        ports.extend(more.iter().cloned());
        // It finds the two runs.
        ports.sort();
    }
}

/// Takes sorted ports out of sorted ports, each once. O(all).
pub(crate) fn remove_ports(ports: &mut SmallVec<[HostPort; 1]>, gone: &[HostPort]) {
    let mut gone = gone.iter().peekable();
    if gone.peek().is_none() {
        return;
    }
    ports.retain(|port| {
        while gone.next_if(|one| *one < port).is_some() {}
        gone.next_if(|one| *one == port).is_none()
    });
}

impl NodeTable {
    pub(super) fn new(key: &HashKey) -> Self {
        Self { ids: key.map(), label_keys: key.map(), ..Self::default() }
    }

    /// How many nodes exist.
    pub fn len(&self) -> usize {
        self.present_count
    }

    pub fn is_empty(&self) -> bool {
        self.present_count == 0
    }

    /// How many rows the columns have, unused ones included.
    pub fn rows(&self) -> usize {
        self.name.len()
    }

    /// The nodes that exist, in the order of their rows.
    pub(crate) fn present_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.all_rows().filter(|node| self.present[node.index()])
    }

    /// Every row, unused ones included.
    pub(super) fn all_rows(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.rows() as u32).map(NodeId::new)
    }

    /// The existing node `name`.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.ids.get(name).copied().filter(|id| self.present[id.index()])
    }

    pub fn name(&self, node: NodeId) -> &Str {
        &self.name[node.index()]
    }

    pub fn labels(&self, node: NodeId) -> &Labels {
        &self.labels[node.index()]
    }

    /// Assumed pods included.
    pub fn pod_count(&self, node: NodeId) -> i64 {
        self.fixed[node.index()].used_pods
    }

    /// Pods on the nodes that exist, assumed ones included. O(nodes).
    pub fn placed_pods(&self) -> i64 {
        self.present_nodes().map(|node| self.pod_count(node)).sum()
    }

    pub fn is_cordoned(&self, node: NodeId) -> bool {
        self.unschedulable[node.index()]
    }

    /// What the node offers and what its pods take of it: for reports and audits.
    pub fn amounts(&self, node: NodeId) -> (Requests, Requests) {
        let row = &self.fixed[node.index()];
        let fixed = |milli_cpu, memory, ephemeral_storage| Requests {
            milli_cpu,
            memory,
            ephemeral_storage,
            ..Requests::default()
        };
        let mut allocatable = fixed(row.allocatable_cpu, row.allocatable_memory, row.allocatable_storage);
        let mut used = fixed(row.used_cpu, row.used_memory, row.used_storage);
        self.scalars.amounts(node, &mut allocatable, &mut used);
        (allocatable, used)
    }

    /// The column of the scalar resource `name`; `None` where no node offers it, so that no request for it fits.
    pub fn scalar(&self, name: &str) -> Option<ScalarId> {
        self.scalars.find(name)
    }

    /// Calls `each` with every extended resource that some node offers, in no order: its name, its column, and how many nodes offer it.
    pub(crate) fn each_extended(&self, each: impl FnMut(&Str, ScalarId, usize)) {
        self.scalars.each_extended(each);
    }

    /// Calls `each` with the amount that `requests` name of each scalar resource that some node offers.
    pub(crate) fn each_scalar(&self, requests: &Requests, each: impl FnMut(ScalarId, i64)) {
        self.scalars.each_named(requests, each);
    }

    /// Moves when a scalar column is made or given back. Until then a [`ScalarId`] stands for its resource.
    pub fn scalars_version(&self) -> u64 {
        self.scalars.version()
    }

    /// Moves whenever some node offers other amounts of scalar resources.
    pub(crate) fn scalar_offers_version(&self) -> u64 {
        self.scalars.offers_version()
    }

    pub fn scalar_allocatable(&self, scalar: ScalarId, node: NodeId) -> i64 {
        self.scalars.allocatable(scalar, node)
    }

    pub fn scalar_used(&self, scalar: ScalarId, node: NodeId) -> i64 {
        self.scalars.used(scalar, node)
    }

    /// Whether any node has a PreferNoSchedule taint.
    pub fn has_soft_taints(&self) -> bool {
        self.soft_taints > 0
    }

    /// The row for `name`, made where there is none yet.
    pub(super) fn row(&mut self, name: &Str) -> NodeId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| self.grow());
        self.name[id.index()] = name.clone();
        self.ids.insert(name.clone(), id);
        id
    }

    /// The row for pods that are bound to `name`; `None` where that needs one more row for a node that nobody has seen than
    /// `GHOST_ROWS`.
    pub(super) fn row_of_bound(&mut self, name: &Str) -> Option<NodeId> {
        let known = self.ids.get(name).copied();
        let ghosts = self.ids.len() - self.present_count;
        known.or_else(|| (ghosts < GHOST_ROWS).then(|| self.row(name)))
    }

    /// Something in the row changed, with this version. Only `Ledger::record` may call this.
    pub(super) fn stamp(&mut self, node: NodeId, version: u64) {
        self.version[node.index()] = version;
        self.touched.push(node, self.version.len());
    }

    /// How many changes of rows there were.
    pub(crate) fn touched(&self) -> u64 {
        self.touched.count()
    }

    /// The rows that changed after the first `seen` changes, each once for each change; `None` where they are no longer known.
    pub(crate) fn touched_since(&self, seen: u64) -> Option<impl Iterator<Item = NodeId>> {
        self.touched.since(seen)
    }

    fn grow(&mut self) -> NodeId {
        let id = NodeId::new(self.name.len() as u32);
        self.name.push(Str::default());
        self.uid.push(Str::default());
        self.labels.push(Labels::none());
        self.taints.push(Arc::default());
        self.images.push(0);
        self.declared_features.push(Arc::default());
        self.pressure.push(Pressure::default());
        self.avoids.push(Arc::default());
        self.ports.push(SmallVec::new());
        for flag in [&mut self.present, &mut self.unschedulable, &mut self.tainted, &mut self.saturated] {
            flag.push(false);
        }
        for version in [&mut self.epoch, &mut self.version] {
            version.push(0);
        }
        self.fixed.push(FixedAmounts::default());
        self.scalars.grow();
        id
    }

    /// A pod comes to the row (`before` is `None`), leaves it (`after` is `None`), or takes `after` from now on.
    ///
    /// `pods` are those on the row once that has happened. O(1), or O(pods of the row) where a sum has stopped at `LARGEST_SUM`.
    pub(super) fn change_use(
        &mut self,
        node: NodeId,
        before: Option<&Usage>,
        after: Option<&Usage>,
        pods: &[Arc<PlacedPod>],
    ) {
        let i = node.index();
        let known = !self.saturated[i] || before.is_none();
        if let Some(before) = before {
            self.fixed[i].used_pods -= 1;
            if known {
                self.each_sum(node, before, |sum, amount| *sum -= amount);
            }
            remove_ports(&mut self.ports[i], &before.ports);
        }
        if let Some(after) = after {
            self.fixed[i].used_pods += 1;
            if known {
                self.add(node, after);
            }
            add_ports(&mut self.ports[i], &after.ports);
        }
        if !known {
            self.recount(node, pods);
        }
    }

    /// Sums up anew what `pods`, all those on the row, take.
    fn recount(&mut self, node: NodeId, pods: &[Arc<PlacedPod>]) {
        let i = node.index();
        self.saturated[i] = false;
        let FixedAmounts {
            allocatable_cpu, allocatable_memory, allocatable_storage, allocatable_pods, used_pods, ..
        } = self.fixed[i];
        self.fixed[i] = FixedAmounts {
            allocatable_cpu,
            allocatable_memory,
            allocatable_storage,
            allocatable_pods,
            used_pods,
            ..FixedAmounts::default()
        };
        self.scalars.clear_used(node);
        for placed in pods {
            self.add(node, &placed.usage);
        }
    }

    fn add(&mut self, node: NodeId, usage: &Usage) {
        let mut saturated = self.saturated[node.index()];
        self.each_sum(node, usage, |sum, amount| saturated |= add_up(sum, amount));
        self.saturated[node.index()] = saturated;
    }

    /// Calls `change` with each sum of the row and the amount of it that `usage` has.
    fn each_sum(&mut self, node: NodeId, usage: &Usage, mut change: impl FnMut(&mut i64, i64)) {
        let row = &mut self.fixed[node.index()];
        change(&mut row.used_cpu, usage.requests.milli_cpu);
        change(&mut row.used_memory, usage.requests.memory);
        change(&mut row.used_storage, usage.requests.ephemeral_storage);
        change(&mut row.non_zero_cpu, usage.non_zero_milli_cpu);
        change(&mut row.non_zero_memory, usage.non_zero_memory);
        self.scalars.each_used(node, &usage.requests, change);
    }

    /// As many rows and the same scalar columns, all empty; for audits.
    pub(super) fn empty_copy(&self) -> Self {
        let mut copy = Self::default();
        for row in 0..self.rows() {
            copy.row(&format!("{row}").into());
        }
        copy.scalars = self.scalars.copy_of_names();
        copy
    }

    pub(super) fn audit_scalars(&self) -> Result<(), String> {
        self.scalars.audit()
    }

    /// Drops the row if neither the node nor a pod needs it.
    pub(super) fn release_if_unused(&mut self, node: NodeId) {
        let i = node.index();
        if !self.present[i] && self.fixed[i].used_pods == 0 {
            self.ids.remove(&self.name[i]);
            self.free.push(node);
        }
    }

    fn count_soft_taints(taints: &[Taint]) -> usize {
        use crate::model::TaintEffect::PreferNoSchedule;
        usize::from(taints.iter().any(|t| t.effect == PreferNoSchedule))
    }

    /// `pods` are those on all nodes.
    fn set_object(&mut self, node: NodeId, object: &Node, pods: &PodsOnNode) {
        let i = node.index();
        self.soft_taints += Self::count_soft_taints(&object.taints);
        self.soft_taints -= Self::count_soft_taints(&self.taints[i]);
        self.uid[i] = object.uid.clone();
        self.set_labels(node, &object.labels);
        self.taints[i] = object.taints.clone();
        self.tainted[i] = !object.taints.is_empty();
        self.unschedulable[i] = object.unschedulable;
        self.images[i] = FxBuildHasher.hash_one(&object.images);
        self.declared_features[i] = object.declared_features.clone();
        self.pressure[i] = object.pressure;
        self.avoids[i] = object.avoids.clone();
        let (offered, row) = (&object.allocatable, &mut self.fixed[i]);
        row.allocatable_cpu = offered.milli_cpu.min(LARGEST_SUM);
        row.allocatable_memory = offered.memory.min(LARGEST_SUM);
        row.allocatable_storage = offered.ephemeral_storage.min(LARGEST_SUM);
        row.allocatable_pods = object.allocatable_pods;
        for node in self.scalars.offer(node, offered, pods) {
            self.saturated[node.index()] = true;
        }
    }

    fn set_labels(&mut self, node: NodeId, labels: &Labels) {
        let before = std::mem::replace(&mut self.labels[node.index()], labels.clone());
        if before == *labels {
            return;
        }
        // A node may have thousands of labels, and usually one of them changes.
        for key in labels.keys_not_in(&before) {
            let nodes = self.label_keys.entry(key.clone()).or_default();
            self.label_keys_added += u64::from(*nodes == 0);
            *nodes += 1;
        }
        for key in before.keys_not_in(labels) {
            if let Some(nodes) = self.label_keys.get_mut(key) {
                *nodes -= 1;
                if *nodes == 0 {
                    self.label_keys.remove(key);
                }
            }
        }
    }

    /// Whether some node has a label of this key.
    pub(crate) fn has_label_key(&self, key: &str) -> bool {
        self.label_keys.contains_key(key)
    }

    /// Moves whenever [`Self::has_label_key`] becomes true of some key.
    pub(crate) const fn label_keys_added(&self) -> u64 {
        self.label_keys_added
    }

    /// Every key that some node has, in an order that means nothing.
    pub(super) fn label_keys(&self) -> impl ExactSizeIterator<Item = &Str> {
        self.label_keys.keys()
    }

    fn differences(&self, node: NodeId, object: &Node) -> NodeAspects {
        let i = node.index();
        let (offered, row) = (&object.allocatable, &self.fixed[i]);
        let same_fixed = row.allocatable_cpu == offered.milli_cpu.min(LARGEST_SUM)
            && row.allocatable_memory == offered.memory.min(LARGEST_SUM)
            && row.allocatable_storage == offered.ephemeral_storage.min(LARGEST_SUM);
        let (was_cordoned, is_cordoned) = (self.unschedulable[i], object.unschedulable);
        let features = self.declared_features[i] != object.declared_features;
        [
            (!same_fixed || !self.scalars.is_offered(node, offered), NodeAspects::ALLOCATABLE),
            (row.allocatable_pods != object.allocatable_pods, NodeAspects::ALLOCATABLE),
            (self.labels[i] != object.labels, NodeAspects::LABELS),
            (self.taints[i] != object.taints || (was_cordoned && !is_cordoned), NodeAspects::TAINTS),
            (!was_cordoned && is_cordoned, NodeAspects::CORDONED),
            (self.images[i] != FxBuildHasher.hash_one(&object.images), NodeAspects::IMAGES),
            (features, NodeAspects::DECLARED),
            (self.pressure[i] != object.pressure, NodeAspects::DECLARED),
            (self.avoids[i] != object.avoids, NodeAspects::DECLARED),
        ]
        .into_iter()
        .filter(|(differs, _)| *differs)
        .fold(NodeAspects::default(), |all, (_, aspect)| all | aspect)
    }
}

impl Ledger {
    /// A heartbeat that changes nothing for scheduling is no change. A node of the same name with another uid is another
    /// node: the old one is deleted first, in the same call.
    pub fn apply_node(&mut self, object: &Node) {
        if let Some(known) = self.nodes.find(&object.name) {
            if self.nodes.uid[known.index()] == object.uid {
                self.update_node(known, object);
                return;
            }
            self.delete_node(&object.name);
        }
        let node = self.nodes.row(&object.name);
        self.nodes.set_object(node, object, &self.pods_on_node);
        self.nodes.present[node.index()] = true;
        self.nodes.present_count += 1;
        self.images.set(node, &object.images);
        self.volumes.set_node(&object.name, node, true);
        let version = self.node_changed(node, NodeAspects::ADDED);
        self.nodes.epoch[node.index()] = version;
        self.tree.add(node, zone_of(&object.labels), version);
        self.place_strays(&object.name);
    }

    fn update_node(&mut self, node: NodeId, object: &Node) {
        let aspects = self.nodes.differences(node, object);
        if aspects.is_empty() {
            return;
        }
        let relabelled = aspects.intersects(NodeAspects::LABELS);
        let zone = relabelled.then(|| zone_of(self.nodes.labels(node)));
        self.nodes.set_object(node, object, &self.pods_on_node);
        if aspects.intersects(NodeAspects::IMAGES) {
            self.images.set(node, &object.images);
        }
        let version = self.node_changed(node, aspects);
        if let Some(zone) = zone {
            let now = zone_of(&object.labels);
            if now != zone {
                self.tree.remove(node, &zone, version);
                self.tree.add(node, now, version);
            }
        }
    }

    /// Pods on the node keep its row until they are deleted too.
    pub fn delete_node(&mut self, name: &str) {
        let Some(node) = self.nodes.find(name) else {
            return;
        };
        let zone = zone_of(self.nodes.labels(node));
        self.nodes.set_object(node, &Node::default(), &self.pods_on_node);
        self.nodes.present[node.index()] = false;
        self.nodes.present_count -= 1;
        self.images.clear(node);
        let name = self.nodes.name(node).clone();
        self.volumes.set_node(&name, node, false);
        let version = self.node_changed(node, NodeAspects::REMOVED);
        self.tree.remove(node, &zone, version);
        // Pods nominated to this node look elsewhere from now on. Upstream waits for its flush of unschedulable pods.
        let nominated: Vec<i32> = self.nominations.on(&name).iter().map(|pod| pod.priority).collect();
        for priority in nominated {
            self.record(None, Change::NominationEnded { priority });
        }
        self.nodes.release_if_unused(node);
    }

    fn node_changed(&mut self, node: NodeId, aspects: NodeAspects) -> u64 {
        let before = self.nodes.version[node.index()];
        let version = self.record(Some(node), Change::Node { node, aspects });
        if aspects.intersects(NodeAspects::ADDED | NodeAspects::LABELS | NodeAspects::REMOVED) {
            self.node_labels_version = version;
            self.terms.touch(version);
            // Pods that were on the row of a new node may not be known to be gone.
            let is_empty = aspects.intersects(NodeAspects::ADDED) && self.pods_on(node).is_empty();
            self.update_topologies(node, if is_empty { before } else { version });
        }
        if aspects.intersects(NodeAspects::ADDED | NodeAspects::TAINTS | NodeAspects::REMOVED) {
            self.node_taints_version = version;
        }
        version
    }
}
