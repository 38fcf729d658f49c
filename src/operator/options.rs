use berth_cluster::lease::Identity;
use std::net::SocketAddr;
use std::path::PathBuf;

/// How the operator was started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The kubeconfig; without one, `KUBECONFIG`, the usual place, then the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Where `/livez`, `/readyz` and `/metrics` are; port 0 is any free one.
    pub http_address: SocketAddr,
    /// The namespace of the Lease: one for all installations of a cluster.
    pub lease_namespace: String,
    /// The namespace of what outlives a restart: last good specs.
    pub state_namespace: String,
    /// Whether a profile may serve `default-scheduler`.
    pub serve_default_scheduler: bool,
    /// Hosts that extenders may be on, beside Services.
    pub extender_allow_host: Vec<String>,
    /// Hosts that may be spoken to in plain http.
    pub extender_allow_http: Vec<String>,
    /// Binds in flight at once; at least 1.
    pub bind_concurrency: usize,
    /// Binds a second at most; no cap without.
    pub bind_qps: Option<f64>,
    /// Whether events about pods are written.
    pub events: bool,
    /// Our own pod, where we run in one.
    pub pod: Option<OwnPod>,
    /// Who we are in the Lease.
    pub identity: Identity,
}

/// The pod that this process runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid; may be empty.
    pub uid: String,
}
