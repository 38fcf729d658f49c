//! `berth top`: a cluster's scheduling at work, on a screen that follows it or, with `--once`, as text.
//!
//! ```text
//!  read       the cluster: watches, lists, the leader's metrics  ── metrics  the few series of a scrape
//!  facts      what is kept of it; rates of its counters in rates
//!  model      pure: facts → texts, by the rows of each pane
//!  once       the texts as lines
//!  view       the texts as a screen, with the user's place in it, which state keeps; detail is what Enter opens
//!  screen     the terminal: keys and signals in, drawings out
//! ```

mod detail;
mod facts;
mod keys;
mod metrics;
mod model;
mod once;
mod pane;
mod rates;
mod read;
mod rows;
mod screen;
mod state;
#[cfg(test)]
mod testing;
mod view;

use super::live::{SourceArgs, lease};
use super::{Answer, now_unix_us, output};
use anyhow::{anyhow, bail};
use axum::http::Uri;
use berth_cluster::client;
use model::Model;
use pane::Filters;
use read::{Direct, Places, Reader};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use view::Colours;

/// Longest wait of `--once` for pods and nodes.
const WITHIN: Duration = Duration::from_mins(2);

/// Between two looks of `--once`: a text of metrics is up to a second old, and a rate needs two of them.
const BETWEEN: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Follow the kubeconfig's cluster; ? lists the keys.
  berth top

  # The same as text, for a ticket.
  berth top --once

  # With the operator's metrics, where its /metrics asks for a token, as the chart has it.
  kubectl -n berth-system port-forward POD 8080 &
  kubectl -n monitoring create token prometheus > token
  berth top --metrics-url http://127.0.0.1:8080 --metrics-token token

Without metrics, queues are as profiles' statuses say, and rates are what the watches see.")]
pub(super) struct Args {
    /// The kubeconfig to use. Without it: KUBECONFIG, ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use instead of the current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// The namespace of the operator's pods. Without it: that of the installation which holds the Lease.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// The namespace of the operator's Lease, as the operator was told.
    #[arg(long, value_name = "NAME", env = "BERTH_LEASE_NAMESPACE", default_value = lease::NAMESPACE)]
    lease_namespace: String,

    /// Where the leader's metrics are, instead of behind the API server's proxy: a port that is forwarded, say.
    #[arg(long, value_name = "URL")]
    metrics_url: Option<Uri>,

    /// A file with the bearer token for --metrics-url; it is sent over https, or to this machine.
    #[arg(long, value_name = "FILE", requires = "metrics_url")]
    metrics_token: Option<PathBuf>,

    /// Print what there is to see, and end; so does any output that is no terminal.
    #[arg(long)]
    once: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    let runtime = super::event_loop("the connection")?;
    let ended = if args.once || !io::stdout().is_terminal() {
        let model = runtime.block_on(async { once(connect(args).await?).await });
        model.and_then(|model| Ok(output::print(|out| once::write(out, &model))?))
    } else {
        let source = SourceArgs::of_cluster(args.kubeconfig.clone(), args.context.clone());
        let colours = Colours(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()));
        runtime.block_on(async { screen::run(connect(args).await?, source, colours).await })
    };
    // Do not wait for name lookups.
    runtime.shutdown_background();
    ended.map(|()| Answer::Done)
}

/// Begins to read the cluster that `args` name.
async fn connect(args: &Args) -> anyhow::Result<Reader> {
    let config = client::configure_for(args.kubeconfig.as_deref(), args.context.as_deref());
    // The errors' texts include their sources.
    let config = config.await.map_err(|error| anyhow!("{error}"))?;
    let (client, server) = client::reader(config).await.map_err(|error| anyhow!("{error}"))?;
    let direct = args.metrics_url.as_ref().map(|url| Direct::new(url, args.metrics_token.as_deref())).transpose()?;
    let places = Places { home: args.namespace.clone(), lease_namespace: args.lease_namespace.clone() };
    Ok(Reader::new(client, server, places, direct))
}

/// Looks until pods and nodes are read, and twice at what is counted.
async fn once(mut reader: Reader) -> anyhow::Result<Model> {
    let (shared, end) = (reader.shared(), Instant::now() + WITHIN);
    reader.look().await;
    loop {
        sleep(BETWEEN).await;
        reader.look().await;
        let facts = read::facts(&shared);
        let missing = [("pods", facts.pods.is_whole), ("nodes", facts.nodes.is_whole)];
        let Some((what, _)) = missing.into_iter().find(|(_, is_whole)| !is_whole) else {
            return Ok(Model::of(&facts, &Filters::default(), now_unix_us()));
        };
        if let Some(why) = facts.troubles.get(what) {
            bail!("{what} not read: {why}");
        }
        if Instant::now() > end {
            bail!("the API server has not given all {what} within {} s", WITHIN.as_secs());
        }
    }
}
