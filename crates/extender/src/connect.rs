//! Connections to an extender: made to checked addresses, and kept for a while.

use super::connector::Connector;
use super::error::{Failure, broken};
use super::resolve::Resolver;
use super::tls::Tls;
use super::wire::Payload;
use berth_core::io::ExtenderErrorKind;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

/// Addresses tried for one call.
const ADDRESSES: usize = 3;

/// Connect timeout of each address but the last, which may use the rest of the call's time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// An idle connection is kept this long: less than servers commonly keep theirs.
const IDLE: Duration = Duration::from_secs(30);

/// Bytes of a connection's read buffer, which are also the most that a reply's headers may have.
const BUFFER: usize = 64 << 10;

/// A connection with the task that drives it.
pub(super) struct Connection {
    pub(super) sender: SendRequest<Payload>,
    /// Whether a call was made on it before: the server may be closing it.
    pub(super) is_used: bool,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) struct Pool {
    resolver: Resolver,
    connector: Connector,
    tls: Option<Tls>,
    most: usize,
    idle: Mutex<Vec<(Instant, Connection)>>,
}

impl Pool {
    /// Keeps `most` idle connections at most.
    pub(super) fn new(resolver: Resolver, connector: Connector, tls: Option<Tls>, most: usize) -> Self {
        Self { resolver, connector, tls, most, idle: Mutex::new(Vec::new()) }
    }

    /// An idle connection, or a new one if there is none.
    pub(super) async fn take(&self) -> Result<Connection, Failure> {
        while let Some(mut connection) = self.pop() {
            if connection.sender.ready().await.is_ok() {
                return Ok(connection);
            }
        }
        self.connect().await
    }

    fn pop(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        idle.retain(|(since, connection)| now - *since < IDLE && !connection.sender.is_closed());
        idle.pop().map(|(_, connection)| connection)
    }

    /// Returns a connection whose call was answered completely.
    pub(super) fn put(&self, mut connection: Connection) {
        connection.is_used = true;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.most && !connection.sender.is_closed() {
            idle.push((Instant::now(), connection));
        }
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Connection, Failure> {
        let addresses = self.resolver.addresses().await?;
        let tried = &addresses[..addresses.len().min(ADDRESSES)];
        let mut failure = None;
        for (at, address) in tried.iter().enumerate() {
            let connected = if at + 1 == tried.len() {
                self.connect_to(*address).await
            } else {
                let connecting = tokio::time::timeout(CONNECT_TIMEOUT, self.connect_to(*address));
                connecting.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            };
            match connected {
                Ok(connection) => return Ok(connection),
                Err(e) => failure = Some(e),
            }
        }
        self.resolver.forget().await;
        let (kind, why) = failure.map_or((ExtenderErrorKind::Connection, String::new()), |e| broken(&e));
        let tried: Vec<String> = tried.iter().map(ToString::to_string).collect();
        Err(Failure::unsent(kind, format!("no connection to {}: {why}", tried.join(", "))))
    }

    async fn connect_to(&self, address: SocketAddr) -> io::Result<Connection> {
        let stream = (self.connector)(address).await?;
        match &self.tls {
            None => handshake(TokioIo::new(stream)).await,
            Some(tls) => {
                let connector = TlsConnector::from(tls.config.clone());
                handshake(TokioIo::new(connector.connect(tls.server_name.clone(), stream).await?)).await
            }
        }
    }
}

async fn handshake<T: Read + Write + Send + Unpin + 'static>(io: T) -> io::Result<Connection> {
    let (sender, driver) =
        Builder::new().max_buf_size(BUFFER).max_headers(64).handshake(io).await.map_err(io::Error::other)?;
    // The call that waits for an answer gets the error.
    let task = tokio::spawn(async move {
        let _ended = driver.await;
    });
    Ok(Connection { sender, is_used: false, task })
}
