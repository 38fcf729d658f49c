//! Which pods that are placed, deleted or relabelled wake a pod that waits. The first table has the situations of upstream's
//! `interpodaffinity/plugin_test.go`.

use super::*;
use crate::cycle::Rng;
use crate::ledger::NodeAspects;
use crate::model::{Namespace, Pod, SpreadConstraint};
use crate::plugins::inter_pod_affinity::testing::{Asks, cluster, labelled, labels, selector, term, term_in};
use crate::testing::pod;

/// What was compared is known by the address of a shape.
fn of_shape(shape: &Arc<PodShape>) -> Pod {
    Pod { shape: shape.clone(), ..pod("waits", PodShape::default()) }
}

/// Whether, and by what, a pod is woken; what the kinds of changes tell by themselves must be the same.
fn woken_by(
    judge: &mut Judge<'_>,
    ledger: &Ledger,
    rejectors: PluginSet,
    since: u64,
    shape: &Arc<PodShape>,
) -> Option<QueueEvent> {
    let mut holds = 1;
    let pod = of_shape(shape);
    let woken = loop {
        match judge.compare(ledger, &mut Work::of_one_hold(), (rejectors, since), &pod) {
            Ok(woken) => break woken,
            Err(_) => holds += 1,
        }
    };
    assert!(holds <= 2 + HINT_WORK / WORK_PER_HOLD, "it comes to an end");
    match judge.by_kind(rejectors, since) {
        Helped::No => assert_eq!(woken, None),
        Helped::By(by) => assert_eq!(woken, Some(by)),
        Helped::Perhaps => {}
    }
    woken
}

/// Notes a change on a node of the profile, and tells the plugins.
fn note(hints: &mut Hints, version: u64, change: &Change) -> bool {
    let helps = hints.note(version, change, true);
    hints.settle();
    helps
}

/// Whether `before` turning into `after` wakes a pod that `plugin` refused; `None` is a pod that does not exist.
fn wakes(ledger: &Ledger, plugin: Plugin, waits: &Asks, before: Option<&Pod>, after: Option<&Pod>) -> bool {
    let match_class = |pod: &Pod| Arc::new(MatchClass::of(pod));
    let node = ledger.node_order()[0];
    let change = match (before.map(match_class), after.map(match_class)) {
        (None, Some(match_class)) => Change::PodPlaced { node, match_class },
        (Some(match_class), None) => Change::Freed { node, usage: Arc::default(), match_class },
        (Some(before), Some(after)) => Change::Regrouped { pod: "p".into(), node, before, after },
        (None, None) => panic!("nothing changes"),
    };
    let mut hints = Hints::default();
    assert!(note(&mut hints, 7, &change), "the table lets every movement through");
    let shape = Arc::new(waits.0.clone());
    let woken = woken_by(&mut hints.judge(), ledger, PluginSet::of(plugin), 6, &shape).is_some();
    assert!(
        woken_by(&mut hints.judge(), ledger, PluginSet::of(plugin), 7, &shape).is_none(),
        "it was seen by the attempt"
    );
    woken
}

fn one_node() -> Ledger {
    cluster(&[("n1", "zone=a region=r")], &[])
}

fn near(pods: &str) -> Asks {
    labelled("").near(term("region", pods))
}

fn away(pods: &str) -> Asks {
    labelled("").away(term("region", pods))
}

#[test]
fn a_movement_that_affinity_terms_match_wakes_the_pod() {
    let two = || near("aaa").near(term("region", "bbb"));
    let loner = || labelled("service=foo").away(term("region", "service=scan|v"));
    let rows = vec![
        ("one comes that matches", near("service=scan|v"), None, Some(labelled("service=scan")), true),
        ("one comes that does not match", near("service=scan|v"), None, Some(labelled("aaa=a")), false),
        ("one begins to match", near("service=scan|v"), Some(labelled("aaa=a")), Some(labelled("service=scan")), true),
        (
            "one goes on matching",
            near("service=scan|v"),
            Some(labelled("service=v")),
            Some(labelled("service=scan")),
            false,
        ),
        ("one stops matching", near("service=scan|v"), Some(labelled("service=scan")), Some(labelled("aaa=a")), false),
        ("one matches some terms only", two(), Some(labelled("aaa")), Some(labelled("aaa ccc")), false),
        ("one begins to match all terms", two(), Some(labelled("aaa")), Some(labelled("aaa bbb")), true),
        (
            "one is shunned no more",
            away("service=scan|v"),
            Some(labelled("service=scan")),
            Some(labelled("service=a")),
            true,
        ),
        (
            "one begins to be shunned",
            away("service=scan|v"),
            Some(labelled("service=b")),
            Some(labelled("service=scan")),
            false,
        ),
        ("one goes that was not shunned", away("service=scan|v"), Some(labelled("aaa=a")), None, false),
        ("one goes that was shunned", away("service=scan|v"), Some(labelled("service=scan")), None, true),
        ("one goes that shunned the pod", labelled("service=scan"), Some(loner()), None, true),
        ("one goes that shunned others", labelled("service=foo"), Some(loner()), None, false),
        ("one of its own kind goes, and they shun others", loner(), Some(loner()), None, false),
        // Where upstream is coarser or misses it.
        (
            "one goes that one of two terms shuns",
            away("aaa").away(term("zone", "bbb")),
            Some(labelled("bbb")),
            None,
            true,
        ),
        (
            "one goes that the pod's kind was near",
            labelled("app").near(term("zone", "app")),
            Some(labelled("app")),
            None,
            true,
        ),
        ("one goes that the pod was near", near("app"), Some(labelled("app")), None, false),
        ("one comes that asks nothing of a pod that asks nothing", labelled("app"), None, Some(labelled("app")), false),
        ("one shuns the pod no more", labelled("service=scan"), Some(loner()), Some(labelled("service=foo")), true),
        (
            "one shuns the pod as before",
            labelled("service=scan"),
            Some(loner()),
            Some(labelled("new").away(loner().0.anti_affinity[0].clone())),
            false,
        ),
    ];
    let ledger = one_node();
    for (name, waits, before, after, expected) in rows {
        let pod = |asks: Option<Asks>| asks.map(|asks| asks.named("other"));
        let (before, after) = (pod(before), pod(after));
        let woken = wakes(&ledger, Plugin::InterPodAffinity, &waits, before.as_ref(), after.as_ref());
        assert_eq!(woken, expected, "{name}");
    }
}

#[test]
fn a_movement_in_a_namespace_selected_by_label_wakes_the_pod() {
    let mut ledger = one_node();
    let waits = labelled("").near(term_in(&[], Some("team=1"), "region", "app"));
    let comes = labelled("app").of("sub1.team1").named("other");
    assert!(wakes(&ledger, Plugin::InterPodAffinity, &waits, None, Some(&comes)));
    ledger.apply_namespace(Namespace { name: "sub1.team1".into(), labels: labels("team=2") });
    assert!(!wakes(&ledger, Plugin::InterPodAffinity, &waits, None, Some(&comes)));
}

#[test]
fn a_movement_that_a_spread_selector_matches_wakes_the_pod() {
    let constraint = SpreadConstraint {
        max_skew: 1,
        topology_key: "zone".into(),
        hard: true,
        selector: Some(selector("app=web")),
        min_domains: 1,
        honor_affinity: true,
        honor_taints: false,
    };
    let mut waits = labelled("app=web");
    waits.0.spread.push(constraint);
    let web = || labelled("app=web").named("other");
    let (db, elsewhere) = (labelled("app=db").named("other"), labelled("app=web").of("x").named("other"));
    let ending = Pod { deleting: true, ..web() };
    let ledger = one_node();
    let woken = |waits: &Asks, before: Option<&Pod>, after: Option<&Pod>| {
        wakes(&ledger, Plugin::PodTopologySpread, waits, before, after)
    };
    for (before, after, expected) in [
        (None, Some(&web()), true),
        (Some(&web()), None, true),
        (Some(&web()), Some(&db), true),
        (Some(&db), Some(&web()), true),
        (Some(&web()), Some(&ending), true),
        (Some(&ending), None, true),
        (None, Some(&db), false),
        (Some(&db), None, false),
        (None, Some(&elsewhere), false),
        (Some(&ending), Some(&Pod { deleting: true, ..db.clone() }), false),
    ] {
        assert_eq!(woken(&waits, before, after), expected, "{before:?} {after:?}");
    }
    // Constraints that the profile gives are not known here: every pod of the namespace may be alike.
    let plain = labelled("app=web");
    assert!(woken(&plain, None, Some(&db)) && !woken(&plain, None, Some(&elsewhere)));
}

#[test]
fn other_changes_and_too_many_movements_wake_every_pod() {
    let ledger = one_node();
    let shape = Arc::new(near("app").0);
    let asked = PluginSet::of(Plugin::InterPodAffinity);
    let mut hints = Hints::default();
    note(&mut hints, 1, &Change::Namespace { name: "x".into() });
    assert!(woken_by(&mut hints.judge(), &ledger, asked, 0, &shape).is_some());
    let node = ledger.node_order()[0];
    let comes = |i: usize| {
        let pod = labelled(&format!("turn={i}")).named("other");
        Change::PodPlaced { node, match_class: Arc::new(MatchClass::of(&pod)) }
    };
    hints.begin();
    for i in 0..HINT_MATCH_CLASSES {
        note(&mut hints, 2 + i as u64, &comes(i));
    }
    assert!(woken_by(&mut hints.judge(), &ledger, asked, 1, &shape).is_none(), "each was looked at");
    note(&mut hints, 2 + HINT_MATCH_CLASSES as u64, &comes(HINT_MATCH_CLASSES));
    assert!(woken_by(&mut hints.judge(), &ledger, asked, 1, &shape).is_some(), "one could not be looked at");
    hints.begin();
    assert!(woken_by(&mut hints.judge(), &ledger, asked, 1, &shape).is_some(), "what was not looked at stays known");
    assert!(hints.may_help(asked, 1), "and for an attempt under way every movement counts");
}

/// Counts the different pods with so many terms, none of which matches, that are compared in one scan.
fn compared(terms: usize) -> usize {
    let (ledger, mut hints) = (one_node(), Hints::default());
    let node = ledger.node_order()[0];
    for version in 0..HINT_MATCH_CLASSES as u64 {
        let match_class = Arc::new(MatchClass::of(&labelled(&format!("i={version}")).named("moves")));
        note(&mut hints, 7 + version, &Change::Freed { node, usage: Arc::default(), match_class });
    }
    let mut judge = hints.judge();
    let waits = |i| {
        let waits = labelled(&format!("waits={i}"));
        Arc::new(
            (0..terms).fold(waits, |waits, term_number| waits.away(term("region", &format!("no-{term_number}")))).0,
        )
    };
    let all: Vec<Arc<PodShape>> = (0..1_000).map(waits).collect();
    let asked = PluginSet::of(Plugin::InterPodAffinity);
    all.iter().take_while(|shape| woken_by(&mut judge, &ledger, asked, 6, shape).is_none()).count()
}

#[test]
fn terms_of_waiting_pods_are_counted() {
    let (few, many) = (compared(1), compared(64));
    assert!(few > 50 && few < 1_000, "{few}");
    assert!((1..=1 + HINT_WORK / (64 * HINT_MATCH_CLASSES)).contains(&many), "{many}");
}

#[test]
fn a_comparison_that_is_given_up_goes_on_where_it_ended_and_takes_no_more_than_a_hold_at_once() {
    let ledger = one_node();
    let node = ledger.node_order()[0];
    let asked = (PluginSet::of(Plugin::InterPodAffinity), 6);
    let shape = Arc::new((0..64).fold(labelled("app=web"), |pod, i| pod.away(term("region", &format!("no-{i}")))).0);
    let pod = of_shape(&shape);
    let comes = |i: usize, terms: usize| {
        let pod = labelled(&format!("i={i}"));
        let its = |pod: Asks, number| pod.away(term("region", &format!("its-{number}")));
        let pod = (0..terms).fold(pod, its).named("moves");
        Change::PodPlaced { node, match_class: Arc::new(MatchClass::of(&pod)) }
    };
    let mut hints = Hints::default();
    assert!((0..10).all(|i| note(&mut hints, 7 + i as u64, &comes(i, 0))));
    let mut judge = hints.judge();
    let mut holds = 0;
    while judge.compare(&ledger, &mut Work::of(1), asked, &pod).is_err() {
        holds += 1;
    }
    assert_eq!(holds, 9, "one movement after the other");
    assert_eq!(judge.compare(&ledger, &mut Work::of(0), asked, &pod), Ok(None), "it is known now");
    // What a placed pod has of terms, nobody bounds: a comparison that takes longer than a hold is not made.
    let (before, after) = (comes(0, 3_000), comes(1, 3_000));
    let (Change::PodPlaced { match_class: before, .. }, Change::PodPlaced { match_class: after, .. }) = (before, after)
    else {
        panic!("placed")
    };
    hints.begin();
    note(&mut hints, 17, &Change::Regrouped { pod: "p".into(), node, before, after });
    let (mut judge, mut hold) = (hints.judge(), Work::of_one_hold());
    assert!(judge.compare(&ledger, &mut hold, asked, &pod).is_ok_and(|woken| woken.is_some()), "in doubt, wake");
    assert!(hold.done() <= WORK_PER_HOLD, "{}", hold.done());
}

/// 500 runs of up to 40 changes, told to the plugins one by one and all at once.
#[test]
fn plugins_are_told_the_same_of_many_changes_at_once() {
    let nodes = [0, 1, 2].map(NodeId::new);
    let classes = ["a=1", "a=2", "a=3"].map(|labels| Arc::new(MatchClass::of(&labelled(labels).named("moves"))));
    for seed in 0..500 {
        let mut rng = Rng::seeded(seed);
        let (mut one_by_one, mut at_once) = (Hints::default(), Hints::default());
        let mut version = 0;
        for _ in 0..3 {
            one_by_one.begin();
            at_once.begin();
            for _ in 0..rng.below(40) {
                version += 1 + rng.below(3);
                let (node, class) = (nodes[rng.below(3) as usize], rng.below(3) as usize);
                let match_class = classes[class].clone();
                let change = match rng.below(8) {
                    0 => Change::Node { node, aspects: NodeAspects::TAINTS },
                    1 => Change::Node { node, aspects: NodeAspects::LABELS },
                    2 => Change::Workload,
                    3 => Change::NominationEnded { priority: 0 },
                    4 => Change::Device(DeviceChange::Slice { driver: format!("d{class}").into() }),
                    5 => Change::Confirmed { pod: "p".into() },
                    6 => Change::PodPlaced { node, match_class },
                    _ => Change::Freed { node, usage: Arc::default(), match_class },
                };
                let inside = rng.below(3) > 0;
                let helps = [&mut one_by_one, &mut at_once].map(|hints| hints.note(version, &change, inside));
                assert_eq!(helps[0], helps[1]);
                one_by_one.settle();
            }
            at_once.settle();
            let told = |hints: &Hints| {
                (hints.newest, hints.newest_other, hints.by, hints.fresh, hints.fresh_elsewhere, hints.rows.len())
            };
            assert_eq!(told(&one_by_one), told(&at_once), "seed {seed}");
        }
    }
}
