//! A scripted extender on a real socket: it reads requests as HTTP/1.1 and answers with any bytes that the script gives.

use super::LANDS_WITHIN;
use super::address::AddressPolicy;
use super::connector::tcp;
use super::extender_clients::{ExtenderClients, Options};
use super::profile_extenders::Notice;
use super::settings::{Credentials, Endpoint, Settings, Verb, VerbSettings};
use super::store::ObjectStore;
use berth_api::NodePayload;
use berth_cluster::bind::{BindRequest, WorkerId};
use berth_cluster::lease::Gate;
use berth_cluster::recheck::{Gone, Recheck, Shown};
use berth_core::io::Input;
use berth_core::model::PodKey;
use berth_testing::{Asked, Reply, Scripted};
use serde_json::{Value, json};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) path: String,
    /// Lines of the head, in lower case.
    pub(super) head: Vec<String>,
    pub(super) body: Value,
    /// Among all requests, from 0.
    pub(super) number: usize,
    /// From 0.
    pub(super) connection: usize,
}

/// What the script does with a request.
#[derive(Debug, Clone)]
pub(super) enum Act {
    /// 200 with this, and the connection stays.
    Json(Value),
    /// This status, with these header lines, and the connection stays.
    Status(u16, &'static str),
    /// These bytes, then the connection is closed.
    Raw(Vec<u8>),
    /// The connection is reset.
    Reset,
    /// Nothing, ever.
    Hang,
    /// These bytes, and then nothing.
    Stall(&'static str),
    /// A head, then this piece again and again until nobody reads any more.
    Flood(&'static str, &'static [u8]),
}

impl Act {
    /// 200 with this body as it is.
    pub(super) fn body(body: &str) -> Self {
        Self::Raw(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes())
    }
}

pub(super) struct Server {
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(super) async fn start(script: impl Fn(&Request) -> Act + Send + Sync + 'static) -> Self {
        Self::start_with(None, script).await
    }

    pub(super) async fn start_with(
        tls: Option<TlsAcceptor>,
        script: impl Fn(&Request) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, connections) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (kept, counted, script) = (asked.clone(), connections.clone(), Arc::new(script));
        let task = tokio::spawn(async move {
            let mut all = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // Closing this socket resets the connection.
                reset_on_drop(&stream);
                let (tls, kept, script) = (tls.clone(), kept.clone(), script.clone());
                let number = counted.fetch_add(1, Ordering::SeqCst);
                all.spawn(async move {
                    match tls {
                        None => serve(stream, number, &kept, &*script).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, number, &kept, &*script).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, asked, connections, task }
    }

    pub(super) fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/scheduler", self.address)
    }
}

#[allow(deprecated, reason = "blocks only where a linger time is set; this one is zero")]
fn reset_on_drop(stream: &tokio::net::TcpStream) {
    stream.set_linger(Some(Duration::ZERO)).unwrap();
}

async fn read<S: AsyncRead + Unpin>(stream: &mut S, buffer: &mut [u8]) -> io::Result<usize> {
    let mut buffer = ReadBuf::new(buffer);
    poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, &mut buffer)).await?;
    Ok(buffer.filled().len())
}

async fn write_all<S: AsyncWrite + Unpin>(stream: &mut S, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, bytes)).await?;
        bytes = &bytes[written..];
    }
    poll_fn(|cx| Pin::new(&mut *stream).poll_flush(cx)).await
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    connection: usize,
    kept: &Mutex<Vec<Request>>,
    script: &(dyn Fn(&Request) -> Act + Send + Sync),
) {
    let mut buffer = Vec::new();
    while let Some(mut request) = read_request(&mut stream, &mut buffer).await {
        {
            let mut all = kept.lock().unwrap();
            (request.number, request.connection) = (all.len(), connection);
            all.push(request.clone());
        }
        let bytes = match script(&request) {
            Act::Json(value) => {
                let body = value.to_string();
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
            }
            Act::Status(code, headers) => {
                format!("HTTP/1.1 {code} X\r\n{headers}content-length: 4\r\n\r\nbody").into_bytes()
            }
            Act::Raw(bytes) => {
                let _sent = write_all(&mut stream, &bytes).await;
                let _shut = poll_fn(|cx| Pin::new(&mut stream).poll_shutdown(cx)).await;
                // Whatever comes is read until the other side closes: no reset cuts off what was written.
                while read(&mut stream, &mut [0; 1024]).await.is_ok_and(|n| n > 0) {}
                return;
            }
            Act::Reset => return,
            Act::Hang => std::future::pending().await,
            Act::Stall(bytes) => {
                let _sent = write_all(&mut stream, bytes.as_bytes()).await;
                std::future::pending().await
            }
            Act::Flood(head, piece) => {
                let _sent = write_all(&mut stream, head.as_bytes()).await;
                while write_all(&mut stream, piece).await.is_ok() {}
                return;
            }
        };
        if write_all(&mut stream, &bytes).await.is_err() {
            return;
        }
    }
}

async fn read_request<S: AsyncRead + Unpin>(stream: &mut S, buffer: &mut Vec<u8>) -> Option<Request> {
    let mut chunk = vec![0; 16 << 10];
    loop {
        if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
            let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")?.parse::<usize>().ok());
            let whole = end + 4 + length.expect("a request says its length");
            if buffer.len() >= whole {
                let original = String::from_utf8_lossy(&buffer[..end]).into_owned();
                let path = original.split(' ').nth(1).unwrap().to_owned();
                let body = serde_json::from_slice(&buffer[end + 4..whole]).unwrap();
                buffer.drain(..whole);
                let head = head.lines().map(ToOwned::to_owned).collect();
                return Some(Request { path, head, body, number: 0, connection: 0 });
            }
        }
        match read(stream, &mut chunk).await {
            Ok(n) if n > 0 => buffer.extend_from_slice(&chunk[..n]),
            _ => return None,
        }
    }
}

/// Settings of an extender at this URL with all verbs, each with this timeout.
pub(super) fn settings(url: &str, timeout: Duration) -> Settings {
    let url = super::address::Url::parse(url).unwrap();
    let verb = |verb: Verb| (verb, VerbSettings { path: verb.as_str().to_owned(), timeout });
    Settings {
        name: "ext".into(),
        endpoint: Endpoint { url, service: None },
        verbs: Verb::ALL.into_iter().map(verb).collect(),
        form: NodePayload::Names,
        concurrency: 8,
        open_for: Duration::from_millis(200),
        skip_verify: false,
        server_name: None,
        credentials: Credentials::default(),
    }
}

/// A policy that lets tests connect to themselves.
pub(super) fn local() -> AddressPolicy {
    let here = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    AddressPolicy::new(&here, &here).unwrap()
}

/// Opens a gate for longer than any test.
pub(super) fn lead(gate: &Gate) {
    gate.lease_until(tokio::time::Instant::now() + Duration::from_hours(1));
    gate.admit();
}

/// What the watch has shown.
#[derive(Default)]
pub(super) struct Cluster {
    pub(super) node_deleted: AtomicBool,
    pub(super) pod_deleted: AtomicBool,
    /// Whether binds are shown late, or never.
    pub(super) blind: AtomicBool,
    /// What it shows of each pod, if not what was wanted.
    pub(super) shown: Mutex<Option<Shown>>,
    /// Whether the next look at the watch panics.
    pub(super) panics: AtomicBool,
    /// Whether the next look at the node panics.
    pub(super) panics_before: AtomicBool,
}

impl Recheck for Cluster {
    fn gone(&self, _: &BindRequest) -> Option<Gone> {
        assert!(!self.panics_before.swap(false, Ordering::Relaxed), "a panic for the test");
        let of_pod = || self.pod_deleted.load(Ordering::Relaxed).then_some(Gone::Pod);
        self.node_deleted.load(Ordering::Relaxed).then_some(Gone::Node).or_else(of_pod)
    }

    fn shown(&self, request: &BindRequest) -> Shown {
        assert!(!self.panics.swap(false, Ordering::Relaxed), "a panic for the test");
        if self.blind.load(Ordering::Relaxed) {
            return Shown::Waits;
        }
        self.shown.lock().unwrap().clone().unwrap_or_else(|| Shown::On(request.node.clone()))
    }
}

/// `ExtenderClients` with a scripted API server; what they deliver is kept.
pub(super) struct Rig {
    pub(super) clients: ExtenderClients,
    pub(super) store: Arc<ObjectStore>,
    pub(super) gate: Gate,
    pub(super) cluster: Arc<Cluster>,
    pub(super) api: Scripted,
    pub(super) delivered: mpsc::UnboundedReceiver<(WorkerId, Input)>,
    pub(super) notices: mpsc::UnboundedReceiver<Notice>,
}

impl Rig {
    pub(super) async fn new() -> Self {
        Self::with(local(), |asked| async move { Reply::status(404, &asked.path) }).await
    }

    pub(super) async fn with<F, R>(policy: AddressPolicy, api: F) -> Self
    where
        F: Fn(Asked) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        Self::that_waits((Duration::from_millis(300), super::LANDS_WITHIN), policy, api).await
    }

    /// One in which a pod must be bound so long after an answer of success, and a call that is given up may be carried out for so long.
    pub(super) async fn that_waits<F, R>(
        (bound_within, lands_within): (Duration, Duration),
        policy: AddressPolicy,
        api: F,
    ) -> Self
    where
        F: Fn(Asked) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        let api = Scripted::start(api).await;
        let (deliver, delivered) = mpsc::unbounded_channel();
        let (notify, notices) = mpsc::unbounded_channel();
        let store = Arc::new(ObjectStore::default());
        let (gate, cluster) = (Gate::new(), Arc::new(Cluster::default()));
        lead(&gate);
        let clients = ExtenderClients::new(Options {
            policy,
            connector: tcp(),
            kube: api.client().into(),
            store: store.clone(),
            // The uid of a test's pod is `uid-<name>`.
            key_of: Arc::new(|uid| Some(PodKey { namespace: "ns".into(), name: uid.strip_prefix("uid-")?.into() })),
            gate: gate.clone(),
            recheck: cluster.clone(),
            bound_within,
            lands_within,
            deliver: Arc::new(move |worker, input| drop(deliver.send((worker, input)))),
            notify: Arc::new(move |notice| drop(notify.send(notice))),
        });
        Self { clients, store, gate, cluster, api, delivered, notices }
    }

    /// Sets up the extender of profile `prof`.
    pub(super) fn configure(&self, settings: Settings) {
        self.clients.configure("prof", &["bin".into()], vec![Ok(settings)]);
    }

    /// The next input that is delivered to a worker.
    pub(super) async fn next(&mut self) -> Input {
        tokio::time::timeout(Duration::from_secs(20), self.delivered.recv())
            .await
            .expect("delivered in time")
            .unwrap()
            .1
    }

    pub(super) async fn notice(&mut self) -> Notice {
        tokio::time::timeout(Duration::from_secs(20), self.notices.recv()).await.expect("noted in time").unwrap()
    }

    /// A pending pod of namespace `ns`, in the store.
    pub(super) fn pod(&self, name: &str) -> Arc<berth_core::model::Pod> {
        let pod = berth_core::testing::pending_pod("ns", name);
        let raw = json!({"kind": "Pod", "metadata": {"name": name, "namespace": "ns", "uid": &*pod.uid}});
        self.store.put_pod(&pod, raw.to_string().as_bytes());
        Arc::new(pod)
    }
}

/// The pod as the API server has it.
#[derive(Clone)]
pub(super) struct Truth(Arc<Mutex<Seen>>);

#[derive(Clone)]
enum Seen {
    Pod(Value),
    Code(u16),
}

impl Truth {
    pub(super) fn unbound() -> Self {
        let truth = Self(Arc::new(Mutex::new(Seen::Code(404))));
        truth.unbind();
        truth
    }

    pub(super) fn unbind(&self) {
        *self.0.lock().unwrap() = Seen::Pod(json!({"metadata": {"uid": "uid-p"}, "spec": {}}));
    }

    pub(super) fn bind(&self, node: &str) {
        *self.0.lock().unwrap() = Seen::Pod(json!({"metadata": {"uid": "uid-p"}, "spec": {"nodeName": node}}));
    }

    pub(super) fn code(&self, code: u16) {
        *self.0.lock().unwrap() = Seen::Code(code);
    }

    pub(super) async fn rig(&self) -> Rig {
        self.landing_within(LANDS_WITHIN).await
    }

    /// Calls that are given up may be carried out for so long.
    pub(super) async fn landing_within(&self, lands_within: Duration) -> Rig {
        self.rig_that_waits((Duration::from_millis(300), lands_within)).await
    }

    /// Waits for so long for a pod of which success was answered, and for a call that was given up.
    pub(super) async fn rig_that_waits(&self, times: (Duration, Duration)) -> Rig {
        let truth = self.clone();
        Rig::that_waits(times, local(), move |asked| {
            assert_eq!((asked.method.as_str(), asked.path.as_str()), ("GET", "/api/v1/namespaces/ns/pods/p"));
            let reply = truth.0.lock().unwrap().clone();
            async move {
                match reply {
                    Seen::Pod(pod) => Reply::json(200, pod),
                    Seen::Code(code) => Reply::status(code, "no"),
                }
            }
        })
        .await
    }
}
