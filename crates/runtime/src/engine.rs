use super::clock::Clock;
use super::effect_sink::EffectSink;
use super::handle::{WorkerHandle, WorkerState, WorkerView};
use super::mailbox::Order;
use super::shared::{Running, Shared};
use super::worker_thread;
use berth_core::io::Deliver;
use berth_core::ledger::{Ledger, LedgerAccess};
use berth_core::model::Str;
use berth_core::profile::CompiledProfile;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// Why a worker cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The system gives no thread.
    #[error("profile {profile}: no thread for its worker: {source}; raise the process's limit of threads")]
    Thread {
        /// The profile.
        profile: Str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
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
        Self(Shared::connected(connect))
    }

    /// The engine's clock.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// Reads the ledger.
    pub fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        self.0.ledger.read(f)
    }

    /// Changes the ledger by what was seen in the cluster, and tells every worker.
    pub fn apply<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        let result = self.0.ledger.write(f);
        self.0.wake_all();
        result
    }

    /// Wakes every worker: something that it asks about may be different now.
    pub fn wake_all(&self) {
        self.0.wake_all();
    }

    /// Starts a worker for the profile, or gives the profile to the worker that it has already.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn run(&self, profile: Arc<CompiledProfile>) -> Result<(), EngineError> {
        let mut workers = self.0.lock();
        if let Some(running) = workers.get(&profile.name) {
            if running.handle.profile() != profile {
                running.handle.mailbox.order(Order::Swap(profile));
            }
            return Ok(());
        }
        let name = profile.name.clone();
        let handle = Arc::new(WorkerHandle::new(profile, self.0.clock.now()));
        let (end, ended) = oneshot::channel::<()>();
        let (shared, own) = (self.0.clone(), handle.clone());
        let thread = std::thread::Builder::new().name(format!("berth-{name}")).spawn(move || {
            // Dropped when the thread ends, in whatever way.
            let _end = end;
            worker_thread::supervise(&shared, &own);
        });
        thread.map_err(|source| EngineError::Thread { profile: name.clone(), source })?;
        workers.insert(name, Running { handle, ended });
        self.0.tell_served(&workers);
        Ok(())
    }

    /// Stops the profile's worker: unsent binds go back, sent ones end by evidence. Resolves when its thread has ended.
    pub fn stop(&self, profile: &str) -> impl Future<Output = ()> + Send + use<> {
        let running = {
            let mut workers = self.0.lock();
            let running = workers.remove(profile);
            self.0.tell_served(&workers);
            running
        };
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

    /// Stops every worker.
    pub async fn stop_all(&self) {
        let names: Vec<Str> = self.0.lock().keys().cloned().collect();
        let stops: Vec<_> = names.iter().map(|name| self.stop(name)).collect();
        for stop in stops {
            stop.await;
        }
    }

    /// The profile's worker, if it has one.
    pub fn worker(&self, profile: &str) -> Option<WorkerView> {
        self.0.lock().get(profile).map(|running| running.handle.view())
    }

    /// Every worker by its profile's name.
    pub fn workers(&self) -> BTreeMap<Str, WorkerView> {
        self.0.lock().iter().map(|(name, running)| (name.clone(), running.handle.view())).collect()
    }

    /// Why the process cannot go on, once that is so.
    pub fn dead(&self) -> watch::Receiver<Option<String>> {
        self.0.dead()
    }
}

impl WorkerView {
    /// Whether its thread works.
    pub fn is_running(&self) -> bool {
        self.state == WorkerState::Running
    }
}
