//! Reads and writes the Lease as [`decide`] says, and moves the gate.

mod handle;
mod state;

pub use handle::LeaseHandle;
pub use state::LeaseState;

use super::decide::{Decision, GIVEN_BACK, Holder, LONGEST, Observed, Record, Timing, decide};
use super::follow::{Follow, Seen};
use super::identity::Identity;
use super::object::{
    INSTALLATION, LAST_SEEN, installation_of, last_seen_of, mark, renew_time_of, unheld, whole_seconds,
};
use super::{Gate, LEASE_NAME, MARK_NAME};
use crate::client::{Fault, LeaseLink};
use crate::lock;
use crate::paced::Paced;
use crate::send::version_number;
use handle::Handover;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Config};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const RESOURCE: &str = "leases.coordination.k8s.io";

/// Writes of ours without an answer that are remembered: more than fit between two answers while we lead.
const UNANSWERED: usize = 16;

/// Before the renew deadline no request is sent any more that would have less than this: no API server answers it.
const TOO_SHORT: Duration = Duration::from_millis(10);

/// Who waits reads the Lease once in its duration at least. After so many of them without an answer nobody can say who leads.
const UNREAD_FOR: u32 = 2;

/// Longest wait for the release, however long a retry period is: the process ends, and a successor can wait.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

static UNMARKED: Paced = Paced::new();

#[derive(Debug, Clone)]
pub struct LeaseOptions {
    pub namespace: String,
    /// No other process has this identity.
    pub identity: Identity,
    /// All replicas of an installation have this name, and no other installation of the cluster.
    pub installation: String,
    pub timing: Timing,
}

/// Starts the election. The gate is open only while we lead. The caller waits for [`LeaseState::Leading`] and calls
/// [`Gate::admit`] after reading pods and nodes.
///
/// While another holds the Lease, a watch shows its end at once.
///
/// The elector has a thread, an event loop and connections of its own: neither a long computation nor a lock that blocks
/// the threads of the caller's runtime, nor a connection that others use, may delay a renewal. So the Lease does not tell
/// whether the rest of the process works; `/livez` does, which is answered by the caller's runtime.
pub fn elect(link: impl Into<LeaseLink>, options: LeaseOptions, gate: Gate) -> LeaseHandle {
    let (sender, state) = watch::channel(LeaseState::Starting { fault: None });
    let stop = CancellationToken::new();
    let (running, ended) = oneshot::channel();
    let (own, stopped, handover) = (sender.clone(), stop.clone(), Handover::default());
    let shared = handover.clone();
    match link.into() {
        LeaseLink::OfItsOwn(config) => {
            let work = move || {
                let _running = running;
                if let Err(reason) = run_alone(config, options, gate, own.clone(), shared, stopped) {
                    own.send_replace(LeaseState::Lost { reason });
                }
            };
            if let Err(error) = std::thread::Builder::new().name("lease".to_owned()).spawn(work) {
                let reason = format!("no thread for the lease: {error}; raise the process's limit of threads");
                sender.send_replace(LeaseState::Lost { reason });
            }
        }
        LeaseLink::Shared(client) => {
            tokio::spawn(async move {
                let _running = running;
                Elector::new(client, options, gate, own, shared).run(stopped).await;
            });
        }
    }
    LeaseHandle::new(state, stop.drop_guard(), ended, handover)
}

/// The life of the elector's thread.
fn run_alone(
    config: Config,
    options: LeaseOptions,
    gate: Gate,
    state: watch::Sender<LeaseState>,
    handover: Handover,
    stop: CancellationToken,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| format!("no event loop for the lease: {error}; raise the process's limit of open files"))?;
    let result = runtime.block_on(async {
        // A client belongs to the event loop that it is made on.
        let client = Client::try_from(config).map_err(|error| format!("no client for the lease: {error}"))?;
        Elector::new(client, options, gate, state, handover).run(stop).await;
        Ok(())
    });
    // Do not wait for name lookups.
    runtime.shutdown_background();
    result
}

struct Elector {
    api: Api<Lease>,
    options: LeaseOptions,
    gate: Gate,
    state: watch::Sender<LeaseState>,
    /// The Lease as last read or written.
    object: Option<Lease>,
    seen: Option<Observed>,
    /// When we were told of it last.
    told: Option<Instant>,
    /// When our last successful renewal was sent, while we lead.
    renewed: Option<Instant>,
    /// The renew times of our writes that may stand, and when each was sent: the last one answered, and those without an
    /// answer since.
    written: Vec<(i64, Instant)>,
    /// What went wrong since the last renewal.
    last_fault: Option<String>,
    /// Failed turns in a row.
    failures: u32,
    /// When a turn came to its end last.
    answered: Instant,
    /// Whether it is known that the mark is there.
    is_marked: bool,
    follow: Follow,
    handover: Handover,
}

impl Elector {
    fn new(
        client: Client,
        options: LeaseOptions,
        gate: Gate,
        state: watch::Sender<LeaseState>,
        handover: Handover,
    ) -> Self {
        Self {
            api: Api::namespaced(client, &options.namespace),
            options,
            gate,
            state,
            object: None,
            seen: None,
            told: None,
            renewed: None,
            written: Vec::new(),
            last_fault: None,
            failures: 0,
            answered: Instant::now(),
            is_marked: false,
            follow: Follow::default(),
            handover,
        }
    }

    async fn run(mut self, stop: CancellationToken) {
        loop {
            let pause = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                pause = self.turn() => pause,
            };
            let Some(pause) = pause else { return };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
                () = self.freed() => {}
            }
        }
        self.gate.shut();
        // What was written last without an answer may stand.
        if self.renewed.is_some() || !self.written.is_empty() {
            self.give_up_lease().await;
        }
        self.set_state(LeaseState::Released);
    }

    /// Returns once the watch shows that the Lease of another is free; never while we lead. Notes the renewals that it shows.
    async fn freed(&mut self) {
        if self.renewed.is_some() {
            self.follow.end();
            return std::future::pending().await;
        }
        loop {
            let version = self.object.as_ref().and_then(|lease| lease.metadata.resource_version.as_deref());
            match self.follow.next(&self.api, version).await {
                Seen::Deleted => {
                    self.see(None, Instant::now());
                    return;
                }
                Seen::Changed(lease) if self.is_newer(&lease) => {
                    self.see(Some(*lease), Instant::now());
                    let record = self.seen.as_ref().and_then(|seen| seen.record.as_ref());
                    if record.is_some_and(|record| record.holder == Holder::Nobody) {
                        return;
                    }
                }
                // A look was faster than the watch.
                Seen::Changed(_) => {}
            }
        }
    }

    fn is_newer(&self, lease: &Lease) -> bool {
        let number = |lease: &Lease| version_number(lease.metadata.resource_version.as_deref().unwrap_or_default());
        self.object.as_ref().is_none_or(|known| number(lease) > number(known))
    }

    /// Reads the Lease if need be and acts once. Returns how long to wait after it; `None` when leadership was lost.
    async fn turn(&mut self) -> Option<Duration> {
        let (retry, began) = (self.options.timing.retry, Instant::now());
        if self.left().is_some_and(|left| left < TOO_SHORT) {
            self.set_state(LeaseState::Lost { reason: self.overdue() });
            return None;
        }
        match self.look_and_act().await {
            Ok(Decision::Lost) => {
                let reason = match self.seen.as_ref().and_then(|s| s.record.as_ref()).map(|r| &r.holder) {
                    Some(Holder::Other(holder)) if *holder == self.options.identity.to_string() => format!(
                        "lease {LEASE_NAME} was written by another process that calls itself {holder:?}: give each process a name of its own"
                    ),
                    Some(Holder::Other(holder)) => format!("lease {LEASE_NAME} is held by {holder:?}"),
                    _ => self.overdue(),
                };
                self.set_state(LeaseState::Lost { reason });
                return None;
            }
            Ok(decision) => {
                self.failures = 0;
                self.answered = Instant::now();
                return Some(if let Decision::Wait(pause) = decision { pause } else { retry });
            }
            Err(fault) if self.is_disputed(&fault) => {
                self.gate.pause();
                self.failed(fault)?;
                return Some(Duration::ZERO);
            }
            Err(fault) => self.failed(fault)?,
        }
        // A failure is answered sooner: what was spent on waiting for an answer counts, and the deadline is never passed.
        let pause = retry.saturating_sub(began.elapsed());
        Some(self.left().map_or(pause, |left| pause.min(left)))
    }

    /// Whether a renewal was refused because the Lease is not there, or not as we wrote it: it is read at once, unless that just happened.
    fn is_disputed(&self, fault: &Fault) -> bool {
        self.renewed.is_some() && self.failures == 0 && matches!(fault, Fault::Conflict { .. })
    }

    /// How long leadership lasts without another renewal, while we lead.
    fn left(&self) -> Option<Duration> {
        let deadline = self.options.timing.renew_deadline;
        self.renewed.map(|at| (at + deadline).saturating_duration_since(Instant::now()))
    }

    /// How long the next request may take. Short at first: a connection that went dead is left soon, and with an elector's
    /// own connections the next request goes over a new one. Longer after each failure, for an API server that is slow.
    /// While leading no request outlives the renew deadline.
    fn request_limit(&self) -> Duration {
        let timing = &self.options.timing;
        let patience = timing.answer_within.saturating_mul(1 << self.failures.min(8));
        match self.left() {
            Some(left) => patience.min(timing.renew_deadline / 2).min(left),
            None => patience.min(timing.renew_deadline),
        }
    }

    /// The answer to one request, if it comes in time. The connection of a request without an answer is closed.
    async fn within<T>(
        &self,
        verb: &'static str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Fault> {
        let limit = self.request_limit();
        let is_cut_short = self.left().is_some_and(|left| limit >= left);
        let Ok(answer) = tokio::time::timeout(limit, request).await else {
            let mut message = format!("no answer within {} ms", limit.as_millis());
            if is_cut_short {
                // What was cut short by the deadline tells less than what failed before it.
                let before = self.last_fault.as_ref().filter(|_| self.failures > 0);
                let before = before.map_or_else(String::new, |before| format!(", after: {before}"));
                message = format!("{message}, which were left of the renew deadline{before}");
            }
            return Err(Fault::Other { verb, resource: RESOURCE, message });
        };
        answer.map_err(|error| Fault::of(verb, RESOURCE, &error))
    }

    /// Notes that a request failed; `None` if leadership is lost by it.
    fn failed(&mut self, fault: Fault) -> Option<()> {
        // What was last written may or may not stand: read it before the next write.
        self.object = None;
        self.failures = self.failures.saturating_add(1);
        if self.renewed.is_some_and(|at| at.elapsed() >= self.options.timing.renew_deadline) {
            self.last_fault = Some(fault.to_string());
            self.set_state(LeaseState::Lost { reason: self.overdue() });
            return None;
        }
        tracing::warn!(lease = LEASE_NAME, namespace = self.options.namespace, %fault, "lease not read or renewed");
        self.last_fault = Some(fault.to_string());
        if matches!(*self.state.borrow(), LeaseState::Starting { .. }) {
            self.set_state(LeaseState::Starting { fault: Some(fault) });
        } else if self.renewed.is_none() && self.answered.elapsed() > UNREAD_FOR * self.options.timing.duration {
            self.set_state(LeaseState::Unread { fault });
        }
        Some(())
    }

    fn overdue(&self) -> String {
        let deadline = self.options.timing.renew_deadline.as_secs_f64();
        let why = self.last_fault.as_deref().unwrap_or("this process did not run in time");
        format!("lease {LEASE_NAME} was not renewed for {deadline} s: {why}")
    }

    async fn look_and_act(&mut self) -> Result<Decision, Fault> {
        // The holder writes without reading: the resourceVersion of its own last write says whether it still holds it.
        if self.renewed.is_none() || self.object.is_none() {
            let asked = Instant::now();
            let read = self.read().await?;
            self.see(read, asked);
            self.count_late_renewal();
        }
        let marked = if self.is_marked { Ok(()) } else { self.mark().await };
        let now = Instant::now();
        let seen = self.seen.clone().unwrap_or_else(|| Observed::first(None, now));
        let decision = decide(&seen, self.renewed, now, &self.options.timing);
        if self.renewed.is_none() && !matches!(decision, Decision::Wait(_)) {
            marked?;
        }
        match &decision {
            Decision::Lost => {}
            // One that was missing a moment ago is being made: at a first start, or again by who leads.
            Decision::Wait(_) if seen.record.is_none() => {}
            Decision::Wait(_) => self.set_state(LeaseState::while_waiting(&seen)),
            Decision::CreateUnheld => self.create_unheld(&seen).await?,
            Decision::Create | Decision::Acquire | Decision::Renew => self.take(&decision, now).await?,
        }
        Ok(decision)
    }

    async fn read(&self) -> Result<Option<Lease>, Fault> {
        self.within("get", self.api.get_opt(LEASE_NAME)).await
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, Fault> {
        self.within("create", self.api.create(&PostParams::default(), lease)).await
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, Fault> {
        self.within("update", self.api.replace(LEASE_NAME, &PostParams::default(), lease)).await
    }

    /// Makes it, unless there is one of its name: then `None`.
    async fn create_if_missing(&self, lease: &Lease) -> Result<Option<Lease>, Fault> {
        let create = async {
            match self.api.create(&PostParams::default(), lease).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
                made => made.map(Some),
            }
        };
        self.within("create", create).await
    }

    /// Makes the mark that nobody takes away again: no process leads before it knows that the mark is there, but where it may not be made. Whoever
    /// makes it, and finds no Lease, knows that there never was one.
    async fn mark(&mut self) -> Result<(), Fault> {
        match self.create_if_missing(&mark()).await {
            Ok(made) => {
                self.is_marked = true;
                if let Some(seen) = self.seen.as_mut().filter(|seen| seen.record.is_none() && seen.gone.is_none()) {
                    seen.is_first = made.is_some();
                }
                Ok(())
            }
            Err(fault) if fault.is_forbidden() => {
                if let Some(left_out) = UNMARKED.line() {
                    tracing::warn!(lease = MARK_NAME, %fault, left_out, "not marked that somebody leads");
                }
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }

    /// Takes in the Lease as it is at some moment since it was `asked` for.
    fn see(&mut self, object: Option<Lease>, asked: Instant) {
        let now = Instant::now();
        let told = self.told.replace(now);
        let was_away = told.is_some_and(|told| asked.saturating_duration_since(told) > 2 * self.options.timing.retry);
        let record = object.as_ref().map(|lease| self.record_of(lease));
        self.object = object;
        self.seen = Some(match self.seen.take() {
            Some(seen) => seen.next(record, now, was_away),
            None => Observed::first(record, now),
        });
    }

    async fn take(&mut self, decision: &Decision, sent: Instant) -> Result<(), Fault> {
        let lease = self.next_object(decision);
        let last_seen = self.object.as_ref().and_then(last_seen_of);
        let write = renew_time_of(&lease).map(|time| (time, sent));
        // The first of all, if it is made late, may be made after another has led.
        let is_first = self.renewed.is_none() && *decision == Decision::Create;
        self.written.extend(write.filter(|_| !is_first));
        if self.written.len() > UNANSWERED {
            self.written.remove(0);
        }
        let written = match decision {
            Decision::Create => self.create(&lease).await?,
            _ => self.replace(&lease).await?,
        };
        // An answered write is the last that stands.
        self.written.clear();
        self.written.extend(write);
        lock(&self.handover.0).uid.clone_from(&written.metadata.uid);
        self.see(Some(written), sent);
        self.last_fault = None;
        if self.renewed.is_none() {
            lock(&self.handover.0).of_predecessor = last_seen;
        }
        self.lead_since(sent);
        self.set_state(LeaseState::Leading);
        Ok(())
    }

    /// Makes a Lease that nobody holds, where one was deleted. Who leads, or another that waits, may be faster.
    async fn create_unheld(&mut self, seen: &Observed) -> Result<(), Fault> {
        let asked = Instant::now();
        let lease = unheld(seen.unheld_for(&self.options.timing), &self.options.installation);
        let there = match self.create_if_missing(&lease).await? {
            None => self.read().await?,
            made => made,
        };
        self.see(there, asked);
        self.set_state(LeaseState::Deleted);
        Ok(())
    }

    fn lead_since(&mut self, sent: Instant) {
        self.renewed = Some(sent);
        let timing = &self.options.timing;
        self.gate.lease(sent + timing.renew_deadline, sent + timing.sends_for());
    }

    /// A renewal whose answer did not come in time, but which is seen to stand, counts from when it was sent.
    fn count_late_renewal(&mut self) {
        let (Some(renewed), Some(time)) = (self.renewed, self.object.as_ref().and_then(renew_time_of)) else { return };
        let ours = self.seen.as_ref().and_then(|seen| seen.record.as_ref()).is_some_and(|r| r.holder == Holder::Us);
        let landed = self.written.iter().find(|(written, _)| *written == time).map(|(_, sent)| *sent);
        if let Some(sent) = landed.filter(|sent| ours && *sent > renewed) {
            self.lead_since(sent);
        }
    }

    fn next_object(&self, decision: &Decision) -> Lease {
        let now = Some(MicroTime(Timestamp::now()));
        let mut lease = self.object.clone().unwrap_or_default();
        if *decision == Decision::Create {
            lease.metadata = ObjectMeta { name: Some(LEASE_NAME.to_owned()), ..ObjectMeta::default() };
        }
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(INSTALLATION.to_owned(), self.options.installation.clone());
        annotations.remove(LAST_SEEN);
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        let identity = self.options.identity.to_string();
        if *decision != Decision::Renew {
            let changes_hands = spec.holder_identity.as_deref() != Some(&*identity);
            if *decision == Decision::Acquire && changes_hands {
                spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
            }
            spec.acquire_time.clone_from(&now);
            spec.holder_identity = Some(identity);
        }
        spec.lease_duration_seconds = Some(whole_seconds(self.options.timing.duration));
        spec.renew_time = now;
        lease
    }

    /// Reads before it writes: a renewal that was cut off may have landed.
    async fn give_up_lease(&mut self) {
        let given = async {
            let Some(mut lease) = self.read().await? else { return Ok(false) };
            if self.record_of(&lease).holder != Holder::Us {
                return Ok(false);
            }
            let Some(spec) = lease.spec.as_mut() else { return Ok(false) };
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(whole_seconds(GIVEN_BACK));
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            let at = renew_time_of(&lease).unwrap_or_default();
            let last = lock(&self.handover.0).own.clone().map(|own| (LAST_SEEN.to_owned(), format!("{at} {own}")));
            lease.metadata.annotations.get_or_insert_default().extend(last);
            self.replace(&lease).await.map(|_| true)
        };
        match tokio::time::timeout(self.options.timing.retry.min(RELEASE_WITHIN), given).await {
            Ok(Ok(true)) => tracing::info!(lease = LEASE_NAME, "lease released"),
            // It is not ours.
            Ok(Ok(false)) => {}
            Ok(Err(fault)) => {
                tracing::warn!(lease = LEASE_NAME, %fault, "lease not released, a successor waits it out");
            }
            Err(_) => tracing::warn!(lease = LEASE_NAME, "lease not released in time, a successor waits it out"),
        }
    }

    /// An absent or senseless duration counts as ours.
    fn record_of(&self, lease: &Lease) -> Record {
        let timing = &self.options.timing;
        let spec = lease.spec.clone().unwrap_or_default();
        let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok());
        let said = seconds.map(Duration::from_secs).filter(|said| !said.is_zero() && *said <= LONGEST);
        let mut duration = said.unwrap_or(timing.duration);
        let holder = spec.holder_identity.unwrap_or_default();
        // An installation of a version that did not say which it is.
        let is_sibling =
            || self.options.identity.is_sibling_of(&holder) || self.options.identity.is_successor_of(&holder);
        let is_ours = installation_of(lease).map_or_else(is_sibling, |name| name == self.options.installation);
        let holder = if holder.is_empty() {
            Holder::Nobody
        } else if holder != self.options.identity.to_string() {
            if self.options.identity.is_successor_of(&holder) {
                duration = duration.min(timing.dead_after);
            }
            Holder::Other(holder)
        } else if renew_time_of(lease).is_some_and(|time| self.written.iter().any(|(written, _)| *written == time)) {
            Holder::Us
        } else {
            Holder::Other(holder)
        };
        Record { holder, is_ours, duration, version: lease.metadata.resource_version.clone().unwrap_or_default() }
    }

    fn set_state(&self, state: LeaseState) {
        if matches!(state, LeaseState::Lost { .. }) {
            // Before anybody can know: whoever sees that we lost it sees a shut gate.
            self.gate.shut();
        }
        self.state.send_if_modified(|now| {
            let changed = *now != state;
            *now = state;
            changed
        });
    }
}

#[cfg(test)]
mod deleted_tests;
#[cfg(test)]
mod tests;
