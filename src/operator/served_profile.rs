//! One profile, as the reconciler keeps it.

use super::claims::Grant;
use super::denials::Permission;
use super::extenders::ExtenderFacts;
use super::foreign_scheduler::ForeignScheduler;
use super::next_write::NextWrite;
use super::numbers::numbers;
use super::observed_spec::{ObservedSpec, Verdict};
use super::orphans::{Orphans, misnamed};
use super::status::{Facts, WorkerFacts, status};
use berth_api::SchedulerProfileStatus;
use berth_core::model::Str;
use berth_core::profile::CompiledProfile;
use berth_runtime::{Clock, WorkerState, WorkerView};
use k8s_openapi::jiff::Timestamp;
use std::sync::Arc;
use std::time::Instant;

/// What the reconciler keeps of one profile.
#[derive(Debug)]
pub(super) struct ServedProfile {
    pub(super) observed: ObservedSpec,
    pub(super) verdict: Verdict,
    pub(super) foreign: ForeignScheduler,
    /// Whether the present spec is good and was not yet kept as the last good one.
    pub(super) unsaved: bool,
    pub(super) next_write: NextWrite,
}

impl ServedProfile {
    pub(super) fn new(observed: ObservedSpec, verdict: Verdict) -> Self {
        let unsaved = verdict.refused.is_none();
        Self { observed, verdict, foreign: ForeignScheduler::default(), unsaved, next_write: NextWrite::default() }
    }

    /// The profile for its worker; `None` if it is to have no worker.
    pub(super) fn wanted(&self, grant: &Grant) -> Option<Arc<CompiledProfile>> {
        let served = self.verdict.served.as_ref().filter(|_| !self.observed.deleting)?;
        let names = grant.served();
        (!names.is_empty()).then(|| Arc::new(CompiledProfile { scheduler_names: names, ..served.compiled.clone() }))
    }

    /// The status as it should be; `kept` names the revision with the last good spec.
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
            generation: self.observed.generation,
            deleting: self.observed.deleting,
            refused: self.verdict.refused.as_ref(),
            grant,
            serving: served,
            worker: worker(view, around),
            holder: around.holder,
            numbers: numbers.as_ref(),
            denied: around.denied,
            crd_lacks: around.crd_lacks,
            foreign: self.foreign.reported(now),
            stale: around.stale,
            extenders,
            misnamed: &misnamed(around.orphans, &grant.served()),
            last_good_revision: kept,
        };
        let before = self.next_write.written().or(self.observed.status.as_ref());
        status(&facts, before, Timestamp::now())
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
        // A snapshot shows that the worker has taken the profile up.
        Some((WorkerState::Running, view)) if view.snapshot.is_none() => WorkerFacts::Pending,
        Some((WorkerState::Running, view)) => WorkerFacts::Running(around.clock.on_wall(view.started_at)),
    }
}

/// What the statuses of all profiles depend on, at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) clock: Clock,
    pub(super) holder: &'a str,
    pub(super) denied: &'a [Permission],
    pub(super) crd_lacks: &'a [String],
    /// The watch that is behind, if one is.
    pub(super) stale: Option<&'a str>,
    pub(super) orphans: &'a [Orphans],
    /// What is still being read.
    pub(super) warming: Option<&'a str>,
    /// Whether the process is about to end.
    pub(super) ended: bool,
}

/// The scheduler names of a deleted profile that no other profile serves.
pub(super) fn abandoned_names(deleted: &Verdict, served_by_others: &[Str]) -> Vec<Str> {
    let names = deleted.served.iter().flat_map(|served| served.compiled.scheduler_names.iter());
    names.filter(|name| !served_by_others.contains(name)).cloned().collect()
}
