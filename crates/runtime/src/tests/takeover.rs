use super::*;

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
