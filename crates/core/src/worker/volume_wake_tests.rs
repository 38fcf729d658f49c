//! What wakes a pod that a volume plugin refused.

use super::volume_tests::{Bench, newer};
use crate::ledger::Ledger;
use crate::limits::STORAGE_PER_POD;
use crate::model::{CLAIMS_COMPARED, CsiDriver, PersistentVolume, PodVolume, StorageClass, VolumeAttachment};
use crate::volume_testing::{
    bound, claim, csi, csi_node, mounting, named, node_in, only_in, using, volume, waiting_class,
};

#[test]
fn only_pods_that_name_a_claim_are_woken_by_it() {
    let mut bench = Bench::new();
    let own = |name: &str| mounting(name, vec![PodVolume::Ephemeral { volume: "tmp".into() }]);
    bench.seen(|ledger| {
        ledger.apply_pod(using("p", &["c"]));
        ledger.apply_pod(own("q"));
        ledger.apply_pod(own("r"));
    });
    bench.settle(0);
    assert_eq!(bench.workers[0].queue.counts().unschedulable, 3);
    bench.now = 30_000;
    bench.settle(0);
    bench.seen(|ledger| {
        ledger.apply_volume(volume("v", "", 1));
        ledger.apply_volume(volume("w", "", 1));
    });
    bench.settle(0);
    bench.refusals.clear();
    bench.now = 60_000;
    bench.seen(|ledger| {
        ledger.apply_claim(bound("c", "v"));
        ledger.apply_claim(newer(bound("q-tmp", "w"), |claim| claim.controller = Some("q".into())));
    });
    bench.settle(0);
    let placed: Vec<String> = bench.binds.iter().map(|(_, _, pod, _)| pod.key.name.to_string()).collect();
    assert_eq!(placed, ["p", "q"]);
    assert!(bench.refusals.is_empty(), "the third was not tried: {:?}", bench.refusals);
}

/// Tenants choose how many pods wait, with up to 128 claims each, and how often a claim changes.
#[test]
fn a_claim_that_changes_is_compared_with_few_claims_of_each_pod() {
    let (pods, claims) = (100, STORAGE_PER_POD);
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        for p in 0..pods {
            let mut volumes: Vec<PodVolume> = (1..claims).map(|c| named(&format!("c{p}-{c}"))).collect();
            volumes.push(PodVolume::Ephemeral { volume: "tmp".into() });
            ledger.apply_pod(mounting(&format!("p{p}"), volumes));
        }
    });
    bench.settle(0);
    assert_eq!(bench.workers[0].queue.counts().unschedulable, pods);
    let mut changes = |name: &str, namespace: &str| {
        bench.now += 20_000;
        bench.refusals.clear();
        CLAIMS_COMPARED.set(0);
        let mut changed = claim(name, "", 1);
        changed.key.namespace = namespace.into();
        bench.seen(|ledger| ledger.apply_claim(changed));
        bench.settle(0);
        let mut tried: Vec<String> = bench.refusals.iter().map(|(pod, ..)| pod.clone()).collect();
        tried.dedup();
        (CLAIMS_COMPARED.get(), tried)
    };
    assert_eq!(changes("c7-9", "other"), (0, vec![]), "of another namespace");
    for (name, tries) in [("nobodys", vec![]), ("c7-9", vec!["p7".to_owned()]), ("p8-tmp", vec!["p8".to_owned()])] {
        let (compared, tried) = changes(name, "default");
        assert_eq!(tried, tries, "{name}");
        assert!(compared <= pods * 10, "{name}: {compared} comparisons");
    }
}

/// KEP-6132: each claim that changed was held against each pod that waited.
#[test]
fn claims_that_change_together_are_held_against_each_pod_once_6132() {
    let (pods, claims) = (100, 1_000);
    let mut bench = Bench::new();
    bench.seen(|ledger| (0..pods).for_each(|p| ledger.apply_pod(using(&format!("p{p}"), &[&*format!("c{p}")]))));
    bench.settle(0);
    assert_eq!(bench.workers[0].queue.counts().unschedulable, pods);
    bench.now = 20_000;
    bench.refusals.clear();
    CLAIMS_COMPARED.set(0);
    bench.seen(|ledger| (0..claims).for_each(|c| ledger.apply_claim(claim(&format!("of-others-{c}"), "", 1))));
    bench.settle(0);
    assert!(bench.refusals.is_empty(), "nobody is tried: {:?}", bench.refusals);
    let compared = CLAIMS_COMPARED.get();
    assert!((pods..=pods * 12).contains(&compared), "{compared} comparisons");
}

/// A changed driver wakes pods with claims; upstream's hint looks at inline CSI volumes only.
#[test]
fn a_changed_driver_wakes_pods_with_claims() {
    let mut bench = Bench::new();
    let driver = |storage_capacity| CsiDriver { name: "driver".into(), storage_capacity };
    bench.seen(|ledger| {
        ledger.apply_csi_driver(driver(true));
        ledger.apply_claim(claim("c", "made", 1));
        ledger.apply_pod(using("p", &["c"]));
    });
    bench.settle(0);
    assert_eq!(bench.workers[0].queue.counts().unschedulable, 1);
    bench.now = 5_000;
    bench.seen(|ledger| ledger.apply_csi_driver(driver(false)));
    bench.settle(0);
    assert_eq!(bench.writes.len(), 1);
}

#[test]
fn a_wake_up_for_each_change_that_may_help_93552() {
    type Setup = fn(&mut Ledger);
    // What refuses the pod `p` with claim `c`, and what lifts that.
    let cases: [(&str, Setup, Setup); 6] = [
        ("a volume comes", |l| l.apply_claim(claim("c", "local", 1)), |l| l.apply_volume(volume("v", "local", 1))),
        (
            "a class comes",
            |l| l.apply_claim(claim("c", "new", 1)),
            |l| l.apply_storage_class(waiting_class("new", "driver")),
        ),
        (
            "a class allows more",
            |l| {
                let class = StorageClass { allowed_topologies: Some(only_in("z")), ..waiting_class("made", "driver") };
                l.apply_storage_class(class);
                l.apply_claim(claim("c", "made", 1));
            },
            |l| l.apply_storage_class(waiting_class("made", "driver")),
        ),
        (
            "a limit is raised",
            |l| {
                for node in ["a", "b"] {
                    l.apply_csi_node(csi_node(node, "d", Some(0)));
                }
                l.apply_volume(csi("v", "d"));
                l.apply_claim(bound("c", "v"));
            },
            |l| l.apply_csi_node(csi_node("a", "d", Some(1))),
        ),
        (
            "a volume is detached",
            |l| {
                l.delete_node("b");
                l.apply_csi_node(csi_node("a", "d", Some(1)));
                l.apply_volume(csi("v", "d"));
                l.apply_volume(csi("w", "d"));
                l.apply_claim(bound("c", "v"));
                l.apply_volume_attachment(VolumeAttachment {
                    name: "of w".into(),
                    attacher: "d".into(),
                    node: "a".into(),
                    volume: Some("w".into()),
                });
            },
            |l| l.delete_volume_attachment("of w"),
        ),
        (
            "a node gets the zone",
            |l| {
                l.apply_volume(PersistentVolume { affinity: Some(only_in("z")), ..volume("v", "", 1) });
                l.apply_claim(bound("c", "v"));
            },
            |l| l.apply_node(&node_in("a", "z")),
        ),
    ];
    for (case, refused, lifted) in cases {
        let mut bench = Bench::new();
        bench.seen(|ledger| {
            refused(ledger);
            ledger.apply_pod(using("p", &["c"]));
        });
        bench.settle(0);
        assert_eq!(bench.workers[0].queue.counts().unschedulable, 1, "{case}");
        bench.now = 5_000;
        bench.seen(lifted);
        bench.settle(0);
        assert_eq!(bench.binds.len() + bench.writes.len(), 1, "{case}");
        bench.audit();
    }
}
