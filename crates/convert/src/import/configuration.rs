//! The root of a KubeSchedulerConfiguration: settings of the process, of all profiles, and the profiles.

use super::extenders::{Extenders, Spelling};
use super::loss::{Draft, Report};
use super::node::{Fields, ImportError, Node};
use super::sets::Plugins;
use super::{API_VERSION, Import, ImportedProfile, KIND, args, effect};
use berth_api as api;

/// Settings of the kube-scheduler process, which do not affect where pods go, and why they have no effect.
const PROCESS: [(&str, &str); 6] = [
    ("parallelism", "a profile has one worker thread"),
    ("leaderElection", "the operator elects a leader for all profiles"),
    ("clientConnection", "the operator has one connection for all profiles"),
    ("enableProfiling", "the operator serves no profiling data"),
    ("enableContentionProfiling", "the operator serves no profiling data"),
    ("delayCacheUntilActive", "the operator watches before it leads"),
];

/// The longest backoff that a profile can have, in seconds.
const MAX_BACKOFF: i64 = 3_600;

/// What all profiles of a configuration share.
struct Shared<'a> {
    /// The name that the only profile serves if it names none.
    scheduler_name: &'a str,
    percentage: i32,
    queue: api::Queue,
    extenders: Extenders,
}

/// Reads a document whose only profile serves `scheduler_name` where it names none.
pub(super) fn read(document: &Node<'_>, scheduler_name: &str) -> Result<Import, ImportError> {
    check_type(document)?;
    let own = ["percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds", "profiles", "extenders"];
    let known: Vec<&str> =
        ["apiVersion", "kind"].into_iter().chain(PROCESS.iter().map(|(name, _)| *name)).chain(own).collect();
    let fields = document.fields(&known)?;
    let mut report = Report::default();
    process(&fields, &mut report);
    check_process(&fields)?;
    let shared = Shared {
        scheduler_name,
        percentage: percentage(&fields)?.unwrap_or(0),
        queue: backoff(&fields, &mut report)?,
        extenders: Extenders::read(&fields.list("extenders")?, Spelling::Configuration, &mut report)?,
    };
    let profiles = profiles(&fields, &shared, &mut report)?;
    Ok(Import { profiles, losses: report.losses, manifests: report.manifests })
}

fn check_type(document: &Node<'_>) -> Result<(), ImportError> {
    let fields = document.any_fields()?;
    for (field, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let written = fields.need(field, &format!("write {wanted}"))?;
        if written.text()? != wanted {
            return Err(written.bad(format!("{:?} is not read", written.text()?), format!("write {wanted}")));
        }
    }
    Ok(())
}

/// Notes the settings of the process that are set.
pub(super) fn process(fields: &Fields<'_>, report: &mut Report) {
    for name in fields.names() {
        if let Some((_, why)) = PROCESS.iter().find(|(setting, _)| *setting == name) {
            report.note(name, format!("without effect: {why}"));
        }
    }
}

fn check_process(fields: &Fields<'_>) -> Result<(), ImportError> {
    if let Some(parallelism) = fields.get("parallelism")
        && parallelism.int()? <= 0
    {
        return Err(parallelism.bad("is out of range", "write 1 or more"));
    }
    if let Some(election) = fields.get("leaderElection") {
        let election = election.any_fields()?;
        let elects = election.get("leaderElect").map_or(Ok(true), |elect| elect.flag())?;
        if let Some(lock) = election.get("resourceLock").filter(|_| elects)
            && !matches!(lock.text()?, "" | "leases")
        {
            return Err(lock.bad(format!("{:?} is not known", lock.text()?), "write leases"));
        }
    }
    Ok(())
}

pub(super) fn percentage(fields: &Fields<'_>) -> Result<Option<i32>, ImportError> {
    let Some(node) = fields.get("percentageOfNodesToScore") else { return Ok(None) };
    let value = node.int()?;
    if !(0..=100).contains(&value) {
        return Err(node.bad(format!("{value} is not a percentage"), "write 0 to 100"));
    }
    Ok(Some(value))
}

pub(super) fn backoff(fields: &Fields<'_>, report: &mut Report) -> Result<api::Queue, ImportError> {
    let names = ["podInitialBackoffSeconds", "podMaxBackoffSeconds"];
    let (initial, max) = (fields.long_or(names[0], 1)?, fields.long_or(names[1], 10)?);
    if initial <= 0 {
        return Err(ImportError::new(names[0], format!("{initial} is out of range"), "write 1 or more"));
    }
    if max < initial {
        let message = format!("{max} is less than podInitialBackoffSeconds, {initial}");
        return Err(ImportError::new(names[1], message, "raise it, or lower podInitialBackoffSeconds"));
    }
    let mut bounded = |name: &str, value: i64| {
        if value > MAX_BACKOFF {
            report.changed(name, format!("{value} becomes {MAX_BACKOFF}, the longest that a profile can have"));
        }
        api::Duration::from_secs(value.min(MAX_BACKOFF).unsigned_abs())
    };
    Ok(api::Queue {
        initial_backoff: bounded(names[0], initial),
        max_backoff: bounded(names[1], max),
        ..api::Queue::default()
    })
}

fn profiles(
    fields: &Fields<'_>,
    shared: &Shared<'_>,
    report: &mut Report,
) -> Result<Vec<ImportedProfile>, ImportError> {
    let nothing = serde_json::Value::Object(serde_json::Map::new());
    let mut nodes = fields.list("profiles")?;
    if nodes.is_empty() {
        nodes.push(Node::root(&nothing));
    }
    let alone = nodes.len() == 1;
    let mut profiles: Vec<ImportedProfile> = Vec::new();
    let mut queue_sort = None;
    for node in &nodes {
        let fields = node.fields(&["schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"])?;
        let name = scheduler_name(&fields, alone.then_some(shared.scheduler_name), &profiles)?;
        let mut draft = Draft::new(name, Some(&fields.at("schedulerName")));
        draft.spec.queue = shared.queue.clone();
        draft.spec.nodes.percentage_to_score = percentage(&fields)?.unwrap_or(shared.percentage);
        draft.ignored_elsewhere = shared.extenders.take_over_ignored;
        let plugins = Plugins::read(fields.get("plugins").as_ref(), &mut draft.report)?;
        let path = fields.at("plugins");
        effect::apply(&plugins, &path, &mut draft)?;
        if queue_sort.get_or_insert_with(|| plugins.queue_sort.clone()) != &plugins.queue_sort {
            let message = "differs from that of the first profile";
            return Err(ImportError::new(format!("{path}.queueSort"), message, "write the same in every profile"));
        }
        args::read(fields.list("pluginConfig")?, &mut draft)?;
        shared.extenders.apply(&mut draft);
        let (profile, mut own) = draft.finish()?;
        report.losses.append(&mut own.losses);
        profiles.push(profile);
    }
    Ok(profiles)
}

/// The name that a profile serves; the only profile of a configuration may leave it out, and then serves `alone`.
fn scheduler_name<'a>(
    fields: &Fields<'a>,
    alone: Option<&'a str>,
    others: &[ImportedProfile],
) -> Result<&'a str, ImportError> {
    let fix = "write the name that pods give in spec.schedulerName, one for each profile";
    let name = match fields.get("schedulerName") {
        Some(name) => name.text()?,
        None => alone.unwrap_or_default(),
    };
    if name.is_empty() {
        return Err(ImportError::new(fields.at("schedulerName"), "is required and missing", fix));
    }
    if others.iter().any(|profile| profile.scheduler_name == name) {
        let message = format!("{name:?} is the name of another profile");
        return Err(ImportError::new(fields.at("schedulerName"), message, fix));
    }
    Ok(name)
}
