//! Nominated pods as attempts see them: laid over the nodes that are kept for them.

use super::Overlay;
use crate::ledger::{Ledger, NodeId, PodState};
use crate::model::{Pod, Str};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Of how many priorities the rows are kept: 500 nominated pods take some 200 KiB for each.
const PRIORITIES: usize = 4;

/// What nominated pods add to each node.
type Rows = FxHashMap<NodeId, Overlay>;

/// What is kept between attempts: it is made anew when nominations, nodes or scalar columns change.
#[derive(Debug, Default)]
pub(super) struct Kept {
    made_of: Versions,
    /// The priorities of nominated pods, ascending, each once.
    priorities: Vec<i32>,
    /// For pods of each of these priorities, and of lower ones down to the next. What was asked last comes first.
    rows: Vec<(i32, Arc<Rows>)>,
}

/// What the rest was made of.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Versions {
    nominations: u64,
    nodes: u64,
    scalars: u64,
}

/// What pods of at least one pod's priority that are nominated to a node would add to it.
#[derive(Debug, Default)]
pub(crate) struct Nominated {
    rows: Option<Arc<Rows>>,
    /// The node that the pod itself is nominated to, and what others would add to it.
    own: Option<Box<(NodeId, Overlay)>>,
}

impl Nominated {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_none()
    }

    /// None where there is no such pod.
    #[inline]
    pub(crate) fn on(&self, node: NodeId) -> Option<&Overlay> {
        let rows = self.rows.as_ref()?;
        match &self.own {
            Some(own) if own.0 == node => (!own.1.is_empty()).then_some(&own.1),
            _ => rows.get(&node),
        }
    }
}

impl Kept {
    /// As `pod` sees them. O(nominated pods) when something has changed or a fifth priority asks, else O(those on the pod's own node).
    pub(super) fn seen_by(&mut self, ledger: &Ledger, pod: &Pod) -> Nominated {
        if ledger.nominations().is_empty() {
            *self = Self::default();
            return Nominated::default();
        }
        self.renew(ledger);
        let Some(least) = self.priorities.get(self.priorities.partition_point(|one| *one < pod.priority)) else {
            return Nominated::default();
        };
        let rows = self.rows_from(ledger, *least);
        let own = own_node(ledger, pod).map(|(name, node)| {
            Box::new((node, overlay(ledger, name, |other| other.priority >= pod.priority && other.uid != pod.uid)))
        });
        // For itself the pod keeps nothing, and where nobody else does, a search is the plain one.
        let is_alone = own.as_ref().is_some_and(|own| own.1.is_empty() && rows.len() == 1 && rows.contains_key(&own.0));
        if rows.is_empty() || is_alone { Nominated::default() } else { Nominated { rows: Some(rows), own } }
    }

    fn renew(&mut self, ledger: &Ledger) {
        let nominations = ledger.nominations();
        let (nodes, scalars) = (ledger.node_labels_version(), ledger.nodes().scalars_version());
        let now = Versions { nominations: nominations.revision(), nodes, scalars };
        if self.made_of == now {
            return;
        }
        self.made_of = now;
        self.rows.clear();
        self.priorities.clear();
        let pods = nominations.nodes().flat_map(|name| nominations.on(name));
        self.priorities.extend(pods.map(|pod| pod.priority));
        self.priorities.sort_unstable();
        self.priorities.dedup();
    }

    /// What nominated pods of at least the priority `least` add.
    fn rows_from(&mut self, ledger: &Ledger, least: i32) -> Arc<Rows> {
        if let Some(at) = self.rows.iter().position(|(priority, _)| *priority == least) {
            self.rows[..=at].rotate_right(1);
        } else {
            self.rows.truncate(PRIORITIES - 1);
            self.rows.insert(0, (least, Arc::new(rows(ledger, least))));
        }
        self.rows[0].1.clone()
    }
}

/// The node that the pod is nominated to, as the ledger has it.
fn own_node<'l>(ledger: &'l Ledger, pod: &Pod) -> Option<(&'l Str, NodeId)> {
    let Some(PodState::Pending(now)) = ledger.pod(&pod.uid) else { return None };
    let name = now.nominated_node.as_ref()?;
    Some((name, ledger.nodes().find(name)?))
}

fn rows(ledger: &Ledger, least: i32) -> Rows {
    let on = |name: &Str| {
        let node = ledger.nodes().find(name)?;
        let overlay = overlay(ledger, name, |pod| pod.priority >= least);
        (!overlay.is_empty()).then_some((node, overlay))
    };
    ledger.nominations().nodes().filter_map(on).collect()
}

/// What those of the pods that are nominated to the node `name` add to it.
fn overlay(ledger: &Ledger, name: &str, counts: impl Fn(&Pod) -> bool) -> Overlay {
    let mut overlay = Overlay::NONE;
    for pod in ledger.nominations().on(name).iter().filter(|pod| counts(pod)) {
        overlay.add(ledger.nodes(), pod);
    }
    overlay
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::Rng;
    use crate::model::{HostPort, Protocol, Usage};
    use crate::testing::{node, pod, shape_of};

    const NODES: [&str; 3] = ["a", "b", "c"];
    const GPU: &str = "example.com/gpu";

    /// What a look at each nominated pod says.
    fn looked_up(ledger: &Ledger, pod: &Pod, node: NodeId) -> Option<Overlay> {
        let name = ledger.nodes().name(node);
        let counts = |other: &&Arc<Pod>| other.priority >= pod.priority && other.uid != pod.uid;
        let mut overlay = Overlay::NONE;
        for other in ledger.nominations().on(name).iter().filter(counts) {
            overlay.add(ledger.nodes(), other);
        }
        (!overlay.is_empty()).then_some(overlay)
    }

    fn change(rng: &mut Rng, ledger: &mut Ledger) {
        let name = NODES[rng.below(3) as usize];
        match rng.below(8) {
            0 => ledger.delete_node(name),
            1 => {
                let mut drawn = node(name, 4_000, 1 << 30, 10);
                if rng.below(2) == 0 {
                    drawn.allocatable.set_scalar(GPU.into(), 8);
                }
                ledger.apply_node(&drawn);
            }
            2 => ledger.delete_pod(&format!("p{}", rng.below(6))),
            _ => {
                let mut drawn = pod(&format!("p{}", rng.below(6)), shape_of(rng.below(3) as i64, 0));
                drawn.priority = rng.below(7) as i32;
                if rng.below(3) == 0 {
                    let mut usage = Usage::clone(&drawn.usage);
                    usage.requests.set_scalar(GPU.into(), 1 + rng.below(2) as i64);
                    drawn.usage = Arc::new(usage);
                }
                drawn.nominated_node = (rng.below(4) > 0).then(|| name.into());
                if rng.below(4) == 0 {
                    let ports = vec![HostPort { ip: "".into(), protocol: Protocol::Tcp, port: 80 }];
                    drawn.usage = Arc::new(Usage { ports, ..Usage::clone(&drawn.usage) });
                }
                drawn.node_name = (rng.below(8) == 0).then(|| name.into());
                ledger.apply_pod(drawn);
            }
        }
    }

    /// 300 sequences of 60 changes; pods of all priorities, nominated ones as well, look after each.
    #[test]
    fn what_is_kept_is_what_a_look_at_each_nominated_pod_says() {
        let mut seen = 0;
        for seed in 0..300 {
            let mut rng = Rng::seeded(seed);
            let (mut ledger, mut kept) = (Ledger::new(), Kept::default());
            for name in NODES {
                ledger.apply_node(&node(name, 4_000, 1 << 30, 10));
            }
            for step in 0..60 {
                change(&mut rng, &mut ledger);
                for who in 0..7 {
                    let looks = Pod { priority: rng.below(8) as i32, ..pod(&format!("p{who}"), shape_of(1, 0)) };
                    let nominated = kept.seen_by(&ledger, &looks);
                    for node in ledger.node_order() {
                        let (got, want) = (nominated.on(node), looked_up(&ledger, &looks, node));
                        assert_eq!(format!("{got:?}"), format!("{:?}", want.as_ref()), "seed {seed}, step {step}");
                        seen += usize::from(want.is_some());
                    }
                    assert!(kept.rows.len() <= PRIORITIES);
                }
            }
        }
        assert!(seen > 10_000, "{seen}");
    }
}
