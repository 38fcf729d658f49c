//! Nodes as a maker of nodes would add them: empty, healthy and of the sort of one that is there.

use super::Cluster;
use berth_core::ledger::Object;
use berth_core::model::{CsiNode, HOSTNAME, Labels, Node, Pod, PodKey, Pressure, Str, Taint};

/// An empty, healthy node that is like `node` in all that its maker decides. Its zone is that of `node`.
#[must_use]
pub fn another_node(node: &Node, name: &Str) -> Node {
    let own =
        |key: &Str, value: &Str| if &**key == HOSTNAME || *value == node.name { name.clone() } else { value.clone() };
    let taints: Vec<Taint> = node.taints.iter().filter(|taint| !is_condition(taint)).cloned().collect();
    Node {
        uid: name.clone(),
        name: name.clone(),
        labels: Labels::from_pairs(node.labels.iter().map(|(key, value)| (key.clone(), own(key, value)))),
        taints: taints.into(),
        unschedulable: false,
        images: Vec::new(),
        pressure: Pressure::default(),
        ..node.clone()
    }
}

/// Whether the taint tells the condition of a node or that it comes or goes: it disappears with that.
pub fn is_condition(taint: &Taint) -> bool {
    const OF_AUTOSCALERS: [&str; 4] = [
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/unregistered",
    ];
    taint.key.starts_with("node.kubernetes.io/")
        || taint.key.starts_with("node.cloudprovider.kubernetes.io/")
        || OF_AUTOSCALERS.contains(&&*taint.key)
}

/// Adds `count` nodes like the one named `like`, each with the drivers of its CSINode and with copies of `on_each`, which run on
/// every node. Returns their names; none where there is no node `like`.
pub fn add_nodes(cluster: &mut Cluster, like: &str, count: usize, on_each: &[Pod]) -> Vec<Str> {
    let Some(node) = cluster.nodes.iter().find(|node| &*node.name == like).cloned() else { return Vec::new() };
    let csi = cluster.others.iter().find_map(|object| match object {
        Object::CsiNode(csi) if csi.name == node.name => Some(csi.clone()),
        _ => None,
    });
    let is_taken = |name: &Str, cluster: &Cluster| cluster.nodes.iter().any(|known| known.name == *name);
    let mut added: Vec<Str> = Vec::with_capacity(count);
    for number in 1.. {
        if added.len() == count {
            break;
        }
        let name: Str = format!("{like}-added-{number}").into();
        if is_taken(&name, cluster) {
            continue;
        }
        cluster.nodes.push(another_node(&node, &name));
        cluster.others.extend(csi.clone().map(|csi| Object::CsiNode(CsiNode { name: name.clone(), ..csi })));
        cluster.pods.extend(on_each.iter().map(|pod| on_node(pod, &name)));
        added.push(name);
    }
    added
}

/// A copy of `pod` that runs on `node`.
fn on_node(pod: &Pod, node: &Str) -> Pod {
    let name = format!("{}-{node}", pod.key.name).into();
    Pod {
        key: PodKey { namespace: pod.key.namespace.clone(), name },
        uid: format!("{}-{node}", pod.uid).into(),
        node_name: Some(node.clone()),
        // Claims are for the pods that name them.
        volumes: None,
        resource_claims: None,
        extended: None,
        ..pod.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::model::{TaintEffect, ZONE};
    use berth_core::testing::{node, pod, shape};

    fn taint(key: &str) -> Taint {
        Taint { key: key.into(), value: "".into(), effect: TaintEffect::NoSchedule }
    }

    #[test]
    fn a_new_node_has_all_but_the_name_and_the_state_of_its_model() {
        let mut model = node("a", 4000, 8 << 30, 110);
        model.labels = [(HOSTNAME, "host-of-a"), (ZONE, "z"), ("topology.example.com/node", "a")].into_iter().collect();
        model.unschedulable = true;
        model.pressure.disk = true;
        let taints = ["dedicated", "node.kubernetes.io/not-ready", "karpenter.sh/disrupted"];
        model.taints = taints.map(taint).into();
        let new = another_node(&model, &"b".into());
        let labels = [(HOSTNAME, "b"), (ZONE, "z"), ("topology.example.com/node", "b")];
        assert_eq!(new.labels, labels.into_iter().collect());
        assert_eq!(new.taints[..], [taint("dedicated")]);
        assert_eq!((new.unschedulable, new.pressure, &*new.name, &*new.uid), (false, Pressure::default(), "b", "b"));
        assert_eq!((new.allocatable, new.allocatable_pods), (model.allocatable, 110));
    }

    #[test]
    fn new_nodes_have_new_names_and_what_runs_on_every_node() {
        let mut daemon = pod("agent-x", shape());
        daemon.node_name = Some("a".into());
        let csi = CsiNode { name: "a".into(), drivers: vec![("d".into(), Some(3))], migrated_plugins: Vec::new() };
        let mut cluster = Cluster {
            nodes: vec![node("a", 4000, 8 << 30, 110), node("a-added-1", 1, 1, 1)],
            others: vec![csi.into()],
            pods: vec![daemon.clone()],
            ..Cluster::default()
        };
        let added = add_nodes(&mut cluster, "a", 2, &[daemon]);
        assert_eq!(added.iter().map(|name| &**name).collect::<Vec<_>>(), ["a-added-2", "a-added-3"]);
        let ledger = cluster.ledger();
        for name in &added {
            let id = ledger.nodes().find(name).unwrap();
            assert_eq!(ledger.nodes().pod_count(id), 1, "{name}");
            assert_eq!(ledger.volumes().csi_node(name).unwrap().limit("d"), Some(3), "{name}");
        }
        assert!(add_nodes(&mut cluster, "none", 2, &[]).is_empty());
    }
}
