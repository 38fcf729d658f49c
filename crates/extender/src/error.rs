//! Why a call got no answer, and whether the extender may have seen it; why a reply cannot be used.

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

/// What is wrong with a reply, without any text of the reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("not JSON: byte {at} is not {wanted}")]
    Syntax {
        /// Counted from 0.
        at: u64,
        wanted: &'static str,
    },
    #[error("it ends after {read} bytes, in the middle of a value")]
    Cut { read: u64 },
    #[error("values are nested more than {limit} deep")]
    Deep { limit: u32 },
    /// A value does not have the type that the protocol gives it.
    #[error("{place} is not {wanted}")]
    Shape { place: &'static str, wanted: &'static str },
    /// The profile's memory budget is used up.
    #[error("its names and messages take more memory than the {limit} bytes which the replies to one profile may hold")]
    Full { limit: usize },
}

impl Fault {
    pub(crate) const fn shape(place: &'static str, wanted: &'static str) -> Self {
        Self::Shape { place, wanted }
    }

    /// Whether the reply is too large, and not wrong.
    pub const fn is_size(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}
