//! One extender of one profile: its client behind a limit of concurrent calls and a breaker for each verb.

use super::breaker::{Breaker, Change, Pass};
use super::client::{Call, Client};
use super::error::Failure;
use super::resolve::Net;
use super::settings::{Settings, Verb, VerbSettings};
use super::stats::{ExtenderHealth, VerbHealth, VerbStats};
use super::wire::{Payload, Visit, reply_limit};
use berth_api::NodePayload;
use berth_core::io::{ExtenderError, ExtenderErrorKind};
use berth_core::model::Str;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Calls that may wait for others to end: as many as a worker has parked attempts at most.
const WAITING: usize = 256;

/// Called when a breaker opens or closes, with the failure that opened it.
pub(super) type OnChange = Box<dyn Fn(Verb, Change, Option<&ExtenderError>) + Send + Sync>;

/// What is replaced with the settings. Calls under way keep the old one.
pub(super) struct Live {
    pub(super) settings: Settings,
    client: Result<Client, ExtenderError>,
    slots: Semaphore,
    /// Nothing is sent with these settings any more; see [`Extender::withdraw`].
    withdrawn: AtomicBool,
}

#[derive(Debug)]
struct VerbState {
    breaker: Mutex<Breaker>,
    stats: VerbStats,
}

pub(super) struct Extender {
    pub(super) name: Str,
    live: RwLock<Arc<Live>>,
    verbs: BTreeMap<Verb, VerbState>,
    waiting: AtomicUsize,
    in_flight: AtomicUsize,
    on_change: OnChange,
}

pub(super) struct VerbCall<'a, V> {
    pub(super) verb: Verb,
    /// The pod's uid.
    pub(super) pod: &'a Str,
    pub(super) payload: Payload,
    pub(super) visit: V,
    /// Asked right before the request is sent, once there is a connection; it is not sent if this returns false.
    pub(super) may_go: &'a (dyn Fn() -> bool + Sync),
}

impl Live {
    fn new(settings: Settings, net: &Net) -> Arc<Self> {
        let client = Client::new(&settings, net);
        let slots = Semaphore::new(settings.concurrency.max(1));
        Arc::new(Self { settings, client, slots, withdrawn: AtomicBool::new(false) })
    }

    fn is_withdrawn(&self) -> bool {
        self.withdrawn.load(Ordering::Acquire)
    }
}

/// Abandons the pass if the call is dropped before its outcome is known.
struct Held<'a> {
    breaker: &'a Mutex<Breaker>,
    pass: Option<Pass>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            lock(self.breaker).abandoned(&pass);
        }
    }
}

/// Counts one until it is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock(breaker: &Mutex<Breaker>) -> MutexGuard<'_, Breaker> {
    breaker.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Extender {
    pub(super) fn new(settings: Settings, net: &Net, on_change: OnChange) -> Self {
        let state = || VerbState { breaker: Mutex::new(Breaker::new(settings.open_for)), stats: VerbStats::default() };
        Self {
            name: settings.name.clone(),
            verbs: Verb::ALL.into_iter().map(|verb| (verb, state())).collect(),
            live: RwLock::new(Live::new(settings, net)),
            waiting: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            on_change,
        }
    }

    /// Replaces the settings; calls under way end by the old ones.
    pub(super) fn replace(&self, settings: Settings, net: &Net) {
        if self.live().settings == settings {
            return;
        }
        for state in self.verbs.values() {
            lock(&state.breaker).set_open_for(settings.open_for);
        }
        let live = Live::new(settings, net);
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = live;
    }

    /// The profile has the extender no more, or may not use its Secrets: nothing is sent from now on, not even by calls that
    /// wait for a slot or a connection. What was sent goes on.
    pub(super) fn withdraw(&self) {
        self.live().withdrawn.store(true, Ordering::Release);
    }

    pub(super) fn live(&self) -> Arc<Live> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn form(&self) -> NodePayload {
        self.live().settings.form
    }

    /// Makes a call and turns the reply into its result; an error of `finish` is one that the extender reported.
    pub(super) async fn call<V: Visit, R>(
        &self,
        ask: VerbCall<'_, V>,
        finish: impl FnOnce(V) -> Result<R, ExtenderError>,
    ) -> Result<R, Failure> {
        let live = self.live();
        let state = &self.verbs[&ask.verb];
        let result = self.guarded(&live, state, ask).await.and_then(|visit| finish(visit).map_err(Failure::from));
        state.stats.ended(result.as_ref().err().map(|failure| &failure.error));
        result
    }

    async fn guarded<V: Visit>(&self, live: &Live, state: &VerbState, ask: VerbCall<'_, V>) -> Result<V, Failure> {
        let client = live.client.as_ref().map_err(|error| Failure::from(error.clone()))?;
        let Some(settings) = live.settings.verbs.get(&ask.verb) else {
            let why = format!("extender {} has no verb {}", self.name, ask.verb.as_str());
            return Err(Failure::unsent(ExtenderErrorKind::Refused, why));
        };
        {
            // A call that is turned away need not wait for a slot.
            let mut breaker = lock(&state.breaker);
            if !breaker.would_pass(ask.pod, Instant::now()) {
                breaker.turned_away(ask.pod);
                return Err(self.circuit_open(ask.verb));
            }
        }
        let _slot = self.slot(live, settings).await?;
        if live.is_withdrawn() {
            let why = format!("extender {} is not set up any more", self.name);
            return Err(Failure::unsent(ExtenderErrorKind::Refused, why));
        }
        let may_go = || !live.is_withdrawn() && (ask.may_go)();
        let pass = lock(&state.breaker).ask(ask.pod, Instant::now());
        let mut held = Held { breaker: &state.breaker, pass: Some(pass.ok_or_else(|| self.circuit_open(ask.verb))?) };
        let limit = reply_limit(live.settings.form, ask.payload.bytes());
        let call =
            Call { verb: settings, payload: ask.payload, limit, is_question: ask.verb != Verb::Bind, may_go: &may_go };
        let _flight = Counted::new(&self.in_flight);
        let start = Instant::now();
        let result = client.call(&call, ask.visit).await.map_err(|failure| named(failure, live, settings));
        state.stats.took(start.elapsed());
        if let Some(pass) = held.pass.take() {
            self.report_to_breaker(ask.verb, state, &pass, result.as_ref().err());
        }
        result
    }

    /// Waits for a slot among the calls of this extender, at most as long as a call may take.
    async fn slot<'l>(&self, live: &'l Live, verb: &VerbSettings) -> Result<SemaphorePermit<'l>, Failure> {
        if let Ok(slot) = live.slots.try_acquire() {
            return Ok(slot);
        }
        let busy = |why: &str| {
            let most = live.settings.concurrency;
            let why =
                format!("extender {}: {why}: {most} calls are under way, as maxConcurrentRequests allows", self.name);
            Failure::unsent(ExtenderErrorKind::Busy, why)
        };
        let _waits = Counted::new(&self.waiting);
        if self.waiting.load(Ordering::Relaxed) > WAITING {
            return Err(busy("too many calls wait"));
        }
        match tokio::time::timeout(verb.timeout, live.slots.acquire()).await {
            Ok(Ok(slot)) => Ok(slot),
            _ => Err(busy("no call ended in time")),
        }
    }

    fn report_to_breaker(&self, verb: Verb, state: &VerbState, pass: &Pass, failure: Option<&Failure>) {
        use ExtenderErrorKind::{Busy, CircuitOpen, Refused, Reported};
        let error = failure.map(|failure| &failure.error);
        let change = {
            let mut breaker = lock(&state.breaker);
            match error.map(|error| error.kind) {
                None | Some(Reported) => breaker.succeeded(pass),
                Some(Busy | CircuitOpen | Refused) => {
                    breaker.abandoned(pass);
                    None
                }
                Some(_) => breaker.failed(pass, Instant::now()),
            }
        };
        if let Some(change) = change {
            (self.on_change)(verb, change, error);
        }
    }

    fn circuit_open(&self, verb: Verb) -> Failure {
        let why = format!("extender {} is not asked to {} at present: its last calls failed", self.name, verb.as_str());
        Failure::unsent(ExtenderErrorKind::CircuitOpen, why)
    }

    pub(super) fn health(&self) -> ExtenderHealth {
        let live = self.live();
        let of_verb = |(verb, state): (&Verb, &VerbState)| {
            let breaker = lock(&state.breaker);
            (*verb, state.stats.health(breaker.circuit(), breaker.failures()))
        };
        let mut verbs: BTreeMap<Verb, VerbHealth> = self.verbs.iter().map(of_verb).collect();
        let mut results = BTreeMap::new();
        for (result, count) in verbs.values().flat_map(|health| &health.results) {
            *results.entry(*result).or_default() += count;
        }
        verbs.retain(|verb, _| live.settings.verbs.contains_key(verb));
        ExtenderHealth {
            name: self.name.clone(),
            verbs,
            results,
            in_flight: self.in_flight.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            unusable: live.client.as_ref().err().cloned(),
            uses_last_good: false,
        }
    }
}

/// Puts the call before the failure's message, as upstream does.
fn named(mut failure: Failure, live: &Live, verb: &VerbSettings) -> Failure {
    let joint = if failure.code.is_some() { "," } else { ":" };
    let (path, url, why) = (&verb.path, &live.settings.endpoint.url, &failure.error.message);
    failure.error.message = format!("failed {path} with extender at URL {url}/{path}{joint} {why}").into();
    failure
}
