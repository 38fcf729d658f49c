//! A small blocking client for raw JSON at a path of the API server: keep-alive, usable from many threads at once.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use ureq::SendBody;
use ureq::http::Request;
use ureq::http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Idle connections kept: as many as threads that a test or benchmark may use.
const CONNECTIONS: usize = 640;

/// How a PATCH body is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patch {
    /// RFC 7386: objects are merged, lists replaced, `null` removes.
    Merge,
    /// RFC 6902: a list of operations.
    Json,
    /// Kubernetes' own: lists are merged by key. Not for custom resources.
    Strategic,
}

impl Patch {
    /// Its media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Json => "application/json-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

/// What the API server answered, whatever its status.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// The header of this name; empty if there is none.
    pub content_type: String,
    /// The header of this name; empty if there is none.
    pub retry_after: String,
    /// The JSON body; a string where the body is not JSON.
    pub body: Value,
}

impl Answer {
    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// A body that does not come before the other end of the channel is dropped.
struct Held(Receiver<()>);

impl Read for Held {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        let _dropped = self.0.recv();
        Ok(0)
    }
}

/// A client of one API server with one bearer token. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Api {
    agent: ureq::Agent,
    server: String,
    token: String,
}

impl Api {
    /// A client for `server` (`https://host:port`) that trusts the certificates in the PEM file `authority`.
    pub fn new(server: &str, authority: &Path, token: &str) -> Result<Self> {
        let pem =
            std::fs::read(authority).with_context(|| format!("reading the certificate {}", authority.display()))?;
        let trusted: Vec<Certificate<'static>> = parse_pem(&pem)
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            })
            .collect();
        if trusted.is_empty() {
            bail!("{} holds no certificate", authority.display());
        }
        let tls = TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(trusted))).build();
        let agent = ureq::Agent::config_builder()
            .tls_config(tls)
            .proxy(None)
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .max_idle_connections(CONNECTIONS)
            .max_idle_connections_per_host(CONNECTIONS)
            .timeout_connect(Some(Duration::from_secs(10)))
            .build()
            .new_agent();
        Ok(Self { agent, server: server.to_owned(), token: token.to_owned() })
    }

    /// This server and its connections, with another token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self.clone() }
    }

    /// The same connections, to another server that listens on loopback without TLS.
    pub(crate) fn at(&self, server: &str) -> Self {
        Self { server: server.to_owned(), ..self.clone() }
    }

    /// GET; an error unless the status is 2xx.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.demand("GET", path, None)
    }

    /// POST; an error unless the status is 2xx.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.demand("POST", path, Some(("application/json", body)))
    }

    /// PUT; an error unless the status is 2xx.
    pub fn put(&self, path: &str, body: &Value) -> Result<Value> {
        self.demand("PUT", path, Some(("application/json", body)))
    }

    /// PATCH; an error unless the status is 2xx.
    pub fn patch(&self, path: &str, kind: Patch, body: &Value) -> Result<Value> {
        self.demand("PATCH", path, Some((kind.content_type(), body)))
    }

    /// DELETE of one object or, at a collection's path, of all in it; an error unless the status is 2xx.
    /// `options` is a `DeleteOptions` object.
    pub fn delete(&self, path: &str, options: Option<&Value>) -> Result<Value> {
        self.demand("DELETE", path, options.map(|body| ("application/json", body)))
    }

    /// Any request with a JSON body; errors only when no answer came, so that refusals can be examined.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        self.send(method, path, body.map(|body| ("application/json", body)))
    }

    /// As [`Self::request`], with a body of any media type.
    pub fn request_as(&self, method: &str, path: &str, body: Option<(&str, &Value)>) -> Result<Answer> {
        self.send(method, path, body)
    }

    /// POST whose body does not come before the sender of `end` is dropped. Its handler waits for it, and the request keeps its place
    /// in the API server's flow control meanwhile. What is answered in the end does not matter.
    pub fn hold(&self, path: &str, end: Receiver<()>) -> Result<()> {
        let request = self.builder("POST", path).header("Content-Type", "application/json");
        let request = request.body(SendBody::from_owned_reader(Held(end)))?;
        self.agent.run(request).map(drop).with_context(|| format!("POST {path}"))
    }

    /// GET whose body is handed out as it arrives: long lists and watches. `accept` is the media type asked for.
    /// An error unless the status is 2xx.
    pub fn stream(&self, path: &str, accept: &str) -> Result<impl Read + use<>> {
        let request = self.builder("GET", path).header("Accept", accept).body(())?;
        let answer = self.agent.run(request).with_context(|| format!("GET {path}"))?;
        let status = answer.status().as_u16();
        let mut body = answer.into_body();
        if !(200..300).contains(&status) {
            bail!("GET {path}: {status}: {}", body.read_to_string().unwrap_or_default());
        }
        Ok(body.into_with_config().limit(u64::MAX).reader())
    }

    fn demand(&self, method: &str, path: &str, body: Option<(&str, &Value)>) -> Result<Value> {
        let answer = self.send(method, path, body)?;
        if answer.is_success() {
            return Ok(answer.body);
        }
        let message = answer.body["message"].as_str().unwrap_or("no message");
        bail!("{method} {path}: {}: {message}", answer.status)
    }

    fn send(&self, method: &str, path: &str, body: Option<(&str, &Value)>) -> Result<Answer> {
        let builder = self.builder(method, path).header("Accept", "application/json");
        let answer = match body {
            Some((content_type, body)) => {
                let bytes = serde_json::to_vec(body)?;
                self.agent.run(builder.header("Content-Type", content_type).body(bytes)?)
            }
            None => self.agent.run(builder.body(())?),
        };
        let mut answer = answer.with_context(|| format!("{method} {path}"))?;
        let status = answer.status().as_u16();
        let header = |name: HeaderName| {
            let value = answer.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (content_type, retry_after) = (header(CONTENT_TYPE), header(RETRY_AFTER));
        let bytes = answer.body_mut().with_config().limit(u64::MAX).read_to_vec()?;
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Ok(Answer { status, content_type, retry_after, body })
    }

    fn builder(&self, method: &str, path: &str) -> ureq::http::request::Builder {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server))
            .header("Authorization", format!("Bearer {}", self.token))
    }
}
