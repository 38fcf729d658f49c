//! KubeSchedulerConfiguration v1alpha1 of kube-scheduler 1.10 to 1.18: one scheduler, configured by a Policy or a provider.

use super::configuration::{backoff, percentage, process};
use super::loss::{Loss, Origins};
use super::node::{Fields, ImportError, Node};
use super::{Import, ImportedProfile, policy};
use berth_api::{self as api, Preset, SchedulerProfileSpec, ScoringStrategy, ScoringStrategyType};
use berth_profile::compile;
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
    let mut losses = Vec::new();
    settings_of_process(&fields, &mut losses);
    let name = match fields.get("schedulerName") {
        Some(name) if !name.text()?.is_empty() => name.text()?,
        _ => scheduler_name,
    };
    let mut origins = Origins::default();
    let spec = spec(&fields, name, &mut origins, &mut losses)?;
    let source = fields.get("algorithmSource").map(|source| source.fields(&["policy", "provider"])).transpose()?;
    let provider = source.as_ref().and_then(|source| source.get("provider"));
    let policy = source.as_ref().and_then(|source| source.get("policy"));
    let mut import = match (policy, provider) {
        (Some(policy), None) => {
            // The group's name until 1.11.
            let any_selector = fields.get("apiVersion").is_some_and(|v| v.text() == Ok("componentconfig/v1alpha1"));
            from_policy(&policy, name, spec, origins, any_selector, sources)?
        }
        (Some(_), Some(provider)) => {
            return Err(provider.bad("stands beside a policy", "keep one of policy and provider"));
        }
        (None, provider) => from_provider(provider.as_ref(), name, spec, origins)?,
    };
    losses.append(&mut import.losses);
    Ok(Import { losses, ..import })
}

fn settings_of_process(fields: &Fields<'_>, losses: &mut Vec<Loss>) {
    process(fields, losses);
    for (name, why) in PROCESS {
        if fields.get(name).is_some() {
            losses.push(Loss::note(name, format!("without effect: {why}")));
        }
    }
    for name in ["plugins", "pluginConfig"] {
        if let Some(node) = fields.get(name) {
            let what = "plugins of v1alpha1 are not read: write them as a KubeSchedulerConfiguration v1";
            losses.push(Loss::lost(node.path(), what));
        }
    }
}

fn spec(
    fields: &Fields<'_>,
    scheduler_name: &str,
    origins: &mut Origins,
    losses: &mut Vec<Loss>,
) -> Result<SchedulerProfileSpec, ImportError> {
    let mut spec = SchedulerProfileSpec {
        scheduler_names: vec![scheduler_name.to_owned()],
        queue: backoff(fields, losses)?,
        ..SchedulerProfileSpec::default()
    };
    spec.nodes.percentage_to_score = percentage(fields)?.unwrap_or(0);
    origins.add_silently("spec.schedulerNames[0]", "schedulerName");
    origins.add_silently("metadata.name", "schedulerName");
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
            policy::set_hard_weight(&mut spec, value);
            origins.add("spec.pluginArgs.interPodAffinity", weight.path());
        }
    }
    Ok(spec)
}

fn from_policy(
    policy: &Node<'_>,
    scheduler_name: &str,
    spec: SchedulerProfileSpec,
    origins: Origins,
    any_selector: bool,
    sources: &dyn PolicySources,
) -> Result<Import, ImportError> {
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
        _ => return Err(policy.bad("says not where the Policy is", "give either file or configMap")),
    };
    let found = found.map_err(|problem| {
        let (message, fix) = problem.split_once(": ").unwrap_or((&problem, "add it to the inputs"));
        node.bad(message, fix)
    })?;
    let within = |field: &str| format!("{}: {field}", found.place);
    let mut import = policy::read_into(&found.document, scheduler_name, spec, origins, any_selector)
        .map_err(|error| ImportError { field: within(&error.field), ..error })?;
    for loss in &mut import.losses {
        loss.field = within(&loss.field);
    }
    Ok(import)
}

fn from_provider(
    provider: Option<&Node<'_>>,
    scheduler_name: &str,
    mut spec: SchedulerProfileSpec,
    mut origins: Origins,
) -> Result<Import, ImportError> {
    let providers = [("DefaultProvider", false), ("ClusterAutoscalerProvider", true)];
    if let Some(node) = provider
        && node.choice(&providers)?
    {
        // It differed from the default in the one score.
        let fit = spec.plugin_args.node_resources_fit.get_or_insert_default();
        fit.strategy = Some(ScoringStrategy {
            kind: ScoringStrategyType::MostAllocated,
            resources: Vec::new(),
            shape: Vec::new(),
        });
        origins.add("spec.pluginArgs.nodeResourcesFit", format!("{} ClusterAutoscalerProvider", node.path()));
    }
    spec.preset = Preset::Default;
    let compiled =
        compile(scheduler_name, &spec).map_err(|e| ImportError::new(origins.find(&e.field), e.message, e.fix))?;
    let comments = origins.into_comments();
    let profile = ImportedProfile { scheduler_name: scheduler_name.to_owned(), spec, compiled, comments };
    Ok(Import { profiles: vec![profile], losses: Vec::new(), manifests: Vec::new() })
}
