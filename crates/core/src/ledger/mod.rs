//! The one table of nodes, pods and assumed pods that all workers share.
//!
//! ```text
//!  apply_pod, apply_node, …   what the watches saw                      (runtime, under the write lock)
//!  commit, forget             a worker's proposal, and its undoing      (worker, under a short write lock)
//!          │
//!          ├──▶ columns: one row a node, one column a fact   ── read by filters and scores, under the read lock
//!          └──▶ change log: what happened, in order          ── followed by every worker with a cursor of its own
//! ```
//!
//! Invariants:
//! - every change takes the next version, and the row that it touches carries that version from then on: a cached
//!   answer for a row is good exactly as long as the row's version is the one it was made at;
//! - a pod is in one state: pending, assumed (by a commit), or bound (seen so). Only evidence ends an assumption;
//! - the sums in the columns equal those computed from the pods; a property test holds that.
//!
//! The ledger has no lock: the runtime puts one around it, tests and the simulator do without.

mod access;
mod audit;
mod budgets;
mod change;
mod commit;
mod counts_by_node;
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
mod pods;
mod pods_on_node;
mod terms;
mod topology;
mod volumes;
mod workloads;

pub use access::LedgerAccess;
pub use change::{Change, ChangeLog, LogGap, NodeAspects};
pub use commit::{Committed, Conflict, Proposal};
pub use counts_by_node::CountsByNode;
pub use device_classes::DeviceClasses;
pub use evictions::{Evicting, EvictionProposal, Round};
pub use images::ImageId;
pub use match_classes::{MatchClass, MatchClassTable};
pub use nodes::{NodeId, NodeTable, ScalarId};
pub use nominations::Nomination;
pub use object::Object;
pub use pods::PodState;
pub use pods_on_node::PlacedPod;
pub use terms::{PlacedTerms, TermIndex};
pub use topology::{DomainId, Topology};
pub(crate) use volumes::is_meant_for;
pub use volumes::{PlacedVolumes, VolumeChange, VolumePlan, VolumeTable};
pub use workloads::Workloads;

use crate::model::{Labels, Namespace, PodShape, Str, Usage};
use budgets::BudgetTable;
use evictions::Evictions;
use images::ImageTable;
use intern::Interner;
use nominations::Nominations;
use order::NodeTree;
use pods::PodTable;
use pods_on_node::PodsOnNode;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use topology::TopologyTable;
use workloads::WorkloadTable;

/// The shared table. See the module's documentation.
#[derive(Debug, Default)]
pub struct Ledger {
    nodes: NodeTable,
    tree: NodeTree,
    images: ImageTable,
    pods: PodTable,
    residents: PodsOnNode,
    match_classes: MatchClassTable,
    terms: PlacedTerms,
    topologies: TopologyTable,
    nominations: Nominations,
    evictions: Evictions,
    own_schedulers: Arc<[Str]>,
    volumes: VolumeTable,
    namespaces: FxHashMap<Str, Labels>,
    namespaces_version: u64,
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
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// The version of the newest change.
    pub fn version(&self) -> u64 {
        self.log.version()
    }

    /// The change log.
    pub fn log(&self) -> &ChangeLog {
        &self.log
    }

    /// The node columns.
    pub fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    /// The pods that take room on `node`, in no order that means anything.
    pub fn residents(&self, node: NodeId) -> &[Arc<PlacedPod>] {
        self.residents.on(node)
    }

    /// The lowest priority of a pod that takes room on `node`; `i32::MAX` where there is none. O(1).
    pub fn lowest_priority(&self, node: NodeId) -> i32 {
        self.residents.lowest_priority(node)
    }

    /// Which nodes hold which images.
    pub fn images(&self) -> &ImageTable {
        &self.images
    }

    /// What others see of placed pods, and where those are.
    pub fn match_classes(&self) -> &MatchClassTable {
        &self.match_classes
    }

    /// What placed pods ask of others.
    pub fn terms(&self) -> &PlacedTerms {
        &self.terms
    }

    /// Pods that are promised a node by `status.nominatedNodeName`.
    pub fn nominations(&self) -> &Nominations {
        &self.nominations
    }

    /// Changes whenever the scan order of the nodes does.
    pub fn order_version(&self) -> u64 {
        self.tree.version()
    }

    /// The version at which a node last came, went or changed its labels.
    pub fn node_labels_version(&self) -> u64 {
        self.node_labels_version
    }

    /// The version at which a node last came, went or changed its taints.
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

    /// The version at which a namespace last changed.
    pub fn namespaces_version(&self) -> u64 {
        self.namespaces_version
    }

    /// Takes up a namespace as seen. Its labels may open it to a profile or to an affinity term.
    pub fn apply_namespace(&mut self, namespace: Namespace) {
        if self.namespaces.get(&namespace.name) == Some(&namespace.labels) {
            return;
        }
        self.namespaces.insert(namespace.name.clone(), namespace.labels);
        self.namespace_changed(namespace.name);
    }

    /// Drops a namespace.
    pub fn delete_namespace(&mut self, name: &str) {
        if self.namespaces.remove(name).is_some() {
            self.namespace_changed(name.into());
        }
    }

    /// Drops every namespace that is not in `names`: the end of a re-read.
    pub fn retain_namespaces(&mut self, names: &FxHashSet<Str>) {
        let mut gone: Vec<Str> = self.namespaces.keys().filter(|n| !names.contains(*n)).cloned().collect();
        gone.sort_unstable();
        for name in gone {
            self.delete_namespace(&name);
        }
    }

    fn namespace_changed(&mut self, name: Str) {
        self.namespaces_version = self.log.push(Change::Namespace { name });
        self.terms.touch(self.namespaces_version);
    }
}
