//! One request and its plain answer: status, headers that matter and body, or whether it can have been carried out without one.

use crate::client::root_cause;
use berth_core::model::Str;
use bytes::Bytes;
use http::response::Parts;
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use std::error::Error;
use std::io;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    pub retry_after: Option<Duration>,
    /// Whether it is JSON, as every answer is of what has looked at the request: storage, admission and its webhooks. Filters before
    /// that (API Priority and Fairness, a shutdown) and proxies answer in plain text.
    pub is_json: bool,
    pub body: Bytes,
}

impl Answer {
    pub(crate) fn of(head: &Parts, body: Bytes) -> Self {
        let header = |name: &str| Some(head.headers.get(name)?.to_str().ok()?.trim());
        let retry_after = header("retry-after").and_then(|v| v.parse().ok()).map(Duration::from_secs);
        let is_json = header("content-type").is_some_and(|v| v.starts_with("application/json"));
        Self { code: head.status.as_u16(), retry_after, is_json, body }
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The resourceVersion of the object that a write has made.
    pub(crate) fn resource_version(&self) -> Option<Str> {
        #[derive(serde::Deserialize)]
        struct Object {
            metadata: Metadata,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            resource_version: Str,
        }
        serde_json::from_slice::<Object>(&self.body).ok().map(|object| object.metadata.resource_version)
    }

    /// The message of a Status, or the start of the body if it is none; for people only.
    pub fn message(&self) -> String {
        #[derive(serde::Deserialize)]
        struct Status {
            message: String,
        }
        match serde_json::from_slice::<Status>(&self.body) {
            Ok(status) if !status.message.is_empty() => plain(&status.message, MESSAGE_BYTES),
            _ if self.body.is_empty() => format!("HTTP status {}", self.code),
            _ => plain(String::from_utf8_lossy(&self.body).trim(), MESSAGE_BYTES),
        }
    }
}

/// A resourceVersion as the number that it is for all kinds that Kubernetes itself serves, and by which versions are compared; 0
/// for one that is none.
pub fn version_number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

/// Bytes kept of a foreign message: enough to read, too few to fill a queue.
const MESSAGE_BYTES: usize = 1_024;

/// The start of `text` in at most `bytes` bytes, on one line and without characters that a terminal obeys: parts of messages are
/// written by tenants and their webhooks.
pub fn plain(text: &str, bytes: usize) -> String {
    let mut out = String::with_capacity(text.len().min(bytes));
    for c in text.chars() {
        let before = out.len();
        if is_obeyed(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        if out.len() > bytes {
            out.truncate(before);
            break;
        }
    }
    out
}

/// Whether a terminal, or a reader of lines or of YAML, does something else with a character than to show it: control characters,
/// line separators, byte order marks, invisible characters, and marks that turn the direction of writing.
pub const fn is_obeyed(c: char) -> bool {
    matches!(c, '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// No byte of it was written: no connection was made, it was closed before, or there were no credentials.
    #[error("not sent: {0}")]
    NotSent(String),
    /// It may or may not have been carried out.
    #[error("outcome unknown: {0}")]
    Lost(String),
}

impl NoAnswer {
    /// What was sent `limit` ago, and may be carried out all the same.
    pub(crate) fn late(limit: Duration) -> Self {
        Self::Lost(format!("no answer within {} ms", limit.as_millis()))
    }
}

/// What a request does to which resource: by that webhooks are called, so that requests of one kind may hang while others are answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    method: Method,
    /// With its subresource.
    resource: String,
}

/// A request that can be sent again as it is.
#[derive(Debug, Clone)]
pub struct Call {
    pub method: Method,
    /// Path and query.
    pub uri: String,
    pub content_type: &'static str,
    pub body: Bytes,
}

impl Call {
    pub fn get(uri: String) -> Self {
        Self { method: Method::GET, uri, content_type: "application/json", body: Bytes::new() }
    }

    pub fn post(uri: String, body: Vec<u8>) -> Self {
        Self { method: Method::POST, body: body.into(), ..Self::get(uri) }
    }

    pub fn patch(uri: String, content_type: &'static str, patch: &Value) -> Self {
        Self { method: Method::PATCH, uri, content_type, body: patch.to_string().into() }
    }

    pub fn delete(uri: String, options: &Value) -> Self {
        Self { method: Method::DELETE, body: options.to_string().into(), ..Self::get(uri) }
    }

    pub(crate) fn kind(&self) -> Kind {
        let path: Vec<&str> = self.uri.split('?').next().unwrap_or_default().split('/').collect();
        let part = |at: usize| path.get(at).copied().unwrap_or_default();
        // After "/api/v1" or "/apis/<group>/<version>".
        let first = if part(1) == "apis" { 4 } else { 3 };
        let resource = if part(first) == "namespaces" && path.len() > first + 2 { first + 2 } else { first };
        Kind { method: self.method.clone(), resource: format!("{}/{}", part(resource), part(resource + 2)) }
    }

    /// The same write, which the API server gives up after `limit`.
    #[must_use]
    pub(crate) fn given_up_after(&self, limit: Duration) -> Self {
        let separator = if self.uri.contains('?') { '&' } else { '?' };
        Self { uri: format!("{}{separator}timeout={}ms", self.uri, limit.as_millis()), ..self.clone() }
    }

    /// Sends it and reads the whole answer, so that the connection can be used again.
    pub async fn send(&self, client: &Client, timeout: Duration) -> Result<Answer, NoAnswer> {
        let request = Request::builder()
            .method(self.method.clone())
            .uri(&self.uri)
            .header("content-type", self.content_type)
            .header("accept", "application/json")
            .body(Body::from(self.body.clone()))
            .map_err(|e| NoAnswer::NotSent(e.to_string()))?;
        let exchange = async {
            let (head, body) = client.send(request).await?.into_parts();
            Ok(Answer::of(&head, body.collect_bytes().await?))
        };
        match tokio::time::timeout(timeout, exchange).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(classify(&error)),
            Err(_) => Err(NoAnswer::late(timeout)),
        }
    }
}

fn classify(error: &kube::Error) -> NoAnswer {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let unreached = |io: &&io::Error| matches!(io.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable);
    let causes = std::iter::successors(Some(error as &(dyn Error + 'static)), |cause| (*cause).source());
    match causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).find(unreached) {
        Some(io) => NoAnswer::NotSent(io.to_string()),
        None => NoAnswer::Lost(root_cause(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_request_is_its_method_and_its_resource_wherever_that_is() {
        for (uri, want) in [
            ("/api/v1/namespaces/ns/pods/p?timeout=4000ms", "pods/"),
            ("/api/v1/namespaces/ns/pods/p/status?fieldManager=berth", "pods/status"),
            ("/api/v1/namespaces/ns/pods/p/binding", "pods/binding"),
            ("/api/v1/namespaces/ns/persistentvolumeclaims/c", "persistentvolumeclaims/"),
            ("/api/v1/persistentvolumes/v", "persistentvolumes/"),
            ("/api/v1/namespaces/ns", "namespaces/"),
            ("/apis/events.k8s.io/v1/namespaces/ns/events?fieldManager=berth", "events/"),
            ("/apis/events.k8s.io/v1/namespaces/ns/events/e", "events/"),
        ] {
            let Kind { method, resource } = Call::get(uri.to_owned()).kind();
            assert_eq!((method, &*resource), (Method::GET, want), "{uri}");
        }
    }

    #[test]
    fn a_foreign_message_is_one_short_line_that_no_terminal_obeys() {
        for (text, want) in [
            ("0/3 nodes are available: 100% é.", "0/3 nodes are available: 100% é."),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}]52;c;eA==\u{7}", "\\u{1b}]52;c;eA==\\u{7}"),
            ("x\u{202e}y\u{2028}z\u{85}", "x\\u{202e}y\\u{2028}z\\u{85}"),
        ] {
            assert_eq!(plain(text, 100), want);
        }
        assert_eq!(plain("ééé", 5), "éé", "cut between characters");
        assert_eq!(plain("ab\nc", 3), "ab", "and not within an escape");
        assert_eq!(plain(&"x".repeat(1 << 20), 10).len(), 10);
        let body = format!(r#"{{"message": "denied:\nline {}"}}"#, "x".repeat(5_000)).into();
        let message = Answer { code: 403, retry_after: None, is_json: true, body }.message();
        assert!(message.starts_with("denied:\\nline xx") && message.len() == MESSAGE_BYTES, "{message}");
    }
}
