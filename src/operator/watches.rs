//! Starts the watches, and brings what they send into the ledger.

use berth_cluster::client::Clients;
use berth_cluster::watch::{self, Feed, KindVisitor, RawObservers, Tracked, WatchEvent, WatchOptions, WatchStats};
use berth_runtime::Engine;
use std::sync::Arc;
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

/// Objects of a whole read that are applied under one lock: enough to make the lock cheap, few enough not to hold it long.
const BATCH: usize = 256;

/// A watch that feeds the ledger.
pub(super) struct Fed {
    pub(super) plural: &'static str,
    pub(super) stats: Arc<WatchStats>,
    /// Whether a whole read was completed.
    pub(super) synced: channel::Receiver<bool>,
}

struct Start<'a> {
    clients: &'a Clients,
    engine: &'a Engine,
    observers: &'a RawObservers,
    cancel: &'a CancellationToken,
    fed: Vec<Arc<Fed>>,
}

/// Starts all the watches, side by side; each feeds the ledger until `cancel`.
pub(super) fn start(
    clients: &Clients,
    engine: &Engine,
    observers: &RawObservers,
    cancel: &CancellationToken,
) -> Vec<Arc<Fed>> {
    let mut start = Start { clients, engine, observers, cancel, fed: Vec::new() };
    watch::visit_kinds(&mut start);
    start.fed
}

impl KindVisitor for Start<'_> {
    fn visit<K: Tracked>(&mut self) {
        let stats = Arc::new(WatchStats::default());
        let (sender, synced) = channel::channel(false);
        let engine = self.engine.clone();
        let mut feed = Feed::<K>::default();
        let mut batch = Vec::new();
        let sink = move |event: WatchEvent<K::Object>| {
            let may_wait = matches!(event, WatchEvent::Item(_));
            let is_whole = matches!(event, WatchEvent::Synced);
            batch.push(event);
            if !may_wait || batch.len() >= BATCH {
                engine.apply(|ledger| batch.drain(..).for_each(|event| feed.apply(event, ledger)));
            }
            if is_whole {
                sender.send_replace(true);
            }
        };
        let client = self.clients.watch.clone();
        let (options, observer) = (WatchOptions::default(), K::observer(self.observers));
        tokio::spawn(watch::run::<K>(client, options, stats.clone(), self.cancel.clone(), sink, observer));
        self.fed.push(Arc::new(Fed { plural: K::PLURAL, stats, synced }));
    }
}
