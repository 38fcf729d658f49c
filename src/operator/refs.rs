//! ConfigMaps and Secrets of the operator's namespace that profiles name: read when they are named, and again every few
//! seconds, so that a renewed certificate is in use soon. Nothing else in the namespace is looked at.

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

/// How often everything that is named is read: within this time a change is in use.
const EVERY: Duration = Duration::from_secs(5);

/// Longest wait for one object.
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

/// What is named, and what was found of it. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub(super) struct References(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// What was found; `None` where the object is not there. What is named and not in here was not read yet.
    found: BTreeMap<Reference, Option<Contents>>,
    named: BTreeSet<Reference>,
    version: u64,
}

impl References {
    /// Sets what is named; what is new is read at once.
    pub(super) fn name(&self, named: BTreeSet<Reference>) {
        let mut state = self.lock();
        if state.named == named {
            return;
        }
        let news = named.iter().any(|one| !state.named.contains(one));
        state.found.retain(|one, _| named.contains(one));
        state.named = named;
        drop(state);
        if news {
            self.0.wake.notify_one();
        }
    }

    /// Changes whenever something that was found does.
    pub(super) fn version(&self) -> u64 {
        self.lock().version
    }

    /// Whether everything that is named was looked for at least once.
    pub(super) fn are_read(&self) -> bool {
        let state = self.lock();
        state.named.iter().all(|one| state.found.contains_key(one))
    }

    /// What was found of an object; `None` where it is not there, or was not read yet.
    pub(super) fn data(&self, kind: BundleKind, name: &str) -> Option<Contents> {
        self.lock().found.get(&Reference::new(kind, name)).cloned().flatten()
    }

    /// Reads what is named until `stop`.
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
        return Ok(found.map(|secret| Contents::new(secret.data, None)));
    }
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = maps.get_opt(&one.name).await.map_err(|e| Fault::of("get", "configmaps", &e))?;
    Ok(found.map(|map| Contents::new(map.binary_data, map.data)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str) -> Reference {
        Reference::new(BundleKind::Secret, name)
    }

    #[allow(clippy::unnecessary_wraps, reason = "an object may not be there")]
    fn data(text: &str) -> Option<Contents> {
        Some(Contents::new(None, Some([("key".to_owned(), text.to_owned())].into())))
    }

    #[test]
    fn only_news_moves_the_version() {
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
    fn what_is_not_named_any_more_is_forgotten() {
        let references = References::default();
        references.name([one("a")].into());
        references.found(one("a"), data("x"));
        references.name(BTreeSet::new());
        assert_eq!(references.data(BundleKind::Secret, "a"), None);
        references.found(one("a"), data("late"));
        assert_eq!(references.data(BundleKind::Secret, "a"), None);
    }
}
