//! Writes profiles as a KubeSchedulerConfiguration v1: for kube-scheduler itself, for a cluster-autoscaler's
//! predictions, and for moving back.
//!
//! - `plugins`: plugin sets, against those of kube-scheduler's default profile
//! - `args`, `affinity`: arguments of plugins
//! - `extenders`: extenders, which kube-scheduler asks for the pods of every profile

mod affinity;
mod args;
mod extenders;
mod plugins;

use crate::import::{API_VERSION, KIND, Loss};
use berth_api::{self as api, SchedulerProfileSpec};
use berth_core::profile::CompiledProfile;
use berth_profile::CompileError;
use serde_json::{Map, Value, json};
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct Profile<'a> {
    pub name: &'a str,
    pub spec: &'a SchedulerProfileSpec,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Export {
    pub configuration: Value,
    /// The settings that have no counterpart there, each with the name of its profile.
    pub losses: Vec<(String, Loss)>,
    /// The path of a field in the configuration, and a sentence about it.
    pub comments: Vec<(String, String)>,
}

/// A profile and what it compiles to.
struct Subject<'a> {
    name: &'a str,
    spec: &'a SchedulerProfileSpec,
    compiled: CompiledProfile,
}

/// The losses, each with the name of its profile.
#[derive(Default)]
struct Losses(Vec<(String, Loss)>);

impl Losses {
    fn add(&mut self, profile: &str, loss: Loss) {
        self.0.push((profile.to_owned(), loss));
    }
}

/// Writes `profiles` as one configuration with a profile for each scheduler name; of two profiles that serve one name the
/// first counts. Fails where a profile does not compile.
pub fn export(profiles: &[Profile<'_>]) -> Result<Export, (String, CompileError)> {
    let compiled = |profile: &Profile<'_>| berth_profile::compile(profile.name, profile.spec);
    let mut subjects = Vec::new();
    for profile in profiles {
        let compiled = compiled(profile).map_err(|error| (profile.name.to_owned(), error))?;
        subjects.push(Subject { name: profile.name, spec: profile.spec, compiled });
    }
    let mut losses = Losses::default();
    let mut configuration = Map::new();
    configuration.insert("apiVersion".to_owned(), API_VERSION.into());
    configuration.insert("kind".to_owned(), KIND.into());
    write_process(&subjects, &mut configuration, &mut losses);
    let (mut written, mut comments): (Vec<Value>, Vec<(String, String)>) = (Vec::new(), Vec::new());
    let mut served: Vec<&str> = Vec::new();
    for subject in &subjects {
        without_counterpart(subject, &mut losses);
        let plugins = plugins::sets(subject, &mut losses);
        let config = args::plugin_config(subject, &mut losses);
        for name in &subject.compiled.scheduler_names {
            if served.contains(&&**name) {
                let what = format!("{name} is served by another profile already: it is written once");
                losses.add(subject.name, Loss::lost("spec.schedulerNames", what));
                continue;
            }
            served.push(name);
            let text = format!("from SchedulerProfile {}", subject.name);
            comments.push((format!("profiles[{}]", written.len()), text));
            written.push(profile(name, subject, &plugins, &config));
        }
    }
    configuration.insert("profiles".to_owned(), written.into());
    extenders::write(&subjects, &mut configuration, &mut comments, &mut losses);
    Ok(Export { configuration: configuration.into(), losses: losses.0, comments })
}

fn profile(scheduler_name: &str, subject: &Subject<'_>, plugins: &Map<String, Value>, config: &[Value]) -> Value {
    let mut profile = Map::new();
    profile.insert("schedulerName".to_owned(), scheduler_name.into());
    let percentage = subject.compiled.sampling.percentage;
    if percentage != 0 {
        profile.insert("percentageOfNodesToScore".to_owned(), percentage.into());
    }
    if !plugins.is_empty() {
        profile.insert("plugins".to_owned(), plugins.clone().into());
    }
    if !config.is_empty() {
        profile.insert("pluginConfig".to_owned(), config.to_vec().into());
    }
    profile.into()
}

/// A duration in seconds, rounded up.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() != 0)
}

/// Writes backoff, which kube-scheduler has once for the process; where profiles differ the first profile's counts.
fn write_process(subjects: &[Subject<'_>], configuration: &mut Map<String, Value>, losses: &mut Losses) {
    type Read = fn(&api::Queue) -> api::Duration;
    let Some(first) = subjects.first() else { return };
    let default = api::Queue::default();
    let settings: [(&str, &str, Read); 2] = [
        ("initialBackoff", "podInitialBackoffSeconds", |queue| queue.initial_backoff),
        ("maxBackoff", "podMaxBackoffSeconds", |queue| queue.max_backoff),
    ];
    for (field, name, read) in settings {
        let value = read(&first.spec.queue);
        let seconds = whole_seconds(value.get());
        if value != read(&default) {
            configuration.insert(name.to_owned(), seconds.into());
        }
        let path = format!("spec.queue.{field}");
        if value.get().subsec_nanos() != 0 {
            let what = format!("kube-scheduler counts whole seconds: {value} becomes {seconds}s");
            losses.add(first.name, Loss::changed(&path, what));
        }
        for other in subjects.iter().filter(|other| read(&other.spec.queue) != value) {
            let own = read(&other.spec.queue);
            let what =
                format!("{own} becomes {seconds}s, that of {}: kube-scheduler has one for all profiles", first.name);
            losses.add(other.name, Loss::lost(&path, what));
        }
    }
    for subject in subjects {
        let wait = subject.spec.queue.max_unschedulable_duration;
        if wait != default.max_unschedulable_duration {
            let what = format!(
                "no configuration holds it: start kube-scheduler with \
                 --pod-max-in-unschedulable-pods-duration={wait}, which is deprecated"
            );
            losses.add(subject.name, Loss::lost("spec.queue.maxUnschedulableDuration", what));
        }
    }
}

/// Reports settings that kube-scheduler has nothing like.
fn without_counterpart(subject: &Subject<'_>, losses: &mut Losses) {
    let spec = subject.spec;
    let mut lose = |field: &str, what: &str| losses.add(subject.name, Loss::lost(field, what));
    if spec.mode != api::Mode::Active {
        lose("spec.mode", "kube-scheduler cannot be paused: it schedules");
    }
    if spec.unknown_fields != api::UnknownFields::Warn {
        lose("spec.unknownFields", "kube-scheduler does not look for fields that it does not know");
    }
    if spec.namespaces != api::Namespaces::default() {
        lose("spec.namespaces", "kube-scheduler serves pods of every namespace");
    }
    if spec.nodes.min_feasible != api::Nodes::default().min_feasible {
        lose("spec.nodes.minFeasible", "kube-scheduler always looks for 100 feasible nodes at least");
    }
    preemption(&spec.preemption, &mut lose);
}

fn preemption(preemption: &api::Preemption, lose: &mut impl FnMut(&str, &str)) {
    let default = api::Preemption::default();
    let rows = [
        (
            preemption.pod_disruption_budgets != default.pod_disruption_budgets,
            "podDisruptionBudgets",
            "kube-scheduler violates budgets where nothing else helps",
        ),
        (preemption.victim_scope != default.victim_scope, "victimScope", "any pod of lower priority may be a victim"),
        (
            preemption.max_victims_per_pod != default.max_victims_per_pod,
            "maxVictimsPerPod",
            "kube-scheduler evicts as many as it takes",
        ),
        (
            preemption.max_victims_per_minute != default.max_victims_per_minute,
            "maxVictimsPerMinute",
            "kube-scheduler evicts as often as it takes",
        ),
        (
            preemption.min_victim_runtime != default.min_victim_runtime,
            "minVictimRuntime",
            "kube-scheduler evicts pods however young",
        ),
        (
            preemption.protected_namespaces != default.protected_namespaces,
            "protectedNamespaces",
            "kube-scheduler evicts pods of every namespace",
        ),
    ];
    for (set, field, what) in rows {
        if set && preemption.policy != api::PreemptionPolicy::Never {
            lose(&format!("spec.preemption.{field}"), what);
        }
    }
}

/// `{name, weight}`, as in plugin sets and arguments.
fn weighed(name: &str, weight: i64) -> Value {
    json!({"name": name, "weight": weight})
}

#[cfg(test)]
mod export_tests;
