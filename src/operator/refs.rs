//! ConfigMaps and Secrets of the operator's namespace that profiles name: read when a profile first names them, and again
//! every few seconds, so that a renewed certificate is soon in use. No other object of the namespace is read.

use super::denials::Denials;
use berth_api::BundleKind;
use berth_cluster::client::Fault;
use berth_extender::Contents;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The time between two reads of an object: a change is in use after it.
const EVERY: Duration = Duration::from_secs(5);

const READ_TIMEOUT: Duration = Duration::from_secs(4);

/// An object that a profile names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reference {
    kind: BundleKind,
    name: String,
}

impl Reference {
    pub(super) fn new(kind: BundleKind, name: &str) -> Self {
        Self { kind, name: name.to_owned() }
    }
}

/// The named objects and their contents. Cheap to clone; all clones share their state.
#[derive(Debug, Clone, Default)]
pub(super) struct References(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// `None` for an object that does not exist. Named objects that are missing here were not read yet.
    found: BTreeMap<Reference, Option<Contents>>,
    named: BTreeSet<Reference>,
    version: u64,
}

impl References {
    /// Sets the named objects; new ones are read at once.
    pub(super) fn name(&self, named: BTreeSet<Reference>) {
        let mut state = self.lock();
        if state.named == named {
            return;
        }
        let has_new = named.iter().any(|one| !state.named.contains(one));
        state.found.retain(|one, _| named.contains(one));
        state.named = named;
        drop(state);
        if has_new {
            self.0.wake.notify_one();
        }
    }

    /// Changes whenever the contents of an object do.
    pub(super) fn version(&self) -> u64 {
        self.lock().version
    }

    /// Whether every named object was read at least once.
    pub(super) fn are_read(&self) -> bool {
        let state = self.lock();
        state.named.iter().all(|one| state.found.contains_key(one))
    }

    /// `None` if the object does not exist, or was not read yet.
    pub(super) fn data(&self, kind: BundleKind, name: &str) -> Option<Contents> {
        self.lock().found.get(&Reference::new(kind, name)).cloned().flatten()
    }

    /// Reads the named objects until `stop`.
    pub(super) async fn run(self, client: Client, namespace: String, denials: Denials, stop: CancellationToken) {
        loop {
            let named: Vec<Reference> = self.lock().named.iter().cloned().collect();
            for one in named {
                match tokio::time::timeout(READ_TIMEOUT, read(&client, &namespace, &one)).await {
                    Ok(Ok(data)) => self.found(one, data),
                    Ok(Err(fault)) => {
                        tracing::debug!(name = one.name, error = %fault, "reference not read");
                        denials.note_fault(&fault);
                    }
                    Err(_) => tracing::debug!(name = one.name, "reference not read in time"),
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.0.wake.notified() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    fn found(&self, one: Reference, data: Option<Contents>) {
        let mut state = self.lock();
        if state.named.contains(&one) && state.found.get(&one) != Some(&data) {
            state.found.insert(one, data);
            state.version += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(client: &Client, namespace: &str, one: &Reference) -> Result<Option<Contents>, Fault> {
    if one.kind == BundleKind::Secret {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = secrets.get_opt(&one.name).await.map_err(|e| Fault::of("get", "secrets", &e))?;
        return Ok(found.map(Contents::of_secret));
    }
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = maps.get_opt(&one.name).await.map_err(|e| Fault::of("get", "configmaps", &e))?;
    Ok(found.map(Contents::of_config_map))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str) -> Reference {
        Reference::new(BundleKind::Secret, name)
    }

    #[allow(clippy::unnecessary_wraps, reason = "an object may not be there")]
    fn data(text: &str) -> Option<Contents> {
        let secret = serde_json::json!({"metadata": {}, "stringData": {"key": text}});
        Some(Contents::of_secret(serde_json::from_value(secret).unwrap()))
    }

    #[test]
    fn the_version_changes_only_with_contents() {
        let references = References::default();
        assert!(references.are_read());
        references.name([one("a"), one("b")].into());
        assert!(!references.are_read());
        references.found(one("a"), data("x"));
        references.found(one("b"), None);
        let version = references.version();
        assert!(references.are_read());
        assert_eq!(references.data(BundleKind::Secret, "a"), data("x"));
        assert_eq!(references.data(BundleKind::Secret, "b"), None);
        references.found(one("a"), data("x"));
        assert_eq!(references.version(), version);
        references.found(one("b"), data("y"));
        assert!(references.version() > version);
    }

    #[test]
    fn debug_shows_no_secret() {
        let references = References::default();
        references.name([one("a")].into());
        references.found(one("a"), data("hush"));
        let shown = format!("{references:?}");
        assert!(shown.contains("\"key\""), "{shown}");
        assert!(!shown.contains("hush") && !shown.contains("104, 117"), "{shown}");
    }

    #[test]
    fn objects_that_are_no_longer_named_are_forgotten() {
        let references = References::default();
        references.name([one("a")].into());
        references.found(one("a"), data("x"));
        references.name(BTreeSet::new());
        assert_eq!(references.data(BundleKind::Secret, "a"), None);
        references.found(one("a"), data("late"));
        assert_eq!(references.data(BundleKind::Secret, "a"), None);
    }
}
