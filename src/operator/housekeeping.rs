//! What is checked now and then: permissions, and whether the installed custom resource definition is the present one.

use super::context::Context;
use super::permissions;
use berth_api::{crd_json, missing_fields};
use berth_cluster::served_crd::{ServedCrdError, served_crd};
use kube::Client;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The time between two checks.
const EVERY: Duration = Duration::from_mins(1);

/// The time between two checks while a permission is missing: its owner waits to see the grant work.
const EVERY_WHILE_DENIED: Duration = Duration::from_secs(10);

/// The least time between two checks.
const AT_MOST_EVERY: Duration = Duration::from_secs(5);

/// The fields that the installed definition lacks.
pub(super) async fn lacking(client: &Client) -> Result<Vec<String>, ServedCrdError> {
    // Our own definition is a constant; a test of the api crate makes sure that it can be written as JSON.
    let own = crd_json().unwrap_or(Value::Null);
    served_crd(client, |served| missing_fields(served, &own)).await
}

/// Checks until `stop`; a notification of `evidence` makes the next check early.
pub(super) async fn run(cx: Context, state_namespace: String, evidence: Arc<Notify>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(AT_MOST_EVERY) => {}
        }
        let denied = !cx.denials.present(Instant::now()).is_empty();
        let pause = if denied { EVERY_WHILE_DENIED } else { EVERY };
        tokio::select! {
            () = stop.cancelled() => return,
            () = evidence.notified() => {}
            () = refused_reads(&cx) => {}
            () = tokio::time::sleep(pause) => {}
        }
        permissions::review(&cx.clients.rest, &state_namespace, &cx.denials).await;
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
