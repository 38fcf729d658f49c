use super::*;
use crate::device_testing::{allocated, claim, cluster, devices_of, key, wanting};
use crate::io::{ClaimsFailure, ClaimsOutcome, WrittenClaim};
use crate::ledger::Change;
use crate::model::{ClaimAllocation, ClaimWrite, ExtendedClaim, Pod};
use berth_devices::model::{CounterConsumption, CounterSet, DeviceResult};
use berth_devices::state::PoolUse;

/// What `p` is given of the claim `c` on node `a`, brought into force.
fn assumed(ledger: &mut Ledger, pod: &Pod) -> Arc<[ClaimWrite]> {
    let result = allocated(claim("c", 1), "a", "0", &[]).allocation.expect("given").result.clone();
    let plan = ClaimPlan { claims: vec![(key("c"), "uid-c".into(), Some(Arc::new(result)))], extended: None };
    assert!(ledger.has_claims_of(&plan));
    ledger.assume_claims(&plan, pod)
}

fn written(version: &str) -> ClaimsOutcome {
    let claim = WrittenClaim { key: key("c"), uid: "uid-c".into(), resource_version: version.into() };
    ClaimsOutcome { written: vec![claim], failure: None }
}

fn refused() -> ClaimsOutcome {
    let failure = ClaimsFailure { code: Some(403), message: "no".into() };
    ClaimsOutcome { written: Vec::new(), failure: Some(failure) }
}

/// Whether the device is taken, with a look at whether what is kept is what the claims make.
fn is_taken(ledger: &Ledger) -> bool {
    let devices = ledger.devices();
    assert_eq!(ledger.audit(), Ok(()));
    *devices.allocated() != berth_devices::state::AllocatedState::default()
}

fn start() -> (Ledger, Pod) {
    let mut ledger = cluster();
    ledger.apply_resource_claim(claim("c", 1));
    (ledger, wanting("p", &["c"]))
}

/// Who goes by what the watch has shown would give the device again.
#[test]
fn claims_are_ahead_of_the_watch_until_it_shows_what_was_written() {
    let (mut ledger, pod) = start();
    let is_ahead = |ledger: &Ledger| ledger.devices().is_ahead_of_watch();
    assert!(!is_ahead(&ledger));
    let writes = assumed(&mut ledger, &pod);
    assert!(is_ahead(&ledger), "it may be written");
    ledger.claims_written(&pod.uid, &writes, &written("3"));
    assert!(is_ahead(&ledger), "it is written");
    let now = ResourceClaim::clone(ledger.devices().claim(&key("c")).unwrap());
    ledger.apply_resource_claim(ResourceClaim { resource_version: "2".into(), ..claim("c", 1) });
    assert!(is_ahead(&ledger), "that is older");
    ledger.apply_resource_claim(now.clone());
    assert!(!is_ahead(&ledger));
    ledger.unreserve_claims(&pod.uid, &writes);
    assert!(is_ahead(&ledger), "it is to be given back");
    let given_back = ResourceClaim { resource_version: "4".into(), reserved_for: Vec::new(), ..now };
    ledger.apply_resource_claim(given_back);
    assert!(!is_ahead(&ledger));
}

/// The claim may have been deallocated and allocated anew, with these devices, which the watch has yet to show.
#[test]
fn a_reservation_that_is_written_says_that_the_claim_has_the_devices_that_were_judged() {
    let (mut ledger, pod) = start();
    let has = allocated(claim("c", 1), "a", "0", &["q"]);
    ledger.apply_resource_claim(has.clone());
    let plan = ClaimPlan { claims: vec![(key("c"), "uid-c".into(), None)], extended: None };
    let writes = ledger.assume_claims(&plan, &pod);
    assert_eq!((&writes[0].allocation, &writes[0].judged), (&None, &has.allocation));
    ledger.apply_resource_claim(ResourceClaim { resource_version: "6".into(), ..claim("c", 1) });
    assert!(!is_taken(&ledger));
    ledger.claims_written(&pod.uid, &writes, &written("8"));
    assert!(is_taken(&ledger));
}

#[test]
fn a_device_is_taken_from_the_commit_on_until_evidence_says_otherwise() {
    let (mut ledger, pod) = start();
    let writes = assumed(&mut ledger, &pod);
    assert!(is_taken(&ledger) && ledger.devices().is_in_flight(&key("c")));
    assert!(ledger.devices().claim(&key("c")).unwrap().allocation.is_none(), "it is not written yet");
    // The finalizer is seen: this says nothing of the allocation.
    ledger.apply_resource_claim(ResourceClaim { resource_version: "2".into(), has_finalizer: true, ..claim("c", 1) });
    assert!(is_taken(&ledger) && ledger.devices().is_in_flight(&key("c")));
    ledger.claims_written(&pod.uid, &writes, &written("3"));
    assert!(is_taken(&ledger) && !ledger.devices().is_in_flight(&key("c")));
    let now = ledger.devices().claim(&key("c")).unwrap().clone();
    assert!(now.allocation.is_some() && now.is_reserved_for("p"));
    // What is seen is older than what was written.
    ledger.apply_resource_claim(ResourceClaim { resource_version: "2".into(), ..claim("c", 1) });
    assert!(is_taken(&ledger));
    ledger.apply_resource_claim(ResourceClaim { resource_version: "4".into(), ..claim("c", 1) });
    assert!(!is_taken(&ledger), "somebody has taken it back");
}

#[test]
fn a_refused_or_unsent_write_gives_the_device_back() {
    for ended in [
        |ledger: &mut Ledger, pod: &Pod, writes: &[ClaimWrite]| ledger.claims_written(&pod.uid, writes, &refused()),
        |ledger: &mut Ledger, pod: &Pod, writes: &[ClaimWrite]| {
            ledger.claims_written(&pod.uid, writes, &ClaimsOutcome::default());
        },
    ] {
        let (mut ledger, pod) = start();
        let writes = assumed(&mut ledger, &pod);
        let before = ledger.version();
        ended(&mut ledger, &pod, &writes);
        assert!(!is_taken(&ledger) && !ledger.devices().is_in_flight(&key("c")));
        let changes: Vec<&Change> = ledger.log().since(before).unwrap().map(|(_, change)| change).collect();
        let [Change::Device(DeviceChange::Claim { freed, .. })] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!(freed.len(), 1, "{changes:?}");
    }
}

#[test]
fn the_watch_may_be_faster_than_the_answer() {
    let (mut ledger, pod) = start();
    let writes = assumed(&mut ledger, &pod);
    ledger.apply_resource_claim(allocated(claim("c", 1), "a", "0", &["p"]));
    assert!(is_taken(&ledger) && !ledger.devices().is_in_flight(&key("c")));
    ledger.claims_written(&pod.uid, &writes, &written("5"));
    assert!(is_taken(&ledger));
    assert_eq!(&*ledger.devices().claim(&key("c")).unwrap().resource_version, "5");
    ledger.delete_resource_claim("default/c");
    assert!(!is_taken(&ledger));
}

#[test]
fn a_claim_made_anew_under_the_name_has_nothing_of_the_old_one() {
    let (mut ledger, pod) = start();
    let writes = assumed(&mut ledger, &pod);
    ledger.apply_resource_claim(ResourceClaim { uid: "new".into(), resource_version: "9".into(), ..claim("c", 1) });
    assert!(!is_taken(&ledger));
    ledger.claims_written(&pod.uid, &writes, &written("8"));
    assert!(!is_taken(&ledger) && ledger.devices().claim(&key("c")).unwrap().reserved_for.is_empty());
}

/// What `p` is given by a claim that is made for its extended resources, brought into force; and the claim as it is seen with this uid.
fn being_made(ledger: &mut Ledger, pod: &Pod) -> (Arc<[ClaimWrite]>, impl Fn(&str, &str) -> ResourceClaim + use<>) {
    let result = allocated(claim("c", 1), "a", "0", &[]).allocation.expect("given").result.clone();
    let made = ExtendedClaim { spec: (*claim("c", 1).spec).clone(), mappings: Vec::new() };
    let extended = ExtendedPlan { claim: Arc::new(made), allocation: Arc::new(result) };
    let writes = ledger.assume_claims(&ClaimPlan { claims: Vec::new(), extended: Some(extended) }, pod);
    let (key, controller) = (writes[0].key.clone(), Some(pod.uid.clone()));
    let seen = move |uid: &str, version: &str| ResourceClaim {
        key: key.clone(),
        uid: uid.into(),
        resource_version: version.into(),
        controller: controller.clone(),
        is_extended: true,
        ..claim("c", 1)
    };
    (writes, seen)
}

#[test]
fn a_claim_that_is_gone_while_it_is_being_made_holds_its_devices_until_its_writer_has_ended() {
    let made = |writes: &[ClaimWrite], uid: &str| {
        let claim = WrittenClaim { key: writes[0].key.clone(), uid: uid.into(), resource_version: "9".into() };
        ClaimsOutcome { written: vec![claim], failure: None }
    };
    for is_deletion_seen in [true, false] {
        let (mut ledger, pod) = (cluster(), wanting("p", &[]));
        let (writes, seen) = being_made(&mut ledger, &pod);
        let identity = writes[0].key.to_string();
        ledger.apply_resource_claim(seen("one", "2"));
        if is_deletion_seen {
            ledger.delete_resource_claim(&identity);
            assert!(is_taken(&ledger), "it may be made once more");
        }
        ledger.apply_resource_claim(seen("two", "5"));
        assert!(is_taken(&ledger));
        ledger.claims_written(&pod.uid, &writes, &made(&writes, "two"));
        assert!(is_taken(&ledger) && !ledger.devices().is_in_flight(&writes[0].key));
        ledger.delete_resource_claim(&identity);
        assert!(!is_taken(&ledger));
    }
    // Its writer has made one claim, and that is gone; or none.
    for has_made_one in [true, false] {
        let (mut ledger, pod) = (cluster(), wanting("p", &[]));
        let (writes, seen) = being_made(&mut ledger, &pod);
        ledger.apply_resource_claim(seen("one", "2"));
        ledger.delete_resource_claim(&writes[0].key.to_string());
        assert!(is_taken(&ledger));
        let outcome = if has_made_one { made(&writes, "one") } else { refused() };
        ledger.claims_written(&pod.uid, &writes, &outcome);
        assert!(!is_taken(&ledger) && ledger.devices().claim(&writes[0].key).is_none());
    }
}

/// Only the second of two claims of a name is known by its writer's answer; the watch, which is behind, shows what was before.
#[test]
fn what_is_seen_late_of_a_claim_that_was_made_before_frees_no_devices() {
    let made = |writes: &[ClaimWrite]| {
        let claim = WrittenClaim { key: writes[0].key.clone(), uid: "two".into(), resource_version: "9".into() };
        ClaimsOutcome { written: vec![claim], failure: None }
    };
    for (is_first_seen_before, is_second_seen) in [(true, true), (true, false), (false, true), (false, false)] {
        let (mut ledger, pod) = (cluster(), wanting("p", &[]));
        let (writes, seen) = being_made(&mut ledger, &pod);
        let identity = writes[0].key.to_string();
        if is_first_seen_before {
            ledger.apply_resource_claim(seen("one", "2"));
        }
        ledger.claims_written(&pod.uid, &writes, &made(&writes));
        assert!(is_taken(&ledger) && !ledger.devices().is_in_flight(&writes[0].key));
        ledger.apply_resource_claim(seen("one", "2"));
        ledger.delete_resource_claim(&identity);
        assert!(is_taken(&ledger));
        if is_second_seen {
            ledger.apply_resource_claim(seen("two", "5"));
            assert!(is_taken(&ledger), "its allocation is to come");
            ledger.delete_resource_claim(&identity);
        } else {
            ledger.begin_read_of_claims();
            ledger.end_read_of_claims();
        }
        assert!(!is_taken(&ledger) && ledger.devices().claim(&writes[0].key).is_none());
    }
}

#[test]
fn a_claim_for_a_pod_that_nobody_serves_is_abandoned_once_it_is_written() {
    let (mut ledger, pod) = (cluster(), wanting("p", &[]));
    ledger.apply_pod(pod.clone());
    let (writes, seen) = being_made(&mut ledger, &pod);
    ledger.apply_resource_claim(seen("one", "2"));
    let abandoned = |ledger: &Ledger| -> Vec<ClaimKey> {
        ledger.abandoned_claims().into_iter().map(|(key, of)| (of.uid == pod.uid).then_some(key).unwrap()).collect()
    };
    assert_eq!(abandoned(&ledger), [], "it is being written");
    let claim = WrittenClaim { key: writes[0].key.clone(), uid: "one".into(), resource_version: "9".into() };
    ledger.claims_written(&pod.uid, &writes, &ClaimsOutcome { written: vec![claim], failure: None });
    assert_eq!(abandoned(&ledger), [writes[0].key.clone()]);
    ledger.set_own_schedulers(vec![pod.scheduler_name.clone()]);
    assert_eq!(abandoned(&ledger), []);
    ledger.set_own_schedulers(Vec::new());
    ledger.delete_pod(&pod.uid);
    assert_eq!(abandoned(&ledger), [], "it goes with its pod");
}

#[test]
fn a_reservation_that_is_given_back_is_gone_at_once_and_the_allocation_stays() {
    let (mut ledger, pod) = start();
    let writes = assumed(&mut ledger, &pod);
    ledger.claims_written(&pod.uid, &writes, &written("3"));
    assert_eq!(ledger.unreserve_claims(&pod.uid, &writes), [(key("c"), "uid-c".into())]);
    assert_eq!(ledger.unreserve_claims(&pod.uid, &writes), []);
    let now = ledger.devices().claim(&key("c")).unwrap().clone();
    assert!(is_taken(&ledger) && now.allocation.is_some() && now.reserved_for.is_empty());
}

#[test]
fn a_pod_that_is_bound_gives_no_reservation_back() {
    let (mut ledger, pod) = start();
    let writes = assumed(&mut ledger, &pod);
    ledger.claims_written(&pod.uid, &writes, &written("3"));
    ledger.apply_pod(Pod { node_name: Some("a".into()), ..pod.clone() });
    assert_eq!(ledger.unreserve_claims(&pod.uid, &writes), []);
    assert!(ledger.devices().claim(&key("c")).unwrap().is_reserved_for("p"));
}

#[test]
fn two_claims_of_one_device_hold_it_until_both_are_gone_141471() {
    let mut ledger = cluster();
    for name in ["c", "d"] {
        ledger.apply_resource_claim(allocated(claim(name, 1), "a", "0", &[]));
    }
    ledger.delete_resource_claim("default/c");
    assert!(is_taken(&ledger));
    ledger.delete_resource_claim("default/d");
    assert!(!is_taken(&ledger));
}

#[test]
fn what_changes_nothing_is_no_change() {
    let (mut ledger, _) = start();
    let version = ledger.version();
    ledger.apply_resource_claim(claim("c", 1));
    ledger.apply_resource_slice(crate::device_testing::devices_of("a", &["0", "1"]));
    ledger.delete_resource_slice("none");
    ledger.delete_resource_claim("default/none");
    ledger.apply_device_class(crate::device_testing::class("gpu", None));
    assert_eq!(ledger.version(), version);
}

#[test]
fn two_claims_that_are_seen_with_one_device_are_named_with_the_schedulers_of_their_pods() {
    let (mut ledger, pod) = start();
    ledger.apply_pod(Pod { scheduler_name: "ours".into(), ..pod.clone() });
    ledger.apply_pod(Pod { scheduler_name: "theirs".into(), node_name: Some("a".into()), ..wanting("q", &["d"]) });
    let writes = assumed(&mut ledger, &pod);
    ledger.apply_resource_claim(allocated(claim("d", 1), "a", "0", &["q", "gone"]));
    assert_eq!(ledger.contested_devices(), [], "ours may still be refused");
    ledger.claims_written(&pod.uid, &writes, &written("3"));
    ledger.apply_resource_claim(ResourceClaim {
        resource_version: "3".into(),
        ..allocated(claim("c", 1), "a", "0", &["p"])
    });
    let contested = ledger.contested_devices().remove(0);
    assert_eq!((&*contested.pool, &*contested.device), ("a", "0"));
    assert_eq!(contested.claims, [key("c"), key("d")]);
    assert_eq!(contested.scheduler_names, ["ours".into(), "theirs".into()]);
    // A claim that has one device twice hides nothing.
    let mut twice = ResourceClaim::clone(&allocated(claim("twice", 1), "a", "00", &[]));
    let mut result = twice.allocation.as_deref().expect("allocated").clone();
    result.result.results.push(result.result.results[0].clone());
    twice.allocation = Some(Arc::new(result));
    ledger.apply_resource_claim(twice);
    ledger.apply_resource_claim(allocated(claim("e", 1), "b", "1", &[]));
    ledger.apply_resource_claim(allocated(claim("f", 1), "b", "1", &[]));
    let devices: Vec<Str> = ledger.contested_devices().into_iter().map(|contested| contested.device).collect();
    assert_eq!(devices, ["0".into(), "1".into()]);
    ledger.delete_resource_claim("default/d");
    ledger.delete_resource_claim("default/f");
    assert_eq!(ledger.contested_devices(), []);
}

/// Whoever has the device may use it still: others are not given what it takes.
#[test]
fn what_a_held_device_takes_from_counters_outlives_its_slice_140802() {
    let (mut ledger, _) = start();
    let remembered = |ledger: &Ledger| -> Vec<String> {
        assert_eq!(ledger.audit(), Ok(()));
        let pool = PoolId { driver: "d".into(), pool: "a".into() };
        let used = ledger.devices().allocated().pool(&pool);
        used.into_iter().flat_map(PoolUse::remembered).map(|(device, _)| device.to_string()).collect()
    };
    let shows = |name: &str, generation: i64, devices: &[&str]| {
        let mut slice = ResourceSlice { name: name.into(), generation, ..devices_of("a", devices) };
        for device in &mut slice.devices {
            device.consumes_counters = vec![CounterConsumption { counter_set: "set".into(), counters: Vec::new() }];
        }
        slice
    };
    ledger.apply_resource_slice(shows("slice-a", 1, &["0", "1", "2"]));
    let has = allocated(claim("c", 1), "a", "0", &["q"]);
    ledger.apply_resource_claim(has.clone());
    ledger.apply_resource_slice(shows("slice-a", 1, &["0", "1"]));
    assert!(remembered(&ledger).is_empty(), "nobody has 2");
    ledger.apply_resource_slice(shows("slice-a", 1, &["1"]));
    assert_eq!(remembered(&ledger), ["0"], "its slice shows it no more");
    ledger.apply_resource_slice(shows("more", 1, &["0"]));
    assert!(remembered(&ledger).is_empty(), "another slice shows it");
    ledger.delete_resource_slice("more");
    assert_eq!(remembered(&ledger), ["0"], "that was deleted");
    ledger.apply_resource_slice(shows("slice-a", 1, &["0", "1"]));
    ledger.apply_resource_slice(shows("newer", 2, &["1"]));
    assert_eq!(remembered(&ledger), ["0"], "a newer generation does not show it");
    ledger.delete_resource_slice("slice-a");
    let mut more = ClaimAllocation::clone(has.allocation.as_ref().expect("allocated"));
    more.result.results.push(DeviceResult { device: "1".into(), ..more.result.results[0].clone() });
    let more = Some(Arc::new(more));
    ledger.apply_resource_claim(ResourceClaim { resource_version: "6".into(), allocation: more, ..has });
    assert_eq!(remembered(&ledger), ["0"], "the claim has it still, with another one");
    ledger.apply_resource_claim(ResourceClaim { resource_version: "7".into(), ..claim("c", 1) });
    assert!(remembered(&ledger).is_empty(), "it was given back");
}

/// A node that sees nothing of a pool but its counters asks only whether the pool is in the way.
#[test]
fn a_pool_with_counters_is_news_elsewhere_only_where_it_is_in_the_way_before_or_after() {
    let mut ledger = cluster();
    let versions = |ledger: &Ledger| {
        ["a", "b"].map(|node| ledger.devices().version_on(ledger.nodes().find(node).expect("it is there")))
    };
    let mut before = versions(&ledger);
    let mut is_news = |ledger: &Ledger| {
        let now = versions(ledger);
        let moved = [now[0] > before[0], now[1] > before[1]];
        before = now;
        moved
    };
    let id = PoolId { driver: "d".into(), pool: "cut".into() };
    let of_two = |name: &str, devices: &[&str]| ResourceSlice {
        name: name.into(),
        id: id.clone(),
        resource_slice_count: 2,
        ..devices_of("a", devices)
    };
    let counters = || ResourceSlice {
        shared_counters: vec![CounterSet { name: "set".into(), counters: Vec::new() }],
        ..of_two("counters", &[])
    };
    ledger.apply_resource_slice(counters());
    assert_eq!(is_news(&ledger), [true, true], "a slice is missing");
    ledger.apply_resource_slice(of_two("devices", &["0"]));
    assert_eq!(is_news(&ledger), [true, true], "it is complete");
    let mut has = allocated(claim("c", 1), "a", "0", &["q"]);
    let mut allocation = ClaimAllocation::clone(has.allocation.as_ref().expect("allocated"));
    allocation.result.results[0].pool = "cut".into();
    has.allocation = Some(Arc::new(allocation));
    ledger.apply_resource_claim(has);
    assert_eq!(is_news(&ledger), [true, false], "its device is taken");
    ledger.apply_resource_slice(of_two("devices", &["0", "1"]));
    assert_eq!(is_news(&ledger), [true, false], "it has another device");
    ledger.delete_resource_slice("devices");
    assert_eq!(is_news(&ledger), [true, true], "a slice is missing again");
    ledger.apply_resource_slice(of_two("others", &["0"]));
    assert_eq!(is_news(&ledger), [true, true], "it is complete again");
    assert_eq!(ledger.audit(), Ok(()));
}
