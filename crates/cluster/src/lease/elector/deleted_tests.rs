//! A Lease that somebody deletes, or takes the holder out of.

use super::tests::{Kept, lease_server, options, reaches, rig, timing};
use super::*;
use crate::scripted::Scripted;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Longer than what a process writes that gives the Lease back.
fn longer() -> Timing {
    Timing { duration: Duration::from_secs(2), renew_deadline: Duration::from_millis(1_900), ..timing() }
}

fn elector(server: &Scripted, name: &str, gate: &Gate) -> (Elector, watch::Receiver<LeaseState>) {
    let (sender, state) = watch::channel(LeaseState::Starting { fault: None });
    let elector = Elector::new(server.client(), options(name, longer()), gate.clone(), sender, Handover::default());
    (elector, state)
}

fn start_longer(server: &Scripted, name: &str) -> LeaseHandle {
    elect(server.config(), options(name, longer()), Gate::new())
}

/// Nobody renews it, and somebody deletes it.
fn delete(kept: &Arc<Mutex<Kept>>) {
    kept.lock().unwrap().lease = None;
}

#[tokio::test]
async fn who_finds_no_lease_leads_at_once_only_if_there_never_was_one() {
    let (server, kept) = rig().await;
    let first = start_longer(&server, "berth-0");
    reaches(&first, "leading", |s| *s == LeaseState::Leading).await;
    let made = server.requests().into_iter().filter(|asked| asked.method == "POST");
    let made: Vec<_> = made
        .map(|asked| [&asked.body["metadata"]["name"], &asked.body["spec"]["holderIdentity"]].map(Value::clone))
        .collect();
    assert_eq!(made.len(), 2, "{made:?}");
    assert_eq!(made[0], [json!(MARK_NAME), Value::Null], "whoever starts from now on finds the mark");
    assert_eq!((&made[1][0], made[1][1].is_string()), (&json!(LEASE_NAME), true));
    drop(first);

    // It was deleted before this process looked: the one that held it may go on.
    let (server, began) = (Scripted::start(lease_server(&kept)).await, Instant::now());
    delete(&kept);
    let later = start_longer(&server, "berth-1");
    reaches(&later, "it waits", |s| *s == LeaseState::Deleted).await;
    reaches(&later, "leading", |s| *s == LeaseState::Leading).await;
    assert!(began.elapsed() >= longer().duration, "{:?}", began.elapsed());
}

/// Whoever makes the mark takes himself for the first.
#[tokio::test]
async fn nobody_leads_before_it_knows_of_the_mark_unless_it_may_not_be_made() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    kept.lock().unwrap().held_by("");
    for (name, code) in [("berth-0", 500), ("berth-1", 404), ("berth-2", 409)] {
        kept.lock().unwrap().unmarkable = Some(code);
        let (mut elector, state) = elector(&server, name, &gate);
        assert!(elector.turn().await.is_some());
        assert!(!gate.leads() && matches!(*state.borrow(), LeaseState::Starting { fault: Some(_) }), "{code}");
        kept.lock().unwrap().unmarkable = None;
        assert!(elector.turn().await.is_some());
        assert!(kept.lock().unwrap().marked && *state.borrow() == LeaseState::Leading);
        gate.shut();
        *kept.lock().unwrap() = Kept::default();
        kept.lock().unwrap().held_by("");
    }
    kept.lock().unwrap().unmarkable = Some(403);
    let (mut elector, state) = elector(&server, "berth-3", &gate);
    assert!(elector.turn().await.is_some());
    assert_eq!(*state.borrow(), LeaseState::Leading);
    kept.lock().unwrap().unmarkable = None;
    assert!(elector.turn().await.is_some());
    assert!(kept.lock().unwrap().marked, "as soon as it may be made");
}

/// Another may have led before it was made.
#[tokio::test]
async fn the_first_lease_of_all_counts_as_anothers_if_its_answer_was_lost() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    let (mut elector, state) = elector(&server, "berth-0", &gate);
    kept.lock().unwrap().loses_answer = true;
    assert!(elector.turn().await.is_some());
    assert!(kept.lock().unwrap().spec("holderIdentity").is_string());
    assert_eq!(elector.turn().await, Some(longer().retry));
    assert!(!gate.leads() && matches!(*state.borrow(), LeaseState::Standby { .. }));
}

/// Another that waited made it a moment before.
#[tokio::test]
async fn who_is_too_late_to_make_one_that_nobody_holds_goes_by_what_is_there() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    kept.lock().unwrap().held_by("other");
    let (mut elector, state) = elector(&server, "berth-0", &gate);
    assert!(elector.turn().await.is_some());
    let gone = Observed::first(None, Instant::now());
    elector.create_unheld(&gone).await.unwrap();
    let there = elector.seen.and_then(|seen| seen.record);
    assert_eq!(there.map(|record| record.holder), Some(Holder::Other("other".into())));
    assert_eq!(*state.borrow(), LeaseState::Deleted);
}

#[tokio::test]
async fn a_standby_does_not_take_a_lease_that_was_deleted_while_its_holder_may_go_on() {
    let (server, kept) = rig().await;
    kept.lock().unwrap().held_by("other");
    let handle = start_longer(&server, "berth-0");
    reaches(&handle, "waiting", |s| matches!(s, LeaseState::Waiting { .. })).await;
    delete(&kept);
    reaches(&handle, "it waits on", |s| *s == LeaseState::Deleted).await;
    // Its holder makes it again.
    kept.lock().unwrap().held_by("other");
    reaches(&handle, "waiting again", |s| matches!(s, LeaseState::Waiting { .. })).await;
    let began = Instant::now();
    delete(&kept);
    reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
    assert!(began.elapsed() >= longer().duration, "{:?}", began.elapsed());
}

/// Two gates were once open where it had been made and deleted again between two looks of one who waited.
#[tokio::test]
async fn a_lease_that_was_deleted_is_made_with_nobody_in_it_and_only_who_leads_takes_it_at_once() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    gate.admit();
    let ((mut leader, leads), (mut other, waits)) =
        (elector(&server, "berth-0", &gate), elector(&server, "berth-1", &Gate::new()));
    assert_eq!(leader.turn().await, Some(longer().retry));
    kept.lock().unwrap().lasts(3);
    assert_eq!(other.turn().await, Some(longer().retry), "it makes sure of the mark");
    delete(&kept);
    assert!(other.turn().await.is_some());
    assert_eq!(kept.lock().unwrap().lease, None, "who leads has time to make it again");
    while kept.lock().unwrap().lease.is_none() {
        assert!(other.turn().await.is_some());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let made = kept.lock().unwrap().lease.clone().unwrap();
    assert_eq!((&made["spec"]["holderIdentity"], &made["spec"]["leaseDurationSeconds"]), (&Value::Null, &json!(3)));
    assert_eq!(other.turn().await, Some(longer().retry));
    assert_eq!(*waits.borrow(), LeaseState::Deleted);

    assert_eq!(leader.turn().await, Some(Duration::ZERO), "it looks at once");
    assert!(!gate.is_open() && gate.leads(), "another may have taken it by now");
    assert_eq!(leader.turn().await, Some(longer().retry));
    assert!(gate.is_open() && *leads.borrow() == LeaseState::Leading);
}

#[tokio::test]
async fn a_leader_whose_lease_is_gone_makes_it_again_and_one_whose_lease_was_taken_stops_without_a_pause() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    gate.admit();
    let (mut elector, state) = elector(&server, "berth-0", &gate);
    assert_eq!(elector.turn().await, Some(longer().retry));
    assert!(gate.is_open());

    kept.lock().unwrap().lease = None;
    assert_eq!(elector.turn().await, Some(Duration::ZERO), "it looks at once");
    assert!(!gate.is_open() && gate.leads(), "another may have made it by now");
    assert_eq!(elector.turn().await, Some(longer().retry));
    assert!(gate.is_open() && *state.borrow() == LeaseState::Leading);

    kept.lock().unwrap().lease = None;
    kept.lock().unwrap().held_by("other");
    assert_eq!(elector.turn().await, Some(Duration::ZERO));
    assert!(!gate.is_open());
    assert_eq!(elector.turn().await, None);
    assert!(matches!(&*state.borrow(), LeaseState::Lost { reason } if reason.contains("other")));
}

#[tokio::test]
async fn a_leader_who_was_taken_out_of_the_lease_takes_it_back_and_nobody_else_takes_it_meanwhile() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    gate.admit();
    let ((mut leader, leads), (mut other, waits)) =
        (elector(&server, "berth-0", &gate), elector(&server, "berth-1", &Gate::new()));
    assert_eq!(leader.turn().await, Some(longer().retry));

    kept.lock().unwrap().held_by("");
    kept.lock().unwrap().lasts(2);
    assert_eq!(other.turn().await, Some(longer().retry));
    assert_eq!(*waits.borrow(), LeaseState::Deleted, "its holder goes on");
    assert_eq!(leader.turn().await, Some(Duration::ZERO), "it looks at once");
    assert!(!gate.is_open() && gate.leads(), "another may have taken it by now");
    assert_eq!(leader.turn().await, Some(longer().retry));
    assert!(gate.is_open() && *leads.borrow() == LeaseState::Leading);
    assert!(kept.lock().unwrap().spec("holderIdentity").as_str().unwrap().starts_with("berth-0_"));
}
