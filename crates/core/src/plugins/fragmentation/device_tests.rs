use super::*;
use crate::cycle::Rng;
use crate::device_testing::{allocated, claim_of, class, devices_of, request, wanting};
use crate::ledger::Ledger;
use crate::limits::FRAGMENTATION_REQUESTS;
use crate::model::{DeviceClass, ExtendedRequests, ResourceClaim};
use crate::plugins::dynamic_resources::State;
use crate::profile::CompiledProfile;
use crate::testing::{node, shape, with_row};
use berth_cel::QualifiedName;
use berth_devices::model::{
    CounterConsumption, CounterSet, Device, DeviceRequest, NodeSelection, PoolId, Request, ResourceSlice,
};
use berth_quantity::Quantity;
use std::collections::BTreeMap;

const GPU: &str = "example.com/gpu";

/// A cluster, and a profile's tables.
struct Bench {
    ledger: Ledger,
    tables: Tables,
    claims: RefCell<KeptClaims>,
    profile: CompiledProfile,
}

impl Bench {
    fn new() -> Self {
        let mut ledger = Ledger::new();
        ledger.apply_device_class(DeviceClass { extended_resource: Some(GPU.into()), ..class("gpu", None) });
        let profile = CompiledProfile::default_preset("test");
        Self { ledger, tables: Tables::default(), claims: RefCell::default(), profile }
    }

    fn node(&mut self, name: &str, devices: Vec<Device>) {
        self.ledger.apply_node(&node(name, 64_000, 64 << 30, 110));
        self.ledger.apply_resource_slice(ResourceSlice { devices, ..devices_of(name, &[]) });
    }

    /// Counts the pod among those that come.
    fn count(&mut self, pod: &Pod) {
        self.tables.count(PluginContext { profile: &self.profile, ledger: &self.ledger }, pod);
    }

    /// A claim, and the pod that names it.
    fn pod(&mut self, name: &str, claim: ResourceClaim) -> Pod {
        self.ledger.apply_resource_claim(claim);
        wanting(name, &[name])
    }

    fn scores(&mut self, pod: &Pod) -> Option<BTreeMap<String, i64>> {
        let Self { ledger, tables, claims, profile } = self;
        let cx = PluginContext { profile, ledger };
        let resolved = ResolvedPod::new(profile, ledger, &pod.shape);
        let _ = State::prepare(cx, pod, claims).expect("its claims can be used");
        let (order, mut out) = (ledger.node_order(), Vec::new());
        let runs = tables.score(cx, &resolved, claims, &order, &mut out, &mut Work::unbounded());
        let names = order.iter().map(|node| ledger.nodes().name(*node).to_string());
        runs.expect("the work is unbounded").then(|| names.zip(out).collect())
    }
}

fn whole(name: &str) -> Device {
    Device { name: name.into(), ..Device::default() }
}

fn amount(units: i64) -> Vec<(QualifiedName, Quantity)> {
    vec![(QualifiedName::parse("memory"), Quantity::from_units(units))]
}

fn shared(name: &str) -> Device {
    Device { capacity: amount(100), allow_multiple_allocations: true, ..whole(name) }
}

fn part_request(name: &str, units: i64) -> DeviceRequest {
    let mut one = request(name, "gpu", 1);
    if let Request::Exactly { details, .. } = &mut one.request {
        details.capacity = amount(units);
    }
    one
}

fn part(name: &str, units: i64) -> ResourceClaim {
    claim_of(name, vec![part_request("r", units)])
}

/// A pod that asks for so many of the extended resource.
fn extended(name: &str, count: i64) -> Pod {
    let resources = vec![(GPU.into(), 0, count)];
    let container = ExtendedRequests { container: "c".into(), index: 0, is_short_lived: false, resources };
    let shape = with_row(shape(), |row| row.requests.set_scalar(GPU.into(), count));
    Pod { extended: Some([container].into()), ..crate::testing::pod(name, shape) }
}

/// The claim once it has so much of a device.
fn holding(name: &str, on: &str, device: &str, units: i64) -> ResourceClaim {
    let mut claim = allocated(part(name, units), on, device, &[]);
    let allocation = Arc::make_mut(claim.allocation.as_mut().expect("it is allocated"));
    allocation.result.results[0].share_id = Some(name.into());
    allocation.result.results[0].consumed_capacity = amount(units);
    claim
}

#[test]
fn a_pod_shares_a_device_that_is_begun_rather_than_one_that_others_want_whole() {
    let mut bench = Bench::new();
    for name in ["fresh", "begun"] {
        bench.node(name, vec![shared("0")]);
    }
    bench.ledger.apply_resource_claim(holding("there", "begun", "0", 40));
    let (all, some) = (bench.pod("all", part("all", 100)), bench.pod("some", part("some", 30)));
    bench.count(&all);
    bench.count(&some);
    let scores = bench.scores(&some).expect("they differ");
    assert_eq!((scores["fresh"], scores["begun"]), (0, 100));
}

#[test]
fn what_is_left_of_a_device_is_stranded_where_it_is_too_little_for_all() {
    let mut bench = Bench::new();
    for name in ["roomy", "exact"] {
        bench.node(name, vec![shared("0")]);
    }
    bench.ledger.apply_resource_claim(holding("a", "roomy", "0", 50));
    bench.ledger.apply_resource_claim(holding("b", "exact", "0", 60));
    let some = bench.pod("some", part("some", 40));
    bench.count(&some);
    let scores = bench.scores(&some).expect("they differ");
    assert_eq!((scores["roomy"], scores["exact"]), (0, 100), "10 would be left that nobody asks for");
}

#[test]
fn a_partition_is_cut_from_what_is_cut_already() {
    let cut = |name: &str, slices: i64| Device {
        consumes_counters: vec![CounterConsumption {
            counter_set: "gpu-0".into(),
            counters: vec![("slices".into(), Quantity::from_units(slices))],
        }],
        ..whole(name)
    };
    let mut bench = Bench::new();
    for name in ["fresh", "begun"] {
        bench.node(name, Vec::new());
        let counters = vec![("slices".into(), Quantity::from_units(8))];
        let sets = vec![CounterSet { name: "gpu-0".into(), counters }];
        let of_two = |slice: ResourceSlice| ResourceSlice { resource_slice_count: 2, ..slice };
        let slice = of_two(devices_of(name, &[]));
        let devices = vec![cut("half-0", 4), cut("half-1", 4), cut("whole", 8)];
        let name = format!("counters-{name}").into();
        bench.ledger.apply_resource_slice(ResourceSlice { name, shared_counters: sets, ..slice.clone() });
        bench.ledger.apply_resource_slice(ResourceSlice { devices, ..slice });
    }
    // Both halves are the same to the pod; one cuts what nobody has cut.
    bench.ledger.apply_resource_claim(allocated(
        claim_of("there", vec![request("r", "gpu", 1)]),
        "begun",
        "half-0",
        &[],
    ));
    let pods = [bench.pod("one", claim_of("one", vec![request("r", "gpu", 1)]))];
    bench.count(&pods[0]);
    let two = bench.pod("two", claim_of("two", vec![request("r", "gpu", 2)]));
    bench.count(&two);
    let scores = bench.scores(&pods[0]).expect("they differ");
    assert_eq!((scores["fresh"], scores["begun"]), (0, 100), "two fit only where nothing is cut");
}

#[test]
fn an_extended_resource_counts_as_devices_where_devices_provide_it() {
    let mut bench = Bench::new();
    bench.node("three", vec![whole("0"), whole("1"), whole("2")]);
    bench.node("two", vec![whole("0"), whole("1")]);
    bench.count(&extended("p", 2));
    let scores = bench.scores(&extended("p", 2)).expect("they differ");
    assert_eq!((scores["three"], scores["two"]), (0, 100), "one would be left");
    let mut node = node("plugin", 64_000, 64 << 30, 110);
    node.allocatable.set_scalar(GPU.into(), 4);
    bench.ledger.apply_node(&node);
    let scores = bench.scores(&extended("p", 2)).expect("they differ");
    assert_eq!((scores["three"], scores["two"], scores["plugin"]), (0, 100, 100), "two of four leave two");
}

#[test]
fn a_profile_that_does_not_look_at_claims_sees_no_devices() {
    let mut bench = Bench::new();
    for (name, devices) in [("one", vec![whole("0")]), ("two", vec![whole("0"), whole("1")])] {
        bench.node(name, devices);
    }
    let pair = bench.pod("pair", claim_of("pair", vec![request("r", "gpu", 2)]));
    let pod = bench.pod("p", claim_of("p", vec![request("r", "gpu", 1)]));
    bench.count(&pair);
    assert!(bench.scores(&pod).is_some());
    let filters = bench.profile.filters.without(Plugin::DynamicResources);
    bench.profile.filters = filters;
    bench.tables = Tables::default();
    bench.count(&pair);
    assert_eq!(bench.scores(&pod), None);
}

#[test]
fn devices_that_nodes_share_are_taken_for_there() {
    let mut bench = Bench::new();
    for (name, devices) in [("one", vec![whole("0")]), ("two", vec![whole("0"), whole("1")])] {
        bench.node(name, devices);
    }
    let network = Str::from("network");
    bench.ledger.apply_device_class(class(&network, Some("device.driver == \"n\"")));
    let asking = |name: &str, gpus: i64| claim_of(name, vec![request("r", "gpu", gpus), request("n", &network, 1)]);
    let pair = bench.pod("pair", asking("pair", 2));
    bench.count(&pair);
    let one = bench.pod("one", claim_of("one", vec![request("r", "gpu", 1)]));
    assert_eq!(bench.scores(&one), None, "no pod can have both anywhere");
    let shared = ResourceSlice {
        id: PoolId { driver: "n".into(), pool: "n".into() },
        nodes: NodeSelection { all_nodes: true, ..NodeSelection::default() },
        devices: vec![whole("port")],
        ..devices_of("fabric", &[])
    };
    bench.ledger.apply_resource_slice(shared);
    let scores = bench.scores(&one).expect("they differ");
    assert_eq!((scores["one"], scores["two"]), (100, 0), "the pair fits on the second only");
}

#[test]
fn two_requests_of_a_pod_can_share_a_device() {
    let mut bench = Bench::new();
    for name in ["fresh", "begun"] {
        bench.node(name, vec![shared("0")]);
    }
    bench.ledger.apply_resource_claim(holding("there", "begun", "0", 30));
    let both = claim_of("both", [0, 1].map(|i| part_request(&format!("r{i}"), 40)).to_vec());
    let both = bench.pod("both", both);
    bench.count(&both);
    let small = bench.pod("small", part("small", 40));
    let scores = bench.scores(&small).expect("they differ");
    assert_eq!(
        (scores["fresh"], scores["begun"]),
        (100, 0),
        "on the first both still fit, each by itself, and on the second none"
    );
}

#[test]
fn a_pod_with_too_many_requests_counts_as_one_without_devices() {
    let mut bench = Bench::new();
    bench.node("one", vec![whole("0")]);
    bench.node("two", vec![whole("0"), whole("1")]);
    let many = (0..=FRAGMENTATION_REQUESTS).map(|i| request(&format!("r{i}"), "gpu", 1));
    let greedy = bench.pod("greedy", claim_of("greedy", many.collect()));
    bench.count(&greedy);
    assert_eq!(bench.scores(&greedy), None);
    assert!(bench.tables.mix.kinds().iter().all(|(ask, _)| ask.devices.is_empty()));
    assert!(bench.tables.kept.iter().all(|kept| kept.claims.is_empty()));
}

/// Devices of a node: whole ones, and shared ones.
fn some_devices(rng: &mut Rng) -> Vec<Device> {
    let device = |i: u64| if rng.below(2) == 0 { whole(&format!("d{i}")) } else { shared(&format!("d{i}")) };
    (0..4).map(device).collect()
}

/// A claim of some devices, or of a part of one; or an extended resource that devices provide.
fn some_pod(bench: &mut Bench, rng: &mut Rng, name: &str) -> Pod {
    let claim = match rng.below(4) {
        0 => claim_of(name, vec![request("r", "gpu", 1 + rng.below(2) as i64)]),
        1 => return extended(name, 1 + rng.below(2) as i64),
        _ => part(name, 25 * (1 + rng.below(3) as i64)),
    };
    bench.pod(name, claim)
}

#[test]
fn what_is_kept_is_what_is_found_anew() {
    let mut told_apart = 0;
    for seed in 0..60 {
        let mut rng = Rng::seeded(seed);
        let mut bench = Bench::new();
        for i in 0..5 {
            let devices = some_devices(&mut rng);
            bench.node(&format!("n{i}"), devices);
        }
        for step in 0..40 {
            let on = format!("n{}", rng.below(5));
            match rng.below(8) {
                0 => bench.node(&on, some_devices(&mut rng)),
                1 => bench.ledger.delete_node(&on),
                2 | 3 => bench.ledger.delete_resource_claim(&format!("default/c{}", rng.below(40))),
                4 => bench.ledger.apply_device_class(class(["gpu", "other"][rng.below(2) as usize], None)),
                _ => {
                    let device = format!("d{}", rng.below(4));
                    let name = format!("c{step}");
                    bench.ledger.apply_resource_claim(holding(&name, &on, &device, 10 * rng.below(6) as i64));
                }
            }
            let pod = some_pod(&mut bench, &mut rng, &format!("p{step}"));
            bench.count(&pod);
            let kept = bench.scores(&pod);
            told_apart += usize::from(kept.is_some());
            let anew = Tables { mix: bench.tables.mix.clone(), ..Tables::default() };
            let tables = std::mem::replace(&mut bench.tables, anew);
            assert_eq!(bench.scores(&pod), kept, "seed {seed}, step {step}");
            bench.tables = tables;
        }
    }
    assert!(told_apart > 500, "{told_apart}");
}
