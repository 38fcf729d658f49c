//! A live cluster read into the inputs that `-f` gives, so that what works on files works on it.
//!
//! ```text
//!  args      which cluster and which namespace, as kubectl has it
//!  kinds     what is read, and what it becomes
//!  profiles  the cluster's SchedulerProfiles
//! ```
//!
//! Everything that takes room or has a say counts, wherever it is: kinds are read in the whole cluster, and the namespace
//! only chooses which pods are answered for. Each kind is read page by page, side by side with the others, and decoded as
//! it arrives: what is held is the engine's own form of the objects, as the operator holds it.

mod args;
mod kinds;
mod profiles;

pub(crate) use args::SourceArgs;

use super::inputs::{self, Calls, InputArgs, Inputs};
use anyhow::Context;
use berth_cluster::client;

/// Inputs, and whose pods are asked about.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The cluster and its profiles.
    pub(crate) inputs: Inputs,
    /// The namespace whose pods are meant; none means all.
    pub(crate) namespace: Option<String>,
    /// The API server that was read; none where files were.
    pub(crate) server: Option<String>,
}

impl Loaded {
    /// The namespace of a pod that is named without one.
    pub(crate) fn default_namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }
}

/// Reads the files that `args` name, or the live cluster where they name none.
pub(crate) fn load(args: &SourceArgs) -> anyhow::Result<Loaded> {
    if !args.filename.is_empty() {
        let files = InputArgs { filename: args.filename.clone(), profile: args.profile.clone() };
        let namespace = args.live.namespace.clone().filter(|_| !args.live.all_namespaces);
        return Ok(Loaded { inputs: inputs::load(&files, Calls::default())?, namespace, server: None });
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no event loop for the connection: raise the process's limit of open files")?;
    runtime.block_on(read(args))
}

async fn read(args: &SourceArgs) -> anyhow::Result<Loaded> {
    let live = &args.live;
    let config = client::configure_for(live.kubeconfig.as_deref(), live.context.as_deref());
    // Their texts say it all, sources included.
    let config = config.await.map_err(|error| anyhow::anyhow!("{error}"))?;
    let namespace = live.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let (client, server) = client::reader(config).await.map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut notes = Vec::new();
    let cluster = kinds::read(&client, &mut notes).await?;
    let (profiles, stand_in) = if args.profile.is_empty() {
        profiles::read(&client, &server, &cluster, &mut notes).await?
    } else {
        (inputs::profiles_of(&args.profile, &cluster, &mut notes)?, false)
    };
    let namespace = (!live.all_namespaces).then_some(namespace);
    Ok(Loaded {
        inputs: Inputs { cluster, profiles, stand_in, notes, calls: Calls::default() },
        namespace,
        server: Some(server),
    })
}
