//! How long nothing is bound when the leader of a large cluster ends.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

use berth_lab::{Operator, for_each, wait_for};
use rustix::process::Signal;

use crate::cluster::namespace;
use crate::holds::{Holds, shown};
use crate::limit::{ALONE, HANDED_OVER, TAKEN_OVER, check};
use crate::load::LOADED;
use crate::objects::{pod, pod_path};
use crate::stage::{End, Stage};
use crate::{LATER, Scale};

/// Their namespace.
const PLACED: &str = "placed";

/// How often the leader ends in each way.
const TIMES: usize = 3;

/// What audits may take of a core.
const MOST_OF_A_CORE: f64 = 0.01;

/// How long a page for debugging may hold the lock of nodes and pods, in microseconds.
const LONGEST_HOLD: u64 = 1_000;

/// Reads of pages for debugging, all pages together.
const PAGES_READ: usize = 500;

/// Times that the state is written to the log.
const DUMPS: usize = 20;

#[test]
fn a_leader_of_a_large_cluster_hands_over() {
    // How many pods are on the nodes.
    let Ok(pods) = env::var(ALONE) else { return };
    let pods: usize = pods.parse().expect(ALONE);
    let mut stage = Stage::start(Scale::LARGE, 1);
    fill(&stage, pods);
    stage.wait_until_known(pods);
    println!("hand-over: {pods} pods on {} nodes, resident {:?} MiB", stage.scale.nodes, stage.resident_mib());
    let share = audit_share(&mut stage);
    println!("audit: {:.2} % of a core, five minutes from one to the next", share * 100.0);
    assert!(share <= MOST_OF_A_CORE, "{share}");
    let held = held_by_pages(&mut stage);
    println!("pages for debugging: the longest hold of the lock in {PAGES_READ} reads: {}", shown(held));
    assert!(held <= Some(LONGEST_HOLD), "{held:?}");
    let held = held_by_dumps(&mut stage);
    println!("SIGUSR2: the longest hold of the lock in {DUMPS} dumps: {}", shown(held));
    assert!(held <= Some(LONGEST_HOLD), "{held:?}");
    stage.load.flow(true);
    let measured = [
        ("hand-over: SIGTERM", End::Told, HANDED_OVER),
        ("hand-over: SIGKILL, and its container comes back", End::Killed, TAKEN_OVER),
        ("hand-over: SIGKILL, and its pod does not come back", End::Lost, TAKEN_OVER),
    ]
    .map(|(how, end, limit)| (how, (0..TIMES).map(|_| stage.gap_after(end)).collect::<Vec<_>>(), limit));
    stage.load.flow(false);
    let verdict = stage.judge_when_none_waits(LATER);
    assert!(verdict.is_clean(), "{verdict:?}");
    for (how, gaps, limit) in measured {
        check(how, &gaps, limit);
    }
}

/// Makes pods that are on their nodes already.
fn fill(stage: &Stage, pods: usize) {
    namespace(&stage.plane, PLACED);
    let placed = |i: usize| {
        let mut pod = pod(PLACED, &format!("p{i}"), "nobody", "100m");
        pod["spec"]["nodeName"] = format!("n{}", i % stage.scale.nodes).into();
        stage.plane.api.post(&pod_path(PLACED, ""), &pod).map(drop)
    };
    for_each(pods, 16, placed).unwrap();
}

/// What an operator's page of metrics says at one moment. All in seconds; `at` and `ended` are of Unix time.
struct Reading {
    at: f64,
    /// Processor time since the process was started.
    cpu: f64,
    /// When the last audit ended, and how long it took.
    ended: f64,
    took: f64,
}

impl Reading {
    fn of(operator: &Operator) -> Self {
        let page = operator.page("/metrics").unwrap().1;
        let value = |name: &str| page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        Self {
            at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64(),
            cpu: value("process_cpu_seconds_total ").unwrap(),
            ended: value("berth_audit_last_run_timestamp_seconds ").unwrap_or(0.0),
            took: value("berth_audit_last_run_duration_seconds ").unwrap_or(0.0),
        }
    }
}

/// The share of a core that audits take, from the next one on: processor time while it lasts, less what the operator takes anyway,
/// of the time from one to the next.
fn audit_share(stage: &mut Stage) -> f64 {
    const INTERVAL: f64 = 300.0;
    let operator = stage.leader();
    let mut seen = vec![Reading::of(operator)];
    let last = loop {
        let next = Reading::of(operator);
        if next.ended > seen[0].ended {
            break next;
        }
        assert!(next.at - seen[0].at < 2.0 * INTERVAL, "no audit came to an end");
        seen.push(next);
    };
    let (first, began) = (&seen[0], last.ended - last.took);
    let before = seen.iter().rev().find(|reading| reading.at < began).unwrap_or(first);
    let otherwise = (before.cpu - first.cpu) / (before.at - first.at).max(1.0);
    println!("audit: it lasted {:.1} s; the operator takes {otherwise:.4} of a core otherwise", last.took);
    ((last.cpu - before.cpu) - otherwise * (last.at - before.at)) / INTERVAL
}

/// What held the lock of nodes and pods for longest while pages for debugging were read: the upper end of its bucket in microseconds. The
/// operator has nothing else to do meanwhile but its pages of metrics.
fn held_by_pages(stage: &mut Stage) -> Option<u64> {
    let operator = stage.leader();
    let holds = || Holds::read(&operator.page("/metrics").unwrap().1);
    let before = holds();
    let of_profile = format!("/debug/queue?profile={LOADED}&limit=500");
    let pages = ["/statusz", "/flagz", "/configz", "/debug/queue", &of_profile, "/debug/shadow", "/debug/audit"];
    for path in pages.iter().cycle().take(PAGES_READ) {
        let (status, text) = operator.debug_page(path).unwrap();
        assert_eq!(status, 200, "{path}: {text}");
    }
    holds().longest_since(&before)
}

/// The same, while the state is written to the log at SIGUSR2.
fn held_by_dumps(stage: &mut Stage) -> Option<u64> {
    let operator = stage.leader();
    let holds = || Holds::read(&operator.page("/metrics").unwrap().1);
    let written = || std::fs::read_to_string(operator.process.log()).unwrap().matches("dump of the state: end").count();
    let (before, first) = (holds(), written());
    for dumps in 1..=DUMPS {
        operator.process.signal(Signal::USR2).unwrap();
        wait_for("a dump", LATER, || Ok((written() >= first + dumps).then_some(()))).unwrap();
    }
    holds().longest_since(&before)
}
