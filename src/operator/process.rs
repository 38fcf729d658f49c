//! The life of the process: connect, read everything, wait for the Lease, work, and end in order.

use super::context::{Board, Context};
use super::denials::Denials;
use super::drift::{self, Audits};
use super::inside::Inside;
use super::options::{OperatorError, Options};
use super::reconciler::Reconciler;
use super::refs::References;
use super::standby::await_leadership;
use super::takeover::{last_seen, pass_barrier};
use super::tasks::{Beat, Tasks};
use super::watches::Fed;
use super::writers::{Known, Writers, watch_for_denials};
use super::{abandoned, announce, debug, extenders, housekeeping, metrics, reviews, routing, watches};
use berth_cluster::bind::Deliver;
use berth_cluster::client::{Clients, connect};
use berth_cluster::lease::{Gate, LEASE_NAME, LeaseHandle, LeaseOptions, LeaseState, elect, is_taken};
use berth_cluster::limits::REQUEST_LIMIT;
use berth_cluster::recheck::Recheck;
use berth_cluster::revisions::Revisions;
use berth_cluster::watch::Patience;
use berth_core::model::Str;
use berth_extender::address::{AddressPolicy, ApiServers};
use berth_extender::{self as extender, Connector, ExtenderClients, Notice, ObjectStore};
use berth_extender::{follow_api_servers, read_api_servers};
use berth_runtime::{Engine, WorkerView, Workers, panic_message};
use berth_telemetry::{Addresses, Check, Endpoints, Health, serve};
use futures::FutureExt;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longest wait at the end for what was sent: enough for a request that was sent last and gets no answer to come to its end. To leave the Lease
/// to expire takes longer.
const LAND_WITHIN: Duration = REQUEST_LIMIT.saturating_add(Duration::from_millis(500));

/// A step of a worker, or a round of the task that looks after the profiles, that takes longer makes `/livez` fail. Both take
/// milliseconds: what takes minutes hangs, and nothing but a restart helps. Long enough for somebody to read the status first.
const DEAD_AFTER: Duration = Duration::from_mins(5);

/// Longest wait for the last statuses.
const FAREWELL_WITHIN: Duration = Duration::from_secs(2);

/// Longest wait for a successor to take the Lease, before the profiles are told that nobody leads.
const SUCCESSOR_WITHIN: Duration = Duration::from_secs(1);

/// Longest wait for the last events.
const EVENTS_WITHIN: Duration = Duration::from_secs(1);

/// Runs the operator until `stop`, or until it cannot go on.
pub async fn run(options: Options, stop: CancellationToken) -> Result<(), OperatorError> {
    let clients = tokio::select! {
        clients = connect(options.kubeconfig.as_deref()) => clients?,
        () = stop.cancelled() => return Ok(()),
    };
    Box::pin(run_in(Place::Process, options, clients, extender::tcp(), stop)).await
}

/// What a running operator is part of.
pub(super) enum Place {
    /// A process of its own: its workers and its elector have threads, and it serves pages.
    Process,
    /// A test that runs several in one thread; it is given what it looks at.
    Test(Box<dyn FnOnce(Inside) + Send>),
}

/// Runs the operator with these clients, and with connections to extenders that `connector` makes.
pub(super) async fn run_in(
    place: Place,
    options: Options,
    clients: Clients,
    connector: Connector,
    stop: CancellationToken,
) -> Result<(), OperatorError> {
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
    let (notify, notices) = mpsc::unbounded_channel();
    let workers = match place {
        Place::Process => Workers::OnThreads,
        Place::Test(_) => Workers::OnTasks,
    };
    let cx = assemble(&options, workers, clients, denials, &gate, &evidence, policy, connector, notify);
    {
        let mut board = cx.board.lock();
        board.crd_lacks = lacks;
        board.routing.installed = options.namespace_routing;
    }
    follow_addresses(&cx, api_servers, following.clone());

    let health = Health::waiting_for(&[Check::Leadership, Check::Caches, Check::Profiles]);
    health.set_watchdog(watchdog(cx.engine.clone(), [cx.beat.clone(), cx.watches_beat.clone()], DEAD_AFTER));
    let servers = show(place, &options, &cx, &health, &following)?;
    let lease = elect(cx.clients.lease.clone(), lease_options(&options), gate.clone());
    let result = lead(&options, &cx, &gate, &lease, &health, evidence, notices, &stop).await;
    let is_free = release_lease(lease, cx.writers.may_land()).await;
    let result = match result {
        Ok(Some(farewell)) => {
            say_farewell(&options, &cx, farewell, is_free).await;
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    for server in servers {
        server.abort();
    }
    tracing::info!("ended");
    result
}

/// Serves pages, and writes the state to the log when it is asked for by a signal; a test is shown the operator itself. Returns what is
/// to be aborted at the end.
fn show(
    place: Place,
    options: &Options,
    cx: &Context,
    health: &Health,
    stop: &CancellationToken,
) -> Result<Vec<JoinHandle<()>>, OperatorError> {
    match place {
        Place::Process => {
            let (of_task, stop) = (cx.clone(), stop.clone());
            cx.tasks.spawn("dump", stop.clone(), move || debug::dump_on_signal(of_task.clone(), stop.clone()));
            let pages = serve_pages(options, cx, health)?;
            Ok([pages].into_iter().chain(debug::serve(options, cx)?).collect())
        }
        Place::Test(show) => {
            show(Inside::new(cx));
            Ok(Vec::new())
        }
    }
}

/// Reads the API server's addresses again and again: an extender must not have one that is new.
fn follow_addresses(cx: &Context, api_servers: ApiServers, stop: CancellationToken) {
    let (kube, server) = (cx.clients.writes.clone(), cx.clients.server.clone());
    cx.tasks.spawn("addresses", stop.clone(), move || {
        follow_api_servers(api_servers.clone(), kube.clone(), server.clone(), stop.clone())
    });
}

fn lease_options(options: &Options) -> LeaseOptions {
    LeaseOptions {
        namespace: options.lease_namespace.clone(),
        identity: options.identity.clone(),
        installation: options.installation.clone(),
        timing: options.lease_timing,
    }
}

/// Serves probes and metrics until the task that is returned is aborted.
fn serve_pages(options: &Options, cx: &Context, health: &Health) -> Result<JoinHandle<()>, OperatorError> {
    let endpoints = Endpoints {
        health: health.clone(),
        metrics: metrics::exposition(cx.clone(), options.logs.clone()),
        authorizer: options.metrics_authorization.then(|| reviews::authorizer(cx.clients.rest.clone())),
    };
    let addresses = Addresses { pages: options.http_address, probes: options.probe_address };
    let (bound, server) = serve(addresses, endpoints)?;
    tracing::info!(address = %bound.pages, "serving /livez, /readyz and /metrics");
    if let Some(address) = bound.probes {
        tracing::info!(%address, "serving /livez and /readyz");
    }
    Ok(tokio::spawn(server))
}

/// Gives the Lease back, unless as many as `may_land` requests of ours may still be carried out; says whether it tried.
pub(super) async fn release_lease(lease: LeaseHandle, may_land: usize) -> bool {
    if may_land == 0 {
        lease.release().await;
        return true;
    }
    tracing::warn!(
        requests = may_land,
        "lease not given back: requests may still land; the next process waits until it expires"
    );
    lease.keep();
    false
}

/// Says what has hung for longer than `limit`: a worker, or whoever is to give these beats, for the profiles and for the watches. It runs
/// beside what it watches, and shares no lock with a worker that has the ledger.
pub(super) fn watchdog(
    engine: Engine,
    [profiles, watches]: [Beat; 2],
    limit: Duration,
) -> impl Fn() -> Option<String> + Send + Sync + 'static {
    move || {
        let late =
            |beat: &Beat, what: &str| beat.overdue(limit).map(|silence| format!("{what} for {} s", silence.as_secs()));
        let no_rounds = || late(&profiles, "profiles have not been looked after");
        let no_watches = || late(&watches, "the thread of the watches has not come round");
        engine.stuck(limit).or_else(no_rounds).or_else(no_watches)
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
#[allow(clippy::too_many_arguments, reason = "the parts of the process meet here once")]
pub(super) fn assemble(
    options: &Options,
    workers: Workers,
    clients: Clients,
    denials: Denials,
    gate: &Gate,
    evidence: &Arc<Notify>,
    policy: AddressPolicy,
    connector: Connector,
    notify: mpsc::UnboundedSender<Notice>,
) -> Context {
    let to_engine: Arc<OnceLock<Deliver>> = Arc::default();
    let deliver = watch_for_denials(deliver_once_set(to_engine.clone()), evidence.clone());
    let store = Arc::<ObjectStore>::default();
    let ledgers: Arc<OnceLock<Engine>> = Arc::default();
    let recheck: Arc<dyn Recheck> = Arc::new(Known(ledgers.clone()));
    let extender_clients = ExtenderClients::new(extender::Options {
        policy,
        connector,
        kube: clients.writes.clone(),
        store: store.clone(),
        key_of: extenders::key_of(ledgers.clone()),
        gate: gate.clone(),
        recheck: recheck.clone(),
        bound_within: extender::BOUND_WITHIN,
        lands_within: extender::LANDS_WITHIN,
        deliver: deliver.clone(),
        // Who would hear it has ended.
        notify: Arc::new(move |notice| drop(notify.send(notice))),
    });
    let writers = Writers::new(options, &clients, gate, &recheck, extender_clients, deliver);
    let engine = Engine::with(workers, |deliver| {
        // Set once, right here.
        let _ = to_engine.set(deliver);
        writers.clone()
    });
    if options.plugin_metrics {
        engine.measure_plugins();
    }
    let _ = ledgers.set(engine.clone());
    Context {
        clients,
        gate: gate.clone(),
        engine,
        writers,
        store,
        denials,
        writes: Arc::default(),
        board: Board::default(),
        tasks: Tasks::default(),
        audits: Audits::default(),
        beat: Beat::default(),
        watches_beat: Beat::default(),
    }
}

/// What is left to say by a leader that ended in order.
pub(super) struct Farewell {
    reconciler: Reconciler,
    /// The workers as they were last.
    workers: BTreeMap<Str, WorkerView>,
}

/// Reads everything, stands by until the Lease is ours, and works while it lasts.
#[allow(clippy::too_many_arguments, reason = "the parts of the process meet here once")]
pub(super) async fn lead(
    options: &Options,
    cx: &Context,
    gate: &Gate,
    lease: &LeaseHandle,
    health: &Health,
    evidence: Arc<Notify>,
    notices: mpsc::UnboundedReceiver<Notice>,
    stop: &CancellationToken,
) -> Result<Option<Farewell>, OperatorError> {
    let (mut state, mut dead) = (lease.state(), cx.engine.dead());
    let work = CancellationToken::new();
    let _ends_with_us = work.clone().drop_guard();
    let standby = stand_by(options, cx, &mut state, health, evidence, &work);
    let (watches, since) = tokio::select! {
        led = standby => led?,
        () = stop.cancelled() => return Ok(None),
        reason = dead.wait_for(Option::is_some) => return Err(died(reason.ok().and_then(|reason| reason.clone()))),
    };
    tracing::info!(lease = LEASE_NAME, namespace = options.lease_namespace, identity = %options.identity, "leading");
    announce::leadership(cx, options, &lease.uid(), true);
    let foreign_from = Instant::now() + options.lease_timing.duration;
    let warm = open_gate(cx, gate, watches, since, lease.last_seen(), &work);
    let namespace = &options.state_namespace;
    let revisions = Revisions::load(cx.clients.rest.clone(), gate.clone(), namespace).await;
    let revisions = revisions.map_err(|fault| OperatorError::State { namespace: namespace.clone(), fault })?;
    let references = References::default();
    start_tasks(options, cx, &references, &work);
    let mut reconciler = Reconciler::new(cx.clone(), options, foreign_from, revisions, references, notices);
    let result = tokio::select! {
        ended = AssertUnwindSafe(reconciler.run(warm, health, &work)).catch_unwind() => ended.map_err(|panic| {
            OperatorError::Dead(format!("the task that looks after the profiles panicked: {}", panic_message(&*panic)))
        }),
        () = stop.cancelled() => Ok(()),
        reason = lost(&mut state, cx) => Err(OperatorError::LeaseLost(reason)),
        reason = dead.wait_for(Option::is_some) => Err(died(reason.ok().and_then(|reason| reason.clone()))),
    };
    health.fail(Check::Process, "ending");
    cx.beat.end();
    if let Err(error) = result {
        // Nothing of ours may be sent any more, and a successor finds everything in the cluster.
        gate.shut();
        if matches!(error, OperatorError::Dead(_)) {
            // We hold the Lease still, and what was sent may land.
            cx.writers.land(LAND_WITHIN).await;
        }
        return Err(error);
    }
    let workers = wind_down(cx).await;
    announce::leadership(cx, options, &lease.uid(), false);
    lease.leave(last_seen(cx).await);
    Ok(Some(Farewell { reconciler, workers }))
}

/// Reads everything and stands by until we lead. Returns the watches, and since when we lead.
async fn stand_by(
    options: &Options,
    cx: &Context,
    state: &mut watch::Receiver<LeaseState>,
    health: &Health,
    evidence: Arc<Notify>,
    work: &CancellationToken,
) -> Result<(Vec<Arc<Fed>>, tokio::time::Instant), OperatorError> {
    // What is read after the Lease was taken needs no barrier: a process that leads from its start reads once. An error is the
    // end of the election, which the next look finds.
    let _first = state.wait_for(|state| *state != LeaseState::Starting { fault: None }).await.map(drop);
    let (began, at_once) = (tokio::time::Instant::now(), *state.borrow() == LeaseState::Leading);
    let watches = start_watches(options, cx, health, evidence, work);
    await_leadership(options, cx, state, health).await?;
    Ok((watches, if at_once { began } else { tokio::time::Instant::now() }))
}

fn died(reason: Option<String>) -> OperatorError {
    OperatorError::Dead(reason.unwrap_or_default())
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
fn start_tasks(options: &Options, cx: &Context, references: &References, work: &CancellationToken) {
    let namespace = &options.state_namespace;
    let (of_task, stop) = (cx.clone(), work.clone());
    cx.tasks.spawn("pauses", work.clone(), move || follow_pauses(of_task.clone(), stop.clone()));
    let (of_task, stop) = (cx.clone(), work.clone());
    cx.tasks.spawn("orphans", work.clone(), move || announce::orphans(of_task.clone(), stop.clone()));
    let (of_task, stop) = (cx.clone(), work.clone());
    cx.tasks.spawn("nominations", work.clone(), move || abandoned::run(of_task.clone(), stop.clone()));
    let (of_task, own_namespace, stop) = (cx.clone(), namespace.clone(), work.clone());
    cx.tasks.spawn("routing", work.clone(), move || routing::run(of_task.clone(), own_namespace.clone(), stop.clone()));
    let (references, of_task) = (references.clone(), cx.clone());
    let (state_namespace, stop) = (namespace.clone(), work.clone());
    cx.tasks.spawn("references", work.clone(), move || {
        let (client, denials) = (of_task.clients.rest.clone(), of_task.denials.clone());
        references.clone().run(client, state_namespace.clone(), denials, stop.clone())
    });
}

/// Unsent binds back, sent ones awaited. Leadership lasts meanwhile. Returns the workers as they were.
async fn wind_down(cx: &Context) -> BTreeMap<Str, WorkerView> {
    tracing::info!("ending: unsent binds go back, sent ones are awaited");
    let last = cx.engine.workers();
    cx.engine.stop_all().await;
    cx.writers.land(LAND_WITHIN).await;
    last
}

/// What is said after the Lease was released, so that a successor need not wait for it: events of what was done, and, if nobody
/// has taken over by now, that nobody leads. A status names the resourceVersion that it follows: one of ours never overwrites a
/// successor's.
async fn say_farewell(options: &Options, cx: &Context, farewell: Farewell, is_free: bool) {
    let Farewell { mut reconciler, workers } = farewell;
    let status = async {
        if !has_successor(options, cx, is_free).await {
            reconciler.say_farewell(&workers, FAREWELL_WITHIN).await;
        }
    };
    tokio::join!(cx.writers.events.flush(EVENTS_WITHIN), status);
}

/// Whether a successor takes the Lease soon. Asks only if the Lease `is_free`: otherwise nobody can take it before it expires.
pub(super) async fn has_successor(options: &Options, cx: &Context, is_free: bool) -> bool {
    let client = cx.clients.rest.clone();
    is_free && is_taken(client, &options.lease_namespace, &options.identity, SUCCESSOR_WITHIN).await
}

/// Starts what a standby does as well: the watches, their audit, and the look at what we may do and at the installed definition.
fn start_watches(
    options: &Options,
    cx: &Context,
    health: &Health,
    evidence: Arc<Notify>,
    work: &CancellationToken,
) -> Vec<Arc<Fed>> {
    let watches = watches::start(cx, work);
    cx.board.lock().watches.clone_from(&watches);
    let (followed, health, stop) = (watches.clone(), health.clone(), work.clone());
    cx.tasks.spawn("caches", work.clone(), move || follow_watches(followed.clone(), health.clone(), stop.clone()));
    let (of_task, state_namespace, stop) = (cx.clone(), options.state_namespace.clone(), work.clone());
    cx.tasks.spawn("housekeeping", work.clone(), move || {
        housekeeping::run(of_task.clone(), state_namespace.clone(), evidence.clone(), stop.clone())
    });
    if let Some(every) = options.audit_interval {
        let (of_task, audited, stop) = (cx.clone(), watches.clone(), work.clone());
        cx.tasks.spawn("audit", work.clone(), move || {
            drift::run(of_task.clone(), audited.clone(), every, Patience::default(), stop.clone())
        });
    }
    watches
}

/// Says which kinds were not read yet, and afterwards which watch is behind.
async fn follow_watches(watches: Vec<Arc<Fed>>, health: Health, work: CancellationToken) {
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
    tracing::info!(kinds = watches.len(), seconds = began.elapsed().as_secs_f64(), "cluster read");
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

/// Opens the gate once everything is as new as leadership, which began at `since`, and says so.
fn open_gate(
    cx: &Context,
    gate: &Gate,
    watches: Vec<Arc<Fed>>,
    since: tokio::time::Instant,
    last_seen: Option<String>,
    work: &CancellationToken,
) -> watch::Receiver<bool> {
    let (warm, warmed) = watch::channel(false);
    let (of_task, gate, stop) = (cx.clone(), gate.clone(), work.clone());
    cx.tasks.spawn("barrier", work.clone(), move || {
        let (cx, gate, watches) = (of_task.clone(), gate.clone(), watches.clone());
        let (last_seen, warm, stop) = (last_seen.clone(), warm.clone(), stop.clone());
        async move {
            let passed = stop.run_until_cancelled(pass_barrier(&cx, &watches, since, last_seen.as_deref())).await;
            if passed.is_some() {
                gate.admit();
                warm.send_replace(true);
                stop.cancelled().await;
            }
        }
    });
    warmed
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
