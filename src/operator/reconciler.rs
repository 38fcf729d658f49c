//! From profiles to workers, and from workers to status: one task, one state, no locks.

use super::announce;
use super::claims::{Grant, Incumbents, grant};
use super::context::Context;
use super::extenders::{Extenders, read_soon};
use super::observed_spec::{ObservedSpec, revived};
use super::options::Options;
use super::orphans::Orphans;
use super::refs::References;
use super::routes::Routing;
use super::served_profile::{ServedProfile, abandoned_names, first_incumbents, served};
use super::status::Around;
use super::status_writer::{self, Written};
use berth_api::SchedulerProfile;
use berth_cluster::client::Fault;
use berth_cluster::foreign::ForeignBinds;
use berth_cluster::lease::Identity;
use berth_cluster::revisions::Revisions;
use berth_core::ledger::{ContestedDevice, Ledger};
use berth_core::model::{PodKey, Str};
use berth_extender::Notice;
use berth_runtime::WorkerView;
use futures::StreamExt;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::core::DeserializeGuard;
use kube::runtime::{WatchStreamExt, watcher};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// How often workers are looked at: conditions follow within this time.
const TICK: Duration = Duration::from_millis(500);

/// Longest wait for one write of a last good spec: profiles wait for it in turn.
const SAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a new leader waits for its workers before it writes that they are not there yet: the statuses of the leader before it
/// say that the profiles are served, and in a moment that is true again.
const QUIET: Duration = Duration::from_secs(3);

/// Pause after a last good spec could not be written or dropped.
const SAVE_PAUSE: Duration = Duration::from_secs(30);

/// Pause after a status could not be written.
const WRITE_PAUSE: Duration = Duration::from_secs(5);

type Guarded = DeserializeGuard<SchedulerProfile>;

/// The state of the reconciling task.
pub(super) struct Reconciler {
    cx: Context,
    /// Whether a profile may serve `default-scheduler`.
    serve_default: bool,
    identity: Identity,
    /// Before then a foreign bind may still be our predecessor's.
    foreign_from: Instant,
    revisions: Revisions,
    profiles: BTreeMap<Str, ServedProfile>,
    grants: BTreeMap<Str, Grant>,
    /// Who serves each name; `None` before the profiles are read for the first time.
    incumbents: Option<Incumbents>,
    /// The workers that could not be started, and why.
    unstarted: BTreeMap<Str, String>,
    /// The names that a whole read under way has shown so far.
    sweep: Option<BTreeSet<Str>>,
    /// Whether all profiles were read: before that, an older profile that claims the same name may be missing.
    listed: bool,
    warming: Option<String>,
    /// Devices that several claims hold, when the ledger was to be had last.
    contested: Vec<ContestedDevice>,
    /// Until then nothing is written while workers are about to start.
    quiet_until: Option<Instant>,
    writes: JoinSet<(Str, String, Written)>,
    binders: Arc<ForeignBinds>,
    lookups: JoinSet<Option<Found>>,
    save_after: Instant,
    extenders: Extenders,
    notices: mpsc::UnboundedReceiver<Notice>,
}

/// Who bound a pod of a profile: the profile, the pod, the binder.
type Found = (Str, PodKey, Str);

impl Reconciler {
    /// `revisions` has the last good specs. Foreign binds are reported from `foreign_from` on.
    pub(super) fn new(
        cx: Context,
        options: &Options,
        foreign_from: Instant,
        revisions: Revisions,
        references: References,
        notices: mpsc::UnboundedReceiver<Notice>,
    ) -> Self {
        let binders = Arc::new(ForeignBinds::new(cx.clients.rest.clone(), options.identity.name()));
        Self {
            cx,
            serve_default: options.serve_default_scheduler,
            identity: options.identity.clone(),
            foreign_from,
            revisions,
            profiles: BTreeMap::new(),
            grants: BTreeMap::new(),
            incumbents: None,
            unstarted: BTreeMap::new(),
            sweep: None,
            listed: false,
            warming: Some("pods and nodes are being read".to_owned()),
            contested: Vec::new(),
            quiet_until: None,
            writes: JoinSet::new(),
            binders,
            lookups: JoinSet::new(),
            save_after: Instant::now(),
            extenders: Extenders::new(references),
            notices,
        }
    }

    /// Runs until `stop`. Workers start when `warm` becomes true: pods and nodes have been read.
    pub(super) async fn run(
        &mut self,
        mut warm: tokio::sync::watch::Receiver<bool>,
        health: &berth_telemetry::Health,
        stop: &CancellationToken,
    ) {
        self.quiet_until = Some(Instant::now() + QUIET);
        let api: Api<Guarded> = Api::all(self.cx.clients.rest.clone());
        let mut stream = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Some(event) = stream.next() => self.take(event),
                Some(done) = self.writes.join_next(), if !self.writes.is_empty() => self.end_write(done),
                Some(Ok(Some(found))) = self.lookups.join_next(), if !self.lookups.is_empty() => self.identify(found),
                Some(notice) = self.notices.recv() => if let Some(profile) = self.profiles.get(&notice.profile) {
                    announce::circuit_changed(&self.cx, &notice, &profile.observed.uid);
                },
                _ = warm.wait_for(|warm| *warm), if self.warming.is_some() => self.warm(),
                _ = tick.tick() => self.start_again(),
            }
            self.cx.beat.beat();
            if self.listed {
                health.pass(berth_telemetry::Check::Profiles);
                self.save_good().await;
                self.tend_extenders();
                self.tend_rollouts();
                self.look(None);
            }
        }
    }

    /// Pods and nodes have been read: workers may start.
    pub(super) fn warm(&mut self) {
        self.warming = None;
        self.reconcile();
    }

    pub(super) fn take(&mut self, event: Result<watcher::Event<Guarded>, watcher::Error>) {
        match event {
            Ok(watcher::Event::Init) => self.sweep = Some(BTreeSet::new()),
            Ok(watcher::Event::InitApply(object)) => self.see(object),
            Ok(watcher::Event::InitDone) => {
                if let Some(seen) = self.sweep.take() {
                    let deleted = self.profiles.keys().filter(|name| !seen.contains(*name));
                    for name in deleted.cloned().collect::<Vec<Str>>() {
                        self.remove(&name);
                    }
                }
                self.listed = true;
                self.reconcile();
            }
            Ok(watcher::Event::Apply(object)) => {
                self.see(object);
                self.reconcile();
            }
            Ok(watcher::Event::Delete(object)) => {
                if let Some(observed) = ObservedSpec::read(object) {
                    self.remove(&observed.name);
                }
            }
            Err(error) => {
                if let watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) = &error {
                    self.cx.denials.note_fault(&Fault::of("list", "schedulerprofiles.scheduling.berth.dev", error));
                }
                tracing::warn!(%error, resource = "schedulerprofiles", "watch interrupted");
            }
        }
    }

    fn see(&mut self, object: Guarded) {
        let Some(observed) = ObservedSpec::read(object) else { return };
        let now = self.now_on_wall();
        if let Some(seen) = &mut self.sweep {
            seen.insert(observed.name.clone());
        }
        if let Some(profile) = self.profiles.get_mut(&observed.name)
            && profile.observed.uid == observed.uid
        {
            if profile.observed.generation == observed.generation {
                profile.renew(observed, now);
            } else {
                profile.see(observed, now);
            }
            return;
        }
        let good = self.revisions.newest(&observed.name, &observed.uid).and_then(revived);
        self.profiles.insert(observed.name.clone(), ServedProfile::new(observed, good, now));
    }

    fn remove(&mut self, name: &str) {
        let Some(deleted) = self.profiles.remove(name) else { return };
        self.cx.board.lock().profiles.remove(name);
        self.reconcile();
        let served: Vec<Str> = self.grants.values().flat_map(Grant::served).collect();
        let names = abandoned_names(&deleted, &served);
        announce::profile_deleted(self.cx.clone(), deleted.observed, names);
    }

    fn identify(&mut self, (profile, pod, by): Found) {
        if let Some(profile) = self.profiles.get_mut(&profile) {
            profile.foreign.identify(&pod, by);
        }
    }

    /// Brings names and workers in line with the profiles.
    fn reconcile(&mut self) {
        if !self.listed {
            return;
        }
        self.grant();
        self.extenders.configure(&self.cx, served(&self.profiles, &self.grants));
        if self.warming.is_some() {
            return;
        }
        let none = Grant::NOTHING;
        let unstarted = std::mem::take(&mut self.unstarted);
        let running = self.cx.engine.workers();
        for name in running.keys() {
            let wanted = self.profiles.get(name).and_then(|e| e.wanted(self.grants.get(name).unwrap_or(&none)));
            if wanted.is_none() {
                tracing::info!(profile = &**name, "worker stops");
                // The worker's thread ends by itself; nobody needs to wait.
                drop(self.cx.engine.stop(name));
            }
        }
        for (name, profile) in &self.profiles {
            let Some(wanted) = profile.wanted(self.grants.get(name).unwrap_or(&none)) else { continue };
            let generation = profile.observed.generation;
            match running.get(name) {
                None if unstarted.contains_key(name) => {}
                None => tracing::info!(profile = &**name, generation, "worker starts"),
                Some(view) if view.profile != wanted => tracing::info!(profile = &**name, generation, "worker swaps"),
                Some(_) => {}
            }
            if let Err(error) = self.cx.engine.run(wanted) {
                let error = error.to_string();
                if unstarted.get(name) != Some(&error) {
                    tracing::error!(profile = &**name, error, "worker not started; it is tried again");
                }
                self.unstarted.insert(name.clone(), error);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn note_unstarted(&mut self, profile: &str, error: &str) {
        self.unstarted.insert(profile.into(), error.to_owned());
    }

    /// Tries again to start workers for which there was no thread.
    pub(super) fn start_again(&mut self) {
        if !self.unstarted.is_empty() {
            self.reconcile();
        }
    }

    /// The time that rollouts go by.
    fn now_on_wall(&self) -> Timestamp {
        let clock = self.cx.engine.clock();
        clock.on_wall(clock.now())
    }

    /// Looks how far rollouts are; one that ends brings other profiles to the workers.
    pub(super) fn tend_rollouts(&mut self) {
        let (workers, clock) = (self.cx.engine.workers(), self.cx.engine.clock());
        let mut ended = false;
        for (name, profile) in &mut self.profiles {
            if let Some(view) = workers.get(name)
                && profile.tend_rollout(view, clock)
            {
                ended = true;
                announce::rollout_ended(&self.cx, profile);
            }
        }
        if ended {
            self.reconcile();
        }
    }

    /// Grants names to profiles, and says what changed by that.
    fn grant(&mut self) {
        let incumbents = self.incumbents.take().unwrap_or_else(|| first_incumbents(&self.profiles));
        let claims = self.profiles.values().filter_map(ServedProfile::claim).collect();
        self.grants = grant(claims, &incumbents, self.serve_default);
        let served = |(profile, grant): (&Str, &Grant)| {
            grant.served().into_iter().map(|name| (name, profile.clone())).collect::<Vec<_>>()
        };
        self.incumbents = Some(self.grants.iter().flat_map(served).collect());
        let routed = |(name, profile): (&Str, &ServedProfile)| profile.route_claim(self.grants.get(name)?);
        let routes = self.profiles.iter().filter_map(routed).collect();
        {
            let mut board = self.cx.board.lock();
            board.routes = routes;
            board.granted = self.incumbents.as_ref().map(|names| names.keys().cloned().collect());
        }
        let (none, mut conflicts) = (Grant::NOTHING, Vec::new());
        for (name, profile) in &mut self.profiles {
            let grant = self.grants.get(name).unwrap_or(&none);
            let new = profile.take_grant(grant);
            if let Some(note) = profile.refused_edit(grant) {
                announce::edit_refused(&self.cx, &profile.observed, note);
            }
            conflicts.extend(new.into_iter().map(|(scheduler_name, owner)| (name.clone(), scheduler_name, owner)));
        }
        for (asker, scheduler_name, owner) in conflicts {
            if let (Some(asker), Some(owner)) = (self.profiles.get(&asker), self.profiles.get(&owner)) {
                announce::name_in_conflict(&self.cx, &asker.observed, &owner.observed, &scheduler_name);
            }
        }
    }

    /// Sets up extenders again whose references changed, and looks for extenders whose pods wait for their own profile.
    fn tend_extenders(&mut self) {
        if self.extenders.are_stale() {
            self.extenders.configure(&self.cx, served(&self.profiles, &self.grants));
        }
        self.extenders.look_for_dependencies(&self.cx, served(&self.profiles, &self.grants), Instant::now());
    }

    /// Saves good specs that are not saved yet, and drops those of deleted profiles. Failures are retried after a pause.
    pub(super) async fn save_good(&mut self) {
        if Instant::now() < self.save_after || !self.cx.gate.leads() {
            return;
        }
        let deleted = self.drop_specs_of_deleted().await.inspect_err(|error| {
            tracing::warn!(error = error.as_str(), "spec of a deleted profile not dropped");
        });
        if deleted.is_err() || !self.save_unsaved().await {
            self.save_after = Instant::now() + SAVE_PAUSE;
        }
    }

    /// Returns whether all went well.
    async fn save_unsaved(&mut self) -> bool {
        for profile in self.profiles.values_mut() {
            let Some((generation, spec)) = &profile.unsaved else { continue };
            let ObservedSpec { name, uid, .. } = &profile.observed;
            match tokio::time::timeout(SAVE_TIMEOUT, self.revisions.save(name, uid, *generation, spec)).await {
                Ok(Ok(_)) => profile.unsaved = None,
                Ok(Err(fault)) => {
                    tracing::warn!(profile = &**name, error = %fault, "last good spec not kept");
                    self.cx.denials.note_fault(&fault);
                    return false;
                }
                Err(_) => {
                    tracing::warn!(profile = &**name, "last good spec not kept in time");
                    return false;
                }
            }
        }
        true
    }

    /// Drops saved specs of deleted profiles, also of those deleted while nobody led.
    async fn drop_specs_of_deleted(&mut self) -> Result<(), String> {
        let lives = |name: &str, uid: &str| self.profiles.get(name).is_some_and(|profile| profile.observed.uid == uid);
        let deleted = self.revisions.profiles().filter(|(name, uid)| !lives(name, uid));
        let deleted: Vec<String> = deleted.map(|(name, _)| name.to_owned()).collect();
        for name in deleted {
            let dropped = tokio::time::timeout(SAVE_TIMEOUT, self.revisions.delete(&name)).await;
            dropped.map_err(|_| format!("{name}: no answer in time"))?.map_err(|fault| {
                self.cx.denials.note_fault(&fault);
                fault.to_string()
            })?;
        }
        Ok(())
    }

    /// What others have posted on the board of the cluster: fields that the definition lacks, the watch that is behind, orphaned
    /// pods, and how routes fare.
    fn posted(&self) -> (Vec<String>, Option<String>, Arc<[Orphans]>, Routing) {
        let board = self.cx.board.lock();
        let stale = super::watches::stale(&board.watches);
        (board.crd_lacks.clone(), stale, board.orphans.clone(), board.routing.clone())
    }

    /// Looks at every worker and writes each status that is due. `last` is set when the process ends, and has the workers as
    /// they were.
    pub(super) fn look(&mut self, last: Option<&BTreeMap<Str, WorkerView>>) {
        if last.is_none() && !self.cx.gate.leads() {
            return;
        }
        let now = Instant::now();
        let denied = self.cx.denials.present(now);
        let (crd_lacks, stale, orphans, routing) = self.posted();
        let workers = last.cloned().unwrap_or_else(|| self.cx.engine.workers());
        if last.is_none() && self.is_quiet(&workers, now) {
            return;
        }
        self.look_for_contested_devices();
        let holder = self.identity.to_string();
        let nobody = Incumbents::new();
        let around = Around {
            clock: self.cx.engine.clock(),
            holder: &holder,
            denied: &denied,
            crd_lacks: &crd_lacks,
            stale: stale.as_deref(),
            contested: &self.contested,
            orphans: &orphans,
            unstarted: &self.unstarted,
            routing: &routing,
            served_by: self.incumbents.as_ref().unwrap_or(&nobody),
            warming: self.warming.as_deref(),
            ended: last.is_some(),
        };
        let none = Grant::NOTHING;
        for (name, profile) in &mut self.profiles {
            let view = workers.get(name);
            let foreign = view.and_then(|view| view.snapshot.as_ref()?.foreign.clone());
            if let Some(seen) = foreign
                && profile.foreign.note(&seen, now, self.foreign_from)
            {
                let (binders, name) = (self.binders.clone(), name.clone());
                self.lookups.spawn(async move {
                    let binder = binders.who(&seen.pod).await?;
                    Some((name, seen.pod.key.clone(), binder.to_string().into()))
                });
            }
            let kept = self.revisions.newest(name, &profile.observed.uid).map(|revision| &*revision.name);
            let extenders = self.extenders.facts(&self.cx, name);
            let grant = self.grants.get(name).unwrap_or(&none);
            let status = profile.status(grant, view, &around, kept, &extenders, now);
            self.cx.board.lock().profiles.insert(name.clone(), status.clone());
            if last.is_none() {
                announce::changes(&self.cx, profile, &status);
            }
            if !profile.next_write.is_due(&status, now) {
                continue;
            }
            profile.next_write.begin(status.clone(), now);
            let (client, name, observed) = (self.cx.clients.rest.clone(), name.clone(), &profile.observed);
            let (uid, version) = (observed.uid.clone(), observed.resource_version.clone());
            // What is said at the end names the version that it follows, and needs no leadership.
            let gate = last.is_none().then(|| self.cx.gate.clone());
            let write = status_writer::write(client, gate, name.clone(), uid.clone(), version, status);
            self.writes.spawn(status_writer::ended(name, uid, write));
        }
    }

    /// Whether a worker is about to start, and leadership so young that nobody need hear of it.
    fn is_quiet(&self, workers: &BTreeMap<Str, WorkerView>, now: Instant) -> bool {
        let starts = self.warming.is_some() || workers.values().any(|view| view.snapshot.is_none());
        starts && self.quiet_until.is_some_and(|until| now < until)
    }

    /// A worker that hangs may have the ledger, and is to be reported: then what was found before stands.
    fn look_for_contested_devices(&mut self) {
        if let Some(now) = read_soon(&self.cx.engine, Ledger::contested_devices) {
            self.contested = now;
        }
    }

    /// Takes in how a write ended; one that was cut off is one of a process that ends.
    fn end_write(&mut self, done: Result<(Str, String, Written), tokio::task::JoinError>) {
        let Ok((name, uid, written)) = done else { return };
        self.cx.writes.count(&written);
        let Some(profile) = self.profiles.get_mut(&name).filter(|profile| profile.observed.uid == uid) else { return };
        match written {
            Written::Done(version) => profile.is_written(version),
            Written::Reduced(version, why) => {
                tracing::warn!(profile = &*name, why, "status refused, and written without its lists");
                profile.is_written(version);
            }
            // The watch brings the newer object; a moment later the status is written with that one's resourceVersion.
            Written::Overtaken => profile.next_write.retry(Instant::now() + TICK),
            Written::Deleted => profile.next_write.end(),
            Written::Failed(fault) => {
                tracing::warn!(profile = &*name, error = %fault, "status not written");
                self.cx.denials.note_fault(&fault);
                profile.next_write.retry(Instant::now() + WRITE_PAUSE);
            }
        }
    }

    /// Writes to every status that nobody leads any more, with the numbers of the workers as they were `last`; takes at most
    /// `limit`.
    pub(super) async fn say_farewell(&mut self, last: &BTreeMap<Str, WorkerView>, limit: Duration) {
        let writes = async {
            while let Some(done) = self.writes.join_next().await {
                self.end_write(done);
            }
            if self.listed {
                self.look(Some(last));
            }
            while let Some(done) = self.writes.join_next().await {
                self.end_write(done);
            }
        };
        if tokio::time::timeout(limit, writes).await.is_err() {
            tracing::warn!("not every status was written before the end");
        }
    }
}
