//! One request and its plain answer: status, `Retry-After` and body, or whether it can have been carried out without one.

use crate::client::root_cause;
use bytes::Bytes;
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use std::io;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    pub retry_after: Option<Duration>,
    pub body: Bytes,
}

impl Answer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The message of a Status, or the start of the body if it is none; for people only.
    pub fn message(&self) -> String {
        #[derive(serde::Deserialize)]
        struct Status {
            message: String,
        }
        match serde_json::from_slice::<Status>(&self.body) {
            Ok(status) if !status.message.is_empty() => cut(&status.message, MESSAGE_BYTES),
            _ if self.body.is_empty() => format!("HTTP status {}", self.code),
            _ => cut(String::from_utf8_lossy(&self.body).trim(), MESSAGE_BYTES),
        }
    }
}

/// Bytes kept of a foreign message: enough to read, too few to fill a queue.
const MESSAGE_BYTES: usize = 1_024;

/// The longest start of `text` that has at most `bytes` bytes.
pub fn cut(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].to_owned()
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// No connection was made: the API server cannot have seen the request.
    #[error("not sent: {0}")]
    NotSent(String),
    /// It may or may not have been carried out.
    #[error("outcome unknown: {0}")]
    Lost(String),
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
        Self { method: Method::POST, uri, content_type: "application/json", body: body.into() }
    }

    pub fn patch(uri: String, content_type: &'static str, body: Vec<u8>) -> Self {
        Self { method: Method::PATCH, uri, content_type, body: body.into() }
    }

    /// `body` holds `DeleteOptions`.
    pub fn delete(uri: String, body: Vec<u8>) -> Self {
        Self { method: Method::DELETE, uri, content_type: "application/json", body: body.into() }
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
            let response = client.send(request).await?;
            let code = response.status().as_u16();
            let retry_after = response
                .headers()
                .get("retry-after")
                .and_then(|v| v.to_str().ok()?.trim().parse().ok())
                .map(Duration::from_secs);
            let body = response.into_body().collect_bytes().await?;
            Ok(Answer { code, retry_after, body })
        };
        match tokio::time::timeout(timeout, exchange).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(classify(&error)),
            Err(_) => Err(NoAnswer::Lost(format!("no answer within {} ms", timeout.as_millis()))),
        }
    }
}

fn classify(error: &kube::Error) -> NoAnswer {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(e) = cause {
        if let Some(io) = e.downcast_ref::<io::Error>()
            && matches!(
                io.kind(),
                io::ErrorKind::ConnectionRefused | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable
            )
        {
            return NoAnswer::NotSent(io.to_string());
        }
        cause = e.source();
    }
    NoAnswer::Lost(root_cause(error))
}

pub fn push_json(out: &mut Vec<u8>, text: &str) {
    // Writing a string to a Vec cannot fail.
    let _ = serde_json::to_writer(out, text);
}
