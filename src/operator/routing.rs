//! Looks now and then how routes fare among the namespaces, and whether the API server has the policies that they need.

use super::context::Context;
use super::routes::look;
use super::tasks::aside;
use berth_cluster::served_policies::serves_mutating_policies;
use berth_core::model::{Labels, Str};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How often namespaces are looked over for the condition. The policy itself sees a new namespace at once.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How often the API server is asked whether it serves the policy's kind.
const ASK_EVERY: Duration = Duration::from_mins(1);

/// Namespaces that one look takes in: some 50 ns each under the ledger's read lock. Of more, the condition's numbers are too low.
const LOOKED_AT: usize = 10_000;

/// The namespace that the policy leaves alone beside the operator's own.
const SPARED: &str = "kube-system";

/// Looks until `stop`, while a profile has a route.
pub(super) async fn run(cx: Context, own_namespace: String, stop: CancellationToken) {
    let mut ask_at = Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let claims = cx.board.lock().routes.clone();
        if claims.is_empty() {
            cx.board.lock().routing.routed.clear();
            continue;
        }
        if Instant::now() >= ask_at {
            match serves_mutating_policies(&cx.clients.rest).await {
                Ok(served) => cx.board.lock().routing.unsupported = !served,
                Err(error) => tracing::warn!(%error, "not known whether admission policies can be used"),
            }
            ask_at = Instant::now() + ASK_EVERY;
        }
        // As many comparisons as there are profiles times namespaces: too long for an async thread.
        let (of_look, own) = (cx.clone(), own_namespace.clone());
        let looked = aside(move || {
            let copied = |(name, labels): (&Str, &Labels)| (name.clone(), labels.clone());
            let namespaces: Vec<(Str, Labels)> =
                of_look.engine.read(|ledger| ledger.namespaces().take(LOOKED_AT).map(copied).collect());
            look(claims, &namespaces, &[SPARED, &own])
        });
        match looked.await {
            Ok(routed) => cx.board.lock().routing.routed = routed,
            Err(error) => tracing::error!(%error, "routes not looked over"),
        }
    }
}
