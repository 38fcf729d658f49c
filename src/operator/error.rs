use super::denials::Permission;
use berth_cluster::client::{ConnectError, Fault};
use berth_cluster::served_crd::ServedCrdError;
use berth_extender::address::RuleError;
use berth_telemetry::ServeError;

/// Why the operator ended. Each text names the object and the fix.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The custom resource definition is missing or cannot be read.
    #[error(transparent)]
    Crd(#[from] ServedCrdError),
    /// An essential permission is missing.
    #[error("the API server forbids what the operator needs: {0}")]
    Forbidden(Box<str>),
    /// The Lease or last good specs cannot be read or written.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// An option about extenders has a value that is not a host.
    #[error(transparent)]
    Extender(#[from] RuleError),
    /// The HTTP endpoints cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Another process may lead by now.
    #[error("leadership lost: {0}; a restart waits for the Lease again")]
    LeaseLost(String),
    /// The state of the process may be wrong.
    #[error("{0}; a restart reads everything anew")]
    Dead(String),
}

impl OperatorError {
    pub(super) fn forbidden(permission: Permission) -> Self {
        Self::Forbidden(permission.to_string().into())
    }
}
