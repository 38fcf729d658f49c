//! Whole objects for extenders that want them: pending pods, nodes while some profile sends them whole, and victims, which
//! are fetched when they are asked for.

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

/// Longest wait for one object.
const READ_TIMEOUT: Duration = Duration::from_secs(4);

/// Objects fetched at once for one question.
const FETCHES: usize = 8;

/// Nodes that are fetched for one question because the store has not seen them yet; where more are missing, it is still
/// being filled.
const MISSING_NODES: usize = 16;

/// Objects in the form in which they are sent. Filled by the watches, in which it stands while it is wanted.
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

    /// Changes what is kept; what is not wanted any more is dropped.
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

    /// A pending pod as the API server gave it. What is no object is not kept.
    pub fn put_pod(&self, uid: &str, raw: &[u8]) {
        if self.wants_pods() {
            Self::put(&self.pods, uid, raw);
        }
    }

    /// A pod is bound, or gone.
    pub fn forget_pod(&self, uid: &str) {
        Self::change(&self.pods, |map| drop(map.remove(uid)));
    }

    /// A node as the API server gave it.
    pub fn put_node(&self, name: &str, raw: &[u8]) {
        if self.wants_nodes() {
            Self::put(&self.nodes, name, raw);
        }
    }

    /// A node that was read besides the watch: kept unless the watch was faster.
    pub fn put_missing_node(&self, name: &str, raw: &[u8]) {
        if let (true, Ok(form)) = (self.wants_nodes(), sent_form(raw)) {
            Self::change(&self.nodes, |map| _ = map.entry(name.into()).or_insert(form));
        }
    }

    /// Whether a pod is there.
    pub fn has_pod(&self, uid: &str) -> bool {
        self.pods.read().unwrap_or_else(PoisonError::into_inner).contains_key(uid)
    }

    /// Whether a node is there.
    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    /// A node is gone.
    pub fn forget_node(&self, name: &str) {
        Self::change(&self.nodes, |map| drop(map.remove(name)));
    }

    /// Keeps of the pods only those with these uids: all were read again.
    pub fn retain_pods(&self, keep: impl Fn(&str) -> bool) {
        Self::change(&self.pods, |map| map.retain(|uid, _| keep(uid)));
    }

    /// Keeps of the nodes only those with these names: all were read again.
    pub fn retain_nodes(&self, keep: impl Fn(&str) -> bool) {
        Self::change(&self.nodes, |map| map.retain(|name, _| keep(name)));
    }

    fn put(map: &RwLock<FxHashMap<Str, Bytes>>, key: &str, raw: &[u8]) {
        // Every reader may be waiting: the form is made first.
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

    /// The nodes with these names, `None` for each that is not there.
    fn nodes(&self, names: &[Str]) -> Vec<Option<Bytes>> {
        let map = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        names.iter().map(|name| map.get(name).cloned()).collect()
    }
}

/// Tells the key of a pod by its uid, as last seen.
pub type KeyOf = Arc<dyn Fn(&str) -> Option<PodKey> + Send + Sync>;

/// Where a question gets its objects from.
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
    /// The pod of an attempt; it is fetched where the store has not seen it.
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

    /// Nodes, whole.
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

    /// The victims of each candidate, whole. One that is gone by now is left out.
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
        let whole = |c: &NodeVictims| c.victims.iter().filter_map(|uid| found.get(uid).cloned()).collect();
        Ok(candidates.iter().map(whole).collect())
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

    /// An object in the form in which it is sent; `None`: it is not there.
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
