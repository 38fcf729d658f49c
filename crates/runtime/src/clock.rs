use berth_core::model::Time;
use k8s_openapi::jiff::Timestamp;
use std::time::Instant;

/// The engine's time: monotonic, from an origin that is also known on the wall clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
    origin_on_wall: Timestamp,
}

impl Clock {
    pub fn start() -> Self {
        Self { origin: Instant::now(), origin_on_wall: Timestamp::now() }
    }

    pub fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    /// The operating system's moment for `time`.
    pub fn instant(&self, time: Time) -> Instant {
        self.origin + time.since(Time::ZERO)
    }

    /// The moment on the wall clock, cut to whole seconds as Kubernetes writes them.
    ///
    /// Reckoned from the origin, so that a jump of the wall clock does not move what was reported before.
    pub fn on_wall(&self, time: Time) -> Timestamp {
        let since = i64::try_from(time.since(Time::ZERO).as_secs()).unwrap_or(i64::MAX);
        let seconds = self.origin_on_wall.as_second().saturating_add(since);
        Timestamp::from_second(seconds).unwrap_or(self.origin_on_wall)
    }

    /// The origin in microseconds of Unix time.
    pub fn unix_us_at_zero(&self) -> i64 {
        self.origin_on_wall.as_microsecond()
    }
}
