//! What the terms of placed pods may cost.

use super::Tables;
use super::testing::{
    Asks, Says, cluster, filter, labelled, labels, nodes_of, profile, score, selector, term, term_in,
};
use crate::ledger::Ledger;
use crate::limits::AFFINITY_TABLES_BYTES;
use crate::model::{AffinityTerm, Namespace, Pod};
use crate::plugins::context::Stop;
use crate::plugins::{Overlay, PluginContext, ResolvedPod, Work};
use crate::testing::node;
use std::sync::Arc;

/// More terms than a pending pod may have.
const TERMS: usize = 2_000;

/// A term that means every pod of the namespace.
fn everybody(key: &str) -> AffinityTerm {
    term(key, "")
}

/// Two nodes, and a pod on the first with these anti-affinity terms and as many preferred ones.
fn with_placed(terms: impl Fn(usize) -> AffinityTerm) -> Ledger {
    let mut hostile = labelled("app=hostile");
    for i in 0..TERMS {
        hostile = hostile.away(terms(i)).rather(1, terms(i));
    }
    cluster(&[("n1", "zone=a host=n1"), ("n2", "zone=b host=n2")], &[("n1", hostile)])
}

fn prepare(tables: &mut Tables, ledger: &Ledger, asks: &Asks, work: &mut Work) -> Result<bool, Stop> {
    let (profile, shape) = (profile(), Arc::new(asks.0.clone()));
    let resolved = ResolvedPod::new(&profile, ledger, &shape);
    tables.prepare(PluginContext { profile: &profile, ledger }, &resolved, work).map(|hard| hard.is_some())
}

fn spent(tables: &mut Tables, ledger: &Ledger, asks: &Asks) -> usize {
    let mut work = Work::unbounded();
    prepare(tables, ledger, asks, &mut work).expect("nothing stops");
    work.done()
}

fn keys(tables: &Tables) -> usize {
    tables.counts.values().map(super::domain_counts::DomainCounts::keys).sum()
}

#[test]
fn terms_whose_key_no_node_has_cost_other_pods_nothing() {
    let ledger = with_placed(|i| everybody(&format!("invented-{i}")));
    let (mut tables, web) = (Tables::default(), labelled("app=web"));
    assert_eq!(spent(&mut tables, &ledger, &web), 0);
    let (profile, nodes) = (profile(), nodes_of(&ledger));
    let cx = PluginContext { profile: &profile, ledger: &ledger };
    assert_eq!(score(&mut tables, cx, &Arc::new(web.0), &nodes), None);
    assert_eq!(tables.counts.values().count(), 0, "no table is made");
}

#[test]
fn terms_whose_key_no_node_has_cost_nothing_beside_others() {
    let ledger = with_placed(|i| everybody(&if i == 0 { "zone".to_owned() } else { format!("invented-{i}") }));
    let (mut tables, web) = (Tables::default(), labelled("app=web"));
    assert_eq!(spent(&mut tables, &ledger, &web), 1, "one term is looked at");
    assert_eq!(keys(&tables), 1);
}

#[test]
fn a_key_counts_from_when_a_node_has_it_and_no_longer_than_that() {
    let mut ledger = with_placed(|i| everybody(&format!("invented-{i}")));
    ledger.apply_pod(Pod { node_name: Some("n2".into()), ..labelled("").away(everybody("zone")).named("real") });
    let (mut tables, profile, web) = (Tables::default(), profile(), Arc::new(labelled("app=web").0));
    let mut says = |ledger: &Ledger| {
        let cx = PluginContext { profile: &profile, ledger };
        let kept = filter(&mut tables, cx, &web, &nodes_of(ledger), Overlay::none());
        assert_eq!(kept, filter(&mut Tables::default(), cx, &web, &nodes_of(ledger), Overlay::none()));
        (kept.expect("a term is live"), keys(&tables))
    };
    let relabel = |ledger: &mut Ledger, text: &str| {
        let mut object = node("n1", 1000, 0, 100);
        object.labels = labels(text);
        ledger.apply_node(&object);
    };
    assert_eq!(says(&ledger), (vec![Says::Fits, Says::Existing], 1));
    relabel(&mut ledger, "zone=a host=n1 invented-7=x");
    assert_eq!(says(&ledger), (vec![Says::Existing, Says::Existing], 2));
    relabel(&mut ledger, "zone=a host=n1");
    assert_eq!(says(&ledger), (vec![Says::Fits, Says::Existing], 1));
    relabel(&mut ledger, "zone=b host=n1");
    assert_eq!(says(&ledger).0, [Says::Existing, Says::Existing]);
}

#[test]
fn many_terms_of_one_real_key_are_counted_as_work() {
    let ledger = with_placed(|i| AffinityTerm { selector: Some(selector(&format!("!k{i}"))), ..everybody("host") });
    let (mut tables, web) = (Tables::default(), labelled("app=web"));
    assert!(spent(&mut tables, &ledger, &web) >= TERMS);
    assert_eq!(keys(&tables), 1);
}

/// Terms of placed pods, and then the pods that a pod's own terms match: each look does a part, and the last says what one says.
#[test]
fn counts_from_nothing_are_made_in_parts() {
    let mut ledger = with_placed(|i| AffinityTerm { selector: Some(selector(&format!("!k{i}"))), ..everybody("host") });
    for i in 0..TERMS {
        ledger.apply_pod(Pod { node_name: Some("n2".into()), ..labelled(&format!("i={i}")).named(&format!("p{i}")) });
    }
    let (web, part) = (labelled("app=web").away(term("zone", "i")), 100);
    let (mut tables, mut looks) = (Tables::default(), 0);
    loop {
        let mut work = Work::of(part);
        let prepared = prepare(&mut tables, &ledger, &web, &mut work);
        looks += 1;
        let last = prepared.is_ok();
        assert!(work.done() < if last { TERMS } else { part + 10 }, "{} in look {looks}", work.done());
        if last {
            break;
        }
        // What comes and goes meanwhile counts, too.
        let name = format!("meanwhile-{}", looks % 7);
        ledger.delete_pod(&name);
        ledger.apply_pod(Pod { node_name: Some("n1".into()), ..labelled(&format!("i={looks}")).named(&name) });
    }
    assert!((50..80).contains(&looks), "{looks}");
    let profile = profile();
    let cx = PluginContext { profile: &profile, ledger: &ledger };
    let shape = Arc::new(web.0);
    let fresh = filter(&mut Tables::default(), cx, &shape, &nodes_of(&ledger), Overlay::none());
    assert_eq!(filter(&mut tables, cx, &shape, &nodes_of(&ledger), Overlay::none()), fresh);
}

/// What was compared for a count that was given up is not used once a namespace or a domain is another.
#[test]
fn a_count_that_was_given_up_begins_anew_where_namespaces_or_domains_change() {
    for change in ["namespace", "domain"] {
        let mut ledger = cluster(&[("n1", "zone=a host=n1"), ("n2", "zone=b host=n2")], &[]);
        for i in 0..TERMS {
            let one = labelled(&format!("i={i}")).of("sub2.team1").named(&format!("p{i}"));
            ledger.apply_pod(Pod { node_name: Some("n2".into()), ..one });
        }
        let asks = labelled("app=web").away(term_in(&[], Some("team=1"), "zone", "i"));
        let (mut tables, mut looks) = (Tables::default(), 0);
        while prepare(&mut tables, &ledger, &asks, &mut Work::of(100)).is_err() {
            looks += 1;
            assert!(looks < 200, "{change}: no look gets any further");
            match (looks, change) {
                (10, "namespace") => {
                    ledger.apply_namespace(Namespace { name: "sub2.team1".into(), labels: labels("team=2") });
                }
                (10, _) => {
                    let mut object = node("n2", 1000, 0, 100);
                    object.labels = labels("zone=a host=n2");
                    ledger.apply_node(&object);
                }
                _ => {}
            }
        }
        assert!(looks > 10, "{change}: {looks}");
        let profile = profile();
        let cx = PluginContext { profile: &profile, ledger: &ledger };
        let shape = Arc::new(asks.0);
        let says = filter(&mut tables, cx, &shape, &nodes_of(&ledger), Overlay::none());
        let each = if change == "namespace" { Says::Fits } else { Says::Anti };
        assert_eq!(says, Some(vec![each, each]), "{change}");
    }
}

#[test]
fn long_selectors_are_counted_as_work() {
    let long: Vec<String> = (0..64).map(|i| format!("!k{i}")).collect();
    let long = || AffinityTerm { selector: Some(selector(&long.join(" "))), ..everybody("host") };
    let mut ledger = with_placed(|i| if i == 0 { long() } else { everybody(&format!("invented-{i}")) });
    let web = labelled("app=web");
    assert!(spent(&mut Tables::default(), &ledger, &web) > 64 / 4, "a term of a placed pod");
    let asks = web.away(long());
    let mut tables = Tables::default();
    spent(&mut tables, &ledger, &asks);
    ledger.apply_pod(Pod { node_name: Some("n2".into()), ..labelled("app=more").named("more") });
    let more = spent(&mut tables, &ledger, &asks);
    assert!(more > 64 / 4, "a pod that comes, and a term of the pod that asks: {more}");
}

/// Each pod that comes with many terms is looked at once by each query that follows the log.
#[test]
fn terms_of_pods_that_come_and_go_are_counted_as_work() {
    let mut ledger = with_placed(|_| everybody("zone"));
    let (mut tables, web) = (Tables::default(), labelled("app=web"));
    spent(&mut tables, &ledger, &web);
    let mut more = labelled("app=more");
    for i in 0..TERMS {
        more = more.away(everybody(&format!("invented-{i}")));
    }
    ledger.apply_pod(Pod { node_name: Some("n2".into()), ..more.named("more") });
    let work = spent(&mut tables, &ledger, &web);
    assert!((TERMS..2 * TERMS).contains(&work), "{work}");
    ledger.apply_pod(Pod { node_name: Some("n2".into()), ..more.named("again") });
    let work = spent(&mut tables, &ledger, &web);
    assert!(work < 10, "{work}: its match class is known");
}

#[test]
fn more_keys_than_any_cluster_has_drop_no_tables() {
    let keyed: Vec<String> = (0..600).map(|i| format!("k{i}")).collect();
    let mut ledger = Ledger::new();
    for name in ["n1", "n2"] {
        let mut object = node(name, 1000, 0, 100);
        object.labels = keyed.iter().map(|key| (key.as_str(), name)).collect();
        ledger.apply_node(&object);
    }
    let mut hostile = labelled("app=hostile");
    for key in &keyed {
        hostile = hostile.away(everybody(key));
    }
    ledger.apply_pod(Pod { node_name: Some("n1".into()), ..hostile.named("hostile") });
    let (mut tables, web) = (Tables::default(), labelled("app=web"));
    assert!(spent(&mut tables, &ledger, &web) >= keyed.len());
    assert_eq!(keys(&tables), keyed.len());
    assert_eq!(spent(&mut tables, &ledger, &web), 0, "all of it is kept for the next attempt");
}

#[test]
fn tables_of_many_queries_take_a_bounded_number_of_bytes() {
    let nodes: Vec<(String, String)> = (0..500).map(|i| (format!("n{i}"), format!("host=n{i}"))).collect();
    let nodes: Vec<(&str, &str)> = nodes.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let mut ledger = cluster(&nodes, &[]);
    let hostile = labelled("").away(everybody("host"));
    ledger.apply_pod(Pod { node_name: Some("n499".into()), ..hostile.named("hostile") });
    let mut tables = Tables::default();
    let largest = 1 << 20;
    for i in 0..100 {
        let long = "x".repeat(largest / 2);
        let asks = labelled(&format!("turn={i}{long}"));
        prepare(&mut tables, &ledger, &asks, &mut Work::unbounded()).expect("nothing stops");
        assert!(tables.counts.bytes() <= AFFINITY_TABLES_BYTES + largest, "{} bytes", tables.counts.bytes());
    }
    assert!(tables.counts.values().count() > 16, "they went one by one");
}
