//! What attempts take, counted in plain integers and published with the snapshot. Nothing is decided by it.
//!
//! The bounds are those of `pkg/scheduler/metrics/metrics.go`, in nanoseconds. The time comes from whoever gives access to the
//! ledger: it is asked when an attempt has decided and when its part in the step ends, so that one attempt begins where the one
//! before it ended.

use super::device_waits::{DeviceWait, DeviceWaits, WaitEnd};
use super::exponential_buckets::ExponentialBuckets;
use super::plugin_times::PluginTimes;
use super::{Step, Worker};
use crate::cycle::{Decision, Laps};
use crate::ledger::LedgerAccess;
use crate::model::Time;
use crate::queue::Ticket;
use std::time::Duration;

/// One attempt in so many is measured in all its parts, as upstream samples its plugins.
const SAMPLED: u64 = 10;

/// 1 ms doubled up to 16 s.
type AttemptTimes = ExponentialBuckets<1_000_000, 15>;

/// 10 ms doubled up to an hour and a half.
type SliTimes = ExponentialBuckets<10_000_000, 20>;

/// 0.1 ms doubled up to 0.2 s.
type PointTimes = ExponentialBuckets<100_000, 12>;

/// 1 attempt doubled up to 16.
type AttemptCounts = ExponentialBuckets<1, 5>;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Scheduled,
    Unschedulable,
    Error,
}

const RESULTS: [&str; 3] = ["scheduled", "unschedulable", "error"];

/// A part of an attempt and how it ended: those that occur, so that no series stands for one that cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    PreFilter,
    Filter,
    FilterRefused,
    PostFilter,
    PostFilterInVain,
    /// PreScore included.
    Score,
    Reserve,
    PreBind,
    PreBindFailed,
    Bind,
    BindFailed,
}

/// The same by upstream's extension points and codes.
const PARTS: [(&str, &str); 11] = [
    ("PreFilter", "Success"),
    ("Filter", "Success"),
    ("Filter", "Unschedulable"),
    ("PostFilter", "Success"),
    ("PostFilter", "Unschedulable"),
    ("Score", "Success"),
    ("Reserve", "Success"),
    ("PreBind", "Success"),
    ("PreBind", "Error"),
    ("Bind", "Success"),
    ("Bind", "Error"),
];

/// Attempts by which the times of bound pods are told apart: 1 to 14, and more.
const ATTEMPT_LABELS: [&str; 15] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15+"];

/// What a worker's attempts took since it began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Measures {
    /// From the first look to a node or a refusal, without the commit.
    pub deciding: AttemptTimes,
    /// Attempts of each pod that was bound.
    pub attempts: AttemptCounts,
    by_ending: [AttemptTimes; RESULTS.len()],
    until_bound: [SliTimes; ATTEMPT_LABELS.len()],
    by_part: [PointTimes; PARTS.len()],
    device_waits: DeviceWaits,
    /// If somebody asked for them.
    by_plugin: Option<Box<PluginTimes>>,
    decided: u64,
    /// When the time was read last.
    last: Time,
}

impl Measures {
    /// Times of whole attempts, by how they ended.
    pub fn by_ending(&self) -> impl Iterator<Item = (&'static str, &AttemptTimes)> {
        RESULTS.into_iter().zip(&self.by_ending)
    }

    /// Times from the first moment at which a pod could be tried until it was bound, by attempts.
    pub fn until_bound(&self) -> impl Iterator<Item = (&'static str, &SliTimes)> {
        ATTEMPT_LABELS.into_iter().zip(&self.until_bound)
    }

    /// Times of the parts of attempts, by extension point and status.
    pub fn by_part(&self) -> impl Iterator<Item = (&'static str, &'static str, &PointTimes)> {
        PARTS.into_iter().zip(&self.by_part).map(|((point, status), times)| (point, status, times))
    }

    /// Waits until drivers had made devices ready.
    pub fn device_waits(&self) -> &DeviceWaits {
        &self.device_waits
    }

    /// Times of single plugins, if they are told apart.
    pub fn by_plugin(&self) -> Option<&PluginTimes> {
        self.by_plugin.as_deref()
    }

    pub(super) fn tells_plugins_apart(&self) -> bool {
        self.by_plugin.is_some()
    }

    /// One of everything that can be measured: for tests of how much that is.
    pub fn of_everything() -> Self {
        let mut all = Self::default();
        all.by_ending.iter_mut().for_each(|times| times.record(1));
        all.until_bound.iter_mut().for_each(|times| times.record(1));
        all.by_part.iter_mut().for_each(|times| times.record(1));
        all.device_waits = DeviceWaits::of_everything();
        all
    }

    fn end(&mut self, ending: Ended, took: Duration) {
        self.by_ending[ending as usize].record(nanos(took));
    }

    pub(super) fn waited_for_devices(&mut self, wait: &DeviceWait, end: WaitEnd, now: Time) {
        self.device_waits.record(&wait.devices, end, now.since(wait.since));
    }

    pub(super) fn part(&mut self, part: Part, took: Duration) {
        self.by_part[part as usize].record(nanos(took));
        // An extender may bind: see `Worker::measure_binder`.
        if !matches!(part, Part::Bind | Part::BindFailed) {
            self.plugin_part(part, took);
        }
    }

    fn plugin_part(&mut self, part: Part, took: Duration) {
        if let Some(plugins) = &mut self.by_plugin {
            let (point, status) = PARTS[part as usize];
            plugins.record_point(point, status, took);
        }
    }

    /// A bind has ended, with the pod bound.
    pub(super) fn bound(&mut self, ticket: &Ticket, now: Time) {
        self.end(Ended::Scheduled, now.since(ticket.tried_at()));
        self.part(Part::Bind, now.since(ticket.part_began()));
        self.attempts.record(u64::from(ticket.attempts()));
        let label = (ticket.attempts().max(1) as usize).min(ATTEMPT_LABELS.len()) - 1;
        self.until_bound[label].record(nanos(now.since(ticket.active_at())));
    }

    /// An attempt has decided; `laps` has its parts if it was a sampled one.
    fn decided(&mut self, decision: &Decision, took: Duration, laps: Option<&Laps>) {
        if !matches!(decision, Decision::Ask(_)) {
            self.deciding.record(nanos(took));
        }
        let Some(laps) = laps else { return };
        let filtered = match decision {
            Decision::Place(_) | Decision::Ask(_) => Part::Filter,
            Decision::NoFit(_) => Part::FilterRefused,
            Decision::NoNodes | Decision::Failed(_) => return,
        };
        if let Some(plugins) = &mut self.by_plugin {
            plugins.record(&laps.plugins);
        }
        self.part(Part::PreFilter, laps.pre_filter);
        self.part(filtered, laps.filter);
        if matches!(decision, Decision::Place(_)) {
            self.part(Part::Score, laps.score);
        }
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Worker {
    /// The time, for measuring.
    pub(super) fn lap<L: LedgerAccess>(&mut self, step: &Step<'_, L>) -> Time {
        self.measures.last = step.now.max(step.ledger.elapsed());
        self.measures.last
    }

    /// Tells single plugins apart in the attempts that are measured in all their parts, and in what is measured of each.
    pub fn measure_plugins(&mut self) {
        self.measures.by_plugin.get_or_insert_default();
    }

    /// A bind has ended: notes it for DefaultBinder, where no extender was to bind.
    pub(super) fn measure_binder(&mut self, part: Part, ticket: &Ticket, now: Time) {
        if self.measures.tells_plugins_apart() && self.profile().binder_of(ticket.pod()).is_none() {
            self.measures.plugin_part(part, now.since(ticket.part_began()));
        }
    }

    /// When the time was read last: what ended then is followed by what begins now.
    pub(super) fn last_lap(&self) -> Time {
        self.measures.last
    }

    /// Whether the attempt that begins now is measured in all its parts.
    pub(super) fn is_sampled(&mut self) -> bool {
        self.measures.decided += 1;
        self.measures.decided.is_multiple_of(SAMPLED)
    }

    /// Notes that the attempt of `ticket` has decided; `sampled` if its parts were measured from the beginning.
    pub(super) fn note_decided<L: LedgerAccess>(
        &mut self,
        step: &Step<'_, L>,
        ticket: &mut Ticket,
        decision: &Decision,
        sampled: bool,
    ) {
        let now = self.lap(step);
        let laps = self.arms.take_laps(ticket.pod());
        self.notes.add_parts(ticket, &laps);
        self.measures.decided(decision, now.since(ticket.part_began()), sampled.then_some(&laps));
        // What extenders take is part of deciding.
        if !matches!(decision, Decision::Ask(_)) {
            ticket.end_part(now);
        }
    }

    /// Notes that the attempt of `ticket` has come to nothing.
    pub(super) fn note_ended<L: LedgerAccess>(&mut self, step: &Step<'_, L>, ticket: &Ticket, ending: Ended) {
        let now = self.lap(step);
        self.measures.end(ending, now.since(ticket.tried_at()));
    }
}
