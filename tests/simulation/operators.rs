//! The operators: real ones, each with connections of its own to the model API server.

use super::extender_server::connector;
use super::extenders::ALLOWED;
use super::network::Link;
use super::world::{Act, Operator, World};
use berth::operator::{Options, OwnPod, run_inside};
use berth_cluster::client::Clients;
use berth_cluster::lease::{Identity, Timing};
use berth_telemetry::Logs;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Often, for a world is short.
const AUDITED_EVERY: Duration = Duration::from_secs(10);

/// Binds that an operator sends at once.
pub(crate) const BIND_CONCURRENCY: usize = 8;

/// How soon a process is started again that ended by itself.
const RESTARTED_AFTER: Duration = Duration::from_secs(2);

/// Where a process begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    NewPod,
    /// Its container is started again, after the one before it has ended.
    SamePod,
}

fn options(replica: usize, pod: usize, leaves_out: bool) -> Options {
    let (name, uid) = (format!("berth-{replica}"), format!("{pod:08x}-0000"));
    Options {
        kubeconfig: None,
        http_address: ([127, 0, 0, 1], 0).into(),
        probe_address: None,
        debug_address: None,
        flags: BTreeMap::new(),
        metrics_authorization: false,
        plugin_metrics: false,
        audit_interval: leaves_out.then_some(AUDITED_EVERY),
        lease_namespace: "kube-system".to_owned(),
        lease_timing: Timing::default(),
        installation: "kube-system".to_owned(),
        state_namespace: "kube-system".to_owned(),
        serve_default_scheduler: false,
        namespace_routing: false,
        extender_allow_host: Vec::new(),
        extender_allow_http: ALLOWED.map(str::to_owned).to_vec(),
        bind_concurrency: BIND_CONCURRENCY,
        bind_qps: None,
        events: true,
        logs: Logs::default(),
        identity: Identity::new(&name, &uid),
        pod: Some(OwnPod { namespace: "kube-system".to_owned(), name, uid }),
    }
}

/// Starts a process in a replica's place.
pub(crate) fn begin(world: &Arc<World>, replica: usize, home: Home) {
    let stop = CancellationToken::new();
    let (process, pod, leaves_out) = {
        let inner = world.lock();
        let (process, before) = (inner.operators.len(), inner.process_of(replica));
        let same = before.filter(|_| home == Home::SamePod).map(|before| inner.operators[before].pod);
        (process, same.unwrap_or(process), inner.plan.leaves_out)
    };
    let options = options(replica, pod, leaves_out);
    world.lock().operators.push(Operator {
        replica,
        pod,
        holder: options.identity.to_string(),
        connected: true,
        stop: stop.clone(),
        inside: None,
        ended: None,
    });
    let link = Link::new(world.clone(), process);
    let clients = Clients::over(|| link.clone(), "https://10.0.0.1:443", "v1.37.0");
    let connector = connector(world.clone(), process);
    let (shown, world) = (world.clone(), world.clone());
    tokio::task::spawn_local(async move {
        let show = move |inside| shown.lock().operators[process].inside = Some(inside);
        let ended =
            run_inside(options, clients, connector, stop.clone(), show).await.map_err(|error| error.to_string());
        let inside = {
            let mut inner = world.lock();
            inner.trace.note(&["ended"], &[process as u64], format_args!("operator {process} ended: {ended:?}"));
            if let Err(error) = &ended
                && (error.contains("panicked") || error.contains("restart reads everything"))
            {
                inner.rules.breaks("panic", error);
            }
            inner.operators[process].ended = Some(ended);
            inner.operators[process].connected = false;
            if !stop.is_cancelled() {
                let successor = inner.successor(replica);
                inner.later(Instant::now() + RESTARTED_AFTER, successor);
                world.hurry.notify_one();
            }
            inner.operators[process].inside.take()
        };
        if let Some(inside) = inside {
            // In a process of its own the workers end with it.
            inside.engine().stop_all().await;
        }
    });
}

/// Ends a process as SIGKILL does: what it sent may still be carried out, and nothing follows.
pub(crate) fn kill(world: &Arc<World>, replica: usize, back_at: Instant) {
    let mut inner = world.lock();
    let Some(process) = inner.process_of(replica).filter(|process| !inner.operators[*process].stop.is_cancelled())
    else {
        return;
    };
    if inner.operators[process].ended.is_some() {
        return;
    }
    inner.trace.note(&["kill"], &[process as u64], format_args!("operator {process} is killed"));
    inner.operators[process].connected = false;
    inner.operators[process].stop.cancel();
    let successor = inner.successor(replica);
    inner.later(back_at, successor);
}

/// Ends a process as SIGTERM does.
pub(crate) fn stop(world: &Arc<World>, replica: usize, back_at: Instant) {
    let mut inner = world.lock();
    let Some(process) = inner.process_of(replica).filter(|process| !inner.operators[*process].stop.is_cancelled())
    else {
        return;
    };
    if inner.operators[process].ended.is_some() {
        return;
    }
    inner.trace.note(&["stop"], &[process as u64], format_args!("operator {process} is stopped"));
    inner.operators[process].stop.cancel();
    inner.later(back_at, Act::Begin(replica, Home::NewPod));
}
