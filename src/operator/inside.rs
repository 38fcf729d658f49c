//! The operator as a part of a test: several in one thread, on an event loop that the test drives, with an API server that it plays. What
//! runs is what runs in a process of its own.

use super::context::Context;
use super::options::{OperatorError, Options};
use super::process::{Place, run_in};
use berth_cluster::client::Clients;
use berth_core::ledger::{Ledger, PendingPreemption, PodState};
use berth_core::model::Str;
use berth_core::queue::Counts;
use berth_core::worker::Kept;
use berth_extender::Connector;
use berth_runtime::Engine;
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// What a test looks at inside a running operator.
#[derive(Clone)]
pub struct Inside(Context);

impl std::fmt::Debug for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Inside").finish()
    }
}

impl Inside {
    pub(super) fn new(cx: &Context) -> Self {
        Self(cx.clone())
    }

    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Whether writes that need leadership may be sent at this moment.
    pub fn is_gate_open(&self) -> bool {
        self.0.gate.is_open()
    }

    /// The pods that are to go for another one, by the uid of that one: those that do not terminate yet.
    pub fn preemptions(&self) -> BTreeMap<Str, Vec<Str>> {
        self.0.engine.read(|ledger: &Ledger| {
            let stays = |victim: &&Str| {
                ledger.pod(victim).and_then(PodState::placed).is_some_and(|placed| !placed.is_terminating())
            };
            let of = |(preemptor, preemption): (&Str, &PendingPreemption)| {
                (preemptor.clone(), preemption.victims.iter().filter(stays).cloned().collect::<Vec<Str>>())
            };
            ledger.pending_preemptions().map(of).collect()
        })
    }

    /// How much the operator holds of each thing that comes and goes with pods: all is 0 once there are none.
    pub fn sizes(&self) -> Vec<(&'static str, usize)> {
        let mut sizes = self.0.engine.read(|ledger: &Ledger| {
            vec![
                ("evictions", ledger.evicting().len()),
                ("nominated nodes", ledger.nominations().nodes().count()),
                ("nominations that no pod reports", ledger.nominations().unreported()),
                ("pods ahead of the watch", usize::from(ledger.is_ahead_of_watch())),
                ("pods on nodes that nobody has seen", ledger.set_aside()),
                ("pods on nodes", ledger.node_order().into_iter().map(|node| ledger.pods_on(node).len()).sum()),
            ]
        });
        sizes.push(("pending pods", self.0.engine.pending_pods(|_| true).len()));
        sizes.push(("pods kept for extenders", self.0.store.pending_pods()));
        sizes.extend(self.writers());
        for (profile, view) in self.0.engine.workers() {
            let extenders = self.0.writers.extender_clients.health(&profile);
            sizes.push(("calls of extenders", extenders.iter().map(|one| one.in_flight + one.waiting).sum()));
            sizes.push(("unacknowledged binds", view.unacknowledged));
            if let Some(snapshot) = &view.snapshot {
                let Kept { groups, preemptions, asked_for } = snapshot.kept;
                sizes.extend([
                    ("groups of pods that wait", groups),
                    ("notes on preemptions", preemptions),
                    ("pods and requests that something is asked for", asked_for),
                    ("reasons why pods wait", snapshot.refused_by.len()),
                    ("queued pods", {
                        let Counts { active, backoff, unschedulable, gated, held } = snapshot.counts;
                        active + backoff + unschedulable + gated + held
                    }),
                    ("decided pods", snapshot.in_flight),
                    ("asked extenders", snapshot.parked),
                    ("binds of unknown outcome", snapshot.unknown_binds),
                ]);
            }
        }
        sizes
    }

    /// What the writers have queued, under way, or in doubt.
    fn writers(&self) -> [(&'static str, usize); 7] {
        let writers = &self.0.writers;
        let (queued, sent, unknown) = writers.binder.pending();
        let [before, evictions] = [writers.pre_binder.pending(), writers.evictor.pending()];
        [
            ("binds to be sent", queued),
            ("binds without an answer", sent),
            ("binds to be read back", unknown),
            ("volumes and nominations to be written", before.queued + before.in_flight),
            ("victims to be evicted", evictions.queued + evictions.in_flight),
            ("refusals to be written", writers.refusals.pending()),
            ("events to be written", writers.events.pending()),
        ]
    }
}

/// Runs the operator until `stop`, or until it cannot go on, as tasks of the caller's event loop. `connector` leads to the extenders
/// that the test plays; `show` is given what the test looks at before anything is read.
pub async fn run_inside(
    options: Options,
    clients: Clients,
    connector: Connector,
    stop: CancellationToken,
    show: impl FnOnce(Inside) + Send + 'static,
) -> Result<(), OperatorError> {
    Box::pin(run_in(Place::Test(Box::new(show)), options, clients, connector, stop)).await
}
