//! The addresses of the API server, which no profile may name as an extender's. They change while the process runs: a control plane
//! is replaced, or grows.

use super::ip::{embedded, meant};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

/// The addresses as they were read last. Cheap to clone; all clones share them.
#[derive(Debug, Clone, Default)]
pub struct ApiServers(Arc<RwLock<Option<BTreeSet<IpAddr>>>>);

impl ApiServers {
    /// Replaces the addresses.
    pub fn set(&self, addresses: impl IntoIterator<Item = IpAddr>) {
        let addresses = addresses.into_iter().map(meant).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(addresses);
    }

    /// Whether they were never read.
    pub fn are_unknown(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Whether `address` is one of them, also in disguise.
    pub(super) fn contain(&self, address: IpAddr) -> bool {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = &*known else { return false };
        known.contains(&meant(address)) || embedded(address).any(|v4| known.contains(&v4.into()))
    }
}

impl FromIterator<IpAddr> for ApiServers {
    fn from_iter<T: IntoIterator<Item = IpAddr>>(addresses: T) -> Self {
        let servers = Self::default();
        servers.set(addresses);
        servers
    }
}
