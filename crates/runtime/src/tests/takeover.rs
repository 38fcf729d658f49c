use super::*;
use berth_core::profile::QueueTimes;

/// What a standby has read when it takes over: pods that the leader before it bound, a pod that it nominated, a victim that goes.
#[tokio::test]
async fn a_worker_that_starts_on_a_warm_ledger_goes_on_where_the_last_leader_was() {
    let bench = Bench::new();
    let of =
        |name: &str, cpu| Pod { scheduler_name: "a".into(), ..testing::pod(name, testing::shape_of(cpu, 1 << 20)) };
    bench.engine.apply(|ledger| {
        ledger.apply_pod(of("before", 100));
        ledger.apply_pod(Pod { node_name: Some("n".into()), ..of("before", 100) });
        let victim = Pod { node_name: Some("n".into()), ..of("victim", 1_000) };
        ledger.apply_pod(victim.clone());
        ledger.apply_pod(Pod { deleting: true, ..victim });
        ledger.apply_pod(Pod { nominated_node: Some("n".into()), priority: 10, ..of("preemptor", 1_900) });
        ledger.apply_pod(of("small", 900));
    });
    bench.run("a");
    wait("both tried", || bench.hand.refused.lock().unwrap().len() == 2);
    let foreign = || bench.engine.worker("a").unwrap().snapshot.is_some_and(|snapshot| snapshot.foreign.is_some());
    assert!(!foreign(), "what the last leader bound is no foreign scheduler's");
    assert_eq!(bench.queued(), 0, "the nomination keeps the room that is there already");
    assert!(bench.hand.evicting.lock().unwrap().is_empty(), "its victim goes already");
    bench.engine.apply(|ledger| ledger.delete_pod("victim"));
    assert_eq!(&*bench.send().1.pod.uid, "preemptor");
    bench.engine.stop_all().await;
}

/// The next process serves it, and its nomination says meanwhile where it will go.
#[tokio::test]
async fn a_pod_whose_claims_are_being_bound_stays_nominated_at_the_end_of_the_process() {
    let bench = Bench::new();
    bench.pod_with_a_claim("a");
    bench.run("a");
    let _begun = bench.write();
    bench.engine.stop_all().await;
    assert!(bench.pending("uid-p"));
    let nominated: Vec<Option<Str>> = bench.hand.nominated.lock().unwrap().iter().map(|one| one.node.clone()).collect();
    assert_eq!(nominated, [Some("n".into())]);
}

fn with_backoffs_of(backoff: Duration) -> Arc<CompiledProfile> {
    let queue = QueueTimes { initial_backoff: backoff, max_backoff: backoff, ..QueueTimes::default() };
    Arc::new(CompiledProfile { queue, ..CompiledProfile::default_preset("a") })
}

impl Bench {
    /// Has a replica see a node with room for everybody, and these pods.
    fn sees(&self, pods: &[Pod]) {
        self.engine.apply(|ledger| {
            ledger.apply_node(&testing::node("n", 64_000, 64 << 30, 110));
            for pod in pods {
                ledger.apply_pod(pod.clone());
            }
        });
    }

    fn in_backoff(&self) -> usize {
        self.engine.worker("a").unwrap().snapshot.map_or(0, |snapshot| snapshot.counts.backoff)
    }

    /// Each victim goes, and another scheduler puts a pod in its place. Returns after how many preemptions that is enough, and who is there
    /// then.
    fn taken_each_time(&self) -> (usize, Pod) {
        let mut last = None;
        for preemptions in 0.. {
            let next = || self.hand.evicting.lock().unwrap().pop();
            let refused = || self.hand.refused.lock().unwrap().last().map(|refusal| refusal.text.to_string());
            let is_stopped = || refused().is_some_and(|text| text.contains("preemption: stopped after"));
            wait("a preemption, or the end of them", || !self.hand.evicting.lock().unwrap().is_empty() || is_stopped());
            let Some((worker, request)) = next() else { return (preemptions, last.unwrap()) };
            (self.hand.deliver)(
                worker,
                Input::EvictionEnded { attempt: request.attempt, outcome: EvictionOutcome::Done },
            );
            let waits = whole(&format!("{}-again", request.victims[0].uid));
            let placed = Pod { node_name: Some("n".into()), ..waits.clone() };
            last = Some(placed.clone());
            self.engine.apply(|ledger| {
                ledger.delete_pod(&request.victims[0].uid);
                ledger.apply_pod(waits);
                ledger.apply_pod(placed);
            });
        }
        unreachable!()
    }
}

/// A pod of another scheduler that takes a whole node.
fn whole(name: &str) -> Pod {
    Pod { scheduler_name: "theirs".into(), ..testing::pod(name, testing::shape_of(2_000, 1 << 20)) }
}

#[tokio::test]
async fn backoffs_start_anew_and_pods_are_tried_oldest_first_within_their_priority() {
    let of = |name: &str, priority, created_unix_us| {
        let pod = testing::pod(name, testing::shape_of(100, 1 << 20));
        Pod { scheduler_name: "a".into(), priority, created_unix_us, ..pod }
    };
    let pods = [of("new", 0, 3), of("high-new", 10, 4), of("old", 0, 1), of("high-old", 10, 2)];
    let (last, next) = (Bench::new(), Bench::new());
    last.sees(&pods);
    last.engine.run(with_backoffs_of(Duration::from_hours(1))).unwrap();
    for _ in &pods {
        let sent = last.send();
        last.answer(&sent, BindOutcome::Refused { code: None, message: "no".into() });
    }
    wait("backoffs", || last.in_backoff() == pods.len());
    next.sees(&pods);
    next.engine.run(with_backoffs_of(Duration::from_hours(1))).unwrap();
    let order: Vec<Str> = pods.iter().map(|_| next.send().1.pod.uid.clone()).collect();
    assert_eq!(order, ["high-old", "high-new", "old", "new"].map(Str::from));
    last.engine.stop_all().await;
    next.engine.stop_all().await;
}

#[tokio::test]
async fn a_storm_that_the_last_leader_has_stopped_goes_on_for_two_preemptions() {
    let high = Pod { scheduler_name: "a".into(), priority: 10, ..whole("high") };
    let mut there = Pod { node_name: Some("n".into()), ..whole("low") };
    for leader in 0..2 {
        let bench = Bench::new();
        bench.engine.apply(|ledger| {
            ledger.apply_pod(there.clone());
            ledger.apply_pod(high.clone());
        });
        bench.engine.run(with_backoffs_of(Duration::from_millis(1))).unwrap();
        let (preemptions, left) = bench.taken_each_time();
        assert_eq!(preemptions, 2, "of leader {leader}");
        there = left;
        bench.engine.stop_all().await;
    }
}

#[tokio::test]
async fn a_pod_that_the_last_leader_has_held_for_its_panics_is_tried_again_and_held_again() {
    for leader in 0..2 {
        let bench = Bench::new();
        *bench.hand.panics_for.lock().unwrap() = Some("a-0".into());
        bench.pods("a", 0..3);
        bench.run("a");
        wait("the others' binds", || bench.queued() == 2);
        wait("the hold", || bench.engine.worker("a").unwrap().snapshot.is_some_and(|s| s.counts.held == 1));
        let view = bench.engine.worker("a").unwrap();
        assert_eq!((view.restarts, view.quarantined), (2, 1), "leader {leader} has tried it twice");
        bench.engine.stop_all().await;
    }
}
