//! How far a worker has followed what happens.

use super::*;
use berth_core::ledger::Ledger;

#[tokio::test]
async fn a_worker_in_a_long_step_falls_behind_and_catches_up() {
    let bench = Bench::new();
    bench.run("a");
    let behind = || {
        let followed = bench.engine.worker("a").unwrap().followed;
        followed.map(|followed| bench.engine.read(Ledger::version) - followed)
    };
    wait("a worker that has followed everything", || behind() == Some(0));
    let held = bench.hand.panics.lock().unwrap();
    bench.pods("a", 0..1);
    wait("a step that does not end", || bench.assumed("a-0"));
    bench.pods("b", 0..10);
    assert!(behind() > Some(10), "its own pod, that pod's node and ten more: {:?}", behind());
    drop(held);
    wait("a worker that has followed everything", || behind() == Some(0));
    stop(&bench, "a").await;
}
