use crate::cycle::{Decision, Scheduler};
use crate::ledger::{Ledger, PodState};
use crate::model::{
    CsiNode, CsiStorageCapacity, LabelSelector, Labels, PersistentVolume, PersistentVolumeClaim, Pod, PodVolume,
    Requirement, RequirementOperator, StorageClass, Str, VolumeAttachment,
};
use crate::plugins::{Plugin, Work};
use crate::profile::CompiledProfile;
use crate::volume_testing::{
    claim, csi, csi_node, mounting, named, node_in, on, only_in, reference, volume, waiting_class,
};
use proptest::prelude::*;
use std::sync::Arc;

/// One event. Numbers choose among few names, so that events meet.
#[derive(Debug, Clone)]
enum Event {
    Volume {
        at: u8,
        class: u8,
        of: u8,
        version: u8,
        csi: bool,
    },
    NoVolume(u8),
    Claim {
        at: u8,
        class: u8,
        to: u8,
        version: u8,
        selected: u8,
    },
    NoClaim(u8),
    Class {
        at: u8,
        provisioner: u8,
    },
    NoClass(u8),
    CsiNode {
        at: u8,
        limit: u8,
    },
    NoCsiNode(u8),
    Attachment {
        at: u8,
        of: u8,
        node: u8,
    },
    NoAttachment(u8),
    Capacity {
        at: u8,
        class: u8,
        form: u8,
        limit: u8,
    },
    NoCapacity(u8),
    Node(u8),
    NoNode(u8),
    Placed {
        at: u8,
        node: u8,
        claims: [u8; 2],
        ephemeral: bool,
    },
    Pending {
        at: u8,
        claims: [u8; 2],
    },
    NoPod(u8),
    /// Decides and commits; bound if `bind`.
    Decide {
        at: u8,
        bind: bool,
    },
    Forget(u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let few = || 0..4_u8;
    let event = prop_oneof![
        (few(), 0..2_u8, 0..6_u8, 0..3_u8, any::<bool>()).prop_map(|(at, class, of, version, csi)| Event::Volume {
            at,
            class,
            of,
            version,
            csi
        }),
        few().prop_map(Event::NoVolume),
        (few(), 0..2_u8, 0..6_u8, 0..3_u8, 0..4_u8).prop_map(|(at, class, to, version, selected)| Event::Claim {
            at,
            class,
            to,
            version,
            selected
        }),
        few().prop_map(Event::NoClaim),
        (0..2_u8, 0..4_u8).prop_map(|(at, provisioner)| Event::Class { at, provisioner }),
        (0..2_u8).prop_map(Event::NoClass),
        (0..3_u8, 0..4_u8).prop_map(|(at, limit)| Event::CsiNode { at, limit }),
        (0..3_u8).prop_map(Event::NoCsiNode),
        (few(), few(), 0..3_u8).prop_map(|(at, of, node)| Event::Attachment { at, of, node }),
        few().prop_map(Event::NoAttachment),
        (few(), 0..2_u8, 0..10_u8, 0..4_u8).prop_map(|(at, class, form, limit)| Event::Capacity {
            at,
            class,
            form,
            limit
        }),
        few().prop_map(Event::NoCapacity),
        (0..3_u8).prop_map(Event::Node),
        (0..3_u8).prop_map(Event::NoNode),
        (few(), 0..3_u8, [few(), few()], any::<bool>()).prop_map(|(at, node, claims, ephemeral)| Event::Placed {
            at,
            node,
            claims,
            ephemeral
        }),
        (few(), [few(), few()]).prop_map(|(at, claims)| Event::Pending { at, claims }),
        few().prop_map(Event::NoPod),
        (few(), any::<bool>()).prop_map(|(at, bind)| Event::Decide { at, bind }),
        few().prop_map(Event::Forget),
    ];
    prop::collection::vec(event, 1..60)
}

fn pod_name(at: u8) -> String {
    format!("p{at}")
}

fn volume_of(at: u8, class: u8, of: u8, version: u8, is_csi: bool) -> PersistentVolume {
    let name = format!("v{at}");
    let base = if is_csi { csi(&name, "d") } else { volume(&name, "", 2) };
    PersistentVolume {
        class: format!("s{class}").into(),
        resource_version: format!("{version}").into(),
        claim: (of < 4).then(|| reference(&format!("c{of}"))),
        affinity: if at == 0 { Some(only_in("z0")) } else { None },
        ..base
    }
}

fn claim_of(at: u8, class: u8, to: u8, version: u8, selected: u8) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        resource_version: format!("{version}").into(),
        volume: (to < 4).then(|| format!("v{to}").into()),
        bind_completed: to != 3,
        selected_node: (selected < 3).then(|| format!("n{selected}").into()),
        ..claim(&format!("c{at}"), &format!("s{class}"), 1)
    }
}

fn capacity_of(at: u8, class: u8, form: u8, limit: u8) -> CsiStorageCapacity {
    let test = |key: &str, operator, values: &[&str]| Requirement {
        key: key.into(),
        operator,
        values: values.iter().map(|value| Str::from(*value)).collect(),
    };
    let is = |key: &str, value: &str| test(key, RequirementOperator::In, &[value]);
    let requirements = match form {
        0 => vec![],
        1 => vec![is("zone", "z0")],
        2 => vec![is("zone", "z1")],
        3 => vec![is("zone", "z1"), is("kubernetes.io/hostname", "n1")],
        4 => vec![is("kubernetes.io/hostname", "n2"), is("zone", "z2")],
        5 => vec![is("zone", "z0"), is("zone", "z1")],
        6 => vec![test("zone", RequirementOperator::In, &["z0", "z2"])],
        7 => vec![is("zone", "z0"), test("zone", RequirementOperator::Exists, &[])],
        _ => vec![test("zone", RequirementOperator::NotIn, &["z1"])],
    };
    CsiStorageCapacity {
        namespace: "default".into(),
        name: format!("k{at}").into(),
        class: format!("s{class}").into(),
        nodes: (form < 9).then_some(LabelSelector { requirements }),
        limit: (limit > 0).then_some(i64::from(limit)),
    }
}

/// What the capacities of a class come to on nodes of each kind, found by looking at all.
fn compare_capacities(ledger: &Ledger) -> Result<(), String> {
    for (class, zone, host) in
        [("s0", "z0", "n0"), ("s0", "z1", "n1"), ("s1", "z1", "n0"), ("s1", "z2", "n2"), ("s1", "", "n1")]
    {
        let zone = (!zone.is_empty()).then_some(("zone", zone));
        let labels: Labels = zone.into_iter().chain([("kubernetes.io/hostname", host)]).collect();
        let all = ledger.volumes.capacities.objects().filter(|capacity| &*capacity.class == class);
        let there = all.filter(|capacity| capacity.nodes.as_ref().is_some_and(|nodes| nodes.matches(&labels)));
        let naive = there.filter_map(|capacity| capacity.limit).max();
        let kept = ledger.volumes().capacities(class).and_then(|of_class| of_class.largest(&labels));
        if kept != naive {
            return Err(format!("{class} on {labels:?}: {kept:?}, the largest is {naive:?}"));
        }
    }
    Ok(())
}

fn mounted(at: u8, claims: [u8; 2], ephemeral: bool) -> Pod {
    let mut volumes: Vec<PodVolume> = claims.iter().map(|claim| named(&format!("c{claim}"))).collect();
    if ephemeral {
        volumes.push(PodVolume::Ephemeral { volume: "tmp".into() });
    }
    mounting(&pod_name(at), volumes)
}

fn apply_object(ledger: &mut Ledger, event: &Event) {
    match *event {
        Event::Volume { at, class, of, version, csi } => ledger.apply_volume(volume_of(at, class, of, version, csi)),
        Event::NoVolume(at) => ledger.delete_volume(&format!("v{at}")),
        Event::Claim { at, class, to, version, selected } => {
            ledger.apply_claim(claim_of(at, class, to, version, selected));
        }
        Event::NoClaim(at) => ledger.delete_claim(&format!("default/c{at}")),
        Event::Class { at, provisioner } => {
            let provisioner = ["d", "e", "kubernetes.io/aws-ebs", "kubernetes.io/no-provisioner"][provisioner as usize];
            ledger.apply_storage_class(StorageClass { ..waiting_class(&format!("s{at}"), provisioner) });
        }
        Event::NoClass(at) => ledger.delete_storage_class(&format!("s{at}")),
        Event::CsiNode { at, limit } => {
            let limit = (limit > 0).then_some(i32::from(limit));
            ledger.apply_csi_node(CsiNode { ..csi_node(&format!("n{at}"), "d", limit) });
        }
        Event::NoCsiNode(at) => ledger.delete_csi_node(&format!("n{at}")),
        Event::Attachment { at, of, node } => ledger.apply_volume_attachment(VolumeAttachment {
            name: format!("a{at}").into(),
            attacher: "d".into(),
            node: format!("n{node}").into(),
            volume: Some(format!("v{of}").into()),
        }),
        Event::NoAttachment(at) => ledger.delete_volume_attachment(&format!("a{at}")),
        Event::Capacity { at, class, form, limit } => ledger.apply_csi_capacity(capacity_of(at, class, form, limit)),
        Event::NoCapacity(at) => ledger.delete_csi_capacity(&format!("default/k{at}")),
        Event::Node(at) => ledger.apply_node(&node_in(&format!("n{at}"), &format!("z{at}"))),
        Event::NoNode(at) => ledger.delete_node(&format!("n{at}")),
        _ => {}
    }
}

fn apply_pod(ledger: &mut Ledger, event: &Event) {
    match *event {
        Event::Placed { at, node, claims, ephemeral } => {
            ledger.apply_pod(on(&format!("n{node}"), mounted(at, claims, ephemeral)));
        }
        Event::Pending { at, claims } => {
            // An API server changes no pod's volumes: another pod of the name is created after the first was deleted.
            ledger.delete_pod(&pod_name(at));
            ledger.apply_pod(mounted(at, claims, false));
        }
        Event::NoPod(at) => ledger.delete_pod(&pod_name(at)),
        Event::Forget(at) => ledger.forget(&pod_name(at)),
        Event::Decide { at, bind } => {
            let Some(PodState::Pending(pod)) = ledger.pod(&pod_name(at)).cloned() else { return };
            let profile = Arc::new(CompiledProfile::default_preset("test"));
            let mut scheduler = Scheduler::new(profile, 1);
            let Decision::Place(proposal) = scheduler.decide(ledger, &pod) else { return };
            let committed = ledger.commit(&proposal, |_| None).expect("nothing came between");
            if bind {
                ledger.apply_pod(on(&committed.node, Pod::clone(&pod)));
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// After any events, uses, counts of attached volumes, indexes and assumptions equal those made from nothing.
    #[test]
    fn what_is_kept_equals_what_objects_and_pods_make(events in events()) {
        let mut ledger = Ledger::new();
        for event in &events {
            apply_object(&mut ledger, event);
            apply_pod(&mut ledger, event);
            if let Err(wrong) = ledger.audit().and_then(|()| compare_capacities(&ledger)) {
                return Err(TestCaseError::fail(format!("after {event:?}: {wrong}")));
            }
        }
    }

    /// What a look has found when it is given up is good for the next only as far as it is still so.
    #[test]
    fn looks_that_are_given_up_while_volumes_change_come_to_what_a_new_one_finds(events in events()) {
        let mut profile = CompiledProfile::default_preset("test");
        profile.filters = profile.filters.with(Plugin::MaxEBSVolumeCount);
        profile.legacy.max_ebs = 1;
        let profile = Arc::new(profile);
        let mut ledger = Ledger::new();
        for event in beginning() {
            apply_object(&mut ledger, &event);
        }
        let pod = Arc::new(mounting("looks", ["c0", "c1", "c0", "c1"].map(named).into()));
        let mut in_parts = Scheduler::new(profile.clone(), 1);
        for (at, event) in events.iter().enumerate() {
            apply_object(&mut ledger, event);
            apply_pod(&mut ledger, event);
            let parts = if at % 6 == 5 { 100 } else { 1 };
            let mut look = || in_parts.decide_within(&ledger, &pod, &mut Work::of(1), None);
            let Some(found) = (0..parts).find_map(|_| look()) else { continue };
            let anew = Scheduler::new(profile.clone(), 1).decide(&ledger, &pod);
            prop_assert_eq!(format!("{found:?}"), format!("{anew:?}"), "after {:?}", event);
            in_parts = Scheduler::new(profile.clone(), 1);
        }
    }
}

/// A cluster in which most pods fit somewhere.
fn beginning() -> Vec<Event> {
    let of_nodes = (0..3).flat_map(|at| [Event::Node(at), Event::CsiNode { at, limit: 2 }]);
    let classes = (0..2).map(|at| Event::Class { at, provisioner: 2 * at });
    let volumes = (0..4).map(|at| Event::Volume { at, class: at % 2, of: 5, version: 0, csi: true });
    let claims = (0..4).map(|at| Event::Claim { at, class: at % 2, to: 5, version: 0, selected: 3 });
    of_nodes.chain(classes).chain(volumes).chain(claims).collect()
}

#[test]
fn what_is_deleted_is_gone_and_the_rest_is_kept() {
    let mut ledger = Ledger::new();
    for i in 0..3 {
        for event in [
            Event::Volume { at: i, class: 0, of: 5, version: 1, csi: true },
            Event::Claim { at: i, class: 0, to: i, version: 1, selected: 3 },
            Event::Class { at: i, provisioner: 0 },
            Event::CsiNode { at: i, limit: 1 },
            Event::Attachment { at: i, of: i, node: i },
        ] {
            apply_object(&mut ledger, &event);
        }
        ledger.apply_csi_driver(crate::model::CsiDriver { name: format!("d{i}").into(), storage_capacity: false });
    }
    for i in [0, 2] {
        ledger.delete_volume(&format!("v{i}"));
        ledger.delete_claim(&format!("default/c{i}"));
        ledger.delete_storage_class(&format!("s{i}"));
        ledger.delete_csi_node(&format!("n{i}"));
        ledger.delete_csi_driver(&format!("d{i}"));
        ledger.delete_volume_attachment(&format!("a{i}"));
    }
    let table = ledger.volumes();
    for i in 0..3 {
        let is_kept = i == 1;
        let key = crate::volume_testing::key(&format!("c{i}"));
        assert_eq!(table.volume(&format!("v{i}")).is_some(), is_kept);
        assert_eq!(table.claim(&key).is_some(), is_kept);
        assert_eq!(table.class(&format!("s{i}")).is_some(), is_kept);
        assert_eq!(table.csi_node(&format!("n{i}")).is_some(), is_kept);
        assert_eq!(table.csi_driver(&format!("d{i}")).is_some(), is_kept);
    }
    ledger.audit().expect("indexes");
}

#[test]
fn an_observed_object_that_is_newer_ends_the_assumption() {
    let mut ledger = Ledger::new();
    ledger.apply_node(&node_in("n0", "z0"));
    ledger.apply_storage_class(waiting_class("s0", "kubernetes.io/no-provisioner"));
    let seen = |version: u8, of: u8| volume_of(1, 0, of, version, false);
    ledger.apply_volume(seen(1, 5));
    ledger.apply_claim(claim_of(0, 0, 5, 1, 3));
    apply_pod(&mut ledger, &Event::Pending { at: 0, claims: [0, 0] });
    ledger.apply_volume(volume_of(2, 0, 5, 1, false));
    apply_pod(&mut ledger, &Event::Decide { at: 0, bind: false });
    let claim_of_v1 = |ledger: &Ledger| {
        let volume = ledger.volumes().volume("v1").expect("seen").clone();
        ledger.volumes().claim_of(&volume).map(|claim| claim.key.to_string())
    };
    assert_eq!(claim_of_v1(&ledger), Some("default/c0".to_owned()));
    // Seen once more at the same version: a re-read, which reports nothing new.
    ledger.apply_volume(PersistentVolume { labels: [("seen", "again")].into_iter().collect(), ..seen(1, 5) });
    assert_eq!(claim_of_v1(&ledger), Some("default/c0".to_owned()));
    ledger.apply_volume(seen(2, 5));
    assert_eq!(claim_of_v1(&ledger), None, "someone changed it: it is free again");
    ledger.audit().expect("assumptions");
    ledger.forget("p0");
    ledger.audit().expect("assumptions");
}
