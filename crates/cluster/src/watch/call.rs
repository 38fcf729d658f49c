use super::Watched;
use super::frame::ErrorStatus;
use crate::proto::{self, Encoded, Encoding, LARGEST};
use futures::TryStreamExt;
use futures::io::{AsyncBufRead, AsyncBufReadExt};
use http::header::ACCEPT;
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::api::{ListParams, VersionMatch, WatchParams};
use kube::client::Body;
use kube::core::Request;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::timeout;

/// Why there is nothing of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// 403: an RBAC rule is missing.
    Forbidden,
    /// 404: the API server does not serve it.
    NotServed,
}

impl Absence {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::NotServed => "not_served",
        }
    }
}

/// Why a call to the API server failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// 410: the resourceVersion to go on from is too old.
    #[error("the resourceVersion is too old: everything is read again")]
    Gone,
    /// The server does not take this kind of call.
    #[error("the API server refuses this call ({code}): {message}")]
    Refused { code: u16, message: String },
    #[error("the API server answered {code} to {verb} {plural}: {message}{}", hint(*code, verb, plural))]
    Api { code: u16, verb: &'static str, plural: &'static str, message: String },
    /// The connection could not be made, or broke.
    #[error("no connection to the API server: {message}")]
    Connection { message: String },
    #[error("the answer broke off")]
    Cut,
    #[error("nothing came for {limit:?}")]
    Silent { limit: Duration },
    /// An object has a field that is to be named, and came as a number.
    #[error(
        "{namespace}/{name} has the field {field}, which is newer than our table of protobuf's fields: {plural} are read in JSON from now on"
    )]
    Unnamed { plural: &'static str, namespace: String, name: String, field: String },
}

fn hint(code: u16, verb: &str, plural: &str) -> String {
    if code == 403 { format!(" (grant {verb} on {plural} to this account)") } else { String::new() }
}

impl CallError {
    /// The error for an HTTP status.
    pub(super) fn from_code(code: u16, verb: &'static str, plural: &'static str, message: String) -> Self {
        match code {
            410 => Self::Gone,
            400 | 405 | 406 | 415 | 422 => Self::Refused { code, message },
            _ => Self::Api { code, verb, plural, message },
        }
    }

    /// Whether the server is too busy to answer, or not there behind its proxy.
    pub(super) const fn is_overload(&self) -> bool {
        matches!(self, Self::Api { code: 429 | 502 | 503, .. })
    }

    /// Why the kind counts as absent, if the error means that.
    pub const fn absence(&self) -> Option<Absence> {
        match self {
            Self::Api { code: 403, .. } => Some(Absence::Forbidden),
            Self::Api { code: 404, .. } => Some(Absence::NotServed),
            _ => None,
        }
    }

    fn from_kube(error: &kube::Error) -> Self {
        Self::Connection { message: chain(error) }
    }

    fn from_io(error: &std::io::Error) -> Self {
        Self::Connection { message: chain(error) }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}

/// The request for a watch from `version`. The call ends after so many `seconds`.
pub(super) fn watch_request<W: Watched>(version: &str, seconds: u32) -> WatchCall {
    let params = WatchParams {
        field_selector: W::FIELDS.map(ToOwned::to_owned),
        timeout: Some(seconds),
        ..WatchParams::default()
    };
    WatchCall { plural: W::PLURAL, request: Request::new(W::PATH).watch(&params, version), verb: "watch" }
}

/// The request for a page of a list: of what was there at the resourceVersion `at`, or a consistent read of what is there.
pub(super) fn list_request<W: Watched>(limit: u32, token: &str, at: Option<&str>) -> WatchCall {
    // A token stands for a version.
    let at = at.filter(|_| token.is_empty());
    let params = ListParams {
        field_selector: W::FIELDS.map(ToOwned::to_owned),
        limit: Some(limit),
        continue_token: (!token.is_empty()).then(|| token.to_owned()),
        version_match: at.map(|_| VersionMatch::Exact),
        resource_version: at.map(ToOwned::to_owned),
        ..ListParams::default()
    };
    WatchCall { plural: W::PLURAL, request: Request::new(W::PATH).list(&params), verb: "list" }
}

/// The request for a page of the metadata of what is at `path`, at any version: the API server answers from its watch cache.
///
/// With resourceVersion 0 it would do so as well, but ignore the limit; "not older than 1" means the same, and the limit holds
/// (`computeListLimit` in `pkg/storage/cacher/cacher.go` of k8s.io/apiserver 1.36). The token of a page stands for a version, so that it goes
/// without one; its page comes from a snapshot of the cache, or from etcd where the server keeps none.
pub(super) fn metadata_request(
    plural: &'static str,
    path: &str,
    fields: Option<&str>,
    limit: u32,
    token: &str,
) -> WatchCall {
    let params = ListParams {
        field_selector: fields.map(ToOwned::to_owned),
        limit: Some(limit),
        continue_token: (!token.is_empty()).then(|| token.to_owned()),
        version_match: Some(VersionMatch::NotOlderThan),
        resource_version: Some("1".to_owned()),
        ..ListParams::default()
    };
    WatchCall { plural, request: Request::new(path).list_metadata(&params), verb: "list" }
}

/// A call that is ready to be made.
pub(super) struct WatchCall {
    plural: &'static str,
    verb: &'static str,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
}

/// Bytes that are read of why a call is refused.
const REFUSAL: usize = 64 << 10;

impl WatchCall {
    /// The call with an answer in this encoding, if the server has it.
    pub(super) fn accepting(mut self, encoding: Encoding) -> Self {
        if let Ok(request) = &mut self.request {
            request.headers_mut().insert(ACCEPT, encoding.accept());
        }
        self
    }

    /// Makes the call; an answer that does not begin within `limit` is [`CallError::Silent`].
    pub(super) async fn open(self, client: Client, limit: Duration) -> Result<Answer<impl AsyncBufRead>, CallError> {
        let (verb, plural) = (self.verb, self.plural);
        let request = self.request.map_err(|error| CallError::Connection { message: error.to_string() })?;
        let opened = timeout(limit, client.send(request.map(Body::from))).await;
        let response =
            opened.map_err(|_| CallError::Silent { limit })?.map_err(|error| CallError::from_kube(&error))?;
        let code = response.status();
        if code.is_client_error() || code.is_server_error() {
            let message = timeout(limit, refusal(response)).await.map_err(|_| CallError::Silent { limit })?;
            return Err(CallError::from_code(code.as_u16(), verb, plural, message));
        }
        let encoding = Encoding::of(response.headers());
        let body = response.into_body().into_data_stream().map_err(std::io::Error::other).into_async_read();
        Ok(Answer { body: Box::pin(body), frame: Vec::new(), encoding })
    }
}

/// Why a call is refused, in the words of the server, or of a proxy before it.
async fn refusal(response: http::Response<Body>) -> String {
    let encoding = Encoding::of(response.headers());
    let Ok(body) = Limited::new(response.into_body(), REFUSAL).collect().await else { return String::new() };
    let body = body.to_bytes();
    let status = match encoding {
        Encoding::Json => ErrorStatus::read(Encoded::Json(&body)),
        Encoding::Protobuf => {
            return proto::object_in(&body)
                .map_or_else(|_| String::new(), |status| ErrorStatus::read(Encoded::Protobuf(status)).message);
        }
    };
    if status.message.is_empty() { String::from_utf8_lossy(&body).trim().to_owned() } else { status.message }
}

/// An answer that is still coming in.
pub(super) struct Answer<B> {
    body: Pin<Box<B>>,
    frame: Vec<u8>,
    encoding: Encoding,
}

impl<B: AsyncBufRead> Answer<B> {
    pub(super) const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The next event of a watch; `None` at the end of the answer. A last one without an end is [`CallError::Cut`].
    pub(super) async fn event(&mut self, limit: Duration) -> Result<Option<Encoded<'_>>, CallError> {
        self.frame.clear();
        let read = async {
            match self.encoding {
                Encoding::Json => line(self.body.as_mut(), &mut self.frame).await,
                Encoding::Protobuf => message(self.body.as_mut(), &mut self.frame).await,
            }
        };
        let is_there = timeout(limit, read).await.map_err(|_| CallError::Silent { limit })??;
        Ok(is_there.then(|| self.encoding.with(&self.frame)))
    }

    /// Gives the next bytes to `each`; whether there were any.
    pub(super) async fn bytes(&mut self, limit: Duration, each: impl FnOnce(&[u8])) -> Result<bool, CallError> {
        let read = timeout(limit, self.body.fill_buf()).await;
        let bytes = read.map_err(|_| CallError::Silent { limit })?.map_err(|error| CallError::from_io(&error))?;
        let length = bytes.len();
        each(bytes);
        self.body.as_mut().consume(length);
        Ok(length > 0)
    }
}

/// Reads a line without its end; whether there was one.
async fn line(mut body: Pin<&mut impl AsyncBufRead>, line: &mut Vec<u8>) -> Result<bool, CallError> {
    // One object is one line: what etcd takes bounds it.
    let size = body.read_until(b'\n', line).await.map_err(|error| CallError::from_io(&error))?;
    if size > 0 && line.pop() != Some(b'\n') {
        return Err(CallError::Cut);
    }
    Ok(size > 0)
}

/// Reads a message, before which its size stands in four bytes, the highest first; whether there was one.
async fn message(mut body: Pin<&mut impl AsyncBufRead>, message: &mut Vec<u8>) -> Result<bool, CallError> {
    if !take(body.as_mut(), message, 4).await? {
        return Ok(false);
    }
    let size = message.iter().fold(0, |size, byte| size << 8 | usize::from(*byte));
    if size > LARGEST {
        return Err(CallError::Connection { message: format!("an event of {size} bytes: no object is so large") });
    }
    message.clear();
    if size > 0 && !take(body, message, size).await? {
        return Err(CallError::Cut);
    }
    Ok(true)
}

/// Reads so many bytes; whether there were any.
async fn take(mut body: Pin<&mut impl AsyncBufRead>, into: &mut Vec<u8>, size: usize) -> Result<bool, CallError> {
    while into.len() < size {
        let bytes = body.fill_buf().await.map_err(|error| CallError::from_io(&error))?;
        if bytes.is_empty() {
            return if into.is_empty() { Ok(false) } else { Err(CallError::Cut) };
        }
        let taken = bytes.len().min(size - into.len());
        into.extend_from_slice(&bytes[..taken]);
        body.as_mut().consume(taken);
    }
    Ok(true)
}
