use super::*;
use berth_core::model::{
    AffinityTerm, HOSTNAME, LabelSelector, Labels, NamespaceScope, PodDisruptionBudget, PodShape, Toleration,
    TolerationOperator,
};
use berth_core::testing::{node, pod, shape_of};

fn profiles() -> Vec<Arc<CompiledProfile>> {
    vec![Arc::new(CompiledProfile::default_preset("test"))]
}

fn nodes(cpus: &[(&str, i64)]) -> Cluster {
    let nodes = cpus.iter().map(|(name, cpu)| node(name, cpu * 1000, 64 << 30, 110));
    Cluster { nodes: nodes.collect(), ..Cluster::default() }
}

fn web() -> Labels {
    [("app", "web")].into_iter().collect()
}

/// A pod of `app=web` that asks for so many cores, changed by `change`.
fn shaped(cpu: i64, change: impl FnOnce(&mut PodShape)) -> PodShape {
    let mut shape = PodShape { labels: web(), ..shape_of(cpu * 1000, 0) };
    change(&mut shape);
    shape
}

/// A running pod of a controller of this kind, of none where it is empty.
fn running(name: &str, on: &str, kind: &str, shape: PodShape) -> OnNode {
    let controller =
        Controller { api_version: "apps/v1".into(), kind: kind.into(), name: "web".into(), uid: "web".into() };
    let made = PodShape { controller: (!kind.is_empty()).then_some(controller), ..shape.clone() };
    OnNode {
        running: Pod { node_name: Some(on.into()), ..pod(name, shape) },
        template: Template { pod: pod(name, made), claims: Vec::new(), resource_claims: Vec::new() },
        health: Health::Ready,
        local_volumes: Vec::new(),
    }
}

fn replica(name: &str, on: &str, cpu: i64) -> OnNode {
    running(name, on, "ReplicaSet", shaped(cpu, |_| {}))
}

fn budget(name: &str, disruptions_allowed: i32) -> Budget {
    let budget = PodDisruptionBudget {
        namespace: "default".into(),
        name: name.into(),
        selector: Some(LabelSelector::from(&web())),
        disruptions_allowed,
        disrupted_pods: Vec::new(),
    };
    Budget { budget, spares_unready: false }
}

/// Drains `drained` of the cluster with these pods on them.
fn report(mut cluster: Cluster, drained: &[&str], pods: Vec<OnNode>, budgets: Vec<Budget>) -> DrainReport {
    cluster.pods.extend(pods.iter().map(|pod| pod.running.clone()));
    cluster.others.extend(budgets.iter().map(|budget| budget.budget.clone().into()));
    let drain_nodes = drained.iter().map(|name| Str::from(*name)).collect();
    drain(&cluster, &profiles(), 0, Drain { nodes: drain_nodes, pods, budgets })
}

fn fates(report: &DrainReport) -> Vec<(DrainFate, Option<&str>)> {
    report.pods.iter().map(|pod| (pod.fate, pod.to.as_deref())).collect()
}

#[test]
fn a_budget_lets_pods_go_one_by_one() {
    let pods = vec![replica("p0", "a", 1), replica("p1", "a", 1), replica("p2", "a", 1)];
    let report = report(nodes(&[("a", 4), ("b", 4)]), &["a"], pods, vec![budget("web", 1)]);
    assert_eq!(fates(&report), [(DrainFate::Moves, Some("b")); 3]);
    assert_eq!(report.pods.iter().filter_map(|pod| pod.round).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(report.is_clean());
}

#[test]
fn a_budget_gets_nothing_back_for_a_pod_that_fits_nowhere() {
    let pods = vec![replica("p0", "a", 3), replica("p1", "a", 1)];
    let report = report(nodes(&[("a", 4), ("b", 2)]), &["a"], pods, vec![budget("web", 1)]);
    assert_eq!(fates(&report), [(DrainFate::Unschedulable, None), (DrainFate::Blocked, None)]);
    let message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.";
    assert_eq!(report.pods[0].message.as_deref(), Some(message));
    assert_eq!(report.pods[1].budget.as_deref(), Some("web"));
    assert_eq!(report.summary, DrainSummary { left_over: 2, ..DrainSummary::default() });
}

#[test]
fn the_eviction_api_refuses_pods_of_two_budgets_and_spares_those_that_are_not_ready() {
    let drained = |budgets: Vec<Budget>, health: Health| {
        let pods = vec![OnNode { health, ..replica("p", "a", 1) }];
        report(nodes(&[("a", 4), ("b", 4)]), &["a"], pods, budgets).pods.remove(0)
    };
    let both = drained(vec![budget("one", 9), budget("two", 9)], Health::Ready);
    assert_eq!((both.fate, both.budget.as_deref()), (DrainFate::Blocked, Some("one, two")));
    assert!(both.message.unwrap().contains("more than one PodDisruptionBudget"));
    let spent = |spares_unready: bool| vec![Budget { spares_unready, ..budget("web", 0) }];
    for (spares, health, fate) in [
        (true, Health::Ready, DrainFate::Blocked),
        (true, Health::NotReady, DrainFate::Moves),
        (false, Health::NotReady, DrainFate::Blocked),
        (false, Health::NotStarted, DrainFate::Moves),
    ] {
        assert_eq!(drained(spent(spares), health).fate, fate, "{spares} {health:?}");
    }
}

#[test]
fn two_nodes_at_once_are_not_one_after_the_other() {
    let alone = |drained: &[&str]| {
        let pods = [replica("p0", "a", 3), replica("p1", "b", 3)];
        let pods = pods.into_iter().filter(|pod| drained.contains(&pod.running.node_name.as_deref().unwrap()));
        report(nodes(&[("a", 4), ("b", 4), ("c", 4)]), drained, pods.collect(), Vec::new())
    };
    assert!(alone(&["a"]).is_clean() && alone(&["b"]).is_clean());
    assert_eq!(fates(&alone(&["a", "b"])), [(DrainFate::Moves, Some("c")), (DrainFate::Unschedulable, None)]);
}

#[test]
fn drained_pods_that_keep_apart_do_so_on_the_nodes_they_go_to() {
    let apart = |shape: &mut PodShape| {
        let namespaces = NamespaceScope { names: vec!["default".into()], selector: None };
        let selector = Some(LabelSelector::from(&web()));
        shape.anti_affinity = vec![AffinityTerm { selector, namespaces, topology_key: HOSTNAME.into() }];
    };
    let pods = ["a", "b"].map(|on| running(&format!("p-{on}"), on, "ReplicaSet", shaped(1, apart)));
    let report = report(nodes(&[("a", 4), ("b", 4), ("c", 4)]), &["a", "b"], pods.into(), Vec::new());
    assert_eq!(fates(&report), [(DrainFate::Moves, Some("c")), (DrainFate::Unschedulable, None)]);
    assert!(report.pods[1].message.as_deref().unwrap().contains("anti-affinity"), "{report:?}");
}

#[test]
fn what_a_drain_leaves_alone_stays() {
    let daemon = running("daemon", "a", "DaemonSet", shaped(1, |_| {}));
    let mut fixed = running("fixed", "a", "Node", shaped(1, |_| {}));
    fixed.running.is_static = true;
    let mut leaving = replica("leaving", "a", 1);
    leaving.running.deleting = true;
    let bare = running("bare", "a", "", shaped(1, |_| {}));
    assert!(daemon.is_on_every_node() && fixed.is_on_every_node() && !bare.is_on_every_node());
    let pods = vec![daemon, fixed, leaving, bare];
    let report = report(nodes(&[("a", 8), ("b", 8)]), &["a"], pods, Vec::new());
    let fates: Vec<DrainFate> = report.pods.iter().map(|pod| pod.fate).collect();
    assert_eq!(fates, [DrainFate::Bare, DrainFate::DaemonSet, DrainFate::Static, DrainFate::Leaving]);
    assert_eq!((report.summary.stays, report.summary.left_over), (3, 1));
}

#[test]
fn a_pod_that_tolerates_everything_comes_back() {
    let all = |shape: &mut PodShape| {
        let all = Toleration { key: "".into(), operator: TolerationOperator::Exists, value: "".into(), effect: None };
        shape.row_mut().tolerations = vec![all];
    };
    let pods = vec![running("p", "a", "ReplicaSet", shaped(1, all))];
    let report = report(nodes(&[("a", 4)]), &["a"], pods, Vec::new());
    assert_eq!(fates(&report), [(DrainFate::Returns, Some("a"))]);
}

#[test]
fn a_pod_that_is_preempted_for_another_is_left_over() {
    let mut cluster = nodes(&[("a", 4), ("b", 4)]);
    cluster.pods.push(Pod { node_name: Some("b".into()), priority: -1, ..pod("low", shape_of(3000, 0)) });
    let report = report(cluster, &["a"], vec![replica("p", "a", 3)], Vec::new());
    assert_eq!(fates(&report), [(DrainFate::Moves, Some("b"))]);
    assert_eq!(report.pods[0].victims, ["default/low"]);
    assert!(!report.is_clean());
}
