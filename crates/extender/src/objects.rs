//! Whole objects for extenders: pending pods, and nodes while some profile sends them whole, are kept as the watches bring
//! them; victims are fetched when a question needs them.

use super::budget::Reservation;
use super::error::error;
use super::wire::sent_form;
use berth_cluster::send::Call;
use berth_core::io::{ExtenderError, ExtenderErrorKind, NodeVictims};
use berth_core::model::{Pod, PodKey, Str};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

const READ_TIMEOUT: Duration = Duration::from_secs(4);

/// Objects fetched at once for one question.
const FETCHES: usize = 8;

/// Nodes that are fetched for one question because the store does not have them yet. If more are missing, the store is
/// still being filled, and the question fails.
const MISSING_NODES: usize = 16;

/// Objects in the form in which they are sent. The watches fill it, with no more than what is wanted.
#[derive(Debug, Default)]
pub struct ObjectStore {
    pods: RwLock<FxHashMap<Str, Bytes>>,
    nodes: RwLock<FxHashMap<Str, Bytes>>,
    wants_pods: AtomicBool,
    wants_nodes: AtomicBool,
}

impl ObjectStore {
    /// Whether pending pods are to be kept: some profile has an extender.
    pub fn wants_pods(&self) -> bool {
        self.wants_pods.load(Ordering::Relaxed)
    }

    /// Whether nodes are to be kept: some profile sends them whole.
    pub fn wants_nodes(&self) -> bool {
        self.wants_nodes.load(Ordering::Relaxed)
    }

    /// Sets what is kept; objects that are no longer wanted are dropped.
    pub fn want(&self, pods: bool, nodes: bool) {
        self.wants_pods.store(pods, Ordering::Relaxed);
        self.wants_nodes.store(nodes, Ordering::Relaxed);
        if !pods {
            Self::change(&self.pods, |map| *map = FxHashMap::default());
        }
        if !nodes {
            Self::change(&self.nodes, |map| *map = FxHashMap::default());
        }
    }

    /// Keeps a pending pod, given as the API server's JSON.
    pub fn put_pod(&self, uid: &str, raw: &[u8]) {
        if self.wants_pods() {
            Self::put(&self.pods, uid, raw);
        }
    }

    /// The pod is bound or deleted.
    pub fn forget_pod(&self, uid: &str) {
        Self::change(&self.pods, |map| drop(map.remove(uid)));
    }

    /// Keeps a node, given as the API server's JSON.
    pub fn put_node(&self, name: &str, raw: &[u8]) {
        if self.wants_nodes() {
            Self::put(&self.nodes, name, raw);
        }
    }

    /// Keeps a node that was read beside the watch, unless the watch was faster.
    pub fn put_missing_node(&self, name: &str, raw: &[u8]) {
        if let (true, Ok(form)) = (self.wants_nodes(), sent_form(raw)) {
            Self::change(&self.nodes, |map| _ = map.entry(name.into()).or_insert(form));
        }
    }

    pub fn has_pod(&self, uid: &str) -> bool {
        self.pods.read().unwrap_or_else(PoisonError::into_inner).contains_key(uid)
    }

    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    pub fn forget_node(&self, name: &str) {
        Self::change(&self.nodes, |map| drop(map.remove(name)));
    }

    /// Drops all pods but those with these uids, after a whole read.
    pub fn retain_pods(&self, keep: impl Fn(&str) -> bool) {
        Self::change(&self.pods, |map| map.retain(|uid, _| keep(uid)));
    }

    /// Drops all nodes but those with these names, after a whole read.
    pub fn retain_nodes(&self, keep: impl Fn(&str) -> bool) {
        Self::change(&self.nodes, |map| map.retain(|name, _| keep(name)));
    }

    fn put(map: &RwLock<FxHashMap<Str, Bytes>>, key: &str, raw: &[u8]) {
        // The form is made before the lock is taken: every reader may be waiting for it.
        if let Ok(form) = sent_form(raw) {
            Self::change(map, |map| drop(map.insert(key.into(), form)));
        }
    }

    fn change(map: &RwLock<FxHashMap<Str, Bytes>>, f: impl FnOnce(&mut FxHashMap<Str, Bytes>)) {
        f(&mut map.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn pod(&self, uid: &str) -> Option<Bytes> {
        self.pods.read().unwrap_or_else(PoisonError::into_inner).get(uid).cloned()
    }

    /// In the order of the names.
    fn nodes(&self, names: &[Str]) -> Vec<Option<Bytes>> {
        let map = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        names.iter().map(|name| map.get(name).cloned()).collect()
    }
}

/// Finds the key of a pod by its uid.
pub type KeyOf = Arc<dyn Fn(&str) -> Option<PodKey> + Send + Sync>;

/// Gets objects from the store, or else from the API server.
#[derive(Clone)]
pub(super) struct Objects {
    pub(super) store: Arc<ObjectStore>,
    pub(super) kube: kube::Client,
    pub(super) key_of: KeyOf,
}

fn missing(what: &str, why: &str) -> ExtenderError {
    error(ExtenderErrorKind::Busy, format!("{what} could not be read for the extender: {why}"))
}

impl Objects {
    /// Fetched if the store does not have it.
    pub(super) async fn pod(&self, pod: &Pod, reservation: &mut Reservation) -> Result<Bytes, ExtenderError> {
        if let Some(form) = self.store.pod(&pod.uid) {
            return Ok(form);
        }
        let what = || format!("pod {}", pod.key);
        let form = self.fetch_pod(&pod.key, &pod.uid).await.map_err(|why| missing(&what(), &why))?;
        let form = form.ok_or_else(|| missing(&what(), "it is gone"))?;
        reservation.take(form.len()).map_err(|e| missing(&what(), &e.to_string()))?;
        Ok(form)
    }

    pub(super) async fn nodes(
        &self,
        names: &[Str],
        reservation: &mut Reservation,
    ) -> Result<Vec<Bytes>, ExtenderError> {
        let found = self.store.nodes(names);
        let gaps = found.iter().filter(|form| form.is_none()).count();
        if gaps > MISSING_NODES {
            return Err(missing(&format!("{gaps} nodes"), "they are still being read"));
        }
        let mut forms = Vec::with_capacity(names.len());
        for (name, form) in names.iter().zip(found) {
            let form = if let Some(form) = form {
                form
            } else {
                let what = format!("node {name}");
                let form = self.fetch(format!("/api/v1/nodes/{name}")).await.map_err(|e| missing(&what, &e))?;
                let form = form.ok_or_else(|| missing(&what, "it is gone"))?;
                reservation.take(form.len()).map_err(|e| missing(&what, &e.to_string()))?;
                form
            };
            forms.push(form);
        }
        Ok(forms)
    }

    /// The victims of each candidate. Victims that are deleted by now are left out.
    pub(super) async fn victims(
        &self,
        candidates: &[NodeVictims],
        reservation: &mut Reservation,
    ) -> Result<Vec<Vec<Bytes>>, ExtenderError> {
        let mut uids: Vec<&Str> = candidates.iter().flat_map(|c| &c.victims).collect();
        uids.sort_unstable();
        uids.dedup();
        let fetches = uids.iter().map(|uid| async move {
            let Some(key) = (self.key_of)(uid) else { return Ok(None) };
            let form = self.fetch_pod(&key, uid).await.map_err(|why| missing(&format!("pod {key}"), &why))?;
            Ok::<_, ExtenderError>(form.map(|form| ((*uid).clone(), form)))
        });
        let fetches: Vec<_> = fetches.collect();
        let mut found: FxHashMap<Str, Bytes> = FxHashMap::default();
        let mut fetched = stream::iter(fetches).buffer_unordered(FETCHES);
        while let Some(one) = fetched.try_next().await? {
            if let Some((uid, form)) = one {
                reservation.take(form.len()).map_err(|e| missing("victims", &e.to_string()))?;
                found.insert(uid, form);
            }
        }
        let forms = |c: &NodeVictims| c.victims.iter().filter_map(|uid| found.get(uid).cloned()).collect();
        Ok(candidates.iter().map(forms).collect())
    }

    async fn fetch_pod(&self, key: &PodKey, uid: &str) -> Result<Option<Bytes>, String> {
        #[derive(serde::Deserialize)]
        struct Seen {
            metadata: Meta,
        }
        #[derive(serde::Deserialize)]
        struct Meta {
            uid: String,
        }
        let form = self.fetch(format!("/api/v1/namespaces/{}/pods/{}", key.namespace, key.name)).await?;
        Ok(form.filter(|form| serde_json::from_slice::<Seen>(form).is_ok_and(|seen| seen.metadata.uid == uid)))
    }

    /// An object in the form in which it is sent; `None` if there is no such object.
    async fn fetch(&self, path: String) -> Result<Option<Bytes>, String> {
        let answer = Call::get(path).send(&self.kube, READ_TIMEOUT).await.map_err(|e| e.to_string())?;
        if answer.code == 404 {
            return Ok(None);
        }
        if !answer.is_success() {
            return Err(answer.message());
        }
        sent_form(&answer.body).map(Some).map_err(|e| e.to_string())
    }
}
