//! A proxy between the operators and the API server, which breaks what it is told to break, and counts what is sent again.

use std::collections::HashSet;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// Speaks HTTP to the operators on loopback, and HTTPS to the API server in the name of whoever asks.
pub(super) struct Proxy {
    pub(super) url: String,
    faults: Arc<Faults>,
    /// Ends the proxy when it is dropped.
    _runtime: Runtime,
}

struct Faults {
    /// Of 100 writes, how many are answered 429 and go no further.
    throttled: AtomicU64,
    /// Of 100 binds, how many are carried out and never answered.
    lost: AtomicU64,
    /// Each change breaks all watches off.
    cut: watch::Sender<u64>,
    draws: AtomicU64,
    writes: Mutex<Writes>,
}

/// What operators wrote since somebody began to count.
#[derive(Default)]
struct Writes {
    /// By [`identity`].
    sent: HashSet<u64>,
    again: usize,
}

impl Proxy {
    pub(super) fn start(server: &str, authority: &Path, seed: u64) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let faults = Arc::new(Faults {
            throttled: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            cut: watch::Sender::new(0),
            draws: AtomicU64::new(seed),
            writes: Mutex::default(),
        });
        let mut config = Config::new(server.parse().unwrap());
        config.root_cert_file = Some(authority.to_owned());
        config.default_retry = false;
        let url = runtime.block_on(async {
            let client = Client::try_from(config).unwrap();
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            tokio::spawn(serve(listener, client, faults.clone()));
            url
        });
        Self { url, faults, _runtime: runtime }
    }

    /// From now on `percent` of all writes are answered 429.
    pub(super) fn throttle(&self, percent: u64) {
        self.faults.throttled.store(percent, Ordering::Relaxed);
    }

    /// From now on the answers to `percent` of all binds are lost.
    pub(super) fn lose_binds(&self, percent: u64) {
        self.faults.lost.store(percent, Ordering::Relaxed);
    }

    /// Begins to count what is sent again.
    pub(super) fn count_anew(&self) {
        *self.faults.writes.lock().unwrap() = Writes::default();
    }

    /// Writes that a process had sent before, whatever had become of them.
    pub(super) fn sent_again(&self) -> usize {
        self.faults.writes.lock().unwrap().again
    }

    /// Breaks every watch off.
    pub(super) fn cut_watches(&self) {
        self.faults.cut.send_modify(|cuts| *cuts += 1);
    }
}

impl Faults {
    /// Whether one of the drawn `percent` is hit. SplitMix64, so that a seed draws the same again.
    fn hits(&self, percent: u64) -> bool {
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        let mut drawn = self.draws.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (drawn ^ (drawn >> 31)) % 100 < percent
    }

    fn count(&self, request: &Parts, body: &[u8]) {
        // Access reviews are questions in the form of a write, and the same ones are asked from time to time.
        if request.uri.path().starts_with("/apis/auth") {
            return;
        }
        let key = identity(request, body);
        let mut writes = self.writes.lock().unwrap();
        if !writes.sent.insert(key) {
            writes.again += 1;
        }
    }
}

/// Equal for a request and the same one sent again by the same process, which has a token of its own. Where a write names the version
/// that it was made from, that is what counts and not its words, since times in it change: once it is carried out the version is gone.
fn identity(request: &Parts, body: &[u8]) -> u64 {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    let version = object["metadata"]["resourceVersion"].as_str();
    let mut hasher = DefaultHasher::new();
    request.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).hash(&mut hasher);
    (request.method.as_str(), request.uri.path()).hash(&mut hasher);
    version.map_or(body, str::as_bytes).hash(&mut hasher);
    hasher.finish()
}

async fn serve(listener: TcpListener, client: Client, faults: Arc<Faults>) -> Infallible {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (client, faults) = (client.clone(), faults.clone());
        let answer = service_fn(move |request| answer(request, client.clone(), faults.clone()));
        // An operator that is killed, or an answer that is to be lost, ends a connection with an error.
        tokio::spawn(async move { http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await });
    }
}

/// An error closes the connection without an answer.
async fn answer(request: Request<Incoming>, client: Client, faults: Arc<Faults>) -> io::Result<Answer> {
    let writes = !matches!(*request.method(), Method::GET | Method::HEAD);
    let binds = request.uri().path().ends_with("/binding");
    let watches = request.uri().query().is_some_and(|query| query.contains("watch="));
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    if writes {
        faults.count(&parts, &body);
        if faults.hits(faults.throttled.load(Ordering::Relaxed)) {
            return Ok(throttled());
        }
    }
    parts.headers.remove(http::header::HOST);
    let sent = client.send(Request::from_parts(parts, Body::from(body.to_vec()))).await.map_err(io::Error::other)?;
    if binds && faults.hits(faults.lost.load(Ordering::Relaxed)) {
        return Err(io::Error::other("the answer is lost"));
    }
    let (parts, body) = sent.into_parts();
    let body = body.map_err(io::Error::other);
    let body = if watches { until_cut(body.into_data_stream(), &faults) } else { body.boxed_unsync() };
    Ok(Response::from_parts(parts, body))
}

/// Hands the frames on until all watches are cut, and then breaks off in the middle.
fn until_cut(
    frames: impl futures::Stream<Item = io::Result<Bytes>> + Send + 'static,
    faults: &Faults,
) -> UnsyncBoxBody<Bytes, io::Error> {
    let open = (Box::pin(frames), faults.cut.subscribe());
    let handed_on = futures::stream::unfold(Some(open), async |open| {
        let (mut frames, mut cut) = open?;
        tokio::select! {
            frame = frames.next() => frame.map(|frame| (frame.map(Frame::data), Some((frames, cut)))),
            _ = cut.changed() => Some((Err(io::Error::other("cut")), None)),
        }
    });
    StreamBody::new(handed_on).boxed_unsync()
}

/// As a webhook or a quota refuses, so that Berth takes it for the namespace's own trouble.
fn throttled() -> Answer {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "TooManyRequests",
        "message": "drawn by a test",
        "details": {"retryAfterSeconds": 1},
        "code": 429,
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    answer.headers_mut().insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    answer.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    answer
}

#[test]
fn a_write_is_known_again_by_its_version_or_by_its_words() {
    let of = |token: &str, method: &str, path: &str, body: Value| {
        let request = Request::builder().method(method).uri(path).header(AUTHORIZATION, token).body(()).unwrap();
        identity(&request.into_parts().0, body.to_string().as_bytes())
    };
    let lease = |version: &str, time: u64| json!({"metadata": {"resourceVersion": version}, "spec": {"at": time}});
    let first = of("a", "PUT", "/lease", lease("1", 10));
    assert_eq!(first, of("a", "PUT", "/lease?timeout=4000ms", lease("1", 12)));
    assert_ne!(first, of("a", "PUT", "/lease", lease("2", 10)));
    assert_ne!(first, of("b", "PUT", "/lease", lease("1", 10)), "another process");
    let bind = of("a", "POST", "/p/binding", json!({"target": {"name": "n1"}}));
    assert_eq!(bind, of("a", "POST", "/p/binding", json!({"target": {"name": "n1"}})));
    assert_ne!(bind, of("a", "POST", "/p/binding", json!({"target": {"name": "n2"}})), "another node");
    let end = json!([{"op": "test", "path": "/metadata/uid", "value": "u"}]);
    assert_eq!(of("a", "PATCH", "/p/status", end.clone()), of("a", "PATCH", "/p/status", end));
}
