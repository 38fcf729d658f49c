//! From an endpoint to addresses, each checked.

use super::address::{AddressPolicy, Host};
use super::connector::Connector;
use super::endpoints::{read_service, ready_addresses};
use super::error::Failure;
use super::settings::{Endpoint, ServiceKey};
use berth_cluster::transport::Transport;
use berth_core::io::ExtenderErrorKind;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The endpoints of a Service are read again after this time.
const FRESH: Duration = Duration::from_secs(2);

/// EndpointSlices read of one Service.
const MOST_SLICES: u32 = 100;

pub(super) type Lookup = Arc<dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

pub(super) fn system_lookup() -> Lookup {
    Arc::new(|name, port| Box::pin(async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) }))
}

/// What connections need of the process.
#[derive(Clone)]
pub(super) struct Net {
    /// Who may be connected to.
    pub(super) policy: Arc<AddressPolicy>,
    pub(super) lookup: Lookup,
    pub(super) connector: Connector,
    /// Reads the endpoints of Services.
    pub(super) kube: Transport,
}

/// A look-up under way, shared by the calls that wait for it.
type Pending = Shared<BoxFuture<'static, Result<Arc<[SocketAddr]>, Arc<str>>>>;

pub(super) struct Resolver {
    endpoint: Endpoint,
    net: Net,
    read: Mutex<Option<(Instant, Arc<[SocketAddr]>)>>,
    /// One look-up at a time: each blocks a thread of the process until the name server answers, even if the call that
    /// began it has given up.
    pending: std::sync::Mutex<Option<Pending>>,
    turn: AtomicUsize,
}

impl Resolver {
    pub(super) fn new(endpoint: Endpoint, net: Net) -> Self {
        let pending = std::sync::Mutex::default();
        Self { endpoint, net, read: Mutex::new(None), pending, turn: AtomicUsize::new(0) }
    }

    /// At least one address that may be connected to. Calls begin with each address in turn.
    ///
    /// The addresses are looked up once, checked, and nothing else is connected to: a name that resolves to another address a
    /// moment later changes nothing.
    pub(super) async fn addresses(&self) -> Result<Vec<SocketAddr>, Failure> {
        let Endpoint { url, service } = &self.endpoint;
        let host = &url.host;
        let mut found = match (service, host) {
            (Some(service), _) => self.endpoints(service, url.port).await?.to_vec(),
            (None, Host::Address(address)) => vec![SocketAddr::new(*address, url.port)],
            (None, Host::Name(name)) => self.look_up(name, url.port).await?,
        };
        let mut refused = None;
        found.retain(|address| match self.net.policy.check_address(host, address.ip()) {
            Ok(()) => true,
            Err(refusal) => {
                refused = Some(refusal);
                false
            }
        });
        if found.is_empty() {
            return Err(match refused {
                Some(refusal) => Failure::unsent(ExtenderErrorKind::Refused, refusal.to_string()),
                None => Failure::unsent(ExtenderErrorKind::Connection, format!("{host} has no address that is ready")),
            });
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % found.len();
        found.rotate_left(turn);
        Ok(found)
    }

    /// Reads the Service's endpoints again next time: none of the addresses could be connected to.
    pub(super) async fn forget(&self) {
        *self.read.lock().await = None;
    }

    async fn look_up(&self, name: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
        let lock = || self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = || {
            let found = (self.net.lookup)(name.to_owned(), port);
            let found = async move { found.await.map(Arc::from).map_err(|e| Arc::from(e.to_string())) };
            found.boxed().shared()
        };
        let pending = lock().get_or_insert_with(begin).clone();
        let found = pending.clone().await;
        {
            let mut current = lock();
            if current.as_ref().is_some_and(|now| now.ptr_eq(&pending)) {
                *current = None;
            }
        }
        let found = found.map(|found: Arc<[SocketAddr]>| found.to_vec());
        found.map_err(|e| Failure::unsent(ExtenderErrorKind::Connection, format!("host {name} is not found: {e}")))
    }

    async fn endpoints(&self, service: &ServiceKey, port: u16) -> Result<Arc<[SocketAddr]>, Failure> {
        // The lock is kept during the reads: calls that come meanwhile need the same answer.
        let mut read = self.read.lock().await;
        if let Some((at, found)) = &*read
            && at.elapsed() < FRESH
        {
            return Ok(found.clone());
        }
        let at = Instant::now();
        let ServiceKey { namespace, name } = service;
        let (service, slices) = read_service(&self.net.kube, namespace, name, MOST_SLICES).await;
        let failed = |why| {
            let why = format!("endpoints of Service {namespace}/{name}: {why}");
            Failure::unsent(ExtenderErrorKind::Connection, why)
        };
        let Some(found) = ready_addresses(&service.map_err(failed)?, &slices.map_err(failed)?, port) else {
            let why = format!("Service {namespace}/{name} has no TCP port {port}: correct endpoint.service.port");
            return Err(Failure::unsent(ExtenderErrorKind::Connection, why));
        };
        let found: Arc<[SocketAddr]> = found.into();
        *read = Some((at, found.clone()));
        Ok(found)
    }
}
