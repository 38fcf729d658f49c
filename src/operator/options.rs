use berth_cluster::lease::Identity;
use std::net::SocketAddr;
use std::path::PathBuf;

/// How the operator was started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The kubeconfig; without one, `KUBECONFIG`, the usual place, then the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// For `/livez`, `/readyz` and `/metrics`; port 0 takes any free one.
    pub http_address: SocketAddr,
    /// One for all installations of a cluster.
    pub lease_namespace: String,
    /// The namespace of what outlives a restart: last good specs. Secrets and ConfigMaps of extenders are read from it.
    pub state_namespace: String,
    /// Whether a profile may serve `default-scheduler`.
    pub serve_default_scheduler: bool,
    /// Hosts that extenders may have, beside Services.
    pub extender_allow_host: Vec<String>,
    /// Hosts for which plain http is allowed.
    pub extender_allow_http: Vec<String>,
    /// Binds in flight at once; at least 1.
    pub bind_concurrency: usize,
    /// Binds a second at most; no cap without.
    pub bind_qps: Option<f64>,
    /// Whether events about pods are written.
    pub events: bool,
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
