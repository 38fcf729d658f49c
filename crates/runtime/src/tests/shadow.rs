use super::*;
use berth_core::shadow::{Outcome, Skip};

fn dry_run(follows: &str) -> Arc<CompiledProfile> {
    let shadow = vec![follows.into()];
    Arc::new(CompiledProfile { mode: Mode::DryRun, shadow, ..CompiledProfile::default_preset("trial") })
}

fn others_pod(name: &str) -> Pod {
    Pod { scheduler_name: "other".into(), ..testing::pod(name, testing::shape_of(100, 1 << 20)) }
}

impl Bench {
    /// Another scheduler binds the pod, and a watch shows it.
    fn bound_by_another(&self, pod: Pod, is_live: bool) {
        let bound = Pod { node_name: Some("n".into()), ..pod };
        self.engine.about_to_bind(&bound, is_live);
        self.engine.apply(|ledger| ledger.apply_pod(bound));
    }

    fn of(&self, outcome: Outcome) -> u64 {
        self.engine.worker("trial").unwrap().shadow.unwrap().totals.of(outcome)
    }
}

#[tokio::test]
async fn a_dry_run_compares_what_others_bind_and_does_nothing_else() {
    let bench = Bench::new();
    bench.engine.run(dry_run("other")).unwrap();
    for i in 0..21 {
        let pod = others_pod(&format!("p-{i}"));
        bench.engine.apply(|ledger| ledger.apply_pod(pod.clone()));
        bench.bound_by_another(pod.clone(), true);
        bench.bound_by_another(pod, true);
    }
    assert_eq!((bench.of(Outcome::Same), bench.of(Outcome::Unschedulable)), (20, 1), "the node has room for 20");
    let page = bench.engine.comparisons("trial", 0, 100).unwrap();
    assert_eq!((page.comparisons.len(), page.totals.compared(), page.more), (21, 21, false));
    assert_eq!(&*page.comparisons[3].1.uid, "p-3");
    bench.pods("trial", 0..2);
    wait("its own pods wait", || {
        let view = bench.engine.worker("trial").unwrap();
        view.snapshot.is_some_and(|snapshot| snapshot.counts.active == 2)
    });
    let hand = &bench.hand;
    assert!(hand.queued.lock().unwrap().is_empty() && hand.refused.lock().unwrap().is_empty());
    assert!(hand.nominated.lock().unwrap().is_empty() && hand.evicting.lock().unwrap().is_empty());
    bench.engine.stop_all().await;
}

#[tokio::test]
async fn what_was_never_seen_waiting_or_is_served_here_is_not_compared() {
    let bench = Bench::new();
    bench.engine.run(dry_run("other")).unwrap();
    bench.bound_by_another(others_pod("from-the-start"), true);
    bench.engine.apply(|ledger| ledger.apply_pod(others_pod("reread")));
    bench.bound_by_another(others_pod("reread"), false);
    let totals = bench.engine.worker("trial").unwrap().shadow.unwrap().totals;
    assert_eq!((totals.compared(), totals.skipped(Skip::Reread), totals.all_skipped()), (0, 1, 1));
    bench.engine.apply(|ledger| ledger.apply_pod(others_pod("served")));
    bench.run("other");
    bench.bound_by_another(others_pod("served"), true);
    assert_eq!(bench.engine.worker("trial").unwrap().shadow.unwrap().totals, totals);
    bench.engine.stop_all().await;
}

#[tokio::test]
async fn what_would_take_more_than_its_part_of_the_time_is_not_compared_but_counted() {
    let bench = Bench::new();
    bench.engine.run(dry_run("other")).unwrap();
    bench.engine.apply(|ledger| ledger.apply_pod(others_pod("p")));
    bench.engine.spend_on_comparisons(Duration::from_hours(1));
    bench.bound_by_another(others_pod("p"), true);
    let totals = bench.engine.worker("trial").unwrap().shadow.unwrap().totals;
    assert_eq!((totals.compared(), totals.skipped(Skip::Behind)), (0, 1));
    bench.engine.stop_all().await;
}

#[tokio::test]
async fn another_spec_counts_from_nothing_and_another_mode_not_at_all() {
    let bench = Bench::new();
    bench.engine.run(dry_run("other")).unwrap();
    bench.engine.apply(|ledger| ledger.apply_pod(others_pod("p")));
    bench.bound_by_another(others_pod("p"), true);
    assert_eq!(bench.of(Outcome::Same), 1);
    bench.engine.run(dry_run("another")).unwrap();
    wait("the other spec", || bench.of(Outcome::Same) == 0);
    bench.run("trial");
    wait("no comparisons", || bench.engine.comparisons("trial", 0, 1).is_none());
    assert!(bench.engine.worker("trial").unwrap().shadow.is_none());
    bench.engine.stop_all().await;
}
