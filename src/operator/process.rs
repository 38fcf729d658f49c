//! The life of the process: connect, wait for the Lease, work, and end in order.

use super::context::{Board, Context};
use super::denials::Denials;
use super::error::OperatorError;
use super::options::Options;
use super::reconciler::{Reconciler, Setup};
use super::refs::References;
use super::wiring::{Wiring, watch_for_denials};
use super::{extenders, health, housekeeping, metrics, orphans, permissions, watches};
use berth_cluster::bind::{self, Binder, Deliver};
use berth_cluster::client::{Clients, connect};
use berth_cluster::events::{Event, EventSink, EventType, ObjectRef};
use berth_cluster::evict::{self, Evictor};
use berth_cluster::lease::{Gate, LEASE_NAME, LeaseHandle, LeaseOptions, LeaseState, Timing, elect};
use berth_cluster::prebind::{self, Nominated, PreBinder};
use berth_cluster::refusal::RefusalWriter;
use berth_cluster::revisions::Revisions;
use berth_extender::address::AddressPolicy;
use berth_extender::api_server_addresses;
use berth_extender::{self as extender, ExtenderClients, Notice, ObjectStore, observers};
use berth_runtime::Engine;
use berth_telemetry::{Check, Endpoints, Health, serve};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Longest wait for sent binds at the end; more than one bind's time limit.
const LAND_WITHIN: Duration = Duration::from_millis(4_500);

/// Longest wait for the last statuses.
const FAREWELL_WITHIN: Duration = Duration::from_secs(2);

/// Longest wait for the last events.
const EVENTS_WITHIN: Duration = Duration::from_secs(1);

/// Runs the operator until `stop`, or until it cannot go on.
pub async fn run(options: Options, stop: CancellationToken) -> Result<(), OperatorError> {
    let clients = tokio::select! {
        clients = connect(options.kubeconfig.as_deref()) => clients?,
        () = stop.cancelled() => return Ok(()),
    };
    tracing::info!(server = clients.server, version = clients.version, "connected");
    let lacks = housekeeping::lacking(&clients.rest).await?;
    if !lacks.is_empty() {
        tracing::warn!(lacks = lacks.join(", "), "installed custom resource definition is older than this operator");
    }
    let denials = Denials::default();
    let missing = permissions::review(&clients.rest, &options.state_namespace, &denials).await;
    if let Some(permission) = missing.into_iter().next() {
        return Err(OperatorError::forbidden(permission));
    }
    let gate = Gate::new();
    let evidence = Arc::new(Notify::new());
    let policy = AddressPolicy::new(&options.extender_allow_host, &options.extender_allow_http)?
        .with_api_servers(api_server_addresses(&clients.writes, &clients.server).await);
    let (notify, notices) = mpsc::unbounded_channel();
    let cx = assemble(&options, clients, denials, &gate, &evidence, policy, notify);
    cx.board.lock().crd_lacks = lacks;

    let health = Health::waiting_for(&[Check::Leadership, Check::Caches, Check::Profiles]);
    let endpoints = Endpoints { health: health.clone(), metrics: metrics::exposition(cx.clone()) };
    let ended = CancellationToken::new();
    let (address, server) = serve(options.http_address, endpoints, ended.clone().cancelled_owned()).await?;
    tracing::info!(%address, "serving /livez, /readyz and /metrics");
    let server = tokio::spawn(server);

    let lease = elect(cx.clients.writes.clone(), lease_options(&options), gate.clone());
    let result = lead(&options, &cx, &gate, &lease, &health, evidence, notices, &stop).await;
    lease.release().await;
    ended.cancel();
    server.abort();
    tracing::info!("ended");
    result
}

fn lease_options(options: &Options) -> LeaseOptions {
    LeaseOptions {
        namespace: options.lease_namespace.clone(),
        identity: options.identity.clone(),
        timing: Timing::default(),
    }
}

/// Delivers to an engine that is set later: the binder needs the way in to the engine, and the engine needs the binder. Nothing
/// is sent before both are there, so nothing is lost.
fn deliver_once_set(engine: Arc<OnceLock<Deliver>>) -> Deliver {
    Arc::new(move |worker, input| {
        if let Some(deliver) = engine.get() {
            deliver(worker, input);
        }
    })
}

/// Puts the parts together. Nothing is sent before the gate opens.
fn assemble(
    options: &Options,
    clients: Clients,
    denials: Denials,
    gate: &Gate,
    evidence: &Arc<Notify>,
    policy: AddressPolicy,
    notify: mpsc::UnboundedSender<Notice>,
) -> Context {
    let bind_options =
        bind::Options { concurrency: options.bind_concurrency, qps: options.bind_qps, ..bind::Options::default() };
    let engines: Arc<OnceLock<Deliver>> = Arc::default();
    let deliver = watch_for_denials(deliver_once_set(engines.clone()), evidence.clone());
    let nominated = Nominated::default();
    let prebind = PreBinder::new(
        clients.writes.clone(),
        prebind::Options::default(),
        gate.clone(),
        nominated.clone(),
        deliver.clone(),
    );
    let store = Arc::<ObjectStore>::default();
    let ledgers: Arc<OnceLock<Engine>> = Arc::default();
    let extender_clients = ExtenderClients::new(extender::Options {
        policy,
        kube: clients.writes.clone(),
        store: store.clone(),
        key_of: extenders::key_of(ledgers.clone()),
        gate: gate.clone(),
        deliver: deliver.clone(),
        // Who would hear it has ended.
        notify: Arc::new(move |notice| drop(notify.send(notice))),
    });
    let binder = Binder::new(clients.bind.clone(), bind_options, gate.clone(), deliver.clone());
    let refusals = RefusalWriter::new(clients.writes.clone(), gate.clone(), nominated.clone());
    let events = EventSink::new(clients.events.clone(), options.identity.name(), binder.load());
    let pod_events = options.events.then(|| events.clone());
    let evict =
        Evictor::new(clients.writes.clone(), evict::Options::default(), gate.clone(), pod_events.clone(), deliver);
    let wiring = Wiring {
        paused: binder.paused(),
        binder: binder.clone(),
        extender_clients: extender_clients.clone(),
        prebind: prebind.clone(),
        evict: evict.clone(),
        nominated,
        refusals: refusals.clone(),
        events: pod_events,
    };
    let engine = Engine::new(|deliver| {
        // Set once, right here.
        let _ = engines.set(deliver);
        wiring
    });
    let writes = Arc::default();
    let _ = ledgers.set(engine.clone());
    let board = Board::default();
    Context {
        clients,
        engine,
        extender_clients,
        store,
        binder,
        prebind,
        evict,
        refusals,
        events,
        denials,
        writes,
        board,
    }
}

/// Waits for the Lease and works while it lasts.
#[allow(clippy::too_many_arguments, reason = "the parts of the process meet here once")]
async fn lead(
    options: &Options,
    cx: &Context,
    gate: &Gate,
    lease: &LeaseHandle,
    health: &Health,
    evidence: Arc<Notify>,
    notices: mpsc::UnboundedReceiver<Notice>,
    stop: &CancellationToken,
) -> Result<(), OperatorError> {
    let mut state = lease.state();
    tokio::select! {
        led = await_leadership(options, cx, &mut state, health) => led?,
        () = stop.cancelled() => return Ok(()),
    }
    health.pass(Check::Leadership);
    tracing::info!(lease = LEASE_NAME, namespace = options.lease_namespace, identity = %options.identity, "leading");
    let taken_over = Instant::now();
    let revisions = match Revisions::load(cx.clients.rest.clone(), &options.state_namespace).await {
        Ok(revisions) => revisions,
        Err(fault) => return Err(fault.into()),
    };
    let work = CancellationToken::new();
    let warm = start_watches(cx, gate, health, &work);
    tokio::spawn(orphans::run(cx.clone(), work.clone()));
    tokio::spawn(housekeeping::run(cx.clone(), options.state_namespace.clone(), evidence, work.clone()));
    let setup = Setup {
        serve_default: options.serve_default_scheduler,
        identity: options.identity.clone(),
        foreign_from: taken_over + Timing::default().duration,
    };
    let references = References::default();
    let (client, namespace) = (cx.clients.rest.clone(), options.state_namespace.clone());
    tokio::spawn(references.clone().run(client, namespace, cx.denials.clone(), work.clone()));
    let mut reconciler = Reconciler::new(cx.clone(), setup, revisions, references, notices);
    let mut dead = cx.engine.dead();
    let result = tokio::select! {
        () = reconciler.run(warm, health, &work) => Ok(()),
        () = stop.cancelled() => Ok(()),
        reason = lost(&mut state, cx) => Err(OperatorError::LeaseLost(reason)),
        reason = dead.wait_for(Option::is_some) => Err(OperatorError::Dead(
            reason.ok().and_then(|reason| reason.clone()).unwrap_or_default(),
        )),
    };
    health.fail(Check::Process, "ending");
    if result.is_err() {
        // Nothing of ours may be sent any more, and a successor finds everything in the cluster.
        gate.shut();
        work.cancel();
        return result;
    }
    wind_down(cx, &mut reconciler).await;
    work.cancel();
    result
}

/// Unsent binds back, sent ones awaited, events and statuses written. Leadership lasts meanwhile.
async fn wind_down(cx: &Context, reconciler: &mut Reconciler) {
    tracing::info!("ending: unsent binds go back, sent ones are awaited");
    let last = cx.engine.workers();
    cx.engine.stop_all().await;
    let (left, before, asked, evictions) = tokio::join!(
        cx.binder.shutdown(LAND_WITHIN),
        cx.prebind.shutdown(LAND_WITHIN),
        cx.extender_clients.shutdown(LAND_WITHIN),
        cx.evict.shutdown(LAND_WITHIN)
    );
    if asked.unsettled > 0 {
        tracing::warn!(binds = asked.unsettled, "binds of extenders whose outcome the next process will find");
    }
    if evictions.unsettled > 0 {
        tracing::warn!(rounds = evictions.unsettled, "evictions cut off: the next process decides anew");
    }
    if before.unsettled > 0 {
        tracing::warn!(pods = before.unsettled, "writes to volumes cut off: the next process finds them as they are");
    }
    if left.unsettled > 0 {
        tracing::warn!(binds = left.unsettled, "sent binds whose outcome the next process will find");
    }
    cx.refusals.clear();
    tokio::join!(cx.events.flush(EVENTS_WITHIN), reconciler.say_farewell(&last, FAREWELL_WITHIN));
}

/// Starts the watches; opens the gate once each kind was read whole, and says so.
fn start_watches(cx: &Context, gate: &Gate, health: &Health, work: &CancellationToken) -> watch::Receiver<bool> {
    let watches = watches::start(&cx.clients, &cx.engine, &observers(&cx.store), work);
    cx.board.lock().watches.clone_from(&watches);
    let (warm, warmed) = watch::channel(false);
    let (gate, health, work) = (gate.clone(), health.clone(), work.clone());
    tokio::spawn(async move {
        let began = Instant::now();
        health.fail(Check::Caches, health::unread(&watches).unwrap_or_default());
        for fed in &watches {
            let mut synced = fed.synced.clone();
            tokio::select! {
                () = work.cancelled() => return,
                _ = synced.wait_for(|synced| *synced) => {}
            }
            if let Some(unread) = health::unread(&watches) {
                health.fail(Check::Caches, unread);
            }
        }
        gate.admit();
        tracing::info!(kinds = watches.len(), seconds = began.elapsed().as_secs_f64(), "cluster read");
        warm.send_replace(true);
        loop {
            match health::stale(&watches) {
                Some(stale) => health.fail(Check::Caches, stale),
                None => health.pass(Check::Caches),
            }
            tokio::select! {
                () = work.cancelled() => return,
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        }
    });
    warmed
}

/// Follows the Lease until we lead.
async fn await_leadership(
    options: &Options,
    cx: &Context,
    state: &mut watch::Receiver<LeaseState>,
    health: &Health,
) -> Result<(), OperatorError> {
    let lease = format!("{}/{LEASE_NAME}", options.lease_namespace);
    loop {
        let now = state.borrow_and_update().clone();
        cx.board.lock().lease = Some(now.clone());
        match now {
            LeaseState::Leading => return Ok(()),
            LeaseState::Starting { fault: Some(fault) } if fault.is_forbidden() => return Err(fault.into()),
            LeaseState::Starting { fault } => {
                let why = fault.map_or_else(String::new, |fault| format!(": {fault}"));
                health.fail(Check::Leadership, format!("lease {lease} has not been read{why}"));
            }
            LeaseState::Waiting { holder } => {
                tracing::info!(holder, "waiting for the lease");
                health.fail(Check::Leadership, format!("lease {lease} is held by {holder}"));
            }
            LeaseState::AnotherInstallation { holder } => another_installation(options, cx, health, &lease, &holder),
            LeaseState::Lost { reason } => return Err(OperatorError::LeaseLost(reason)),
            LeaseState::Released => return Err(OperatorError::LeaseLost("it was given back".to_owned())),
        }
        if state.changed().await.is_err() {
            return Err(OperatorError::LeaseLost("the election ended".to_owned()));
        }
    }
}

/// Says in the log, in readiness and on our own pod that someone else works here; metrics read the board.
fn another_installation(options: &Options, cx: &Context, health: &Health, lease: &str, holder: &str) {
    let text = format!(
        "AnotherInstallation: lease {lease} is held and renewed by {holder}: remove one of the two installations; this one waits"
    );
    tracing::warn!(holder, lease, "another installation works in this cluster");
    health.fail(Check::Leadership, text.clone());
    if let Some(pod) = &options.pod {
        let object = ObjectRef::pod(&pod.namespace, &pod.name, &pod.uid);
        cx.events.send(Event::of_operator(object, EventType::Warning, "AnotherInstallation", "Leading", text));
    }
}

/// Returns why we lead no more.
async fn lost(state: &mut watch::Receiver<LeaseState>, cx: &Context) -> String {
    let over = |state: &LeaseState| matches!(state, LeaseState::Lost { .. } | LeaseState::Released);
    let last = state.wait_for(|state| over(state)).await.map(|state| state.clone());
    let reason = match &last {
        Ok(LeaseState::Lost { reason }) => reason.clone(),
        _ => "the election ended".to_owned(),
    };
    cx.board.lock().lease = last.ok();
    reason
}
