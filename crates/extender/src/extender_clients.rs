//! All profiles' lanes: how they are set up, what goes in, what comes out.

use super::address::AddressPolicy;
use super::breaker::Change;
use super::client::Net;
use super::extender_client::ExtenderClient;
use super::objects::{KeyOf, ObjectStore, Objects};
use super::resolve::system_lookup;
use super::settings::{Settings, SettingsError, Verb};
use super::stats::ExtenderHealth;
use super::wire::NodeForm;
use berth_cluster::bind::{BindRequest, Deliver, Leftover, WorkerId};
use berth_cluster::lease::Gate;
use berth_core::io::{AttemptId, ExtenderError, ExtenderRequest};
use berth_core::model::Str;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;

/// A breaker opened or closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The profile.
    pub profile: Str,
    /// The extender's name.
    pub extender: Str,
    /// The verb.
    pub verb: Verb,
    /// What it did.
    pub change: Change,
    /// The failure that opened it.
    pub error: Option<ExtenderError>,
}

/// Where notices go. Called from the lanes' tasks: it must not block.
pub type Notify = Arc<dyn Fn(Notice) + Send + Sync>;

/// What the lanes need of the process.
pub struct Options {
    /// Who may be connected to.
    pub policy: AddressPolicy,
    /// A client of the API server without retries: for Services, for objects not in the store, and to read pods back.
    pub kube: kube::Client,
    /// Pending pods and nodes in the form in which they are sent.
    pub store: Arc<ObjectStore>,
    /// Tells where a victim is.
    pub key_of: KeyOf,
    /// Whether binds may be sent.
    pub gate: Gate,
    /// Where answers and outcomes go. It must not block.
    pub deliver: Deliver,
    /// Where notices go. It must not block.
    pub notify: Notify,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// What every lane has of the process.
pub(super) struct Surroundings {
    pub(super) net: Net,
    pub(super) objects: Objects,
    pub(super) gate: Gate,
    pub(super) deliver: Deliver,
    pub(super) notify: Notify,
    /// Workers ask from threads of their own; calls run here.
    pub(super) runtime: Handle,
}

/// The lanes of all profiles. Cheap to clone; all clones are the same lanes.
#[derive(Clone)]
pub struct ExtenderClients(Arc<Shared>);

struct Shared {
    with: Arc<Surroundings>,
    store: Arc<ObjectStore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lanes: BTreeMap<Str, Arc<ExtenderClient>>,
    /// Profiles that are gone, while binds of theirs are followed.
    past: Vec<Arc<ExtenderClient>>,
    wanted: BTreeMap<Str, (bool, bool)>,
    closed: bool,
}

impl std::fmt::Debug for ExtenderClients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ExtenderClients").field(&self.lock().lanes.keys().collect::<Vec<_>>()).finish()
    }
}

impl ExtenderClients {
    /// ExtenderClients without profiles. Calls run on the tokio runtime on which this is called, from wherever they are asked for.
    pub fn new(options: Options) -> Self {
        let Options { policy, kube, store, key_of, gate, deliver, notify } = options;
        let net = Net { policy: Arc::new(policy), lookup: system_lookup(), kube: kube.clone() };
        let objects = Objects { store: store.clone(), kube, key_of };
        let with = Arc::new(Surroundings { net, objects, gate, deliver, notify, runtime: Handle::current() });
        Self(Arc::new(Shared { with, store, state: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets up a profile's extenders, or goes on with other settings. Calls under way end by the old ones; where an
    /// extender's settings cannot be used, the last that could be stay in force.
    pub fn configure(&self, profile: &str, extenders: Vec<Result<Settings, SettingsError>>) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let full = extenders.iter().flatten().any(|settings| settings.form == NodeForm::Full);
        state.wanted.insert(profile.into(), (!extenders.is_empty(), full));
        let lane = state.lanes.entry(profile.into());
        let lane = lane.or_insert_with(|| Arc::new(ExtenderClient::new(profile.into(), self.0.with.clone()))).clone();
        self.tidy(&mut state);
        drop(state);
        lane.configure(extenders);
    }

    /// The profile is gone. Its questions are answered no more; binds that were sent are followed to their end.
    pub fn remove(&self, profile: &str) {
        let mut state = self.lock();
        state.wanted.remove(profile);
        if let Some(lane) = state.lanes.remove(profile) {
            lane.configure(Vec::new());
            state.past.push(lane);
        }
        self.tidy(&mut state);
    }

    /// Forgets the lanes of profiles that are gone once nothing is under way in them, and what only they wanted.
    fn tidy(&self, state: &mut State) {
        let State { lanes, past, wanted, .. } = state;
        past.retain(|lane| lane.is_busy());
        lanes.retain(|profile, lane| wanted.contains_key(profile) || lane.is_busy());
        let any = |f: fn(&(bool, bool)) -> bool| wanted.values().any(f);
        self.0.store.want(any(|(pods, _)| *pods), any(|(_, nodes)| *nodes));
    }

    fn lane(&self, profile: &str) -> Arc<ExtenderClient> {
        let mut state = self.lock();
        let closed = state.closed;
        let lane = state.lanes.entry(profile.into());
        let lane = lane.or_insert_with(|| Arc::new(ExtenderClient::new(profile.into(), self.0.with.clone()))).clone();
        if closed {
            lane.close();
        }
        lane
    }

    /// Asks an extender; answered by [`Input::ExtenderAnswered`](berth_core::io::Input::ExtenderAnswered). Never blocks. After a shutdown nothing is answered.
    pub fn ask(&self, worker: WorkerId, profile: &str, ask: ExtenderRequest) {
        self.lane(profile).ask(worker, ask);
    }

    /// Has a pod bound by the extender of this name; answered as binds of our own are. Never blocks.
    pub fn bind(&self, worker: WorkerId, profile: &str, extender: &Str, request: BindRequest) {
        self.lane(profile).bind(worker, extender, request);
    }

    /// Takes back all of a worker's binds that were not sent. The caller tells the worker; nothing else is delivered.
    pub fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        self.all().iter().flat_map(|lane| lane.revoke(worker)).collect()
    }

    /// Stops following a bind of which evidence came another way.
    pub fn forget(&self, worker: WorkerId, attempt: AttemptId) {
        for lane in self.all() {
            lane.forget(worker, attempt);
        }
    }

    fn all(&self) -> Vec<Arc<ExtenderClient>> {
        let state = self.lock();
        state.lanes.values().chain(&state.past).cloned().collect()
    }

    /// How a profile's extenders do, by name.
    pub fn health(&self, profile: &str) -> Vec<ExtenderHealth> {
        let lane = self.lock().lanes.get(profile).cloned();
        lane.map(|lane| lane.health()).unwrap_or_default()
    }

    /// Bytes that a profile's calls hold, objects of the store aside.
    pub fn held_bytes(&self, profile: &str) -> usize {
        let lane = self.lock().lanes.get(profile).cloned();
        lane.map_or(0, |lane| lane.held_bytes())
    }

    /// Ends the lanes: questions at once, binds that were sent within `limit`. The caller puts [`Leftover::unsent`] back.
    pub async fn shutdown(&self, limit: Duration) -> Leftover {
        let lanes = {
            let mut state = self.lock();
            state.closed = true;
            state.lanes.values().chain(&state.past).cloned().collect::<Vec<_>>()
        };
        for lane in &lanes {
            lane.close();
        }
        let landed = futures::future::join_all(lanes.iter().map(|lane| lane.landed()));
        // What has not landed by then is cut off, and counted.
        let _in_time = tokio::time::timeout(limit, landed).await;
        let mut left = Leftover::default();
        for lane in &lanes {
            let (unsent, unsettled) = lane.cut_off();
            left.unsent.extend(unsent);
            left.unsettled += unsettled;
        }
        left
    }
}
