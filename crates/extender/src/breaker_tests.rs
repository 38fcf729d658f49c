use super::breaker::*;
use berth_core::model::Str;
use proptest::prelude::*;
use std::time::Duration;
use tokio::time::Instant;

const OPEN_FOR: Duration = Duration::from_secs(5);

fn pod(n: u32) -> Str {
    format!("uid-{n}").into()
}

/// A breaker that has opened at `now`, by failures of pods 0 to 4.
fn opened(now: Instant) -> Breaker {
    let mut breaker = Breaker::new(OPEN_FOR);
    for n in 0..FAILURES {
        let pass = breaker.ask(&pod(n), now).unwrap();
        let change = breaker.failed(&pass, now);
        assert_eq!(change, (n + 1 == FAILURES).then_some(Change::Opened));
    }
    assert_eq!(breaker.circuit(), Circuit::Open);
    breaker
}

#[tokio::test]
async fn five_failures_of_one_pod_do_not_open_it() {
    let (mut breaker, now) = (Breaker::new(OPEN_FOR), Instant::now());
    for _ in 0..20 {
        let pass = breaker.ask(&pod(0), now).unwrap();
        assert_eq!(breaker.failed(&pass, now), None);
    }
    assert_eq!((breaker.circuit(), breaker.failures()), (Circuit::Closed, 20));
    let pass = breaker.ask(&pod(1), now).unwrap();
    assert_eq!(breaker.failed(&pass, now), Some(Change::Opened));
}

#[tokio::test]
async fn an_answer_starts_the_count_again() {
    let (mut breaker, now) = (Breaker::new(OPEN_FOR), Instant::now());
    for round in 0..50 {
        let pass = breaker.ask(&pod(round), now).unwrap();
        let change = if round % 5 == 4 { breaker.succeeded(&pass) } else { breaker.failed(&pass, now) };
        assert_eq!(change, None);
    }
}

#[tokio::test]
async fn one_probe_each_time_and_the_first_answer_closes_it() {
    let now = Instant::now();
    let mut breaker = opened(now);
    assert_eq!(breaker.ask(&pod(9), now + OPEN_FOR - Duration::from_millis(1)), None);
    let later = now + OPEN_FOR;
    let probe = breaker.ask(&pod(9), later).unwrap();
    assert_eq!(breaker.circuit(), Circuit::Probing);
    assert_eq!(breaker.ask(&pod(8), later), None, "one at a time");
    assert_eq!(breaker.failed(&probe, later), None);
    assert_eq!(breaker.ask(&pod(8), later + OPEN_FOR / 2), None);
    let probe = breaker.ask(&pod(8), later + OPEN_FOR).unwrap();
    assert_eq!(breaker.succeeded(&probe), Some(Change::Closed));
    assert_eq!((breaker.circuit(), breaker.failures()), (Circuit::Closed, 0));
    assert!(breaker.ask(&pod(8), later + OPEN_FOR).is_some());
}

#[tokio::test]
async fn another_pod_is_preferred_and_a_lone_one_is_taken() {
    let now = Instant::now();
    let mut breaker = opened(now);
    let last = pod(FAILURES - 1);
    let due = now + OPEN_FOR;
    assert!(breaker.would_pass(&last, due), "nobody else is about");
    assert_eq!(breaker.ask(&pod(7), now + Duration::from_secs(1)), None);
    assert_eq!(breaker.ask(&last, due), None, "another was turned away and will come again");
    assert!(breaker.would_pass(&pod(7), due));
    assert!(breaker.would_pass(&last, due + OPEN_FOR / 2), "it did not come");
}

#[tokio::test]
async fn calls_sent_before_the_breaker_opened_do_not_change_it() {
    let (mut breaker, now) = (Breaker::new(OPEN_FOR), Instant::now());
    let early: Vec<Pass> = (0..8).map(|n| breaker.ask(&pod(n), now).unwrap()).collect();
    for pass in &early[..5] {
        breaker.failed(pass, now);
    }
    assert_eq!(breaker.circuit(), Circuit::Open);
    assert_eq!(breaker.succeeded(&early[5]), None);
    assert_eq!(breaker.failed(&early[6], now + OPEN_FOR), None);
    breaker.abandoned(&early[7]);
    assert_eq!(breaker.circuit(), Circuit::Open);
    assert!(breaker.would_pass("x", now + OPEN_FOR), "a late failure does not put the probe off");
}

#[tokio::test]
async fn a_probe_that_hangs_does_not_put_off_the_next_one() {
    let now = Instant::now();
    let mut breaker = opened(now);
    let probe = breaker.ask(&pod(9), now + OPEN_FOR).unwrap();
    let hung = now + 3 * OPEN_FOR;
    assert_eq!(breaker.ask(&pod(8), hung), None, "one at a time");
    breaker.failed(&probe, hung);
    assert!(breaker.ask(&pod(8), hung).is_some(), "one each openFor, from one to the next");
}

#[tokio::test]
async fn after_a_probe_that_was_not_sent_another_may_pass() {
    let now = Instant::now();
    let mut breaker = opened(now);
    let probe = breaker.ask(&pod(9), now + OPEN_FOR).unwrap();
    breaker.abandoned(&probe);
    assert!(breaker.ask(&pod(8), now + OPEN_FOR).is_some());
}

#[derive(Debug, Clone)]
enum Do {
    Ask(u32),
    Fail(prop::sample::Index),
    Succeed(prop::sample::Index),
    Abandon(prop::sample::Index),
    Wait(u64),
}

fn any_step() -> impl Strategy<Value = Do> {
    prop_oneof![
        4 => (0..4_u32).prop_map(Do::Ask),
        4 => any::<prop::sample::Index>().prop_map(Do::Fail),
        1 => any::<prop::sample::Index>().prop_map(Do::Succeed),
        1 => any::<prop::sample::Index>().prop_map(Do::Abandon),
        2 => (0..4_000_u64).prop_map(Do::Wait),
    ]
}

proptest! {
    #[test]
    fn probes_come_one_at_a_time_spaced_and_never_stop(steps in prop::collection::vec(any_step(), 0..200)) {
        let mut now = Instant::now();
        let mut breaker = Breaker::new(OPEN_FOR);
        let mut out: Vec<(Pass, Circuit, Instant)> = Vec::new();
        let (mut row, mut pods): (u32, Vec<Str>) = (0, Vec::new());
        let mut last_probe: Option<Instant> = None;
        for step in steps {
            let before = breaker.circuit();
            match step {
                Do::Wait(ms) => now += Duration::from_millis(ms),
                Do::Ask(n) => {
                    let pass = breaker.ask(&pod(n), now);
                    match before {
                        Circuit::Closed => prop_assert!(pass.is_some()),
                        Circuit::Probing => prop_assert!(pass.is_none()),
                        Circuit::Open => {
                            let due = last_probe.map(|at| at + OPEN_FOR);
                            prop_assert!(pass.is_none() || due.is_none_or(|due| now >= due));
                            prop_assert!(pass.is_some() || due.is_none_or(|due| now < due + OPEN_FOR / 2));
                        }
                    }
                    if let Some(pass) = pass {
                        out.push((pass, before, now));
                        pods.push(pod(n));
                    }
                }
                Do::Fail(at) | Do::Succeed(at) | Do::Abandon(at) if out.is_empty() => {
                    prop_assert!(at.index(1) == 0, "nothing is out");
                }
                Do::Fail(at) => {
                    let at = at.index(out.len());
                    let ((pass, circuit, began), _) = (out.remove(at), pods.remove(at));
                    let counted = breaker.failures();
                    let change = breaker.failed(&pass, now);
                    if breaker.failures() > counted { row += 1; }
                    if change == Some(Change::Opened) {
                        prop_assert!(row >= FAILURES && before == Circuit::Closed);
                    }
                    if change == Some(Change::Opened) || (circuit == Circuit::Open && before == Circuit::Probing) {
                        last_probe = Some(if change.is_some() { now } else { began });
                    }
                }
                Do::Succeed(at) => {
                    let at = at.index(out.len());
                    let ((pass, ..), _) = (out.remove(at), pods.remove(at));
                    let change = breaker.succeeded(&pass);
                    if change == Some(Change::Closed) {
                        prop_assert_eq!(before, Circuit::Probing);
                        prop_assert_eq!(breaker.circuit(), Circuit::Closed);
                    }
                    if breaker.failures() == 0 { row = 0; }
                }
                Do::Abandon(at) => {
                    let at = at.index(out.len());
                    let ((pass, ..), _) = (out.remove(at), pods.remove(at));
                    breaker.abandoned(&pass);
                }
            }
            prop_assert_eq!(row, breaker.failures());
        }
    }
}
