//! `berth shadow`: what a profile in mode DryRun would have done with the pods of another scheduler.
//!
//! ```text
//!  read      the debug door of the process that leads: figures and the newest comparisons
//!  report    pure: what was read → figures, disagreements, rows
//!  page      the pods of the report on the nodes of the cluster, for a browser
//! ```

mod page;
mod read;
mod report;

use super::Answer;
use super::live::ClusterArgs;
use super::output::{self, Format};
use anyhow::bail;
use axum::http::Uri;
use clap::Subcommand;
use report::Report;
use std::path::PathBuf;

/// Where the chart's port is after a port-forward.
const DOOR: &str = "http://127.0.0.1:8082";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say how a profile in mode DryRun agrees with the scheduler that it follows, and where it does not.
    Report(ReportArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The replica that leads has the comparisons: its pod's name begins the holder of the Lease.
  kubectl -n berth-system port-forward POD 8082 &
  berth shadow report trial

  # In a script: exit code 2 if fewer than 99.5 % of the pods are where the profile would be content.
  berth shadow report trial --at-least 99.5 -o json > report.json

  # Where the pods are and where the profile would have put them, as a map.
  berth shadow report trial --html trial.html

The newest 10,000 comparisons are kept, in memory: they are lost when the process ends or the profile's spec changes.")]
struct ReportArgs {
    /// The profile.
    #[arg(value_name = "PROFILE")]
    profile: String,

    /// Where the pages for debugging of the replica that leads are: a port that is forwarded.
    #[arg(long, value_name = "URL", default_value = DOOR)]
    debug_url: Uri,

    /// How many of the newest pods to list that are not on one of the profile's best nodes.
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    show: usize,

    /// The share of pods, in percent, that must be on one of the profile's best nodes: with fewer, the exit code is 2.
    #[arg(long, value_name = "PERCENT")]
    at_least: Option<f64>,

    /// Also write a page for a browser: a map of the nodes with the pods where they are bound and where the profile would have put them,
    /// and for each on another node why. One file, which loads nothing.
    ///
    /// Nodes, pods and the profile are read from the cluster of the kubeconfig; pods that are gone by now are left out.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// For the page, manifests instead of a live cluster: a file, a folder (read recursively), or `-` for standard input; may be given
    /// several times.
    #[arg(id = "filename", long = "manifests", value_name = "PATH", requires = "html")]
    manifests: Vec<PathBuf>,

    /// The form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,

    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    let Command::Report(args) = &args.command;
    report(args)
}

fn report(args: &ReportArgs) -> anyhow::Result<Answer> {
    if let Some(least) = args.at_least
        && !(0.0..=100.0).contains(&least)
    {
        bail!("--at-least {least}: write a share in percent, 0 to 100");
    }
    let runtime = super::event_loop("the connection")?;
    let read = runtime.block_on(read::shadow(&args.debug_url, &args.profile));
    // Do not wait for name lookups.
    runtime.shutdown_background();
    let report = Report::of(read?);
    output::answer(args.output, &report, |out| report.write(args.show, out))?;
    if let Some(file) = &args.html {
        page::write(file, &report, &args.cluster, &args.manifests)?;
    }
    let falls_short = args.at_least.is_some_and(|least| report.among_best_percent.is_none_or(|share| share < least));
    Ok(if falls_short { Answer::No } else { Answer::Done })
}
