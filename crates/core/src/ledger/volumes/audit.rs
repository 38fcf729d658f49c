use super::super::{Ledger, NodeId, PodState};
use super::VolumeTable;

impl Ledger {
    /// Computes from nothing who uses what and what is attached where, and compares it with what was kept.
    pub(in crate::ledger) fn audit_volumes(&self) -> Result<(), String> {
        let mut naive = self.volumes.copy_of_objects();
        for row in 0..self.nodes.rows() {
            let node = NodeId::new(row as u32);
            if self.nodes.present[row] {
                naive.set_node(self.nodes.name(node), node, true);
            }
        }
        #[allow(clippy::iter_over_hash_type, reason = "what is compared does not depend on the order")]
        for (uid, state) in &self.pods.states {
            match state {
                PodState::Pending(_) => {}
                PodState::Assumed { placed, .. } | PodState::Bound(placed) => {
                    naive.mount(uid, &placed.key, placed.volumes.as_ref(), placed.node);
                }
            }
        }
        if !self.volumes.uses.same_as(&naive.uses) {
            return Err(format!("uses of claims {:?}, its pods make {:?}", self.volumes.uses, naive.uses));
        }
        if !self.volumes.attached.same_as(&naive.attached) {
            return Err(format!(
                "attached {:?}, its pods and objects make {:?}",
                self.volumes.attached, naive.attached
            ));
        }
        self.volumes.compare_indexes(&naive)?;
        self.audit_assumptions()
    }
}

impl VolumeTable {
    fn compare_indexes(&self, naive: &Self) -> Result<(), String> {
        if self.indexes() == naive.indexes() {
            return Ok(());
        }
        Err(format!("indexes {:?}, its objects make {:?}", self.indexes(), naive.indexes()))
    }
}
