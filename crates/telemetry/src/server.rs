//! The process's own HTTP endpoints, for probes and scrapes.

use super::connections::{self, Limits, Standing};
use super::exposition::{Exposition, Format};
use super::health::Health;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Prometheus' text format, for whoever does not ask for OpenMetrics.
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Why there are no endpoints.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{flag} {address}: cannot listen: {source}; choose a free port, or port 0 for any")]
    Listen {
        flag: &'static str,
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("{flag} {address}: not a loopback address; choose one such as 127.0.0.1:8082, which no network reaches")]
    NotLoopback { flag: &'static str, address: SocketAddr },
}

/// Whether metrics may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    Granted,
    /// Nobody knows who asks.
    Unauthenticated,
    /// Who asks is known, and may not; with the reason.
    Forbidden(String),
    /// Whoever decides could not be asked; with the reason.
    Unknown(String),
}

/// Decides who may read the metrics.
#[derive(Clone)]
pub struct Authorizer {
    knows: Arc<Knows>,
    decide: Arc<Decide>,
}

type Knows = dyn Fn(&str) -> bool + Send + Sync;
type Decide = dyn Fn(Option<String>) -> Pin<Box<dyn Future<Output = Access> + Send>> + Send + Sync;

impl Authorizer {
    /// `decide` says whether the owner of this bearer token may read them, `None` for a request without one. `knows` says, at once,
    /// whether the owner of a token was let in before: such a request does not end because strangers make others.
    pub fn new<F>(
        knows: impl Fn(&str) -> bool + Send + Sync + 'static,
        decide: impl Fn(Option<String>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Access> + Send + 'static,
    {
        Self { knows: Arc::new(knows), decide: Arc::new(move |token| Box::pin(decide(token))) }
    }
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorizer")
    }
}

#[derive(Debug, Clone)]
pub struct Endpoints {
    pub health: Health,
    pub metrics: Exposition,
    /// Without one, whoever reaches the listener may read the metrics.
    pub authorizer: Option<Authorizer>,
}

/// Where to listen; port 0 is any free one.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// `/livez`, `/readyz` and `/metrics`.
    pub pages: SocketAddr,
    /// `/livez` and `/readyz` once more, so that whatever clients do to the other listener, probes are answered.
    pub probes: Option<SocketAddr>,
}

/// Listens, on the current tokio runtime, and returns the addresses in use and the server, which runs until it is dropped.
pub fn serve(
    addresses: Addresses,
    endpoints: Endpoints,
) -> Result<(Addresses, impl Future<Output = ()> + use<>), ServeError> {
    serve_within(Limits::default(), addresses, endpoints)
}

pub(super) fn serve_within(
    limits: Limits,
    addresses: Addresses,
    endpoints: Endpoints,
) -> Result<(Addresses, impl Future<Output = ()> + use<>), ServeError> {
    let (pages, address) = listen("--http-address", addresses.pages)?;
    let probes = addresses.probes.map(|probes| listen("--probe-address", probes)).transpose()?;
    let bound = Addresses { pages: address, probes: probes.as_ref().map(|(_, address)| *address) };
    let health = endpoints.health.clone();
    let server = async move {
        let pages =
            connections::serve(pages, limits, move |request, standing| page(request, endpoints.clone(), standing));
        let Some((probes, _)) = probes else { return pages.await };
        let probes = connections::serve(probes, limits, move |request, _| {
            let answer = probe(&request, &health);
            async move { answer }
        });
        tokio::join!(pages, probes);
    };
    Ok((bound, server))
}

pub(super) fn listen(flag: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let listener = connections::listen(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (bound, listener) = listener.map_err(|source| ServeError::Listen { flag, address, source })?;
    Ok((listener, bound))
}

type Answer = Response<Full<Bytes>>;

fn answer(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}

async fn page(request: Request<Incoming>, endpoints: Endpoints, standing: Standing) -> Answer {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_read && request.uri().path() == "/metrics" {
        return metrics(token(&request), wanted(&request), endpoints, standing).await;
    }
    probe(&request, &endpoints.health)
}

fn probe(request: &Request<Incoming>, health: &Health) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return answer(StatusCode::METHOD_NOT_ALLOWED, "");
    }
    match request.uri().path() {
        "/livez" => match health.hangs() {
            None => answer(StatusCode::OK, "ok\n"),
            Some(reason) => answer(StatusCode::SERVICE_UNAVAILABLE, format!("hangs: {reason}\n")),
        },
        "/readyz" => {
            let failing = health.failing();
            if is_verbose(request) {
                let (status, end) = match failing.as_slice() {
                    [] => (StatusCode::OK, "readyz check passed\n"),
                    _ => (StatusCode::SERVICE_UNAVAILABLE, "readyz check failed\n"),
                };
                return answer(status, health.verbose() + end);
            }
            if failing.is_empty() {
                return answer(StatusCode::OK, "ok\n");
            }
            answer(StatusCode::SERVICE_UNAVAILABLE, format!("not ready\n{}\n", failing.join("\n")))
        }
        _ => answer(StatusCode::NOT_FOUND, ""),
    }
}

/// Whether the query has `verbose`, with or without a value, as kube-apiserver reads it.
fn is_verbose<B>(request: &Request<B>) -> bool {
    let parts = request.uri().query().unwrap_or_default().split('&');
    parts.map(|part| part.split('=').next()).any(|name| name == Some("verbose"))
}

/// The bearer token of a request.
fn token<B>(request: &Request<B>) -> Option<String> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}

/// The form in which metrics are wanted: OpenMetrics only for who names it, and likes it no less than plain text.
fn wanted<B>(request: &Request<B>) -> Format {
    let (mut open, mut plain) = (0.0, 0.0);
    let accept = request.headers().get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for range in accept.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        let weight: f64 = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
        if name.eq_ignore_ascii_case("application/openmetrics-text") {
            open = weight.max(open);
        } else if ["text/plain", "text/*", "*/*"].iter().any(|range| name.eq_ignore_ascii_case(range)) {
            plain = weight.max(plain);
        }
    }
    if open > 0.0 && open >= plain { Format::OpenMetrics } else { Format::Plain }
}

async fn metrics(token: Option<String>, format: Format, endpoints: Endpoints, standing: Standing) -> Answer {
    if let Some(authorizer) = &endpoints.authorizer {
        if token.as_deref().is_some_and(|token| (authorizer.knows)(token)) {
            standing.mark_known();
        }
        match (authorizer.decide)(token).await {
            Access::Granted => standing.mark_known(),
            Access::Unauthenticated => {
                let mut answer = answer(StatusCode::UNAUTHORIZED, "send a valid bearer token\n");
                answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                return answer;
            }
            Access::Forbidden(reason) => return answer(StatusCode::FORBIDDEN, reason + "\n"),
            Access::Unknown(reason) => return answer(StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
        }
    }
    match endpoints.metrics.shared(format).await {
        Ok(text) => {
            let mut answer = answer(StatusCode::OK, text);
            let form = match format {
                Format::Plain => PLAIN,
                Format::OpenMetrics => OPEN_METRICS,
            };
            answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(form));
            answer
        }
        Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}
