//! The process's own HTTP endpoints, for probes and scrapes.

use super::exposition::Exposition;
use super::health::Health;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{StatusCode, header};
use std::future::Future;
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// OpenMetrics text, as Prometheus asks for it.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Why there are no endpoints.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("--http-address {address}: cannot listen: {source}; choose a free port, or port 0 for any")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("health endpoints ended: {0}")]
    Ended(#[source] std::io::Error),
}

#[derive(Debug, Clone)]
pub struct Endpoints {
    pub health: Health,
    pub metrics: Exposition,
}

/// Listens on `address` and returns the address in use (port 0 is any free one) and the server, which runs until `stop`.
pub async fn serve<S>(
    address: SocketAddr,
    endpoints: Endpoints,
    stop: S,
) -> Result<(SocketAddr, impl Future<Output = Result<(), ServeError>> + use<S>), ServeError>
where
    S: Future<Output = ()> + Send + 'static,
{
    let listen = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    let router = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(endpoints);
    let server = axum::serve(listener, router).with_graceful_shutdown(stop);
    Ok((bound, async move { server.await.map_err(ServeError::Ended) }))
}

async fn readyz(State(endpoints): State<Endpoints>) -> Response {
    let failing = endpoints.health.failing();
    if failing.is_empty() {
        return "ok\n".into_response();
    }
    let mut body = String::from("not ready\n");
    for line in failing {
        body.push_str(&line);
        body.push('\n');
    }
    (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

async fn metrics(State(endpoints): State<Endpoints>) -> Response {
    match endpoints.metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Check, Metric};
    use std::io::{Read, Write};

    async fn ask(address: SocketAddr, path: &'static str) -> String {
        let exchange = move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: berth\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        tokio::task::spawn_blocking(exchange).await.unwrap()
    }

    #[tokio::test]
    async fn endpoints_answer_and_readyz_says_why_not() {
        let health = Health::waiting_for(&[Check::Leadership, Check::Caches]);
        let metrics = Exposition::new(|s| s.gauge(Metric::Leader, &[], 0.0));
        let endpoints = Endpoints { health: health.clone(), metrics };
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stop_seen = async move { drop(stopped.await) };
        let (address, server) = serve("127.0.0.1:0".parse().unwrap(), endpoints, stop_seen).await.unwrap();
        let server = tokio::spawn(server);
        assert!(ask(address, "/livez").await.starts_with("HTTP/1.1 200"));
        health.fail(Check::Leadership, "lease kube-system/berth is held by other-0");
        let answer = ask(address, "/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("leadership: lease kube-system/berth is held by other-0"), "{answer}");
        assert!(answer.contains("caches: not there yet"), "{answer}");
        health.pass(Check::Leadership);
        health.pass(Check::Caches);
        assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        let answer = ask(address, "/metrics").await;
        assert!(
            answer.contains("application/openmetrics-text") && answer.contains("schedulerprofile_leader 0"),
            "{answer}"
        );
        assert!(ask(address, "/").await.starts_with("HTTP/1.1 404"));
        stop.send(()).unwrap();
        server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_taken_address_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap();
        let endpoints = Endpoints { health: Health::default(), metrics: Exposition::new(|_| {}) };
        let error = serve(address, endpoints, async {}).await.err().unwrap().to_string();
        assert!(error.contains(&address.to_string()) && error.contains("--http-address"), "{error}");
    }
}
