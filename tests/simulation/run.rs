//! One seed, from its beginning to its end.

use super::operators::Home;
use super::plan::{BUSY, DRAINED, HEALED, Plan};
use super::statuses::STAYS_READY_AFTER;
use super::world::{Act, World};
use super::{actors, ends, facts::By, steady};
use std::time::Duration;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, sleep_until};

/// Between two looks at what every ledger keeps.
const AUDITED_EVERY: Duration = Duration::from_secs(10);

/// What became of a world.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) hash: u64,
    pub(crate) steps: u64,
    pub(crate) broken: Vec<String>,
    pub(crate) trace: Vec<String>,
}

/// Runs a plan in this thread, whose clocks are driven. A thread can do this once.
pub(crate) fn run(plan: Plan, keep_trace: bool) -> Outcome {
    let _driven = berth_replay::begin(plan.seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let local = LocalSet::new();
    let outcome = local.block_on(&runtime, async move {
        berth_replay::start_clock();
        live(plan, keep_trace).await
    });
    // What is left of the operators is not waited for, and nobody looks at it.
    std::mem::forget((local, runtime));
    outcome
}

async fn live(plan: Plan, keep_trace: bool) -> Outcome {
    let (began, replicas) = (Instant::now(), plan.operators);
    let world = World::new(plan, keep_trace);
    world.act(By::Cluster, |inner| {
        inner.set_up(began);
        for replica in 0..replicas {
            let at = began + inner.random.millis(0, 3_000);
            inner.later(at, Act::Begin(replica, Home::NewPod));
        }
    });
    tokio::task::spawn_local(actors::run(world.clone()));
    while began.elapsed() < BUSY && world.lock().rules.broken.is_empty() {
        sleep(AUDITED_EVERY).await;
        world.lock().audit();
    }
    if world.lock().rules.broken.is_empty() {
        world.act(By::Cluster, |inner| {
            inner.rules.statuses.well_from = Some(Instant::now() + STAYS_READY_AFTER);
            inner.mend(Instant::now());
        });
        world.healed.notify_waiters();
        for look in (0..ends::LOOKS).rev() {
            sleep_until(began + BUSY + HEALED - ends::BETWEEN_LOOKS * look).await;
            let (mut inner, now) = (world.lock(), Instant::now());
            inner.look_for_room(now);
            inner.look_for_binds(now);
            inner.look_who_is_kept_waiting(now, now >= began + BUSY + steady::FROM);
        }
        world.lock().audit();
        world.lock().is_well();
    }
    if world.lock().rules.broken.is_empty() {
        for key in world.act(By::Cluster, |inner| inner.drain(Instant::now())) {
            world.act(By::Cluster, |inner| inner.delete_pod(&key, Instant::now()));
        }
        sleep_until(began + BUSY + HEALED + DRAINED).await;
        world.lock().audit();
        world.lock().is_empty();
    }
    let inner = world.lock();
    Outcome {
        hash: inner.trace.hash(),
        steps: inner.trace.count,
        broken: inner.rules.broken.clone(),
        trace: inner.trace.lines().to_vec(),
    }
}
