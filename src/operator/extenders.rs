//! Sets up the clients of profiles' extenders, with the references in their specs resolved.

use super::context::Context;
use super::observed_spec::ServedSpec;
use super::refs::{Reference, References};
use berth_core::ledger::{Ledger, PodsFrom};
use berth_core::model::{Labels, Pod, PodKey, Str};
use berth_extender::{Credentials, ExtenderHealth, KeyOf, ObjectStore, Settings, SettingsError, references};
use berth_runtime::Engine;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, api::ListParams};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How often pods behind an extender are looked for that wait for the extender's own profile.
const DEPENDENCY_EVERY: Duration = Duration::from_secs(5);

/// How often the ledger is looked for, some 50 µs in all, before it counts as not free: there may be a writer at any moment, and it has
/// the ledger for a few.
const LOOKS: usize = 1_000;

/// Nodes that one request reads.
const PAGE: u32 = 500;

/// One profile's extenders with their references resolved.
#[derive(PartialEq)]
struct Resolved {
    /// The names that the profile serves.
    schedulers: Vec<Str>,
    extenders: Vec<Result<Settings, SettingsError>>,
}

#[derive(Default)]
pub(super) struct Extenders {
    references: References,
    /// The version of the references that was resolved last.
    resolved_at: u64,
    by_profile: BTreeMap<Str, Resolved>,
    /// By profile: an extender, and a pod behind it that waits for the profile.
    dependencies: BTreeMap<Str, (String, PodKey)>,
    looked_at: Option<Instant>,
    sends_nodes: bool,
}

/// What one profile's status depends on of its extenders.
#[derive(Debug, Clone, Default)]
pub(super) struct ExtenderFacts {
    /// In the order in which the profile asks them.
    pub(super) health: Vec<ExtenderHealth>,
    /// Whether their specs refer to any object.
    pub(super) refers: bool,
    /// Why extenders cannot be set up, at most one problem each.
    pub(super) problems: Vec<SettingsError>,
    /// An extender, and a pod behind it that waits for this profile.
    pub(super) dependency: Option<(String, PodKey)>,
}

impl Extenders {
    pub(super) fn new(references: References) -> Self {
        Self { references, ..Self::default() }
    }

    /// Whether an object that an extender refers to has changed since it was resolved.
    pub(super) fn are_stale(&self) -> bool {
        self.references.version() != self.resolved_at
    }

    /// Sets up the clients of these profiles' extenders, and removes those of all others.
    pub(super) fn configure<'a>(&mut self, cx: &Context, profiles: impl Iterator<Item = (&'a Str, &'a ServedSpec)>) {
        self.resolved_at = self.references.version();
        let mut wanted: BTreeMap<Str, Resolved> = BTreeMap::new();
        let mut named = BTreeSet::new();
        let lookup = |kind, name: &str| self.references.data(kind, name);
        for (name, served) in profiles.filter(|(_, served)| !served.extenders.is_empty()) {
            let all = served.extenders.iter().flat_map(references);
            named.extend(all.map(|(kind, object)| Reference::new(kind, object)));
            let extenders = Settings::compile_all(&served.extenders, &served.compiled, &lookup);
            let schedulers = served.compiled.scheduler_names.clone();
            wanted.insert(name.clone(), Resolved { schedulers, extenders });
        }
        self.references.name(named);
        for removed in self.by_profile.keys().filter(|name| !wanted.contains_key(*name)) {
            cx.writers.extender_clients.remove(removed);
        }
        for (name, resolved) in &wanted {
            if self.by_profile.get(name) != Some(resolved) {
                let Resolved { schedulers, extenders } = resolved;
                cx.writers.extender_clients.configure(name, schedulers, extenders.clone());
            }
        }
        self.by_profile = wanted;
        let sends_nodes = cx.store.wants_nodes();
        if sends_nodes && !self.sends_nodes {
            tokio::spawn(fill(cx.clients.rest.clone(), cx.store.clone()));
        }
        self.sends_nodes = sends_nodes;
    }

    /// Looks for pods behind an extender that wait for the extender's own profile; does nothing most of the time.
    pub(super) fn look_for_dependencies<'a>(
        &mut self,
        cx: &Context,
        profiles: impl Iterator<Item = (&'a Str, &'a ServedSpec)>,
        now: Instant,
    ) {
        if self.looked_at.is_some_and(|last| now.duration_since(last) < DEPENDENCY_EVERY) {
            return;
        }
        let profiles: Vec<_> = profiles
            .filter(|(_, served)| served.extenders.iter().any(|spec| spec.endpoint.service.is_some()))
            .collect();
        if profiles.is_empty() {
            self.dependencies.clear();
            return;
        }
        if let Some(found) = dependencies(&cx.engine, &profiles) {
            self.looked_at = Some(now);
            self.dependencies = found;
        }
    }

    pub(super) fn facts(&self, cx: &Context, profile: &Str) -> ExtenderFacts {
        let Some(Resolved { extenders: resolved, .. }) = self.by_profile.get(profile) else {
            return ExtenderFacts::default();
        };
        let mut health = cx.writers.extender_clients.health(profile);
        let place = |name: &str| resolved.iter().position(|one| extender_name(one) == name).unwrap_or(usize::MAX);
        health.sort_by_key(|one| place(&one.name));
        let refers = resolved.iter().flatten().any(|settings| settings.credentials != Credentials::default());
        let problems: Vec<SettingsError> = resolved
            .iter()
            .filter_map(|one| one.as_ref().err())
            .filter(|_| self.references.are_read())
            .cloned()
            .collect();
        ExtenderFacts {
            health,
            refers: refers || !problems.is_empty(),
            problems,
            dependency: self.dependencies.get(profile).cloned(),
        }
    }
}

fn extender_name(resolved: &Result<Settings, SettingsError>) -> &str {
    resolved.as_ref().map_or_else(SettingsError::extender, |settings| &settings.name)
}

/// By profile: the first extender whose Service selects a pending pod of the profile that it serves, and the oldest such pod. O(pods),
/// in parts. `None` if the ledger is not free.
fn dependencies(engine: &Engine, profiles: &[(&Str, &ServedSpec)]) -> Option<BTreeMap<Str, (String, PodKey)>> {
    let mut behind: Vec<Behind<'_>> = read_soon(engine, |ledger| {
        profiles.iter().flat_map(|(name, served)| services(ledger, name, served)).collect()
    })?;
    let mut from = Some(PodsFrom::default());
    while let Some(at) = from.filter(|_| !behind.is_empty()) {
        from = read_soon(engine, |ledger| {
            ledger.some_pending_pods(at, |pod| behind.iter_mut().for_each(|service| service.look_at(pod)))
        })?;
    }
    let mut found = BTreeMap::new();
    for Behind { profile, extender, oldest, .. } in behind {
        if let Some(pod) = oldest {
            found.entry(profile.clone()).or_insert_with(|| (extender.to_owned(), pod.key.clone()));
        }
    }
    Some(found)
}

/// Who looks after the profiles does not wait for the ledger: a worker that hangs may have it, and is to be reported.
pub(super) fn read_soon<R>(engine: &Engine, mut look: impl FnMut(&Ledger) -> R) -> Option<R> {
    (0..LOOKS).find_map(|looks| {
        if looks > 0 {
            std::hint::spin_loop();
        }
        engine.try_read(&mut look)
    })
}

/// The pods behind one extender's Service.
struct Behind<'a> {
    profile: &'a Str,
    extender: &'a str,
    served: &'a ServedSpec,
    namespace: &'a str,
    selector: Labels,
    /// The oldest that waits for the profile.
    oldest: Option<Arc<Pod>>,
}

impl Behind<'_> {
    fn look_at(&mut self, pod: &Arc<Pod>) {
        let waits = *pod.key.namespace == *self.namespace
            && self.served.compiled.serves(&pod.scheduler_name)
            && self.selector.is_subset_of(&pod.shape.labels);
        let is_older = |than: &Arc<Pod>| (pod.created_unix_us, &pod.key) < (than.created_unix_us, &than.key);
        if waits && self.oldest.as_ref().is_none_or(is_older) {
            self.oldest = Some(pod.clone());
        }
    }
}

/// The Services of a profile's extenders, in the order in which the profile asks these.
fn services<'a>(ledger: &Ledger, profile: &'a Str, served: &'a ServedSpec) -> Vec<Behind<'a>> {
    let extenders = served.extenders.iter().filter_map(|spec| {
        let service = spec.endpoint.service.as_ref()?;
        let selector = ledger.workloads(&service.namespace)?.service(&service.name)?.clone();
        Some(Behind { profile, extender: &spec.name, served, namespace: &service.namespace, selector, oldest: None })
    });
    extenders.collect()
}

/// Reads all nodes into the store. A node that a watch brings meanwhile is newer and stays.
async fn fill(client: Client, store: Arc<ObjectStore>) {
    let nodes: Api<Node> = Api::all(client);
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = match nodes.list(&params).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "nodes not read for extenders: each is sent once it changes");
                return;
            }
        };
        for node in &page.items {
            if let (Some(name), Ok(json)) = (&node.metadata.name, serde_json::to_vec(node)) {
                store.put_missing_node(name, &json);
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = ListParams::default().limit(PAGE).continue_token(&token),
            None => return,
        }
    }
}

/// Finds the key of a pod by its uid, once there is an engine.
pub(super) fn key_of(engine: Arc<OnceLock<Engine>>) -> KeyOf {
    Arc::new(move |uid| engine.get()?.read(|ledger| ledger.pod(uid).map(|state| state.key().clone())))
}
