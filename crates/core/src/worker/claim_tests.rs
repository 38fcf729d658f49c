use super::*;
use crate::device_testing::{allocated, claim, claim_of, class, cluster, devices_of, key, request, wanting};
use crate::io::{
    BindOutcome, BindRequest, ClaimRequest, ClaimsFailure, ClaimsOutcome, ExtenderReply, ExtenderRequest,
    NominatedNode, Refusal, RefusalReason, UnreserveRequest, WrittenClaim,
};
use crate::ledger::{Ledger, PodState};
use crate::model::{ClaimKey, ClaimSource, DeviceCondition, DeviceStatus, Node, Pod, PodResourceClaim, ResourceClaim};
use crate::profile::{Extender, OnFailure};
use crate::testing::{extender, node};
use std::cell::RefCell;
use std::time::Duration;

/// Workers on one ledger, whose requests end when the test ends them.
pub(super) struct Bench {
    pub(super) ledger: RefCell<Ledger>,
    workers: Vec<Worker>,
    inputs: Vec<Vec<Input>>,
    pub(super) reserving: Vec<(usize, ClaimRequest)>,
    pub(super) unreserved: Vec<UnreserveRequest>,
    pub(super) binds: Vec<(usize, BindRequest)>,
    pub(super) refusals: Vec<(String, RefusalReason, String)>,
    /// The whole text of the newest, with what PostFilter said.
    said: String,
    /// The nomination that the newest refusal ends, if it ends one: that of the pod's object.
    ends: Option<Str>,
    /// The pods of which it was said that they wait for devices, each with its node.
    awaiting: Vec<String>,
    deallocated: Vec<ClaimKey>,
    /// Questions to extenders.
    questions: Vec<(usize, ExtenderRequest)>,
    pub(super) now: u64,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::of(CompiledProfile::default_preset("test"))
    }

    /// With this profile for the first worker.
    pub(super) fn of(profile: CompiledProfile) -> Self {
        let other = CompiledProfile::default_preset("other");
        Self {
            ledger: RefCell::new(cluster()),
            workers: vec![Worker::new(Arc::new(profile), 1), Worker::new(Arc::new(other), 2)],
            inputs: vec![Vec::new(), Vec::new()],
            reserving: Vec::new(),
            unreserved: Vec::new(),
            binds: Vec::new(),
            refusals: Vec::new(),
            said: String::new(),
            ends: None,
            deallocated: Vec::new(),
            questions: Vec::new(),
            awaiting: Vec::new(),
            now: 0,
        }
    }

    /// The pod `p`, tried, and the claim `c` of one device that it names.
    fn with_one() -> Self {
        let mut bench = Self::new();
        bench.seen(|ledger| {
            ledger.apply_resource_claim(claim("c", 1));
            ledger.apply_pod(wanting("p", &["c"]));
        });
        bench.settle();
        bench
    }

    /// The first of the binds is refused, the way the runtime has it end.
    pub(super) fn bind_refused(&mut self) -> BindRequest {
        let (at, bind) = self.binds.remove(0);
        let outcome = BindOutcome::Refused { code: Some(403), message: "no".into() };
        self.seen(|ledger| ledger.bind_ended(&bind.pod.uid, &outcome));
        self.inputs[at].push(Input::BindEnded { attempt: bind.attempt, outcome });
        self.settle();
        bind
    }

    pub(super) fn seen(&self, change: impl FnOnce(&mut Ledger)) {
        change(&mut self.ledger.borrow_mut());
    }

    pub(super) fn settle(&mut self) {
        for at in 0..self.workers.len() {
            while self.step(at) == Next::Now {}
        }
        assert_eq!(self.ledger.borrow().audit(), Ok(()));
    }

    fn step(&mut self, at: usize) -> Next {
        let mut effects = Vec::new();
        let now = Time::from_millis(self.now);
        let next = self.workers[at].step(now, &mut self.inputs[at], &self.ledger, &mut effects);
        for effect in effects {
            match effect {
                Effect::ReserveClaims(request) => self.reserving.push((at, request)),
                Effect::Unreserve(request) => self.unreserved.push(request),
                Effect::Deallocate(request) => self.deallocated.push(request.claim.key),
                Effect::AskExtender(request) => self.questions.push((at, request)),
                Effect::Bind(request) => self.binds.push((at, request)),
                Effect::AwaitDevices { pod, node } => self.awaiting.push(format!("{} on {node}", pod.key.name)),
                Effect::Refuse(Refusal { pod, reason, text, nomination, .. }) => {
                    self.ends = pod.nominated_node.clone().filter(|_| nomination == NominatedNode::Clear);
                    self.said = text.to_string();
                    let text = crate::testing::without_post_filter(&text);
                    self.refusals.push((pod.key.name.to_string(), reason, text));
                }
                _ => {}
            }
        }
        next
    }

    /// The first of the writes ends, the way the runtime has it end.
    pub(super) fn wrote(&mut self, outcome: impl FnOnce(&ClaimRequest) -> ClaimsOutcome) {
        let (at, request) = self.reserving.remove(0);
        let outcome = outcome(&request);
        self.seen(|ledger| ledger.claims_written(&request.pod.uid, &request.writes, &outcome));
        self.inputs[at].push(Input::ClaimsWritten { attempt: request.attempt, outcome });
        self.settle();
    }

    /// What was asked to be written for the pod: claim and device, or `reserve` where only that was asked.
    fn asked(&self) -> Vec<(String, Vec<String>)> {
        let of = |(_, request): &(usize, ClaimRequest)| {
            let device = |write: &crate::model::ClaimWrite| match &write.allocation {
                Some(result) => {
                    let devices = result.results.iter().map(|r| format!("{}/{}", r.pool, r.device));
                    format!("{} {}", write.key.name, devices.collect::<Vec<_>>().join(" "))
                }
                None => format!("{} reserve", write.key.name),
            };
            (request.pod.key.name.to_string(), request.writes.iter().map(device).collect())
        };
        self.reserving.iter().map(of).collect()
    }

    pub(super) fn refusal(&mut self) -> String {
        assert_eq!(self.refusals.len(), 1, "{:?}", self.refusals);
        self.refusals.remove(0).2
    }
}

pub(super) fn all_written(request: &ClaimRequest) -> ClaimsOutcome {
    let written = request.writes.iter().map(|write| WrittenClaim {
        key: write.key.clone(),
        uid: write.uid.clone(),
        resource_version: "3".into(),
    });
    ClaimsOutcome { written: written.collect(), failure: None }
}

pub(super) fn refused(_: &ClaimRequest) -> ClaimsOutcome {
    let failure = ClaimsFailure { code: Some(403), message: "add finalizer to claim default/c: no".into() };
    ClaimsOutcome { written: Vec::new(), failure: Some(failure) }
}

#[test]
fn devices_are_written_to_the_claim_before_the_pod_is_bound() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_resource_claim(claim("c", 2));
        ledger.apply_pod(wanting("p", &["c"]));
    });
    bench.settle();
    let node = bench.asked()[0].1[0].chars().nth(2).expect("a pool");
    assert_eq!(bench.asked(), [("p".to_owned(), vec![format!("c {node}/0 {node}/1")])]);
    assert!(bench.binds.is_empty());
    bench.wrote(all_written);
    assert_eq!(&*bench.binds[0].1.node, node.to_string().as_str());
    assert!(bench.unreserved.is_empty() && bench.refusals.is_empty());
    assert!(bench.awaiting.is_empty(), "nobody has to make them ready");
}

#[test]
fn no_device_is_given_twice_whoever_decides_136269_137371() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        for (i, scheduler) in ["test", "other", "test", "other", "test"].into_iter().enumerate() {
            ledger.apply_resource_claim(claim(&format!("c{i}"), 1));
            let pod = wanting(&format!("p{i}"), &[&format!("c{i}")]);
            ledger.apply_pod(Pod { scheduler_name: scheduler.into(), ..pod });
        }
    });
    bench.settle();
    let asked = bench.asked();
    let mut given: Vec<String> =
        asked.iter().flat_map(|(_, claims)| claims).map(|claim| claim[3..].to_owned()).collect();
    given.sort_unstable();
    assert_eq!(given, ["a/0", "a/1", "b/0", "b/1"]);
    assert_eq!(bench.refusal(), "0/2 nodes are available: 2 cannot allocate all claims.");
    // One is not written, and the device is free for the pod that waits.
    bench.wrote(refused);
    bench.refusals.clear();
    bench.now += 20_000;
    bench.settle();
    assert_eq!(bench.reserving.len(), 4);
}

#[test]
fn a_pod_whose_claim_is_not_there_yet_waits_without_an_attempt() {
    let mut bench = Bench::new();
    let entry = |source| Some([PodResourceClaim { name: "e".into(), source }].into_iter().collect());
    let pod = wanting("p", &[]);
    bench.seen(|ledger| ledger.apply_pod(Pod { resource_claims: entry(ClaimSource::NotCreated), ..pod.clone() }));
    bench.settle();
    assert_eq!(bench.workers[0].queue.counts().gated, 1);
    let made = Pod { resource_claims: entry(ClaimSource::Generated("p-e-x".into())), ..pod };
    bench.seen(|ledger| ledger.apply_pod(made));
    bench.settle();
    assert_eq!(bench.workers[0].queue.counts().gated, 1, "the claim itself is not seen");
    bench.seen(|ledger| ledger.apply_resource_claim(claim("p-e-x", 1)));
    bench.settle();
    assert_eq!(bench.workers[0].queue.counts().gated, 1, "it is somebody else's");
    let own = ResourceClaim { controller: Some("p".into()), resource_version: "2".into(), ..claim("p-e-x", 1) };
    bench.seen(|ledger| ledger.apply_resource_claim(own));
    bench.settle();
    assert_eq!((bench.reserving.len(), bench.refusals.len()), (1, 0));
}

#[test]
fn pods_that_share_a_claim_wait_for_its_allocation_and_follow_it() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_resource_claim(claim("c", 1));
        ledger.apply_pod(wanting("p", &["c"]));
        ledger.apply_pod(wanting("q", &["c"]));
    });
    bench.settle();
    assert_eq!(bench.asked().len(), 1);
    let text = "0/2 nodes are available: resource claim default/c is in the process of being allocated.";
    assert_eq!(bench.refusal(), text);
    bench.wrote(all_written);
    bench.now += 20_000;
    bench.settle();
    assert_eq!(bench.asked(), [("q".to_owned(), vec!["c reserve".to_owned()])]);
    bench.wrote(all_written);
    assert_eq!(bench.binds[0].1.node, bench.binds[1].1.node);
}

#[test]
fn a_claim_that_is_named_twice_is_allocated_and_reserved_once() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_resource_claim(claim("c", 1));
        ledger.apply_pod(wanting("p", &["c", "c"]));
    });
    bench.settle();
    assert_eq!(bench.asked()[0].1.len(), 1);
}

#[test]
fn an_allocated_claim_ties_its_pods_to_its_node_and_needs_no_write_if_it_is_reserved() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_resource_claim(allocated(claim("c", 1), "b", "0", &["p"]));
        ledger.apply_pod(wanting("p", &["c"]));
    });
    bench.settle();
    assert_eq!((bench.reserving.len(), &*bench.binds[0].1.node), (0, "b"));
    // Two claims on different nodes fit nowhere.
    bench.seen(|ledger| {
        ledger.apply_resource_claim(allocated(claim("d", 1), "a", "0", &[]));
        ledger.apply_pod(wanting("q", &["c", "d"]));
    });
    bench.settle();
    assert_eq!(bench.refusal(), "0/2 nodes are available: 2 resourceclaim not available on the node.");
}

#[test]
fn a_failed_bind_gives_the_reservation_back_and_the_allocation_stays() {
    let mut bench = Bench::with_one();
    bench.wrote(all_written);
    bench.bind_refused();
    assert_eq!(bench.unreserved[0].claims, [(key("c"), Str::from("uid-c"))]);
    bench.now += 20_000;
    bench.settle();
    assert_eq!(bench.asked(), [("p".to_owned(), vec!["c reserve".to_owned()])]);
}

#[test]
fn a_refused_write_undoes_the_decision() {
    let mut bench = Bench::with_one();
    bench.wrote(refused);
    let text = "running PreBind plugin \"DynamicResources\": add finalizer to claim default/c: no";
    assert_eq!(bench.refusal(), text);
    assert!(matches!(bench.ledger.borrow().pod("p"), Some(PodState::Pending(_))));
    assert!(bench.unreserved.is_empty() && !bench.ledger.borrow().devices().is_in_flight(&key("c")));
    bench.now += 20_000;
    bench.settle();
    assert_eq!(bench.asked().len(), 1, "it is tried again");
}

/// Else the pod would wait for that node for as long as it lives, beside nodes with free devices.
#[test]
fn a_claim_on_a_node_that_an_extender_refuses_is_deallocated() {
    let extenders = vec![Extender { filter: Some(OnFailure::Fail), ..extender("x") }];
    let mut bench = Bench::of(CompiledProfile { extenders, ..CompiledProfile::default_preset("test") });
    bench.seen(|ledger| {
        ledger.apply_resource_claim(allocated(claim("c", 1), "a", "0", &[]));
        ledger.apply_pod(wanting("p", &["c"]));
    });
    bench.settle();
    let (at, ExtenderRequest { attempt, extender, .. }) = bench.questions.remove(0);
    let none = ExtenderReply::Filter { survivors: Some(Vec::new()), failed: Vec::new(), unresolvable: Vec::new() };
    bench.inputs[at].push(Input::ExtenderAnswered { attempt, extender, answer: Ok(none) });
    bench.settle();
    assert!(bench.refusal().contains("1 resourceclaim not available on the node"), "{}", bench.refusal());
    assert_eq!(bench.deallocated, [key("c")]);
}

#[test]
fn what_upstream_calls_an_error_fails_the_attempt_and_what_it_refuses_waits_for_a_change() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_device_class(class("broken", Some("device.attributes['d'].none == 1")));
        ledger.apply_resource_claim(claim_of("c", vec![request("r", "broken", 1)]));
        ledger.apply_pod(wanting("p", &["c"]));
    });
    bench.settle();
    let text =
        "running \"DynamicResources\" filter plugin: class broken: selector #0: CEL runtime error: no such key: none";
    assert_eq!(bench.refusal(), text);
    bench.seen(|ledger| {
        ledger.apply_resource_claim(claim_of("d", vec![request("r", "none", 1)]));
        ledger.apply_pod(wanting("q", &["d"]));
    });
    bench.settle();
    assert_eq!(bench.refusal(), "0/2 nodes are available: request r: device class none does not exist.");
    bench.seen(|ledger| ledger.apply_device_class(class("none", None)));
    bench.now += 20_000;
    bench.settle();
    assert_eq!(bench.asked(), [("q".to_owned(), vec![bench.asked()[0].1[0].clone()])]);
}

/// A device that its driver must prepare, on node `a` alone.
fn prepared(ledger: &mut Ledger) {
    ledger.delete_resource_slice("slice-b");
    let mut slice = devices_of("a", &["0", "1"]);
    for device in &mut slice.devices {
        device.binding_conditions = vec!["Attached".into()];
        device.binding_failure_conditions = vec!["Failed".into()];
    }
    ledger.apply_resource_slice(slice);
    ledger.apply_resource_claim(claim("c", 1));
    ledger.apply_pod(wanting("p", &["c"]));
}

/// The claim as it is known, at another version, once its driver says this of its device.
fn reported(ledger: &mut Ledger, version: &str, kind: &str) {
    let claim = ResourceClaim::clone(ledger.devices().claim(&key("c")).expect("there"));
    let result = &claim.allocation.as_ref().expect("allocated").result.results[0];
    let condition = DeviceCondition { kind: kind.into(), is_true: true, reason: "r".into(), message: "m".into() };
    let status = DeviceStatus {
        driver: result.driver.clone(),
        pool: result.pool.clone(),
        device: result.device.clone(),
        conditions: vec![condition],
    };
    ledger.apply_resource_claim(ResourceClaim { resource_version: version.into(), devices: vec![status], ..claim });
}

#[test]
fn a_pod_waits_until_its_devices_are_ready() {
    let mut bench = Bench::new();
    bench.seen(prepared);
    bench.settle();
    bench.wrote(all_written);
    assert!(bench.binds.is_empty());
    bench.seen(|ledger| reported(ledger, "4", "Detached"));
    bench.settle();
    assert_eq!((bench.binds.len(), &bench.awaiting[..]), (0, &["p on a".to_owned()][..]), "it is told once");
    bench.seen(|ledger| reported(ledger, "5", "Attached"));
    bench.settle();
    assert_eq!(bench.binds.len(), 1);
}

#[test]
fn devices_that_failed_or_are_late_are_freed_and_others_taken() {
    for fails in [true, false] {
        let mut bench = Bench::new();
        bench.seen(prepared);
        bench.settle();
        bench.wrote(all_written);
        if fails {
            bench.seen(|ledger| reported(ledger, "4", "Failed"));
        } else {
            bench.now += 600_000;
        }
        bench.settle();
        let text = if fails {
            "device binding failed: claim=c, reason=r, message=\"m\""
        } else {
            "device binding timeout: claim=c"
        };
        assert_eq!(bench.refusal(), format!("running PreBind plugin \"DynamicResources\": {text}"));
        assert_eq!(bench.unreserved.len(), 1);
        bench.now += 20_000;
        bench.settle();
        let (refused, given_back) = (bench.refusal(), "deallocation of ResourceClaim completed, preemption: ");
        assert_eq!(refused, "0/2 nodes are available: 2 resourceclaim not available on the node.");
        assert!(bench.said.starts_with(&format!("{refused} {given_back}")), "{}", bench.said);
        assert_eq!(bench.deallocated, [key("c")]);
        bench.seen(|ledger| {
            ledger.apply_resource_claim(ResourceClaim { resource_version: "9".into(), ..claim("c", 1) });
        });
        bench.now += 20_000;
        bench.settle();
        assert_eq!(bench.asked(), [("p".to_owned(), vec!["c a/0".to_owned()])], "fails: {fails}");
    }
}

/// Driver, status, devices that were waited for and the sum of the times in seconds.
fn waited(bench: &Bench) -> Vec<(String, &'static str, u64, u64)> {
    let waits = bench.workers[0].measures.device_waits();
    let all = waits.all().map(|(driver, status, waited)| {
        (driver.to_owned(), status, waited.allocations, waited.times.sum() / 1_000_000_000)
    });
    all.collect()
}

#[test]
fn how_long_devices_took_to_be_ready_is_measured_by_driver_and_end() {
    for (status, state) in [("success", Some("Attached")), ("failure", Some("Failed")), ("timeout", None)] {
        let mut bench = Bench::new();
        bench.seen(prepared);
        bench.settle();
        bench.wrote(all_written);
        assert_eq!(waited(&bench), [], "the wait goes on");
        let seconds = if let Some(state) = state {
            bench.now += 7_000;
            bench.seen(|ledger| reported(ledger, "4", state));
            7
        } else {
            bench.now += 600_000;
            600
        };
        bench.settle();
        bench.settle();
        assert_eq!(waited(&bench), [("d".to_owned(), status, 1, seconds)]);
    }
}

#[test]
fn a_claim_that_goes_while_its_devices_are_awaited_ends_the_wait_with_an_error() {
    let mut bench = Bench::new();
    bench.seen(prepared);
    bench.settle();
    bench.wrote(all_written);
    bench.seen(|ledger| ledger.delete_resource_claim("default/c"));
    bench.settle();
    assert_eq!(waited(&bench), [("d".to_owned(), "error", 1, 0)]);
}

/// It was nominated for the time that its devices took. The first refusal may not get through, and the node may be gone before the next.
#[test]
fn a_nomination_that_the_object_reports_ends_with_each_failed_attempt() {
    let mut bench = Bench::new();
    bench.seen(prepared);
    bench.settle();
    bench.wrote(all_written);
    let nominated = Pod { nominated_node: Some("a".into()), resource_version: "8".into(), ..wanting("p", &["c"]) };
    bench.seen(|ledger| {
        ledger.apply_pod(nominated);
        reported(ledger, "4", "Failed");
    });
    bench.settle();
    assert!(bench.refusal().contains("device binding failed"));
    assert_eq!(bench.ends.take().as_deref(), Some("a"));
    bench.seen(|ledger| ["a", "b"].into_iter().for_each(|node| ledger.delete_node(node)));
    bench.now += 20_000;
    bench.settle();
    assert_eq!(bench.refusal(), "no nodes available to schedule pods");
    assert_eq!(bench.ends.as_deref(), Some("a"));
}

#[test]
fn a_claim_that_is_being_deallocated_is_not_taken_for_reserved() {
    let mut bench = Bench::new();
    let cordoned = |is: bool| Node { unschedulable: is, ..node("b", 4_000, 8 << 30, 100) };
    bench.seen(|ledger| {
        ledger.apply_node(&cordoned(true));
        ledger.apply_resource_claim(allocated(claim("c", 1), "b", "0", &["p"]));
        ledger.apply_pod(wanting("p", &["c"]));
    });
    bench.settle();
    assert_eq!(bench.deallocated, [key("c")]);
    // Its node becomes usable before the claim is seen without devices.
    bench.seen(|ledger| ledger.apply_node(&cordoned(false)));
    bench.now += 20_000;
    bench.settle();
    assert_eq!((bench.asked(), bench.binds.len()), (vec![("p".to_owned(), vec!["c reserve".to_owned()])], 0));
    // Somebody else kept it from being deallocated.
    bench.wrote(all_written);
    assert_eq!(&*bench.binds[0].1.node, "b");
}

#[test]
fn of_two_timeouts_the_one_that_counts_is_waited_for() {
    let mut bench = Bench::new();
    let mut profile = CompiledProfile::default_preset("test");
    profile.devices_timeout = Duration::from_secs(1_200);
    bench.workers[0] = Worker::new(Arc::new(profile), 1);
    bench.seen(prepared);
    bench.settle();
    bench.wrote(all_written);
    bench.now += 600_000;
    assert_eq!(bench.step(0), Next::At(Time::from_millis(1_200_000)));
    bench.now += 600_000;
    bench.settle();
    assert!(bench.refusal().contains("device binding timeout"));
}

#[test]
fn a_reservation_that_is_being_given_back_is_asked_for_anew_whatever_is_seen() {
    let mut bench = Bench::with_one();
    bench.wrote(all_written);
    let bind = bench.bind_refused();
    // Its end is still under way, and the driver writes its status meanwhile.
    let still = allocated(claim("c", 1), &bind.node, "0", &["p"]);
    bench.seen(|ledger| ledger.apply_resource_claim(still));
    bench.now += 20_000;
    bench.settle();
    assert_eq!(bench.asked(), [("p".to_owned(), vec!["c reserve".to_owned()])]);
}

/// A profile was handed the pod's scheduler name while the bind was on its way.
#[test]
fn a_reservation_that_another_worker_counts_on_is_not_given_back() {
    let mut bench = Bench::with_one();
    bench.workers[1] = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 3);
    bench.wrote(all_written);
    let (at, bind) = bench.binds.remove(0);
    let outcome = BindOutcome::Refused { code: Some(403), message: "no".into() };
    bench.seen(|ledger| ledger.bind_ended(&bind.pod.uid, &outcome));
    while bench.step(1) == Next::Now {}
    assert_eq!(bench.binds.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1], "the claim is reserved for the pod");
    bench.inputs[at].push(Input::BindEnded { attempt: bind.attempt, outcome });
    bench.settle();
    assert!(bench.unreserved.is_empty(), "{:?}", bench.unreserved);
    assert!(bench.refusals.is_empty(), "it would end the other worker's nomination: {:?}", bench.refusals);
}

#[test]
fn a_bind_that_is_taken_back_gives_the_reservation_back() {
    let mut bench = Bench::with_one();
    bench.wrote(all_written);
    let (at, bind) = bench.binds.remove(0);
    bench.seen(|ledger| ledger.forget("p"));
    bench.inputs[at].push(Input::BindRevoked { attempt: bind.attempt });
    bench.settle();
    assert_eq!(bench.unreserved.len(), 1);
    assert_eq!(bench.asked(), [("p".to_owned(), vec!["c reserve".to_owned()])]);
}

#[test]
fn pods_with_claims_are_held_where_claims_cannot_be_read() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.read_claims(Some("forbidden"));
        ledger.apply_pod(wanting("p", &["c"]));
    });
    bench.settle();
    assert!(bench.refusal().contains("cannot be read (forbidden): it is held"));
    bench.seen(|ledger| {
        ledger.read_claims(None);
        ledger.apply_resource_claim(claim("c", 1));
    });
    bench.settle();
    assert_eq!(bench.reserving.len(), 1);
}

#[test]
fn a_claim_that_is_deleted_by_force_frees_its_devices_for_those_who_wait_140831() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.delete_resource_slice("slice-b");
        ledger.apply_resource_slice(devices_of("a", &["0"]));
        ledger.apply_resource_claim(allocated(claim("gone", 1), "a", "0", &[]));
        ledger.apply_resource_claim(claim("c", 1));
        ledger.apply_pod(wanting("p", &["c"]));
    });
    bench.settle();
    assert_eq!(bench.refusal(), "0/2 nodes are available: 2 cannot allocate all claims.");
    bench.seen(|ledger| ledger.delete_resource_claim("default/gone"));
    bench.now += 20_000;
    bench.settle();
    assert_eq!(bench.reserving.len(), 1);
}
