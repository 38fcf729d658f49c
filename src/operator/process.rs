//! The life of the process: connect, wait for the Lease, work, and end in order.

use super::context::{Board, Context};
use super::denials::Denials;
use super::options::Options;
use super::reconciler::Reconciler;
use super::refs::References;
use super::tasks::{Beat, Tasks, panic_text};
use super::watches::Fed;
use super::writers::{Known, Writers, watch_for_denials};
use super::{announce, extenders, housekeeping, metrics, reviews, watches};
use berth_cluster::bind::Deliver;
use berth_cluster::client::{Clients, ConnectError, Fault, connect};
use berth_cluster::events::ObjectRef;
use berth_cluster::lease::{Gate, LEASE_NAME, LeaseHandle, LeaseOptions, LeaseState, Timing, elect};
use berth_cluster::recheck::Recheck;
use berth_cluster::revisions::Revisions;
use berth_cluster::served_crd::ServedCrdError;
use berth_extender::address::{AddressPolicy, ApiServers, RuleError};
use berth_extender::{self as extender, ExtenderClients, Notice, ObjectStore, observers};
use berth_extender::{follow_api_servers, read_api_servers};
use berth_runtime::Engine;
use berth_telemetry::{Addresses, Check, Endpoints, Health, ServeError, serve};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Longest wait for sent binds at the end; more than one bind's time limit.
const LAND_WITHIN: Duration = Duration::from_millis(4_500);

/// A step of a worker, or a round of the task that looks after the profiles, that takes longer makes `/livez` fail. Both take
/// milliseconds: what takes minutes hangs, and nothing but a restart helps. Long enough for somebody to read the status first.
const DEAD_AFTER: Duration = Duration::from_mins(5);

/// Longest wait for the last statuses.
const FAREWELL_WITHIN: Duration = Duration::from_secs(2);

/// Longest wait for the last events.
const EVENTS_WITHIN: Duration = Duration::from_secs(1);

/// Why the operator ended. Each text names the object and the fix.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Crd(#[from] ServedCrdError),
    #[error("the API server forbids what the operator needs: {0}")]
    Forbidden(Box<str>),
    /// The Lease or last good specs cannot be read or written.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// An option about extenders has a value that is not a host.
    #[error(transparent)]
    Extender(#[from] RuleError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Another process may lead by now.
    #[error("leadership lost: {0}; a restart waits for the Lease again")]
    LeaseLost(String),
    /// The state of the process may be wrong.
    #[error("{0}; a restart reads everything anew")]
    Dead(String),
}

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
    let missing = housekeeping::review(&clients.rest, &options.state_namespace, &denials).await;
    if let Some(permission) = missing.into_iter().next() {
        return Err(OperatorError::Forbidden(permission.to_string().into()));
    }
    let gate = Gate::new();
    let evidence = Arc::new(Notify::new());
    let api_servers = ApiServers::default();
    let policy = AddressPolicy::new(&options.extender_allow_host, &options.extender_allow_http)?
        .with_api_servers(api_servers.clone());
    read_api_servers(&api_servers, &clients.writes, &clients.server).await;
    let following = stop.child_token();
    let _ends_with_us = following.clone().drop_guard();
    tokio::spawn(follow_api_servers(api_servers, clients.writes.clone(), clients.server.clone(), following));
    let (notify, notices) = mpsc::unbounded_channel();
    let cx = assemble(&options, clients, denials, &gate, &evidence, policy, notify);
    cx.board.lock().crd_lacks = lacks;

    let health = Health::waiting_for(&[Check::Leadership, Check::Caches, Check::Profiles]);
    health.set_watchdog(watchdog(cx.engine.clone(), cx.beat.clone()));
    let endpoints = Endpoints {
        health: health.clone(),
        metrics: metrics::exposition(cx.clone()),
        authorizer: options.metrics_authorization.then(|| reviews::authorizer(cx.clients.rest.clone())),
    };
    let addresses = Addresses { pages: options.http_address, probes: options.probe_address };
    let (bound, server) = serve(addresses, endpoints)?;
    tracing::info!(address = %bound.pages, "serving /livez, /readyz and /metrics");
    if let Some(address) = bound.probes {
        tracing::info!(%address, "serving /livez and /readyz");
    }
    let server = tokio::spawn(server);

    let (namespace, identity) = (options.lease_namespace.clone(), options.identity.clone());
    let of_lease = LeaseOptions { namespace, identity, timing: Timing::default() };
    let lease = elect(cx.clients.lease.clone(), of_lease, gate.clone());
    let result = lead(&options, &cx, &gate, &lease, &health, evidence, notices, &stop).await;
    give_back(lease, cx.writers.may_land()).await;
    server.abort();
    tracing::info!("ended");
    result
}

/// Gives the Lease back, unless as many as `may_land` requests of ours may still be carried out.
pub(super) async fn give_back(lease: LeaseHandle, may_land: usize) {
    if may_land == 0 {
        return lease.release().await;
    }
    tracing::warn!(
        requests = may_land,
        "lease not given back: requests may still land; the next process waits until it expires"
    );
    lease.keep();
}

/// Says what hangs. It runs beside what it watches, and shares no lock with a worker that has the ledger.
fn watchdog(engine: Engine, beat: Beat) -> impl Fn() -> Option<String> + Send + Sync + 'static {
    move || {
        let late = || {
            beat.overdue(DEAD_AFTER)
                .map(|silence| format!("profiles have not been looked after for {} s", silence.as_secs()))
        };
        engine.stuck(DEAD_AFTER).or_else(late)
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
pub(super) fn assemble(
    options: &Options,
    clients: Clients,
    denials: Denials,
    gate: &Gate,
    evidence: &Arc<Notify>,
    policy: AddressPolicy,
    notify: mpsc::UnboundedSender<Notice>,
) -> Context {
    let to_engine: Arc<OnceLock<Deliver>> = Arc::default();
    let deliver = watch_for_denials(deliver_once_set(to_engine.clone()), evidence.clone());
    let store = Arc::<ObjectStore>::default();
    let ledgers: Arc<OnceLock<Engine>> = Arc::default();
    let recheck: Arc<dyn Recheck> = Arc::new(Known(ledgers.clone()));
    let extender_clients = ExtenderClients::new(extender::Options {
        policy,
        kube: clients.writes.clone(),
        store: store.clone(),
        key_of: extenders::key_of(ledgers.clone()),
        gate: gate.clone(),
        recheck: recheck.clone(),
        bound_within: extender::BOUND_WITHIN,
        deliver: deliver.clone(),
        // Who would hear it has ended.
        notify: Arc::new(move |notice| drop(notify.send(notice))),
    });
    let writers = Writers::new(options, &clients, gate, &recheck, extender_clients, deliver);
    let engine = Engine::new(|deliver| {
        // Set once, right here.
        let _ = to_engine.set(deliver);
        writers.clone()
    });
    let _ = ledgers.set(engine.clone());
    Context {
        clients,
        engine,
        writers,
        store,
        denials,
        writes: Arc::default(),
        board: Board::default(),
        tasks: Tasks::default(),
        beat: Beat::default(),
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
    let foreign_from = Instant::now() + Timing::default().duration;
    let revisions = Revisions::load(cx.clients.rest.clone(), &options.state_namespace).await?;
    let work = CancellationToken::new();
    let warm = start_watches(cx, gate, health, &work);
    let references = References::default();
    start_tasks(options, cx, &references, evidence, &work);
    let mut reconciler = Reconciler::new(cx.clone(), options, foreign_from, revisions, references, notices);
    let mut dead = cx.engine.dead();
    let result = tokio::select! {
        ended = AssertUnwindSafe(reconciler.run(warm, health, &work)).catch_unwind() => ended.map_err(|panic| {
            OperatorError::Dead(format!("the task that looks after the profiles ended: {}", panic_text(&*panic)))
        }),
        () = stop.cancelled() => Ok(()),
        reason = lost(&mut state, cx) => Err(OperatorError::LeaseLost(reason)),
        reason = dead.wait_for(Option::is_some) => Err(OperatorError::Dead(
            reason.ok().and_then(|reason| reason.clone()).unwrap_or_default(),
        )),
    };
    health.fail(Check::Process, "ending");
    cx.beat.end();
    if result.is_err() {
        // Nothing of ours may be sent any more, and a successor finds everything in the cluster.
        gate.shut();
        if matches!(result, Err(OperatorError::Dead(_))) {
            // We hold the Lease still, and what was sent may land.
            cx.writers.land(LAND_WITHIN).await;
        }
        work.cancel();
        return result;
    }
    wind_down(cx, &mut reconciler).await;
    work.cancel();
    result
}

/// Wakes the workers when a pause of binds begins, changes or ends: they give back what it covers and take up what it does not.
async fn follow_pauses(cx: Context, ended: CancellationToken) {
    let mut paused = cx.writers.binder.paused();
    // A pause may have ended before this task was started again.
    cx.engine.wake_all();
    while let Some(Ok(())) = ended.run_until_cancelled(paused.changed()).await {
        cx.engine.wake_all();
    }
}

/// Starts what runs beside the reconciler until `work` ends.
fn start_tasks(
    options: &Options,
    cx: &Context,
    references: &References,
    evidence: Arc<Notify>,
    work: &CancellationToken,
) {
    let namespace = &options.state_namespace;
    let (of_task, stop) = (cx.clone(), work.clone());
    cx.tasks.spawn("pauses", work.clone(), move || follow_pauses(of_task.clone(), stop.clone()));
    let (of_task, stop) = (cx.clone(), work.clone());
    cx.tasks.spawn("orphans", work.clone(), move || announce::orphans(of_task.clone(), stop.clone()));
    let (of_task, state_namespace, stop) = (cx.clone(), namespace.clone(), work.clone());
    cx.tasks.spawn("housekeeping", work.clone(), move || {
        housekeeping::run(of_task.clone(), state_namespace.clone(), evidence.clone(), stop.clone())
    });
    let (references, of_task) = (references.clone(), cx.clone());
    let (state_namespace, stop) = (namespace.clone(), work.clone());
    cx.tasks.spawn("references", work.clone(), move || {
        let (client, denials) = (of_task.clients.rest.clone(), of_task.denials.clone());
        references.clone().run(client, state_namespace.clone(), denials, stop.clone())
    });
}

/// Unsent binds back, sent ones awaited, events and statuses written. Leadership lasts meanwhile.
async fn wind_down(cx: &Context, reconciler: &mut Reconciler) {
    tracing::info!("ending: unsent binds go back, sent ones are awaited");
    let last = cx.engine.workers();
    cx.engine.stop_all().await;
    cx.writers.land(LAND_WITHIN).await;
    cx.writers.refusals.clear();
    tokio::join!(cx.writers.events.flush(EVENTS_WITHIN), reconciler.say_farewell(&last, FAREWELL_WITHIN));
}

/// Starts the watches; opens the gate once each kind was read whole, and says so.
fn start_watches(cx: &Context, gate: &Gate, health: &Health, work: &CancellationToken) -> watch::Receiver<bool> {
    let watches = watches::start(&cx.clients, &cx.engine, &observers(&cx.store), &cx.tasks, work);
    cx.board.lock().watches.clone_from(&watches);
    let (warm, warmed) = watch::channel(false);
    let (gate, health, stop) = (gate.clone(), health.clone(), work.clone());
    cx.tasks.spawn("caches", work.clone(), move || {
        follow_watches(watches.clone(), gate.clone(), health.clone(), warm.clone(), stop.clone())
    });
    warmed
}

/// Opens the gate once each kind was read whole; afterwards says which watch is behind.
async fn follow_watches(
    watches: Vec<Arc<Fed>>,
    gate: Gate,
    health: Health,
    warm: watch::Sender<bool>,
    work: CancellationToken,
) {
    let began = Instant::now();
    health.fail(Check::Caches, watches::unread(&watches).unwrap_or_default());
    for fed in &watches {
        let mut synced = fed.synced.clone();
        tokio::select! {
            () = work.cancelled() => return,
            _ = synced.wait_for(|synced| *synced) => {}
        }
        if let Some(unread) = watches::unread(&watches) {
            health.fail(Check::Caches, unread);
        }
    }
    gate.admit();
    tracing::info!(kinds = watches.len(), seconds = began.elapsed().as_secs_f64(), "cluster read");
    warm.send_replace(true);
    loop {
        match watches::stale(&watches) {
            Some(stale) => health.fail(Check::Caches, stale),
            None => health.pass(Check::Caches),
        }
        tokio::select! {
            () = work.cancelled() => return,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
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
        cx.warn(object, "AnotherInstallation", "Leading", text);
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
