use crate::core::ledger::ScalarId;
use crate::core::model::{HostPort, Pod};
use smallvec::SmallVec;
use std::sync::Arc;

/// What one row would look like with pods added: the difference, not a copy.
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
    };

    /// What is added of `scalar`.
    pub(crate) fn scalar(&self, scalar: ScalarId) -> i64 {
        self.scalars.iter().filter(|(id, _)| *id == scalar).map(|(_, amount)| amount).sum()
    }
}
