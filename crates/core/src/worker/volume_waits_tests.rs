//! No wait is overlooked: whatever is seen, an attempt whose wait may end is looked at, at once or soon.

use super::volume_tests::{Bench, claimed, newer};
use super::volumes::ending;
use super::*;
use crate::cycle::Rng;
use crate::io::VolumesOutcome;
use crate::limits::ALL_WAITS_EVERY;
use crate::model::{PersistentVolumeClaim, Pod};
use crate::volume_testing::{claim, csi, csi_node, node_in, on, only_in, using, volume};
use std::collections::BTreeMap;

const CLAIMS: u64 = 6;

struct World {
    bench: Bench,
    rng: Rng,
    version: u64,
    /// By claim, the node for which a volume was asked.
    asked: BTreeMap<String, String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let world = Self { bench: Bench::new(), rng: Rng::seeded(seed), version: 10, asked: BTreeMap::new() };
        world.bench.seen(|ledger| {
            (0..3).for_each(|v| ledger.apply_volume(volume(&format!("v{v}"), "local", 1)));
            for c in 0..CLAIMS {
                ledger.apply_claim(claim(&format!("c{c}"), class_of(c), 1));
                ledger.apply_pod(using(&format!("p{c}"), &[&format!("c{c}"), &format!("c{}", (c + 2) % CLAIMS)]));
            }
        });
        world
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.rng.below(n) == 0
    }

    /// The claim at a new version.
    fn claim(&mut self, number: u64, set: impl FnOnce(&mut PersistentVolumeClaim)) {
        self.version += 1;
        let version = self.version.to_string();
        let object = newer(claim(&format!("c{number}"), class_of(number), 1), |claim| {
            claim.resource_version = version.into();
            set(claim);
        });
        self.bench.seen(|ledger| ledger.apply_claim(object));
    }

    /// Says whether it is told whom the change concerns.
    fn event(&mut self) -> bool {
        let c = self.rng.below(CLAIMS);
        let (name, pod) = (format!("c{c}"), format!("p{}", self.rng.below(CLAIMS)));
        let made = format!("pv-{c}");
        let node = if self.one_in(8) { "b".to_owned() } else { self.asked.get(&name).cloned().unwrap_or_default() };
        let local = format!("v{}", self.rng.below(3));
        let kind = self.rng.below(14);
        match kind {
            0 | 1 => self.claim(c, |claim| claim.selected_node = Some((*node).into())),
            2..=4 => {
                let volume = if class_of(c) == "local" { local } else { made };
                self.claim(c, |claim| {
                    claim.selected_node = Some((*node).into());
                    (claim.volume, claim.bind_completed) = (Some((*volume).into()), true);
                });
            }
            5 | 6 => {
                let by = if self.one_in(6) { format!("c{}", self.rng.below(CLAIMS)) } else { name };
                let affinity = self.one_in(4).then(|| only_in("y"));
                self.bench.seen(|ledger| {
                    let made = newer(csi(&made, "driver"), |volume| volume.affinity = affinity);
                    ledger.apply_volume(claimed(made, &by));
                });
            }
            7 => self.bench.seen(|ledger| ledger.apply_volume(claimed(volume(&local, "local", 1), &name))),
            8 => self.bench.seen(|ledger| ledger.delete_volume(if c.is_multiple_of(2) { &made } else { &local })),
            9 if c == 0 => self.bench.seen(|ledger| ledger.delete_claim(&format!("default/{name}"))),
            10 => {
                let zone = if self.one_in(2) { "x" } else { "y" };
                self.bench.seen(|ledger| match c {
                    0 => ledger.apply_csi_node(csi_node("a", "driver", Some(100))),
                    _ => ledger.apply_node(&node_in("a", zone)),
                });
            }
            11 => {
                let object = using(&pod, &[&name]);
                self.bench.seen(|ledger| match c {
                    0 => ledger.delete_pod(&pod),
                    1 => ledger.apply_pod(Pod { deleting: true, ..object }),
                    2 => ledger.apply_pod(on("a", object)),
                    _ => ledger.apply_pod(object),
                });
            }
            _ => self.writes_end(),
        }
        matches!(kind, 0..=4 | 9..=13) && !(kind == 10 && c == 0)
    }

    fn writes_end(&mut self) {
        let Some((_, _, node, writes)) = self.bench.writes.first().cloned() else { return };
        for write in &writes.provisions {
            self.asked.insert(write.claim.name.to_string(), node.to_string());
        }
        let outcome = if self.one_in(12) {
            VolumesOutcome::Failed { code: Some(403), message: "no".into() }
        } else {
            VolumesOutcome::Written
        };
        self.bench.wrote(outcome);
    }
}

/// The attempts whose wait would end, if they were looked at.
fn overlooked(bench: &Bench) -> Vec<AttemptId> {
    let (ledger, volumes, now) = (bench.ledger.borrow(), &bench.workers[0].volumes, Time::from_millis(bench.now));
    let ends = |id: &AttemptId| volumes.get(*id).is_some_and(|one| ending(&ledger, one, now).is_some());
    volumes.ids().into_iter().filter(ends).collect()
}

fn class_of(claim: u64) -> &'static str {
    if claim.is_multiple_of(3) { "local" } else { "made" }
}

/// 300 sequences of 80 changes, a twentieth of a second apart, and sometimes longer than an attempt waits. What is seen of the claims, pods
/// and nodes themselves is acted upon at once.
#[test]
fn an_attempt_whose_wait_may_end_is_looked_at() {
    let (mut waited, mut later) = (0, 0);
    for seed in 0..300 {
        let mut world = World::new(seed);
        for step in 0..80 {
            let before = overlooked(&world.bench);
            let is_told = world.event();
            world.bench.settle(0);
            world.bench.workers[0].volumes.audit();
            let left = overlooked(&world.bench);
            assert!(!is_told || left.iter().all(|id| before.contains(id)), "seed {seed}, step {step}: {left:?}");
            let looks = world.bench.workers[0].volumes.next_look();
            let soon = Time::from_millis(world.bench.now) + ALL_WAITS_EVERY;
            assert!(left.is_empty() || looks.is_some_and(|at| at <= soon), "seed {seed}, step {step}: {left:?}");
            later += left.len();
            waited += world.bench.workers[0].volumes.len();
            world.bench.now += 50;
            if world.one_in(10) {
                world.bench.now += if world.one_in(4) { 61_000 } else { 1_000 };
                world.bench.settle(0);
                let left = overlooked(&world.bench);
                assert!(left.is_empty(), "seed {seed}, step {step}: {left:?}");
            }
        }
        world.bench.audit();
    }
    assert!(waited > 10_000, "many wait: {waited}");
    assert!(later * 50 < waited, "most are looked at at once: {later} of {waited} were not");
}
