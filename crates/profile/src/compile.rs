use super::names::{is_dns1123_subdomain, is_namespace_name};
use super::{CompileError, args, extenders, number, plugins, preemption, preset, rollout, route, selectors, sorted};
use berth_api as api;
use berth_core::model::Str;
use berth_core::profile::{CompiledProfile, Mode, NamespaceAccess, QueueTimes, Sampling, UnknownFields};
use std::time::Duration;

/// Resolves the spec of the profile `name` into what a worker runs, or says which field stands in the way.
///
/// Does not check names that other profiles claim, nor `default-scheduler`: those depend on the cluster and on the
/// operator's options.
pub fn compile(name: &str, spec: &api::SchedulerProfileSpec) -> Result<CompiledProfile, CompileError> {
    let mut profile = preset::base(spec.preset, name);
    profile.scheduler_names = scheduler_names(name, &spec.scheduler_names)?;
    profile.mode = match spec.mode {
        api::Mode::Active => Mode::Active,
        api::Mode::Paused => Mode::Paused,
        api::Mode::DryRun => Mode::DryRun,
    };
    profile.shadow = shadow(spec, &profile.scheduler_names)?;
    profile.unknown_fields = match spec.unknown_fields {
        api::UnknownFields::Warn => UnknownFields::Warn,
        api::UnknownFields::Hold => UnknownFields::Hold,
    };
    plugins::overlay(spec, &mut profile)?;
    args::overlay(spec, &mut profile)?;
    nodes(&spec.nodes, &mut profile)?;
    profile.namespaces = namespaces(&spec.namespaces)?;
    // The engine has no use for it: the API server routes, and the operator reports.
    route::routed_namespaces(spec)?;
    // Nor for this one before there is a spec to compare with.
    rollout::rollout(spec)?;
    profile.queue = queue(&spec.queue)?;
    profile.preemption = preemption::compile(&spec.preemption)?;
    extenders::compile(&spec.extenders, spec.allow_unsafe, &mut profile)?;
    Ok(profile)
}

fn scheduler_names(name: &str, listed: &[String]) -> Result<Vec<Str>, CompileError> {
    are_names(listed, "spec.schedulerNames")?;
    if !is_dns1123_subdomain(name) {
        let message = format!("{name:?} is not a DNS-1123 subdomain");
        return Err(CompileError::args("metadata.name", message, NAME_FIX));
    }
    Ok(if listed.is_empty() { vec![name.into()] } else { sorted(listed) })
}

/// What a scheduler name is made of.
const NAME_FIX: &str = "use lower-case letters, digits, - and . between them, at most 253, such as batch-binpack";

/// Refuses what is no scheduler name, in the list `field`.
fn are_names(listed: &[String], field: &str) -> Result<(), CompileError> {
    let Some((i, wrong)) = listed.iter().enumerate().find(|(_, name)| !is_dns1123_subdomain(name)) else {
        return Ok(());
    };
    let message = format!("{wrong:?} is not a DNS-1123 subdomain, as scheduler names must be");
    Err(CompileError::args(format!("{field}[{i}]"), message, NAME_FIX))
}

/// The names of the schedulers whose pods are compared, sorted; `served` are those that the profile asks to serve itself.
fn shadow(spec: &api::SchedulerProfileSpec, served: &[Str]) -> Result<Vec<Str>, CompileError> {
    const NAMES: &str = "spec.shadow.schedulerNames";
    let listed = match (&spec.shadow, spec.mode) {
        (None, api::Mode::Active | api::Mode::Paused) => return Ok(Vec::new()),
        (None, api::Mode::DryRun) => {
            let fix =
                "name the schedulers whose pods are to be compared, such as default-scheduler, or set another mode";
            return Err(CompileError::args(NAMES, "mode DryRun has nothing to compare with", fix));
        }
        (Some(_), api::Mode::Active | api::Mode::Paused) => {
            let fix = "set mode: DryRun, or remove shadow";
            return Err(CompileError::args("spec.shadow", "only mode DryRun compares with other schedulers", fix));
        }
        (Some(shadow), api::Mode::DryRun) => &shadow.scheduler_names,
    };
    if listed.is_empty() {
        let fix = "name the schedulers whose pods are to be compared, such as default-scheduler";
        return Err(CompileError::args(NAMES, "the list is empty", fix));
    }
    are_names(listed, NAMES)?;
    if let Some((i, name)) = listed.iter().enumerate().find(|(_, name)| served.iter().any(|own| **own == **name)) {
        let message =
            format!("{name:?} is a name that the profile serves itself: there is no other scheduler to compare with");
        let fix = "remove it, or list other names in spec.schedulerNames";
        return Err(CompileError::args(format!("{NAMES}[{i}]"), message, fix));
    }
    if spec.namespaces.route.is_some() {
        let fix = "remove route, or set another mode";
        let message = "a profile in mode DryRun places no pod, so that routed pods would wait";
        return Err(CompileError::args("spec.namespaces.route", message, fix));
    }
    Ok(sorted(listed))
}

fn nodes(nodes: &api::Nodes, profile: &mut CompiledProfile) -> Result<(), CompileError> {
    if let Some(selector) = &nodes.selector {
        let selector = selectors::label_selector(selector, "spec.nodes.selector")?;
        profile.node_selector = (!selector.requirements.is_empty()).then_some(selector);
    }
    let percentage = u8::try_from(nodes.percentage_to_score).ok().filter(|p| *p <= 100).ok_or_else(|| {
        let message = format!("{} is not a percentage", nodes.percentage_to_score);
        let fix = "use 1 to 100, or 0 to adapt to the number of nodes";
        CompileError::args("spec.nodes.percentageToScore", message, fix)
    })?;
    let min_feasible = number(nodes.min_feasible, 1..=100_000, "spec.nodes.minFeasible", "use 1 to 100,000")?;
    profile.sampling = Sampling { percentage, min_feasible };
    Ok(())
}

fn namespaces(namespaces: &api::Namespaces) -> Result<NamespaceAccess, CompileError> {
    let refuse = |message, fix| Err(CompileError::args("spec.namespaces.access", message, fix));
    let named = !(namespaces.names.is_empty() && namespaces.match_labels.is_empty());
    match (namespaces.access, named) {
        (api::NamespaceAccess::All, false) => return Ok(NamespaceAccess::All),
        (api::NamespaceAccess::All, true) => {
            return refuse("All does not read names and matchLabels", "remove them, or set access: Restricted");
        }
        (api::NamespaceAccess::Restricted, false) => {
            let fix = "give names or matchLabels, or set access: All";
            return refuse("Restricted without names or matchLabels lets no pod use the profile", fix);
        }
        (api::NamespaceAccess::Restricted, true) => {}
    }
    if let Some((i, name)) = namespaces.names.iter().enumerate().find(|(_, name)| !is_namespace_name(name)) {
        let message = format!("{name:?} is not a namespace's name");
        let fix = "use at most 63 lower-case letters, digits and -";
        return Err(CompileError::selector(format!("spec.namespaces.names[{i}]"), message, fix));
    }
    Ok(NamespaceAccess::Restricted {
        names: namespaces.names.iter().map(|name| name.as_str().into()).collect(),
        match_labels: selectors::labels(&namespaces.match_labels, "spec.namespaces.matchLabels")?,
    })
}

fn queue(queue: &api::Queue) -> Result<QueueTimes, CompileError> {
    const HOUR: Duration = Duration::from_hours(1);
    let times = QueueTimes {
        initial_backoff: queue.initial_backoff.get(),
        max_backoff: queue.max_backoff.get(),
        max_unschedulable: queue.max_unschedulable_duration.get(),
    };
    let refuse = |field: &str, value: api::Duration, message: &str, fix: &str| {
        Err(CompileError::args(format!("spec.queue.{field}"), format!("{value} {message}"), fix))
    };
    if times.initial_backoff.is_zero() {
        return refuse("initialBackoff", queue.initial_backoff, "is no wait", "use more than 0s, such as 1s");
    }
    if times.max_backoff < times.initial_backoff {
        let fix = "raise maxBackoff, or lower initialBackoff";
        return refuse("maxBackoff", queue.max_backoff, "is shorter than initialBackoff", fix);
    }
    if times.max_backoff > HOUR {
        return refuse("maxBackoff", queue.max_backoff, "is too long", "use at most 1h");
    }
    if !(Duration::from_secs(30)..=HOUR * 24).contains(&times.max_unschedulable) {
        let fix = "use 30s to 24h, such as 5m";
        return refuse("maxUnschedulableDuration", queue.max_unschedulable_duration, "is out of range", fix);
    }
    Ok(times)
}
