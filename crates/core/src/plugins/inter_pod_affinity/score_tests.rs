//! The situations of upstream's `interpodaffinity/scoring_test.go`, and those of our own.

use super::Tables;
use super::testing::{Asks, cluster, labelled, nodes_of, profile, score, term, term_in};
use crate::ledger::Ledger;
use crate::plugins::PluginContext;
use crate::profile::InterPodAffinityArgs;
use std::sync::Arc;

type Nodes = Vec<(&'static str, &'static str)>;
type PlacedPod = Vec<(&'static str, Asks)>;
/// One situation: nodes, placed pods, the pod, and each node's score; nothing where PreScore skips.
type Case = (&'static str, Nodes, PlacedPod, Asks, Option<Vec<i64>>);

fn scores(ledger: &Ledger, asks: &Asks, args: InterPodAffinityArgs) -> Option<Vec<i64>> {
    let mut profile = profile();
    profile.inter_pod_affinity = args;
    let cx = PluginContext { profile: &profile, ledger };
    score(&mut Tables::default(), cx, &Arc::new(asks.0.clone()), &nodes_of(ledger))
}

fn check(cases: Vec<Case>) {
    for (name, nodes, placed, asks, expected) in cases {
        let got = scores(&cluster(&nodes, &placed), &asks, InterPodAffinityArgs::default());
        assert_eq!(got, expected, "{name}");
    }
}

fn s1() -> Asks {
    labelled("security=s1")
}

fn s2() -> Asks {
    labelled("security=s2")
}

fn with_s1(asks: Asks) -> Asks {
    asks.rather(5, term("region", "security=s1"))
}

fn with_s2(asks: Asks) -> Asks {
    asks.rather(6, term("region", "security=s2"))
}

fn not_s1(asks: Asks) -> Asks {
    asks.rather(-5, term("az", "security=s1"))
}

fn not_s2(asks: Asks) -> Asks {
    asks.rather(-5, term("az", "security=s2"))
}

fn both(asks: Asks) -> Asks {
    not_s2(asks.rather(8, term("region", "security=s1")))
}

fn three() -> Nodes {
    vec![("n1", "region=china"), ("n2", "region=india"), ("n3", "az=az1")]
}

fn two() -> Nodes {
    vec![("n1", "az=az1"), ("n2", "region=china")]
}

#[test]
fn preferred_affinity() {
    let regions = vec![
        ("n1", "region=china"),
        ("n2", "region=india"),
        ("n3", "region=china"),
        ("n4", "region=china"),
        ("n5", "region=india"),
    ];
    let crowd = ["n1", "n1", "n2", "n3", "n4", "n5"].map(|node| (node, s2())).to_vec();
    let operators = |asks: Asks| {
        asks.rather(8, term("region", "security!=s1 security=s2")).rather(2, term("region", "security !wrong"))
    };
    let spread_out = || vec![("n1", s1()), ("n2", s2()), ("n3", s1())];
    check(vec![
        ("nobody asks", three(), vec![], s1(), None),
        ("by domain and by match", three(), spread_out(), with_s1(s1()), Some(vec![100, 0, 0])),
        (
            "a whole domain",
            vec![("n1", "region=china"), ("n2", "region=china az=az1"), ("n3", "region=india")],
            vec![("n1", s1())],
            with_s1(labelled("")),
            Some(vec![100, 100, 0]),
        ),
        ("more pods score more", regions, crowd, with_s2(s1()), Some(vec![100, 0, 100, 100, 0])),
        ("several operators", three(), spread_out(), operators(s1()), Some(vec![20, 100, 0])),
        ("no nodes to score", vec![], vec![], s2(), None),
        ("nobody is meant", three(), vec![("n1", s2())], with_s1(s1()), None),
        ("whoever is meant is on a node without the key", three(), vec![("n3", s1())], with_s1(s1()), None),
    ]);
}

#[test]
fn preferred_anti_affinity() {
    check(vec![
        ("who is there", two(), vec![("n1", s1()), ("n2", s2())], not_s1(s1()), Some(vec![0, 100])),
        ("a node without the key", two(), vec![("n1", s1()), ("n2", s1())], not_s1(s1()), Some(vec![0, 100])),
        (
            "more pods score less",
            vec![("n1", "az=az1"), ("n2", "region=india")],
            vec![("n1", s1()), ("n1", s1()), ("n2", s2())],
            not_s1(s1()),
            Some(vec![0, 100]),
        ),
        (
            "of placed pods",
            vec![("n1", "az=az1"), ("n2", "az=az2")],
            vec![("n1", not_s2(s1())), ("n2", not_s1(s2()))],
            s2(),
            Some(vec![0, 100]),
        ),
    ]);
}

#[test]
fn terms_of_placed_pods() {
    let hard = |asks: Asks| asks.near(term("region", "security=s1|v")).near(term("region", "security !wrong"));
    let teams = |weight: i32| {
        let scope = term_in(&["sub2.team2"], Some("team=1"), "region", "security=s1");
        s1().rather(weight, scope)
    };
    let in_team = || s1().of("sub1.team1");
    check(vec![
        ("preferred", three(), vec![("n1", with_s1(s1())), ("n2", with_s2(s2()))], s2(), Some(vec![0, 100, 0])),
        ("required", three(), vec![("n1", hard(s1())), ("n2", hard(s2()))], s1(), Some(vec![100, 100, 0])),
        (
            "by namespace label",
            three(),
            vec![("n1", teams(5)), ("n2", with_s2(s1()))],
            in_team(),
            Some(vec![100, 0, 0]),
        ),
        (
            "away by namespace label",
            three(),
            vec![("n1", teams(-5)), ("n2", with_s2(s1()))],
            in_team(),
            Some(vec![0, 100, 100]),
        ),
        (
            "nodes of a domain without such pods",
            vec![("n1", "region=china"), ("n2", "region=china")],
            vec![("n1", s1()), ("n2", both(labelled("")))],
            s1(),
            Some(vec![0, 0]),
        ),
    ]);
}

#[test]
fn both_ways_at_once() {
    let five = || {
        vec![
            ("n1", "region=china az=az1"),
            ("n2", "region=india"),
            ("n3", "region=china"),
            ("n4", "region=china"),
            ("n5", "region=india"),
        ]
    };
    let brothers = ["n1", "n1", "n2", "n3", "n3", "n4", "n5"].map(|node| (node, s1())).to_vec();
    check(vec![
        (
            "its own",
            vec![("n1", "region=china"), ("n2", "az=az1")],
            vec![("n1", s1()), ("n2", s1())],
            both(s1()),
            Some(vec![100, 0]),
        ),
        ("brothers", five(), brothers, both(s1()), Some(vec![100, 0, 100, 100, 0])),
        (
            "its own and those of placed pods",
            vec![("n1", "region=china"), ("n2", "az=az1"), ("n3", "region=india"), ("n4", "az=az2")],
            vec![("n1", s1()), ("n2", s2()), ("n3", both(labelled(""))), ("n4", not_s1(labelled("")))],
            both(s1()),
            Some(vec![100, 0, 100, 0]),
        ),
        (
            "terms that cancel out are something found",
            vec![("n1", "zone=a"), ("n2", "zone=b")],
            vec![("n1", s1())],
            labelled("").rather(5, term("zone", "security")).rather(-5, term("zone", "security")),
            Some(vec![0, 0]),
        ),
        (
            "the worked vector",
            vec![("n1", "zone=a"), ("n2", "zone=b"), ("n3", "zone=c")],
            vec![("n1", s1()), ("n2", s2())],
            labelled("").rather(30, term("zone", "security=s1")).rather(-20, term("zone", "security=s2")),
            Some(vec![100, 0, 40]),
        ),
    ]);
}

#[test]
fn own_terms_by_namespace_label() {
    let regions = || vec![("n1", "region=china"), ("n2", "region=india")];
    let teams = |weight: i32| {
        s1().of("sub1.team1").rather(weight, term_in(&["sub2.team2"], Some("team=1"), "region", "security=s1"))
    };
    let placed = |third: &str| {
        vec![
            ("n1", s1().of("sub1.team1")),
            ("n1", s1().of("sub1.team1")),
            ("n1", s1().of(third)),
            ("n2", s1().of("sub2.team1")),
        ]
    };
    for third in ["sub1.team2", "sub2.team2"] {
        check(vec![
            ("near", regions(), placed(third), teams(5), Some(vec![100, 0])),
            ("away", regions(), placed(third), teams(-5), Some(vec![0, 100])),
        ]);
    }
}

#[test]
fn preferences_of_placed_pods_can_be_ignored() {
    let ledger = cluster(&three()[..2], &[("n1", both(s1())), ("n2", with_s2(s2()))]);
    let args =
        |ignore| InterPodAffinityArgs { ignore_preferred_of_existing: ignore, ..InterPodAffinityArgs::default() };
    assert_eq!(scores(&ledger, &s2(), args(true)), None);
    assert_eq!(scores(&ledger, &s2(), args(false)), Some(vec![0, 100]));
    // A pod with preferences of its own gets those of placed pods as well.
    let asking = || s2().rather(1, term("region", "security=s1"));
    assert_eq!(scores(&ledger, &asking(), args(true)), Some(vec![0, 100]));
    assert_eq!(scores(&ledger, &asking(), args(false)), Some(vec![0, 100]));
}

#[test]
fn the_weight_of_required_terms() {
    let scope = || term_in(&["default", "sub2.team2"], Some("team=1"), "region", "service=s1");
    let placed = [("n1", labelled("").near(scope())), ("n2", labelled("").near(scope()))];
    let ledger = cluster(&three(), &placed);
    let with = |weight: i64, namespace: &str| {
        let args = InterPodAffinityArgs { hard_weight: weight, ..InterPodAffinityArgs::default() };
        scores(&ledger, &labelled("service=s1").of(namespace), args)
    };
    for namespace in ["default", "sub1.team1", "sub2.team2"] {
        assert_eq!(with(1, namespace), Some(vec![100, 100, 0]), "{namespace}");
        assert_eq!(with(0, namespace), None, "{namespace}");
    }
    assert_eq!(with(1, "sub1.team2"), None);
}

#[test]
fn only_the_feasible_nodes_are_stretched_over_the_scale() {
    let nodes = vec![("n1", "zone=a"), ("n2", "zone=b"), ("n3", "zone=c")];
    let ledger = cluster(&nodes, &[("n1", s1()), ("n1", s1()), ("n2", s1())]);
    let asks = Arc::new(labelled("").rather(3, term("zone", "security")).0);
    let cx = PluginContext { profile: &profile(), ledger: &ledger };
    let nodes = nodes_of(&ledger);
    assert_eq!(score(&mut Tables::default(), cx, &asks, &nodes), Some(vec![100, 50, 0]));
    assert_eq!(score(&mut Tables::default(), cx, &asks, &nodes[1..]), Some(vec![100, 0]));
}
