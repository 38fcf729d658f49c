//! Two schedulers that look at one ledger at the same time give no device, no share of one and no part of a counter twice.

use crate::cycle::{Decision, Rng, Scheduler};
use crate::device_testing::{claim_of, class, devices_of, key, request, wanting};
use crate::io::{ClaimsOutcome, WrittenClaim};
use crate::ledger::{Ledger, PodState, Proposal};
use crate::model::{ClaimWrite, Pod, Str};
use crate::profile::CompiledProfile;
use crate::testing::node;
use berth_cel::QualifiedName;
use berth_devices::model::{
    AllocationResult, CounterConsumption, CounterSet, Device, DeviceRequest, NodeSelection, PoolId, Request,
    ResourceSlice,
};
use berth_quantity::Quantity;
use std::collections::BTreeMap;
use std::sync::Arc;

const GIB: i64 = 8;
const SLICES: i64 = 4;

fn amount(text: &str) -> Quantity {
    Quantity::parse(text).expect("a quantity")
}

fn named(name: &str, value: &str) -> Vec<(QualifiedName, Quantity)> {
    vec![(QualifiedName::parse(name), amount(value))]
}

/// What every node can use: devices that one has alone, and one of which many have parts.
fn everywhere() -> ResourceSlice {
    let shared = Device {
        name: "shared".into(),
        capacity: named("memory", &format!("{GIB}Gi")),
        allow_multiple_allocations: true,
        ..Device::default()
    };
    let nodes = NodeSelection { all_nodes: true, ..NodeSelection::default() };
    let id = PoolId { driver: "net".into(), pool: "net".into() };
    let mut slice = ResourceSlice { name: "net".into(), id, nodes, ..devices_of("net", &["0", "1"]) };
    slice.devices.push(shared);
    slice
}

/// What a node has of its own: devices that are cut from one counter.
fn cut(node: &str) -> [ResourceSlice; 2] {
    let part = |(name, slices): (&str, &str)| Device {
        name: name.into(),
        consumes_counters: vec![CounterConsumption {
            counter_set: "set".into(),
            counters: vec![("slices".into(), amount(slices))],
        }],
        ..Device::default()
    };
    let id = PoolId { driver: "cut".into(), pool: node.into() };
    let of_two = |slice: ResourceSlice| ResourceSlice { id: id.clone(), resource_slice_count: 2, ..slice };
    let counters = vec![("slices".into(), amount(&SLICES.to_string()))];
    let shared_counters = vec![CounterSet { name: "set".into(), counters }];
    let devices = [("all", "4"), ("half", "2"), ("other-half", "2"), ("most", "3"), ("least", "1")].map(part).into();
    let (counters, parts) = (format!("{node}-counters").into(), format!("{node}-parts").into());
    [
        of_two(ResourceSlice { name: counters, shared_counters, ..devices_of(node, &[]) }),
        of_two(ResourceSlice { name: parts, devices, ..devices_of(node, &[]) }),
    ]
}

/// One or two devices of a kind; of the shared one so much.
fn some_request(rng: &mut Rng, name: &str) -> DeviceRequest {
    let mut asked = match rng.below(3) {
        0 => request(name, "whole", 1 + rng.below(2) as i64),
        1 => request(name, "cut", 1 + rng.below(2) as i64),
        _ => request(name, "shared", 1),
    };
    if let Request::Exactly { details, .. } = &mut asked.request
        && *details.device_class_name == *"shared"
    {
        details.capacity = named("memory", ["1Gi", "3Gi", "5Gi"][rng.below(3) as usize]);
    }
    asked
}

struct World {
    rng: Rng,
    ledger: Ledger,
    schedulers: [Scheduler; 2],
    /// By pod, what was decided for it.
    held: BTreeMap<Str, (Arc<[ClaimWrite]>, Vec<AllocationResult>)>,
    serial: u64,
    /// Pods that came too late: of whole devices, shares and what is cut.
    late: [usize; 3],
}

impl World {
    fn new(seed: u64) -> Self {
        let mut ledger = Ledger::new();
        for name in ["a", "b"] {
            ledger.apply_node(&node(name, 64_000, 64 << 30, 100));
            for slice in cut(name) {
                ledger.apply_resource_slice(slice);
            }
        }
        ledger.apply_resource_slice(everywhere());
        for (name, of) in [
            ("whole", "device.driver == 'net' && !device.allowMultipleAllocations"),
            ("shared", "device.allowMultipleAllocations"),
            ("cut", "device.driver == 'cut'"),
        ] {
            ledger.apply_device_class(class(name, Some(of)));
        }
        let profile = Arc::new(CompiledProfile::default_preset("test"));
        let schedulers = [1, 2].map(|seed| Scheduler::new(profile.clone(), seed));
        Self { rng: Rng::seeded(seed), ledger, schedulers, held: BTreeMap::new(), serial: 0, late: [0; 3] }
    }

    /// A pod that asks for something.
    fn pod(&mut self) -> Arc<Pod> {
        self.serial += 1;
        let name = format!("p{}", self.serial);
        let requests = (0..=self.rng.below(2)).map(|i| some_request(&mut self.rng, &format!("r{i}"))).collect();
        self.ledger.apply_resource_claim(claim_of(&name, requests));
        self.ledger.apply_pod(wanting(&name, &[&name]));
        let Some(PodState::Pending(pod)) = self.ledger.pod(&name).cloned() else { panic!("{name} waits") };
        pod
    }

    fn decide(&mut self, scheduler: usize) -> Option<Proposal> {
        let pod = self.pod();
        match self.schedulers[scheduler].decide(&self.ledger, &pod) {
            Decision::Place(proposal) => Some(proposal),
            _ => None,
        }
    }

    fn commit(&mut self, scheduler: usize, proposal: &Proposal) {
        let Self { ledger, schedulers, held, late, .. } = self;
        let refits = |ledger: &Ledger| schedulers[scheduler].refits(ledger, &proposal.pod, proposal.node);
        let Ok(committed) = ledger.commit(proposal, refits) else {
            let claim = ledger.devices().claim(&key(&proposal.pod.uid)).expect("it is there");
            for request in &claim.spec.requests {
                let Request::Exactly { details, .. } = &request.request else { continue };
                let kind = ["whole", "shared", "cut"].iter().position(|kind| *kind == &*details.device_class_name);
                late[kind.expect("a kind")] += 1;
            }
            return;
        };
        let writes = committed.claims.expect("it has a claim");
        let devices = writes.iter().filter_map(|write| write.allocation.as_deref().cloned()).collect();
        held.insert(proposal.pod.uid.clone(), (writes, devices));
    }

    /// Some pod's claim is written, if it was not before; or the pod ends, with its claim.
    fn go_on(&mut self) {
        let Some(uid) = self.held.keys().nth(self.rng.below(self.held.len().max(1) as u64) as usize).cloned() else {
            return;
        };
        let writes = self.held[&uid].0.clone();
        let written = writes.iter().map(|write| {
            let claim = self.ledger.devices().claim(&write.key).expect("it is there");
            let claim = claim.once_written(write.allocation.as_deref(), &uid);
            let written = WrittenClaim {
                key: write.key.clone(),
                uid: claim.uid.clone(),
                resource_version: claim.resource_version.clone(),
            };
            self.ledger.apply_resource_claim(claim);
            written
        });
        let outcome = ClaimsOutcome { written: written.collect(), failure: None };
        self.ledger.claims_written(&uid, &writes, &outcome);
        if self.rng.below(2) == 0 {
            self.ledger.delete_pod(&uid);
            self.ledger.delete_resource_claim(&key(&uid).to_string());
            self.held.remove(&uid);
        }
    }

    /// Counted claim by claim.
    fn check(&self, seed: u64) {
        let (mut whole, mut shared, mut cut) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for result in self.held.values().flat_map(|(_, all)| all).flat_map(|one| &one.results) {
            let device = (result.driver.clone(), result.pool.clone(), result.device.clone());
            if result.share_id.is_some() {
                let gib = result.consumed_capacity[0].1.nanos() / (1_000_000_000_i128 << 30);
                *shared.entry(device).or_insert(0) += gib;
                continue;
            }
            *whole.entry(device).or_insert(0) += 1;
            let slices = match &*result.device {
                _ if *result.driver != *"cut" => continue,
                "all" => 4,
                "most" => 3,
                "least" => 1,
                _ => 2,
            };
            *cut.entry(result.pool.clone()).or_insert(0) += slices;
        }
        assert!(whole.values().all(|users| *users == 1), "seed {seed}: {whole:?}");
        assert!(shared.values().all(|gib| *gib <= i128::from(GIB)), "seed {seed}: {shared:?}");
        assert!(cut.values().all(|slices| *slices <= SLICES), "seed {seed}: {cut:?}");
    }
}

#[test]
fn neither_devices_nor_shares_nor_counters_are_given_twice() {
    let mut late = [0; 3];
    for seed in 0..200 {
        let mut world = World::new(seed);
        for _ in 0..20 {
            let proposals = [0, 1].map(|scheduler| world.decide(scheduler));
            let first = world.rng.below(2) as usize;
            for scheduler in [first, 1 - first] {
                if let Some(proposal) = &proposals[scheduler] {
                    world.commit(scheduler, proposal);
                }
                world.check(seed);
            }
            world.go_on();
        }
        late.iter_mut().zip(world.late).for_each(|(sum, of_world)| *sum += of_world);
    }
    assert!(late.iter().all(|of_kind| *of_kind > 50), "{late:?} decisions were too late");
}
