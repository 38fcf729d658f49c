use super::order::Zone;
use super::{Change, Ledger, NodeAspects};
use crate::limits::SCALAR_COLUMNS;
use crate::model::{AvoidedController, HostPort, Image, Labels, Node, Pressure, Requests, Str, Taint, Usage};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::Arc;

/// A row of the node table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    pub(crate) const fn new(row: u32) -> Self {
        Self(row)
    }

    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A column of a scalar resource. Ids are never reused: scalar names are few and bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScalarId(u16);

/// One scalar resource: what each node offers of it, and what its pods take.
#[derive(Debug, Default)]
struct ScalarColumn {
    allocatable: Vec<i64>,
    used: Vec<i64>,
}

/// One row a node, one column a fact.
///
/// A row stays while the node exists or pods on it do; pods may be seen before their node. Rows are reused, versions are
/// not: whatever was cached for a row before is recognised as old.
#[derive(Debug, Default)]
pub struct NodeTable {
    ids: FxHashMap<Str, NodeId>,
    free: Vec<NodeId>,
    present_count: usize,
    pub(crate) name: Vec<Str>,
    pub(crate) present: Vec<bool>,
    /// The version at which this node object was added: another node under the same name has another epoch.
    pub(crate) epoch: Vec<u64>,
    /// The version at which anything in the row last changed.
    pub(crate) version: Vec<u64>,
    uid: Vec<Str>,
    pub(crate) labels: Vec<Labels>,
    pub(crate) taints: Vec<Arc<[Taint]>>,
    pub(crate) unschedulable: Vec<bool>,
    /// Whether there is any taint: spares a look at the taints themselves on most nodes.
    pub(crate) tainted: Vec<bool>,
    images: Vec<Vec<Image>>,
    pub(crate) declared_features: Vec<Arc<[Str]>>,
    pub(crate) pressure: Vec<Pressure>,
    pub(crate) avoids: Vec<Arc<[AvoidedController]>>,
    pub(crate) allocatable_cpu: Vec<i64>,
    pub(crate) allocatable_memory: Vec<i64>,
    pub(crate) allocatable_storage: Vec<i64>,
    pub(crate) allocatable_pods: Vec<i64>,
    pub(crate) used_cpu: Vec<i64>,
    pub(crate) used_memory: Vec<i64>,
    pub(crate) used_storage: Vec<i64>,
    pub(crate) used_pods: Vec<i64>,
    pub(crate) non_zero_cpu: Vec<i64>,
    pub(crate) non_zero_memory: Vec<i64>,
    pub(crate) ports: Vec<SmallVec<[HostPort; 1]>>,
    scalar_ids: FxHashMap<Str, ScalarId>,
    scalars: Vec<ScalarColumn>,
    soft_taints: usize,
}

impl NodeTable {
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
        (0..self.rows() as u32).map(NodeId).filter(|node| self.present[node.index()])
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
        self.used_pods[node.index()]
    }

    pub fn is_cordoned(&self, node: NodeId) -> bool {
        self.unschedulable[node.index()]
    }

    /// What the node offers and what its pods take of it: for reports and audits.
    pub fn amounts(&self, node: NodeId) -> (Requests, Requests) {
        let i = node.index();
        let mut allocatable = Requests {
            milli_cpu: self.allocatable_cpu[i],
            memory: self.allocatable_memory[i],
            ephemeral_storage: self.allocatable_storage[i],
            ..Requests::default()
        };
        let mut used = Requests {
            milli_cpu: self.used_cpu[i],
            memory: self.used_memory[i],
            ephemeral_storage: self.used_storage[i],
            ..Requests::default()
        };
        #[allow(clippy::iter_over_hash_type, reason = "`set_scalar` sorts by name")]
        for (name, id) in &self.scalar_ids {
            let column = &self.scalars[id.0 as usize];
            for (of, amount) in [(&mut allocatable, column.allocatable[i]), (&mut used, column.used[i])] {
                if amount != 0 {
                    of.set_scalar(name.clone(), amount);
                }
            }
        }
        (allocatable, used)
    }

    /// The column of the scalar resource `name`, once some node or pod has named it.
    pub fn scalar(&self, name: &str) -> Option<ScalarId> {
        self.scalar_ids.get(name).copied()
    }

    /// How many scalar columns there are; only ever grows.
    pub fn scalar_count(&self) -> usize {
        self.scalars.len()
    }

    pub fn scalar_allocatable(&self, scalar: ScalarId, node: NodeId) -> i64 {
        self.scalars[scalar.0 as usize].allocatable[node.index()]
    }

    pub fn scalar_used(&self, scalar: ScalarId, node: NodeId) -> i64 {
        self.scalars[scalar.0 as usize].used[node.index()]
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

    fn grow(&mut self) -> NodeId {
        let id = NodeId(self.name.len() as u32);
        self.name.push("".into());
        self.uid.push("".into());
        self.labels.push(Labels::none());
        self.taints.push(Arc::from([]));
        self.images.push(Vec::new());
        self.declared_features.push(Arc::from([]));
        self.pressure.push(Pressure::default());
        self.avoids.push(Arc::from([]));
        self.ports.push(SmallVec::new());
        for flag in [&mut self.present, &mut self.unschedulable, &mut self.tainted] {
            flag.push(false);
        }
        for version in [&mut self.epoch, &mut self.version] {
            version.push(0);
        }
        for amount in self.amount_columns() {
            amount.push(0);
        }
        id
    }

    fn amount_columns(&mut self) -> impl Iterator<Item = &mut Vec<i64>> {
        let fixed = [
            &mut self.allocatable_cpu,
            &mut self.allocatable_memory,
            &mut self.allocatable_storage,
            &mut self.allocatable_pods,
            &mut self.used_cpu,
            &mut self.used_memory,
            &mut self.used_storage,
            &mut self.used_pods,
            &mut self.non_zero_cpu,
            &mut self.non_zero_memory,
        ];
        fixed.into_iter().chain(self.scalars.iter_mut().flat_map(|c| [&mut c.allocatable, &mut c.used]))
    }

    fn scalar_column(&mut self, name: &Str) -> Option<ScalarId> {
        if let Some(id) = self.scalar(name) {
            return Some(id);
        }
        if self.scalars.len() == SCALAR_COLUMNS {
            return None;
        }
        let id = ScalarId(self.scalars.len() as u16);
        let rows = self.rows();
        self.scalars.push(ScalarColumn { allocatable: vec![0; rows], used: vec![0; rows] });
        self.scalar_ids.insert(name.clone(), id);
        Some(id)
    }

    /// Adds `usage` to what the row's pods take (`sign` 1), or subtracts it (−1).
    pub(super) fn take(&mut self, node: NodeId, usage: &Usage, sign: i64) {
        let i = node.index();
        self.used_cpu[i] += sign * usage.requests.milli_cpu;
        self.used_memory[i] += sign * usage.requests.memory;
        self.used_storage[i] += sign * usage.requests.ephemeral_storage;
        self.non_zero_cpu[i] += sign * usage.non_zero_milli_cpu;
        self.non_zero_memory[i] += sign * usage.non_zero_memory;
        self.used_pods[i] += sign;
        for (name, amount) in &usage.requests.scalars {
            if let Some(id) = self.scalar_column(name) {
                self.scalars[id.0 as usize].used[i] += sign * amount;
            }
        }
        for port in &usage.ports {
            if sign > 0 {
                self.ports[i].push(port.clone());
            } else if let Some(at) = self.ports[i].iter().position(|p| p == port) {
                self.ports[i].swap_remove(at);
            }
        }
    }

    /// Drops the row if neither the node nor a pod needs it.
    pub(super) fn release_if_unused(&mut self, node: NodeId) {
        let i = node.index();
        if !self.present[i] && self.used_pods[i] == 0 {
            self.ids.remove(&self.name[i]);
            self.free.push(node);
        }
    }

    fn count_soft_taints(taints: &[Taint]) -> usize {
        use crate::model::TaintEffect::PreferNoSchedule;
        usize::from(taints.iter().any(|t| t.effect == PreferNoSchedule))
    }

    fn set_object(&mut self, node: NodeId, object: &Node) {
        let i = node.index();
        self.soft_taints += Self::count_soft_taints(&object.taints);
        self.soft_taints -= Self::count_soft_taints(&self.taints[i]);
        self.uid[i] = object.uid.clone();
        self.labels[i] = object.labels.clone();
        self.taints[i] = object.taints.clone();
        self.tainted[i] = !object.taints.is_empty();
        self.unschedulable[i] = object.unschedulable;
        self.images[i].clone_from(&object.images);
        self.declared_features[i] = object.declared_features.clone();
        self.pressure[i] = object.pressure;
        self.avoids[i] = object.avoids.clone();
        self.set_allocatable(node, &object.allocatable, object.allocatable_pods);
    }

    fn set_allocatable(&mut self, node: NodeId, offered: &Requests, pods: i64) {
        let i = node.index();
        self.allocatable_cpu[i] = offered.milli_cpu;
        self.allocatable_memory[i] = offered.memory;
        self.allocatable_storage[i] = offered.ephemeral_storage;
        self.allocatable_pods[i] = pods;
        for column in &mut self.scalars {
            column.allocatable[i] = 0;
        }
        for (name, amount) in &offered.scalars {
            if let Some(id) = self.scalar_column(name) {
                self.scalars[id.0 as usize].allocatable[i] = *amount;
            }
        }
    }

    fn clear_object(&mut self, node: NodeId) {
        let i = node.index();
        self.soft_taints -= Self::count_soft_taints(&self.taints[i]);
        self.uid[i] = "".into();
        self.labels[i] = Labels::none();
        self.taints[i] = Arc::from([]);
        self.tainted[i] = false;
        self.unschedulable[i] = false;
        self.images[i] = Vec::new();
        self.declared_features[i] = Arc::from([]);
        self.pressure[i] = Pressure::default();
        self.avoids[i] = Arc::from([]);
        self.set_allocatable(node, &Requests::default(), 0);
    }

    fn differences(&self, node: NodeId, object: &Node) -> NodeAspects {
        let i = node.index();
        let mut aspects = NodeAspects::default();
        let allocatable = (self.amounts(node).0, self.allocatable_pods[i]);
        let offered = {
            let mut offered = object.allocatable.clone();
            offered.scalars.retain(|(_, amount)| *amount != 0);
            offered
        };
        if allocatable != (offered, object.allocatable_pods) {
            aspects |= NodeAspects::ALLOCATABLE;
        }
        if self.labels[i] != object.labels {
            aspects |= NodeAspects::LABELS;
        }
        if self.taints[i] != object.taints || (self.unschedulable[i] && !object.unschedulable) {
            aspects |= NodeAspects::TAINTS;
        }
        if !self.unschedulable[i] && object.unschedulable {
            aspects |= NodeAspects::CORDONED;
        }
        if self.images[i] != object.images {
            aspects |= NodeAspects::IMAGES;
        }
        let declared = self.declared_features[i] != object.declared_features;
        if declared || self.pressure[i] != object.pressure || self.avoids[i] != object.avoids {
            aspects |= NodeAspects::DECLARED;
        }
        aspects
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
        self.nodes.set_object(node, object);
        self.nodes.present[node.index()] = true;
        self.nodes.present_count += 1;
        self.images.set(node, &object.images);
        self.volumes.set_node(&object.name, node, true);
        let version = self.node_changed(node, NodeAspects::ADDED);
        self.nodes.epoch[node.index()] = version;
        self.tree.add(node, Zone::of(&object.labels), version);
    }

    fn update_node(&mut self, node: NodeId, object: &Node) {
        let aspects = self.nodes.differences(node, object);
        if aspects.is_empty() {
            return;
        }
        let zone = Zone::of(self.nodes.labels(node));
        self.nodes.set_object(node, object);
        if aspects.intersects(NodeAspects::IMAGES) {
            self.images.set(node, &object.images);
        }
        let version = self.node_changed(node, aspects);
        let now = Zone::of(&object.labels);
        if now != zone {
            self.tree.remove(node, &zone, version);
            self.tree.add(node, now, version);
        }
    }

    /// Pods on the node keep its row until they are deleted too.
    pub fn delete_node(&mut self, name: &str) {
        let Some(node) = self.nodes.find(name) else {
            return;
        };
        let zone = Zone::of(self.nodes.labels(node));
        self.nodes.clear_object(node);
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

    pub fn retain_nodes(&mut self, names: &FxHashSet<Str>) {
        let unseen: Vec<Str> =
            self.node_order().into_iter().map(|n| self.nodes.name(n).clone()).filter(|n| !names.contains(n)).collect();
        for name in unseen {
            self.delete_node(&name);
        }
    }

    fn node_changed(&mut self, node: NodeId, aspects: NodeAspects) -> u64 {
        let version = self.record(Some(node), Change::Node { node, aspects });
        if aspects.intersects(NodeAspects::ADDED | NodeAspects::LABELS | NodeAspects::REMOVED) {
            self.node_labels_version = version;
            self.terms.touch(version);
            self.update_topologies(node);
        }
        if aspects.intersects(NodeAspects::ADDED | NodeAspects::TAINTS | NodeAspects::REMOVED) {
            self.node_taints_version = version;
        }
        version
    }
}
