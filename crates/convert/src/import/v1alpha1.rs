//! KubeSchedulerConfiguration v1alpha1 of kube-scheduler 1.10 to 1.18: one scheduler, configured by a Policy or a provider.

use super::configuration::{backoff, percentage, process};
use super::loss::{Draft, Loss, Report};
use super::node::{Fields, ImportError, Node};
use super::{Import, policy};
use berth_api::{self as api, ScoringStrategy, ScoringStrategyType};
use serde_json::Value;

/// Finds the Policies that a configuration names. An error is a problem and its fix, with a colon between them.
pub trait PolicySources {
    /// The Policy in the file at `path`, as written in the configuration.
    fn file(&self, path: &str) -> Result<NamedPolicy, String>;

    /// The Policy in a ConfigMap, under [`POLICY_KEY`](super::POLICY_KEY).
    fn config_map(&self, namespace: &str, name: &str) -> Result<NamedPolicy, String>;
}

#[derive(Debug, Clone, PartialEq)]
pub struct NamedPolicy {
    /// Where it was found, as errors and losses name it.
    pub place: String,
    pub document: Value,
}

/// Settings of the process that later versions do not have, and why they have no effect.
const PROCESS: [(&str, &str); 3] = [
    ("healthzBindAddress", "the operator serves its own health endpoints"),
    ("metricsBindAddress", "the operator serves its own metrics"),
    ("failureDomains", "an affinity term without a topologyKey is refused by the API server"),
];

const KNOWN: [&str; 20] = [
    "apiVersion",
    "kind",
    "schedulerName",
    "algorithmSource",
    "hardPodAffinitySymmetricWeight",
    "leaderElection",
    "clientConnection",
    "healthzBindAddress",
    "metricsBindAddress",
    "enableProfiling",
    "enableContentionProfiling",
    "disablePreemption",
    "percentageOfNodesToScore",
    "failureDomains",
    "bindTimeoutSeconds",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "plugins",
    "pluginConfig",
    "metadata",
];

/// Reads a document; its profile serves `scheduler_name` where the document names none.
pub(super) fn read(
    document: &Node<'_>,
    scheduler_name: &str,
    sources: &dyn PolicySources,
) -> Result<Import, ImportError> {
    let fields = document.fields(&KNOWN)?;
    let name = match fields.get("schedulerName") {
        Some(name) if !name.text()?.is_empty() => name.text()?,
        _ => scheduler_name,
    };
    let mut draft = Draft::new(name, Some("schedulerName"));
    settings_of_process(&fields, &mut draft.report);
    settings(&fields, &mut draft)?;
    let source = fields.get("algorithmSource").map(|source| source.fields(&["policy", "provider"])).transpose()?;
    let provider = source.as_ref().and_then(|source| source.get("provider"));
    let policy = source.as_ref().and_then(|source| source.get("policy"));
    match (policy, provider) {
        (Some(policy), None) => {
            // The group's name until 1.11.
            draft.any_selector = fields.get("apiVersion").is_some_and(|v| v.text() == Ok("componentconfig/v1alpha1"));
            from_policy(&policy, draft, sources)
        }
        (Some(_), Some(provider)) => Err(provider.bad("stands beside a policy", "keep one of policy and provider")),
        (None, provider) => from_provider(provider.as_ref(), draft),
    }
}

fn settings_of_process(fields: &Fields<'_>, report: &mut Report) {
    process(fields, report);
    for (name, why) in PROCESS {
        if fields.get(name).is_some() {
            report.note(name, format!("without effect: {why}"));
        }
    }
    for name in ["plugins", "pluginConfig"] {
        if let Some(node) = fields.get(name) {
            let what = "plugins of v1alpha1 are not read: write them as a KubeSchedulerConfiguration v1";
            report.lost(node.path(), what);
        }
    }
}

fn settings(fields: &Fields<'_>, draft: &mut Draft) -> Result<(), ImportError> {
    let Draft { spec, origins, report, .. } = draft;
    spec.queue = backoff(fields, report)?;
    spec.nodes.percentage_to_score = percentage(fields)?.unwrap_or(0);
    if let Some(off) = fields.get("disablePreemption")
        && off.flag()?
    {
        spec.preemption.policy = api::PreemptionPolicy::Never;
        origins.add("spec.preemption.policy", off.path());
    }
    if let Some(timeout) = fields.get("bindTimeoutSeconds") {
        let seconds = u64::try_from(timeout.long()?).map_err(|_| timeout.bad("is negative", "write 0 or more"))?;
        let bind_timeout = api::Duration::from_secs(seconds);
        if bind_timeout != api::VolumeBindingArgs::default().bind_timeout {
            spec.plugin_args.volume_binding =
                Some(api::VolumeBindingArgs { bind_timeout, ..api::VolumeBindingArgs::default() });
            origins.add("spec.pluginArgs.volumeBinding.bindTimeout", timeout.path());
        }
    }
    if let Some(weight) = fields.get("hardPodAffinitySymmetricWeight") {
        let value = weight.int()?;
        if !(0..=100).contains(&value) {
            return Err(weight.bad(format!("{value} is out of range"), "write 0 to 100"));
        }
        if value != api::InterPodAffinityArgs::default().hard_pod_affinity_weight {
            policy::set_hard_weight(spec, value);
            origins.add("spec.pluginArgs.interPodAffinity", weight.path());
        }
    }
    Ok(())
}

fn from_policy(policy: &Node<'_>, mut draft: Draft, sources: &dyn PolicySources) -> Result<Import, ImportError> {
    let fields = policy.fields(&["file", "configMap"])?;
    let (node, found) = match (fields.get("file"), fields.get("configMap")) {
        (Some(file), None) => {
            let path = file.fields(&["path"])?.need("path", "name the file of the Policy")?;
            let found = sources.file(path.text()?);
            (path, found)
        }
        (None, Some(map)) => {
            let of = map.fields(&["namespace", "name"])?;
            let name = of.need("name", "name the ConfigMap of the Policy")?;
            let namespace = of.get("namespace").map_or(Ok("kube-system"), |namespace| namespace.text())?;
            let found = sources.config_map(namespace, name.text()?);
            (name, found)
        }
        _ => return Err(policy.bad("does not say where the Policy is", "give either file or configMap")),
    };
    let found = found.map_err(|problem| {
        let (message, fix) = problem.split_once(": ").unwrap_or((&problem, "add it to the inputs"));
        node.bad(message, fix)
    })?;
    let within = |field: &str| format!("{}: {field}", found.place);
    let mut losses = std::mem::take(&mut draft.report.losses);
    let mut import = policy::read_into(&found.document, draft)
        .map_err(|error| ImportError { field: within(&error.field), ..error })?;
    let of_policy = import.losses.drain(..);
    losses.extend(of_policy.map(|loss| Loss { field: within(&loss.field), ..loss }));
    Ok(Import { losses, ..import })
}

fn from_provider(provider: Option<&Node<'_>>, mut draft: Draft) -> Result<Import, ImportError> {
    if let Some(node) = provider
        && node.choice(&["DefaultProvider", "ClusterAutoscalerProvider"])? == "ClusterAutoscalerProvider"
    {
        // It differed from the default in the one score.
        let fit = draft.spec.plugin_args.node_resources_fit.get_or_insert_default();
        fit.strategy = Some(ScoringStrategy {
            scalar_weight: None,
            kind: ScoringStrategyType::MostAllocated,
            resources: Vec::new(),
            shape: Vec::new(),
        });
        draft.origins.add("spec.pluginArgs.nodeResourcesFit", format!("{} ClusterAutoscalerProvider", node.path()));
    }
    draft.finish_alone()
}
