//! Watches the one Lease while another holds it: what is released is taken at once, and a renewal counts from when it was made,
//! not from when somebody looked.
//!
//! The watch only makes things faster. The elector looks by itself every retry period, watch or not.

use super::LEASE_NAME;
use super::identity::Identity;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::WatchParams;
use kube::core::WatchEvent;
use kube::{Api, Client};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// For how many seconds to ask for one watch.
const CALL_SECONDS: u32 = 290;

/// What the watch showed.
#[derive(Debug)]
pub(super) enum Seen {
    /// The Lease as it is now.
    Changed(Box<Lease>),
    /// There is none any more.
    Deleted,
}

type Stream = BoxStream<'static, Result<WatchEvent<Lease>, kube::Error>>;

/// The watch, while there is one. Nobody ever waits for the lock: it makes the elector something that threads may share.
#[derive(Default)]
pub(super) struct Follow(Mutex<Option<Stream>>);

impl Follow {
    /// Waits for the next change after `version`. If the watch fails it never returns; the caller's next call opens another.
    pub(super) async fn next(&mut self, api: &Api<Lease>, version: Option<&str>) -> Seen {
        loop {
            if let Some(seen) = self.next_event(api, version).await {
                return seen;
            }
            if self.watch().is_none() {
                return std::future::pending().await;
            }
        }
    }

    /// `None` for a bookmark, and for the end of the watch.
    async fn next_event(&mut self, api: &Api<Lease>, version: Option<&str>) -> Option<Seen> {
        if self.watch().is_none() {
            // Only with a version: without one the watch would begin with what was seen already.
            let version = version?;
            // The name as a field is what an RBAC rule with resourceNames compares.
            let params = WatchParams::default().fields(&format!("metadata.name={LEASE_NAME}")).timeout(CALL_SECONDS);
            match api.watch(&params, version).await {
                Ok(stream) => *self.watch() = Some(stream.into_stream().boxed()),
                Err(error) => {
                    tracing::debug!(%error, lease = LEASE_NAME, "lease not watched: it is looked at now and then");
                    return None;
                }
            }
        }
        match self.watch().as_mut()?.next().await {
            Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => Some(Seen::Changed(Box::new(lease))),
            Some(Ok(WatchEvent::Deleted(_))) => Some(Seen::Deleted),
            Some(Ok(WatchEvent::Bookmark(_))) => None,
            Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => {
                self.end();
                None
            }
        }
    }

    fn watch(&mut self) -> &mut Option<Stream> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end(&mut self) {
        *self.watch() = None;
    }
}

/// Whether somebody else than `own` holds the Lease within `limit`.
pub async fn is_taken(client: Client, namespace: &str, own: &Identity, limit: Duration) -> bool {
    let (api, end) = (Api::<Lease>::namespaced(client, namespace), Instant::now() + limit);
    loop {
        let lease = tokio::time::timeout_at(end, api.get_opt(LEASE_NAME)).await;
        let holder = lease.ok().and_then(Result::ok).flatten().and_then(|lease| lease.spec?.holder_identity);
        if holder.is_some_and(|holder| !holder.is_empty() && holder != own.to_string()) {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
