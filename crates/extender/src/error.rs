//! Why a call got no answer, and whether the extender may have seen it.

use berth_core::io::{ExtenderError, ExtenderErrorKind};
use std::io;

pub(crate) fn error(kind: ExtenderErrorKind, message: impl AsRef<str>) -> ExtenderError {
    ExtenderError { kind, message: message.as_ref().into() }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) error: ExtenderError,
    /// Whether the extender may have seen the request, and may still act on it.
    pub(super) sent: bool,
    /// The HTTP status, if that is why the call failed.
    pub(super) code: Option<u16>,
}

impl Failure {
    pub(super) fn unsent(kind: ExtenderErrorKind, message: impl AsRef<str>) -> Self {
        Self { error: error(kind, message), sent: false, code: None }
    }

    pub(super) fn sent(kind: ExtenderErrorKind, message: impl AsRef<str>) -> Self {
        Self { error: error(kind, message), sent: true, code: None }
    }
}

impl From<ExtenderError> for Failure {
    fn from(error: ExtenderError) -> Self {
        Self { error, sent: false, code: None }
    }
}

/// The TLS error among the causes of a broken connection; otherwise the innermost cause.
pub(super) fn broken(error: &(dyn std::error::Error + 'static)) -> (ExtenderErrorKind, String) {
    let mut inner = error;
    loop {
        if let Some(tls) = inner.downcast_ref::<rustls::Error>() {
            return (ExtenderErrorKind::Tls, tls.to_string());
        }
        let within = inner.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let next = within.map(|e| e as &(dyn std::error::Error + 'static)).or_else(|| inner.source());
        match next {
            Some(next) => inner = next,
            None => return (ExtenderErrorKind::Connection, inner.to_string()),
        }
    }
}
