//! The filter, case by case; and the builders of these tests.

use super::Tables;
use crate::ledger::Ledger;
use crate::model::{
    LabelSelector, Labels, Pod, PodShape, Service, SpreadConstraint, Str, Taint, TaintEffect, Toleration,
    TolerationOperator,
};
use crate::plugins::{Cause, Overlay, PluginContext, ResolvedPod, Work};
use crate::profile::{CompiledProfile, SpreadDefaults};
use crate::testing::{node, pod, shape, with_row};
use std::sync::Arc;

pub(super) const HOST: &str = "kubernetes.io/hostname";
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

pub(super) fn selector(pairs: &[(&str, &str)]) -> LabelSelector {
    LabelSelector::from(&labels(pairs))
}

/// A constraint over pods with `app: {app}`.
pub(crate) fn constraint(key: &str, max_skew: i32, hard: bool, app: &str) -> SpreadConstraint {
    SpreadConstraint {
        max_skew,
        topology_key: key.into(),
        hard,
        selector: Some(selector(&[("app", app)])),
        min_domains: 1,
        honor_affinity: true,
        honor_taints: false,
    }
}

pub(super) fn hard(key: &str, max_skew: i32) -> SpreadConstraint {
    constraint(key, max_skew, true, "web")
}

pub(super) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}

/// A pod of `app: web` with these constraints.
pub(super) fn web(spread: Vec<SpreadConstraint>) -> PodShape {
    PodShape { labels: labels(&[("app", "web")]), spread, ..shape() }
}

/// Nodes such as `a1 x2! c-~`: name, zone (`-` for none), `!` for a taint, `~` for no host name, `*` for `disk: ssd`.
pub(super) fn cluster(nodes: &str) -> Ledger {
    let mut ledger = Ledger::new();
    for word in nodes.split_whitespace() {
        let (name, zone, marks) = (&word[..1], &word[1..2], &word[2..]);
        let mut node = node(name, 4000, 1 << 32, 110);
        let pairs =
            [(HOST, name, !marks.contains('~')), (ZONE, zone, zone != "-"), ("disk", "ssd", marks.contains('*'))];
        node.labels = pairs.iter().filter(|(_, _, there)| *there).map(|(key, value, _)| (*key, *value)).collect();
        if marks.contains('!') {
            let taint = Taint { key: "k".into(), value: "v".into(), effect: TaintEffect::NoSchedule };
            node.taints = Arc::from([taint]);
        }
        ledger.apply_node(&node);
    }
    ledger
}

/// One pod of `app: web` for each letter of `on`, on the node of that name, changed by `change`.
pub(super) fn place(ledger: &mut Ledger, on: &str, change: impl Fn(&mut Pod)) {
    for name in on.chars().filter(|c| !c.is_whitespace()) {
        let mut placed = pod(&format!("p{}", ledger.version()), web(Vec::new()));
        placed.node_name = Some(name.to_string().into());
        change(&mut placed);
        ledger.apply_pod(placed);
    }
}

pub(super) fn label(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&mut Pod) {
    move |pod| Arc::make_mut(&mut pod.shape).labels = labels(pairs)
}

pub(super) fn tolerant(mut shape: PodShape) -> PodShape {
    let (key, value): (Str, Str) = ("k".into(), "".into());
    shape.row_mut().tolerations = vec![Toleration { key, operator: TolerationOperator::Exists, value, effect: None }];
    shape
}

/// For each node in the order of their names: `.` fits, `S` too many pods alike, `L` a label is missing.
fn verdicts_with(profile: &CompiledProfile, ledger: &Ledger, shape: PodShape, overlays: &[(&str, &Overlay)]) -> String {
    let cx = PluginContext { profile, ledger };
    let resolved = ResolvedPod::new(profile, ledger, &Arc::new(shape));
    let (mut tables, none) = (Tables::default(), Overlay::NONE);
    let hard = tables.prepare(cx, &resolved, &mut Work::unbounded()).expect("nothing stops");
    let mut nodes = ledger.node_order();
    nodes.sort_by(|a, b| ledger.nodes().name(*a).cmp(ledger.nodes().name(*b)));
    let verdict = |node| {
        let name = ledger.nodes().name(node);
        let overlay = overlays.iter().find(|(on, _)| **on == **name).map_or(&none, |(_, overlay)| *overlay);
        match hard.as_ref().map(|hard| hard.filter(&resolved, node, overlay).cause()) {
            None | Some(Cause::None) => '.',
            Some(Cause::Spread) => 'S',
            Some(Cause::SpreadLabel) => 'L',
            Some(other) => panic!("{other:?}"),
        }
    };
    nodes.into_iter().map(verdict).collect()
}

fn verdicts(ledger: &Ledger, shape: PodShape) -> String {
    verdicts_with(&CompiledProfile::default_preset("test"), ledger, shape, &[])
}

#[test]
fn the_score_of_each_worked_example_is_right() {
    let mut ledger = cluster("a1 b2 c3");
    place(&mut ledger, "aab", |_| ());
    assert_eq!(verdicts(&ledger, web(vec![hard(ZONE, 1)])), "SS.");
    let mut ledger = cluster("a1 b2 c3");
    place(&mut ledger, "abc", |_| ());
    let five = SpreadConstraint { min_domains: 5, ..hard(ZONE, 1) };
    assert_eq!(verdicts(&ledger, web(vec![five])), "SSS");
}

/// Cases over two zones of two nodes each: nodes a and b in zone 1, x and y in zone 2.
/// What it is, the nodes, and pods: by the first selector, by the second; the constraints, and each node's verdict.
type TwoCounted<'a> = (&'a str, &'a str, &'a str, &'a str, Vec<SpreadConstraint>, &'a str);
type Change<'a> = &'a dyn Fn(&mut Pod);

#[test]
fn one_constraint() {
    let other = |p: &mut Pod| Arc::make_mut(&mut p.shape).namespace = "other".into();
    let foreign = |spread| PodShape { labels: labels(&[("app", "db")]), ..web(spread) };
    let nothing = |_: &mut Pod| ();
    let min = |min_domains, c: SpreadConstraint| SpreadConstraint { min_domains, ..c };
    let cases: [(&str, &str, &str, Change<'_>, PodShape, &str); 18] = [
        ("nothing there", "a1 b1 x2 y2", "", &nothing, web(vec![hard(ZONE, 1)]), "...."),
        ("nothing there, not alike itself", "a1 b1 x2 y2", "", &nothing, foreign(vec![hard(ZONE, 1)]), "...."),
        ("another namespace", "a1 b1 x2 y2", "aay", &other, web(vec![hard(ZONE, 1)]), "...."),
        ("3 and 3 by zone", "a1 b1 x2 y2", "aab yyy", &nothing, web(vec![hard(ZONE, 1)]), "...."),
        ("2 and 1 by zone, one node without", "a1 b- x2 y2", "aab y", &nothing, web(vec![hard(ZONE, 1)]), "SL.."),
        ("no node has the label", "a1 b1 x2 y2", "aab", &nothing, web(vec![hard("rack", 1)]), "LLLL"),
        ("2, 1, 0, 3 by node", "a1 b1 x2 y2", "aab yyy", &nothing, web(vec![hard(HOST, 1)]), "SS.S"),
        ("the same, skew 2", "a1 b1 x2 y2", "aab yyy", &nothing, web(vec![hard(HOST, 2)]), "S..S"),
        ("the same, not alike itself", "a1 b1 x2 y2", "aab yyy", &nothing, foreign(vec![hard(HOST, 1)]), "S..S"),
        ("being deleted", "a1 b1", "aab", &|p| p.deleting = true, web(vec![hard(HOST, 1)]), ".."),
        ("2, 2, 1, fewer domains than wanted", "a1 b1 c1", "aabbc", &nothing, web(vec![min(4, hard(HOST, 2))]), "SS."),
        ("2, 2, 1, domains enough", "a1 b1 c1", "aabbc", &nothing, web(vec![min(2, hard(HOST, 2))]), "..."),
        ("2, 1 by zone, fewer than wanted", "a1 b1 x2 y2", "aax", &nothing, web(vec![min(3, hard(ZONE, 2))]), "SS.."),
        ("2, 1 by zone, enough", "a1 b1 x2 y2", "aax", &nothing, web(vec![min(2, hard(ZONE, 2))]), "...."),
        ("the mistake of maxSkew 0", "a1 x2", "a", &nothing, web(vec![hard(ZONE, 0)]), "SS"),
        ("the mistake of minDomains 0, no domain", "a- x-", "", &nothing, web(vec![min(0, hard(ZONE, 1))]), "LL"),
        ("soft ones are passed over", "a1 x2", "aaa", &nothing, web(vec![constraint(ZONE, 1, false, "web")]), ".."),
        ("none", "a1 x2", "aaa", &nothing, web(vec![]), ".."),
    ];
    for (name, nodes, pods, change, shape, want) in cases {
        let mut ledger = cluster(nodes);
        place(&mut ledger, pods, change);
        assert_eq!(verdicts(&ledger, shape), want, "{name}");
    }
}

/// 137431: pods that terminate keep those that replace them from their zone, if they are counted.
#[test]
fn terminating_pods_do_not_count_137431() {
    for (deleting, want) in [(false, "S."), (true, "..")] {
        let mut ledger = cluster("a1 x2");
        place(&mut ledger, "aa", |p| p.deleting = deleting);
        assert_eq!(verdicts(&ledger, web(vec![hard(ZONE, 1)])), want, "{deleting}");
    }
}

#[test]
fn selectors_of_nothing_and_of_everything() {
    let mut ledger = cluster("a1 x2");
    place(&mut ledger, "aaa", |_| ());
    let with = |selector| web(vec![SpreadConstraint { selector, ..hard(ZONE, 1) }]);
    assert_eq!(verdicts(&ledger, with(None)), "..", "no selector matches no pod, itself included");
    // Without requirements no placed pod counts, but the pod itself does.
    let everything = || Some(LabelSelector::default());
    assert_eq!(verdicts(&ledger, with(everything())), "..");
    let shape = web(vec![SpreadConstraint { selector: everything(), ..hard(ZONE, 0) }]);
    assert_eq!(verdicts(&ledger, shape), "SS");
}

#[test]
fn two_constraints() {
    let db = |key| constraint(key, 1, true, "db");
    let both = |pod: &mut Pod| Arc::make_mut(&mut pod.shape).labels = labels(&[("app", "web"), ("tier", "db")]);
    let tier = |key| SpreadConstraint { selector: Some(selector(&[("tier", "db")])), ..hard(key, 1) };
    let mut pod = web(vec![hard(ZONE, 1), tier(HOST)]);
    pod.labels = labels(&[("app", "web"), ("tier", "db")]);
    // Pods by `app: web` (those of "web" and "both"), and by `tier: db` (those of "db" and "both").
    let cases: [TwoCounted<'_>; 8] = [
        ("3/3 and 2/1/0/3", "a1 b1 x2 y2", "aab yyy", "", vec![hard(ZONE, 1), hard(HOST, 1)], "SS.S"),
        ("3/4 and 2/1/0/4", "a1 b1 x2 y2", "aab yyyy", "", vec![hard(ZONE, 1), hard(HOST, 1)], "SSSS"),
        ("1/0 by one, 1/0/0/1 by the other", "a1 b1 x2 y2", "b", "ay", vec![hard(ZONE, 1), tier(HOST)], "SS.S"),
        ("1/0 and 0/0/1/1", "a1 b1 x2 y2", "a", "xy", vec![hard(ZONE, 1), tier(HOST)], "SSSS"),
        ("not alike by zone", "a1 b1 x2 y2", "b", "ay", vec![db(ZONE), tier(HOST)], "S..S"),
        ("one node without a host name", "a1 b1 x2~ y2", "aby", "", vec![hard(ZONE, 1), hard(HOST, 1)], "SSL."),
        ("the same key twice, 2/1", "a1 x2", "aax", "", vec![hard(ZONE, 1), hard(ZONE, 2)], "S."),
        ("the same key twice, by different pods", "a1 x2", "a", "x", vec![hard(ZONE, 1), tier(ZONE)], "SS"),
    ];
    for (name, nodes, webs, tiers, spread, want) in cases {
        let mut ledger = cluster(nodes);
        place(&mut ledger, webs, |_| ());
        place(&mut ledger, tiers, label(&[("tier", "db")]));
        assert_eq!(verdicts(&ledger, PodShape { spread, ..pod.clone() }), want, "{name}");
    }
    let mut ledger = cluster("a1 b1 x2 y2");
    place(&mut ledger, "aay", both);
    assert_eq!(verdicts(&ledger, pod), "SS.S", "pods that both count");
}

/// A node without one of the labels counts for no constraint, but its domain is the same for others in it.
#[test]
fn only_nodes_with_every_label_count() {
    let mut ledger = cluster("a1 b1~ x2 y2");
    place(&mut ledger, "bbb x", |_| ());
    assert_eq!(verdicts(&ledger, web(vec![hard(ZONE, 1)])), "SS..", "3 and 1");
    assert_eq!(verdicts(&ledger, web(vec![hard(ZONE, 1), hard(HOST, 9)])), ".LSS", "0 and 1");
}

#[test]
fn node_policies() {
    let with =
        |affinity, taints, key| SpreadConstraint { honor_affinity: affinity, honor_taints: taints, ..hard(key, 1) };
    let ssd = |spread| with_row(web(spread), |row| row.node_selector = labels(&[("disk", "ssd")]));
    // Nodes a, b and c in zones of their own; c is not ssd, or tainted.
    let mut off = cluster("a1* b2* c3");
    place(&mut off, "a", |_| ());
    assert_eq!(verdicts(&off, ssd(vec![with(true, false, ZONE)])), "S..", "b is the emptiest that counts");
    place(&mut off, "b", |_| ());
    assert_eq!(verdicts(&off, ssd(vec![with(true, false, ZONE)])), "...", "c does not count");
    assert_eq!(verdicts(&off, ssd(vec![with(false, false, ZONE)])), "SS.", "c counts");
    let mut required = ssd(vec![with(true, false, ZONE)]);
    let row = required.row_mut();
    (row.node_selector, row.required_affinity) = (Labels::none(), Some(ssd_nodes()));
    assert_eq!(verdicts(&off, required.clone()), "...", "by affinity");
    required.spread = vec![with(false, false, ZONE)];
    assert_eq!(verdicts(&off, required), "SS.");

    let mut tainted = cluster("a1 b2 c3!");
    place(&mut tainted, "ab", |_| ());
    assert_eq!(verdicts(&tainted, web(vec![with(true, true, ZONE)])), "...", "honoured");
    assert_eq!(verdicts(&tainted, web(vec![with(true, false, ZONE)])), "SS.", "ignored");
    assert_eq!(verdicts(&tainted, tolerant(web(vec![with(true, true, ZONE)]))), "SS.", "tolerated");
}

fn ssd_nodes() -> crate::model::NodeSelector {
    use crate::model::{NodeSelector, NodeSelectorTerm, NodeTest, NodeTestOperator};
    let test = NodeTest { key: "disk".into(), operator: NodeTestOperator::In, values: vec!["ssd".into()] };
    NodeSelector { terms: vec![NodeSelectorTerm { expressions: vec![test], ..NodeSelectorTerm::default() }] }
}

/// Zone and host name with policies of their own. Nodes a and b in zone 1, x and y in zone 2; b is not ssd, y is tainted.
#[test]
fn two_constraints_with_policies_of_their_own() {
    let with =
        |key, affinity, taints| SpreadConstraint { honor_affinity: affinity, honor_taints: taints, ..hard(key, 1) };
    let pod = |spread| with_row(web(spread), |row| row.node_selector = labels(&[("disk", "ssd")]));
    let mut ledger = cluster("a1* b1 x2* y2*!");
    place(&mut ledger, "a x y", |_| ());
    // By zone 1/2 (1/1 where y does not count), by node 1/0/1/1 (b and y may not count).
    for (zone, host, want) in [
        ((true, false), (false, false), "S.SS"),
        ((true, true), (true, false), "...."),
        ((true, false), (true, false), "..SS"),
        ((true, true), (false, false), "S.SS"),
        ((false, false), (true, true), "..SS"),
    ] {
        let spread = vec![with(ZONE, zone.0, zone.1), with(HOST, host.0, host.1)];
        assert_eq!(verdicts(&ledger, pod(spread)), want, "zone {zone:?}, host {host:?}");
    }
}

#[test]
fn a_node_that_is_gone_does_not_count() {
    let mut ledger = cluster("a1 b2 c3");
    place(&mut ledger, "ab", |_| ());
    assert_eq!(verdicts(&ledger, web(vec![hard(ZONE, 1)])), "SS.");
    ledger.delete_node("c");
    assert_eq!(verdicts(&ledger, web(vec![hard(ZONE, 1)])), "..", "its zone went with it");
    ledger.delete_node("b");
    assert_eq!(verdicts(&ledger, web(vec![hard(ZONE, 1)])), ".", "b's pod is still there, its row as well");
}

#[test]
fn default_constraints() {
    let mut profile = CompiledProfile::default_preset("test");
    let mut ledger = cluster("a1 b2 c-");
    place(&mut ledger, "aab", |_| ());
    let list = vec![SpreadConstraint { selector: None, ..hard(ZONE, 1) }];
    profile.spread_defaults = SpreadDefaults::List(list);
    let verdicts = |ledger: &Ledger, shape| verdicts_with(&profile, ledger, shape, &[]);
    let service =
        |app| Service { namespace: "default".into(), name: "s".into(), selector: Some(labels(&[("app", app)])) };
    assert_eq!(verdicts(&ledger, web(vec![])), "...", "no Service, no constraint");
    ledger.apply_service(service("db"));
    assert_eq!(verdicts(&ledger, web(vec![])), "...", "a Service of others");
    ledger.apply_service(service("web"));
    assert_eq!(verdicts(&ledger, web(vec![])), "S.L");
    assert_eq!(verdicts(&ledger, web(vec![hard(HOST, 1)])), "SS.", "a pod with constraints of its own");
    assert_eq!(verdicts(&ledger, web(vec![constraint(ZONE, 1, false, "web")])), "...", "soft ones are its own too");
    let system = CompiledProfile::default_preset("test");
    assert_eq!(verdicts_with(&system, &ledger, web(vec![]), &[]), "...", "upstream's defaults are soft");
}

#[test]
fn nominated_pods_count_and_may_raise_the_emptiest_domain() {
    let overlay = |pods: Vec<Pod>| Overlay::of(pods.into_iter().map(Arc::new), []);
    let profile = CompiledProfile::default_preset("test");
    let one = || pod("nominated", web(Vec::new()));
    let mut ledger = cluster("a1 b1 x2 y2");
    place(&mut ledger, "a b", |_| ());
    let spread = || web(vec![hard(ZONE, 2)]);
    assert_eq!(verdicts(&ledger, spread()), "SS..", "2 and 0");
    let on = |name: &str, pods: Vec<Pod>, shape: PodShape| {
        verdicts_with(&profile, &ledger, shape, &[(name, &overlay(pods))])
    };
    assert_eq!(on("x", vec![one()], spread()), "SS..", "2 and 1");
    assert_eq!(on("x", vec![one(), one(), one()], spread()), "SS..", "2 and 3: the emptiest is the other one now");
    assert_eq!(on("x", vec![one(), one(), one()], web(vec![hard(ZONE, 1)])), "SSS.");
    assert_eq!(on("x", vec![one(), one(), one()], web(vec![hard(ZONE, 3)])), "....");
    let mut other = web(Vec::new());
    other.namespace = "other".into();
    assert_eq!(on("x", vec![pod("p", other); 3], spread()), "SS..", "of another namespace");
    let db = PodShape { labels: labels(&[("app", "db")]), ..web(Vec::new()) };
    assert_eq!(on("x", vec![pod("p", db); 3], spread()), "SS..", "not alike");
    let terminating = vec![Pod { deleting: true, ..one() }; 3];
    assert_eq!(on("x", terminating, web(vec![hard(ZONE, 1)])), "SSS.", "deletion is not looked at here");
    let everything = SpreadConstraint { selector: Some(LabelSelector::default()), ..hard(HOST, 2) };
    assert_eq!(on("x", vec![one(); 2], web(vec![everything])), "..S.", "all match where none is counted");
    let ssd = with_row(spread(), |row| row.node_selector = labels(&[("disk", "ssd")]));
    assert_eq!(on("x", vec![one(); 3], ssd), "....", "a node that does not count has no pods to add");
}

/// With one domain only, raising it raises the emptiest.
#[test]
fn nominated_pods_count_in_the_only_domain() {
    let ledger = cluster("a1 b1");
    let added = (0..5).map(|_| Arc::new(pod("nominated", web(Vec::new()))));
    let overlay = Overlay::of(added, []);
    let profile = CompiledProfile::default_preset("test");
    let on = [("a", &overlay)];
    assert_eq!(verdicts_with(&profile, &ledger, web(vec![hard(ZONE, 1)]), &on), "..");
    let two = SpreadConstraint { min_domains: 2, ..hard(ZONE, 1) };
    assert_eq!(verdicts_with(&profile, &ledger, web(vec![two]), &on), "S.");
}
