//! Reads and writes the Lease as [`decide`] says, and moves the gate.

use super::Gate;
use super::decide::{Decision, Holder, Observed, Record, Timing, decide};
use super::identity::Identity;
use crate::client::Fault;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The Lease's name in whatever namespace: one for all installations, so that two notice each other.
pub const LEASE_NAME: &str = "berth.scheduling.berth.dev";

const RESOURCE: &str = "leases.coordination.k8s.io";

/// The duration in a released Lease: the next process takes it at once.
const RELEASED: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseState {
    /// The Lease has not been read yet; with why, once that failed.
    Starting {
        /// What went wrong last, `None` before the first try.
        fault: Option<Fault>,
    },
    /// Another identity holds it; that process may be dead.
    Waiting {
        holder: String,
    },
    /// Another holds it and has renewed it for longer than one lease duration: a second installation, alive.
    AnotherInstallation {
        holder: String,
    },
    Leading,
    /// We led and do not any more; the caller exits. Final.
    Lost {
        reason: String,
    },
    /// Released on request. Final.
    Released,
}

#[derive(Debug, Clone)]
pub struct LeaseOptions {
    pub namespace: String,
    /// No other process has this identity.
    pub identity: Identity,
    pub timing: Timing,
}

#[derive(Debug)]
pub struct LeaseHandle {
    state: watch::Receiver<LeaseState>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl LeaseHandle {
    /// Notifies of each change.
    pub fn state(&self) -> watch::Receiver<LeaseState> {
        self.state.clone()
    }

    /// Ends the election; a Lease that we hold is released, so that a successor need not wait. Call it when no
    /// request of ours is under way any more. Takes at most the retry period.
    pub async fn release(self) {
        self.stop.cancel();
        // The task ends by itself; a panic in it leaves nothing to release.
        let _ = self.task.await;
    }
}

/// Starts the election on the current tokio runtime. The gate is open only while we lead. The caller waits for
/// [`LeaseState::Leading`] and calls [`Gate::admit`] after reading pods and nodes.
pub fn elect(client: Client, options: LeaseOptions, gate: Gate) -> LeaseHandle {
    let (sender, state) = watch::channel(LeaseState::Starting { fault: None });
    let stop = CancellationToken::new();
    let elector = Elector {
        api: Api::namespaced(client, &options.namespace),
        options,
        gate,
        state: sender,
        object: None,
        seen: None,
        renewed: None,
        written: Vec::new(),
        last_fault: None,
    };
    let task = tokio::spawn(elector.run(stop.clone()));
    LeaseHandle { state, stop, task }
}

struct Elector {
    api: Api<Lease>,
    options: LeaseOptions,
    gate: Gate,
    state: watch::Sender<LeaseState>,
    /// The Lease as last read or written.
    object: Option<Lease>,
    seen: Option<Observed>,
    /// When our last successful renewal was sent, while we lead.
    renewed: Option<Instant>,
    /// The renew times of our writes that may stand: the last one answered, and those without an answer since.
    written: Vec<i64>,
    /// What went wrong since the last renewal.
    last_fault: Option<String>,
}

impl Elector {
    async fn run(mut self, stop: CancellationToken) {
        loop {
            let pause = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                pause = self.turn() => pause,
            };
            let Some(pause) = pause else {
                self.gate.shut();
                return;
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.gate.shut();
        if self.renewed.is_some() {
            self.give_up_lease().await;
        }
        self.set_state(LeaseState::Released);
    }

    /// Reads the Lease if need be and acts once. Returns how long to wait after it; `None` when leadership was lost.
    async fn turn(&mut self) -> Option<Duration> {
        let retry = self.options.timing.retry;
        let limit = self.request_limit();
        if limit.is_zero() {
            self.set_state(LeaseState::Lost { reason: self.overdue() });
            return None;
        }
        let result = match tokio::time::timeout(limit, self.look_and_act()).await {
            Ok(result) => result,
            Err(_) => Err(Fault::Other {
                verb: "update",
                resource: RESOURCE,
                message: format!("no answer within {} ms", limit.as_millis()),
            }),
        };
        match result {
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
            Ok(Decision::Wait(pause)) => return Some(pause),
            Ok(_) => return Some(retry),
            Err(fault) => self.failed(fault)?,
        }
        // A failed renewal is tried again sooner, but never past the deadline.
        Some(self.renewed.map_or(retry, |at| retry.min((at + self.options.timing.renew_deadline) - Instant::now())))
    }

    /// While leading no request outlives the renew deadline.
    fn request_limit(&self) -> Duration {
        let deadline = self.options.timing.renew_deadline;
        match self.renewed {
            Some(at) => (at + deadline).saturating_duration_since(Instant::now()).min(deadline / 2),
            None => deadline,
        }
    }

    /// Notes that a request failed; `None` if leadership is lost by it.
    fn failed(&mut self, fault: Fault) -> Option<()> {
        // What was last written may or may not stand: read it before the next write.
        self.object = None;
        if self.renewed.is_some_and(|at| at.elapsed() >= self.options.timing.renew_deadline) {
            self.last_fault = Some(fault.to_string());
            self.set_state(LeaseState::Lost { reason: self.overdue() });
            return None;
        }
        tracing::warn!(lease = LEASE_NAME, namespace = self.options.namespace, %fault, "lease not read or renewed");
        self.last_fault = Some(fault.to_string());
        if matches!(*self.state.borrow(), LeaseState::Starting { .. }) {
            self.set_state(LeaseState::Starting { fault: Some(fault) });
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
            let read = self.api.get_opt(LEASE_NAME).await.map_err(|e| Fault::of("get", RESOURCE, &e))?;
            self.see(read);
        }
        let now = Instant::now();
        let seen = self.seen.clone().unwrap_or_else(|| Observed::first(None, now));
        let decision = decide(&seen, self.renewed, now, &self.options.timing);
        match &decision {
            Decision::Lost => {}
            Decision::Wait(_) => {
                let holder = match seen.record.as_ref().map(|record| &record.holder) {
                    Some(Holder::Other(holder)) => holder.clone(),
                    _ => String::new(),
                };
                let state = match seen.other_installation() {
                    Some(_) => LeaseState::AnotherInstallation { holder },
                    None => LeaseState::Waiting { holder },
                };
                self.set_state(state);
            }
            Decision::Create | Decision::Acquire | Decision::Renew => self.take(&decision, now).await?,
        }
        Ok(decision)
    }

    fn see(&mut self, object: Option<Lease>) {
        let now = Instant::now();
        let record = object.as_ref().map(|lease| self.record_of(lease));
        self.object = object;
        self.seen = Some(match self.seen.take() {
            Some(seen) => seen.next(record, now),
            None => Observed::first(record, now),
        });
    }

    async fn take(&mut self, decision: &Decision, sent: Instant) -> Result<(), Fault> {
        let lease = self.next_object(decision);
        let renew_time = renew_time_of(&lease);
        self.written.extend(renew_time);
        let params = PostParams::default();
        let written = match decision {
            Decision::Create => self.api.create(&params, &lease).await.map_err(|e| Fault::of("create", RESOURCE, &e)),
            _ => self.api.replace(LEASE_NAME, &params, &lease).await.map_err(|e| Fault::of("update", RESOURCE, &e)),
        };
        let written = written?;
        // An answered write is the last that stands.
        self.written.clear();
        self.written.extend(renew_time);
        self.see(Some(written));
        self.renewed = Some(sent);
        self.last_fault = None;
        self.gate.lease_until(sent + self.options.timing.renew_deadline);
        self.set_state(LeaseState::Leading);
        Ok(())
    }

    fn next_object(&self, decision: &Decision) -> Lease {
        let now = Some(MicroTime(Timestamp::now()));
        let mut lease = self.object.clone().unwrap_or_default();
        if *decision == Decision::Create {
            lease.metadata = ObjectMeta { name: Some(LEASE_NAME.to_owned()), ..ObjectMeta::default() };
        }
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
            let read = self.api.get_opt(LEASE_NAME).await.map_err(|e| Fault::of("get", RESOURCE, &e))?;
            let Some(mut lease) = read else { return Ok(()) };
            if self.record_of(&lease).holder != Holder::Us {
                return Ok(());
            }
            let Some(spec) = lease.spec.as_mut() else { return Ok(()) };
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(whole_seconds(RELEASED));
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            let written = self.api.replace(LEASE_NAME, &PostParams::default(), &lease).await;
            written.map(|_| ()).map_err(|e| Fault::of("update", RESOURCE, &e))
        };
        let retry = self.options.timing.retry;
        match tokio::time::timeout(retry, given).await {
            Ok(Ok(())) => tracing::info!(lease = LEASE_NAME, "lease released"),
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
        let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0);
        let mut duration = seconds.map_or(timing.duration, Duration::from_secs);
        let holder = spec.holder_identity.unwrap_or_default();
        let holder = if holder.is_empty() {
            Holder::Nobody
        } else if holder != self.options.identity.to_string() {
            if self.options.identity.is_successor_of(&holder) {
                duration = duration.min(timing.request_limit);
            }
            Holder::Other(holder)
        } else if renew_time_of(lease).is_some_and(|time| self.written.contains(&time)) {
            Holder::Us
        } else {
            Holder::Other(holder)
        };
        Record {
            holder,
            duration,
            transitions: spec.lease_transitions.unwrap_or(0),
            version: lease.metadata.resource_version.clone().unwrap_or_default(),
        }
    }

    fn set_state(&self, state: LeaseState) {
        self.state.send_if_modified(|now| {
            let changed = *now != state;
            if changed {
                *now = state;
            }
            changed
        });
    }
}

fn whole_seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs().max(1)).unwrap_or(i32::MAX)
}

fn renew_time_of(lease: &Lease) -> Option<i64> {
    // A MicroTime loses what is below a microsecond on its way to the API server and back.
    lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0.as_microsecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Asked, Reply, Scripted, until};
    use serde_json::{Value, json};
    use std::sync::{Arc, Mutex};

    /// A Lease with compare-and-swap, as the API server keeps it, and a switch for its writes.
    #[derive(Default)]
    struct Kept {
        lease: Option<Value>,
        version: u64,
        failing: bool,
    }

    impl Kept {
        fn answer(&mut self, asked: &Asked) -> Reply {
            if self.failing {
                return Reply::status(500, "etcd is away");
            }
            let current = self.lease.as_ref().map(|l| l["metadata"]["resourceVersion"].clone());
            match asked.method.as_str() {
                "GET" => self.lease.clone().map_or(Reply::status(404, "no lease"), |l| Reply::json(200, l)),
                "POST" if current.is_some() => Reply::status(409, "exists"),
                "PUT" if current.as_ref() != Some(&asked.body["metadata"]["resourceVersion"]) => {
                    Reply::status(409, "modified")
                }
                _ => {
                    self.put(asked.body.clone());
                    Reply::json(200, self.lease.clone().unwrap())
                }
            }
        }

        fn put(&mut self, mut lease: Value) {
            self.version += 1;
            lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
            self.lease = Some(lease);
        }

        fn held_by(&mut self, holder: &str) {
            self.put(json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE_NAME},
                "spec": {"holderIdentity": holder, "leaseDurationSeconds": 1, "leaseTransitions": 4}}));
        }

        fn renewed_at(&mut self, time: &str) {
            let mut lease = self.lease.clone().unwrap();
            lease["spec"]["renewTime"] = json!(time);
            self.put(lease);
        }

        fn lasts(&mut self, seconds: u32) {
            let mut lease = self.lease.clone().unwrap();
            lease["spec"]["leaseDurationSeconds"] = json!(seconds);
            self.put(lease);
        }

        fn spec(&self, field: &str) -> Value {
            self.lease.as_ref().unwrap()["spec"][field].clone()
        }
    }

    const POD_UID: &str = "0a0b0c0d-0000-4000-8000-000000000001";

    async fn rig() -> (Scripted, Arc<Mutex<Kept>>) {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let shared = kept.clone();
        let server = Scripted::start(move |asked| {
            let reply = shared.lock().unwrap().answer(&asked);
            async move { reply }
        })
        .await;
        (server, kept)
    }

    fn start(server: &Scripted, me: &str, gate: &Gate) -> LeaseHandle {
        let timing = Timing {
            duration: Duration::from_secs(1),
            renew_deadline: Duration::from_millis(700),
            retry: Duration::from_millis(40),
            request_limit: Duration::from_millis(300),
        };
        let identity = Identity::new(me, POD_UID);
        elect(server.client(), LeaseOptions { namespace: "kube-system".into(), identity, timing }, gate.clone())
    }

    async fn reaches(handle: &LeaseHandle, what: &str, want: impl Fn(&LeaseState) -> bool) -> LeaseState {
        let mut state = handle.state();
        let found = tokio::time::timeout(Duration::from_secs(20), state.wait_for(|s| want(s))).await;
        found.unwrap_or_else(|_| panic!("never: {what}")).unwrap().clone()
    }

    #[tokio::test]
    async fn creates_renews_and_gives_back() {
        let ((server, kept), gate) = (rig().await, Gate::new());
        gate.admit();
        let handle = start(&server, "berth-0", &gate);
        reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
        assert!(gate.is_open());
        assert!(kept.lock().unwrap().spec("holderIdentity").as_str().unwrap().starts_with("berth-0_0a0b0c0d-"));
        until("renewals", || kept.lock().unwrap().version > 3).await;
        assert_eq!(server.count("GET", LEASE_NAME), 1, "the holder does not read");
        handle.release().await;
        assert!(!gate.is_open());
        assert_eq!(kept.lock().unwrap().spec("holderIdentity"), "");
    }

    #[tokio::test]
    async fn takes_over_what_is_not_renewed() {
        let ((server, kept), gate) = (rig().await, Gate::new());
        kept.lock().unwrap().held_by("dead");
        let began = Instant::now();
        let handle = start(&server, "berth-0", &gate);
        reaches(&handle, "waiting", |s| *s == LeaseState::Waiting { holder: "dead".into() }).await;
        reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
        assert!(began.elapsed() >= Duration::from_secs(1), "taken before it expired");
        assert_eq!(kept.lock().unwrap().spec("leaseTransitions"), 5);
    }

    /// A request of the process before it may land for as long as a request may take.
    #[tokio::test]
    async fn a_restarted_container_waits_for_the_requests_of_the_one_before_it_and_no_longer() {
        let ((server, kept), gate) = (rig().await, Gate::new());
        let killed = start(&server, "berth-0", &gate);
        reaches(&killed, "leading", |s| *s == LeaseState::Leading).await;
        killed.task.abort();
        kept.lock().unwrap().lasts(3_600);

        let began = Instant::now();
        let again = start(&server, "berth-0", &gate);
        reaches(&again, "waiting", |s| matches!(s, LeaseState::Waiting { .. })).await;
        reaches(&again, "leading again", |s| *s == LeaseState::Leading).await;
        assert!(began.elapsed() >= Duration::from_millis(300), "requests of the killed one may land");
    }

    /// Two processes of one host name once led side by side for minutes.
    #[tokio::test]
    async fn another_process_that_writes_under_our_identity_makes_us_step_down() {
        let ((server, kept), gate) = (rig().await, Gate::new());
        gate.admit();
        let handle = start(&server, "berth-0", &gate);
        reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
        kept.lock().unwrap().renewed_at("2026-01-01T00:00:00.000000Z");
        let state = reaches(&handle, "lost", |s| matches!(s, LeaseState::Lost { .. })).await;
        let LeaseState::Lost { reason } = state else { unreachable!() };
        assert!(reason.contains("another process that calls itself \"berth-0_"), "{reason}");
        assert!(!gate.is_open());
    }

    #[tokio::test]
    async fn an_edit_that_leaves_the_renew_time_alone_is_no_other_holder() {
        let ((server, kept), gate) = (rig().await, Gate::new());
        let handle = start(&server, "berth-0", &gate);
        reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
        kept.lock().unwrap().lasts(2);
        let version = kept.lock().unwrap().version;
        until("renewed again", || kept.lock().unwrap().version > version + 1).await;
        assert_eq!(*handle.state().borrow(), LeaseState::Leading);
    }

    #[tokio::test]
    async fn another_that_lives_is_named() {
        let ((server, kept), gate) = (rig().await, Gate::new());
        kept.lock().unwrap().held_by("berth-in-other-namespace");
        let handle = start(&server, "berth-0", &gate);
        let renewing = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                kept.lock().unwrap().held_by("berth-in-other-namespace");
            }
        });
        let state = reaches(&handle, "named", |s| matches!(s, LeaseState::AnotherInstallation { .. })).await;
        assert_eq!(state, LeaseState::AnotherInstallation { holder: "berth-in-other-namespace".into() });
        renewing.abort();
        reaches(&handle, "it waits on, and leads when the other dies", |s| *s == LeaseState::Leading).await;
    }

    #[tokio::test]
    async fn an_api_server_that_fails_for_too_long_ends_leadership() {
        let ((server, kept), gate) = (rig().await, Gate::new());
        gate.admit();
        let handle = start(&server, "berth-0", &gate);
        reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
        kept.lock().unwrap().failing = true;
        let state = reaches(&handle, "lost", |s| matches!(s, LeaseState::Lost { .. })).await;
        let LeaseState::Lost { reason } = state else { unreachable!() };
        assert!(reason.contains("was not renewed for 0.7 s") && reason.contains("etcd is away"), "{reason}");
        assert!(!gate.is_open());
    }

    #[tokio::test]
    async fn a_short_failure_does_not_end_it() {
        let ((server, kept), gate) = (rig().await, Gate::new());
        let handle = start(&server, "berth-0", &gate);
        reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
        let asked = server.requests().len();
        kept.lock().unwrap().failing = true;
        until("a failed renewal", || server.requests().len() > asked + 1).await;
        let version = {
            let mut kept = kept.lock().unwrap();
            kept.failing = false;
            kept.version
        };
        until("renewed again", || kept.lock().unwrap().version > version + 1).await;
        assert_eq!(*handle.state().borrow(), LeaseState::Leading);
    }

    #[tokio::test]
    async fn one_that_takes_it_from_us_is_named() {
        let ((server, kept), gate) = (rig().await, Gate::new());
        let handle = start(&server, "berth-0", &gate);
        reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
        kept.lock().unwrap().held_by("thief");
        let state = reaches(&handle, "lost", |s| matches!(s, LeaseState::Lost { .. })).await;
        let LeaseState::Lost { reason } = state else { unreachable!() };
        assert!(reason.contains("thief"), "{reason}");
    }

    #[tokio::test]
    async fn a_missing_permission_is_named() {
        let server = Scripted::start(|_| async { Reply::status(403, "no") }).await;
        let handle = start(&server, "berth-0", &Gate::new());
        let state = reaches(&handle, "fault", |s| matches!(s, LeaseState::Starting { fault: Some(_) })).await;
        let LeaseState::Starting { fault: Some(fault) } = state else { unreachable!() };
        assert!(fault.is_forbidden() && fault.to_string().contains("`get` on `leases.coordination.k8s.io`"), "{fault}");
    }
}
