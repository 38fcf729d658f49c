//! `berth operator`: the controller and its workers.

use super::{Answer, calling::AllowArgs, threads};
use crate::operator::{self, Options, OwnPod};
use anyhow::Context;
use berth_cluster::lease::{Identity, Timing, TimingError};
use berth_telemetry::{LogFormat, Logs, init_logs, raise_open_files};
use clap::ValueEnum;
use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Longest wait for the last lines of the log: whoever reads them may have stopped.
const LOGGED_WITHIN: Duration = Duration::from_secs(1);

/// Longest wait for the last lines of the log where the process ends at once.
const LOGGED_AT_ONCE: Duration = Duration::from_millis(100);

/// Arguments of `berth operator`. Each can be given by an environment variable too.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct Args {
    /// The kubeconfig to use. Without it: KUBECONFIG, ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE", env = "BERTH_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,

    /// Where /livez, /readyz and /metrics are served; port 0 is any free one, which the log names. [::] takes IPv4 too.
    #[arg(long, value_name = "ADDRESS", env = "BERTH_HTTP_ADDRESS", default_value = "127.0.0.1:8080")]
    http_address: SocketAddr,

    /// Where /livez and /readyz are served besides: no client of the other address can keep a probe from its answer.
    #[arg(long, value_name = "ADDRESS", env = "BERTH_PROBE_ADDRESS")]
    probe_address: Option<SocketAddr>,

    /// Where /debug, /statusz, /flagz and /configz are served (docs/debugging.md): a loopback address, such as 127.0.0.1:8082. Nothing
    /// is without it.
    #[arg(long, value_name = "ADDRESS", env = "BERTH_DEBUG_ADDRESS", value_parser = loopback)]
    debug_address: Option<SocketAddr>,

    /// Serve /metrics only to bearer tokens whose owner may get /metrics, as the API server says (TokenReview and
    /// SubjectAccessReview).
    #[arg(long, value_name = "BOOL", env = "BERTH_METRICS_AUTHORIZATION", default_value_t = false,
        action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    metrics_authorization: bool,

    /// Measure single plugins and serve it as scheduler_plugin_execution_duration_seconds: up to 500 series more for each profile.
    #[arg(long, env = "BERTH_PLUGIN_METRICS")]
    plugin_metrics: bool,

    /// The namespace of the Lease. All installations of a cluster must agree on it: it keeps two from working at once.
    #[arg(long, value_name = "NAMESPACE", env = "BERTH_LEASE_NAMESPACE", default_value = "kube-system")]
    lease_namespace: String,

    /// How long others wait, after the leader's last renewal of the Lease, before they take over: whole seconds.
    #[arg(long, value_name = "DURATION", env = "BERTH_LEADER_ELECT_LEASE_DURATION", default_value = "15s")]
    leader_elect_lease_duration: berth_api::Duration,

    /// How long after its last renewal the leader goes on. It stops to write earlier, 9s before the lease is over, until it is renewed.
    #[arg(long, value_name = "DURATION", env = "BERTH_LEADER_ELECT_RENEW_DEADLINE", default_value = "10s")]
    leader_elect_renew_deadline: berth_api::Duration,

    /// How often the leader renews the Lease, and others look at it.
    #[arg(long, value_name = "DURATION", env = "BERTH_LEADER_ELECT_RETRY_PERIOD", default_value = "2s")]
    leader_elect_retry_period: berth_api::Duration,

    /// What this installation is called in the Lease: the same for all its replicas, and different from any other installation
    /// of the cluster. Without it: the namespace for last good specs.
    #[arg(long, value_name = "NAME", env = "BERTH_INSTALLATION")]
    installation: Option<String>,

    /// The namespace for last good specs (ControllerRevisions). Without it: the pod's own, or that of the Lease. Outside of a
    /// pod, under the chart's account, it is the release's namespace: the account has no such right elsewhere.
    #[arg(long, value_name = "NAMESPACE", env = "BERTH_STATE_NAMESPACE")]
    state_namespace: Option<String>,

    /// Let profiles serve default-scheduler: for clusters that run no kube-scheduler.
    #[arg(long, env = "BERTH_SERVE_DEFAULT_SCHEDULER")]
    serve_default_scheduler: bool,

    /// Write into profiles' statuses which namespaces they route (spec.namespaces.route): the chart's admission policy, which reads
    /// it there, is installed.
    #[arg(long, env = "BERTH_NAMESPACE_ROUTING")]
    namespace_routing: bool,

    #[command(flatten)]
    extenders: AllowArgs,

    /// Binds in flight at once.
    #[arg(long, value_name = "N", env = "BERTH_BIND_CONCURRENCY", default_value_t = 64,
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    bind_concurrency: u16,

    /// Binds a second at most; 0 is no cap.
    #[arg(long, value_name = "RATE", env = "BERTH_BIND_QPS", default_value_t = 0.0, value_parser = rate)]
    bind_qps: f64,

    /// Whether events about pods (Scheduled, FailedScheduling) are written.
    #[arg(long, value_name = "BOOL", env = "BERTH_EVENTS", default_value_t = true,
        action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    events: bool,

    /// How often what the watches have shown is compared with what the API server has; 0s is never.
    #[arg(long, value_name = "DURATION", env = "BERTH_AUDIT_INTERVAL", default_value = "5m", value_parser = audit_interval)]
    audit_interval: berth_api::Duration,

    /// The form of the log on standard error.
    #[arg(long, value_enum, env = "BERTH_LOG_FORMAT", default_value_t)]
    log_format: LogFormat,

    /// How much is logged: error, warn, info, debug, trace, or directives such as info,berth=debug.
    #[arg(long, value_name = "LEVEL", env = "BERTH_LOG_LEVEL", default_value = "info")]
    log_level: String,

    /// The pod that the operator runs in (downward API): its name begins the identity in the Lease.
    #[arg(long, env = "POD_NAME", hide = true)]
    pod_name: Option<String>,

    /// That pod's namespace.
    #[arg(long, env = "POD_NAMESPACE", hide = true)]
    pod_namespace: Option<String>,

    /// That pod's uid.
    #[arg(long, env = "POD_UID", hide = true, default_value = "")]
    pod_uid: String,
}

/// Binds a second: not negative, and a number.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0);
    rate.ok_or_else(|| "not a rate: write a number of binds a second, such as 200, or 0 for no cap".to_owned())
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "not an address: write one such as 127.0.0.1:8082".to_owned())?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err("not a loopback address: what is served there is for this machine alone; write one such as 127.0.0.1:8082"
        .to_owned())
}

/// The least time between two audits: each lists every kind.
const AUDITED_AT_MOST_EVERY: berth_api::Duration = berth_api::Duration::from_secs(10);

fn audit_interval(text: &str) -> Result<berth_api::Duration, String> {
    let interval: berth_api::Duration = text.parse().map_err(|error: berth_api::DurationError| error.to_string())?;
    if interval == berth_api::Duration::default() || interval >= AUDITED_AT_MOST_EVERY {
        return Ok(interval);
    }
    Err(format!("an audit lists every kind: write {AUDITED_AT_MOST_EVERY} or more, or 0s for none"))
}

pub(super) fn run(args: Args) -> anyhow::Result<Answer> {
    let logs = init_logs(args.log_format, &args.log_level).map_err(|error| anyhow::anyhow!("{error}"))?;
    let options = options(args, logs.clone())?;
    tracing::debug!(limit = raise_open_files(), "open files");
    let threads = threads::of_event_loop(threads::cores());
    tracing::debug!(threads, "event loop");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(threads::WAITING)
        .enable_all()
        .build()
        .context("no threads for the operator: raise the process's limit of threads")?;
    let result = runtime.block_on(async {
        let stop = CancellationToken::new();
        stop_on_signals(&stop, logs.clone())?;
        // The error's text includes its sources.
        operator::run(options, stop).await.map_err(|error| anyhow::anyhow!("{error}"))
    });
    // Do not wait for tasks that wait for the network.
    runtime.shutdown_background();
    if logs.flush(LOGGED_WITHIN) {
        return result.map(|()| Answer::Done);
    }
    // Nobody reads what is written to standard error: the error would be waited for as well, without end.
    Ok(if result.is_ok() { Answer::Done } else { Answer::Failed })
}

/// The flags in force, with their defaults. None is a secret; those that name our own pod are no flags for people.
fn flags(args: &Args) -> BTreeMap<String, String> {
    let or_none = |value: Option<String>| value.unwrap_or_default();
    let log_format = args.log_format.to_possible_value().map(|value| value.get_name().to_owned());
    [
        ("audit-interval", args.audit_interval.to_string()),
        ("bind-concurrency", args.bind_concurrency.to_string()),
        ("bind-qps", args.bind_qps.to_string()),
        ("debug-address", or_none(args.debug_address.map(|address| address.to_string()))),
        ("events", args.events.to_string()),
        ("extender-allow-host", args.extenders.extender_allow_host.join(",")),
        ("extender-allow-http", args.extenders.extender_allow_http.join(",")),
        ("http-address", args.http_address.to_string()),
        ("installation", or_none(args.installation.clone())),
        ("kubeconfig", or_none(args.kubeconfig.as_ref().map(|path| path.display().to_string()))),
        ("leader-elect-lease-duration", args.leader_elect_lease_duration.to_string()),
        ("leader-elect-renew-deadline", args.leader_elect_renew_deadline.to_string()),
        ("leader-elect-retry-period", args.leader_elect_retry_period.to_string()),
        ("lease-namespace", args.lease_namespace.clone()),
        ("log-format", or_none(log_format)),
        ("log-level", args.log_level.clone()),
        ("metrics-authorization", args.metrics_authorization.to_string()),
        ("namespace-routing", args.namespace_routing.to_string()),
        ("plugin-metrics", args.plugin_metrics.to_string()),
        ("probe-address", or_none(args.probe_address.map(|address| address.to_string()))),
        ("serve-default-scheduler", args.serve_default_scheduler.to_string()),
        ("state-namespace", or_none(args.state_namespace.clone())),
    ]
    .map(|(flag, value)| (flag.to_owned(), value))
    .into()
}

fn options(args: Args, logs: Logs) -> Result<Options, TimingError> {
    let flags = flags(&args);
    let pod = args.pod_name.filter(|name| !name.is_empty()).map(|name| OwnPod {
        namespace: args.pod_namespace.unwrap_or_else(|| args.lease_namespace.clone()),
        name,
        uid: args.pod_uid,
    });
    let own_namespace = pod.as_ref().map(|pod| pod.namespace.clone());
    let state_namespace = args.state_namespace.or(own_namespace).unwrap_or_else(|| args.lease_namespace.clone());
    let lease_timing = Timing::new(
        args.leader_elect_lease_duration.get(),
        args.leader_elect_renew_deadline.get(),
        args.leader_elect_retry_period.get(),
    )?;
    Ok(Options {
        kubeconfig: args.kubeconfig,
        http_address: args.http_address,
        probe_address: args.probe_address,
        debug_address: args.debug_address,
        flags,
        metrics_authorization: args.metrics_authorization,
        plugin_metrics: args.plugin_metrics,
        installation: args.installation.unwrap_or_else(|| state_namespace.clone()),
        state_namespace,
        lease_namespace: args.lease_namespace,
        lease_timing,
        serve_default_scheduler: args.serve_default_scheduler,
        namespace_routing: args.namespace_routing,
        extender_allow_host: args.extenders.extender_allow_host,
        extender_allow_http: args.extenders.extender_allow_http,
        bind_concurrency: usize::from(args.bind_concurrency),
        bind_qps: (args.bind_qps > 0.0).then_some(args.bind_qps),
        events: args.events,
        audit_interval: Some(args.audit_interval.get()).filter(|interval| !interval.is_zero()),
        logs,
        identity: match &pod {
            Some(pod) => Identity::new(&pod.name, &pod.uid),
            None => Identity::new(&outside_a_pod(), ""),
        },
        pod,
    })
}

/// The machine's name, for an operator that runs in no pod.
fn outside_a_pod() -> String {
    let name = std::env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let name = name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    name.unwrap_or_else(|| "berth".to_owned())
}

/// The first SIGTERM or SIGINT ends in order; a second one ends at once.
fn stop_on_signals(stop: &CancellationToken, logs: Logs) -> anyhow::Result<()> {
    let listen = |kind| signal(kind).context("signals cannot be listened for");
    let (mut term, mut int) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let stop = stop.clone();
    tokio::spawn(async move {
        loop {
            let name = tokio::select! {
                _ = term.recv() => "SIGTERM",
                _ = int.recv() => "SIGINT",
            };
            if stop.is_cancelled() {
                tracing::warn!(signal = name, "second signal: ending at once");
                logs.flush(LOGGED_AT_ONCE);
                std::process::abort();
            }
            tracing::info!(signal = name, "ending in order");
            stop.cancel();
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parse(args: &[&str]) -> anyhow::Result<Options> {
        let all = std::iter::once("operator").chain(args.iter().copied());
        Ok(options(Command::try_parse_from(all)?.args, Logs::default())?)
    }

    #[test]
    fn the_defaults_and_what_the_chart_gives() {
        let options = parse(&["--pod-name", "berth-0", "--pod-namespace", "berth", "--bind-qps=0"]).unwrap();
        assert_eq!((options.identity.name(), &*options.state_namespace), ("berth-0", "berth"));
        assert_eq!((&*options.lease_namespace, options.bind_qps, options.events), ("kube-system", None, true));
        assert_eq!(options.http_address.to_string(), "127.0.0.1:8080");
        assert_eq!((options.probe_address, options.metrics_authorization), (None, false));
        assert_eq!((&*options.installation, options.lease_timing), ("berth", Timing::default()));
        let options =
            parse(&["--installation=a/b", "--leader-elect-lease-duration=1m", "--state-namespace=c"]).unwrap();
        assert_eq!((&*options.installation, options.lease_timing.duration.as_secs()), ("a/b", 60));
        let options = parse(&["--probe-address=[::]:8081", "--metrics-authorization"]).unwrap();
        assert_eq!(options.probe_address.unwrap().to_string(), "[::]:8081");
        assert!(options.metrics_authorization);
        let options =
            parse(&["--events=false", "--bind-qps=200", "--lease-namespace=a", "--bind-concurrency=8"]).unwrap();
        assert_eq!((options.events, options.bind_qps, options.bind_concurrency), (false, Some(200.0), 8));
        assert_eq!(options.audit_interval, Some(Duration::from_mins(5)));
        assert_eq!(parse(&["--audit-interval=0s"]).unwrap().audit_interval, None);
    }

    #[test]
    fn every_flag_is_among_those_in_force() {
        let options = parse(&["--debug-address=[::1]:0", "--log-format=json", "--bind-qps=2.5"]).unwrap();
        let command = <Command as clap::CommandFactory>::command();
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(|arg| arg.get_long());
        assert_eq!(options.flags.keys().map(String::as_str).collect::<Vec<_>>(), {
            let mut all: Vec<&str> = shown.filter(|flag| *flag != "help").collect();
            all.sort_unstable();
            all
        });
        let value = |flag: &str| options.flags[flag].clone();
        assert_eq!(
            ["debug-address", "log-format", "bind-qps", "kubeconfig"].map(value),
            ["[::1]:0", "json", "2.5", ""]
        );
    }

    #[test]
    fn bad_values_are_refused() {
        for bad in [
            "--bind-qps=-1",
            "--bind-qps=NaN",
            "--bind-concurrency=0",
            "--http-address=here",
            "--probe-address=8081",
            "--log-format=xml",
            "--debug-address=0.0.0.0:8082",
            "--debug-address=8082",
            "--audit-interval=5",
            "--audit-interval=9s",
            "--leader-elect-retry-period=2",
            "--leader-elect-lease-duration=11s",
            "--leader-elect-renew-deadline=2s",
        ] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
    }
}
