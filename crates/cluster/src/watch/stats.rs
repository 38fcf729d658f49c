use super::CallError;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;

/// What a watch has done so far, for metrics and readiness; shared with whoever reads it.
#[derive(Debug)]
pub struct WatchStats {
    origin: Instant,
    /// Milliseconds since `origin`, plus one; 0 is never.
    last_frame: AtomicU64,
    frames: AtomicU64,
    bad: AtomicU64,
    /// 0 for a kind that is there.
    absent: AtomicU8,
    gone: AtomicU64,
    refused: AtomicU64,
    api: AtomicU64,
    connection: AtomicU64,
    silent: AtomicU64,
}

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

/// Failed calls by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatchErrors {
    /// The resourceVersion was too old: 410.
    pub gone: u64,
    /// The server does not take this kind of call.
    pub refused: u64,
    /// The server answered with another error: 403, 429, 5xx …
    pub api: u64,
    /// The connection could not be made or broke.
    pub connection: u64,
    /// Nothing came for too long.
    pub silent: u64,
}

impl Default for WatchStats {
    fn default() -> Self {
        let zero = AtomicU64::default;
        Self {
            origin: Instant::now(),
            last_frame: zero(),
            frames: zero(),
            bad: zero(),
            absent: AtomicU8::new(0),
            gone: zero(),
            refused: zero(),
            api: zero(),
            connection: zero(),
            silent: zero(),
        }
    }
}

impl WatchStats {
    /// How long ago the last object or bookmark came; `None` before the first.
    pub fn age_of_last_frame(&self) -> Option<Duration> {
        let at = self.last_frame.load(Relaxed).checked_sub(1)?;
        Some(self.origin.elapsed().saturating_sub(Duration::from_millis(at)))
    }

    /// Objects and bookmarks received.
    pub(super) fn frames(&self) -> u64 {
        self.frames.load(Relaxed)
    }

    /// Objects skipped because they do not decode; one that is sent again counts again.
    pub fn bad_objects(&self) -> u64 {
        self.bad.load(Relaxed)
    }

    /// Why there is nothing of an optional kind; `None` while it is there.
    pub fn absence(&self) -> Option<Absence> {
        match self.absent.load(Relaxed) {
            0 => None,
            1 => Some(Absence::Forbidden),
            _ => Some(Absence::NotServed),
        }
    }

    /// Failed calls by cause.
    pub fn errors(&self) -> WatchErrors {
        WatchErrors {
            gone: self.gone.load(Relaxed),
            refused: self.refused.load(Relaxed),
            api: self.api.load(Relaxed),
            connection: self.connection.load(Relaxed),
            silent: self.silent.load(Relaxed),
        }
    }

    pub(super) fn frame(&self) {
        self.frames.fetch_add(1, Relaxed);
        self.last_frame.store(self.origin.elapsed().as_millis() as u64 + 1, Relaxed);
    }

    /// Notes whether the kind is there; `true` if that is news.
    pub(super) fn set_absence(&self, absence: Option<Absence>) -> bool {
        let code = match absence {
            None => 0,
            Some(Absence::Forbidden) => 1,
            Some(Absence::NotServed) => 2,
        };
        self.absent.swap(code, Relaxed) != code
    }

    pub(super) fn bad_object(&self) {
        self.bad.fetch_add(1, Relaxed);
    }

    pub(super) fn error(&self, error: &CallError) {
        let counter = match error {
            CallError::Gone => &self.gone,
            CallError::Refused { .. } => &self.refused,
            CallError::Api { .. } => &self.api,
            CallError::Connection { .. } | CallError::Cut => &self.connection,
            CallError::Silent { .. } => &self.silent,
        };
        counter.fetch_add(1, Relaxed);
    }
}
