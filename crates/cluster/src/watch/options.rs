use crate::proto::Encoding;
use std::time::Duration;

/// The shortest and longest that one watch call is asked for, drawn anew for each: servers end calls together otherwise.
const CALL: (Duration, Duration) = (Duration::from_mins(5), Duration::from_mins(10));

/// Failures in a row to go on from the last resourceVersion before everything is read again: a server restored from a
/// backup may never have heard of that version.
pub(super) const RESUME_ATTEMPTS: u32 = 5;

/// The default suits any cluster.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// The encoding that is asked for. Protobuf is left for JSON where it will not do; a server without it answers in JSON.
    pub encoding: Encoding,
    /// Objects in one page of a whole read. Each page is made while the one before is read: during one LIST of 150,000 pods we had
    /// nothing to do for the first two of six seconds.
    pub page_size: u32,
    /// Silence after which a watch counts as dead. The API server sends bookmarks about every minute.
    pub silence: Duration,
    /// Silence after which a watch that goes on counts as not opened: the API server answers at once, whether there is something to
    /// send or not. One lost answer must not leave us blind for as long as a silent watch may take to be noticed.
    pub open_silence: Duration,
    /// Silence after which a LIST counts as dead; the API server itself gives up after a minute.
    pub list_silence: Duration,
    /// The first pause after a failure; it doubles up to `longest_pause`, and each is cut by up to half at random.
    pub first_pause: Duration,
    /// The longest pause after a failure.
    pub longest_pause: Duration,
    /// The pause before a kind that the cluster does without is asked for again: it comes with an upgrade or a new rule.
    pub absent_pause: Duration,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            encoding: Encoding::Protobuf,
            page_size: 10_000,
            silence: Duration::from_secs(150),
            open_silence: Duration::from_secs(20),
            list_silence: Duration::from_mins(1),
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
            absent_pause: Duration::from_mins(2),
        }
    }
}

impl WatchOptions {
    /// The pause after `failures` failures in a row; 0 is no failure.
    pub(super) fn pause(&self, failures: u32) -> Duration {
        let doubled = self.first_pause.saturating_mul(1 << failures.saturating_sub(1).min(16));
        doubled.min(self.longest_pause).mul_f64(0.5 + random() / 2.0)
    }
}

/// For how many seconds to ask for the next watch call.
pub(super) fn call_seconds() -> u32 {
    let (least, most) = CALL;
    (least + most.saturating_sub(least).mul_f64(random())).as_secs() as u32
}

/// A number from 0 up to 1, to keep clients from acting in step; no decision of the core depends on it.
fn random() -> f64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    (RandomState::new().build_hasher().finish() >> 11) as f64 / (1_u64 << 53) as f64
}
