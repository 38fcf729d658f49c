//! The one table of nodes, pods and assumed pods that all workers share.
//!
//! ```text
//!  apply_pod, apply_node, …   what the watches saw                  (runtime, under the write lock)
//!  commit, forget             a worker's proposal, and its undoing  (worker, under a short write lock)
//!          │
//!          ├──▶ columns: one row a node, one column a fact   ── read by filters and scores, under the read lock
//!          └──▶ change log: what happened, in order          ── followed by every worker with a cursor of its own
//! ```
//!
//! Invariants:
//! - every change takes the next version, and a change of what a row holds stamps the row with it (`Ledger::record`):
//!   an answer cached for a row is good exactly as long as the row is stamped no more;
//! - a pod is in one state: pending, assumed (by a commit), or bound (seen so). Only evidence ends an assumption;
//! - the sums in the columns equal those computed from the pods; a property test checks that.
//!
//! The ledger has no lock: the runtime puts one around it, tests and the simulator do without.

mod age;
mod audit;
mod change;
mod commit;
mod devices;
mod evictions;
#[cfg(test)]
mod hostile_tests;
mod images;
mod intern;
mod keyed;
mod match_classes;
mod names;
mod news;
mod nodes;
mod nominations;
mod object;
mod order;
mod parted;
mod placed;
mod places;
mod pods;
#[cfg(test)]
mod pods_tests;
mod scalars;
mod schedulers;
mod strays;
mod terms;
mod topology;
mod touched;
mod volumes;
mod workloads;

pub use age::oldest_first;
pub use change::{Change, ChangeLog, LogGap, NodeAspects, VolumeChange, VolumeNames};
pub use commit::{BindOutcome, Committed, Conflict, Proposal};
pub(crate) use devices::FollowedOffers;
pub use devices::{ClaimPlan, ContestedDevice, DeviceChange, DeviceClasses, DeviceTable, Drivers, ExtendedPlan};
pub use evictions::{Evicting, EvictionProposal, PendingPreemption};
pub use images::ImageId;
pub use keyed::HashKey;
pub use match_classes::{ClassTerms, MatchClass, MatchClassTable};
pub use news::{Kinds, News};
pub use nodes::NodeTable;
pub(crate) use nodes::{EXACT_BELOW, FixedAmounts};
pub(crate) use nodes::{add_ports, remove_ports};
pub use order::{CountsByNode, NodeId};
pub use placed::{PlacedFrom, PlacedPod};
pub use pods::{PodState, PodsFrom};
pub use scalars::ScalarId;
pub use terms::{OfTopology, PlacedTerms, TermIndex};
pub use topology::{DomainId, Topology};
#[cfg(test)]
pub(crate) use volumes::COMPARED_CAPACITIES;
pub(crate) use volumes::{ClassCapacities, is_meant_for};
pub use volumes::{PlacedVolumes, VolumePlan, VolumeTable};
pub use workloads::Workloads;

use crate::limits::NOMINATIONS_PER_HOLD;
use crate::model::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, Labels, Namespace, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, PodShape, ResourceClaim, RowShape, Service, StorageClass, Str,
    Time, Usage, VolumeAttachment, Workload,
};
use berth_devices::model::ResourceSlice;
use evictions::Evictions;
use images::ImageTable;
use intern::Interner;
use keyed::KeyedMap;
use nominations::Nominations;
use order::NodeTree;
use placed::PodsOnNode;
use pods::PodTable;
use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;
use topology::TopologyTable;
use workloads::{BudgetTable, WorkloadTable};

/// How a worker reaches the ledger: under a lock in the operator, plainly in tests and the simulator.
///
/// Neither closure may call back into the same access.
pub trait LedgerAccess {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R;
    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R;

    /// The pending pods that are `wanted`, in an order that means nothing, and the ledger's version before the first was looked at: what
    /// has changed after it may be missed, or be there as it was, and is in the log. O(pods), for a worker that starts or whose cursor
    /// is older than the log; the lock is given back after every some thousand.
    fn pending_pods(&self, wanted: impl Fn(&Pod) -> bool) -> (u64, Vec<Arc<Pod>>) {
        let (mut version, mut pending, mut from) = (None, Vec::new(), Some(PodsFrom::default()));
        while let Some(at) = from {
            from = self.read(|ledger| {
                version.get_or_insert(ledger.version());
                ledger.some_pending_pods(at, |pod| pending.extend(wanted(pod).then(|| pod.clone())))
            });
        }
        (version.unwrap_or_default(), pending)
    }

    /// Says which schedulers are served from now on. Nominations of pods that were served and are no longer end: nobody will place
    /// those pods, so they would keep the capacity for ever. Returns these pods as they were before, oldest first. O(nominated pods);
    /// the lock is given back after every some hundred. Nobody else may say so meanwhile.
    fn serve(&self, schedulers: Vec<Str>) -> Vec<Arc<Pod>> {
        let mut abandoned = self.write(|ledger| ledger.set_own_schedulers(schedulers));
        oldest_first(&mut abandoned);
        let mut ended = Vec::with_capacity(abandoned.len());
        for part in abandoned.chunks(NOMINATIONS_PER_HOLD) {
            self.write(|ledger| ended.extend(part.iter().filter_map(|pod| ledger.abandon(&pod.uid))));
        }
        ended
    }

    /// How far time has come, for measuring what things take: nothing is decided by it. It may be asked while the ledger is locked. Time
    /// stands still for who does not measure.
    fn elapsed(&self) -> Time {
        Time::ZERO
    }
}

impl LedgerAccess for RefCell<Ledger> {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        f(&self.borrow())
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        f(&mut self.borrow_mut())
    }
}

object::objects! {
    Pod(Box<Pod>) of Pod => apply_pod (*),
    Node(Box<Node>) of Node => apply_node (&),
    Namespace(Namespace) of Namespace => apply_namespace,
    DeviceClass(DeviceClass) of DeviceClass => apply_device_class,
    ResourceClaim(Box<ResourceClaim>) of ResourceClaim => apply_resource_claim (*),
    ResourceSlice(Box<ResourceSlice>) of ResourceSlice => apply_resource_slice (*),
    Budget(PodDisruptionBudget) of PodDisruptionBudget => apply_budget,
    Service(Service) of Service => apply_service,
    /// A ReplicationController, ReplicaSet or StatefulSet.
    Workload(Workload) of Workload => apply_controller,
    Volume(Box<PersistentVolume>) of PersistentVolume => apply_volume (*),
    Claim(Box<PersistentVolumeClaim>) of PersistentVolumeClaim => apply_claim (*),
    StorageClass(StorageClass) of StorageClass => apply_storage_class,
    CsiNode(CsiNode) of CsiNode => apply_csi_node,
    CsiDriver(CsiDriver) of CsiDriver => apply_csi_driver,
    CsiCapacity(CsiStorageCapacity) of CsiStorageCapacity => apply_csi_capacity,
    VolumeAttachment(VolumeAttachment) of VolumeAttachment => apply_volume_attachment,
}

/// The shared table. See the module's documentation.
///
/// Every watched kind has `apply_…` (the object as seen) and `delete_…`. An object that changes nothing for scheduling is no change.
#[derive(Debug)]
pub struct Ledger {
    nodes: NodeTable,
    tree: NodeTree,
    images: ImageTable,
    pods: PodTable,
    pods_on_node: PodsOnNode,
    match_classes: MatchClassTable,
    terms: PlacedTerms,
    topologies: TopologyTable,
    nominations: Nominations,
    evictions: Evictions,
    own_schedulers: Arc<[Str]>,
    volumes: VolumeTable,
    namespaces: KeyedMap<Str, Labels>,
    workloads: WorkloadTable,
    node_labels_version: u64,
    node_taints_version: u64,
    devices: DeviceTable,
    budgets: BudgetTable,
    /// The version at which some budget last came, went or got another selector.
    budget_selectors: u64,
    log: ChangeLog,
    usages: Interner<Usage>,
    shapes: Interner<PodShape>,
    rows: Interner<RowShape>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new()
    }
}

impl Ledger {
    /// With a key that everybody knows: for simulations and tests.
    pub fn new() -> Self {
        Self::with_hash_key(&HashKey::default())
    }

    /// Two ledgers decide the same whatever their keys are.
    pub fn with_hash_key(key: &HashKey) -> Self {
        Self {
            nodes: NodeTable::new(key),
            tree: NodeTree::default(),
            images: ImageTable::new(key),
            pods: PodTable::new(key),
            pods_on_node: PodsOnNode::default(),
            match_classes: MatchClassTable::new(key),
            terms: PlacedTerms::new(key),
            topologies: TopologyTable::new(key),
            nominations: Nominations::new(key),
            evictions: Evictions::default(),
            own_schedulers: Arc::default(),
            volumes: VolumeTable::new(key),
            namespaces: key.map(),
            workloads: key.map(),
            node_labels_version: 0,
            node_taints_version: 0,
            devices: DeviceTable::new(key),
            budgets: key.map(),
            budget_selectors: 0,
            log: ChangeLog::default(),
            usages: Interner::new(key),
            shapes: Interner::new(key),
            rows: Interner::new(key),
        }
    }

    /// Gives `change` the next version, stamps `row` with it and logs the change. Versions come from here alone.
    ///
    /// `row` is the node whose columns changed. A change of what only other pods look at (match classes, nominations,
    /// objects beside the nodes) stamps no row: their readers follow the log, or a version of their own.
    fn record(&mut self, row: Option<NodeId>, change: Change) -> u64 {
        let version = self.log.push(change);
        if let Some(node) = row {
            self.nodes.stamp(node, version);
        }
        version
    }

    /// The version of the newest change.
    pub fn version(&self) -> u64 {
        self.log.version()
    }

    /// The version of the newest change that searches or preemptions may read: as long as it stays, equal pods get equal answers.
    pub fn facts_version(&self) -> u64 {
        self.log.facts().max(self.nominations.version())
    }

    pub fn log(&self) -> &ChangeLog {
        &self.log
    }

    pub fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    /// The pods assumed on or bound to `node`, in an order that means nothing.
    pub fn pods_on(&self, node: NodeId) -> &[Arc<PlacedPod>] {
        self.pods_on_node.on(node)
    }

    /// As long as it stays, so does what [`Self::pods_on`] gives.
    pub fn pods_revision(&self, node: NodeId) -> u32 {
        self.pods_on_node.revision(node)
    }

    /// The lowest priority of a pod on `node`; `i32::MAX` where there is none. O(1).
    pub fn lowest_priority(&self, node: NodeId) -> i32 {
        self.pods_on_node.lowest_priority(node)
    }

    /// The lowest priority of a pod on any node; `i32::MAX` where there is none. O(1).
    pub fn lowest_priority_of_all(&self) -> i32 {
        self.pods_on_node.lowest_of_all()
    }

    pub fn images(&self) -> &ImageTable {
        &self.images
    }

    pub fn volumes(&self) -> &VolumeTable {
        &self.volumes
    }

    /// What other pods see of placed pods, and on which nodes those are.
    pub fn match_classes(&self) -> &MatchClassTable {
        &self.match_classes
    }

    pub fn terms(&self) -> &PlacedTerms {
        &self.terms
    }

    pub fn nominations(&self) -> &Nominations {
        &self.nominations
    }

    /// Changes whenever the scan order of the nodes does.
    pub fn order_version(&self) -> u64 {
        self.tree.version()
    }

    /// The version at which a node was last added, deleted or relabelled.
    pub fn node_labels_version(&self) -> u64 {
        self.node_labels_version
    }

    /// The version at which a node was last added, deleted or changed its taints.
    pub fn node_taints_version(&self) -> u64 {
        self.node_taints_version
    }

    /// The nodes in upstream's scan order: column by column over the zones. O(nodes).
    pub fn node_order(&self) -> Vec<NodeId> {
        self.tree.order()
    }

    pub fn namespace(&self, name: &str) -> Option<&Labels> {
        self.namespaces.get(name)
    }

    /// Every namespace with its labels, in no order.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Str, &Labels)> {
        self.namespaces.iter()
    }

    pub fn apply_namespace(&mut self, namespace: Namespace) {
        let Namespace { name, labels } = namespace;
        if self.namespaces.get(&name) != Some(&labels) {
            self.namespaces.insert(name.clone(), labels);
            self.namespace_changed(name);
        }
    }

    pub fn delete_namespace(&mut self, name: &str) {
        if self.namespaces.remove(name).is_some() {
            self.namespace_changed(name.into());
        }
    }

    fn namespace_changed(&mut self, name: Str) {
        let version = self.record(None, Change::Namespace { name });
        self.terms.touch(version);
    }
}

/// Removes `key` from `group`, and the group with its last value.
fn remove_from_group<K: Ord + Borrow<Q>, Q: Ord + ?Sized, V, S: BuildHasher>(
    groups: &mut HashMap<Str, BTreeMap<K, V>, S>,
    group: &str,
    key: &Q,
) -> Option<V> {
    let values = groups.get_mut(group)?;
    let removed = values.remove(key);
    if values.is_empty() {
        groups.remove(group);
    }
    removed
}

/// `namespace` and `name` of an identity `namespace/name`, as watches give it.
fn parts(identity: &str) -> (&str, &str) {
    identity.split_once('/').unwrap_or(("", identity))
}
