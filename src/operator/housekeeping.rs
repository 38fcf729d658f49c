//! What is checked at the start, now and then, and after a refusal: what the API server lets us do, and whether the installed
//! custom resource definition is the present one.

use super::context::Context;
use super::denials::{Denials, Permission};
use berth_api::{missing_fields, own_crd};
use berth_cluster::served_crd::{ServedCrdError, served_crd};
use berth_cluster::watch::KINDS;
use futures::StreamExt;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The time between two checks.
const EVERY: Duration = Duration::from_mins(1);

/// The time between two checks while a permission, or a field of the definition, is missing: whoever grants or applies it waits to see
/// it work.
const EVERY_WHILE_LACKING: Duration = Duration::from_secs(10);

/// The least time between two checks.
const AT_MOST_EVERY: Duration = Duration::from_secs(5);

/// The fields that the installed definition lacks.
pub(super) async fn lacking(client: &Client) -> Result<Vec<String>, ServedCrdError> {
    served_crd(client, |served| missing_fields(served, own_crd())).await
}

/// Checks until `stop`; a notification of `evidence` makes the next check early.
pub(super) async fn run(cx: Context, state_namespace: String, evidence: Arc<Notify>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(AT_MOST_EVERY) => {}
        }
        let lacks = !cx.denials.present(Instant::now()).is_empty() || !cx.board.lock().crd_lacks.is_empty();
        let pause = if lacks { EVERY_WHILE_LACKING } else { EVERY };
        tokio::select! {
            () = stop.cancelled() => return,
            () = evidence.notified() => {}
            () = refused_reads(&cx) => {}
            () = tokio::time::sleep(pause) => {}
        }
        review(&cx.clients.rest, &state_namespace, &cx.denials).await;
        match lacking(&cx.clients.rest).await {
            Ok(lacks) => cx.board.lock().crd_lacks = lacks,
            Err(error) => tracing::warn!(%error, "custom resource definition not compared"),
        }
    }
}

/// Returns when a watch was answered with an error.
async fn refused_reads(cx: &Context) {
    let errors = |cx: &Context| -> u64 {
        cx.board.lock().watches.iter().map(|fed| fed.stats.errors().api + fed.stats.errors().refused).sum()
    };
    let before = errors(cx);
    while errors(cx) == before {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

const fn need(verb: &'static str, resource: &'static str) -> Permission {
    Permission { verb, resource }
}

const PROFILES: &str = "schedulerprofiles.scheduling.berth.dev";

/// Needed in the namespace of what outlives a restart; all else is needed in the whole cluster.
const REVISIONS: &str = "controllerrevisions.apps";

/// All but reading the kinds that are watched.
const NEEDS: [Permission; 20] = [
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
    need("get", "resourceclaims.resource.k8s.io"),
    need("create", "resourceclaims.resource.k8s.io"),
    need("patch", "resourceclaims.resource.k8s.io"),
    need("delete", "resourceclaims.resource.k8s.io"),
    need("patch", "resourceclaims.resource.k8s.io/status"),
    need("patch", "resourceclaims.resource.k8s.io/binding"),
    need("create", "events.events.k8s.io"),
    need("list", REVISIONS),
    need("create", REVISIONS),
];

/// Reviews under way at once: a start must not wait for each in turn.
const ASKED_AT_ONCE: usize = 8;

/// Asks for each permission and notes in `denials` what is missing and what is there. An unanswered question changes
/// nothing. Returns the missing essential ones.
pub(super) async fn review(client: &Client, state_namespace: &str, denials: &Denials) -> Vec<Permission> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let api = &api;
    let asked =
        futures::stream::iter(needs()).map(|need| async move { (need, allowed(api, need, state_namespace).await) });
    let mut answers = asked.buffered(ASKED_AT_ONCE);
    let mut missing = Vec::new();
    while let Some((permission, allowed)) = answers.next().await {
        match allowed {
            Some(true) => denials.clear(permission),
            Some(false) => {
                denials.note_refused(permission);
                if permission.is_essential() {
                    missing.push(permission);
                }
            }
            None => {}
        }
    }
    missing
}

fn needs() -> Vec<Permission> {
    let read = KINDS.iter().flat_map(|kind| ["list", "watch"].map(|verb| need(verb, kind.resource)));
    NEEDS.into_iter().chain(read).collect()
}

/// Every right that the operator needs but those to its Lease, as `verb resource`, with what a review asks.
pub fn needed_rights(state_namespace: &str) -> Vec<(String, ResourceAttributes)> {
    let right = |need: Permission| (format!("{} {}", need.verb, need.resource), attributes(need, state_namespace));
    needs().into_iter().map(right).collect()
}

fn attributes(need: Permission, state_namespace: &str) -> ResourceAttributes {
    let text = |t: &str| (!t.is_empty()).then(|| t.to_owned());
    let (whole, subresource) = need.resource.split_once('/').unwrap_or((need.resource, ""));
    let (resource, group) = whole.split_once('.').unwrap_or((whole, ""));
    ResourceAttributes {
        group: text(group),
        namespace: (need.resource == REVISIONS).then(|| state_namespace.to_owned()),
        resource: text(resource),
        subresource: text(subresource),
        verb: text(need.verb),
        ..ResourceAttributes::default()
    }
}

async fn allowed(api: &Api<SelfSubjectAccessReview>, need: Permission, state_namespace: &str) -> Option<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes(need, state_namespace)),
            ..Default::default()
        },
        ..Default::default()
    };
    match api.create(&PostParams::default(), &review).await {
        Ok(answer) => Some(answer.status?.allowed),
        Err(error) => {
            tracing::debug!(%error, verb = need.verb, resource = need.resource, "permission not known");
            None
        }
    }
}
