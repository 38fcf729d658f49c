//! Starts the watches, brings what they send into the ledger, and names those that keep the process from being ready.

use super::context::Context;
use super::tasks::Beat;
use berth_cluster::watch::{
    self, Feed, KindVisitor, ObjectKey, Orders, RawObservers, Tracked, WatchEvent, WatchOptions, WatchStats,
};
use berth_core::ledger::Ledger;
use berth_extender::observers;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

/// Objects of a whole read that are applied, or deleted after it, under one lock: enough to make the lock cheap, few enough not to
/// hold it long.
const BATCH: usize = 256;

/// A watch counts as behind after this silence. It is longer than the time between two bookmarks of an API server, and
/// than the watch's own timeout, so that an ordinary reconnect is not reported.
const STALE_AFTER: Duration = Duration::from_secs(160);

/// How often the watches' event loop shows that it comes round.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// A watch that feeds the ledger.
pub(super) struct Fed {
    pub(super) plural: &'static str,
    /// The path of its collection.
    pub(super) path: &'static str,
    /// Whether the cluster may do without it.
    pub(super) optional: bool,
    /// The field selector of what is watched.
    pub(super) fields: Option<&'static str>,
    /// Whether the ledger keeps the object that has this key.
    pub(super) is_kept: fn(&ObjectKey, &Ledger) -> bool,
    pub(super) stats: Arc<WatchStats>,
    pub(super) orders: Orders,
    /// Whether a whole read was completed.
    pub(super) synced: channel::Receiver<bool>,
}

struct Start<'a> {
    cx: &'a Context,
    observers: RawObservers,
    cancel: &'a CancellationToken,
    event_loop: Handle,
    fed: Vec<Arc<Fed>>,
}

/// Starts all the watches, side by side; each feeds the ledger until `cancel`. One that panics is started again, and reads its
/// kind anew.
pub(super) fn start(cx: &Context, cancel: &CancellationToken) -> Vec<Arc<Fed>> {
    let event_loop = event_loop(cancel, &cx.watches_beat);
    let mut start = Start { cx, observers: observers(&cx.store), cancel, event_loop, fed: Vec::new() };
    watch::visit_kinds(&mut start);
    start.fed
}

/// Where the watches run: on a thread of their own in a process, and in a world where everything else does.
///
/// A connection, which decrypts, and its watch, which decodes, hand over each 16 KiB of a whole read. On threads that share their tasks each
/// would wake the other on another core: 13 % of the samples of a start were that.
fn event_loop(stop: &CancellationToken, beat: &Beat) -> Handle {
    let here = Handle::current();
    if here.runtime_flavor() == RuntimeFlavor::CurrentThread {
        return here;
    }
    event_loop_of_its_own(stop.clone(), beat.clone()).unwrap_or_else(|error| {
        tracing::warn!(%error, "no thread for the watches, which run beside other tasks: raise the process's limit of threads");
        here
    })
}

/// The event loop is made where it runs: one that is dropped within another panics.
fn event_loop_of_its_own(stop: CancellationToken, beat: Beat) -> io::Result<Handle> {
    let (made, taken) = std::sync::mpsc::channel();
    let life = move || {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(made.send(Err(error))),
        };
        if made.send(Ok(runtime.handle().clone())).is_ok() {
            runtime.block_on(async {
                let beats = async {
                    loop {
                        beat.beat();
                        tokio::time::sleep(BEAT_EVERY).await;
                    }
                };
                stop.run_until_cancelled(beats).await;
                beat.end();
            });
        }
        // Do not wait for name lookups.
        runtime.shutdown_background();
    };
    std::thread::Builder::new().name("watches".to_owned()).spawn(life)?;
    taken.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended at once")))
}

impl KindVisitor for Start<'_> {
    fn visit<K: Tracked>(&mut self) {
        let stats = Arc::new(WatchStats::default());
        let (sender, synced) = channel::channel(false);
        let (client, counted, cancel) = (self.cx.clients.watch.clone(), stats.clone(), self.cancel.clone());
        let (engine, observer) = (self.cx.engine.clone(), K::observer(&self.observers));
        let orders = Orders::default();
        let obeyed = orders.clone();
        // A watch that is started again must know what the ledger has from the one before it.
        let feed = Arc::new(Mutex::new(Feed::<K>::default()));
        self.cx.tasks.spawn_on(&self.event_loop, K::PLURAL, self.cancel.clone(), move || {
            let (engine, sender, feed, seen) = (engine.clone(), sender.clone(), feed.clone(), counted.clone());
            let mut batch = Vec::new();
            let sink = move |event: WatchEvent<K::Object>| {
                let may_wait = matches!(event, WatchEvent::Item(_));
                if let WatchEvent::Item(object) | WatchEvent::Apply(object) = &event
                    && let Some(pod) = K::pod(object)
                {
                    engine.about_to_bind(pod, !may_wait);
                }
                let is_whole = matches!(event, WatchEvent::Synced);
                let unseen = feed.lock().unwrap_or_else(PoisonError::into_inner).note(&event);
                batch.push(event);
                if !may_wait || batch.len() >= BATCH {
                    engine.apply(|ledger| batch.drain(..).for_each(|event| Feed::<K>::apply(event, ledger)));
                }
                if is_whole && K::OPTIONAL {
                    // Before anything is deleted: what a claim of a kind that cannot be read holds must not look free.
                    let absence = seen.absence();
                    engine.apply(|ledger| {
                        K::note_absence(absence, ledger);
                        K::end_read(ledger);
                    });
                }
                for part in unseen.chunks(BATCH) {
                    engine.apply(|ledger| Feed::<K>::delete(part, ledger));
                }
                if is_whole {
                    sender.send_replace(true);
                }
            };
            let options = WatchOptions::default();
            let (client, counted, obeyed) = (client.clone(), counted.clone(), obeyed.clone());
            watch::run::<K>(client, options, counted, obeyed, cancel.clone(), sink, observer.clone())
        });
        self.fed.push(Arc::new(Fed {
            plural: K::PLURAL,
            path: K::PATH,
            optional: K::OPTIONAL,
            fields: K::FIELDS,
            is_kept: K::is_kept,
            stats,
            orders,
            synced,
        }));
    }
}

/// The first watch that is behind, and for how long.
pub(super) fn stale(watches: &[Arc<Fed>]) -> Option<String> {
    // A kind that the cluster does without has no watch that could fall behind.
    watches.iter().filter(|fed| fed.stats.absence().is_none()).find_map(|fed| {
        let age = fed.stats.age_of_last_frame()?;
        (age > STALE_AFTER).then(|| format!("the watch of {} has been silent for {} s", fed.plural, age.as_secs()))
    })
}

/// The kinds that were not yet read whole.
pub(super) fn unread(watches: &[Arc<Fed>]) -> Option<String> {
    let missing: Vec<&str> = watches.iter().filter(|fed| !*fed.synced.borrow()).map(|fed| fed.plural).collect();
    (!missing.is_empty()).then(|| format!("{} not read yet", missing.join(", ")))
}
