//! What is kept says the same as what is looked at anew, whatever changes.

use crate::cycle::{Decision, Explanation, NodeAnswer, Rng, Scheduler, explain};
use crate::device_testing::{allocated, claim, claim_of, class, devices_of, request, wanting};
use crate::ledger::{Ledger, PodState};
use crate::model::{DeviceClass, ExtendedRequests, Pod, ResourceClaim};
use crate::plugins::Work;
use crate::profile::CompiledProfile;
use crate::testing::{node, pod, shape};
use berth_devices::model::NodeSelection;
use std::sync::Arc;

const NODES: [&str; 3] = ["a", "b", "c"];
const GPU: &str = "example.com/gpu";

struct World {
    ledger: Ledger,
    rng: Rng,
}

impl World {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.below(from.len() as u64) as usize]
    }

    fn node(&mut self, name: &str) {
        let mut node = node(name, 4_000, 8 << 30, 100);
        node.labels = [("zone", self.pick(&["x", "y"]))].into_iter().collect();
        if self.rng.below(4) == 0 {
            node.allocatable.set_scalar(GPU.into(), 1);
        }
        self.ledger.apply_node(&node);
    }

    /// Of one node, or of all, in a pool that several slices may have.
    fn slice(&mut self) {
        let (name, count) = (self.pick(&NODES), self.rng.below(3) as usize);
        let mut slice = devices_of(name, &["0", "1"][..count.min(2)]);
        slice.name = self.pick(&["s1", "s2", "s3", "s4"]).into();
        slice.generation = 1 + self.rng.below(2) as i64;
        if self.rng.below(4) == 0 {
            slice.nodes = NodeSelection { all_nodes: true, ..NodeSelection::default() };
        }
        self.ledger.apply_resource_slice(slice);
    }

    /// Another's claim gets a device, or gives it back.
    fn other(&mut self) {
        let (name, node, device) = (self.pick(&["o1", "o2", "o3"]), self.pick(&NODES), self.pick(&["0", "1"]));
        if self.rng.below(3) == 0 {
            self.ledger.delete_resource_claim(&format!("default/{name}"));
        } else {
            self.ledger.apply_resource_claim(allocated(claim(name, 1), node, device, &["other"]));
        }
    }

    fn class(&mut self) {
        let selector = self.pick(&[None, Some("device.driver == \"d\""), Some("false")]);
        let resource = self.pick(&[None, Some(GPU)]).map(Into::into);
        self.ledger.apply_device_class(DeviceClass { extended_resource: resource, ..class("gpu", selector) });
    }

    /// The claim that two pods share.
    fn shared(&mut self) {
        let claim = if self.rng.below(2) == 0 {
            claim("shared", 1)
        } else {
            let node = self.pick(&NODES);
            allocated(claim("shared", 1), node, "0", &[])
        };
        self.ledger.delete_resource_claim("default/shared");
        self.ledger.apply_resource_claim(claim);
    }

    /// Looks with little work each, between which the cluster changes now and then, until one comes to an end.
    fn decide_in_parts(&mut self, scheduler: &mut Scheduler, pod: &Arc<Pod>) -> Decision {
        for _ in 0..1_000 {
            let mut work = Work::of(1 + self.rng.below(8) as usize);
            if let Some(decision) = scheduler.decide_within(&self.ledger, pod, &mut work, None) {
                return decision;
            }
            if self.rng.below(8) == 0 {
                self.change();
            }
        }
        panic!("pod {} is looked at without end", pod.key)
    }

    fn change(&mut self) {
        match self.rng.below(12) {
            0 => {
                let name = self.pick(&NODES);
                self.ledger.delete_node(name);
                let another = self.pick(&NODES);
                self.node(another);
            }
            1 | 2 => {
                let name = self.pick(&NODES);
                self.node(name);
            }
            3..=5 => self.slice(),
            6 => {
                let name = self.pick(&["s1", "s2", "s3", "s4"]);
                self.ledger.delete_resource_slice(name);
            }
            7..=9 => self.other(),
            10 => self.class(),
            _ => self.shared(),
        }
    }
}

fn pods() -> Vec<Pod> {
    let asking = |name: &str| {
        let mut shape = shape();
        shape.row_mut().requests.set_scalar(GPU.into(), 1);
        let resources = vec![(GPU.into(), 0, 1)];
        let container = ExtendedRequests { container: "c".into(), index: 0, is_short_lived: false, resources };
        Pod { extended: Some([container].into()), ..pod(name, shape) }
    };
    let named = [("p1", "one"), ("p2", "same"), ("p3", "two"), ("p4", "shared"), ("p5", "shared")];
    let mut pods: Vec<Pod> = named.iter().map(|(pod, claim)| wanting(pod, &[claim])).collect();
    pods.extend([asking("p6"), asking("p7")]);
    pods
}

fn claims() -> Vec<ResourceClaim> {
    vec![claim("one", 1), claim("same", 1), claim_of("two", vec![request("r", "gpu", 2)]), claim("shared", 1)]
}

#[test]
fn what_is_kept_is_what_is_found_anew() {
    let profile = Arc::new(CompiledProfile::default_preset("test"));
    for seed in 0..150 {
        let mut world = World { ledger: Ledger::new(), rng: Rng::seeded(seed) };
        world.class();
        for name in NODES {
            world.node(name);
        }
        for claim in claims() {
            world.ledger.apply_resource_claim(claim);
        }
        for pod in pods() {
            world.ledger.apply_pod(pod);
        }
        let mut scheduler = Scheduler::new(profile.clone(), seed);
        for step in 0..60 {
            world.change();
            for pod in pods() {
                let Some(PodState::Pending(pod)) = world.ledger.pod(&pod.uid).cloned() else { panic!("it waits") };
                let decision = world.decide_in_parts(&mut scheduler, &pod);
                let Explanation::Judged(anew) = explain(&profile, &world.ledger, &pod) else { continue };
                let fits = |name: &str| {
                    anew.nodes.iter().any(|(own, answer)| **own == *name && matches!(answer, NodeAnswer::Fits { .. }))
                };
                let at = format!("seed {seed}, step {step}, pod {}", pod.key);
                match decision {
                    Decision::Place(proposal) => {
                        assert!(fits(world.ledger.nodes().name(proposal.node)), "{at}: {:?}", anew.nodes);
                    }
                    Decision::NoFit(no_fit) => {
                        let text = anew.diagnosis.as_ref().map(ToString::to_string);
                        assert_eq!(Some(no_fit.diagnosis.to_string()), text, "{at}: {:?}", anew.nodes);
                    }
                    other => panic!("{at}: {other:?}"),
                }
            }
        }
    }
}
