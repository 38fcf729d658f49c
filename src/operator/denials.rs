//! Requests that the API server has lately forbidden.

use berth_cluster::{client::Fault, watch::KINDS};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A permission counts as missing this long after the last refusal. Longer than the time between two reviews, so that a
/// condition does not come and go between them.
const REMEMBERED: Duration = Duration::from_secs(90);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Permission {
    pub(super) verb: &'static str,
    /// As messages and RBAC rules name it: `resource.group/subresource`, the last two if there are any.
    pub(super) resource: &'static str,
}

impl Permission {
    /// Whether nothing can be scheduled without it.
    pub(super) fn is_essential(self) -> bool {
        let watched = || KINDS.iter().any(|kind| kind.resource == self.resource && !kind.optional);
        let resource = matches!(self.resource, "pods/binding" | "schedulerprofiles.scheduling.berth.dev") || watched();
        resource && matches!(self.verb, "list" | "watch" | "create")
    }
}

impl Permission {
    /// Whether who gets the Lease without it ends: last good specs are read first.
    pub(super) fn ends_a_leader(self) -> bool {
        (self.verb, self.resource) == ("list", "controllerrevisions.apps")
    }
}

impl std::fmt::Display for Permission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "may not {} {} (403): grant verb `{}` on `{}`, as the chart's RBAC does",
            self.verb, self.resource, self.verb, self.resource
        )
    }
}

/// Missing permissions, each with the time of the last refusal. Cheap to clone; all clones share their state.
#[derive(Debug, Clone, Default)]
pub(super) struct Denials(Arc<Mutex<BTreeMap<Permission, Instant>>>);

impl Denials {
    /// Notes a refusal; true if the permission did not count as missing.
    fn note(&self, permission: Permission, now: Instant) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.insert(permission, now);
        before.is_none_or(|before| now.duration_since(before) >= REMEMBERED)
    }

    /// Notes a refusal, and logs it if the permission did not count as missing.
    pub(super) fn note_refused(&self, permission: Permission) {
        if self.note(permission, Instant::now()) {
            tracing::warn!(verb = permission.verb, resource = permission.resource, "permission missing");
        }
    }

    /// Notes a fault if it is a refusal.
    pub(super) fn note_fault(&self, fault: &Fault) {
        if let Fault::Forbidden { verb, resource, .. } = *fault {
            self.note_refused(Permission { verb, resource });
        }
    }

    /// The permission was granted.
    pub(super) fn clear(&self, permission: Permission) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&permission).is_some() {
            tracing::info!(verb = permission.verb, resource = permission.resource, "permission granted");
        }
    }

    /// The permissions that are missing at present, essential ones first.
    pub(super) fn present(&self, now: Instant) -> Vec<Permission> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = all.iter().filter(|(_, at)| now.saturating_duration_since(**at) < REMEMBERED);
        let mut present: Vec<Permission> = fresh.map(|(permission, _)| *permission).collect();
        present.sort_by_key(|permission| !permission.is_essential());
        present
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_forgotten_when_they_stop_or_are_mended() {
        let (denials, start) = (Denials::default(), Instant::now());
        let events = Permission { verb: "create", resource: "events.events.k8s.io" };
        let bind = Permission { verb: "create", resource: "pods/binding" };
        assert!(denials.note(events, start));
        assert!(!denials.note(events, start + Duration::from_secs(80)), "already known");
        assert!(denials.note(bind, start));
        assert_eq!(denials.present(start + Duration::from_secs(1)), [bind, events]);
        assert_eq!(denials.present(start + Duration::from_secs(100)), [events]);
        denials.clear(events);
        assert!(denials.present(start + Duration::from_secs(1)).iter().all(|p| *p == bind));
    }

    #[test]
    fn the_text_names_verb_and_resource() {
        let text = Permission { verb: "create", resource: "pods/binding" }.to_string();
        assert!(text.contains("may not create pods/binding") && text.contains("grant verb `create`"), "{text}");
    }
}
