use super::{Ledger, MatchClassTable, NodeTable, PlacedTerms, PodState};
use std::sync::Arc;

impl Ledger {
    /// Computes every sum from the pods and the claims alone and compares it with what is kept; names the first that differs.
    ///
    /// O(pods + nodes + claims). For tests and the simulator: an incremental sum that drifts is an overbooked node later.
    pub fn audit(&self) -> Result<(), String> {
        let mut naive = self.nodes.empty_copy();
        let key = self.hash_key().clone();
        let (mut match_classes, mut terms) = (MatchClassTable::new(&key), PlacedTerms::new(&key));
        let mut placed_pods = 0;
        #[allow(clippy::iter_over_hash_type, reason = "sums do not depend on the order")]
        for placed in self.pods.states.values().filter_map(PodState::placed) {
            let (node, match_class) = (placed.node, &placed.match_class);
            if !self.pods_on(node).iter().any(|one| Arc::ptr_eq(one, placed)) {
                return Err(format!("pod {}: not among the pods of its node", placed.key));
            }
            placed_pods += 1;
            naive.change_use(node, None, Some(&placed.usage), &[]);
            match_classes.add(match_class, node);
            terms.add(match_class, node, 0);
        }
        self.compare_columns(&mut naive)?;
        self.nodes.audit_scalars()?;
        if self.pods_on_node.len() != placed_pods {
            return Err(format!("{} pods on nodes, {placed_pods} placed", self.pods_on_node.len()));
        }
        for node in self.nodes.all_rows() {
            let lowest = self.pods_on(node).iter().map(|one| one.priority).min().unwrap_or(i32::MAX);
            if self.lowest_priority(node) != lowest {
                return Err(format!("node {}: lowest priority {lowest} is not known", self.nodes.name(node)));
            }
        }
        if !self.terms.same_placements(&terms) {
            return Err("affinity terms differ from those of the pods".into());
        }
        if !self.match_classes.same_placements(&match_classes) {
            return Err("match classes differ from those of the pods".into());
        }
        self.audit_strays()?;
        self.pods.audit_names()?;
        self.audit_topologies()?;
        self.audit_evictions()?;
        self.devices.audit(&key)?;
        self.audit_volumes()
    }

    fn compare_columns(&self, naive: &mut NodeTable) -> Result<(), String> {
        for node in self.nodes.all_rows() {
            let name = self.nodes.name(node);
            let (kept, summed) = (self.nodes.amounts(node).1, naive.amounts(node).1);
            if kept != summed {
                return Err(format!("node {name}: requests {kept:?}, its pods sum to {summed:?}"));
            }
            let row = node.index();
            let fixed = |t: &NodeTable| {
                let fixed = &t.fixed[row];
                (fixed.used_pods, fixed.non_zero_cpu, fixed.non_zero_memory)
            };
            if fixed(&self.nodes) != fixed(naive) {
                return Err(format!(
                    "node {name}: counts {:?}, its pods sum to {:?}",
                    fixed(&self.nodes),
                    fixed(naive)
                ));
            }
            let (kept, due) = (&self.nodes.ports[row], &naive.ports[row]);
            if kept != due {
                return Err(format!("node {name}: host ports {kept:?}, its pods hold {due:?}"));
            }
        }
        Ok(())
    }
}
