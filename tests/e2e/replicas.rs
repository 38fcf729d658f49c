//! Two replicas: the standby is ready and does nothing; it takes over when the leader ends, is killed or stands still.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use berth_lab::{ControlPlane, NodeSpec, Operator};
use serde_json::json;

use crate::cluster::{HOME, namespace, own_plane, send_signal, serving, start};
use crate::history::{Audit, Bind, Recorder, summed};
use crate::objects::{PROFILES, condition, events, pod, pod_path, profile, wait_reason};
use crate::{LATER, SOON};

const HERE: &str = "replicas";
const NODES: usize = 200;
/// Milli-CPU of a node: 30 pods.
const ROOM: u64 = 3_000;
/// More are not made: they would find no room.
const MOST: usize = NODES * 30 - 100;
const HAND_OVERS: usize = 5;
const KILLS: usize = 2;
/// How long others wait for a silent leader: the chart's default.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// What a shared machine may add to what is measured.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pods that wait when the leader ends, for the hand-over in the middle of a backlog.
const BACKLOG: usize = 1_500;

/// Pods come all the time; nodes are filled one after the other, so that each fill is a chance to overbook.
struct Load<'a> {
    plane: &'a ControlPlane,
    audit: &'a Audit,
    recorder: &'a Recorder,
    made: &'a AtomicUsize,
    flows: &'a AtomicBool,
}

#[test]
#[ignore = "takes minutes; `cargo test --workspace --test e2e replicas -- --ignored --nocapture` prints the figures"]
fn two_replicas_hand_over_and_take_over_and_never_work_at_once() {
    let audit = Audit::new("replicas");
    let plane = own_plane(audit.flags());
    namespace(&plane, HERE);
    plane.create_nodes(NODES, |i| NodeSpec::new(&format!("n{i}"), "zone-a", "3", "64Gi")).unwrap();
    let leader = serving(&plane, "berth-a", &[]);
    plane.api.post(PROFILES, &profile(HERE, &json!({"preset": "BinPack"}))).unwrap();
    wait_reason(&plane, HERE, "Ready", "Serving");
    let standby = ready(&plane, "berth-b");
    a_standby_is_ready_and_says_who_leads(&plane, &leader, &standby);

    let recorder = Recorder::start(&plane, HERE);
    let (made, flows, done) = (AtomicUsize::new(0), AtomicBool::new(true), AtomicBool::new(false));
    let load = Load { plane: &plane, audit: &audit, recorder: &recorder, made: &made, flows: &flows };
    // Who leads in the end places what is left.
    let _leader = thread::scope(|scope| {
        let _ends = EndOnDrop(&done);
        scope.spawn(|| make_pods(&plane, &made, &flows, &done));
        let pair = hand_overs(&load, leader, standby);
        let pair = hand_over_of_a_backlog(&load, pair);
        let pair = take_overs_from_killed(&load, pair);
        stopped_and_continued(&load, pair)
    });
    nothing_was_lost_doubled_or_overbooked(&plane, &audit, recorder, made.into_inner());
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Starts an operator and waits until it is ready: it leads or stands by.
fn ready(plane: &ControlPlane, name: &str) -> Operator {
    let mut operator = start(plane, name, &[]);
    plane.wait_until_ready(&mut operator).unwrap();
    operator
}

fn make_pods(plane: &ControlPlane, made: &AtomicUsize, flows: &AtomicBool, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        if flows.load(Ordering::Relaxed) && made.load(Ordering::Relaxed) < MOST {
            let i = made.fetch_add(1, Ordering::Relaxed);
            plane.api.post(&pod_path(HERE, ""), &pod(HERE, &format!("p{i}"), HERE, "100m")).unwrap();
        }
        // The rate, some 60 pods a second: a measure of time, not of luck.
        thread::sleep(Duration::from_millis(15));
    }
}

fn a_standby_is_ready_and_says_who_leads(plane: &ControlPlane, leader: &Operator, standby: &Operator) {
    let (status, page) = standby.page("/readyz?verbose").unwrap();
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("[+]caches ok") && page.contains("standby: berth-a_"), "{page}");
    let (_, page) = leader.page("/readyz?verbose").unwrap();
    assert!(page.contains("leader: this process, berth-a_"), "{page}");
    for (operator, leads) in [(leader, 1), (standby, 0)] {
        let (_, metrics) = operator.page("/metrics").unwrap();
        let series = format!("leader_election_master_status{{name=\"berth.scheduling.berth.dev\"}} {leads}");
        assert!(metrics.contains(&series), "{metrics}");
        assert!(!metrics.contains("schedulerprofile_another_installation{"), "{metrics}");
    }
    let object = plane.api.get(&format!("{PROFILES}/{HERE}")).unwrap();
    assert!(object["status"]["worker"]["holder"].as_str().unwrap().starts_with("berth-a_"), "{object:#}");
    assert!(events(&plane.api, HOME, "AnotherInstallation").is_empty());
}

/// Microseconds of Unix time.
fn now_us() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// The longest time from the answer to one bind to the arrival of the next, from `since` on, in milliseconds.
fn longest_gap(binds: &[Bind], since: i64) -> f64 {
    let mut done: Vec<&Bind> = binds.iter().filter(|bind| bind.code == 201).collect();
    done.sort_by_key(|bind| bind.received_us);
    let gaps = done.windows(2).filter(|pair| pair[1].received_us >= since);
    gaps.map(|pair| (pair[1].received_us - pair[0].answered_us) as f64 / 1e3).fold(0.0, f64::max)
}

impl Load<'_> {
    /// Waits until so many more pods are bound.
    fn wait_for_binds(&self, more: usize) {
        let wanted = self.recorder.bound() + more;
        let bound = || Ok((self.recorder.bound() >= wanted).then_some(()));
        self.plane.wait_for(&format!("{wanted} pods bound"), LATER, bound).unwrap();
    }

    /// Waits until the other one leads and binds; what was between the binds of the two.
    fn wait_for_successor(&self, standby: &mut Operator, since: i64) -> f64 {
        self.plane.wait_until_serving(standby).unwrap_or_else(|error| panic!("{error:#}"));
        self.wait_for_binds(30);
        longest_gap(&self.audit.binds(), since)
    }
}

type Pair = (Operator, Operator);

fn hand_overs(load: &Load<'_>, mut leader: Operator, mut standby: Operator) -> Pair {
    let mut gaps = Vec::new();
    for round in 0..HAND_OVERS {
        load.wait_for_binds(30);
        let since = now_us();
        send_signal(&leader, "TERM");
        gaps.push(load.wait_for_successor(&mut standby, since));
        assert_eq!(leader.process.wait(SOON).unwrap().code(), Some(0), "{}", leader.process.log_tail(20));
        let object = load.plane.api.get(&format!("{PROFILES}/{HERE}")).unwrap();
        assert_eq!(condition(&object, "Ready").unwrap().1, "Serving", "nobody need hear of a hand-over: {object:#}");
        leader = std::mem::replace(&mut standby, ready(load.plane, if round % 2 == 0 { "berth-a" } else { "berth-b" }));
    }
    println!("replicas: SIGTERM, from the last bind of one to the first of the next: {gaps:.0?} ms");
    for gap in gaps {
        assert!(gap < PATIENCE.as_secs_f64() * 1e3, "{gap} ms");
    }
    (leader, standby)
}

/// No pod is made meanwhile: nothing but the last word of the leader shows the standby how far it must have come.
fn hand_over_of_a_backlog(load: &Load<'_>, (mut leader, mut standby): Pair) -> Pair {
    load.flows.store(false, Ordering::Relaxed);
    let first = load.made.fetch_add(BACKLOG, Ordering::Relaxed);
    let object = |i: usize| pod(HERE, &format!("p{}", first + i), HERE, "100m");
    load.plane.create_objects(&pod_path(HERE, ""), BACKLOG, 16, object).unwrap();
    let since = now_us();
    let waiting = first + BACKLOG - load.recorder.bound();
    send_signal(&leader, "TERM");
    load.plane.wait_until_serving(&mut standby).unwrap();
    load.plane
        .wait_for("the backlog to be bound", LATER, || Ok((load.recorder.bound() >= first + BACKLOG).then_some(())))
        .unwrap();
    let gap = longest_gap(&load.audit.binds(), since);
    println!("replicas: SIGTERM with a backlog of {waiting} and no new pods: {gap:.0} ms");
    assert!(gap < PATIENCE.as_secs_f64() * 1e3, "{gap} ms");
    leader.process.wait(SOON).unwrap();
    load.flows.store(true, Ordering::Relaxed);
    (standby, ready(load.plane, "berth-c"))
}

fn take_overs_from_killed(load: &Load<'_>, (mut leader, mut standby): Pair) -> Pair {
    let mut gaps = Vec::new();
    for round in 0..KILLS {
        load.wait_for_binds(30);
        let since = now_us();
        leader.process.kill().unwrap();
        gaps.push(load.wait_for_successor(&mut standby, since));
        leader = std::mem::replace(&mut standby, ready(load.plane, &format!("berth-killed-{round}")));
    }
    println!(
        "replicas: SIGKILL, to the first bind of the next: {gaps:.0?} ms, of which {LEASE_DURATION:?} is the lease"
    );
    for gap in gaps {
        assert!(gap < (LEASE_DURATION + PATIENCE).as_secs_f64() * 1e3, "{gap} ms");
    }
    (leader, standby)
}

/// It thinks for a moment that it leads: its gate shut while it stood still.
fn stopped_and_continued(load: &Load<'_>, (mut leader, mut standby): Pair) -> Operator {
    load.wait_for_binds(30);
    let since = now_us();
    send_signal(&leader, "STOP");
    let gap = load.wait_for_successor(&mut standby, since);
    let continued = Instant::now();
    send_signal(&leader, "CONT");
    let status = leader.process.wait(SOON).unwrap();
    assert_eq!(status.code(), Some(1), "{}", leader.process.log_tail(20));
    assert!(leader.process.log_tail(20).contains("leadership lost"), "{}", leader.process.log_tail(20));
    println!("replicas: SIGSTOP: {gap:.0} ms; ended {} ms after SIGCONT", continued.elapsed().as_millis());
    load.wait_for_binds(100);
    standby
}

fn nothing_was_lost_doubled_or_overbooked(plane: &ControlPlane, audit: &Audit, recorder: Recorder, made: usize) {
    plane.wait_for("all pods bound", LATER, || Ok((recorder.bound() >= made).then_some(()))).unwrap();
    let history = recorder.finish(plane);
    assert!(history.moved.is_empty(), "{:?}", history.moved);
    let (used, _) = summed(plane);
    let overbooked: Vec<_> = used.iter().filter(|(_, used)| **used > ROOM).collect();
    assert!(overbooked.is_empty(), "{overbooked:?}");
    let mut bound: BTreeMap<String, usize> = BTreeMap::new();
    let (mut refused, binds) = (0, audit.binds());
    for bind in &binds {
        match bind.code {
            201 => *bound.entry(bind.pod.clone()).or_default() += 1,
            _ => refused += 1,
        }
    }
    let twice: Vec<_> = bound.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    println!("replicas: {made} pods, {} binds, {refused} of them refused, overbooked 0, twice 0", binds.len());
}
