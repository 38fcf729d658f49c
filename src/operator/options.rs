use berth_cluster::client::{ConnectError, Fault};
use berth_cluster::lease::{Identity, Timing};
use berth_cluster::served_crd::ServedCrdError;
use berth_extender::address::RuleError;
use berth_telemetry::{Logs, ServeError};
use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

/// How the operator was started; the options of `berth operator` say what each value does.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Options {
    pub kubeconfig: Option<PathBuf>,
    /// `/livez`, `/readyz` and `/metrics`.
    pub http_address: SocketAddr,
    /// `/livez` and `/readyz` once more.
    pub probe_address: Option<SocketAddr>,
    /// The pages that look into the process; a loopback address.
    pub debug_address: Option<SocketAddr>,
    /// The flags in force, by name, for whoever looks at them.
    pub flags: BTreeMap<String, String>,
    /// Whether the API server is asked who may read `/metrics`.
    pub metrics_authorization: bool,
    /// Whether single plugins are measured.
    pub plugin_metrics: bool,
    /// One for all installations of a cluster.
    pub lease_namespace: String,
    pub lease_timing: Timing,
    /// All replicas of an installation have this name, and no other installation of the cluster.
    pub installation: String,
    /// The namespace of what outlives a restart: last good specs. Secrets and ConfigMaps of extenders are read from it.
    pub state_namespace: String,
    pub serve_default_scheduler: bool,
    /// Whether the admission policy is installed that reads routes from profiles' statuses.
    pub namespace_routing: bool,
    pub extender_allow_host: Vec<String>,
    pub extender_allow_http: Vec<String>,
    /// Binds in flight at once; at least 1.
    pub bind_concurrency: usize,
    /// Binds a second at most; no cap without.
    pub bind_qps: Option<f64>,
    /// Whether events about pods are written.
    pub events: bool,
    /// How often the watches are compared with what the API server has; never without.
    pub audit_interval: Option<Duration>,
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

/// Why the operator ended. Each text names the object and the fix.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Crd(#[from] ServedCrdError),
    #[error("the API server forbids what the operator needs: {0}")]
    Forbidden(Box<str>),
    /// The Lease cannot be read or written.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Last good specs cannot be read.
    #[error("last good specs in namespace {namespace}: {fault}{}", hint(.fault))]
    State { namespace: String, fault: Fault },
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

/// Outside of a pod nothing tells the process where its account may keep them.
fn hint(fault: &Fault) -> &'static str {
    if fault.is_forbidden() {
        "; the chart's account has this right in the release's namespace alone: --state-namespace names another one"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_without_the_right_is_told_with_the_option_that_names_another() {
        let fault = |code| Fault::from_status("list", "controllerrevisions.apps", code, "no");
        let text = |code| OperatorError::State { namespace: "kube-system".to_owned(), fault: fault(code) }.to_string();
        assert!(text(403).starts_with("last good specs in namespace kube-system: 403: may not list"), "{}", text(403));
        assert!(text(403).contains("--state-namespace") && !text(500).contains("--state-namespace"), "{}", text(500));
    }
}
