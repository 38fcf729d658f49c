use crate::core::ledger::{NodeTable, Placed, ScalarId};
use crate::core::model::{HostPort, Pod, Requests};
use smallvec::SmallVec;
use std::sync::Arc;

/// What one row would look like with pods added or taken away: the difference, not a copy. Amounts may be below 0.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overlay {
    /// Pods added.
    pub(crate) pods: i64,
    /// Thousandths of a core added.
    pub(crate) cpu: i64,
    /// Bytes of memory added.
    pub(crate) memory: i64,
    /// Bytes of ephemeral storage added.
    pub(crate) storage: i64,
    /// Units of scalars added.
    pub(crate) scalars: SmallVec<[(ScalarId, i64); 1]>,
    /// Host ports added.
    pub(crate) ports: SmallVec<[HostPort; 1]>,
    /// The pods added, for filters that look at labels, terms and volumes.
    pub(crate) added: SmallVec<[Arc<Pod>; 1]>,
    /// Pods of the row that are taken away.
    pub(crate) removed: SmallVec<[Arc<Placed>; 2]>,
}

impl Overlay {
    /// Nothing added.
    pub(crate) const NONE: Self = Self {
        pods: 0,
        cpu: 0,
        memory: 0,
        storage: 0,
        scalars: SmallVec::new_const(),
        ports: SmallVec::new_const(),
        added: SmallVec::new_const(),
        removed: SmallVec::new_const(),
    };

    /// What is added of `scalar`.
    pub(crate) fn scalar(&self, scalar: ScalarId) -> i64 {
        self.scalars.iter().filter(|(id, _)| *id == scalar).map(|(_, amount)| amount).sum()
    }

    /// Whether pods were added or taken away.
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// Adds a pod that is not on the row.
    pub(crate) fn add(&mut self, nodes: &NodeTable, pod: &Arc<Pod>) {
        self.count(nodes, &pod.usage.requests, 1);
        self.ports.extend(pod.usage.ports.iter().cloned());
        self.added.push(pod.clone());
    }

    /// Takes a pod of the row away.
    pub(crate) fn remove(&mut self, nodes: &NodeTable, placed: &Arc<Placed>) {
        self.count(nodes, &placed.usage.requests, -1);
        self.removed.push(placed.clone());
    }

    /// Puts a pod that was taken away back.
    pub(crate) fn restore(&mut self, nodes: &NodeTable, placed: &Arc<Placed>) {
        if let Some(at) = self.removed.iter().position(|one| one.uid == placed.uid) {
            self.removed.remove(at);
            self.count(nodes, &placed.usage.requests, 1);
        }
    }

    fn count(&mut self, nodes: &NodeTable, requests: &Requests, sign: i64) {
        self.pods += sign;
        self.cpu += sign * requests.milli_cpu;
        self.memory += sign * requests.memory;
        self.storage += sign * requests.ephemeral_storage;
        for (name, amount) in &requests.scalars {
            if let Some(id) = nodes.scalar(name) {
                self.scalars.push((id, sign * amount));
            }
        }
    }
}
