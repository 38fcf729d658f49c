//! What the watches and the Lease mean for readiness.

use super::wiring::Fed;
use std::sync::Arc;
use std::time::Duration;

/// Silence after which a watch counts as behind: longer than the time between two bookmarks of an API server, and than the
/// watch's own patience, so that an ordinary reconnect is not reported.
const STALE_AFTER: Duration = Duration::from_secs(160);

/// Which watch is behind, and for how long.
pub(super) fn stale(watches: &[(&'static str, Arc<Fed>)]) -> Option<String> {
    watches.iter().find_map(|(resource, fed)| {
        let age = fed.stats.age_of_last_frame()?;
        (age > STALE_AFTER).then(|| format!("the watch of {resource} has been silent for {} s", age.as_secs()))
    })
}

/// Which whole reads are still to come.
pub(super) fn unread(watches: &[(&'static str, Arc<Fed>)]) -> Option<String> {
    let missing: Vec<&str> =
        watches.iter().filter(|(_, fed)| !*fed.synced.borrow()).map(|(resource, _)| *resource).collect();
    (!missing.is_empty()).then(|| format!("{} not read yet", missing.join(", ")))
}
