//! A live cluster read into the inputs that `-f` gives, so that what works on files works on it.
//!
//! Kinds are read in the whole cluster, because pods and policies of every namespace affect placement; the namespace only
//! chooses which pods are reported. Each kind is read page by page, in parallel with the others, and decoded as it arrives,
//! so that memory holds the engine's form of the objects only.

mod kinds;
pub(super) mod lease;
mod written;

use super::inputs::{self, Calls, InputArgs, InputError, Inputs, Pair, Wanted};
use anyhow::anyhow;
use berth_api::{
    self as api,
    conditions::{Ready, Reconciling},
};
use berth_cluster::client;
use berth_convert::shell_word;
use berth_core::profile::CompiledProfile;
use berth_simulate::Cluster;
use kube::{Client, api::ListParams, core::Request};
use serde_json::Value;
use std::{path::PathBuf, sync::Arc};

/// Where a command's inputs come from: files, or a live cluster.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SourceArgs {
    /// Manifests instead of a live cluster: a file, a folder (read recursively), or `-` for standard input; may be given
    /// several times.
    ///
    /// What `kubectl get … -A -o yaml` prints, or manifests written by hand: every kind that the operator reads (nodes,
    /// pods, namespaces, Services and controllers, PodDisruptionBudgets, volumes, claims, storage objects, DeviceClasses,
    /// ResourceSlices, ResourceClaims), SchedulerProfiles, a KubeSchedulerConfiguration and a Policy; other kinds are
    /// skipped, and a note counts them. A pod with spec.nodeName is running, one without is pending. Without any, the
    /// cluster of the kubeconfig is read.
    #[arg(short, long = "filename", value_name = "PATH")]
    filename: Vec<PathBuf>,

    /// A file with SchedulerProfiles, a KubeSchedulerConfiguration or a Policy; those of the cluster are then left aside.
    ///
    /// Without any profile the Default preset serves every pod, whatever scheduler name it has.
    #[arg(long, value_name = "FILE")]
    profile: Vec<PathBuf>,

    #[command(flatten)]
    live: LiveArgs,

    /// Whether bound pods are read as wholly as those that wait, so that they can be placed anew.
    #[arg(skip)]
    whole_pods: bool,
}

impl SourceArgs {
    /// The cluster of a kubeconfig, and the pods of all its namespaces.
    pub(crate) fn of_cluster(kubeconfig: Option<PathBuf>, context: Option<String>) -> Self {
        Self::of(&ClusterArgs { kubeconfig, context }, Vec::new(), Vec::new())
    }

    /// These manifests, or without any the cluster, and the pods of all namespaces.
    pub(crate) fn of(cluster: &ClusterArgs, filename: Vec<PathBuf>, profile: Vec<PathBuf>) -> Self {
        let live = LiveArgs { cluster: cluster.clone(), namespace: None, all_namespaces: true };
        Self { filename, profile, live, whole_pods: false }
    }

    /// The same, with bound pods read as wholly as those that wait.
    #[must_use]
    pub(crate) fn with_whole_pods(self) -> Self {
        Self { whole_pods: true, ..self }
    }

    /// The files, as they are read.
    fn files(&self) -> InputArgs {
        InputArgs { filename: self.filename.clone(), profile: self.profile.clone(), whole_pods: self.whole_pods }
    }

    /// The files that hold the profile, if one was given.
    pub(crate) fn profile(&self) -> &[PathBuf] {
        &self.profile
    }
}

/// Which cluster; the flags are kubectl's. They stand beside an argument `filename`, for manifests instead of a cluster.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Live cluster (the flags are kubectl's)")]
pub(crate) struct ClusterArgs {
    /// The kubeconfig to use. Without it: KUBECONFIG, ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE", conflicts_with = "filename")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use instead of the current one.
    #[arg(long, value_name = "NAME", conflicts_with = "filename")]
    context: Option<String>,
}

/// Which cluster, and whose pods; the flags are kubectl's.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Live cluster (the flags are kubectl's)")]
struct LiveArgs {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// Whose pods are asked about. Without it: the context's namespace; with files all of them.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Ask about the pods of all namespaces, whatever --namespace says.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
}

impl ClusterArgs {
    /// The flags as they were given, for a command to be typed: words that a shell takes as they are.
    pub(crate) fn words(&self) -> Vec<String> {
        let file = self.kubeconfig.as_ref().map(|file| format!("--kubeconfig {}", shell_word(&file.to_string_lossy())));
        let context = self.context.as_ref().map(|name| format!("--context {}", shell_word(name)));
        file.into_iter().chain(context).collect()
    }

    /// How the cluster is reached.
    async fn configure(&self) -> anyhow::Result<kube::Config> {
        let config = client::configure_for(self.kubeconfig.as_deref(), self.context.as_deref());
        // The errors' texts include their sources.
        config.await.map_err(|error| anyhow!("{error}"))
    }
}

/// Inputs, and whose pods are asked about.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) inputs: Inputs,
    /// The namespace whose pods are meant; none means all.
    pub(crate) namespace: Option<String>,
    /// The API server that was read; none where files were.
    pub(crate) server: Option<String>,
}

/// Reads the files that `args` name, or the live cluster where they name none.
pub(crate) fn load(args: &SourceArgs) -> anyhow::Result<Loaded> {
    if !args.filename.is_empty() {
        let namespace = args.live.namespace.clone().filter(|_| !args.live.all_namespaces);
        return Ok(Loaded { inputs: inputs::load(&args.files(), Calls::default())?, namespace, server: None });
    }
    super::event_loop("the connection")?.block_on(read(args))
}

/// As [`load`], with the objects as they are written that `wanted` chooses in the namespace that is asked about.
pub(crate) fn load_keeping(
    args: &SourceArgs,
    wanted: impl FnOnce(&str) -> Wanted,
) -> anyhow::Result<(Loaded, Vec<Value>)> {
    if !args.filename.is_empty() {
        let namespace = args.live.namespace.clone();
        let wanted = wanted(namespace.as_deref().unwrap_or("default"));
        let (inputs, written) = inputs::load_keeping(&args.files(), Calls::default(), &wanted)?;
        return Ok((Loaded { inputs, namespace, server: None }, written));
    }
    let loaded = load(args)?;
    let wanted = wanted(loaded.namespace.as_deref().unwrap_or("default"));
    Ok((loaded, written::read(args, &wanted)?))
}

/// The live cluster that `args` name, with the two profiles of `args`.
pub(crate) fn load_pair(args: &SourceArgs) -> anyhow::Result<Pair> {
    let [first, second] = args.profile() else { return Err(InputError::NotTwo { given: args.profile.len() }.into()) };
    let Loaded { inputs, .. } = load(&SourceArgs { profile: vec![first.clone()], ..args.clone() })?;
    let Inputs { cluster, profiles, mut notes, .. } = inputs;
    let other = inputs::profiles_of(std::slice::from_ref(second), &cluster, &mut notes)?;
    let (names, profiles) = inputs::as_pair([profiles, other], [first, second]);
    Ok(Pair { cluster, names, profiles, notes, calls: Default::default() })
}

/// The note about objects that may not be listed.
fn forbidden(resource: &str) -> String {
    format!("{resource} may not be listed by this account: answered as if there were none; grant list on {resource}")
}

async fn read(args: &SourceArgs) -> anyhow::Result<Loaded> {
    let live = &args.live;
    let config = live.cluster.configure().await?;
    let namespace = live.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let (client, server) = client::reader(config).await.map_err(|error| anyhow!("{error}"))?;
    let mut notes = Vec::new();
    let cluster = kinds::read(&client, args.whole_pods, &mut notes).await?;
    let (profiles, stand_in) = if args.profile.is_empty() {
        read_profiles(&client, &server, &cluster, &mut notes).await?
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

/// The profiles that serve the pods of `cluster`, and whether there is none, so that the Default preset answers for every pod.
async fn read_profiles(
    client: &Client,
    server: &str,
    cluster: &Cluster,
    notes: &mut Vec<String>,
) -> anyhow::Result<(Vec<Arc<CompiledProfile>>, bool)> {
    let objects = match list_profiles(client).await {
        Ok(objects) => objects,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            notes.push(forbidden(api::CRD_NAME));
            Vec::new()
        }
        Err(error) => return Err(anyhow!("{}: {}", api::CRD_NAME, client::root_cause(&error))),
    };
    if objects.is_empty() {
        notes.push(
            "no SchedulerProfile in the cluster: the Default preset, which is kube-scheduler as it comes, answers for \
             every pod (--profile FILE takes another)"
                .to_owned(),
        );
    } else {
        notes.extend(objects.iter().filter_map(not_ready));
        notes.extend(lease::note(client).await);
    }
    Ok(inputs::live_profiles(objects, server, cluster, notes)?)
}

/// A note on a profile whose own condition says that it does not serve as written: its pods may wait for that alone.
fn not_ready(profile: &Value) -> Option<String> {
    let conditions = profile["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
    let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
    let name = profile["metadata"]["name"].as_str().unwrap_or_default();
    // Ready is True while a profile is paused, and still none of its pods is placed.
    if ready["reason"] == Ready::Paused.as_str() {
        return Some(format!("SchedulerProfile {name} is paused: {}", text("message")));
    }
    if ready["reason"] == Ready::DryRun.as_str() {
        return Some(format!("SchedulerProfile {name} places no pod: {}", text("message")));
    }
    if ready["status"] != "True" {
        return Some(format!("SchedulerProfile {name} is not Ready ({}): {}", text("reason"), text("message")));
    }
    // Which of both specs decides for a pod is drawn by its uid or namespace.
    let reconciling = conditions.iter().find(|condition| condition["type"] == "Reconciling")?;
    (reconciling["reason"] == Reconciling::RollingOut.as_str())
        .then(|| format!("SchedulerProfile {name} is being rolled out: {}; this judges by the newest", text("message")))
}

/// All profiles as the API server has them, read in pages.
pub(super) async fn list_profiles(client: &Client) -> kube::Result<Vec<Value>> {
    let path = format!("/apis/{}/{}/schedulerprofiles", api::GROUP, api::VERSION);
    let mut objects = Vec::new();
    let mut token = None;
    loop {
        let params = ListParams { limit: Some(500), continue_token: token, ..ListParams::default() };
        let request = Request::new(&path).list(&params).map_err(kube::Error::BuildRequest)?;
        let mut page: Value = client.request(request).await?;
        if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
            objects.extend(items);
        }
        token = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            return Ok(objects);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_profile_that_does_not_serve_is_said() {
        let said = |conditions: Value| {
            not_ready(&json!({"metadata": {"name": "batch"}, "status": {"conditions": conditions}}))
        };
        let ready = |status: &str, reason: &str| {
            json!([{"type": "Accepted", "status": "True"},
            {"type": "Ready", "status": status, "reason": reason, "message": "why"}])
        };
        assert_eq!(said(ready("True", "Serving")), None);
        assert_eq!(said(ready("False", "Deleting")).unwrap(), "SchedulerProfile batch is not Ready (Deleting): why");
        assert_eq!(said(ready("True", "Paused")).unwrap(), "SchedulerProfile batch is paused: why");
        assert_eq!(said(ready("True", "DryRun")).unwrap(), "SchedulerProfile batch places no pod: why");
        let running = json!([{"type": "Ready", "status": "True", "reason": "Serving", "message": "serving both"},
            {"type": "Reconciling", "status": "True", "reason": "RollingOut"}]);
        let text = "SchedulerProfile batch is being rolled out: serving both; this judges by the newest";
        assert_eq!(said(running).as_deref(), Some(text));
        assert_eq!((said(json!([])), not_ready(&json!({"metadata": {"name": "batch"}}))), (None, None));
    }
}
