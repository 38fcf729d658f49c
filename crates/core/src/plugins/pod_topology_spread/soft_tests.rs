//! The score, case by case.

use super::Tables;
use super::tests::{HOST, ZONE, cluster, constraint, label, labels, place, selector, tolerant, web};
use crate::ledger::{Ledger, NodeId};
use crate::model::{Controller, LabelSelector, Pod, PodShape, Service, SpreadConstraint, Workload, WorkloadKind};
use crate::plugins::{PluginContext, ResolvedPod, Work};
use crate::profile::{CompiledProfile, SpreadDefaults};
use crate::testing::with_row;
use std::sync::Arc;

fn soft(key: &str, max_skew: i32) -> SpreadConstraint {
    constraint(key, max_skew, false, "web")
}

/// The scores of the nodes named by the letters of `feasible`.
fn scores_with(profile: &CompiledProfile, ledger: &Ledger, feasible: &str, shape: PodShape) -> Option<Vec<i64>> {
    let cx = PluginContext { profile, ledger };
    let resolved = ResolvedPod::new(profile, ledger, &Arc::new(shape));
    let find = |name: char| ledger.nodes().find(&name.to_string()).expect("a node of the cluster");
    let feasible: Vec<NodeId> = feasible.chars().map(find).collect();
    let mut out = vec![7];
    let runs = Tables::default().score(cx, &resolved, &feasible, &mut out, &mut Work::unbounded());
    runs.expect("nothing stops").then_some(out)
}

fn scores(ledger: &Ledger, feasible: &str, spread: Vec<SpreadConstraint>) -> Vec<i64> {
    let profile = CompiledProfile::default_preset("test");
    scores_with(&profile, ledger, feasible, web(spread)).expect("soft constraints")
}

#[test]
fn the_worked_vector() {
    let mut ledger = cluster("a1 x2");
    place(&mut ledger, "aaax", |_| ());
    assert_eq!(scores(&ledger, "ax", vec![soft(ZONE, 1)]), [25, 100]);
}

#[test]
fn by_node() {
    let mut ledger = cluster("a1 b1 x2 y2");
    assert_eq!(scores(&ledger, "ab", vec![soft(HOST, 1)]), [100, 100], "no pods");
    place(&mut ledger, "aa b yyy", |_| ());
    assert_eq!(scores(&ledger, "b", vec![soft(HOST, 1)]), [100], "one candidate");
    // Four nodes: ln 6 = 1.79; raw 4, 2, 0, 5.
    assert_eq!(scores(&ledger, "abxy", vec![soft(HOST, 1)]), [20, 60, 100, 0]);
    // A skew of 2 adds 1 to each raw score: 5, 3, 1, 6.
    assert_eq!(scores(&ledger, "abxy", vec![soft(HOST, 2)]), [33, 66, 100, 16]);
    // Three nodes: ln 5 = 1.61; raw 3, 2, 0.
    assert_eq!(scores(&ledger, "abx", vec![soft(HOST, 1)]), [0, 33, 100]);
    let with = |selector| vec![SpreadConstraint { selector, ..soft(HOST, 1) }];
    assert_eq!(scores(&ledger, "abxy", with(None)), [100; 4], "no selector");
    assert_eq!(scores(&ledger, "abxy", with(Some(LabelSelector::default()))), [100; 4], "no requirements");
    let more = SpreadConstraint { min_domains: 9, ..soft(HOST, 1) };
    assert_eq!(scores(&ledger, "abxy", vec![more]), [20, 60, 100, 0], "minDomains is of hard ones");
}

#[test]
fn who_counts() {
    let mut ledger = cluster("a1 x2");
    place(&mut ledger, "aax", |_| ());
    let before = scores(&ledger, "ax", vec![soft(ZONE, 1)]);
    place(&mut ledger, "xxx", |p| p.deleting = true);
    place(&mut ledger, "xxx", |p: &mut Pod| Arc::make_mut(&mut p.shape).namespace = "other".into());
    place(&mut ledger, "xxx", label(&[("app", "db")]));
    assert_eq!(scores(&ledger, "ax", vec![soft(ZONE, 1)]), before);
    assert_eq!(before, [33, 100], "raw 3 and 1");
}

/// Pods on nodes that are no candidates count in the zones of those that are.
#[test]
fn by_zone_over_all_nodes() {
    let mut ledger = cluster("a1 b1 x2 y2 z3");
    place(&mut ledger, "bbb y zzzzz", |_| ());
    assert_eq!(scores(&ledger, "ax", vec![soft(ZONE, 1)]), [25, 100], "3 and 1 over two zones");
    // ln 5: raw round(4.8), round(1.6), round(8.0).
    assert_eq!(scores(&ledger, "axz", vec![soft(ZONE, 1)]), [62, 100, 25]);
}

#[test]
fn several_constraints() {
    let mut ledger = cluster("a1 b1 x2 y2");
    place(&mut ledger, "aa b yyy", |_| ());
    // Zones 3 and 3 (ln 4), nodes 2, 1, 0, 3 (ln 6): raw 8, 6, 4, 10.
    assert_eq!(scores(&ledger, "abxy", vec![soft(ZONE, 1), soft(HOST, 1)]), [60, 80, 100, 40]);
    place(&mut ledger, "ax", label(&[("app", "db")]));
    // Zones 3 and 3 of web; nodes 1, 0, 1, 0 of db: raw 4.16 + 1.79 = 6 or 4.
    let db = constraint(HOST, 1, false, "db");
    assert_eq!(scores(&ledger, "abxy", vec![soft(ZONE, 1), db.clone()]), [66, 100, 66, 100]);
    // Three candidates: ln 5 for nodes: raw 4.16 + 1.61 = 6 or 4.
    assert_eq!(scores(&ledger, "abx", vec![soft(ZONE, 1), db]), [66, 100, 66]);
    // The same zones twice: 4.16 + 4.16 + 1 of skew.
    assert_eq!(scores(&ledger, "ax", vec![soft(ZONE, 1), soft(ZONE, 2)]), [100, 100]);
}

/// Nodes without a label that is asked for are not scored, and their pods do not count for the other constraints.
#[test]
fn nodes_without_a_label_are_ignored() {
    let mut ledger = cluster("a1 b1 x2 y-");
    place(&mut ledger, "aa b yyy", |_| ());
    // Three scored nodes: ln 5; raw 3, 2, 0.
    assert_eq!(scores(&ledger, "abxy", vec![soft(HOST, 1), constraint(ZONE, 1, false, "none")]), [0, 33, 100, 0]);
    assert_eq!(scores(&ledger, "y", vec![soft(ZONE, 1)]), [0], "nothing but ignored ones");
    assert_eq!(scores(&ledger, "abxy", vec![soft("rack", 1)]), [0; 4]);
}

#[test]
fn node_policies() {
    let profile = CompiledProfile::default_preset("test");
    let with =
        |affinity, taints, key| SpreadConstraint { honor_affinity: affinity, honor_taints: taints, ..soft(key, 1) };
    let mut ledger = cluster("a1* b1 x2* y2*!");
    place(&mut ledger, "bbb x yyyyyy", |_| ());
    let ssd = |spread| with_row(web(spread), |row| row.node_selector = labels(&[("disk", "ssd")]));
    let scores = |shape| scores_with(&profile, &ledger, "ax", shape).expect("soft constraints");
    assert_eq!(scores(ssd(vec![with(true, false, ZONE)])), [100, 0], "0 and 7: b does not count");
    assert_eq!(scores(ssd(vec![with(true, true, ZONE)])), [100, 0], "0 and 1: y neither");
    assert_eq!(scores(ssd(vec![with(false, true, ZONE)])), [25, 100], "3 and 1");
    assert_eq!(scores(ssd(vec![with(false, false, ZONE)])), [100, 40], "3 and 7");
    assert_eq!(scores(tolerant(ssd(vec![with(false, true, ZONE)]))), [100, 40], "tolerated");
    // By host name the node's own pods count whatever the policies say.
    let own = |shape| scores_with(&profile, &ledger, "abxy", shape).expect("soft constraints");
    assert_eq!(own(ssd(vec![with(true, true, HOST)])), own(web(vec![soft(HOST, 1)])));
}

fn serve(ledger: &mut Ledger) {
    let selector = Some(labels(&[("app", "web")]));
    ledger.apply_service(Service { namespace: "default".into(), name: "s".into(), selector });
}

#[test]
fn system_defaults() {
    let profile = CompiledProfile::default_preset("test");
    let scores = |ledger: &Ledger, feasible| scores_with(&profile, ledger, feasible, web(Vec::new()));
    let mut ledger = cluster("a1 b1 x2 y2");
    place(&mut ledger, "aa b yyy", |_| ());
    assert_eq!(scores(&ledger, "abxy"), None, "neither Service nor controller");
    serve(&mut ledger);
    // Host names (ln 6, skew 3) and zones (ln 4, skew 5): raw 3.58 + 4.16 + 6 = 14, 12, 10, 16.
    assert_eq!(scores(&ledger, "abxy"), Some(vec![75, 87, 100, 62]));
}

/// Nodes without a zone are still spread by host name; as one domain they raise the weight of zones.
#[test]
fn system_defaults_where_nodes_have_no_zone() {
    let profile = CompiledProfile::default_preset("test");
    let scores =
        |ledger: &Ledger, feasible| scores_with(&profile, ledger, feasible, web(Vec::new())).expect("a Service");
    let mut ledger = cluster("a- b- x- y-");
    place(&mut ledger, "aa b yyy", |_| ());
    serve(&mut ledger);
    // ln 6, skew 3: raw 5.58, 3.79, 2, 7.38.
    assert_eq!(scores(&ledger, "abxy"), [42, 71, 100, 28]);
    let mut ledger = cluster("a1 b1 x- y-");
    place(&mut ledger, "aaa bbb xx", |_| ());
    serve(&mut ledger);
    // Zone 1 and no zone are two domains: ln 4 · 6 + 4 = 12.3 beside ln 6 · 3 + 2 = 7.4 on a and b; x 5.58, y 2.
    assert_eq!(scores(&ledger, "abxy"), [10, 10, 80, 100]);
    // x and y alone: one domain, whatever its size, adds nothing.
    assert_eq!(scores(&ledger, "xy"), [40, 100]);
}

/// A zone whose name is empty is the same domain as no zone, of which only the nodes with the label hear.
#[test]
fn system_defaults_where_a_zone_has_no_name() {
    let profile = CompiledProfile::default_preset("test");
    let mut ledger = cluster("a1 b1 x- y-");
    let mut nameless = crate::testing::node("z", 4000, 1 << 32, 110);
    nameless.labels = labels(&[(HOST, "z"), (ZONE, "")]);
    ledger.apply_node(&nameless);
    serve(&mut ledger);
    place(&mut ledger, "xxxx", |_| ());
    let scores = scores_with(&profile, &ledger, "ayz", web(Vec::new())).expect("a Service");
    // Raw: a 2 + 4 = 6, y 2, z 2 + 4 · ln 4 + 4 = 11.5: 12.
    assert_eq!(scores, [66, 100, 16]);
}

#[test]
fn listed_defaults_need_every_label() {
    let list = vec![
        SpreadConstraint { selector: None, ..soft(ZONE, 1) },
        SpreadConstraint { selector: None, ..soft(HOST, 1) },
    ];
    let profile =
        CompiledProfile { spread_defaults: SpreadDefaults::List(list), ..CompiledProfile::default_preset("test") };
    let mut ledger = cluster("a1 b1 x2 y-");
    place(&mut ledger, "aab yyy", |_| ());
    assert_eq!(scores_with(&profile, &ledger, "abxy", web(Vec::new())), None);
    serve(&mut ledger);
    // Zones 3 and 0 (ln 4), nodes 2, 1, 0 (ln 5): raw 7, 6, 0; y is ignored.
    assert_eq!(scores_with(&profile, &ledger, "abxy", web(Vec::new())), Some(vec![0, 14, 100, 0]));
    // A pod's own constraint is all it has.
    assert_eq!(scores_with(&profile, &ledger, "abxy", web(vec![soft(HOST, 1)])), Some(vec![20, 60, 100, 0]));
    assert_eq!(scores_with(&profile, &ledger, "abxy", web(vec![constraint(HOST, 1, true, "web")])), None);
}

#[test]
fn the_controller_says_who_is_alike() {
    let profile = CompiledProfile::default_preset("test");
    let owner = |api_version: &str, kind: &str| Controller {
        api_version: api_version.into(),
        kind: kind.into(),
        name: "own".into(),
        uid: "u".into(),
    };
    let workload = |kind, pairs| Workload {
        kind,
        namespace: "default".into(),
        name: "own".into(),
        selector: Some(selector(pairs)),
    };
    let mut ledger = cluster("a1 b1");
    place(&mut ledger, "aa", label(&[("app", "web"), ("rev", "2")]));
    place(&mut ledger, "b", label(&[("app", "web"), ("rev", "1")]));
    let owned = |controller| {
        let labels = labels(&[("app", "web"), ("rev", "2")]);
        PodShape { labels, controller: Some(controller), ..web(Vec::new()) }
    };
    let scores = |ledger: &Ledger, shape| scores_with(&profile, ledger, "ab", shape);
    let set = || owned(owner("apps/v1", "ReplicaSet"));
    assert_eq!(scores(&ledger, set()), None, "not known");
    ledger.apply_controller(workload(WorkloadKind::ReplicaSet, &[("rev", "2")]));
    // Both share a zone with 2 pods: ln 3 · 2 + 4 = 6.2; by host name ln 4 · 2 + 2 = 4.8 and 2: raw 11 and 8.
    assert_eq!(scores(&ledger, set()), Some(vec![72, 100]));
    assert_eq!(scores(&ledger, owned(owner("apps/v1", "StatefulSet"))), None, "of another kind");
    assert_eq!(scores(&ledger, owned(owner("apps.example/v1", "ReplicaSet"))), None, "of another group");
    assert_eq!(scores(&ledger, web(Vec::new())), None, "not owned");
    ledger.apply_controller(workload(WorkloadKind::StatefulSet, &[("rev", "1")]));
    // Only b's pod: ln 3 + 4 = 5.1, and 2 on a, 3.4 on b: raw 7 and 8.
    assert_eq!(scores(&ledger, owned(owner("apps/v1", "StatefulSet"))), Some(vec![100, 87]));
    // A Service and a ReplicaSet: both must match.
    serve(&mut ledger);
    assert_eq!(scores(&ledger, set()), Some(vec![72, 100]));
    // A ReplicationController's labels replace those of Services.
    ledger.apply_controller(workload(WorkloadKind::ReplicationController, &[("app", "other")]));
    assert_eq!(scores(&ledger, owned(owner("v1", "ReplicationController"))), Some(vec![100, 100]));
}

/// The API server refuses maxSkew 0; upstream takes a raw score of −1 for its mark of an ignored node.
#[test]
fn the_mistake_of_a_skew_of_nothing() {
    let mut ledger = cluster("a1 b1");
    assert_eq!(scores(&ledger, "ab", vec![soft(HOST, 0)]), [0, 0]);
    place(&mut ledger, "a", |_| ());
    assert_eq!(scores(&ledger, "ab", vec![soft(HOST, 0)]), [100, 0], "raw 0 and −1, highest 0");
}
