//! The kinds that are watched, in one table; and what their watches say into the ledger.

use berth_cluster::client::Clients;
use berth_cluster::watch::{
    self, CsiDrivers, CsiNodes, CsiStorageCapacities, DeviceClasses, Namespaces, Nodes, PersistentVolumeClaims,
    PersistentVolumes, PodDisruptionBudgets, Pods, ReplicaSets, ReplicationControllers, Services, StatefulSets,
    StorageClasses, Taps, VolumeAttachments, WatchEvent, WatchOptions, WatchStats, Watched,
};
use berth_runtime::{Engine, Feed, Seen, Tracked};
use std::sync::Arc;
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

/// Objects of a whole read that are applied under one lock: enough to make the lock cheap, few enough not to hold it long.
const BATCH: usize = 256;

/// A kind that is watched, as authorisation sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resource {
    /// Its plural and group, as RBAC rules name it.
    pub(super) named: &'static str,
    /// Whether we work without it.
    pub(super) optional: bool,
}

macro_rules! kinds {
    ($($kind:ty),+ $(,)?) => {
        /// Every kind that is watched.
        pub(super) const RESOURCES: &[Resource] =
            &[$(Resource { named: <$kind>::RESOURCE, optional: <$kind>::OPTIONAL }),+];

        /// Starts all the watches, side by side; each feeds the ledger until `cancel`.
        pub(super) fn start(
            clients: &Clients,
            engine: &Engine,
            taps: &Taps,
            cancel: &CancellationToken,
        ) -> Vec<Arc<Fed>> {
            vec![$(Arc::new(feed::<$kind>(clients, engine, taps, cancel))),+]
        }
    };
}

kinds![
    Pods,
    Nodes,
    Namespaces,
    Services,
    ReplicationControllers,
    ReplicaSets,
    StatefulSets,
    PersistentVolumes,
    PersistentVolumeClaims,
    StorageClasses,
    CsiNodes,
    CsiDrivers,
    CsiStorageCapacities,
    VolumeAttachments,
    PodDisruptionBudgets,
    DeviceClasses,
];

/// A watch that feeds the ledger.
pub(super) struct Fed {
    /// The plural of its kind.
    pub(super) plural: &'static str,
    /// What it has done so far.
    pub(super) stats: Arc<WatchStats>,
    /// Whether a consistent whole read was completed.
    pub(super) synced: channel::Receiver<bool>,
}

/// Starts a watch that feeds the ledger until `cancel`.
fn feed<K: Tracked>(clients: &Clients, engine: &Engine, taps: &Taps, cancel: &CancellationToken) -> Fed {
    let stats = Arc::new(WatchStats::default());
    let (sender, synced) = channel::channel(false);
    let mut feed = Feed::<K>::new(engine.clone());
    let mut batch = Vec::new();
    let sink = move |event: WatchEvent<K::Object>| {
        let hold = matches!(event, WatchEvent::Item(_));
        let consistent = !matches!(event, WatchEvent::Synced { consistent: false });
        batch.push(seen::<K>(event));
        if (!hold || batch.len() >= BATCH) && feed.apply(batch.drain(..)) && consistent {
            sender.send_replace(true);
        }
    };
    let (options, tap) = (WatchOptions::default(), K::tap(taps));
    let run = watch::run::<K>(clients.watch.clone(), options, stats.clone(), cancel.clone(), sink, tap);
    tokio::spawn(run);
    Fed { plural: K::PLURAL, stats, synced }
}

fn seen<K: Tracked>(event: WatchEvent<K::Object>) -> Seen<K::Object> {
    match event {
        WatchEvent::Begin => Seen::Begin,
        WatchEvent::Item(object) | WatchEvent::Apply(object) => Seen::Object(object),
        WatchEvent::Synced { .. } => Seen::Synced,
        WatchEvent::Delete { namespace, name, uid } => Seen::Gone(K::identity_of(&namespace, &name, &uid)),
        WatchEvent::Bad(bad) => Seen::Unreadable(K::identity_of(&bad.namespace, &bad.name, &bad.uid)),
    }
}
