//! Two replicas: the standby is ready and does nothing; it takes over when the leader ends, is killed or stands still.

use std::time::Instant;

use berth_lab::{ControlPlane, Operator};
use serde_json::json;

use crate::SOON;
use crate::audit::Audit;
use crate::cluster::{HOME, own_plane, send_signal, serving, start};
use crate::leadership::wait_unready;
use crate::limit::{HANDED_OVER, TAKEN_OVER, check};
use crate::load::{Load, now_us, ready};
use crate::objects::{PROFILES, condition, events, profile, wait_reason};
use crate::stopped::{Late, Stopped};

const HERE: &str = "replicas";
/// Pods a second.
const RATE: u32 = 60;
const HAND_OVERS: usize = 5;
const KILLS: usize = 2;
/// Pods that wait when the leader ends or stands still in the middle of a backlog.
const BACKLOG: usize = 1_500;

#[test]
fn two_replicas_hand_over_and_take_over_and_never_work_at_once_136782() {
    let audit = Audit::new("replicas");
    let plane = own_plane(audit.flags());
    let load = Load::new(HERE, &plane, &audit);
    let leader = serving(&plane, "berth-a", &[]);
    plane.api.post(PROFILES, &profile(HERE, &json!({"preset": "BinPack"}))).unwrap();
    wait_reason(&plane, HERE, "Ready", "Serving");
    let standby = ready(&plane, "berth-b");
    a_standby_is_ready_and_says_who_leads(&plane, &leader, &standby);

    // Who leads in the end places what is left.
    let _leader = load.beside(RATE, || {
        let pair = hand_overs(&load, leader, standby);
        let pair = hand_over_of_a_backlog(&load, pair);
        let pair = take_overs_from_killed(&load, pair);
        stopped_and_continued(&load, pair)
    });
    load.nothing_was_lost_doubled_or_overbooked();
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
        assert!(!metrics.contains("berth_another_installation{"), "{metrics}");
    }
    let object = plane.api.get(&format!("{PROFILES}/{HERE}")).unwrap();
    assert!(object["status"]["worker"]["holder"].as_str().unwrap().starts_with("berth-a_"), "{object:#}");
    assert!(events(&plane.api, HOME, "AnotherInstallation").is_empty());
}

/// As `--state-namespace` forgotten outside of a pod: it would end as soon as it led, so that nobody may count on it.
#[test]
fn a_standby_that_could_not_lead_is_not_ready() {
    let plane = own_plane(Vec::new());
    let _leader = serving(&plane, "berth-a", &[]);
    let standby = start(&plane, "berth-b", &["--state-namespace=default"]);
    let says = "this process could not lead: may not list controllerrevisions.apps (403)";
    wait_unready(&plane, &standby, says);
    let page = standby.page("/readyz?verbose").unwrap().1;
    assert!(page.contains("standby: berth-a_"), "{page}");
}

/// Waits until the other one leads and binds; what was between the binds of the two, in milliseconds.
fn wait_for_successor(load: &Load<'_>, standby: &mut Operator, since: i64) -> f64 {
    load.plane.wait_until_serving(standby).unwrap_or_else(|error| panic!("{error:#}"));
    load.wait_for_binds(30);
    load.longest_gap(since)
}

type Pair = (Operator, Operator);

fn hand_overs(load: &Load<'_>, mut leader: Operator, mut standby: Operator) -> Pair {
    let mut gaps = Vec::new();
    for round in 0..HAND_OVERS {
        load.wait_for_binds(30);
        let since = now_us();
        send_signal(&leader, "TERM");
        gaps.push(wait_for_successor(load, &mut standby, since));
        assert_eq!(leader.process.wait(SOON).unwrap().code(), Some(0), "{}", leader.process.log_tail(20));
        let object = load.plane.api.get(&format!("{PROFILES}/{HERE}")).unwrap();
        assert_eq!(condition(&object, "Ready").unwrap().1, "Serving", "nobody need hear of a hand-over: {object:#}");
        leader = std::mem::replace(&mut standby, ready(load.plane, if round % 2 == 0 { "berth-a" } else { "berth-b" }));
    }
    check("replicas: SIGTERM, from the last bind of one to the first of the next", &gaps, HANDED_OVER);
    (leader, standby)
}

/// No pod is made meanwhile: nothing but what the leader left in the Lease shows the standby how far it must have come.
fn hand_over_of_a_backlog(load: &Load<'_>, (mut leader, mut standby): Pair) -> Pair {
    load.flow(false);
    let (made, waiting) = load.begin_backlog(BACKLOG);
    let since = now_us();
    send_signal(&leader, "TERM");
    load.plane.wait_until_serving(&mut standby).unwrap();
    load.wait_until_bound(made);
    let gap = load.longest_gap(since);
    check(&format!("replicas: SIGTERM with a backlog of {waiting} and no new pods"), &[gap], HANDED_OVER);
    leader.process.wait(SOON).unwrap();
    load.flow(true);
    (standby, ready(load.plane, "berth-c"))
}

fn take_overs_from_killed(load: &Load<'_>, (mut leader, mut standby): Pair) -> Pair {
    let mut gaps = Vec::new();
    for round in 0..KILLS {
        load.wait_for_binds(30);
        let since = now_us();
        leader.process.kill().unwrap();
        gaps.push(wait_for_successor(load, &mut standby, since));
        leader = std::mem::replace(&mut standby, ready(load.plane, &format!("berth-killed-{round}")));
    }
    check("replicas: SIGKILL, and its pod does not come back", &gaps, TAKEN_OVER);
    (leader, standby)
}

/// It thinks for a moment that it leads: its gate shut while it stood still, with hundreds of pods yet to be bound.
fn stopped_and_continued(load: &Load<'_>, (mut leader, mut standby): Pair) -> Operator {
    let (_, waiting) = load.begin_backlog(BACKLOG);
    let since = now_us();
    let mut stopped = Stopped::stop(load.plane, &leader, &load.plane.server);
    stopped.wait_for_successor(load.plane, &leader);
    let gap = wait_for_successor(load, &mut standby, since);
    let continued = Instant::now();
    send_signal(&leader, "CONT");
    let status = leader.process.wait(SOON).unwrap();
    let ended = continued.elapsed().as_millis();
    assert_eq!(status.code(), Some(1), "{}", leader.process.log_tail(20));
    assert!(leader.process.log_tail(20).contains("leadership lost"), "{}", leader.process.log_tail(20));
    check("replicas: SIGSTOP", &[gap], TAKEN_OVER);
    load.wait_for_binds(100);
    let Late { writes, most } = stopped.late_writes(load.audit).expect("it had nothing under way when it was stopped");
    println!(
        "replicas: SIGCONT: ended {ended} ms later; {waiting} pods waited; {writes} writes once another led (limit {most})"
    );
    standby
}
