//! The level of the log, read and changed while the process runs.

use super::log_queue::Logs;
use super::logs::{LogError, filter};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use tracing_subscriber::EnvFilter;

/// Bytes of a level: directives for a handful of targets.
const LEVEL_BYTES: usize = 256;

type Change = dyn Fn(EnvFilter) -> Result<(), tracing_subscriber::reload::Error> + Send + Sync;

/// The level in force, and how it is changed.
pub(super) struct Level {
    text: Mutex<String>,
    change: Box<Change>,
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Level").field(&self.text).finish()
    }
}

impl Level {
    pub(super) fn new(
        text: &str,
        change: impl Fn(EnvFilter) -> Result<(), tracing_subscriber::reload::Error> + Send + Sync + 'static,
    ) -> Self {
        Self { text: Mutex::new(text.to_owned()), change: Box::new(change) }
    }
}

impl Logs {
    /// The level in force; `None` where this process has not set up logs.
    pub fn level(&self) -> Option<String> {
        self.level_in_force().map(|level| level.text.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Changes the level, until the process ends; returns the one before. Takes what `--log-level` takes, and numbers as klog's `-v`:
    /// up to 3 is info, up to 6 debug, more is trace.
    pub fn set_level(&self, text: &str) -> Result<String, LogError> {
        let text = of_verbosity(text.trim());
        if text.is_empty() || text.len() > LEVEL_BYTES {
            return Err(LogError::Length { most: LEVEL_BYTES });
        }
        let filter = filter(text)?;
        let level = self.level_in_force().ok_or(LogError::NotOurs)?;
        // Held until the level is in force: of two changes the text is that of the later one.
        let mut now = level.text.lock().unwrap_or_else(PoisonError::into_inner);
        (level.change)(filter).map_err(|_| LogError::NotOurs)?;
        Ok(std::mem::replace(&mut *now, text.to_owned()))
    }
}

fn of_verbosity(text: &str) -> &str {
    match text.parse::<u8>() {
        Ok(0..=3) => "info",
        Ok(4..=6) => "debug",
        Ok(_) => "trace",
        Err(_) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_level_is_what_was_set_last_and_what_is_no_level_changes_nothing() {
        let set: Arc<Mutex<Vec<String>>> = Arc::default();
        let (kept, logs) = (set.clone(), Logs::default());
        assert_eq!(logs.level(), None);
        assert!(matches!(logs.set_level("debug"), Err(LogError::NotOurs)));
        logs.has_level(Level::new("info", move |filter| {
            kept.lock().unwrap().push(filter.to_string());
            Ok(())
        }));
        assert_eq!(logs.set_level(" debug\n").unwrap(), "info");
        assert_eq!(logs.set_level("2").unwrap(), "debug");
        assert_eq!(logs.set_level("info,berth=trace").unwrap(), "info");
        for bad in ["", "berth=loud", "a".repeat(LEVEL_BYTES + 1).as_str()] {
            assert!(logs.set_level(bad).is_err(), "{bad}");
        }
        assert_eq!(logs.level().as_deref(), Some("info,berth=trace"));
        assert_eq!(set.lock().unwrap().len(), 3);
    }

    #[test]
    fn numbers_are_levels_as_with_klog() {
        assert_eq!(
            ["0", "3", "4", "6", "7", "10"].map(of_verbosity),
            ["info", "info", "debug", "debug", "trace", "trace"]
        );
        assert_eq!(of_verbosity("warn"), "warn");
    }
}
