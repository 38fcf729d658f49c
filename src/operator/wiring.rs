//! Where workers' effects go: the bind lane, the writer of refusals, events; and what the watches say into the ledger.

use crate::cluster::bind::{BindLane, BindRequest, Deliver, Held, WorkerId};
use crate::cluster::client::Clients;
use crate::cluster::events::{Event, EventSink};
use crate::cluster::refusal::RefusalWriter;
use crate::cluster::watch::{self, WatchEvent, WatchOptions, WatchStats, Watched};
use crate::core::io::{AttemptId, BindOutcome, Input};
use crate::core::model::{Pod, Str};
use crate::runtime::{Engine, Feed, Outlets, Refusal, Seen, Tracked};
use std::sync::Arc;
use tokio::sync::{Notify, watch as channel};
use tokio_util::sync::CancellationToken;

/// Objects of a whole read that are applied under one lock: enough to make the lock cheap, few enough not to hold it long.
const BATCH: usize = 256;

/// The way out for effects.
pub(super) struct Wiring {
    pub(super) lane: BindLane,
    pub(super) held: channel::Receiver<Held>,
    pub(super) refusals: RefusalWriter,
    pub(super) events: Option<EventSink>,
}

impl Outlets for Wiring {
    fn bind(&self, worker: WorkerId, request: BindRequest) {
        self.refusals.cancel(&request.pod.uid);
        self.lane.submit(worker, request);
    }

    fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        self.lane.revoke(worker)
    }

    fn share(&self, busy: usize) -> usize {
        self.lane.share(busy)
    }

    fn holds(&self, namespace: &str) -> bool {
        self.held.borrow().holds(namespace)
    }

    fn bound(&self, pod: Arc<Pod>, node: Str) {
        tracing::debug!(pod = %pod.key, node = &*node, "pod bound");
        if let Some(events) = &self.events {
            events.send(Event::scheduled(pod, node));
        }
    }

    fn refuse(&self, refusal: Refusal) {
        let Refusal { profile, pod, reason, text, attempted } = refusal;
        tracing::info!(profile = &*profile, pod = %pod.key, reason = reason.as_str(), %text, "pod not placed");
        if let Some(events) = self.events.as_ref().filter(|_| attempted) {
            events.send(Event::failed(pod.clone(), text.clone()));
        }
        self.refusals.write(pod, reason, text);
    }
}

/// Wraps the way in for outcomes so that a bind refused for want of a permission is noticed.
pub(super) fn watch_for_denials(deliver: Deliver, evidence: Arc<Notify>) -> Deliver {
    Arc::new(move |worker, input| {
        if let Input::BindEnded { outcome: BindOutcome::Refused { message }, .. } = &input
            && message.contains("cannot create resource")
        {
            evidence.notify_one();
        }
        deliver(worker, input);
    })
}

/// A watch that feeds the ledger.
pub(super) struct Fed {
    /// What it has done so far.
    pub(super) stats: Arc<WatchStats>,
    /// Whether a consistent whole read was completed.
    pub(super) synced: channel::Receiver<bool>,
}

/// Starts a watch that feeds the ledger until `cancel`.
pub(super) fn feed<W>(clients: &Clients, engine: &Engine, cancel: &CancellationToken) -> Fed
where
    W: Watched,
    W::Object: Tracked,
{
    let stats = Arc::new(WatchStats::default());
    let (sender, synced) = channel::channel(false);
    let mut feed = Feed::<W::Object>::new(engine.clone());
    let mut batch = Vec::new();
    let sink = move |event: WatchEvent<W::Object>| {
        let hold = matches!(event, WatchEvent::Item(_));
        let consistent = !matches!(event, WatchEvent::Synced { consistent: false });
        batch.push(seen(event));
        if (!hold || batch.len() >= BATCH) && feed.apply(batch.drain(..)) && consistent {
            sender.send_replace(true);
        }
    };
    let run = watch::run::<W>(clients.watch.clone(), WatchOptions::default(), stats.clone(), cancel.clone(), sink);
    tokio::spawn(run);
    Fed { stats, synced }
}

fn seen<T: Tracked>(event: WatchEvent<T>) -> Seen<T> {
    match event {
        WatchEvent::Begin => Seen::Begin,
        WatchEvent::Item(object) | WatchEvent::Apply(object) => Seen::Object(object),
        WatchEvent::Synced { .. } => Seen::Synced,
        WatchEvent::Delete { name, uid, .. } => Seen::Gone(T::identity_of(&name, &uid)),
        WatchEvent::Bad(bad) => Seen::Unreadable(T::identity_of(&bad.name, &bad.uid)),
    }
}
