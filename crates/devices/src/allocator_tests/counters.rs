//! Devices that consume counters of their pool: parts of one device, say.

use super::{
    Cluster, all, claim, constrained, counters, details, exactly, first_of, memory, model, of_two, part, selected,
    shared, with,
};
use crate::model::{
    AllocationResult, Attributes, Device, DeviceResult, DeviceTaint, Request, ResourceSlice, TaintEffect,
};
use crate::testing::{device, result, slice};
use berth_cel::QualifiedName;

/// A pool with these devices and a set `mem` of 40.
fn pool_of(devices: impl IntoIterator<Item = Device>) -> [ResourceSlice; 2] {
    [counters("s1", "d/p", &[("mem", "40")]), with(of_two(slice("s0", "d/p", None, &[])), devices)]
}

#[test]
fn parts_of_a_device_share_its_counters() {
    let parts = [part("full", "mem", "40"), part("half-0", "mem", "20"), part("half-1", "mem", "20")];
    let slices = [counters("s1", "d/p", &[("mem", "40")]), with(of_two(slice("s0", "d/p", None, &[])), parts)];
    let cluster = Cluster::new(slices.clone()).hold(vec![result("d/p", "half-0")]);
    assert_eq!(cluster.devices(claim([exactly(details(1))])), "r0=half-1");
    assert_eq!(cluster.devices(claim([exactly(details(2))])), "none");
    assert_eq!(Cluster::new(slices).devices(claim([exactly(details(2))])), "r0=half-0 r0=half-1");
}

#[test]
fn an_overdrawn_counter_refuses_all_that_consume_any() {
    let parts = [part("gone", "p", "9"), part("other", "q", "1"), device("plain")];
    let slices =
        [counters("s1", "d/p", &[("p", "4"), ("q", "10")]), with(of_two(slice("s0", "d/p", None, &[])), parts)];
    let cluster = Cluster::new(slices).hold(vec![result("d/p", "gone")]);
    assert_eq!(cluster.devices(claim([exactly(details(1))])), "r0=plain");
}

#[test]
fn equally_named_pools_of_two_drivers_have_their_own_counters_140434() {
    let pool = |driver: &str| {
        let id = format!("{driver}/p");
        let parts = [part(&format!("{driver}-0"), "mem", "40")];
        [counters(&format!("{driver}1"), &id, &[("mem", "40")]), with(of_two(slice(driver, &id, None, &[])), parts)]
    };
    let cluster = Cluster::new(pool("a").into_iter().chain(pool("b")));
    assert_eq!(cluster.devices(claim([exactly(details(2))])), "r0=a-0 r0=b-0");
}

#[test]
fn admin_access_consumes_counters_140729() {
    let parts = [part("a", "mem", "40"), part("b", "mem", "40")];
    let slices = [counters("s1", "d/p", &[("mem", "40")]), with(of_two(slice("s0", "d/p", None, &[])), parts)];
    let admin = || Request::Exactly { details: details(1), admin_access: true };
    let cluster = Cluster::new(slices);
    assert_eq!(cluster.devices(claim([admin()])), "r0=a");
    assert_eq!(cluster.devices(claim([admin(), exactly(details(1))])), "none");
}

/// Upstream gives what it took to others at once.
#[test]
fn an_allocated_device_that_no_slice_shows_any_more_takes_what_it_took_140802() {
    let shows = |parts: Vec<Device>| with(of_two(slice("s0", "d/p", None, &[])), parts);
    let counters = || counters("s1", "d/p", &[("mem", "40")]);
    let one = || claim([exactly(details(1))]);
    let without = || Cluster::new([counters(), shows(vec![part("a", "mem", "40")])]);
    let mut cluster = without().hold(vec![result("d/p", "gone")]);
    assert_eq!(cluster.devices(one()), "r0=a", "what it took is not known");
    let before = shows(vec![part("a", "mem", "40"), part("gone", "mem", "1")]);
    let now = shows(vec![part("a", "mem", "40")]);
    cluster.allocated.remember(&before);
    cluster.allocated.forget_shown(&now.id, [&now].into_iter());
    assert_eq!(cluster.devices(one()), "none");
    cluster.slices.apply(shows(vec![part("a", "mem", "40"), part("gone", "mem", "0")]));
    assert_eq!(cluster.devices(one()), "r0=a", "a slice shows it again, and that it takes nothing now");
    let mut cluster = without().hold(vec![result("d/p", "gone"), result("d/p", "other")]);
    cluster.allocated.remember(&before);
    cluster.allocated.forget_shown(&now.id, [&now].into_iter());
    let gone = AllocationResult { results: vec![result("d/p", "gone")], ..AllocationResult::default() };
    cluster.allocated.deallocate(&gone);
    let cluster = cluster.hold(gone.results);
    assert_eq!(cluster.devices(one()), "r0=a", "nothing is remembered of a device that was given back");
}

#[test]
fn all_devices_of_a_pool_consume_their_counters_138885() {
    let halves = || [part("half-0", "mem", "20"), part("half-1", "mem", "20")];
    assert_eq!(Cluster::new(pool_of(halves())).devices(claim([exactly(all())])), "r0=half-0 r0=half-1");
    let with_whole = halves().into_iter().chain([part("full", "mem", "40")]);
    assert_eq!(Cluster::new(pool_of(with_whole)).devices(claim([exactly(all())])), "none");
}

#[test]
fn a_device_with_shares_goes_on_consuming_its_counters_139040() {
    let x = Device { consumes_counters: part("", "mem", "40").consumes_counters, ..shared("x") };
    let share =
        |amount| DeviceResult { share_id: Some("0".into()), consumed_capacity: memory(amount), ..result("d/p", "x") };
    let other = || claim([exactly(selected(1, "model m"))]);
    let y = Device { attributes: model("y", "m").attributes, ..part("y", "mem", "1") };
    let cluster = Cluster::new(pool_of([x, y]));
    assert_eq!(cluster.devices(other()), "r0=y");
    let cluster = cluster.hold(vec![share("4Gi")]);
    assert_eq!(cluster.devices(other()), "none");
    assert_eq!(cluster.devices(claim([exactly(details(1))])), "r0=x", "a second share costs no counters");
}

/// What was taken for a device goes back when the device is rejected, and when the search gives it up. The second number is of the same
/// mistake in 1.36.
#[test]
fn what_a_rejected_device_consumed_is_given_back_140431_140663() {
    let part = |name, of, amount| Device { attributes: model("", of).attributes, ..part(name, "mem", amount) };
    // A taint.
    let taint = DeviceTaint { key: "broken".into(), value: "yes".into(), effect: TaintEffect::NoSchedule };
    let tainted = Device { taints: vec![taint], ..part("a", "A", "40") };
    assert_eq!(Cluster::new(pool_of([tainted, part("b", "B", "40")])).devices(claim([exactly(details(1))])), "r0=b");
    // A constraint.
    let parts = [part("a", "A", "20"), part("b", "B", "20"), part("c", "A", "20")];
    let equal = constrained(claim([exactly(details(2))]), Attributes::Match(QualifiedName::parse("d/model")));
    assert_eq!(Cluster::new(pool_of(parts)).devices(equal), "r0=a r0=c");
    // A share that a later request makes impossible.
    let whole = Device { consumes_counters: part("", "", "40").consumes_counters, ..shared("a") };
    let cluster = Cluster::new(pool_of([whole, part("b", "B", "40"), device("c")]));
    assert_eq!(cluster.devices(claim([exactly(details(1)), exactly(selected(1, "model B"))])), "r0=c r1=b");
    // One of several devices of an alternative.
    let cluster = Cluster::new(pool_of([part("a", "A", "40"), device("b")]));
    let wanted = claim([first_of(&[("two", 3), ("one", 1)]), exactly(selected(1, "model A"))]);
    assert_eq!(cluster.devices(wanted), "r0/one=b r1=a");
}
