//! A scripted HTTP server for tests of the edge: a function answers, every request is kept. Never ships.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "only tests use it")]

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use kube::{Client, Config};
use serde_json::{Value, json};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub query: String,
    pub content_type: String,
    pub user_agent: String,
    pub body: Value,
    /// Its place among all requests, from 0.
    pub number: usize,
}

/// What the script answers.
pub struct Reply {
    pub code: u16,
    pub retry_after: Option<u64>,
    pub content_type: &'static str,
    pub body: Value,
}

impl Reply {
    pub fn json(code: u16, body: Value) -> Self {
        Self { code, retry_after: None, content_type: "application/json", body }
    }

    /// A Kubernetes Status.
    pub fn status(code: u16, message: &str) -> Self {
        let status = if code < 300 { "Success" } else { "Failure" };
        let reason = match code {
            404 => "NotFound",
            409 => "Conflict",
            _ => "",
        };
        Self::json(
            code,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status, "message": message, "reason": reason, "code": code}),
        )
    }

    /// What the API server's filters answer when they turn a request away before anything has looked at it (API Priority and
    /// Fairness, a shutdown): plain text.
    pub fn turned_away(seconds: u64) -> Self {
        let body = Value::String("Too many requests, please try again later.".to_owned());
        Self { code: 429, retry_after: Some(seconds), content_type: "text/plain; charset=utf-8", body }
    }

    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Never.
    pub async fn hang() -> Self {
        std::future::pending().await
    }
}

pub struct Scripted {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Scripted {
    pub async fn start<F, R>(script: F) -> Self
    where
        F: Fn(Asked) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (kept, script) = (asked.clone(), Arc::new(script));
        let app = axum::Router::new().fallback(move |request: Request| {
            let (kept, script) = (kept.clone(), script.clone());
            async move {
                let mut one = read(request).await;
                {
                    let mut all = kept.lock().unwrap();
                    one.number = all.len();
                    all.push(one.clone());
                }
                let reply = script(one).await;
                let mut response = Response::builder().status(reply.code).header("content-type", reply.content_type);
                if let Some(seconds) = reply.retry_after {
                    response = response.header("retry-after", seconds.to_string());
                }
                response.body(Body::from(reply.body.to_string())).unwrap()
            }
        });
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, asked, task }
    }

    /// A server that answers every request with an empty object, once the flag is set.
    pub async fn held() -> (Self, Arc<AtomicBool>) {
        let go = Arc::new(AtomicBool::new(false));
        let seen = go.clone();
        let script = move |_| {
            let seen = seen.clone();
            async move {
                until("released", || seen.load(Ordering::Relaxed)).await;
                Reply::json(200, json!({}))
            }
        };
        (Self::start(script).await, go)
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new(format!("http://{}", self.address).parse().unwrap());
        config.default_retry = false;
        // It speaks plain HTTP: whatever authorities the machine has, none are read.
        config.root_cert = Some(Vec::new());
        config
    }

    pub fn client(&self) -> Client {
        Client::try_from(self.config()).unwrap()
    }

    pub fn requests(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Requests of one method whose path ends so.
    pub fn count(&self, method: &str, ending: &str) -> usize {
        self.requests().iter().filter(|r| r.method == method && r.path.ends_with(ending)).count()
    }
}

async fn read(request: Request) -> Asked {
    let (head, body) = request.into_parts();
    let header = |name: &str| head.headers.get(name).map_or(String::new(), |v| v.to_str().unwrap().to_owned());
    let (content_type, user_agent) = (header("content-type"), header("user-agent"));
    let bytes = to_bytes(body, 1 << 20).await.unwrap();
    let body = if bytes.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&bytes).unwrap_or_else(|e| {
            panic!("body is not JSON: {e}: {}", String::from_utf8_lossy(&bytes).chars().take(200).collect::<String>())
        })
    };
    Asked {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        content_type,
        user_agent,
        body,
        number: 0,
    }
}

/// Waits for a condition with a generous limit.
pub async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(std::time::Instant::now() < end, "waited too long for: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
