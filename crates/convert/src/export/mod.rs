//! Writes profiles as a KubeSchedulerConfiguration v1: for kube-scheduler itself, for a cluster-autoscaler's
//! predictions, and for moving back.

mod args;
mod extenders;
mod plugins;

use crate::import::{API_VERSION, KIND, Loss, LossKind};
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
    fn add(&mut self, profile: &str, kind: LossKind, field: impl Into<String>, what: impl Into<String>) {
        self.0.push((profile.to_owned(), Loss { kind, field: field.into(), what: what.into() }));
    }

    fn lost(&mut self, profile: &str, field: impl Into<String>, what: impl Into<String>) {
        self.add(profile, LossKind::Lost, field, what);
    }

    fn changed(&mut self, profile: &str, field: impl Into<String>, what: impl Into<String>) {
        self.add(profile, LossKind::Changed, field, what);
    }
}

/// Writes `profiles` as one configuration with a profile for each scheduler name; of two profiles that serve one name the
/// first counts. Fails where a profile does not compile.
pub fn export(profiles: &[Profile<'_>]) -> Result<Export, (String, CompileError)> {
    let mut subjects = Vec::new();
    for Profile { name, spec } in profiles {
        let compiled = berth_profile::compile(name, spec).map_err(|error| ((*name).to_owned(), error))?;
        subjects.push(Subject { name, spec, compiled });
    }
    let mut losses = Losses::default();
    let mut configuration = json!({"apiVersion": API_VERSION, "kind": KIND});
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
                losses.lost(subject.name, "spec.schedulerNames", what);
                continue;
            }
            served.push(name);
            let text = format!("from SchedulerProfile {}", subject.name);
            comments.push((format!("profiles[{}]", written.len()), text));
            written.push(profile(name, subject, &plugins, &config));
        }
    }
    configuration["profiles"] = written.into();
    extenders::write(&subjects, &mut configuration, &mut comments, &mut losses);
    Ok(Export { configuration, losses: losses.0, comments })
}

fn profile(scheduler_name: &str, subject: &Subject<'_>, plugins: &Map<String, Value>, config: &[Value]) -> Value {
    let mut profile = json!({"schedulerName": scheduler_name});
    let percentage = subject.compiled.sampling.percentage;
    if percentage != 0 {
        profile["percentageOfNodesToScore"] = percentage.into();
    }
    if !plugins.is_empty() {
        profile["plugins"] = plugins.clone().into();
    }
    if !config.is_empty() {
        profile["pluginConfig"] = config.into();
    }
    profile
}

/// A duration in seconds, rounded up.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() != 0)
}

/// Writes backoff, which kube-scheduler has once for the process; where profiles differ the first profile's counts.
fn write_process(subjects: &[Subject<'_>], configuration: &mut Value, losses: &mut Losses) {
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
            configuration[name] = seconds.into();
        }
        let path = format!("spec.queue.{field}");
        if value.get().subsec_nanos() != 0 {
            let what = format!("kube-scheduler counts whole seconds: {value} becomes {seconds}s");
            losses.changed(first.name, &path, what);
        }
        for other in subjects.iter().filter(|other| read(&other.spec.queue) != value) {
            let own = read(&other.spec.queue);
            let what =
                format!("{own} becomes {seconds}s, that of {}: kube-scheduler has one for all profiles", first.name);
            losses.lost(other.name, &path, what);
        }
    }
    for subject in subjects {
        let wait = subject.spec.queue.max_unschedulable_duration;
        if wait != default.max_unschedulable_duration {
            let what = format!(
                "no configuration holds it: start kube-scheduler with \
                 --pod-max-in-unschedulable-pods-duration={wait}, which is deprecated"
            );
            losses.lost(subject.name, "spec.queue.maxUnschedulableDuration", what);
        }
    }
}

/// Settings that kube-scheduler has nothing like: pointers into the spec, and what it does instead.
const WITHOUT_COUNTERPART: [(&str, &str); 11] = [
    ("/mode", "kube-scheduler schedules: it can neither be paused nor compare only"),
    ("/shadow", "kube-scheduler compares with no other scheduler"),
    ("/unknownFields", "kube-scheduler does not look for fields that it does not know"),
    ("/namespaces", "kube-scheduler serves pods of every namespace"),
    ("/nodes/minFeasible", "kube-scheduler always looks for 100 feasible nodes at least"),
    ("/preemption/podDisruptionBudgets", "kube-scheduler violates budgets where nothing else helps"),
    ("/preemption/victimScope", "any pod of lower priority may be a victim"),
    ("/preemption/maxVictimsPerPod", "kube-scheduler evicts as many as it takes"),
    ("/preemption/maxVictimsPerMinute", "kube-scheduler evicts as often as it takes"),
    ("/preemption/minVictimRuntime", "kube-scheduler evicts pods however young"),
    ("/preemption/protectedNamespaces", "kube-scheduler evicts pods of every namespace"),
];

/// Reports the settings of [`WITHOUT_COUNTERPART`] that are not the default.
fn without_counterpart(subject: &Subject<'_>, losses: &mut Losses) {
    let (spec, default) = (json!(subject.spec), json!(SchedulerProfileSpec::default()));
    let never_evicts = subject.spec.preemption.policy == api::PreemptionPolicy::Never;
    for (field, what) in WITHOUT_COUNTERPART {
        let has_effect = !(never_evicts && field.starts_with("/preemption/"));
        if has_effect && spec.pointer(field) != default.pointer(field) {
            losses.lost(subject.name, format!("spec{}", field.replace('/', ".")), what);
        }
    }
}

/// `{name, weight}`, as in plugin sets and arguments.
fn weighed(name: &str, weight: i64) -> Value {
    json!({"name": name, "weight": weight})
}

#[cfg(test)]
mod export_tests;
