//! Orders that interrupt a watch, against a scripted server.

use super::barrier::Order;
use super::kinds::Pods;
use super::tests::{Answer, added, bookmark, list, quick, start, whole};
use std::sync::atomic::Ordering;
use tokio::time::Instant;

/// A kind that does not change gets no event: the call that is under way would bring a bookmark only after a minute.
#[tokio::test]
async fn a_watch_that_is_waited_for_is_opened_for_a_moment_until_it_is_there() {
    let long = Answer::Hang(vec![added("a", 3)]);
    let short = Answer::Send(vec![bookmark(4)]);
    let answers = vec![whole(&["a"], 2), long, short, Answer::Hang(vec![bookmark(9)])];
    let mut bench = start::<Pods>(quick(), answers).await;
    assert_eq!(bench.next(4).await, ["begin", "item a", "synced", "apply a"]);
    berth_testing::until("version 3", || bench.stats.reached() == 3).await;
    bench.orders.reach(9);
    berth_testing::until("version 9", || bench.stats.reached() == 9).await;
    let asked = bench.asked();
    assert!(!asked[1].contains("timeoutSeconds=3&"), "{asked:?}");
    for (call, version) in [(&asked[2], 3), (&asked[3], 4)] {
        assert!(
            call.contains("timeoutSeconds=3&") && call.ends_with(&format!("resourceVersion={version}")),
            "{asked:?}"
        );
    }
    assert_eq!(bench.stats.changed(), 3, "a bookmark is no change");
}

#[tokio::test]
async fn a_kind_is_read_anew_when_it_is_told_to() {
    let watch = Answer::Hang(Vec::new());
    let mut bench = start::<Pods>(quick(), vec![whole(&["a"], 3), watch, whole(&["b"], 7)]).await;
    assert_eq!(bench.next(3).await, ["begin", "item a", "synced"]);
    berth_testing::until("it is watched", || bench.asked().len() == 2).await;
    let first = bench.stats.whole_read_began();
    bench.orders.read();
    assert_eq!(bench.next(3).await, ["begin", "item b", "synced"]);
    berth_testing::until("noted again", || bench.stats.whole_read_began() > first).await;
    assert_eq!((bench.stats.reached(), bench.stats.changed()), (7, 1));
}

/// An order that needs a whole read takes one that began late enough, and no other.
#[tokio::test]
async fn a_whole_read_under_way_is_begun_anew_only_for_who_needs_a_later_one() {
    let needed = Instant::now();
    let mut bench = start::<Pods>(quick(), vec![Answer::Hang(Vec::new()), Answer::Hang(Vec::new())]).await;
    let mut reading = bench.stats.reading();
    assert_eq!(bench.next(1).await, ["begin"]);
    berth_testing::until("it is asked for", || bench.asked().len() == 1).await;
    bench.orders.give(Order::Reach(9));
    bench.orders.give(Order::Read(needed));
    berth_testing::until("the orders are taken", || bench.orders.is_taken()).await;
    assert!(reading.borrow_and_update().is_some_and(|began| began >= needed));

    bench.orders.read();
    assert_eq!(bench.next(1).await, ["begin"], "one that began before the order");
    assert!(reading.has_changed().unwrap());
    berth_testing::until("it is asked for again", || bench.asked().len() == 2).await;
}

#[tokio::test]
async fn who_waits_for_a_version_lets_a_whole_read_come_to_its_end_and_the_watch_is_hurried_then() {
    let whole = Answer::Late(vec![list(&["a"], 3, "")]);
    let mut bench = start::<Pods>(quick(), vec![whole, Answer::Hang(vec![bookmark(9)])]).await;
    assert_eq!(bench.next(1).await, ["begin"]);
    bench.orders.reach(9);
    berth_testing::until("the order is taken", || bench.orders.is_taken()).await;
    bench.script.go.store(true, Ordering::Relaxed);
    assert_eq!(bench.next(2).await, ["item a", "synced"]);
    berth_testing::until("version 9", || bench.stats.reached() == 9).await;
    let asked = bench.asked();
    assert!(asked.len() == 2 && asked[1].contains("timeoutSeconds=3&"), "{asked:?}");
}
