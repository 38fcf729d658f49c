//! From objects as written to the cluster that they describe.

use super::calls::Calls;
use super::configurations::{self, names_a_policy};
use super::documents::Object;
use super::error::Origin;
use super::{InputError, count};
use berth_api as api;
use berth_cluster::decode::{Decoder, Object as Decoded};
use berth_cluster::manifest::{ManifestError, from_manifest};
use berth_cluster::watch::Kind;
use berth_simulate::Cluster;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Objects by what becomes of them.
pub(super) struct Sorted {
    /// What makes up the cluster, in the order read.
    pub(super) cluster: Vec<(&'static Kind, Object)>,
    /// Profiles, and configurations that hold some.
    pub(super) profiles: Vec<Object>,
    /// ConfigMaps, where a configuration may name one.
    pub(super) config_maps: Vec<Object>,
}

/// Sorts objects by kind; those that do not matter are skipped and counted in a note.
pub(super) fn sort(objects: Vec<Object>, calls: &Calls, notes: &mut Vec<String>) -> Sorted {
    let mut sorted = Sorted { cluster: Vec::new(), profiles: Vec::new(), config_maps: Vec::new() };
    let named = objects.iter().any(names_a_policy);
    let mut skipped: BTreeMap<String, usize> = BTreeMap::new();
    for object in objects {
        match Kind::find(&object.api_version, &object.kind) {
            Some(kind) => sorted.cluster.push((kind, object)),
            None if is_profile(&object) => sorted.profiles.push(object),
            None if named && object.is_config_map() => sorted.config_maps.push(object),
            None if calls.wants(&object) => {}
            None => *skipped.entry(object.kind).or_default() += 1,
        }
    }
    notes.extend(note_skipped(&skipped, "of kinds that do not matter here"));
    configurations::drop_named(&mut sorted.profiles);
    sorted
}

/// The note about skipped objects, counted by kind; `which` says what they have in common.
pub(super) fn note_skipped(skipped: &BTreeMap<String, usize>, which: &str) -> Option<String> {
    let kinds: Vec<String> = skipped.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    let total = count(skipped.values().sum(), "object");
    (!kinds.is_empty()).then(|| format!("{total} {which} skipped: {}", kinds.join(", ")))
}

/// Whether `object` is a profile, or a configuration that holds some; of which version, [`super::profiles`] checks.
pub(super) fn is_profile(object: &Object) -> bool {
    object.kind == "SchedulerProfile" && object.api_version.split('/').next() == Some(api::GROUP)
        || object.form().is_some()
}

/// Decodes what makes up the cluster. Pods that have ended take nothing and are left out.
pub(super) fn decode(
    objects: Vec<(&'static Kind, Object)>,
    mut decoder: Decoder,
    calls: &mut Calls,
    notes: &mut Vec<String>,
) -> Result<Cluster, InputError> {
    let mut cluster = Cluster::default();
    let mut names = Names::default();
    for (kind, mut object) in objects {
        let label = names.claim(kind, &mut object)?;
        let Object { origin, api_version, kind: kind_name, mut value, .. } = object;
        let bad = |problem: String| InputError::Bad { origin: origin.clone(), object: label.clone(), problem };
        if let Some(map) = value.as_object_mut() {
            // Members of a typed list name neither.
            map.insert("apiVersion".to_owned(), api_version.into());
            map.insert("kind".to_owned(), kind_name.into());
        }
        check_shape(kind, &value).map_err(bad)?;
        if matches!(kind.name, "Node" | "Pod") {
            calls.note_object(&value);
        }
        if kind.name == "Node" {
            default_allocatable(&mut value).map_err(bad)?;
        }
        for decoded in from_manifest(&mut decoder, &value) {
            match decoded.map_err(|e| bad(problem(e)))? {
                Decoded::Pod(pod) if pod.finished => {}
                object => cluster.add(object),
            }
        }
    }
    note_lost_pods(&cluster, notes);
    Ok(cluster)
}

/// The field and what is wrong with it; the object is named already.
fn problem(error: ManifestError) -> String {
    match error {
        ManifestError::Decode(e) if e.field.is_empty() => e.message,
        ManifestError::Decode(e) => format!("{}: {}", e.field, e.message),
        ManifestError::Kind { .. } => error.to_string(),
    }
}

/// The names taken so far.
#[derive(Default)]
struct Names(BTreeMap<(&'static str, String), Origin>);

impl Names {
    /// Fills in what only an API server sets (namespace, uid), checks that the name is new, and returns `pod ns/name`.
    fn claim(&mut self, kind: &Kind, object: &mut Object) -> Result<String, InputError> {
        let Object { origin, kind: kind_name, value, .. } = object;
        let bad = |problem: String| InputError::Bad {
            origin: origin.clone(),
            object: kind_name.to_lowercase(),
            problem: format!("metadata.{problem}"),
        };
        let nameless = || InputError::NoName { origin: origin.clone(), kind: kind_name.clone() };
        let metadata = value.get_mut("metadata").and_then(Value::as_object_mut).ok_or_else(nameless)?;
        let name = text_or(metadata, "name", "").map_err(bad)?;
        if name.is_empty() {
            return Err(nameless());
        }
        let full_name = if kind.namespaced {
            format!("{}/{name}", text_or(metadata, "namespace", "default").map_err(bad)?)
        } else {
            name
        };
        let label = format!("{} {full_name}", kind_name.to_lowercase());
        text_or(metadata, "uid", &format!("simulated-{}", label.replace([' ', '/'], "-"))).map_err(bad)?;
        match self.0.insert((kind.name, full_name), origin.clone()) {
            None => Ok(label),
            Some(first) => Err(InputError::Duplicate { object: label, first, second: origin.clone() }),
        }
    }
}

/// The text at `key`, put there if it is missing or empty.
fn text_or(map: &mut Map<String, Value>, key: &str, default: &str) -> Result<String, String> {
    match map.get(key) {
        Some(Value::String(text)) if !text.is_empty() => return Ok(text.clone()),
        None | Some(Value::Null | Value::String(_)) => {}
        Some(other) => return Err(format!("{key}: {other} is not text: put it in quotes")),
    }
    map.insert(key.to_owned(), Value::from(default));
    Ok(default.to_owned())
}

/// What a schema would refuse before anything of the object is looked at.
fn check_shape(kind: &Kind, object: &Value) -> Result<(), String> {
    for part in ["spec", "status"] {
        if !object[part].is_object() && !object[part].is_null() {
            return Err(format!("{part} is not a mapping: write its fields below it"));
        }
    }
    let containers = || object["spec"]["containers"].as_array().is_some_and(|c| !c.is_empty());
    if kind.name == "Pod" && !containers() {
        return Err("spec.containers is missing: write at least one container, such as [{name: app}]".to_owned());
    }
    Ok(())
}

/// A node without allocatable offers its capacity, as the API server would fill it in. One that says nothing of its capacity
/// is a mistake in a manifest: it would silently take no pod.
fn default_allocatable(node: &mut Value) -> Result<(), String> {
    let given = |field: &str| node["status"][field].as_object().filter(|m| !m.is_empty()).cloned();
    match (given("allocatable"), given("capacity")) {
        (Some(_), _) => Ok(()),
        (None, Some(capacity)) => {
            node["status"]["allocatable"] = Value::Object(capacity);
            Ok(())
        }
        (None, None) => Err("status.allocatable is missing: without it the node would take no pod: write it, such as \
             {cpu: \"4\", memory: 16Gi, pods: \"110\"}, or copy it from kubectl get node -o yaml"
            .to_owned()),
    }
}

fn note_lost_pods(cluster: &Cluster, notes: &mut Vec<String>) {
    let known: BTreeSet<&str> = cluster.nodes.iter().map(|n| &*n.name).collect();
    let lost = cluster.pods.iter().filter(|p| p.node_name.as_deref().is_some_and(|n| !known.contains(n))).count();
    if lost > 0 {
        notes.push(format!(
            "{} on nodes that are not among the inputs: they use no capacity",
            count(lost, "running pod")
        ));
    }
}
