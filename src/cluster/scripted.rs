//! A scripted HTTP server for tests of the edge: a function answers, every request is kept.

use crate::cluster::bind::{Deliver, WorkerId};
use crate::cluster::lease::Gate;
use crate::cluster::send::cut;
use crate::core::io::Input;
use crate::core::model::{Pod, PodShape, ScheduledCondition};
use crate::core::testing;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use kube::{Client, Config};
use serde_json::{Value, json};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) content_type: String,
    pub(crate) user_agent: String,
    pub(crate) body: Value,
    /// Its place among all requests, from 0.
    pub(crate) number: usize,
}

/// What the script answers.
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) retry_after: Option<u64>,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn json(code: u16, body: Value) -> Self {
        Self { code, retry_after: None, body }
    }

    /// A Kubernetes Status.
    pub(crate) fn status(code: u16, message: &str) -> Self {
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

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Never.
    pub(crate) async fn hang() -> Self {
        std::future::pending().await
    }
}

pub(crate) struct Scripted {
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
    pub(crate) async fn start<F, R>(script: F) -> Self
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
                let mut response = Response::builder().status(reply.code).header("content-type", "application/json");
                if let Some(seconds) = reply.retry_after {
                    response = response.header("retry-after", seconds.to_string());
                }
                response.body(Body::from(reply.body.to_string())).unwrap()
            }
        });
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, asked, task }
    }

    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new(format!("http://{}", self.address).parse().unwrap());
        config.default_retry = false;
        config
    }

    pub(crate) fn client(&self) -> Client {
        Client::try_from(self.config()).unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Requests of one method whose path ends so.
    pub(crate) fn count(&self, method: &str, ending: &str) -> usize {
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
        serde_json::from_slice(&bytes)
            .unwrap_or_else(|e| panic!("body is not JSON: {e}: {}", cut(&String::from_utf8_lossy(&bytes), 200)))
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
pub(crate) async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(std::time::Instant::now() < end, "waited too long for: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// What a lane delivered.
pub(crate) type Inputs = Arc<Mutex<Vec<(WorkerId, Input)>>>;

/// Keeps what a lane delivers.
pub(crate) fn inbox() -> (Inputs, Deliver) {
    let inputs = Inputs::default();
    let kept = inputs.clone();
    (inputs, Arc::new(move |worker, input| kept.lock().unwrap().push((worker, input))))
}

/// Opens a gate for longer than any test.
pub(crate) fn open(gate: &Gate) {
    gate.hold_until(tokio::time::Instant::now() + Duration::from_hours(1));
    gate.admit();
}

/// An open gate.
pub(crate) fn open_gate() -> Gate {
    let gate = Gate::new();
    open(&gate);
    gate
}

/// A pending pod with uid `uid-<name>` and resourceVersion 7.
pub(crate) fn pod(namespace: &str, name: &str) -> Pod {
    let shape = PodShape { namespace: namespace.into(), ..testing::shape() };
    Pod {
        uid: format!("uid-{name}").into(),
        resource_version: "7".into(),
        scheduler_name: "bin".into(),
        ..testing::pod(name, shape)
    }
}

/// That pod with a `PodScheduled=False` condition.
pub(crate) fn refused_pod(namespace: &str, name: &str, reason: &str, message: &str) -> Pod {
    let mut pod = pod(namespace, name);
    pod.scheduled = Some(ScheduledCondition { status: false, reason: reason.into(), message: message.into() });
    pod
}
