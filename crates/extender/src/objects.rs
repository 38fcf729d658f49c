//! Whole objects for a question: pods and nodes from the store, and what it does not have, such as victims, from the API
//! server.

use super::READ_TIMEOUT;
use super::budget::{PROFILE_BYTES, Readers, Reservation};
use super::error::error;
use super::store::ObjectStore;
use super::wire::sent_form;
use berth_cluster::send::Call;
use berth_cluster::transport::Transport;
use berth_core::io::{ExtenderError, ExtenderErrorKind, NodeVictims};
use berth_core::model::{Pod, PodKey, Str};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// Objects fetched at once for one question.
const FETCHES: usize = 8;

/// Nodes that are fetched for one question because the store does not have them yet. If more are missing, the store is
/// still being filled, and the question fails.
const MISSING_NODES: usize = 16;

/// Finds the key of a pod by its uid.
pub type KeyOf = Arc<dyn Fn(&str) -> Option<PodKey> + Send + Sync>;

/// Gets objects from the store, or else from the API server, a few at a time for each profile.
#[derive(Clone)]
pub(super) struct Objects {
    pub(super) store: Arc<ObjectStore>,
    pub(super) kube: Transport,
    pub(super) key_of: KeyOf,
}

fn missing(what: &str, why: &str) -> ExtenderError {
    error(ExtenderErrorKind::Busy, format!("{what} could not be read for the extender: {why}"))
}

/// What was fetched, once its bytes are reserved.
fn reserved(
    what: &str,
    fetched: Result<Option<Bytes>, String>,
    reservation: &mut Reservation,
) -> Result<Bytes, ExtenderError> {
    let form = fetched.map_err(|why| missing(what, &why))?.ok_or_else(|| missing(what, "it is gone"))?;
    take(what, &form, reservation)?;
    Ok(form)
}

fn take(what: &str, form: &Bytes, reservation: &mut Reservation) -> Result<(), ExtenderError> {
    let full = |_| {
        let bytes = form.len();
        missing(what, &format!("it has {bytes} bytes, and the calls of one profile may hold {PROFILE_BYTES} at once"))
    };
    reservation.take(form.len()).map_err(full)
}

async fn turn(what: &str, readers: &Readers) -> Result<OwnedSemaphorePermit, ExtenderError> {
    readers.turn(READ_TIMEOUT).await.ok_or_else(|| missing(what, "too many objects are being read for its profile"))
}

impl Objects {
    /// Fetched if the store does not have it.
    pub(super) async fn pod(&self, pod: &Pod, reservation: &mut Reservation) -> Result<Bytes, ExtenderError> {
        if let Some(form) = self.store.pod(&pod.uid) {
            return Ok(form);
        }
        let what = format!("pod {}", pod.key);
        let _turn = turn(&what, &reservation.readers()).await?;
        reserved(&what, self.fetch_pod(&pod.key, &pod.uid).await, reservation)
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
            forms.push(if let Some(form) = form {
                form
            } else {
                let what = format!("node {name}");
                let _turn = turn(&what, &reservation.readers()).await?;
                reserved(&what, self.fetch(format!("/api/v1/nodes/{name}")).await, reservation)?
            });
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
        let readers = &reservation.readers();
        let fetches = uids.iter().map(|uid| async move {
            let Some(key) = (self.key_of)(uid) else { return Ok(None) };
            let what = format!("pod {key}");
            let turn = turn(&what, readers).await?;
            let form = self.fetch_pod(&key, uid).await.map_err(|why| missing(&what, &why))?;
            Ok::<_, ExtenderError>(form.map(|form| ((*uid).clone(), form, turn)))
        });
        let mut fetched = stream::iter(fetches.collect::<Vec<_>>()).buffer_unordered(FETCHES);
        let mut found: FxHashMap<Str, Bytes> = FxHashMap::default();
        while let Some(one) = fetched.try_next().await? {
            if let Some((uid, form, _turn)) = one {
                take("a victim", &form, reservation)?;
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
        let answer = self.kube.send(&Call::get(path), READ_TIMEOUT).await.map_err(|e| e.to_string())?;
        if answer.code == 404 {
            return Ok(None);
        }
        if !answer.is_success() {
            return Err(answer.message());
        }
        sent_form(&answer.body).map(Some).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn an_object_that_is_too_large_for_a_call_fails_it_with_the_reason() {
        let budget = Budget::new(100);
        let mut reservation = budget.reserve();
        let read = |bytes| Ok(Some(Bytes::from(vec![b' '; bytes])));
        reserved("pod ns/a", read(60), &mut reservation).unwrap();
        let error = reserved("pod ns/b", read(41), &mut reservation).unwrap_err();
        assert_eq!(error.kind, ExtenderErrorKind::Busy);
        let why = "pod ns/b could not be read for the extender: it has 41 bytes, and the calls of one profile may hold";
        assert!(error.message.starts_with(why), "{}", error.message);
        assert_eq!(budget.reserved(), 60);
    }
}
