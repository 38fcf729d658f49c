//! HTTP/1.1 connections to the API server, each driven by the task that waits for its answer.
//!
//! A request through kube's client passes a channel, several boxed services, a pool and a task of its connection, and each of these wakes
//! another one. A bind and its event are most of what a bound pod costs, so they take one task, one connection and one allocation of each
//! kind. Certificates, tokens and headers stay kube's: its own layers make them.

use crate::client::{CONNECT_TIMEOUT, root_cause};
use crate::lock;
use crate::requests::Requests;
use crate::send::{Answer, Call, NoAnswer};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Ready, ready};
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::HttpConnector;
use kube::Config;
use kube::client::{Body, ConfigExt};
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

/// An idle connection is kept this long: less than an API server and the proxies before it commonly keep theirs.
const IDLE: Duration = Duration::from_secs(50);

/// How long a request that finds no idle connection waits for one, while another connection is being made, before it makes its own. A
/// handshake takes the API server as long as a few requests: where it falls behind for a moment, one for each request that comes
/// meanwhile would hold up all of them.
const TURN: Duration = if cfg!(test) { Duration::from_secs(20) } else { Duration::from_millis(50) };

/// Bytes under the HTTP, TLS included.
trait Stream: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> Stream for T {}

type Connect = Box<dyn Fn() -> BoxFuture<'static, Result<Box<dyn Stream>, BoxError>> + Send + Sync>;
type Sign = BoxCloneSyncService<Request<Body>, Response<()>, BoxError>;

/// Connections to one API server under one identity. There are as many as there were requests at a time for more than a moment.
pub struct Connections {
    connect: Connect,
    /// Gives a request what kube's configuration says of all of them: credentials, impersonation, the user agent.
    sign: Sign,
    /// The path of the API server itself, where it has one behind a proxy.
    path: String,
    host: HeaderValue,
    /// The one that was used last stands at the end.
    idle: Mutex<Vec<(Instant, Connection)>>,
    /// Tells who waits for a connection that one is idle.
    given_back: Notify,
    /// Held by the request that makes a connection.
    connecting: tokio::sync::Mutex<()>,
    requests: Arc<Requests>,
}

impl Connections {
    /// Connections as `config` describes them, of which none is made yet. What is sent is counted in `requests`. A proxy is not looked at:
    /// kube's clients refuse a configuration with one.
    ///
    /// A task on the current tokio runtime closes those that are idle, until the last `Arc` of them is dropped.
    pub(crate) fn start(config: &Config, requests: Arc<Requests>) -> Result<Arc<Self>, kube::Error> {
        let uri = config.cluster_url.clone();
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        // It is divided among the addresses of a name.
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let https = config.rustls_https_connector_with_connector(http)?;
        let layers = ServiceBuilder::new().layer(config.extra_headers_layer()?).option_layer(config.auth_layer()?);
        let connections = Arc::new(Self {
            path: uri.path().trim_end_matches('/').to_owned(),
            host: host_of(&uri).map_err(kube::Error::HttpError)?,
            connect: Box::new(move || {
                let connecting = https.clone().oneshot(uri.clone());
                Box::pin(async move { Ok(Box::new(connecting.await?) as Box<dyn Stream>) })
            }),
            sign: BoxCloneSyncService::new(layers.service(Echo).map_err(BoxError::from)),
            idle: Mutex::default(),
            given_back: Notify::new(),
            connecting: tokio::sync::Mutex::default(),
            requests,
        });
        tokio::spawn(close_idle(Arc::downgrade(&connections)));
        Ok(connections)
    }

    /// Sends a request and reads the whole answer, within `limit`: what has not left by then never does. It may be dropped at any time: its
    /// connection is closed then.
    pub(crate) async fn send(&self, call: &Call, limit: Duration) -> Result<Answer, NoAnswer> {
        let deadline = Instant::now() + limit;
        let late = |_| NoAnswer::NotSent(format!("no connection within {} ms", limit.as_millis()));
        let mut waiting = Requests::begin(&self.requests, &call.method);
        let signing = timeout_at(deadline, self.request(call)).await.map_err(late)?;
        let mut request = signing.map_err(|error| NoAnswer::NotSent(root_cause(&*error)))?;
        loop {
            let mut connection = timeout_at(deadline, self.take()).await.map_err(late)??;
            // A process that stood still goes on here, when a successor may have begun.
            let began = Instant::now();
            if began >= deadline {
                return Err(NoAnswer::NotSent(format!("not sent within {} ms", limit.as_millis())));
            }
            let exchange = connection.exchange(request, |code| waiting.answered(code));
            let lost = match timeout_at(deadline, exchange).await {
                Ok(Ok(answer)) => {
                    self.keep(connection);
                    return Ok(answer);
                }
                // The server had closed it, which shows only now.
                Ok(Err(Broken::NotSent(unsent))) if connection.is_used => {
                    request = *unsent;
                    continue;
                }
                Ok(Err(Broken::NotSent(_))) => {
                    return Err(NoAnswer::NotSent("the connection was closed at once".to_owned()));
                }
                Ok(Err(Broken::Lost(error))) => NoAnswer::Lost(root_cause(&error)),
                Err(_) => NoAnswer::late(limit),
            };
            // Those over which nothing came meanwhile may lead to the same dead end.
            let unused = drain_unused(&mut lock(&self.idle), began);
            drop(unused);
            return Err(lost);
        }
    }

    async fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, BoxError> {
        let signed = self.sign.clone().oneshot(Request::new(Body::empty())).await?;
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", self.path, call.uri))
            .body(Full::new(call.body.clone()))?;
        let headers = request.headers_mut();
        *headers = signed.into_parts().0.headers;
        headers.insert(HOST, self.host.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(call.content_type));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        Ok(request)
    }

    /// An idle connection that is open, or a new one. Of many requests at once one makes a connection, and the others take what is given
    /// back meanwhile, or make theirs after it.
    async fn take(&self) -> Result<Connection, NoAnswer> {
        if let Some(kept) = self.kept() {
            return Ok(kept);
        }
        let _alone = {
            let mut turn = pin!(sleep(TURN));
            let mut connecting = pin!(self.connecting.lock());
            loop {
                let alone = tokio::select! {
                    biased;
                    () = self.given_back.notified() => None,
                    alone = &mut connecting => Some(Some(alone)),
                    () = &mut turn => Some(None),
                };
                if let Some(kept) = self.kept() {
                    // One call may stand for several connections.
                    self.call_next();
                    return Ok(kept);
                }
                if let Some(alone) = alone {
                    break alone;
                }
            }
        };
        // Another request may have given its own back meanwhile.
        self.connect().await.or_else(|error| self.kept().ok_or(error))
    }

    /// Tells the next that waits for a connection if one is idle.
    fn call_next(&self) {
        if !lock(&self.idle).is_empty() {
            self.given_back.notify_one();
        }
    }

    async fn connect(&self) -> Result<Connection, NoAnswer> {
        let made = timeout(CONNECT_TIMEOUT, async {
            let stream = (self.connect)().await?;
            Ok(http1::handshake(stream).await?)
        });
        let (sender, driver) = made
            .await
            .map_err(|_| NoAnswer::NotSent(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())))?
            .map_err(|error: BoxError| NoAnswer::NotSent(root_cause(&*error)))?;
        Ok(Connection { sender, driver: Some(driver), is_used: false })
    }

    /// The idle connection that was used last, of those that are open.
    fn kept(&self) -> Option<Connection> {
        loop {
            let (closed, newest) = {
                let mut idle = lock(&self.idle);
                (drain_old(&mut idle), idle.pop())
            };
            drop(closed);
            let (_, mut connection) = newest?;
            if connection.is_open() {
                return Some(connection);
            }
        }
    }

    fn keep(&self, mut connection: Connection) {
        connection.is_used = true;
        if connection.driver.is_some() {
            lock(&self.idle).push((Instant::now(), connection));
            self.given_back.notify_one();
        }
    }
}

/// Takes out what was not used since. It is to be dropped without the lock: that closes sockets.
fn drain_unused(idle: &mut Vec<(Instant, Connection)>, since: Instant) -> Vec<(Instant, Connection)> {
    let unused = idle.iter().take_while(|(used, _)| *used <= since).count();
    idle.drain(..unused).collect()
}

fn drain_old(idle: &mut Vec<(Instant, Connection)>) -> Vec<(Instant, Connection)> {
    Instant::now().checked_sub(IDLE).map_or_else(Vec::new, |since| drain_unused(idle, since))
}

/// Nobody reads from an idle connection, so that one which the server has closed would stay half open until the next request.
async fn close_idle(connections: Weak<Connections>) {
    loop {
        sleep(IDLE).await;
        let Some(connections) = connections.upgrade() else { return };
        let closed = drain_old(&mut lock(&connections.idle));
        drop(closed);
    }
}

/// What `Host` says of an address: the port only where it is not the scheme's own.
fn host_of(uri: &Uri) -> Result<HeaderValue, http::Error> {
    let host = uri.host().unwrap_or_default();
    let own = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    let host =
        uri.port_u16().filter(|port| *port != own).map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    Ok(HeaderValue::try_from(host)?)
}

/// Answers a request with its own headers, which kube's layers around it have set.
#[derive(Clone)]
struct Echo;

impl Service<Request<Body>> for Echo {
    type Response = Response<()>;
    type Error = BoxError;
    type Future = Ready<Result<Response<()>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut headers = Response::new(());
        *headers.headers_mut() = request.into_parts().0.headers;
        ready(Ok(headers))
    }
}

/// Why an exchange ended without an answer.
enum Broken {
    /// No byte of the request was written: here it is again.
    NotSent(Box<Request<Full<Bytes>>>),
    Lost(hyper::Error),
}

/// One connection. Nothing moves on it but in [`Self::exchange`] and [`Self::is_open`].
struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// None where it has ended.
    driver: Option<http1::Connection<Box<dyn Stream>, Full<Bytes>>>,
    /// Whether a request was answered on it before: the server may be closing it.
    is_used: bool,
}

impl Connection {
    /// Whether the server has not closed it, as far as has come in.
    fn is_open(&mut self) -> bool {
        // Without tokio's budget: where that is used up, a closed one would count as open.
        let look = |driver: &mut _| tokio::task::unconstrained(driver).now_or_never();
        if self.driver.as_mut().is_some_and(|driver| look(driver).is_some()) {
            self.driver = None;
        }
        self.driver.is_some()
    }

    /// Sends a request and reads its answer; `begun` gets the status as soon as it is there.
    async fn exchange(&mut self, request: Request<Full<Bytes>>, begun: impl FnOnce(u16)) -> Result<Answer, Broken> {
        let Self { sender, driver, .. } = self;
        let answer = async {
            let response = sender.try_send_request(request).await.map_err(|mut error| match error.take_message() {
                Some(unsent) => Broken::NotSent(Box::new(unsent)),
                None => Broken::Lost(error.into_error()),
            })?;
            let (head, body) = response.into_parts();
            begun(head.status.as_u16());
            let body = body.collect().await.map_err(Broken::Lost)?.to_bytes();
            Ok(Answer::of(&head, body))
        };
        let mut answer = pin!(answer);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(done) = answer.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            // A request that it has not taken when it ends comes back when it is dropped, and in no other way.
            if driver.as_mut().is_some_and(|driver| driver.poll_unpin(cx).is_ready()) {
                *driver = None;
            }
            // What the connection has just read is taken in the same turn.
            answer.as_mut().poll(cx)
        })
        .await
    }
}

#[cfg(test)]
mod tests;
