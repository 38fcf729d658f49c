//! Asks the API server what we may do: at the start, now and then, and whenever something was refused.

use super::denials::{Denials, Permission};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use std::time::Instant;

/// A request that the operator makes, as authorisation sees it.
struct Need {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    /// How messages and RBAC rules name it.
    named: &'static str,
    place: Place,
}

/// Where a permission is needed.
#[derive(Clone, Copy)]
enum Place {
    /// Everywhere.
    Cluster,
    /// In the namespace of what outlives a restart.
    State,
}

const fn need(verb: &'static str, group: &'static str, resource: &'static str, named: &'static str) -> Need {
    Need { verb, group, resource, subresource: "", named, place: Place::Cluster }
}

const PROFILES: &str = "schedulerprofiles.scheduling.berth.dev";
const PROFILE_STATUS: &str = "schedulerprofiles.scheduling.berth.dev/status";
const REVISIONS: &str = "controllerrevisions.apps";
const EVENTS: &str = "events.events.k8s.io";

const NEEDS: [Need; 15] = [
    need("list", "", "pods", "pods"),
    need("watch", "", "pods", "pods"),
    need("list", "", "nodes", "nodes"),
    need("watch", "", "nodes", "nodes"),
    need("list", "", "namespaces", "namespaces"),
    need("watch", "", "namespaces", "namespaces"),
    Need { subresource: "binding", ..need("create", "", "pods", "pods/binding") },
    need("list", "scheduling.berth.dev", "schedulerprofiles", PROFILES),
    need("watch", "scheduling.berth.dev", "schedulerprofiles", PROFILES),
    Need { subresource: "status", ..need("patch", "scheduling.berth.dev", "schedulerprofiles", PROFILE_STATUS) },
    Need { subresource: "status", ..need("patch", "", "pods", "pods/status") },
    need("get", "", "pods", "pods"),
    need("create", "events.k8s.io", "events", EVENTS),
    Need { place: Place::State, ..need("list", "apps", "controllerrevisions", REVISIONS) },
    Need { place: Place::State, ..need("create", "apps", "controllerrevisions", REVISIONS) },
];

/// Asks for each permission and notes in `denials` what is missing and what is there. An unanswered question changes
/// nothing. Returns the missing essential ones.
pub(super) async fn review(client: &Client, state_namespace: &str, denials: &Denials) -> Vec<Permission> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let mut missing = Vec::new();
    for need in &NEEDS {
        let permission = Permission { verb: need.verb, resource: need.named };
        match allowed(&api, need, state_namespace).await {
            Some(true) => denials.clear(permission),
            Some(false) => {
                if denials.note(permission, Instant::now()) {
                    tracing::warn!(verb = need.verb, resource = need.named, "permission missing");
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
    let attributes = ResourceAttributes {
        group: text(need.group),
        namespace,
        resource: text(need.resource),
        subresource: text(need.subresource),
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
