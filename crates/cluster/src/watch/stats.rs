use super::call::{Absence, CallError};
use super::shown::Shown;
use crate::send::version_number;
use crate::write::lock;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// What a watch has done so far, for metrics and readiness; shared with whoever reads it.
#[derive(Debug)]
pub struct WatchStats {
    origin: Instant,
    /// Milliseconds since `origin`, plus one; 0 is never.
    last_frame: AtomicU64,
    frames: AtomicU64,
    bad: AtomicU64,
    reached: AtomicU64,
    changed: AtomicU64,
    whole: Mutex<Option<Instant>>,
    /// When the whole read under way began.
    reading: watch::Sender<Option<Instant>>,
    wanted: AtomicU64,
    /// Why the kind is absent, and when the read began that found it.
    absence: Mutex<Option<(Absence, Instant)>>,
    errors: Mutex<WatchErrors>,
    shown: Shown,
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
        Self {
            origin: Instant::now(),
            last_frame: AtomicU64::default(),
            frames: AtomicU64::default(),
            bad: AtomicU64::default(),
            reached: AtomicU64::default(),
            changed: AtomicU64::default(),
            whole: Mutex::default(),
            reading: watch::Sender::new(None),
            wanted: AtomicU64::default(),
            absence: Mutex::default(),
            errors: Mutex::default(),
            shown: Shown::default(),
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

    /// The resourceVersion up to which everything was given to the sink; 0 before the first whole read.
    pub fn reached(&self) -> u64 {
        self.reached.load(Acquire)
    }

    /// The resourceVersion of the newest object or deletion that came, noted before the sink has it: every watch of the kind comes
    /// to see it, whatever bookmarks it gets.
    pub fn changed(&self) -> u64 {
        self.changed.load(Acquire)
    }

    /// When the last complete whole read began.
    pub fn whole_read_began(&self) -> Option<Instant> {
        *lock(&self.whole)
    }

    /// Since when the kind is read whole; `None` while it is not.
    pub(super) fn reading(&self) -> watch::Receiver<Option<Instant>> {
        self.reading.subscribe()
    }

    pub(super) fn reads(&self, since: Option<Instant>) {
        self.reading.send_replace(since);
    }

    /// Somebody waits for this version.
    pub(super) fn want(&self, version: u64) {
        self.wanted.store(version, Release);
    }

    /// Whether somebody waits for a version that has not been reached.
    pub(super) fn is_awaited(&self) -> bool {
        self.reached() < self.wanted.load(Acquire)
    }

    /// The sink has everything up to `version`.
    pub(super) fn reach(&self, version: &str) {
        self.reached.store(version_number(version), Release);
    }

    /// An object or a deletion of this version came.
    pub(super) fn change(&self, version: &str) {
        self.changed.fetch_max(version_number(version), AcqRel);
    }

    pub(super) fn whole_read(&self, began: Option<Instant>) {
        *lock(&self.whole) = began;
    }

    /// Why there is nothing of an optional kind; `None` while it is there.
    pub fn absence(&self) -> Option<Absence> {
        lock(&self.absence).map(|(absence, _)| absence)
    }

    /// When the last read began that found nothing of the kind; `None` while it is there.
    pub(super) fn found_absent(&self) -> Option<Instant> {
        lock(&self.absence).map(|(_, began)| began)
    }

    /// What the watch has shown, object by object.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    pub fn errors(&self) -> WatchErrors {
        *lock(&self.errors)
    }

    pub(super) fn frame(&self) {
        self.frames.fetch_add(1, Relaxed);
        self.last_frame.store(self.origin.elapsed().as_millis() as u64 + 1, Relaxed);
    }

    /// Notes whether the kind is there; `true` if that is news.
    pub(super) fn set_absence(&self, found: Option<(Absence, Instant)>) -> bool {
        let before = std::mem::replace(&mut *lock(&self.absence), found);
        before.map(|(absence, _)| absence) != found.map(|(absence, _)| absence)
    }

    pub(super) fn bad_object(&self) {
        self.bad.fetch_add(1, Relaxed);
    }

    pub(super) fn error(&self, error: &CallError) {
        let mut errors = lock(&self.errors);
        let counter = match error {
            CallError::Gone => &mut errors.gone,
            // The API server has no names where we need some.
            CallError::Refused { .. } | CallError::Unnamed { .. } => &mut errors.refused,
            CallError::Api { .. } => &mut errors.api,
            CallError::Connection { .. } | CallError::Cut => &mut errors.connection,
            CallError::Silent { .. } => &mut errors.silent,
        };
        *counter += 1;
    }
}
