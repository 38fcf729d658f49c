//! CheckServiceAffinity of the Policy era: keeps the pods of a Service on nodes with equal values of the listed labels.
//! After `pkg/scheduler/framework/plugins/serviceaffinity` of 1.21.

use super::context::{Cause, Overlay, Plugin, PluginContext, ResolvedPod, Verdict};
use crate::ledger::{Ledger, MatchClass, NodeId, Workloads};
use crate::model::{PodShape, Str};

/// Label values that a node must have.
type Wanted = Vec<(Str, Str)>;

/// Labels that a node must have.
#[derive(Debug)]
pub(crate) struct Attempt {
    wanted: Wanted,
    /// The node from which labels were taken, if one was.
    peer: Option<Peer>,
}

/// A node with pods that carry all labels of the pod.
#[derive(Debug)]
struct Peer {
    node: NodeId,
    /// How many such pods the node has.
    pods: i64,
    /// The labels to have once they are all removed: taken from the next such node, if there is one.
    without: Wanted,
}

impl Attempt {
    /// PreFilter: `None` where any node will do.
    ///
    /// The values come from the pod's nodeSelector. If it leaves some labels open and a Service selects the pod, their values are
    /// those of the first node, in scan order, with a placed pod that carries all of the pod's labels. Terminating pods count.
    pub(crate) fn prepare(cx: PluginContext<'_>, pod: &ResolvedPod) -> Option<Self> {
        if !cx.profile.filters.has(Plugin::CheckServiceAffinity) {
            return None;
        }
        let (keys, shape) = (&cx.profile.legacy.affinity_labels, &pod.shape);
        let selected = |key: &Str| shape.row.node_selector.get(key).map(|value| (key.clone(), value.clone()));
        let mut wanted: Wanted = keys.iter().filter_map(selected).collect();
        let mut peer = None;
        if wanted.len() < keys.len() {
            let open: Vec<&Str> = keys.iter().filter(|key| shape.row.node_selector.get(key).is_none()).collect();
            let labels_of = |node: NodeId| {
                let labels = cx.ledger.nodes().labels(node);
                open.iter().filter_map(|key| Some(((*key).clone(), labels.get(key)?.clone()))).collect::<Wanted>()
            };
            let mut peers = peers(cx.ledger, shape).into_iter();
            if let Some((node, pods)) = peers.next() {
                let mut without = wanted.clone();
                without.extend(peers.next().into_iter().flat_map(|(next, _)| labels_of(next)));
                wanted.extend(labels_of(node));
                peer = Some(Peer { node, pods, without });
            }
        }
        let is_free = wanted.is_empty() && peer.as_ref().is_none_or(|peer| peer.without.is_empty());
        (!is_free).then_some(Self { wanted, peer })
    }

    /// Added pods do not matter, because they are on this very node.
    pub(crate) fn filter(&self, cx: PluginContext<'_>, pod: &ResolvedPod, node: NodeId, overlay: &Overlay) -> Verdict {
        let labels = cx.ledger.nodes().labels(node);
        let wanted = match &self.peer {
            Some(peer) if peer.node == node && peer.is_emptied(pod, overlay) => &peer.without,
            _ => &self.wanted,
        };
        let has_all = wanted.iter().all(|(key, value)| labels.get(key) == Some(value));
        if has_all { Verdict::FITS } else { Verdict::unschedulable(Cause::ServiceAffinity) }
    }
}

impl Peer {
    /// Whether `overlay` removes all pods for which the node was chosen.
    fn is_emptied(&self, pod: &ResolvedPod, overlay: &Overlay) -> bool {
        let is_alike = |match_class: &MatchClass| i64::from(is_alike(match_class, &pod.shape));
        !overlay.removed.is_empty() && overlay.sum_removed(is_alike) == self.pods
    }
}

/// Whether pods of `match_class` carry all labels of `shape`.
fn is_alike(match_class: &MatchClass, shape: &PodShape) -> bool {
    match_class.namespace == shape.namespace && shape.labels.is_subset_of(&match_class.labels)
}

/// The first two nodes with pods that carry all labels of `shape`, if a Service selects those, with the number of pods.
fn peers(ledger: &Ledger, shape: &PodShape) -> Vec<(NodeId, i64)> {
    let selects = |workloads: &Workloads| workloads.services_of(&shape.labels).next().is_some();
    if !ledger.workloads(&shape.namespace).is_some_and(selects) {
        return Vec::new();
    }
    let mut on = vec![0; ledger.nodes().rows()];
    for (match_class, by_node) in ledger.match_classes().of_namespace(&shape.namespace) {
        if is_alike(match_class, shape) {
            by_node.iter().for_each(|(node, pods)| on[node.index()] += i64::from(pods));
        }
    }
    let counted = ledger.node_order().into_iter().map(|node| (node, on[node.index()]));
    counted.filter(|(_, pods)| *pods > 0).take(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Pod, Service};
    use crate::profile::CompiledProfile;
    use crate::testing::{node, pod, shape};
    use std::sync::Arc;

    fn cluster() -> Ledger {
        let mut ledger = Ledger::new();
        for (name, region, rack) in [("a", "r1", "k1"), ("b", "r1", "k2"), ("c", "r2", "k3")] {
            let mut node = node(name, 4000, 1 << 32, 110);
            node.labels = [("region", region), ("rack", rack)].into_iter().collect();
            ledger.apply_node(&node);
        }
        ledger
    }

    fn web() -> PodShape {
        PodShape { labels: [("app", "web")].into_iter().collect(), ..shape() }
    }

    fn place(ledger: &mut Ledger, node: &str, shape: PodShape) {
        let name = format!("p{}", ledger.version());
        ledger.apply_pod(Pod { node_name: Some(node.into()), ..pod(&name, shape) });
    }

    fn serve(ledger: &mut Ledger) {
        let selector = Some([("app", "web")].into_iter().collect());
        ledger.apply_service(Service { namespace: "default".into(), name: "s".into(), selector });
    }

    /// The names of the nodes where a pod of `shape` may go.
    fn allowed(ledger: &Ledger, keys: &[&str], shape: PodShape) -> String {
        let mut profile = CompiledProfile::default_preset("test");
        profile.filters = profile.filters.with(Plugin::CheckServiceAffinity);
        profile.legacy.affinity_labels = keys.iter().map(|k| Str::from(*k)).collect();
        let cx = PluginContext { profile: &profile, ledger };
        let resolved = ResolvedPod::new(&profile, ledger, &Arc::new(shape));
        let attempt = Attempt::prepare(cx, &resolved);
        let fits =
            |node: &NodeId| attempt.as_ref().is_none_or(|a| a.filter(cx, &resolved, *node, Overlay::none()).fits());
        ledger.node_order().into_iter().filter(fits).map(|n| ledger.nodes().name(n).to_string()).collect()
    }

    #[test]
    fn the_first_pod_of_a_service_goes_anywhere_and_the_others_follow() {
        let mut ledger = cluster();
        place(&mut ledger, "c", web());
        assert_eq!(allowed(&ledger, &["region"], web()), "abc", "no Service");
        serve(&mut ledger);
        assert_eq!(allowed(&ledger, &["region"], web()), "c");
        place(&mut ledger, "b", web());
        assert_eq!(allowed(&ledger, &["region"], web()), "ab", "the first node in scan order says where");
        assert_eq!(allowed(&ledger, &["region", "rack"], web()), "b");
        assert_eq!(allowed(&ledger, &["region", "absent"], web()), "ab", "labels that the node lacks stay open");
        assert_eq!(allowed(&ledger, &[], web()), "abc");
    }

    #[test]
    fn only_pods_with_all_labels_of_the_namespace_say_where() {
        let mut ledger = cluster();
        serve(&mut ledger);
        place(&mut ledger, "a", PodShape { namespace: "other".into(), ..web() });
        place(&mut ledger, "gone", web());
        let mut more = web();
        more.labels = [("app", "web"), ("v", "2")].into_iter().collect();
        assert_eq!(allowed(&ledger, &["region"], web()), "abc");
        place(&mut ledger, "c", more.clone());
        assert_eq!(allowed(&ledger, &["region"], web()), "c", "more labels do not matter");
        more.labels = [("app", "web"), ("v", "3")].into_iter().collect();
        assert_eq!(allowed(&ledger, &["region"], more), "abc", "fewer do");
    }

    #[test]
    fn the_node_selector_goes_first() {
        let mut ledger = cluster();
        serve(&mut ledger);
        let mut selects = web();
        selects.row_mut().node_selector = [("region", "r2"), ("other", "x")].into_iter().collect();
        assert_eq!(allowed(&ledger, &["region"], selects.clone()), "c", "without a pod");
        place(&mut ledger, "b", web());
        assert_eq!(allowed(&ledger, &["region"], selects.clone()), "c");
        assert_eq!(allowed(&ledger, &["region", "rack"], selects), "", "region of its own, rack of the other");
    }
}
