//! Extenders at work: the connections of operators to them, what they are asked, and what they answer and do.

use super::extenders::{ExtenderPlan, Extenders, Ill};
use super::facts::By;
use super::model::api::{Asked, answer};
use super::model::store::text;
use super::rules::MAY_BIND_WITHIN;
use super::world::{Inner, World};
use berth_extender::{Connector, Stream};
use bytes::Bytes;
use futures::stream;
use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use std::future::pending;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

type AnyBody = UnsyncBoxBody<Bytes, io::Error>;

/// Bytes that are on their way in each direction at most.
const ON_THE_WAY: usize = 64 << 10;

/// A node that no world has.
const STRANGER: &str = "n99";

/// The way from an operator to the extenders.
pub(crate) fn connector(world: Arc<World>, operator: usize) -> Connector {
    Arc::new(move |address| Box::pin(connect(world.clone(), operator, address)))
}

/// What becomes of one attempt to connect.
struct Met {
    /// Whom, if it takes the connection up.
    extender: Option<(u8, CancellationToken)>,
    hangs: bool,
    after: Duration,
}

async fn connect(world: Arc<World>, operator: usize, address: SocketAddr) -> io::Result<Box<dyn Stream>> {
    let Met { extender, hangs, after } = world.lock().meet(address, Instant::now());
    sleep(after).await;
    if let Some((number, connections)) = extender {
        let (ours, theirs) = tokio::io::duplex(ON_THE_WAY);
        tokio::spawn(serve(world, operator, number, theirs, connections));
        return Ok(Box::new(ours));
    }
    if hangs {
        return pending().await;
    }
    Err(io::ErrorKind::ConnectionRefused.into())
}

/// Serves one connection until it ends or is cut.
async fn serve(world: Arc<World>, operator: usize, number: u8, stream: DuplexStream, connections: CancellationToken) {
    let service = service_fn(move |request| take(world.clone(), operator, number, request));
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let _ended = connections.run_until_cancelled(served).await;
}

async fn take(
    world: Arc<World>,
    operator: usize,
    number: u8,
    request: Request<Incoming>,
) -> io::Result<Response<AnyBody>> {
    let verb = request.uri().path().trim_start_matches('/').to_owned();
    let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    let call = world.lock().take_call(operator, number, verb, &body, Instant::now());
    // Nobody sees what a killed process sends.
    let Some(call) = call else { return pending().await };
    // What an extender has begun it goes on with, whether anybody waits for the answer or not.
    tokio::spawn(call.attend(world)).await.map_err(io::Error::other)?
}

/// A request that an extender has taken, with all that was drawn for it.
#[derive(Debug)]
struct Call {
    operator: usize,
    plan: ExtenderPlan,
    verb: String,
    body: Value,
    at: Instant,
    ill: Option<Ill>,
    /// Which of the forms that a failure has.
    form: u64,
    /// Whether a bind is carried out of which the answer does not tell.
    lands: bool,
    /// Until it does anything.
    before: Duration,
    /// Longer than anybody waits.
    late: Duration,
}

impl Inner {
    fn meet(&mut self, address: SocketAddr, now: Instant) -> Met {
        let Extenders { random, all } = &mut self.extenders;
        let number = match address.ip() {
            IpAddr::V4(ip) => ip.octets()[2],
            IpAddr::V6(_) => u8::MAX,
        };
        let (after, hangs, ticket) = (random.millis(1, 4), random.in_thousand(500), random.below(1_000));
        let there = all.get(&number).filter(|one| ticket >= one.mix(now).unreachable);
        let extender = there.map(|one| (number, one.connections.clone()));
        Met { extender, hangs, after }
    }

    fn take_call(&mut self, operator: usize, number: u8, verb: String, body: &[u8], now: Instant) -> Option<Call> {
        let Extenders { random, all } = &mut self.extenders;
        let one = all.get(&number).filter(|_| self.operators[operator].connected)?;
        let (plan, ill) = (one.plan, one.mix(now).pick(random.below(1_000)));
        let is_slow = verb == "bind" && self.network.binds_slow.is_some_and(|until| until > now);
        let call = Call {
            operator,
            plan,
            body: serde_json::from_slice(body).unwrap_or(Value::Null),
            at: now,
            ill,
            form: random.below(1_000),
            lands: random.in_thousand(500),
            before: if is_slow { random.millis(500, 5_000) } else { random.millis(1, 30) },
            late: plan.timeout + random.millis(1, 12_000),
            verb,
        };
        self.trace.note(
            &["asked", &call.verb],
            &[operator as u64, u64::from(number), ill.map_or(0, |ill| ill as u64 + 1), body.len() as u64],
            format_args!("operator {operator} asks {} to {}: {ill:?} {}", plan.name(), call.verb, call.subject()),
        );
        if call.verb == "bind" {
            self.is_extenders_will(operator, &call.binding(), true, now);
            self.rules.asked_to_bind(operator, &call.binding(), &self.facts, now);
        }
        Some(call)
    }
}

impl Call {
    fn text(&self, at: &str) -> &str {
        text(&self.body, at)
    }

    /// The pod, and the node that it is to be bound to.
    fn subject(&self) -> String {
        if self.verb == "bind" {
            return format!("{}/{} to {}", self.text("/PodNamespace"), self.text("/PodName"), self.text("/Node"));
        }
        format!("{}/{}", self.text("/Pod/metadata/namespace"), self.text("/Pod/metadata/name"))
    }

    async fn attend(self, world: Arc<World>) -> io::Result<Response<AnyBody>> {
        sleep(self.before).await;
        let answer = if self.verb == "bind" { self.bind(&world).await } else { self.opinion() };
        if self.ill == Some(Ill::Late) {
            sleep(self.late.saturating_sub(self.at.elapsed())).await;
        }
        if !world.lock().operators[self.operator].connected {
            return pending().await;
        }
        let is_refusal = answer["Error"].as_str().is_some_and(|error| !error.is_empty());
        if self.verb == "bind" && (is_refusal && self.answers() || self.status().is_some_and(|code| code < 500)) {
            world.lock().rules.bind_settled(self.operator, self.text("/PodUID"), self.at);
        }
        self.respond(&answer).await
    }

    /// Whether it answers as the protocol says.
    fn answers(&self) -> bool {
        matches!(self.ill, None | Some(Ill::Error | Ill::Strangers | Ill::Late | Ill::Untrue))
    }

    fn status(&self) -> Option<u16> {
        (self.ill == Some(Ill::Failing)).then(|| [500, 503, 404, 429][self.form as usize % 4])
    }

    /// What it says about nodes or victims.
    fn opinion(&self) -> Value {
        if self.ill == Some(Ill::Error) {
            return json!({"Error": "drawn"});
        }
        match self.verb.as_str() {
            "filter" => self.filter(),
            "prioritize" => self.prioritize(),
            _ => self.preempt(),
        }
    }

    fn app(&self) -> &str {
        self.text("/Pod/metadata/labels/app")
    }

    fn nodes(&self) -> Vec<String> {
        let names = self.body["NodeNames"].as_array().into_iter().flatten();
        let whole = self.body["Nodes"]["items"].as_array().into_iter().flatten();
        let whole = whole.filter_map(|node| node.pointer("/metadata/name"));
        names.chain(whole).filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn filter(&self) -> Value {
        let (mut kept, refused): (Vec<String>, Vec<String>) =
            self.nodes().into_iter().partition(|node| self.plan.lets(self.app(), node));
        if self.ill == Some(Ill::Strangers) {
            kept.push(STRANGER.to_owned());
        }
        let why: Map<String, Value> = refused.into_iter().map(|node| (node, "drawn".into())).collect();
        let field = if self.form.is_multiple_of(2) { "FailedNodes" } else { "FailedAndUnresolvableNodes" };
        if self.body["NodeNames"].is_null() {
            let nodes: Vec<Value> = kept.into_iter().map(|node| json!({"metadata": {"name": node}})).collect();
            return json!({"Nodes": {"items": nodes}, field: why});
        }
        json!({"NodeNames": kept, field: why})
    }

    fn prioritize(&self) -> Value {
        let mut nodes = self.nodes();
        if self.ill == Some(Ill::Strangers) {
            nodes.push(STRANGER.to_owned());
        }
        let score = |(place, node): (usize, String)| json!({"Host": node, "Score": (self.form + place as u64) % 11});
        nodes.into_iter().enumerate().map(score).collect()
    }

    /// It agrees, but for the nodes that it lets nobody go to.
    fn preempt(&self) -> Value {
        let candidates = ["NodeNameToMetaVictims", "NodeNameToVictims"];
        let mut kept = Map::new();
        for (node, victims) in candidates.iter().filter_map(|field| self.body[*field].as_object()).flatten() {
            if !self.plan.lets(self.app(), node) {
                continue;
            }
            let uid = |pod: &Value| pod.get("UID").or(pod.pointer("/metadata/uid")).cloned();
            let pods: Vec<Value> = victims["Pods"].as_array().into_iter().flatten().filter_map(uid).collect();
            let pods: Vec<Value> = pods.into_iter().map(|uid| json!({"UID": uid})).collect();
            kept.insert(node.clone(), json!({"Pods": pods, "NumPDBViolations": victims["NumPDBViolations"]}));
        }
        if self.ill == Some(Ill::Strangers) {
            let node = if self.form.is_multiple_of(2) { kept.keys().next().cloned() } else { None };
            kept.insert(node.unwrap_or_else(|| STRANGER.to_owned()), json!({"Pods": [{"UID": "nobody"}]}));
        }
        json!({"NodeNameToMetaVictims": kept})
    }

    /// The request by which it binds the pod.
    fn binding(&self) -> Asked {
        let (namespace, name) = (self.text("/PodNamespace"), self.text("/PodName"));
        let body = json!({"kind": "Binding", "apiVersion": "v1", "target": {"kind": "Node", "name": self.body["Node"]},
            "metadata": {"name": name, "namespace": namespace, "uid": self.body["PodUID"]}});
        Asked {
            method: "POST".to_owned(),
            path: format!("/api/v1/namespaces/{namespace}/pods/{name}/binding"),
            query: Vec::new(),
            content_type: "application/json".to_owned(),
            accept: String::new(),
            body: body.to_string().into(),
        }
    }

    /// Does with the bind what it does, and tells of it.
    async fn bind(&self, world: &Arc<World>) -> Value {
        let lands = match self.ill {
            None | Some(Ill::Strangers | Ill::Late) => true,
            Some(Ill::Unreachable | Ill::Error) => false,
            Some(Ill::Silent | Ill::Junk | Ill::Large) => self.lands,
            Some(Ill::Failing) => self.lands && self.status().is_some_and(|code| code >= 500),
            Some(Ill::Untrue) => return self.lie(world),
        };
        if self.ill == Some(Ill::Late) && !self.lands {
            sleep(self.late.saturating_sub(self.at.elapsed())).await;
        }
        let done =
            if lands { land(world, self.operator, self.at, &self.binding(), true) } else { Err("drawn".to_owned()) };
        json!({"Error": done.err().unwrap_or_default()})
    }

    fn lie(&self, world: &Arc<World>) -> Value {
        let (world, operator, at, binding) = (world.clone(), self.operator, self.at, self.binding());
        match self.form % 3 {
            0 => json!({"Error": ""}),
            1 => {
                let late = self.late;
                tokio::spawn(async move {
                    sleep(late).await;
                    // It has said so, and is expected to.
                    land(&world, operator, at, &binding, true)
                });
                json!({"Error": ""})
            }
            _ => {
                let _done = land(&world, operator, at, &binding, false);
                json!({"Error": "drawn"})
            }
        }
    }

    async fn respond(&self, answer: &Value) -> io::Result<Response<AnyBody>> {
        let broken = || io::Error::from(io::ErrorKind::ConnectionReset);
        let text = answer.to_string();
        match self.ill {
            Some(Ill::Unreachable) => Err(broken()),
            Some(Ill::Silent) if self.form.is_multiple_of(2) => Err(broken()),
            Some(Ill::Silent) => pending().await,
            Some(Ill::Failing) => Ok(whole(self.status().unwrap_or(500), text)),
            Some(Ill::Junk) => Ok(match self.form % 4 {
                0 => whole(200, "7"),
                1 => whole(200, "<html>"),
                2 => whole(200, text[..text.len() / 2].to_owned()),
                _ => {
                    let half = Bytes::from(text[..text.len() / 2].to_owned());
                    let frames = stream::iter([Ok(Frame::data(half)), Err(broken())]);
                    Response::new(StreamBody::new(frames).boxed_unsync())
                }
            }),
            Some(Ill::Large) => Ok(self.large()),
            _ => Ok(whole(200, text)),
        }
    }

    /// An answer that says how long it is; where little is too much already, one that does not, and goes on.
    fn large(&self) -> Response<AnyBody> {
        if self.plan.full && self.form.is_multiple_of(2) {
            let spaces = Bytes::from_static(&[b' '; 16 << 10]);
            let frames = stream::repeat_with(move || Ok::<_, io::Error>(Frame::data(spaces.clone())));
            return Response::new(StreamBody::new(frames).boxed_unsync());
        }
        let body = StreamBody::new(stream::pending::<io::Result<Frame<Bytes>>>()).boxed_unsync();
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_LENGTH, (1_u64 << 30).into());
        response
    }
}

/// An extender binds a pod through the API server, as it was asked at `sent`. Says why it could not.
fn land(world: &World, operator: usize, sent: Instant, binding: &Asked, is_told: bool) -> Result<(), String> {
    let now = Instant::now();
    if world.lock().network.down.is_some_and(|until| until > now) {
        return Err("connection refused".to_owned());
    }
    // What nobody told the operator of, or what comes after all patience, is to it as if a stranger did it.
    let is_known = is_told && now < sent + MAY_BIND_WITHIN;
    let by = if is_known { By::Operator(operator) } else { By::ForeignScheduler };
    let got = world.act(by, |inner| {
        let got = answer(&mut inner.store, binding, now);
        inner.trace.note(
            &["extender", &binding.path],
            &[operator as u64, u64::from(got.code)],
            format_args!("an extender of operator {operator} POST {} -> {}", binding.path, got.code),
        );
        if is_known && got.is_success() {
            let version = inner.store.version();
            inner.rules.bound_by_extender(operator, &binding.path, (sent, now), version);
        }
        got
    });
    if got.is_success() { Ok(()) } else { Err(String::from_utf8_lossy(&got.body).into_owned()) }
}

fn whole(code: u16, text: impl Into<Bytes>) -> Response<AnyBody> {
    let body = Full::new(text.into()).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    response
}
