//! What the watches and the Lease mean for readiness.

use super::watches::Fed;
use std::sync::Arc;
use std::time::Duration;

/// Silence after which a watch counts as behind: longer than the time between two bookmarks of an API server, and than the
/// watch's own patience, so that an ordinary reconnect is not reported.
const STALE_AFTER: Duration = Duration::from_secs(160);

/// Which watch is behind, and for how long.
pub(super) fn stale(watches: &[Arc<Fed>]) -> Option<String> {
    // A kind that the cluster does without has no watch that could fall behind.
    watches.iter().filter(|fed| fed.stats.absence().is_none()).find_map(|fed| {
        let (resource, age) = (fed.plural, fed.stats.age_of_last_frame()?);
        (age > STALE_AFTER).then(|| format!("the watch of {resource} has been silent for {} s", age.as_secs()))
    })
}

/// Which whole reads are still to come.
pub(super) fn unread(watches: &[Arc<Fed>]) -> Option<String> {
    let missing: Vec<&str> = watches.iter().filter(|fed| !*fed.synced.borrow()).map(|fed| fed.plural).collect();
    (!missing.is_empty()).then(|| format!("{} not read yet", missing.join(", ")))
}
