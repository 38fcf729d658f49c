//! The situations of upstream's `interpodaffinity/filtering_test.go`, and those of our own.

use super::Tables;
use super::testing::{Asks, Says, cluster, filter, labelled, labels, nodes_of, profile, term, term_in, verdicts};
use crate::model::{Namespace, Pod};
use crate::plugins::Overlay;
use crate::plugins::Plugin;
use crate::plugins::PluginContext;
use Says::{Affinity, Anti, Existing, Fits};
use std::sync::Arc;

/// One situation: nodes, placed pods, the pod, and what is said of each node; nothing where PreFilter skips.
type Case = (&'static str, Vec<(&'static str, &'static str)>, Vec<(&'static str, Asks)>, Asks, Option<Vec<Says>>);

fn check(cases: Vec<Case>) {
    for (name, nodes, placed, asks, expected) in cases {
        assert_eq!(verdicts(&cluster(&nodes, &placed), &asks), expected, "{name}");
    }
}

fn one() -> Vec<(&'static str, &'static str)> {
    vec![("n1", "region=r1 zone=z11")]
}

fn scan() -> Asks {
    labelled("service=scan")
}

fn s1() -> Asks {
    labelled("security=s1")
}

#[test]
fn affinity_on_one_node() {
    let bare = || labelled("");
    let both = || vec![term("region", "service !wrong"), term("region", "service=scan service!=wrong")];
    let of = |terms: Vec<_>| terms.into_iter().fold(s1(), Asks::near);
    check(vec![
        ("nothing asked, nobody there", one(), vec![], bare(), None),
        ("In", one(), vec![("n1", scan())], s1().near(term("region", "service=scan|v")), Some(vec![Fits])),
        ("NotIn", one(), vec![("n1", scan())], s1().near(term("region", "service!=a|b")), Some(vec![Fits])),
        (
            "another namespace",
            one(),
            vec![("n1", scan().of("ns"))],
            s1().near(term_in(&["other"], None, "region", "service=scan")),
            Some(vec![Affinity]),
        ),
        ("no match", one(), vec![("n1", scan())], scan().near(term("region", "service=virus")), Some(vec![Affinity])),
        ("an empty topology key", one(), vec![("n1", scan())], s1().near(term("", "service")), Some(vec![Affinity])),
        ("several operators in several terms", one(), vec![("n1", scan())], of(both()), Some(vec![Fits])),
        (
            "requirements are all needed",
            one(),
            vec![("n1", scan())],
            of(vec![both().remove(0), term("region", "service=other service!=wrong")]),
            Some(vec![Affinity]),
        ),
        (
            "its own label is no company while someone else's is nowhere",
            one(),
            vec![("elsewhere", scan())],
            scan().near(term("region", "service!=scan|v")),
            Some(vec![Affinity]),
        ),
        ("no selector means nobody", one(), vec![("n1", scan())], nobody(true), Some(vec![Affinity])),
    ]);
}

fn nobody(near: bool) -> Asks {
    let mut none = term("region", "");
    none.selector = None;
    if near { scan().near(none) } else { scan().away(none) }
}

#[test]
fn affinity_and_anti_affinity_on_one_node() {
    let near = || s1().near(term("region", "service=scan|v"));
    let virus = || scan().away(term("node", "service=virus|v"));
    let exists = |label: &str, key: &str| term(key, label);
    check(vec![
        ("both met", one(), vec![("n1", scan())], near().away(term("node", "service=virus")), Some(vec![Fits])),
        (
            "and those of the placed pod",
            one(),
            vec![("n1", virus())],
            near().away(term("node", "service=virus")),
            Some(vec![Fits]),
        ),
        (
            "anti-affinity not met",
            one(),
            vec![("n1", scan())],
            near().away(term("zone", "service=scan")),
            Some(vec![Anti]),
        ),
        (
            "the placed pod's not met",
            one(),
            vec![("n1", scan().away(term("zone", "service=scan|v")))],
            scan().near(term("region", "service=scan")).away(term("node", "service=virus")),
            Some(vec![Existing]),
        ),
        (
            "the placed pod's, of a pod that asks nothing",
            one(),
            vec![("n1", scan().away(term("zone", "service=scan")))],
            scan(),
            Some(vec![Existing]),
        ),
        (
            "the placed pod's does not mean it",
            one(),
            vec![("n1", scan().away(term("zone", "service!=scan")))],
            scan(),
            None,
        ),
        (
            "either way",
            one(),
            vec![("n1", s1().away(exists("security", "zone")))],
            scan().away(exists("service", "region")).away(exists("security", "region")),
            Some(vec![Anti]),
        ),
        (
            "partly a1",
            one(),
            vec![("n1", s1().away(exists("security", "zone")))],
            scan().away(exists("service", "zone")).away(exists("security", "zone")),
            Some(vec![Anti]),
        ),
        (
            "partly a2",
            one(),
            vec![("n1", scan().away(exists("service", "zone")).away(exists("security", "zone")))],
            s1().away(exists("security", "zone")),
            Some(vec![Existing]),
        ),
        (
            "partly b",
            one(),
            vec![("n1", labelled("def xyz").away(exists("abc", "zone")).away(exists("def", "zone")))],
            labelled("abc xyz").away(exists("abc", "zone")).away(exists("def", "zone")),
            Some(vec![Anti]),
        ),
        ("no selector closes nothing", one(), vec![("n1", scan())], nobody(false), Some(vec![Fits])),
    ]);
}

#[test]
fn namespaces_by_label() {
    let of_team = |team: &str| term_in(&[], Some(team), "zone", "service=scan|v");
    let there = |namespace: &str| vec![("n1", scan().of(namespace))];
    let in_team = || s1().of("sub1.team1");
    check(vec![
        ("affinity, matching", one(), there("sub1.team1"), s1().near(of_team("team=1")), Some(vec![Fits])),
        ("affinity, not matching", one(), there("sub1.team2"), s1().near(of_team("team=1")), Some(vec![Affinity])),
        ("anti-affinity, matching", one(), there("sub2.team1"), in_team().away(of_team("team=1")), Some(vec![Anti])),
        ("anti-affinity, all", one(), there("sub2.team1"), in_team().away(of_team("")), Some(vec![Anti])),
        (
            "anti-affinity, not matching",
            one(),
            there("sub1.team2"),
            in_team().away(of_team("team=1")),
            Some(vec![Fits]),
        ),
        (
            "names and labels add up",
            one(),
            there("sub1.team2"),
            s1().away(term_in(&["sub1.team2"], Some("team=1"), "zone", "service")),
            Some(vec![Anti]),
        ),
        (
            "a placed pod's, matching",
            one(),
            vec![("n1", s1().of("x").away(of_team("team=2")))],
            scan().of("sub2.team2"),
            Some(vec![Existing]),
        ),
        (
            "a placed pod's, not matching",
            one(),
            vec![("n1", s1().of("x").away(of_team("team=2")))],
            scan().of("sub2.team1"),
            None,
        ),
        (
            "a namespace nobody knows has no labels",
            one(),
            vec![("n1", s1().of("x").away(of_team("!team")))],
            scan().of("gone"),
            Some(vec![Existing]),
        ),
    ]);
}

/// Upstream looks at a placed pod's namespace as if it had no labels here, and so would take team 1 for meant.
#[test]
fn a_namespace_selector_without_a_match_selects_nothing() {
    let outside = term_in(&[], Some("team!=1"), "zone", "service=scan");
    let there = |namespace: &str| vec![("n1", scan().of(namespace))];
    check(vec![
        ("anti-affinity, of team 1", one(), there("sub1.team1"), s1().away(outside.clone()), Some(vec![Fits])),
        ("anti-affinity, of team 2", one(), there("sub1.team2"), s1().away(outside.clone()), Some(vec![Anti])),
        ("anti-affinity, of nobody knows whom", one(), there("gone"), s1().away(outside.clone()), Some(vec![Anti])),
        ("affinity, of team 1", one(), there("sub1.team1"), s1().near(outside.clone()), Some(vec![Affinity])),
        ("affinity, of team 2", one(), there("sub1.team2"), s1().near(outside.clone()), Some(vec![Fits])),
        (
            "the first of its kind, in team 1",
            one(),
            vec![],
            scan().of("sub1.team1").near(outside.clone()),
            Some(vec![Affinity]),
        ),
        ("the first of its kind, in team 2", one(), vec![], scan().of("sub1.team2").near(outside), Some(vec![Fits])),
    ]);
}

#[test]
fn affinity_on_several_nodes() {
    let regions = || vec![("n1", "region=china"), ("n2", "region=china az=az1"), ("n3", "region=india")];
    let zones = || vec![("a", "zone=z1 host=a"), ("b", "zone=z2 host=b")];
    let series = || labelled("foo=bar service=scan").near(term("zone", "foo=bar")).near(term("zone", "service=scan"));
    let pair = || labelled("").near(term("region", "foo")).near(term("zone", "bar"));
    check(vec![
        (
            "a whole domain",
            regions(),
            vec![("n1", labelled("foo=bar"))],
            labelled("").near(term("region", "foo=bar")),
            Some(vec![Fits, Fits, Affinity]),
        ),
        ("the first of a series", zones(), vec![("a", labelled("foo=bar"))], series(), Some(vec![Fits, Fits])),
        (
            "the first of a series needs the keys",
            vec![("a", "zonelabel=z1"), ("b", "zone=z2")],
            vec![("a", labelled("foo=bar"))],
            series(),
            Some(vec![Affinity, Fits]),
        ),
        (
            "the first of a series, where the other is on a node without the key",
            vec![("a", "host=a"), ("b", "zone=z2")],
            vec![("a", series())],
            series(),
            Some(vec![Affinity, Fits]),
        ),
        (
            "one pod for all terms",
            vec![("a", "region=r1 zone=z1"), ("b", "region=r1 zone=z1")],
            vec![("a", labelled("foo bar"))],
            pair(),
            Some(vec![Fits, Fits]),
        ),
        (
            "two pods with a term each are no company",
            vec![("a", "region=r1 zone=z1"), ("b", "region=r1 zone=z2")],
            vec![("a", labelled("foo")), ("b", labelled("bar"))],
            pair(),
            Some(vec![Affinity, Affinity]),
        ),
        (
            "every domain must have it",
            vec![("a", "region=r1 zone=z1"), ("b", "region=r1 zone=z2")],
            vec![("a", labelled("foo bar"))],
            pair(),
            Some(vec![Fits, Affinity]),
        ),
        (
            "a pod on a node that is not there",
            zones(),
            vec![("gone", labelled("foo=bar"))],
            labelled("").near(term("zone", "foo")),
            Some(vec![Affinity, Affinity]),
        ),
    ]);
}

#[test]
fn anti_affinity_on_several_nodes() {
    let regions = || vec![("a", "region=china"), ("b", "region=china az=az1"), ("c", "region=india")];
    let zones = || vec![("a", "region=r1 zone=z1"), ("b", "region=r1 zone=z2")];
    let abc = || labelled("foo=abc");
    let invalid = || term("no-such-label", "foo");
    check(vec![
        (
            "a whole domain",
            regions(),
            vec![("a", abc())],
            labelled("").away(term("region", "foo=abc")),
            Some(vec![Anti, Anti, Fits]),
        ),
        (
            "any term",
            zones(),
            vec![("a", labelled("foo=abc service=scan"))],
            labelled("").away(term("region", "foo=abc")).away(term("zone", "service=scan")),
            Some(vec![Anti, Anti]),
        ),
        (
            "another namespace's do not count",
            regions(),
            vec![
                ("a", labelled("foo=bar").of("ns1")),
                ("c", labelled("").of("ns2").away(term_in(&["ns2"], None, "region", "foo=123"))),
            ],
            labelled("foo=123").of("ns1").away(term_in(&["ns1"], None, "region", "foo=bar")),
            Some(vec![Anti, Anti, Fits]),
        ),
        (
            "a placed pod's key that no node has",
            zones(),
            vec![("a", labelled("").away(invalid()))],
            labelled("foo"),
            None,
        ),
        (
            "its own key that no node has",
            zones(),
            vec![("a", labelled("foo"))],
            labelled("").away(invalid()),
            Some(vec![Fits, Fits]),
        ),
    ]);
}

#[test]
fn several_terms_on_several_nodes() {
    let zones = || vec![("a", "region=r1 zone=z1"), ("b", "region=r1 zone=z2")];
    let invalid = || term("no-such-label", "foo");
    let both = || labelled("foo bar");
    check(vec![
        (
            "placed pods' terms on all nodes",
            zones(),
            vec![("a", labelled("").away(term("zone", "foo"))), ("a", labelled("").away(term("region", "bar")))],
            both(),
            Some(vec![Existing, Existing]),
        ),
        (
            "its own terms on all nodes",
            zones(),
            vec![("a", labelled("foo")), ("b", labelled("bar"))],
            labelled("").away(term("zone", "foo")).away(term("region", "bar")),
            Some(vec![Anti, Anti]),
        ),
        (
            "a placed pod's terms, one with a key that no node has",
            zones(),
            vec![("a", labelled("").away(invalid()).away(term("zone", "bar")))],
            both(),
            Some(vec![Existing, Fits]),
        ),
        (
            "its own terms, one with a key that no node has",
            zones(),
            vec![("a", both())],
            labelled("").away(invalid()).away(term("zone", "bar")),
            Some(vec![Anti, Fits]),
        ),
        (
            "a placed pod's terms, both good",
            zones(),
            vec![("a", labelled("").away(term("region", "foo")).away(term("zone", "bar")))],
            both(),
            Some(vec![Existing, Existing]),
        ),
        (
            "its own terms, both good",
            zones(),
            vec![("a", both())],
            labelled("").away(term("region", "foo")).away(term("zone", "bar")),
            Some(vec![Anti, Anti]),
        ),
        (
            "one term of each placed pod is enough",
            vec![("a", "zone=z1"), ("b", "zone=z2"), ("c", "zone=z3")],
            vec![
                ("a", labelled("").away(term("zone", "foo")).away(term("zone", "other"))),
                ("b", labelled("").away(term("zone", "bar")).away(term("zone", "other"))),
            ],
            both(),
            Some(vec![Existing, Existing, Fits]),
        ),
    ]);
}

#[test]
fn pods_that_are_being_deleted_still_count() {
    let mut ledger = cluster(&[("n1", "zone=a"), ("n2", "zone=b")], &[]);
    for (name, on, asks) in [("near", "n1", scan()), ("away", "n2", labelled("").away(term("zone", "security")))] {
        ledger.apply_pod(Pod { node_name: Some(on.into()), deleting: true, ..asks.named(name) });
    }
    assert_eq!(verdicts(&ledger, &scan().near(term("zone", "service"))), Some(vec![Fits, Affinity]));
    assert_eq!(verdicts(&ledger, &s1()), Some(vec![Fits, Existing]));
}

#[test]
fn pods_added_to_a_node_count_in_all_three_ways() {
    let nodes = [("n1", "zone=a"), ("n2", "other=b")];
    let with = |asks: &Asks, added: &[Asks]| {
        let ledger = cluster(&nodes, &[]);
        let added = added.iter().enumerate().map(|(i, asks)| Arc::new(asks.named(&format!("added-{i}"))));
        let overlay = Overlay::of(added, []);
        let cx = PluginContext { profile: &profile(), ledger: &ledger };
        filter(&mut Tables::default(), cx, &Arc::new(asks.0.clone()), &nodes_of(&ledger), &overlay)
    };
    let lonely = || s1().away(term("zone", "service"));
    let near = || s1().near(term("zone", "service"));
    assert_eq!(with(&near(), &[s1()]), Some(vec![Affinity, Affinity]));
    assert_eq!(with(&near(), &[scan()]), Some(vec![Fits, Affinity]));
    assert_eq!(with(&lonely(), &[s1()]), Some(vec![Fits, Fits]));
    assert_eq!(with(&lonely(), &[scan()]), Some(vec![Anti, Fits]));
    // The pod asks about someone, so PreFilter does not skip it, and what the added pod asks counts.
    let asking = || scan().away(term("zone", "nobody"));
    assert_eq!(with(&asking(), &[lonely()]), Some(vec![Existing, Fits]));
    // It asks nothing, and nobody placed asks anything of it: skipped, whoever is nominated to the node.
    assert_eq!(with(&scan(), &[lonely()]), None);
    // An added pod that all terms mean ends the right to be the first, but then it is there itself.
    let first = || scan().near(term("zone", "service"));
    assert_eq!(with(&first(), &[]), Some(vec![Fits, Affinity]));
    assert_eq!(with(&first(), &[scan()]), Some(vec![Fits, Affinity]));
}

#[test]
fn pods_added_do_not_open_or_close_other_domains() {
    let ledger = cluster(&[("n1", "zone=a")], &[("n1", scan())]);
    let cx = PluginContext { profile: &profile(), ledger: &ledger };
    let overlay = Overlay::of([Arc::new(s1().named("added"))], []);
    let verdict = |asks: Asks| filter(&mut Tables::default(), cx, &Arc::new(asks.0), &nodes_of(&ledger), &overlay);
    assert_eq!(verdict(s1().away(term("zone", "service"))), Some(vec![Anti]));
    assert_eq!(verdict(s1().near(term("zone", "service"))), Some(vec![Fits]));
}

#[test]
fn a_profile_without_the_filter_does_not_ask() {
    let ledger = cluster(&one(), &[("n1", scan())]);
    let mut without = profile();
    without.filters = without.filters.without(Plugin::InterPodAffinity);
    let cx = PluginContext { profile: &without, ledger: &ledger };
    let asks = Arc::new(s1().away(term("zone", "service")).0);
    assert_eq!(filter(&mut Tables::default(), cx, &asks, &nodes_of(&ledger), Overlay::none()), None);
}

/// One set of tables, from change to change of what it does not count on.
#[test]
fn namespaces_that_change_their_labels_are_followed() {
    let mut ledger = cluster(&one(), &[("n1", scan().of("sub1.team1"))]);
    let (mut tables, profile) = (Tables::default(), profile());
    let asks = Arc::new(s1().away(term_in(&[], Some("team=1"), "zone", "service")).0);
    let mut verdict = |ledger: &crate::ledger::Ledger| {
        let cx = PluginContext { profile: &profile, ledger };
        filter(&mut tables, cx, &asks, &nodes_of(ledger), Overlay::none())
    };
    assert_eq!(verdict(&ledger), Some(vec![Anti]));
    ledger.apply_namespace(Namespace { name: "sub1.team1".into(), labels: labels("team=2") });
    assert_eq!(verdict(&ledger), Some(vec![Fits]));
    ledger.apply_namespace(Namespace { name: "sub1.team1".into(), labels: labels("team=1 more=yes") });
    assert_eq!(verdict(&ledger), Some(vec![Anti]));
    ledger.delete_namespace("sub1.team1");
    assert_eq!(verdict(&ledger), Some(vec![Fits]));
}
