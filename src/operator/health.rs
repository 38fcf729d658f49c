//! Which watches keep the process from being ready.

use super::watches::Fed;
use std::sync::Arc;
use std::time::Duration;

/// A watch counts as behind after this silence. It is longer than the time between two bookmarks of an API server, and
/// than the watch's own timeout, so that an ordinary reconnect is not reported.
const STALE_AFTER: Duration = Duration::from_secs(160);

/// The first watch that is behind, and for how long.
pub(super) fn stale(watches: &[Arc<Fed>]) -> Option<String> {
    // A kind that the cluster does without has no watch that could fall behind.
    watches.iter().filter(|fed| fed.stats.absence().is_none()).find_map(|fed| {
        let age = fed.stats.age_of_last_frame()?;
        (age > STALE_AFTER).then(|| format!("the watch of {} has been silent for {} s", fed.plural, age.as_secs()))
    })
}

/// The kinds that were not yet read whole.
pub(super) fn unread(watches: &[Arc<Fed>]) -> Option<String> {
    let missing: Vec<&str> = watches.iter().filter(|fed| !*fed.synced.borrow()).map(|fed| fed.plural).collect();
    (!missing.is_empty()).then(|| format!("{} not read yet", missing.join(", ")))
}
