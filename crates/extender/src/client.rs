//! One call to an extender: POST a body, read the reply as a stream, within limits of time and size.

use super::connect::{Connection, Pool};
use super::error::{Failure, Fault, broken, error};
use super::resolve::{Net, Resolver};
use super::settings::{Settings, VerbSettings};
use super::tls;
use super::wire::{Payload, Scanner, Visit};
use berth_api::Scheme;
use berth_cluster::client::USER_AGENT;
use berth_core::io::{ExtenderError, ExtenderErrorKind};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::body::{Body, Incoming};
use secrecy::ExposeSecret;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A connection is used again if the rest of the reply's body comes within this time.
const PATIENCE: Duration = Duration::from_millis(20);

/// A connection is used again if at most this many bytes follow the reply.
const REST_BYTES: usize = 64 << 10;

pub(super) struct Call<'a> {
    pub(super) verb: &'a VerbSettings,
    pub(super) payload: Payload,
    /// Bytes that the reply may have at most.
    pub(super) limit: u64,
    /// Whether the call may be sent twice without harm.
    pub(super) is_question: bool,
    /// Asked right before the request is sent, once there is a connection; it is not sent if this returns false.
    pub(super) may_go: &'a (dyn Fn() -> bool + Sync),
}

pub(super) struct Client {
    pool: Pool,
    path: String,
    host: HeaderValue,
    token: Option<HeaderValue>,
}

impl Client {
    /// # Errors
    /// The address is not allowed, or certificates or token cannot be used.
    pub(super) fn new(settings: &Settings, net: &Net) -> Result<Self, ExtenderError> {
        let refused = |why: String| error(ExtenderErrorKind::Refused, format!("extender {}: {why}", settings.name));
        let url = &settings.endpoint.url;
        let allowed = match settings.endpoint.service {
            None => net.policy.check_url(url),
            Some(_) => net.policy.check_scheme(url.scheme, &url.host),
        };
        allowed.map_err(|refusal| refused(refusal.to_string()))?;
        let tls = match url.scheme {
            Scheme::Https => Some(tls::prepare(settings).map_err(|e| error(ExtenderErrorKind::Tls, e.to_string()))?),
            Scheme::Http => None,
        };
        let header = |field: &str, text: &str| {
            HeaderValue::from_str(text).map_err(|_| refused(format!("{field} has bytes that a header cannot have")))
        };
        let token = settings.credentials.token.as_ref();
        let token = token.map(|token| header("auth.bearerTokenRef", &format!("Bearer {}", token.expose_secret())));
        let token = token.transpose()?.map(|mut value| {
            value.set_sensitive(true);
            value
        });
        let resolver = Resolver::new(settings.endpoint.clone(), net.clone());
        Ok(Self {
            pool: Pool::new(resolver, net.connector.clone(), tls, settings.concurrency),
            path: url.path.clone(),
            host: header("endpoint", &url.authority())?,
            token,
        })
    }

    /// Makes a call and returns the visitor once it has seen the whole reply.
    pub(super) async fn call<V: Visit>(&self, call: &Call<'_>, visit: V) -> Result<V, Failure> {
        let sent = AtomicBool::new(false);
        let run = tokio::time::timeout(call.verb.timeout, self.run(call, visit, &sent));
        run.await.unwrap_or_else(|_| {
            let why = format!("no answer within {} ms", call.verb.timeout.as_millis());
            let sent = sent.load(Ordering::Relaxed);
            Err(Failure { error: error(ExtenderErrorKind::Timeout, why), sent, code: None })
        })
    }

    async fn run<V: Visit>(&self, call: &Call<'_>, visit: V, sent: &AtomicBool) -> Result<V, Failure> {
        let mut connection = self.pool.take().await?;
        loop {
            let request = self.request(call)?;
            if !(call.may_go)() {
                return Err(Failure::unsent(ExtenderErrorKind::Busy, "it was taken back before it was sent"));
            }
            sent.store(true, Ordering::Relaxed);
            let mut failed = match connection.sender.try_send_request(request).await {
                Ok(response) => return self.read(call, response, connection, visit).await,
                Err(failed) => failed,
            };
            let was_sent = failed.take_message().is_none();
            let (kind, why) = broken(&failed.into_error());
            // A server may close an idle connection just when we use it: that says nothing about the extender.
            if connection.is_used && (call.is_question || !was_sent) {
                sent.store(false, Ordering::Relaxed);
                connection = self.pool.connect().await?;
                continue;
            }
            let why = format!("the connection broke before an answer: {why}");
            return Err(Failure { error: error(kind, why), sent: was_sent, code: None });
        }
    }

    fn request(&self, call: &Call<'_>) -> Result<Request<Payload>, Failure> {
        let mut request = Request::post(format!("{}/{}", self.path, call.verb.path))
            .header(HOST, self.host.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .header("user-agent", USER_AGENT);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        request.body(call.payload.clone()).map_err(|e| {
            let why = format!("path {}/{} cannot be asked for: {e}", self.path, call.verb.path);
            Failure::unsent(ExtenderErrorKind::Refused, why)
        })
    }

    async fn read<V: Visit>(
        &self,
        call: &Call<'_>,
        response: Response<Incoming>,
        connection: Connection,
        mut visit: V,
    ) -> Result<V, Failure> {
        let (head, mut body) = response.into_parts();
        if head.status != StatusCode::OK {
            return Err(not_ok(head.status));
        }
        let too_large = || {
            let why = format!("the reply has more than {} bytes", call.limit);
            Failure::sent(ExtenderErrorKind::InvalidReply, why)
        };
        let declared = head.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
        if declared.is_some_and(|length| length > call.limit) {
            return Err(too_large());
        }
        let invalid = |fault: Fault| {
            let kind = if fault.is_size() { ExtenderErrorKind::Busy } else { ExtenderErrorKind::InvalidReply };
            Failure::sent(kind, format!("the reply cannot be used: {fault}"))
        };
        let mut scanner = Scanner::default();
        let mut read = 0_u64;
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let frame = frame.map_err(|e| {
                let (kind, why) = broken(&e);
                Failure::sent(kind, format!("the reply broke off after {read} bytes: {why}"))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            read += data.len() as u64;
            if read > call.limit {
                return Err(too_large());
            }
            scanner.feed(&data, &mut visit).map_err(invalid)?;
            if scanner.is_done() {
                break;
            }
        }
        scanner.finish(&mut visit).map_err(invalid)?;
        // As upstream, the reply ends with the value. The connection is used again if little follows.
        if tokio::time::timeout(PATIENCE, ends_soon(body)).await == Ok(true) {
            self.pool.put(connection);
        }
        Ok(visit)
    }
}

/// Reads the rest of a body; false if it is long or breaks off.
async fn ends_soon(mut body: Incoming) -> bool {
    let mut left = REST_BYTES;
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(frame) = frame else { return false };
        let length = frame.data_ref().map_or(0, Bytes::len);
        if length > left {
            return false;
        }
        left -= length;
    }
    true
}

/// Any status but 200 is a failure: redirects are not followed.
fn not_ok(status: StatusCode) -> Failure {
    let kind = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ExtenderErrorKind::Unauthorized,
        _ => ExtenderErrorKind::Status,
    };
    Failure { code: Some(status.as_u16()), ..Failure::sent(kind, format!("code {}", status.as_u16())) }
}
