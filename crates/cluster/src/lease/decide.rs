//! What to do about the Lease, from what was seen of it and when. Pure: no clock, no I/O.

use crate::limits::{LANDS_WITHIN, REQUEST_LIMIT};
use std::time::Duration;
use tokio::time::Instant;

/// How often to look for a Lease that is missing: at a first start another replica is making it just now, and who leads makes it again.
const LOOK_FOR_MISSING: Duration = Duration::from_millis(250);

/// The duration in a Lease that a process gives back: whoever sees it takes it at once.
pub(super) const GIVEN_BACK: Duration = Duration::from_secs(1);

/// The longest duration that a Lease may have.
pub(super) const LONGEST: Duration = Duration::from_hours(1);

/// client-go's jitter of the retry period, which must leave a renewal its time before the deadline.
const JITTER: f64 = 1.2;

/// Times that no election can keep. Each text names the flags and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    #[error(
        "--leader-elect-retry-period={0:?}: there is nothing to wait for; give it a time of at least 100ms, such as 2s"
    )]
    NoRetry(Duration),
    #[error(
        "--leader-elect-lease-duration={0:?}: a Lease counts whole seconds; give it a number of them, at most 3600s, such as 15s"
    )]
    NotWhole(Duration),
    #[error(
        "--leader-elect-renew-deadline={deadline:?} must be longer than 1.2 times --leader-elect-retry-period={retry:?}: raise the deadline, or lower the retry period"
    )]
    DeadlineTooShort { deadline: Duration, retry: Duration },
    #[error(
        "--leader-elect-lease-duration={duration:?} must be longer than --leader-elect-renew-deadline={deadline:?}: raise the duration, or lower the deadline"
    )]
    LeaseTooShort { duration: Duration, deadline: Duration },
    #[error(
        "--leader-elect-lease-duration={duration:?} must be longer than {REQUEST_LIMIT:?}, the time that a request may be under way, by more than 1.2 times --leader-elect-retry-period={retry:?}: raise the duration, or lower the retry period"
    )]
    NoTimeToSend { duration: Duration, retry: Duration },
}

/// The times of leadership. `renew_deadline` < `duration`, `retry` < `renew_deadline`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long others wait, after the last change that they saw, before they take over.
    pub duration: Duration,
    /// How long after its last renewal the holder goes on to lead. It sends nothing that needs leadership later than [`Timing::sends_for`].
    pub renew_deadline: Duration,
    /// How often to renew, and to look whether it is free.
    pub retry: Duration,
    /// How long a request for the Lease first waits for its answer; after it the next one goes over a new connection.
    pub answer_within: Duration,
    /// How long after the look at the gate a write may be carried out.
    pub request_limit: Duration,
    /// How long after the end of a process that was killed its writes may be carried out: a container restarted in its pod waits this
    /// long before it takes over from the one before it. At most `duration`.
    pub dead_after: Duration,
}

impl Timing {
    /// The times as options give them, with the relations that kube-scheduler demands, and one more: between two renewals there is time to
    /// send what cannot land any more once a successor has begun.
    pub fn new(duration: Duration, renew_deadline: Duration, retry: Duration) -> Result<Self, TimingError> {
        if retry < Duration::from_millis(100) {
            return Err(TimingError::NoRetry(retry));
        }
        if duration.subsec_nanos() != 0 || duration > LONGEST {
            return Err(TimingError::NotWhole(duration));
        }
        if renew_deadline <= retry.mul_f64(JITTER) {
            return Err(TimingError::DeadlineTooShort { deadline: renew_deadline, retry });
        }
        if duration <= renew_deadline {
            return Err(TimingError::LeaseTooShort { duration, deadline: renew_deadline });
        }
        if duration.saturating_sub(REQUEST_LIMIT) <= retry.mul_f64(JITTER) {
            return Err(TimingError::NoTimeToSend { duration, retry });
        }
        let answer_within = (renew_deadline / 5).min(Duration::from_secs(2)).max(retry.min(Duration::from_secs(1)));
        Ok(Self {
            duration,
            renew_deadline,
            retry,
            answer_within,
            request_limit: REQUEST_LIMIT,
            dead_after: LANDS_WITHIN,
        })
    }

    /// How long after its last renewal a leader sends: what it sends last is over when another may lead.
    pub(crate) fn sends_for(&self) -> Duration {
        self.renew_deadline.min(self.duration.saturating_sub(self.request_limit))
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            answer_within: Duration::from_secs(2),
            request_limit: REQUEST_LIMIT,
            dead_after: LANDS_WITHIN,
        }
    }
}

/// Who holds a Lease, seen from this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// Nobody: it was released, or somebody took its holder out of it.
    Nobody,
    /// This process, by a write of its own.
    Us,
    /// Another process, alive or not; its identity.
    Other(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub holder: Holder,
    /// Whether its holder is a process of our own installation.
    pub is_ours: bool,
    /// How long others must not take it after a renewal: as its holder wrote, or less where the holder is known to be dead.
    pub duration: Duration,
    /// The resourceVersion: a change of anything is a sign of life.
    pub version: String,
}

impl Record {
    /// One that nobody holds lasts at least as long as the one that was deleted before it, which another who made it did not see.
    fn after(self, gone: Option<Duration>) -> Self {
        let duration = if self.is_cleared() { self.duration.max(gone.unwrap_or_default()) } else { self.duration };
        Self { duration, ..self }
    }

    /// Whether somebody took its holder out of it: its duration says that nobody gave it back, and whoever held it goes on until it notices.
    fn is_cleared(&self) -> bool {
        self.holder == Holder::Nobody && self.duration != GIVEN_BACK
    }
}

/// The Lease as this process saw it, by its own monotonic clock: clocks of two processes are never compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// `None` if there is no Lease.
    pub record: Option<Record>,
    /// When this process first saw this record.
    pub since: Instant,
    /// When this process first saw its present holder.
    pub holder_since: Instant,
    /// Whether the present holder renewed while this process looked on.
    pub renewed: bool,
    /// The duration of the Lease that there was last, if there is none any more.
    pub gone: Option<Duration>,
    /// Whether it is known that there never was a Lease: nobody has led yet.
    pub is_first: bool,
}

impl Observed {
    pub fn first(record: Option<Record>, now: Instant) -> Self {
        Self { record, since: now, holder_since: now, renewed: false, gone: None, is_first: false }
    }

    /// An unchanged record keeps its age. So does its absence, but for one who `was_away` meanwhile it begins anew, and that one is not the first any
    /// more: somebody may have made the Lease, led, and lost it again.
    #[must_use]
    pub fn next(self, record: Option<Record>, now: Instant, was_away: bool) -> Self {
        match (&self.record, &record) {
            (Some(old), Some(new)) if old.version == new.version => self,
            (Some(old), Some(new)) if old.holder == new.holder => Self { record, since: now, renewed: true, ..self },
            (None, None) if was_away => Self { since: now, is_first: false, ..self },
            (None, None) => self,
            (_, None) => Self { gone: self.record.map(|record| record.duration), ..Self::first(None, now) },
            (_, Some(_)) => Self::first(record.map(|record| record.after(self.gone)), now),
        }
    }

    /// How long the Lease that we make with nobody as holder must stand before anybody takes it: who held the one before it may have renewed that
    /// right before it was deleted.
    pub(super) fn unheld_for(&self, timing: &Timing) -> Duration {
        self.gone.unwrap_or_default().max(timing.duration)
    }

    /// The identity of another installation that has renewed for longer than one lease duration while we looked on: it lives.
    pub fn other_installation(&self) -> Option<&str> {
        let record = self.record.as_ref().filter(|record| !record.is_ours)?;
        let Holder::Other(holder) = &record.holder else { return None };
        (self.renewed && self.since.duration_since(self.holder_since) > record.duration).then_some(holder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// There is no Lease, and we lead or nobody ever did: create it with us as holder.
    Create,
    /// There is no Lease, and somebody may lead without one: create it with nobody as holder. Who leads takes it, and everybody else only after its
    /// duration.
    CreateUnheld,
    /// It is free or expired, or a write of ours took it and the answer was lost, or we lead and were taken out of it: replace it with us as
    /// holder.
    Acquire,
    /// It is ours: replace it with a new renew time.
    Renew,
    /// Look again after that long.
    Wait(Duration),
    /// It was ours and is not any more, or could not be renewed in time: stop.
    Lost,
}

/// Decides. `leading_since_renewal` is when our last successful renewal was *sent*, `None` if we do not lead.
pub fn decide(seen: &Observed, leading_since_renewal: Option<Instant>, now: Instant, timing: &Timing) -> Decision {
    if let Some(renewed) = leading_since_renewal {
        // While it is cleared nobody else may have it.
        let ours = seen.record.as_ref().is_none_or(|record| record.holder == Holder::Us || record.is_cleared());
        if !ours || now.duration_since(renewed) >= timing.renew_deadline {
            return Decision::Lost;
        }
        return match &seen.record {
            None => Decision::Create,
            Some(record) if record.is_cleared() => Decision::Acquire,
            Some(_) => Decision::Renew,
        };
    }
    let held_until = match &seen.record {
        None if seen.is_first => return Decision::Create,
        // How long it has been missing proves nothing: it may have been made and deleted again between two looks.
        None => {
            let due = seen.since + timing.retry;
            let pause = LOOK_FOR_MISSING.min(due.saturating_duration_since(now));
            return if pause.is_zero() { Decision::CreateUnheld } else { Decision::Wait(pause) };
        }
        Some(record) if record.is_cleared() || matches!(record.holder, Holder::Other(_)) => {
            seen.since + record.duration
        }
        Some(_) => return Decision::Acquire,
    };
    match held_until.saturating_duration_since(now) {
        Duration::ZERO => Decision::Acquire,
        left => Decision::Wait(timing.retry.min(left)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(holder: &str, version: &str) -> Record {
        let holder = match holder {
            "" => Holder::Nobody,
            "me" => Holder::Us,
            other => Holder::Other(other.into()),
        };
        Record { holder, is_ours: false, duration: Duration::from_secs(15), version: version.into() }
    }

    fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[tokio::test]
    async fn every_state_of_the_lease_has_its_decision() {
        let (start, timing) = (Instant::now(), Timing::default());
        let other = Some(record("other", "1"));
        let ours = Some(record("me", "1"));
        let cleared = Some(record("", "1"));
        let free = cleared.clone().map(|record| Record { duration: secs(1), ..record });
        let rows = [
            ("no lease", None, None, 0, Decision::Wait(LOOK_FOR_MISSING)),
            ("no lease when who leads would have made it again", None, None, 2, Decision::CreateUnheld),
            ("no lease for however long", None, None, 600, Decision::CreateUnheld),
            ("released", free.clone(), None, 0, Decision::Acquire),
            ("cleared by hand, just seen: its holder goes on", cleared.clone(), None, 0, Decision::Wait(secs(2))),
            ("cleared by hand, nearly over", cleared.clone(), None, 14, Decision::Wait(secs(1))),
            ("cleared by hand, over by our clock", cleared.clone(), None, 15, Decision::Acquire),
            ("ours by a write without an answer", ours.clone(), None, 0, Decision::Acquire),
            ("another's, just seen", other.clone(), None, 0, Decision::Wait(secs(2))),
            ("another's, nearly over", other.clone(), None, 14, Decision::Wait(secs(1))),
            ("another's, over by our clock", other.clone(), None, 15, Decision::Acquire),
            ("ours, in time", ours.clone(), Some(0), 9, Decision::Renew),
            ("ours, too late", ours.clone(), Some(0), 10, Decision::Lost),
            ("taken from us", other, Some(0), 1, Decision::Lost),
            ("deleted while we lead", None, Some(0), 1, Decision::Create),
            ("deleted, too late", None, Some(0), 10, Decision::Lost),
            ("cleared by hand while we lead", cleared.clone(), Some(0), 1, Decision::Acquire),
            ("cleared by hand, too late", cleared, Some(0), 10, Decision::Lost),
            ("given back by another since we led", free, Some(0), 1, Decision::Lost),
        ];
        for (name, record, renewed, after, want) in rows {
            let seen = Observed::first(record, start);
            let renewed = renewed.map(|s: u64| start + secs(s));
            assert_eq!(decide(&seen, renewed, start + secs(after), &timing), want, "{name}");
        }
    }

    #[tokio::test]
    async fn expiry_counts_from_the_last_change_seen_not_from_times_in_the_record_125761() {
        let (start, timing) = (Instant::now(), Timing::default());
        let seen = Observed::first(Some(record("other", "1")), start).next(
            Some(record("other", "2")),
            start + secs(14),
            false,
        );
        assert_eq!(decide(&seen, None, start + secs(16), &timing), Decision::Wait(secs(2)));
        let seen = seen.next(Some(record("other", "2")), start + secs(28), false);
        assert_eq!(decide(&seen, None, start + secs(29), &timing), Decision::Acquire);
    }

    /// Somebody may have made it, have led and have lost it between two looks.
    #[tokio::test]
    async fn a_lease_that_is_missing_is_never_taken_but_by_the_first() {
        let (start, timing) = (Instant::now(), Timing::default());
        let longer = Record { duration: secs(20), ..record("other", "1") };
        let mut last = [record("other", "1"), longer, record("", "1"), record("me", "1")].map(Some).to_vec();
        last.push(None);
        for (last, unheld_for) in last.into_iter().zip([15, 20, 15, 15, 15]) {
            let seen = Observed::first(last, start).next(None, start, false).next(None, start + secs(1), false);
            assert_eq!(decide(&seen, None, start + secs(1), &timing), Decision::Wait(LOOK_FOR_MISSING));
            for after in [2, 15, 600] {
                assert_eq!(
                    decide(&seen, None, start + secs(after), &timing),
                    Decision::CreateUnheld,
                    "after {after} s"
                );
            }
            assert_eq!(seen.unheld_for(&timing), secs(unheld_for), "{:?}", seen.gone);
            let unheld = Record { duration: secs(unheld_for), ..record("", "2") };
            let by_one_who_did_not_know = Record { duration: secs(15), ..unheld.clone() };
            let others = seen.clone().next(Some(by_one_who_did_not_know), start + secs(3), false);
            assert_eq!(others.record.map(|record| record.duration), Some(secs(unheld_for)));
            let made = seen.next(Some(unheld), start + secs(3), false);
            let until = 3 + unheld_for;
            assert_eq!(decide(&made, None, start + secs(until - 1), &timing), Decision::Wait(secs(1)));
            assert_eq!(decide(&made, None, start + secs(until), &timing), Decision::Acquire);
        }
        let first = Observed { is_first: true, ..Observed::first(None, start) };
        assert_eq!(decide(&first, None, start, &timing), Decision::Create, "there was none to be deleted");
        let seen = first.next(Some(record("other", "1")), start, false).next(None, start, false);
        assert_eq!(decide(&seen, None, start, &timing), Decision::Wait(LOOK_FOR_MISSING), "there was one since");
    }

    #[tokio::test]
    async fn who_was_away_before_it_made_the_first_lease_is_not_the_first() {
        let (start, timing) = (Instant::now(), Timing::default());
        let first = Observed { is_first: true, ..Observed::first(None, start) };
        let looked_on = first.clone().next(None, start + secs(30), false);
        assert_eq!(decide(&looked_on, None, start + secs(30), &timing), Decision::Create);
        let away = first.next(None, start + secs(30), true);
        assert!(matches!(decide(&away, None, start + secs(30), &timing), Decision::Wait(_)));
        assert_eq!(decide(&away, None, start + secs(32), &timing), Decision::CreateUnheld);
    }

    #[tokio::test]
    async fn another_installation_is_one_that_renews_for_longer_than_a_lease_duration_60469() {
        let start = Instant::now();
        let mut seen = Observed::first(Some(record("other", "0")), start);
        for s in 1..=15 {
            seen = seen.next(Some(record("other", &s.to_string())), start + secs(s), false);
            assert_eq!(seen.other_installation(), None, "after {s} s");
        }
        seen = seen.next(Some(record("other", "16")), start + secs(16), false);
        assert_eq!(seen.other_installation(), Some("other"));
        seen = seen.next(Some(record("third", "17")), start + secs(17), false);
        assert_eq!(seen.other_installation(), None, "a new holder is watched from the beginning");

        let mut replica = Observed::first(Some(Record { is_ours: true, ..record("other", "0") }), start);
        for s in 1..=60 {
            let renewed = Record { is_ours: true, ..record("other", &s.to_string()) };
            replica = replica.next(Some(renewed), start + secs(s), false);
        }
        assert_eq!(replica.other_installation(), None, "another replica of ours is no other installation");

        let dead = Observed::first(Some(record("other", "0")), start).next(
            Some(record("other", "0")),
            start + secs(60),
            false,
        );
        assert_eq!(dead.other_installation(), None, "one that does not renew is no installation");
    }

    #[test]
    fn times_that_no_election_can_keep_are_refused_with_their_flags() {
        let ms = Duration::from_millis;
        assert_eq!(Timing::new(secs(15), secs(10), secs(2)), Ok(Timing::default()));
        let quick = Timing::new(secs(10), secs(2), ms(500)).unwrap();
        assert!(quick.answer_within < quick.renew_deadline / 2, "{quick:?}");
        for (duration, deadline, retry, names) in [
            (secs(15), secs(10), secs(0), ["--leader-elect-retry-period", "2s"]),
            (ms(15_500), secs(10), secs(2), ["--leader-elect-lease-duration", "whole seconds"]),
            (secs(7_200), secs(10), secs(2), ["--leader-elect-lease-duration", "at most 3600s"]),
            (secs(15), ms(2_400), secs(2), ["--leader-elect-renew-deadline", "--leader-elect-retry-period"]),
            (secs(15), secs(15), secs(2), ["--leader-elect-lease-duration", "--leader-elect-renew-deadline"]),
            (secs(11), secs(10), secs(2), ["--leader-elect-lease-duration", "--leader-elect-retry-period"]),
            (secs(10), secs(15), secs(2), ["--leader-elect-lease-duration", "--leader-elect-renew-deadline"]),
        ] {
            let error = Timing::new(duration, deadline, retry).unwrap_err().to_string();
            assert!(names.iter().all(|name| error.contains(name)), "{error}");
        }
    }
}
