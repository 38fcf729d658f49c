//! How many requests went to the API server, and how long their answers took to begin, under client-go's names;
//! `docs/metrics.md` says where they differ.

use crate::lock;
use http::{Method, Request, Response};
use kube::client::Body;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tower::{Layer, Service};

/// Upper bounds in seconds, after `k8s.io/component-base/metrics/prometheus/restclient/metrics.go`.
const BOUNDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// Client-go's name for the code of a request without an answer.
const NO_ANSWER: &str = "<error>";

/// The requests of some clients so far. A request costs a millisecond, and this lock some nanoseconds.
#[derive(Debug, Default)]
pub struct Requests(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// By method and HTTP status; none is no answer.
    results: BTreeMap<(&'static str, Option<u16>), u64>,
    latencies: BTreeMap<&'static str, Latency>,
}

/// How long answers took to begin.
#[derive(Debug, Clone, Default)]
pub struct Latency {
    counts: [u64; BOUNDS.len()],
    above: u64,
    sum: Duration,
}

impl Latency {
    fn record(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        match BOUNDS.iter().position(|bound| seconds <= *bound) {
            Some(bucket) => self.counts[bucket] += 1,
            None => self.above += 1,
        }
        self.sum += time;
    }

    pub const fn sum(&self) -> Duration {
        self.sum
    }

    /// Upper bounds in seconds, each with the number of answers in this bucket alone; the last bound is infinite.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        BOUNDS.into_iter().zip(self.counts).chain([(f64::INFINITY, self.above)]).collect()
    }
}

impl Requests {
    fn note(&self, method: &'static str, code: Option<u16>, took: Duration) {
        let mut counts = lock(&self.0);
        *counts.results.entry((method, code)).or_default() += 1;
        counts.latencies.entry(method).or_default().record(took);
    }

    /// A request is about to be sent.
    pub(crate) fn begin(requests: &Arc<Self>, method: &Method) -> Waiting {
        Waiting { requests: requests.clone(), method: name(method), began: Instant::now(), answer: None }
    }

    /// Method, code and number of requests.
    pub fn results(&self) -> Vec<(&'static str, String, u64)> {
        let counts = lock(&self.0);
        let text = |code: Option<u16>| code.map_or_else(|| NO_ANSWER.to_owned(), |code| code.to_string());
        counts.results.iter().map(|((method, code), count)| (*method, text(*code), *count)).collect()
    }

    /// By method.
    pub fn latencies(&self) -> Vec<(&'static str, Latency)> {
        let counts = lock(&self.0);
        counts.latencies.iter().map(|(method, latency)| (*method, latency.clone())).collect()
    }
}

/// Counts what goes through.
#[derive(Debug, Clone)]
pub(crate) struct Counted(pub(crate) Arc<Requests>);

impl<S> Layer<S> for Counted {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting { inner, requests: self.0.clone() }
    }
}

#[derive(Debug)]
pub(crate) struct Counting<S> {
    inner: S,
    requests: Arc<Requests>,
}

impl<S, B> Service<Request<Body>> for Counting<S>
where
    S: Service<Request<Body>, Response = Response<B>> + 'static,
    S::Future: Send + 'static,
    B: 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut waiting = Requests::begin(&self.requests, request.method());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            if let Ok(answer) = &answer {
                waiting.answered(answer.status().as_u16());
            }
            answer
        })
    }
}

/// A request under way. It is counted when it ends, also by a caller that gives up: then it had no answer.
#[derive(Debug)]
pub(crate) struct Waiting {
    requests: Arc<Requests>,
    method: &'static str,
    began: Instant,
    /// The status, and after how long it came.
    answer: Option<(u16, Duration)>,
}

impl Waiting {
    /// Its answer has begun.
    pub(crate) fn answered(&mut self, code: u16) {
        self.answer = Some((code, self.began.elapsed()));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let took = self.answer.map_or_else(|| self.began.elapsed(), |(_, took)| took);
        self.requests.note(self.method, self.answer.map(|(code, _)| code), took);
    }
}

fn name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use tower::{BoxError, ServiceExt};

    #[tokio::test]
    async fn requests_are_counted_by_method_and_code_and_timed() {
        let requests = Arc::<Requests>::default();
        let link = tower::service_fn(|request: Request<Body>| async move {
            match request.uri().path() {
                "/lost" => Err(BoxError::from("lost")),
                "/silent" => std::future::pending().await,
                _ => Ok(Response::builder().status(404).body(())?),
            }
        });
        let mut counting = Counted(requests.clone()).layer(link);
        for (method, path) in [(Method::GET, "/a"), (Method::GET, "/b"), (Method::POST, "/lost")] {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            let _ = counting.ready().await.unwrap().call(request).await;
        }
        let silent = Request::builder().uri("/silent").body(Body::empty()).unwrap();
        let given_up = counting.ready().await.unwrap().call(silent).now_or_never();
        assert!(given_up.is_none());
        let results = requests.results();
        let counted = |method, code: &str, count| (method, code.to_owned(), count);
        assert_eq!(results, [counted("GET", "<error>", 1), counted("GET", "404", 2), counted("POST", "<error>", 1)]);
        let latencies = requests.latencies();
        let counts = latencies.iter().map(|(method, l)| (*method, l.buckets().iter().map(|(_, n)| n).sum::<u64>()));
        assert_eq!(counts.collect::<Vec<_>>(), [("GET", 3), ("POST", 1)]);
    }
}
