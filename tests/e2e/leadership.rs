//! One operator works at a time: one of another installation waits and says so, a successor goes on, and who loses the Lease ends.
//! Replicas of one installation: `replicas`.

use std::time::{Duration, Instant};

use berth_lab::{ControlPlane, NodeSpec, Operator, Patch, process};
use serde_json::{Value, json};

use crate::cluster::{HOME, LEASE, namespace, own_plane, serving, start, terminate};
use crate::objects::{
    PROFILES, condition, pod, pod_path, profile, wait_bound, wait_event, wait_event_that, wait_reason,
};
use crate::{LATER, SOON};

/// How long others wait for a silent holder.
const LEASE_DURATION: Duration = Duration::from_secs(15);

fn holder(plane: &ControlPlane) -> String {
    let lease: Value = plane.api.get(LEASE).unwrap();
    let identity = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
    // What follows the name is the pod's and the process' own.
    identity.split_once('_').map_or(identity.clone(), |(name, _)| name.to_owned())
}

fn transitions(plane: &ControlPlane) -> i64 {
    plane.api.get(LEASE).unwrap()["spec"]["leaseTransitions"].as_i64().unwrap_or(0)
}

fn send_pod(plane: &ControlPlane, name: &str) {
    plane.api.post(&pod_path("led", ""), &pod("led", name, "led", "100m")).unwrap();
}

/// Waits until `/readyz` answers 503 with this in it.
pub(crate) fn wait_unready(plane: &ControlPlane, operator: &Operator, text: &str) -> String {
    let mut last = String::new();
    let found = plane.wait_for(&format!("/readyz to say {text:?}"), LATER, || {
        let Ok((status, page)) = operator.page("/readyz") else { return Ok(None) };
        last.clone_from(&page);
        Ok((status == 503 && page.contains(text)).then_some(page))
    });
    found.unwrap_or_else(|error| panic!("{error}; it says {last}\n{}", operator.process.log_tail(20)))
}

fn metric<'a>(page: &'a str, series: &str) -> Option<&'a str> {
    page.lines().find(|line| line.starts_with(series)).and_then(|line| line.rsplit(' ').next())
}

#[test]
fn one_operator_works_at_a_time() {
    let plane = own_plane(Vec::new());
    namespace(&plane, "led");
    plane.create_nodes(2, |i| NodeSpec::new(&format!("n{i}"), "zone-a", "8", "32Gi")).unwrap();
    let first = serving(&plane, "berth-a", &[]);
    plane.api.post(PROFILES, &profile("led", &json!({}))).unwrap();
    wait_reason(&plane, "led", "Ready", "Serving");
    assert_eq!(holder(&plane), "berth-a");

    let second = start(&plane, "berth-b", &["--installation=elsewhere/berth"]);
    the_second_waits_and_says_so(&plane, &second);
    let first = a_restarted_container_goes_on_before_the_lease_is_over(&plane, first);
    who_finds_the_lease_held_by_another_ends(&plane, first);
    let second = the_waiting_one_takes_over_from_a_silent_holder(&plane, second);
    who_leads_is_told_on_the_lease(&plane, &["berth-a_", "berth-b_"], "became leader");
    a_deleted_lease_is_made_again(&plane, &second);
    sigterm_ends_within_ten_seconds_and_gives_the_lease_back(&plane, second);
}

fn the_second_waits_and_says_so(plane: &ControlPlane, second: &Operator) {
    wait_unready(plane, second, "is held by berth-a");
    let page = wait_unready(plane, second, "AnotherInstallation");
    assert!(page.contains("berth-a") && page.contains("kube-system/berth.scheduling.berth.dev"), "{page}");
    assert_eq!(second.page("/livez").unwrap().0, 200);
    let (_, metrics) = second.page("/metrics").unwrap();
    let another = metric(&metrics, "berth_another_installation{holder=\"berth-a_");
    assert!(another.is_some_and(|value| value.starts_with('1')), "{metrics}");
    assert!(metric(&metrics, "berth_leader").is_some_and(|value| value.starts_with('0')), "{metrics}");
    let event = wait_event(plane, HOME, "berth-b", "AnotherInstallation");
    assert_eq!((&event["type"], &event["regarding"]["kind"]), (&json!("Warning"), &json!("Pod")));
    assert!(event["note"].as_str().unwrap().contains("berth-a"), "{event:#}");
    assert!(second.process.log_tail(50).contains("another installation"), "{}", second.process.log_tail(50));
    // Never in a profile's status, and the first one works on.
    let status = plane.api.get(&format!("{PROFILES}/led")).unwrap()["status"].clone();
    assert!(!status.to_string().contains("berth-b"), "{status:#}");
    assert!(status["worker"]["holder"].as_str().unwrap().starts_with("berth-a_"), "{status:#}");
    send_pod(plane, "beside-a-second");
    wait_bound(plane, "led", "beside-a-second");
}

/// The container is restarted in its pod: nobody else may take the Lease meanwhile, and it waits only for what the
/// killed one may have sent.
fn a_restarted_container_goes_on_before_the_lease_is_over(plane: &ControlPlane, mut first: Operator) -> Operator {
    let before = transitions(plane);
    first.process.kill().unwrap();
    send_pod(plane, "while-nobody-leads");
    let began = Instant::now();
    let successor = serving(plane, "berth-a", &[]);
    let took = began.elapsed();
    wait_bound(plane, "led", "while-nobody-leads");
    assert_eq!((holder(plane), transitions(plane)), ("berth-a".to_owned(), before + 1));
    println!("leadership: a restarted container is ready after {} ms", took.as_millis());
    assert!(took < LEASE_DURATION, "it waited for its own lease: {took:?}");
    successor
}

fn who_finds_the_lease_held_by_another_ends(plane: &ControlPlane, mut first: Operator) {
    let stolen = json!({"spec": {"holderIdentity": "a-thief", "leaseTransitions": 7}});
    plane.api.patch(LEASE, Patch::Merge, &stolen).unwrap();
    let status = first.process.wait(SOON).unwrap();
    assert_eq!(status.code(), Some(1), "{}", first.process.log_tail(20));
    let log = first.process.log_tail(20);
    assert!(log.contains("leadership lost") && log.contains("a-thief"), "{log}");
    assert_eq!(holder(plane), "a-thief", "a lease that is lost is not given back");
}

fn the_waiting_one_takes_over_from_a_silent_holder(plane: &ControlPlane, mut second: Operator) -> Operator {
    send_pod(plane, "orphan");
    plane.wait_until_serving(&mut second).unwrap();
    assert_eq!(holder(plane), "berth-b");
    wait_bound(plane, "led", "orphan");
    wait_reason(plane, "led", "Ready", "Serving");
    let (_, metrics) = second.page("/metrics").unwrap();
    assert_eq!(metric(&metrics, "berth_another_installation{"), None);
    assert!(metric(&metrics, "berth_leader").is_some_and(|value| value.starts_with('1')));
    second
}

fn a_deleted_lease_is_made_again(plane: &ControlPlane, second: &Operator) {
    plane.api.delete(LEASE, None).unwrap();
    plane
        .wait_for("the lease to be there again", SOON, || {
            let answer = plane.api.request("GET", LEASE, None)?;
            let holder = answer.body["spec"]["holderIdentity"].as_str().unwrap_or_default();
            Ok(holder.starts_with("berth-b_").then_some(()))
        })
        .unwrap();
    assert!(process::is_alive(second.process.pid()));
    let mark = plane.api.get(&format!("{LEASE}-mark")).unwrap();
    assert_eq!(
        mark["spec"]["holderIdentity"],
        Value::Null,
        "whoever starts while there is no lease sees that there was one"
    );
    send_pod(plane, "after-a-deleted-lease");
    wait_bound(plane, "led", "after-a-deleted-lease");
}

/// As client-go tells it, so that `kubectl describe lease` shows it.
fn who_leads_is_told_on_the_lease(plane: &ControlPlane, identities: &[&str], what: &str) {
    for identity in identities {
        let event = wait_event_that(plane, "kube-system", "LeaderElection", |event| {
            event["note"].as_str().is_some_and(|note| note.starts_with(identity) && note.ends_with(what))
        });
        assert_eq!((&event["type"], &event["regarding"]["kind"]), (&json!("Normal"), &json!("Lease")));
        assert!(event["regarding"]["uid"].as_str().is_some_and(|uid| !uid.is_empty()), "{event:#}");
    }
}

fn sigterm_ends_within_ten_seconds_and_gives_the_lease_back(plane: &ControlPlane, mut second: Operator) {
    // Something to do at the moment of the signal.
    plane.create_objects(&pod_path("led", ""), 100, 16, |i| pod("led", &format!("last-{i}"), "led", "10m")).unwrap();
    let began = Instant::now();
    terminate(&second);
    let status = second.process.wait(SOON).unwrap();
    let took = began.elapsed();
    println!("leadership: SIGTERM to end {} ms", took.as_millis());
    assert_eq!(status.code(), Some(0), "{}", second.process.log_tail(20));
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(holder(plane), "", "the lease is given back");
    who_leads_is_told_on_the_lease(plane, &["berth-b_"], "stopped leading");
    let left = plane.api.get(&format!("{PROFILES}/led")).unwrap();
    assert_eq!(condition(&left, "Ready").unwrap().1, "AwaitingLeader");
    // A successor need not wait, whatever its name.
    let began = Instant::now();
    let _third = serving(plane, "berth-c", &[]);
    assert!(began.elapsed() < LEASE_DURATION, "{:?}", began.elapsed());
    for index in 0..100 {
        wait_bound(plane, "led", &format!("last-{index}"));
    }
}
