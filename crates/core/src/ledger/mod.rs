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
//!   an answer cached for a row is good exactly as long as the row's version is the one it was made at;
//! - a pod is in one state: pending, assumed (by a commit), or bound (seen so). Only evidence ends an assumption;
//! - the sums in the columns equal those computed from the pods; a property test checks that.
//!
//! The ledger has no lock: the runtime puts one around it, tests and the simulator do without.

mod audit;
mod budgets;
mod change;
mod commit;
mod device_classes;
mod evictions;
mod images;
mod intern;
mod match_classes;
mod nodes;
mod nominations;
mod object;
mod order;
mod outcomes;
mod placed;
mod pods;
mod terms;
mod topology;
mod volumes;
mod workloads;

pub use change::{Change, ChangeLog, LogGap, NodeAspects, VolumeChange};
pub use commit::{Committed, Conflict, Proposal};
pub use device_classes::DeviceClasses;
pub use evictions::{Evicting, EvictionProposal, PendingPreemption};
pub use images::ImageId;
pub use match_classes::{MatchClass, MatchClassTable};
pub use nodes::{NodeId, NodeTable, ScalarId};
pub use object::Object;
pub use placed::{CountsByNode, PlacedPod};
pub use pods::PodState;
pub use terms::{PlacedTerms, TermIndex};
pub use topology::{DomainId, Topology};
pub(crate) use volumes::is_meant_for;
pub use volumes::{PlacedVolumes, VolumePlan, VolumeTable};
pub use workloads::Workloads;

use crate::model::{Labels, Namespace, PodShape, Str, Usage};
use budgets::BudgetTable;
use evictions::Evictions;
use images::ImageTable;
use intern::Interner;
use nominations::Nominations;
use order::NodeTree;
use placed::PodsOnNode;
use pods::PodTable;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::sync::Arc;
use topology::TopologyTable;
use workloads::WorkloadTable;

/// How a worker reaches the ledger: under a lock in the operator, plainly in tests and the simulator.
///
/// Neither closure may call back into the same access.
pub trait LedgerAccess {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R;
    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R;
}

impl LedgerAccess for RefCell<Ledger> {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        f(&self.borrow())
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        f(&mut self.borrow_mut())
    }
}

/// The shared table. See the module's documentation.
///
/// Every watched kind has `apply_…` (the object as seen), `delete_…` and `retain_…`, which ends a re-read: it deletes what
/// the re-read did not see. An object that changes nothing for scheduling is no change.
#[derive(Debug, Default)]
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
    namespaces: FxHashMap<Str, Labels>,
    workloads: WorkloadTable,
    node_labels_version: u64,
    node_taints_version: u64,
    device_classes: DeviceClasses,
    budgets: BudgetTable,
    log: ChangeLog,
    usages: Interner<Usage>,
    shapes: Interner<PodShape>,
}

impl Ledger {
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives `change` the next version, stamps `row` with it and logs the change. Versions come from here alone.
    ///
    /// `row` is the node whose columns changed. A change of what only other pods look at (match classes, nominations,
    /// objects beside the nodes) stamps no row: whoever reads those follows the log or a version of theirs.
    fn record(&mut self, row: Option<NodeId>, change: Change) -> u64 {
        let version = self.log.push(change);
        if let Some(node) = row {
            self.nodes.version[node.index()] = version;
        }
        version
    }

    /// The version of the newest change.
    pub fn version(&self) -> u64 {
        self.log.version()
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

    /// The lowest priority of a pod on `node`; `i32::MAX` where there is none. O(1).
    pub fn lowest_priority(&self, node: NodeId) -> i32 {
        self.pods_on_node.lowest_priority(node)
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

    /// The affinity terms of placed pods.
    pub fn terms(&self) -> &PlacedTerms {
        &self.terms
    }

    /// The pending pods with a nominated node.
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

    /// The labels of the namespace `name`, if it is known.
    pub fn namespace(&self, name: &str) -> Option<&Labels> {
        self.namespaces.get(name)
    }

    pub fn apply_namespace(&mut self, namespace: Namespace) {
        if self.namespaces.get(&namespace.name) == Some(&namespace.labels) {
            return;
        }
        self.namespaces.insert(namespace.name.clone(), namespace.labels);
        self.namespace_changed(namespace.name);
    }

    pub fn delete_namespace(&mut self, name: &str) {
        if self.namespaces.remove(name).is_some() {
            self.namespace_changed(name.into());
        }
    }

    pub fn retain_namespaces(&mut self, names: &FxHashSet<Str>) {
        for name in unseen(self.namespaces.keys(), names) {
            self.delete_namespace(&name);
        }
    }

    fn namespace_changed(&mut self, name: Str) {
        let version = self.record(None, Change::Namespace { name });
        self.terms.touch(version);
    }
}

/// The identities (names, uids or `namespace/name`) that a re-read did not see, sorted.
fn unseen<I: AsRef<str>>(known: impl Iterator<Item = I>, seen: &FxHashSet<Str>) -> Vec<Str> {
    let mut unseen: Vec<Str> =
        known.filter(|one| !seen.contains(one.as_ref())).map(|one| one.as_ref().into()).collect();
    unseen.sort_unstable();
    unseen
}

/// `namespace` and `name` of an identity `namespace/name`, as watches give it.
fn parts(identity: &str) -> (&str, &str) {
    identity.split_once('/').unwrap_or(("", identity))
}
