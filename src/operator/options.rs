use berth_cluster::lease::{Identity, Timing};
use berth_telemetry::Logs;
use std::{net::SocketAddr, path::PathBuf};

/// How the operator was started; the options of `berth operator` say what each value does.
#[derive(Debug, Clone)]
pub struct Options {
    pub kubeconfig: Option<PathBuf>,
    /// `/livez`, `/readyz` and `/metrics`.
    pub http_address: SocketAddr,
    /// `/livez` and `/readyz` once more.
    pub probe_address: Option<SocketAddr>,
    /// Whether the API server is asked who may read `/metrics`.
    pub metrics_authorization: bool,
    /// One for all installations of a cluster.
    pub lease_namespace: String,
    pub lease_timing: Timing,
    /// All replicas of an installation have this name, and no other installation of the cluster.
    pub installation: String,
    /// The namespace of what outlives a restart: last good specs. Secrets and ConfigMaps of extenders are read from it.
    pub state_namespace: String,
    pub serve_default_scheduler: bool,
    pub extender_allow_host: Vec<String>,
    pub extender_allow_http: Vec<String>,
    /// Binds in flight at once; at least 1.
    pub bind_concurrency: usize,
    /// Binds a second at most; no cap without.
    pub bind_qps: Option<f64>,
    /// Whether events about pods are written.
    pub events: bool,
    /// Where this process logs: what is lost there is a metric.
    pub logs: Logs,
    pub pod: Option<OwnPod>,
    /// Ours in the Lease.
    pub identity: Identity,
}

/// The pod that this process runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnPod {
    pub namespace: String,
    pub name: String,
    /// May be empty.
    pub uid: String,
}
