//! What allocations cost: `cargo test --release -p berth-devices --test figures -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use berth_cel::{Attribute, QualifiedName};
use berth_devices::model::{
    Attributes, Device, DeviceClass, DeviceConstraint, DeviceRequest, NodeSelection, PoolId, Request, RequestDetails,
    ResourceClaim, ResourceSlice, Selector, Str,
};
use berth_devices::node_selector::Node;
use berth_devices::state::AllocatedState;
use berth_devices::{Allocator, Outcome, PublishedDevice, Select, SelectError, ShareIds, Slices};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Compares the driver, which is about the cheapest selector that there is.
struct Driver;

impl Select for Driver {
    fn selects(&mut self, _: &Str, device: PublishedDevice<'_>, _: &mut i64) -> Result<bool, SelectError> {
        Ok(&*device.slice.id.driver == "gpu.example.com")
    }
}

struct NoShares;

impl ShareIds for NoShares {
    fn next_share_id(&mut self) -> Str {
        "".into()
    }
}

fn device(number: usize, model: &str) -> Device {
    let attribute = (QualifiedName::parse("model"), Attribute::Text(model.into()));
    Device { name: format!("gpu-{number}").into(), attributes: vec![attribute], ..Device::default() }
}

fn slice(name: String, pool: &str, count: usize, node: Option<&str>, devices: Vec<Device>) -> ResourceSlice {
    ResourceSlice {
        name: name.into(),
        id: PoolId { driver: "gpu.example.com".into(), pool: pool.into() },
        generation: 1,
        resource_slice_count: count as i64,
        nodes: NodeSelection { node_name: node.map(Into::into), all_nodes: node.is_none(), node_selector: None },
        per_device_node_selection: false,
        devices,
        shared_counters: Vec::new(),
    }
}

fn claim(count: i64, constraints: Vec<DeviceConstraint>) -> ResourceClaim {
    let details = RequestDetails { device_class_name: "gpu".into(), count, ..RequestDetails::default() };
    let request = DeviceRequest { name: "r".into(), request: Request::Exactly { details, admin_access: false } };
    ResourceClaim {
        namespace: "ns".into(),
        name: "c".into(),
        requests: vec![request],
        constraints,
        ..ResourceClaim::default()
    }
}

/// Prints the best of five rounds over all nodes.
fn measure(what: &str, slices: &Slices, nodes: &[String], claim: &ResourceClaim, fits: bool) {
    let selector = Selector { cel: Some("device.driver == \"gpu.example.com\"".into()) };
    let class = DeviceClass { name: "gpu".into(), selectors: vec![selector], ..DeviceClass::default() };
    let classes: BTreeMap<Str, Arc<DeviceClass>> = [("gpu".into(), Arc::new(class))].into();
    let (allocated, labels) = (AllocatedState::default(), BTreeMap::<Str, Str>::new());
    let allocator = Allocator { slices, allocated: &allocated, classes: &classes };
    let (mut best, mut spent) = (Duration::MAX, 0);
    for _ in 0..5 {
        let (began, mut steps) = (Instant::now(), i64::MAX);
        for name in nodes {
            let node = Node { name, labels: &labels };
            let outcome = allocator.allocate(node, &[claim], &mut Driver, &mut NoShares, &mut steps);
            assert_eq!(matches!(outcome, Outcome::Allocated(_)), fits, "{outcome:?}");
        }
        best = best.min(began.elapsed());
        spent = i64::MAX - steps;
    }
    println!("{what}: {best:?}, {spent} steps");
}

#[test]
#[ignore = "prints figures; run it on a machine that does nothing else"]
fn figures() {
    let nodes: Vec<String> = (0..500).map(|number| format!("node-{number}")).collect();
    let devices = |count| (0..count).map(|number| device(number, "a")).collect();
    let local = nodes.iter().map(|node| slice(format!("{node}-0"), node, 1, Some(node), devices(10)));
    measure("one device on each of 500 nodes of 10", &local.collect(), &nodes, &claim(1, Vec::new()), true);

    let same = || {
        let attributes = Attributes::Match(QualifiedName::parse("gpu.example.com/model"));
        vec![DeviceConstraint { requests: Vec::new(), attributes }]
    };
    let models = |count: usize| (0..count).map(|number| device(number, ["a", "b"][number % 2])).collect();
    let halves: Slices = [slice("s".to_owned(), "p", 1, None, models(16))].into_iter().collect();
    measure("8 of 16 devices of one model", &halves, &nodes[..1], &claim(8, same()), true);
    measure("9 of 16, which no model has", &halves, &nodes[..1], &claim(9, same()), false);
    let whole: Slices = [slice("s".to_owned(), "p", 1, None, devices(16))].into_iter().collect();
    measure("16 of 16 devices of one model", &whole, &nodes[..1], &claim(16, same()), true);

    // A slice has at most 128 devices.
    let large = (0..79).map(|number| {
        let devices = (number * 128..10_000.min((number + 1) * 128)).map(|number| device(number, "a")).collect();
        slice(format!("s-{number:02}"), "p", 79, None, devices)
    });
    let large: Slices = large.collect();
    measure("one device of a pool of 10,000", &large, &nodes[..1], &claim(1, Vec::new()), true);
    let mut none = claim(1, same());
    none.constraints[0].attributes = Attributes::Match(QualifiedName::parse("gpu.example.com/none"));
    measure("none of a pool of 10,000", &large, &nodes[..1], &none, false);
}
