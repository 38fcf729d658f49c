//! ScarceResourceAvoidance: keeps pods that ask for no accelerators off the nodes that have some. Koordinator has a plugin of this name
//! for a list of resources; here a resource is scarce if some node has none of it.

use super::context::{MAX_NODE_SCORE, PluginContext, ResolvedPod, Stop, Work};
use crate::ledger::{Ledger, NodeId, NodeTable, ScalarId};
use crate::limits::COMPARISONS_PER_WORK;
use smallvec::SmallVec;

/// Which nodes have devices, only to be faster.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// By row: the node's epoch, and whether some slice for it alone has devices.
    with_devices: Vec<(u64, bool)>,
    slices_version: u64,
}

impl Tables {
    /// Writes the scores of the `feasible` nodes into `out`: 0 where the node has what the pod does not ask for, else 100. False for a pod
    /// that asks for any scarce resource or for devices, and in a cluster without either. O(nodes · scarce resources).
    pub(crate) fn score(
        &mut self,
        cx: PluginContext<'_>,
        pod: &ResolvedPod,
        asks_for_devices: bool,
        feasible: &[NodeId],
        out: &mut Vec<i64>,
        work: &mut Work,
    ) -> Result<bool, Stop> {
        let nodes = cx.ledger.nodes();
        let scarce = scarce(nodes);
        let has_slices = cx.ledger.devices().slices().pool_count() > 0;
        // Those too whose fit the profile leaves to an extender.
        let mut requests = pod.shape.row.requests.scalars.iter().filter(|(_, amount)| *amount > 0);
        let mut asks = || requests.any(|(name, _)| nodes.scalar(name).is_some_and(|id| scarce.contains(&id)));
        if asks_for_devices || (scarce.is_empty() && !has_slices) || asks() {
            return Ok(false);
        }
        if has_slices {
            self.follow(cx.ledger, work)?;
        }
        work.spend(feasible.len() * scarce.len() / COMPARISONS_PER_WORK);
        let score = |node: &NodeId| {
            let has_scarce = scarce.iter().any(|id| nodes.scalar_allocatable(*id, *node) > 0);
            let has_devices = has_slices && self.with_devices[node.index()].1;
            if has_scarce || has_devices { 0 } else { MAX_NODE_SCORE }
        };
        out.extend(feasible.iter().map(score));
        Ok(true)
    }

    fn follow(&mut self, ledger: &Ledger, work: &mut Work) -> Result<(), Stop> {
        let (nodes, devices) = (ledger.nodes(), ledger.devices());
        if self.slices_version != devices.slices_version() {
            self.slices_version = devices.slices_version();
            self.with_devices.clear();
        }
        self.with_devices.resize(nodes.rows(), (0, false));
        for node in nodes.present_nodes() {
            let epoch = nodes.epoch[node.index()];
            let known = &mut self.with_devices[node.index()];
            if known.0 != epoch {
                work.take(1)?;
                *known = (epoch, devices.slices().are_on(nodes.name(node)));
            }
        }
        Ok(())
    }
}

/// The extended resources that some nodes offer and others do not.
fn scarce(nodes: &NodeTable) -> SmallVec<[ScalarId; 4]> {
    let mut all: SmallVec<[ScalarId; 4]> = SmallVec::new();
    nodes.each_extended(|_, id, offered_by| {
        if offered_by < nodes.len() {
            all.push(id);
        }
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_testing::devices_of;
    use crate::model::Node;
    use crate::profile::CompiledProfile;
    use crate::testing::{node, shape, with_row};
    use std::sync::Arc;

    const GPU: &str = "example.com/gpu";
    const FUSE: &str = "example.com/fuse";

    /// Each node with what it has of extended resources.
    fn cluster(nodes: &[&[(&str, i64)]]) -> Ledger {
        let mut ledger = Ledger::new();
        for (i, offers) in nodes.iter().enumerate() {
            let mut node: Node = node(&format!("n{i}"), 4_000, 8 << 30, 110);
            for (name, amount) in *offers {
                node.allocatable.set_scalar((*name).into(), *amount);
            }
            ledger.apply_node(&node);
        }
        ledger
    }

    fn scores(tables: &mut Tables, ledger: &Ledger, asks: &[&str], for_devices: bool) -> Option<Vec<i64>> {
        let mut profile = CompiledProfile::default_preset("test");
        profile.fit.ignored_resources = vec![GPU.into()];
        let shape = with_row(shape(), |row| {
            for name in asks {
                row.requests.set_scalar((*name).into(), 1);
            }
        });
        let (cx, mut out) = (PluginContext { profile: &profile, ledger }, Vec::new());
        let pod = ResolvedPod::new(&profile, ledger, &Arc::new(shape));
        let order = ledger.node_order();
        let runs = tables.score(cx, &pod, for_devices, &order, &mut out, &mut Work::unbounded());
        (runs == Ok(true)).then_some(out)
    }

    #[test]
    fn nodes_with_what_others_lack_are_avoided_by_pods_that_do_not_ask_for_it() {
        let ledger = cluster(&[&[(FUSE, 9)], &[(FUSE, 9), (GPU, 8)], &[(FUSE, 9)]]);
        let mut tables = Tables::default();
        assert_eq!(scores(&mut tables, &ledger, &[], false), Some(vec![100, 0, 100]));
        assert_eq!(scores(&mut tables, &ledger, &[FUSE], false), Some(vec![100, 0, 100]), "every node has it");
        assert_eq!(scores(&mut tables, &ledger, &[GPU], false), None, "a filter that ignores it changes nothing");
        assert_eq!(scores(&mut tables, &ledger, &[], true), None);
    }

    #[test]
    fn where_no_node_has_any_or_all_have_the_same_nothing_is_avoided() {
        assert_eq!(scores(&mut Tables::default(), &cluster(&[&[], &[]]), &[], false), None);
        assert_eq!(scores(&mut Tables::default(), &cluster(&[&[(GPU, 1)], &[(GPU, 8)]]), &[], false), None);
    }

    #[test]
    fn devices_of_a_node_alone_are_seen_as_slices_and_nodes_come_and_go() {
        let mut ledger = cluster(&[&[], &[]]);
        let mut tables = Tables::default();
        ledger.apply_resource_slice(devices_of("n1", &["0"]));
        assert_eq!(scores(&mut tables, &ledger, &[], false), Some(vec![100, 0]));
        ledger.apply_resource_slice(devices_of("n0", &["0"]));
        assert_eq!(scores(&mut tables, &ledger, &[], false), Some(vec![0, 0]));
        ledger.apply_resource_slice(devices_of("n1", &[]));
        assert_eq!(scores(&mut tables, &ledger, &[], false), Some(vec![0, 100]));
        ledger.delete_node("n0");
        ledger.apply_node(&node("other", 4_000, 8 << 30, 110));
        let mut now = scores(&mut tables, &ledger, &[], false).expect("there are slices");
        now.sort_unstable();
        assert_eq!(now, [100, 100], "its row was that of n0");
    }
}
