//! Extended resources that a DeviceClass stands for.

use super::claim_tests::{Bench, all_written, refused};
use crate::device_testing::{claim, class, devices_of, key, wanting};
use crate::io::{ClaimsOutcome, WrittenClaim};
use crate::ledger::Ledger;
use crate::model::{DeviceClass, ExtendedRequests, Plugin, Pod, ResourceClaim};
use crate::profile::CompiledProfile;
use crate::testing::{node, pod, shape};
use std::sync::Arc;

const GPU: &str = "example.com/gpu";

fn gpu_class(ledger: &mut Ledger) {
    ledger.apply_device_class(DeviceClass { extended_resource: Some(GPU.into()), ..class("gpu", None) });
}

/// A pod whose container wants so many of the resource.
pub(super) fn asking(name: &str, resource: &str, count: i64) -> Pod {
    let mut shape = shape();
    shape.row_mut().requests.set_scalar(resource.into(), count);
    let container = ExtendedRequests {
        container: "c".into(),
        index: 0,
        is_short_lived: false,
        resources: vec![(resource.into(), 1, count)],
    };
    Pod { extended: Some([container].into()), ..pod(name, shape) }
}

/// The pod `p`, which wants one, tried. Nodes `a` and `b` have two devices each.
fn with_one() -> Bench {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        gpu_class(ledger);
        ledger.apply_pod(asking("p", GPU, 1));
    });
    bench.settle();
    bench
}

/// The claim that was asked for, as an API server has it: at version 2 with nothing, or later as it was written.
fn made(bench: &Bench, version: &str, is_written: bool) -> ResourceClaim {
    let request = &bench.reserving[0].1;
    let write = request.writes.last().expect("a write");
    let spec = write.creates.as_ref().expect("a claim to make").spec.clone();
    let bare = ResourceClaim {
        key: write.key.clone(),
        uid: "made".into(),
        resource_version: version.into(),
        controller: Some(request.pod.uid.clone()),
        is_extended: true,
        spec: Arc::new(spec),
        ..claim("c", 1)
    };
    if is_written { bare.once_written(write.allocation.as_deref(), &request.pod.uid) } else { bare }
}

fn free_devices(bench: &Bench) -> usize {
    let ledger = bench.ledger.borrow();
    let of = |pool: &str| {
        let id = berth_devices::model::PoolId { driver: "d".into(), pool: pool.into() };
        let held = ledger.devices().allocated().pool(&id);
        ["0", "1"].iter().filter(|device| held.is_none_or(|held| held.device(device).is_none())).count()
    };
    of("a") + of("b")
}

#[test]
fn a_claim_is_made_with_a_name_of_its_own_and_holds_devices_from_the_commit_on() {
    let mut bench = with_one();
    assert_eq!(free_devices(&bench), 3);
    let write = bench.reserving[0].1.writes[0].clone();
    assert!(write.key.name.starts_with("p-extended-resources-") && write.uid.is_empty(), "{write:?}");
    assert_eq!(write.creates.as_ref().map(|made| made.mappings.len()), Some(1));
    // It is seen before it is allocated, and again before the answer comes.
    for (version, is_written) in [("2", false), ("3", true)] {
        let seen = made(&bench, version, is_written);
        bench.seen(|ledger| ledger.apply_resource_claim(seen));
        bench.settle();
        assert_eq!(free_devices(&bench), 3, "{version}");
    }
    bench.wrote(|request| {
        let mut outcome = all_written(request);
        outcome.written[0].uid = "made".into();
        outcome
    });
    assert_eq!((bench.binds.len(), free_devices(&bench)), (1, 3));
    assert!(bench.unreserved.is_empty() && bench.refusals.is_empty());
}

#[test]
fn what_was_answered_holds_until_it_is_seen_or_a_whole_read_does_not_show_it() {
    let written = |request: &crate::io::ClaimRequest| {
        let key = request.writes[0].key.clone();
        let written = WrittenClaim { key, uid: "made".into(), resource_version: "4".into() };
        ClaimsOutcome { written: vec![written], failure: None }
    };
    // An older version comes late.
    let mut bench = with_one();
    let (bare, late) = (made(&bench, "2", false), made(&bench, "4", true));
    bench.wrote(written);
    bench.seen(|ledger| ledger.apply_resource_claim(bare));
    assert_eq!(free_devices(&bench), 3);
    bench.seen(|ledger| {
        ledger.apply_resource_claim(late.clone());
        ledger.begin_read_of_claims();
        ledger.end_read_of_claims();
    });
    assert_eq!(free_devices(&bench), 3, "the feed tells of claims that were seen and are gone");
    bench.seen(|ledger| ledger.delete_resource_claim(&late.key.to_string()));
    assert_eq!(free_devices(&bench), 4);
    // It was deleted while nobody watched: a read that began before the answer says nothing.
    let mut bench = with_one();
    bench.seen(Ledger::begin_read_of_claims);
    bench.wrote(written);
    bench.seen(Ledger::end_read_of_claims);
    assert_eq!(free_devices(&bench), 3);
    bench.seen(|ledger| {
        ledger.begin_read_of_claims();
        ledger.end_read_of_claims();
    });
    assert_eq!(free_devices(&bench), 4);
}

#[test]
fn what_was_not_made_frees_its_devices_and_the_claim_is_deleted_in_any_case() {
    let mut bench = with_one();
    let name = bench.reserving[0].1.writes[0].key.clone();
    bench.wrote(refused);
    assert_eq!(free_devices(&bench), 4);
    assert_eq!(bench.unreserved[0].extended, Some(name), "it may have been made");
    // The next attempt has another name.
    bench.refusals.clear();
    bench.now += 20_000;
    bench.settle();
    assert_ne!(Some(&bench.reserving[0].1.writes[0].key), bench.unreserved[0].extended.as_ref());
}

#[test]
fn a_refused_bind_has_the_claim_deleted_and_the_pod_waits_for_that() {
    let mut bench = with_one();
    let seen = made(&bench, "3", true);
    bench.seen(|ledger| ledger.apply_resource_claim(seen.clone()));
    bench.wrote(all_written);
    bench.bind_refused();
    assert_eq!(bench.unreserved[0].extended, Some(seen.key.clone()));
    assert!(bench.unreserved[0].claims.is_empty());
    bench.refusals.clear();
    bench.now += 20_000;
    bench.settle();
    assert_eq!(bench.refusal(), "0/2 nodes are available: 2 cannot schedule extended resource claim.");
    assert_eq!(bench.unreserved.len(), 2, "it is asked for again");
    bench.seen(|ledger| ledger.delete_resource_claim(&seen.key.to_string()));
    bench.now += 20_000;
    bench.settle();
    assert_eq!(bench.reserving.len(), 1);
}

#[test]
fn what_an_attempt_has_left_is_deleted_whatever_else_keeps_the_pod_from_nodes() {
    let mut bench = Bench::new();
    let left = ResourceClaim { is_extended: true, controller: Some("p".into()), ..claim("left", 1) };
    bench.seen(|ledger| {
        gpu_class(ledger);
        ledger.apply_resource_claim(left);
        // Another namespace's claim says that it is the pod's as well.
        let mut foreign = ResourceClaim { is_extended: true, controller: Some("p".into()), ..claim("a", 1) };
        foreign.key.namespace = "another".into();
        ledger.apply_resource_claim(foreign);
        let mut pod = asking("p", GPU, 1);
        Arc::make_mut(&mut pod.shape).row_mut().requests.milli_cpu = 100_000;
        ledger.apply_pod(pod);
    });
    bench.settle();
    assert_eq!(bench.refusal(), "0/2 nodes are available: 2 Insufficient cpu.");
    assert_eq!(bench.unreserved[0].extended, Some(key("left")));
}

#[test]
fn the_end_of_a_claim_without_devices_wakes_its_pod() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        gpu_class(ledger);
        let left = ResourceClaim { is_extended: true, controller: Some("p".into()), ..claim("left", 1) };
        ledger.apply_resource_claim(left);
        ledger.apply_pod(asking("p", GPU, 1));
    });
    bench.settle();
    assert_eq!(bench.refusal(), "0/2 nodes are available: 2 cannot schedule extended resource claim.");
    bench.seen(|ledger| ledger.delete_resource_claim(&key("left").to_string()));
    bench.now += 20_000;
    bench.settle();
    assert_eq!(bench.reserving.len(), 1);
}

#[test]
fn a_pod_that_somebody_else_has_bound_leaves_no_claim_of_ours() {
    let mut bench = with_one();
    let name = bench.reserving[0].1.writes[0].key.clone();
    bench.seen(|ledger| ledger.apply_pod(Pod { node_name: Some("b".into()), ..asking("p", GPU, 1) }));
    bench.settle();
    assert_eq!(bench.unreserved.pop().and_then(|request| request.extended), Some(name));
}

#[test]
fn a_claim_that_nobody_controls_is_in_nobodys_way() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        gpu_class(ledger);
        ledger.apply_resource_claim(ResourceClaim { is_extended: true, ..claim("c", 1) });
        ledger.apply_pod(asking("p", GPU, 1));
    });
    bench.settle();
    assert_eq!(bench.reserving.len(), 1);
}

#[test]
fn what_a_device_plugin_offers_needs_no_claim() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        gpu_class(ledger);
        for name in ["a", "b"] {
            let mut offering = node(name, 4_000, 8 << 30, 100);
            offering.allocatable.set_scalar(GPU.into(), 1);
            ledger.apply_node(&offering);
        }
        ledger.apply_pod(asking("plain", GPU, 1));
        ledger.apply_resource_claim(claim("c", 1));
        ledger.apply_pod(Pod { resource_claims: wanting("both", &["c"]).resource_claims, ..asking("both", GPU, 1) });
    });
    bench.settle();
    assert_eq!(bench.binds.len(), 1);
    let writes = &bench.reserving[0].1.writes;
    assert_eq!(writes.iter().map(|write| &write.key).collect::<Vec<_>>(), [&key("c")]);
    // What a node offers goes: devices take its place.
    bench.seen(|ledger| {
        ledger.apply_node(&node("a", 4_000, 8 << 30, 100));
        ledger.apply_pod(asking("later", GPU, 1));
    });
    bench.settle();
    assert!(bench.reserving[1].1.writes[0].creates.is_some());
}

#[test]
fn without_the_filter_a_resource_is_for_device_plugins_alone() {
    let mut profile = CompiledProfile::default_preset("test");
    profile.filters = profile.filters.without(Plugin::DynamicResources);
    let mut bench = Bench::of(profile);
    bench.seen(|ledger| {
        gpu_class(ledger);
        ledger.apply_pod(asking("p", GPU, 1));
    });
    bench.settle();
    assert_eq!(bench.refusal(), "0/2 nodes are available: 2 Insufficient example.com/gpu.");
}

#[test]
fn pods_of_one_kind_share_what_was_found_and_never_what_has_changed() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        gpu_class(ledger);
        for i in 0..6 {
            ledger.apply_resource_claim(claim(&format!("c{i}"), 1));
            ledger.apply_pod(if i % 2 == 0 {
                asking(&format!("p{i}"), GPU, 1)
            } else {
                wanting(&format!("p{i}"), &[&format!("c{i}")])
            });
        }
    });
    bench.settle();
    assert_eq!((bench.reserving.len(), free_devices(&bench)), (4, 0));
    assert_eq!(bench.refusals.len(), 2);
    bench.refusals.clear();
    bench.seen(|ledger| ledger.apply_resource_slice(devices_of("b", &["0", "1", "2"])));
    bench.now += 20_000;
    bench.settle();
    assert_eq!(bench.reserving.len(), 5);
}
