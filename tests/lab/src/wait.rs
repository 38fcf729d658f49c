//! Waiting for a condition, with a limit and a reason to give when it is not met.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// A flag that others raise (a signal handler) to make a wait give up.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Whether someone asked to stop.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for a signal handler.
    pub fn shared(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// As [`wait_for`], and gives up with an error as soon as the flag is raised.
    pub fn wait_for<T>(
        &self,
        what: &str,
        limit: Duration,
        mut condition: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        wait_for(what, limit, || {
            if self.is_raised() {
                bail!("interrupted");
            }
            condition()
        })
    }
}

/// Calls `condition` until it gives a value, pausing between 10 ms and 250 ms. An error ends the wait at once;
/// at `limit` the error names `what` was waited for.
pub fn wait_for<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + limit;
    let mut pause = PAUSE_MIN;
    loop {
        if let Some(value) = condition()? {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            bail!("waited {} s in vain for {what}", limit.as_secs());
        }
        sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_value_with_the_error_or_at_the_limit() {
        let mut left = 3;
        let value = wait_for("three calls", Duration::from_secs(10), || {
            left -= 1;
            Ok((left == 0).then_some("done"))
        });
        assert_eq!(value.unwrap(), "done");
        let failed: Result<()> = wait_for("nothing", Duration::from_secs(10), || bail!("broken"));
        assert_eq!(failed.unwrap_err().to_string(), "broken");
        let late: Result<()> = wait_for("the moon", Duration::ZERO, || Ok(None));
        assert_eq!(late.unwrap_err().to_string(), "waited 0 s in vain for the moon");
    }

    #[test]
    fn a_raised_flag_ends_a_wait() {
        let stop = StopFlag::default();
        stop.shared().store(true, Ordering::Relaxed);
        let stopped: Result<()> = stop.wait_for("ever", Duration::from_mins(1), || Ok(None));
        assert_eq!(stopped.unwrap_err().to_string(), "interrupted");
    }
}
