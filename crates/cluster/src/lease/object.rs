//! What is read from a Lease object beside the fields that every Lease has; the Lease that nobody holds, and the mark beside it.

use super::{LEASE_NAME, MARK_NAME};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::ObjectMeta;
use std::time::Duration;

/// The annotation that names the installation of the Lease's holder, or of who made it with none: its replicas share it, two installations do not.
pub(super) const INSTALLATION: &str = "scheduling.berth.dev/installation";

/// The annotation in which a leader that ends in order says how much of the cluster it had seen.
pub(super) const LAST_SEEN: &str = "scheduling.berth.dev/last-seen";

/// The annotation of the mark that tells people what it is for.
const WHY: &str = "scheduling.berth.dev/why";

/// The mark, as it is made once and never written again.
pub(super) fn mark() -> Lease {
    let why = "An operator has led here. Where this is missing and the Lease, too, whoever starts leads at once: do not delete it while one runs.";
    let annotations = Some([(WHY.to_owned(), why.to_owned())].into());
    let metadata = ObjectMeta { name: Some(MARK_NAME.to_owned()), annotations, ..ObjectMeta::default() };
    Lease { metadata, spec: None }
}

/// A Lease that nobody holds, and that nobody may take for `duration` but who leads.
pub(super) fn unheld(duration: Duration, installation: &str) -> Lease {
    let annotations = Some([(INSTALLATION.to_owned(), installation.to_owned())].into());
    let metadata = ObjectMeta { name: Some(LEASE_NAME.to_owned()), annotations, ..ObjectMeta::default() };
    let spec = LeaseSpec { lease_duration_seconds: Some(whole_seconds(duration)), ..LeaseSpec::default() };
    Lease { metadata, spec: Some(spec) }
}

pub(super) fn whole_seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs().max(1)).unwrap_or(i32::MAX)
}

/// What the last leader left when it released this Lease. It names the time of the release: an older version, which leaves
/// annotations alone, may have held the Lease since.
pub(super) fn last_seen_of(lease: &Lease) -> Option<String> {
    let is_free = lease.spec.as_ref()?.holder_identity.as_deref().unwrap_or_default().is_empty();
    let (at, last_seen) = annotation(lease, LAST_SEEN)?.split_once(' ')?;
    (is_free && at.parse().ok() == renew_time_of(lease)).then(|| last_seen.to_owned())
}

/// The installation whose process holds the Lease, or held or made it last; `None` if an older version wrote it.
pub fn installation_of(lease: &Lease) -> Option<&str> {
    annotation(lease, INSTALLATION)
}

fn annotation<'a>(lease: &'a Lease, name: &str) -> Option<&'a str> {
    lease.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// When the holder renewed it, in microseconds of Unix time.
pub(super) fn renew_time_of(lease: &Lease) -> Option<i64> {
    // A MicroTime loses what is below a microsecond on its way to the API server and back.
    lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0.as_microsecond())
}
