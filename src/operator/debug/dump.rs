//! SIGUSR2 writes the state to the log, as kube-scheduler's cache debugger does (`pkg/scheduler/backend/cache/debugger`).

use super::super::context::Context;
use super::super::printable::{NAME, printable};
use super::{audit, queue};
use berth_core::ledger::Ledger;
use berth_core::model::Str;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Pods of each profile that are written.
const PODS: usize = 100;

/// Nodes that are written.
const NODES: usize = 200;

/// Nodes that are read under one lock.
const NODES_PER_HOLD: usize = 50;

/// Longest wait for a worker's pods.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// Writes the state to the log at each SIGUSR2, until `stop`.
pub(in super::super) async fn dump_on_signal(cx: Context, stop: CancellationToken) {
    let mut asked = match signal(SignalKind::user_defined2()) {
        Ok(asked) => asked,
        Err(error) => {
            tracing::warn!(%error, "SIGUSR2 cannot be listened for");
            return stop.cancelled().await;
        }
    };
    while let Some(Some(())) = stop.run_until_cancelled(asked.recv()).await {
        dump(&cx).await;
    }
}

/// A line for each worker, pod and node, up to a number of each that does not fill the log.
pub(super) async fn dump(cx: &Context) {
    tracing::info!(leads = cx.gate.leads(), "dump of the state: begin");
    for (profile, view) in cx.engine.workers() {
        tracing::info!(%profile, worker = %queue::of_worker(cx, &view), "dump: worker");
        let Ok(Some(page)) = timeout(ANSWERED_WITHIN, cx.engine.pods(&profile, None, PODS)).await else {
            tracing::info!(%profile, "dump: the worker does not answer");
            continue;
        };
        for pod in &page.pods {
            tracing::info!(%profile, pod = %queue::of_pod(cx, pod), "dump: pod");
        }
        tracing::info!(%profile, left_out = page.total - page.pods.len(), "dump: pods end");
    }
    let (nodes, left_out) = cx.engine.read(|ledger: &Ledger| {
        let order = ledger.node_order();
        let names = order.iter().take(NODES).map(|node| ledger.nodes().name(*node).clone());
        (names.collect::<Vec<Str>>(), order.len().saturating_sub(NODES))
    });
    for part in nodes.chunks(NODES_PER_HOLD) {
        // One may have been deleted since.
        let lines = |ledger: &Ledger| part.iter().filter_map(|name| of_node(ledger, name)).collect::<Vec<_>>();
        for line in cx.engine.read(lines) {
            tracing::info!(node = line, "dump: node");
        }
    }
    tracing::info!(nodes_left_out = left_out, audit = %audit::last(&cx.audits), "dump of the state: end");
}

fn of_node(ledger: &Ledger, name: &str) -> Option<String> {
    let nodes = ledger.nodes();
    let node = nodes.find(name)?;
    let (allocatable, requested) = nodes.amounts(node);
    Some(format!(
        "{}: {} pods, cpu {}m of {}m, memory {} of {} bytes{}",
        printable(name, NAME),
        nodes.pod_count(node),
        requested.milli_cpu,
        allocatable.milli_cpu,
        requested.memory,
        allocatable.memory,
        if nodes.is_cordoned(node) { ", cordoned" } else { "" },
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::pages;
    use super::*;
    use berth_core::profile::CompiledProfile;
    use berth_core::testing::{node, pending_pod};
    use std::sync::Arc;

    #[tokio::test]
    async fn a_dump_comes_to_an_end_and_a_node_is_a_line() {
        let (pages, _server) = pages().await;
        let engine = &pages.cx.engine;
        engine.run(Arc::new(CompiledProfile::default_preset("bin"))).unwrap();
        engine.apply(|ledger| {
            ledger.apply_node(&node("n", 1_000, 5, 10));
            ledger.apply_pod(pending_pod("ns", "p"));
        });
        dump(&pages.cx).await;
        let line = engine.read(|ledger| of_node(ledger, "n")).unwrap();
        assert!(line.starts_with("n: ") && line.contains("of 1000m") && line.ends_with("of 5 bytes"), "{line}");
        engine.stop_all().await;
    }
}
