//! The extenders of all profiles: set up by profile, asked by workers.

use super::address::AddressPolicy;
use super::connector::Connector;
use super::objects::{KeyOf, Objects};
use super::profile_extenders::{Common, Notify, ProfileExtenders};
use super::resolve::{Net, system_lookup};
use super::settings::{Settings, SettingsError};
use super::stats::ExtenderHealth;
use super::store::ObjectStore;
use berth_api::NodePayload;
use berth_cluster::bind::{Deliver, Leftover};
use berth_cluster::lease::Gate;
use berth_cluster::limits::REQUEST_LIMIT;
use berth_cluster::recheck::Recheck;
use berth_cluster::transport::Transport;
use berth_core::io::{AttemptId, BindRequest, ExtenderRequest, WorkerId};
use berth_core::model::Str;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;

/// Long enough for any watch that is not broken, short enough for the pod to be tried again soon. As long as any request may be under way: what
/// an extender is asked to bind while the gate is open, and binds within this time, is bound before another process leads.
pub const BOUND_WITHIN: Duration = REQUEST_LIMIT;

/// For so long after we gave up a call of a bind the extender may still carry it out. An extender is a process of somebody else, and
/// nothing bounds it; this is how long an API server works on a request (`--request-timeout`), so that what an extender had sent to it
/// by the time at which we gave up has been carried out, or never is.
pub const LANDS_WITHIN: Duration = Duration::from_mins(1);

/// What calls to extenders need of the process.
pub struct Options {
    /// Who may be connected to.
    pub policy: AddressPolicy,
    /// How they are connected to; see [`tcp`](super::tcp).
    pub connector: Connector,
    /// How the API server is asked: for Services, for objects not in the store, and to read pods back.
    pub kube: Transport,
    /// Pending pods and nodes in the form in which they are sent.
    pub store: Arc<ObjectStore>,
    /// Finds the key of a victim, of which questions give the uid alone.
    pub key_of: KeyOf,
    /// Whether binds may be sent.
    pub gate: Gate,
    /// Asked right before a bind is sent, and after it.
    pub recheck: Arc<dyn Recheck>,
    /// How long after an answer of success the pod must be bound; see [`BOUND_WITHIN`].
    pub bound_within: Duration,
    /// How long a call of a bind that we gave up may still be carried out; see [`LANDS_WITHIN`].
    pub lands_within: Duration,
    /// Where answers and outcomes go. It must not block.
    pub deliver: Deliver,
    pub notify: Notify,
}

/// The clients of all profiles' extenders. Cheap to clone; all clones share their state.
#[derive(Clone)]
pub struct ExtenderClients {
    common: Arc<Common>,
    state: Arc<Mutex<State>>,
}

/// Objects that the extenders of one profile are sent.
struct Sent {
    /// Of pods that name one of these schedulers.
    schedulers: Vec<Str>,
    nodes: bool,
}

#[derive(Default)]
struct State {
    /// Those that are set up, and deleted ones of which binds that were sent are still followed.
    profiles: BTreeMap<Str, Arc<ProfileExtenders>>,
    /// For each profile that is set up: what its extenders are sent.
    wanted: BTreeMap<Str, Sent>,
    closed: bool,
}

impl State {
    fn all(&self) -> Vec<Arc<ProfileExtenders>> {
        self.profiles.values().cloned().collect()
    }
}

impl ExtenderClients {
    /// Without profiles. Calls run on the tokio runtime on which this is called, from wherever they are asked for.
    pub fn new(options: Options) -> Self {
        let Options {
            policy,
            connector,
            kube,
            store,
            key_of,
            gate,
            recheck,
            bound_within,
            lands_within,
            deliver,
            notify,
        } = options;
        let net = Net { policy: Arc::new(policy), lookup: system_lookup(), connector, kube: kube.clone() };
        let objects = Objects { store, kube, key_of };
        let runtime = Handle::current();
        let common = Common { net, objects, gate, recheck, bound_within, lands_within, deliver, notify, runtime };
        Self { common: Arc::new(common), state: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets up a profile's extenders, or replaces their settings. Calls under way end by the old ones; where an
    /// extender's new settings cannot be used, the last good ones stay in force. `schedulers` are the names that the profile
    /// serves.
    pub fn configure(&self, profile: &str, schedulers: &[Str], extenders: Vec<Result<Settings, SettingsError>>) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        // Of an extender whose new settings cannot be used the last good ones stay: it is sent what it was sent.
        let had_nodes = state.wanted.get(profile).is_some_and(|sent| sent.nodes);
        let nodes = extenders.iter().any(|extender| match extender {
            Ok(settings) => settings.form == NodePayload::Full,
            Err(_) => had_nodes,
        });
        let schedulers = if extenders.is_empty() { Vec::new() } else { schedulers.to_vec() };
        state.wanted.insert(profile.into(), Sent { schedulers, nodes });
        let configured = self.profile(&mut state, profile);
        self.tidy(&mut state);
        drop(state);
        configured.configure(extenders);
    }

    /// The profile was deleted: nothing is sent for it any more. Binds that were sent are followed to their end, and sent again once
    /// a profile of this name has their extender.
    pub fn remove(&self, profile: &str) {
        let mut state = self.lock();
        state.wanted.remove(profile);
        if let Some(removed) = state.profiles.get(profile) {
            removed.configure(Vec::new());
        }
        self.tidy(&mut state);
    }

    /// Drops deleted profiles that have no call under way, and objects that only they wanted.
    fn tidy(&self, state: &mut State) {
        let State { profiles, wanted, .. } = state;
        profiles.retain(|name, profile| wanted.contains_key(name) || profile.is_busy());
        let schedulers = wanted.values().flat_map(|sent| &sent.schedulers).cloned().collect();
        self.common.objects.store.want(schedulers, wanted.values().any(|sent| sent.nodes));
    }

    fn profile(&self, state: &mut State, name: &str) -> Arc<ProfileExtenders> {
        let new = || Arc::new(ProfileExtenders::new(name.into(), self.common.clone()));
        state.profiles.entry(name.into()).or_insert_with(new).clone()
    }

    fn asked_profile(&self, name: &str) -> Arc<ProfileExtenders> {
        let mut state = self.lock();
        let profile = self.profile(&mut state, name);
        if state.closed {
            profile.close();
        }
        profile
    }

    /// Asks an extender; answered by [`Input::ExtenderAnswered`](berth_core::io::Input::ExtenderAnswered). Never blocks. After a shutdown nothing is answered.
    pub fn ask(&self, worker: WorkerId, profile: &str, ask: ExtenderRequest) {
        self.asked_profile(profile).ask(worker, ask);
    }

    /// Has a pod bound by the extender of this name; answered as binds of our own are. Never blocks.
    pub fn bind(&self, worker: WorkerId, profile: &str, extender: &Str, request: BindRequest) {
        self.asked_profile(profile).bind(worker, extender, request);
    }

    /// Takes back all of a worker's binds that were not sent. Nothing is delivered for them: the caller reports them to
    /// the worker.
    pub fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        let all = self.lock().all();
        all.iter().flat_map(|profile| profile.revoke(worker)).collect()
    }

    /// The health of a profile's extenders, by name.
    pub fn health(&self, profile: &str) -> Vec<ExtenderHealth> {
        let profile = self.lock().profiles.get(profile).cloned();
        profile.map(|profile| profile.health()).unwrap_or_default()
    }

    /// Bytes that a profile's calls hold, objects of the store aside.
    #[cfg(test)]
    pub(super) fn reserved_bytes(&self, profile: &str) -> usize {
        self.lock().profiles.get(profile).map_or(0, |profile| profile.budget.reserved())
    }

    /// Ends questions at once, makes no more calls that bind, and waits for at most `limit` until all that were made have come to an end, as the
    /// pods show. The caller requeues [`Leftover::unsent`].
    pub async fn shutdown(&self, limit: Duration) -> Leftover {
        let profiles = {
            let mut state = self.lock();
            state.closed = true;
            state.all()
        };
        for profile in &profiles {
            profile.close();
        }
        let landed = futures::future::join_all(profiles.iter().map(|profile| profile.landed()));
        // What has not landed by then is cut off, and counted.
        let _in_time = tokio::time::timeout(limit, landed).await;
        let mut left = Leftover::default();
        for profile in &profiles {
            let (unsent, unsettled) = profile.cut_off();
            left.unsent.extend(unsent);
            left.unsettled += unsettled;
            // Of each the pod is not bound, and the extender was asked to bind it not long ago, or has not answered.
            left.may_land += unsettled;
        }
        left
    }
}
