use super::claims::Grant;
use super::denials::Permission;
use super::due::due;
use super::extenders::ExtenderFacts;
use super::known::{Known, Served, Verdict};
use super::numbers::numbers;
use super::orphans::misnamed;
use super::rival::Rival;
use super::status::{Facts, Serving, WorkerFacts, status};
use super::vain::Orphans;
use berth_api::SchedulerProfileStatus;
use berth_core::model::Str;
use berth_core::profile::CompiledProfile;
use berth_runtime::{Clock, WorkerState, WorkerView};
use k8s_openapi::jiff::Timestamp;
use std::sync::Arc;
use std::time::Instant;

/// How long to wait after a write that failed.
const RETRY: std::time::Duration = std::time::Duration::from_secs(5);

/// One profile and all that is known of it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) known: Known,
    pub(super) verdict: Verdict,
    pub(super) rival: Rival,
    /// Whether the present spec is good and not kept yet.
    pub(super) unsaved: bool,
    /// Whether a write is under way.
    pub(super) writing: bool,
    /// What the object says, as far as we wrote or read it, and since when.
    pub(super) written: Option<(SchedulerProfileStatus, Instant)>,
    /// No write before then.
    pub(super) not_before: Option<Instant>,
}

impl Entry {
    /// A profile seen for the first time by this process.
    pub(super) fn new(known: Known, verdict: Verdict) -> Self {
        let unsaved = verdict.refused.is_none();
        Self { known, verdict, rival: Rival::default(), unsaved, writing: false, written: None, not_before: None }
    }

    /// What its worker is to run, if it is to have one.
    pub(super) fn wanted(&self, grant: &Grant) -> Option<Arc<CompiledProfile>> {
        let served = self.verdict.served.as_ref().filter(|_| !self.known.deleting)?;
        let names = grant.served();
        (!names.is_empty()).then(|| Arc::new(CompiledProfile { scheduler_names: names, ..served.compiled.clone() }))
    }

    /// What the status is to say; `kept` names the revision with its last good spec.
    pub(super) fn status(
        &self,
        grant: &Grant,
        view: Option<&WorkerView>,
        around: &Around<'_>,
        kept: Option<&str>,
        extenders: &ExtenderFacts,
        now: Instant,
    ) -> SchedulerProfileStatus {
        let served = self.verdict.served.as_ref().filter(|_| !grant.served().is_empty());
        let numbers = view.and_then(|view| {
            let snapshot = view.snapshot.as_ref()?;
            Some(numbers(snapshot, view.profile.sampling, around.clock.on_wall(view.started_at)))
        });
        let facts = Facts {
            generation: self.known.generation,
            deleting: self.known.deleting,
            refused: self.verdict.refused.as_ref(),
            grant,
            serving: served.map(serving),
            worker: worker(view, around),
            holder: around.holder,
            numbers: numbers.as_ref(),
            denied: around.denied,
            crd_lacks: around.crd_lacks,
            rival: self.rival.told(now),
            stale: around.stale,
            extenders,
            misnamed: &misnamed(around.orphans, &grant.served()),
            last_good_revision: kept,
        };
        let before = self.written.as_ref().map(|(status, _)| status).or(self.known.status.as_ref());
        status(&facts, before, Timestamp::now())
    }

    /// Whether `wanted` is to be written now.
    pub(super) fn is_due(&self, wanted: &SchedulerProfileStatus, now: Instant) -> bool {
        let written = self.written.as_ref().map(|(status, at)| (status, *at));
        !self.writing
            && self.not_before.is_none_or(|at| at <= now)
            && due(written, wanted, now).is_some_and(|at| at <= now)
    }

    /// A write failed.
    pub(super) fn hold_off(&mut self, now: Instant) {
        self.not_before = Some(now + RETRY);
    }
}

fn serving(served: &Served) -> Serving<'_> {
    Serving {
        profile: &served.compiled,
        preset: served.preset,
        generation: served.generation,
        last_good: served.last_good,
    }
}

fn worker(view: Option<&WorkerView>, around: &Around<'_>) -> WorkerFacts {
    if around.ended {
        return WorkerFacts::Ended;
    }
    if let Some(warming) = around.warming {
        return WorkerFacts::Warming(warming.to_owned());
    }
    match view.map(|view| (&view.state, view)) {
        None | Some((WorkerState::Stopped, _)) => WorkerFacts::Pending,
        Some((WorkerState::Failed { message, .. }, _)) => WorkerFacts::Failed(message.clone()),
        // Its first step shows that it took the profile up.
        Some((WorkerState::Running, view)) if view.snapshot.is_none() => WorkerFacts::Pending,
        Some((WorkerState::Running, view)) => WorkerFacts::Running(around.clock.on_wall(view.started_at)),
    }
}

/// What is true for all profiles at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) clock: Clock,
    pub(super) holder: &'a str,
    pub(super) denied: &'a [Permission],
    pub(super) crd_lacks: &'a [String],
    /// Which watch is behind.
    pub(super) stale: Option<&'a str>,
    /// Pods that nobody looks at.
    pub(super) orphans: &'a [Orphans],
    /// What is still being read.
    pub(super) warming: Option<&'a str>,
    /// Whether the process is about to end.
    pub(super) ended: bool,
}

/// The names of a profile's pods that nobody serves any more.
pub(super) fn abandoned_names(gone: &Verdict, served_by_others: &[Str]) -> Vec<Str> {
    let names = gone.served.iter().flat_map(|served| served.compiled.scheduler_names.iter());
    names.filter(|name| !served_by_others.contains(name)).cloned().collect()
}
