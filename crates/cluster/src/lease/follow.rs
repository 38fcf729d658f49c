//! Watches the one Lease while another holds it: what is released is taken at once, and a renewal counts from when it was made,
//! not from when somebody looked.
//!
//! The watch only makes things faster. The elector looks by itself every retry period, watch or not.

use super::LEASE_NAME;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::WatchParams;
use kube::core::WatchEvent;

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

/// The watch, while there is one.
#[derive(Default)]
pub(super) struct Follow(Option<BoxStream<'static, Result<WatchEvent<Lease>, kube::Error>>>);

impl Follow {
    /// Waits for the next change after `version`. If the watch fails it never returns; the caller's next call opens another.
    pub(super) async fn next(&mut self, api: &Api<Lease>, version: Option<&str>) -> Seen {
        loop {
            if let Some(seen) = self.next_event(api, version).await {
                return seen;
            }
            if self.0.is_none() {
                return std::future::pending().await;
            }
        }
    }

    /// `None` for a bookmark, and for the end of the watch.
    async fn next_event(&mut self, api: &Api<Lease>, version: Option<&str>) -> Option<Seen> {
        if self.0.is_none() {
            // Only with a version: without one the watch would begin with what was seen already.
            let version = version?;
            // The name as a field is what an RBAC rule with resourceNames compares.
            let params = WatchParams::default().fields(&format!("metadata.name={LEASE_NAME}")).timeout(CALL_SECONDS);
            match api.watch(&params, version).await {
                Ok(stream) => self.0 = Some(stream.into_stream().boxed()),
                Err(error) => {
                    tracing::debug!(%error, lease = LEASE_NAME, "lease not watched: it is looked at now and then");
                    return None;
                }
            }
        }
        match self.0.as_mut()?.next().await {
            Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => Some(Seen::Changed(Box::new(lease))),
            Some(Ok(WatchEvent::Deleted(_))) => Some(Seen::Deleted),
            Some(Ok(WatchEvent::Bookmark(_))) => None,
            Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => {
                self.0 = None;
                None
            }
        }
    }

    pub(super) fn end(&mut self) {
        self.0 = None;
    }
}
