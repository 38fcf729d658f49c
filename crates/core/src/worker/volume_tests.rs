use super::*;
use crate::cycle::Scheduler;
use crate::io::{
    BindOutcome, BindRequest, NominateRequest, NominatedNode, Refusal, RefusalReason, VolumeRequest, VolumesOutcome,
};
use crate::ledger::{Conflict, Ledger, PodState};
use crate::model::{CsiNode, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeWrites};
use crate::volume_testing::{
    bound, claim, csi, csi_node, node_in, on, only_in, reference, using, volume, waiting_class,
};
use std::cell::RefCell;
use std::time::Duration;

/// A ledger with nodes `a` and `b`, workers on it, and writes and binds that end when the test ends them.
pub(super) struct Bench {
    pub(super) ledger: RefCell<Ledger>,
    pub(super) workers: Vec<Worker>,
    inputs: Vec<Vec<Input>>,
    pub(super) binds: Vec<(usize, AttemptId, Arc<Pod>, Str)>,
    pub(super) writes: Vec<(usize, AttemptId, Str, VolumeWrites)>,
    nominated: Vec<(String, Option<String>)>,
    pub(super) refusals: Vec<(String, RefusalReason, String)>,
    /// What the last refusal does to its pod's nomination.
    by_refusal: Option<NominatedNode>,
    pub(super) now: u64,
}

impl Bench {
    /// Workers for the scheduler names `test` and `other`, claims of the class `local` (volumes by hand) and `made`.
    pub(super) fn new() -> Self {
        let profile = |name: &str| {
            let mut profile = CompiledProfile::default_preset(name);
            profile.bind_timeout = Duration::from_secs(60);
            Arc::new(profile)
        };
        let bench = Self {
            ledger: RefCell::new(Ledger::new()),
            workers: vec![Worker::new(profile("test"), 1), Worker::new(profile("other"), 2)],
            inputs: vec![Vec::new(), Vec::new()],
            binds: Vec::new(),
            writes: Vec::new(),
            nominated: Vec::new(),
            refusals: Vec::new(),
            by_refusal: None,
            now: 0,
        };
        bench.seen(|ledger| {
            ledger.apply_node(&node_in("a", "x"));
            ledger.apply_node(&node_in("b", "y"));
            ledger.apply_storage_class(waiting_class("local", "kubernetes.io/no-provisioner"));
            ledger.apply_storage_class(waiting_class("made", "driver"));
        });
        bench
    }

    pub(super) fn seen(&self, change: impl FnOnce(&mut Ledger)) {
        change(&mut self.ledger.borrow_mut());
    }

    fn pod(&self, pod: Pod) {
        self.seen(|ledger| ledger.apply_pod(pod));
    }

    /// Steps until the worker has nothing to do at once.
    pub(super) fn settle(&mut self, worker: usize) -> Next {
        loop {
            let mut effects = Vec::new();
            let now = Time::from_millis(self.now);
            let next = self.workers[worker].step(now, &mut self.inputs[worker], &self.ledger, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Bind(BindRequest { attempt, pod, node, epoch, .. }) => {
                        assert!(self.ledger.borrow().is_same_node(&node, epoch), "{node} is not named by {epoch}");
                        self.binds.push((worker, attempt, pod, node));
                    }
                    Effect::BindVolumes(VolumeRequest { attempt, node, writes, .. }) => {
                        self.writes.push((worker, attempt, node, writes));
                    }
                    Effect::Evict(_)
                    | Effect::AskExtender(_)
                    | Effect::ReserveClaims(_)
                    | Effect::AwaitDevices { .. }
                    | Effect::Unreserve(_)
                    | Effect::Deallocate(_) => {
                        panic!("no pod here has victims, extenders or devices")
                    }
                    Effect::Nominate(NominateRequest { pod, node }) => {
                        self.nominated.push((pod.key.name.to_string(), node.map(|node| node.to_string())));
                    }
                    Effect::Refuse(Refusal { pod, reason, text, nomination, .. }) => {
                        self.by_refusal = Some(nomination);
                        self.refusals.push((
                            pod.key.name.to_string(),
                            reason,
                            crate::testing::without_post_filter(&text),
                        ));
                    }
                }
            }
            self.workers[worker].audit_window();
            if next != Next::Now {
                return next;
            }
        }
    }

    /// Who ended the nomination of `p`: a write of its own, or the refusal.
    fn ended_by(&mut self) -> (bool, NominatedNode) {
        let by_itself = self.nominated.last() == Some(&("p".to_owned(), None));
        (by_itself, self.by_refusal.take().expect("a refusal"))
    }

    /// The first of the writes ends.
    pub(super) fn wrote(&mut self, outcome: VolumesOutcome) {
        let (worker, attempt, ..) = self.writes.remove(0);
        self.inputs[worker].push(Input::VolumesWritten { attempt, outcome });
        self.settle(worker);
    }

    /// The first of the binds takes place.
    fn bound(&mut self) {
        let (worker, attempt, pod, node) = self.binds.remove(0);
        self.pod(on(&node, (*pod).clone()));
        self.inputs[worker].push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
        self.settle(worker);
    }

    /// Everything is undone: the pod waits for its backoff, and nothing is assumed.
    fn is_undone(&self, pod: &str) {
        assert!(matches!(self.ledger.borrow().pod(pod), Some(PodState::Pending(_))), "{pod} is pending again");
        assert!(self.binds.is_empty() && self.workers.iter().all(|w| w.volumes.len() == 0));
        self.audit();
    }

    pub(super) fn audit(&self) {
        self.ledger.borrow().audit().expect("what is kept equals what the pods make");
    }

    fn refusal(&mut self) -> String {
        assert_eq!(self.refusals.len(), 1, "{:?}", self.refusals);
        let (_, reason, text) = self.refusals.remove(0);
        assert_eq!(reason, RefusalReason::SchedulerError);
        text
    }
}

pub(super) fn newer<T>(object: T, set: impl FnOnce(&mut T)) -> T {
    let mut object = object;
    set(&mut object);
    object
}

/// The claim as it is once the provisioner has been asked.
fn selected(name: &str, node: &str) -> PersistentVolumeClaim {
    newer(claim(name, "made", 1), |claim| {
        claim.resource_version = "2".into();
        claim.selected_node = Some(node.into());
    })
}

/// The claim as it is once its volume has been made.
fn provisioned(name: &str, node: &str, volume: &str) -> PersistentVolumeClaim {
    newer(selected(name, node), |claim| {
        claim.resource_version = "3".into();
        claim.volume = Some(volume.into());
        claim.bind_completed = true;
    })
}

/// The volume as it is once it has been written for the claim.
pub(super) fn claimed(volume: PersistentVolume, by: &str) -> PersistentVolume {
    newer(volume, |volume| {
        volume.resource_version = "2".into();
        volume.claim = Some(reference(by));
        volume.available = false;
    })
}

const PREFIX: &str = "running PreBind plugin \"VolumeBinding\": ";

#[test]
fn bound_claims_need_nothing() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_volume(volume("v", "", 1));
        ledger.apply_claim(bound("c", "v"));
        ledger.apply_pod(using("p", &["c"]));
    });
    bench.settle(0);
    assert_eq!((bench.binds.len(), bench.writes.len(), bench.nominated.len()), (1, 0, 0));
    bench.bound();
    bench.audit();
}

#[test]
fn a_volume_that_is_there_is_bound_before_the_pod() {
    let mut bench = Bench::new();
    let local = || PersistentVolume { affinity: Some(only_in("x")), ..volume("v", "local", 5) };
    bench.seen(|ledger| {
        ledger.apply_volume(local());
        ledger.apply_claim(claim("c", "local", 1));
        ledger.apply_pod(using("p", &["c"]));
    });
    assert_eq!(bench.settle(0), Next::Idle);
    assert_eq!(bench.nominated, [("p".to_owned(), Some("a".to_owned()))]);
    let (_, _, node, writes) = &bench.writes[0];
    let write = &writes.bindings[0];
    assert_eq!((&**node, &*write.volume, &*write.resource_version, write.by_controller), ("a", "v", "1", true));
    assert!(writes.provisions.is_empty() && bench.binds.is_empty());
    bench.audit();
    bench.wrote(VolumesOutcome::Written);
    assert_eq!(bench.settle(0), Next::At(Time::from_millis(60_000)), "the timeout");
    bench.seen(|ledger| ledger.apply_volume(claimed(local(), "c")));
    bench.settle(0);
    assert!(bench.binds.is_empty(), "the claim is not bound yet");
    bench.audit();
    bench.seen(|ledger| ledger.apply_claim(newer(bound("c", "v"), |claim| claim.resource_version = "2".into())));
    bench.settle(0);
    assert_eq!(&*bench.binds[0].3, "a");
    bench.bound();
    assert!(bench.workers[0].is_quiet() && bench.refusals.is_empty());
    bench.audit();
}

/// A pod whose claim is to be made, written on node `a` or `b`; gives that node.
fn asked_for(bench: &mut Bench) -> String {
    bench.seen(|ledger| {
        ledger.apply_claim(claim("c", "made", 1));
        ledger.apply_pod(using("p", &["c"]));
    });
    bench.settle(0);
    let node = bench.writes[0].2.to_string();
    bench.wrote(VolumesOutcome::Written);
    bench.seen(|ledger| ledger.apply_claim(selected("c", &node)));
    bench.settle(0);
    bench.audit();
    node
}

#[test]
fn a_volume_is_made_before_the_pod_is_bound() {
    let mut bench = Bench::new();
    let node = asked_for(&mut bench);
    bench.seen(|ledger| ledger.apply_claim(provisioned("c", &node, "pv")));
    bench.settle(0);
    assert!(bench.binds.is_empty(), "its volume has not been seen");
    bench.seen(|ledger| ledger.apply_volume(claimed(csi("pv", "driver"), "c")));
    bench.settle(0);
    assert_eq!(*bench.binds[0].3, *node);
    bench.bound();
    bench.audit();
}

#[test]
fn a_claim_that_never_binds_ends_in_a_timeout_and_everything_is_undone() {
    let mut bench = Bench::new();
    asked_for(&mut bench);
    bench.now = 59_999;
    assert_eq!(bench.settle(0), Next::At(Time::from_millis(60_000)));
    bench.now = 60_000;
    bench.settle(0);
    assert_eq!(bench.refusal(), format!("{PREFIX}binding volumes: context deadline exceeded"));
    assert_eq!(bench.ended_by(), (false, NominatedNode::Clear));
    assert_eq!(bench.workers[0].queue.counts().backoff, 1);
    bench.is_undone("p");
    // Once more: the claim is assumed already, so that there is nothing to write.
    bench.now = 70_000;
    bench.settle(0);
    assert!(bench.writes.is_empty() && bench.workers[0].volumes.len() == 1);
    bench.audit();
    // That it is nominated may not be written yet: a refusal could come before it.
    bench.now = 200_000;
    bench.settle(0);
    assert_eq!(bench.refusal(), format!("{PREFIX}binding volumes: context deadline exceeded"));
    assert_eq!(bench.ended_by(), (true, NominatedNode::Keep));
}

/// A nomination is written once more by whoever ends it: two writes of one field would race.
#[test]
fn a_refused_write_leaves_the_end_of_the_nomination_to_the_one_that_wrote_it() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_claim(claim("c", "made", 1));
        ledger.apply_pod(using("p", &["c"]));
    });
    bench.settle(0);
    bench.wrote(VolumesOutcome::Failed { code: Some(403), message: "no".into() });
    assert_eq!(bench.refusal(), format!("{PREFIX}no"));
    assert_eq!(bench.ended_by(), (true, NominatedNode::Keep));
}

#[test]
fn an_older_event_does_not_bring_the_nomination_back_that_a_failure_ended() {
    let mut bench = Bench::new();
    let node = asked_for(&mut bench);
    let nominated = || Pod { nominated_node: Some((*node).into()), ..using("p", &["c"]) };
    bench.pod(nominated());
    bench.seen(|ledger| ledger.delete_claim("default/c"));
    bench.settle(0);
    bench.is_undone("p");
    bench.pod(nominated());
    assert!(bench.ledger.borrow().nominations().is_empty(), "its end has not been seen yet");
    bench.pod(using("p", &["c"]));
    bench.pod(nominated());
    assert!(!bench.ledger.borrow().nominations().is_empty(), "nominated anew by somebody");
}

#[test]
fn a_pod_whose_name_was_given_away_while_it_waited_for_its_volumes_does_not_come_back() {
    let mut bench = Bench::new();
    asked_for(&mut bench);
    let elsewhere =
        CompiledProfile { scheduler_names: vec!["elsewhere".into()], ..CompiledProfile::default_preset("test") };
    bench.workers[0].swap(Time::ZERO, Arc::new(elsewhere));
    bench.settle(0);
    assert_eq!(bench.workers[0].queue.counts(), crate::queue::Counts::default());
    bench.is_undone("p");
}

#[test]
fn what_is_undone_is_free_for_others() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_volume(volume("v", "local", 5));
        ledger.apply_claim(claim("c", "local", 1));
        ledger.apply_claim(claim("d", "local", 1));
        ledger.apply_pod(using("p", &["c"]));
        ledger.apply_pod(Pod { scheduler_name: "other".into(), ..using("q", &["d"]) });
    });
    bench.settle(0);
    bench.settle(1);
    assert_eq!(bench.writes.len(), 1, "the volume is assumed for the first");
    let none = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.";
    assert_eq!(bench.refusals.remove(0), ("q".to_owned(), RefusalReason::Unschedulable, none.to_owned()));
    bench.now = 5_000;
    bench.wrote(VolumesOutcome::Failed { code: None, message: "the object has been modified".into() });
    assert_eq!(bench.refusal(), format!("{PREFIX}the object has been modified"));
    bench.is_undone("p");
    bench.settle(1);
    assert_eq!(bench.writes.len(), 1, "the second was woken and has it now");
    assert_eq!(bench.writes[0].0, 1);
    bench.audit();
}

/// Decides for the pod without committing, as a worker does under the read lock.
fn propose(ledger: &Ledger, uid: &str) -> crate::ledger::Proposal {
    let Some(PodState::Pending(pending)) = ledger.pod(uid).cloned() else { panic!("{uid} is pending") };
    let mut scheduler = Scheduler::new(CompiledProfile::default_preset("test").into(), 1);
    match scheduler.decide(ledger, &pending) {
        crate::cycle::Decision::Place(proposal) => proposal,
        other => panic!("{other:?}"),
    }
}

fn commit(ledger: &mut Ledger, proposal: &crate::ledger::Proposal) -> Result<VolumeWrites, Conflict> {
    let mut scheduler = Scheduler::new(CompiledProfile::default_preset("test").into(), 1);
    let refits = |l: &Ledger| scheduler.refits(l, &proposal.pod, proposal.node);
    ledger.commit(proposal, refits).map(|c| c.volumes.map(|w| VolumeWrites::clone(&w)).unwrap_or_default())
}

#[test]
fn of_two_pods_that_race_for_one_volume_one_gets_it() {
    let bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_volume(volume("small", "local", 1));
        ledger.apply_claim(claim("c", "local", 1));
        ledger.apply_claim(claim("d", "local", 1));
        ledger.apply_pod(using("p", &["c"]));
        ledger.apply_pod(using("q", &["d"]));
        let (first, second) = (propose(ledger, "p"), propose(ledger, "q"));
        assert_eq!(first.volumes.bindings[0].1, second.volumes.bindings[0].1);
        assert!(commit(ledger, &first).is_ok());
        assert_eq!(commit(ledger, &second), Err(Conflict::NoLongerFits));
        // With another volume the second gets that, found anew by the commit.
        ledger.apply_volume(volume("large", "local", 9));
        assert_eq!(&*commit(ledger, &second).expect("another").bindings[0].volume, "large");
    });
    bench.audit();
}

#[test]
fn a_limit_is_not_passed_by_two_pods_at_once() {
    let bench = Bench::new();
    bench.seen(|ledger| {
        for name in ["a", "b"] {
            ledger.apply_csi_node(CsiNode { name: name.into(), ..csi_node(name, "d", Some(1)) });
        }
        for i in 0..3 {
            ledger.apply_volume(csi(&format!("v{i}"), "d"));
            ledger.apply_claim(bound(&format!("c{i}"), &format!("v{i}")));
            ledger.apply_pod(using(&format!("p{i}"), &[&format!("c{i}")]));
        }
        ledger.apply_node(&Node { unschedulable: true, ..node_in("b", "y") });
        let (first, second) = (propose(ledger, "p0"), propose(ledger, "p1"));
        assert!(commit(ledger, &first).is_ok());
        assert_eq!(commit(ledger, &second), Err(Conflict::NoLongerFits));
    });
    bench.audit();
}

#[test]
fn a_claim_for_one_pod_is_not_taken_by_two_at_once() {
    let bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_volume(volume("v", "", 1));
        ledger.apply_claim(newer(bound("c", "v"), |claim| claim.access_modes = vec!["ReadWriteOncePod".into()]));
        ledger.apply_pod(using("p", &["c"]));
        ledger.apply_pod(using("q", &["c"]));
        let (first, second) = (propose(ledger, "p"), propose(ledger, "q"));
        assert!(commit(ledger, &first).is_ok());
        assert_eq!(commit(ledger, &second), Err(Conflict::NoLongerFits));
        ledger.forget("p");
        assert!(commit(ledger, &second).is_ok());
    });
    bench.audit();
}

#[test]
fn a_failure_before_the_bind_is_reported_and_undone() {
    type Change = fn(&mut Ledger, &str);
    let cases: [(&str, Change, &str); 5] = [
        (
            "the provisioner gave up",
            |ledger, _| ledger.apply_claim(newer(claim("c", "made", 1), |claim| claim.resource_version = "4".into())),
            "provisioning failed for PVC \"c\"",
        ),
        (
            "the claim is deleted",
            |ledger, _| ledger.delete_claim("default/c"),
            "failed to check provisioning pvc: persistentvolumeclaims \"default/c\" not found",
        ),
        (
            "the node is deleted",
            |ledger, node| ledger.delete_node(node),
            "failed to get node \"NODE\": node \"NODE\" not found",
        ),
        (
            "its volume is elsewhere",
            |ledger, node| {
                let elsewhere = PersistentVolume { affinity: Some(only_in("nowhere")), ..csi("pv", "driver") };
                ledger.apply_volume(claimed(elsewhere, "c"));
                ledger.apply_claim(provisioned("c", node, "pv"));
            },
            "pv \"pv\" node affinity doesn't match node \"NODE\": no matching NodeSelectorTerms",
        ),
        (
            "another scheduler chose another node",
            |ledger, _| ledger.apply_claim(newer(selected("c", "z"), |claim| claim.resource_version = "4".into())),
            "provisioning failed for PVC \"c\"",
        ),
    ];
    for (case, change, text) in cases {
        let mut bench = Bench::new();
        let node = asked_for(&mut bench);
        bench.seen(|ledger| change(ledger, &node));
        bench.settle(0);
        assert_eq!(bench.refusal(), format!("{PREFIX}binding volumes: {}", text.replace("NODE", &node)), "{case}");
        bench.is_undone("p");
    }
}

#[test]
fn a_volume_deleted_between_assume_and_bind_is_noticed() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_volume(volume("v", "local", 5));
        ledger.apply_claim(claim("c", "local", 1));
        ledger.apply_pod(using("p", &["c"]));
    });
    bench.settle(0);
    bench.seen(|ledger| ledger.delete_volume("v"));
    bench.settle(0);
    bench.audit();
    bench.wrote(VolumesOutcome::Written);
    let text = "binding volumes: failed to check binding: persistentvolumes \"v\" not found";
    assert_eq!(bench.refusal(), format!("{PREFIX}{text}"));
    bench.is_undone("p");
}

#[test]
fn a_pod_deleted_while_its_claims_are_bound_is_forgotten() {
    for terminating in [true, false] {
        for written in [true, false] {
            let mut bench = Bench::new();
            bench.seen(|ledger| {
                ledger.apply_volume(volume("v", "local", 5));
                ledger.apply_claim(claim("c", "local", 1));
                ledger.apply_pod(using("p", &["c"]));
            });
            bench.settle(0);
            let (_, attempt, ..) = bench.writes[0];
            if written {
                bench.wrote(VolumesOutcome::Written);
            }
            bench.seen(|ledger| {
                if terminating {
                    ledger.apply_pod(Pod { deleting: true, ..using("p", &["c"]) });
                } else {
                    ledger.delete_pod("p");
                }
            });
            bench.settle(0);
            assert!(bench.workers[0].is_quiet() && bench.refusals.is_empty());
            bench.audit();
            bench.inputs[0].push(Input::VolumesWritten { attempt, outcome: VolumesOutcome::Written });
            bench.settle(0);
            assert!(bench.binds.is_empty(), "an answer to an attempt that is over is dropped");
            bench.audit();
        }
    }
}

#[test]
fn a_pod_that_someone_else_binds_meanwhile_is_theirs() {
    for node in ["a", "b"] {
        let mut bench = Bench::new();
        asked_for(&mut bench);
        bench.pod(on(node, using("p", &["c"])));
        bench.settle(0);
        assert!(bench.workers[0].is_quiet() && bench.refusals.is_empty());
        bench.audit();
    }
}

#[test]
fn another_profile_decides_anew_and_a_paused_one_waits() {
    for mode in [Mode::Active, Mode::Paused] {
        let mut bench = Bench::new();
        asked_for(&mut bench);
        let profile = CompiledProfile { mode, ..CompiledProfile::default_preset("test") };
        bench.workers[0].swap(Time::from_millis(bench.now), profile.into());
        bench.settle(0);
        assert_eq!(bench.workers[0].volumes.len(), usize::from(mode == Mode::Active));
        assert_eq!(bench.workers[0].waiting_for_volumes().len(), usize::from(mode == Mode::Active));
        assert!(bench.nominated.contains(&("p".to_owned(), None)));
        bench.audit();
    }
}

#[test]
fn revoked_writes_leave_nothing() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_claim(claim("c", "made", 1));
        ledger.apply_pod(using("p", &["c"]));
    });
    bench.settle(0);
    let (_, attempt, ..) = bench.writes.remove(0);
    bench.inputs[0].push(Input::BindRevoked { attempt });
    let mut paused = CompiledProfile::default_preset("test");
    paused.mode = Mode::Paused;
    bench.workers[0].swap(Time::ZERO, paused.into());
    bench.settle(0);
    bench.is_undone("p");
    assert_eq!(bench.workers[0].queue.counts().active, 1, "it stands where it stood");
}

#[test]
fn a_worker_that_ends_names_what_others_must_undo() {
    let mut bench = Bench::new();
    asked_for(&mut bench);
    let left = bench.workers[0].waiting_for_volumes();
    assert_eq!(left, ["p".into()]);
    bench.seen(|ledger| left.iter().for_each(|uid| ledger.forget(uid)));
    bench.audit();
}

#[test]
fn pods_that_share_a_claim_share_its_assumption() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_claim(claim("c", "made", 1));
        ledger.apply_pod(using("p", &["c"]));
        ledger.apply_pod(using("q", &["c"]));
    });
    bench.settle(0);
    assert_eq!(bench.writes.len(), 2);
    assert_eq!(bench.writes[0].2, bench.writes[1].2, "both are placed on one node");
    bench.audit();
    bench.wrote(VolumesOutcome::Failed { code: None, message: "no".into() });
    bench.audit();
    let selected_node = |bench: &Bench| {
        let ledger = bench.ledger.borrow();
        let claim = ledger.volumes().claim(&crate::volume_testing::key("c")).expect("seen").clone();
        ledger.volumes().selected_node(&claim).cloned()
    };
    assert!(selected_node(&bench).is_some(), "the other still holds it");
    bench.wrote(VolumesOutcome::Failed { code: None, message: "no".into() });
    assert_eq!(selected_node(&bench), None);
    bench.audit();
}
