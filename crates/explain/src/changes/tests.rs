//! Small clusters where the answer is known.

use super::*;
use berth_core::cycle::{self, Explanation};
use berth_core::ledger::Object;
use berth_core::model::{
    AffinityTerm, HostPort, LabelSelector, Labels, NamespaceScope, Node, NodeSelector, NodeSelectorTerm, NodeTest,
    NodeTestOperator, PodShape, PodVolume, PodVolumes, Protocol, Requirement, RequirementOperator, SpreadConstraint,
    Taint, TaintEffect,
};
use berth_core::testing::{node, pod, shape, shape_of, with_row};
use std::sync::Arc;

const GIB: i64 = 1 << 30;
const ZONE: &str = "topology.kubernetes.io/zone";

/// A cluster of these nodes with these pods on them; the pod in question is the last of `pods` without a node.
fn cluster(nodes: Vec<Node>, pods: Vec<Pod>) -> Cluster {
    Cluster { nodes, pods, ..Cluster::default() }
}

fn on(node: &str, mut pod: Pod) -> Pod {
    pod.node_name = Some(node.into());
    pod
}

/// The kinds and texts reported for the only pending pod.
fn reported(cluster: &Cluster) -> Vec<(ChangeKind, String)> {
    let profile = CompiledProfile::default_preset("test");
    let pod = cluster.pending()[0];
    let mut ledger = cluster.ledger();
    let reported = changes(cluster, &mut ledger, &profile, pod);
    ledger.audit().unwrap();
    reported.into_iter().map(|change| (change.kind, change.text)).collect()
}

fn first(cluster: &Cluster) -> (ChangeKind, String) {
    reported(cluster).into_iter().next().expect("some change")
}

fn texts(cluster: &Cluster) -> Vec<String> {
    reported(cluster).into_iter().map(|(_, text)| text).collect()
}

fn labelled(mut node: Node, labels: &[(&str, &str)]) -> Node {
    let own = node.labels.iter().map(|(k, v)| (k.clone(), v.clone()));
    node.labels = Labels::from_pairs(own.chain(labels.iter().map(|(k, v)| ((*k).into(), (*v).into()))));
    node
}

fn tainted(mut node: Node, taints: &[(&str, &str, TaintEffect)]) -> Node {
    let taint = |(key, value, effect): &(&str, &str, TaintEffect)| Taint {
        key: (*key).into(),
        value: (*value).into(),
        effect: *effect,
    };
    node.taints = taints.iter().map(taint).collect();
    node
}

fn app(value: &str) -> LabelSelector {
    let requirement = Requirement { key: "app".into(), operator: RequirementOperator::In, values: vec![value.into()] };
    LabelSelector { requirements: vec![requirement] }
}

fn term(value: &str, key: &str) -> AffinityTerm {
    AffinityTerm {
        selector: Some(app(value)),
        namespaces: NamespaceScope { names: vec!["default".into()], selector: None },
        topology_key: key.into(),
    }
}

fn with_app(value: &str, mut shape: PodShape) -> PodShape {
    shape.labels = [("app", value)].into_iter().collect();
    shape
}

#[test]
fn less_of_one_resource_is_the_largest_that_fits() {
    let nodes = vec![node("a", 2000, 8 * GIB, 10), node("b", 4000, 8 * GIB, 10)];
    let pods = vec![
        on("b", pod("busy", shape_of(2250, GIB))),
        on("a", pod("small", shape_of(500, GIB))),
        pod("big", shape_of(2000, GIB)),
    ];
    let text = "request at most 1750m cpu instead of 2: it fits b";
    assert_eq!(first(&cluster(nodes, pods)), (ChangeKind::LowerRequest, text.to_owned()));
}

#[test]
fn what_a_nominated_pod_takes_is_not_offered_again() {
    let nodes = vec![node("a", 4000, 8 * GIB, 10)];
    let mut nominated = pod("nominated", shape_of(1000, GIB));
    (nominated.nominated_node, nominated.priority) = (Some("a".into()), 10);
    let cluster = cluster(nodes, vec![nominated, pod("big", shape_of(5000, GIB))]);
    let profile = CompiledProfile::default_preset("test");
    let mut ledger = cluster.ledger();
    let reported = changes(&cluster, &mut ledger, &profile, &cluster.pods[1]);
    assert_eq!((reported[0].kind, &reported[0].to), (ChangeKind::LowerRequest, &serde_json::json!("3")));
}

#[test]
fn a_node_that_lacks_two_resources_asks_for_less_of_both() {
    let nodes = vec![node("a", 4000, 8 * GIB, 10), node("b", 2000, 4 * GIB, 10)];
    let text = "request at most 4 cpu instead of 5 and at most 8Gi memory instead of 10Gi: it fits a";
    let cluster = cluster(nodes, vec![pod("big", shape_of(5000, 10 * GIB))]);
    assert_eq!(first(&cluster), (ChangeKind::LowerRequests, text.to_owned()));
}

#[test]
fn a_lower_request_is_not_proposed_for_a_node_without_pod_slots() {
    let full = vec![on("a", pod("small", shape_of(100, 0))), pod("big", shape_of(2000, GIB))];
    let with_slots = |slots| reported(&cluster(vec![node("a", 1000, 8 * GIB, slots)], full.clone()));
    let lowers = |changes: &[(ChangeKind, String)]| changes.iter().any(|(kind, _)| *kind == ChangeKind::LowerRequest);
    assert!(lowers(&with_slots(2)) && !lowers(&with_slots(1)));
}

#[test]
fn scalars_that_are_all_taken_can_only_be_done_without() {
    let mut gpu = node("a", 4000, 8 * GIB, 10);
    gpu.allocatable.set_scalar("example.com/gpu".into(), 2);
    let mut wanting = shape_of(100, GIB);
    wanting.row_mut().requests.set_scalar("example.com/gpu".into(), 3);
    let reported = texts(&cluster(vec![gpu.clone()], vec![pod("p", wanting)]));
    assert!(reported.contains(&"request at most 2 example.com/gpu instead of 3: it fits a".to_owned()), "{reported:?}");
    let mut wanting = shape_of(100, GIB);
    wanting.row_mut().requests.set_scalar("example.com/gpu".into(), 1);
    let mut holding = shape_of(100, GIB);
    holding.row_mut().requests.set_scalar("example.com/gpu".into(), 2);
    let reported = texts(&cluster(vec![gpu], vec![on("a", pod("holder", holding)), pod("p", wanting)]));
    assert_eq!(
        reported,
        [
            "move or delete pod default/holder, which runs on a (100m cpu, 1Gi memory, priority 0): it fits a",
            "add a node like a (4 cpu, 8Gi memory)",
            "request no example.com/gpu instead of 1: it fits a",
        ]
    );
}

#[test]
fn one_toleration_and_the_same_taint_taken_away() {
    let nodes = vec![
        tainted(node("a", 4000, GIB, 10), &[("dedicated", "infra", TaintEffect::NoSchedule)]),
        tainted(node("b", 4000, GIB, 10), &[("dedicated", "infra", TaintEffect::NoSchedule)]),
    ];
    let reported = reported(&cluster(nodes, vec![pod("p", shape())]));
    assert_eq!(
        reported,
        [
            (ChangeKind::Tolerate, "tolerate the taint dedicated=infra:NoSchedule: it fits a and 1 more".to_owned()),
            (ChangeKind::RemoveTaint, "take the taint dedicated=infra:NoSchedule from a".to_owned()),
            (ChangeKind::RemoveTaint, "take the taint dedicated=infra:NoSchedule from b".to_owned()),
        ]
    );
}

#[test]
fn one_toleration_may_do_for_taints_of_one_key() {
    let both = [("key", "a", TaintEffect::NoSchedule), ("key", "a", TaintEffect::NoExecute)];
    let one = texts(&cluster(vec![tainted(node("a", 4000, GIB, 10), &both)], vec![pod("p", shape())]));
    assert_eq!(one[0], "tolerate the taint key=a: it fits a");
    let values = [("key", "a", TaintEffect::NoSchedule), ("key", "b", TaintEffect::NoSchedule)];
    let any = texts(&cluster(vec![tainted(node("a", 4000, GIB, 10), &values)], vec![pod("p", shape())]));
    assert_eq!(any[0], "tolerate the taint key:NoSchedule: it fits a");
    let keys = [("key", "a", TaintEffect::NoSchedule), ("other", "", TaintEffect::NoSchedule)];
    let none = reported(&cluster(vec![tainted(node("a", 4000, GIB, 10), &keys)], vec![pod("p", shape())]));
    assert!(none.iter().all(|(kind, _)| *kind != ChangeKind::Tolerate), "{none:?}");
}

#[test]
fn taints_of_a_node_s_condition_are_not_tolerated() {
    let node = tainted(node("a", 4000, GIB, 10), &[("node.kubernetes.io/not-ready", "", TaintEffect::NoSchedule)]);
    let (kind, text) = first(&cluster(vec![node], vec![pod("p", shape())]));
    assert_eq!(kind, ChangeKind::RecoverNode);
    assert_eq!(text, "a recovers and loses the taint node.kubernetes.io/not-ready:NoSchedule");
}

#[test]
fn a_cordoned_node_is_uncordoned_with_the_taint_that_came_with_it() {
    let mut cordoned =
        tainted(node("a", 4000, GIB, 10), &[("node.kubernetes.io/unschedulable", "", TaintEffect::NoSchedule)]);
    cordoned.unschedulable = true;
    let reported = reported(&cluster(vec![cordoned], vec![pod("p", shape())]));
    assert_eq!(reported[0], (ChangeKind::Uncordon, "uncordon a (kubectl uncordon a)".to_owned()));
}

#[test]
fn a_label_on_the_node_or_one_rule_less_in_the_pod() {
    let mut wanting = shape();
    wanting.row_mut().node_selector = [("disk", "sdd")].into_iter().collect();
    let nodes = vec![labelled(node("a", 4000, GIB, 10), &[("disk", "ssd")]), node("b", 4000, GIB, 10)];
    let reported = texts(&cluster(nodes, vec![pod("p", wanting)]));
    assert_eq!(
        reported,
        [
            "spell nodeSelector disk=ssd instead of disk=sdd: it fits a",
            "label b with disk=sdd",
            "label a with disk=sdd instead of ssd",
            "drop nodeSelector disk=sdd: it fits a and 1 more",
        ]
    );
}

#[test]
fn zone_labels_are_not_proposed() {
    let mut wanting = shape();
    wanting.row_mut().node_selector = [(ZONE, "far-away")].into_iter().collect();
    let nodes = vec![labelled(node("a", 4000, GIB, 10), &[(ZONE, "here")])];
    let reported = texts(&cluster(nodes, vec![pod("p", wanting)]));
    assert_eq!(reported, ["drop nodeSelector topology.kubernetes.io/zone=far-away: it fits a"]);
}

#[test]
fn one_expression_of_an_affinity_is_dropped() {
    let test = |key: &str, operator, values: &[&str]| NodeTest {
        key: key.into(),
        operator,
        values: values.iter().map(|v| (*v).into()).collect(),
    };
    let expressions =
        vec![test("disk", NodeTestOperator::In, &["ssd"]), test("old", NodeTestOperator::DoesNotExist, &[])];
    let mut wanting = shape();
    let term = NodeSelectorTerm { expressions, ..NodeSelectorTerm::default() };
    wanting.row_mut().required_affinity = Some(NodeSelector { terms: vec![term] });
    let nodes = vec![labelled(node("a", 4000, GIB, 10), &[("disk", "ssd"), ("old", "yes")])];
    let reported = texts(&cluster(nodes, vec![pod("p", wanting)]));
    assert_eq!(
        reported,
        [
            "take the label old from a",
            "drop the node affinity expression old does not exist: it fits a",
            "make the required node affinity (disk in (ssd) and old does not exist) a preferred one: it fits a",
        ]
    );
}

/// Two zones, one with `crowd` pods of the app and no capacity in the other.
fn spread(crowd: usize, min_domains: i32) -> Cluster {
    let nodes = vec![
        labelled(node("a", 4000, 8 * GIB, 100), &[(ZONE, "za")]),
        labelled(node("b", 100, 8 * GIB, 100), &[(ZONE, "zb")]),
    ];
    let mut pods: Vec<Pod> =
        (0..crowd).map(|i| on("a", pod(&format!("p{i}"), with_app("web", shape_of(10, 0))))).collect();
    let mut wanting = with_app("web", shape_of(1000, GIB));
    wanting.spread = vec![SpreadConstraint {
        max_skew: 1,
        topology_key: ZONE.into(),
        hard: true,
        selector: Some(app("web")),
        min_domains,
        honor_affinity: true,
        honor_taints: false,
    }];
    pods.push(pod("p", wanting));
    cluster(nodes, pods)
}

#[test]
fn a_spread_is_relaxed_by_as_little_as_will_do() {
    let reported = reported(&spread(4, 1));
    let text = "let the spread over topology.kubernetes.io/zone be uneven by 5 (maxSkew) instead of 1: it fits a";
    assert!(reported.contains(&(ChangeKind::RaiseMaxSkew, text.to_owned())), "{reported:?}");
    assert_eq!(reported[0].0, ChangeKind::RaiseMaxSkew);
    assert!(reported.iter().all(|(kind, _)| *kind != ChangeKind::ScheduleAnyway), "{reported:?}");
}

#[test]
fn a_node_without_the_label_asks_for_a_preference() {
    let mut cluster = spread(0, 1);
    cluster.nodes[0].labels = Labels::none();
    let reported = reported(&cluster);
    let text =
        "make the spread over topology.kubernetes.io/zone a preference (whenUnsatisfiable: ScheduleAnyway): it fits a";
    assert!(reported.contains(&(ChangeKind::ScheduleAnyway, text.to_owned())), "{reported:?}");
}

#[test]
fn fewer_domains_are_asked_for() {
    let mut cluster = spread(1, 3);
    // With capacity everywhere the second zone would do but for the third that is not there.
    cluster.nodes[1].allocatable.milli_cpu = 4000;
    cluster.pods.insert(0, on("b", pod("other", with_app("web", shape_of(10, 0)))));
    let reported = reported(&cluster);
    let text =
        "be content with 2 domains of topology.kubernetes.io/zone (minDomains) instead of 3: it fits b and 1 more";
    let found = reported.iter().find(|(kind, _)| *kind == ChangeKind::LowerMinDomains).map(|(_, text)| &**text);
    assert!(found.is_some_and(|found| found.starts_with(&text[..90])), "{reported:?}");
}

#[test]
fn affinity_to_nobody_is_dropped_or_the_pod_becomes_the_first() {
    let mut wanting = shape();
    wanting.affinity = vec![term("db", "kubernetes.io/hostname")];
    let reported = texts(&cluster(vec![node("a", 4000, GIB, 10)], vec![pod("p", wanting)]));
    assert_eq!(
        reported,
        [
            "label the pod app=db, so that it is one of those its own affinity means: it fits a",
            "make the required affinity to pods with app=db per kubernetes.io/hostname a preferred one: it fits a",
        ]
    );
}

#[test]
fn anti_affinity_is_dropped_or_the_other_pod_removed() {
    let mut wanting = with_app("web", shape());
    wanting.anti_affinity = vec![term("web", "kubernetes.io/hostname")];
    let pods = vec![on("a", pod("first", with_app("web", shape()))), pod("p", wanting)];
    let reported = texts(&cluster(vec![node("a", 4000, GIB, 10)], pods));
    assert_eq!(
        reported,
        [
            "make the required anti-affinity to pods with app=web per kubernetes.io/hostname a preferred one: it fits a",
            "move or delete pod default/first, which runs on a (priority 0): it fits a",
            "add a node like a (4 cpu, 1Gi memory)",
        ]
    );
}

#[test]
fn a_pod_that_running_pods_avoid_drops_the_label_that_they_select() {
    let mut shunning = shape();
    shunning.anti_affinity = vec![term("web", "kubernetes.io/hostname")];
    let pods = vec![on("a", pod("shunning", shunning)), pod("p", with_app("web", shape()))];
    let reported = reported(&cluster(vec![node("a", 4000, GIB, 10)], pods));
    let text = "take the label app from the pod: running pods keep away from it: it fits a";
    assert_eq!(reported[0], (ChangeKind::LabelPod, text.to_owned()));
}

#[test]
fn a_host_port_moves_to_the_next_free_one() {
    let port = |port| HostPort { protocol: Protocol::Tcp, port, ip: "0.0.0.0".into() };
    let holding = |ports: &[u16]| with_row(shape(), |row| row.host_ports = ports.iter().map(|p| port(*p)).collect());
    let pods = vec![on("a", pod("taken", holding(&[80, 81]))), pod("p", holding(&[80, 82]))];
    let reported = reported(&cluster(vec![node("a", 4000, GIB, 10)], pods));
    assert_eq!(reported[0], (ChangeKind::ChangeHostPort, "use host port 83 instead of 80: it fits a".to_owned()));
}

#[test]
fn a_claim_that_is_missing_is_made() {
    let mut wanting = pod("p", shape());
    wanting.volumes = Some(Arc::new(PodVolumes::from(vec![PodVolume::Claim { claim: "data".into() }])));
    let reported = texts(&cluster(vec![node("a", 4000, GIB, 10)], vec![wanting]));
    assert_eq!(reported, ["create the PersistentVolumeClaim default/data and have it bound: it fits a"]);
}

#[test]
fn the_least_important_and_smallest_pod_is_removed() {
    let nodes = vec![node("a", 4000, 8 * GIB, 10)];
    let mut important = pod("important", shape_of(1000, GIB));
    important.priority = 100;
    let mut of_kubelet = pod("static", shape_of(1000, 0));
    of_kubelet.is_static = true;
    let pods = vec![
        on("a", important),
        on("a", of_kubelet),
        on("a", pod("larger", shape_of(1100, GIB))),
        on("a", pod("enough", shape_of(900, GIB))),
        pod("p", shape_of(800, GIB)),
    ];
    let reported = reported(&cluster(nodes, pods));
    let removed: Vec<&str> =
        reported.iter().filter(|(kind, _)| *kind == ChangeKind::RemovePod).map(|(_, text)| &**text).collect();
    let text = "move or delete pod default/enough, which runs on a (900m cpu, 1Gi memory, priority 0): it fits a";
    assert_eq!(removed, [text]);
}

#[test]
fn several_changes_are_reported_together_where_no_single_one_is_enough() {
    let mut wanting = shape_of(2000, GIB);
    wanting.row_mut().node_selector = [("disk", "ssd"), ("pool", "x")].into_iter().collect();
    let node = tainted(node("a", 1000, GIB, 10), &[("dedicated", "x", TaintEffect::NoSchedule)]);
    let reported = reported(&cluster(vec![node], vec![pod("p", wanting)]));
    let text = "tolerate the taint dedicated=x:NoSchedule, and drop nodeSelector disk=ssd, and drop nodeSelector pool=x, \
                and request at most 1 cpu instead of 2: it fits a";
    assert_eq!(reported, [(ChangeKind::Together, text.to_owned())]);
}

#[test]
fn nothing_is_reported_if_no_single_change_would_do() {
    let mut cordoned = tainted(node("a", 1000, GIB, 10), &[("dedicated", "x", TaintEffect::NoSchedule)]);
    cordoned.unschedulable = true;
    assert_eq!(reported(&cluster(vec![cordoned], vec![pod("p", shape_of(2000, GIB))])), []);
    assert_eq!(reported(&cluster(Vec::new(), vec![pod("p", shape())])), []);
}

#[test]
fn the_list_is_bounded_and_no_kind_crowds_out_the_others() {
    let nodes = (0..40).map(|i| {
        let mut node = node(&format!("n{i:02}"), 4000, GIB, 10);
        node.unschedulable = i % 2 == 0;
        if node.unschedulable { node } else { tainted(node, &[("team", &i.to_string(), TaintEffect::NoSchedule)]) }
    });
    let reported = reported(&cluster(nodes.collect(), vec![pod("p", shape())]));
    assert!(reported.len() <= REPORTED);
    for kind in [ChangeKind::Uncordon, ChangeKind::Tolerate, ChangeKind::RemoveTaint] {
        assert_eq!(reported.iter().filter(|(k, _)| *k == kind).count(), REPORTED_OF_A_KIND, "{reported:?}");
    }
}

#[test]
fn the_ledger_is_as_before_and_answers_as_before() {
    let mut cluster = spread(4, 1);
    cluster
        .others
        .push(Object::Namespace(berth_core::model::Namespace { name: "default".into(), labels: Labels::none() }));
    let profile = CompiledProfile::default_preset("test");
    let pod = Arc::new(cluster.pending()[0].clone());
    let mut ledger = cluster.ledger();
    let before = cycle::explain(&profile, &ledger, &pod);
    let nodes = ledger.node_order();
    assert!(!changes(&cluster, &mut ledger, &profile, &pod).is_empty());
    ledger.audit().unwrap();
    assert_eq!(cycle::explain(&profile, &ledger, &pod), before);
    assert_eq!(ledger.node_order(), nodes);
    assert!(matches!(before, Explanation::Judged(judgement) if judgement.feasible == 0));
}
