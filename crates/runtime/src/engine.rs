use super::clock::Clock;
use super::handle::{WorkerHandle, WorkerView};
use super::mailbox::{Order, Question, Workers};
use super::shared::{Running, Shared};
use super::sink::EffectSink;
use super::worker_thread;
use berth_core::io::{Deliver, UnreserveRequest};
use berth_core::ledger::{Ledger, LedgerAccess};
use berth_core::model::{ClaimKey, Pod, PodKey, Str};
use berth_core::profile::CompiledProfile;
use berth_core::shadow::ShadowPage;
use berth_core::worker::PodPage;
use berth_telemetry::HistogramSnapshot;
use futures::executor::block_on;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// The system gives no thread for a worker.
#[derive(Debug, thiserror::Error)]
#[error("profile {profile}: no thread for its worker: {source}; raise the process's limit of threads")]
pub struct EngineError {
    profile: Str,
    source: std::io::Error,
}

/// The ledger and the worker threads. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("workers", &self.0.lock().len()).finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine with an empty ledger and no workers. `connect` is given the way in for outcomes of binds, and makes the
    /// way out for effects.
    pub fn new<O: EffectSink>(connect: impl FnOnce(Deliver) -> O) -> Self {
        Self::with(Workers::OnThreads, connect)
    }

    /// As [`Self::new`], with workers that live there.
    pub fn with<O: EffectSink>(place: Workers, connect: impl FnOnce(Deliver) -> O) -> Self {
        Self(Shared::connected(place, connect))
    }

    /// Workers that begin from now on measure single plugins.
    pub fn measure_plugins(&self) {
        self.0.measures_plugins.store(true, Ordering::Relaxed);
    }

    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    pub fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        self.0.ledger.read(f)
    }

    /// The pending pods that are `wanted`, in an order that means nothing. O(pods), in parts: others get the ledger in between, and what
    /// they change may be missed.
    pub fn pending_pods(&self, wanted: impl Fn(&Pod) -> bool) -> Vec<Arc<Pod>> {
        self.0.ledger.pending_pods(wanted).1
    }

    /// The waiting pods with a nomination, here or in their object, that no profile serves, as their objects report them; by uid.
    pub fn abandoned(&self) -> Vec<Arc<Pod>> {
        self.read(Ledger::abandoned)
    }

    /// Ends the nomination of a pod, here and in its object, unless some profile serves it.
    pub fn let_go(&self, uid: &Str) {
        self.0.let_go(std::slice::from_ref(uid));
        self.0.wake_all();
    }

    /// See [`Ledger::unreported_ends`].
    pub fn unreported_ends(&self) -> Vec<Arc<Pod>> {
        self.read(Ledger::unreported_ends)
    }

    /// See [`Ledger::abandoned_claims`].
    pub fn abandoned_claims(&self) -> Vec<(ClaimKey, Arc<Pod>)> {
        self.read(Ledger::abandoned_claims)
    }

    /// Has the claim deleted that was made for the pod's extended resources.
    pub fn delete_claim(&self, pod: Arc<Pod>, key: ClaimKey) {
        let request = UnreserveRequest { pod, claims: Vec::new(), extended: Some(key) };
        self.0.sink.unreserve_claims(&Str::default(), request);
    }

    /// How long the ledger's lock was held, for reading and for writing.
    pub fn lock_holds(&self) -> [(&'static str, HistogramSnapshot); 2] {
        self.0.ledger.holds()
    }

    /// The longest holds of the last minute or two.
    pub fn longest_holds(&self) -> [(&'static str, Duration); 2] {
        self.0.ledger.longest_holds()
    }

    /// As [`Self::read`], but only if the ledger is free at this moment.
    pub fn try_read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> Option<R> {
        self.0.ledger.try_read(f)
    }

    /// Changes the ledger by what was seen in the cluster. Workers whom that concerns hear of it at once, the others within a second.
    pub fn apply<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        self.0.apply_to_ledger(f)
    }

    /// Wakes every worker: something that it asks about may be different now.
    pub fn wake_all(&self) {
        self.0.wake_all();
    }

    /// Starts a worker for the profile, or gives the profile to the worker that it has already.
    pub fn run(&self, profile: Arc<CompiledProfile>) -> Result<(), EngineError> {
        let right = self.0.serving();
        let mut workers = self.0.lock();
        if let Some(running) = workers.get_mut(&profile.name) {
            // Not the profile that it serves: an order that it has not taken up yet may be for another one.
            if running.ordered != profile {
                running.ordered = profile.clone();
                running.handle.mailbox.order(Order::Swap(profile));
            }
            return Ok(());
        }
        let name = profile.name.clone();
        let seed = self.0.seeds.hash_one(&*name);
        let handle = Arc::new(WorkerHandle::new(profile.clone(), self.0.clock.now(), self.0.place, seed));
        let (end, ended) = oneshot::channel::<()>();
        let life = {
            let (shared, own) = (self.0.clone(), handle.clone());
            move || async move {
                // Dropped when the worker ends, in whatever way.
                let _end = end;
                worker_thread::live(&shared, &own).await;
            }
        };
        self.begin(&name, life)?;
        self.0.watch_over(&handle);
        workers.insert(name, Running { handle, ended, ordered: profile });
        drop(workers);
        self.0.tell_served(&right);
        Ok(())
    }

    fn begin<F>(&self, name: &Str, life: impl FnOnce() -> F + Send + 'static) -> Result<(), EngineError>
    where
        F: Future<Output = ()> + 'static,
    {
        match self.0.place {
            Workers::OnThreads => {
                let thread = std::thread::Builder::new().name(format!("berth-{name}"));
                let started = thread.spawn(move || block_on(life()));
                started.map(drop).map_err(|source| EngineError { profile: name.clone(), source })
            }
            Workers::OnTasks => {
                tokio::task::spawn_local(life());
                Ok(())
            }
        }
    }

    /// Stops the profile's worker: unsent binds go back, sent ones end by evidence, nominations of pods that nobody serves any
    /// more end. Resolves when its thread has ended.
    pub fn stop(&self, profile: &str) -> impl Future<Output = ()> + Send + use<> {
        let right = self.0.serving();
        let running = self.0.lock().remove(profile);
        self.0.tell_served(&right);
        drop(right);
        if let Some(running) = &running {
            running.handle.mailbox.order(Order::Stop);
        }
        async move {
            if let Some(running) = running {
                // An error is the sender's drop: the thread's end.
                let _ended = running.ended.await;
            }
        }
    }

    /// Stops all workers. The profiles are served by the next process: nominations of their pods stay.
    pub async fn stop_all(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        for running in all.values() {
            running.handle.mailbox.order(Order::Stop);
        }
        for running in all.into_values() {
            let _ended = running.ended.await;
        }
    }

    pub fn worker(&self, profile: &str) -> Option<WorkerView> {
        self.0.lock().get(profile).map(|running| running.handle.view())
    }

    /// Every worker by its profile's name.
    pub fn workers(&self) -> BTreeMap<Str, WorkerView> {
        self.0.lock().iter().map(|(name, running)| (name.clone(), running.handle.view())).collect()
    }

    /// The first `most` pods of the profile's worker whose names come after `after`. `None` if it has no worker, or one that is not
    /// running or has many such questions already. Its thread answers between two steps: one that hangs never does.
    pub async fn pods(&self, profile: &str, after: Option<PodKey>, most: usize) -> Option<PodPage> {
        let (answer, answered) = oneshot::channel();
        {
            let workers = self.0.lock();
            workers.get(profile)?.handle.mailbox.ask(Question { after, most, answer });
        }
        answered.await.ok()
    }

    /// Compares what the profiles in mode DryRun would do with `pod`, which its own scheduler has bound. Call it before the ledger gets
    /// to know of the binding; nothing is changed by it. `is_live`: a watch shows the binding when it happens, and no whole read does.
    ///
    /// Returns when all have compared, or have noted that they did not: a comparison takes about as long as an attempt, all of them
    /// together no more than a quarter of the time.
    pub fn about_to_bind(&self, pod: &Pod, is_live: bool) {
        self.0.about_to_bind(pod, is_live);
    }

    /// Takes time that comparisons may have.
    #[cfg(test)]
    pub(super) fn spend_on_comparisons(&self, time: Duration) {
        self.0.comparing.spend(time);
    }

    /// The first `most` comparisons of a profile in mode DryRun with a number above `after`. `None` if it compares nothing here.
    pub fn comparisons(&self, profile: &str, after: u64, most: usize) -> Option<ShadowPage> {
        let handle = self.0.lock().get(profile)?.handle.clone();
        handle.seat.page(after, most)
    }

    /// Why the process cannot go on, once that is so.
    pub fn dead(&self) -> watch::Receiver<Option<String>> {
        self.0.ledger.dead()
    }

    /// What cannot go on if a worker has been in one step for longer than `limit`. Takes no lock that a worker may hold.
    pub fn stuck(&self, limit: Duration) -> Option<String> {
        self.0.stuck(limit)
    }
}
