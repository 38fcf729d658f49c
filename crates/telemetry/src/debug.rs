//! A listener for people on this machine, and for `kubectl port-forward`: what it serves is not for the network.
//!
//! It listens on a loopback address alone, and looks at the Host of each request: a page in somebody's browser can have its own name lead
//! to 127.0.0.1 (DNS rebinding), but cannot send another Host. A write needs PUT, for which a browser asks first; nobody here says yes.

use super::connections::{self, Limits};
use super::server::ServeError;
use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use std::future::Future;
use std::net::SocketAddr;

/// Connections at once: people are few.
const CONNECTIONS: usize = 8;

/// Bytes of what is put.
const BODY_BYTES: usize = 1 << 10;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DebugQuestion {
    pub path: String,
    /// Decoded, in the order given.
    pub query: Vec<(String, String)>,
    /// What is to be put there; `None` for a read.
    pub put: Option<String>,
}

impl DebugQuestion {
    /// The first parameter of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebugReply {
    /// The HTTP status.
    pub status: u16,
    pub content_type: &'static str,
    pub body: String,
}

impl DebugReply {
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    pub fn json(body: impl Into<String>) -> Self {
        Self { status: 200, content_type: "application/json", body: body.into() }
    }
}

/// Listens on a loopback address, on the current tokio runtime; returns the address in use and the server, which runs until it is
/// dropped. `answer` is asked by requests of a local Host alone, and puts one thing at a time if it is told to.
pub fn serve_debug<H, F>(
    address: SocketAddr,
    answer: H,
) -> Result<(SocketAddr, impl Future<Output = ()> + use<H, F>), ServeError>
where
    H: Fn(DebugQuestion) -> F + Clone + Send + 'static,
    F: Future<Output = DebugReply> + Send + 'static,
{
    serve_within(limits(), address, answer)
}

fn limits() -> Limits {
    Limits { connections: CONNECTIONS, ..Limits::default() }
}

fn serve_within<H, F>(
    limits: Limits,
    address: SocketAddr,
    answer: H,
) -> Result<(SocketAddr, impl Future<Output = ()> + use<H, F>), ServeError>
where
    H: Fn(DebugQuestion) -> F + Clone + Send + 'static,
    F: Future<Output = DebugReply> + Send + 'static,
{
    if !address.ip().is_loopback() {
        return Err(ServeError::NotLoopback { flag: "--debug-address", address });
    }
    let (listener, bound) = super::server::listen("--debug-address", address)?;
    let server = connections::serve(listener, limits, move |request, _| page(request, answer.clone()));
    Ok((bound, server))
}

async fn page<H, F>(request: Request<Incoming>, answer: H) -> Response<Full<Bytes>>
where
    H: Fn(DebugQuestion) -> F,
    F: Future<Output = DebugReply>,
{
    let reply = match question(request).await {
        Ok(question) => answer(question),
        Err(refused) => return respond(refused),
    };
    respond(reply.await)
}

fn respond(reply: DebugReply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(reply.body.into()));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn question(request: Request<Incoming>) -> Result<DebugQuestion, DebugReply> {
    if !is_local(&request) {
        return Err(DebugReply::text(421, "asked under another name than localhost, 127.0.0.1 or [::1]\n"));
    }
    let path = request.uri().path().to_owned();
    let query = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()).into_owned().collect();
    let put = match *request.method() {
        Method::GET | Method::HEAD => None,
        Method::PUT => {
            let body = Limited::new(request.into_body(), BODY_BYTES).collect().await;
            let body = body.map_err(|_| DebugReply::text(413, format!("at most {BODY_BYTES} bytes are read\n")))?;
            let text = String::from_utf8(body.to_bytes().into());
            Some(text.map_err(|_| DebugReply::text(400, "not UTF-8\n"))?)
        }
        _ => return Err(DebugReply::text(405, "GET, or PUT where a page says so\n")),
    };
    Ok(DebugQuestion { path, query, put })
}

/// Whether a request is for this machine by name, with any port.
fn is_local<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let named = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    named.is_some_and(|named| is_local_name(&named)) && request.uri().authority().is_none_or(is_local_name)
}

fn is_local_name(authority: &Authority) -> bool {
    let host = authority.host();
    // No user before the name.
    !authority.as_str().contains('@')
        && (host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    fn start() -> SocketAddr {
        let answer = |question: DebugQuestion| async move { DebugReply::text(200, format!("{question:?}")) };
        let (address, server) = serve_debug("127.0.0.1:0".parse().unwrap(), answer).unwrap();
        tokio::spawn(server);
        address
    }

    async fn send(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn what_is_asked_and_put_comes_through_decoded() {
        let address = start();
        let answer =
            send(address, "GET /debug/queue?profile=a%2Fb&limit=5&x HTTP/1.1\r\nHost: localhost:9\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("nosniff"), "{answer}");
        let wanted = DebugQuestion {
            path: "/debug/queue".to_owned(),
            query: [("profile", "a/b"), ("limit", "5"), ("x", "")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            put: None,
        };
        assert!(answer.ends_with(&format!("{wanted:?}")), "{answer}");
        assert_eq!((wanted.get("limit"), wanted.get("y")), (Some("5"), None));
        let put = "PUT /debug/flags/v HTTP/1.1\r\nHost: [::1]:9\r\nContent-Length: 5\r\n\r\ndebug";
        assert!(send(address, put).await.contains("put: Some(\"debug\")"));
    }

    #[tokio::test]
    async fn a_foreign_host_is_refused_whatever_it_asks() {
        let address = start();
        for host in [
            "Host: rebound.example.com",
            "Host: localhost.example.com",
            "Host: 127.0.0.1.example.com:80",
            "Host: localhost@example.com",
            "Host: 10.0.0.1",
            "Host: localhost\r\nHost: example.com",
            "X: y",
        ] {
            let answer = send(address, &format!("GET / HTTP/1.1\r\n{host}\r\n\r\n")).await;
            assert!(!answer.starts_with("HTTP/1.1 200"), "{host}: {answer}");
        }
        let absolute = send(address, "GET http://example.com/ HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert!(!absolute.starts_with("HTTP/1.1 200"), "{absolute}");
        for host in ["localhost", "LOCALHOST:8082", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8082"] {
            let answer = send(address, &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{host}: {answer}");
        }
    }

    #[tokio::test]
    async fn other_methods_and_long_bodies_are_refused() {
        let address = start();
        for method in ["POST", "DELETE", "PATCH", "OPTIONS"] {
            let answer =
                send(address, &format!("{method} / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 405"), "{method}: {answer}");
        }
        let long = "a".repeat(BODY_BYTES + 1);
        let put = format!("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{long}", long.len());
        assert!(send(address, &put).await.starts_with("HTTP/1.1 413"));
    }

    /// So many that whoever holds them and does nothing loses one to the next.
    #[tokio::test]
    async fn few_connections_are_borne() {
        let answer = |_| async { DebugReply::text(200, "") };
        // So that it is their number that closes one, and not its age.
        let limits = Limits { header: Duration::from_mins(10), exchange: Duration::from_mins(10), ..limits() };
        let (address, server) = serve_within(limits, "127.0.0.1:0".parse().unwrap(), answer).unwrap();
        tokio::spawn(server);
        let mut idle = Vec::new();
        for _ in 0..=CONNECTIONS {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let end = tokio::time::timeout(Duration::from_secs(20), idle[0].read(&mut [0; 8])).await;
        assert!(matches!(end, Ok(Ok(0) | Err(_))), "the oldest made no room: {end:?}");
    }

    #[tokio::test]
    async fn it_listens_on_loopback_addresses_alone() {
        let answer = |_| async { DebugReply::text(200, "") };
        let error = serve_debug("0.0.0.0:0".parse().unwrap(), answer).err().unwrap().to_string();
        assert!(error.contains("--debug-address 0.0.0.0:0") && error.contains("127.0.0.1"), "{error}");
    }
}
