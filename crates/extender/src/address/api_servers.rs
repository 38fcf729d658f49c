//! The addresses of the API server, which no profile may name as an extender's. They change while the process runs: a control plane
//! is replaced, or grows.

use super::ip::{embedded, meant};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

/// The addresses as they were read last. Cheap to clone; all clones share them.
#[derive(Debug, Clone, Default)]
pub struct ApiServers(Arc<RwLock<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Those that the cluster tells; `None` before it was asked with success.
    reported: Option<BTreeSet<IpAddr>>,
    /// Those behind the name by which we reach the server.
    named: BTreeSet<IpAddr>,
}

impl ApiServers {
    /// Replaces the addresses that the cluster tells.
    pub fn set(&self, reported: impl IntoIterator<Item = IpAddr>) {
        let reported = reported.into_iter().map(meant).collect();
        self.0.write().unwrap_or_else(PoisonError::into_inner).reported = Some(reported);
    }

    /// Replaces the addresses behind the server's name.
    pub(crate) fn set_named(&self, named: impl IntoIterator<Item = IpAddr>) {
        let named = named.into_iter().map(meant).collect();
        self.0.write().unwrap_or_else(PoisonError::into_inner).named = named;
    }

    /// Whether they were never read.
    pub fn are_unknown(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).reported.is_none()
    }

    /// Whether `address` is one of them, also in disguise.
    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let is_known = |address: &IpAddr| {
            known.reported.as_ref().is_some_and(|reported| reported.contains(address)) || known.named.contains(address)
        };
        is_known(&meant(address)) || embedded(address).any(|v4| is_known(&v4.into()))
    }
}

impl FromIterator<IpAddr> for ApiServers {
    fn from_iter<T: IntoIterator<Item = IpAddr>>(addresses: T) -> Self {
        let servers = Self::default();
        servers.set(addresses);
        servers
    }
}
