use std::path::PathBuf;

/// Where a command's inputs come from: files, or a live cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct SourceArgs {
    /// Manifests instead of a live cluster: a file, a folder (read recursively), or `-` for standard input; may be given
    /// several times.
    ///
    /// What `kubectl get nodes,pods,namespaces,sprof -A -o yaml` prints, or manifests written by hand: nodes, pods,
    /// namespaces, SchedulerProfiles and a KubeSchedulerConfiguration count, other kinds are skipped. A pod with
    /// spec.nodeName is running, one without is pending. Without any, the cluster of the kubeconfig is read.
    #[arg(short, long = "filename", value_name = "PATH")]
    pub(super) filename: Vec<PathBuf>,

    /// A file with SchedulerProfiles or a KubeSchedulerConfiguration; those of the cluster are then left aside.
    ///
    /// Without any profile the Default preset serves every pod, whatever scheduler name it has.
    #[arg(long, value_name = "FILE")]
    pub(super) profile: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) live: LiveArgs,
}

/// Which cluster, and whose pods; the flags are kubectl's.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Live cluster (the flags are kubectl's)")]
pub(crate) struct LiveArgs {
    /// The kubeconfig to use. Without it: KUBECONFIG, ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE", conflicts_with = "filename")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use instead of the current one.
    #[arg(long, value_name = "NAME", conflicts_with = "filename")]
    pub(super) context: Option<String>,

    /// Whose pods are asked about. Without it: the context's namespace; with files all of them.
    #[arg(short, long, value_name = "NAME")]
    pub(super) namespace: Option<String>,

    /// Ask about the pods of all namespaces, whatever --namespace says.
    #[arg(short = 'A', long)]
    pub(super) all_namespaces: bool,
}
