//! Asks the API server what we may do: at the start, now and then, and whenever something was refused.

use super::denials::{Denials, Permission};
use berth_cluster::watch::KINDS;
use futures::StreamExt;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use std::time::Instant;

/// A permission that the operator needs.
struct Need {
    verb: &'static str,
    /// As messages and RBAC rules name it: `resource.group/subresource`, the last two if there are any.
    named: &'static str,
    place: Place,
}

#[derive(Clone, Copy)]
enum Place {
    Cluster,
    /// The namespace of what outlives a restart.
    State,
}

const fn need(verb: &'static str, named: &'static str) -> Need {
    Need { verb, named, place: Place::Cluster }
}

const PROFILES: &str = "schedulerprofiles.scheduling.berth.dev";
const REVISIONS: &str = "controllerrevisions.apps";

/// All but reading the kinds that are watched.
const NEEDS: [Need; 14] = [
    need("create", "pods/binding"),
    need("list", PROFILES),
    need("watch", PROFILES),
    need("patch", "schedulerprofiles.scheduling.berth.dev/status"),
    need("patch", "pods/status"),
    need("get", "pods"),
    need("delete", "pods"),
    need("patch", "persistentvolumes"),
    need("get", "persistentvolumes"),
    need("patch", "persistentvolumeclaims"),
    need("get", "persistentvolumeclaims"),
    need("create", "events.events.k8s.io"),
    Need { place: Place::State, ..need("list", REVISIONS) },
    Need { place: Place::State, ..need("create", REVISIONS) },
];

/// Reviews under way at once: a start must not wait for each in turn.
const ASKED_AT_ONCE: usize = 8;

/// Asks for each permission and notes in `denials` what is missing and what is there. An unanswered question changes
/// nothing. Returns the missing essential ones.
pub(super) async fn review(client: &Client, state_namespace: &str, denials: &Denials) -> Vec<Permission> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let mut needs: Vec<Need> = NEEDS.into();
    for kind in KINDS {
        needs.extend(["list", "watch"].map(|verb| need(verb, kind.resource)));
    }
    let api = &api;
    let asked = futures::stream::iter(needs).map(|need| async move {
        let allowed = allowed(api, &need, state_namespace).await;
        (Permission { verb: need.verb, resource: need.named }, allowed)
    });
    let mut answers = asked.buffered(ASKED_AT_ONCE);
    let mut missing = Vec::new();
    while let Some((permission, allowed)) = answers.next().await {
        match allowed {
            Some(true) => denials.clear(permission),
            Some(false) => {
                if denials.note(permission, Instant::now()) {
                    tracing::warn!(verb = permission.verb, resource = permission.resource, "permission missing");
                }
                if permission.is_essential() {
                    missing.push(permission);
                }
            }
            None => {}
        }
    }
    missing
}

async fn allowed(api: &Api<SelfSubjectAccessReview>, need: &Need, state_namespace: &str) -> Option<bool> {
    let namespace = match need.place {
        Place::Cluster => None,
        Place::State => Some(state_namespace.to_owned()),
    };
    let text = |t: &str| (!t.is_empty()).then(|| t.to_owned());
    let (whole, subresource) = need.named.split_once('/').unwrap_or((need.named, ""));
    let (resource, group) = whole.split_once('.').unwrap_or((whole, ""));
    let attributes = ResourceAttributes {
        group: text(group),
        namespace,
        resource: text(resource),
        subresource: text(subresource),
        verb: text(need.verb),
        ..ResourceAttributes::default()
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() },
        ..Default::default()
    };
    match api.create(&PostParams::default(), &review).await {
        Ok(answer) => Some(answer.status?.allowed),
        Err(error) => {
            tracing::debug!(%error, verb = need.verb, resource = need.named, "permission not known");
            None
        }
    }
}
