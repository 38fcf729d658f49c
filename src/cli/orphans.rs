//! `berth orphans`: pods that wait for a scheduler which nobody serves, and the name that they may mean.

use super::live::{self, Loaded, SourceArgs};
use super::output::Align::{Left, Right};
use super::output::{self, Format, Table, age};
use super::{Answer, now_unix_us};
use crate::operator::{self, Orphans};
use berth_api::DEFAULT_SCHEDULER_NAME;
use berth_core::model::{Pod, Str};
use serde::Serialize;
use std::{collections::BTreeSet, sync::Arc};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Of every namespace of the kubeconfig's cluster.
  berth orphans -A

  # Without a cluster, from manifests.
  berth orphans -f cluster.yaml

A pod counts once it has waited a minute and no scheduler has said anything about it; among manifests, default-scheduler
is taken to be served. Exit code 2: some were found.")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// The form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Pods that name one scheduler, in the JSON form.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    scheduler_name: String,
    nearest: Option<String>,
    advice: String,
    oldest_age_seconds: Option<i64>,
    /// `namespace/name`, oldest first.
    pods: Vec<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    let loaded = live::load(&args.source)?;
    output::notes(&loaded.inputs.notes);
    let now = now_unix_us();
    let rows: Vec<Row> = found(&loaded, now).iter().map(|orphans| row(orphans, now)).collect();
    output::answer(args.output, &rows, |out| match &*rows {
        [] => writeln!(out, "no pod has waited a minute for a scheduler that is not there"),
        rows => table(rows).write(out),
    })?;
    Ok(if rows.is_empty() { Answer::Done } else { Answer::No })
}

/// The orphans among the pods that are asked about.
fn found(loaded: &Loaded, now_unix_us: i64) -> Vec<Orphans> {
    let inputs = &loaded.inputs;
    let asked = |pod: &&Pod| loaded.namespace.as_ref().is_none_or(|namespace| **namespace == *pod.key.namespace);
    let pending = inputs.cluster.pending().into_iter().filter(asked);
    let pending: Vec<Arc<Pod>> = pending.cloned().map(Arc::new).collect();
    let default = BTreeSet::from([Str::from(DEFAULT_SCHEDULER_NAME)]);
    // A cluster shows what kube-scheduler reported about a pod; manifests written by hand do not.
    let (mut served, others) =
        if loaded.server.is_some() { (BTreeSet::new(), default) } else { (default, BTreeSet::new()) };
    // The preset that stands in for missing profiles serves nobody's pods.
    let profiles = inputs.profiles.iter().filter(|_| !inputs.stand_in);
    served.extend(profiles.flat_map(|profile| profile.scheduler_names.iter().cloned()));
    operator::orphans(&pending, &served, &others, now_unix_us)
}

fn row(orphans: &Orphans, now_unix_us: i64) -> Row {
    // A manifest that was never applied has no age.
    let created = orphans.pods.iter().map(|pod| pod.created_unix_us).find(|created| *created > 0);
    Row {
        scheduler_name: orphans.scheduler_name.to_string(),
        nearest: orphans.nearest.as_ref().map(ToString::to_string),
        advice: operator::advice(orphans),
        oldest_age_seconds: created.map(|created| (now_unix_us - created) / 1_000_000),
        pods: orphans.pods.iter().map(|pod| pod.key.to_string()).collect(),
    }
}

fn table(rows: &[Row]) -> Table {
    let columns = [("SCHEDULER", Left), ("NEAREST", Left), ("PODS", Right), ("OLDEST", Right), ("EXAMPLE", Left)];
    let mut table = Table::new(0, columns);
    for row in rows {
        table.row([
            row.scheduler_name.clone(),
            row.nearest.clone().unwrap_or_else(|| "-".to_owned()),
            row.pods.len().to_string(),
            row.oldest_age_seconds.map_or_else(|| "-".to_owned(), age),
            row.pods.first().cloned().unwrap_or_default(),
        ]);
    }
    table
}
