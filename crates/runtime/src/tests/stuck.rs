use super::*;

#[tokio::test]
async fn a_step_that_does_not_end_is_seen_whatever_lock_is_held() {
    let bench = Bench::new();
    bench.run("a");
    wait("an idle worker", || bench.engine.stuck(Duration::ZERO).is_none());
    let held = bench.hand.panics.lock().unwrap();
    bench.pods("a", 0..1);
    wait("a step that does not end", || bench.assumed("a-0"));
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (holds, held_now) = std::sync::mpsc::channel();
    let engine = bench.engine.clone();
    let writer = std::thread::spawn(move || {
        engine.apply(|_| {
            holds.send(()).unwrap();
            released.recv()
        })
    });
    held_now.recv().unwrap();
    let stuck = bench.engine.stuck(Duration::ZERO).unwrap();
    assert!(stuck.contains("the worker of profile a has been in one step for"), "{stuck}");
    assert_eq!(bench.engine.stuck(Duration::from_hours(1)), None);
    assert!(bench.engine.worker("a").unwrap().busy_since.is_some());
    release.send(()).unwrap();
    writer.join().unwrap().unwrap();
    drop(held);
    wait("an idle worker", || bench.engine.stuck(Duration::ZERO).is_none());
    stop(&bench, "a").await;
}
