//! What preemption counts on: a pod that waits for victims wakes when they are deleted, and a nomination keeps capacity
//! exactly as long as it lasts.
//!
//! The test deletes the victims, so that nothing here depends on who asked for that. The numbers are of upstream's issues.

use super::*;
use crate::io::{BindOutcome, BindRequest};
use crate::ledger::{Ledger, PodState};
use crate::model::{
    Attachable, HostPort, InlineDisk, PersistentVolumeClaim, Pod, PodVolume, Protocol, Service, SpreadConstraint,
    Taint, TaintEffect, VolumeAttachment,
};
use crate::plugins::Plugin;
use crate::plugins::inter_pod_affinity::testing::{Asks, labelled, labels, selector, term};
use crate::testing::node;
use crate::volume_testing::{bound, csi, csi_node, mounting, using};
use std::cell::RefCell;
use std::time::Duration;

/// A ledger and workers that evict no pods; every bind ends well at once.
struct Bench {
    ledger: RefCell<Ledger>,
    workers: Vec<Worker>,
    seconds: u64,
}

impl Bench {
    /// Workers for the scheduler names `test` and `other`, on nodes `name: labels` of one core.
    fn new(nodes: &[&str]) -> Self {
        let mut profile = CompiledProfile::default_preset("test");
        profile.preemption.enabled = false;
        Self::with(profile, nodes)
    }

    fn with(mut profile: CompiledProfile, nodes: &[&str]) -> Self {
        // The sweep must not hide a missed wake-up.
        profile.queue.max_unschedulable = Duration::MAX;
        let other = CompiledProfile { scheduler_names: vec!["other".into()], ..profile.clone() };
        let workers = [profile, other].map(|profile| Worker::new(Arc::new(profile), 1)).into();
        let bench = Self { ledger: RefCell::new(Ledger::new()), workers, seconds: 0 };
        for text in nodes {
            let (name, text) = text.split_once(':').unwrap_or((text, ""));
            let mut object = node(name, 1000, 1 << 30, 10);
            object.labels = labels(&format!("kubernetes.io/hostname={name} {text}"));
            bench.seen(|ledger| ledger.apply_node(&object));
        }
        bench
    }

    fn seen(&self, change: impl FnOnce(&mut Ledger)) {
        change(&mut self.ledger.borrow_mut());
    }

    fn pod(&self, pod: Pod) {
        self.seen(|ledger| ledger.apply_pod(pod));
    }

    /// The pod as seen last, changed.
    fn change(&self, uid: &str, change: impl FnOnce(&mut Pod)) {
        let Some(PodState::Pending(pod)) = self.ledger.borrow().pod(uid).cloned() else { panic!("{uid} waits") };
        let mut pod = Pod::clone(&pod);
        change(&mut pod);
        self.pod(pod);
    }

    /// Lets the worker of that name run until it has nothing to do, with every backoff over.
    fn settle(&mut self, worker: usize) {
        let (mut inputs, mut effects) = (Vec::new(), Vec::new());
        loop {
            self.seconds += 20;
            let worker = &mut self.workers[worker];
            worker.step(Time::from_millis(1000 * self.seconds), &mut inputs, &self.ledger, &mut effects);
            for effect in effects.drain(..) {
                let Effect::Bind(BindRequest { attempt, pod, node, .. }) = effect else { continue };
                self.ledger.borrow_mut().apply_pod(Pod { node_name: Some(node), ..(*pod).clone() });
                inputs.push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
            }
            if inputs.is_empty() && worker.is_quiet() && worker.cursor == Some(self.ledger.borrow().version()) {
                return;
            }
        }
    }

    fn settle_all(&mut self) {
        (0..self.workers.len()).for_each(|worker| self.settle(worker));
    }

    /// Where the pod is; `-` while it waits.
    fn place(&self, uid: &str) -> String {
        let ledger = self.ledger.borrow();
        ledger.audit().expect("the columns equal the sums of the pods");
        match ledger.pod(uid) {
            Some(PodState::Bound(placed)) => ledger.nodes().name(placed.node).to_string(),
            Some(PodState::Pending(_)) => "-".into(),
            other => panic!("{uid}: {other:?}"),
        }
    }

    fn attempts(&self, uid: &str) -> u32 {
        let entries = self.workers.iter().flat_map(|worker| worker.queue.entries());
        entries.filter(|entry| *entry.pod().uid == *uid).map(crate::queue::Entry::attempts).sum()
    }

    /// The pod was refused once before, and again now. Where that ends its nomination, it is tried once more for it.
    fn is_tried_again(&mut self, uid: &str) {
        let attempts = self.attempts(uid);
        assert!(self.place(uid) == "-" && (2..=3).contains(&attempts), "{uid}: {attempts} attempts");
        self.settle(0);
        assert_eq!(self.attempts(uid), attempts, "{uid}: and then no more");
    }

    fn rejectors(&self, uid: &str) -> Vec<&'static str> {
        let entries = self.workers.iter().flat_map(|worker| worker.queue.entries());
        let of = entries.filter(|entry| *entry.pod().uid == *uid);
        of.flat_map(|entry| entry.rejectors().iter().map(Plugin::name).collect::<Vec<_>>()).collect()
    }
}

fn on(node: &str, pod: Pod) -> Pod {
    Pod { node_name: Some(node.into()), ..pod }
}

fn asking(milli_cpu: i64) -> Asks {
    let mut asks = labelled("app=web");
    asks.0.row_mut().requests.milli_cpu = milli_cpu;
    asks
}

fn cpu(name: &str, milli_cpu: i64) -> Pod {
    asking(milli_cpu).named(name)
}

fn high(pod: Pod) -> Pod {
    Pod { priority: 10, ..pod }
}

fn nominated(pod: Pod, node: &str) -> Pod {
    Pod { nominated_node: Some(node.into()), ..pod }
}

fn ebs(id: &str) -> PodVolume {
    let counts = Ok(Some(Attachable { driver: "d".into(), handle: id.into() }));
    PodVolume::Disk { volume: "v".into(), disk: InlineDisk::Ebs { id: id.into() }, counts }
}

/// One plugin that refuses a pod because of another pod.
struct Case {
    plugin: Plugin,
    victim: Pod,
    waits: Pod,
}

/// What the cases need beside their pods.
fn furnish(bench: &Bench) {
    bench.seen(|ledger| {
        for i in 0..3 {
            ledger.apply_volume(csi(&format!("v{i}"), "d"));
            ledger.apply_claim(bound(&format!("c{i}"), &format!("v{i}")));
        }
        let only_one = bound("one", "v0");
        ledger.apply_claim(PersistentVolumeClaim { access_modes: vec!["ReadWriteOncePod".into()], ..only_one });
        ledger.apply_csi_node(csi_node("a", "d", Some(1)));
        let selector = Some(labels("app=served"));
        ledger.apply_service(Service { namespace: "default".into(), name: "s".into(), selector });
    });
}

fn cases() -> Vec<Case> {
    let case = |plugin, victim: Pod, waits: Pod| Case { plugin, victim: on("a", victim), waits: high(waits) };
    let plain = |name: &str| labelled("app=web").named(name);
    let port = |name: &str| {
        let mut asks = labelled("");
        asks.0.row_mut().host_ports = vec![HostPort { protocol: Protocol::Tcp, port: 80, ip: "0.0.0.0".into() }];
        asks.named(name)
    };
    let gpu = |name: &str| {
        let mut asks = labelled("");
        asks.0.row_mut().requests.set_scalar("example.com/gpu".into(), 1);
        asks.named(name)
    };
    let spread = |name: &str| {
        let mut asks = labelled("app=web");
        asks.0.spread.push(SpreadConstraint {
            max_skew: 1,
            topology_key: "zone".into(),
            hard: true,
            selector: Some(selector("app=web")),
            min_domains: 1,
            honor_affinity: true,
            honor_taints: false,
        });
        asks.named(name)
    };
    let loner = |name: &str, pods: &str| labelled("app=web").away(term("zone", pods)).named(name);
    let disk = |name: &str, id: &str| mounting(name, vec![ebs(id)]);
    vec![
        case(Plugin::NodeResourcesFit, cpu("v", 800), cpu("p", 600)),
        case(Plugin::NodeResourcesFit, gpu("v"), gpu("p")),
        case(Plugin::NodePorts, port("v"), port("p")),
        case(Plugin::VolumeRestrictions, disk("v", "x"), disk("p", "x")),
        case(Plugin::VolumeRestrictions, using("v", &["one"]), using("p", &["one"])),
        case(Plugin::NodeVolumeLimits, using("v", &["c1"]), using("p", &["c2"])),
        case(Plugin::PodTopologySpread, plain("v"), spread("p")),
        case(Plugin::InterPodAffinity, plain("v"), loner("p", "app=web")),
        case(Plugin::InterPodAffinity, loner("v", "app=web"), plain("p")),
        case(Plugin::MaxEBSVolumeCount, disk("v", "x"), disk("p", "y")),
        case(Plugin::CheckServiceAffinity, labelled("app=served").named("v"), labelled("app=served").named("p")),
    ]
}

/// A node `a` where the case is decided, and `b`, which takes no pod. Service affinity is decided by a victim on `b`.
fn bench_of(case: &Case) -> Bench {
    let mut profile = CompiledProfile::default_preset("test");
    profile.preemption.enabled = false;
    match case.plugin {
        Plugin::MaxEBSVolumeCount => {
            profile.filters = profile.filters.with(Plugin::MaxEBSVolumeCount).without(Plugin::NodeVolumeLimits);
            profile.legacy.max_ebs = 1;
        }
        Plugin::CheckServiceAffinity => {
            profile.filters = profile.filters.with(Plugin::CheckServiceAffinity);
            profile.legacy.affinity_labels = vec!["zone".into()];
        }
        _ => {}
    }
    let bench = Bench::with(profile, &["a:zone=a", "b:zone=b"]);
    let mut gpus = node("a", 1000, 1 << 30, 10);
    gpus.labels = labels("kubernetes.io/hostname=a zone=a");
    gpus.allocatable.set_scalar("example.com/gpu".into(), 1);
    bench.seen(|ledger| ledger.apply_node(&gpus));
    let mut cordoned = node("b", 1000, 1 << 30, 10);
    cordoned.labels = labels("kubernetes.io/hostname=b zone=b");
    cordoned.unschedulable = true;
    bench.seen(|ledger| ledger.apply_node(&cordoned));
    furnish(&bench);
    let victim = if case.plugin == Plugin::CheckServiceAffinity { "b" } else { "a" };
    bench.pod(on(victim, case.victim.clone()));
    bench.pod(case.waits.clone());
    bench
}

/// The ways in which a victim is seen to leave.
#[derive(Debug, Clone, Copy)]
enum Leaves {
    /// It is deleted.
    Deleted,
    /// It is terminating first.
    Slowly,
    /// It finishes.
    Finishes,
    /// Another pod has its name.
    Replaced,
}

fn leave(bench: &mut Bench, case: &Case, how: Leaves) {
    let victim = Pod { node_name: Some("a".into()), ..case.victim.clone() };
    let victim = if case.plugin == Plugin::CheckServiceAffinity { on("b", victim) } else { victim };
    match how {
        Leaves::Deleted => bench.seen(|ledger| ledger.delete_pod("v")),
        Leaves::Slowly => {
            bench.pod(Pod { deleting: true, ..victim });
            bench.settle(0);
            bench.seen(|ledger| ledger.delete_pod("v"));
        }
        Leaves::Finishes => bench.pod(Pod { finished: true, ..victim }),
        Leaves::Replaced => bench.pod(Pod { uid: "w".into(), node_name: None, scheduler_name: "x".into(), ..victim }),
    }
    bench.settle(0);
}

/// 139162 and 54501: whatever refused it, a preemptor is tried as soon as a victim is deleted.
#[test]
fn a_pod_that_waits_for_a_victim_wakes_however_the_victim_leaves_139162() {
    for how in [Leaves::Deleted, Leaves::Slowly, Leaves::Finishes, Leaves::Replaced] {
        for case in cases() {
            let mut bench = bench_of(&case);
            bench.settle(0);
            let context = format!("{:?}, {how:?}: {:?}", case.plugin, bench.rejectors("p"));
            assert!(bench.rejectors("p").contains(&case.plugin.name()), "{context}");
            assert_eq!((&*bench.place("p"), bench.attempts("p")), ("-", 1), "{context}");
            leave(&mut bench, &case, how);
            assert_eq!(bench.place("p"), "a", "{context}");
        }
    }
}

/// A volume of a deleted victim stays attached for a while: the pod is tried again once it is not.
#[test]
fn a_volume_that_outlives_its_pod_on_the_node_is_waited_for() {
    let attachment =
        VolumeAttachment { name: "of v1".into(), attacher: "d".into(), node: "a".into(), volume: Some("v1".into()) };
    let case = cases().into_iter().find(|case| case.plugin == Plugin::NodeVolumeLimits).expect("a case");
    let mut bench = bench_of(&case);
    bench.seen(|ledger| ledger.apply_volume_attachment(attachment));
    bench.settle(0);
    leave(&mut bench, &case, Leaves::Deleted);
    assert_eq!((&*bench.place("p"), bench.attempts("p")), ("-", 2));
    bench.seen(|ledger| ledger.delete_volume_attachment("of v1"));
    bench.settle(0);
    assert_eq!(bench.place("p"), "a");
}

/// 66549: some of the victims are deleted and others take their time. One attempt for each deletion, none between.
#[test]
fn each_deleted_victim_is_one_attempt_until_the_capacity_is_enough_66549() {
    let mut bench = Bench::new(&["a"]);
    for name in ["v0", "v1", "v2"] {
        bench.pod(on("a", cpu(name, 300)));
    }
    bench.pod(high(cpu("p", 900)));
    bench.settle(0);
    for (victim, attempts) in [("v0", 2), ("v1", 3)] {
        bench.seen(|ledger| ledger.delete_pod(victim));
        bench.settle(0);
        bench.settle(0);
        assert_eq!((&*bench.place("p"), bench.attempts("p")), ("-", attempts), "{victim} is deleted");
    }
    bench.seen(|ledger| ledger.delete_pod("v2"));
    bench.settle(0);
    assert_eq!(bench.place("p"), "a");
}

/// 54501 and 55933: the capacity that a victim frees is kept for the nominated pod.
#[test]
fn freed_capacity_is_kept_for_the_nominated_pod_54501() {
    for (priority, taken) in [(0, "-"), (9, "-"), (10, "-"), (11, "a")] {
        let mut bench = Bench::new(&["a"]);
        bench.pod(on("a", cpu("v", 800)));
        bench.pod(high(cpu("p", 800)));
        bench.settle(0);
        bench.change("p", |pod| pod.nominated_node = Some("a".into()));
        bench.pod(Pod { priority, scheduler_name: "other".into(), ..cpu("q", 800) });
        bench.settle(1);
        bench.seen(|ledger| ledger.delete_pod("v"));
        bench.settle(1);
        assert_eq!(bench.place("q"), taken, "a pod of priority {priority} comes first");
        bench.settle(0);
        assert_eq!(bench.place("p"), if taken == "a" { "-" } else { "a" }, "a pod of priority {priority} came first");
    }
}

/// Every way in which a nomination may end.
type End = (&'static str, fn(&Bench));

fn ends() -> Vec<End> {
    vec![
        ("the pod is deleted", |bench| bench.seen(|ledger| ledger.delete_pod("p"))),
        ("the pod is finished", |bench| bench.change("p", |pod| pod.finished = true)),
        ("another pod has its name", |bench| {
            bench.change("p", |pod| {
                pod.uid = "another".into();
                pod.nominated_node = None;
                pod.gates = vec!["not yet".into()];
            });
        }),
        ("it is cleared", |bench| bench.change("p", |pod| pod.nominated_node = None)),
        ("it is moved", |bench| bench.change("p", |pod| pod.nominated_node = Some("b".into()))),
        ("the pod is worth less", |bench| bench.change("p", |pod| pod.priority = -1)),
        ("it is bound elsewhere", |bench| bench.change("p", |pod| pod.node_name = Some("b".into()))),
        ("it is bound where no node is", |bench| bench.change("p", |pod| pod.node_name = Some("gone".into()))),
    ]
}

/// 85677, 91750, 102339 and 106780: when a nomination ends in any way, the pods that it kept out are woken and nothing of
/// it is left.
#[test]
fn a_nomination_that_ends_in_any_way_lets_the_others_in_102339() {
    for scheduler in ["test", "foreign"] {
        for (how, end) in ends() {
            let mut bench = Bench::new(&["a", "b"]);
            // It waits by itself, so that only its nomination counts.
            let gated = Pod { gates: vec!["later".into()], scheduler_name: scheduler.into(), ..cpu("p", 800) };
            bench.pod(nominated(high(gated), "a"));
            let mut q = asking(800);
            q.0.row_mut().node_selector = labels("kubernetes.io/hostname=a");
            bench.pod(Pod { scheduler_name: "other".into(), ..q.named("q") });
            bench.settle_all();
            assert_eq!((&*bench.place("q"), bench.attempts("q")), ("-", 1), "{how}, {scheduler}: held off");
            end(&bench);
            bench.settle_all();
            assert_eq!(bench.place("q"), "a", "{how}, {scheduler}");
            bench.seen(|ledger| ["p", "another", "q"].into_iter().for_each(|uid| ledger.delete_pod(uid)));
            assert!(bench.ledger.borrow().nominations().is_empty(), "{how}, {scheduler}: a phantom is left");
        }
    }
}

/// Legacy counts look at nominated pods too.
#[test]
fn a_nomination_that_ends_wakes_pods_that_a_count_of_disks_refused() {
    let mut profile = CompiledProfile::default_preset("test");
    profile.preemption.enabled = false;
    profile.filters = profile.filters.with(Plugin::MaxEBSVolumeCount).without(Plugin::NodeVolumeLimits);
    profile.legacy.max_ebs = 1;
    let mut bench = Bench::with(profile, &["a"]);
    let gated = Pod { gates: vec!["later".into()], ..mounting("p", vec![ebs("x")]) };
    bench.pod(nominated(high(gated), "a"));
    bench.pod(Pod { scheduler_name: "other".into(), ..mounting("q", vec![ebs("y")]) });
    bench.settle_all();
    assert_eq!(bench.rejectors("q"), ["MaxEBSVolumeCount"]);
    bench.seen(|ledger| ledger.delete_pod("p"));
    bench.settle_all();
    assert_eq!(bench.place("q"), "a");
}

/// Two nodes full of lower-priority pods, and a pod nominated to the first.
fn nominated_to_a_full_node() -> Bench {
    let mut bench = Bench::new(&["a", "b"]);
    for name in ["a", "b"] {
        bench.pod(on(name, cpu(&format!("v-{name}"), 800)));
    }
    bench.pod(high(cpu("p", 800)));
    bench.settle(0);
    assert_eq!(bench.attempts("p"), 1);
    bench.change("p", |pod| pod.nominated_node = Some("a".into()));
    bench.settle(0);
    assert_eq!(bench.attempts("p"), 1, "a nomination is no reason to try again");
    bench
}

/// A nomination to a deleted node is worth nothing: the pod is tried on other nodes now, not at the next sweep.
#[test]
fn a_pod_whose_nominated_node_is_deleted_is_tried_at_once() {
    let mut bench = nominated_to_a_full_node();
    bench.seen(|ledger| ledger.delete_node("a"));
    bench.settle(0);
    bench.is_tried_again("p");
    // The pods that were there are deleted later; that frees no capacity.
    bench.seen(|ledger| ledger.delete_pod("v-a"));
    bench.settle(0);
    bench.seen(|ledger| ledger.delete_pod("v-b"));
    bench.settle(0);
    assert_eq!(bench.place("p"), "b");
}

/// 95752: the kubelet of the nominated node is dead, so that its pods never end. The taint for that makes the pod
/// look elsewhere.
#[test]
fn a_pod_whose_nominated_node_dies_is_tried_at_once_95752() {
    let mut bench = nominated_to_a_full_node();
    bench.pod(Pod { deleting: true, preempted: true, ..on("a", cpu("v-a", 800)) });
    bench.settle(0);
    assert_eq!(bench.attempts("p"), 1, "a terminating victim frees no capacity yet");
    let mut dead = node("a", 1000, 1 << 30, 10);
    dead.labels = labels("kubernetes.io/hostname=a");
    let (key, value) = ("node.kubernetes.io/unreachable".into(), "".into());
    dead.taints = Arc::from([Taint { key, value, effect: TaintEffect::NoExecute }]);
    bench.seen(|ledger| ledger.apply_node(&dead));
    bench.settle(0);
    bench.is_tried_again("p");
    assert_eq!(bench.rejectors("p"), ["TaintToleration", "NodeResourcesFit"]);
}

/// A pod that loses its nomination to one of higher priority is tried at once.
#[test]
fn a_pod_whose_nomination_is_ended_is_tried_at_once() {
    let mut bench = nominated_to_a_full_node();
    bench.change("p", |pod| pod.nominated_node = None);
    bench.settle(0);
    bench.is_tried_again("p");
}
