//! The way between an operator and the model API server, and all that goes wrong on it.

use super::model::api::{Answer, Asked, Place};
use super::model::kinds::Of;
use super::protobuf;
use super::random::Random;
use super::watching::{Luck, Watch};
use super::world::{Act, World};
use berth_cluster::proto::Type;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type AnyBody = UnsyncBoxBody<Bytes, BoxError>;

/// How often what goes wrong, in so many of a thousand requests, or of a thousand watches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mix {
    /// No connection.
    pub(crate) refused: u64,
    /// 429, from the server's filters or from a webhook.
    pub(crate) throttled: u64,
    /// 500, 503 and 504, before anything was done.
    pub(crate) errors: u64,
    /// No answer, and nothing was done.
    pub(crate) lost: u64,
    /// No answer, and it was carried out.
    pub(crate) applied_and_lost: u64,
    /// Its connection breaks, and it is carried out after that, within the time that the request gave the server.
    pub(crate) late: u64,
    /// Seconds until it is carried out.
    pub(crate) slow: u64,
    /// A webhook denies writes of pods.
    pub(crate) denied: u64,
    /// Watches that are cut after a while.
    pub(crate) cut: u64,
    /// Milliseconds that a change takes at most to reach a watch.
    pub(crate) lag: u64,
}

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    Refused,
    Throttled,
    Failed(u16),
    Lost,
    AppliedAndLost,
    CarriedOutLate,
    Denied,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Drawn {
    fate: Fate,
    /// Until it is carried out.
    before: Duration,
    /// From then until its answer is there; if it is carried out late, until its connection breaks.
    after: Duration,
    /// Whether a lost answer shows as a broken connection, and not as silence.
    reset: bool,
    retry_after: u64,
}

#[derive(Debug)]
pub(crate) struct Network {
    random: Random,
    /// For requests whose client has given up.
    random_of_late: Random,
    pub(crate) mix: Mix,
    /// Until when an operator's connections are silent.
    silent: BTreeMap<usize, Instant>,
    /// Until when nobody reaches the server.
    pub(crate) down: Option<Instant>,
    /// Until when a webhook that is asked about writes of pods hangs.
    pub(crate) webhook_hangs: Option<Instant>,
    /// Until when what happens to pods and nodes reaches watches later, and by how much.
    pub(crate) lags: Option<(Instant, Duration)>,
    /// Until when binds are slow.
    pub(crate) binds_slow: Option<Instant>,
    /// How many changes of pods or nodes are to be left out of a watch of an operator that goes on.
    left_out: BTreeMap<(usize, Of), usize>,
    /// When the API server was started: watches do not outlive it.
    pub(crate) started: Option<Instant>,
    /// Whether it answers in protobuf where that is asked for.
    has_protobuf: bool,
}

impl Network {
    pub(crate) fn new(random: Random, has_protobuf: bool) -> Self {
        Self {
            has_protobuf,
            random_of_late: random.fork(1),
            random,
            mix: Mix::default(),
            silent: BTreeMap::new(),
            down: None,
            webhook_hangs: None,
            lags: None,
            binds_slow: None,
            left_out: BTreeMap::new(),
            started: None,
        }
    }

    pub(crate) fn silence(&mut self, operator: usize, until: Instant) {
        self.silent.insert(operator, until);
    }

    /// Until when nothing reaches this operator.
    pub(crate) fn silent(&self, operator: usize, now: Instant) -> Option<Instant> {
        self.silent.get(&operator).copied().filter(|until| *until > now)
    }

    /// All faults end.
    pub(crate) fn heal(&mut self) {
        *self = Self::new(self.random.clone(), self.has_protobuf);
    }

    pub(crate) fn draw(&mut self, asked: &Asked, now: Instant) -> Drawn {
        let (mix, random) = (self.mix, &mut self.random);
        let mut drawn = Drawn {
            fate: Fate::Answered,
            before: random.millis(1, 8),
            after: random.millis(1, 4),
            reset: random.in_thousand(500),
            retry_after: random.between(1, 4),
        };
        let writes_pod = asked.method != "GET" && asked.path.contains("/pods/");
        if self.down.is_some_and(|until| until > now) {
            return Drawn { fate: Fate::Refused, ..drawn };
        }
        if writes_pod && self.webhook_hangs.is_some_and(|until| until > now) {
            return Drawn { fate: Fate::Lost, reset: false, ..drawn };
        }
        if asked.path.ends_with("/binding") && self.binds_slow.is_some_and(|until| until > now) {
            drawn.before = random.millis(500, 5_000);
            return drawn;
        }
        if random.in_thousand(mix.slow) {
            drawn.before = random.millis(200, 6_000);
        }
        let chances = [mix.refused, mix.throttled, mix.errors, mix.lost, mix.applied_and_lost];
        let mut ticket = random.below(1_000);
        for (index, chance) in chances.into_iter().enumerate() {
            if ticket < chance {
                drawn.fate = match index {
                    0 => Fate::Refused,
                    1 => Fate::Throttled,
                    2 => Fate::Failed(random.pick(&[500, 503, 504])),
                    3 => Fate::Lost,
                    _ => Fate::AppliedAndLost,
                };
                return drawn;
            }
            ticket -= chance;
        }
        if writes_pod && random.in_thousand(mix.denied) {
            drawn.fate = Fate::Denied;
        }
        self.draw_late(asked, drawn)
    }

    /// Whether a request that would be answered is carried out after its client has given up. It is bounded by the time that the request
    /// itself gave the server: those that name none are left out.
    fn draw_late(&mut self, asked: &Asked, drawn: Drawn) -> Drawn {
        let (chance, random) = (self.mix.late, &mut self.random_of_late);
        let limit = asked.timeout().map_or(0, |limit| limit.as_millis() as u64);
        if drawn.fate != Fate::Answered || asked.method == "GET" || limit < 10 || !random.in_thousand(chance) {
            return drawn;
        }
        let before = random.between(5, limit - 1);
        let breaks = random.millis(1, before - 1);
        Drawn { fate: Fate::CarriedOutLate, before: Duration::from_millis(before), after: breaks, ..drawn }
    }

    /// Whether a request arrives that was on its way when its process was killed.
    fn outlives_its_process(&mut self) -> bool {
        self.random_of_late.in_thousand(500)
    }

    /// Has so many more of the next changes left out.
    pub(crate) fn leave_out(&mut self, operator: usize, of: Of, count: usize) {
        *self.left_out.entry((operator, of)).or_default() += count;
    }

    /// How many are still to be left out.
    pub(crate) fn left_out(&self, operator: usize, of: Of) -> usize {
        self.left_out.get(&(operator, of)).copied().unwrap_or_default()
    }

    /// So many were left out.
    pub(crate) fn were_left_out(&mut self, operator: usize, of: Of, count: usize) {
        if let Some(left) = self.left_out.get_mut(&(operator, of)) {
            *left -= count;
        }
    }

    /// How much later than usual a change of this kind arrives that happened at `at`.
    pub(crate) fn lag(&self, of: Of, at: Instant) -> Duration {
        let lags = self.lags.filter(|(until, _)| matches!(of, Of::Pods | Of::Nodes) && at < *until);
        lags.map_or(Duration::ZERO, |(_, lag)| lag)
    }

    fn luck(&mut self, now: Instant) -> Luck {
        let (mix, random) = (self.mix, &mut self.random);
        Luck {
            lag: random.millis(1, mix.lag.max(10)),
            cut: random.in_thousand(mix.cut).then(|| now + random.millis(500, 20_000)),
            torn: random.in_thousand(300),
        }
    }
}

/// One operator's connections.
#[derive(Clone)]
pub(crate) struct Link {
    world: Arc<World>,
    operator: usize,
}

impl Link {
    pub(crate) fn new(world: Arc<World>, operator: usize) -> Self {
        Self { world, operator }
    }

    async fn exchange(self, request: Request<Body>) -> Result<Response<AnyBody>, BoxError> {
        let (asked, began) = (read(request).await?, Instant::now());
        let (drawn, was_alive) = {
            let (mut inner, now) = (self.world.lock(), Instant::now());
            inner.sent(self.operator, &asked);
            (inner.network.draw(&asked, now), inner.operators[self.operator].connected)
        };
        if drawn.fate == Fate::Refused {
            sleep(drawn.before).await;
            self.world.lock().rules.not_sent(self.operator, &asked, began);
            return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
        }
        if drawn.fate == Fate::CarriedOutLate {
            if was_alive {
                self.world.do_later(began + drawn.before, Act::CarryOut(self.operator, asked));
            }
            sleep(drawn.after).await;
            return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
        }
        let is_alive = self.pass(drawn.before).await;
        // The server gives up before it comes to that.
        let is_late = asked.timeout().is_some_and(|limit| began.elapsed() >= limit);
        if !is_alive {
            let arrives = asked.method != "GET" && drawn.fate == Fate::Answered && !is_late;
            // What is left of a dead process in this one goes on for a while, and sends nothing.
            if arrives && self.world.lock().network.outlives_its_process() && was_alive {
                self.world.carry_out(self.operator, &asked);
            }
            return std::future::pending().await;
        }
        if drawn.fate == Fate::Lost || is_late {
            return self.lost(drawn, &asked).await;
        }
        if asked.is_watch() && drawn.fate == Fate::Answered {
            return Ok(self.watch(&asked));
        }
        let answer = match drawn.fate {
            Fate::Throttled => throttled(drawn),
            Fate::Failed(code) => Answer::status(code, "InternalError", "the server has asked to retry, or failed"),
            Fate::Denied => Answer::status(403, "Forbidden", "admission webhook \"drawn\" denied the request"),
            _ => self.world.carry_out(self.operator, &asked),
        };
        if drawn.fate == Fate::AppliedAndLost {
            return self.lost(drawn, &asked).await;
        }
        if !self.pass(drawn.after).await {
            return std::future::pending().await;
        }
        self.world.lock().answered(self.operator, &asked, &answer, began);
        let message = Place::of(&asked.path).and_then(|place| self.message(&asked, place.of));
        Ok(respond(&match message {
            Some(of) => protobuf::answer(answer, of),
            None => answer,
        }))
    }

    /// The type of what is asked for, if it is sent in protobuf.
    fn message(&self, asked: &Asked, of: Of) -> Option<Type> {
        protobuf::wanted(asked, of).filter(|_| self.world.lock().network.has_protobuf)
    }

    /// On the way for so long, and for as long as the operator's connections are silent. False if it was killed: nobody waits any more.
    async fn pass(&self, time: Duration) -> bool {
        sleep(time).await;
        loop {
            let (until, dead) = {
                let inner = self.world.lock();
                (inner.network.silent(self.operator, Instant::now()), !inner.operators[self.operator].connected)
            };
            match until {
                _ if dead => return false,
                Some(until) => tokio::time::sleep_until(until).await,
                None => return true,
            }
        }
    }

    /// No answer comes. A silent connection breaks when everything heals; that of a watch, which may be silent for long, does not.
    async fn lost(&self, drawn: Drawn, asked: &Asked) -> Result<Response<AnyBody>, BoxError> {
        if drawn.reset {
            sleep(drawn.after).await;
        } else if asked.is_watch() {
            std::future::pending::<()>().await;
        } else if !self.world.lock().healed {
            self.world.healed.notified().await;
        }
        Err(io::Error::from(io::ErrorKind::ConnectionReset).into())
    }

    fn watch(&self, asked: &Asked) -> Response<AnyBody> {
        let Some(place) = Place::of(&asked.path) else {
            return respond(&Answer::status(404, "NotFound", "the server could not find the requested resource"));
        };
        let luck = self.world.lock().network.luck(Instant::now());
        let message = self.message(asked, place.of);
        let watch = Watch::new(self.world.clone(), self.operator, (place, message), asked, luck);
        let frames = stream::unfold(watch, |mut watch| async move {
            let next = watch.next().await?;
            Some((next.map(hyper::body::Frame::data).map_err(BoxError::from), watch))
        });
        Response::builder()
            .header("content-type", if message.is_some() { protobuf::CONTENT_TYPE } else { "application/json" })
            .body(StreamBody::new(frames).boxed_unsync())
            .unwrap()
    }
}

impl tower::Service<Request<Body>> for Link {
    type Response = Response<AnyBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().exchange(request))
    }
}

async fn read(request: Request<Body>) -> Result<Asked, BoxError> {
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default().split('&').filter(|part| !part.is_empty());
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    Ok(Asked {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: query
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .map(|(name, value)| (name.to_owned(), decoded(value)))
            .collect(),
        content_type: header("content-type").to_owned(),
        accept: header("accept").to_owned(),
        body: body.collect_bytes().await?,
    })
}

/// Undoes percent encoding.
fn decoded(text: &str) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let hex = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        if let Some(byte) = byte {
            out.push(byte);
            rest = &after[2..];
        } else {
            out.push(if *first == b'+' { b' ' } else { *first });
            rest = after;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Even where nothing has looked at the request the answer is JSON if a webhook gave it.
fn throttled(drawn: Drawn) -> Answer {
    if drawn.reset {
        return Answer::turned_away(drawn.retry_after);
    }
    let answer = Answer::status(429, "TooManyRequests", "Too many requests, please try again later.");
    Answer { retry_after: Some(drawn.retry_after), ..answer }
}

fn respond(answer: &Answer) -> Response<AnyBody> {
    let mut response = Response::builder().status(answer.code).header("content-type", answer.content_type);
    if let Some(seconds) = answer.retry_after {
        response = response.header("retry-after", seconds.to_string());
    }
    response.body(Full::new(answer.body.clone()).map_err(|never| match never {}).boxed_unsync()).unwrap()
}
