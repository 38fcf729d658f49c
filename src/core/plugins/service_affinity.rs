//! CheckServiceAffinity: the pods of a Service stay where the listed labels have one value. Of the Policy era, by name.
//! After `pkg/scheduler/framework/plugins/serviceaffinity` of 1.21.

use super::{Cause, Cx, Subject, Verdict};
use crate::core::ledger::{Ledger, NodeId};
use crate::core::model::{PodShape, Str};
use crate::core::profile::Filter;

/// Labels that a node must have.
#[derive(Debug)]
pub(crate) struct Attempt {
    wanted: Vec<(Str, Str)>,
}

impl Attempt {
    /// PreFilter: none where any node will do.
    ///
    /// The pod's nodeSelector says what it wants. Where that leaves some of the labels open and a Service selects the
    /// pod, those are the ones of the node of a placed pod that carries all of the pod's labels. The first such node in
    /// scan order counts; being deleted is no reason not to count.
    pub(crate) fn prepare(cx: Cx<'_>, subject: &Subject) -> Option<Self> {
        if !cx.profile.filters.has(Filter::CheckServiceAffinity) {
            return None;
        }
        let (keys, shape) = (&cx.profile.legacy.affinity_labels, &subject.shape);
        let selected = |key: &Str| shape.node_selector.get(key).map(|value| (key.clone(), value.clone()));
        let mut wanted: Vec<(Str, Str)> = keys.iter().filter_map(selected).collect();
        if wanted.len() < keys.len()
            && let Some(node) = peer(cx.ledger, shape)
        {
            let labels = cx.ledger.nodes().labels(node);
            let open = keys.iter().filter(|key| shape.node_selector.get(key).is_none());
            wanted.extend(open.filter_map(|key| Some((key.clone(), labels.get(key)?.clone()))));
        }
        (!wanted.is_empty()).then_some(Self { wanted })
    }

    /// Whether the pod may go to `node`. Promised pods do not matter: they are on this very node.
    pub(crate) fn filter(&self, cx: Cx<'_>, node: NodeId) -> Verdict {
        let labels = cx.ledger.nodes().labels(node);
        let has_all = self.wanted.iter().all(|(key, value)| labels.get(key) == Some(value));
        if has_all { Verdict::FITS } else { Verdict::unschedulable(Cause::ServiceAffinity) }
    }
}

/// The first node with a pod that carries all labels of `shape`, if a Service selects those.
fn peer(ledger: &Ledger, shape: &PodShape) -> Option<NodeId> {
    ledger.workloads(&shape.namespace)?.services_of(&shape.labels).next()?;
    let mut on = vec![false; ledger.nodes().rows()];
    for (cohort, spots) in ledger.cohorts().of_namespace(&shape.namespace) {
        if shape.labels.is_subset_of(&cohort.labels) {
            spots.iter().for_each(|(node, _)| on[node.index()] = true);
        }
    }
    ledger.node_order().into_iter().find(|node| on[node.index()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::model::{Pod, Service};
    use crate::core::profile::CompiledProfile;
    use crate::core::testing::{node, pod, shape};
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
        profile.filters = profile.filters.with(Filter::CheckServiceAffinity);
        profile.legacy.affinity_labels = keys.iter().map(|k| Str::from(*k)).collect();
        let cx = Cx { profile: &profile, ledger };
        let subject = Subject::new(&profile, ledger, &Arc::new(shape));
        let attempt = Attempt::prepare(cx, &subject);
        let fits = |node: &NodeId| attempt.as_ref().is_none_or(|a| a.filter(cx, *node).fits());
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
        selects.node_selector = [("region", "r2"), ("other", "x")].into_iter().collect();
        assert_eq!(allowed(&ledger, &["region"], selects.clone()), "c", "without a pod");
        place(&mut ledger, "b", web());
        assert_eq!(allowed(&ledger, &["region"], selects.clone()), "c");
        assert_eq!(allowed(&ledger, &["region", "rack"], selects), "", "region of its own, rack of the other");
    }
}
