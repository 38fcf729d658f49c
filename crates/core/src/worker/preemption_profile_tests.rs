//! What the profile says of preemption, and what becomes of evictions that it asked for.

use super::preemption_tests::Bench;
use super::*;
use crate::io::EvictionOutcome;
use crate::testing::{node, pod, shape_of};

#[test]
fn nothing_is_evicted_where_the_profile_or_the_pod_forbids_it() {
    let mut bench = Bench::with(|profile| profile.preemption.enabled = false);
    bench.fill(&["a"]);
    bench.waits("high", 2, 10);
    bench.settle(0);
    assert_eq!(bench.last_report().0, "0/1 nodes are available: 1 Insufficient cpu.");
    let mut polite = Bench::full(&["a"]);
    let pod = Pod { preempts: false, priority: 10, ..pod("polite", shape_of(1000, 1 << 20)) };
    polite.seen(|ledger| ledger.apply_pod(pod));
    polite.settle(0);
    assert!(polite.last_report().0.ends_with("preemption: not eligible due to preemptionPolicy=Never."));
    assert!(bench.asked.is_empty() && polite.asked.is_empty());
}

/// The evictor may repeat its requests for minutes: while a webhook hangs, or the API server is away.
#[test]
fn a_changed_profile_takes_back_what_is_not_evicted_yet() {
    for preempts in [false, true] {
        let mut bench = Bench::full(&["a"]);
        bench.waits("high", 2, 10);
        bench.settle(0);
        let asked = bench.asked.remove(0);
        let awaited = |bench: &Bench| bench.ledger.borrow().is_eviction_awaited(&asked.victims[0]);
        assert!(awaited(&bench));
        let mut changed = CompiledProfile::default_preset("test");
        changed.preemption.enabled = preempts;
        bench.workers[0].swap(Time::ZERO, changed.into());
        bench.settle(0);
        assert_eq!(awaited(&bench), preempts, "it is decided anew, on the same victims");
        assert!(bench.asked.is_empty(), "nobody is evicted twice");
        let left: Vec<Str> = asked.victims.iter().map(|uid| uid.as_str().into()).collect();
        bench.seen(|ledger| ledger.release(&left));
        let outcome = EvictionOutcome::Failed { code: None, message: "no pod waits".into(), left };
        bench.tell(0, Input::EvictionEnded { attempt: asked.attempt, outcome });
        bench.now += 20_000;
        bench.settle(0);
        let anew: Vec<&Vec<String>> = bench.asked.iter().map(|asked| &asked.victims).collect();
        assert_eq!(anew, if preempts { vec![&asked.victims] } else { vec![] }, "{:?}", bench.last_report());
    }
}

/// The second pod counts on the victim that was asked for by the first, and so does, after an edit, whoever counts on it anew.
#[test]
fn a_changed_profile_takes_back_what_pods_count_on_without_having_asked() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_node(&node("a", 2_000, 1 << 30, 10));
        ledger.apply_pod(Pod { node_name: Some("a".into()), ..pod("large", shape_of(2_000, 1 << 20)) });
    });
    for (name, priority) in [("first", 10), ("second", 20)] {
        bench.waits(name, 1, priority);
        bench.settle(0);
    }
    let awaited = |bench: &Bench| bench.ledger.borrow().is_eviction_awaited("large");
    assert!(awaited(&bench) && bench.ledger.borrow().pending_preemption("second").is_some());
    for preempts in [true, false] {
        let mut changed = CompiledProfile::default_preset("test");
        changed.preemption.enabled = preempts;
        bench.workers[0].swap(Time::ZERO, changed.into());
        bench.now += 20_000;
        bench.settle(0);
        assert_eq!(awaited(&bench), preempts);
    }
    let victims: Vec<&String> = bench.asked.iter().flat_map(|asked| &asked.victims).collect();
    assert_eq!(victims, ["large"], "asked for once");
}

#[test]
fn revoked_evictions_release_their_victims_and_the_pod_decides_anew() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("high", 2, 10);
    bench.settle(0);
    let asked = bench.asked.remove(0);
    let victims: Vec<Str> = asked.victims.iter().map(|uid| uid.as_str().into()).collect();
    bench.seen(|ledger| ledger.release(&victims));
    bench.tell(0, Input::BindRevoked { attempt: asked.attempt });
    bench.settle(0);
    assert_eq!(bench.asked.len(), 1, "{:?}", bench.last_report());
    assert_eq!(bench.asked[0].victims, asked.victims);
}
