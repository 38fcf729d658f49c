//! No wake-up is missed of a pod that waits for devices, and devices of a driver that it cannot want do not wake it.

use super::extended_tests::asking;
use super::lock_tests::Counted;
use super::*;
use crate::cycle::{Explanation, Rng, explain};
use crate::device_testing::{allocated, claim_of, class, cluster, devices_of, key, request, wanting};
use crate::io::{BindOutcome, BindRequest, ClaimRequest, ClaimsOutcome, WrittenClaim};
use crate::ledger::{Ledger, PodState};
use crate::limits::CHANGES_PER_HOLD;
use crate::model::{DeviceClass, Pod, ResourceClaim};
use crate::plugins::Plugin;
use crate::testing::node;
use berth_devices::model::{DeviceResult, PoolId, ResourceSlice};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

const NODES: [&str; 3] = ["a", "b", "c"];
const DRIVERS: [&str; 2] = ["d", "e"];

/// The extended resource that devices of one driver provide.
const OF_E: &str = "example.com/e";

/// Of all devices, of those of one driver, or of what changes.
fn classes(rng: &mut Rng) -> Vec<DeviceClass> {
    let changing = ["device.driver == 'd'", "device.driver == 'e' && true", "device.driver != 'd'"];
    vec![
        class("gpu", None),
        class("of-d", Some("device.driver == 'd'")),
        DeviceClass { extended_resource: Some(OF_E.into()), ..class("of-e", Some("'e' == device.driver")) },
        class("changing", Some(changing[rng.below(3) as usize])),
    ]
}

fn slice(driver: &str, node: &str, devices: &[&str]) -> ResourceSlice {
    let id = PoolId { driver: driver.into(), pool: node.into() };
    ResourceSlice { name: format!("{driver}-{node}").into(), id, ..devices_of(node, devices) }
}

fn held(driver: &str, claim: ResourceClaim, node: &str, device: &str) -> ResourceClaim {
    let mut claim = allocated(claim, node, device, &[]);
    let allocation = Arc::make_mut(claim.allocation.as_mut().expect("it is allocated"));
    allocation.result.results = allocation
        .result
        .results
        .iter()
        .map(|result| DeviceResult { driver: driver.into(), ..result.clone() })
        .collect();
    claim
}

fn without_devices(claim: &ResourceClaim) -> ResourceClaim {
    ResourceClaim { allocation: None, reserved_for: Vec::new(), ..claim.clone() }
}

struct World {
    rng: Rng,
    ledger: RefCell<Ledger>,
    worker: Worker,
    /// Placed pods, each with its claims.
    placed: Vec<(Pod, Vec<Str>)>,
    /// Claims that were made for extended resources, by the uid of their pod.
    made: BTreeMap<Str, Str>,
    /// Claims of others.
    others: Vec<Str>,
    serial: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut profile = CompiledProfile::default_preset("test");
        // Nothing makes good for what a hint missed.
        profile.queue.max_unschedulable = Duration::MAX;
        let mut rng = Rng::seeded(seed);
        let mut ledger = Ledger::new();
        for name in NODES {
            ledger.apply_node(&node(name, 4_000, 8 << 30, 100));
        }
        for class in classes(&mut rng) {
            ledger.apply_device_class(class);
        }
        let worker = Worker::new(Arc::new(profile), seed);
        Self {
            rng,
            ledger: RefCell::new(ledger),
            worker,
            placed: Vec::new(),
            made: BTreeMap::new(),
            others: Vec::new(),
            serial: 100,
        }
    }

    fn pick(&mut self, of: &[&'static str]) -> &'static str {
        of[self.rng.below(of.len() as u64) as usize]
    }

    fn version(&mut self) -> Str {
        self.serial += 1;
        self.serial.to_string().into()
    }

    /// The claim of the name as it is, at a new version.
    fn seen(&mut self, name: &str, change: impl FnOnce(&ResourceClaim) -> ResourceClaim) {
        let resource_version = self.version();
        let now = self.ledger.borrow().devices().claim(&key(name)).cloned();
        if let Some(claim) = now {
            let changed = ResourceClaim { resource_version, ..change(&claim) };
            self.ledger.borrow_mut().apply_resource_claim(changed);
        }
    }

    /// A slice of two that a pool may have. Where there are more of its generation than it says, the pool is not complete.
    fn slice(&mut self, driver: &str, on: &str) -> ResourceSlice {
        let count = self.rng.below(3) as usize;
        let is_more = self.rng.below(3) == 0;
        let mut drawn = slice(driver, on, &if is_more { ["2", "3"] } else { ["0", "1"] }[..count]);
        if is_more {
            drawn.name = format!("{}-more", drawn.name).into();
        }
        drawn.resource_slice_count = 1 + i64::from(self.rng.below(4) == 0);
        drawn.generation = 1 + i64::from(self.rng.below(4) == 0);
        drawn
    }

    fn event(&mut self) {
        let (driver, on) = (self.pick(&DRIVERS), self.pick(&NODES));
        match self.rng.below(12) {
            0..=2 => {
                let slice = self.slice(driver, on);
                self.ledger.borrow_mut().apply_resource_slice(slice);
            }
            3 => {
                let name = self.pick(&["", "-more"]);
                self.ledger.borrow_mut().delete_resource_slice(&format!("{driver}-{on}{name}"));
            }
            4 => {
                for class in classes(&mut self.rng) {
                    self.ledger.borrow_mut().apply_device_class(class);
                }
            }
            5 => {
                let name = format!("other-{}", self.version());
                let device = self.pick(&["0", "1"]);
                let claim = held(driver, claim_of(&name, vec![request("r", "gpu", 1)]), on, device);
                self.ledger.borrow_mut().apply_resource_claim(claim);
                self.others.push(name.into());
            }
            6 if !self.others.is_empty() => {
                let at = self.rng.below(self.others.len() as u64) as usize;
                let name = self.others.swap_remove(at);
                match self.rng.below(2) {
                    0 => self.seen(&name, without_devices),
                    _ => self.ledger.borrow_mut().delete_resource_claim(&format!("default/{name}")),
                }
            }
            7 | 8 if !self.placed.is_empty() => {
                let at = self.rng.below(self.placed.len() as u64) as usize;
                let (pod, claims) = self.placed.swap_remove(at);
                self.ledger.borrow_mut().delete_pod(&pod.uid);
                for claim in &claims {
                    self.seen(claim, without_devices);
                }
            }
            9 => {
                let name = format!("p{}", self.version());
                self.ledger.borrow_mut().apply_pod(asking(&name, OF_E, 1 + self.rng.below(2) as i64));
            }
            _ => {
                let name = format!("p{}", self.version());
                let requests = (0..=self.rng.below(2)).map(|number| {
                    let class = ["gpu", "of-d", "of-e", "changing"][self.rng.below(4) as usize];
                    request(&format!("r{number}"), class, 1 + self.rng.below(2) as i64)
                });
                let claim = claim_of(&name, requests.collect());
                self.ledger.borrow_mut().apply_resource_claim(claim);
                self.ledger.borrow_mut().apply_pod(wanting(&name, &[&name]));
            }
        }
    }

    /// Steps until the worker has nothing to do, every write ending well at once.
    fn settle(&mut self, now: Time) {
        let (mut inputs, mut effects) = (Vec::new(), Vec::new());
        loop {
            self.worker.step(now, &mut inputs, &self.ledger, &mut effects);
            for effect in effects.drain(..) {
                inputs.extend(self.carry_out(effect));
            }
            let is_quiet = self.worker.is_quiet() && self.worker.cursor == Some(self.ledger.borrow().version());
            if inputs.is_empty() && is_quiet {
                return;
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::ReserveClaims(ClaimRequest { attempt, pod, writes }) => {
                let mut written = Vec::new();
                for write in writes.iter() {
                    let (key, resource_version) = (write.key.clone(), self.version());
                    let uid = if write.creates.is_some() { key.name.clone() } else { write.uid.clone() };
                    written.push(WrittenClaim { key, uid, resource_version });
                }
                let outcome = ClaimsOutcome { written, failure: None };
                self.ledger.borrow_mut().claims_written(&pod.uid, &writes, &outcome);
                for write in writes.iter() {
                    self.seen(&write.key.name, ResourceClaim::clone);
                }
                let made = writes.iter().filter(|write| write.creates.is_some());
                self.made.extend(made.map(|write| (pod.uid.clone(), write.key.name.clone())));
                Some(Input::ClaimsWritten { attempt, outcome })
            }
            Effect::Bind(BindRequest { attempt, pod, node, .. }) => {
                let bound = Pod { node_name: Some(node), nominated_node: None, ..(*pod).clone() };
                self.ledger.borrow_mut().apply_pod(bound.clone());
                let claims = pod.resource_claims.iter().map(|_| pod.key.name.clone());
                self.placed.push((bound, claims.chain(self.made.remove(&pod.uid)).collect()));
                Some(Input::BindEnded { attempt, outcome: BindOutcome::Bound })
            }
            Effect::Deallocate(request) => {
                self.seen(&request.claim.key.name, without_devices);
                None
            }
            _ => None,
        }
    }

    /// How many pods wait for devices; none of them fits a node.
    fn waiting(&self) -> usize {
        let ledger = self.ledger.borrow();
        let mut waiting = 0;
        for entry in self.worker.queue.entries().filter(|entry| entry.rejectors().has(Plugin::DynamicResources)) {
            let Some(PodState::Pending(pod)) = ledger.pod(&entry.pod().uid) else { panic!("a queued pod waits") };
            let Explanation::Judged(judged) = explain(self.worker.profile(), &ledger, pod) else { panic!("judged") };
            assert_eq!(judged.feasible, 0, "{} waits: {judged:?}", pod.key);
            waiting += 1;
        }
        waiting
    }
}

/// 300 sequences of 60 events, without a sweep that would make good for what a hint missed.
#[test]
fn a_pod_that_waits_for_devices_when_all_is_quiet_fits_nowhere() {
    let mut waited = 0;
    for seed in 0..300 {
        let mut world = World::new(seed);
        for step in 0..60 {
            world.event();
            world.settle(Time::from_millis(20_000 * (step + 1)));
            waited += world.waiting();
        }
    }
    assert!(waited > 10_000, "many wait: {waited}");
}

/// How often the pod was tried when each of these has happened, one after the other.
fn tries(wants: &str, happens: &[&dyn Fn(&mut Ledger)]) -> Vec<u32> {
    let ledger = RefCell::new(cluster());
    let apply = |change: &dyn Fn(&mut Ledger)| change(&mut ledger.borrow_mut());
    apply(&|ledger| {
        for node in &NODES[..2] {
            ledger.apply_resource_slice(devices_of(node, &[]));
        }
        for (name, driver) in [("of-d", "device.driver == 'd'"), ("of-e", "device.driver == 'e'")] {
            ledger.apply_device_class(class(name, Some(driver)));
        }
        ledger.apply_resource_claim(held("e", claim_of("theirs", vec![request("r", "gpu", 1)]), "a", "9"));
        ledger.apply_resource_claim(held("d", claim_of("ours", vec![request("r", "gpu", 1)]), "a", "9"));
        ledger.apply_resource_claim(claim_of("c", vec![request("r", wants, 1)]));
        ledger.apply_pod(wanting("p", &["c"]));
    });
    let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    let mut now = 0;
    let mut step = || {
        now += 20_000;
        while worker.step(Time::from_millis(now), &mut Vec::new(), &ledger, &mut Vec::new()) == Next::Now {}
        worker.queue.entries().next().map_or(0, crate::queue::Entry::attempts)
    };
    step();
    let tried = happens.iter().map(|change| {
        apply(change);
        step()
    });
    tried.collect()
}

/// Two slices of a pool that has one, as it says, leave it incomplete.
#[test]
fn a_slice_that_goes_may_complete_a_pool() {
    let more = || ResourceSlice { name: "more".into(), ..slice("e", "a", &["1"]) };
    let events: [&dyn Fn(&mut Ledger); 3] = [
        &|ledger| ledger.apply_resource_slice(more()),
        &|ledger| ledger.apply_resource_slice(slice("e", "a", &["0"])),
        &|ledger| ledger.delete_resource_slice("more"),
    ];
    assert_eq!(tries("of-d", &events), [1, 1, 1]);
    // It is deleted, or made anew for another driver while nobody watched.
    let elsewhere = || ResourceSlice { name: "more".into(), ..slice("d", "a", &["1"]) };
    let goes: [&dyn Fn(&mut Ledger); 2] =
        [&|ledger| ledger.delete_resource_slice("more"), &|ledger| ledger.apply_resource_slice(elsewhere())];
    for goes in goes {
        let ledger = RefCell::new(Ledger::new());
        ledger.borrow_mut().apply_node(&node("a", 4_000, 8 << 30, 100));
        ledger.borrow_mut().apply_device_class(class("of-e", Some("device.driver == 'e'")));
        ledger.borrow_mut().apply_resource_slice(slice("e", "a", &["0"]));
        ledger.borrow_mut().apply_resource_slice(more());
        ledger.borrow_mut().apply_resource_claim(claim_of("c", vec![request("r", "of-e", 1)]));
        ledger.borrow_mut().apply_pod(wanting("p", &["c"]));
        let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
        let mut is_placed = |seconds: u64| {
            let mut effects = Vec::new();
            while worker.step(Time::from_millis(1_000 * seconds), &mut Vec::new(), &ledger, &mut effects) == Next::Now {
            }
            effects.iter().any(|effect| matches!(effect, Effect::ReserveClaims(_)))
        };
        assert!(!is_placed(0));
        goes(&mut ledger.borrow_mut());
        assert!(is_placed(20));
    }
}

/// Changes one of many pods.
type OfPod<'a> = &'a dyn Fn(&mut Ledger, usize);

/// Each claim of a pod is an entry of an index, which is made when the pod comes and taken out when it goes.
#[test]
fn pods_with_many_claims_take_more_of_a_hold() {
    let ledger = Counted::with_nodes(1);
    let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    let names: Vec<String> = (0..127).map(|claim| format!("c{claim}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut holds = |change: OfPod<'_>, pods: std::ops::Range<usize>| {
        pods.for_each(|pod| change(&mut ledger.ledger.borrow_mut(), pod));
        ledger.judged.take();
        worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut Vec::new());
        ledger.judged.take().len()
    };
    let of_one_hold = CHANGES_PER_HOLD / 128;
    let changes: [OfPod<'_>; 2] = [
        &|ledger, i| ledger.apply_pod(Pod { gates: vec!["g".into()], ..wanting(&format!("p{i}"), &names) }),
        &|ledger, i| ledger.delete_pod(&format!("p{i}")),
    ];
    holds(changes[0], 0..0);
    for change in changes {
        let of_few = holds(change, 0..of_one_hold);
        assert_eq!(holds(change, of_one_hold..4 * of_one_hold), of_few + 2);
    }
}

#[test]
fn devices_of_a_driver_that_no_class_of_the_pod_selects_do_not_wake_it() {
    let events: [&dyn Fn(&mut Ledger); 4] = [
        &|ledger| ledger.apply_resource_slice(slice("e", "b", &[])),
        &|ledger| ledger.delete_resource_claim("default/theirs"),
        &|ledger| ledger.apply_resource_slice(slice("d", "b", &[])),
        &|ledger| ledger.delete_resource_claim("default/ours"),
    ];
    assert_eq!(tries("of-d", &events), [1, 1, 2, 3]);
    assert_eq!(tries("of-e", &events), [2, 3, 3, 3]);
    assert_eq!(tries("gpu", &events), [2, 3, 4, 5], "it may be of any driver");
}
