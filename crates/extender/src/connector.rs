//! How a connection to an address comes about: the outermost step of a call, and the one that a test replaces.

use futures::future::BoxFuture;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A connection before TLS and HTTP.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects to an address that was checked. Costs an allocation for each connection, and an indirect call for each read and write.
pub type Connector = Arc<dyn Fn(SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> + Send + Sync>;

/// Connects over TCP.
pub fn tcp() -> Connector {
    Arc::new(|address| {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    })
}
