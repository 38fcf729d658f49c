//! Containers that are started again in their pods: such a process knows that the one before it is dead, and waits 5 s instead of a lease
//! duration. What the dead one has sent must be over by then (S7).

use super::facts::By;
use super::operators::Home;
use super::plan::{Plan, PodPlan, Step};
use super::random::Random;
use super::world::{Act, Inner, World};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// So long binds are slow when a leader is about to be killed: some are under way then.
const SLOW: Duration = Duration::from_secs(5);

impl Plan {
    /// In some worlds a process that was killed, or has ended by itself, comes back in its own pod, and leaders are killed while their binds
    /// are under way. Not where an extender binds: that may take longer than a container waits (`docs/reliability.md`, Hand-over).
    pub(crate) fn draw_containers(&mut self, random: &mut Random) {
        let binds = self.steps.iter().any(|(_, step)| matches!(step, Step::Extender(one) if one.binds()));
        if !random.in_thousand(300) || binds {
            return;
        }
        self.restarts_in_pod = true;
        for _ in 0..random.between(1, 3) {
            let pods = (0..4).map(|_| self.pod(random)).collect();
            self.at_random(random, |random| Step::Crash { pods, back_after: random.millis(200, 3_000) });
        }
    }
}

impl Inner {
    /// What comes in a replica's place after its process has died.
    pub(crate) fn successor(&self, replica: usize) -> Act {
        Act::Begin(replica, if self.plan.restarts_in_pod { Home::SamePod } else { Home::NewPod })
    }
}

/// The leader is killed at its worst moment.
pub(crate) fn crash(world: &Arc<World>, pods: &[PodPlan], back_after: Duration, now: Instant) {
    world.act(By::Cluster, |inner| {
        inner.network.binds_slow = Some(now + SLOW);
        for plan in pods {
            let name = format!("c{}", inner.store.version());
            inner.make_pod(plan, &name, "crashed", now);
        }
        if let Some(leader) = inner.rules.leader {
            let operator = inner.operators[leader].replica;
            let at = now + inner.random.millis(20, 300);
            inner.later(at, Act::Step(Step::Kill { operator, back_after }));
        }
    });
}
