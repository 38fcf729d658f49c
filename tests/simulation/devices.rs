//! Devices: what drivers publish, who makes claims, and the controller that takes them back. D1: no device for two claims. D2: no pod is
//! bound before its claim has devices on its node and is reserved for it. D3: no claim that an operator made is left of a pod that waits.

use super::facts::{By, NodeLife, PodFact};
use super::model::kinds::Of;
use super::model::store::{Object, at, key, text};
use super::plan::{Plan, PodPlan};
use super::random::Random;
use super::world::{Act, Inner};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// The extended resource that the class of all devices stands for.
pub(crate) const DEVICE: &str = "drawn.example.com/device";

const DRIVER: &str = "drawn.example.com";
const MADE: &str = "resource.kubernetes.io/extended-resource-claim";

/// The longest that a claim may be there of an attempt that came to nothing, once everything has healed.
const LEFT_FOR: Duration = Duration::from_secs(20);

/// What the claim controller, and who looks after it, keep.
#[derive(Debug, Default)]
pub(crate) struct ClaimController {
    /// Whether it is about to look.
    is_due: bool,
    /// Since when each claim is there that an operator made.
    made: BTreeMap<String, Instant>,
}

/// How a pod asks for devices, and for how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Devices {
    Claim(u8),
    Extended(u8),
}

impl Devices {
    /// As the spec of a pod has it.
    pub(crate) fn add_to(self, spec: &mut Value, name: &str) {
        match self {
            Self::Claim(_) => spec["resourceClaims"] = json!([{"name": "d", "resourceClaimName": claim_name(name)}]),
            Self::Extended(count) => {
                spec["containers"][0]["resources"]["requests"][DEVICE] = count.to_string().into();
            }
        }
    }

    /// What a pod says of itself; how many devices a claim is for is not in it.
    pub(crate) fn of(pod: &Value) -> Option<Self> {
        if pod.pointer("/spec/resourceClaims").is_some() {
            return Some(Self::Claim(0));
        }
        let count = pod.pointer("/spec/containers/0/resources/requests")?.get(DEVICE)?.as_str()?;
        Some(Self::Extended(count.parse().ok()?))
    }
}

fn claim_name(pod: &str) -> String {
    format!("{pod}-d")
}

fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    at(value, path).and_then(Value::as_array).into_iter().flatten()
}

/// The uid of the pod that a claim belongs to.
fn owner(claim: &Object) -> &str {
    claim.text("/metadata/ownerReferences/0/uid")
}

fn is_made(claim: &Object) -> bool {
    at(&claim.value, "/metadata/annotations").is_some_and(|all| all.get(MADE).is_some())
}

/// The devices that a claim has, each by its pool and its name.
fn devices(claim: &Object) -> impl Iterator<Item = (&str, &str)> {
    list(&claim.value, "/status/allocation/devices/results").map(|one| (text(one, "/pool"), text(one, "/device")))
}

fn wanted(claim: &Object) -> u64 {
    list(&claim.value, "/spec/devices/requests").filter_map(|one| one["exactly"]["count"].as_u64()).sum()
}

fn is_reserved(claim: &Object, uid: &str) -> bool {
    list(&claim.value, "/status/reservedFor").any(|user| text(user, "/uid") == uid)
}

impl Plan {
    /// In some worlds nodes have devices, and pods want some.
    pub(crate) fn draw_devices(&mut self, random: &mut Random) {
        if !random.in_thousand(300) {
            return;
        }
        self.devices = random.between(1, 4);
        for pod in self.pods_mut() {
            let count = random.pick(&[1, 1, 1, 2]);
            pod.devices = random.pick(&[
                None,
                Some(Devices::Claim(count)),
                Some(Devices::Claim(count)),
                Some(Devices::Extended(count)),
                Some(Devices::Extended(count)),
            ]);
        }
        self.scores_fragmentation = random.in_thousand(500);
    }

    /// Has a profile follow which devices each kind of pods could use, and on which node.
    pub(crate) fn add_fragmentation_to(&self, spec: &mut Value) {
        if self.scores_fragmentation {
            spec["scores"] = json!([{"name": "Fragmentation", "weight": 10}]);
        }
    }
}

impl Inner {
    pub(crate) fn set_up_devices(&mut self, now: Instant) {
        self.store.has_devices = self.plan.devices > 0;
        if !self.store.has_devices {
            return;
        }
        let class = json!({"metadata": {"name": "any"}, "spec": {"extendedResourceName": DEVICE}});
        self.store.create(Of::DeviceClasses, class, now);
        for node in (0..self.plan.nodes.len()).map(|index| format!("n{index}")) {
            let named: Value = (0..self.plan.devices).map(|index| json!({"name": format!("d{index}")})).collect();
            let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
            let spec = json!({"driver": DRIVER, "nodeName": node, "pool": pool, "devices": named});
            self.store.create(Of::DeviceSlices, json!({"metadata": {"name": node}, "spec": spec}), now);
        }
    }

    /// The claim controller makes the claim of a new pod, some time later.
    pub(crate) fn claim_devices(&mut self, plan: &PodPlan, pod: &str, now: Instant) {
        if let Some(Devices::Claim(count)) = plan.devices {
            let at = now + self.random.millis(0, 2_000);
            self.later(at, Act::DeviceClaim { pod: pod.to_owned(), count });
        }
    }

    pub(crate) fn make_device_claim(&mut self, at: &str, count: u8, now: Instant) {
        let Some(pod) = self.store.get(Of::Pods, at) else { return };
        let (namespace, name) = at.split_once('/').unwrap_or_default();
        if self.store.get(Of::DeviceClaims, &key(namespace, &claim_name(name))).is_some() {
            return;
        }
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod.uid(), "controller": true});
        let exactly = json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": count});
        let claim = json!({
            "metadata": {"name": claim_name(name), "namespace": namespace, "ownerReferences": [owner]},
            "spec": {"devices": {"requests": [{"name": "d", "exactly": exactly}]}},
        });
        self.store.create(Of::DeviceClaims, claim, now);
    }

    pub(crate) fn look_at_devices_soon(&mut self, now: Instant) {
        if self.store.has_devices && !std::mem::replace(&mut self.claim_controller.is_due, true) {
            let most = if self.healed { 500 } else { 3_000 };
            let at = now + self.random.millis(10, most);
            self.later(at, Act::Devices);
        }
    }

    /// One look of the claim controller, and of the garbage collector: claims of pods that are gone go, those of pods that have ended are
    /// taken back.
    pub(crate) fn look_after_devices(&mut self, now: Instant) {
        self.claim_controller.is_due = false;
        let claims: Vec<_> =
            self.store.of(Of::DeviceClaims).objects.iter().map(|(at, claim)| (at.clone(), claim.clone())).collect();
        for (at, claim) in claims {
            let pod = self.facts.pods.get(owner(&claim));
            if pod.is_none_or(|pod| pod.gone.is_some()) {
                self.store.delete(Of::DeviceClaims, &at, now);
            } else if pod.is_some_and(|pod| pod.ended) && claim.value["status"].get("allocation").is_some() {
                let mut value = claim.value.clone();
                value["status"] = json!({});
                value["metadata"].as_object_mut().unwrap().remove("finalizers");
                self.store.update(Of::DeviceClaims, value, now);
            }
        }
    }

    fn claims_of<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = &'a Object> {
        self.store.of(Of::DeviceClaims).objects.values().map(AsRef::as_ref).filter(move |claim| owner(claim) == uid)
    }

    /// D1, after any change of a claim. And since when each claim is there that an operator made.
    pub(crate) fn device_claims_changed(&mut self, now: Instant) {
        let mut held: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        let mut wrong = None;
        let mut made = BTreeSet::new();
        for (at, claim) in &self.store.of(Of::DeviceClaims).objects {
            for device in devices(claim) {
                if let Some(other) = held.insert(device, at) {
                    wrong = Some(format!("device {device:?} is given to claims {other} and {at}"));
                }
            }
            if is_made(claim) {
                made.insert(at.clone());
            }
        }
        if let Some(wrong) = wrong {
            self.rules.breaks("D1", &wrong);
        }
        self.claim_controller.made.retain(|at, _| made.contains(at));
        for at in made {
            self.claim_controller.made.entry(at).or_insert(now);
        }
        self.look_at_devices_soon(now);
    }

    /// D2, of a pod that is bound now.
    pub(crate) fn has_devices_where_bound(&mut self, uid: &str, by: By) {
        let By::Operator(operator) = by else { return };
        let Some((pod, asked)) = self.facts.pods.get(uid).and_then(|pod| Some((pod, pod.devices?))) else { return };
        let Some(node) = pod.node.as_deref() else { return };
        let is_good = |claim: &&Object| {
            let all = devices(claim).filter(|(pool, _)| *pool == node).count() as u64;
            let count = if let Devices::Extended(count) = asked { count.into() } else { wanted(claim) };
            all == count && devices(claim).count() as u64 == count && is_reserved(claim, uid)
        };
        let is_extended = matches!(asked, Devices::Extended(_));
        let good: Vec<&str> = self
            .claims_of(uid)
            .filter(|claim| is_made(claim) == is_extended)
            .filter(is_good)
            .map(|claim| claim.text("/metadata/name"))
            .collect();
        let told = self
            .store
            .get(Of::Pods, &pod.key)
            .map(|pod| pod.text("/status/extendedResourceClaimStatus/resourceClaimName"));
        if good.len() != 1 || is_extended && told != Some(good[0]) {
            let what =
                format!("operator {operator}: pod {} is bound to {node} with claims {good:?}, told {told:?}", pod.key);
            self.rules.breaks("D2", &what);
        }
    }

    /// D3.
    pub(crate) fn no_made_claim_is_left(&mut self, now: Instant) {
        let is_left = |(at, since): &(&String, &Instant)| {
            let claim = self.store.get(Of::DeviceClaims, at);
            let waits = claim.is_some_and(|claim| self.facts.pods.get(owner(claim)).is_some_and(PodFact::is_pending));
            waits && now.duration_since(**since) > LEFT_FOR
        };
        let left: Vec<String> = self.claim_controller.made.iter().filter(is_left).map(|(at, _)| at.clone()).collect();
        if !left.is_empty() {
            self.rules.breaks("D3", &format!("claims {left:?} are left of pods that wait"));
        }
    }

    /// Whether a node has devices for a pod beside what others hold.
    pub(crate) fn devices_let(&self, pod: &PodFact, life: &NodeLife) -> bool {
        let count = match pod.devices {
            None => return true,
            Some(Devices::Extended(count)) => count.into(),
            Some(Devices::Claim(_)) => match self.claims_of(&pod.uid).find(|claim| !is_made(claim)) {
                Some(claim) => wanted(claim),
                None => return false,
            },
        };
        let claims = self.store.of(Of::DeviceClaims).objects.values();
        // Few claims have devices there: whose they are is asked of those alone.
        let there = claims.flat_map(|claim| devices(claim).filter(|(pool, _)| *pool == life.name).map(move |_| claim));
        let held = there.filter(|claim| owner(claim) != pod.uid).count() as u64;
        held + count <= self.plan.devices
    }
}
